// Approvals and the dry run: one prompt at a time for the whole agent, and what a prompt that goes wrong means.
import { createLiteAgent, fakeProvider, policy, tool } from '@lite-agent/sdk'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
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

function createAgent(turns, config = {}) {
  const agent = createLiteAgent({
    workdir: bench.directory,
    home: bench.directory,
    model: Array.isArray(turns) ? fakeProvider(turns) : turns,
    tools: [say],
    permission: policy({ ask: ['say', 'mcp_connect'] }),
    ...config,
  })
  agents.push(agent)
  return agent
}

const say = tool('say', 'Says', z.object({ word: z.string() }), ({ word }) => `said ${word}`)

/** Asks for the words of the last user message, then ends. */
const wordsModel = {
  id: 'words',
  async *stream({ messages }) {
    const { role, content } = messages.at(-1)
    const words = role === 'user' && typeof content === 'string' ? content.split(' ') : []
    const turn = words.length ? callsTurn(...words.map((word) => ['say', { word }])) : textTurn('end')
    yield { type: 'message_done', ...turn }
  },
}

/** An approval handler that records its prompts and leaves the answers to the test. */
function desk() {
  const prompts = []
  return {
    prompts,
    shown: () => prompts.map(({ call }) => call.input.word ?? call.input.server),
    request: (call, signal) =>
      new Promise((resolve, reject) => {
        prompts.push({ call, signal, resolve, reject })
      }),
  }
}

test('one prompt is open at a time, over all calls, sessions and servers, first come first served', async () => {
  const onApproval = desk()
  const agent = createAgent(wordsModel, { onApproval })
  const one = agent.send('a b', { sessionId: 'one' })
  await until(() => onApproval.prompts.length === 1)
  const two = collect(agent.run('c', { sessionId: 'two' }))
  const seen = []
  agent.subscribe(({ event }) => seen.push(event.type))
  const three = agent.send('d', { sessionId: 'three' })
  await until(() => seen.filter((type) => type === 'permission_decision').length >= 2)
  const waiting = onApproval.prompts.length
  for (let answered = 0; answered < 4; answered++) {
    await until(() => onApproval.prompts.length === answered + 1)
    onApproval.prompts[answered].resolve(answered === 1 ? 'deny' : 'allow')
  }
  await Promise.all([one, two, three])
  expect(waiting).toBe(1)
  expect(onApproval.shown().slice(0, 2)).toEqual(['a', 'b'])
  expect(onApproval.shown().slice(2).sort()).toEqual(['c', 'd'])
  expect((await one).messages.at(-2).content).toMatchObject([
    { content: 'said a' },
    { isError: true, content: '`say` was denied: by the user' },
  ])
  expect(resultsOf(await two)).toEqual([{ id: 'call-1', name: 'say', content: 'said c' }])
})

test('a connection is asked for in the same queue', async () => {
  const onApproval = desk()
  const server = bench.stdio('official-stdio')
  const agent = createAgent(wordsModel, { onApproval, mcpServers: { local: server.config } })
  const first = agent.send('a', { sessionId: 'first' })
  await until(() => onApproval.prompts.length === 1)
  expect(onApproval.prompts[0].call).toMatchObject({ name: 'mcp_connect', input: { server: 'local' } })
  expect(server.wasTouched()).toBe(false)
  onApproval.prompts[0].resolve('allow')
  await until(() => onApproval.prompts.length === 2)
  onApproval.prompts[1].resolve('allow')
  await first
  expect(onApproval.shown()).toEqual(['local', 'a'])
})

test('a prompt whose run is aborted while it waits is never shown, and holds up nobody', async () => {
  const onApproval = desk()
  const agent = createAgent(wordsModel, { onApproval })
  const events = []
  agent.subscribe(({ sessionId, event }) => events.push({ sessionId, ...event }))
  const one = agent.send('a', { sessionId: 'one' })
  await until(() => onApproval.prompts.length === 1)
  const abort = new AbortController()
  const two = agent.send('b', { sessionId: 'two', signal: abort.signal })
  await until(() => events.some(({ sessionId, type }) => sessionId === 'two' && type === 'permission_decision'))
  const three = agent.send('c', { sessionId: 'three' })
  await until(() => events.some(({ sessionId, type }) => sessionId === 'three' && type === 'permission_decision'))
  abort.abort()
  // At once: the first prompt is still open.
  expect((await two).stopReason).toBe('aborted')
  onApproval.prompts[0].resolve('allow')
  await until(() => onApproval.prompts.length === 2)
  onApproval.prompts[1].resolve('allow')
  await Promise.all([one, three])
  await until(() => events.filter(({ type }) => type === 'done').length === 3)
  expect(onApproval.shown()).toEqual(['a', 'c'])
  expect(ofType(events, 'approval_request').map(({ sessionId }) => sessionId)).toEqual(['one', 'three'])
  expect(ofType(events, 'approval_resolved').map(({ sessionId }) => sessionId)).toEqual(['one', 'three'])
})

test('an abort ends the prompt that is open, and the next one is shown', async () => {
  const onApproval = desk()
  const agent = createAgent(wordsModel, { onApproval })
  const abort = new AbortController()
  const one = agent.send('a b', { sessionId: 'one', signal: abort.signal })
  await until(() => onApproval.prompts.length === 1)
  const two = agent.send('c', { sessionId: 'two' })
  abort.abort()
  expect((await one).stopReason).toBe('aborted')
  await until(() => onApproval.prompts.length === 2 && onApproval.prompts[0].signal.aborted)
  onApproval.prompts[1].resolve('allow')
  expect((await two).stopReason).toBe('stop')
  expect(onApproval.shown()).toEqual(['a', 'c'])
})

test('an approval that throws is a deny, and the next prompt is shown', async () => {
  const onApproval = desk()
  const agent = createAgent(wordsModel, { onApproval })
  const read = collect(agent.run('a b'))
  await until(() => onApproval.prompts.length === 1)
  onApproval.prompts[0].reject(new Error('sk-secret'))
  await until(() => onApproval.prompts.length === 2)
  onApproval.prompts[1].resolve('allow')
  const events = await read
  expect(ofType(events, 'approval_resolved').map(({ id, decision }) => [id, decision])).toEqual([
    ['call-1', 'deny'],
    ['call-2', 'allow'],
  ])
  expect(resultsOf(events).find(({ id }) => id === 'call-1')).toMatchObject({
    isError: true,
    content: '`say` was denied: the approval handler failed',
  })
  expect(JSON.stringify(events)).not.toContain('sk-secret')
})

test('a run whose events nobody reads does not hold up the prompts of others', async () => {
  const onApproval = desk()
  let noisy = false
  const noise = tool('noise', 'Fills the queue of events', z.object({}), (_input, { emit }) => {
    for (let n = 0; n < 2000; n++) emit({ type: 'noise', n })
    noisy = true
    return 'x'
  })
  const unreadModel = {
    id: 'unread',
    stream(request) {
      const [{ content }] = request.messages
      if (content !== 'unread') return wordsModel.stream(request)
      const turn = request.messages.length > 1 ? textTurn('end') : callsTurn(['say', { word: 'b' }], ['noise', {}])
      return (async function* () {
        yield { type: 'message_done', ...turn }
      })()
    },
  }
  const agent = createAgent(unreadModel, { onApproval, tools: [say, noise] })
  const one = agent.send('a', { sessionId: 'one' })
  await until(() => onApproval.prompts.length === 1)
  const unread = agent.run('unread', { sessionId: 'unread' })
  await until(() => noisy)
  const three = agent.send('c', { sessionId: 'three' })
  for (let answered = 0; answered < 3; answered++) {
    await until(() => onApproval.prompts.length === answered + 1)
    onApproval.prompts[answered].resolve('allow')
  }
  await Promise.all([one, three])
  expect(onApproval.shown().sort()).toEqual(['a', 'b', 'c'])
  const own = (await collect(unread)).filter((event) => event.type !== 'noise')
  const types = own.filter(({ call, id }) => (call?.id ?? id) === 'call-1').map(({ type }) => type)
  expect(types.slice(-3)).toEqual(['approval_request', 'approval_resolved', 'tool_call_end'])
  expect(own.at(-1)).toMatchObject({ type: 'done', reason: 'stop' })
})

describe('a dry run', () => {
  test('tells every verdict and lets tools run without asking', async () => {
    const onApproval = desk()
    const agent = createAgent(
      [
        callsTurn(['say', { word: 'a' }], ['say', { word: 'b' }], ['say', { word: 'c' }], ['say', { word: 1 }]),
        textTurn('end'),
      ],
      {
        onApproval,
        permissionMode: 'dry-run',
        permission: policy({
          rules: [
            { id: 'no-a', when: { word: { equals: 'a' } }, effect: 'deny', description: 'a is bad' },
            { id: 'ask-b', when: { word: { equals: 'b' } }, effect: 'ask' },
          ],
        }),
      },
    )
    const events = await collect(agent.run('go'))
    const decisions = ofType(events, 'permission_decision').sort((a, b) => a.call.id.localeCompare(b.call.id))
    const call = (index, word) => ({ id: `call-${index}`, name: 'say', input: { word } })
    const base = { type: 'permission_decision', by: 'policy', simulated: true }
    expect(decisions).toEqual([
      { ...base, call: call(1, 'a'), decision: 'deny', ruleId: 'no-a', reason: 'a is bad' },
      { ...base, call: call(2, 'b'), decision: 'ask', ruleId: 'ask-b' },
      { ...base, call: call(3, 'c'), decision: 'allow' },
    ])
    const results = resultsOf(events).sort((a, b) => a.id.localeCompare(b.id))
    expect(results.map(({ content }) => content).slice(0, 3)).toEqual(['said a', 'said b', 'said c'])
    // The schema is no permission: it holds.
    expect(results[3]).toMatchObject({ isError: true, content: expect.stringContaining('schema') })
    expect(onApproval.prompts).toEqual([])
    expect(ofType(events, 'approval_request')).toEqual([])
  })

  test('needs no policy that works', async () => {
    const agent = createAgent([callsTurn(['say', { word: 'a' }]), textTurn('end')], {
      permissionMode: 'dry-run',
      permission: {
        check() {
          throw new Error('broken')
        },
      },
    })
    const events = await collect(agent.run('go'))
    expect(ofType(events, 'permission_decision')).toMatchObject([{ decision: 'deny', simulated: true }])
    expect(resultsOf(events)).toEqual([{ id: 'call-1', name: 'say', content: 'said a' }])
  })

  test('relaxes a server’s tools, never the connection to it', async () => {
    const onApproval = desk()
    const server = bench.stdio('official-stdio')
    const turns = [callsTurn(['mcp__local__add', { a: 1, b: 2 }]), textTurn('end')]
    const config = { permissionMode: 'dry-run', permission: undefined, mcpServers: { local: server.config } }

    const silent = createAgent(turns, config)
    await expect(silent.send('go')).rejects.toMatchObject({ code: 'MCP_DENIED' })
    expect(server.wasTouched()).toBe(false)

    const denied = createAgent(turns, { ...config, permission: policy({ deny: ['mcp_connect'] }), onApproval })
    await expect(denied.send('go')).rejects.toMatchObject({ code: 'MCP_DENIED' })
    expect(server.wasTouched()).toBe(false)
    expect(onApproval.prompts).toEqual([])

    const agent = createAgent(turns, { ...config, onApproval })
    const read = collect(agent.run('go'))
    await until(() => onApproval.prompts.length === 1)
    onApproval.prompts[0].resolve('allow')
    const events = await read
    expect(onApproval.shown()).toEqual(['local'])
    expect(
      ofType(events, 'permission_decision').map(({ call, decision, simulated }) => [call.name, decision, simulated]),
    ).toEqual([
      ['mcp_connect', 'ask', undefined],
      ['mcp__local__add', 'ask', true],
    ])
    expect(server.messages('tools/call')).toHaveLength(1)
  })

  test('enforce is the default, and no other word is taken', async () => {
    const agent = createAgent([callsTurn(['say', { word: 'a' }]), textTurn('end')], { permissionMode: 'enforce' })
    const [result] = resultsOf(await collect(agent.run('go')))
    expect(result).toMatchObject({ isError: true, content: expect.stringContaining('denied') })
    for (const permissionMode of ['dryrun', true, null]) {
      expect(() => createAgent([], { permissionMode })).toThrow(
        expect.objectContaining({
          code: 'CONFIG_INVALID',
          message: '"permissionMode" must be "enforce" or "dry-run"',
        }),
      )
    }
  })
})
