// The callback of a sign-in: anything that does not fit is refused before a code is exchanged.
import { describe, expect, test } from 'vitest'
import { browse, MemoryProvider, startOAuth } from '../servers/oauth-host.mjs'
import { until } from '../servers/start.mjs'
import { connectTo, failure, useBench } from './oauth-bench.mjs'

const bench = useBench()
const SENTENCE = /the sign-in was not completed: its callback is missing or not valid, and no code was exchanged/

/** Changes the callback of a person who agreed. */
const changed = (change) => async (url) => {
  const callback = new URL(await browse(url))
  return change(callback) ?? callback.href
}
const edit = (act) => changed((url) => void act(url.searchParams, url))

describe('refused before any exchange', () => {
  for (const [what, authorize] of [
    ['another state', edit((query) => query.set('state', 'another'))],
    ['no state', edit((query) => query.delete('state'))],
    ['two states', edit((query) => query.append('state', query.get('state')))],
    ['no code', edit((query) => query.delete('code'))],
    ['two codes', edit((query) => query.append('code', 'other'))],
    ['another issuer', edit((query) => query.set('iss', 'https://other.example'))],
    ['no issuer although announced', edit((query) => query.delete('iss'))],
    ['two issuers', edit((query) => query.append('iss', query.get('iss')))],
    ['an error besides a code', edit((query) => query.set('error', 'access_denied'))],
    [
      'another path',
      edit((_, url) => {
        url.pathname = '/other'
      }),
    ],
    [
      'another port',
      edit((_, url) => {
        url.port = '8766'
      }),
    ],
    [
      'another host',
      edit((_, url) => {
        url.hostname = 'localhost'
      }),
    ],
    [
      'another scheme',
      edit((_, url) => {
        url.protocol = 'https:'
      }),
    ],
    [
      'a fragment',
      edit((_, url) => {
        url.hash = 'x'
      }),
    ],
    [
      'user info',
      edit((_, url) => {
        url.username = 'u'
      }),
    ],
    ['a bare code', changed((url) => url.searchParams.get('code'))],
    ['only the query', changed((url) => url.search)],
    ['a number', changed(() => 7)],
    ['nothing', async () => undefined],
    ['an object', async () => ({ code: 'c', state: 's' })],
    ['an empty text', async () => ''],
  ]) {
    test(what, async () => {
      const server = await startOAuth(bench.current)
      const { provider, register } = connectTo(bench, server, { authorize })
      const error = await failure(register())

      expect(error).toMatchObject({ name: 'McpError', code: 'OAUTH_CALLBACK' })
      expect(error.message).toMatch(SENTENCE)
      expect(server.tokenRequests()).toEqual([])
      expect(provider.calls('saveTokens')).toEqual([])
      expect(provider.calls('invalidateCredentials')).toEqual([])
    })
  }

  test('the person denies', async () => {
    const server = await startOAuth(bench.current, { signIn: 'denied' })
    const { register } = connectTo(bench, server)
    const error = await failure(register())

    expect(error).toMatchObject({ code: 'OAUTH_CALLBACK' })
    expect(error.message).not.toContain('REMOTE-TEXT')
    expect(server.tokenRequests()).toEqual([])
  })

  test('authorize fails: its error is the cause', async () => {
    const server = await startOAuth(bench.current)
    const closed = new Error('the window was closed')
    const { register } = connectTo(bench, server, {
      authorize: () => {
        throw closed
      },
    })
    const error = await failure(register())

    expect(error).toMatchObject({ code: 'OAUTH_CALLBACK' })
    expect(error.cause).toBe(closed)
  })
})

test('an issuer that was not announced may be absent, and must fit when it is there', async () => {
  const server = await startOAuth(bench.current, { issAnnounced: false, iss: false })
  const { agent, register } = connectTo(bench, server)
  await register()
  expect(agent.mcp.list()[0].status).toBe('ready')

  await server.control({ set: { iss: 'https://other.example' } })
  const error = await failure(connectTo(bench, server).register())
  expect(error).toMatchObject({ code: 'OAUTH_CALLBACK' })
})

test('a state serves once: the right callback after a wrong one starts nothing', async () => {
  const server = await startOAuth(bench.current)
  const callbacks = []
  const authorize = async (url) => {
    callbacks.push(await browse(url))
    return callbacks.length === 1 ? callbacks[0].replace(/state=[^&]+/, 'state=wrong') : callbacks[0]
  }
  const { register } = connectTo(bench, server, { authorize })
  await failure(register())
  const error = await failure(register())

  expect(error).toMatchObject({ code: 'OAUTH_CALLBACK' })
  expect(callbacks).toHaveLength(2)
  expect(server.tokenRequests()).toEqual([])
})

test('the registered callback keeps its query and a URL object is as good as a text', async () => {
  const server = await startOAuth(bench.current)
  const provider = new MemoryProvider({ redirectUrl: 'http://localhost:8765/callback?tenant=7' })
  const lost = connectTo(bench, server, { provider, authorize: edit((query) => query.delete('tenant')) })
  expect(await failure(lost.register())).toMatchObject({ code: 'OAUTH_CALLBACK' })

  const authorize = async (url) => new URL(await browse(url))
  await connectTo(bench, server, { provider, authorize }).register()
  expect(server.tokenRequests()[0].redirect_uri).toBe('http://localhost:8765/callback?tenant=7')
})

describe('too late', () => {
  test('a timeout aborts the signal, frees the provider, and a late callback exchanges nothing', async () => {
    const server = await startOAuth(bench.current)
    let late
    const aborted = new Promise((resolve) => {
      late = { resolve }
    })
    const authorize = (url, { signal }) =>
      new Promise((resolve) => {
        signal.addEventListener('abort', async () => {
          resolve(await browse(url))
          late.resolve(signal.reason)
        })
      })
    const { provider, register } = connectTo(bench, server, { authorize, timeoutMs: 1500 })
    const error = await failure(register())

    expect(error).toMatchObject({ code: 'MCP_TIMEOUT' })
    expect(error.message).toMatch(/OAuth timed out after 1500 ms while waiting for authorize/)
    expect(await aborted).toMatchObject({ name: 'AbortError' })
    const calls = provider.diary.length
    await connectTo(bench, server, { provider }).register()
    expect(server.tokenRequests()).toHaveLength(1)
    expect(calls).toBeGreaterThan(0)
  })

  test('closing the agent aborts the signal and nothing more is asked of the provider', async () => {
    const server = await startOAuth(bench.current)
    let opened
    const authorize = (url, { signal }) =>
      new Promise((resolve) => {
        opened = signal
        signal.addEventListener('abort', async () => resolve(await browse(url)))
      })
    const { agent, provider, register } = connectTo(bench, server, { authorize })
    const registering = failure(register())
    await until(() => opened)
    await agent.close()
    const calls = provider.diary.length
    await registering
    await until(() => opened.aborted)
    await until(() => server.at('a', '/authorize').length === 1)

    expect(provider.diary).toHaveLength(calls)
    expect(server.tokenRequests()).toEqual([])
    await connectTo(bench, server, { provider }).register()
  })
})
