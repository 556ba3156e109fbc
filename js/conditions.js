// The conditions of permission rules: globs, and tests of one field of a call's input.

/** @import { ConditionSpec } from './border.d.ts' */

const { isDeepStrictEqual } = require('node:util')
const { ConfigError, messageOf } = require('./errors.js')
const { isRecord, kindOf, requireJson } = require('./json.js')

/** @typedef {(value: unknown) => boolean} Test */

const KINDS = ['glob', 'regex', 'equals', 'in', 'startsWith', 'contains', 'not']

/**
 * `*` is any text, `?` one character, `[…]` a class, `{a,b}` a choice, `\` takes the next as it is.
 *
 * @param {string} glob
 * @param {string} at
 * @returns {(text: string) => boolean}
 */
function compileGlob(glob, at) {
  let source = ''
  let depth = 0
  for (let i = 0; i < glob.length; i++) {
    const c = glob[i]
    if (c === '*') {
      while (glob[i + 1] === '*') i++
      source += '.*'
    } else if (c === '?') source += '.'
    else if (c === '{') {
      depth++
      source += '(?:'
    } else if (c === '}' && depth > 0) {
      depth--
      source += ')'
    } else if (c === ',' && depth > 0) source += '|'
    else if (c === '[') {
      const negated = glob[i + 1] === '!' || glob[i + 1] === '^'
      const from = i + (negated ? 2 : 1)
      // A "]" that comes first is a member of the class.
      const end = glob.indexOf(']', from + 1)
      if (end < 0) throw new ConfigError(`${at} is not a valid glob: a "[" is not closed`)
      const members = glob.slice(from, end).replace(/[\\\]^[]/g, '\\$&')
      source += `[${negated ? '^' : ''}${members}]`
      i = end
    } else source += escaped(c === '\\' && i + 1 < glob.length ? glob[++i] : c)
  }
  if (depth > 0) throw new ConfigError(`${at} is not a valid glob: a "{" is not closed`)
  const pattern = compiled(`^(?:${source})$`, 's', at)
  return (text) => pattern.test(text)
}

/** @param {string} c */
const escaped = (c) => c.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&')

/**
 * @param {string} source
 * @param {string} flags
 * @param {string} at
 */
function compiled(source, flags, at) {
  try {
    return new RegExp(source, `${flags}u`)
  } catch {
    try {
      return new RegExp(source, flags)
    } catch (error) {
      throw new ConfigError(`${at} is not a valid pattern: ${messageOf(error)}`, { cause: error })
    }
  }
}

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
  return value === undefined ? undefined : { value }
}

/**
 * @param {unknown} condition
 * @param {string} at
 * @returns {{ spec: ConditionSpec, test: Test }}
 */
function readCondition(condition, at) {
  const keys = isRecord(condition) ? Object.keys(condition) : []
  if (!isRecord(condition) || keys.length !== 1 || !KINDS.includes(keys[0])) {
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
      requireJson(wanted, where)
      return { spec: { in: [...wanted] }, test: (value) => wanted.some((one) => isDeepStrictEqual(one, value)) }
    }
    case 'contains':
      requireJson(wanted, where)
      return { spec: { contains: wanted }, test: (value) => holds(value, wanted) }
    default:
      requireJson(wanted, where)
      return { spec: { equals: wanted }, test: (value) => isDeepStrictEqual(value, wanted) }
  }
}

/**
 * @param {unknown} value
 * @param {unknown} wanted
 */
function holds(value, wanted) {
  if (typeof value === 'string') return typeof wanted === 'string' && value.includes(wanted)
  return Array.isArray(value) && value.some((item) => isDeepStrictEqual(item, wanted))
}

/**
 * A RegExp gives its source, with its flags written in front as the native core reads them.
 *
 * @param {unknown} wanted
 * @param {string} at
 * @returns {{ spec: ConditionSpec, test: Test }}
 */
function readRegex(wanted, at) {
  const given =
    wanted instanceof RegExp
      ? { flags: wanted.flags.replace(/[^ims]/g, ''), source: wanted.source }
      : fromText(requireString(wanted, at))
  const pattern = compiled(given.source, given.flags, at)
  const regex = given.flags === '' ? given.source : `(?${given.flags})${given.source}`
  return { spec: { regex }, test: (value) => typeof value === 'string' && pattern.test(value) }
}

/** @param {string} text */
function fromText(text) {
  const flagged = /^\(\?([ims]+)\)(.*)$/s.exec(text)
  return flagged ? { flags: flagged[1], source: flagged[2] } : { flags: '', source: text }
}

/**
 * @param {unknown} value
 * @param {string} at
 */
function requireString(value, at) {
  if (typeof value !== 'string') throw new ConfigError(`${at} must be a string, not ${kindOf(value)}`)
  return value
}

module.exports = { compileGlob, compileCondition }
