// The client that the conformance suite runs: connects to one server over the public API and calls each tool once.
//
// Usage: node driver.mjs <server URL>. The suite names the scenario and its data in the environment.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLiteAgent, policy, textBlock } from '@lite-agent/sdk'
import {
  ClientCredentialsProvider,
  CrossAppAccessProvider,
  PrivateKeyJwtProvider,
  requestJwtAuthorizationGrant,
} from '@modelcontextprotocol/client'

const url = process.argv.at(-1)
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? ''
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}')
const redirectUrl = 'http://localhost:3000/callback'

/** A value that fits a schema well enough. */
function sample(schema = {}) {
  if (schema.enum) return schema.enum[0]
  const type = [schema.type].flat()[0]
  if (type === 'number' || type === 'integer') return schema.minimum ?? 5
  if (type === 'boolean') return true
  if (type === 'array') return []
  if (type === 'object' || schema.properties) return sampleObject(schema)
  return type === 'null' ? null : 'test'
}
const sampleObject = ({ properties = {} }) =>
  Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, sample(schema)]))

/** The calls that the suite wants, or one of each tool. A tool that takes a schema gets the one of the tool before it. */
function callsOf(tools) {
  if (context.toolCalls) {
    // An argument that is null does not fit its schema, and would not be sent: leaving it out says the same.
    return context.toolCalls.map(({ name, arguments: input }) => ({
      name: `mcp__server__${name}`,
      input: Object.fromEntries(Object.entries(input).filter(([, value]) => value !== null)),
    }))
  }
  return tools.map(({ name, parameters }, index) => {
    const echoes = Object.keys(parameters.properties ?? {}).join() === 'schema' && index > 0
    return { name, input: echoes ? { schema: tools[index - 1].parameters } : sampleObject(parameters) }
  })
}

/** Makes these calls, then ends. */
const model = {
  id: 'driver',
  async *stream({ messages, tools = [] }) {
    const asked = messages.some(({ role }) => role === 'assistant')
    const calls = callsOf(tools).map((call, index) => ({ type: 'tool_call', id: `call-${index}`, ...call }))
    const content = asked || calls.length === 0 ? [textBlock('done')] : calls
    yield { type: 'message_done', message: { role: 'assistant', content }, stopReason: asked ? 'stop' : 'tool_use' }
  },
}

/** Storage for the length of a run. */
class Memory {
  #clients = new Map()
  #tokens = new Map()
  #current
  clientMetadataUrl = 'https://conformance-test.local/client-metadata.json'
  redirectUrl = redirectUrl
  clientMetadata = {
    client_name: 'lite-agent conformance driver',
    redirect_uris: [redirectUrl],
    grant_types: ['authorization_code', 'refresh_token'],
  }
  clientInformation({ issuer }) {
    const known = context.client_id && (!context.issuer || context.issuer === issuer)
    if (known) return { client_id: context.client_id, client_secret: context.client_secret, issuer: context.issuer }
    return this.#clients.get(issuer)
  }
  saveClientInformation(client, { issuer }) {
    this.#clients.set(issuer, client)
  }
  tokens({ issuer } = {}) {
    return this.#tokens.get(issuer ?? this.#current)
  }
  saveTokens(tokens, { issuer }) {
    this.#tokens.set(issuer, tokens)
    this.#current = issuer
  }
  saveCodeVerifier(verifier) {
    this.verifier = verifier
  }
  codeVerifier() {
    return this.verifier
  }
  saveDiscoveryState(state) {
    this.state = state
  }
  discoveryState() {
    return this.state
  }
  invalidateCredentials(scope) {
    if (scope === 'client' || scope === 'all') this.#clients.clear()
    if (scope === 'tokens' || scope === 'all') this.#tokens.clear()
  }
}

/** A workload that shows the token it was given. */
class Workload extends Memory {
  redirectUrl = undefined
  clientMetadata = { redirect_uris: [], token_endpoint_auth_method: 'none' }
  clientInformation() {
    return { client_id: context.client_id, token_endpoint_auth_method: 'none' }
  }
  prepareTokenRequest() {
    const grant_type = 'urn:ietf:params:oauth:grant-type:jwt-bearer'
    return new URLSearchParams({ grant_type, assertion: context.valid_jwt })
  }
}

function provider() {
  if (scenario.startsWith('auth/client-credentials-basic')) {
    return new ClientCredentialsProvider({ clientId: context.client_id, clientSecret: context.client_secret })
  }
  if (scenario.startsWith('auth/client-credentials-jwt')) {
    const { client_id: clientId, private_key_pem: privateKey, signing_algorithm: algorithm } = context
    return new PrivateKeyJwtProvider({ clientId, privateKey, algorithm })
  }
  if (scenario.startsWith('auth/enterprise-managed-authorization')) {
    const { client_id: clientId, client_secret: clientSecret, ...idp } = context
    const assertion = async ({ authorizationServerUrl: audience, resourceUrl: resource }) => {
      const answer = await requestJwtAuthorizationGrant({
        tokenEndpoint: idp.idp_token_endpoint,
        audience,
        resource,
        idToken: idp.idp_id_token,
        clientId: idp.idp_client_id,
      })
      return answer.jwtAuthGrant
    }
    return new CrossAppAccessProvider({ assertion, clientId, clientSecret })
  }
  if (scenario.startsWith('auth/wif-jwt-bearer')) return new Workload()
  return new Memory()
}

/** Agrees to whatever the page asks. */
async function authorize(page, { signal }) {
  const response = await fetch(page, { redirect: 'manual', signal })
  return response.headers.get('location')
}

const directory = mkdtempSync(join(tmpdir(), 'lite-agent-conformance-'))
// The suite's authorization server listens on a port of this machine that nobody knows before.
const allowedOrigins = Array.from({ length: 65535 }, (_, port) => `http://localhost:${port + 1}`)
const agent = createLiteAgent({
  workdir: directory,
  home: directory,
  strictMcpConfig: true,
  model,
  permission: policy({ default: 'allow' }),
  mcpOAuth: { server: { serverUrl: url, allowedOrigins, provider: provider(), authorize, stepUp: 'authorize' } },
})
try {
  await agent.mcp.register('server', { type: 'http', url, timeoutMs: 10000 })
  for (let run = 0; run < (scenario === 'auth/authorization-server-migration' ? 2 : 1); run++) {
    if (run > 0) {
      await agent.mcp.unregister('server')
      await agent.mcp.register('server', { type: 'http', url, timeoutMs: 10000 })
    }
    for await (const event of agent.run('Call every tool', { sessionId: `run-${run}` })) {
      if (event.type === 'tool_result')
        console.log(event.result.name, event.result.isError ? event.result.content : 'ok')
    }
  }
} catch (error) {
  console.error(`${error.code}: ${error.message}`)
  // A tool whose schema points to the network is refused, and with it its server: that is what should happen.
  if (!(scenario === 'json-schema-ref-no-deref' && error.code === 'MCP_SCHEMA')) process.exitCode = 1
} finally {
  await agent.close()
  rmSync(directory, { recursive: true, force: true })
}
