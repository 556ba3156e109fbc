// Using and refreshing tokens: what is sent, saved, kept and removed when the authorization server misbehaves.
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { FileProvider } from '../../examples/oauth/file-provider.mjs'
import { browse, MemoryProvider, startOAuth } from '../servers/oauth-host.mjs'
import { callsTurn, collect, resultsOf, textTurn, until } from '../servers/start.mjs'
import { connectTo, failure, useBench } from './oauth-bench.mjs'

const bench = useBench()
const call = ['mcp__docs__echo', { value: 'hi' }]
const oneCall = () => [callsTurn(call), textTurn('done')]

/** Connects, then lets one call meet a refused token. */
async function refreshing(switches, options = {}) {
  const server = await startOAuth(bench.current, options.server)
  const parts = connectTo(bench, server, { turns: oneCall(), ...options.oauth })
  await parts.register()
  await server.control({ set: switches, revoke: true, ...options.control })
  const results = resultsOf(await collect(parts.agent.run('go')))
  return { server, ...parts, result: results[0] }
}

test('five calls at once with a token that is over: one refresh, five successes', async () => {
  const server = await startOAuth(bench.current)
  const turns = [callsTurn(call, call, call, call, call), textTurn('done')]
  const { agent, provider, register } = connectTo(bench, server, { turns })
  await register()
  await server.control({ revoke: true, set: { tokenFault: { kind: 'hold' } } })
  const running = collect(agent.run('go'))
  await until(() => server.at('mcp', '/mcp').filter(({ message }) => message.method === 'tools/call').length === 5)
  await until(() => server.tokenRequests().length === 2)
  await server.control({ release: true })
  const results = resultsOf(await running)

  expect(results).toHaveLength(5)
  expect(results.filter((result) => result.isError)).toEqual([])
  expect(server.tokenRequests().map((form) => form.grant_type)).toEqual(['authorization_code', 'refresh_token'])
  expect(server.served('tools/call')).toHaveLength(5)
  expect(provider.calls('saveTokens')).toHaveLength(2)
})

test('two agents on one store: the loser of a race uses what the winner saved and removes nothing', async () => {
  const server = await startOAuth(bench.current)
  const store = {}
  const one = connectTo(bench, server, { provider: new MemoryProvider({ store }), turns: oneCall() })
  const two = connectTo(bench, server, { provider: new MemoryProvider({ store }), turns: oneCall() })
  await one.register()
  await two.register()
  await server.control({ revoke: true, set: { tokenFault: { kind: 'hold', times: 2 } } })
  const running = [one, two].map(({ agent }) => collect(agent.run('go')))
  await until(() => server.tokenRequests().length === 3)
  await server.control({ release: true })
  const results = (await Promise.all(running)).map((events) => resultsOf(events)[0])

  expect(results.filter((result) => result.isError)).toEqual([])
  expect(store.tokens.access_token).toBe(server.issued().at(-1).access)
  expect([...one.provider.calls('invalidateCredentials'), ...two.provider.calls('invalidateCredentials')]).toEqual([])
})

test('two processes on one store: both go on with the newer token, and neither removes it', async () => {
  const server = await startOAuth(bench.current)
  const { directory } = bench.current
  const store = join(directory, 'store')
  const provider = new FileProvider({ directory: store, redirectUrl: 'http://127.0.0.1:8765/callback' })
  const { agent, register } = connectTo(bench, server, { provider })
  await register()
  await agent.close()
  const path = fileURLToPath(new URL('children/oauth-agent.mjs', import.meta.url))
  const options = JSON.stringify({ url: server.url, origin: server.origins.a, store, directory })
  const children = [1, 2].map(() => {
    const child = spawn(process.execPath, [path, options], { stdio: ['pipe', 'pipe', 'inherit'] })
    const lines = []
    createInterface({ input: child.stdout }).on('line', (line) => lines.push(line))
    return { child, lines }
  })
  try {
    await until(() => children.every(({ lines }) => lines[0] === 'READY'))
    await server.control({ revoke: true, set: { tokenFault: { kind: 'hold', times: 2 } } })
    for (const { child } of children) child.stdin.write('go\n')
    await until(() => server.tokenRequests().length === 3)
    await server.control({ release: true })
    await until(() => children.every(({ lines }) => lines.length === 2))
  } finally {
    for (const { child } of children) child.kill()
  }

  expect(children.map(({ lines }) => JSON.parse(lines[1]).isError ?? false)).toEqual([false, false])
  expect(server.tokenRequests()).toHaveLength(3)
  expect(provider.tokens().access_token).toBe(server.issued().at(-1).access)
})

test('a newer token in the store is used without a refresh', async () => {
  const server = await startOAuth(bench.current)
  const { agent, provider, register } = connectTo(bench, server, { turns: oneCall() })
  await register()
  provider.store.tokens = { ...provider.store.tokens, access_token: 'newer' }
  await server.control({ revoke: true, grant: { access: 'newer' } })
  const [result] = resultsOf(await collect(agent.run('go')))

  expect(result.isError).toBeFalsy()
  expect(server.tokenRequests()).toHaveLength(1)
})

describe('expiry', () => {
  test('a stored token that is over is refreshed before anything is sent', async () => {
    const server = await startOAuth(bench.current)
    const { agent, provider, register } = connectTo(bench, server)
    await register()
    await agent.close()
    provider.store.tokens.expires_at = 1
    const before = server.at('mcp', '/mcp').length
    await connectTo(bench, server, { provider, authorize: undefined }).register()

    const [, issued] = server.issued()
    const requests = server.at('mcp', '/mcp').slice(before)
    expect(requests.map(({ headers }) => headers.authorization)).toEqual(
      Array(requests.length).fill(`Bearer ${issued.access}`),
    )
    expect(server.at('a', '/authorize')).toHaveLength(1)
  })

  for (const [what, expiresIn] of [
    ['a text', '3600'],
    ['absent', null],
  ]) {
    test(`expires_in as ${what}: the token is used, and refreshed once after a 401`, async () => {
      const { server, provider, result } = await refreshing({}, { server: { expiresIn } })
      expect(result.isError).toBeFalsy()
      expect(server.tokenRequests()).toHaveLength(2)
      const { expires_in, expires_at } = provider.store.tokens
      expect([typeof expires_in, typeof expires_at]).toEqual(
        expiresIn === null ? ['undefined', 'undefined'] : ['number', 'number'],
      )
    })
  }
})

describe('what a token answer may look like', () => {
  test('a refresh without a refresh token keeps the old one', async () => {
    const { provider, server } = await refreshing({ refreshAnswer: 'none' })
    expect(provider.store.tokens).toMatchObject({
      access_token: server.issued()[1].access,
      refresh_token: server.issued()[0].refresh,
    })
  })

  for (const [what, options] of [
    ['form-encoded', { tokenForm: 'form' }],
    ['lower-case token_type', { tokenType: 'bearer' }],
    ['no token_type', { tokenType: null }],
  ]) {
    test(`${what} is accepted`, async () => {
      const server = await startOAuth(bench.current, options)
      const { register } = connectTo(bench, server)
      await register()
      expect(server.at('mcp', '/mcp').at(-1).headers.authorization).toBe(`Bearer ${server.issued()[0].access}`)
    })
  }

  for (const [what, options, message] of [
    ['another token_type', { tokenType: 'DPoP' }, /not of type Bearer/],
    ['no access token', { token: { access_token: null } }, /holds no access token/],
    ['an access token with a line end', { token: { access_token: 'a\nb' } }, /cannot be sent/],
    ['an HTML page', { tokenFault: { kind: 'html' } }, /not available/],
    ['more than a MiB', { tokenFault: { kind: 'huge' } }, /limit of 1048576 bytes/],
    ['a redirect', { tokenFault: { kind: 'redirect' } }, /redirects are refused/],
    ['a refusal with status 200', { tokenForm: 'error200', clientAuth: 'none' }, /invalid_client/],
  ]) {
    test(`${what} fails the sign-in`, async () => {
      const server = await startOAuth(bench.current, options)
      const { provider, register } = connectTo(bench, server)
      const error = await failure(register())
      expect(error.code).toMatch(/^OAUTH_(FAILED|TARGET)$/)
      expect(error.message).toMatch(message)
      expect(error.message).not.toContain('REMOTE-TEXT')
      expect(provider.calls('saveTokens')).toEqual([])
      expect(server.at('b')).toEqual([])
    })
  }
})

describe('a refresh that fails', () => {
  for (const kind of ['500', '503', 'html', 'html400', 'drop', 'empty']) {
    test(`${kind}: everything is kept, the call fails, and the next one succeeds`, async () => {
      const server = await startOAuth(bench.current)
      const turns = [callsTurn(call), textTurn('failed'), callsTurn(call), textTurn('done')]
      const { agent, provider, register } = connectTo(bench, server, { turns })
      await register()
      const kept = structuredClone(provider.store)
      await server.control({ revoke: true, set: { tokenFault: { kind } } })
      const [failed] = resultsOf(await collect(agent.run('go')))
      expect(failed).toMatchObject({
        isError: true,
        content: expect.stringMatching(/OAUTH_FAILED.*nothing was changed/),
      })
      expect(provider.store).toEqual(kept)
      expect(provider.calls('invalidateCredentials')).toEqual([])

      const [next] = resultsOf(await collect(agent.run('again')))
      expect(next.isError).toBeFalsy()
    })
  }

  test('no answer at all: the call ends in time, everything is kept, and the next one succeeds', async () => {
    const server = await startOAuth(bench.current)
    const turns = [callsTurn(call), textTurn('failed'), callsTurn(call), textTurn('done')]
    const { agent, provider, register } = connectTo(bench, server, { turns })
    await register({ timeoutMs: 1000 })
    const kept = structuredClone(provider.store)
    await server.control({ revoke: true, set: { tokenFault: { kind: 'hang' } } })
    const [failed] = resultsOf(await collect(agent.run('go')))
    expect(failed).toMatchObject({ isError: true, content: expect.stringMatching(/^(MCP_TIMEOUT|OAUTH_FAILED): /) })
    expect(provider.store).toEqual(kept)

    const [next] = resultsOf(await collect(agent.run('again')))
    expect(next.isError).toBeFalsy()
  })

  test('a refresh that a call gave up is finished for the next one, and its token is saved', async () => {
    const server = await startOAuth(bench.current)
    const turns = [callsTurn(call), callsTurn(call), textTurn('done')]
    const { agent, provider, register } = connectTo(bench, server, { turns })
    await register()
    await server.control({ revoke: true, set: { tokenFault: { kind: 'hold' } } })
    const stop = new AbortController()
    const aborted = collect(agent.run('go', { signal: stop.signal }))
    await until(() => server.tokenRequests().length === 2)
    stop.abort()
    await aborted
    await server.control({ release: true })
    await until(() => provider.store.tokens.access_token === server.issued()[1]?.access)

    const [next] = resultsOf(await collect(agent.run('again')))
    expect(next.isError).toBeFalsy()
    expect(server.tokenRequests()).toHaveLength(2)
  })

  test('invalid_grant: the tokens are invalidated, nobody is asked, and the call says what to do', async () => {
    const { server, provider, result, register, agent } = await refreshing({}, { control: { revokeRefresh: true } })
    expect(result).toMatchObject({ isError: true, content: expect.stringMatching(/^OAUTH_LOGIN_REQUIRED: .*register/) })
    expect(provider.calls('invalidateCredentials')).toEqual([['tokens']])
    expect(server.at('a', '/authorize')).toHaveLength(1)

    await agent.mcp.unregister('docs')
    await register()
    expect(server.at('a', '/authorize')).toHaveLength(2)
    expect(server.at('a', '/register')).toHaveLength(1)
  })

  test('invalid_client in a call: the client is invalidated; connecting registers again, once', async () => {
    const { server, provider, result, register, agent } = await refreshing({}, { control: { forgetClients: true } })
    expect(result).toMatchObject({ isError: true, content: expect.stringMatching(/^OAUTH_LOGIN_REQUIRED/) })
    expect(provider.calls('invalidateCredentials')).toEqual([['client']])

    await agent.mcp.unregister('docs')
    await register()
    expect(server.at('a', '/register')).toHaveLength(2)
    expect(server.at('a', '/authorize')).toHaveLength(2)
  })

  test('unauthorized_client: a client that is known and may not refresh is kept, and so are its tokens', async () => {
    const fault = { kind: 'error', error: 'unauthorized_client' }
    const { provider, result } = await refreshing({ tokenFault: fault })
    expect(result).toMatchObject({
      isError: true,
      content: expect.stringMatching(/^OAUTH_FAILED: .*unauthorized_client/),
    })
    expect(provider.calls('invalidateCredentials')).toEqual([])
    expect(Object.keys(provider.store)).toEqual(expect.arrayContaining(['client', 'tokens']))
  })

  test('without invalidateCredentials nothing is removed', async () => {
    const provider = new MemoryProvider()
    provider.invalidateCredentials = undefined
    const { result } = await refreshing({}, { oauth: { provider }, control: { revokeRefresh: true } })
    expect(result).toMatchObject({ isError: true, content: expect.stringMatching(/no invalidateCredentials\(\)/) })
    expect(provider.store.tokens).toBeDefined()
  })

  test('no refresh token: no sign-in in a call', async () => {
    const { server, result } = await refreshing({}, { server: { refreshTokens: false } })
    expect(result).toMatchObject({ isError: true, content: expect.stringMatching(/^OAUTH_LOGIN_REQUIRED/) })
    expect(server.tokenRequests()).toHaveLength(1)
    expect(server.at('a', '/authorize')).toHaveLength(1)
  })

  test('a token that is refused right after its refresh is not refreshed again', async () => {
    const { server, result } = await refreshing({ token: { access_token: 'not-known' } })
    expect(result).toMatchObject({ isError: true, content: expect.stringMatching(/^OAUTH_FAILED: .*issued just now/) })
    expect(server.tokenRequests()).toHaveLength(2)
    expect(server.served('tools/call')).toEqual([])
  })
})

test('a client that is forgotten while connecting is registered again once, with one new sign-in', async () => {
  const server = await startOAuth(bench.current)
  const provider = new MemoryProvider()
  const authorize = async (url) => {
    const callback = await browse(url)
    if (server.at('a', '/authorize').length === 1) await server.control({ forgetClients: true })
    return callback
  }
  await connectTo(bench, server, { provider, authorize }).register()

  expect(server.at('a', '/register')).toHaveLength(2)
  expect(server.at('a', '/authorize')).toHaveLength(2)
  expect(provider.calls('invalidateCredentials')).toEqual([['client']])
})

test('nobody to ask: an error that says so, at once', async () => {
  const server = await startOAuth(bench.current)
  const error = await failure(connectTo(bench, server, { authorize: undefined }).register())
  expect(error).toMatchObject({ code: 'OAUTH_LOGIN_REQUIRED', message: expect.stringContaining('authorize') })
  expect(server.at('a', '/register')).toEqual([])

  const provider = new MemoryProvider()
  Object.defineProperty(provider, 'redirectUrl', { value: undefined })
  const other = await failure(connectTo(bench, server, { provider }).register())
  expect(other).toMatchObject({ code: 'OAUTH_LOGIN_REQUIRED', message: expect.stringContaining('redirectUrl') })
})

describe('a server that is declared', () => {
  const declare = (server, source) => {
    if (source === 'constructor') return { mcpServers: { docs: server.config } }
    writeFileSync(join(bench.current.directory, 'mcps.json'), JSON.stringify({ mcpServers: { docs: server.config } }))
    return { strictMcpConfig: false }
  }

  test.each(['constructor', 'file'])('by the %s is refreshed like any other', async (source) => {
    const server = await startOAuth(bench.current)
    const turns = [textTurn('connected'), callsTurn(call), textTurn('done'), callsTurn(call), textTurn('done')]
    const { agent, provider } = connectTo(bench, server, { turns, agent: declare(server, source) })
    await agent.send('connect')
    for (const refreshed of [1, 2]) {
      await server.control({ revoke: true })
      const [result] = resultsOf(await collect(agent.run('go')))
      expect(result.isError).toBeFalsy()
      expect(server.tokenRequests().filter((form) => form.grant_type === 'refresh_token')).toHaveLength(refreshed)
    }
    expect(provider.calls('saveTokens')).toHaveLength(3)
  })
})

test('close() lets a refresh that was sent be saved, and frees the provider after it', async () => {
  const server = await startOAuth(bench.current)
  const { agent, provider, register } = connectTo(bench, server, { turns: oneCall() })
  await register()
  await server.control({ revoke: true, set: { tokenFault: { kind: 'hold' } } })
  const running = collect(agent.run('go'))
  await until(() => server.tokenRequests().length === 2)
  const closed = agent.close()
  await server.control({ release: true })
  await closed
  await running

  expect(provider.store.tokens.access_token).toBe(server.issued().at(-1).access)
  const other = connectTo(bench, server, { provider, authorize: undefined })
  await other.register()
  expect(server.at('a', '/authorize')).toHaveLength(1)
})

test('a refresh that is never answered does not keep close() for ever', async () => {
  const server = await startOAuth(bench.current)
  const { agent, provider, register } = connectTo(bench, server, { turns: oneCall() })
  await register()
  await server.control({ revoke: true, set: { tokenFault: { kind: 'hold' } } })
  const running = collect(agent.run('go'))
  await until(() => server.tokenRequests().length === 2)
  await agent.close()
  await running
  expect(provider.calls('saveTokens')).toHaveLength(1)
})

test('a callback on this machine with another port does not cost the sign-in', async () => {
  const server = await startOAuth(bench.current)
  const { agent, provider, register } = connectTo(bench, server)
  await register()
  await agent.close()
  provider.url = 'http://127.0.0.1:8766/callback'
  provider.store.tokens.expires_at = 1
  await connectTo(bench, server, { provider, authorize: undefined }).register()
  expect(server.at('a', '/authorize')).toHaveLength(1)
  expect(server.at('a', '/register')).toHaveLength(1)
  expect(server.tokenRequests().at(-1)).toMatchObject({ grant_type: 'refresh_token' })
})

test('a provider that has another token each time does not keep a call going', async () => {
  const server = await startOAuth(bench.current)
  const { agent, provider, register } = connectTo(bench, server, { turns: oneCall() })
  await register()
  let made = 0
  provider.tokens = () => ({ ...provider.store.tokens, access_token: `other-${made++}` })
  await server.control({ revoke: true })
  const [result] = resultsOf(await collect(agent.run('go')))
  expect(result).toMatchObject({ isError: true, content: expect.stringMatching(/^OAUTH_FAILED: /) })
  expect(server.at('mcp', '/mcp').filter(({ message }) => message.method === 'tools/call')).toHaveLength(2)
})

describe('more scope', () => {
  const needs = { 'tools/call': 'write' }

  test('fails the call unless asked for', async () => {
    const server = await startOAuth(bench.current, { needs, challengeScope: 'read' })
    const { agent, register } = connectTo(bench, server, { turns: oneCall() })
    await register()
    const [result] = resultsOf(await collect(agent.run('go')))
    expect(result).toMatchObject({
      isError: true,
      content: expect.stringMatching(/^OAUTH_SCOPE: .*insufficient_scope/),
    })
    expect(server.at('a', '/authorize')).toHaveLength(1)
  })

  test("stepUp: 'authorize' asks for the union inside the call and sends the request again", async () => {
    const server = await startOAuth(bench.current, { needs, challengeScope: 'read' })
    const { agent, provider, register } = connectTo(bench, server, { turns: oneCall(), stepUp: 'authorize' })
    await register()
    const [result] = resultsOf(await collect(agent.run('go')))

    expect(result.isError).toBeFalsy()
    expect(server.at('a', '/authorize').map(({ query }) => query.scope)).toEqual(['read', 'read write'])
    expect(server.served('tools/call')).toHaveLength(1)
    expect(provider.store.tokens.scope).toBe('read write')
  })

  test('the clock of the call stands still meanwhile', async () => {
    const server = await startOAuth(bench.current, { needs })
    const slow = async (url) => {
      const callback = await browse(url)
      if (server.at('a', '/authorize').length === 2) await new Promise((resolve) => setTimeout(resolve, 1500))
      return callback
    }
    const { agent, register } = connectTo(bench, server, { turns: oneCall(), stepUp: 'authorize', authorize: slow })
    await register({ timeoutMs: 1000 })
    const [result] = resultsOf(await collect(agent.run('go')))
    expect(result.isError).toBeFalsy()
  })

  test('whoever waits for it does not keep another call from its refresh', async () => {
    const server = await startOAuth(bench.current, { needs: { 'tools/call': 'write' } })
    let release
    const slow = async (url) => {
      if (server.at('a', '/authorize').length > 0) await new Promise((resolve) => (release = resolve))
      return browse(url)
    }
    const turns = [callsTurn(call), callsTurn(call), textTurn('done'), textTurn('done')]
    const { agent, provider, register } = connectTo(bench, server, { turns, stepUp: 'authorize', authorize: slow })
    await register()
    const first = collect(agent.run('go', { sessionId: 'one' }))
    await until(() => release)
    await server.control({ set: { needs: {} }, revoke: true })
    const [result] = resultsOf(await collect(agent.run('go', { sessionId: 'two' })))
    expect(result.isError).toBeFalsy()
    expect(provider.calls('saveTokens')).toHaveLength(2)
    release()
    expect(resultsOf(await first)[0].isError).toBeFalsy()
    expect(provider.store.tokens.access_token).toBe(server.issued().at(-1).access)
  })

  test('calls that need it at the same time ask once', async () => {
    const server = await startOAuth(bench.current, { needs, challengeScope: 'read' })
    const turns = [callsTurn(call, call, call, call, call), textTurn('done')]
    const refused = () => server.at('mcp', '/mcp').filter(({ message }) => message.method === 'tools/call').length
    const together = async (url) => {
      if (server.at('a', '/authorize').length > 0) await until(() => refused() === 5)
      return browse(url)
    }
    const { agent, register } = connectTo(bench, server, { turns, stepUp: 'authorize', authorize: together })
    await register()
    const results = resultsOf(await collect(agent.run('go')))
    expect(results.filter((result) => result.isError)).toEqual([])
    expect(server.at('a', '/authorize')).toHaveLength(2)
  })

  test('it is asked for once in a call, and three times at most', async () => {
    const server = await startOAuth(bench.current, { needs, token: { scope: 'never enough' } })
    const turns = Array.from({ length: 4 }, () => [callsTurn(call), textTurn('done')]).flat()
    const { agent, register } = connectTo(bench, server, { turns, stepUp: 'authorize' })
    await server.control({ set: { needs: {} } })
    await register()
    // The server forgets what it granted, so that every token falls short.
    await server.control({ set: { needs: { 'tools/call': 'write' }, forgetScope: true } })
    for (const asked of [1, 2, 3]) {
      const [failed] = resultsOf(await collect(agent.run('go')))
      expect(failed).toMatchObject({ isError: true, content: expect.stringMatching(/^OAUTH_SCOPE: /) })
      expect(server.at('a', '/authorize')).toHaveLength(asked + 1)
    }
    const [result] = resultsOf(await collect(agent.run('go')))
    expect(result).toMatchObject({ isError: true, content: expect.stringMatching(/^OAUTH_SCOPE: .*three times/) })
    expect(server.at('a', '/authorize')).toHaveLength(4)
  })
})
