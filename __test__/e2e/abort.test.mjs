// Aborting: before the first model call it rejects, later it ends the run, and servers are told.
import { createLiteAgent, fakeProvider, policy, tool } from '@lite-agent/sdk'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { callsTurn, createBench, textTurn, until } from '../servers/start.mjs'

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

const hanging = (onSignal) => ({
  id: 'hanging',
  async *stream(_request, signal) {
    onSignal?.(signal)
    yield { type: 'text_delta', text: 'half a sent' }
    await new Promise(() => {})
  },
})

test('a signal that is already aborted rejects, and the agent stays usable', async () => {
  const agent = createAgent(fakeProvider([textTurn('fine')]))
  const failure = { name: 'AbortError', code: 'ABORTED', message: expect.stringContaining('aborted') }
  await expect(agent.send('go', { signal: AbortSignal.abort() })).rejects.toMatchObject(failure)
  expect((await agent.send('go')).text).toBe('fine')
})

test('an abort while servers are prepared rejects; the preparation goes on for others', async () => {
  const gates = []
  const server = bench.stdio('official-stdio')
  const agent = createAgent(fakeProvider([textTurn('fine')]), {
    mcpServers: { local: server.config },
    permission: undefined,
    onApproval: { request: () => new Promise((resolve) => gates.push(() => resolve('allow'))) },
  })
  const abort = new AbortController()
  const first = agent.send('first', { signal: abort.signal, sessionId: 'first' })
  const second = agent.send('second', { sessionId: 'second' })
  await until(() => gates.length === 1)
  abort.abort()
  await expect(first).rejects.toMatchObject({ code: 'ABORTED' })
  gates[0]()
  expect((await second).text).toBe('fine')
  expect(server.pids().length).toBe(1)
})

test('an abort while the model streams ends the run, though the model never settles', async () => {
  let modelSignal
  const agent = createAgent(hanging((signal) => (modelSignal = signal)))
  const abort = new AbortController()
  const events = []
  for await (const event of agent.run('go', { signal: abort.signal })) {
    events.push(event)
    if (event.type === 'text_delta') abort.abort()
  }
  expect(events.at(-1)).toMatchObject({ type: 'done', reason: 'aborted', result: { stopReason: 'aborted' } })
  await until(() => modelSignal.aborted)
})

test('an abort reaches a stdio server as a notification and an HTTP server as a closed stream', async () => {
  const local = bench.stdio('official-stdio')
  const web = await bench.http('official-http')
  let toolSignal
  const never = tool('never', 'Never settles', z.object({}), (_, { signal }) => {
    toolSignal = signal
    return new Promise(() => {})
  })
  const agent = createAgent(
    fakeProvider([
      callsTurn(['mcp__local__slow', {}], ['mcp__web__slow', {}], ['never', {}]),
      callsTurn(['mcp__local__add', { a: 1, b: 1 }]),
      textTurn('still here'),
    ]),
    { mcpServers: { local: local.config, web: web.config }, tools: [never] },
  )
  const abort = new AbortController()
  const sent = agent.send('go', { signal: abort.signal })
  const isRunning = (server) => server.entries().some((entry) => entry.running === 'slow')
  await until(() => isRunning(local) && isRunning(web) && toolSignal)
  abort.abort()
  const { stopReason, messages } = await sent
  expect(stopReason).toBe('aborted')
  expect(toolSignal.aborted).toBe(true)
  await until(() => [local, web].every((server) => server.entries().some((entry) => entry.cancelled === 'slow')))
  const [call] = local.messages('tools/call')
  expect(local.messages('notifications/cancelled').map(({ params }) => params.requestId)).toEqual([call.id])
  expect(web.messages('notifications/cancelled')).toEqual([])

  // Every call of the conversation has its result, so that a model can go on from here.
  const ids = (type) =>
    messages
      .flatMap(({ content }) => (Array.isArray(content) ? content : []))
      .filter((b) => b.type === type)
      .map((b) => b.id)
  expect(ids('tool_result')).toEqual(ids('tool_call'))
  expect((await agent.send('and now?')).text).toBe('still here')
  expect(agent.mcp.list().map(({ status }) => status)).toEqual(['ready', 'ready'])
})

test('leaving the loop early cancels the run and waits for it', async () => {
  let toolSignal
  const never = tool('never', 'Never settles', z.object({}), (_, { signal }) => {
    toolSignal = signal
    return new Promise(() => {})
  })
  const agent = createAgent(fakeProvider([callsTurn(['never', {}]), textTurn('fine')]), { tools: [never] })
  for await (const event of agent.run('go')) {
    if (event.type === 'tool_call_start') await until(() => toolSignal)
    if (toolSignal) break
  }
  expect(toolSignal.aborted).toBe(true)
  expect((await agent.send('go')).text).toBe('fine')
})

test('an approval that never settles is ended by the abort', async () => {
  let promptSignal
  const agent = createAgent(fakeProvider([callsTurn(['ask', {}]), textTurn('fine')]), {
    tools: [tool('ask', 'Asks', z.object({}), () => 'x')],
    permission: policy({ ask: ['ask'] }),
    onApproval: {
      request(_call, signal) {
        promptSignal = signal
        return new Promise(() => {})
      },
    },
  })
  const abort = new AbortController()
  const sent = agent.send('go', { signal: abort.signal })
  await until(() => promptSignal)
  abort.abort()
  expect(await sent).toMatchObject({ stopReason: 'aborted' })
  await until(() => promptSignal.aborted)
  expect((await agent.send('go')).text).toBe('fine')
})

test('close ends a run in flight', async () => {
  const agent = createAgent(hanging())
  const events = []
  const ended = (async () => {
    for await (const event of agent.run('go')) events.push(event)
  })().catch((error) => error)
  await until(() => events.some((event) => event.type === 'text_delta'))
  await agent.close()
  const error = await ended
  expect(error?.code ?? events.at(-1).reason).toMatch(/^(aborted|ABORTED|CLOSED)$/)
})
