// The host's OAuth providers: their configuration checked, their members called on their own object.

/** @import { McpOAuthConfig, McpOAuthProvider } from '../index.js' */

const { ConfigError, McpError } = require('./errors.js')
const { encodeJson, isRecord, kindOf, requireKnownKeys } = require('./json.js')

const FIELDS = ['serverUrl', 'allowedOrigins', 'provider', 'authorize', 'timeoutMs', 'stepUp']

/** The members that may be absent; the native core asks for the ones that are there. */
const MEMBERS = [
  'clientInformation',
  'saveClientInformation',
  'tokens',
  'saveTokens',
  'saveCodeVerifier',
  'codeVerifier',
  'saveDiscoveryState',
  'discoveryState',
  'invalidateCredentials',
  'prepareTokenRequest',
  'addClientAuthentication',
  'validateResourceURL',
  'saveResourceUrl',
  'saveAuthorizationServerUrl',
]

/** @typedef {Record<string, unknown>} Members */

/**
 * @typedef {object} OAuthPart
 * @property {McpOAuthProvider} provider
 * @property {McpOAuthConfig['authorize']} [authorize]
 */

/**
 * A name for each provider object, the same in every agent of this thread.
 *
 * @type {WeakMap<object, string>}
 */
const names = new WeakMap()

/** @param {object} provider */
function nameOf(provider) {
  const name = names.get(provider) ?? globalThis.crypto.randomUUID()
  names.set(provider, name)
  return name
}

/**
 * Checks `mcpOAuth` and splits it: what travels to the native core, and what stays here. Calls no provider.
 *
 * @param {unknown} value
 */
function readOAuth(value) {
  /** @type {Map<string, OAuthPart>} */
  const parts = new Map()
  if (value === undefined) return { native: undefined, parts }
  if (!isRecord(value)) throw new ConfigError(`"mcpOAuth" must be an object, not ${kindOf(value)}`)
  /** @type {Record<string, unknown>} */
  const native = {}
  for (const [name, entry] of Object.entries(value)) {
    const at = `mcpOAuth.${name}`
    if (!isRecord(entry)) throw new ConfigError(`${at} must be an object, not ${kindOf(entry)}`)
    requireKnownKeys(entry, FIELDS, `field of ${at}:`)
    const { serverUrl, allowedOrigins, provider, authorize, timeoutMs, stepUp } = entry
    if (typeof serverUrl !== 'string')
      throw new ConfigError(`${at}.serverUrl must be a string, not ${kindOf(serverUrl)}`)
    if (!Array.isArray(allowedOrigins) || allowedOrigins.some((origin) => typeof origin !== 'string')) {
      throw new ConfigError(`${at}.allowedOrigins must be an array of strings`)
    }
    if (typeof provider !== 'object' || provider === null || Array.isArray(provider)) {
      throw new ConfigError(`${at}.provider must be a provider object, not ${kindOf(provider)}`)
    }
    if (authorize !== undefined && typeof authorize !== 'function') {
      throw new ConfigError(`${at}.authorize must be a function, not ${kindOf(authorize)}`)
    }
    if (
      timeoutMs !== undefined &&
      !(Number.isInteger(timeoutMs) && Number(timeoutMs) >= 1 && Number(timeoutMs) <= 600000)
    ) {
      throw new ConfigError(`${at}.timeoutMs must be a whole number from 1 to 600000`)
    }
    if (stepUp !== undefined && stepUp !== 'fail' && stepUp !== 'authorize') {
      throw new ConfigError(`${at}.stepUp must be "fail" or "authorize"`)
    }
    native[name] = {
      serverUrl,
      allowedOrigins,
      timeoutMs,
      stepUp,
      hasAuthorize: authorize !== undefined,
      provider: nameOf(provider),
    }
    parts.set(name, /** @type {OAuthPart} */ (/** @type {unknown} */ ({ provider, authorize })))
  }
  return { native, parts }
}

/**
 * Calls one member for the native core, on the host's own object; gives JSON text.
 *
 * @param {OAuthPart} part
 * @param {string} member
 * @param {unknown[]} args
 * @param {AbortSignal} signal
 * @returns {Promise<string>}
 */
async function callProvider({ provider }, member, args, signal) {
  const own = /** @type {Members} */ (/** @type {unknown} */ (provider))
  switch (member) {
    case 'describe':
      return json(describe(own), member)
    case 'invalidateCredentials':
      return json(await invalidate(own, args, signal), member)
    case 'prepareTokenRequest': {
      const params = await call(own, member, args)
      return json(params == null ? null : pairs(params, member), member)
    }
    case 'addClientAuthentication':
      return json(await authenticate(own, args), member)
    case 'validateResourceURL': {
      const [server, resource] = args
      const url = await call(own, member, [new URL(String(server)), resource ?? undefined])
      return json(url instanceof URL ? url.href : url, member)
    }
    default:
      return json(await call(own, member, args), member)
  }
}

/**
 * @param {Members} provider
 * @param {string} member
 * @param {unknown[]} args
 */
function call(provider, member, args) {
  const method = provider[member]
  if (typeof method !== 'function') throw new McpError(`the OAuth provider has no ${member}()`)
  return Reflect.apply(method, provider, args)
}

/** @param {Members} provider */
function describe(provider) {
  const members = MEMBERS.filter((member) => typeof provider[member] === 'function')
  if (provider.dpop != null) members.push('dpop')
  return {
    redirectUrl: address(provider.redirectUrl),
    clientMetadata: provider.clientMetadata,
    clientMetadataUrl: address(provider.clientMetadataUrl),
    members,
  }
}

/** @param {unknown} value */
const address = (value) => (value instanceof URL ? value.href : value)

/**
 * Invalidates what was refused, unless the store holds something else by now.
 *
 * @param {Members} provider
 * @param {unknown[]} args
 * @param {AbortSignal} signal
 */
async function invalidate(provider, [scope, ctx, seen], signal) {
  const stored = await call(provider, scope === 'client' ? 'clientInformation' : 'tokens', [ctx])
  const marks = Object.entries(/** @type {Members} */ (seen))
  if (isRecord(stored) && marks.some(([name, value]) => (stored[name] ?? null) !== value)) return false
  signal.throwIfAborted()
  await call(provider, 'invalidateCredentials', [scope])
  return true
}

/**
 * @param {Members} provider
 * @param {unknown[]} args
 */
async function authenticate(provider, [headerPairs, paramPairs, url, metadata]) {
  const headers = new Headers(/** @type {[string, string][]} */ (headerPairs))
  const params = new URLSearchParams(/** @type {[string, string][]} */ (paramPairs))
  await call(provider, 'addClientAuthentication', [headers, params, new URL(String(url)), metadata])
  return { headers: [...headers], params: [...params] }
}

/**
 * @param {unknown} params
 * @param {string} member
 */
function pairs(params, member) {
  if (params instanceof URLSearchParams) return [...params]
  throw new McpError(`the OAuth provider's ${member}() must return URLSearchParams, not ${kindOf(params)}`)
}

/**
 * @param {unknown} value
 * @param {string} member
 * @returns {string}
 */
function json(value, member) {
  const text = encodeJson(value ?? null)
  if (text === undefined) throw new McpError(`the OAuth provider's ${member} is ${kindOf(value)}, which is no JSON`)
  return text
}

/**
 * Lets the host open the page; gives the callback's URL as JSON text.
 *
 * @param {OAuthPart} part
 * @param {string} url
 * @param {AbortSignal} signal
 */
async function authorizeWith({ authorize }, url, signal) {
  if (!authorize) throw new McpError('there is no authorize function')
  const callback = await authorize(new URL(url), { signal })
  return json(address(callback), 'authorize')
}

module.exports = { readOAuth, callProvider, authorizeWith }
