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
    const url = new URL(request.url, redirectUrl)
    if (url.pathname !== '/callback') return response.writeHead(404).end()
    response.writeHead(200, { 'content-type': 'text/plain' }).end('You can close this window.')
    arrived?.(url)
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
