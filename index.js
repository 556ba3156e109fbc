// The export list of the package. The addon loads with the first agent, not here.

const { createLiteAgent } = require('./js/agent.js')
const errors = require('./js/errors.js')
const { textBlock, toolResultBlock, isTextBlock, isToolCallBlock } = require('./js/messages.js')
const { fakeProvider } = require('./js/model.js')
const { policy, strictPolicy, composePolicies } = require('./js/permissions.js')
const { defaultRedactor } = require('./js/redact.js')
const { tool } = require('./js/tools.js')

module.exports = {
  createLiteAgent,
  fakeProvider,
  tool,
  textBlock,
  toolResultBlock,
  isTextBlock,
  isToolCallBlock,
  policy,
  strictPolicy,
  composePolicies,
  defaultRedactor,
  MCP_PROTOCOL_VERSION: '2026-07-28',
  AgentError: errors.AgentError,
  ProviderError: errors.ProviderError,
  ToolError: errors.ToolError,
  CodecError: errors.CodecError,
  MaxTurnsError: errors.MaxTurnsError,
  AbortError: errors.AbortError,
  StorageError: errors.StorageError,
  McpError: errors.McpError,
  ConfigError: errors.ConfigError,
}
