// Host providers of every style, and ones that throw, hang or lie: plain words, and the provider is free again.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import { MemoryProvider, startOAuth } from '../servers/oauth-host.mjs'
import { connectTo, failure, useBench } from './oauth-bench.mjs'

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc')
const bench = useBench()

describe('styles', () => {
  test('members keep their receiver, their getters and their private fields', async () => {
    const server = await startOAuth(bench.current)
    class Strict extends MemoryProvider {
      #secret = 7
      get redirectUrl() {
        return new URL(`http://127.0.0.1:876${this.#secret}/callback`)
      }
      tokens(ctx) {
        expect(this.#secret).toBe(7)
        return super.tokens(ctx)
      }
      async saveTokens(tokens, ctx) {
        await Promise.resolve(this.#secret)
        super.saveTokens(tokens, ctx)
      }
    }
    const provider = new Strict()
    await connectTo(bench, server, { provider }).register()
    expect(server.at('a', '/authorize')[0].query.redirect_uri).toBe('http://127.0.0.1:8767/callback')
    expect(provider.calls('tokens')[0]).toEqual([undefined])
    expect(provider.calls('saveTokens')[0][1]).toEqual({ issuer: server.origins.a })
  })

  test('a frozen plain object with a thenable is as good', async () => {
    const server = await startOAuth(bench.current)
    const store = {}
    const provider = Object.freeze({
      redirectUrl: 'http://127.0.0.1:8765/callback',
      clientMetadata: Object.freeze({ redirect_uris: ['http://127.0.0.1:8765/callback'] }),
      // biome-ignore lint/suspicious/noThenProperty: a thenable that is no promise is the point
      clientInformation: () => ({ then: (resolve) => resolve(store.client) }),
      saveClientInformation: (client) => void Object.assign(store, { client }),
      tokens: () => null,
      saveTokens: (tokens) => void Object.assign(store, { tokens }),
      saveCodeVerifier: (verifier) => void Object.assign(store, { verifier }),
      codeVerifier: async () => store.verifier,
      saveDiscoveryState: async (discovery) => void Object.assign(store, { discovery }),
      discoveryState: () => store.discovery,
    })
    const { agent, register } = connectTo(bench, server, { provider })
    await register()
    expect(agent.mcp.list()[0].status).toBe('ready')
  })

  test('the resource members are called as the official client calls them', async () => {
    const server = await startOAuth(bench.current)
    const provider = new MemoryProvider()
    provider.validateResourceURL = async (url, resource) => {
      provider.note('validateResourceURL', url, resource)
      return new URL('https://resource.example/')
    }
    provider.saveResourceUrl = (url) => provider.note('saveResourceUrl', url)
    provider.saveAuthorizationServerUrl = async (url) => provider.note('saveAuthorizationServerUrl', url)
    await connectTo(bench, server, { provider }).register()
    expect(provider.calls('validateResourceURL')[0]).toEqual([new URL(server.url), server.url])
    expect(provider.calls('saveResourceUrl')[0]).toEqual(['https://resource.example/'])
    expect(provider.calls('saveAuthorizationServerUrl')[0]).toEqual([server.origins.a])
    expect(server.tokenRequests()[0].resource).toBe('https://resource.example/')

    const none = new MemoryProvider()
    none.validateResourceURL = async () => undefined
    await connectTo(bench, server, { provider: none }).register()
    expect(server.tokenRequests()[1].resource).toBeUndefined()
    expect(server.at('a', '/authorize')[1].query.resource).toBeUndefined()
  })
})

describe('one provider object, one connection', () => {
  test('a second one is refused, and the provider is free after unregister and close', async () => {
    const server = await startOAuth(bench.current)
    const provider = new MemoryProvider()
    const one = connectTo(bench, server, { provider })
    const two = connectTo(bench, server, { provider })
    await one.register()
    const calls = provider.diary.length
    const error = await failure(two.register())
    expect(error).toMatchObject({ code: 'OAUTH_OWNED', message: expect.stringContaining('another active connection') })
    expect(provider.diary).toHaveLength(calls)
    await one.agent.mcp.unregister('docs')
    await two.register()
    await two.agent.close()
    await one.register()
  })

  test('a server that is declared is connected by the first run; a failure names it', async () => {
    const server = await startOAuth(bench.current)
    const provider = new MemoryProvider()
    const { agent } = connectTo(bench, server, {
      provider,
      authorize: undefined,
      agent: { mcpServers: { docs: server.config } },
    })
    expect(provider.diary).toEqual([])
    const error = await failure(agent.send('go'))
    expect(error).toMatchObject({
      name: 'McpError',
      code: 'OAUTH_LOGIN_REQUIRED',
      message: expect.stringContaining('`docs`'),
    })
    expect(agent.mcp.list()[0]).toMatchObject({
      status: 'error',
      error: expect.stringMatching(/^OAUTH_LOGIN_REQUIRED/),
    })
    await connectTo(bench, server, { provider }).register()
  })
})

/** Changes one member of a provider. */
const withMember = (name, value) => {
  const provider = new MemoryProvider()
  Object.defineProperty(provider, name, typeof value === 'function' && value.isGetter ? { get: value } : { value })
  return provider
}
const getter = (act) => Object.assign(act, { isGetter: true })
const thrown = new Error('HOST-TEXT the disk is full')
const throws = () => {
  throw thrown
}

describe('a provider that fails', () => {
  for (const member of [
    'clientInformation',
    'saveClientInformation',
    'tokens',
    'saveTokens',
    'saveCodeVerifier',
    'codeVerifier',
    'saveDiscoveryState',
    'discoveryState',
  ]) {
    for (const [what, act] of [
      ['throws', throws],
      ['rejects', async () => throws()],
    ]) {
      test(`${member}() that ${what}`, async () => {
        const server = await startOAuth(bench.current)
        const provider = withMember(member, act)
        const { agent, register } = connectTo(bench, server, { provider })
        const error = await failure(register())
        expect(error).toMatchObject({ name: 'McpError', code: 'OAUTH_FAILED', cause: thrown })
        expect(error.message).toMatch(`the OAuth provider's ${member} failed`)
        expect(error.message).not.toContain('HOST-TEXT')
        expect(agent.mcp.list()).toEqual([])
        expect(await failure(register())).toMatchObject({ code: 'OAUTH_FAILED' })
      })
    }
  }

  test('properties that throw', async () => {
    const server = await startOAuth(bench.current)
    for (const name of ['redirectUrl', 'clientMetadata', 'clientMetadataUrl', 'prepareTokenRequest']) {
      const error = await failure(connectTo(bench, server, { provider: withMember(name, getter(throws)) }).register())
      expect(error).toMatchObject({ code: 'OAUTH_FAILED', cause: thrown })
      expect(error.message).toMatch(/the OAuth provider's .*failed/)
    }
  })

  for (const member of ['tokens', 'clientInformation', 'saveCodeVerifier']) {
    test(`${member}() that never ends`, async () => {
      const server = await startOAuth(bench.current)
      // Nobody but the agent knows this promise; collecting garbage must not end it.
      const provider = withMember(member, () => {
        setImmediate(collectGarbage)
        return new Promise(() => {})
      })
      const error = await failure(connectTo(bench, server, { provider, timeoutMs: 1000 }).register())
      expect(error, error.message).toMatchObject({ code: 'MCP_TIMEOUT' })
      expect(error.message).toMatch(`OAuth timed out after 1000 ms while waiting for ${member}`)
      expect(await failure(connectTo(bench, server, { provider, timeoutMs: 1000 }).register())).toMatchObject({
        code: 'MCP_TIMEOUT',
      })
    })
  }
})

describe('a provider that lies', () => {
  const cycle = {}
  cycle.self = cycle
  for (const [member, value, message] of [
    ['tokens', () => 'a text', /tokens returned something that is no object/],
    ['tokens', () => [], /tokens returned something that is no object/],
    ['tokens', () => ({}), /tokens returned an object without an access_token/],
    ['tokens', () => ({ access_token: 7 }), /without an access_token/],
    ['tokens', () => ({ access_token: 'a\nb' }), /cannot be sent as a header/],
    ['tokens', () => ({ access_token: 'a', token_type: 'DPoP' }), /not of type Bearer/],
    ['tokens', () => cycle, /tokens failed/],
    ['tokens', () => 7n, /tokens failed/],
    ['tokens', () => () => {}, /tokens failed/],
    ['clientInformation', () => true, /clientInformation returned something that is no object/],
    ['clientInformation', () => ({ client_secret: 's' }), /without a client_id/],
    ['codeVerifier', () => {}, /codeVerifier returned nothing/],
    ['codeVerifier', () => 7, /codeVerifier returned something that is no text/],
    ['codeVerifier', () => 'another', /codeVerifier returned something else than was saved/],
    [
      'discoveryState',
      () => ({ authorizationServerUrl: 'https://other.example' }),
      /discoveryState returned something else/,
    ],
    ['discoveryState', () => {}, /discoveryState returned something else/],
    ['discoveryState', undefined, /saveDiscoveryState\(\) and discoveryState\(\)/],
    ['saveDiscoveryState', undefined, /saveDiscoveryState\(\) and discoveryState\(\)/],
    ['tokens', undefined, /tokens is missing/],
    ['saveTokens', 7, /saveTokens is missing/],
    ['clientMetadata', undefined, /clientMetadata is no object/],
    ['clientMetadata', [], /clientMetadata is no object/],
    ['redirectUrl', 7, /redirectUrl is neither a string nor a URL/],
    ['redirectUrl', 'app:callback', /redirectUrl is refused/],
    ['redirectUrl', 'http://app.example/callback', /redirectUrl is refused/],
    ['dpop', () => {}, /DPoP is not supported/],
    ['validateResourceURL', async () => ({}), /validateResourceURL returned something that is no text/],
  ]) {
    test(`${member}: ${value}`, async () => {
      const server = await startOAuth(bench.current)
      const error = await failure(connectTo(bench, server, { provider: withMember(member, value) }).register())
      expect(error.name).toBe('McpError')
      expect(error.code).toMatch(/^OAUTH_(FAILED|TARGET)$/)
      expect(error.message).toMatch(message)
      expect(server.tokenRequests()).toEqual([])
    })
  }

  test('tokens of another issuer are not sent to this one', async () => {
    const server = await startOAuth(bench.current)
    const tokens = () => ({
      access_token: 'x',
      refresh_token: 'of-another',
      token_type: 'Bearer',
      issuer: 'https://other.example',
    })
    const provider = withMember('tokens', tokens)
    await connectTo(bench, server, { provider }).register()
    expect(JSON.stringify(server.at('a'))).not.toContain('of-another')
    expect(server.tokenRequests().map((form) => form.grant_type)).toEqual(['authorization_code'])
  })
})

describe('configuration', () => {
  const good = { serverUrl: 'https://h/mcp', allowedOrigins: [], provider: {} }
  for (const [what, entry, message] of [
    ['a list', [], /mcpOAuth.docs must be an object/],
    ['no serverUrl', { ...good, serverUrl: undefined }, /serverUrl must be a string/],
    ['an http serverUrl', { ...good, serverUrl: 'http://h/mcp' }, /serverUrl.*HTTPS/],
    ['no origins', { ...good, allowedOrigins: undefined }, /allowedOrigins must be an array/],
    ['an origin with a path', { ...good, allowedOrigins: ['https://h/x'] }, /give origins only/],
    ['an http origin', { ...good, allowedOrigins: ['http://h'] }, /HTTPS/],
    ['a number as origin', { ...good, allowedOrigins: [7] }, /array of strings/],
    ['no provider', { ...good, provider: undefined }, /provider must be a provider object/],
    ['a text as authorize', { ...good, authorize: 'x' }, /authorize must be a function/],
    ['timeoutMs 0', { ...good, timeoutMs: 0 }, /timeoutMs must be/],
    ['timeoutMs 600001', { ...good, timeoutMs: 600001 }, /timeoutMs must be/],
    ['a strange stepUp', { ...good, stepUp: 'yes' }, /stepUp must be/],
    ['an unknown field', { ...good, provder: {} }, /did you mean "provider"/],
  ]) {
    test(what, async () => {
      const { createLiteAgent, fakeProvider } = await import('@lite-agent/sdk')
      const config = { workdir: bench.current.directory, model: fakeProvider([]), strictMcpConfig: true }
      const make = () => createLiteAgent({ ...config, mcpOAuth: { docs: entry } })
      expect(make).toThrow(expect.objectContaining({ name: 'ConfigError', code: 'CONFIG_INVALID' }))
      expect(make).toThrow(message)
    })
  }
})
