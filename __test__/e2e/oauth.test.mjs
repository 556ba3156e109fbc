// Signing in: discovery, the client, the callback, the token in each request, and what is kept.
import { policy } from '@lite-agent/sdk'
import { describe, expect, test } from 'vitest'
import { browse, MemoryProvider, startOAuth } from '../servers/oauth-host.mjs'
import { callsTurn, collect, resultsOf, textTurn } from '../servers/start.mjs'
import { connectTo, failure, useBench } from './oauth-bench.mjs'

const bench = useBench()

test('a person signs in, and every request after that carries the token', async () => {
  const server = await startOAuth(bench.current, { challengeScope: 'read write' })
  const turns = [callsTurn(['mcp__docs__echo', { value: 'hi' }]), textTurn('done')]
  const pages = []
  const authorize = async (url, ctx) => {
    pages.push(url)
    expect(ctx.signal.aborted).toBe(false)
    return browse(url)
  }
  const { agent, provider, register } = connectTo(bench, server, { turns, authorize })
  await register()
  const events = await collect(agent.run('go'))

  expect(resultsOf(events)[0]).toMatchObject({ content: expect.stringContaining('hi') })
  const [{ access, refresh }] = server.issued()
  const requests = server.at('mcp', '/mcp')
  expect(requests[0].headers.authorization).toBeUndefined()
  expect(requests.slice(1).every(({ headers }) => headers.authorization === `Bearer ${access}`)).toBe(true)
  expect(requests.map(({ message }) => message.method)).toEqual([
    'server/discover',
    'server/discover',
    'tools/list',
    'tools/call',
  ])

  // What was opened, registered and sent.
  const [page] = pages
  const asked = Object.fromEntries(page.searchParams)
  expect(page).toBeInstanceOf(URL)
  expect(asked).toMatchObject({
    response_type: 'code',
    code_challenge_method: 'S256',
    redirect_uri: provider.url,
    scope: 'read write',
    resource: server.url,
  })
  expect(asked.state).toMatch(/^[\w-]{43}$/)
  const [{ message: registered }] = server.at('a', '/register')
  expect(registered).toEqual({
    client_name: 'test',
    redirect_uris: [provider.url],
    grant_types: ['authorization_code', 'refresh_token'],
    application_type: 'native',
    scope: 'read write',
  })
  const [exchange] = server.tokenRequests()
  expect(exchange).toEqual({
    grant_type: 'authorization_code',
    code: expect.any(String),
    code_verifier: provider.store.verifier,
    redirect_uri: provider.url,
    resource: server.url,
  })

  // What is kept.
  const issuer = server.origins.a
  expect(provider.store.client).toMatchObject({ client_id: asked.client_id, issuer })
  const { expires_at, ...tokens } = provider.store.tokens
  expect(tokens).toEqual({
    access_token: access,
    refresh_token: refresh,
    token_type: 'Bearer',
    expires_in: 3600,
    scope: 'read write',
    issuer,
  })
  expect(Math.abs(expires_at - Date.now() / 1000 - 3600)).toBeLessThan(60)
  expect(provider.store.discovery).toMatchObject({
    authorizationServerUrl: issuer,
    resourceMetadata: { resource: server.url },
    authorizationServerMetadata: { issuer },
  })
})

test('registering again uses the saved tokens, without a sign-in', async () => {
  const server = await startOAuth(bench.current)
  const provider = new MemoryProvider()
  const first = connectTo(bench, server, { provider })
  await first.register()
  await first.agent.mcp.unregister('docs')
  await first.register()
  await first.agent.close()
  await connectTo(bench, server, { provider, authorize: undefined }).register()

  expect(server.at('a', '/authorize')).toHaveLength(1)
  expect(server.at('a', '/register')).toHaveLength(1)
  expect(server.tokenRequests()).toHaveLength(1)
  expect(provider.calls('invalidateCredentials')).toEqual([])
})

test('a 401 during a call brings one refresh, and the call is sent once more', async () => {
  const server = await startOAuth(bench.current)
  const turns = [callsTurn(['mcp__docs__echo', { value: 'hi' }]), textTurn('done')]
  const { agent, provider, register } = connectTo(bench, server, { turns })
  await register()
  await server.control({ revoke: true })
  const events = await collect(agent.run('go'))

  expect(resultsOf(events)[0]).toMatchObject({ content: expect.stringContaining('hi') })
  expect(resultsOf(events)[0].isError).toBeFalsy()
  expect(server.tokenRequests().map((form) => form.grant_type)).toEqual(['authorization_code', 'refresh_token'])
  expect(server.tokenRequests()[1].resource).toBe(server.url)
  expect(server.served('tools/call')).toHaveLength(1)
  expect(provider.store.tokens.access_token).toBe(server.issued()[1].access)
  expect(provider.store.tokens.refresh_token).toBe(server.issued()[1].refresh)
})

describe('before anything', () => {
  test('a denied connection asks no provider and sends nothing', async () => {
    const server = await startOAuth(bench.current)
    const { provider, register } = connectTo(bench, server, {
      agent: { permission: policy({ deny: ['mcp_connect'], default: 'allow' }) },
    })
    const error = await failure(register())

    expect(error).toMatchObject({ name: 'McpError', code: 'MCP_DENIED' })
    expect(provider.diary).toEqual([])
    expect(server.at('mcp')).toEqual([])
  })

  for (const [what, over, oauth, message] of [
    ['another URL', {}, { serverUrl: 'http://127.0.0.1:1/mcp' }, /bound to a different MCP URL/],
    ['static headers', { headers: { 'x-key': 'k' } }, {}, /requires HTTP without static headers/],
    ['stdio', { type: 'stdio', command: 'node', url: undefined }, {}, /requires HTTP without static headers/],
  ]) {
    test(`${what}: refused without a call or a byte`, async () => {
      const server = await startOAuth(bench.current)
      const { provider, register } = connectTo(bench, server, oauth)
      const error = await failure(register(over))

      expect(error).toMatchObject({ name: 'McpError', code: 'OAUTH_BOUND' })
      expect(error.message).toMatch(message)
      expect(provider.diary).toEqual([])
      expect(server.at('mcp')).toEqual([])
    })
  }
})
