// Many at once: bursts of progress under load, 32 servers, and aborts that meet their answers.
import { spawn } from 'node:child_process'
import { createLiteAgent, fakeProvider, policy } from '@lite-agent/sdk'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { callsTurn, collect, createBench, groupMembers, ofType, resultsOf, textTurn, until } from '../servers/start.mjs'

let bench
let agents
let busy
beforeEach(() => {
  bench = createBench()
  agents = []
  busy = []
})
afterEach(async () => {
  for (const child of busy) child.kill('SIGKILL')
  await Promise.all(agents.map((agent) => agent.close()))
  bench.dispose()
})

function createAgent(config) {
  const agent = createLiteAgent({
    workdir: bench.directory,
    home: bench.directory,
    sessions: false,
    permission: policy({}),
    ...config,
  })
  agents.push(agent)
  return agent
}

/** Keeps every core busy until the test ends. */
function load() {
  for (let core = 0; core < 2; core++) busy.push(spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }))
}

describe.each(['stdio', 'http'])('over %s', (kind) => {
  test('1000 steps of progress in one burst with the result all come before it, in order, 100 times under load', async () => {
    const options = { call: 'steps', steps: 1000 }
    const server = await (kind === 'stdio' ? bench.stdio('raw-stdio', options) : bench.http('raw-http', options))
    const calls = Array.from({ length: 10 }, () => ['mcp__s__echo', { value: 'done' }])
    const turns = [...Array.from({ length: 10 }, () => callsTurn(...calls)), textTurn('end')]
    const agent = createAgent({ model: fakeProvider(turns), mcpServers: { s: server.config } })
    load()
    let seen = new Map()
    let results = 0
    for await (const event of agent.run('go')) {
      if (event.type === 'tool_use') seen.set(event.call.id, 0)
      if (event.type === 'tool_progress') {
        const step = seen.get(event.id) + 1
        if (event.progress !== step) throw new Error(`step ${event.progress} came in the place of ${step}`)
        seen.set(event.id, step)
      }
      if (event.type === 'tool_result') {
        if (seen.get(event.result.id) !== 1000)
          throw new Error(`the result came after ${seen.get(event.result.id)} steps`)
        results += 1
      }
      if (event.type === 'turn_end') seen = new Map()
    }
    expect(results).toBe(100)
  })

  test('an abort that meets the answer gives exactly one outcome, 1000 times', async () => {
    const options = { call: 'steps', steps: 1 }
    const server = await (kind === 'stdio' ? bench.stdio('raw-stdio', options) : bench.http('raw-http', options))
    // One scripted pair of turns per run; an abort may leave the second unused, so each run has its own model.
    const scripts = new Map()
    const model = {
      id: 'scripts',
      stream: (request, signal) => scripts.get(request.messages[0].content).stream(request, signal),
    }
    const agent = createAgent({ model, mcpServers: { s: server.config } })
    const outcomes = { completed: 0, aborted: 0 }
    for (let round = 0; round < 1000; round++) {
      const input = `round ${round}`
      scripts.set(input, fakeProvider([callsTurn(['mcp__s__echo', { value: input }]), textTurn('end')]))
      const abort = new AbortController()
      const results = []
      const ends = []
      for await (const event of agent.run(input, { sessionId: `s${round}`, signal: abort.signal })) {
        // The progress and the answer came in one piece; odd rounds give the answer a little time.
        if (event.type === 'tool_progress') {
          if (round % 2) await undefined
          abort.abort()
        }
        if (event.type === 'tool_result') results.push(event.result)
        if (event.type === 'done') ends.push(event.reason)
      }
      scripts.delete(input)
      if (results.length !== 1 || ends.length !== 1)
        throw new Error(`round ${round}: ${JSON.stringify({ results, ends })}`)
      outcomes[results[0].isError ? 'aborted' : 'completed'] += 1
      expect(['aborted', 'stop']).toContain(ends[0])
    }
    expect(outcomes.completed + outcomes.aborted).toBe(1000)
    expect(server.messages('tools/call')).toHaveLength(1000)
    expect(agent.mcp.list()[0].status).toBe('ready')
  })
})

describe('32 servers', () => {
  const names = Array.from({ length: 32 }, (_, at) => `s${at}`)

  test('connect in parallel: each answers only when all are there', async () => {
    const servers = names.map(() => bench.stdio('raw-stdio', { rendezvous: 32 }, { timeoutMs: 120_000 }))
    const mcpServers = Object.fromEntries(names.map((name, at) => [name, servers[at].config]))
    const agent = createAgent({ model: fakeProvider([textTurn('end')]), mcpServers })
    await agent.send('go')
    expect(agent.mcp.list().map(({ name, status }) => [name, status])).toEqual(names.map((name) => [name, 'ready']))
    const groups = servers.map((server) => server.pids())
    expect(groups.every((pids) => pids.length === 1)).toBe(true)
    await agent.close()
    expect(groups.flat().flatMap(groupMembers)).toEqual([])
  })

  test('of which one fails are all closed, and the one is named', async () => {
    const servers = names.map((_, at) =>
      bench.stdio('raw-stdio', at === 20 ? { list: 'exit' } : {}, { timeoutMs: 120_000 }),
    )
    const mcpServers = Object.fromEntries(names.map((name, at) => [name, servers[at].config]))
    const agent = createAgent({ model: fakeProvider([textTurn('end')]), mcpServers })
    const error = await agent.send('go').catch((caught) => caught)
    expect(error).toMatchObject({ code: 'MCP_EXITED', message: expect.stringContaining('`s20`') })
    expect(error.message).not.toContain('`s2`')
    const statuses = agent.mcp.list().map(({ status, toolNames }) => [status, toolNames.length])
    expect(statuses).toEqual(names.map((_, at) => [at === 20 ? 'error' : 'configured', 0]))
    for (const pid of servers.flatMap((server) => server.pids())) {
      await until(() => groupMembers(pid).length === 0, { what: 'nothing is left' })
    }
    await agent.mcp.unregister('s20')
    const events = await collect(agent.run('go'))
    expect(ofType(events, 'done')).toHaveLength(1)
    expect(resultsOf(events)).toEqual([])
    expect(agent.mcp.list().every(({ status }) => status === 'ready')).toBe(true)
  })
})
