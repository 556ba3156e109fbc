// A child script: Node's own ways to a process or a socket all throw; MCP works all the same.
import { createRequire, syncBuiltinESMExports } from 'node:module'

// Node opens its own output on first use, as a socket when it is a pipe.
const { stdout } = process
void process.stderr
const require = createRequire(import.meta.url)
let attempts = 0
const refuse = () => {
  attempts += 1
  throw new Error('Node was asked for a process or a socket')
}
const walled = ['child_process', 'net', 'http', 'https', 'http2', 'tls', 'dgram'].map((name) => require(`node:${name}`))
for (const module of walled) {
  for (const [key, value] of Object.entries(module)) {
    if (typeof value === 'function') Object.defineProperty(module, key, { value: refuse, configurable: true })
  }
}
syncBuiltinESMExports()
globalThis.fetch = refuse
globalThis.WebSocket = refuse

const { createLiteAgent, fakeProvider, policy } = await import('@lite-agent/sdk')
const calls = JSON.parse(process.argv[3])
const agent = createLiteAgent({
  workdir: process.cwd(),
  strictMcpConfig: true,
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
stdout.write(JSON.stringify({ results, attempts }))
