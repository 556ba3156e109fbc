// The export list, written out: a change of it is a change of the contract.
import * as sdk from '@lite-agent/sdk'
import { expect, test } from 'vitest'

test('the package exports exactly this', () => {
  expect(
    Object.keys(sdk)
      .filter((name) => name !== 'default')
      .sort(),
  ).toEqual([
    'AbortError',
    'AgentError',
    'CodecError',
    'ConfigError',
    'MCP_PROTOCOL_VERSION',
    'MaxTurnsError',
    'McpError',
    'ProviderError',
    'StorageError',
    'ToolError',
    'composePolicies',
    'createLiteAgent',
    'defaultRedactor',
    'fakeProvider',
    'isTextBlock',
    'isToolCallBlock',
    'policy',
    'strictPolicy',
    'textBlock',
    'tool',
    'toolResultBlock',
  ])
  expect(sdk.MCP_PROTOCOL_VERSION).toBe('2026-07-28')
})

test('the error classes are a family', () => {
  for (const [name, ErrorClass] of Object.entries(sdk).filter(([key]) => key.endsWith('Error'))) {
    const error = new ErrorClass('why')
    expect(error, name).toBeInstanceOf(sdk.AgentError)
    expect(error, name).toBeInstanceOf(Error)
    expect([error.name, error.message]).toEqual([name, 'why'])
  }
})
