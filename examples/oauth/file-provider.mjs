// A host's storage for one server and one user: JSON files that only their owner can read.
import { createHash, randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** One directory for each user and server: what one knows is never seen by another. */
export const storageDirectory = (root, user, serverUrl) =>
  join(
    root,
    'oauth',
    createHash('sha256')
      .update(JSON.stringify([user, serverUrl]))
      .digest('hex'),
  )

export class FileProvider {
  #directory
  #redirectUrl

  /** @param {{ directory: string, redirectUrl: string }} options */
  constructor({ directory, redirectUrl }) {
    this.#directory = directory
    this.#redirectUrl = redirectUrl
  }

  get redirectUrl() {
    return this.#redirectUrl
  }

  get clientMetadata() {
    return { client_name: 'my application', redirect_uris: [this.#redirectUrl] }
  }

  clientInformation(ctx) {
    return ofIssuer(this.#read('client'), ctx)
  }

  saveClientInformation(client) {
    this.#write('client', client)
  }

  tokens(ctx) {
    return ofIssuer(this.#read('tokens'), ctx)
  }

  saveTokens(tokens) {
    this.#write('tokens', tokens)
  }

  saveCodeVerifier(verifier) {
    this.#write('verifier', verifier)
  }

  codeVerifier() {
    return this.#read('verifier')
  }

  saveDiscoveryState(discovery) {
    this.#write('discovery', discovery)
  }

  discoveryState() {
    return this.#read('discovery')
  }

  invalidateCredentials(scope) {
    const kinds = scope === 'all' ? ['client', 'tokens', 'verifier', 'discovery'] : [scope]
    for (const kind of kinds) rmSync(this.#path(kind), { force: true })
  }

  #path(kind) {
    return join(this.#directory, `${kind}.json`)
  }

  #read(kind) {
    try {
      return JSON.parse(readFileSync(this.#path(kind), 'utf8'))
    } catch (error) {
      if (error.code === 'ENOENT') return undefined
      throw error
    }
  }

  /**
   * Each kind has a file of its own that is replaced as a whole: another process never reads half of it, and what it
   * saves meanwhile is not undone.
   */
  #write(kind, value) {
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 })
    const fresh = join(this.#directory, `${kind}.${randomUUID()}.tmp`)
    writeFileSync(fresh, JSON.stringify(value), { mode: 0o600 })
    renameSync(fresh, this.#path(kind))
  }
}

/** What was stamped with another issuer is not for this one. */
const ofIssuer = (kept, ctx) => (kept?.issuer && ctx?.issuer && kept.issuer !== ctx.issuer ? undefined : kept)
