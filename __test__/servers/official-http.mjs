// The official server package over Streamable HTTP. Logs each message with its headers.
import { Readable } from 'node:stream'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { listen } from './http.mjs'
import { record } from './log.mjs'
import { change, official } from './official.mjs'

const handler = createMcpHandler(official, { legacy: 'reject' })
change.tell = () => handler.notify.toolsChanged()

listen(async (request, response, body) => {
  record({ message: body.length > 0 ? JSON.parse(body) : null, verb: request.method, headers: request.headers })
  const gone = new AbortController()
  response.on('close', () => gone.abort())
  const answer = await handler.fetch(
    new Request(`http://${request.headers.host}${request.url}`, {
      method: request.method,
      headers: Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
      body: request.method === 'POST' ? body : undefined,
      signal: gone.signal,
    }),
  )
  response.writeHead(answer.status, Object.fromEntries(answer.headers))
  if (!answer.body) return response.end()
  Readable.fromWeb(answer.body)
    .on('error', () => response.destroy())
    .pipe(response)
})
