// An agent on a store of another process: connects, says READY, and makes one call for each line it reads.
import { createInterface } from 'node:readline'
import { createLiteAgent, fakeProvider, policy } from '@lite-agent/sdk'
import { FileProvider } from '../../../examples/oauth/file-provider.mjs'
import { callsTurn, collect, resultsOf, textTurn } from '../../servers/start.mjs'

const { url, origin, store, directory } = JSON.parse(process.argv[2])
const agent = createLiteAgent({
  workdir: directory,
  home: directory,
  strictMcpConfig: true,
  model: fakeProvider([callsTurn(['mcp__docs__echo', { value: 'hi' }]), textTurn('done')]),
  permission: policy({ default: 'allow' }),
  mcpOAuth: {
    docs: {
      serverUrl: url,
      allowedOrigins: [origin],
      provider: new FileProvider({ directory: store, redirectUrl: 'http://127.0.0.1:8765/callback' }),
    },
  },
})
await agent.mcp.register('docs', { type: 'http', url })
console.log('READY')
for await (const _ of createInterface({ input: process.stdin })) {
  const [result] = resultsOf(await collect(agent.run('go')))
  console.log(JSON.stringify(result))
  break
}
await agent.close()
process.exit(0)
