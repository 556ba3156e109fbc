// The callback of a sign-in: a listener on this machine, and whoever opens the page.
import { createServer } from 'node:http'

/**
 * Listens on a free port. `authorize` opens the page and waits until the browser comes back.
 *
 * @param {(url: URL) => void} openPage
 */
export async function openLoopback(openPage) {
  /** Who waits, by the state of the page that was opened. */
  const waiting = new Map()
  const server = createServer((request, response) => {
    // Anything may knock here: what is no callback of a page that is open is not let in.
    const path = request.method === 'GET' && request.url.startsWith('/callback?') ? request.url : undefined
    const url = path && new URL(`${origin}${path}`)
    const arrived = url && waiting.get(url.searchParams.get('state'))
    if (!arrived) return response.writeHead(404).end()
    response.writeHead(200, { 'content-type': 'text/plain' }).end('You can close this window.')
    arrived(url)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  const origin = `http://127.0.0.1:${server.address().port}`

  /** Gives the complete callback URL; what is in it is checked by the agent, not here. */
  function authorize(url, { signal }) {
    const state = url.searchParams.get('state')
    return new Promise((resolve, reject) => {
      waiting.set(state, resolve)
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      openPage(url)
    }).finally(() => waiting.delete(state))
  }

  return { redirectUrl: `${origin}/callback`, authorize, close: () => server.close() }
}
