// A book store's till as an MCP server over Streamable HTTP.
//
// Usage: node shop-http.mjs [log file]. Listens on a free port of 127.0.0.1 and prints `PORT=<n>`.
// Each tool call that arrives is appended to the log as one JSON line, and so is one that is cancelled. Ends when its stdin closes.
import { appendFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
import { z } from 'zod'

const logFile = process.argv[2]
const note = (entry) => logFile && appendFileSync(logFile, `${JSON.stringify(entry)}\n`)
const log = (tool, input) => note({ tool, input })

const prices = { 'B-104': 1850, 'B-211': 1495, 'B-318': 2400, 'B-402': 3100 }
const answer = (text, structuredContent) => ({ content: [{ type: 'text', text }], structuredContent })

/** Reports progress, when the caller wants it. */
function reporter({ mcpReq }) {
  const progressToken = mcpReq._meta?.progressToken
  return async (step) => {
    if (progressToken === undefined) return
    await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...step } })
  }
}

function shop() {
  const server = new McpServer({ name: 'shop', version: '1.0.0' }, { capabilities: { tools: {} } })
  server.registerTool(
    'quote',
    { description: 'Quotes the price of a book, in cents', inputSchema: z.object({ id: z.string() }) },
    async ({ id }, context) => {
      log('quote', { id })
      if (!(id in prices)) return { ...answer(`No price for ${id}`), isError: true }
      const report = reporter(context)
      const steps = ['asking the publisher', 'adding postage', 'rounding']
      for (const [index, message] of steps.entries()) {
        await delay(60)
        await report({ progress: index + 1, total: steps.length, message })
      }
      return answer(`${id} costs ${prices[id]} cents`, { id, quote: `Q-${id.slice(2)}`, cents: prices[id] })
    },
  )
  server.registerTool(
    'watch_price',
    { description: 'Answers when the price of a book changes', inputSchema: z.object({ id: z.string() }) },
    async ({ id }, context) => {
      log('watch_price', { id })
      const report = reporter(context)
      const { signal } = context.mcpReq
      // Prices here never change: only a cancel ends the wait.
      for (let look = 1; !signal.aborted; look++) {
        await report({ progress: look, message: `still ${prices[id]} cents` })
        await delay(120, undefined, { signal }).catch(() => {})
      }
      note({ cancelled: 'watch_price' })
      return answer('nobody waits any more', {})
    },
  )
  return server
}

const handler = createMcpHandler(shop, { legacy: 'reject' })

const listener = createServer(async (incoming, outgoing) => {
  const gone = new AbortController()
  outgoing.on('close', () => gone.abort())
  const body = []
  for await (const chunk of incoming) body.push(chunk)
  const response = await handler.fetch(
    new Request(`http://${incoming.headers.host}${incoming.url}`, {
      method: incoming.method,
      headers: Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]),
      body: incoming.method === 'POST' ? Buffer.concat(body) : undefined,
      signal: gone.signal,
    }),
  )
  outgoing.writeHead(response.status, Object.fromEntries(response.headers))
  if (response.body)
    Readable.fromWeb(response.body)
      .on('error', () => outgoing.destroy())
      .pipe(outgoing)
  else outgoing.end()
})

listener.listen(0, '127.0.0.1', () => console.log(`PORT=${listener.address().port}`))
process.stdin.resume().on('end', () => process.exit(0))
