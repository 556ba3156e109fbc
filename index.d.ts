// The public types: the contract that a user of the package reads.

/** The MCP protocol revision this package speaks. */
export declare const MCP_PROTOCOL_VERSION: '2026-07-28'

// ── Messages ─────────────────────────────────────────────────────────────────

export interface TextBlock {
  type: 'text'
  text: string
}

/** The model asks for a tool. */
export interface ToolCallBlock {
  type: 'tool_call'
  id: string
  name: string
  input: unknown
}

/** What a tool call gave; `id` is the call's. */
export interface ToolResultBlock {
  type: 'tool_result'
  id: string
  content: string
  isError?: boolean
}

/** Content that only one provider understands, passed back to it as it came. */
export interface NativeBlock {
  type: 'native'
  provider: string
  data: unknown
}

/** A summary that stands for older messages. */
export interface CompactionBlock {
  type: 'compaction'
  content: string
}

export type ContentBlock = TextBlock | ToolCallBlock | ToolResultBlock | NativeBlock | CompactionBlock

/** What an agent hands out, in results, events and requests to a model, is frozen; change a `structuredClone`. */
export interface Message {
  role: 'system' | 'user' | 'assistant' | 'tool'
  content: string | ContentBlock[]
}

export interface AssistantMessage {
  role: 'assistant'
  content: ContentBlock[]
}

export declare function textBlock(text: string): TextBlock
export declare function toolResultBlock(id: string, content: string, isError?: boolean): ToolResultBlock
export declare function isTextBlock(block: ContentBlock): block is TextBlock
export declare function isToolCallBlock(block: ContentBlock): block is ToolCallBlock

/** Counts of tokens. */
export interface Usage {
  inputTokens: number
  outputTokens: number
  cacheReadTokens?: number
  cacheCreationTokens?: number
}

// ── Models ───────────────────────────────────────────────────────────────────

/** A tool as a model sees it; `parameters` is a JSON Schema. */
export interface ToolSpec {
  name: string
  description: string
  parameters: Record<string, unknown>
}

export interface ModelRequest {
  model: string
  system?: string
  messages: Message[]
  tools?: ToolSpec[]
  maxTokens?: number
}

export type ModelChunk =
  | { type: 'text_delta'; text: string }
  | { type: 'message_done'; message: AssistantMessage; usage: Usage }

/**
 * A language model. Its stream must hold one `message_done`; a stream without it, or one that
 * throws, fails the run with `ProviderError`.
 */
export interface ModelProvider {
  readonly id: string
  stream(request: ModelRequest, signal?: AbortSignal): AsyncIterable<ModelChunk>
}

/** One scripted answer; `text` is streamed before `message`, absent usage counts as zero. */
export interface FakeTurn {
  text?: string
  message: AssistantMessage
  usage?: Usage
}

/**
 * A model that replays `turns` in order, with the id `fake`. Out of turns it fails with
 * `ProviderError`.
 */
export declare function fakeProvider(turns: FakeTurn[]): ModelProvider

// ── Tools ────────────────────────────────────────────────────────────────────

/** A call as policies, approvals and events see it. */
export interface ToolCall {
  id: string
  name: string
  input: unknown
}

/** A Standard Schema that can also export its input as JSON Schema draft 2020-12. */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult<Output> | Promise<StandardResult<Output>>
    readonly jsonSchema: {
      readonly input: (options: { target: 'draft-2020-12' }) => Record<string, unknown>
    }
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

export type StandardResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | {
      readonly issues: ReadonlyArray<{
        readonly message: string
        readonly path?: ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined
      }>
    }

export interface ToolResult {
  /** The text that the model reads; above 16 KiB it reads it through the tool `context`. */
  content: string
  isError?: boolean
}

export interface ToolContext {
  sessionId: string
  /** Fires when the run is cancelled; nobody waits for the tool after that. */
  signal: AbortSignal
  /** The call, with its validated input. */
  call: ToolCall
  /** Set when a person was asked and allowed the call. */
  approval?: 'allow'
  /** The agent's sandbox, for a tool that starts processes itself. */
  sandbox?: Sandbox
  /**
   * Sends an event of the tool's own to the run's events. Who is 1,024 events behind misses it, and gets one
   * `diagnostic` with the code `tool_events_dropped` instead.
   * @throws {ToolError} when it has no string `type`, has the type of one of the agent's events, or is not JSON.
   */
  emit(event: { type: string; [member: string]: unknown }): void
}

export type ToolHandler<Input = unknown> = (
  input: Input,
  ctx: ToolContext,
) => string | ToolResult | Promise<string | ToolResult>

export interface Tool<Input = never> {
  /** Unique; `mcp_connect`, `context` and names that begin `mcp__` are reserved. */
  name: string
  description: string
  schema: StandardSchema
  security?: Record<string, unknown>
  /**
   * Gets the validated input. What it throws becomes a result that the model reads as an error: the first line of its
   * message, without secrets and host paths.
   */
  execute(input: Input, ctx: ToolContext): string | ToolResult | Promise<string | ToolResult>
}

/** Makes a tool; `handler` gets what `schema` made of the model's input. */
export declare function tool<Output>(
  name: string,
  description: string,
  schema: StandardSchema<unknown, Output>,
  handler: ToolHandler<Output>,
  options?: { security?: Record<string, unknown> },
): Tool

// ── Permissions ──────────────────────────────────────────────────────────────

export type Decision = 'allow' | 'deny' | 'ask'

export interface PolicyVerdict {
  decision: Decision
  ruleId?: string
  reason?: string
}

/**
 * Judges calls. One that throws, gives no answer within 10 s, or answers with anything but a decision, denies.
 * (`Promise<string>` is what TypeScript makes of `async () => 'ask'`.)
 */
export interface PermissionPolicy {
  check(
    call: ToolCall,
    ctx: { sessionId: string },
  ): Decision | PolicyVerdict | Promise<Decision | PolicyVerdict> | Promise<string>
}

/** A policy made of rules: it answers at once. */
export interface RulePolicy extends PermissionPolicy {
  check(call: ToolCall, ctx: { sessionId: string }): PolicyVerdict
}

/**
 * A test of one field; exactly one member.
 *
 * A glob goes by characters: `*` is any text, `?` one character, `[a-z]` a class, `[!a]` or `[^a]` its opposite, `{a,b}`
 * a choice, and `\` takes the next as it is. A pattern is read as JavaScript reads it with the `u` flag; a text may
 * begin with flags, as in `(?i)^rm`. Look-around, back-references, `\p{…}` and the flags `v` and `y` are refused.
 */
export type Condition =
  | { glob: string }
  | { regex: string | RegExp }
  | { equals: unknown }
  | { in: readonly unknown[] }
  | { startsWith: string }
  | { contains: unknown }
  | { not: Condition }

export interface PolicyRule {
  id?: string
  description?: string
  /** A glob over tool names; absent means every tool. */
  tool?: string
  /** Conditions by dot-path into the input; all must hold. A missing field never matches. */
  when?: Record<string, Condition>
  /** A last test in JavaScript, synchronous. */
  where?(input: unknown, call: ToolCall): boolean
  effect: Decision
}

export interface PolicyOptions {
  /** Globs over tool names. */
  allow?: readonly string[]
  ask?: readonly string[]
  deny?: readonly string[]
  rules?: readonly PolicyRule[]
  /** For calls that nothing names; `'allow'` unless set. */
  default?: Decision
}

/**
 * A policy of globs and rules: deny over ask over allow over `default`.
 * @throws {ConfigError} on a malformed option.
 */
export declare function policy(options?: PolicyOptions): RulePolicy

/** `policy` with the default `'deny'`. */
export declare function strictPolicy(options: Omit<PolicyOptions, 'default'>): RulePolicy

/** Deny if any denies, else ask if any asks, else allow. */
export declare function composePolicies(...policies: PermissionPolicy[]): PermissionPolicy

/** Answers the calls that a policy asks about. Prompts come one after another. */
export interface ApprovalHandler {
  request(call: ToolCall, signal: AbortSignal): Promise<'allow' | 'deny'>
}

/**
 * A copy of a JSON value whose strings hold `[redacted]` instead of bearer tokens, `sk-` keys,
 * JWTs, e-mail addresses and `key|token|secret|password` assignments.
 */
export declare function defaultRedactor(input: unknown): unknown

// ── MCP servers ──────────────────────────────────────────────────────────────

/** A server that runs as a child process. */
export interface McpStdioServerConfig {
  type?: 'stdio'
  command: string
  args?: string[]
  /** Added to a small inherited environment. */
  env?: Record<string, string>
  /** 1–300000 milliseconds; 30000 unless set. */
  timeoutMs?: number
}

/** A server over Streamable HTTP; `http:` is for the local machine only. */
export interface McpHttpServerConfig {
  type: 'http'
  url: string
  headers?: Record<string, string>
  /** 1–300000 milliseconds; 30000 unless set. */
  timeoutMs?: number
}

export type McpServerConfig = McpStdioServerConfig | McpHttpServerConfig

export interface McpServerStatus {
  name: string
  source: 'global' | 'project' | 'constructor' | 'instance'
  status: 'configured' | 'connecting' | 'ready' | 'stale' | 'error'
  /** The full names the model sees, `mcp__<server>__<tool>`. */
  toolNames: string[]
  /** Why, beginning with the error's code. */
  error?: string
}

export interface McpServers {
  /**
   * Connects a server and publishes its tools; a failure leaves no trace.
   * @throws {McpError} `MCP_EXISTS`, `MCP_BUSY`, `MCP_CLOSED`, `MCP_DENIED`, or what went wrong
   * while connecting.
   */
  register(name: string, config: McpServerConfig): Promise<void>
  /**
   * Closes a server and takes its tools away.
   * @throws {McpError} `MCP_UNKNOWN`, `MCP_BUSY` or `MCP_CLOSED`.
   */
  unregister(name: string): Promise<void>
  /** Every server, in declaration order, from memory. */
  list(): McpServerStatus[]
}

// ── Events ───────────────────────────────────────────────────────────────────

/** An error inside an event. */
export interface EventError {
  name: string
  code: string
  message: string
}

/**
 * Runs commands in confinement. The commands of stdio servers go through it, each after its `mcp_connect` was
 * allowed. When it fails, the server is not started.
 */
export interface Sandbox {
  id: string
  /**
   * Turns a shell command into the one that runs it confined; `/bin/sh -c` runs the answer in `cwd`, which is
   * `workdir`. Has 10 s.
   */
  wrap(command: string, options: { cwd: string }): string | Promise<string>
  /** Called once before the first command; again with the next one when it failed. Has 10 s. */
  initialize?(): void | Promise<void>
  /** Called by `close()` after the last process ended, if `initialize` succeeded. Has 10 s. */
  dispose?(): void | Promise<void>
}

/** What happens in a run. A tool's own events, sent with `ctx.emit`, arrive beside these. */
export type AgentEvent = { agentId?: string } & (
  | { type: 'turn_start'; turn: number }
  | { type: 'model_call_start'; turn: number; model: string }
  | { type: 'text_delta'; text: string }
  | { type: 'message'; message: Message }
  | {
      type: 'model_call_end'
      turn: number
      model: string
      durationMs: number
      usage?: Usage
      error?: EventError
    }
  | { type: 'tool_use'; call: ToolCall }
  | { type: 'tool_call_start'; call: ToolCall; turn: number }
  | {
      type: 'permission_decision'
      call: ToolCall
      decision: Decision
      ruleId?: string
      reason?: string
      simulated?: boolean
      by: 'policy' | 'user' | 'auto'
    }
  | { type: 'approval_request'; call: ToolCall; reason?: string }
  | { type: 'approval_resolved'; id: string; decision: 'allow' | 'deny'; by: 'user' | 'auto' }
  | {
      type: 'tool_progress'
      id: string
      name: string
      progress: number
      total?: number
      message?: string
    }
  | {
      type: 'tool_call_end'
      id: string
      name: string
      turn: number
      durationMs: number
      isError: boolean
    }
  | { type: 'tool_result'; result: { id: string; name: string; content: string; isError?: boolean } }
  | { type: 'diagnostic'; level: 'info' | 'warning' | 'error'; code: string; message: string }
  | { type: 'turn_end'; turn: number; stopReason: string }
  | { type: 'error'; error: EventError; fatal: boolean }
  | { type: 'done'; reason: StopReason; result: LiteAgentResult }
)

export interface AgentEventRecord {
  sessionId: string
  source: 'user' | 'background'
  event: AgentEvent
}

// ── Hooks ────────────────────────────────────────────────────────────────────

/** Frozen all the way down. */
export type Frozen<T> = T extends object ? { readonly [Member in keyof T]: Frozen<T[Member]> } : T

export type HookName = 'run:start' | 'run:end' | 'tool:start' | 'tool:end'

export type HookStatus = 'completed' | 'failed' | 'cancelled' | 'max_turns'

/** What every hook event carries. */
export interface HookEventBase {
  /** The same in every event of one run. */
  runId: string
  sessionId: string
  /** Set in the events of a child agent. */
  agentId?: string
  source: 'user' | 'background'
}

/** The session is the run's; no server is prepared and no model is asked yet. */
export interface RunStartHookEvent extends HookEventBase {
  event: 'run:start'
  /** As it was given to `run` or `send`. */
  input: string | Message[]
}

/** A run is over, however it ended. Follows every `run:start`, before the caller has the result. */
export interface RunEndHookEvent extends HookEventBase {
  event: 'run:end'
  status: HookStatus
  /** Absent when the run ended with an error. */
  result?: LiteAgentResult
  /** Why there is no result. */
  error?: EventError
}

/** A call begins, also one that is going to be refused. */
export interface ToolStartHookEvent extends HookEventBase {
  event: 'tool:start'
  /** With the input as the model gave it. */
  call: ToolCall
}

/** A call has its outcome. Follows every `tool:start`, before the model reads the result. */
export interface ToolEndHookEvent extends HookEventBase {
  event: 'tool:end'
  /** With the validated input, once it is valid. */
  call: ToolCall
  status: 'completed' | 'failed' | 'cancelled'
  /** What the model reads, also of a call that failed. */
  result: ToolResult
  /** Set unless `status` is `'completed'`. */
  error?: EventError
  /** Without the time of the `tool:start` handlers. */
  durationMs: number
}

export interface HookEvents {
  'run:start': RunStartHookEvent
  'run:end': RunEndHookEvent
  'tool:start': ToolStartHookEvent
  'tool:end': ToolEndHookEvent
}

/** Gets a frozen copy of its own; what it returns is ignored. `signal` fires when nobody waits for it any more. */
export type HookHandler<Event> = (event: Frozen<Event>, ctx: { signal: AbortSignal }) => unknown

export interface HookOptions {
  /** 1–120000 milliseconds; 10000 unless set. */
  timeoutMs?: number
}

// ── OAuth ────────────────────────────────────────────────────────────────────

/** Signing in to one HTTP server. It applies to the server of that name, wherever that is declared. */
export interface McpOAuthConfig {
  /** Must be the server's URL; credentials go nowhere else. */
  serverUrl: string
  /** Where metadata, registration, sign-in and tokens may come from; the server's own origin is added. */
  allowedOrigins: readonly string[]
  /** Your storage. One object serves one connection at a time. */
  provider: McpOAuthProvider
  /**
   * Opens the page and resolves to the complete callback URL. Without it nobody can sign in. The signal fires when
   * the sign-in is given up; close windows and listeners then.
   */
  authorize?: (url: URL, ctx: { signal: AbortSignal }) => Promise<string | URL>
  /** For connecting and signing in together; 180000 unless set, at most 600000. */
  timeoutMs?: number
  /** What a call does that needs more scope: fail, or ask for it inside the call. `'fail'` unless set. */
  stepUp?: 'fail' | 'authorize'
}

/** What a client says of itself when it registers (RFC 7591). */
export interface McpOAuthClientMetadata {
  redirect_uris: string[]
  scope?: string
  client_name?: string
  grant_types?: string[]
  token_endpoint_auth_method?: string
  application_type?: string
}

/** A registered client; members that are not listed here are kept as they are. */
export interface McpOAuthClientInformation {
  client_id: string
  client_secret?: string
  client_id_issued_at?: number
  client_secret_expires_at?: number
  /** The only authorization server these credentials are sent to. */
  issuer?: string
}

/** Stored tokens; members that are not listed here are kept as they are. */
export interface McpOAuthTokens {
  access_token: string
  token_type: string
  expires_in?: number
  /** When the access token ends, in seconds since 1970; set on every answer that tells `expires_in`. */
  expires_at?: number
  refresh_token?: string
  scope?: string
  id_token?: string
  /** Who issued them. */
  issuer?: string
}

/** What a pending sign-in has to remember. */
export interface McpOAuthDiscoveryState {
  authorizationServerUrl: string
  resourceMetadataUrl?: string
  resourceMetadata?: unknown
  authorizationServerMetadata?: unknown
}

/**
 * A host's storage: the `OAuthClientProvider` of `@modelcontextprotocol/client` without `state`,
 * `redirectToAuthorization` (never called) and `dpop` (refused). Members are called on your own object and may be
 * async.
 */
export interface McpOAuthProvider {
  /** The registered callback; absent when no person signs in. */
  readonly redirectUrl?: string | URL | undefined
  readonly clientMetadata: McpOAuthClientMetadata
  /** Where the client's own metadata document is (https, with a path). */
  readonly clientMetadataUrl?: string | undefined
  clientInformation(ctx?: {
    issuer: string
  }): McpOAuthClientInformation | undefined | Promise<McpOAuthClientInformation | undefined>
  /** Without it no client is registered. */
  saveClientInformation?(info: McpOAuthClientInformation, ctx?: { issuer: string }): void | Promise<void>
  /** Without `ctx`: the tokens of this server at the moment. */
  tokens(ctx?: { issuer: string }): McpOAuthTokens | undefined | Promise<McpOAuthTokens | undefined>
  saveTokens(tokens: McpOAuthTokens, ctx?: { issuer: string }): void | Promise<void>
  saveCodeVerifier(verifier: string): void | Promise<void>
  codeVerifier(): string | Promise<string>
  /** Needed when a person signs in, as is `discoveryState`. */
  saveDiscoveryState?(state: McpOAuthDiscoveryState): void | Promise<void>
  discoveryState?(): McpOAuthDiscoveryState | undefined | Promise<McpOAuthDiscoveryState | undefined>
  /** Without it nothing is ever removed. */
  invalidateCredentials?(scope: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): void | Promise<void>
  /** The parameters of a grant that needs no person. */
  prepareTokenRequest?(scope?: string): URLSearchParams | undefined | Promise<URLSearchParams | undefined>
  /** Proves who the client is, in place of its secret, by changing `headers` and `params`. */
  addClientAuthentication?(
    headers: Headers,
    params: URLSearchParams,
    url: string | URL,
    metadata?: unknown,
  ): void | Promise<void>
  /** Gives the resource indicator; `undefined` leaves it out. */
  validateResourceURL?(serverUrl: string | URL, resource?: string): Promise<URL | undefined>
  saveResourceUrl?(resourceUrl: string): void | Promise<void>
  resourceUrl?(): string | undefined | Promise<string | undefined>
  saveAuthorizationServerUrl?(authorizationServerUrl: string): void | Promise<void>
  authorizationServerUrl?(): string | undefined | Promise<string | undefined>
}

// ── The agent ────────────────────────────────────────────────────────────────

export interface LiteAgentConfig {
  /** An existing directory. */
  workdir: string
  /** The global directory; `$LITE_AGENT_HOME` or `~/.lite-agent` unless set. */
  home?: string
  model: ModelProvider
  /** The model id in requests; `model.id` unless set. */
  modelName?: string
  /** Added to those in `<home>/mcps.json` and `<workdir>/.lite-agent/mcps.json`. */
  mcpServers?: Record<string, McpServerConfig>
  /** Who signs in where, by server name; see `docs/guides/oauth.md`. Never in a file. */
  mcpOAuth?: Record<string, McpOAuthConfig>
  /** `true` ignores the `mcps.json` of the home and of the project. */
  strictMcpConfig?: boolean
  /** When set, a server with any other transport is refused, whatever declares it. */
  mcpTransports?: ('stdio' | 'http')[]
  /** Unless set: host `tools` and `context` are allowed; `mcp_connect` and every `mcp__*` tool ask. */
  permission?: PermissionPolicy
  /** Confines the processes of stdio servers. */
  sandbox?: Sandbox
  /** Refuses a configuration without `sandbox`. Default false. */
  requireSandbox?: boolean
  /**
   * `'dry-run'` tells every verdict in a `permission_decision` with `simulated: true` and lets tools run without
   * asking. `mcp_connect` is decided as ever. `'enforce'` unless set.
   */
  permissionMode?: 'enforce' | 'dry-run'
  /** Without it, a call that a policy asks about is denied. */
  onApproval?: ApprovalHandler
  tools?: Tool[]
  /** The only tools the model sees, by exact name; never an authorisation. */
  allowedTools?: string[]
  /** Tools the model does not see, by exact name. */
  disallowedTools?: string[]
  /**
   * Keeps sessions on disk, below the home; `true` unless set. `false` keeps them in memory, and the
   * archives of large results until `close()`.
   */
  sessions?: boolean
  /** Child agents; `false` is the only value supported so far. */
  agents?: false
  /** Replaces the default system prompt. */
  system?: string
  /** Model calls in one run; 50 unless set. */
  maxTurns?: number
  /** Tool calls of one turn that run at once; 10 unless set. */
  maxParallelTools?: number
}

export interface RunOptions {
  /**
   * Another conversation than the agent's own; what is saved of it is read. Runs of one session wait
   * for each other.
   */
  sessionId?: string
  /** Cancels the run. */
  signal?: AbortSignal
}

/** A session on disk. */
export interface StoredSession {
  id: string
  /** When it was last written to, in milliseconds since the epoch. */
  mtime: number
}

export type StopReason = 'stop' | 'aborted' | 'max_turns'

export interface LiteAgentResult {
  /** The whole conversation of the session. */
  messages: Message[]
  /** The text of the last answer. */
  text: string
  usage: Usage
  stopReason: StopReason
}

/** A started run. Leaving the loop early cancels it and waits for its cleanup. */
export interface AgentRun extends AsyncGenerator<AgentEvent, LiteAgentResult, void> {
  [Symbol.asyncIterator](): AgentRun
}

export interface LiteAgent {
  /** The session that runs belong to unless they name another. */
  readonly sessionId: string
  /**
   * Makes `id` the session that runs belong to. The next run reads what is saved of it; of an unknown
   * one, nothing is.
   * @throws {ConfigError} when it is empty or too long for a file name.
   */
  resume(id: string): void
  /** Begins a new session and gives its id; the old one stays as it is. */
  clear(): string
  /**
   * The saved sessions of the `workdir`, the newest first.
   * @throws {StorageError} when they cannot be read, and with `sessions: false`.
   */
  listSessions(): Promise<StoredSession[]>
  /**
   * Removes the messages and the archive of a session, from memory and disk; it is fine when there is none.
   * @throws {StorageError} while the session runs, and when it cannot be removed.
   */
  deleteSession(id: string): Promise<void>
  /** The agent's servers. */
  readonly mcp: McpServers
  /**
   * Starts a run at once and gives its events; errors reject the first `next()`.
   * @throws {AbortError} when `signal` fires before the first model call; its `cause` is the
   * signal's reason. Later the run ends with `stopReason: 'aborted'`.
   * @throws {AgentError} `CLOSED` after `close()`.
   * @throws {StorageError} when the session cannot be read or written, or runs elsewhere.
   */
  run(input: string | Message[], options?: RunOptions): AgentRun
  /** The same run, resolved to its result. */
  send(input: string | Message[], options?: RunOptions): Promise<LiteAgentResult>
  /**
   * Calls `listener` for every event of every run, and gives a function that ends that. A
   * listener that fails harms nothing.
   */
  subscribe(listener: (record: AgentEventRecord) => void): () => void
  /**
   * Calls `handler` for every event of that name, from the next one on, and gives a function that ends that. Handlers
   * of one event are awaited one after another, in the order of their registration. One that throws, or is not done in
   * time, becomes a `diagnostic` event with the code `hook_failed`, and the agent goes on.
   *
   * While the agent waits for a handler, `run`, `send`, `awaitIdle`, `close`, `mcp.register` and `mcp.unregister` of
   * this agent reject in it with `MCP_IN_HOOK`.
   * @throws {ConfigError} on an unknown name or a bad option.
   * @throws {AgentError} `CLOSED` after `close()`.
   */
  hook<Name extends HookName>(name: Name, handler: HookHandler<HookEvents[Name]>, options?: HookOptions): () => void
  /**
   * Resolves when no run of the session is under way or waits for its turn; the agent's own session unless named.
   * @throws {AgentError} `CLOSED` after `close()`.
   */
  awaitIdle(sessionId?: string): Promise<void>
  /** Cancels what runs, closes the servers and resolves. Every call gives the same promise. */
  close(): Promise<void>
}

/**
 * Makes an agent. Checks the configuration, reads both `mcps.json` files once, and starts nothing: no
 * process, no connection.
 * @throws {ConfigError} `CONFIG_INVALID` on an unknown, ill-typed or not yet supported field, and on
 * an `mcps.json` that is broken.
 * @throws {McpError} on a bad server declaration; `MCP_CONFLICT` when one name is declared twice with
 * different content, `MCP_TRANSPORT` when `mcpTransports` does not allow its transport.
 * @throws {AgentError} when the native addon cannot be loaded.
 */
export declare function createLiteAgent(config: LiteAgentConfig): LiteAgent

// ── Errors ───────────────────────────────────────────────────────────────────

export interface AgentErrorOptions {
  code?: string
  cause?: unknown
  /** An HTTP status. */
  status?: number
  details?: unknown
}

/** The root of every error of the package. Match on `code`; `message` is for people. */
export declare class AgentError extends Error {
  constructor(message?: string, options?: AgentErrorOptions)
  code: string
  status?: number
  details?: unknown
}

/** The model failed; `status` is its HTTP status, when it has one. */
export declare class ProviderError extends AgentError {}
/** A tool failed in a way that concerns the caller. */
export declare class ToolError extends AgentError {}
/** Data could not be encoded or decoded. */
export declare class CodecError extends AgentError {}
/** The run used up its turns. */
export declare class MaxTurnsError extends AgentError {}
/** The run was cancelled before its first model call. */
export declare class AbortError extends AgentError {}
/** A file could not be read or written. */
export declare class StorageError extends AgentError {}
/** A server could not be declared, connected or called. */
export declare class McpError extends AgentError {}
/** A field of a call or a file is unknown or ill-typed. */
export declare class ConfigError extends AgentError {}
