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
  /** The text that the model reads. */
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
  /** Unique; `mcp_connect` and names that begin `mcp__` are reserved. */
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
  /** `true` ignores the `mcps.json` of the home and of the project. */
  strictMcpConfig?: boolean
  /** When set, a server with any other transport is refused, whatever declares it. */
  mcpTransports?: ('stdio' | 'http')[]
  /** Unless set: host `tools` are allowed; `mcp_connect` and every `mcp__*` tool ask. */
  permission?: PermissionPolicy
  /** Without it, a call that a policy asks about is denied. */
  onApproval?: ApprovalHandler
  tools?: Tool[]
  /** The only tools the model sees, by exact name; never an authorisation. */
  allowedTools?: string[]
  /** Tools the model does not see, by exact name. */
  disallowedTools?: string[]
  /** Keeps transcripts on disk; `false` is the only value supported so far. */
  sessions?: false
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
  /** Another conversation than the agent's own. Runs of one session wait for each other. */
  sessionId?: string
  /** Cancels the run. */
  signal?: AbortSignal
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
  /** The agent's servers. */
  readonly mcp: McpServers
  /**
   * Starts a run at once and gives its events; errors reject the first `next()`.
   * @throws {AbortError} when `signal` fires before the first model call; its `cause` is the
   * signal's reason. Later the run ends with `stopReason: 'aborted'`.
   * @throws {AgentError} `CLOSED` after `close()`.
   */
  run(input: string | Message[], options?: RunOptions): AgentRun
  /** The same run, resolved to its result. */
  send(input: string | Message[], options?: RunOptions): Promise<LiteAgentResult>
  /**
   * Calls `listener` for every event of every run, and gives a function that ends that. A
   * listener that fails harms nothing.
   */
  subscribe(listener: (record: AgentEventRecord) => void): () => void
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
