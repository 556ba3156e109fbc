// The error classes and their way over the native border.
//
// Errors cross as data, `{ name, code, message, status?, details?, causeId? }`. A thrown host error
// stays here under an id and comes back as the `cause` of the error that it led to.

/** @import { ErrorData } from './border.d.ts' */

/**
 * @typedef {object} AgentErrorOptions
 * @property {string} [code]
 * @property {unknown} [cause]
 * @property {number} [status]
 * @property {unknown} [details]
 */

/** The root of every error of this package; `code` is stable, `message` is for people. */
class AgentError extends Error {
  static className = 'AgentError'
  static defaultCode = 'INTERNAL'

  /**
   * @param {string} [message]
   * @param {AgentErrorOptions} [options]
   */
  constructor(message, options = {}) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    const shape = new.target
    // A subclass of the host's own keeps its own name.
    const name = Object.hasOwn(shape, 'className') ? shape.className : shape.name
    Object.defineProperty(this, 'name', { value: name, writable: true, configurable: true })
    /** @type {string} */
    this.code = options.code ?? shape.defaultCode
    if (options.status !== undefined) {
      /** @type {number | undefined} */
      this.status = options.status
    }
    if (options.details !== undefined) {
      /** @type {unknown} */
      this.details = options.details
    }
  }
}

class ProviderError extends AgentError {
  static className = 'ProviderError'
  static defaultCode = 'PROVIDER'
}

class ToolError extends AgentError {
  static className = 'ToolError'
  static defaultCode = 'TOOL'
}

class CodecError extends AgentError {
  static className = 'CodecError'
  static defaultCode = 'CODEC'
}

class MaxTurnsError extends AgentError {
  static className = 'MaxTurnsError'
  static defaultCode = 'MAX_TURNS'
}

class AbortError extends AgentError {
  static className = 'AbortError'
  static defaultCode = 'ABORTED'
}

class StorageError extends AgentError {
  static className = 'StorageError'
  static defaultCode = 'STORAGE'
}

class McpError extends AgentError {
  static className = 'McpError'
  static defaultCode = 'MCP_PROTOCOL'
}

class ConfigError extends AgentError {
  static className = 'ConfigError'
  static defaultCode = 'CONFIG_INVALID'
}

const classes = {
  AgentError,
  ProviderError,
  ToolError,
  CodecError,
  MaxTurnsError,
  AbortError,
  StorageError,
  McpError,
  ConfigError,
}

/** @typedef {keyof typeof classes} ErrorName */

const KEPT_ERRORS = 256

/** The host's own errors of late, by id; the oldest gives way. */
class KeptErrors {
  /** @type {Map<number, unknown>} */
  #errors = new Map()
  #last = 0

  /**
   * @param {unknown} error
   * @returns {number}
   */
  keep(error) {
    const id = ++this.#last
    this.#errors.set(id, error)
    if (this.#errors.size > KEPT_ERRORS) this.#errors.delete(id - KEPT_ERRORS)
    return id
  }

  /** @param {number} id */
  has(id) {
    return this.#errors.has(id)
  }

  /** @param {number} id */
  find(id) {
    return this.#errors.get(id)
  }
}

/**
 * What a host threw, as data. An error of this package keeps its class and code; anything else
 * becomes a `fallback`. Never throws, whatever was thrown.
 *
 * @param {unknown} error
 * @param {ErrorName} fallback
 * @param {KeptErrors} kept
 * @returns {ErrorData}
 */
function toData(error, fallback, kept) {
  const causeId = kept.keep(error)
  /** @type {ErrorData} */
  const data = { name: fallback, code: classes[fallback].defaultCode, message: '', causeId }
  try {
    if (error instanceof AgentError) {
      const known = Object.values(classes).findLast((shape) => error instanceof shape)
      data.name = known?.className ?? fallback
      if (typeof error.code === 'string') data.code = error.code
    }
    data.message = messageOf(error)
    const status = /** @type {{ status?: unknown }} */ (error)?.status
    if (Number.isInteger(status) && Number(status) > 0 && Number(status) < 1000) data.status = Number(status)
  } catch {
    data.message ||= 'an error that cannot be read'
  }
  return data
}

/** @param {unknown} error */
function messageOf(error) {
  const message = /** @type {{ message?: unknown } | null | undefined} */ (error)?.message
  if (typeof message === 'string' && message !== '') return message
  if (error instanceof Error) return error.name
  return String(message ?? error)
}

/**
 * The error that `data` describes, ready to be thrown.
 *
 * @param {ErrorData} data
 * @param {KeptErrors} [kept]
 * @returns {AgentError}
 */
function fromData(data, kept) {
  const Shape = Object.hasOwn(classes, data.name) ? classes[/** @type {ErrorName} */ (data.name)] : AgentError
  /** @type {AgentErrorOptions} */
  const options = {}
  if (data.code) options.code = data.code
  if (typeof data.status === 'number') options.status = data.status
  if (data.details != null) options.details = data.details
  if (data.causeId != null && kept?.has(data.causeId)) options.cause = kept.find(data.causeId)
  return new Shape(data.message, options)
}

/**
 * The value of a native outcome, or its error thrown.
 *
 * @param {string} json
 * @param {KeptErrors} [kept]
 */
function unwrap(json, kept) {
  const outcome = JSON.parse(json)
  if (outcome.error) throw fromData(outcome.error, kept)
  return outcome.ok
}

/**
 * A failure of the native side itself: a panic or a broken call, never an expected error.
 *
 * @param {unknown} error
 * @returns {AgentError}
 */
function internal(error) {
  if (error instanceof AgentError) return error
  return new AgentError(`the native core failed: ${messageOf(error)}`, {
    code: 'INTERNAL',
    cause: error,
  })
}

const closed = () => new AgentError('the agent is closed', { code: 'CLOSED' })

module.exports = { ...classes, KeptErrors, toData, fromData, unwrap, internal, closed, messageOf }
