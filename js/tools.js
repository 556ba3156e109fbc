// Host tools: how one is made, described, validated and executed.

/** @import { StandardSchema, Tool, ToolContext, ToolHandler, ToolResult } from '../index.js' */

const { ConfigError, ToolError, messageOf } = require('./errors.js')
const { copyJson, encodeJson, isRecord, kindOf, reading, requirePlain } = require('./json.js')

const DIALECT = 'draft-2020-12'

/**
 * A tool of a name, a description, a schema and a handler.
 *
 * @param {string} name
 * @param {string} description
 * @param {StandardSchema} schema
 * @param {ToolHandler} handler
 * @param {{ security?: Record<string, unknown> }} [options]
 * @returns {Tool}
 */
function tool(name, description, schema, handler, options = {}) {
  if (typeof handler !== 'function') {
    throw new ConfigError(`the handler of tool "${name}" must be a function, not ${kindOf(handler)}`)
  }
  /** @type {Tool} */
  const made = { name, description, schema, execute: handler }
  const security = reading('tool options', () => requirePlain(options, 'tool options').security)
  if (security !== undefined) made.security = /** @type {Record<string, unknown>} */ (security)
  return made
}

/**
 * A tool's declaration for the native core.
 *
 * @param {unknown} value
 * @param {number} index
 */
function declare(value, index) {
  const at = `tools[${index}]`
  return reading(at, () => readDeclaration(value, at))
}

/**
 * @param {unknown} value
 * @param {string} at
 */
function readDeclaration(value, at) {
  if (!isRecord(value)) throw new ConfigError(`${at} must be a tool, not ${kindOf(value)}`)
  const { name, description, schema, security, execute } = value
  if (typeof name !== 'string') throw new ConfigError(`${at}.name must be a string, not ${kindOf(name)}`)
  if (typeof description !== 'string') {
    throw new ConfigError(`the description of tool "${name}" must be a string, not ${kindOf(description)}`)
  }
  if (typeof execute !== 'function') {
    throw new ConfigError(`tool "${name}" has no execute function`)
  }
  const checked = security === undefined ? undefined : copyJson(security, `the security of tool "${name}"`)
  return { name, description, schema: jsonSchema(schema, name), security: checked }
}

/**
 * @param {unknown} schema
 * @param {string} name
 * @returns {unknown}
 */
function jsonSchema(schema, name) {
  const standard = /** @type {StandardSchema | undefined} */ (schema)?.['~standard']
  if (typeof standard?.validate !== 'function') {
    throw new ConfigError(`the schema of tool "${name}" is not a Standard Schema`)
  }
  if (typeof standard.jsonSchema?.input !== 'function') {
    throw new ConfigError(`the schema of tool "${name}" cannot export its input as JSON Schema`)
  }
  /** @type {unknown} */
  let exported
  try {
    exported = standard.jsonSchema.input({ target: DIALECT })
  } catch (error) {
    throw new ConfigError(
      `the schema of tool "${name}" cannot be exported as JSON Schema ${DIALECT}: ${messageOf(error)}`,
      { cause: error },
    )
  }
  if (!isRecord(exported)) {
    throw new ConfigError(`the schema of tool "${name}" exported ${kindOf(exported)} as JSON Schema`)
  }
  return copyJson(exported, `the JSON Schema of tool "${name}"`, { absent: 'left out' })
}

/** Values that a schema validated, kept from validation until execution, by run and call. */
class ValidatedValues {
  /** @type {Map<number, Map<string, unknown>>} */
  #runs = new Map()

  /**
   * @param {number} run
   * @param {string} callId
   * @param {unknown} value
   */
  keep(run, callId, value) {
    const calls = this.#runs.get(run) ?? new Map()
    this.#runs.set(run, calls.set(callId, value))
  }

  /**
   * @param {number} run
   * @param {string} callId
   * @returns {{ value: unknown } | undefined}
   */
  take(run, callId) {
    const calls = this.#runs.get(run)
    if (!calls?.has(callId)) return undefined
    const value = calls.get(callId)
    calls.delete(callId)
    if (calls.size === 0) this.#runs.delete(run)
    return { value }
  }

  /** @param {number} run */
  forgetRun(run) {
    this.#runs.delete(run)
  }
}

/**
 * @param {Tool} of
 * @param {unknown} input
 * @returns {Promise<{ value: unknown } | { issues: { path: string, message: string }[] }>}
 */
async function validate(of, input) {
  const result = await of.schema['~standard'].validate(input)
  if (!isRecord(result)) throw new ToolError(`the schema of tool "${of.name}" returned ${kindOf(result)}`)
  if (result.issues) {
    return { issues: result.issues.map((issue) => ({ path: pathOf(issue.path), message: String(issue.message) })) }
  }
  return { value: 'value' in result ? result.value : undefined }
}

/**
 * @param {ReadonlyArray<PropertyKey | { readonly key: PropertyKey }> | undefined} path
 */
function pathOf(path) {
  return (path ?? []).map((step) => String(typeof step === 'object' ? step.key : step)).join('.')
}

/**
 * The JSON of a validated value, which permission and events see; JSON has no big integers.
 *
 * @param {unknown} value
 */
function toJson(value) {
  return encodeJson({ ok: { value: value ?? null } }, (_key, member) =>
    typeof member === 'bigint' ? member.toString() : member,
  )
}

/**
 * Runs the tool and requires one of the two shapes of a result.
 *
 * @param {Tool} of
 * @param {unknown} input
 * @param {ToolContext} ctx
 * @returns {Promise<ToolResult>}
 */
async function execute(of, input, ctx) {
  const result = /** @type {unknown} */ (await of.execute(/** @type {never} */ (input), ctx))
  if (typeof result === 'string') return { content: result }
  if (isRecord(result) && typeof result.content === 'string') {
    if (result.isError === undefined) return { content: result.content }
    if (typeof result.isError === 'boolean') return { content: result.content, isError: result.isError }
  }
  throw new ToolError(`tool "${of.name}" returned neither a string nor { content: string, isError?: boolean }`)
}

module.exports = { tool, declare, validate, execute, toJson, ValidatedValues }
