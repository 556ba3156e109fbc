// What the misbehaving peers have in common: well-formed answers, written without any MCP package.
//
// Options: `log`, and per method a mode: `discover`, `list`, `call`. `text` is what the mode `verbatim` sends,
// with `ID` replaced by the request's id.
import { options } from './log.mjs'

export const modeOf = (method) =>
  ({ 'server/discover': options.discover, 'tools/list': options.list, 'tools/call': options.call })[method] ?? 'good'

const meta = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' }
const results = {
  'server/discover': () => ({ ...meta, supportedVersions: ['2026-07-28'], capabilities: { tools: {} } }),
  'tools/list': () => ({
    ...meta,
    tools: [
      {
        name: 'echo',
        inputSchema: { type: 'object', properties: { value: { type: 'string' } } },
        ...options.tool,
      },
    ],
  }),
  'tools/call': ({ params }) => ({
    resultType: 'complete',
    content: [{ type: 'text', text: String(params.arguments?.value ?? '') }],
    ...options.result,
  }),
}

/** The well-formed answer to a request. */
export function answer(request) {
  const result = results[request.method]
  return result
    ? { jsonrpc: '2.0', id: request.id, result: result(request) }
    : { jsonrpc: '2.0', id: request.id, error: { code: -32601, message: 'Method not found' } }
}

/** Answers that are wrong as messages, whatever carries them: the mode's name, and the text that is sent. */
export const wrongAnswers = {
  verbatim: ({ id }) => options.text.replace('ID', JSON.stringify(id)),
  'not-found': ({ id }) => JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } }),
  'internal-error': ({ id }) =>
    JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32603, message: 'SECRET remote text' } }),
  changed: ({ id }) => JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32020, message: 'SECRET remote text' } }),
  nan: ({ id }) => `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":NaN}`,
  'wrong-id': (request) => JSON.stringify({ ...answer(request), id: 987654321 }),
  'string-id': (request) => JSON.stringify({ ...answer(request), id: String(request.id) }),
  'no-id': (request) => JSON.stringify({ ...answer(request), id: undefined }),
  array: (request) => JSON.stringify([answer(request)]),
  'input-required': ({ id }) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id,
      result: { resultType: 'input_required', inputRequests: { ask: { method: 'elicitation/create', params: {} } } },
    }),
  'unknown-type': ({ id }) => JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'someday', content: [] } }),
  'no-type': (request) => {
    const message = answer(request)
    message.result.resultType = undefined
    return JSON.stringify(message)
  },
  'null-result': ({ id }) => JSON.stringify({ jsonrpc: '2.0', id, result: null }),
  'other-version': ({ id }) =>
    JSON.stringify({
      jsonrpc: '2.0',
      id,
      result: { resultType: 'complete', supportedVersions: ['2025-06-18'], capabilities: {} },
    }),
  '5-MiB': (request) => {
    const message = answer(request)
    message.result.filler = 'x'.repeat(5 << 20)
    return JSON.stringify(message)
  },
}
