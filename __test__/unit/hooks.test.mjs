// Hooks in the shim: arguments, registration, frozen events, and the refusal inside a handler.
import { AsyncLocalStorage } from 'node:async_hooks'
import { expect, test, vi } from 'vitest'
import { openAgent } from './fake-native.mjs'

const event = {
  event: 'tool:start',
  runId: 'r',
  sessionId: 's1',
  source: 'user',
  call: { id: '1', name: 'x', input: [{}] },
}

test.each([
  [['tool:strat', () => {}], 'unknown hook "tool:strat"; did you mean "tool:start"?'],
  [['Run:End', () => {}], 'did you mean "run:end"'],
  [['before', () => {}], 'unknown hook "before"; there are run:start, run:end, tool:start, tool:end'],
  [['compact:start', () => {}], 'the hook "compact:start" is not supported yet'],
  [[1, () => {}], "a hook's name must be a string, not a number"],
  [['run:start'], 'the handler of the hook "run:start" must be a function, not undefined'],
  [['run:start', () => {}, null], 'hook options must be an object, not null'],
  [['run:start', () => {}, { timeout: 1 }], 'unknown hook option "timeout"'],
  ...[0, 120_001, 1.5, Number.NaN, '10', null].map((timeoutMs) => [
    ['run:start', () => {}, { timeoutMs }],
    '"timeoutMs" must be an integer from 1 to 120000',
  ]),
])('hook(%o) is refused', (args, message) => {
  const { agent, named } = openAgent()
  const hook = () => agent.hook(...args)
  expect(hook).toThrow(message)
  expect(hook).toThrow(expect.objectContaining({ name: 'ConfigError', code: 'CONFIG_INVALID' }))
  expect(named('addHook')).toEqual([])
})

test('handlers are registered with their time, and unregistered once', () => {
  const { agent, named } = openAgent()
  const off = agent.hook('run:start', () => {})
  agent.hook('tool:end', () => {}, { timeoutMs: 120_000 })
  agent.hook('tool:end', () => {}, { timeoutMs: 1 })
  agent.hook('run:end', () => {}, { timeoutMs: undefined })
  expect(named('addHook')).toEqual([
    [1, 'run:start', 10_000],
    [2, 'tool:end', 120_000],
    [3, 'tool:end', 1],
    [4, 'run:end', 10_000],
  ])
  off()
  off()
  expect(named('removeHook')).toEqual([[1]])
})

test('a handler gets a frozen event and a signal that an abort fires', async () => {
  const { agent, ask } = openAgent()
  const got = []
  agent.hook('tool:start', (...args) => {
    got.push(args)
    return new Promise(() => {})
  })
  ask('hook', { handler: 1, event }, 7)
  ask('hook', { handler: 1, event }, 8)
  await expect.poll(() => got.length).toBe(2)
  const [[first, { signal }], [second]] = got
  expect(first).toEqual(event)
  expect([first, first.call, first.call.input, first.call.input[0]].every(Object.isFrozen)).toBe(true)
  expect(first.call).not.toBe(second.call)
  expect(signal.aborted).toBe(false)
  await ask('abort', { call: 7 })
  expect(signal.aborted).toBe(true)
})

test('an event nested deeper than the stack is frozen too', async () => {
  const { agent, ask } = openAgent()
  const got = []
  agent.hook('tool:start', (given) => void got.push(given))
  const depth = 50_000
  const input = `${'['.repeat(depth)}${']'.repeat(depth)}`
  const json = `{"handler":1,"event":{"call":{"input":${input}}}}`
  expect(await ask('hook', json)).toEqual({ ok: null })
  let inner = got[0].call.input
  while (inner.length > 0) inner = inner[0]
  expect(Object.isFrozen(inner)).toBe(true)
})

test('a handler that fails is an error reply; one that is gone answers at once', async () => {
  const { agent, ask } = openAgent()
  const off = agent.hook('tool:start', () => {
    throw new Error('mine')
  })
  expect(await ask('hook', { handler: 1, event })).toMatchObject({ error: { name: 'AgentError', message: 'mine' } })
  off()
  expect(await ask('hook', { handler: 1, event })).toEqual({ ok: null })
})

test('contexts are tracked only once there is a handler', async () => {
  const run = vi.spyOn(AsyncLocalStorage.prototype, 'run')
  const store = vi.spyOn(AsyncLocalStorage.prototype, 'getStore')
  const { agent, ask } = openAgent()
  await agent.send('go')
  await agent.awaitIdle()
  expect(store).not.toHaveBeenCalled()
  agent.hook('tool:start', () => {})
  await ask('hook', { handler: 1, event })
  await agent.send('go')
  expect(run).toHaveBeenCalledTimes(1)
  expect(store).toHaveBeenCalled()
  vi.restoreAllMocks()
})

test('inside a handler nothing reaches the native side', async () => {
  const { agent, ask, named } = openAgent()
  const refusals = []
  agent.hook('tool:start', async () => {
    await null
    for (const call of [
      () => agent.run('x').next(),
      () => agent.send('x'),
      () => agent.awaitIdle(),
      () => agent.close(),
      () => agent.mcp.register('x', { command: 'x' }),
      () => agent.mcp.unregister('x'),
    ]) {
      refusals.push(
        await call().then(
          () => 'through',
          ({ name, code, message }) => [name, code, /busy.*hook/.test(message)],
        ),
      )
    }
    // What waits for nothing is free.
    agent.mcp.list()
    agent.subscribe(() => {})()
    agent.hook('run:end', () => {})()
  })
  expect(await ask('hook', { handler: 1, event })).toEqual({ ok: null })
  expect(refusals).toEqual(Array.from({ length: 6 }, () => ['McpError', 'MCP_IN_HOOK', true]))
  for (const name of ['startRun', 'awaitIdle', 'close', 'mcpRegister', 'mcpUnregister']) {
    expect(named(name), name).toEqual([])
  }
})

test('awaitIdle waits for the sends of its session', async () => {
  let end
  const over = new Promise((resolve) => {
    end = () => resolve(null)
  })
  const { agent, named } = openAgent({}, { nextBatch: () => over })
  const ended = []
  agent.send('go').then(() => ended.push('send'))
  agent.send('go', { sessionId: 'other' })
  const idle = agent.awaitIdle().then(() => ended.push('idle'))
  await agent.awaitIdle('third')
  expect(ended).toEqual([])
  end()
  await idle
  expect(ended).toEqual(['send', 'idle'])
  expect(named('awaitIdle')).toEqual([['s1'], ['third']])
})
