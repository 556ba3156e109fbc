// Servers whose answers are odd: each call settles soon after its cause is known, and says what was wrong.
//
// Deadlines are far away here: a call that waited for its own would not settle within a test.
import { createLiteAgent, fakeProvider, policy } from '@lite-agent/sdk'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { callsTurn, collect, createBench, groupMembers, ofType, resultsOf, textTurn, until } from '../servers/start.mjs'

const FAR = { timeoutMs: 300_000 }

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

function createAgent(mcpServers, turns = [callsTurn(['mcp__s__echo', { value: 'one' }]), textTurn('end')]) {
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

const peer = async (kind, options, declaration = FAR) =>
  kind === 'stdio' ? bench.stdio('raw-stdio', options, declaration) : bench.http('raw-http', options, declaration)

/** The events of one run that calls `echo` once. */
async function eventsOf(kind, options, declaration) {
  const server = await peer(kind, options, declaration)
  return collect(createAgent({ s: server.config }).run('go'))
}

const status = (status, body, headers = {}) => ({ status, body, headers })
const good = '{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"one"}]}}'
const refused = (code) => `{"jsonrpc":"2.0","id":ID,"error":{"code":${code},"message":"SECRET"}}`

describe('a call over HTTP that is answered with', () => {
  test.each([
    ['a result under an error status', status(500, good), 'HTTP status 500'],
    ['too many requests', status(429, '', { 'retry-after': '7' }), 'rate limit is reached; try again in 7 s'],
    ['too many requests and no time', status(429, 'SECRET'), 'rate limit is reached; try again later'],
    ['no such method', status(404, refused(-32601)), '-32601 (method not found)'],
    ['no such page', status(404, '<h1>SECRET</h1>'), 'no such endpoint'],
    ['not allowed', status(403, 'SECRET'), 'wants other credentials'],
    [
      'a page',
      status(200, '<h1>SECRET</h1>', { 'content-type': 'text/html; charset=utf-8' }),
      'answers with text/html',
    ],
    ['no type', status(200, good), 'without a usable Content-Type'],
    ['an odd type', status(200, good, { 'content-type': 'SECRET text' }), 'without a usable Content-Type'],
    ['UTF-16', { ...status(200, good, { 'content-type': 'application/json' }), encoding: 'utf16le' }, 'MCP_PROTOCOL'],
  ])('%s fails with what to check', async (_, options, message) => {
    const events = await eventsOf('http', { call: 'status', ...options })
    expect(resultsOf(events)).toMatchObject([{ isError: true, content: expect.stringContaining(message) }])
    expect(ofType(events, 'diagnostic')).toEqual([])
    expect(JSON.stringify(events)).not.toContain('SECRET')
  })

  test.each([
    ['an event of another type', 'event: ping\ndata: {"error":"none"}\n\n'],
    ['an event without data', 'id: 1\ndata:\n\n'],
    ['an event that is no message', 'data: hello\n\n'],
  ])('%s before the answer succeeds', async (_, before) => {
    const body = `${before}data: ${good}\n\n`
    const events = await eventsOf('http', {
      call: 'status',
      ...status(200, body, { 'content-type': 'text/event-stream' }),
    })
    expect(resultsOf(events)).toEqual([
      { id: 'call-1', name: 'mcp__s__echo', content: '{"content":[{"type":"text","text":"one"}]}' },
    ])
    expect(ofType(events, 'diagnostic')).toEqual([])
  })

  test('spaces between its tokens reaches the model compact', async () => {
    const body = JSON.stringify(JSON.parse(good.replace('ID', '"ID"')), null, 2).replace('"ID"', 'ID')
    const events = await eventsOf('http', {
      call: 'status',
      ...status(200, body, { 'content-type': 'application/json' }),
    })
    expect(resultsOf(events)).toMatchObject([{ content: '{"content":[{"type":"text","text":"one"}]}' }])
  })
})

describe('a list that is refused', () => {
  test.each([
    [
      'with a code',
      { list: 'internal-error' },
      'MCP_DISCOVERY',
      'tools/list failed: the server answered with error -32603 (internal error)',
    ],
    [
      'with a rate limit',
      { list: 'status', ...status(429, '', { 'retry-after': '1' }) },
      'MCP_UNREACHABLE',
      'try again in 1 s',
    ],
  ])('%s tells itself apart from discovery', async (_, options, code, message) => {
    const server = await peer('http', options)
    await expect(createAgent({ s: server.config }).send('go')).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    })
  })
})

describe('a stdio server that answers', () => {
  const line = (text) => ({ call: 'verbatim', text })

  test.each([
    ['an error without an id', line('{"jsonrpc":"2.0","error":{"code":-32603,"message":"SECRET"}}'), '-32603'],
    [
      'an error with a null id',
      line('{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"SECRET"}}'),
      '-32603',
    ],
    ['a result without an id', line('{"jsonrpc":"2.0","result":{"content":[]}}'), 'the id of no request'],
    ['the id of no request', line('{"jsonrpc":"2.0","id":987654321,"result":{"content":[]}}'), 'the id of no request'],
    ['an id that is no number', line('{"jsonrpc":"2.0","id":{},"result":{"content":[]}}'), 'the id of no request'],
    ['an id in another form', line('{"jsonrpc":"2.0","id":"+ID","result":{"content":[]}}'), 'the id of no request'],
    ['a batch', { call: 'array' }, 'an answer is in a batch'],
  ])('%s fails the call', async (_, options, message) => {
    const events = await eventsOf('stdio', options)
    expect(resultsOf(events)).toMatchObject([{ isError: true, content: expect.stringContaining(message) }])
    expect(ofType(events, 'diagnostic')).toMatchObject([{ code: 'mcp_skipped_lines' }])
    expect(JSON.stringify(resultsOf(events))).not.toContain('SECRET')
  })

  test('an error without an id to discovery fails it', async () => {
    const server = await peer('stdio', {
      discover: 'verbatim',
      text: '{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"SECRET"}}',
    })
    await expect(createAgent({ s: server.config }).send('go')).rejects.toMatchObject({ code: 'MCP_DISCOVERY' })
  })

  test('an error without an id while several calls wait is told, and fails none of them', async () => {
    const text =
      '{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"SECRET"}}\n{"jsonrpc":"2.0","id":ID,"result":{"content":[]}}'
    const server = await peer('stdio', line(text))
    const echo = ['mcp__s__echo', { value: 'one' }]
    const events = await collect(createAgent({ s: server.config }, [callsTurn(echo, echo), textTurn('end')]).run('go'))
    expect(resultsOf(events).filter((result) => !result.isError).length).toBeGreaterThanOrEqual(1)
    expect(ofType(events, 'diagnostic')).toMatchObject([{ code: 'mcp_skipped_lines' }])
  })

  test.each([
    ['a number with a fraction of zero', line('{"jsonrpc":"2.0","id":ID.0,"result":{"content":[]}}')],
    ['the id as a string', { call: 'string-id' }],
    ['a byte order mark before a later line', { call: 'bom' }],
  ])('with %s succeeds', async (_, options) => {
    const events = await eventsOf('stdio', options)
    expect(resultsOf(events)[0].isError).toBeUndefined()
  })
})

describe.each(['stdio', 'http'])('over %s', (kind) => {
  const told = (text) => ({ call: 'verbatim', text })

  test('half of a surrogate pair becomes the replacement character, in text and in checked content', async () => {
    const result = '{"content":[{"type":"text","text":"a\\ud83d b"}],"structuredContent":{"a":"\\udc00"}}'
    const outputSchema = { type: 'object', properties: { a: { type: 'string', maxLength: 1 } } }
    const events = await eventsOf(kind, {
      ...told(`{"jsonrpc":"2.0","id":ID,"result":${result}}`),
      tool: { outputSchema, description: 'half \ud83d of a pair' },
    })
    const [{ content, isError }] = resultsOf(events)
    expect(isError).toBeUndefined()
    expect(JSON.parse(content)).toEqual({
      content: [{ type: 'text', text: 'a\ufffd b' }],
      structuredContent: { a: '\ufffd' },
    })
  })

  test('odd members of progress are left out, and progress that is none is told', async () => {
    const steps = [
      '"progress":1,"message":7',
      '"progress":2,"total":"x","message":"\\ud83d"',
      '"progress":1e400',
      '"progress":3',
    ]
    const events = await eventsOf(kind, { call: 'steps', steps })
    expect(
      ofType(events, 'tool_progress').map(({ progress, total, message }) => ({ progress, total, message })),
    ).toEqual([{ progress: 1 }, { progress: 2, message: '\ufffd' }, { progress: 3 }])
    expect(resultsOf(events)[0].isError).toBeUndefined()
    expect(ofType(events, 'diagnostic')).toMatchObject([{ code: 'mcp_skipped_lines' }])
  })

  test('characters that are not seen are removed from descriptions, with a warning', async () => {
    const description = 'Adds\u001b[31m two\u202e num\u200bbers\u{e0041}'
    const server = await peer(kind, { tool: { description } })
    const seen = []
    const model = fakeProvider([textTurn('end')])
    const agent = createLiteAgent({
      workdir: bench.directory,
      home: bench.directory,
      permission: policy({}),
      mcpServers: { s: server.config },
      model: {
        id: 'm',
        stream: (request, signal) => {
          seen.push(request.tools)
          return model.stream(request, signal)
        },
      },
    })
    agents.push(agent)
    const events = await collect(agent.run('go'))
    expect(seen[0].find((tool) => tool.name === 'mcp__s__echo').description).toBe('Adds[31m two numbers')
    expect(ofType(events, 'diagnostic')).toMatchObject([{ code: 'mcp_unseen_characters', level: 'warning' }])
  })

  test('a flood of progress does not hold up the deadline, however slow its reader is', async () => {
    const server = await peer(kind, { call: 'flood' }, { timeoutMs: 1000 })
    const agent = createAgent({ s: server.config })
    const given = () =>
      kind === 'stdio'
        ? server.messages('notifications/cancelled').length
        : server.entries().some((entry) => entry.closed)
    const results = []
    for await (const event of agent.run('go')) {
      // The reader stands still until the server knows that nobody waits.
      if (event.type === 'tool_progress') await until(given, { what: 'the call is given up' })
      if (event.type === 'tool_result') results.push(event.result)
    }
    expect(results).toMatchObject([{ isError: true, content: expect.stringMatching(/^MCP_(TIMEOUT|LIMIT)/) }])
  })

  test('progress that nobody reads fails its call at the limit', async () => {
    const server = await peer(kind, { call: 'flood', size: 1000 })
    const agent = createAgent({ s: server.config })
    const given = () =>
      kind === 'stdio'
        ? server.messages('notifications/cancelled').length
        : server.entries().some((entry) => entry.closed)
    const results = []
    for await (const event of agent.run('go')) {
      if (event.type === 'tool_progress') await until(given, { what: 'the call is given up' })
      if (event.type === 'tool_result') results.push(event.result)
    }
    expect(results).toMatchObject([
      { isError: true, content: expect.stringMatching(/^MCP_LIMIT.*4194304 bytes (of progress|in one response)/) },
    ])
  })

  test('a list that never comes holds up neither close nor the next change', async () => {
    const server = await peer(kind, { list: 'silent' })
    const agent = createAgent({ s: server.config })
    const abort = new AbortController()
    const run = agent.send('go', { signal: abort.signal })
    await until(() => server.messages('tools/list').length === 1)
    abort.abort()
    await expect(run).rejects.toMatchObject({ code: 'ABORTED' })
    await until(() => agent.mcp.list()[0].status === 'configured', { what: 'the preparation is given up' })

    const again = agent.send('go').catch((error) => error)
    await until(() => server.messages('tools/list').length === 2)
    await agent.close()
    expect(await again).toMatchObject({ code: expect.stringMatching(/^(ABORTED|CLOSED|MCP_CLOSED)$/) })
    if (kind === 'stdio') for (const pid of server.pids()) expect(groupMembers(pid)).toEqual([])
  })
})

test('a tool whose header mark is reached through a reference is left out over HTTP', async () => {
  const inputSchema = {
    type: 'object',
    properties: { value: { $ref: '#/x-defs/q' } },
    'x-defs': { q: { type: 'string', 'x-mcp-header': 'Q' } },
  }
  const server = await peer('http', { tool: { inputSchema } })
  const agent = createAgent({ s: server.config }, [textTurn('end')])
  const events = await collect(agent.run('go'))
  expect(ofType(events, 'diagnostic')).toMatchObject([{ code: 'mcp_tool_left_out' }])
  expect(agent.mcp.list()[0].toolNames).toEqual([])
})

test('closing while a server is being registered leaves no process, not even a dead one', async () => {
  for (let round = 0; round < 16; round++) {
    const server = await peer('stdio', { discover: 'silent' })
    const agent = createAgent({}, [])
    const registered = agent.mcp.register('s', server.config).catch((error) => error)
    if (round % 2) await until(() => server.pids().length === 1)
    await agent.close()
    expect(await registered).toMatchObject({ code: 'MCP_CLOSED' })
    for (const pid of server.pids()) expect(groupMembers(pid)).toEqual([])
  }
})

describe('a command that does not start', () => {
  test.each([
    ['is not found', 'no-such-command', '"no-such-command" is not found'],
    ['is not executable', new URL(import.meta.url).pathname, 'is not executable'],
  ])('because it %s says so', async (_, command, message) => {
    await expect(createAgent({ s: { command } }).send('go')).rejects.toMatchObject({
      code: 'MCP_UNREACHABLE',
      message: expect.stringContaining(message),
    })
  })

  test('because the working directory went away says so', async () => {
    const agent = createAgent({ s: { command: process.execPath } })
    bench.dispose()
    await expect(agent.send('go')).rejects.toMatchObject({ message: expect.stringContaining('working directory') })
  })
})
