// A catalog that is no longer true: the server says so, or is gone. Nothing is swapped silently.
import { writeFileSync } from 'node:fs'
import { createLiteAgent, fakeProvider, policy } from '@lite-agent/sdk'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { callsTurn, collect, createBench, ofType, resultsOf, textTurn, until } from '../servers/start.mjs'

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

function createAgent(turns, mcpServers) {
  const agent = createLiteAgent({
    workdir: bench.directory,
    home: bench.directory,
    model: fakeProvider(turns),
    permission: policy({}),
    mcpServers,
  })
  agents.push(agent)
  return agent
}

const official = (kind) => (kind === 'stdio' ? bench.stdio('official-stdio') : bench.http('official-http'))
const raw = (kind, options) => (kind === 'stdio' ? bench.stdio('raw-stdio', options) : bench.http('raw-http', options))
const statusOf = (agent) => agent.mcp.list()[0]
const isStale = (agent) => until(() => statusOf(agent).status === 'stale', { what: 'the entry is stale' })

describe.each(['stdio', 'http'])('over %s', (kind) => {
  test('a server that says its tools changed is stale until it is registered again', async () => {
    const server = await official(kind)
    const turns = [
      callsTurn(['mcp__s__grow', {}]),
      textTurn('grown'),
      callsTurn(['mcp__s__grown', {}]),
      textTurn('used'),
    ]
    const agent = createAgent(turns, { s: server.config })
    expect((await agent.send('grow')).text).toBe('grown')
    await isStale(agent)
    expect(statusOf(agent)).toMatchObject({
      name: 's',
      toolNames: expect.not.arrayContaining(['mcp__s__grown']),
      error: expect.stringMatching(/^MCP_STALE: .*catalog unavailable.*register it again/),
    })
    await expect(agent.send('again')).rejects.toMatchObject({
      code: 'MCP_STALE',
      message: expect.stringContaining('catalog unavailable'),
    })

    await agent.mcp.unregister('s')
    await agent.mcp.register('s', server.config)
    expect(resultsOf(await collect(agent.run('use it')))).toMatchObject([{ name: 'mcp__s__grown' }])
  })

  test('calls that run go on, and later ones get an error', async () => {
    const server = await official(kind)
    const echo = ['mcp__s__echo', { value: 'too late' }]
    const turns = [callsTurn(['mcp__s__hold', {}], ['mcp__s__grow', {}]), callsTurn(echo), textTurn('end')]
    const agent = createAgent(turns, { s: server.config })
    const run = collect(agent.run('go'))
    await isStale(agent)
    writeFileSync(`${server.log}.release`, '')
    const [grow, held, late] = resultsOf(await run)
    expect(held).toEqual({ id: 'call-1', name: 'mcp__s__hold', content: expect.stringContaining('held') })
    expect(grow).toEqual({ id: 'call-2', name: 'mcp__s__grow', content: expect.stringContaining('one more') })
    expect(late).toMatchObject({ isError: true, content: expect.stringMatching(/^MCP_STALE/) })
    expect(server.messages('tools/call').map((call) => call.params.name)).not.toContain('echo')
  })

  test('one subscription is asked for, before the catalog is read once, and is given up at the end', async () => {
    const server = await official(kind)
    const agent = createAgent([textTurn('hello')], { s: server.config })
    await agent.send('hello')
    const listens = server.messages('subscriptions/listen')
    expect(listens).toMatchObject([{ params: { notifications: { toolsListChanged: true } } }])
    const methods = server.messages().map((message) => message.method)
    expect(methods.indexOf('subscriptions/listen')).toBeLessThan(methods.indexOf('tools/list'))
    expect(server.messages('tools/list')).toHaveLength(1)
    await agent.close()
  })

  test('a server that tells no changes is not asked to', async () => {
    const server = await raw(kind, {})
    const agent = createAgent([textTurn('hello')], { s: server.config })
    await agent.send('hello')
    expect(server.messages().map((message) => message.method)).toEqual(['server/discover', 'tools/list'])
  })

  test.each(['change', 'flood'])('a change told at once counts: %s', async (listen) => {
    const server = await raw(kind, { listen })
    const agent = createAgent([textTurn('hello')], { s: server.config })
    await agent.send('hello').catch((error) => expect(error.code).toBe('MCP_STALE'))
    await isStale(agent)
    expect(statusOf(agent).error).toContain('changed since they were listed')
  })

  test.each(['early', 'other', 'good'])('what is no change of these tools does not count: %s', async (listen) => {
    const server = await raw(kind, { listen })
    const turns = [callsTurn(['mcp__s__echo', { value: 'one' }]), textTurn('hello')]
    const agent = createAgent(turns, { s: server.config })
    const events = await collect(agent.run('go'))
    expect(resultsOf(events)).toMatchObject([{ content: expect.stringContaining('one') }])
    expect(statusOf(agent).status).toBe('ready')
    expect(ofType(events, 'diagnostic')).toEqual([])
  })

  test.each(['refuse', 'less'])(
    'a server that takes no subscription is used, and said to be unwatched: %s',
    async (listen) => {
      const server = await raw(kind, { listen })
      const agent = createAgent([textTurn('hello')], { s: server.config })
      const events = await collect(agent.run('go'))
      expect(ofType(events, 'diagnostic')).toMatchObject([
        { level: 'warning', code: 'mcp_unwatched', message: expect.stringContaining('`s`') },
      ])
      expect(JSON.stringify(events)).not.toContain('SECRET')
      expect(statusOf(agent).status).toBe('ready')
      expect(server.messages('subscriptions/listen')).toHaveLength(1)
    },
  )
})

test('a subscription that stays unanswered is tried again, and the server is used meanwhile', async () => {
  const server = await bench.http('raw-http', { listen: 'never' }, { timeoutMs: 1500 })
  const turns = [callsTurn(['mcp__s__echo', { value: 'one' }]), textTurn('hello')]
  const agent = createAgent(turns, { s: server.config })
  expect(resultsOf(await collect(agent.run('go')))).toMatchObject([{ content: expect.stringContaining('one') }])
  await until(() => server.messages('subscriptions/listen').length > 1, { what: 'it asks again' })
  expect(statusOf(agent).status).toBe('ready')
})

describe.each(['end', 'drop', 'huge'])('a subscription over HTTP that ends (%s)', (listen) => {
  test('is opened again, and what was missed is compared', async () => {
    const server = await bench.http('raw-http', { listen })
    const agent = createAgent([textTurn('hello')], { s: server.config })
    await agent.send('hello')
    await until(() => server.messages('tools/list').length >= 3, { what: 'the catalog is read after each gap' })
    expect(server.messages('subscriptions/listen').length).toBeGreaterThanOrEqual(3)
    expect(statusOf(agent).status).toBe('ready')
  })

  test('makes the server stale when its tools are others by then', async () => {
    const server = await bench.http('raw-http', { listen, later: { description: 'now deletes everything' } })
    const agent = createAgent([textTurn('hello')], { s: server.config })
    await agent.send('hello')
    await isStale(agent)
    expect(statusOf(agent).error).toContain('changed since they were listed')
  })
})

describe.each(['official-http', 'raw-http', 'official-stdio', 'raw-stdio'])('a killed %s', (name) => {
  test('fails its calls, and the entry is stale', async () => {
    const server = await bench[name.split('-')[1]](name, { call: 'silent' }, { timeoutMs: 300_000 })
    const call = name.startsWith('raw') ? ['mcp__s__echo', { value: 'one' }] : ['mcp__s__hold', {}]
    const agent = createAgent([callsTurn(call), textTurn('end')], { s: server.config })
    const run = collect(agent.run('go'))
    await until(() => server.messages('tools/call').length === 1)
    process.kill(server.pids()[0], 'SIGKILL')
    const why = expect.stringMatching(/^MCP_(UNREACHABLE|EXITED)/)
    expect(resultsOf(await run)).toMatchObject([{ isError: true, content: why }])
    await isStale(agent)
    await expect(agent.send('again')).rejects.toMatchObject({ code: 'MCP_STALE' })
    await agent.mcp.unregister('s')
  })
})

test('closing the agent closes the subscription', async () => {
  const server = await bench.http('raw-http', { listen: 'good' })
  const agent = createAgent([textTurn('hello')], { s: server.config })
  await agent.send('hello')
  await agent.close()
  await until(() => server.entries().some((entry) => entry.closed !== undefined), { what: 'the stream is closed' })
  expect(server.messages('subscriptions/listen')).toHaveLength(1)
})

test('a change ends the subscription over stdio with a cancel', async () => {
  const server = bench.stdio('raw-stdio', { listen: 'change' })
  const agent = createAgent([textTurn('hello')], { s: server.config })
  await agent.send('hello').catch(() => {})
  await isStale(agent)
  const [listen] = server.messages('subscriptions/listen')
  await until(() =>
    server.messages('notifications/cancelled').some((cancelled) => cancelled.params.requestId === listen.id),
  )
})

describe('two servers whose tools have the same full name', () => {
  const tool = (name) => ({ tool: { name } })

  test('the later one of a batch is refused, and its mates are closed', async () => {
    const a = bench.stdio('raw-stdio', tool('_x'))
    const b = bench.stdio('raw-stdio', tool('x'))
    const agent = createAgent([textTurn('hello')], { a: a.config, a_: b.config })
    await expect(agent.send('go')).rejects.toMatchObject({
      code: 'MCP_NAME',
      message: expect.stringMatching(/`a_`.*mcp__a___x.*already used by server `a`/),
    })
    expect(agent.mcp.list()).toMatchObject([{ status: 'configured' }, { status: 'error' }])
    await agent.mcp.unregister('a_')
    expect((await agent.send('go')).text).toBe('hello')
  })

  test('a registered one is refused and leaves no trace', async () => {
    const a = bench.stdio('raw-stdio', tool('_x'))
    const b = bench.stdio('raw-stdio', tool('x'))
    const agent = createAgent([textTurn('hello')], { a: a.config })
    await agent.send('go')
    await expect(agent.mcp.register('a_', b.config)).rejects.toMatchObject({ code: 'MCP_NAME' })
    expect(agent.mcp.list()).toMatchObject([{ name: 'a', status: 'ready', toolNames: ['mcp__a___x'] }])
    expect(b.entries().some((entry) => entry.message?.method === 'tools/list')).toBe(true)
  })
})
