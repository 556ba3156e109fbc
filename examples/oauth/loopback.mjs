// The callback of a sign-in: a listener on this machine, and whoever opens the page.
import { createServer } from 'node:http'

/**
 * Listens on a free port. `authorize` opens the page and waits until the browser comes back.
 *
 * @param {(url: URL) => void} openPage
 */
export async function openLoopback(openPage) {
  let arrived
  const server = createServer((request, response) => {
    // Anything on this machine can ask here: only what may be a callback counts, and nothing may throw.
    const isCallback = request.method === 'GET' && request.url.startsWith('/callback?')
    if (!isCallback || !arrived) return response.writeHead(404).end()
    response.writeHead(200, { 'content-type': 'text/plain' }).end('You can close this window.')
    arrived(new URL(redirectUrl.replace(/\/callback$/, request.url)))
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  server.unref()
  const redirectUrl = `http://127.0.0.1:${server.address().port}/callback`

  /** Gives the complete callback URL; what is in it is checked by the agent, not here. */
  function authorize(url, { signal }) {
    return new Promise((resolve, reject) => {
      arrived = resolve
      signal.addEventListener('abort', () => reject(signal.reason), { once: true })
      openPage(url)
    }).finally(() => {
      arrived = undefined
    })
  }

  return { redirectUrl, authorize, close: () => server.close() }
}
