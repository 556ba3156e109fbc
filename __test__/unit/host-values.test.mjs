// Values of the host: each is read once and copied, and what it throws itself is the cause of an error with a code.
import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import * as z from 'zod'
import sdk from '../../index.js'
import config from '../../js/config.js'
import { openAgent, result, silent } from './fake-native.mjs'

const thrown = new Error('mine')
const boom = () => {
  throw thrown
}
const refusal = (rest = {}) => expect.objectContaining({ name: 'ConfigError', code: 'CONFIG_INVALID', ...rest })
const user = (content, rest = {}) => ({ role: 'user', content, ...rest })
const exporting = (exported) => ({
  name: 'a',
  description: '',
  execute: () => '',
  schema: { '~standard': { validate: (value) => ({ value }), jsonSchema: { input: () => exported } } },
})
const circle = {}
circle.circle = circle

test.each([
  ['a configuration', () => sdk.createLiteAgent(new Proxy({}, { ownKeys: boom }))],
  [
    'a field',
    () =>
      sdk.createLiteAgent({
        get tools() {
          return boom()
        },
      }),
  ],
  [
    'a schema',
    () =>
      openAgent({
        tools: [
          {
            ...exporting({}),
            schema: {
              get '~standard'() {
                return boom()
              },
            },
          },
        ],
      }),
  ],
  ['a tool', () => openAgent({ tools: [new Proxy({}, { get: boom })] })],
  ['a tool option', () => sdk.tool('a', '', z.object({}), () => '', new Proxy({}, { get: boom }))],
  ['a declaration', () => openAgent({ mcpServers: { a: new Proxy({}, { ownKeys: boom }) } })],
  [
    'a member of a declaration',
    () =>
      openAgent({
        mcpServers: {
          a: {
            get command() {
              return boom()
            },
          },
        },
      }),
  ],
])('%s that throws when it is read', (_, make) => {
  expect(make).toThrow(refusal({ cause: thrown, message: expect.not.stringContaining('mine') }))
})

test.each([
  ['a BigInt', { a: 1n }],
  ['a circle', circle],
  ['a function', { a: () => {} }],
  ['a Map', { a: new Map() }],
])('a JSON Schema with %s is refused', (_, exported) => {
  expect(() => openAgent({ tools: [exporting(exported)] })).toThrow(refusal())
})

test('an absent member of a JSON Schema is left out', () => {
  const { named } = openAgent({ tools: [exporting({ type: 'object', title: undefined })] })
  expect(named('configure')[0][0].tools[0].schema).toEqual({ type: 'object' })
})

test('a configuration is read once, and is a plain object', () => {
  let reads = 0
  const { native } = config.readConfig({
    workdir: '.',
    model: silent,
    get permission() {
      return reads++ === 0 ? sdk.policy() : 5
    },
  })
  expect(JSON.parse(native).permission).toMatchObject({ kind: 'native' })
  class Config {
    workdir = '.'
    model = silent
  }
  expect(() => sdk.createLiteAgent(new Config())).toThrow(refusal())
})

test.each([
  ['a hole', new Array(1).concat(user('x'))],
  ['a toJSON of the list', Object.assign([user('x')], { toJSON: () => undefined }), 1],
  ['a toJSON of a message', [user('x', { toJSON: () => 5 })]],
  ['a Map', [new Map()]],
  [
    'an instance',
    [
      new (class {
        role = 'user'
        content = 'x'
      })(),
    ],
  ],
  ['a BigInt', [user('x', { extra: 1n })]],
  ['a circle', [user('x', { circle })]],
  [
    'a getter that throws',
    [
      {
        role: 'user',
        get content() {
          return boom()
        },
      },
    ],
  ],
  ['a block of no type', [user([{ text: 'x' }])]],
  ['a block of an unknown type', [user([{ type: 'zz' }])]],
  ['a block named like a property', [user([{ type: 'constructor' }])]],
  ['a text block without text', [user([{ type: 'text' }])]],
  ['a tool_call without id', [user([{ type: 'tool_call', name: 'a' }])]],
  ['a tool_call without name', [user([{ type: 'tool_call', id: 'a' }])]],
  ['a tool_result without content', [user([{ type: 'tool_result', id: 'a' }])]],
  ['a tool_result of odd isError', [user([{ type: 'tool_result', id: 'a', content: '', isError: 1 }])]],
  ['a native block without provider', [user([{ type: 'native', data: 1 }])]],
  ['a compaction without content', [user([{ type: 'compaction' }])]],
  ['a hole in its blocks', [user(new Array(1).concat({ type: 'text', text: 'x' }))]],
])('an input with %s', async (_, input, isTaken) => {
  const { agent, named } = openAgent()
  if (isTaken) {
    await agent.send(input)
    expect(named('startRun')[0][0].input).toEqual([user('x')])
    return
  }
  await expect(agent.send(input)).rejects.toEqual(refusal())
  await expect(agent.run(input).next()).rejects.toEqual(refusal())
  expect(named('startRun')).toEqual([])
})

test('every block of the contract is taken, with members of its own', async () => {
  const { agent, named } = openAgent()
  const blocks = [
    { type: 'text', text: 'x', cache: true },
    { type: 'tool_call', id: '1', name: 'a', input: { b: [1, null] } },
    { type: 'tool_result', id: '1', content: '', isError: true },
    { type: 'native', provider: 'p', data: { x: 1 } },
    { type: 'compaction', content: 'c' },
  ]
  const given = [user(blocks, { name: undefined, mine: 1 }), { role: 'system', content: '' }]
  await agent.send(given)
  expect(named('startRun')[0][0].input).toEqual([user(blocks, { mine: 1 }), { role: 'system', content: '' }])
  expect(Object.isFrozen(given[0])).toBe(false)
})

test('an option of a run that cannot be read starts nothing', async () => {
  const { agent, named } = openAgent()
  for (const options of [
    new Map(),
    new Proxy({}, { ownKeys: boom }),
    {
      get signal() {
        return boom()
      },
    },
    { signal: { aborted: false, addEventListener: boom } },
    {
      signal: {
        addEventListener: boom,
        get aborted() {
          return boom()
        },
      },
    },
  ]) {
    await expect(agent.send('x', options)).rejects.toEqual(refusal())
    await expect(agent.run('x', options).next()).rejects.toEqual(refusal())
  }
  expect(named('startRun')).toEqual([])
})

test('many runs of one signal share one listener, and leave none', async () => {
  const ends = []
  const { agent, named } = openAgent({}, { nextBatch: () => new Promise((resolve) => ends.push(() => resolve(null))) })
  const { signal } = new AbortController()
  const warnings = []
  const warn = (warning) => warnings.push(warning)
  process.on('warning', warn)
  const runs = Array.from({ length: 20 }, () => agent.send('x', { signal }))
  expect(getEventListeners(signal, 'abort')).toHaveLength(1)
  for (const end of ends) end()
  await Promise.all(runs)
  expect(getEventListeners(signal, 'abort')).toEqual([])

  const abort = new AbortController()
  const more = Array.from({ length: 3 }, () => agent.send('x', { signal: abort.signal }))
  abort.abort()
  expect(named('cancelRun')).toHaveLength(3)
  expect(getEventListeners(abort.signal, 'abort')).toEqual([])
  for (const end of ends) end()
  await Promise.all(more)
  process.off('warning', warn)
  expect(warnings).toEqual([])
})

test('a run that cannot start lets go of its signal', async () => {
  const error = { name: 'AgentError', code: 'CLOSED', message: 'closed' }
  const { agent } = openAgent({}, { startRun: JSON.stringify({ error }) })
  const { signal } = new AbortController()
  await expect(agent.send('x', { signal })).rejects.toMatchObject({ code: 'CLOSED' })
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('nobody can change the messages and tools that others hold', async () => {
  const requests = []
  const model = {
    id: 'm',
    stream(request) {
      requests.push(request)
      return []
    },
  }
  const messages = [user('a'), { role: 'assistant', content: [{ type: 'text', text: 'b' }] }]
  const { agent, ask } = openAgent({ model }, { runOutcome: () => result('s1', 0, messages) })
  const first = await agent.send('a')
  expect(() => {
    first.messages[0].content = 'changed'
  }).toThrow(TypeError)
  expect(() => {
    first.messages[1].content[0].text = 'changed'
  }).toThrow(TypeError)
  first.messages.length = 0
  const tools = [{ name: 't', description: '', parameters: { type: 'object' } }]
  const request = { request: { model: 'm', tools }, history: { key: 's1', from: 2, messages: [] } }
  await ask('model.stream', request)
  expect(requests[0].messages).toEqual(messages)
  expect(() => {
    requests[0].tools[0].parameters.type = 'changed'
  }).toThrow(TypeError)
  requests[0].messages.pop()
  requests[0].tools.pop()
  await ask('model.stream', { ...request, request: { model: 'm', tools: null } })
  expect(requests[1]).toMatchObject({ messages, tools })
})

test('a tool tells no event of the agent, whatever it hands over', async () => {
  const told = []
  const add = sdk.tool('add', '', z.object({}), (_, ctx) => {
    let reads = 0
    const flips = {
      get type() {
        return reads++ === 0 ? 'mine' : 'done'
      },
    }
    for (const event of [
      { type: 'done', result: { history: 1 } },
      { type: 'tool_result' },
      { type: 'error' },
      { type: 5 },
      ['mine'],
      null,
      { type: 'mine', n: 1n },
      { type: 'mine', circle },
      {
        get type() {
          return boom()
        },
      },
    ]) {
      try {
        ctx.emit(event)
        told.push('taken')
      } catch (error) {
        told.push(error.code)
      }
    }
    ctx.emit({ type: 'mine', toJSON: () => ({ type: 'done' }) })
    ctx.emit(flips)
    return 'ok'
  })
  const { ask, named } = openAgent({ tools: [add] })
  await ask('tool.execute', { tool: 0, call: { id: 'c', name: 'add', input: {} }, sessionId: 's', run: 1 })
  expect(told).toEqual(Array(9).fill('TOOL'))
  expect(named('emitEvent')).toEqual([
    [1, { type: 'mine' }],
    [1, { type: 'mine' }],
  ])
})

test.each([[new String('allow')], [{ toJSON: () => 'allow' }], [['allow']], [true], [undefined]])(
  'the answer %o of a policy or a person is none',
  async (answer) => {
    const { ask } = openAgent({ permission: { check: () => answer }, onApproval: { request: async () => answer } })
    const call = { id: 'c', name: 'x', input: {} }
    expect(await ask('policy', { id: 0, call, sessionId: 's' })).toEqual({ ok: null })
    expect(await ask('approval', { call, sessionId: 's' })).toEqual({ ok: null })
  },
)

test('a chunk that becomes nothing as JSON fails with a ProviderError', async () => {
  const stream = async function* () {
    yield { toJSON: () => undefined }
  }
  const { ask } = openAgent({ model: { id: 'm', stream } })
  const history = { session: 's1', from: 0, messages: [] }
  const { error } = await ask('model.stream', { request: { model: 'm', tools: null }, history })
  expect(error).toMatchObject({ name: 'ProviderError', message: 'the model yielded a chunk that is not JSON' })
})
