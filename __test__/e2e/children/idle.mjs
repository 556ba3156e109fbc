// A child script: an agent that is never closed and does nothing lets Node exit by itself.
import { createLiteAgent, fakeProvider } from '@lite-agent/sdk'

const [mode, declaration] = process.argv.slice(2)
const turn = { message: { role: 'assistant', content: [{ type: 'text', text: 'hi' }] } }
const agent = createLiteAgent({
  workdir: process.cwd(),
  strictMcpConfig: true,
  model: fakeProvider([turn]),
  mcpServers: declaration ? JSON.parse(declaration) : {},
  onApproval: { request: async () => 'allow' },
})
agent.subscribe(() => {})
if (mode !== 'unused') await agent.send('go')
console.log('ran')
if (mode === 'exit') process.exit(0)
