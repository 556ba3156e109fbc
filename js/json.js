// Checks of values that come from the host: plain objects, and what JSON would drop or change.

const { ConfigError } = require('./errors.js')

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
function isRecord(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * @param {unknown} value
 * @returns {value is PromiseLike<unknown>}
 */
function isThenable(value) {
  return (
    value !== null &&
    (typeof value === 'object' || typeof value === 'function') &&
    typeof (/** @type {{ then?: unknown }} */ (value).then) === 'function'
  )
}

/** @param {unknown} value */
function kindOf(value) {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value)
  if (value === undefined) return 'undefined'
  return /^[aeiou]/.test(typeof value) ? `an ${typeof value}` : `a ${typeof value}`
}

/**
 * Throws unless `value` survives JSON unchanged; the error names the place, never the value.
 *
 * @param {unknown} value
 * @param {string} at
 * @param {object[]} [above]
 */
function requireJson(value, at, above = []) {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return
  if (typeof value === 'number' && Number.isFinite(value)) return
  if (typeof value !== 'object') throw new ConfigError(`${at} cannot be ${kindOf(value)}`)
  if (above.includes(value)) throw new ConfigError(`${at} contains itself`)
  const within = [...above, value]
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) requireJson(value[i], `${at}[${i}]`, within)
    return
  }
  const proto = Object.getPrototypeOf(value)
  // A class instance (Map, Date, URL) is not JSON; a plain object of another realm is.
  if (proto !== null && Object.getPrototypeOf(proto) !== null) {
    throw new ConfigError(`${at} must be a plain object`)
  }
  for (const [key, member] of Object.entries(value)) requireJson(member, `${at}.${key}`, within)
}

/**
 * Throws on a key that is not in `known`, and names the intended one when it is close.
 *
 * @param {object} value
 * @param {readonly string[]} known
 * @param {string} what
 */
function requireKnownKeys(value, known, what) {
  for (const key of Object.keys(value)) {
    if (known.includes(key)) continue
    const meant = closest(key, known)
    const hint = meant === undefined ? '' : `; did you mean "${meant}"?`
    throw new ConfigError(`unknown ${what} "${key}"${hint}`)
  }
}

/**
 * @param {string} word
 * @param {readonly string[]} words
 */
function closest(word, words) {
  const limit = word.length > 4 ? 2 : 1
  let best
  let least = limit + 1
  for (const candidate of words) {
    if (Math.abs(candidate.length - word.length) >= least) continue
    const far = distance(word.toLowerCase(), candidate.toLowerCase())
    if (far < least) {
      least = far
      best = candidate
    }
  }
  return best
}

/**
 * Edits between two words; two neighbours swapped count as one.
 *
 * @param {string} a
 * @param {string} b
 */
function distance(a, b) {
  /** @type {number[]} */
  let before = []
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1]
      next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (same ? 0 : 1))
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        next[j] = Math.min(next[j], before[j - 2] + 1)
      }
    }
    before = row
    row = next
  }
  return row[b.length]
}

/**
 * JSON text in which every lone surrogate is a replacement character: the native core reads Unicode only.
 *
 * @param {unknown} value
 * @param {(key: string, member: unknown) => unknown} [replacer]
 * @returns {string}
 */
function encodeJson(value, replacer) {
  const json = JSON.stringify(value, replacer)
  // Well-formed pairs cross as they are; JSON.stringify escapes only what stands alone.
  return json?.includes('\\ud') ? json.replace(/(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, '$1\ufffd') : json
}

module.exports = { encodeJson, isRecord, isThenable, kindOf, requireJson, requireKnownKeys, closest }
