// The default redactor: takes secrets out of the strings of a JSON value.
//
// Each rule costs time in proportion to the text. The native core has the same rules; one table of cases tests both.

const MARK = '[redacted]'

const BEARER = /\b(bearer\s+)[A-Za-z0-9._~+/=-]+/gi
const JWT = /\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*/g
const SK_KEY = /\bsk-[A-Za-z0-9_-]{6,}/g
const ASSIGNMENT = /(?:key|token|secret|password)[\w-]{0,32}\\{0,3}["']?\s*[:=]\s*/gi
const PLAIN_END = /[\s,;&"'}]/g
const LOCAL_PART = /[\p{L}\p{N}._%+-]/u
const DOMAIN = /[\p{L}\p{N}-]+(?:\.[\p{L}\p{N}-]+)+/uy

/** @param {string} text */
function redactText(text) {
  return redactEmails(redactAssignments(text.replace(BEARER, `$1${MARK}`).replace(JWT, MARK).replace(SK_KEY, MARK)))
}

/** @param {string} text */
function redactAssignments(text) {
  let out = ''
  let from = 0
  ASSIGNMENT.lastIndex = 0
  while (ASSIGNMENT.test(text)) {
    const start = ASSIGNMENT.lastIndex
    const end = valueEnd(text, start)
    out += text.slice(from, start) + (end > start ? MARK : '')
    from = end
    ASSIGNMENT.lastIndex = end
  }
  return out + text.slice(from)
}

/**
 * Where the value of an assignment ends. A quoted one ends at a quote that is escaped no deeper than the first; one
 * that does not end goes to the end of the text.
 *
 * @param {string} text
 * @param {number} start
 */
function valueEnd(text, start) {
  let at = start
  while (text[at] === '\\') at++
  const escapes = at - start
  const quote = text[at]
  if (quote !== '"' && quote !== "'") {
    PLAIN_END.lastIndex = start
    return PLAIN_END.test(text) ? PLAIN_END.lastIndex - 1 : text.length
  }
  let run = 0
  for (at++; at < text.length; at++) {
    if (text[at] === '\\') run++
    // A pair of backslashes is one of the value's own, at every depth of quoting.
    else if (text[at] === quote && (run < escapes || run % (2 * (escapes + 1)) === escapes)) return at + 1
    else run = 0
  }
  return text.length
}

/** @param {string} text */
function redactEmails(text) {
  let out = ''
  let from = 0
  for (let at = text.indexOf('@'); at >= 0; at = text.indexOf('@', at + 1)) {
    let start = at
    while (start > from && LOCAL_PART.test(before(text, start))) start -= before(text, start).length
    DOMAIN.lastIndex = at + 1
    if (start === at || !DOMAIN.test(text)) continue
    out += text.slice(from, start) + MARK
    from = DOMAIN.lastIndex
    at = from - 1
  }
  return out + text.slice(from)
}

/**
 * The character that ends before `at`.
 *
 * @param {string} text
 * @param {number} at
 */
function before(text, at) {
  const isPair = at > 1 && /[\udc00-\udfff]/.test(text[at - 1]) && /[\ud800-\udbff]/.test(text[at - 2])
  return text.slice(at - (isPair ? 2 : 1), at)
}

/**
 * A copy of `input` whose strings hold no bearer token, `sk-` key, JWT, e-mail address or
 * `key|token|secret|password` assignment.
 *
 * @param {unknown} input
 * @returns {unknown}
 */
function defaultRedactor(input) {
  const above = new Set()
  /** @type {unknown[]} */
  const root = []
  // A stack of its own: a value may nest deeper than calls may.
  /** @type {{ value: unknown, into: object, key: PropertyKey, leaves?: boolean }[]} */
  const todo = [{ value: input, into: root, key: 0 }]
  for (let next = todo.pop(); next; next = todo.pop()) {
    const { value, into, key, leaves } = next
    if (leaves) above.delete(value)
    else if (typeof value === 'string') put(into, key, redactText(value))
    else if (typeof value !== 'object' || value === null) put(into, key, value)
    else if (above.has(value)) put(into, key, '[circular]')
    else {
      above.add(value)
      const copy = Array.isArray(value) ? new Array(value.length) : {}
      put(into, key, copy)
      todo.push({ value, into, key, leaves: true })
      const members = Object.entries(value)
      // Last in, first out; and the members of the copy come in the order of the original.
      for (const [name] of members) put(copy, name, undefined)
      for (const [name, member] of members) todo.push({ value: member, into: copy, key: name })
    }
  }
  return root[0]
}

/**
 * Sets a member of its own, whatever it is called.
 *
 * @param {object} into
 * @param {PropertyKey} key
 * @param {unknown} value
 */
function put(into, key, value) {
  Object.defineProperty(into, key, { value, writable: true, enumerable: true, configurable: true })
}

module.exports = { defaultRedactor }
