// What is never lost, never sent and never asked while tokens are replaced.
import { describe, expect, test } from 'vitest'
import { browse, MemoryProvider, startOAuth } from '../servers/oauth-host.mjs'
import { callsTurn, collect, resultsOf, textTurn, until } from '../servers/start.mjs'
import { connectTo, failure, useBench } from './oauth-bench.mjs'

const bench = useBench()
const call = ['mcp__docs__echo', { value: 'hi' }]
const calls = (count) => Array.from({ length: count }, () => [callsTurn(call), textTurn('done')]).flat()
const toolCalls = (server) => server.at('mcp', '/mcp').filter(({ message }) => message.method === 'tools/call')

/** The result of one run's only call. */
const run = async (agent) => resultsOf(await collect(agent.run('go')))[0]

describe('a server that moved to another issuer', () => {
  test('gets the token of the old one no more, and is used again once it is back', async () => {
    const server = await startOAuth(bench.current)
    const allowedOrigins = [server.origins.a, server.origins.b]
    const { agent, register } = connectTo(bench, server, { allowedOrigins, turns: calls(4) })
    await register()
    await server.control({ set: { use: 'b' } })
    for (const _ of [1, 2, 3]) {
      expect(await run(agent)).toMatchObject({
        isError: true,
        content: expect.stringMatching(/^OAUTH_LOGIN_REQUIRED: .*moved/),
      })
    }
    const [first, ...later] = toolCalls(server).map(({ headers }) => headers.authorization)
    expect(first).toMatch(/^Bearer /)
    expect(later).toEqual([undefined, undefined])

    await server.control({ set: { use: 'a' } })
    expect((await run(agent)).isError).toBeFalsy()
    expect(server.tokenRequests()).toHaveLength(1)
  })

  test('while connecting: the tokens and the client of the old one stay with it, however often it is tried', async () => {
    const clients = { robot: 'robot secret' }
    const server = await startOAuth(bench.current, { clients })
    const allowedOrigins = [server.origins.a, server.origins.b]
    const store = {}
    const connect = () => {
      const provider = new MemoryProvider({ store, metadata: { grant_types: ['client_credentials'] } })
      provider.url = undefined
      provider.saveClientInformation = undefined
      provider.clientInformation = () => ({ client_id: 'robot', client_secret: 'robot secret' })
      return connectTo(bench, server, { provider, allowedOrigins, authorize: undefined })
    }
    const first = connect()
    await first.register()
    await first.agent.close()
    store.tokens = undefined
    await server.control({ set: { use: 'b' } })
    for (const _ of [1, 2, 3]) {
      expect(await failure(connect().register())).toMatchObject({ code: 'OAUTH_BOUND' })
      expect(store.discovery.authorizationServerUrl).toBe(server.origins.a)
    }
    expect(server.tokenRequests('b')).toEqual([])
  })
})

describe('who lost the race for a refresh token', () => {
  test('waits for a slow winner, and removes nothing', async () => {
    const server = await startOAuth(bench.current)
    const store = {}
    const one = connectTo(bench, server, { provider: new MemoryProvider({ store }), turns: calls(1) })
    const two = connectTo(bench, server, { provider: new MemoryProvider({ store }), turns: calls(1) })
    await one.register()
    await two.register()
    const parts = [one, two]
    const reads = () => parts.map(({ provider }) => provider.calls('tokens').length)
    let before
    for (const { provider } of parts) {
      const save = provider.saveTokens.bind(provider)
      // The winner's store takes so long that the loser reads it many times.
      provider.saveTokens = async (...args) => {
        await until(() => reads().some((count, at) => count >= before[at] + 6))
        save(...args)
      }
    }
    await server.control({ revoke: true, set: { tokenFault: { kind: 'hold', times: 2 } } })
    const running = parts.map(({ agent }) => run(agent))
    await until(() => server.tokenRequests().length === 3)
    before = reads()
    await server.control({ release: true })
    const results = await Promise.all(running)

    expect(results.filter((result) => result.isError)).toEqual([])
    expect(store.tokens.access_token).toBe(server.issued().at(-1).access)
    expect(parts.flatMap(({ provider }) => provider.calls('invalidateCredentials'))).toEqual([])
  })

  test('refreshes with a newer refresh token, also where the access token is the same', async () => {
    const server = await startOAuth(bench.current)
    const { agent, provider, register } = connectTo(bench, server, { turns: calls(1) })
    await register()
    const { client_id: client } = provider.store.client
    await server.control({ revoke: true, revokeRefresh: true, set: { tokenFault: { kind: 'hold' } } })
    const running = run(agent)
    await until(() => server.tokenRequests().length === 2)
    await server.control({ grant: { refresh: 'newer-refresh', client } })
    provider.store.tokens = { ...provider.store.tokens, refresh_token: 'newer-refresh' }
    await server.control({ release: true })

    expect((await running).isError).toBeFalsy()
    expect(server.tokenRequests().at(-1)).toMatchObject({ refresh_token: 'newer-refresh' })
    expect(provider.calls('invalidateCredentials')).toEqual([])
  })

  test('does not remove what was saved at the last moment', async () => {
    const server = await startOAuth(bench.current)
    const { agent, provider, register } = connectTo(bench, server, { turns: calls(1) })
    await register()
    const { client_id: client } = provider.store.client
    const read = provider.tokens.bind(provider)
    let reads = 0
    await server.control({ revoke: true, revokeRefresh: true, set: { tokenFault: { kind: 'hold' } } })
    const running = run(agent)
    await until(() => server.tokenRequests().length === 2)
    await server.control({ grant: { refresh: 'newer-refresh', client } })
    // Seven readings are ours; the next one is the last before something would be removed.
    provider.tokens = (ctx) => {
      if (++reads === 8) provider.store.tokens = { ...provider.store.tokens, refresh_token: 'newer-refresh' }
      return read(ctx)
    }
    await server.control({ release: true })

    expect((await running).isError).toBeFalsy()
    expect(provider.calls('invalidateCredentials')).toEqual([])
    expect(provider.store.tokens.access_token).toBe(server.issued().at(-1).access)
  })

  test('refreshes again as the client that took the place of the refused one', async () => {
    const server = await startOAuth(bench.current)
    const { agent, provider, register } = connectTo(bench, server, { turns: calls(1) })
    await register()
    const { client_id } = provider.store.client
    await server.control({ revoke: true, set: { tokenFault: { kind: 'hold' } }, forgetClients: true })
    const running = run(agent)
    await until(() => server.tokenRequests().length === 2)
    await server.control({ know: { [client_id]: 'new secret' } })
    provider.store.client = { ...provider.store.client, client_secret: 'new secret' }
    await server.control({ release: true })
    const result = await running

    expect(provider.calls('invalidateCredentials')).toEqual([])
    expect(result.isError).toBeFalsy()
  })
})

describe('the discovery state', () => {
  test('is saved before a refresh that relies on it', async () => {
    const server = await startOAuth(bench.current)
    const { agent, provider, register } = connectTo(bench, server)
    await register()
    await agent.close()
    const next = new MemoryProvider({ store: { ...provider.store, discovery: undefined } })
    next.store.tokens.expires_at = 1
    await connectTo(bench, server, { provider: next, authorize: undefined }).register()

    const order = next.diary.map(([member]) => member)
    expect(order.indexOf('saveDiscoveryState')).toBeGreaterThan(-1)
    expect(order.indexOf('saveDiscoveryState')).toBeLessThan(order.indexOf('saveTokens'))
    expect(next.store.discovery).toMatchObject({
      authorizationServerUrl: server.origins.a,
      resourceMetadata: { resource: server.url },
      authorizationServerMetadata: { token_endpoint: `${server.origins.a}/token` },
    })
  })

  test('is saved once for a connection, not at every refresh', async () => {
    const server = await startOAuth(bench.current)
    const { agent, provider, register } = connectTo(bench, server, { turns: calls(2) })
    await register()
    const saved = provider.calls('saveDiscoveryState').length
    for (const _ of [1, 2]) {
      await server.control({ revoke: true })
      expect((await run(agent)).isError).toBeFalsy()
    }
    expect(provider.calls('saveDiscoveryState')).toHaveLength(saved)
  })
})

describe('a request that is refused is sent once more at most', () => {
  const needs = { 'tools/call': 'write' }

  test('also where a 403 follows on a 401', async () => {
    const server = await startOAuth(bench.current, { challengeScope: 'read' })
    const { agent, register } = connectTo(bench, server, { turns: calls(2), stepUp: 'authorize' })
    await register()
    await server.control({ revoke: true, set: { needs } })
    expect(await run(agent)).toMatchObject({ isError: true, content: expect.stringMatching(/^OAUTH_SCOPE: .*third/) })
    expect(toolCalls(server)).toHaveLength(2)
    expect(server.at('a', '/authorize')).toHaveLength(1)

    expect((await run(agent)).isError).toBeFalsy()
    expect(toolCalls(server)).toHaveLength(4)
    expect(server.at('a', '/authorize')).toHaveLength(2)
  })

  test('so calls that need different scopes each ask for their own before it', async () => {
    const server = await startOAuth(bench.current, { challengeScope: 'read' })
    const other = ['mcp__docs__other', { value: 'hi' }]
    const both = [callsTurn(call, other), textTurn('done')]
    const { agent, register } = connectTo(bench, server, {
      turns: both,
      stepUp: 'authorize',
      authorize: async (url) => {
        if (server.at('a', '/authorize').length > 0) await until(() => toolCalls(server).length >= 2)
        return browse(url)
      },
    })
    await server.control({ set: { tools: ['echo', 'other'] } })
    await register()
    await server.control({ set: { needs: { 'tools/call echo': 'write', 'tools/call other': 'admin' } } })
    const results = resultsOf(await collect(agent.run('go')))

    expect(results.filter((result) => result.isError)).toEqual([])
    expect(toolCalls(server)).toHaveLength(4)
    expect(server.at('a', '/authorize')).toHaveLength(3)
  })
})

test('tokens that a machine got for itself do not count as sign-ins', async () => {
  const server = await startOAuth(bench.current, { clients: { robot: 'robot secret' }, refreshTokens: false })
  const provider = new MemoryProvider({ metadata: { grant_types: ['client_credentials'] } })
  provider.url = undefined
  provider.store.client = { client_id: 'robot', client_secret: 'robot secret' }
  const { agent, register } = connectTo(bench, server, {
    provider,
    authorize: undefined,
    stepUp: 'authorize',
    turns: calls(5),
  })
  await register()
  for (const _ of [1, 2, 3, 4]) {
    await server.control({ revoke: true })
    expect((await run(agent)).isError).toBeFalsy()
  }
  await server.control({ set: { needs: { 'tools/call': 'write' } } })
  expect((await run(agent)).isError).toBeFalsy()
  expect(server.tokenRequests().at(-1).scope).toBe('write')
})

describe('a subscription', () => {
  test('never asks anybody to sign in', async () => {
    const server = await startOAuth(bench.current, { listen: 'good', protect: ['subscriptions/listen'] })
    const { agent, register } = connectTo(bench, server)
    await register()
    expect(server.at('mcp', '/mcp').map(({ message }) => message.method)).toContain('subscriptions/listen')
    expect([server.at('a', '/register'), server.at('a', '/authorize')]).toEqual([[], []])
    expect(agent.mcp.list()[0].status).toBe('ready')
  })

  test('does not keep the catalog from its sign-in', async () => {
    const server = await startOAuth(bench.current, { listen: 'good', protect: ['subscriptions/listen', 'tools/list'] })
    const { agent, register } = connectTo(bench, server)
    await register()
    expect(server.at('a', '/authorize')).toHaveLength(1)
    expect(agent.mcp.list()[0].status).toBe('ready')
  })
})

test('the time limit of connecting lets a refresh that was sent be saved', async () => {
  const server = await startOAuth(bench.current)
  const { agent, provider, register } = connectTo(bench, server)
  await register()
  await agent.close()
  provider.store.tokens.expires_at = 1
  await server.control({ set: { tokenFault: { kind: 'hold' } } })
  const timeoutMs = 500
  const next = connectTo(bench, server, { provider, timeoutMs })
  const began = performance.now()
  const failed = failure(next.register())
  await until(() => server.tokenRequests().length === 2)
  await until(() => performance.now() > began + 2 * timeoutMs)
  await server.control({ release: true })

  expect(await failed).toMatchObject({ message: expect.stringContaining('timed out after 500 ms') })
  expect(provider.store.tokens.access_token).toBe(server.issued().at(-1).access)
  expect(server.at('a', '/authorize')).toHaveLength(1)
  await connectTo(bench, server, { provider, authorize: undefined }).register()
})

test('a refresh that is refused after the end asks nothing of anybody', async () => {
  const server = await startOAuth(bench.current)
  const { agent, provider, register } = connectTo(bench, server)
  await register()
  await agent.close()
  provider.store.tokens.expires_at = 1
  await server.control({ revokeRefresh: true, set: { tokenFault: { kind: 'hold' } } })
  const next = connectTo(bench, server, { provider })
  const failed = failure(next.register())
  await until(() => server.tokenRequests().length === 2)
  const diary = provider.diary.length
  const closed = next.agent.close()
  await server.control({ release: true })
  await Promise.all([failed, closed])

  expect(provider.diary).toHaveLength(diary)
  expect(server.at('a', '/authorize')).toHaveLength(1)
})
