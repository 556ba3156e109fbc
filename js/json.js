// Checks of values that come from the host: plain objects, and what JSON would drop or change.

const { AgentError, ConfigError } = require('./errors.js')

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
 * A plain object, of this realm or another; not a Map, a Date or any other instance of a class, whose content JSON drops.
 *
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
function isPlain(value) {
  if (!isRecord(value)) return false
  const proto = Object.getPrototypeOf(value)
  return proto === null || Object.getPrototypeOf(proto) === null
}

/**
 * @param {unknown} value
 * @param {string} what
 * @returns {Record<string, unknown>}
 */
function requirePlain(value, what) {
  if (!isRecord(value)) throw new ConfigError(`${what} must be an object, not ${kindOf(value)}`)
  if (!isPlain(value)) throw new ConfigError(`${what} must be a plain object, not an instance of a class`)
  return value
}

/**
 * Runs a reader of the host's values. Whatever they throw themselves, from a getter or a proxy, becomes a `ConfigError`.
 *
 * @template T
 * @param {string} what
 * @param {() => T} read
 * @returns {T}
 */
function reading(what, read) {
  try {
    return read()
  } catch (error) {
    if (error instanceof AgentError) {
      // A stack holds ten calls; the host's own is the one to see.
      Error.captureStackTrace(error, reading)
      throw error
    }
    throw new ConfigError(`${what} cannot be read; its cause says why`, { cause: error })
  }
}

const DEEPEST = 512

/**
 * A copy of `value` that JSON carries unchanged, read once; the error names the place, never the value.
 *
 * @param {unknown} value
 * @param {string} at
 * @param {{ absent?: 'refused' | 'left out' }} [options] what becomes of a member that is undefined
 * @param {object[]} [above]
 * @returns {unknown}
 */
function copyJson(value, at, options = {}, above = []) {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value
  if (typeof value === 'number' && Number.isFinite(value)) return value
  if (typeof value !== 'object') throw new ConfigError(`${at} cannot be ${kindOf(value)}`)
  if (above.includes(value)) throw new ConfigError(`${at} contains itself`)
  if (above.length === DEEPEST) throw new ConfigError(`${at} nests deeper than ${DEEPEST}`)
  above.push(value)
  /** @type {unknown} */
  let copy
  if (Array.isArray(value)) {
    copy = Array.from(value, (item, i) => copyJson(item, `${at}[${i}]`, options, above))
  } else {
    if (!isPlain(value)) throw new ConfigError(`${at} must be a plain object`)
    // Without a prototype, "__proto__" is a key like any other.
    /** @type {Record<string, unknown>} */
    const members = Object.create(null)
    for (const key of Object.keys(value)) {
      const member = value[key]
      if (member === undefined && options.absent === 'left out') continue
      members[key] = copyJson(member, `${at}.${key}`, options, above)
    }
    copy = members
  }
  above.pop()
  return copy
}

/**
 * Freezes a JSON value to its depth; what is frozen already is left alone.
 *
 * @template T
 * @param {T} value
 * @returns {T}
 */
function freezeJson(value) {
  /** @type {unknown[]} */
  const todo = [value]
  while (todo.length > 0) {
    const next = todo.pop()
    if (typeof next !== 'object' || next === null || Object.isFrozen(next)) continue
    Object.freeze(next)
    for (const member of Object.values(next)) todo.push(member)
  }
  return value
}

/**
 * Text as the native core reads it: half a character becomes a replacement character.
 *
 * @param {string} text
 */
const wellFormed = (text) => text.replace(/\p{Surrogate}/gu, '\ufffd')

/**
 * Refuses text that holds half a character: the native core would read two such texts as the same.
 *
 * @param {string} text
 * @param {string} what
 */
function requireWellFormed(text, what) {
  if (/\p{Surrogate}/u.test(text)) throw new ConfigError(`${what} holds half a surrogate pair, which is no character`)
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

module.exports = {
  closest,
  copyJson,
  encodeJson,
  freezeJson,
  isPlain,
  isRecord,
  isThenable,
  kindOf,
  reading,
  requireKnownKeys,
  requirePlain,
  requireWellFormed,
  wellFormed,
}
