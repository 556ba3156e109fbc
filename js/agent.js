// The agent of the public API: a thin face of one native agent.

/** @import { AgentEventRecord, LiteAgentConfig, LiteAgentResult, McpServerConfig } from '../index.js' */
/** @import { McpServerStatus, Message, RunOptions } from '../index.js' */
/** @import { NativeAgent, NativeAgentClass } from './border.d.ts' */

const { readConfig, readRun, readServer } = require('./config.js')
const { AbortError, ConfigError, McpError, closed, internal, unwrap } = require('./errors.js')
const { Host } = require('./host.js')
const { encodeJson, kindOf } = require('./json.js')
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
  /** @type {string} */
  sessionId
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
    this.sessionId = sessionId
    Object.defineProperty(this, 'sessionId', { writable: false })
    this.mcp = new McpServers(this.#native, this.#host, () => this.#closing !== undefined)
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
    return this.#start(input, options, { quiet: true }).drain()
  }

  /**
   * @param {string | Message[]} input
   * @param {RunOptions} options
   * @param {{ quiet: boolean }} events `quiet`: nobody reads the run's events
   */
  #start(input, options, { quiet }) {
    if (this.#closing) throw closed()
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
    if (this.#closing) throw closed()
    return this.#host.listen(listener)
  }

  /** @returns {Promise<void>} */
  close() {
    this.#closing ??= this.#close()
    return this.#closing
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
    this.#requireOpen(name)
    const declaration = readServer(config, `the declaration of "${name}"`)
    await this.#settle(this.#native.mcpRegister(name, encodeJson(declaration)))
  }

  /**
   * @param {string} name
   * @returns {Promise<void>}
   */
  async unregister(name) {
    this.#requireOpen(name)
    await this.#settle(this.#native.mcpUnregister(name))
  }

  /** @returns {McpServerStatus[]} */
  list() {
    return JSON.parse(this.#native.mcpList())
  }

  /** @param {unknown} name */
  #requireOpen(name) {
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
