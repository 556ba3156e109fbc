// The handlers of `agent.hook`: what they get, and what they may not call while the agent waits for them.

/** @import { AsyncLocalStorage } from 'node:async_hooks' */
/** @import { HookOptions } from '../index.js' */

const { ConfigError, McpError } = require('./errors.js')
const { isRecord, kindOf, requireKnownKeys, closest } = require('./json.js')

const NAMES = ['run:start', 'run:end', 'tool:start', 'tool:end']
const NOT_YET = ['compact:start', 'compact:end']
const TIMEOUT_MS = 10_000
const LONGEST_TIMEOUT_MS = 120_000

/** @typedef {(event: never, ctx: { signal: AbortSignal }) => unknown} Handler */

class Hooks {
  /** @type {Map<number, Handler>} */
  #handlers = new Map()
  #last = 0
  // Made with the first handler: an agent without hooks does not pay for the tracking of contexts.
  /** @type {AsyncLocalStorage<{ pending: boolean }> | undefined} */
  #inside

  /**
   * @param {Handler} handler
   * @returns {number}
   */
  add(handler) {
    this.#inside ??= new (require('node:async_hooks').AsyncLocalStorage)()
    const id = ++this.#last
    this.#handlers.set(id, handler)
    return id
  }

  /** @param {number} id */
  remove(id) {
    return this.#handlers.delete(id)
  }

  /**
   * Calls a handler with an event of its own. What it throws is the caller's.
   *
   * @param {number} id
   * @param {object} event
   * @param {AbortSignal} signal
   */
  async call(id, event, signal) {
    const handler = this.#handlers.get(id)
    if (!handler) return
    const stay = { pending: true }
    const leave = () => {
      stay.pending = false
    }
    // Nobody waits for a handler whose time is over, so nothing can deadlock any more.
    signal.addEventListener('abort', leave, { once: true })
    try {
      await this.#inside?.run(stay, async () => handler(/** @type {never} */ (freeze(event)), { signal }))
    } finally {
      leave()
    }
  }

  /**
   * Throws inside a handler that the agent waits for.
   *
   * @param {string} member
   */
  refuseInside(member) {
    if (!this.#inside?.getStore()?.pending) return
    throw new McpError(
      `the agent is busy: "${member}" cannot be called inside a hook handler of the same agent; call it when the handler is over`,
      { code: 'MCP_IN_HOOK' },
    )
  }
}

/**
 * Checks the arguments of `agent.hook`.
 *
 * @param {unknown} name
 * @param {unknown} handler
 * @param {HookOptions} options
 * @returns {number} the handler's time limit
 */
function readHook(name, handler, options) {
  if (typeof name !== 'string') throw new ConfigError(`a hook's name must be a string, not ${kindOf(name)}`)
  if (NOT_YET.includes(name)) throw new ConfigError(`the hook "${name}" is not supported yet`)
  if (!NAMES.includes(name)) {
    const meant = closest(name, NAMES)
    const hint = meant === undefined ? `; there are ${NAMES.join(', ')}` : `; did you mean "${meant}"?`
    throw new ConfigError(`unknown hook "${name}"${hint}`)
  }
  if (typeof handler !== 'function') {
    throw new ConfigError(`the handler of the hook "${name}" must be a function, not ${kindOf(handler)}`)
  }
  if (!isRecord(options)) throw new ConfigError(`hook options must be an object, not ${kindOf(options)}`)
  requireKnownKeys(options, ['timeoutMs'], 'hook option')
  const timeoutMs = options.timeoutMs === undefined ? TIMEOUT_MS : options.timeoutMs
  if (!Number.isInteger(timeoutMs) || Number(timeoutMs) < 1 || Number(timeoutMs) > LONGEST_TIMEOUT_MS) {
    throw new ConfigError(`"timeoutMs" must be an integer from 1 to ${LONGEST_TIMEOUT_MS}`)
  }
  return Number(timeoutMs)
}

/**
 * @template {object} T
 * @param {T} value
 * @returns {T}
 */
function freeze(value) {
  /** @type {object[]} */
  const open = [value]
  // Not by recursion: what a model writes may be nested deeper than the stack.
  for (let next = open.pop(); next; next = open.pop()) {
    for (const member of Object.values(next)) {
      if (typeof member === 'object' && member !== null) open.push(member)
    }
    Object.freeze(next)
  }
  return value
}

module.exports = { Hooks, readHook }
