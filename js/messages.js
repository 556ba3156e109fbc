// Messages: small makers and tests of blocks, and the reading of a run's input.

/** @import { ContentBlock, Message, TextBlock, ToolCallBlock, ToolResultBlock } from '../index.js' */

const { ConfigError } = require('./errors.js')
const { copyJson, kindOf, requirePlain } = require('./json.js')

const ROLES = ['system', 'user', 'assistant', 'tool']

/** What each block must have, by its type. */
/** @type {Record<string, string[]>} */
const STRINGS = {
  text: ['text'],
  tool_call: ['id', 'name'],
  tool_result: ['id', 'content'],
  native: ['provider'],
  compaction: ['content'],
}

/**
 * @param {string} text
 * @returns {TextBlock}
 */
const textBlock = (text) => ({ type: 'text', text })

/**
 * @param {string} id
 * @param {string} content
 * @param {boolean} [isError]
 * @returns {ToolResultBlock}
 */
function toolResultBlock(id, content, isError) {
  return isError === undefined ? { type: 'tool_result', id, content } : { type: 'tool_result', id, content, isError }
}

/**
 * @param {ContentBlock} block
 * @returns {block is TextBlock}
 */
const isTextBlock = (block) => block?.type === 'text'

/**
 * @param {ContentBlock} block
 * @returns {block is ToolCallBlock}
 */
const isToolCallBlock = (block) => block?.type === 'tool_call'

/**
 * A copy of a run's input messages, checked; what crosses the border is what was checked.
 *
 * @param {unknown} input
 * @returns {Message[]}
 */
function readMessages(input) {
  if (!Array.isArray(input)) {
    throw new ConfigError(`the input must be a string or an array of messages, not ${kindOf(input)}`)
  }
  return Array.from(input, (message, at) => readMessage(message, `messages[${at}]`))
}

/**
 * @param {unknown} given
 * @param {string} at
 * @returns {Message}
 */
function readMessage(given, at) {
  const plain = requirePlain(given, at)
  const message = /** @type {Record<string, unknown>} */ (copyJson(plain, at, { absent: 'left out' }))
  if (!ROLES.includes(/** @type {string} */ (message.role))) {
    throw new ConfigError(`${at}.role must be one of ${ROLES.join(', ')}`)
  }
  const { content } = message
  if (Array.isArray(content)) {
    for (const [i, block] of content.entries()) requireBlock(block, `${at}.content[${i}]`)
  } else if (typeof content !== 'string') {
    throw new ConfigError(`${at}.content must be a string or an array of blocks, not ${kindOf(content)}`)
  }
  return /** @type {Message} */ (/** @type {unknown} */ (message))
}

/**
 * @param {unknown} value
 * @param {string} at
 */
function requireBlock(value, at) {
  const block = requirePlain(value, at)
  const known = typeof block.type === 'string' && Object.hasOwn(STRINGS, block.type)
  if (!known) throw new ConfigError(`${at}.type must be one of ${Object.keys(STRINGS).join(', ')}`)
  for (const key of STRINGS[/** @type {string} */ (block.type)]) {
    if (typeof block[key] !== 'string')
      throw new ConfigError(`${at}.${key} must be a string, not ${kindOf(block[key])}`)
  }
  if (block.isError !== undefined && typeof block.isError !== 'boolean') {
    throw new ConfigError(`${at}.isError must be a boolean, not ${kindOf(block.isError)}`)
  }
}

module.exports = { readMessages, textBlock, toolResultBlock, isTextBlock, isToolCallBlock }
