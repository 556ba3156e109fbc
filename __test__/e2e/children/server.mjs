// A child script: makes an agent with `workdir` "." and one stdio server, goes to another directory, and runs once.
import { createLiteAgent, fakeProvider, policy } from '@lite-agent/sdk'

const [config, elsewhere] = process.argv.slice(2)
const agent = createLiteAgent({
  workdir: '.',
  strictMcpConfig: true,
  sessions: false,
  model: fakeProvider([{ message: { role: 'assistant', content: [{ type: 'text', text: 'end' }] } }]),
  mcpServers: { s: JSON.parse(config) },
  permission: policy({}),
})
process.chdir(elsewhere)
await agent.send('go')
await agent.close()
