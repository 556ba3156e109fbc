// An MCP server behind OAuth and two authorization servers, each on a port of its own, that misbehave as told.
// Node built-ins only.
//
// Everything that arrives is logged: `{ at, verb, path, query, headers, form, message }`. A switch is set by an option
// or, later, by POSTing JSON to `/control` of the MCP server; `answers` hold for that many requests, then the default
// is back. See `defaults` for the switches.
import { createHash, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { options, record } from './log.mjs'
import { answer } from './raw.mjs'

const defaults = {
  /** Which methods need a token: all, or a list of them. */
  protect: 'all',
  /** The challenge: full, none (no header), bare (no address), or a text in which PRM stands for the address. */
  challenge: 'full',
  /** The scope that the challenge names. */
  challengeScope: undefined,
  /** Where the protected-resource metadata is served: path, root, elsewhere (only the challenge says it), nowhere. */
  prmAt: 'path',
  /** Members of that document, over the good ones; `null` removes one. */
  prm: {},
  /** Text sent in its place. */
  prmText: undefined,
  /** Which authorization server the document names: a, b. */
  use: 'a',
  /** The path of the issuers. */
  issuerPath: '',
  /** Which of the three addresses hold metadata: oauth, oidc, appended. */
  metadataAt: ['oauth', 'oidc', 'appended'],
  /** Members of the metadata, over the good ones; `null` removes one. By address where a member is named so. */
  metadata: {},
  metadataBy: {},
  /** Whether callbacks name the issuer, and whether that is announced. */
  iss: true,
  issAnnounced: true,
  /** What a sign-in comes to: good, denied. */
  signIn: 'good',
  /** How long access tokens last, in seconds; a text is sent as one, null is left out. */
  expiresIn: 3600,
  /** Whether a refresh token works once only, and whether there are any. */
  rotate: true,
  refreshTokens: true,
  /** Whether a refresh is answered with a refresh token. */
  refreshAnswer: 'full',
  tokenType: 'Bearer',
  /** The form of a token answer: json, form, error200 (refusals with status 200). */
  tokenForm: 'json',
  /** Members of the token answer, over the good ones. */
  token: {},
  /** What the next token requests get: `{ kind, times }` with hold, hang, drop, html, 500, 503, redirect, huge, error. */
  tokenFault: undefined,
  /** What the registration answers, over the good members; or `{ error, status }`. */
  registration: {},
  registrationFault: undefined,
  registers: true,
  /** Client authentication that is insisted on, by method name. */
  clientAuth: undefined,
  /** Clients known beforehand: `{ id: secret }`. */
  clients: {},
  /** Assertions accepted for `private_key_jwt`: any that is not empty. */
  /** Scope that a method needs, or a method of one tool, as `{ 'tools/call': 'files:write', 'tools/call echo': 'a' }`. */
  needs: {},
  /** The names of its tools, where there are others than the one. */
  tools: undefined,
  /** Whether every token falls short of it. */
  forgetScope: false,
  /** What metadata requests get instead: a fault by its name, or `{ kind, at }` for one of the addresses. */
  metadataFault: undefined,
  /** What requests for the protected-resource metadata get instead. */
  prmFault: undefined,
}
const now = { ...defaults, ...options }
const held = []
const servers = {}

const pick = (base, over) => {
  const all = { ...base, ...over }
  for (const [key, value] of Object.entries(all)) if (value === null) delete all[key]
  return all
}
const json = (response, status, value) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
const html = (response, status) =>
  response.writeHead(status, { 'content-type': 'text/html' }).end('<html>REMOTE-TEXT a page</html>')
const random = () => randomBytes(24).toString('base64url')

/** One authorization server. */
function authorizationServer(name) {
  const clients = new Map(Object.entries(now.clients))
  const registered = new Map()
  const codes = new Map()
  const refreshes = new Map()
  const tokens = new Map()
  const site = { name, clients, registered, codes, refreshes, tokens, origin: '' }
  const issuer = () => `${site.origin}${now.issuerPath}`
  site.issuer = issuer

  const good = () => ({
    issuer: issuer(),
    authorization_endpoint: `${site.origin}/authorize`,
    token_endpoint: `${site.origin}/token`,
    ...(now.registers ? { registration_endpoint: `${site.origin}/register` } : {}),
    response_types_supported: ['code'],
    code_challenge_methods_supported: ['S256'],
    ...(now.issAnnounced ? { authorization_response_iss_parameter_supported: true } : {}),
  })

  function metadata(path, response) {
    const places = {
      [`/.well-known/oauth-authorization-server${now.issuerPath}`]: 'oauth',
      [`/.well-known/openid-configuration${now.issuerPath}`]: 'oidc',
      ...(now.issuerPath ? { [`${now.issuerPath}/.well-known/openid-configuration`]: 'appended' } : {}),
    }
    const place = places[path]
    if (!place || !now.metadataAt.includes(place)) return json(response, 404, {})
    const kind = now.metadataFault?.kind ?? now.metadataFault
    if (kind && (now.metadataFault.kind === undefined || now.metadataFault.at === place)) return fault(kind, response)
    const by = now.metadataBy[place]
    if (typeof by === 'string') return response.writeHead(200, { 'content-type': 'application/json' }).end(by)
    json(response, 200, pick(good(), { ...now.metadata, ...by }))
  }

  function authorize(query, response) {
    const back = new URL(query.redirect_uri)
    back.searchParams.set('state', query.state)
    if (now.iss) back.searchParams.set('iss', now.iss === true ? issuer() : now.iss)
    if (now.signIn === 'denied') {
      back.searchParams.set('error', 'access_denied')
      back.searchParams.set('error_description', 'REMOTE-TEXT denied')
    } else {
      const code = options.code ?? `code-${random()}`
      codes.set(code, query)
      back.searchParams.set('code', code)
    }
    response.writeHead(302, { location: back.href }).end()
  }

  /** The client of a token request, or undefined. */
  function clientOf(headers, form) {
    const basic = /^Basic (.+)$/.exec(headers.authorization ?? '')
    const decode = (text) => decodeURIComponent(text.replaceAll('+', ' '))
    let id = form.client_id
    let secret = form.client_secret
    let method = secret === undefined ? 'none' : 'client_secret_post'
    if (basic) {
      if (form.client_id !== undefined || form.client_secret !== undefined) return undefined
      const text = Buffer.from(basic[1], 'base64').toString()
      id = decode(text.slice(0, text.indexOf(':')))
      secret = decode(text.slice(text.indexOf(':') + 1))
      method = 'client_secret_basic'
    }
    if (form.client_assertion) {
      method = 'private_key_jwt'
      id ??= JSON.parse(Buffer.from(form.client_assertion.split('.')[1], 'base64url').toString()).sub
      if (form.client_assertion_type !== 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer') return undefined
    } else {
      const known = clients.get(id)
      const document = id?.startsWith('https://') && now.metadata.client_id_metadata_document_supported
      if (!document && !clients.has(id)) return undefined
      if (known && known !== secret) return undefined
    }
    if (now.clientAuth && method !== now.clientAuth) return undefined
    return { id, method }
  }

  function issue(response, client, scope, resource, before) {
    const access = options.access ? `${options.access}-${random()}` : `access-${random()}`
    tokens.set(access, { client, scope, resource, name })
    const body = { access_token: access, token_type: now.tokenType, expires_in: now.expiresIn, scope }
    if (now.refreshTokens && !(before && now.refreshAnswer === 'none')) {
      const refresh =
        before && !now.rotate ? before : options.refresh ? `${options.refresh}-${random()}` : `refresh-${random()}`
      refreshes.set(refresh, { client, scope, resource })
      body.refresh_token = refresh
    }
    const all = pick(body, now.token)
    record({ at: name, issued: { access, scope: scope ?? null, refresh: all.refresh_token ?? null } })
    if (now.tokenForm === 'form') {
      response.writeHead(200, { 'content-type': 'application/x-www-form-urlencoded' })
      return response.end(
        new URLSearchParams(Object.entries(all).filter(([, value]) => value !== undefined)).toString(),
      )
    }
    json(response, 200, all)
  }

  function refuse(response, error, status = 400) {
    const body = { error, error_description: 'REMOTE-TEXT refused' }
    if (now.tokenForm === 'form') {
      response.writeHead(status, { 'content-type': 'application/x-www-form-urlencoded' })
      return response.end(new URLSearchParams(body).toString())
    }
    json(response, now.tokenForm === 'error200' ? 200 : status, body)
  }

  function token(request, form, response) {
    const { tokenFault } = now
    if (tokenFault && (tokenFault.times ?? 1) > 0) {
      tokenFault.times = (tokenFault.times ?? 1) - 1
      if (tokenFault.kind === 'hold') return held.push(() => grant(request, form, response))
      if (tokenFault.kind === 'error') return refuse(response, tokenFault.error, tokenFault.status)
      return fault(tokenFault.kind, response)
    }
    grant(request, form, response)
  }

  function grant({ headers }, form, response) {
    const client = clientOf(headers, form)
    if (!client) return refuse(response, 'invalid_client', 401)
    if (form.grant_type === 'client_credentials') {
      return issue(response, client.id, form.scope, form.resource)
    }
    if (form.grant_type === 'authorization_code') {
      const asked = codes.get(form.code)
      codes.delete(form.code)
      const challenge = createHash('sha256')
        .update(form.code_verifier ?? '')
        .digest('base64url')
      const fits =
        asked?.client_id === client.id && asked.redirect_uri === form.redirect_uri && asked.code_challenge === challenge
      if (!fits || asked.resource !== form.resource) return refuse(response, 'invalid_grant')
      return issue(response, client.id, asked.scope, form.resource)
    }
    if (form.grant_type === 'refresh_token') {
      const known = refreshes.get(form.refresh_token)
      if (known?.client !== client.id) return refuse(response, 'invalid_grant')
      if (now.rotate && now.refreshAnswer !== 'none') refreshes.delete(form.refresh_token)
      for (const [access, { client: owner }] of tokens) if (owner === client.id) tokens.delete(access)
      return issue(response, client.id, known.scope, known.resource, form.refresh_token)
    }
    refuse(response, 'unsupported_grant_type')
  }

  function register(body, response) {
    if (now.registrationFault) {
      const { kind, error, status = 400 } = now.registrationFault
      return kind ? fault(kind, response) : json(response, status, { error, error_description: 'REMOTE-TEXT no' })
    }
    const id = `client-${random()}`
    const secret = options.secret ? `${options.secret}-${random()}` : `secret-${random()}`
    const method =
      now.registration.token_endpoint_auth_method ?? body.token_endpoint_auth_method ?? 'client_secret_basic'
    clients.set(id, method === 'none' ? undefined : secret)
    registered.set(id, body)
    const answer = { ...body, client_id: id, token_endpoint_auth_method: method }
    if (method !== 'none') Object.assign(answer, { client_secret: secret, client_secret_expires_at: 0 })
    json(response, 201, pick(answer, now.registration))
  }

  const server = createServer(async (request, response) => {
    const { path, query, text } = await arrived(name, request)
    if (path === '/authorize') return authorize(query, response)
    if (path === '/token') return token(request, Object.fromEntries(new URLSearchParams(text)), response)
    if (path === '/register') return register(JSON.parse(text), response)
    if (path.includes('/.well-known/')) return metadata(path, response)
    json(response, 404, {})
  })
  servers[name] = { server, site }
  return site
}

const faults = {
  hang: () => {},
  drop: (response) => response.socket.destroy(),
  html: (response) => html(response, 200),
  html400: (response) => html(response, 400),
  500: (response) => json(response, 500, { error: 'invalid_grant' }),
  503: (response) => html(response, 503),
  429: (response) => json(response, 429, {}),
  redirect: (response) => response.writeHead(307, { location: `${servers.b.site.origin}/stolen` }).end(),
  huge: (response) => json(response, 200, { filler: 'x'.repeat(2 << 20) }),
  empty: (response) => response.writeHead(200).end(),
}
const fault = (kind, response) => faults[kind](response)

/** Reads a request and writes it down. */
async function arrived(at, request) {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  const text = Buffer.concat(chunks).toString()
  const url = new URL(request.url, 'http://here')
  const query = Object.fromEntries(url.searchParams)
  const kind = request.headers['content-type'] ?? ''
  const entry = { at, verb: request.method, path: url.pathname, query, headers: request.headers }
  if (kind.includes('form')) entry.form = Object.fromEntries(new URLSearchParams(text))
  else if (text && url.pathname !== '/control') entry.message = JSON.parse(text)
  if (url.pathname !== '/control') record(entry)
  return { path: url.pathname, query, text }
}

const sites = { a: authorizationServer('a'), b: authorizationServer('b') }

const actions = {
  set: (values) => Object.assign(now, values),
  release: () => {
    for (const go of held.splice(0)) go()
  },
  /** Access tokens that are out stop working. */
  revoke: () => {
    for (const site of Object.values(sites)) site.tokens.clear()
  },
  revokeRefresh: () => {
    for (const site of Object.values(sites)) site.refreshes.clear()
  },
  /** Clients that are known from now on: `{ id: secret }`. */
  know: (clients) => {
    for (const [id, secret] of Object.entries(clients)) sites.a.clients.set(id, secret)
  },
  forgetClients: () => {
    for (const site of Object.values(sites)) site.clients.clear()
  },
  /** Tokens that the test hands out itself: `{ access, refresh, client, scope }`. */
  grant: ({ at = 'a', access, refresh, client, scope }) => {
    if (access) sites[at].tokens.set(access, { client, scope, name: at })
    if (refresh) sites[at].refreshes.set(refresh, { client, scope })
  },
  held: () => held.length,
}

const mcp = createServer(async (request, response) => {
  const { path, text } = await arrived('mcp', request)
  const origin = `http://${request.headers.host}`
  if (path === '/control') {
    const results = Object.entries(JSON.parse(text)).map(([name, value]) => actions[name](value))
    return json(response, 200, results)
  }
  if (path.includes('/.well-known/') || path === '/elsewhere') return resourceMetadata(path, origin, response)
  const message = text ? JSON.parse(text) : {}
  const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1]
  const grant = sites[now.use].tokens.get(token)
  const needed = now.protect === 'all' || now.protect.includes(message.method)
  if (needed && !grant) return challenge(401, origin, response)
  const scope = now.needs[`${message.method} ${message.params?.name}`] ?? now.needs[message.method]
  const missing = scope && (now.forgetScope || !(grant?.scope ?? '').split(' ').includes(scope))
  if (missing) return challenge(403, origin, response, `error="insufficient_scope", scope="${scope}"`)
  if (message.id === undefined) return response.writeHead(202).end()
  record({ at: 'mcp', served: message.method })
  const whole = answer(message)
  if (now.tools && message.method === 'tools/list') {
    whole.result.tools = now.tools.map((name) => ({ ...whole.result.tools[0], name }))
  }
  json(response, 200, whole)
})

function prmAddress(origin) {
  if (now.prmAt === 'elsewhere') return `${origin}/elsewhere`
  return `${origin}/.well-known/oauth-protected-resource${now.prmAt === 'root' ? '' : '/mcp'}`
}

function resourceMetadata(path, origin, response) {
  if (now.prmAt === 'nowhere' || `${origin}${path}` !== prmAddress(origin)) return json(response, 404, {})
  if (now.prmText !== undefined) return response.writeHead(200, { 'content-type': 'application/json' }).end(now.prmText)
  if (now.prmFault) return fault(now.prmFault, response)
  const good = { resource: `${origin}/mcp`, authorization_servers: [sites[now.use].issuer()] }
  json(response, 200, pick(good, now.prm))
}

function challenge(status, origin, response, extra) {
  const headers = {}
  const scope = now.challengeScope === undefined ? '' : `, scope="${now.challengeScope}"`
  if (now.challenge === 'bare') headers['www-authenticate'] = 'Bearer realm="x"'
  else if (now.challenge !== 'none' && now.challenge !== 'full') {
    headers['www-authenticate'] = now.challenge.replaceAll('PRM', prmAddress(origin))
  } else if (now.challenge === 'full') {
    headers['www-authenticate'] =
      `Bearer ${extra ? `${extra}, ` : ''}resource_metadata="${prmAddress(origin)}"${extra ? '' : scope}`
  }
  response.writeHead(status, { ...headers, 'content-type': 'text/plain' }).end('REMOTE-TEXT no entry')
}

const listen = (server) => new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)))
for (const { server, site } of Object.values(servers)) site.origin = `http://127.0.0.1:${await listen(server)}`
record({ origins: { a: sites.a.origin, b: sites.b.origin } })
console.log(`PORT=${await listen(mcp)}`)
process.stdin.resume().on('end', () => process.exit(0))
