// The types of the native border: what `js/` and the addon say to each other.

/** An error as it crosses the border. */
export interface ErrorData {
  name: string
  code?: string
  message: string
  status?: number
  details?: unknown
  /** The id of the host's own error, kept by the shim. */
  causeId?: number
}

/** One condition of a rule on one field; exactly one member is set. */
export interface ConditionSpec {
  glob?: string
  regex?: string
  equals?: unknown
  in?: unknown[]
  startsWith?: string
  contains?: unknown
  not?: ConditionSpec
}

/** One rule of a native policy. */
export interface RuleSpec {
  id?: string
  description?: string
  tool?: string
  when?: Record<string, ConditionSpec>
  hasWhere: boolean
  effect: 'allow' | 'ask' | 'deny'
}

/** A policy as the native core reads it. */
export type PolicySpec =
  | {
      kind: 'native'
      id: number
      allow?: string[]
      ask?: string[]
      deny?: string[]
      rules?: RuleSpec[]
      default?: 'allow' | 'ask' | 'deny'
    }
  | { kind: 'host'; id: number }
  | { kind: 'compose'; of: PolicySpec[] }

/** New messages of a session: `messages[0]` stands at index `from`. */
export interface HistorySlice {
  /** What the messages of the session are kept under, until `history.forget` names it. */
  key: string
  from: number
  messages: unknown[]
}

/** The single callback; resolves to an outcome and never rejects. */
export type HostCallback = (call: number, op: string, json: string) => Promise<string>

/** The one class of the addon. Strings are JSON; an "outcome" is `{"ok":…}` or `{"error":…}`. */
export interface NativeAgent {
  configure(json: string): string
  resume(session: string): string
  clear(): string
  listSessions(): Promise<string>
  deleteSession(session: string): Promise<string>
  startRun(json: string): string
  nextBatch(run: number): Promise<string | null>
  runOutcome(run: number): Promise<string>
  cancelRun(run: number): void
  dropRun(run: number): Promise<void>
  setListening(on: boolean): void
  pushChunk(call: number, json: string): number
  pushLastChunk(call: number, json: string): number
  chunkReady(call: number): Promise<boolean>
  endChunks(call: number): void
  emitEvent(run: number, json: string): void
  addHook(handler: number, name: string, timeoutMs: number): string
  removeHook(handler: number): void
  awaitIdle(session: string | null): Promise<string>
  mcpRegister(name: string, json: string): Promise<string>
  mcpUnregister(name: string): Promise<string>
  mcpList(): string
  close(): Promise<string>
  abandon(): void
}

export type NativeAgentClass = new (host: HostCallback) => NativeAgent
