// What the misbehaving peers have in common: well-formed answers, written without any MCP package.
//
// Options: `log`, and per method a mode: `discover`, `list`, `call`, `listen`. `text` is what the mode `verbatim`
// sends, with `ID` replaced by the request's id. `tool` adds to the listed tool, `later` to the one listed from the
// second time on. `steps` are the progress parameters that a call tells before its answer, or their
// number; with `rendezvous` a discovery waits for so many servers of the test; the mode `flood` tells
// progress without end, with a message of `size` characters. With `listen` the server says that it tells changes of its tools.
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { options } from './log.mjs'

export const modeOf = (method) =>
  ({
    'server/discover': options.discover,
    'tools/list': options.list,
    'tools/call': options.call,
    'subscriptions/listen': options.listen,
  })[method] ?? 'good'

const meta = { resultType: 'complete', ttlMs: 0, cacheScope: 'private' }
let listings = 0
const results = {
  'server/discover': () => ({
    ...meta,
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: options.listen ? { listChanged: true } : {} },
  }),
  'tools/list': () => ({
    ...meta,
    tools: [
      {
        name: 'echo',
        inputSchema: { type: 'object', properties: { value: { type: 'string' } } },
        ...options.tool,
        ...(listings++ > 0 && options.later),
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

const progress = (request, params) =>
  `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${JSON.stringify(request.params._meta.progressToken)},${params}}}`

/** The progress that a call tells: each of `options.steps`, or of so many, is the inside of its parameters, as text. */
export function steps(request) {
  if (request.method !== 'tools/call' || !options.steps) return []
  const params = Array.isArray(options.steps)
    ? options.steps
    : Array.from({ length: options.steps }, (_, at) => `"progress":${at + 1},"total":${options.steps}`)
  return params.map((inside) => progress(request, inside))
}

/** Answers a discovery only when as many servers of one test as `options.rendezvous` are there. */
export async function meet(request) {
  if (request.method !== 'server/discover' || !options.rendezvous) return
  const folder = `${dirname(options.log)}/rendezvous`
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, String(process.pid)), '')
  while (readdirSync(folder).length < options.rendezvous) await new Promise((resolve) => setTimeout(resolve, 10))
}

/** Writes progress until the stream is gone. `frame` makes a message of a text. */
export function flood(stream, request, frame) {
  const text = frame(progress(request, `"progress":1,"message":"${'x'.repeat(options.size ?? 0)}"`))
  const more = () => {
    while (!stream.destroyed && stream.write(text));
    if (!stream.destroyed) stream.once('drain', more)
  }
  more()
}

/** What a subscription hears in each mode: messages, and how it goes on. */
export function hears({ id }) {
  const notice = (method, params = {}, subscriptionId = id) => ({
    jsonrpc: '2.0',
    method: `notifications/${method}`,
    params: { ...params, _meta: { 'io.modelcontextprotocol/subscriptionId': subscriptionId } },
  })
  const acknowledged = notice('subscriptions/acknowledged', { notifications: { toolsListChanged: true } })
  const changed = notice('tools/list_changed')
  const modes = {
    good: [acknowledged],
    change: [acknowledged, changed],
    early: [changed, acknowledged],
    other: [acknowledged, notice('tools/list_changed', {}, 987654321), notice('prompts/list_changed')],
    flood: [acknowledged, ...Array.from({ length: 10_000 }, () => changed)],
    less: [notice('subscriptions/acknowledged', { notifications: {} })],
    never: [],
    end: [acknowledged, { jsonrpc: '2.0', id, result: { resultType: 'complete' } }],
    drop: [acknowledged],
    huge: [acknowledged],
    refuse: [{ jsonrpc: '2.0', id, error: { code: -32601, message: 'SECRET remote text' } }],
  }
  return { messages: modes[options.listen] ?? modes.good, after: options.listen }
}
