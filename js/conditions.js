// The conditions of permission rules: tests of one field of a call's input.
//
// Each is data for the native core and a test of its own; both give the same answer.

/** @import { ConditionSpec } from './border.d.ts' */

const { isRegExp } = require('node:util/types')
const { ConfigError, messageOf } = require('./errors.js')
const { compileGlob } = require('./globs.js')
const { copyJson, isPlain, kindOf, wellFormed } = require('./json.js')

/** @typedef {(value: unknown) => boolean} Test */

const KINDS = ['glob', 'regex', 'equals', 'in', 'startsWith', 'contains', 'not']

/**
 * A condition as data for the native core, and as a test of a call's input. A field that is
 * missing matches nothing, not even `not`.
 *
 * @param {string} path
 * @param {unknown} condition
 * @param {string} at
 * @returns {{ spec: ConditionSpec, matches: (input: unknown) => boolean }}
 */
function compileCondition(path, condition, at) {
  const { spec, test } = readCondition(condition, at)
  const steps = path.split('.')
  if (steps.includes('')) throw new ConfigError(`${at}: the path into the input has an empty part`)
  return {
    spec,
    matches: (input) => {
      const found = lookUp(input, steps)
      return found !== undefined && test(found.value)
    },
  }
}

/**
 * @param {unknown} input
 * @param {string[]} steps
 * @returns {{ value: unknown } | undefined}
 */
function lookUp(input, steps) {
  let value = input
  for (const step of steps) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    if (Array.isArray(value) && !/^\d+$/.test(step)) return undefined
    value = /** @type {Record<string, unknown>} */ (value)[step]
  }
  if (value === undefined) return undefined
  return { value: typeof value === 'string' ? wellFormed(value) : value }
}

/**
 * @param {unknown} condition
 * @param {string} at
 * @returns {{ spec: ConditionSpec, test: Test }}
 */
function readCondition(condition, at) {
  const keys = isPlain(condition) ? Object.keys(condition) : []
  if (!isPlain(condition) || keys.length !== 1 || !KINDS.includes(keys[0])) {
    throw new ConfigError(`${at} must be an object with exactly one of ${KINDS.join(', ')}`)
  }
  const [kind] = keys
  const wanted = condition[kind]
  const where = `${at}.${kind}`
  switch (kind) {
    case 'glob': {
      const glob = requireString(wanted, where)
      const matches = compileGlob(glob, where)
      return { spec: { glob }, test: (value) => typeof value === 'string' && matches(value) }
    }
    case 'regex':
      return readRegex(wanted, where)
    case 'startsWith': {
      const startsWith = requireString(wanted, where)
      return {
        spec: { startsWith },
        test: (value) => typeof value === 'string' && value.startsWith(startsWith),
      }
    }
    case 'not': {
      const inner = readCondition(wanted, where)
      return { spec: { not: inner.spec }, test: (value) => !inner.test(value) }
    }
    case 'in': {
      if (!Array.isArray(wanted)) throw new ConfigError(`${where} must be an array, not ${kindOf(wanted)}`)
      const operand = /** @type {unknown[]} */ (readOperand(wanted, where))
      return { spec: { in: operand }, test: (value) => operand.some((one) => isSame(one, value)) }
    }
    case 'contains': {
      const contains = readOperand(wanted, where)
      return { spec: { contains }, test: (value) => holds(value, contains) }
    }
    default: {
      const equals = readOperand(wanted, where)
      return { spec: { equals }, test: (value) => isSame(value, equals) }
    }
  }
}

/**
 * A copy, so that the rule stays what it was when it was checked.
 *
 * @param {unknown} wanted
 * @param {string} at
 */
function readOperand(wanted, at) {
  const copy = copyJson(wanted, at)
  if (/\\ud[89a-f]/.test(JSON.stringify(copy).replaceAll('\\\\', ''))) {
    throw new ConfigError(`${at} holds half a character`)
  }
  return copy
}

/**
 * @param {unknown} value
 * @param {unknown} wanted
 */
function holds(value, wanted) {
  if (typeof value === 'string') return typeof wanted === 'string' && value.includes(wanted)
  return Array.isArray(value) && value.some((item) => isSame(item, wanted))
}

/**
 * Whether two JSON values are the same; the order of members does not count, nor the sign of zero.
 *
 * @param {unknown} a
 * @param {unknown} b
 * @returns {boolean}
 */
function isSame(a, b) {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b
  if (Array.isArray(a) || Array.isArray(b)) {
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => isSame(item, b[i]))
  }
  const [mine, others] = [Object.entries(a), new Map(Object.entries(b))]
  return mine.length === others.size && mine.every(([key, item]) => others.has(key) && isSame(item, others.get(key)))
}

/**
 * A pattern is read with the `u` flag: by characters, as the native core reads it.
 *
 * @param {unknown} wanted
 * @param {string} at
 * @returns {{ spec: ConditionSpec, test: Test }}
 */
function readRegex(wanted, at) {
  const given = isRegExp(wanted) ? fromRegExp(wanted, at) : fromText(requireString(wanted, at))
  const pattern = compile(given.source, given.flags, at)
  const regex = given.flags === '' ? pattern.source : `(?${given.flags})${pattern.source}`
  return { spec: { regex }, test: (value) => typeof value === 'string' && pattern.test(value) }
}

/**
 * @param {RegExp} regex
 * @param {string} at
 */
function fromRegExp({ source, flags }, at) {
  if (/[vy]/.test(flags)) throw new ConfigError(`${at} has the v or the y flag, which is not supported`)
  // With the u flag, these name a character or a property; without it, they are letters.
  if (!flags.includes('u') && /^(?:[^\\]|\\[^upP])*\\(?:u\{|[pP]\{)/s.test(source)) {
    throw new ConfigError(`${at} has a \\u{…} or \\p{…}, which needs the u flag`)
  }
  return { source: requireString(source, at), flags: flags.replace(/[^ims]/g, '') }
}

/** @param {string} text */
function fromText(text) {
  const flagged = /^\(\?([ims]+)\)(.*)$/s.exec(text)
  return flagged ? { flags: flagged[1], source: flagged[2] } : { flags: '', source: text }
}

/**
 * @param {string} source
 * @param {string} flags
 * @param {string} at
 */
function compile(source, flags, at) {
  try {
    return new RegExp(source, `${flags}u`)
  } catch (error) {
    try {
      return new RegExp(withoutShortcuts(source), `${flags}u`)
    } catch {
      throw new ConfigError(`${at} is not a valid pattern: ${messageOf(error)}`, { cause: error })
    }
  }
}

/**
 * A pattern written for no flag, as one for the `u` flag: there, a brace or a bracket that is just itself needs a
 * backslash, and other punctuation takes none.
 *
 * @param {string} source
 */
function withoutShortcuts(source) {
  let inClass = false
  return source.replace(/\\[\s\S]|\{\d+(?:,\d*)?\}|[[\]{}]/g, (token) => {
    if (token[0] === '\\') return /[-!"#%&',:;<=>@_`~ ]/.test(token[1]) ? hex(token[1]) : token
    if (inClass) {
      inClass = token !== ']'
      return token
    }
    inClass = token === '['
    return token.length > 1 || inClass ? token : `\\${token}`
  })
}

/** @param {string} c */
const hex = (c) => `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`

/**
 * @param {unknown} value
 * @param {string} at
 */
function requireString(value, at) {
  if (typeof value !== 'string') throw new ConfigError(`${at} must be a string, not ${kindOf(value)}`)
  if (wellFormed(value) !== value) throw new ConfigError(`${at} holds half a character`)
  return value
}

module.exports = { compileCondition }
