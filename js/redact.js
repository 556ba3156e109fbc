// The default redactor: takes secrets out of the strings of a JSON value.

const MARK = '[redacted]'

// Every repetition is bounded, so a long string costs linear time.
const BEARER = /\b(bearer\s{1,8})[A-Za-z0-9._~+/=-]+/gi
const JWT = /\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*/g
const SK_KEY = /\bsk-[A-Za-z0-9_-]{6,}/g
const EMAIL = /[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}/g
const ASSIGNMENT =
  /((?:key|token|secret|password)[\w-]{0,32}\\{0,3}["']?\s{0,8}[:=]\s{0,8})(?:\\{0,3}"(?:[^"\\]|\\[^"])*\\{0,3}"|'[^']*'|[^\s,;&"'}]+)/gi

/** @param {string} text */
function redactText(text) {
  return text
    .replace(BEARER, `$1${MARK}`)
    .replace(JWT, MARK)
    .replace(SK_KEY, MARK)
    .replace(EMAIL, MARK)
    .replace(ASSIGNMENT, `$1${MARK}`)
}

/**
 * A copy of `input` whose strings hold no bearer token, `sk-` key, JWT, e-mail address or
 * `key|token|secret|password` assignment.
 *
 * @param {unknown} input
 * @returns {unknown}
 */
function defaultRedactor(input) {
  return redact(input, new Set())
}

/**
 * @param {unknown} value
 * @param {Set<object>} above
 * @returns {unknown}
 */
function redact(value, above) {
  if (typeof value === 'string') return redactText(value)
  if (typeof value !== 'object' || value === null) return value
  if (above.has(value)) return '[circular]'
  above.add(value)
  const copy = Array.isArray(value)
    ? value.map((item) => redact(item, above))
    : Object.fromEntries(Object.entries(value).map(([key, item]) => [key, redact(item, above)]))
  above.delete(value)
  return copy
}

module.exports = { defaultRedactor }
