// Hooks that watch a run: what it called, how each call ended and how long it took.
import { createLiteAgent, fakeProvider, policy, textBlock, tool } from '@lite-agent/sdk'
import { z } from 'zod'

const read = tool('read', 'Reads a page', z.object({ page: z.string() }), ({ page }) => `the text of ${page}`)
const call = (id, page) => ({
  message: { role: 'assistant', content: [{ type: 'tool_call', id, name: 'read', input: { page } }] },
})

const model = fakeProvider([
  call('1', 'home'),
  call('2', 'admin'),
  { message: { role: 'assistant', content: [textBlock('I could read one of two pages.')] } },
])

const agent = createLiteAgent({
  workdir: process.cwd(),
  model,
  tools: [read],
  permission: policy({ rules: [{ when: { page: { equals: 'admin' } }, effect: 'deny' }] }),
  strictMcpConfig: true,
  sessions: false,
})

agent.hook('run:start', ({ input }) => console.log('run:', input))
agent.hook('tool:end', ({ call, status, result }) => console.log(`${call.input.page}: ${status}: ${result.content}`))
const stop = agent.hook('run:end', ({ status, result }) => console.log(`run: ${status}: ${result?.text}`), {
  timeoutMs: 1000,
})

await agent.send('Read both pages.')
stop()
await agent.close()
