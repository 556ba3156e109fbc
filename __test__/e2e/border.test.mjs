// The border between JavaScript and Rust: modules, process life, worker threads, and what Node is not asked for.
import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { Worker } from 'node:worker_threads'
import * as esm from '@lite-agent/sdk'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { callsTurn, collect, createBench, groupMembers, isAlive, textTurn, until } from '../servers/start.mjs'

const run = promisify(execFile)
const child = (name) => fileURLToPath(new URL(`children/${name}.mjs`, import.meta.url))

let bench
beforeEach(() => {
  bench = createBench()
})
afterEach(() => bench.dispose())

test('ESM and CommonJS give the same objects, and errors are instances of both', async () => {
  const cjs = createRequire(import.meta.url)('@lite-agent/sdk')
  expect(
    Object.keys(esm)
      .filter((name) => name !== 'default')
      .sort(),
  ).toEqual(Object.keys(cjs).sort())
  for (const [name, value] of Object.entries(cjs)) expect(Reflect.get(esm, name), name).toBe(value)
  let error
  try {
    esm.createLiteAgent({})
  } catch (caught) {
    error = caught
  }
  expect(error).toBeInstanceOf(cjs.ConfigError)
  expect(error).toBeInstanceOf(esm.AgentError)
  expect(error).toBeInstanceOf(Error)
  expect(error.name).toBe('ConfigError')
})

test.each(['unused', 'used'])('an agent that is idle (%s) lets Node exit', async (mode) => {
  const { stdout } = await run(process.execPath, [child('idle'), mode], { cwd: bench.directory, timeout: 20_000 })
  expect(stdout).toBe('ran\n')
})

test.each(['used', 'exit'])('leaving without close (%s) ends the servers’ groups', async (mode) => {
  const server = bench.stdio('official-stdio', { grandchild: true, stay: true })
  const http = await bench.http('official-http')
  await run(process.execPath, [child('idle'), mode, JSON.stringify({ local: server.config, web: http.config })], {
    cwd: bench.directory,
    timeout: 20_000,
  })
  const [pid] = server.pids()
  await until(() => groupMembers(pid).length === 0 && !isAlive(pid), { what: 'the group has ended' })
})

test('MCP works with child_process, net, http, https, tls and fetch walled off', async () => {
  const local = bench.stdio('official-stdio')
  const web = await bench.http('official-http')
  const servers = JSON.stringify({ local: local.config, web: web.config })
  const calls = JSON.stringify([
    ['mcp__local__add', { a: 20, b: 22 }],
    ['mcp__web__progress', { n: 5 }],
    ['mcp__web__fail', {}],
  ])
  const { stdout } = await run(process.execPath, [child('walled'), servers, calls], {
    cwd: bench.directory,
    timeout: 20_000,
  })
  const { results, attempts } = JSON.parse(stdout)
  expect(attempts).toBe(0)
  expect(JSON.parse(results['call-1'].content).content).toEqual([{ type: 'text', text: '42' }])
  expect(JSON.parse(results['call-2'].content).content).toEqual([{ type: 'text', text: 'done' }])
  expect(results['call-3'].isError).toBe(true)
})

test('a worker thread that is terminated with calls in flight leaves no process and no open call', async () => {
  const local = bench.stdio('official-stdio', { grandchild: true, stay: true })
  const web = await bench.http('official-http')
  const worker = new Worker(child('worker'), {
    workerData: {
      workdir: bench.directory,
      mcpServers: { local: local.config, web: web.config },
      calls: [
        ['mcp__local__slow', {}],
        ['mcp__web__slow', {}],
        ['never', {}],
      ],
    },
  })
  const started = []
  worker.on('message', (name) => started.push(name))
  const failed = new Promise((_, reject) => {
    worker.on('error', reject)
  })
  const isRunning = (server) => server.entries().some((entry) => entry.running === 'slow')
  await Promise.race([until(() => isRunning(local) && isRunning(web) && started.length === 3), failed])
  const [pid] = local.pids()
  expect(groupMembers(pid).length).toBe(2)
  await worker.terminate()
  await until(() => groupMembers(pid).length === 0, { what: 'the group has ended' })
  await until(() => web.entries().some((entry) => entry.cancelled === 'slow'), { what: 'the HTTP call is cancelled' })

  const agent = esm.createLiteAgent({
    workdir: bench.directory,
    home: bench.directory,
    model: esm.fakeProvider([textTurn('alive')]),
  })
  expect((await agent.send('go')).text).toBe('alive')
  await agent.close()
})

test('many agents in one process do not know each other', async () => {
  const servers = await Promise.all(Array.from({ length: 5 }, () => bench.stdio('official-stdio')))
  const agents = servers.map((server, index) =>
    esm.createLiteAgent({
      workdir: bench.directory,
      home: bench.directory,
      model: esm.fakeProvider([callsTurn(['mcp__local__add', { a: index, b: 100 }]), textTurn(`agent ${index}`)]),
      mcpServers: { local: server.config },
      permission: esm.policy({}),
    }),
  )
  expect(new Set(agents.map((agent) => agent.sessionId)).size).toBe(5)
  const runs = await Promise.all(agents.map((agent) => collect(agent.run('go'))))
  for (const [index, events] of runs.entries()) {
    expect(events.at(-1).result.text).toBe(`agent ${index}`)
    const { result } = events.find((event) => event.type === 'tool_result')
    expect(JSON.parse(result.content).content[0].text).toBe(String(100 + index))
  }
  await Promise.all(agents.map((agent) => agent.close()))
})
