// Servers that misbehave: each fault has a defined answer, soon, without remote text, and the agent stays usable.
import { AgentError, createLiteAgent, fakeProvider, McpError, policy, tool } from '@lite-agent/sdk'
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

const peer = async (kind, options, declaration) =>
  kind === 'stdio' ? bench.stdio('raw-stdio', options, declaration) : bench.http('raw-http', options, declaration)

describe.each([
  ['stdio', { discover: 'silent' }, /^MCP_TIMEOUT$/],
  ['stdio', { discover: 'not-found' }, /^MCP_DISCOVERY$/],
  ['stdio', { discover: 'internal-error' }, /^MCP_DISCOVERY$/],
  ['stdio', { discover: 'other-version' }, /^MCP_DISCOVERY$/],
  ['stdio', { discover: 'exit' }, /^MCP_EXITED$/],
  ['stdio', { discover: '5-MiB' }, /^MCP_LIMIT$/],
  ['stdio', { discover: 'nan' }, /^MCP_(PROTOCOL|DISCOVERY)$/],
  ['stdio', { list: 'exit' }, /^MCP_EXITED$/],
  ['stdio', { list: 'null-result' }, /^MCP_(PROTOCOL|DISCOVERY)$/],
  ['stdio', { list: 'silent' }, /^MCP_TIMEOUT$/],
  ['stdio', { tool: { inputSchema: { type: 'nothing' } } }, /^MCP_SCHEMA$/],
  ['stdio', { tool: { inputSchema: { $ref: 'https://example.com/schema.json' } } }, /^MCP_SCHEMA$/],
  ['stdio', { tool: { name: 'bad name' } }, /^MCP_NAME$/],
  ['http', { discover: 'silent' }, /^MCP_TIMEOUT$/],
  ['http', { discover: 'html' }, /^MCP_PROTOCOL$/],
  ['http', { discover: 'empty' }, /^MCP_PROTOCOL$/],
  ['http', { discover: '500' }, /^MCP_UNREACHABLE$/],
  ['http', { discover: '404' }, /^MCP_(UNREACHABLE|PROTOCOL)$/],
  ['http', { discover: '302' }, /^MCP_REDIRECT$/],
  ['http', { discover: 'drop' }, /^MCP_UNREACHABLE$/],
  ['http', { discover: 'half' }, /^MCP_UNREACHABLE$/],
  ['http', { discover: 'stream-end' }, /^MCP_(PROTOCOL|UNREACHABLE)$/],
  ['http', { discover: '5-MiB' }, /^MCP_LIMIT$/],
  ['http', { discover: 'nan' }, /^MCP_PROTOCOL$/],
  ['http', { discover: 'array' }, /^MCP_PROTOCOL$/],
  ['http', { list: '302' }, /^MCP_REDIRECT$/],
])('a %s server with %j while connecting', (kind, options, code) => {
  test(`rejects with ${code}`, async () => {
    const bad = await peer(kind, options, { timeoutMs: 1500 })
    const good = bench.stdio('raw-stdio')
    const agent = createAgent([textTurn('usable')], { bad: bad.config, good: good.config })
    const error = await agent.send('go').catch((caught) => caught)
    expect(error).toBeInstanceOf(McpError)
    expect(error.code).toMatch(code)
    expect(error.message).toContain('bad')
    expect(error.message).not.toContain('SECRET')
    expect(agent.mcp.list()).toMatchObject([
      { name: 'bad', status: 'error', toolNames: [], error: expect.stringMatching(/^MCP_/) },
      { name: 'good', status: 'configured', toolNames: [] },
    ])
    for (const pid of [...(kind === 'stdio' ? bad.pids() : []), ...good.pids()]) {
      await until(() => groupMembers(pid).length === 0, { what: 'no process is left' })
    }
    expect(bad.messages('initialize')).toEqual([])
    await agent.mcp.unregister('bad')
    expect((await agent.send('go')).text).toBe('usable')
  })
})

describe.each([
  ['stdio', 'exit', 'MCP_EXITED', 'stale'],
  ['stdio', '5-MiB', 'MCP_LIMIT', 'stale'],
  ['stdio', 'nan', 'MCP_PROTOCOL', 'ready'],
  ['stdio', 'wrong-id', 'MCP_PROTOCOL', 'ready'],
  ['stdio', 'silent', 'MCP_TIMEOUT', 'ready'],
  ['stdio', 'internal-error', 'MCP_PROTOCOL', 'ready'],
  ['stdio', 'input-required', 'MCP_PROTOCOL', 'ready'],
  ['stdio', 'unknown-type', 'MCP_PROTOCOL', 'ready'],
  ['stdio', 'null-result', 'MCP_PROTOCOL', 'ready'],
  ['http', 'html', 'MCP_PROTOCOL', 'ready'],
  ['http', '500', 'MCP_UNREACHABLE', 'ready'],
  ['http', '302', 'MCP_REDIRECT', 'ready'],
  ['http', 'empty', 'MCP_PROTOCOL', 'ready'],
  ['http', 'drop', 'MCP_UNREACHABLE', 'ready'],
  ['http', 'half', 'MCP_UNREACHABLE', 'ready'],
  ['http', 'stream-end', 'MCP_PROTOCOL', 'ready'],
  ['http', 'silent', 'MCP_TIMEOUT', 'ready'],
  ['http', 'nan', 'MCP_PROTOCOL', 'ready'],
  ['http', 'wrong-id', 'MCP_PROTOCOL', 'ready'],
  ['http', 'no-id', 'MCP_PROTOCOL', 'ready'],
  ['http', 'array', 'MCP_PROTOCOL', 'ready'],
  ['http', '5-MiB', 'MCP_LIMIT', 'ready'],
  ['http', 'changed', 'MCP_PROTOCOL', 'stale'],
  ['http', 'input-required', 'MCP_PROTOCOL', 'ready'],
])('a %s server with a call mode of %s', (kind, call, code, status) => {
  test(`gives one error result with ${code}, once`, async () => {
    const bad = await peer(kind, { call }, { timeoutMs: 1500 })
    const agent = createAgent([callsTurn(['mcp__bad__echo', { value: 'x' }]), textTurn('went on')], { bad: bad.config })
    const events = await collect(agent.run('go'))
    const results = resultsOf(events)
    expect(results).toMatchObject([{ id: 'call-1', name: 'mcp__bad__echo', isError: true }])
    expect(results[0].content.split(':')[0]).toBe(code)
    expect(results[0].content).toContain('do not repeat side effects automatically')
    expect(results[0].content).not.toContain('SECRET')
    expect(events.at(-1).result.text).toBe('went on')
    expect(bad.messages('tools/call').length).toBe(1)
    await until(() => agent.mcp.list()[0].status === status, { what: `status ${status}`, withinMs: 3000 })
  })
})

describe.each([
  ['stdio', { banner: true }],
  ['stdio', { bom: true, call: 'crlf' }],
  ['stdio', { stderr: true }],
  ['stdio', { call: 'twice' }],
  ['stdio', { call: 'string-id' }],
  ['stdio', { call: 'no-type' }],
  ['http', { discover: 'sse', list: 'sse', call: 'sse' }],
  ['http', { call: 'unended' }],
  ['http', { call: 'no-type' }],
])('a %s server with %j', (kind, options) => {
  test('is served', async () => {
    const odd = await peer(kind, options, { timeoutMs: 5000 })
    const agent = createAgent([callsTurn(['mcp__odd__echo', { value: 'x' }]), textTurn('end')], { odd: odd.config })
    const [result] = resultsOf(await collect(agent.run('go')))
    expect(result.isError ?? false).toBe(false)
    expect(JSON.parse(result.content).content).toEqual([{ type: 'text', text: 'x' }])
  })
})

const diagnosticsOf = (events) => events.filter((event) => event.type === 'diagnostic')

test('lines that are no messages are told of once', async () => {
  const odd = bench.stdio('raw-stdio', { banner: true })
  const call = ['mcp__odd__echo', { value: 'x' }]
  const agent = createAgent([callsTurn(call, call), callsTurn(call), textTurn('end')], { odd: odd.config })
  const told = diagnosticsOf(await collect(agent.run('go')))
  expect(told).toMatchObject([
    { level: 'warning', code: 'mcp_skipped_lines', message: expect.stringContaining('`odd`') },
  ])
})

test('a tool with a forbidden header annotation is left out over HTTP, alone and by name', async () => {
  const schema = { type: 'object', properties: { value: { type: 'number', 'x-mcp-header': 'Value' } } }
  const odd = await bench.http('raw-http', { tool: { inputSchema: schema } })
  const agent = createAgent([textTurn('end')], { odd: odd.config })
  const told = diagnosticsOf(await collect(agent.run('go')))
  expect(told).toMatchObject([{ code: 'mcp_tool_left_out', message: expect.stringContaining('echo') }])
  expect(agent.mcp.list()).toMatchObject([{ name: 'odd', status: 'ready', toolNames: [] }])
})

test('a value that looks like a variable is used as it stands, with a warning that does not show it', async () => {
  const odd = bench.stdio('raw-stdio')
  odd.config.env = { ...odd.config.env, TOKEN: ['prefix-$', '{SECRET_NAME}'].join('') }
  const agent = createAgent([textTurn('end')], { odd: odd.config })
  const told = diagnosticsOf(await collect(agent.run('go')))
  expect(told).toMatchObject([{ code: 'mcp_interpolation', message: expect.stringContaining('TOKEN') }])
  expect(JSON.stringify(told)).not.toContain('SECRET_NAME')
})

test('a panic in Rust ends its run as INTERNAL; the process and the servers live', async () => {
  const server = bench.stdio('official-stdio')
  const agent = createLiteAgent({
    workdir: bench.directory,
    home: bench.directory,
    model: fakeProvider([
      callsTurn(['plant_panic', {}], ['mcp__local__add', { a: 1, b: 1 }]),
      callsTurn(['mcp__local__add', { a: 20, b: 22 }]),
      textTurn('alive'),
    ]),
    permission: policy({}),
    tools: [tool('plant_panic', 'Panics in Rust', z.object({}), () => 'not called')],
    mcpServers: { local: server.config },
  })
  agents.push(agent)
  const error = await agent.send('go').catch((caught) => caught)
  expect(error).toBeInstanceOf(AgentError)
  expect(error).toMatchObject({ name: 'AgentError', code: 'INTERNAL' })
  expect(error.message).not.toContain('planted')
  const events = await collect(agent.run('again'))
  expect(JSON.parse(resultsOf(events)[0].content).content).toEqual([{ type: 'text', text: '42' }])
  expect(events.at(-1).result.text).toBe('alive')
  expect(server.pids().length).toBe(1)
})

test('a stale server refuses new runs until it is registered again', async () => {
  const server = bench.stdio('official-stdio')
  const agent = createAgent(
    [
      callsTurn(['mcp__local__die', {}]),
      textTurn('went on'),
      callsTurn(['mcp__local__add', { a: 1, b: 1 }]),
      textTurn('back'),
    ],
    { local: server.config },
  )
  await agent.send('go')
  await until(() => agent.mcp.list()[0].status === 'stale')
  await expect(agent.send('go')).rejects.toMatchObject({
    code: 'MCP_STALE',
    message: expect.stringContaining('catalog unavailable'),
  })
  await agent.mcp.unregister('local')
  await agent.mcp.register('local', server.config)
  expect((await agent.send('go')).text).toBe('back')
  expect(server.pids().length).toBe(2)
})

test('digits, key order and unknown members survive from the server to the model', async () => {
  const structured = '{"z":1.0,"a":[12345678901234567890,1e400,null],"text":"\\u0041"}'
  const text = `{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"x","new":1.50}],"structuredContent":${structured}}}`
  const server = bench.stdio('raw-stdio', { call: 'verbatim', text })
  const agent = createAgent([callsTurn(['mcp__raw__echo', { value: 'x' }]), textTurn('end')], { raw: server.config })
  const [result] = resultsOf(await collect(agent.run('go')))
  expect(result.content).toBe(`{"content":[{"type":"text","text":"x","new":1.50}],"structuredContent":${structured}}`)
})
