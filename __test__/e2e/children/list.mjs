// A child script: the names of the servers that files declare.
import { createLiteAgent, fakeProvider } from '@lite-agent/sdk'

const agent = createLiteAgent({ workdir: process.cwd(), model: fakeProvider([]) })
console.log(JSON.stringify(agent.mcp.list().map(({ name }) => name)))
