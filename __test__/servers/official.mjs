// The tools of the official test servers, shared by stdio and HTTP.
import { fromJsonSchema, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { record } from './log.mjs'

const text = (value) => ({ content: [{ type: 'text', text: value }] })

/** Settles when the call is cancelled: the only end this tool has. */
const untilCancelled = (signal) =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', resolve, { once: true })
  })

export function official() {
  const server = new McpServer({ name: 'official', version: '1.0.0' }, { capabilities: { tools: {} } })
  const add = (name, description, inputSchema, handler, rest = {}) =>
    server.registerTool(name, { description, inputSchema, ...rest }, handler)

  add('add', 'Adds two numbers', z.object({ a: z.number(), b: z.number() }), ({ a, b }) => text(String(a + b)))
  add(
    'echo',
    'Gives its input back',
    fromJsonSchema({
      type: 'object',
      properties: { value: { $ref: '#/$defs/word' } },
      required: ['value'],
      additionalProperties: false,
      $defs: { word: { type: 'string', maxLength: 200000 } },
    }),
    ({ value }) => text(value),
  )
  add(
    'slow',
    'Answers only when it is cancelled',
    z.object({ tag: z.string().optional() }),
    async ({ tag }, context) => {
      record({ running: 'slow', tag })
      await untilCancelled(context.mcpReq.signal)
      record({ cancelled: 'slow', tag })
      return text('too late')
    },
  )
  add('fail', 'Answers with an error', z.object({}), () => ({ ...text('this tool always fails'), isError: true }))
  add(
    'structured',
    'Answers with structured content',
    z.object({ n: z.number().int() }),
    ({ n }) => ({
      ...text(`${n} items`),
      structuredContent: { items: Array.from({ length: n }, (_, id) => ({ id, name: `item ${id}` })) },
    }),
    { outputSchema: z.object({ items: z.array(z.object({ id: z.number(), name: z.string() })) }) },
  )
  add('progress', 'Reports progress n times', z.object({ n: z.number().int() }), async ({ n }, context) => {
    const progressToken = context.mcpReq._meta?.progressToken
    for (let progress = 1; progress <= n; progress++) {
      await context.mcpReq.notify({
        method: 'notifications/progress',
        params: { progressToken, progress, total: n, message: `step ${progress}` },
      })
    }
    return text('done')
  })
  add('die', 'Ends the server', z.object({}), () => process.exit(3))
  return server
}
