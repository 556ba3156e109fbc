// The same objects as index.js, by name.
import sdk from './index.js'

export const {
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
  MCP_PROTOCOL_VERSION,
  AgentError,
  ProviderError,
  ToolError,
  CodecError,
  MaxTurnsError,
  AbortError,
  StorageError,
  McpError,
  ConfigError,
} = sdk
