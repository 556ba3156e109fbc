// Sessions: one session's runs wait for each other in call order, different sessions run at once, and all come to rest.
import { createLiteAgent, fakeProvider, policy, tool } from '@lite-agent/sdk'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { callsTurn, collect, createBench, ofType, textTurn, until } from '../servers/start.mjs'

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

function createAgent(model, config = {}) {
  const agent = createLiteAgent({
    workdir: bench.directory,
    home: bench.directory,
    model,
    permission: policy({}),
    ...config,
  })
  agents.push(agent)
  return agent
}

const lastText = ({ messages }) => messages.findLast(({ role }) => role === 'user').content

/** A model whose answers wait for `answer(n)`; `asked` holds what each request ends with. */
function gatedModel() {
  const asked = []
  const gates = []
  return {
    id: 'gated',
    asked,
    answer: (index) => gates[index](),
    async *stream(request) {
      asked.push(lastText(request))
      await new Promise((resolve) => gates.push(resolve))
      yield { type: 'message_done', ...textTurn(`to ${lastText(request)}`) }
    },
  }
}

test('the runs of one session go one after another, in call order', async () => {
  const model = gatedModel()
  const agent = createAgent(model)
  const inputs = Array.from({ length: 20 }, (_, index) => `input ${index}`)
  const sent = inputs.map((input, index) => (index % 2 ? agent.send(input) : collect(agent.run(input))))
  for (const index of inputs.keys()) {
    await until(() => model.asked.length === index + 1)
    model.answer(index)
  }
  await Promise.all(sent)
  expect(model.asked).toEqual(inputs)
})

test('an abort while a run waits for its session rejects at once and frees its place', async () => {
  const model = gatedModel()
  const agent = createAgent(model)
  const first = agent.send('first')
  await until(() => model.asked.length === 1)
  const abort = new AbortController()
  const second = agent.send('second', { signal: abort.signal })
  const looped = collect(agent.run('second, too', { signal: abort.signal }))
  const third = agent.send('third')
  abort.abort(new Error('enough'))
  for (const run of [second, looped]) {
    await expect(run).rejects.toMatchObject({
      name: 'AbortError',
      code: 'ABORTED',
      message: expect.stringContaining('aborted'),
      cause: { message: 'enough' },
    })
  }
  expect(model.asked).toEqual(['first'])
  model.answer(0)
  await first
  await until(() => model.asked.length === 2)
  model.answer(1)
  const { messages } = await third
  expect(messages.filter(({ role }) => role === 'user').map(({ content }) => content)).toEqual(['first', 'third'])
})

test('20 sessions run at once, each with its own calls within its own limit', async () => {
  const count = 20
  const running = new Map()
  const peaks = new Map()
  const gates = []
  const wait = tool('wait', 'Waits', z.object({}), async (_input, { sessionId }) => {
    const now = (running.get(sessionId) ?? 0) + 1
    running.set(sessionId, now)
    peaks.set(sessionId, Math.max(peaks.get(sessionId) ?? 0, now))
    await new Promise((resolve) => gates.push(resolve))
    running.set(sessionId, running.get(sessionId) - 1)
    return sessionId
  })
  const model = {
    id: 'each',
    async *stream({ messages }) {
      const done = messages.length > 1
      const turn = done
        ? textTurn(messages.at(-1).content[0].content)
        : callsTurn(['wait', {}], ['wait', {}], ['wait', {}])
      yield { type: 'message_done', ...turn }
    },
  }
  const agent = createAgent(model, { tools: [wait], maxParallelTools: 2 })
  const ids = Array.from({ length: count }, (_, index) => `session-${index}`)
  const sent = ids.map((sessionId) => agent.send('go', { sessionId }))
  await until(() => gates.length === 2 * count)
  for (let opened = 0; opened < 3 * count; opened++) (await until(() => gates.shift()))()
  const results = await Promise.all(sent)
  expect(results.map(({ text }) => text)).toEqual(ids)
  expect(peaks).toEqual(new Map(ids.map((id) => [id, 2])))
  await Promise.all(ids.map((id) => agent.awaitIdle(id)))
})

test('an aborted run ends at once though the preparation goes on for another session', async () => {
  const prompts = []
  const agent = createAgent(fakeProvider([textTurn('fine')]), {
    mcpServers: { local: bench.stdio('official-stdio').config },
    permission: undefined,
    onApproval: { request: () => new Promise((resolve) => prompts.push(resolve)) },
  })
  const abort = new AbortController()
  const events = []
  const first = (async () => {
    for await (const event of agent.run('first', { signal: abort.signal, sessionId: 'first' })) events.push(event)
  })()
  await until(() => prompts.length === 1)
  const second = agent.send('second')
  abort.abort()
  await expect(first).rejects.toMatchObject({ code: 'ABORTED' })
  expect(ofType(events, 'approval_request')).toHaveLength(1)
  prompts[0]('allow')
  expect((await second).text).toBe('fine')
})

test('a subscriber may send from within its listener', async () => {
  const agent = createAgent(fakeProvider([textTurn('one'), textTurn('two'), textTurn('three')]))
  const sent = []
  agent.subscribe(({ event }) => {
    if (event.type === 'done' && sent.length < 2) sent.push(agent.send(`after ${event.result.text}`))
  })
  await agent.send('go')
  await until(() => sent.length === 2)
  const { messages } = (await Promise.all(sent))[1]
  expect(messages.filter(({ role }) => role === 'user').map(({ content }) => content)).toEqual([
    'go',
    'after one',
    'after two',
  ])
})

describe('awaitIdle', () => {
  test('waits for the session’s runs, queued ones too, and for no other session', async () => {
    const model = gatedModel()
    const agent = createAgent(model)
    const ended = []
    agent.send('other', { sessionId: 'other' }).catch(() => {})
    await until(() => model.asked.length === 1)
    agent.send('first').then(() => ended.push('first'))
    agent.send('second').then(() => ended.push('second'))
    let idle = false
    const resting = agent.awaitIdle().then(() => {
      idle = true
    })
    await agent.awaitIdle('a session that nobody knows')
    await until(() => model.asked.length === 2)
    model.answer(1)
    await until(() => model.asked.length === 3)
    expect([idle, ended]).toEqual([false, ['first']])
    model.answer(2)
    await resting
    expect(ended).toEqual(['first', 'second'])
    expect(model.asked).toEqual(['other', 'first', 'second'])
  })

  test('resolves when a run fails or is aborted', async () => {
    const agent = createAgent(fakeProvider([]))
    const failed = agent.send('go').catch((error) => error.code)
    const abort = new AbortController()
    const aborted = agent.send('go', { signal: abort.signal }).catch((error) => error.code)
    abort.abort()
    await agent.awaitIdle()
    expect(await Promise.all([failed, aborted])).toEqual(['PROVIDER', 'ABORTED'])
    await agent.awaitIdle(agent.sessionId)
  })

  test('takes an id or nothing, and rejects after close', async () => {
    const agent = createAgent(fakeProvider([]))
    for (const id of [1, null, '']) {
      await expect(agent.awaitIdle(id)).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
    }
    const model = gatedModel()
    const busy = createAgent(model)
    const sent = busy.send('go').catch(() => {})
    await until(() => model.asked.length === 1)
    const resting = busy.awaitIdle()
    await busy.close()
    await resting
    await sent
    await expect(busy.awaitIdle()).rejects.toMatchObject({ code: 'CLOSED', message: expect.stringContaining('closed') })
  })
})
