// One run as an AsyncGenerator: events pulled in batches, the result as its return value.

/** @import { AgentEvent, LiteAgentResult } from '../index.js' */
/** @import { NativeAgent } from './border.d.ts' */
/** @typedef {InstanceType<typeof import('./host.js').Host>} Host */

const { AbortError, internal, unwrap } = require('./errors.js')

/** A started run: its native id and what must be let go when it ends. */
class RunHandle {
  #native
  #host
  #run
  #signal
  #off
  #over = false
  /** @type {Promise<void> | undefined} */
  #dropping

  /**
   * @param {NativeAgent} native
   * @param {Host} host
   * @param {number} run
   * @param {{ signal?: AbortSignal, off: () => void }} abort the run's signal, and how to let go of it
   */
  constructor(native, host, run, { signal, off }) {
    this.#native = native
    this.#host = host
    this.#run = run
    this.#signal = signal
    this.#off = off
  }

  /** @returns {Promise<string | null>} */
  async nextBatch() {
    try {
      return await this.#native.nextBatch(this.#run)
    } catch (error) {
      // The run is of no more use; the first failure is the one to tell.
      await this.drop().catch(() => {})
      throw internal(error)
    }
  }

  /** @param {string} line @returns {AgentEvent} */
  readEvent(line) {
    const event = JSON.parse(line)
    this.#host.fillResult(event)
    return event
  }

  /** The result of a run that is over, or its error thrown. @returns {Promise<LiteAgentResult>} */
  async outcome() {
    this.#end()
    try {
      const outcome = await this.#native.runOutcome(this.#run)
      const result = this.#host.withMessages(unwrap(outcome, this.#host.kept))
      return /** @type {LiteAgentResult} */ (/** @type {unknown} */ (result))
    } catch (error) {
      const known = internal(error)
      if (known instanceof AbortError) nameCause(known, this.#signal)
      throw known
    }
  }

  /** Cancels the run and waits for its end. @returns {Promise<void>} */
  drop() {
    if (this.#over) return this.#dropping ?? Promise.resolve()
    this.#end()
    this.#dropping = this.#native.dropRun(this.#run).catch((error) => {
      throw internal(error)
    })
    return this.#dropping
  }

  /** Waits for the result without reading the events. @returns {Promise<LiteAgentResult>} */
  async drain() {
    while ((await this.nextBatch()) !== null);
    return this.outcome()
  }

  #end() {
    this.#over = true
    this.#off()
    this.#host.validated.forgetRun(this.#run)
  }
}

/**
 * The signal's reason becomes the cause of the abort; a signal that cannot be read has none.
 *
 * @param {Error} error
 * @param {AbortSignal | undefined} signal
 */
function nameCause(error, signal) {
  try {
    if (!signal?.aborted) return
    Object.defineProperty(error, 'cause', { value: signal.reason, writable: true, configurable: true })
  } catch {}
}

/** A run that nobody holds any more comes to its own end, and its events are let go. */
const abandoned = new FinalizationRegistry((/** @type {RunHandle} */ handle) => {
  handle.drain().catch(() => {})
})

/** @implements {AsyncGenerator<AgentEvent, LiteAgentResult, void>} */
class Run {
  /** @type {RunHandle | undefined} */
  #handle
  /** @type {{ error: unknown } | undefined} */
  #refused
  /** @type {string[]} */
  #lines = []
  #at = 0
  #ended = false
  /** @type {Promise<unknown>} */
  #tail = Promise.resolve()

  /** @param {() => RunHandle} start */
  constructor(start) {
    try {
      this.#handle = start()
      abandoned.register(this, this.#handle, this)
    } catch (error) {
      this.#refused = { error: internal(error) }
    }
  }

  /** @returns {Promise<IteratorResult<AgentEvent, LiteAgentResult>>} */
  next() {
    const pull = () => this.#pull()
    const step = this.#tail.then(pull, pull)
    this.#tail = step
    return step
  }

  /** @returns {Promise<IteratorResult<AgentEvent, LiteAgentResult>>} */
  async #pull() {
    if (this.#ended) return finished()
    if (!this.#handle) {
      this.#ended = true
      throw this.#refused?.error
    }
    while (this.#at === this.#lines.length) {
      const batch = await this.#readBatch(this.#handle)
      if (this.#ended) return finished()
      if (batch === null) {
        this.#finish()
        return { value: await this.#handle.outcome(), done: true }
      }
      this.#lines = batch === '' ? [] : batch.split('\n')
      this.#at = 0
    }
    return { value: this.#handle.readEvent(this.#lines[this.#at++]), done: false }
  }

  /** @param {RunHandle} handle */
  async #readBatch(handle) {
    try {
      return await handle.nextBatch()
    } catch (error) {
      if (this.#ended) return null
      this.#finish()
      throw error
    }
  }

  /**
   * Cancels the run, waits for its cleanup, and ends the iteration. A pending `next()` ends too.
   *
   * @param {LiteAgentResult | PromiseLike<LiteAgentResult>} [value]
   * @returns {Promise<IteratorResult<AgentEvent, LiteAgentResult>>}
   */
  async return(value) {
    this.#finish()
    await this.#handle?.drop()
    return { value: /** @type {LiteAgentResult} */ (await value), done: true }
  }

  /**
   * @param {unknown} error
   * @returns {Promise<IteratorResult<AgentEvent, LiteAgentResult>>}
   */
  async throw(error) {
    await this.return()
    throw error
  }

  #finish() {
    this.#ended = true
    this.#lines = []
    this.#at = 0
    abandoned.unregister(this)
  }

  /** @returns {this} */
  [Symbol.asyncIterator]() {
    return this
  }

  async [Symbol.asyncDispose]() {
    await this.return()
  }
}

/** @returns {IteratorReturnResult<LiteAgentResult>} */
const finished = () => ({ value: /** @type {LiteAgentResult} */ (/** @type {unknown} */ (undefined)), done: true })

module.exports = { Run, RunHandle }
