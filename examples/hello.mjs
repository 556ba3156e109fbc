// The smallest agent with a tool: no server, no network, the model's turns are scripted.
import { createLiteAgent, fakeProvider, textBlock, tool } from '@lite-agent/sdk'
import { z } from 'zod'

const add = tool('add', 'Adds two numbers', z.object({ a: z.number(), b: z.number() }), ({ a, b }) => String(a + b))

const model = fakeProvider([
  { message: { role: 'assistant', content: [{ type: 'tool_call', id: '1', name: 'add', input: { a: 2, b: 3 } }] } },
  { message: { role: 'assistant', content: [textBlock('2 and 3 make 5.')] } },
])

const agent = createLiteAgent({ workdir: process.cwd(), model, tools: [add], strictMcpConfig: true, sessions: false })
for await (const event of agent.run('What is 2 + 3?')) {
  if (event.type === 'tool_result') console.log('tool:', event.result.content)
  if (event.type === 'done') console.log('model:', event.result.text)
}
await agent.close()
