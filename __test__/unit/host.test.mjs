// The host callback: models, tools, approvals and listeners, whatever they do.
import { expect, test } from 'vitest'
import * as z from 'zod'
import sdk from '../../index.js'
import { openAgent } from './fake-native.mjs'

const user = (content) => ({ role: 'user', content })
const ask = (from, messages, tools = null) => ({
  request: { model: 'm', tools },
  history: { key: 's1', from, messages },
})
const call = (input, name = 'add', id = 'c1') => ({ id, name, input })

test('a model gets the whole history though only what is new crosses', async () => {
  const requests = []
  const model = {
    id: 'm',
    stream(request) {
      requests.push(request)
      return []
    },
  }
  const agent = openAgent({ model })
  const tools = [{ name: 'add', description: '', parameters: {} }]
  await agent.ask('model.stream', ask(0, [user('a')], tools))
  await agent.ask('model.stream', ask(1, [user('b')]))
  await agent.ask('model.stream', ask(1, [user('b')]))
  expect(requests).toEqual([
    { model: 'm', messages: [user('a')], tools },
    { model: 'm', messages: [user('a'), user('b')], tools },
    { model: 'm', messages: [user('a'), user('b')], tools },
  ])
  expect(agent.named('endChunks')).toHaveLength(3)
})

test('a chunk that finds the queue full is pushed again', async () => {
  const states = [1, 0]
  const last = [1, 0]
  const model = sdk.fakeProvider([{ text: 'a', message: { role: 'assistant', content: [] } }])
  const agent = openAgent({ model }, { pushChunk: () => states.shift(), pushLastChunk: () => last.shift() })
  expect(await agent.ask('model.stream', ask(0, []))).toEqual({ ok: null })
  const usage = { inputTokens: 0, outputTokens: 0 }
  expect(agent.named('pushChunk').map(([, chunk]) => chunk)).toEqual([
    { type: 'text_delta', text: 'a' },
    { type: 'text_delta', text: 'a' },
  ])
  const done = { type: 'message_done', message: { role: 'assistant', content: [] }, usage }
  expect(agent.named('pushLastChunk').map(([, chunk]) => chunk)).toEqual([done, done])
})

test('a closed queue returns the generator', async () => {
  let cleaned = 0
  const model = {
    id: 'm',
    async *stream() {
      try {
        for (;;) yield { type: 'text_delta', text: 'a' }
      } finally {
        cleaned++
      }
    },
  }
  const agent = openAgent({ model }, { pushChunk: () => 2 })
  await agent.ask('model.stream', ask(0, []))
  await expect.poll(() => cleaned).toBe(1)
})

test('an abort ends the pump of a model that hangs', async () => {
  let signal
  const model = {
    id: 'm',
    stream(_, given) {
      signal = given
      return { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}) }) }
    },
  }
  const agent = openAgent({ model })
  const streaming = agent.ask('model.stream', ask(0, []), 7)
  await expect.poll(() => signal).toBeDefined()
  await agent.ask('abort', { call: 7 }, 8)
  expect(await streaming).toEqual({ ok: null })
  expect(signal.aborted).toBe(true)
})

const cyclic = { type: 'text_delta' }
cyclic.self = cyclic
test.each([
  [
    'throws',
    () => {
      throw new Error('x')
    },
  ],
  ['rejects', () => Promise.reject(new Error('x'))],
  ['returns nothing', () => undefined],
  ['returns a number', () => 1],
  [
    'yields a BigInt',
    async function* () {
      yield { type: 'text_delta', text: 1n }
    },
  ],
  [
    'yields a cycle',
    async function* () {
      yield cyclic
    },
  ],
  [
    'yields undefined',
    async function* () {
      yield undefined
    },
  ],
  [
    'throws null',
    () => {
      throw null
    },
  ],
  [
    'throws an unreadable error',
    () => {
      throw {
        get message() {
          throw new Error('no')
        },
      }
    },
  ],
])('a model that %s fails with a ProviderError', async (_, stream) => {
  const agent = openAgent({ model: { id: 'm', stream } })
  const { error } = await agent.ask('model.stream', ask(0, []))
  expect(error).toMatchObject({ name: 'ProviderError', code: 'PROVIDER' })
  expect(agent.named('endChunks')).toEqual([])
})

test('the fake model runs out of turns', async () => {
  const agent = openAgent({ model: sdk.fakeProvider([]) })
  const { error } = await agent.ask('model.stream', ask(0, []))
  expect(error).toMatchObject({ name: 'ProviderError', message: expect.stringContaining('out of turns') })
})

test('execute gets the validated value and a context', async () => {
  const seen = []
  const schema = z.object({ at: z.string().transform((text) => new Date(text)), n: z.string().transform(BigInt) })
  const add = sdk.tool('add', 'Adds', schema, (input, ctx) => {
    seen.push(input, ctx.call.input, ctx.sessionId, ctx.signal.aborted, ctx.approval)
    ctx.emit({ type: 'mine' })
    expect(() => ctx.emit({})).toThrow(sdk.ToolError)
    return 'ok'
  })
  const { ask: op, named } = openAgent({ tools: [add] })
  const input = { at: '2026-01-01T00:00:00.000Z', n: '5' }
  expect(await op('tool.validate', { tool: 0, callId: 'c1', run: 1, input })).toEqual({ ok: { value: input } })
  const args = { tool: 0, call: call(input), sessionId: 's1', run: 1, approval: 'user' }
  expect(await op('tool.execute', args)).toEqual({ ok: { content: 'ok' } })
  const value = { at: new Date(input.at), n: 5n }
  expect(seen).toEqual([value, value, 's1', false, 'user'])
  expect(named('emitEvent')).toEqual([[1, { type: 'mine' }]])
  expect(named('configure')[0][0].tools[0]).toMatchObject({
    name: 'add',
    schema: { type: 'object', required: ['at', 'n'] },
  })
})

test('validation tells its issues, and a forgotten value is gone', async () => {
  const add = sdk.tool('add', 'Adds', z.object({ a: z.array(z.number()) }), (input) => JSON.stringify(input))
  const { ask: op } = openAgent({ tools: [add] })
  const { ok } = await op('tool.validate', { tool: 0, callId: 'c1', run: 1, input: { a: [1, 'x'] } })
  expect(ok.issues).toEqual([{ path: 'a.1', message: expect.any(String) }])
  await op('tool.validate', { tool: 0, callId: 'c1', run: 1, input: { a: [1] } })
  await op('tool.forget', { callId: 'c1', run: 1 })
  const args = { tool: 0, call: call({ a: [9] }), sessionId: 's1', run: 1 }
  expect(await op('tool.execute', args)).toEqual({ ok: { content: '{"a":[9]}' } })
})

test.each([1, undefined, null, {}, { content: 1 }, { content: 'a', isError: 'yes' }, [['a']]])(
  'a tool that returns %j fails',
  async (value) => {
    const { ask: op } = openAgent({ tools: [sdk.tool('add', '', z.object({}), () => value)] })
    const { error } = await op('tool.execute', { tool: 0, call: call({}), sessionId: 's1', run: 1 })
    expect(error).toMatchObject({ name: 'ToolError', message: expect.stringContaining('returned neither') })
  },
)

test('policies, rules and approvals answer; what they throw is data', async () => {
  const asked = []
  const { ask: op, named } = openAgent({
    permission: sdk.composePolicies(
      { check: async (one, ctx) => ({ decision: 'deny', ruleId: one.name + ctx.sessionId }) },
      sdk.policy({
        rules: [
          { where: (input) => input.yes, effect: 'ask' },
          { where: async () => false, effect: 'allow' },
        ],
      }),
    ),
    onApproval: {
      request(one, signal) {
        asked.push(this !== undefined, signal.aborted)
        if (one.name === 'x') throw new Error('no')
        return 'allow'
      },
    },
  })
  const rule = (effect) => ({ hasWhere: true, effect })
  expect(named('configure')[0][0].permission).toEqual({
    kind: 'compose',
    of: [
      { kind: 'host', id: 0 },
      { kind: 'native', id: 1, default: 'allow', rules: [rule('ask'), rule('allow')] },
    ],
  })
  expect(await op('policy', { id: 0, call: call({}), sessionId: 's' })).toEqual({
    ok: { decision: 'deny', ruleId: 'adds' },
  })
  expect(await op('where', { id: 1, rule: 0, call: call({ yes: 1 }) })).toEqual({ ok: true })
  expect(await op('where', { id: 1, rule: 0, call: call({}) })).toEqual({ ok: false })
  expect(await op('where', { id: 1, rule: 1, call: call({}) })).toMatchObject({ error: { name: 'ConfigError' } })
  expect(await op('approval', { call: call({}), sessionId: 's' })).toEqual({ ok: 'allow' })
  expect(await op('approval', { call: call({}, 'x'), sessionId: 's' })).toMatchObject({ error: { message: 'no' } })
  expect(asked).toEqual([true, false, true, false])
  expect(await op('nonsense', {})).toMatchObject({ error: { code: 'INTERNAL' } })
})

test('listeners hear every event, and a failing one harms nobody', async () => {
  const { agent, ask: op, named } = openAgent()
  const heard = []
  const offs = [
    agent.subscribe(() => {
      throw new Error('x')
    }),
    agent.subscribe(async () => {
      throw new Error('x')
    }),
    agent.subscribe((record) => heard.push(record)),
  ]
  const one = { sessionId: 's1', source: 'user', event: { type: 'text_delta', text: 'a' } }
  expect(await op('events', `${JSON.stringify(one)}\n${JSON.stringify(one)}`)).toEqual({ ok: null })
  expect(heard).toEqual([one, one])
  for (const off of [...offs, ...offs]) off()
  expect(named('setListening')).toEqual([[true], [false]])
  expect(() => agent.subscribe(1)).toThrow(sdk.ConfigError)
})
