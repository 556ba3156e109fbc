// Finding the authorization server: where its documents are looked for, and which ones are refused.
import { describe, expect, test } from 'vitest'
import { startOAuth } from '../servers/oauth-host.mjs'
import { connectTo, failure, useBench } from './oauth-bench.mjs'

const bench = useBench()

/** The well-known addresses that were asked for, in order. */
const asked = (server, name) =>
  server
    .at(name)
    .filter(({ path }) => path.includes('.well-known') || path === '/elsewhere')
    .map(({ path }) => path)

async function signsIn(options, oauth = {}) {
  const server = await startOAuth(bench.current, options)
  const parts = connectTo(bench, server, oauth)
  await parts.register()
  return { server, ...parts }
}

async function fails(options, oauth = {}) {
  const server = await startOAuth(bench.current, options)
  const parts = connectTo(bench, server, oauth)
  const error = await failure(parts.register())
  expect(error.name).toBe('McpError')
  expect(error.message).not.toContain('REMOTE-TEXT')
  expect(server.tokenRequests()).toEqual([])
  expect(server.at('a', '/authorize')).toEqual([])
  expect(parts.agent.mcp.list()).toEqual([])
  return { server, error, ...parts }
}

describe('the protected-resource metadata', () => {
  test('is fetched as the challenge says', async () => {
    const { server } = await signsIn({ prmAt: 'elsewhere' })
    expect(asked(server, 'mcp')).toEqual(['/elsewhere'])
  })

  test('is looked for at the path, then at the root, when the challenge says nothing', async () => {
    for (const challenge of ['none', 'bare']) {
      const { server } = await signsIn({ prmAt: 'root', challenge })
      expect(asked(server, 'mcp')).toEqual([
        '/.well-known/oauth-protected-resource/mcp',
        '/.well-known/oauth-protected-resource',
      ])
    }
  })

  for (const challenge of [
    'bearer resource_metadata = PRM',
    "Bearer resource_metadata='PRM', error=x",
    'Basic realm="a, b", Bearer scope="x y", resource_metadata="PRM"',
  ]) {
    test(`is found through ${challenge}`, async () => {
      const { server } = await signsIn({ prmAt: 'elsewhere', challenge })
      expect(asked(server, 'mcp')).toEqual(['/elsewhere'])
    })
  }

  test('is needed', async () => {
    const { error } = await fails({ prmAt: 'nowhere' })
    expect(error).toMatchObject({
      code: 'OAUTH_FAILED',
      message: expect.stringContaining('no protected-resource metadata'),
    })
  })

  test('that is no JSON counts as missing', async () => {
    const { error } = await fails({ prmText: '<html>REMOTE-TEXT</html>' })
    expect(error).toMatchObject({
      code: 'OAUTH_FAILED',
      message: expect.stringContaining('no protected-resource metadata'),
    })
  })

  for (const [what, prm] of [
    ['names another server', { resource: 'https://other.example/mcp' }],
    ['names a deeper path', { resource: 'http://127.0.0.1/mcp/deeper' }],
    ['names no resource', { resource: null }],
  ]) {
    test(`that ${what} is refused`, async () => {
      const { error } = await fails({ prm })
      expect(error).toMatchObject({ code: 'OAUTH_TARGET', message: expect.stringContaining('not this server') })
    })
  }

  for (const authorization_servers of [null, [], [7]]) {
    test(`with authorization_servers ${JSON.stringify(authorization_servers)} is refused`, async () => {
      const { error } = await fails({ prm: { authorization_servers } })
      expect(error).toMatchObject({ code: 'OAUTH_FAILED', message: expect.stringContaining('no authorization server') })
    })
  }

  test('an origin as resource is sent byte for byte, everywhere', async () => {
    const server = await startOAuth(bench.current)
    const resource = new URL(server.url).origin
    await server.control({ set: { prm: { resource } } })
    const { agent, register } = connectTo(bench, server)
    await register()
    await agent.mcp.unregister('docs')
    await server.control({ revoke: true })
    await register()
    expect(server.at('a', '/authorize')[0].query.resource).toBe(resource)
    expect(server.tokenRequests().map((form) => [form.grant_type, form.resource])).toEqual([
      ['authorization_code', resource],
      ['refresh_token', resource],
    ])
  })

  test('the first authorization server that is allowed is used', async () => {
    const server = await startOAuth(bench.current)
    await server.control({ set: { prm: { authorization_servers: ['https://other.example', server.origins.a] } } })
    await connectTo(bench, server).register()
    expect(server.issued()).toHaveLength(1)
  })
})

describe("the authorization server's metadata", () => {
  const inserted = '/.well-known/oauth-authorization-server/t1'
  const openid = '/.well-known/openid-configuration/t1'
  const appended = '/t1/.well-known/openid-configuration'
  for (const [place, addresses] of [
    ['oauth', [inserted]],
    ['oidc', [inserted, openid]],
    ['appended', [inserted, openid, appended]],
  ]) {
    test(`with a path in the issuer is found at ${addresses.at(-1)}`, async () => {
      const { server } = await signsIn({ issuerPath: '/t1', metadataAt: [place] })
      expect(asked(server, 'a')).toEqual(addresses)
    })
  }

  test('without a path is looked for at two addresses', async () => {
    const { server } = await signsIn({ metadataAt: ['oidc'] })
    expect(asked(server, 'a')).toEqual(['/.well-known/oauth-authorization-server', '/.well-known/openid-configuration'])
  })

  for (const [what, oauth] of [
    ['of another issuer', { issuer: 'https://other.example' }],
    ['whose issuer has a slash more', { issuer: 'SLASH' }],
    ['without PKCE', { code_challenge_methods_supported: null }],
    ['with plain PKCE only', { code_challenge_methods_supported: ['plain'] }],
    ['without a token endpoint', { token_endpoint: null }],
    ['that is no JSON', '<html>REMOTE-TEXT</html>'],
    ['that is a list', '[]'],
  ]) {
    test(`${what} is passed over, and refused when there is no other`, async () => {
      const server = await startOAuth(bench.current)
      const document = oauth.issuer === 'SLASH' ? { issuer: `${server.origins.a}/` } : oauth
      await server.control({ set: { metadataBy: { oauth: document } } })
      await connectTo(bench, server).register()
      expect(server.issued()).toHaveLength(1)

      await server.control({ set: { metadataAt: ['oauth'] } })
      const { provider, register } = connectTo(bench, server)
      expect(await failure(register())).toMatchObject({ code: 'OAUTH_FAILED' })
      expect(provider.calls('clientInformation')).toEqual([])
      expect(server.issued()).toHaveLength(1)
    })
  }

  for (const [metadataFault, code, message] of [
    ['redirect', 'OAUTH_TARGET', /redirects are refused/],
    ['huge', 'OAUTH_FAILED', /limit of 1048576 bytes/],
    ['drop', 'OAUTH_FAILED', /cannot be reached/],
  ]) {
    test(`${metadataFault}: refused`, async () => {
      const { error, server } = await fails({ metadataFault })
      expect(error.code).toBe(code)
      expect(error.message).toMatch(message)
      expect(server.at('b')).toEqual([])
    })
  }

  for (const status of ['500', '503', '429']) {
    test(`${status}: said to be out of order, not to be missing`, async () => {
      for (const [options, words] of [
        [{ prmFault: status }, /protected-resource metadata .*try again later/],
        [{ prmFault: status, prmAt: 'root', challenge: 'none' }, /protected-resource metadata .*try again later/],
        [{ metadataFault: status }, /the authorization server is not available.*try again later/],
      ]) {
        const { error } = await fails(options)
        expect(error).toMatchObject({ code: 'OAUTH_FAILED', message: expect.stringMatching(words) })
      }
    })
  }

  test('at one address that is out of order does not keep the next one from being used', async () => {
    const { server } = await signsIn({ metadataFault: { kind: '503', at: 'oauth' } })
    expect(server.issued()).toHaveLength(1)
  })

  test('that does not come in time is given up after the timeoutMs of the server', async () => {
    const server = await startOAuth(bench.current, { metadataFault: 'hang' })
    const error = await failure(connectTo(bench, server).register({ timeoutMs: 1000 }))
    expect(error).toMatchObject({ code: 'OAUTH_FAILED', message: expect.stringContaining('did not answer in time') })
  })
})

describe('an address that is not allowed gets no byte', () => {
  const outside = 'https://other.example'
  for (const [what, options] of [
    ['the metadata of the challenge', { challenge: `Bearer resource_metadata="${outside}/prm"` }],
    ['the issuer', { prm: { authorization_servers: [outside] } }],
    ['a javascript: issuer', { prm: { authorization_servers: ['javascript:alert(1)'] } }],
    ['the authorization endpoint', { metadata: { authorization_endpoint: `${outside}/authorize` } }],
    ['a javascript: authorization endpoint', { metadata: { authorization_endpoint: 'javascript:alert(1)' } }],
    ['a file: authorization endpoint', { metadata: { authorization_endpoint: 'file:///etc/passwd' } }],
    ['the token endpoint', { metadata: { token_endpoint: `${outside}/token` } }],
    ['an internal token endpoint', { metadata: { token_endpoint: 'http://169.254.169.254/token' } }],
    ['the registration endpoint', { metadata: { registration_endpoint: `${outside}/register` } }],
  ]) {
    test(what, async () => {
      const opened = []
      const authorize = async (url) => {
        opened.push(url)
      }
      const { error } = await fails(options, { authorize })
      expect(error.code).toBe('OAUTH_TARGET')
      expect(error.message).not.toContain('other.example')
      expect(opened).toEqual([])
    })
  }

  test('another port of this machine that is not listed', async () => {
    const { server, error } = await fails({ use: 'b' })
    expect(error).toMatchObject({ code: 'OAUTH_TARGET', message: expect.stringContaining('allowedOrigins') })
    expect(server.at('b')).toEqual([])
  })
})

describe('scope', () => {
  for (const [what, options, metadata, scope] of [
    ["the challenge's", { challengeScope: 'c', prm: { scopes_supported: ['p', 'q'] } }, { scope: 'm' }, 'c'],
    ['all that are supported', { prm: { scopes_supported: ['p', 'q'] } }, { scope: 'm' }, 'p q'],
    ["the client's", {}, { scope: 'm n' }, 'm n'],
    ['none at all', {}, {}, undefined],
    [
      'offline_access where it is listed',
      { challengeScope: 'c', metadata: { scopes_supported: ['offline_access'] } },
      { grant_types: ['authorization_code', 'refresh_token'] },
      'c offline_access',
    ],
    [
      'no offline_access where it is not',
      { challengeScope: 'c' },
      { grant_types: ['authorization_code', 'refresh_token'] },
      'c',
    ],
  ]) {
    test(what, async () => {
      const { MemoryProvider } = await import('../servers/oauth-host.mjs')
      const { server } = await signsIn(options, { provider: new MemoryProvider({ metadata }) })
      expect(server.at('a', '/authorize')[0].query.scope).toBe(scope)
    })
  }
})
