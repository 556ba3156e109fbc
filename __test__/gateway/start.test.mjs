// The gateway starts with no configuration, keeps what it makes private, and answers only under its own names.
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { runGateway, startGateway } from '../servers/gateway.mjs'

let home
const running = []

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'lite-gateway-'))
})

afterEach(async () => {
  for (const gateway of running.splice(0)) {
    gateway.child.kill('SIGKILL')
    await gateway.ended
  }
  rmSync(home, { recursive: true, force: true })
})

const started = async (options) => {
  const gateway = await startGateway(home, options)
  running.push(gateway)
  return gateway
}

const key = (fill) => Buffer.alloc(32, fill).toString('base64')
const mode = (path) => statSync(path).mode & 0o777

it('starts with nothing set, serves, and ends in order when asked', async () => {
  const gateway = await started()
  expect(gateway.lines).toEqual([`Listening on http://localhost:${gateway.port}`])
  expect((await gateway.ask('/healthz')).status).toBe(204)
  expect((await gateway.ask('/readyz')).status).toBe(204)
  expect(mode(gateway.directory)).toBe(0o700)
  for (const name of readdirSync(gateway.directory))
    expect([name, mode(join(gateway.directory, name))]).toEqual([name, 0o600])
  expect(Buffer.from(readFileSync(join(gateway.directory, 'key'), 'utf8').trim(), 'base64')).toHaveLength(32)

  expect(await gateway.stop()).toEqual({ code: 0, signal: null })
  expect(readdirSync(gateway.directory).sort()).toEqual(['gateway.sqlite', 'key'])
})

it('keeps its key from start to start, and refuses another one without changing anything', async () => {
  await (await started()).stop()
  const before = readFileSync(join(home, 'gateway', 'gateway.sqlite'))

  const refused = await runGateway(home, [], { LITE_GATEWAY_KEY: key(7) })
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toMatch(
    /^lite-gateway: the database was written with another encryption key; start with that key/m,
  )
  expect(readFileSync(join(home, 'gateway', 'gateway.sqlite')).equals(before)).toBe(true)
  expect(refused.stderr).not.toContain(key(7))

  expect((await (await started()).ask('/readyz')).status).toBe(204)
})

it('takes its key from a variable and makes no file then', async () => {
  const gateway = await started({ env: { LITE_GATEWAY_KEY: key(7) } })
  expect(existsSync(join(gateway.directory, 'key'))).toBe(false)
  await gateway.stop()
  expect((await runGateway(home, [], { LITE_GATEWAY_KEY: 'hunter2' })).stderr).toMatch(
    /^lite-gateway: the encryption key \(LITE_GATEWAY_KEY\) is not usable; it must be 32 bytes in Base64/m,
  )
})

it('refuses a data directory or a key that others can read', async () => {
  mkdirSync(join(home, 'gateway'), { mode: 0o755 })
  chmodSync(join(home, 'gateway'), 0o755)
  expect((await runGateway(home)).stderr).toMatch(/can be read by other users; make it private with: chmod 700/)
  chmodSync(join(home, 'gateway'), 0o700)
  await (await started()).stop()
  chmodSync(join(home, 'gateway', 'key'), 0o644)
  expect((await runGateway(home)).stderr).toMatch(/can be read by other users; make it private with: chmod 600/)
})

it('refuses to listen for other machines unless it is meant and HTTPS is in front', async () => {
  const listen = ['--listen', '0.0.0.0:0']
  for (const more of [[], ['--allow-remote'], ['--allow-remote', '--public-url', 'http://localhost:1']]) {
    const refused = await runGateway(home, [...listen, ...more])
    expect(refused).toMatchObject({ code: 1, stdout: '' })
    expect(refused.stderr).toMatch(/can be reached from other machines/)
  }
  const gateway = await startGateway(home, {
    args: [...listen, '--allow-remote', '--public-url', 'https://mcp.example.com'],
  })
  running.push(gateway)
  expect(gateway.lines).toEqual(['Listening on https://mcp.example.com'])
})

it('says which address is taken', async () => {
  const gateway = await started()
  const second = await runGateway(home, ['--listen', `127.0.0.1:${gateway.port}`])
  expect(second).toMatchObject({ code: 1 })
  expect(second.stderr).toContain(`cannot listen on 127.0.0.1:${gateway.port}; is another gateway running?`)
})

it('refuses forged Host and Origin headers everywhere, and is no authorization server', async () => {
  const gateway = await started()
  const { port } = gateway
  const code = (answer) => [answer.status, answer.json().error.code]
  for (const path of ['/', '/api/servers', '/mcp/docs', '/.well-known/oauth-authorization-server']) {
    expect(code(await gateway.ask(path, { host: `evil.example:${port}` }))).toEqual([403, 'HOST_REFUSED'])
    expect(code(await gateway.ask(path, { headers: { origin: 'http://evil.example' } }))).toEqual([
      403,
      'ORIGIN_REFUSED',
    ])
  }
  for (const path of [
    '/.well-known/oauth-authorization-server',
    '/.well-known/oauth-protected-resource/mcp/docs',
    '/nothing',
  ]) {
    expect(code(await gateway.ask(path))).toEqual([404, 'NOT_FOUND'])
  }
  for (const host of [`localhost:${port}`, `127.0.0.1:${port}`, `[::1]:${port}`]) {
    expect((await gateway.ask('/nothing', { host })).status).toBe(404)
  }
})

it('lets no request head grow without end', async () => {
  const gateway = await started()
  const socket = connect(gateway.port, '127.0.0.1')
  let answer = ''
  socket.on('data', (data) => (answer += data)).on('error', () => {})
  socket.write(`GET / HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(128 * 1024)}`)
  await new Promise((resolve) => socket.on('close', resolve))
  expect(answer).toMatch(/^HTTP\/1\.1 431 /)
})
