// What the OAuth tests share: a bench for each test, and an agent that connects to its servers.
import { createLiteAgent, fakeProvider, policy } from '@lite-agent/sdk'
import { afterEach, beforeEach, expect } from 'vitest'
import { browse, MemoryProvider } from '../servers/oauth-host.mjs'
import { createBench } from '../servers/start.mjs'

/** A bench that is new for each test; its agents are closed afterwards. */
export function useBench() {
  const bench = { current: undefined, agents: [] }
  beforeEach(() => {
    bench.current = createBench()
    bench.agents = []
  })
  afterEach(async () => {
    await Promise.all(bench.agents.map((agent) => agent.close()))
    bench.current.dispose()
  })
  return bench
}

/** An agent with OAuth for `docs`, its provider, and a function that registers the server. */
export function connectTo(bench, server, options = {}) {
  const { provider = new MemoryProvider(), turns = [], agent: config, ...oauth } = options
  const entry = { serverUrl: server.url, allowedOrigins: [server.origins.a], provider, authorize: browse, ...oauth }
  const agent = createLiteAgent({
    workdir: bench.current.directory,
    home: bench.current.directory,
    strictMcpConfig: true,
    model: fakeProvider(turns),
    permission: policy({ default: 'allow' }),
    mcpOAuth: { docs: entry },
    ...config,
  })
  bench.agents.push(agent)
  return { agent, provider, register: (over = {}) => agent.mcp.register('docs', { ...server.config, ...over }) }
}

/** What a promise rejects with. */
export async function failure(promise) {
  const error = await promise.then(
    () => undefined,
    (caught) => caught,
  )
  expect(error, 'nothing was thrown').toBeDefined()
  return error
}
