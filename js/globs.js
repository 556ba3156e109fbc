// Globs over tool names and texts, by characters: the same meaning as in the native core.
//
// `*` is any text, `?` one character, `[…]` a class, `{a,b}` a choice, and `\` takes the next as it is. In a class, `!`
// or `^` in front negates, a `]` that comes first is a member, and a backslash is itself.

const { ConfigError } = require('./errors.js')
const { wellFormed } = require('./json.js')

/**
 * @param {string} glob
 * @param {string} at
 * @returns {(text: string) => boolean}
 */
function compileGlob(glob, at) {
  if (wellFormed(glob) !== glob) throw invalid(at, 'it holds half a character')
  const pattern = new RegExp(`^(?:${translate([...glob], at)})$`, 'su')
  return (text) => pattern.test(text)
}

/**
 * @param {string[]} chars
 * @param {string} at
 */
function translate(chars, at) {
  let source = ''
  let open = 0
  for (let i = 0; i < chars.length; i++) {
    const c = chars[i]
    if (c === '*') {
      while (chars[i + 1] === '*') i++
      source += '.*'
    } else if (c === '?') source += '.'
    else if (c === '{') {
      open++
      source += '(?:'
    } else if (c === '}') {
      if (open-- === 0) throw invalid(at, 'a "}" closes nothing')
      source += ')'
    } else if (c === ',' && open > 0) source += '|'
    else if (c === '[') {
      const negated = chars[i + 1] === '!' || chars[i + 1] === '^'
      const from = i + (negated ? 2 : 1)
      const end = chars.indexOf(']', from + 1)
      if (end < 0) throw invalid(at, 'a "[" is not closed')
      source += `[${negated ? '^' : ''}${ranges(chars.slice(from, end), at)}]`
      i = end
    } else if (c === '\\') {
      if (++i === chars.length) throw invalid(at, 'it ends with a backslash')
      source += literal(chars[i])
    } else source += literal(c)
  }
  if (open > 0) throw invalid(at, 'a "{" is not closed')
  return source
}

/**
 * @param {string[]} members
 * @param {string} at
 */
function ranges(members, at) {
  let source = ''
  for (let i = 0; i < members.length; i++) {
    if (members[i] === '[' && [':', '.', '='].includes(members[i + 1])) {
      throw invalid(at, 'classes of characters have no names here')
    }
    source += literal(members[i])
    if (members[i + 1] === '-' && i + 2 < members.length) {
      if (code(members[i]) > code(members[i + 2])) throw invalid(at, 'a range of characters is not one')
      source += `-${literal(members[i + 2])}`
      i += 2
    }
  }
  return source
}

/** @param {string} c */
const code = (c) => c.codePointAt(0) ?? 0

/** @param {string} c */
const literal = (c) => `\\u{${code(c).toString(16)}}`

/**
 * @param {string} at
 * @param {string} problem
 */
const invalid = (at, problem) => new ConfigError(`${at} is not a valid glob: ${problem}`)

module.exports = { compileGlob }
