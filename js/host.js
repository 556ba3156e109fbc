// Everything the native core asks of JavaScript goes through one callback, which never rejects.

/** @import { AgentEventRecord, ApprovalHandler, Message, ModelProvider, ModelRequest, Tool } from '../index.js' */
/** @import { Sandbox, ToolCall, ToolSpec } from '../index.js' */
/** @import { HistorySlice, NativeAgent } from './border.d.ts' */
/** @import { OAuthPart } from './oauth.js' */
/** @import { RegisteredPolicy } from './permissions.js' */
/** @import { ErrorName } from './errors.js' */

const { AbortError, AgentError, KeptErrors, ToolError, toData } = require('./errors.js')
const { Hooks } = require('./hooks.js')
const { encodeJson, freezeJson, isRecord, isThenable, kindOf } = require('./json.js')
const { authorizeWith, callProvider } = require('./oauth.js')
const { pump } = require('./model.js')
const { readVerdict } = require('./permissions.js')
const { execute, toJson, validate, ValidatedValues } = require('./tools.js')

/**
 * @typedef {object} HostParts
 * @property {ModelProvider} model
 * @property {Tool[]} tools
 * @property {ApprovalHandler} [approval]
 * @property {Sandbox} [sandbox]
 * @property {RegisteredPolicy[]} policies
 * @property {Map<string, OAuthPart>} oauth
 */

const NOTHING = '{"ok":null}'

/** The number of what is told without waiting for an answer. */
const NO_CALL = 0

class Host {
  kept = new KeptErrors()
  validated = new ValidatedValues()
  hooks = new Hooks()
  /** @type {Map<number, AbortController>} */
  #aborts = new Map()
  /** @type {Map<number, Promise<string>>} */
  #pending = new Map()
  /** @type {Map<string, { messages: Message[], tools: ToolSpec[] | undefined }>} */
  #sessions = new Map()
  /** @type {Set<{ listener: (record: AgentEventRecord) => void }>} */
  #listeners = new Set()
  /** @type {HostParts} */
  #parts
  // The addon holds the callback, so a strong reference back would keep both for ever.
  /** @type {WeakRef<NativeAgent> | undefined} */
  #native

  /** @param {HostParts} parts */
  constructor(parts) {
    this.#parts = parts
  }

  /** @param {NativeAgent} native */
  attach(native) {
    this.#native = new WeakRef(native)
  }

  /**
   * @param {number} call
   * @param {string} op
   * @param {string} json
   * @returns {Promise<string>}
   */
  callback = (call, op, json) => {
    const answer = this.#settle(call, op, json)
    // Without this, a promise that nobody will ever settle could be collected, and count as a failure.
    if (call !== NO_CALL) this.#pending.set(call, answer)
    return answer
  }

  /**
   * @param {number} call
   * @param {string} op
   * @param {string} json
   * @returns {Promise<string>}
   */
  async #settle(call, op, json) {
    try {
      return (await this.#answer(call, op, json)) ?? NOTHING
    } catch (error) {
      return encodeJson({ error: toData(error, fallback(op), this.kept) })
    } finally {
      this.#forget(call)
    }
  }

  /** @param {number} call */
  #forget(call) {
    this.#aborts.delete(call)
    this.#pending.delete(call)
  }

  /**
   * @param {number} call
   * @param {string} op
   * @param {string} json
   * @returns {Promise<string | undefined>}
   */
  async #answer(call, op, json) {
    // Not a JSON document, and the signal must be there before anything is awaited.
    if (op === 'events') return this.#deliver(json)
    const args = JSON.parse(json)
    switch (op) {
      case 'oauth.call':
        return `{"ok":${await callProvider(this.#oauth(args.server), args.member, args.args, this.#signal(call))}}`
      case 'oauth.authorize':
        return `{"ok":${await authorizeWith(this.#oauth(args.server), args.url, this.#signal(call))}}`
      case 'abort':
        this.#abort(args.call)
        return undefined
      case 'model.stream':
        return this.#stream(call, args)
      case 'approval':
        return ok(word(await this.#parts.approval?.request(args.call, this.#signal(call))))
      case 'policy':
        return ok(readVerdict(await this.#policy(args.id).check?.check(args.call, { sessionId: args.sessionId })))
      case 'where':
        return ok(Boolean(this.#policy(args.id).where[args.rule]?.(args.call.input, args.call)))
      case 'tool.validate':
        return this.#validate(args)
      case 'tool.execute':
        return this.#execute(call, args)
      case 'sandbox.initialize':
        await this.#parts.sandbox?.initialize?.()
        return undefined
      case 'sandbox.wrap':
        return ok(await this.#parts.sandbox?.wrap(args.command, { cwd: args.cwd }))
      case 'sandbox.dispose':
        await this.#parts.sandbox?.dispose?.()
        return undefined
      case 'hook':
        await this.hooks.call(args.handler, this.#ownEvent(args.event), this.#signal(call))
        return undefined
      case 'history.forget':
        this.#sessions.delete(args.key)
        return undefined
      case 'tool.forget':
        this.validated.take(args.run, args.callId)
        return undefined
      default:
        throw new AgentError(`the shim knows no operation "${op}"`)
    }
  }

  /** @param {number} call */
  #signal(call) {
    const controller = new AbortController()
    this.#aborts.set(call, controller)
    return controller.signal
  }

  /** @param {number} call */
  #abort(call) {
    const controller = this.#aborts.get(call)
    // A callback that never settles must not keep its entry.
    this.#forget(call)
    controller?.abort(new AbortError('the call was aborted'))
  }

  /** @param {number} id */
  #policy(id) {
    const found = this.#parts.policies[id]
    if (!found) throw new AgentError(`the shim knows no policy ${id}`)
    return found
  }

  /** @param {string} server */
  #oauth(server) {
    const found = this.#parts.oauth.get(server)
    if (!found) throw new AgentError(`the shim knows no OAuth of ${server}`)
    return found
  }

  /** @param {number} index */
  #tool(index) {
    const found = this.#parts.tools[index]
    if (!found) throw new AgentError(`the shim knows no tool ${index}`)
    return found
  }

  /**
   * @param {number} call
   * @param {{ request: ModelRequest & { tools: ToolSpec[] | null }, history: HistorySlice }} args
   */
  async #stream(call, { request, history }) {
    const native = this.#native?.deref()
    if (!native) return undefined
    const signal = this.#signal(call)
    await pump(this.#parts.model, this.#request(request, history), signal, native, call)
    native.endChunks(call)
    return undefined
  }

  /**
   * @param {ModelRequest & { tools: ToolSpec[] | null }} request
   * @param {HistorySlice} history
   * @returns {ModelRequest}
   */
  #request({ tools, ...rest }, history) {
    const messages = this.applyHistory(history)
    const session = this.#session(history.key)
    if (tools) session.tools = freezeJson(tools)
    const seen = tools ?? session.tools
    return seen?.length ? { ...rest, messages, tools: [...seen] } : { ...rest, messages }
  }

  /** @param {string} key What the messages of a session are kept under. */
  #session(key) {
    const session = this.#sessions.get(key) ?? { messages: [], tools: undefined }
    this.#sessions.set(key, session)
    return session
  }

  /**
   * Adds what is new of a session's history; gives the history as the native core means it.
   *
   * @param {HistorySlice} history
   * @returns {Message[]}
   */
  applyHistory({ key, from, messages }) {
    const known = this.#session(key).messages
    if (from > known.length) {
      throw new AgentError(`the history of a session skips from ${known.length} to ${from}`)
    }
    const end = from + messages.length
    // Models, results and events all hold the same messages, so nobody may change one.
    for (let at = known.length; at < end; at++) known.push(freezeJson(/** @type {Message} */ (messages[at - from])))
    return known.slice(0, end)
  }

  /** @param {{ tool: number, callId: string, run: number, input: unknown }} args */
  async #validate({ tool, callId, run, input }) {
    const result = await validate(this.#tool(tool), input)
    if ('issues' in result) return ok(result)
    const json = toJson(result.value)
    this.validated.keep(run, callId, result.value)
    return json
  }

  /**
   * @param {number} call
   * @param {{ tool: number, call: ToolCall, sessionId: string, run: number, approval?: 'allow' | null }} args
   */
  async #execute(call, args) {
    const tool = this.#tool(args.tool)
    const input = (this.validated.take(args.run, args.call.id) ?? { value: args.call.input }).value
    let over = false
    const ctx = {
      sessionId: args.sessionId,
      signal: this.#signal(call),
      call: { ...args.call, input },
      /** @param {{ type: string }} event */
      emit: (event) => {
        const json = encodeEvent(event, tool.name)
        if (!over) this.#native?.deref()?.emitEvent(args.run, json)
      },
      ...(args.approval == null ? {} : { approval: args.approval }),
      ...(this.#parts.sandbox ? { sandbox: this.#parts.sandbox } : {}),
    }
    try {
      return ok(await execute(tool, input, ctx))
    } finally {
      over = true
    }
  }

  /**
   * @param {(record: AgentEventRecord) => void} listener
   * @returns {() => void}
   */
  listen(listener) {
    const entry = { listener }
    this.#listeners.add(entry)
    if (this.#listeners.size === 1) this.#native?.deref()?.setListening(true)
    return () => {
      if (this.#listeners.delete(entry) && this.#listeners.size === 0) {
        this.#native?.deref()?.setListening(false)
      }
    }
  }

  /** @param {string} lines */
  #deliver(lines) {
    for (const line of lines.split('\n')) {
      if (line === '') continue
      const record = JSON.parse(line)
      this.fillResult(record.event)
      for (const entry of [...this.#listeners]) {
        if (this.#listeners.has(entry)) notify(entry.listener, record)
      }
    }
    return undefined
  }

  /**
   * Puts a result's messages in the place of the history slice it crossed with.
   *
   * @param {{ type: string, result?: Record<string, unknown> }} event
   */
  fillResult(event) {
    if (event.type === 'done' && event.result?.history) event.result = this.withMessages(event.result)
  }

  /**
   * A hook's event, of which nothing is shared with anybody.
   *
   * @param {{ result?: Record<string, unknown> }} event
   */
  #ownEvent(event) {
    return event.result?.history ? { ...event, result: structuredClone(this.withMessages(event.result)) } : event
  }

  /**
   * @param {Record<string, unknown>} result
   * @returns {Record<string, unknown>}
   */
  withMessages({ history, ...rest }) {
    return { messages: this.applyHistory(/** @type {HistorySlice} */ (history)), ...rest }
  }
}

/** @param {unknown} value */
const ok = (value) => encodeJson({ ok: value ?? null })

/** A person's answer; an object is none, whatever it becomes as JSON. @param {unknown} answer */
const word = (answer) => (typeof answer === 'string' ? answer : undefined)

/**
 * @param {string} op
 * @returns {ErrorName}
 */
function fallback(op) {
  if (op === 'model.stream') return 'ProviderError'
  if (op.startsWith('oauth.')) return 'McpError'
  return op.startsWith('tool.') ? 'ToolError' : 'AgentError'
}

/** The types of the agent's own events, which a tool cannot tell. */
const AGENT_EVENTS = new Set([
  'turn_start',
  'model_call_start',
  'text_delta',
  'message',
  'model_call_end',
  'tool_use',
  'tool_call_start',
  'permission_decision',
  'approval_request',
  'approval_resolved',
  'tool_progress',
  'tool_call_end',
  'tool_result',
  'input_request',
  'input_resolved',
  'steer',
  'background_completed',
  'compaction',
  'context_status',
  'diagnostic',
  'turn_end',
  'error',
  'done',
])

/**
 * @param {unknown} event
 * @param {string} tool
 */
function encodeEvent(event, tool) {
  /** @type {Record<string, unknown>} */
  let copy
  let json
  try {
    // Read once; and a toJSON() of its own could make another event of it.
    copy = { ...(isRecord(event) ? event : {}), toJSON: undefined }
    json = encodeJson(copy)
  } catch (error) {
    throw new ToolError(`tool "${tool}" emitted an event that is not JSON; its cause says why`, { cause: error })
  }
  if (typeof copy.type !== 'string') {
    throw new ToolError(`tool "${tool}" emitted ${kindOf(event)} without a string "type"`)
  }
  if (AGENT_EVENTS.has(copy.type)) {
    throw new ToolError(`tool "${tool}" emitted "${copy.type}", which is an event of the agent; use a type of your own`)
  }
  return json
}

/**
 * A listener's failure is its own.
 *
 * @param {(record: AgentEventRecord) => unknown} listener
 * @param {AgentEventRecord} record
 */
function notify(listener, record) {
  try {
    const answer = listener(record)
    if (isThenable(answer)) answer.then(undefined, () => {})
  } catch {}
}

module.exports = { Host }
