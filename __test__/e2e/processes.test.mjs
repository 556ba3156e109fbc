// What the process of a stdio server is given, and what is told of its end.
import { spawnSync } from 'node:child_process'
import { mkdirSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLiteAgent, fakeProvider, policy } from '@lite-agent/sdk'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createBench, textTurn } from '../servers/start.mjs'

let bench
beforeEach(() => {
  bench = createBench()
})
afterEach(() => bench.dispose())

/** Runs children/server.mjs in the bench's directory; it goes to `elsewhere` before its server starts. */
function runChild(config, { env = {}, stdio = ['ignore', 'pipe', 'pipe'] } = {}) {
  const elsewhere = join(bench.directory, 'elsewhere')
  mkdirSync(elsewhere)
  const script = fileURLToPath(new URL('children/server.mjs', import.meta.url))
  return spawnSync(process.execPath, [script, JSON.stringify(config), elsewhere], {
    cwd: bench.directory,
    env: { ...process.env, ...env },
    stdio,
    encoding: 'utf8',
    maxBuffer: 16 << 20,
  })
}

test('a relative workdir stays the directory it was when the agent was made', () => {
  const server = bench.stdio('official-stdio')
  const child = runChild(server.config)
  expect(child).toMatchObject({ status: 0, stderr: '' })
  expect(server.entries()[0]).toMatchObject({ started: true, cwd: realpathSync(bench.directory) })
})

describe('the standard error of a server', () => {
  const said = 'x'.repeat(1 << 20)

  test('is not passed through', () => {
    const server = bench.stdio('raw-stdio', { stderr: true })
    expect(runChild(server.config)).toMatchObject({ status: 0, stderr: '' })
  })

  test('reaches that of Node.js with LITE_AGENT_MCP_STDERR=inherit', () => {
    const server = bench.stdio('raw-stdio', { stderr: true })
    const child = runChild(server.config, { env: { LITE_AGENT_MCP_STDERR: 'inherit' } })
    expect(child.status).toBe(0)
    expect(child.stderr).toContain(said)
  })
})

describe.each([
  ['exits', 'exit', 'exited with code 3'],
  ['is killed', 'killed', 'was ended by the signal SIGKILL'],
])('a server that %s', (_, mode, why) => {
  const fail = async (config) => {
    const server = bench.stdio('raw-stdio', { discover: mode })
    const agent = createLiteAgent({
      workdir: bench.directory,
      home: bench.directory,
      model: fakeProvider([textTurn('done')]),
      permission: policy({}),
      mcpServers: { s: server.config },
      ...config,
    })
    const error = await agent.send('go').catch((caught) => caught)
    await agent.close()
    return error
  }

  test('is said to, with the way to see more', async () => {
    const error = await fail({})
    expect(error).toMatchObject({ code: 'MCP_EXITED', message: expect.stringContaining(why) })
    expect(error.message).toContain('LITE_AGENT_MCP_STDERR=inherit')
    expect(error.message).not.toContain('sandbox')
  })

  test('in a sandbox is said to have been in it', async () => {
    const error = await fail({ sandbox: { id: 'plain', wrap: (command) => `exec ${command}` } })
    expect(error).toMatchObject({ code: 'MCP_EXITED', message: expect.stringContaining(why) })
    expect(error.message).toMatch(/LITE_AGENT_MCP_STDERR=inherit.*sandbox/)
  })
})
