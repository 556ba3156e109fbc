// The stable error codes, written out, with the class that carries each. The Rust enum and docs/errors.md follow.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

const codes = {
  CONFIG_INVALID: 'ConfigError',
  MCP_NAME: 'McpError',
  MCP_TRANSPORT: 'McpError',
  MCP_INSECURE_URL: 'McpError',
  MCP_RESERVED: 'McpError',
  MCP_CONFLICT: 'McpError',
  MCP_EXISTS: 'McpError',
  MCP_UNKNOWN: 'McpError',
  MCP_BUSY: 'McpError',
  MCP_CLOSED: 'McpError',
  MCP_IN_HOOK: 'McpError',
  MCP_DENIED: 'McpError',
  MCP_UNREACHABLE: 'McpError',
  MCP_TIMEOUT: 'McpError',
  MCP_TLS: 'McpError',
  MCP_REDIRECT: 'McpError',
  MCP_EXITED: 'McpError',
  MCP_PROTOCOL: 'McpError',
  MCP_DISCOVERY: 'McpError',
  MCP_SCHEMA: 'McpError',
  MCP_LIMIT: 'McpError',
  MCP_STALE: 'McpError',
  OAUTH_BOUND: 'McpError',
  OAUTH_OWNED: 'McpError',
  OAUTH_TARGET: 'McpError',
  OAUTH_CALLBACK: 'McpError',
  OAUTH_LOGIN_REQUIRED: 'McpError',
  OAUTH_FAILED: 'McpError',
  OAUTH_SCOPE: 'McpError',
  PROVIDER: 'ProviderError',
  TOOL: 'ToolError',
  CODEC: 'CodecError',
  MAX_TURNS: 'MaxTurnsError',
  STORAGE: 'StorageError',
  ABORTED: 'AbortError',
  CLOSED: 'AgentError',
  INTERNAL: 'AgentError',
}
const read = (path) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

test('the Rust enum holds exactly these codes', () => {
  const found = [...read('src/base/code.rs').matchAll(/= "([A-Z_]+)" in "(\w+)";/g)].map(([, code, name]) => [
    code,
    name,
  ])
  expect(Object.fromEntries(found)).toEqual(codes)
})

test('docs/errors.md has one line for each, with its class', () => {
  const found = [...read('docs/errors.md').matchAll(/^\| `([A-Z_]+)` \| `(\w+)` \|/gm)].map(([, code, name]) => [
    code,
    name,
  ])
  expect(found).toEqual(Object.entries(codes))
})
