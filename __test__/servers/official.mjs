// The tools of the official test servers, shared by stdio and HTTP.
import { existsSync, readFileSync } from 'node:fs'
import { fromJsonSchema, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'
import { options, record } from './log.mjs'
import { longText } from './texts.mjs'

const text = (value) => ({ content: [{ type: 'text', text: value }] })

/** Settles when the call is cancelled: the only end this tool has. */
const untilCancelled = (signal) =>
  new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', resolve, { once: true })
  })

/** Whether `grow` was called: HTTP makes a server per request. */
let hasGrown = false

/** Says that the tools have changed, where a server cannot say so itself. */
export const change = { tell: () => {} }

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
  add('hold', 'Answers once the file `release` beside the log is there', z.object({}), async () => {
    record({ running: 'hold' })
    while (!existsSync(`${options.log}.release`)) await new Promise((resolve) => setTimeout(resolve, 10))
    return text('held')
  })
  const addGrown = () => add('grown', 'Was not there before', z.object({}), () => text('grown'))
  if (hasGrown) addGrown()
  add('grow', 'Adds a tool to the server', z.object({}), () => {
    if (!hasGrown) addGrown()
    hasGrown = true
    change.tell()
    return text('there is one more')
  })
  add('probe', 'Says how much of the file `probe` it can read', z.object({}), () =>
    text(`${readFileSync(options.probe).length} bytes`),
  )
  add('long', 'Answers with a long text', z.object({ bytes: z.number().int() }), ({ bytes }) => text(longText(bytes)))
  add('gallery', 'Answers with a text, an image, a sound and an embedded file', z.object({}), () => ({
    content: [
      { type: 'text', text: 'four works' },
      { type: 'image', data: 'aW1hZ2Uh'.repeat(50), mimeType: 'image/png' },
      { type: 'audio', data: 'c291bmQh'.repeat(50), mimeType: 'audio/wav' },
      { type: 'resource', resource: { uri: 'file:///plan.pdf', mimeType: 'application/pdf', blob: 'cGxhbg==' } },
    ],
  }))
  add('long_failure', 'Answers with a long error', z.object({}), () => ({ ...text(longText(20_000)), isError: true }))
  add('die', 'Ends the server', z.object({}), () => process.exit(3))
  return server
}
