// A host's storage for one server and one user: a JSON file that only its owner can read.
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** One file for each user and server: what one knows is never seen by another. */
export const storageFile = (root, user, serverUrl) =>
  join(
    root,
    'oauth',
    `${createHash('sha256')
      .update(JSON.stringify([user, serverUrl]))
      .digest('hex')}.json`,
  )

export class FileProvider {
  #file
  #redirectUrl

  /** @param {{ file: string, redirectUrl: string }} options */
  constructor({ file, redirectUrl }) {
    this.#file = file
    this.#redirectUrl = redirectUrl
  }

  get redirectUrl() {
    return this.#redirectUrl
  }

  get clientMetadata() {
    return { client_name: 'my application', redirect_uris: [this.#redirectUrl] }
  }

  clientInformation({ issuer } = {}) {
    return this.#read().clients?.[issuer]
  }

  saveClientInformation(client, { issuer }) {
    this.#change((kept) => {
      kept.clients = { ...kept.clients, [issuer]: client }
    })
  }

  tokens(ctx) {
    const { tokens, current } = this.#read()
    return tokens?.[ctx?.issuer ?? current]
  }

  saveTokens(tokens, { issuer }) {
    this.#change((kept) => {
      kept.tokens = { ...kept.tokens, [issuer]: tokens }
      kept.current = issuer
    })
  }

  saveCodeVerifier(verifier) {
    this.#change((kept) => {
      kept.verifier = verifier
    })
  }

  codeVerifier() {
    return this.#read().verifier
  }

  saveDiscoveryState(discovery) {
    this.#change((kept) => {
      kept.discovery = discovery
    })
  }

  discoveryState() {
    return this.#read().discovery
  }

  invalidateCredentials(scope) {
    if (scope === 'all') return rmSync(this.#file, { force: true })
    const issuer = this.discoveryState()?.authorizationServerUrl
    this.#change((kept) => {
      if (scope === 'client') delete kept.clients?.[issuer]
      if (scope === 'tokens') delete kept.tokens?.[issuer]
      if (scope === 'verifier') delete kept.verifier
      if (scope === 'discovery') delete kept.discovery
    })
  }

  #read() {
    try {
      return JSON.parse(readFileSync(this.#file, 'utf8'))
    } catch (error) {
      if (error.code === 'ENOENT') return {}
      throw error
    }
  }

  /** Replaces the file as a whole, so that another process never reads half of it. */
  #change(act) {
    const kept = this.#read()
    act(kept)
    mkdirSync(dirname(this.#file), { recursive: true, mode: 0o700 })
    const fresh = `${this.#file}.${process.pid}.tmp`
    writeFileSync(fresh, JSON.stringify(kept), { mode: 0o600 })
    renameSync(fresh, this.#file)
  }
}
