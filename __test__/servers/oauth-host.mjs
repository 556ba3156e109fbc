// A host's side of OAuth for tests: storage that keeps a diary, and a browser that follows redirects.
import { serverFile } from './start.mjs'

export { serverFile }

/** Starts the OAuth servers; `control` sets their switches. */
export async function startOAuth(bench, options = {}) {
  const server = await bench.http('oauth', options)
  const { origins } = server.entries().find((entry) => entry.origins)
  const control = async (actions) => {
    const response = await fetch(new URL('/control', server.url), { method: 'POST', body: JSON.stringify(actions) })
    return response.json()
  }
  const at = (name, path) =>
    server.entries().filter((entry) => entry.at === name && entry.verb && (path === undefined || entry.path === path))
  return {
    ...server,
    origins,
    control,
    at,
    tokenRequests: (name = 'a') => at(name, '/token').map((entry) => entry.form),
    issued: () => server.entries().flatMap((entry) => (entry.issued ? [entry.issued] : [])),
    served: (method) => server.entries().filter((entry) => entry.served && (!method || entry.served === method)),
  }
}

/** Follows the page to its redirect, as a person who agrees does. */
export async function browse(url) {
  const response = await fetch(url, { redirect: 'manual' })
  return response.headers.get('location')
}

/** A provider that keeps everything in `store` and writes each call to `diary`. */
export class MemoryProvider {
  #store
  constructor({ redirectUrl = 'http://127.0.0.1:8765/callback', metadata = {}, store = {} } = {}) {
    this.#store = store
    this.url = redirectUrl
    this.metadata = metadata
    this.diary = []
  }
  get store() {
    return this.#store
  }
  get redirectUrl() {
    return this.url
  }
  get clientMetadata() {
    return { client_name: 'test', redirect_uris: [this.url], ...this.metadata }
  }
  note(...entry) {
    this.diary.push(entry)
  }
  clientInformation(ctx) {
    this.note('clientInformation', ctx)
    return this.#store.client
  }
  async saveClientInformation(client, ctx) {
    this.note('saveClientInformation', client, ctx)
    this.#store.client = client
  }
  async tokens(ctx) {
    this.note('tokens', ctx)
    return this.#store.tokens
  }
  saveTokens(tokens, ctx) {
    this.note('saveTokens', tokens, ctx)
    this.#store.tokens = tokens
  }
  saveCodeVerifier(verifier) {
    this.note('saveCodeVerifier')
    this.#store.verifier = verifier
  }
  codeVerifier() {
    return this.#store.verifier
  }
  saveDiscoveryState(state) {
    this.note('saveDiscoveryState', state)
    this.#store.discovery = state
  }
  async discoveryState() {
    return this.#store.discovery
  }
  invalidateCredentials(scope) {
    this.note('invalidateCredentials', scope)
    const keys = { all: ['client', 'tokens', 'verifier', 'discovery'] }[scope] ?? [scope]
    for (const key of keys) delete this.#store[key]
  }
  /** The calls of one member. */
  calls(member) {
    return this.diary.filter(([name]) => name === member).map(([, ...rest]) => rest)
  }
}
