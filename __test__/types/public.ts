// The public types, used as a host uses them; the type checker is the test.

import {
  ClientCredentialsProvider,
  type OAuthClientProvider,
  PrivateKeyJwtProvider,
  StaticPrivateKeyJwtProvider,
} from '@modelcontextprotocol/client'
import * as z from 'zod'
import {
  AbortError,
  AgentError,
  type AgentEvent,
  type AgentEventRecord,
  type ApprovalHandler,
  ConfigError,
  type ContentBlock,
  composePolicies,
  createLiteAgent,
  type defaultRedactor,
  fakeProvider,
  type HookEvents,
  type HookStatus,
  isTextBlock,
  isToolCallBlock,
  type LiteAgent,
  type LiteAgentResult,
  MCP_PROTOCOL_VERSION,
  McpError,
  type McpOAuthConfig,
  type McpOAuthProvider,
  type McpServerStatus,
  type ModelProvider,
  type PermissionPolicy,
  type PolicyVerdict,
  policy,
  type StoredSession,
  strictPolicy,
  type Tool,
  textBlock,
  tool,
  toolResultBlock,
} from '../../index.js'

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const isTrue = <T extends true>(): T | undefined => undefined

const version: '2026-07-28' = MCP_PROTOCOL_VERSION
void version

// A tool's handler gets the schema's output.
const add: Tool = tool(
  'add',
  'Adds',
  z.object({ a: z.number(), b: z.string().transform(Number) }),
  async (input, ctx) => {
    isTrue<Equal<typeof input, { a: number; b: number }>>()
    ctx.emit({ type: 'added', by: input.a })
    // @ts-expect-error an event needs a type
    ctx.emit({ by: 1 })
    return ctx.signal.aborted ? { content: 'no', isError: true } : String(input.a + input.b)
  },
)

// @ts-expect-error a tool's result is text
tool('bad', 'Returns a number', z.object({}), () => 1)

const written: Tool = {
  name: 'echo',
  description: 'Echoes',
  schema: z.object({ text: z.string() }),
  execute: (input: { text: string }) => input.text,
}

const model: ModelProvider = {
  id: 'own',
  async *stream(request, signal) {
    signal?.throwIfAborted()
    yield { type: 'text_delta', text: request.messages.length.toString() }
    yield {
      type: 'message_done',
      message: { role: 'assistant', content: [textBlock('hi')] },
      usage: { inputTokens: 1, outputTokens: 1 },
    }
  },
}

const agent: LiteAgent = createLiteAgent({
  workdir: '.',
  model,
  tools: [add, written],
  strictMcpConfig: false,
  mcpTransports: ['stdio', 'http'],
  sessions: false,
  permissionMode: 'dry-run',
  agents: false,
  mcpServers: {
    docs: { type: 'http', url: 'https://docs.example.com/mcp', headers: { a: 'b' }, timeoutMs: 1000 },
    files: { command: 'node', args: ['server.mjs'], env: { LOG_LEVEL: 'warn' } },
  },
  permission: composePolicies(
    strictPolicy({ allow: ['mcp__*'] }),
    policy({
      rules: [
        {
          tool: 'echo',
          when: { text: { not: { regex: /rm/ } } },
          where: (_input, call) => call.name === 'echo',
          effect: 'ask',
        },
      ],
    }),
    { check: (call, { sessionId }) => (call.name === sessionId ? 'deny' : { decision: 'allow', ruleId: 'x' }) },
  ),
  onApproval: { request: async (call, signal) => (signal.aborted || call.name === 'x' ? 'deny' : 'allow') },
})

// @ts-expect-error a model is required
createLiteAgent({ workdir: '.' })
// @ts-expect-error http servers have no command
createLiteAgent({ workdir: '.', model, mcpServers: { a: { type: 'http', command: 'node' } } })
// @ts-expect-error there are two transports
createLiteAgent({ workdir: '.', model, mcpTransports: ['sse'] })
// @ts-expect-error there are two modes
createLiteAgent({ workdir: '.', model, permissionMode: 'off' })
// @ts-expect-error sessions are kept or not
createLiteAgent({ workdir: '.', model, sessions: 'yes' })
// @ts-expect-error a strict policy's default is fixed
strictPolicy({ default: 'allow' })
// @ts-expect-error a condition has one test
policy({ rules: [{ when: { a: {} }, effect: 'deny' }] })

const unhook: () => void = agent.hook('tool:end', async (event, { signal }) => {
  isTrue<Equal<typeof event.status, 'completed' | 'failed' | 'cancelled'>>()
  // @ts-expect-error an event is frozen
  event.call.name = signal.aborted ? event.result.content : event.error?.message
  return event.durationMs
})
unhook()
agent.hook(
  'run:end',
  (event) => {
    isTrue<Equal<typeof event.status, HookStatus>>()
    isTrue<Equal<HookEvents['run:end']['status'], HookStatus>>()
    // @ts-expect-error frozen all the way down
    event.result?.messages.push({ role: 'user', content: event.runId })
  },
  { timeoutMs: 1000 },
)
agent.hook('run:start', ({ input, sessionId, agentId, source }) => {
  if (typeof input !== 'string') void [input[0]?.role, sessionId, agentId, source]
})
agent.hook('tool:start', ({ call }) => void call.input)
// @ts-expect-error there is no such hook
agent.hook('tool:strat', () => {})

async function use(): Promise<LiteAgentResult> {
  const off: () => void = agent.subscribe(({ event, source }: AgentEventRecord) => {
    if (event.type === 'tool_result') void [event.result.content, source, event.agentId]
  })
  off()
  for await (const event of agent.run('hi', { signal: AbortSignal.timeout(10), sessionId: 's' })) {
    isTrue<Equal<typeof event, AgentEvent>>()
    if (event.type === 'done') void event.result.messages
  }
  const run = agent.run([{ role: 'user', content: [textBlock('hi'), toolResultBlock('1', 'x', true)] }])
  const step = await run.next()
  if (step.done) void step.value.usage.inputTokens
  await run.return(undefined as never)
  try {
    await agent.mcp.register('docs', { type: 'http', url: 'https://docs.example.com' })
    await agent.mcp.unregister('docs')
  } catch (error) {
    if (error instanceof McpError) void (error.code satisfies string)
    if (error instanceof AgentError) void [error.status, error.details]
  }
  const servers: McpServerStatus[] = agent.mcp.list()
  void servers
  await agent.awaitIdle()
  await agent.awaitIdle('s')
  agent.resume(agent.clear() satisfies string)
  isTrue<Equal<Awaited<ReturnType<typeof agent.listSessions>>, StoredSession[]>>()
  for (const { id, mtime } of await agent.listSessions()) if (mtime < 1e12) await agent.deleteSession(id)
  // @ts-expect-error the session changes with resume() and clear() only
  agent.sessionId = 'other'
  await agent.close()
  return agent.send('hi')
}
void use

declare const block: ContentBlock
if (isTextBlock(block)) void block.text
if (isToolCallBlock(block)) void block.input

const fake = fakeProvider([{ text: 'hi', message: { role: 'assistant', content: [textBlock('hi')] } }])
void fake.id
isTrue<Equal<ReturnType<typeof defaultRedactor>, unknown>>()
void new AbortError('x', { cause: 1 })
void new ConfigError('x', { code: 'CONFIG_INVALID' })

// The official client's providers are providers here, and so is whatever implements its interface.
const officialProviders: McpOAuthProvider[] = [
  new ClientCredentialsProvider({ clientId: 'i', clientSecret: 's', expectedIssuer: 'https://login.example.com' }),
  new PrivateKeyJwtProvider({ clientId: 'i', privateKey: 'k', algorithm: 'RS256' }),
  new StaticPrivateKeyJwtProvider({ clientId: 'i', jwtBearerAssertion: 'j' }),
]
declare const official: OAuthClientProvider
const oauth: McpOAuthConfig = {
  serverUrl: 'https://docs.example.com/mcp',
  allowedOrigins: ['https://login.example.com'] as const,
  provider: official,
  authorize: async (url, { signal }) => {
    signal.throwIfAborted()
    return url
  },
  timeoutMs: 1000,
  stepUp: 'authorize',
}
void [officialProviders, oauth]
// @ts-expect-error a provider stores tokens
const incomplete: McpOAuthProvider = { clientMetadata: { redirect_uris: [] } }
void incomplete
// A policy and its answers, in every plain form.
const policies: PermissionPolicy[] = [
  { check: () => 'ask' },
  { check: async () => 'ask' },
  { check: async () => ({ decision: 'ask' }) },
  { check: (call) => (call.name === 'x' ? 'allow' : { decision: 'deny', reason: 'no' }) },
  {
    async check(call) {
      return call.name === 'x' ? 'allow' : 'deny'
    },
  },
  {
    check: async (call) => {
      if (call.name === 'x') return 'allow'
      return { decision: 'deny', reason: 'no' }
    },
  },
  { check: (call) => Promise.resolve(call.name === 'x' ? 'allow' : 'deny') },
  // @ts-expect-error no decision
  { check: () => 'maybe' },
  // @ts-expect-error no decision
  { check: async () => ({ decision: true }) },
]
void policies
const wrapped: PermissionPolicy = { check: (call, ctx) => policies[0].check(call, ctx) }
isTrue<Equal<ReturnType<ReturnType<typeof policy>['check']>, PolicyVerdict>>()
void wrapped

const approvals: ApprovalHandler[] = [
  { request: async () => 'allow' },
  { request: async (call) => (call.name === 'x' ? 'allow' : 'deny') },
  {
    async request(call) {
      if (call.name === 'x') return 'allow'
      return 'deny'
    },
  },
]
void approvals

const plain: Tool[] = [
  { name: 'a', description: '', schema: z.object({}), execute: async () => 'x' },
  { name: 'b', description: '', schema: z.object({}), execute: async () => ({ content: 'x', isError: true }) },
  {
    name: 'c',
    description: '',
    schema: z.object({}),
    execute: async (_input, ctx) => {
      if (ctx.approval === 'allow') return 'x'
      return { content: 'x' }
    },
  },
]
void plain
