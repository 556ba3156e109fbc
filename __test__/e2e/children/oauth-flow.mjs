// Goes through one flow of signing in with secrets that can be recognised, and writes down all that a host can see.
//
// Argument: `{ flow, directory, out }`. Standard error is what RUST_LOG shows.
import { writeFileSync } from 'node:fs'
import { createLiteAgent, fakeProvider, policy } from '@lite-agent/sdk'
import { ClientCredentialsProvider, StaticPrivateKeyJwtProvider } from '@modelcontextprotocol/client'
import { browse, MemoryProvider, startOAuth } from '../../servers/oauth-host.mjs'
import { callsTurn, createBench, textTurn } from '../../servers/start.mjs'

const { flow, directory, out } = JSON.parse(process.argv[2])
const bench = createBench()
const marked = {
  access: 'SENTINEL-access',
  refresh: 'SENTINEL-refresh',
  code: 'SENTINEL-code',
  secret: 'SENTINEL-secret',
}
// Large enough for the archive; the session is saved, too.
const turn = () => [callsTurn(['mcp__docs__echo', { value: 'hi '.repeat(10_000) }]), textTurn('done')]
const seen = { events: [], lists: [], errors: [], approvals: [] }
const secrets = new Set()

const assertion = `${btoa('{"alg":"none"}')}.${btoa('{"sub":"robot"}')}.SENTINEL-assertion`
const machines = {
  secret: () => new ClientCredentialsProvider({ clientId: 'robot', clientSecret: 'SENTINEL-robot' }),
  jwt: () => new StaticPrivateKeyJwtProvider({ clientId: 'robot', jwtBearerAssertion: assertion }),
}

/** Keeps the texts that are made here and not by the servers. */
class Watched extends MemoryProvider {
  saveCodeVerifier(verifier) {
    secrets.add(verifier)
    super.saveCodeVerifier(verifier)
  }
}
async function authorize(url) {
  secrets.add(url.searchParams.get('state')).add(url.searchParams.get('code_challenge')).add(url.href)
  const callback = await browse(url)
  secrets.add(callback)
  return callback
}
const told = (url) => Promise.reject(new Error(`cannot open ${url}`))

const flows = {
  'sign-in': {},
  refresh: { next: { revoke: true } },
  'refresh refused': { next: { revoke: true, revokeRefresh: true } },
  'refresh unavailable': { next: { revoke: true, set: { tokenFault: { kind: 'html' } } } },
  'client forgotten': { next: { revoke: true, forgetClients: true } },
  'step-up': { next: { set: { needs: { 'tools/call': 'write' } } }, stepUp: 'authorize' },
  'scope refused': { next: { set: { needs: { 'tools/call': 'write' } } } },
  'server moved': { next: { set: { use: 'b' } } },
  'callback refused': { authorize: async (url) => (await authorize(url)).replace('state=', 'state=x') },
  'page cannot be opened': { authorize: async (url) => authorize(url).then(() => told(url)) },
  'sign-in denied': { options: { signIn: 'denied' } },
  'code refused': { options: { tokenFault: { kind: 'error', error: 'invalid_grant' } } },
  'registration refused': { options: { registrationFault: { error: 'invalid_client_metadata' } } },
  'token of another type': { options: { tokenType: 'DPoP' } },
  'issuer mismatch': { options: { metadata: { issuer: 'https://other.example/SENTINEL-issuer' } } },
  'target refused': { options: { metadata: { token_endpoint: 'https://other.example/SENTINEL-path' } } },
  'machine secret': { provider: machines.secret, next: { revoke: true } },
  'machine assertion': { provider: machines.jwt, next: { revoke: true } },
  'machine with odd signs': {
    provider: () => new ClientCredentialsProvider({ clientId: 'robot', clientSecret: 'SENTINEL robot+%&' }),
    options: { clients: { robot: 'SENTINEL robot+%&' } },
    next: { revoke: true },
  },
  'machine refused': { provider: machines.secret, options: { clients: {} } },
}

const { options = {}, next, provider = () => new Watched(), authorize: open = authorize, stepUp } = flows[flow]
const server = await startOAuth(bench, { ...marked, clients: { robot: 'SENTINEL-robot' }, ...options })
const agent = createLiteAgent({
  workdir: directory,
  home: directory,
  strictMcpConfig: true,
  model: fakeProvider(turn()),
  permission: policy({ ask: ['mcp_connect'], default: 'allow' }),
  onApproval: {
    async request(call) {
      seen.approvals.push(call)
      return 'allow'
    },
  },
  mcpOAuth: {
    docs: {
      serverUrl: server.url,
      allowedOrigins: [server.origins.a, server.origins.b],
      provider: provider(),
      authorize: open,
      stepUp,
    },
  },
})
agent.subscribe((record) => seen.events.push(record))

const attempt = async (act) => {
  try {
    return await act()
  } catch (error) {
    seen.errors.push({ message: error.message, stack: error.stack, json: JSON.stringify(error), text: String(error) })
  } finally {
    seen.lists.push(agent.mcp.list())
  }
}
await attempt(() => agent.mcp.register('docs', server.config))
if (next) await server.control(next)
await attempt(async () => {
  for await (const event of agent.run('go')) seen.events.push(event)
})
await agent.close()
const issued = server.issued()
for (const { access, refresh } of issued) secrets.add(access).add(refresh)
for (const { headers } of server.at('a', '/token')) {
  // Client and secret as `Basic` carries them, and as they would be without being form-encoded.
  const basic = /^Basic (.+)$/.exec(headers.authorization ?? '')?.[1]
  if (basic) secrets.add(basic).add(btoa(decodeURIComponent(atob(basic).replaceAll('+', ' '))))
}
secrets.delete(null)
writeFileSync(out, JSON.stringify({ seen, secrets: [...secrets], issued: issued.length }))
bench.dispose()
