// Signing in to a server: files that only their owner can read, and a listener for the callback.
//
// The server and its authorization server are the test suite's; the page is "opened" by a request that agrees.
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createLiteAgent, fakeProvider, policy, textBlock } from '@lite-agent/sdk'
import { FileProvider, storageDirectory } from './oauth/file-provider.mjs'
import { openLoopback } from './oauth/loopback.mjs'

const home = mkdtempSync(join(tmpdir(), 'lite-agent-oauth-'))
const server = await startServer()
const listener = await openLoopback((url) => void fetch(url))
const directory = storageDirectory(home, 'ada', server.url)

const agent = createLiteAgent({
  workdir: home,
  home,
  model: fakeProvider([
    {
      message: {
        role: 'assistant',
        content: [{ type: 'tool_call', id: '1', name: 'mcp__docs__echo', input: { value: 'hello' } }],
      },
    },
    { message: { role: 'assistant', content: [textBlock('The server says hello.')] } },
  ]),
  permission: policy({ default: 'allow' }),
  mcpServers: { docs: { type: 'http', url: server.url } },
  mcpOAuth: {
    docs: {
      serverUrl: server.url,
      allowedOrigins: [server.authorizationServer],
      provider: new FileProvider({ directory, redirectUrl: listener.redirectUrl }),
      authorize: listener.authorize,
    },
  },
})
try {
  const { text } = await agent.send('Say hello')
  console.log('model:', text)
  console.log('stored with mode:', (statSync(join(directory, 'tokens.json')).mode & 0o777).toString(8))
} finally {
  await agent.close()
  listener.close()
  server.stop()
  rmSync(home, { recursive: true })
}

async function startServer() {
  const log = join(home, 'server.log')
  const path = fileURLToPath(new URL('../__test__/servers/oauth.mjs', import.meta.url))
  const child = spawn(process.execPath, [path, JSON.stringify({ log })], { stdio: ['pipe', 'pipe', 'inherit'] })
  for await (const line of createInterface({ input: child.stdout })) {
    const port = /^PORT=(\d+)$/.exec(line)?.[1]
    if (!port) continue
    const lines = readFileSync(log, 'utf8').trim().split('\n')
    const { a } = lines.map((line) => JSON.parse(line)).find((entry) => entry.origins).origins
    return { url: `http://127.0.0.1:${port}/mcp`, authorizationServer: a, stop: () => child.kill() }
  }
  throw new Error('the server did not start')
}
