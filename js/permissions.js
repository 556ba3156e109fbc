// Permission policies: made here, judged natively.
//
// A policy made by `policy()` travels to the native core as data; its `check()` gives the same
// answer to a host that asks by itself. Any other object with `check()` is the host's own.

/** @import { PermissionPolicy, PolicyOptions, PolicyVerdict, ToolCall, Decision } from '../index.js' */
/** @import { PolicySpec, RuleSpec } from './border.d.ts' */

const { compileCondition } = require('./conditions.js')
const { ConfigError } = require('./errors.js')
const { compileGlob } = require('./globs.js')
const { isRecord, isThenable, kindOf, reading, requireKnownKeys, requirePlain } = require('./json.js')

/** @typedef {(input: unknown, call: ToolCall) => boolean} Where */
/** @typedef {{ spec: Omit<Extract<PolicySpec, { kind: 'native' }>, 'kind' | 'id'>, where: (Where | undefined)[] }} NativeParts */
/** @typedef {{ native: NativeParts } | { of: PermissionPolicy[] }} Brand */
/** @typedef {{ check?: PermissionPolicy, where: (Where | undefined)[] }} RegisteredPolicy */
/** @typedef {{ effect: Decision, id?: string, description?: string, matches: (call: ToolCall) => boolean }} Judge */

/** What `policy()` and `composePolicies()` made; a copy of such an object is a custom policy. */
/** @type {WeakMap<object, Brand>} */
const brands = new WeakMap()

/** @type {readonly Decision[]} */
const SEVEREST_FIRST = ['deny', 'ask', 'allow']
const LISTS = /** @type {const} */ (['allow', 'ask', 'deny'])
const RULE_KEYS = ['id', 'description', 'tool', 'when', 'where', 'effect']

/**
 * A policy of name globs and rules: deny over ask over allow over `default`.
 *
 * @param {PolicyOptions} [options]
 * @returns {PermissionPolicy}
 */
function policy(options = {}) {
  return reading('policy options', () => readPolicy({ ...requirePlain(options, 'policy options') }))
}

/**
 * @param {Record<string, unknown>} options
 * @returns {PermissionPolicy}
 */
function readPolicy(options) {
  requireKnownKeys(options, [...LISTS, 'rules', 'default'], 'policy option')
  const fallback = options.default === undefined ? 'allow' : requireDecision(options.default, 'default')
  /** @type {NativeParts} */
  const parts = { spec: { default: fallback }, where: [] }
  /** @type {Judge[]} */
  const judges = []
  if (options.rules !== undefined) {
    if (!Array.isArray(options.rules)) {
      throw new ConfigError(`rules must be an array, not ${kindOf(options.rules)}`)
    }
    const rules = Array.from(options.rules, (rule, at) => readRule(rule, `rules[${at}]`))
    parts.spec.rules = rules.map((rule) => rule.spec)
    parts.where = rules.map((rule) => rule.where)
    judges.push(...rules.map((rule) => rule.judge))
  }
  for (const effect of LISTS) {
    const globs = options[effect]
    if (globs === undefined) continue
    parts.spec[effect] = stringList(globs, effect)
    for (const glob of parts.spec[effect]) {
      const named = compileGlob(glob, effect)
      judges.push({ effect, matches: (call) => named(call.name) })
    }
  }
  const made = Object.freeze({
    /** @param {ToolCall} call */
    check: (call) => judge(judges, fallback, call),
  })
  brands.set(made, { native: parts })
  return made
}

/**
 * @param {Judge[]} judges
 * @param {Decision} fallback
 * @param {ToolCall} call
 * @returns {PolicyVerdict}
 */
function judge(judges, fallback, call) {
  for (const effect of SEVEREST_FIRST) {
    for (const one of judges) {
      if (one.effect !== effect) continue
      try {
        if (one.matches(call)) return told(effect, one)
      } catch {
        return told('deny', { id: one.id, description: 'policy failed' })
      }
    }
  }
  return { decision: fallback }
}

/**
 * @param {Decision} decision
 * @param {{ id?: string, description?: string }} by
 * @returns {PolicyVerdict}
 */
function told(decision, { id, description }) {
  /** @type {PolicyVerdict} */
  const verdict = { decision }
  if (id !== undefined) verdict.ruleId = id
  if (description !== undefined) verdict.reason = description
  return verdict
}

/**
 * @param {unknown} rule
 * @param {string} at
 * @returns {{ spec: RuleSpec, where: Where | undefined, judge: Judge }}
 */
function readRule(rule, at) {
  const given = requirePlain(rule, at)
  requireKnownKeys(given, RULE_KEYS, `member of ${at}:`)
  const { id, description, tool, when, where, effect } = given
  for (const [key, value] of Object.entries({ id, description, tool })) {
    if (value !== undefined && typeof value !== 'string') {
      throw new ConfigError(`${at}.${key} must be a string, not ${kindOf(value)}`)
    }
  }
  if (where !== undefined && typeof where !== 'function') {
    throw new ConfigError(`${at}.where must be a function, not ${kindOf(where)}`)
  }
  const conditions = readConditions(when, `${at}.when`)
  const named = tool === undefined ? () => true : compileGlob(String(tool), `${at}.tool`)
  const asked = where === undefined ? undefined : synchronous(/** @type {Where} */ (where), at)
  /** @type {RuleSpec} */
  const spec = { hasWhere: asked !== undefined, effect: requireDecision(effect, `${at}.effect`) }
  /** @type {Judge} */
  const one = {
    effect: spec.effect,
    matches: (call) =>
      named(call.name) &&
      conditions.every((condition) => condition.matches(call.input)) &&
      (asked === undefined || asked(call.input, call)),
  }
  if (id !== undefined) spec.id = one.id = String(id)
  if (description !== undefined) spec.description = one.description = String(description)
  if (tool !== undefined) spec.tool = String(tool)
  if (conditions.length > 0) {
    spec.when = Object.fromEntries(conditions.map(({ path, spec: of }) => [path, of]))
  }
  return { spec, where: asked, judge: one }
}

/**
 * @param {unknown} when
 * @param {string} at
 */
function readConditions(when, at) {
  if (when === undefined) return []
  return Object.entries(requirePlain(when, at)).map(([path, condition]) => ({
    path,
    ...compileCondition(path, condition, `${at}["${path}"]`),
  }))
}

/**
 * A promise is truthy whatever it resolves to, so a rule that returns one would match everything.
 *
 * @param {Where} where
 * @param {string} at
 * @returns {Where}
 */
function synchronous(where, at) {
  return (input, call) => {
    const answer = /** @type {unknown} */ (where(input, call))
    if (!isThenable(answer)) return Boolean(answer)
    answer.then(undefined, () => {})
    throw new ConfigError(`${at}.where must return a boolean, not a promise`)
  }
}

/**
 * A policy that denies whatever it does not name.
 *
 * @param {Omit<PolicyOptions, 'default'>} options
 * @returns {PermissionPolicy}
 */
function strictPolicy(options) {
  return reading('strictPolicy options', () => {
    const given = { ...requirePlain(options, 'strictPolicy options') }
    requireKnownKeys(given, [...LISTS, 'rules'], 'strictPolicy option')
    return readPolicy({ ...given, default: 'deny' })
  })
}

/**
 * All policies at once: deny if any denies, else ask if any asks, else allow.
 *
 * @param {...PermissionPolicy} policies
 * @returns {PermissionPolicy}
 */
function composePolicies(...policies) {
  for (const [at, one] of policies.entries()) requirePolicy(one, `composePolicies argument ${at + 1}`)
  if (policies.length === 0) throw new ConfigError('composePolicies needs at least one policy')
  const made = Object.freeze({
    /**
     * @param {ToolCall} call
     * @param {{ sessionId: string }} ctx
     */
    async check(call, ctx) {
      const verdicts = await Promise.all(policies.map((one) => safeCheck(one, call, ctx)))
      for (const effect of SEVEREST_FIRST) {
        const found = verdicts.find((verdict) => verdict.decision === effect)
        if (found) return found
      }
      return verdicts[0]
    },
  })
  brands.set(made, { of: [...policies] })
  return made
}

/**
 * A policy that throws, or answers with anything but a decision, denies.
 *
 * @param {PermissionPolicy} one
 * @param {ToolCall} call
 * @param {{ sessionId: string }} ctx
 * @returns {Promise<PolicyVerdict>}
 */
async function safeCheck(one, call, ctx) {
  try {
    return readVerdict(await one.check(call, ctx)) ?? { decision: 'deny', reason: 'a policy answered with no decision' }
  } catch {
    return { decision: 'deny', reason: 'a policy failed' }
  }
}

/**
 * What a policy answered, read once: a decision, or an object with one. Nothing else counts, whatever it becomes as JSON.
 *
 * @param {unknown} answer
 * @returns {PolicyVerdict | undefined}
 */
function readVerdict(answer) {
  if (typeof answer === 'string') return isDecision(answer) ? { decision: answer } : undefined
  if (!isRecord(answer)) return undefined
  const { decision, ruleId, reason } = answer
  if (!isDecision(decision)) return undefined
  /** @type {PolicyVerdict} */
  const verdict = { decision }
  if (typeof ruleId === 'string') verdict.ruleId = ruleId
  if (typeof reason === 'string') verdict.reason = reason
  return verdict
}

/**
 * @param {unknown} value
 * @returns {value is Decision}
 */
const isDecision = (value) => SEVEREST_FIRST.includes(/** @type {Decision} */ (value))

/**
 * The policy as the native core reads it; whatever needs JavaScript is added to `registered`.
 *
 * @param {PermissionPolicy} from
 * @param {RegisteredPolicy[]} registered
 * @returns {PolicySpec}
 */
function toSpec(from, registered) {
  const brand = brands.get(from)
  if (brand && 'of' in brand) return { kind: 'compose', of: brand.of.map((one) => toSpec(one, registered)) }
  const id = registered.length
  if (brand) {
    registered.push({ where: brand.native.where })
    return { kind: 'native', id, ...brand.native.spec }
  }
  registered.push({ check: from, where: [] })
  return { kind: 'host', id }
}

/**
 * @param {unknown} value
 * @param {string} at
 * @returns {PermissionPolicy}
 */
function requirePolicy(value, at) {
  if (!isRecord(value) || typeof value.check !== 'function') {
    throw new ConfigError(`${at} must be a policy with a check function`)
  }
  return /** @type {PermissionPolicy} */ (/** @type {unknown} */ (value))
}

/**
 * @param {unknown} value
 * @param {string} at
 * @returns {Decision}
 */
function requireDecision(value, at) {
  if (!isDecision(value)) throw new ConfigError(`${at} must be "allow", "ask" or "deny"`)
  return value
}

/**
 * @param {unknown} value
 * @param {string} at
 * @returns {string[]}
 */
function stringList(value, at) {
  const list = Array.isArray(value) ? Array.from(value) : undefined
  if (!list?.every((item) => typeof item === 'string')) {
    throw new ConfigError(`${at} must be an array of strings`)
  }
  return list
}

module.exports = { policy, strictPolicy, composePolicies, readVerdict, requirePolicy, stringList, toSpec }
