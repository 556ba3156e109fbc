// The main road: JavaScript, the Rust agent, real MCP servers over stdio and HTTP, and back.
import { createLiteAgent, fakeProvider, policy, tool } from '@lite-agent/sdk'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import {
  callsTurn,
  collect,
  createBench,
  groupMembers,
  isAlive,
  ofType,
  resultsOf,
  textTurn,
  until,
} from '../servers/start.mjs'

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

function createAgent(turns, config = {}) {
  const agent = createLiteAgent({
    workdir: bench.directory,
    home: bench.directory,
    model: fakeProvider(turns),
    permission: policy({ default: 'allow' }),
    ...config,
  })
  agents.push(agent)
  return agent
}

const content = (result) => JSON.parse(result.content)
const text = (value) => ({ content: [{ type: 'text', text: value }] })

test('one turn calls tools of a stdio and an HTTP server and a JavaScript tool', async () => {
  const stdio = bench.stdio('official-stdio')
  const http = await bench.http('official-http')
  const seen = []
  const double = tool('double', 'Doubles', z.object({ n: z.coerce.number() }), ({ n }, ctx) => {
    seen.push([n, ctx.call.id, typeof ctx.sessionId, ctx.signal.aborted])
    return String(n * 2)
  })
  const agent = createAgent(
    [
      callsTurn(
        ['mcp__local__add', { a: 2, b: 3 }],
        ['mcp__web__echo', { value: 'hé\u2028llo 😀' }],
        ['double', { n: '21' }],
        ['mcp__web__structured', { n: 2 }],
      ),
      textTurn('all done'),
    ],
    { mcpServers: { local: stdio.config, web: http.config }, tools: [double] },
  )
  const events = await collect(agent.run('go'))

  const results = resultsOf(events)
  expect(results.map(({ id, name }) => [id, name]).sort()).toEqual([
    ['call-1', 'mcp__local__add'],
    ['call-2', 'mcp__web__echo'],
    ['call-3', 'double'],
    ['call-4', 'mcp__web__structured'],
  ])
  const byId = Object.fromEntries(results.map((result) => [result.id, result]))
  expect(content(byId['call-1'])).toMatchObject(text('5'))
  expect(content(byId['call-2'])).toMatchObject(text('hé\u2028llo 😀'))
  expect(byId['call-3'].content).toBe('42')
  expect(content(byId['call-4'])).toEqual({
    ...text('2 items'),
    structuredContent: {
      items: [
        { id: 0, name: 'item 0' },
        { id: 1, name: 'item 1' },
      ],
    },
  })
  expect(seen).toEqual([[21, 'call-3', 'string', false]])

  const { result, reason } = ofType(events, 'done')[0]
  expect(reason).toBe('stop')
  expect(result).toMatchObject({ text: 'all done', stopReason: 'stop' })
  const toolMessage = result.messages.find((message) => message.content[0]?.type === 'tool_result')
  expect(toolMessage.role).toBe('user')
  expect(toolMessage.content.map((block) => block.id)).toEqual(['call-1', 'call-2', 'call-3', 'call-4'])
})

test('events come in the order of the contract', async () => {
  const stdio = bench.stdio('official-stdio')
  const agent = createAgent(
    [callsTurn(['mcp__local__add', { a: 1, b: 1 }], ['mcp__local__progress', { n: 3 }]), textTurn('end')],
    { mcpServers: { local: stdio.config } },
  )
  const events = await collect(agent.run('go'))
  const types = events.map((event) => event.type)

  expect(types.lastIndexOf('tool_use')).toBeLessThan(types.indexOf('tool_call_start'))
  expect(types.indexOf('turn_start')).toBeLessThan(types.indexOf('model_call_start'))
  expect(types.indexOf('model_call_start')).toBeLessThan(types.indexOf('model_call_end'))
  expect(types.at(-1)).toBe('done')
  for (const id of ['call-1', 'call-2']) {
    const own = events.filter((event) => (event.call?.id ?? event.id ?? event.result?.id) === id)
    expect(own.map((event) => event.type).filter((type) => type !== 'tool_progress')).toEqual([
      'tool_use',
      'tool_call_start',
      'permission_decision',
      'tool_call_end',
      'tool_result',
    ])
  }
  expect(ofType(events, 'tool_progress')).toEqual(
    [1, 2, 3].map((progress) => ({
      type: 'tool_progress',
      id: 'call-2',
      name: 'mcp__local__progress',
      progress,
      total: 3,
      message: `step ${progress}`,
    })),
  )
  expect(
    ofType(events, 'text_delta')
      .map((event) => event.text)
      .join(''),
  ).toBe('end')
})

test('send resolves to the result, and subscribers see every run', async () => {
  const agent = createAgent([textTurn('one'), textTurn('two'), textTurn('three')])
  const seen = []
  agent.subscribe(() => {
    throw new Error('a bad listener')
  })
  const stop = agent.subscribe((envelope) => seen.push(envelope))
  const result = await agent.send('first')
  expect(result).toMatchObject({ text: 'one', stopReason: 'stop' })
  await collect(agent.run('second'))
  await until(() => seen.filter(({ event }) => event.type === 'done').length === 2)
  expect(new Set(seen.map(({ sessionId, source }) => `${sessionId} ${source}`))).toEqual(
    new Set([`${agent.sessionId} user`]),
  )
  stop()
  const before = seen.length
  await agent.send('third')
  expect(seen.length).toBe(before)
})

test('a session remembers its messages; sessions are apart', async () => {
  const requests = []
  const model = {
    id: 'recorder',
    async *stream(request) {
      requests.push(request)
      yield {
        type: 'message_done',
        ...textTurn(`answer ${requests.length}`),
        usage: { inputTokens: 1, outputTokens: 2 },
      }
    },
  }
  const agent = createAgent([], { model, modelName: 'named', system: 'be brief' })
  await agent.send('one')
  const second = await agent.send('two')
  await agent.send('other', { sessionId: 'another-session' })
  const texts = (messages) =>
    messages.map(({ content: c }) => (typeof c === 'string' ? c : c.map((b) => b.text).join('')))
  expect(requests.map(({ messages }) => texts(messages))).toEqual([['one'], ['one', 'answer 1', 'two'], ['other']])
  expect(requests[0]).toMatchObject({ model: 'named', system: 'be brief' })
  expect(texts(second.messages)).toEqual(['one', 'answer 1', 'two', 'answer 2'])
  expect(second.usage).toMatchObject({ inputTokens: 1, outputTokens: 2 })
})

test('calls of one turn run at once up to maxParallelTools, and results keep the order of the calls', async () => {
  let running = 0
  let peak = 0
  const gates = []
  const wait = tool('wait', 'Waits', z.object({ n: z.number() }), async ({ n }) => {
    running += 1
    peak = Math.max(peak, running)
    await new Promise((resolve) => gates.push(resolve))
    running -= 1
    return `done ${n}`
  })
  const agent = createAgent([callsTurn(...[1, 2, 3, 4].map((n) => ['wait', { n }])), textTurn('end')], {
    tools: [wait],
    maxParallelTools: 2,
  })
  const sent = agent.send('go')
  for (let finished = 0; finished < 4; finished++) {
    const gate = await until(() => running === Math.min(2, 4 - finished) && gates.pop(), { what: `gate ${finished}` })
    gate()
  }
  const { messages } = await sent
  expect(peak).toBe(2)
  const toolMessage = messages.find((message) => message.content[0]?.type === 'tool_result')
  expect(toolMessage.content.map((block) => block.content)).toEqual(['done 1', 'done 2', 'done 3', 'done 4'])
})

test('a slow call does not keep the next ones from starting', async () => {
  const started = []
  let release
  const wait = tool('wait', 'Waits', z.object({ n: z.number() }), async ({ n }) => {
    started.push(n)
    if (n === 1) await new Promise((resolve) => (release = resolve))
    if (n === 4) release()
    return `done ${n}`
  })
  const agent = createAgent([callsTurn(...[1, 2, 3, 4].map((n) => ['wait', { n }])), textTurn('end')], {
    tools: [wait],
    maxParallelTools: 2,
  })
  const { messages } = await agent.send('go')
  expect(started).toEqual([1, 2, 3, 4])
  const toolMessage = messages.find((message) => message.content[0]?.type === 'tool_result')
  expect(toolMessage.content.map((block) => block.content)).toEqual(['done 1', 'done 2', 'done 3', 'done 4'])
})

test('a model that has given its message is closed, not aborted', async () => {
  const ended = []
  const model = {
    id: 'model',
    async *stream(_request, signal) {
      try {
        yield { type: 'message_done', ...textTurn('ok'), usage: { inputTokens: 1, outputTokens: 1 } }
        ended.push('read on')
      } finally {
        ended.push(`closed, aborted: ${signal.aborted}`)
      }
    },
  }
  const agent = createAgent([], { model })
  for (let at = 0; at < 20; at++) await agent.send('go')
  expect(ended).toEqual(Array(20).fill('closed, aborted: false'))
})

test('the model sees only what is allowed, with the server’s schema unchanged', async () => {
  const stdio = bench.stdio('official-stdio')
  const requests = []
  const model = {
    id: 'recorder',
    async *stream(request) {
      requests.push(request)
      yield { type: 'message_done', ...textTurn('ok'), usage: { inputTokens: 0, outputTokens: 0 } }
    },
  }
  const agent = createAgent([], {
    model,
    mcpServers: { local: stdio.config },
    allowedTools: ['mcp__local__add', 'mcp__local__echo', 'mcp__local__fail'],
    disallowedTools: ['mcp__local__fail'],
  })
  await agent.send('go')
  await agent.send('again')
  expect(requests[0].tools.map(({ name }) => name)).toEqual(['mcp__local__add', 'mcp__local__echo'])
  expect(requests[1].tools).toEqual(requests[0].tools)
  expect(requests[0].tools[1]).toMatchObject({
    description: 'Gives its input back',
    parameters: {
      properties: { value: { $ref: '#/$defs/word' } },
      required: ['value'],
      additionalProperties: false,
      $defs: { word: { type: 'string', maxLength: 200000 } },
    },
  })
})

test('without onApproval an MCP server is not connected: no process, no byte', async () => {
  const stdio = bench.stdio('official-stdio')
  const http = await bench.http('official-http')
  const agent = createAgent([textTurn('never')], {
    mcpServers: { local: stdio.config, web: http.config },
    permission: undefined,
  })
  await expect(agent.send('go')).rejects.toMatchObject({
    code: 'MCP_DENIED',
    message: expect.stringContaining('denied'),
  })
  expect(stdio.wasTouched()).toBe(false)
  expect(http.messages()).toEqual([])
})

test('approvals are asked one after another, with no value of a header or of the environment', async () => {
  const stdio = bench.stdio('official-stdio', {}, { env: { TOKEN: 'env-secret' } })
  const http = await bench.http('official-http', {}, { headers: { 'x-key': 'header-secret' } })
  const asked = []
  let open = 0
  const onApproval = {
    async request(call) {
      open += 1
      expect(open).toBe(1)
      asked.push(call)
      await new Promise((resolve) => setImmediate(resolve))
      open -= 1
      return call.name === 'mcp__web__echo' ? 'deny' : 'allow'
    },
  }
  const agent = createAgent(
    [callsTurn(['mcp__local__add', { a: 1, b: 2 }], ['mcp__web__echo', { value: 'x' }]), textTurn('end')],
    { mcpServers: { local: stdio.config, web: http.config }, permission: undefined, onApproval },
  )
  const events = await collect(agent.run('go'))
  expect(asked.map(({ name, input }) => [name, input.server ?? null]).slice(0, 2)).toEqual([
    ['mcp_connect', 'local'],
    ['mcp_connect', 'web'],
  ])
  expect(asked[0].input).toMatchObject({ source: 'constructor', type: 'stdio', envKeys: ['TOKEN'] })
  expect(asked[1].input).toMatchObject({ type: 'http', origin: new URL(http.url).origin, headerKeys: ['x-key'] })
  expect(JSON.stringify(asked)).not.toMatch(/env-secret|header-secret/)
  expect(
    asked
      .slice(2)
      .map(({ name }) => name)
      .sort(),
  ).toEqual(['mcp__local__add', 'mcp__web__echo'])
  const [sum, echo] = ['call-1', 'call-2'].map((id) => resultsOf(events).find((result) => result.id === id))
  expect(content(sum)).toMatchObject(text('3'))
  expect(echo).toMatchObject({ isError: true, content: expect.stringContaining('denied') })
  expect(http.messages('tools/call')).toEqual([])
})

test('a rule decides by the input, natively or with where', async () => {
  const calls = []
  const say = tool('say', 'Says', z.object({ to: z.string() }), ({ to }) => {
    calls.push(to)
    return 'said'
  })
  const permission = policy({
    rules: [
      { id: 'no-root', tool: 'say', when: { to: { startsWith: 'root' } }, effect: 'deny' },
      { id: 'no-cats', tool: 'say', where: ({ to }) => to === 'cat', effect: 'deny' },
    ],
  })
  const agent = createAgent(
    [callsTurn(['say', { to: 'dog' }], ['say', { to: 'root@x' }], ['say', { to: 'cat' }]), textTurn('end')],
    { tools: [say], permission },
  )
  const events = await collect(agent.run('go'))
  expect(calls).toEqual(['dog'])
  const decisions = ofType(events, 'permission_decision')
  expect(decisions.map(({ call, decision, ruleId, by }) => [call.id, decision, ruleId ?? null, by]).sort()).toEqual([
    ['call-1', 'allow', null, 'policy'],
    ['call-2', 'deny', 'no-root', 'policy'],
    ['call-3', 'deny', 'no-cats', 'policy'],
  ])
})

test('an input that breaks the schema is not sent', async () => {
  const stdio = bench.stdio('official-stdio')
  const agent = createAgent(
    [callsTurn(['mcp__local__add', { a: 'one', b: 2 }], ['mcp__local__nothing', {}]), textTurn('end')],
    { mcpServers: { local: stdio.config } },
  )
  const results = resultsOf(await collect(agent.run('go')))
  expect(results.map(({ isError }) => isError)).toEqual([true, true])
  expect(results.find(({ id }) => id === 'call-1').content).toMatch(/\/a|\ba\b/)
  expect(stdio.messages('tools/call')).toEqual([])
})

test('the wire holds no initialize, every request its _meta, and one process serves', async () => {
  const stdio = bench.stdio('official-stdio')
  const http = await bench.http('official-http')
  const agent = createAgent(
    [callsTurn(['mcp__local__add', { a: 1, b: 2 }], ['mcp__web__fail', {}]), textTurn('end'), textTurn('end')],
    { mcpServers: { local: stdio.config, web: http.config } },
  )
  const events = await collect(agent.run('go'))
  await agent.send('again')
  expect(resultsOf(events).find(({ name }) => name === 'mcp__web__fail')).toMatchObject({
    isError: true,
    content: expect.stringContaining('this tool always fails'),
  })
  for (const server of [stdio, http]) {
    const messages = server.messages()
    expect(messages.length).toBeGreaterThan(2)
    expect(messages[0].method).toBe('server/discover')
    for (const message of messages) {
      expect(message.method).not.toMatch(/^initialize|notifications\/initialized|ping/)
      if (message.id === undefined) continue
      expect(message.params._meta).toMatchObject({
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
      })
    }
    expect(server.messages('server/discover').length).toBe(1)
  }
  expect(stdio.pids().length).toBe(1)
  const call = http.entries().find(({ message }) => message?.method === 'tools/call')
  expect(call.headers).toMatchObject({
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'fail',
  })
})

test('mcp.list tells the state, from configured to ready', async () => {
  const stdio = bench.stdio('official-stdio')
  const agent = createAgent([textTurn('end')], { mcpServers: { local: stdio.config } })
  expect(agent.mcp.list()).toEqual([{ name: 'local', source: 'constructor', status: 'configured', toolNames: [] }])
  expect(stdio.wasTouched()).toBe(false)
  await agent.send('go')
  expect(agent.mcp.list()).toEqual([
    {
      name: 'local',
      source: 'constructor',
      status: 'ready',
      toolNames: 'add echo slow fail structured progress hold grow probe long gallery long_failure die'
        .split(' ')
        .map((name) => `mcp__local__${name}`),
    },
  ])
})

test('servers can be registered and unregistered, and a failed one leaves no trace', async () => {
  const http = await bench.http('official-http')
  const agent = createAgent([callsTurn(['mcp__web__add', { a: 4, b: 4 }]), textTurn('end')])
  await agent.mcp.register('web', http.config)
  expect(agent.mcp.list()).toMatchObject([{ name: 'web', source: 'instance', status: 'ready' }])
  await expect(agent.mcp.register('web', http.config)).rejects.toMatchObject({
    code: 'MCP_EXISTS',
    message: expect.stringContaining('already'),
  })
  await expect(agent.mcp.register('gone', { command: 'no-such-command-anywhere' })).rejects.toMatchObject({
    name: 'McpError',
    message: expect.stringContaining('no-such-command-anywhere'),
  })
  expect(agent.mcp.list().map(({ name }) => name)).toEqual(['web'])
  const [sum] = resultsOf(await collect(agent.run('go')))
  expect(content(sum)).toMatchObject(text('8'))
  await agent.mcp.unregister('web')
  expect(agent.mcp.list()).toEqual([])
  await expect(agent.mcp.unregister('web')).rejects.toMatchObject({ code: 'MCP_UNKNOWN' })
})

test('close ends every process of a server’s group and rejects later calls', async () => {
  const polite = bench.stdio('official-stdio', { grandchild: true })
  const stubborn = bench.stdio('official-stdio', { stay: true })
  const agent = createAgent([textTurn('end')], { mcpServers: { polite: polite.config, stubborn: stubborn.config } })
  await agent.send('go')
  const pids = [...polite.pids(), ...stubborn.pids()]
  expect(pids.length).toBe(2)
  const grandchild = polite.entries().find((entry) => entry.grandchild).grandchild
  expect(isAlive(grandchild)).toBe(true)
  await agent.close()
  expect(pids.filter(isAlive)).toEqual([])
  // Killed before close resolved; the kernel may need a moment more for a process that is not our child.
  await until(() => [grandchild, ...pids.flatMap(groupMembers)].every((pid) => !isAlive(pid)), { withinMs: 1000 })
  await agent.close()
  await expect(agent.send('late')).rejects.toMatchObject({ code: 'CLOSED', message: expect.stringContaining('closed') })
  await expect(agent.mcp.register('x', { command: 'node' })).rejects.toThrow('closed')
})

test('a loop that never ends stops at maxTurns', async () => {
  const again = tool('again', 'Again', z.object({}), () => 'once more')
  const agent = createAgent([callsTurn(['again', {}]), callsTurn(['again', {}]), callsTurn(['again', {}])], {
    tools: [again],
    maxTurns: 2,
  })
  expect(await agent.send('go')).toMatchObject({ stopReason: 'max_turns' })
})

test('an input that is null is refused as any other wrong type; only an absent one is empty', async () => {
  const server = bench.stdio('raw-stdio')
  const calls = callsTurn(
    ['mcp__s__echo', undefined],
    ['mcp__s__echo', null],
    ['context', null],
    ['context', undefined],
  )
  const agent = createAgent([calls, textTurn('end')], { mcpServers: { s: server.config } })
  const results = resultsOf(await collect(agent.run('go')))
  const refused = {
    isError: true,
    content: expect.stringMatching(/does not fit the tool's schema: .*must be an object/),
  }
  const byId = Object.fromEntries(results.map((result) => [result.id, result]))
  expect(byId['call-1'].isError).toBeUndefined()
  expect(byId['call-2']).toMatchObject(refused)
  expect(byId['call-3']).toMatchObject(refused)
  expect(byId['call-4'].isError).toBeUndefined()
  expect(server.messages('tools/call').map((call) => call.params.arguments)).toEqual([{}])
})
