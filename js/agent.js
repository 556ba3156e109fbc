// The agent of the public API: a thin face of one native agent.

/** @import { AgentEventRecord, HookEvents, HookHandler, HookName, HookOptions } from '../index.js' */
/** @import { LiteAgentConfig, LiteAgentResult, McpServerConfig } from '../index.js' */
/** @import { McpServerStatus, Message, RunOptions, StoredSession } from '../index.js' */
/** @import { NativeAgent, NativeAgentClass } from './border.d.ts' */

const { readConfig, readRun, readServer, readSessionId } = require('./config.js')
const { AbortError, ConfigError, McpError, closed, internal, unwrap } = require('./errors.js')
const { readHook } = require('./hooks.js')
const { Host } = require('./host.js')
const { encodeJson, kindOf, requireWellFormed } = require('./json.js')
const { loadNative } = require('./native.js')
const { Run, RunHandle } = require('./run.js')
const { onAbort } = require('./signals.js')

/**
 * Checks the configuration and makes an agent; starts nothing.
 *
 * @param {LiteAgentConfig} config
 * @returns {LiteAgent}
 */
function createLiteAgent(config) {
  const read = readConfig(config)
  return new LiteAgent(read, loadNative())
}

/**
 * The agents that `process.exit` must not leave servers of: Node runs no clean-up of an addon then.
 *
 * @type {Set<WeakRef<NativeAgent>>}
 */
const open = new Set()
const collected = new FinalizationRegistry((/** @type {WeakRef<NativeAgent>} */ ref) => open.delete(ref))

/** @param {NativeAgent} native */
function endWithProcess(native) {
  if (open.size === 0) {
    process.off('exit', abandonAll)
    process.on('exit', abandonAll)
  }
  const ref = new WeakRef(native)
  open.add(ref)
  collected.register(native, ref)
  return () => open.delete(ref)
}

function abandonAll() {
  for (const ref of open) ref.deref()?.abandon()
}

class LiteAgent {
  /** @type {NativeAgent} */
  #native
  /** @type {InstanceType<typeof Host>} */
  #host
  /** @type {Promise<void> | undefined} */
  #closing
  #forget
  /** @type {Set<{ session: string, settled: Promise<unknown> }>} */
  #sends = new Set()
  /** @type {string} */
  #sessionId
  /** @type {McpServers} */
  mcp

  /**
   * @param {ReturnType<typeof readConfig>} config
   * @param {NativeAgentClass} NativeAgent
   */
  constructor(config, NativeAgent) {
    this.#host = new Host(config.parts)
    this.#native = new NativeAgent(this.#host.callback)
    this.#host.attach(this.#native)
    this.#forget = endWithProcess(this.#native)
    const { sessionId } = unwrap(this.#native.configure(config.native), this.#host.kept)
    this.#sessionId = sessionId
    this.mcp = new McpServers(this.#native, this.#host, () => this.#closing !== undefined)
  }

  /** @returns {string} */
  get sessionId() {
    return this.#sessionId
  }

  /** @param {string} id */
  resume(id) {
    this.#requireOpen()
    requireId(id)
    unwrap(this.#native.resume(id), this.#host.kept)
    this.#sessionId = id
  }

  /** @returns {string} */
  clear() {
    this.#requireOpen()
    this.#sessionId = unwrap(this.#native.clear(), this.#host.kept).sessionId
    return this.#sessionId
  }

  /** @returns {Promise<StoredSession[]>} */
  async listSessions() {
    this.#requireOpen()
    return this.#settle(this.#native.listSessions())
  }

  /**
   * @param {string} id
   * @returns {Promise<void>}
   */
  async deleteSession(id) {
    this.#requireOpen()
    requireId(id)
    await this.#settle(this.#native.deleteSession(id))
  }

  /**
   * @param {string | Message[]} input
   * @param {RunOptions} [options]
   * @returns {InstanceType<typeof Run>}
   */
  run(input, options = {}) {
    return new Run(() => this.#start(input, options, { quiet: false }))
  }

  /**
   * @param {string | Message[]} input
   * @param {RunOptions} [options]
   * @returns {Promise<LiteAgentResult>}
   */
  async send(input, options = {}) {
    const result = this.#start(input, options, { quiet: true }).drain()
    const send = { session: options.sessionId ?? this.sessionId, settled: result.catch(() => {}) }
    this.#sends.add(send)
    try {
      return await result
    } finally {
      this.#sends.delete(send)
    }
  }

  /**
   * @param {string | Message[]} input
   * @param {RunOptions} options
   * @param {{ quiet: boolean }} events `quiet`: nobody reads the run's events
   */
  #start(input, options, { quiet }) {
    this.#host.hooks.refuseInside(quiet ? 'send' : 'run')
    this.#requireOpen()
    const { native: json, signal } = readRun(input, options, quiet)
    if (signal?.aborted) throw new AbortError('the run was aborted', { cause: signal.reason })
    /** @type {number | undefined} */
    let run
    // Before the run starts: a signal that cannot be listened to must not leave one behind.
    const off = signal ? onAbort(signal, () => run !== undefined && this.#native.cancelRun(run)) : () => {}
    try {
      run = /** @type {number} */ (unwrap(this.#native.startRun(json), this.#host.kept).run)
      return new RunHandle(this.#native, this.#host, run, { signal, off })
    } catch (error) {
      off()
      throw internal(error)
    }
  }

  /**
   * @param {(record: AgentEventRecord) => void} listener
   * @returns {() => void}
   */
  subscribe(listener) {
    if (typeof listener !== 'function') {
      throw new ConfigError(`the listener must be a function, not ${kindOf(listener)}`)
    }
    this.#requireOpen()
    return this.#host.listen(listener)
  }

  /**
   * @template {HookName} Name
   * @param {Name} name
   * @param {HookHandler<HookEvents[Name]>} handler
   * @param {HookOptions} [options]
   * @returns {() => void}
   */
  hook(name, handler, options = {}) {
    const timeoutMs = readHook(name, handler, options)
    if (this.#closing) throw closed()
    const id = this.#host.hooks.add(handler)
    unwrap(this.#native.addHook(id, name, timeoutMs), this.#host.kept)
    return () => {
      if (this.#host.hooks.remove(id)) this.#native.removeHook(id)
    }
  }

  /**
   * @param {string} [sessionId]
   * @returns {Promise<void>}
   */
  async awaitIdle(sessionId) {
    this.#host.hooks.refuseInside('awaitIdle')
    if (this.#closing) throw closed()
    const session = readSessionId(sessionId) ?? this.sessionId
    try {
      unwrap(await this.#native.awaitIdle(session), this.#host.kept)
    } catch (error) {
      throw internal(error)
    }
    // Whoever sent has the result before the session counts as idle.
    await Promise.all([...this.#sends].filter((send) => send.session === session).map((send) => send.settled))
  }

  /** @returns {Promise<void>} */
  close() {
    try {
      this.#host.hooks.refuseInside('close')
    } catch (error) {
      return Promise.reject(error)
    }
    this.#closing ??= this.#close()
    return this.#closing
  }

  #requireOpen() {
    if (this.#closing) throw closed()
  }

  /** @param {Promise<string>} outcome */
  async #settle(outcome) {
    try {
      return unwrap(await outcome, this.#host.kept)
    } catch (error) {
      throw internal(error)
    }
  }

  async #close() {
    try {
      unwrap(await this.#native.close(), this.#host.kept)
      this.#forget()
    } catch (error) {
      throw internal(error)
    }
  }
}

/** @param {unknown} id */
function requireId(id) {
  if (typeof id !== 'string') throw new ConfigError(`a session id must be a string, not ${kindOf(id)}`)
  requireWellFormed(id, 'the session id')
}

class McpServers {
  #native
  #host
  #isClosed

  /**
   * @param {NativeAgent} native
   * @param {InstanceType<typeof Host>} host
   * @param {() => boolean} isClosed
   */
  constructor(native, host, isClosed) {
    this.#native = native
    this.#host = host
    this.#isClosed = isClosed
  }

  /**
   * @param {string} name
   * @param {McpServerConfig} config
   * @returns {Promise<void>}
   */
  async register(name, config) {
    this.#requireOpen('mcp.register', name)
    const declaration = readServer(config, `the declaration of "${name}"`)
    await this.#settle(this.#native.mcpRegister(name, encodeJson(declaration)))
  }

  /**
   * @param {string} name
   * @returns {Promise<void>}
   */
  async unregister(name) {
    this.#requireOpen('mcp.unregister', name)
    await this.#settle(this.#native.mcpUnregister(name))
  }

  /** @returns {McpServerStatus[]} */
  list() {
    return JSON.parse(this.#native.mcpList())
  }

  /**
   * @param {string} member
   * @param {unknown} name
   */
  #requireOpen(member, name) {
    this.#host.hooks.refuseInside(member)
    if (this.#isClosed()) throw new McpError('the agent is closed', { code: 'MCP_CLOSED' })
    if (typeof name !== 'string') {
      throw new McpError(`a server name must be a string, not ${kindOf(name)}`, { code: 'MCP_NAME' })
    }
  }

  /** @param {Promise<string>} outcome */
  async #settle(outcome) {
    try {
      unwrap(await outcome, this.#host.kept)
    } catch (error) {
      throw internal(error)
    }
  }
}

module.exports = { createLiteAgent, LiteAgent }
