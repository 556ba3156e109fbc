// The main road once more, from ava: `npm test` runs it to show that users of ava are served.
import { createLiteAgent, fakeProvider, McpError, policy, tool } from '@lite-agent/sdk'
import test from 'ava'
import { z } from 'zod'
import { callsTurn, collect, createBench, resultsOf, textTurn } from '../servers/start.mjs'

const bench = createBench()
test.after.always(() => bench.dispose())

const agentWith = (turns, config) =>
  createLiteAgent({
    workdir: bench.directory,
    home: bench.directory,
    model: fakeProvider(turns),
    permission: policy({}),
    ...config,
  })

test('a stdio and an HTTP server answer in one turn', async (t) => {
  const local = bench.stdio('official-stdio')
  const web = await bench.http('official-http')
  const agent = agentWith(
    [callsTurn(['mcp__local__add', { a: 1, b: 2 }], ['mcp__web__echo', { value: 'hi' }]), textTurn('done')],
    { mcpServers: { local: local.config, web: web.config } },
  )
  const events = await collect(agent.run('go'))
  const texts = Object.fromEntries(
    resultsOf(events).map(({ id, content }) => [id, JSON.parse(content).content[0].text]),
  )
  t.deepEqual(texts, { 'call-1': '3', 'call-2': 'hi' })
  await agent.close()
})

test('a JavaScript tool gets the validated input', async (t) => {
  const shout = tool('shout', 'Shouts', z.object({ word: z.string().toUpperCase() }), ({ word }) => `${word}!`)
  const agent = agentWith([callsTurn(['shout', { word: 'hey' }]), textTurn('done')], { tools: [shout] })
  const [result] = resultsOf(await collect(agent.run('go')))
  t.is(result.content, 'HEY!')
  t.is((await agent.send('more').catch((error) => error)).name, 'ProviderError')
  await agent.close()
})

test('a server that cannot be started rejects with McpError', async (t) => {
  const agent = agentWith([textTurn('never')], { mcpServers: { gone: { command: 'no-such-command-anywhere' } } })
  const error = await t.throwsAsync(agent.send('go'), { instanceOf: McpError })
  t.regex(error.message, /gone/)
  t.is(agent.mcp.list()[0].status, 'error')
  await agent.close()
})
