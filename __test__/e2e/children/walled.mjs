// A child script: Node's own ways to a process or a socket all throw; MCP works all the same.
import { createRequire, syncBuiltinESMExports } from 'node:module'

const require = createRequire(import.meta.url)
let attempts = 0
const refuse = () => {
  attempts += 1
  throw new Error('Node was asked for a process or a socket')
}
for (const name of ['child_process', 'net', 'http', 'https', 'http2', 'tls', 'dgram']) {
  const module = require(`node:${name}`)
  for (const key of Object.keys(module)) {
    if (typeof module[key] === 'function') module[key] = refuse
  }
}
syncBuiltinESMExports()
globalThis.fetch = refuse
globalThis.WebSocket = refuse

const { createLiteAgent, fakeProvider, policy } = await import('@lite-agent/sdk')
const calls = JSON.parse(process.argv[3])
const agent = createLiteAgent({
  workdir: process.cwd(),
  model: fakeProvider([
    {
      message: {
        role: 'assistant',
        content: calls.map(([name, input], index) => ({ type: 'tool_call', id: `call-${index + 1}`, name, input })),
      },
    },
    { message: { role: 'assistant', content: [{ type: 'text', text: 'end' }] } },
  ]),
  mcpServers: JSON.parse(process.argv[2]),
  permission: policy({}),
})
const results = {}
for await (const event of agent.run('go')) {
  if (event.type === 'tool_result') results[event.result.id] = event.result
}
await agent.close()
process.stdout.write(JSON.stringify({ results, attempts }))
