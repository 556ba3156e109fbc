// Small makers and tests of message blocks.

/** @import { ContentBlock, TextBlock, ToolCallBlock, ToolResultBlock } from '../index.js' */

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

module.exports = { textBlock, toolResultBlock, isTextBlock, isToolCallBlock }
