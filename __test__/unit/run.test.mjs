// Runs: order, early ends, signals and results.
import { expect, test } from 'vitest'
import sdk from '../../index.js'
import { openAgent, result } from './fake-native.mjs'

const lines = (...events) => events.map((event) => JSON.stringify(event)).join('\n')
const scripted =
  (...batches) =>
  () =>
    batches.length ? batches.shift() : null
const deferred = () => {
  const one = {}
  one.promise = new Promise((resolve, reject) => Object.assign(one, { resolve, reject }))
  return one
}
const hi = { role: 'user', content: 'hi' }

test('a run gives its events in order and returns its result', async () => {
  const history = { session: 's1', from: 0, messages: [hi] }
  const done = { type: 'done', reason: 'stop', result: { text: 't', history } }
  const { agent } = openAgent(
    {},
    {
      nextBatch: scripted(lines({ type: 'turn_start', turn: 1 }, { type: 'text_delta', text: 'a' }), lines(done)),
      runOutcome: () => result('s1', 0, [hi]),
    },
  )
  const run = agent.run('hi')
  const steps = await Promise.all([run.next(), run.next(), run.next(), run.next(), run.next()])
  expect(steps).toEqual([
    { value: { type: 'turn_start', turn: 1 }, done: false },
    { value: { type: 'text_delta', text: 'a' }, done: false },
    { value: { type: 'done', reason: 'stop', result: { messages: [hi], text: 't' } }, done: false },
    {
      value: { messages: [hi], text: 't', usage: { inputTokens: 0, outputTokens: 0 }, stopReason: 'stop' },
      done: true,
    },
    { value: undefined, done: true },
  ])
})

test('leaving the loop drops the run and waits for its end', async () => {
  const ended = deferred()
  const { agent, named } = openAgent(
    {},
    {
      nextBatch: () => lines({ type: 'text_delta', text: 'a' }),
      dropRun: () => ended.promise,
    },
  )
  let left = false
  const loop = (async () => {
    for await (const _ of agent.run('hi')) break
    left = true
  })()
  await expect.poll(() => named('dropRun')).toEqual([[1]])
  expect(left).toBe(false)
  ended.resolve()
  await loop
})

test('return() ends a pending next() and is idempotent', async () => {
  const batch = deferred()
  const { agent, named } = openAgent({}, { nextBatch: () => batch.promise, dropRun: () => batch.resolve(null) })
  const run = agent.run('hi')
  const pending = run.next()
  expect(await run.return('v')).toEqual({ value: 'v', done: true })
  expect(await pending).toEqual({ value: undefined, done: true })
  await run.return()
  expect(named('dropRun')).toEqual([[1]])
  expect(named('runOutcome')).toEqual([])
})

test('throw() drops the run and rejects with the given error', async () => {
  const { agent, named } = openAgent()
  const error = new Error('mine')
  await expect(agent.run('hi').throw(error)).rejects.toBe(error)
  expect(named('dropRun')).toEqual([[1]])
})

test('a failed run throws the class and code, with the host error as its cause', async () => {
  const model = {
    id: 'm',
    stream: () => {
      throw Object.assign(new Error('boom'), { status: 503 })
    },
  }
  let data
  const { agent, ask } = openAgent({ model }, { runOutcome: () => JSON.stringify({ error: data }) })
  const history = { session: 's1', from: 0, messages: [] }
  data = (await ask('model.stream', { request: { model: 'm', tools: null }, history })).error
  expect(data).toMatchObject({ name: 'ProviderError', code: 'PROVIDER', message: 'boom', status: 503 })
  const error = await agent.send('hi').catch((e) => e)
  expect(error).toBeInstanceOf(sdk.ProviderError)
  expect(error).toMatchObject({ name: 'ProviderError', code: 'PROVIDER', status: 503, message: 'boom' })
  expect(error.cause).toMatchObject({ message: 'boom', status: 503 })
  expect(Object.hasOwn(error, 'name')).toBe(true)
})

test('a signal that has already fired starts nothing and is the cause', async () => {
  const aborted = JSON.stringify({ error: { name: 'AbortError', code: 'ABORTED', message: 'aborted' } })
  const { agent, named } = openAgent({}, { runOutcome: aborted })
  const reason = new Error('enough')
  const error = await agent.send('hi', { signal: AbortSignal.abort(reason) }).catch((e) => e)
  expect(error).toBeInstanceOf(sdk.AbortError)
  expect(error.cause).toBe(reason)
  expect(named('startRun')).toEqual([])
})

test('the listener on a signal goes with the run', async () => {
  const { agent, named } = openAgent()
  const controller = new AbortController()
  await agent.send('hi', { signal: controller.signal })
  controller.abort()
  expect(named('cancelRun')).toEqual([])
})

test('a bad input or option rejects the first next() and send()', async () => {
  const { agent, named } = openAgent()
  for (const [input, options] of [
    [1],
    [null],
    [[1]],
    [[{ role: 'x', content: '' }]],
    ['hi', { signal: {} }],
    ['hi', { sesionId: 'a' }],
    ['hi', { steer: 1 }],
    [[{ role: 'user', content: [{ type: 'text', text: 1n }] }]],
  ]) {
    await expect(agent.send(input, options)).rejects.toMatchObject({ code: 'CONFIG_INVALID' })
    const run = agent.run(input, options)
    await expect(run.next()).rejects.toBeInstanceOf(sdk.ConfigError)
    expect(await run.next()).toEqual({ value: undefined, done: true })
  }
  expect(named('startRun')).toEqual([])
})

test('a broken native side is an INTERNAL error', async () => {
  const { agent } = openAgent({}, { nextBatch: () => Promise.reject(new Error('panic')) })
  await expect(agent.run('hi').next()).rejects.toMatchObject({ code: 'INTERNAL', name: 'AgentError' })
})

test('after close everything rejects, and close is one promise', async () => {
  const { agent, named } = openAgent()
  const closing = agent.close()
  expect(agent.close()).toBe(closing)
  await closing
  await expect(agent.run('hi').next()).rejects.toMatchObject({ code: 'CLOSED', message: /closed/ })
  await expect(agent.send('hi')).rejects.toMatchObject({ code: 'CLOSED' })
  await expect(agent.mcp.register('a', { command: 'x' })).rejects.toMatchObject({
    name: 'McpError',
    code: 'MCP_CLOSED',
  })
  await expect(agent.mcp.unregister('a')).rejects.toMatchObject({ code: 'MCP_CLOSED' })
  expect(agent.mcp.list()).toEqual([])
  expect(named('close')).toHaveLength(1)
})
