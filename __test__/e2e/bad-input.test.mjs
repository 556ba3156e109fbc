// Bad input from the host: each kind has a defined answer and leaves the agent usable.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
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

const echo = tool('echo', 'Echoes', z.object({ value: z.string() }), ({ value }) => value)

function createAgent(config) {
  const agent = createLiteAgent({ workdir: bench.directory, home: bench.directory, ...config })
  agents.push(agent)
  return agent
}

/** One call of `echo` under the given config; then the agent must still work. */
async function callOnce(config, call = ['echo', { value: 'x' }]) {
  const agent = createAgent({
    model: fakeProvider([callsTurn(call), textTurn('end'), textTurn('usable')]),
    tools: [echo],
    ...config,
  })
  const events = await collect(agent.run('go'))
  expect((await agent.send('again')).text).toBe('usable')
  return { events, result: resultsOf(events)[0], decision: ofType(events, 'permission_decision')[0] }
}

const boom = () => {
  throw new Error('boom at /home/someone/secret.js')
}
const nonsense = [undefined, null, 7, 'maybe', {}, [], { decision: 'yes' }, Number.NaN, () => {}]
const show = (value) => (typeof value === 'function' ? 'function' : JSON.stringify(value)) ?? 'undefined'

describe('a policy', () => {
  test.each([
    ['throws', boom],
    ['rejects', async () => boom()],
    [
      'throws null',
      () => {
        throw null
      },
    ],
    ...nonsense.map((value) => [`returns ${show(value)}`, () => value]),
  ])('that %s is a deny', async (_, check) => {
    const { result, decision } = await callOnce({ permission: { check } })
    expect(decision).toMatchObject({ decision: 'deny', by: 'policy' })
    expect(result).toMatchObject({ isError: true, content: expect.stringContaining('denied') })
    expect(result.content).not.toContain('/home/someone')
  })

  test('whose where throws is a deny', async () => {
    const permission = policy({ rules: [{ tool: 'echo', where: boom, effect: 'allow' }] })
    expect((await callOnce({ permission })).result.isError).toBe(true)
  })

  test('that never settles ends with the abort', async () => {
    let isAsked = false
    const permission = {
      check: () => {
        isAsked = true
        return new Promise(() => {})
      },
    }
    const agent = createAgent({ model: fakeProvider([callsTurn(['echo', { value: 'x' }])]), tools: [echo], permission })
    const abort = new AbortController()
    const sent = agent.send('go', { signal: abort.signal })
    await until(() => isAsked)
    abort.abort()
    expect(await sent).toMatchObject({ stopReason: 'aborted' })
  })
})

describe('an approval', () => {
  test.each([
    ['throws', boom],
    ['rejects', async () => boom()],
    ...nonsense.map((value) => [`returns ${show(value)}`, () => value]),
    ['returns Allow', () => 'Allow'],
    ['returns true', () => true],
  ])('that %s is a deny', async (_, request) => {
    const { result } = await callOnce({ permission: policy({ default: 'ask' }), onApproval: { request } })
    expect(result).toMatchObject({ isError: true, content: expect.stringContaining('denied') })
  })

  test('keeps its this', async () => {
    const onApproval = {
      answer: 'allow',
      request() {
        return this.answer
      },
    }
    const { result } = await callOnce({ permission: policy({ default: 'ask' }), onApproval })
    expect(result).toMatchObject({ content: 'x' })
  })
})

describe('a tool', () => {
  const circular = {}
  circular.self = circular
  test.each([
    ['throws', boom],
    ['rejects', async () => boom()],
    [
      'throws undefined',
      () => {
        throw undefined
      },
    ],
    [
      'throws a string',
      () => {
        throw 'plain'
      },
    ],
    ...[undefined, null, 7, {}, [], { content: 7 }, { content: null }, () => {}].map((value) => [
      `returns ${show(value)}`,
      () => value,
    ]),
    ['returns a circle', () => circular],
    ['returns a BigInt', () => 7n],
    [
      'has a throwing getter',
      () => ({
        get content() {
          return boom()
        },
      }),
    ],
  ])('that %s gives an error result', async (_, handler) => {
    const { result } = await callOnce({ tools: [tool('echo', 'Echoes', z.object({ value: z.string() }), handler)] })
    expect(result).toMatchObject({ id: 'call-1', name: 'echo', isError: true })
    expect(result.content).not.toMatch(/\n\s+at |\/home\/someone/)
  })

  test('that never settles is waited for, though nothing holds its promise', async () => {
    setFlagsFromString('--expose-gc')
    const collectGarbage = runInNewContext('gc')
    const abort = new AbortController()
    let hasStarted = false
    const never = tool('never', '', z.object({}), () => {
      hasStarted = true
      return new Promise(() => {})
    })
    const agent = createAgent({ tools: [never], model: fakeProvider([callsTurn(['never', {}]), textTurn('end')]) })
    const results = []
    for await (const event of agent.run('go', { signal: abort.signal })) {
      if (event.type === 'tool_result') results.push(event.result)
      if (event.type !== 'permission_decision') continue
      await until(() => hasStarted)
      for (let round = 0; round < 20; round++) {
        await new Promise((resolve) => setImmediate(resolve))
        collectGarbage()
      }
      abort.abort()
    }
    expect(results).toMatchObject([{ isError: true, content: expect.stringContaining('cancelled') }])
  })

  test('may return a lone surrogate and a NUL', async () => {
    const { result } = await callOnce({
      tools: [tool('echo', 'Echoes', z.object({ value: z.string() }), () => 'a\u0000b\ud800c')],
    })
    expect(result.content).toBe('a\u0000b\ufffdc')
  })

  test('that does not exist gives an error result', async () => {
    const { result } = await callOnce({}, ['nothing', {}])
    expect(result).toMatchObject({ name: 'nothing', isError: true })
  })
})

describe('a schema', () => {
  const withValidate = (validate) => ({
    name: 'echo',
    description: 'Echoes',
    schema: {
      '~standard': { version: 1, vendor: 'test', validate, jsonSchema: { input: () => ({ type: 'object' }) } },
    },
    execute: () => 'ran',
  })
  test.each([
    ['throws', boom],
    ['rejects', async () => boom()],
    ['returns undefined', () => undefined],
    ['returns a number', () => 7],
    ['returns issues', () => ({ issues: [{ message: 'no good', path: ['value'] }] })],
    ['returns odd issues', () => ({ issues: [null, 7, {}] })],
  ])('that %s gives an error result', async (_, validate) => {
    const { result } = await callOnce({ tools: [withValidate(validate)] })
    expect(result.isError).toBe(true)
    expect(result.content).not.toContain('/home/someone')
  })

  test('that refuses says where and why', async () => {
    const { result } = await callOnce({}, ['echo', { value: 7 }])
    expect(result.isError).toBe(true)
    expect(result.content).toMatch(/value/)
  })

  test('that cannot export JSON Schema is refused at construction', () => {
    const schema = { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } }
    const bad = { name: 'bad', description: '', schema, execute: () => '' }
    expect(() => createAgent({ model: fakeProvider([]), tools: [bad] })).toThrow(
      expect.objectContaining({ code: 'CONFIG_INVALID', message: expect.stringContaining('bad') }),
    )
  })
})

describe('a model', () => {
  const done = (message) => ({ type: 'message_done', message, usage: { inputTokens: 0, outputTokens: 0 } })
  const thrown = new Error('model broke')
  test.each([
    [
      'throws at once',
      () => {
        throw thrown
      },
    ],
    [
      'throws in its stream',
      async function* () {
        yield { type: 'text_delta', text: 'x' }
        throw thrown
      },
    ],
    [
      'ends without message_done',
      async function* () {
        yield { type: 'text_delta', text: 'x' }
      },
    ],
    ['yields nothing', async function* () {}],
    ['returns undefined', () => undefined],
    ['returns a promise of nothing', async () => {}],
    [
      'yields null',
      async function* () {
        yield null
      },
    ],
    [
      'yields an unknown chunk',
      async function* () {
        yield { type: 'someday' }
      },
    ],
    [
      'yields a circle',
      async function* () {
        const circle = {}
        circle.circle = circle
        yield circle
      },
    ],
    [
      'has no message',
      async function* () {
        yield done(undefined)
      },
    ],
    [
      'has a bad message',
      async function* () {
        yield done({ role: 'assistant', content: 7 })
      },
    ],
    [
      'has a bad block',
      async function* () {
        yield done({ role: 'assistant', content: [{ type: 'tool_call', id: 7 }] })
      },
    ],
  ])('that %s rejects with ProviderError, and the next run works', async (_, stream) => {
    let isBroken = true
    const good = fakeProvider([textTurn('usable')])
    const model = { id: 'bad', stream: (...args) => (isBroken ? stream(...args) : good.stream(...args)) }
    const agent = createAgent({ model })
    const error = await agent.send('go').catch((caught) => caught)
    expect(error).toMatchObject({ name: 'ProviderError', code: 'PROVIDER' })
    if (/throws/.test(_)) expect(error.cause).toBe(thrown)
    isBroken = false
    expect((await agent.send('again')).text).toBe('usable')
  })

  test('that gives a status keeps it', async () => {
    const stream = () => {
      throw Object.assign(new Error('slow down'), { status: 429 })
    }
    await expect(createAgent({ model: { id: 'bad', stream } }).send('go')).rejects.toMatchObject({ status: 429 })
  })
})

describe('createLiteAgent refuses', () => {
  const model = fakeProvider([])
  const stdio = (rest) => ({ mcpServers: { local: { command: 'node', ...rest } } })
  const http = (rest) => ({ mcpServers: { web: { type: 'http', url: 'https://example.com/mcp', ...rest } } })
  const named = (name) => ({ mcpServers: { [name]: { command: 'node' } } })
  test.each([
    ['no workdir', { workdir: undefined }, 'CONFIG_INVALID', /workdir/],
    ['a workdir that is not there', { workdir: '/no/such/directory' }, 'CONFIG_INVALID', /workdir/],
    ['a workdir of the wrong type', { workdir: 7 }, 'CONFIG_INVALID', /workdir/],
    ['no model', { model: undefined }, 'CONFIG_INVALID', /model/],
    ['a model without stream', { model: { id: 'x' } }, 'CONFIG_INVALID', /model/],
    ['an unknown key', { maxTurn: 3 }, 'CONFIG_INVALID', /maxTurn.*maxTurns/s],
    ['a field that is not supported yet', { hookFiles: [] }, 'CONFIG_INVALID', /hookFiles.*not supported yet/s],
    ['sessions: 1', { sessions: 1 }, 'CONFIG_INVALID', /sessions.*boolean/s],
    ['agents: true', { agents: true }, 'CONFIG_INVALID', /agents.*not supported yet/s],
    ['strictMcpConfig: null', { strictMcpConfig: null }, 'CONFIG_INVALID', /strictMcpConfig.*boolean/s],
    ['mcpTransports: sse', { mcpTransports: ['sse'] }, 'CONFIG_INVALID', /mcpTransports/],
    ['maxTurns 0', { maxTurns: 0 }, 'CONFIG_INVALID', /maxTurns/],
    ['maxTurns 1.5', { maxTurns: 1.5 }, 'CONFIG_INVALID', /maxTurns/],
    ['maxParallelTools NaN', { maxParallelTools: Number.NaN }, 'CONFIG_INVALID', /maxParallelTools/],
    ['a policy that is none', { permission: {} }, 'CONFIG_INVALID', /permission/],
    ['an approval that is none', { onApproval: () => 'allow' }, 'CONFIG_INVALID', /onApproval/],
    ['two tools of one name', { tools: [echo, echo] }, undefined, /echo/],
    ['a reserved tool name', { tools: [{ ...echo, name: 'mcp_connect' }] }, 'MCP_RESERVED', /reserved/],
    ['a reserved tool prefix', { tools: [{ ...echo, name: 'mcp__x__y' }] }, 'MCP_RESERVED', /reserved/],
    ['a server name with a space', named('a b'), 'MCP_NAME', /name/],
    ['a server name with __', named('a__b'), 'MCP_NAME', /name/],
    ['an empty server name', named(''), 'MCP_NAME', /name/],
    ['a server name of 25 letters', named('a'.repeat(25)), 'MCP_NAME', /name/],
    [
      '33 servers',
      { mcpServers: Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`s${i}`, { command: `c${i}` }])) },
      'MCP_LIMIT',
      /32/,
    ],
    ['no command', { mcpServers: { local: {} } }, 'CONFIG_INVALID', /command/],
    ['an empty command', stdio({ command: '' }), 'CONFIG_INVALID', /command/],
    ['an unknown server key', stdio({ cwd: '/' }), 'CONFIG_INVALID', /cwd/],
    ['a key of the other transport', stdio({ headers: {} }), 'CONFIG_INVALID', /headers/],
    ['args that are no strings', stdio({ args: [7] }), 'CONFIG_INVALID', /args/],
    ['257 args', stdio({ args: Array(257).fill('x') }), 'MCP_LIMIT', /256/],
    ['a NUL in args', stdio({ args: ['a\0b'] }), 'CONFIG_INVALID', /args/],
    ['a bad env name', stdio({ env: { '1A': 'x' } }), 'CONFIG_INVALID', /env/],
    ['a function in a declaration', stdio({ env: { A: () => {} } }), 'CONFIG_INVALID', /env/],
    ['a BigInt in a declaration', stdio({ timeoutMs: 7n }), 'CONFIG_INVALID', /timeoutMs/],
    ['timeoutMs 0', stdio({ timeoutMs: 0 }), 'CONFIG_INVALID', /timeoutMs/],
    ['timeoutMs 300001', stdio({ timeoutMs: 300_001 }), 'CONFIG_INVALID', /timeoutMs/],
    ['timeoutMs NaN', stdio({ timeoutMs: Number.NaN }), 'CONFIG_INVALID', /timeoutMs/],
    [
      'another transport',
      { mcpServers: { web: { type: 'sse', url: 'https://example.com' } } },
      'MCP_TRANSPORT',
      /transport/,
    ],
    ['plain http', http({ url: 'http://example.com/mcp' }), 'MCP_INSECURE_URL', /HTTPS/],
    ['user info', http({ url: 'https://me:secret@example.com/mcp' }), 'MCP_INSECURE_URL', /web/],
    ['a fragment', http({ url: 'https://example.com/mcp#x' }), 'MCP_INSECURE_URL', /web/],
    ['no URL', http({ url: 'not a url' }), undefined, /url|URL/],
    ['a reserved header', http({ headers: { 'Content-Type': 'x' } }), 'MCP_RESERVED', /reserved/],
    ['a reserved header prefix', http({ headers: { 'MCP-Thing': 'x' } }), 'MCP_RESERVED', /reserved/],
    ['a bad header name', http({ headers: { 'a b': 'x' } }), 'CONFIG_INVALID', /header/],
    ['a bad header value', http({ headers: { 'x-a': 'a\nsecret' } }), 'CONFIG_INVALID', /header/],
  ])('%s', (_, config, code, message) => {
    let error
    try {
      createAgent({ workdir: bench.directory, model, ...config })
    } catch (caught) {
      error = caught
    }
    expect(error?.message).toMatch(message)
    expect(error.message).not.toContain('secret')
    if (code) expect(error.code).toBe(code)
    expect(error.stack).toContain('bad-input.test')
  })

  test.each([[undefined], [null], [7], ['x'], [[]]])('%j as a config', (config) => {
    expect(() => createLiteAgent(config)).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }))
  })
})

describe('run refuses', () => {
  test.each([[undefined], [null], [7], [{}], [[{ role: 'nobody', content: 'x' }]], [[null]]])(
    '%j as input',
    async (input) => {
      const agent = createAgent({ model: fakeProvider([textTurn('usable')]) })
      await expect(agent.send(input)).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
      expect((await agent.send('go')).text).toBe('usable')
    },
  )
})
