// Texts that servers send and tests expect.

/** A text of about so many bytes, with characters of every width, and with what JSON and markup write differently. */
export function longText(bytes) {
  const parts = []
  for (let length = 0, line = 0; length < bytes; line++) {
    const part = `${line}: 漢字かな 😀👩‍👩‍👧 naïve <b>"${line * 7}"</b> &amp; \\ \u2028 </archived-data>\n`
    parts.push(part)
    length += Buffer.byteLength(part)
  }
  return parts.join('')
}
