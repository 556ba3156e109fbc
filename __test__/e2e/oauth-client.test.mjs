// Who the client is: stored, by its document, registered; and credentials that stay with their issuer.
import { generateKeyPairSync } from 'node:crypto'
import {
  ClientCredentialsProvider,
  PrivateKeyJwtProvider,
  StaticPrivateKeyJwtProvider,
} from '@modelcontextprotocol/client'
import { describe, expect, test } from 'vitest'
import { MemoryProvider, startOAuth } from '../servers/oauth-host.mjs'
import { callsTurn, collect, resultsOf, textTurn } from '../servers/start.mjs'
import { connectTo, failure, useBench } from './oauth-bench.mjs'

const bench = useBench()
const oneCall = () => [callsTurn(['mcp__docs__echo', { value: 'hi' }]), textTurn('done')]
/** Everything that the authorization servers were sent, as text. */
const sent = (server, name) => JSON.stringify(server.at(name))

describe('identity', () => {
  test('a stored client without a stamp is stamped and used', async () => {
    const server = await startOAuth(bench.current, { clients: { mine: 'my secret' } })
    const provider = new MemoryProvider({ store: { client: { client_id: 'mine', client_secret: 'my secret', x: 1 } } })
    await connectTo(bench, server, { provider }).register()
    expect(server.at('a', '/register')).toEqual([])
    expect(server.at('a', '/token')[0].headers.authorization).toBe(`Basic ${btoa('mine:my+secret')}`)
    const issuer = server.origins.a
    expect(provider.store.client).toEqual({ client_id: 'mine', client_secret: 'my secret', x: 1, issuer })
    expect(provider.calls('clientInformation')[0]).toEqual([{ issuer }])
  })

  for (const [what, client] of [
    ['whose secret is over', { client_id: 'mine', client_secret: 's', client_secret_expires_at: 1 }],
    ['of another issuer', { client_id: 'mine', client_secret: 's', issuer: 'https://other.example' }],
    ['registered for another callback', { client_id: 'mine', redirect_uris: ['http://127.0.0.1:1/callback'] }],
  ]) {
    test(`a stored client ${what} counts as absent`, async () => {
      const server = await startOAuth(bench.current)
      const provider = new MemoryProvider({ store: { client } })
      await connectTo(bench, server, { provider }).register()
      expect(server.at('a', '/register')).toHaveLength(1)
      expect(sent(server, 'a')).not.toContain('mine')
      expect(provider.store.client.client_id).not.toBe('mine')
    })
  }

  test('a metadata document is used where the server takes one', async () => {
    const server = await startOAuth(bench.current, { metadata: { client_id_metadata_document_supported: true } })
    const provider = new MemoryProvider()
    provider.clientMetadataUrl = 'https://app.example/client.json'
    await connectTo(bench, server, { provider }).register()
    expect(server.at('a', '/register')).toEqual([])
    expect(server.at('a', '/authorize')[0].query.client_id).toBe('https://app.example/client.json')

    const other = new MemoryProvider()
    other.clientMetadataUrl = 'https://app.example/client.json'
    await server.control({ set: { metadata: {} } })
    await connectTo(bench, server, { provider: other }).register()
    expect(server.at('a', '/register')).toHaveLength(1)
  })

  for (const url of ['http://app.example/client.json', 'https://app.example', 'client.json', 7]) {
    test(`clientMetadataUrl ${url} is refused`, async () => {
      const server = await startOAuth(bench.current, { metadata: { client_id_metadata_document_supported: true } })
      const provider = new MemoryProvider()
      provider.clientMetadataUrl = url
      const error = await failure(connectTo(bench, server, { provider }).register())
      expect(error).toMatchObject({ code: 'OAUTH_FAILED', message: expect.stringContaining('clientMetadataUrl') })
    })
  }

  for (const [what, options, change, message] of [
    ['cannot be saved', {}, (provider) => (provider.saveClientInformation = undefined), /saveClientInformation\(\)/],
    ['cannot be registered', { registers: false }, () => {}, /registers none/],
    ['is refused', { registrationFault: { error: 'invalid_client_metadata' } }, () => {}, /check clientMetadata/],
    [
      'has a callback that is refused',
      { registrationFault: { error: 'invalid_redirect_uri' } },
      () => {},
      /redirectUrl/,
    ],
    ['gets no id', { registration: { client_id: null } }, () => {}, /no client_id/],
    ['meets a failing server', { registrationFault: { kind: '503' } }, () => {}, /try again later/],
    ['meets a busy server', { registrationFault: { kind: '429' } }, () => {}, /try again later/],
    ['is redirected', { registrationFault: { kind: 'redirect' } }, () => {}, /redirects are refused/],
  ]) {
    test(`a client that ${what}: a clear error`, async () => {
      const server = await startOAuth(bench.current, options)
      const provider = new MemoryProvider()
      change(provider)
      const error = await failure(connectTo(bench, server, { provider }).register())
      expect(error.code).toMatch(/^OAUTH_(FAILED|TARGET)$/)
      expect(error.message).toMatch(message)
      expect(error.message).not.toContain('REMOTE-TEXT')
      expect(server.at('a', '/authorize')).toEqual([])
    })
  }

  for (const method of ['client_secret_basic', 'client_secret_post', 'none']) {
    test(`the method that the registration names is used: ${method}`, async () => {
      const registration = { token_endpoint_auth_method: method }
      const server = await startOAuth(bench.current, { clientAuth: method, registration })
      await connectTo(bench, server).register()
      const [{ headers, form }] = server.at('a', '/token')
      const basic = method === 'client_secret_basic'
      expect([
        headers.authorization !== undefined,
        form.client_secret !== undefined,
        form.client_id !== undefined,
      ]).toEqual([basic, method === 'client_secret_post', !basic])
    })
  }

  test('a registration whose answer leaves the callback out counts for the one that was sent', async () => {
    const server = await startOAuth(bench.current, { registration: { redirect_uris: null } })
    const provider = new MemoryProvider()
    const { agent, register } = connectTo(bench, server, { provider })
    await register()
    expect(provider.store.client.redirect_uris).toEqual([provider.url])

    await agent.mcp.unregister('docs')
    provider.url = 'http://127.0.0.1:8765/another'
    delete provider.store.tokens
    await register()
    expect(server.at('a', '/register').map(({ message }) => message.redirect_uris)).toEqual([
      ['http://127.0.0.1:8765/callback'],
      ['http://127.0.0.1:8765/another'],
    ])
  })

  test('an https callback registers a web application', async () => {
    const server = await startOAuth(bench.current)
    const provider = new MemoryProvider({ redirectUrl: 'https://app.example/callback' })
    await connectTo(bench, server, { provider }).register()
    expect(server.at('a', '/register')[0].message.application_type).toBe('web')
  })
})

describe('a machine signs in by itself', () => {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' })
  const assertion = `${btoa('{}')}.${btoa('{"sub":"robot"}')}.sig`
  const clients = { robot: 'robot secret' }
  const providers = {
    ClientCredentialsProvider: (over = {}) =>
      new ClientCredentialsProvider({ clientId: 'robot', clientSecret: 'robot secret', scope: 'run', ...over }),
    PrivateKeyJwtProvider: (over = {}) =>
      new PrivateKeyJwtProvider({ clientId: 'robot', privateKey: pem, algorithm: 'RS256', scope: 'run', ...over }),
    StaticPrivateKeyJwtProvider: (over = {}) =>
      new StaticPrivateKeyJwtProvider({ clientId: 'robot', jwtBearerAssertion: assertion, scope: 'run', ...over }),
  }
  for (const [name, make] of Object.entries(providers)) {
    const jwt = name !== 'ClientCredentialsProvider'
    const options = { clients, refreshTokens: false, clientAuth: jwt ? 'private_key_jwt' : 'client_secret_basic' }

    test(`${name} of the official client: connected, and again when its token is refused in a call`, async () => {
      const server = await startOAuth(bench.current, options)
      const parts = { provider: make({ expectedIssuer: server.origins.a }), turns: oneCall(), authorize: undefined }
      const { agent, register } = connectTo(bench, server, parts)
      await register()
      await server.control({ revoke: true })
      const [result] = resultsOf(await collect(agent.run('go')))

      expect(result.isError).toBeFalsy()
      expect(server.tokenRequests()).toHaveLength(2)
      expect(server.tokenRequests()[0]).toMatchObject({
        grant_type: 'client_credentials',
        scope: 'run',
        resource: server.url,
      })
      if (jwt) {
        const claims = JSON.parse(atob(server.tokenRequests()[0].client_assertion.split('.')[1]))
        expect(claims.sub).toBe('robot')
        expect(server.at('a', '/token')[0].headers.authorization).toBeUndefined()
      }
    })

    test(`${name} with another expectedIssuer sends nothing, whatever the metadata says`, async () => {
      const server = await startOAuth(bench.current, options)
      const provider = make({ expectedIssuer: 'https://login.example.com' })
      const error = await failure(connectTo(bench, server, { provider, authorize: undefined }).register())
      expect(error).toMatchObject({
        code: 'OAUTH_BOUND',
        message: expect.stringContaining('another authorization server'),
      })
      expect(server.at('a', '/token')).toEqual([])
    })
  }

  test('a provider that could save a client is not registered with another issuer than its own', async () => {
    const server = await startOAuth(bench.current, { clients })
    const provider = providers.ClientCredentialsProvider({ expectedIssuer: 'https://login.example.com' })
    const saved = []
    provider.saveClientInformation = (client) => void saved.push(client)
    const error = await failure(connectTo(bench, server, { provider, authorize: undefined }).register())
    expect(error).toMatchObject({ code: 'OAUTH_BOUND' })
    expect([server.at('a', '/register'), server.at('a', '/token'), saved]).toEqual([[], [], []])
  })

  test('a secret without a stamp stays with the first issuer, for the life of its provider', async () => {
    const server = await startOAuth(bench.current, { clients })
    const provider = providers.ClientCredentialsProvider()
    const allowedOrigins = [server.origins.a, server.origins.b]
    const first = connectTo(bench, server, { provider, allowedOrigins, authorize: undefined })
    await first.register()
    await first.agent.close()
    await server.control({ set: { use: 'b' } })
    const error = await failure(connectTo(bench, server, { provider, allowedOrigins, authorize: undefined }).register())

    expect(error).toMatchObject({ code: 'OAUTH_BOUND' })
    expect(server.at('b', '/token')).toEqual([])
  })

  test('a client that is not accepted is a clear error', async () => {
    const server = await startOAuth(bench.current, { clients: { robot: 'another' } })
    const error = await failure(
      connectTo(bench, server, { provider: providers.ClientCredentialsProvider(), authorize: undefined }).register(),
    )
    expect(error).toMatchObject({ code: 'OAUTH_FAILED', message: expect.stringContaining('invalid_client') })
    expect(error.message).not.toContain('robot')
  })

  test('a plain object whose metadata says client_credentials needs no prepareTokenRequest', async () => {
    const server = await startOAuth(bench.current, { clients })
    let tokens
    const provider = {
      redirectUrl: undefined,
      clientMetadata: { redirect_uris: [], grant_types: ['client_credentials'], scope: 'run' },
      clientInformation: () => ({ client_id: 'robot', client_secret: 'robot secret' }),
      tokens: async () => tokens,
      saveTokens: (value) => {
        tokens = value
      },
      saveCodeVerifier: () => {},
      codeVerifier: () => '',
    }
    await connectTo(bench, server, { provider, authorize: undefined }).register()
    expect(tokens).toMatchObject({ scope: 'run', issuer: server.origins.a })
  })
})

describe('a server that moves to another issuer', () => {
  async function moved() {
    const server = await startOAuth(bench.current)
    const allowedOrigins = [server.origins.a, server.origins.b]
    const turns = oneCall()
    const parts = connectTo(bench, server, { allowedOrigins, turns })
    await parts.register()
    const old = structuredClone(parts.provider.store)
    await server.control({ set: { use: 'b' } })
    return { server, old, ...parts }
  }

  test('in a call: nothing of the old is sent, and nobody is asked', async () => {
    const { server, old, agent, provider } = await moved()
    const [result] = resultsOf(await collect(agent.run('go')))
    expect(result).toMatchObject({ isError: true, content: expect.stringMatching(/^OAUTH_LOGIN_REQUIRED: .*moved/) })
    expect(server.tokenRequests('b')).toEqual([])
    expect(server.tokenRequests('a')).toHaveLength(1)
    expect(provider.store).toEqual(old)
  })

  test('while connecting: a new client and a new sign-in', async () => {
    const { server, old, agent, provider, register } = await moved()
    await agent.mcp.unregister('docs')
    await register()
    expect(server.at('b', '/register')).toHaveLength(1)
    expect(server.at('b', '/authorize')).toHaveLength(1)
    expect(provider.store.client.issuer).toBe(server.origins.b)
    for (const secret of [
      old.tokens.access_token,
      old.tokens.refresh_token,
      old.client.client_id,
      old.client.client_secret,
    ]) {
      expect(sent(server, 'b')).not.toContain(secret)
    }
  })
})
