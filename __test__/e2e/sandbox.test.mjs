// The host's sandbox around the commands of stdio servers.
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLiteAgent, fakeProvider, policy, tool } from '@lite-agent/sdk'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { callsTurn, collect, createBench, groupMembers, resultsOf, textTurn, until } from '../servers/start.mjs'

let bench
let agents
beforeEach(() => {
  bench = createBench()
  agents = []
})
afterEach(async () => {
  await Promise.all(agents.map((agent) => agent.close()))
  bench.dispose()
})

function createAgent(config) {
  const agent = createLiteAgent({
    workdir: bench.directory,
    home: bench.directory,
    model: fakeProvider([textTurn('done'), textTurn('done')]),
    permission: policy({}),
    ...config,
  })
  agents.push(agent)
  return agent
}

/** A sandbox that marks the environment and writes down what is asked of it. */
class Marking {
  id = 'marking'
  #asked = []
  get asked() {
    return this.#asked
  }
  async initialize() {
    this.#asked.push('initialize')
  }
  wrap(command, { cwd }) {
    this.#asked.push({ command, cwd })
    return `SHELL=marked exec ${command}`
  }
  dispose() {
    this.#asked.push('dispose')
  }
}

test('every command runs wrapped in the shell, with its words unchanged', async () => {
  const sandbox = new Marking()
  const odd = `it's "$HOME" \`id\` \\ * ; # \n ü`
  const one = bench.stdio('official-stdio', { odd })
  const two = bench.stdio('official-stdio')
  const agent = createAgent({ sandbox, mcpServers: { one: one.config, two: two.config } })
  await agent.send('go')
  expect(one.entries()[0]).toMatchObject({ started: true, options: { odd }, shell: 'marked', cwd: bench.directory })
  const wraps = sandbox.asked.slice(1)
  expect(sandbox.asked[0]).toBe('initialize')
  expect(wraps).toMatchObject([{ cwd: bench.directory }, { cwd: bench.directory }])
  expect(agent.mcp.list().map((server) => server.status)).toEqual(['ready', 'ready'])

  const groups = [...one.pids(), ...two.pids()]
  await agent.close()
  expect(sandbox.asked.slice(3)).toEqual(['dispose'])
  for (const group of groups) expect(groupMembers(group)).toEqual([])
})

test('a command is wrapped after its server was allowed, and not when it is denied', async () => {
  const sandbox = new Marking()
  const server = bench.stdio('official-stdio')
  const agent = createAgent({
    sandbox,
    mcpServers: { s: server.config },
    permission: policy({ deny: ['mcp_connect'] }),
  })
  await expect(agent.send('go')).rejects.toMatchObject({ code: 'MCP_DENIED' })
  await agent.close()
  expect(sandbox.asked).toEqual([])
  expect(server.wasTouched()).toBe(false)
})

test('HTTP servers need no sandbox, and one that was not used is not put away', async () => {
  const sandbox = new Marking()
  const server = await bench.http('official-http')
  const agent = createAgent({ sandbox, mcpServers: { s: server.config } })
  await agent.send('go')
  await agent.close()
  expect(sandbox.asked).toEqual([])
})

test('a host tool is given the sandbox', async () => {
  const sandbox = new Marking()
  const seen = []
  const look = tool('look', '', z.object({}), (_, ctx) => {
    seen.push(ctx.sandbox)
    return 'ok'
  })
  const agent = createAgent({
    sandbox,
    tools: [look],
    model: fakeProvider([callsTurn(['look', {}]), textTurn('done')]),
  })
  expect(resultsOf(await collect(agent.run('go')))).toMatchObject([{ content: 'ok' }])
  expect(seen).toEqual([sandbox])
})

describe.each([
  [
    'wrap throws',
    {
      wrap: () => {
        throw new Error('SECRET')
      },
    },
    'wrap() failed',
  ],
  ['wrap rejects', { wrap: async () => Promise.reject(new Error('SECRET')) }, 'wrap() failed'],
  ['wrap never settles', { wrap: () => new Promise(() => {}) }, 'timed out'],
  ['wrap gives a number', { wrap: () => 7 }, 'wrap() failed'],
  ['wrap gives nothing', { wrap: () => undefined }, 'wrap() failed'],
  ['wrap gives no command', { wrap: () => '  ' }, 'wrap() gave no command'],
  ['wrap gives NUL', { wrap: (command) => `${command}\0` }, 'wrap() gave no command'],
  [
    'initialize throws',
    {
      initialize: () => {
        throw new Error('SECRET')
      },
    },
    'initialize() failed',
  ],
  ['initialize never settles', { initialize: () => new Promise(() => {}) }, 'timed out'],
])('when %s', (_, broken, why) => {
  test('nothing starts, and the agent is usable without the server', async () => {
    const server = bench.stdio('official-stdio', {}, { timeoutMs: 1500 })
    const sandbox = { id: 'broken', wrap: (command) => command, ...broken }
    const agent = createAgent({ sandbox, requireSandbox: true, mcpServers: { s: server.config } })
    const error = await agent.send('go').catch((caught) => caught)
    expect(error).toMatchObject({ name: 'McpError', message: expect.stringContaining(why) })
    expect(error.message).toContain('`s`')
    expect(`${error.message} ${agent.mcp.list()[0].error}`).not.toContain('SECRET')
    expect(server.wasTouched()).toBe(false)
    await agent.mcp.unregister('s')
    expect((await agent.send('go')).text).toBe('done')
  })
})

test('a sandbox that failed to get ready is asked again with the next server', async () => {
  const server = bench.stdio('official-stdio')
  let calls = 0
  const initialize = () => {
    calls += 1
    if (calls === 1) throw new Error('not yet')
  }
  const agent = createAgent({ sandbox: { id: 'late', wrap: (command) => command, initialize } })
  await expect(agent.mcp.register('s', server.config)).rejects.toMatchObject({ code: 'MCP_UNREACHABLE' })
  await agent.mcp.register('s', server.config)
  expect(calls).toBe(2)
})

test('a dispose that fails does not keep the agent from closing', async () => {
  const server = bench.stdio('official-stdio')
  const dispose = () => {
    throw new Error('SECRET')
  }
  const agent = createAgent({
    sandbox: { id: 'x', wrap: (command) => command, dispose },
    mcpServers: { s: server.config },
  })
  const told = []
  agent.subscribe(({ event }) => told.push(event))
  await agent.send('go')
  await agent.close()
  expect(told.at(-1)).toMatchObject({ type: 'diagnostic', code: 'sandbox_failed' })
  expect(JSON.stringify(told)).not.toContain('SECRET')
})

describe('a configuration', () => {
  test.each([
    ['requires a sandbox there is not', { requireSandbox: true }, /requireSandbox/],
    ['names none', { sandbox: { wrap: () => '' } }, /sandbox\.id/],
    ['cannot wrap', { sandbox: { id: 'x', wrap: 'bwrap' } }, /sandbox\.wrap/],
    ['has an initialize that is none', { sandbox: { id: 'x', wrap: () => '', initialize: true } }, /initialize/],
    ['is null', { sandbox: null }, /sandbox/],
    ['requires as a word', { requireSandbox: 'yes' }, /requireSandbox.*boolean/],
  ])('that %s is refused', (_, config, message) => {
    expect(() => createAgent(config)).toThrow(
      expect.objectContaining({ code: 'CONFIG_INVALID', message: expect.stringMatching(message) }),
    )
  })
})

const hasBubblewrap = spawnSync('bwrap', ['--version']).status === 0
test.skipIf(!hasBubblewrap && !process.env.LITE_AGENT_REQUIRE_ALL)(
  'bubblewrap confines a real server (needs bubblewrap)',
  async () => {
    const secret = join(bench.directory, 'secret')
    const empty = join(bench.directory, 'empty')
    writeFileSync(secret, 'not for servers')
    writeFileSync(empty, '')
    const server = bench.stdio('official-stdio', { probe: secret })
    const hide = `--bind ${bench.directory} ${bench.directory} --ro-bind ${empty} ${secret}`
    const wrap = (command) => `exec bwrap --ro-bind / / --dev /dev --proc /proc ${hide} --die-with-parent -- ${command}`
    const agent = createAgent({
      sandbox: { id: 'bubblewrap', wrap },
      mcpServers: { s: server.config },
      model: fakeProvider([callsTurn(['mcp__s__probe', {}]), textTurn('done')]),
    })
    const [result] = resultsOf(await collect(agent.run('go')))
    expect(result.content).toContain('0 bytes')
    expect(existsSync(secret)).toBe(true)
    await agent.close()
    await until(() => groupMembers(server.pids()[0]).length === 0)
  },
)
