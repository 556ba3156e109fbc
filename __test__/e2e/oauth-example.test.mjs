// The guide's storage and listener, among strangers: another process that saves, and requests that are no callback.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FileProvider } from '../../examples/oauth/file-provider.mjs'
import { openLoopback } from '../../examples/oauth/loopback.mjs'

let directory
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'lite-agent-oauth-'))
})
afterEach(() => rmSync(directory, { recursive: true }))

/** Sends one request whose target is written as it is, and gives the whole answer. */
async function knock(port, target, method = 'GET') {
  const socket = connect(Number(port), '127.0.0.1')
  socket.end(`${method} ${target} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nconnection: close\r\n\r\n`)
  return text(socket)
}

test('the listener answers strange requests and waits on for the callback of its page', async () => {
  const opened = []
  const listener = await openLoopback((url) => opened.push(url))
  const { port } = new URL(listener.redirectUrl)
  const { signal } = new AbortController()
  const arrived = []
  const page = new URL('https://login.example.com/authorize?state=mine')
  const waiting = listener.authorize(page, { signal }).then((url) => arrived.push(url.href))
  for (const [target, method] of [
    ['//'],
    ['//x:99999'],
    ['//x:99999/callback?state=mine'],
    ['http://other.example/callback?state=mine'],
    ['*', 'OPTIONS'],
    ['/'],
    ['/callback'],
    ['/callback?'],
    ['/callback?code=c'],
    ['/callback?code=c&state=another'],
    ['/callback?code=c&state=mine', 'POST'],
    ['/callback?code=c&state=mine', 'HEAD'],
    ['/callback/x?code=c&state=mine'],
    ['/callback?code=%ff%'],
  ]) {
    expect(await knock(port, target, method), `${method} ${target}`).toMatch(/^HTTP\/1\.1 404 /)
    expect(arrived).toEqual([])
  }
  expect(await knock(port, '/callback?code=c&state=mine')).toMatch(/^HTTP\/1\.1 200 /)
  await waiting
  expect(arrived).toEqual([`${listener.redirectUrl}?code=c&state=mine`])
  expect(opened).toEqual([page])
  expect(await knock(port, '/callback?code=c&state=mine')).toMatch(/^HTTP\/1\.1 404 /)
  listener.close()
})

test('what another process saves in the middle of a save stays', () => {
  const module = new URL('../../examples/oauth/file-provider.mjs', import.meta.url).href
  const code = `
    import { FileProvider } from ${JSON.stringify(module)}
    const other = new FileProvider({ directory: ${JSON.stringify(directory)}, redirectUrl: 'http://127.0.0.1:1/callback' })
    other.saveTokens({ access_token: 'newer', refresh_token: 'r2', issuer: 'https://as.example' })`
  const provider = new FileProvider({ directory, redirectUrl: 'http://127.0.0.1:1/callback' })
  provider.saveTokens({ access_token: 'old', refresh_token: 'r1', issuer: 'https://as.example' })
  // Serialising comes between whatever is read before and what is written.
  provider.saveDiscoveryState({
    toJSON() {
      expect(spawnSync(process.execPath, ['--input-type=module', '--eval', code]).status).toBe(0)
      return { authorizationServerUrl: 'https://as.example' }
    },
  })
  expect(provider.tokens()).toMatchObject({ access_token: 'newer' })
  expect(provider.discoveryState()).toEqual({ authorizationServerUrl: 'https://as.example' })

  provider.invalidateCredentials('discovery')
  expect([provider.discoveryState(), provider.tokens()?.access_token]).toEqual([undefined, 'newer'])
  expect(provider.tokens({ issuer: 'https://other.example' })).toBeUndefined()
  expect(provider.tokens({ issuer: 'https://as.example' })?.access_token).toBe('newer')
  const modes = readdirSync(directory).map((name) => [name, statSync(join(directory, name)).mode & 0o777])
  expect(modes).toEqual([['tokens.json', 0o600]])
})

test('the example runs as it is', () => {
  const example = fileURLToPath(new URL('../../examples/oauth.mjs', import.meta.url))
  const { stdout, stderr, status } = spawnSync(process.execPath, [example], { encoding: 'utf8' })
  expect(status, stderr).toBe(0)
  expect(stdout).toBe('model: The server says hello.\nstored with mode: 600\n')
})
