// Hooks: what handlers see and in which order, that they change nothing, and how the agent survives bad ones.
import { createLiteAgent, fakeProvider, McpError, policy, tool } from '@lite-agent/sdk'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { callsTurn, collect, createBench, ofType, resultsOf, textTurn, until } from '../servers/start.mjs'

const NAMES = ['run:start', 'run:end', 'tool:start', 'tool:end']

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
    permission: policy({}),
    ...config,
  })
  agents.push(agent)
  return agent
}

/** Everything a set of handlers heard, in order. */
function record(agent, names = NAMES) {
  const heard = []
  for (const name of names) agent.hook(name, (event) => void heard.push(event))
  return heard
}

const echo = tool('echo', 'Echoes', z.object({ n: z.coerce.number() }), ({ n }) => String(n))
const never = (onSignal) =>
  tool('never', 'Never settles', z.object({}), (_input, { signal }) => {
    onSignal?.(signal)
    return new Promise(() => {})
  })
const hookFailures = (events) =>
  ofType(events, 'diagnostic')
    .filter(({ code }) => code === 'hook_failed')
    .map(({ level, message }) => [level, message])

test('a run and its call are told from start to end', async () => {
  const agent = createAgent([callsTurn(['echo', { n: '7' }]), textTurn('end')], { tools: [echo] })
  const heard = record(agent)
  const result = await agent.send('go')

  expect(heard.map(({ event }) => event)).toEqual(['run:start', 'tool:start', 'tool:end', 'run:end'])
  const [runId] = new Set(heard.map((event) => event.runId))
  expect(typeof runId).toBe('string')
  const base = { runId, sessionId: agent.sessionId, source: 'user' }
  const call = (input) => ({ id: 'call-1', name: 'echo', input })
  const { durationMs } = heard[2]
  expect(durationMs).toBeGreaterThanOrEqual(0)
  expect(heard).toEqual([
    { ...base, event: 'run:start', input: 'go' },
    { ...base, event: 'tool:start', call: call({ n: '7' }) },
    { ...base, event: 'tool:end', call: call({ n: 7 }), status: 'completed', result: { content: '7' }, durationMs },
    { ...base, event: 'run:end', status: 'completed', result },
  ])

  await agent.send([{ role: 'user', content: 'again' }]).catch(() => {})
  expect(heard[4]).toMatchObject({ event: 'run:start', input: [{ role: 'user', content: 'again' }] })
  expect(heard[4].runId).not.toBe(runId)
})

test('handlers are awaited one after another, in the order of their registration', async () => {
  const agent = createAgent([callsTurn(['echo', { n: 1 }]), textTurn('end')], { tools: [echo] })
  const steps = []
  const say = (word) => async () => {
    steps.push(`${word} begins`)
    await new Promise((resolve) => setImmediate(resolve))
    steps.push(`${word} ends`)
  }
  const twice = say('twice')
  agent.hook('tool:start', say('first'))
  agent.hook('tool:start', twice)
  agent.hook('tool:start', twice)
  agent.subscribe(({ event }) => {
    if (/^(permission_decision|tool_result)$/.test(event.type)) steps.push(event.type)
  })
  agent.hook('tool:end', say('end'))
  await agent.send('go')
  await until(() => steps.includes('tool_result'))
  const both = (word) => [`${word} begins`, `${word} ends`]
  expect(steps.filter((step) => step !== 'permission_decision')).toEqual([
    ...both('first'),
    ...both('twice'),
    ...both('twice'),
    ...both('end'),
    'tool_result',
  ])
})

test('every handler has its own copy, frozen all the way down', async () => {
  const agent = createAgent([callsTurn(['echo', { n: 1, deep: { list: [1] } }]), textTurn('end')], {
    tools: [echo],
  })
  const seen = []
  const failures = []
  const attempts = {
    'run:start': [(event) => (event.input = 'x'), (event) => event.input[0].content[0].text.at],
    'tool:start': [(event) => event.call.input.deep.list.push(2), (event) => delete event.call.name],
    'tool:end': [(event) => (event.result.content = 'x')],
    'run:end': [(event) => event.result.messages.pop(), (event) => (event.result.messages[0].content = 'x')],
  }
  for (const name of NAMES) {
    for (const attempt of attempts[name]) {
      agent.hook(name, (event) => {
        seen.push(event)
        try {
          attempt(event)
        } catch (error) {
          failures.push([name, error.constructor])
        }
      })
    }
  }
  const result = await agent.send([{ role: 'user', content: [{ type: 'text', text: 'go' }] }])
  expect(failures.filter(([, kind]) => kind === TypeError).map(([name]) => name)).toEqual([
    'run:start',
    'tool:start',
    'tool:start',
    'tool:end',
    'run:end',
    'run:end',
  ])
  expect(seen[0]).not.toBe(seen[1])
  expect(seen[0].input[0]).not.toBe(seen[1].input[0])
  const [first, second] = seen.slice(-2).map((event) => event.result.messages)
  expect(first).toEqual(second)
  expect(first[0]).not.toBe(second[0])
  expect(Object.isFrozen(result.messages)).toBe(false)
  expect(result.messages).toEqual(first)
  expect(result.messages).toHaveLength(4)
})

describe('a handler that misbehaves', () => {
  const secret = 'sk-secret-of-the-host'
  const kinds = {
    throws: () => {
      throw new Error(secret)
    },
    'throws nothing': () => {
      throw undefined
    },
    rejects: async () => {
      throw new Error(secret)
    },
    mutates: (event) => {
      event.event = secret
    },
    'has a broken then': () => ({
      // biome-ignore lint/suspicious/noThenProperty: the test is about it
      get then() {
        throw new Error(secret)
      },
    }),
  }
  test.each(Object.entries(kinds))('%s: the agent goes on', async (_, handler) => {
    const agent = createAgent([callsTurn(['echo', { n: 1 }]), textTurn('end')], { tools: [echo] })
    for (const name of NAMES) agent.hook(name, handler)
    const heard = record(agent)
    const events = await collect(agent.run('go'))
    expect(hookFailures(events)).toEqual(
      ['run:start', 'tool:start', 'tool:end', 'run:end'].map((name) => [
        'warning',
        `a handler of the hook \`${name}\` failed; the agent goes on without it`,
      ]),
    )
    expect(JSON.stringify(events)).not.toContain(secret)
    expect(heard.map(({ event }) => event)).toEqual(['run:start', 'tool:start', 'tool:end', 'run:end'])
    expect(resultsOf(events)).toEqual([{ id: 'call-1', name: 'echo', content: '1' }])
    expect(events.at(-1)).toMatchObject({ type: 'done', reason: 'stop' })
  })

  test('returns nonsense: nobody minds', async () => {
    const agent = createAgent([callsTurn(['echo', { n: 1 }]), textTurn('end')], { tools: [echo] })
    for (const value of [1n, Symbol('x'), () => {}, { circular: null }, 'deny', Promise.resolve(NaN)]) {
      if (value?.circular === null) value.circular = value
      for (const name of NAMES) agent.hook(name, () => value)
    }
    const events = await collect(agent.run('go'))
    expect(hookFailures(events)).toEqual([])
    expect(resultsOf(events)).toEqual([{ id: 'call-1', name: 'echo', content: '1' }])
  })

  test('hangs: its signal fires, and the agent goes on without it', async () => {
    const agent = createAgent([callsTurn(['echo', { n: 1 }]), textTurn('end')], { tools: [echo] })
    const signals = []
    for (const name of NAMES) {
      const hang = (_event, { signal }) => {
        signals.push(signal)
        return new Promise(() => {})
      }
      agent.hook(name, hang, { timeoutMs: 20 })
    }
    const events = await collect(agent.run('go'))
    expect(hookFailures(events)).toEqual(
      ['run:start', 'tool:start', 'tool:end', 'run:end'].map((name) => [
        'warning',
        `a handler of the hook \`${name}\` gave no answer within 20 ms; the agent goes on without it`,
      ]),
    )
    await until(() => signals.every(({ aborted }) => aborted))
    expect(signals[0].reason).toMatchObject({ name: 'AbortError' })
    expect(events.at(-1)).toMatchObject({ type: 'done', reason: 'stop' })
  })

  test('fails after its time: nobody hears', async () => {
    const agent = createAgent([textTurn('end')])
    const gate = Promise.withResolvers?.() ?? deferred()
    const late = []
    process.on('unhandledRejection', (error) => late.push(error))
    agent.hook('run:start', () => gate.promise, { timeoutMs: 20 })
    const events = await collect(agent.run('go'))
    gate.reject(new Error('late'))
    await agent.awaitIdle()
    await new Promise((resolve) => setImmediate(resolve))
    expect(hookFailures(events)).toHaveLength(1)
    expect(late).toEqual([])
  })
})

function deferred() {
  const one = {}
  one.promise = new Promise((resolve, reject) => Object.assign(one, { resolve, reject }))
  return one
}

test('calls that are refused have their start and end too', async () => {
  const agent = createAgent(
    [callsTurn(['echo', { n: 1 }], ['unknown', {}], ['echo', { n: {} }], ['fails', {}], ['soft', {}]), textTurn('end')],
    {
      permission: policy({ rules: [{ tool: 'echo', when: { n: { equals: 1 } }, effect: 'deny' }] }),
      tools: [
        echo,
        tool('fails', 'Fails', z.object({}), () => {
          throw new Error('broken')
        }),
        tool('soft', 'Says no', z.object({}), () => ({ content: 'no', isError: true })),
      ],
    },
  )
  const starts = record(agent, ['tool:start'])
  const ends = record(agent, ['tool:end'])
  const results = resultsOf(await collect(agent.run('go')))
  const ids = ['call-1', 'call-2', 'call-3', 'call-4', 'call-5']
  expect(starts.map(({ call }) => call.id).sort()).toEqual(ids)
  expect(ends.map(({ call }) => call.id).sort()).toEqual(ids)
  for (const { call, status, result, error } of ends) {
    const { content } = results.find(({ id }) => id === call.id)
    expect({ status, result, error }).toEqual({
      status: 'failed',
      result: { content, isError: true },
      error: { name: 'ToolError', code: 'TOOL', message: content },
    })
  }
  expect(ends.find(({ call }) => call.id === 'call-1').result.content).toContain('denied')
})

describe('run:end tells', () => {
  test('max_turns', async () => {
    const agent = createAgent([callsTurn(['echo', { n: 1 }])], { tools: [echo], maxTurns: 1 })
    const [end] = await sendAndHear(agent)
    expect(end).toMatchObject({ status: 'max_turns', result: { stopReason: 'max_turns' } })
    expect(end).not.toHaveProperty('error')
  })

  test('a model that fails', async () => {
    const agent = createAgent([])
    const [end] = await sendAndHear(agent)
    expect(end).toMatchObject({ status: 'failed', error: { name: 'ProviderError', code: 'PROVIDER' } })
    expect(Object.keys(end.error).sort()).toEqual(['code', 'message', 'name'])
    expect(end).not.toHaveProperty('result')
  })

  test('servers that cannot be prepared, after run:start and before any process', async () => {
    const server = bench.stdio('official-stdio')
    const agent = createAgent([textTurn('never')], {
      mcpServers: { local: server.config },
      permission: policy({ deny: ['mcp_connect'] }),
    })
    const touched = []
    agent.hook('run:start', () => void touched.push(server.wasTouched(), agent.mcp.list()[0].status))
    const [end] = await sendAndHear(agent)
    expect(touched).toEqual([false, 'configured'])
    expect(end).toMatchObject({ status: 'failed', error: { name: 'McpError', code: 'MCP_DENIED' } })
  })

  test('an abort while servers are prepared', async () => {
    const prompts = []
    const agent = createAgent([textTurn('never')], {
      mcpServers: { local: bench.stdio('official-stdio').config },
      permission: undefined,
      onApproval: { request: (_call, signal) => new Promise(() => prompts.push(signal)) },
    })
    const ends = record(agent, ['run:end'])
    const abort = new AbortController()
    const sent = agent.send('go', { signal: abort.signal })
    await until(() => prompts.length === 1)
    abort.abort()
    await expect(sent).rejects.toMatchObject({ code: 'ABORTED' })
    expect(ends).toMatchObject([{ status: 'cancelled', error: { name: 'AbortError', code: 'ABORTED' } }])
    await until(() => prompts[0].aborted)
  })

  test('an abort while a run:start handler hangs', async () => {
    const agent = createAgent([textTurn('never')])
    const signals = []
    agent.hook('run:start', (_event, { signal }) => new Promise(() => signals.push(signal)))
    const ends = record(agent, ['run:end'])
    const abort = new AbortController()
    const sent = collect(agent.run('go', { signal: abort.signal }))
    await until(() => signals.length === 1)
    abort.abort()
    await expect(sent).rejects.toMatchObject({ code: 'ABORTED' })
    await until(() => signals[0].aborted)
    expect(ends).toMatchObject([{ status: 'cancelled', error: { code: 'ABORTED' } }])
  })

  test('nothing of a run that is aborted before its turn', async () => {
    const agent = createAgent([callsTurn(['never', {}]), textTurn('end')], { tools: [never()] })
    const heard = record(agent, ['run:start', 'run:end'])
    const abortFirst = new AbortController()
    const first = agent.send('first', { signal: abortFirst.signal })
    await until(() => heard.length === 1)
    const abort = new AbortController()
    const second = agent.send('second', { signal: abort.signal })
    abort.abort()
    await expect(second).rejects.toMatchObject({ code: 'ABORTED' })
    expect(heard).toHaveLength(1)
    abortFirst.abort()
    await first
    expect(heard.map(({ event, status }) => [event, status])).toEqual([
      ['run:start', undefined],
      ['run:end', 'cancelled'],
    ])
  })

  test.each(['abort', 'return', 'close'])('a run that ends by %s while a tool runs', async (way) => {
    let toolSignal
    const agent = createAgent([callsTurn(['never', {}])], { tools: [never((signal) => (toolSignal = signal))] })
    const heard = record(agent, ['tool:end', 'run:end'])
    const abort = new AbortController()
    const run = agent.run('go', { signal: abort.signal })
    const read = collect(run)
    await until(() => toolSignal)
    if (way === 'abort') abort.abort()
    if (way === 'return') await run.return()
    if (way === 'close') await agent.close()
    await read
    expect(heard.map(({ event, status, error, result }) => [event, status, error?.code, result.stopReason])).toEqual([
      ['tool:end', 'cancelled', 'ABORTED', undefined],
      ['run:end', 'cancelled', undefined, 'aborted'],
    ])
  })

  async function sendAndHear(agent) {
    const ends = record(agent, ['run:end'])
    await agent.send('go').catch(() => {})
    expect(ends).toHaveLength(1)
    return ends
  }
})

describe('registration', () => {
  test('during a run takes effect at the next event', async () => {
    const agent = createAgent([callsTurn(['echo', { n: 1 }]), textTurn('end')], { tools: [echo] })
    const heard = []
    agent.hook('run:start', () => {
      agent.hook('run:start', () => heard.push('run:start, too late'))
      agent.hook('tool:start', () => {
        heard.push('tool:start')
        agent.hook('tool:end', () => heard.push('tool:end'))
      })
    })
    await agent.send('go')
    expect(heard).toEqual(['tool:start', 'tool:end'])
  })

  test('ends at once, once', async () => {
    const agent = createAgent([textTurn('one'), textTurn('two')])
    const heard = []
    const handler = () => heard.push('same')
    const off = agent.hook('run:start', handler)
    agent.hook('run:start', handler)
    // One that has not had its turn in the current event is not called any more.
    agent.hook('run:start', () => offLast())
    const offLast = agent.hook('run:start', () => heard.push('last'))
    off()
    off()
    await agent.send('go')
    expect(heard).toEqual(['same'])
    offLast()
    await agent.send('go')
    expect(heard).toEqual(['same', 'same'])
  })

  test('after close is refused', async () => {
    const agent = createAgent([])
    const off = agent.hook('run:start', () => {})
    await agent.close()
    expect(() => agent.hook('run:start', () => {})).toThrow(expect.objectContaining({ code: 'CLOSED' }))
    off()
  })
})

describe('inside a handler', () => {
  const members = {
    run: (agent) => agent.run('inner', { sessionId: 'other' }).next(),
    send: (agent) => agent.send('inner', { sessionId: 'other' }),
    awaitIdle: (agent) => agent.awaitIdle('other'),
    close: (agent) => agent.close(),
    'mcp.register': (agent) => agent.mcp.register('x', { command: 'no-such-command' }),
    'mcp.unregister': (agent) => agent.mcp.unregister('x'),
  }

  test.each(NAMES)('of %s the agent refuses what would wait for itself', async (name) => {
    const agent = createAgent([callsTurn(['echo', { n: 1 }]), textTurn('end')], { tools: [echo] })
    const refusals = []
    const attempt = async () => {
      for (const [member, call] of Object.entries(members)) {
        const error = await call(agent).then(
          () => 'it went through',
          (caught) => caught,
        )
        refusals.push([member, error.code, error instanceof McpError, error.message.includes(`"${member}"`)])
      }
    }
    agent.hook(name, async () => {
      await attempt()
      await new Promise((resolve) => setImmediate(resolve))
      await new Promise((resolve) => setTimeout(resolve, 1))
      await attempt()
    })
    const events = await collect(agent.run('go'))
    const refused = Object.keys(members).map((member) => [member, 'MCP_IN_HOOK', true, true])
    expect(refusals).toEqual([...refused, ...refused])
    expect(hookFailures(events)).toEqual([])
    expect(events.at(-1)).toMatchObject({ type: 'done', reason: 'stop' })
  })

  test('another agent is free, and so is whatever runs outside of it', async () => {
    const [agent, other] = [createAgent([textTurn('a'), textTurn('b')]), createAgent([textTurn('other')])]
    const entered = deferred()
    const gate = deferred()
    let inner
    agent.hook('run:start', async ({ sessionId }) => {
      if (sessionId !== agent.sessionId) return
      inner = (await other.send('go')).text
      entered.resolve()
      await gate.promise
    })
    const sent = agent.send('go')
    await entered.promise
    expect(inner).toBe('other')
    // The handler is pending, yet this is not in it.
    const outside = await agent.send('go', { sessionId: 'outside' })
    expect(outside.text).toBe('a')
    gate.resolve()
    expect((await sent).text).toBe('b')
  })

  test('what it leaves behind is free once it is over', async () => {
    const agent = createAgent([textTurn('one'), textTurn('two')])
    const later = deferred()
    const go = deferred()
    const off = agent.hook('run:start', () => {
      off()
      go.promise.then(() => agent.send('later')).then(later.resolve, later.reject)
    })
    await agent.send('go')
    go.resolve()
    expect((await later.promise).text).toBe('two')
  })

  test('a handler whose time is over is free as well', async () => {
    const agent = createAgent([textTurn('one'), textTurn('two')])
    const later = deferred()
    const off = agent.hook(
      'run:start',
      async (_event, { signal }) => {
        off()
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        agent.send('later').then(later.resolve, later.reject)
        await new Promise(() => {})
      },
      { timeoutMs: 20 },
    )
    expect((await agent.send('go')).text).toBe('one')
    expect((await later.promise).text).toBe('two')
  })
})
