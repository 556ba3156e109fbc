// What a host's code can do to a run: nothing that ends it, forges it, leaks through it or grows without bound.
import { createLiteAgent, fakeProvider, policy, tool } from '@lite-agent/sdk'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { callsTurn, collect, createBench, ofType, resultsOf, textTurn } from '../servers/start.mjs'

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
  const agent = createLiteAgent({ workdir: bench.directory, home: bench.directory, ...config })
  agents.push(agent)
  return agent
}

const calling = (handler, turns = [callsTurn(['t', {}]), textTurn('end')]) => ({
  model: fakeProvider(turns),
  tools: [tool('t', '', z.object({}), handler)],
})

test('a tool that tells events of the agent fails, and the run goes on', async () => {
  const agent = createAgent(
    calling((_, ctx) => {
      ctx.emit({ type: 'mine', n: 1 })
      ctx.emit({ type: 'done', result: { history: 1 } })
      return 'x'
    }),
  )
  const heard = []
  agent.subscribe(({ event }) => heard.push(event))
  const events = await collect(agent.run('go'))
  expect(ofType(events, 'mine')).toEqual([{ type: 'mine', n: 1 }])
  expect(ofType(events, 'done')).toHaveLength(1)
  expect(resultsOf(events)[0]).toMatchObject({
    isError: true,
    content: expect.stringContaining('an event of the agent'),
  })
  expect(heard).toEqual(events)
})

test('a tool that tells more events than are read loses some, and says so once', async () => {
  const agent = createAgent(
    calling((_, ctx) => {
      for (let n = 0; n < 5000; n++) ctx.emit({ type: 'mine', n })
      return 'x'
    }),
  )
  const heard = []
  agent.subscribe(({ event }) => heard.push(event))
  const events = await collect(agent.run('go'))
  for (const seen of [events, heard]) {
    const mine = ofType(seen, 'mine').map(({ n }) => n)
    expect(mine.length).toBeLessThanOrEqual(2100)
    expect(mine.length).toBeGreaterThan(500)
    expect(mine).toEqual([...mine].sort((a, b) => a - b))
    expect(ofType(seen, 'diagnostic').map(({ code }) => code)).toContain('tool_events_dropped')
    expect(ofType(seen, 'diagnostic').length).toBeLessThan(5)
  }
  expect(ofType(events, 'done')[0].result.text).toBe('end')
})

test('the model reads no secret and no path of a tool that fails', async () => {
  const secret =
    'failed:/root/secret path=/root/x password: hunter2 (cwd=/home/u)\t/root/z Bearer abcdefgh user@mail.com'
  const agent = createAgent(
    calling(() => {
      throw new Error(`${secret}\n    at /root/stack`)
    }),
  )
  const { content } = resultsOf(await collect(agent.run('go')))[0]
  expect(content).toBe(
    'the tool failed: failed:[redacted] path=[redacted] password: [redacted] (cwd=[redacted])\t[redacted] Bearer [redacted] [redacted]',
  )
})

test('what a policy says of a call is cut', async () => {
  const long = 'r'.repeat(100_000)
  const agent = createAgent({
    ...calling(() => 'ran'),
    permission: { check: () => ({ decision: 'deny', reason: long, ruleId: long }) },
  })
  const events = await collect(agent.run('go'))
  expect(resultsOf(events)[0].content).toMatch(/denied: r{1024}$/)
  expect(ofType(events, 'permission_decision')[0]).toMatchObject({ reason: 'r'.repeat(1024), ruleId: 'r'.repeat(1024) })
})

test('mcp_connect shows no secret of the arguments', async () => {
  const seen = []
  const args = [
    '--token',
    'hunter2',
    'https://u:hunter2@h/',
    '-phunter2',
    'ghp_SECRET7abcdefghijklmnopqrst',
    '/home/me',
  ]
  const agent = createAgent({
    model: fakeProvider([textTurn('end')]),
    mcpServers: { s: { command: 'node', args } },
    permission: {
      check: (call) => {
        seen.push(call.input)
        return 'deny'
      },
    },
  })
  await expect(agent.send('go')).rejects.toMatchObject({ code: 'MCP_DENIED' })
  expect(seen[0].args).toEqual([
    '--token',
    '[redacted]',
    'https://[redacted]@h/',
    '-p[redacted]',
    '[redacted]',
    '/home/me',
  ])
})

test('a result that is changed changes no conversation', async () => {
  const requests = []
  const scripted = fakeProvider([textTurn('one'), textTurn('two')])
  const model = {
    id: 'm',
    stream(request, signal) {
      requests.push(JSON.stringify(request.messages))
      return scripted.stream(request, signal)
    },
  }
  const agent = createAgent({ model })
  const heard = []
  agent.subscribe(({ event }) => event.type === 'done' && heard.push(event.result))
  const first = await agent.send('hello')
  for (const result of [first, heard[0]]) {
    for (const message of result.messages) {
      expect(() => Object.assign(message, { content: 'changed' })).toThrow(TypeError)
    }
    result.messages.length = 0
  }
  const second = await agent.send('again')
  expect(second.messages.map(({ content }) => content)).toEqual([
    'hello',
    [{ type: 'text', text: 'one' }],
    'again',
    [{ type: 'text', text: 'two' }],
  ])
  expect(requests[1]).not.toContain('changed')
  // What came back may be sent again.
  expect((await createAgent({ model: fakeProvider([textTurn('three')]) }).send(second.messages)).messages).toHaveLength(
    5,
  )
})

test('a signal that cannot be listened to leaves nothing in the session', async () => {
  const agent = createAgent({ model: fakeProvider([textTurn('one')]) })
  const signal = {
    aborted: false,
    addEventListener() {
      throw new Error('no')
    },
  }
  await expect(agent.send('lost', { signal })).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
  const { messages } = await agent.send('kept')
  expect(messages.map(({ content }) => content)[0]).toBe('kept')
})

test('numbers and depths out of range are refused without values or inner words', async () => {
  const model = fakeProvider([textTurn('one')])
  const deep = (levels) => JSON.parse('['.repeat(levels) + ']'.repeat(levels))
  for (const config of [
    { maxTurns: 2 ** 40 },
    { permission: policy({ rules: [{ when: { a: { equals: deep(200) } }, effect: 'deny' }] }) },
    { mcpServers: { a: { command: 'x', args: deep(200) } } },
  ]) {
    let error
    try {
      createAgent({ model, ...config })
    } catch (caught) {
      error = caught
    }
    expect(error).toMatchObject({ code: 'CONFIG_INVALID' })
    expect(error.message).not.toMatch(/1099511627776|u32|line 1/)
  }
  const agent = createAgent({ model })
  await expect(agent.mcp.register('a', { command: 'x', args: deep(200) })).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
  })
  await expect(agent.send([{ role: 'user', content: 'x', deep: deep(5000) }])).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
  })
  const native = [{ role: 'user', content: [{ type: 'native', provider: 'p', data: deep(300) }] }]
  expect((await agent.send(native)).text).toBe('one')
})
