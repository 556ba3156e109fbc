// The fields of the configuration and of a run, checked; what they mean is the native core's.

/** @import { ApprovalHandler, LiteAgentConfig, Message, RunOptions, Sandbox } from '../index.js' */
/** @import { RegisteredPolicy } from './permissions.js' */

const { ConfigError } = require('./errors.js')
const {
  copyJson,
  encodeJson,
  isRecord,
  kindOf,
  reading,
  requireKnownKeys,
  requirePlain,
  requireWellFormed,
} = require('./json.js')
const { readMessages } = require('./messages.js')
const { readOAuth } = require('./oauth.js')
const { requirePolicy, stringList, toSpec } = require('./permissions.js')
const { declare } = require('./tools.js')

const SUPPORTED = [
  'workdir',
  'home',
  'model',
  'modelName',
  'mcpServers',
  'mcpOAuth',
  'strictMcpConfig',
  'mcpTransports',
  'permission',
  'permissionMode',
  'onApproval',
  'tools',
  'allowedTools',
  'disallowedTools',
  'sandbox',
  'requireSandbox',
  'sessions',
  'system',
  'maxTurns',
  'maxParallelTools',
  'agents',
]

const NOT_YET = [
  'mcpProtocols',
  'permissionAudit',
  'redact',
  'onAskUser',
  'storage',
  'maxTokens',
  'temperature',
  'topP',
  'toolChoice',
  'seed',
  'reasoningEffort',
  'maxParallelSubagents',
  'subagentPermission',
  'hookFiles',
  'tasks',
  'background',
  'cleanup',
  'context',
  'outputSchema',
  'skillsDir',
  'agentsDir',
  'checkpointer',
  'store',
  'use',
  'codec',
  'compactor',
  'fileTools',
  'bash',
  'backgroundLimits',
  'crashRecovery',
]

/** Fields that have one supported value so far. */
const FIXED = { agents: false }

const TRANSPORTS = ['stdio', 'http']

const PERMISSION_MODES = ['enforce', 'dry-run']

/** The native core counts in 32 bits. */
const MOST = 2 ** 32 - 1

/**
 * Checks a configuration and splits it: what travels to the native core, and what stays here.
 *
 * @param {LiteAgentConfig} config
 */
function readConfig(config) {
  // One read of each field: what was checked is what is used.
  return reading('the configuration', () => read({ ...requirePlain(config, 'the configuration') }))
}

/** @param {Record<string, unknown>} given */
function read(given) {
  requireKnownKeys(given, [...SUPPORTED, ...NOT_YET], 'configuration field')
  for (const key of NOT_YET) {
    if (given[key] !== undefined) throw new ConfigError(`"${key}" is not supported yet`)
  }
  for (const [key, only] of Object.entries(FIXED)) {
    const value = given[key]
    if (value === undefined || value === only) continue
    if (typeof value !== 'boolean') throw new ConfigError(`"${key}" must be a boolean, not ${kindOf(value)}`)
    throw new ConfigError(`"${key}: ${value}" is not supported yet; leave it out or set it to ${only}`)
  }
  const model = requireModel(given.model)
  const tools = given.tools === undefined ? [] : given.tools
  if (!Array.isArray(tools)) throw new ConfigError(`"tools" must be an array, not ${kindOf(tools)}`)
  const approval = readApproval(given.onApproval)
  const sandbox = readSandbox(given.sandbox)
  if (flag(given.requireSandbox, 'requireSandbox') && !sandbox) {
    throw new ConfigError('"requireSandbox" is true and there is no "sandbox"')
  }
  const oauth = readOAuth(given.mcpOAuth)
  /** @type {RegisteredPolicy[]} */
  const policies = []
  const permission = given.permission === undefined ? undefined : requirePolicy(given.permission, '"permission"')
  const native = {
    workdir: text(given.workdir, 'workdir') ?? missing('workdir'),
    home: text(given.home, 'home'),
    modelId: model.id,
    modelName: text(given.modelName, 'modelName'),
    mcpServers: servers(given.mcpServers),
    mcpOAuth: oauth.native,
    strictMcpConfig: flag(given.strictMcpConfig, 'strictMcpConfig'),
    mcpTransports: transports(given.mcpTransports),
    tools: Array.from(tools, declare),
    permission: permission && toSpec(permission, policies),
    permissionMode: mode(given.permissionMode),
    hasApproval: approval !== undefined,
    hasSandbox: sandbox !== undefined,
    system: given.system === '' ? '' : text(given.system, 'system'),
    maxTurns: count(given.maxTurns, 'maxTurns'),
    maxParallelTools: count(given.maxParallelTools, 'maxParallelTools'),
    allowedTools: names(given.allowedTools, 'allowedTools'),
    disallowedTools: names(given.disallowedTools, 'disallowedTools'),
    sessions: flag(given.sessions, 'sessions'),
  }
  return {
    native: encodeJson(native),
    parts: { model, tools: [...tools], approval, sandbox, policies, oauth: oauth.parts },
  }
}

/** @param {unknown} model */
function requireModel(model) {
  if (model === undefined) missing('model')
  if (!isRecord(model) && typeof model !== 'function') {
    throw new ConfigError(`"model" must be a model provider, not ${kindOf(model)}`)
  }
  const provider = /** @type {LiteAgentConfig['model']} */ (/** @type {unknown} */ (model))
  if (typeof provider.id !== 'string' || provider.id === '') throw new ConfigError('"model.id" must be a string')
  if (typeof provider.stream !== 'function') throw new ConfigError('"model.stream" must be a function')
  return provider
}

/**
 * @param {unknown} approval
 * @returns {ApprovalHandler | undefined}
 */
function readApproval(approval) {
  if (approval === undefined) return undefined
  const handler = /** @type {ApprovalHandler | null} */ (approval)
  if (typeof handler?.request !== 'function') {
    throw new ConfigError('"onApproval" must be an object with a request function')
  }
  return handler
}

/**
 * @param {unknown} value
 * @returns {Sandbox | undefined}
 */
function readSandbox(value) {
  if (value === undefined) return undefined
  const sandbox = /** @type {Partial<Sandbox> | null} */ (value)
  if (typeof sandbox?.id !== 'string' || sandbox.id === '') throw new ConfigError('"sandbox.id" must be a string')
  if (typeof sandbox.wrap !== 'function') throw new ConfigError('"sandbox.wrap" must be a function')
  for (const key of /** @type {const} */ (['initialize', 'dispose'])) {
    if (sandbox[key] !== undefined && typeof sandbox[key] !== 'function') {
      throw new ConfigError(`"sandbox.${key}" must be a function`)
    }
  }
  return /** @type {Sandbox} */ (sandbox)
}

/**
 * @param {string} key
 * @returns {never}
 */
function missing(key) {
  throw new ConfigError(`"${key}" is required`)
}

/**
 * @param {unknown} value
 * @param {string} key
 * @returns {string | undefined}
 */
function text(value, key) {
  if (value === undefined) return undefined
  if (typeof value !== 'string') throw new ConfigError(`"${key}" must be a string, not ${kindOf(value)}`)
  if (value === '') throw new ConfigError(`"${key}" must not be empty`)
  return value
}

/**
 * @param {unknown} value
 * @param {string} key
 */
function count(value, key) {
  if (value === undefined) return undefined
  if (!Number.isSafeInteger(value) || Number(value) < 1) {
    throw new ConfigError(`"${key}" must be a positive integer`)
  }
  if (Number(value) > MOST) throw new ConfigError(`"${key}" must be at most ${MOST}`)
  return value
}

/**
 * @param {unknown} value
 * @param {string} key
 */
function names(value, key) {
  return value === undefined ? undefined : stringList(value, `"${key}"`)
}

/**
 * @param {unknown} value
 * @param {string} key
 */
function flag(value, key) {
  if (value !== undefined && typeof value !== 'boolean') {
    throw new ConfigError(`"${key}" must be a boolean, not ${kindOf(value)}`)
  }
  return value
}

/** @param {unknown} value */
function mode(value) {
  if (value !== undefined && !PERMISSION_MODES.includes(/** @type {string} */ (value))) {
    throw new ConfigError('"permissionMode" must be "enforce" or "dry-run"')
  }
  return value
}

/** @param {unknown} value */
function transports(value) {
  const kinds = names(value, 'mcpTransports')
  if (kinds?.some((kind) => !TRANSPORTS.includes(kind))) {
    throw new ConfigError('"mcpTransports" may hold "stdio" and "http" only')
  }
  return kinds
}

/** @param {unknown} value */
function servers(value) {
  if (value === undefined) return undefined
  const given = Object.entries(requirePlain(value, '"mcpServers"'))
  return Object.fromEntries(given.map(([name, config]) => [name, readServer(config, `mcpServers.${name}`)]))
}

/**
 * A declaration that crosses the border unchanged; a member that is `undefined` is absent.
 *
 * @param {unknown} config
 * @param {string} at
 */
function readServer(config, at) {
  return reading(at, () => {
    const members = Object.entries(requirePlain(config, at)).filter(([, value]) => value !== undefined)
    return Object.fromEntries(members.map(([key, value]) => [key, copyJson(value, `${at}.${key}`)]))
  })
}

/**
 * The messages and options of one run.
 *
 * @param {string | Message[]} input
 * @param {RunOptions} options
 * @param {boolean} quiet
 * @returns {{ native: string, signal: AbortSignal | undefined }}
 */
function readRun(input, options, quiet) {
  return reading('the input or an option of the run', () => {
    const given = { ...requirePlain(options, 'run options') }
    requireKnownKeys(given, ['sessionId', 'signal', 'steer'], 'run option')
    if (given.steer !== undefined) throw new ConfigError('"steer" is not supported yet')
    const signal = readSignal(given.signal)
    const sessionId = readSessionId(given.sessionId)
    const messages = typeof input === 'string' ? input : readMessages(input)
    return { native: encodeJson({ sessionId, input: messages, quiet }), signal }
  })
}

/** @param {unknown} id */
function readSessionId(id) {
  const read = text(id, 'sessionId')
  if (read !== undefined) requireWellFormed(read, '"sessionId"')
  return read
}

/** @param {unknown} signal */
function readSignal(signal) {
  if (signal === undefined) return undefined
  if (!isRecord(signal) || typeof signal.aborted !== 'boolean' || typeof signal.addEventListener !== 'function') {
    throw new ConfigError(`"signal" must be an AbortSignal, not ${kindOf(signal)}`)
  }
  return /** @type {AbortSignal} */ (/** @type {unknown} */ (signal))
}

module.exports = { readConfig, readRun, readServer, readSessionId }
