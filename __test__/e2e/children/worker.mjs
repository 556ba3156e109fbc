// A worker thread with calls in flight, until somebody ends it.
import { parentPort, workerData } from 'node:worker_threads'
import { createLiteAgent, fakeProvider, policy, tool } from '@lite-agent/sdk'
import { z } from 'zod'

const content = workerData.calls.map(([name, input], index) => ({
  type: 'tool_call',
  id: `call-${index + 1}`,
  name,
  input,
}))
const agent = createLiteAgent({
  workdir: workerData.workdir,
  strictMcpConfig: true,
  model: fakeProvider([{ message: { role: 'assistant', content } }]),
  mcpServers: workerData.mcpServers,
  permission: policy({}),
  tools: [tool('never', 'Never settles', z.object({}), () => new Promise(() => {}))],
})
for await (const event of agent.run('go')) {
  if (event.type === 'tool_call_start') parentPort.postMessage(event.call.name)
}
