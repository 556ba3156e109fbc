// Serves HTTP on a free port, prints it for the test, and ends when the test goes away.
import { createServer } from 'node:http'

export function listen(handler) {
  const server = createServer(async (request, response) => {
    const chunks = []
    for await (const chunk of request) chunks.push(chunk)
    await handler(request, response, Buffer.concat(chunks))
  })
  server.listen(0, '127.0.0.1', () => console.log(`PORT=${server.address().port}`))
  process.stdin.resume().on('end', () => process.exit(0))
  return server
}
