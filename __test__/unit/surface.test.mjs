// Configuration, policies, redaction, errors and the loader.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import * as z from 'zod'
import sdk from '../../index.js'
import * as esm from '../../index.mjs'
import errors from '../../js/errors.js'
import loader from '../../js/native.js'
import { openAgent, silent } from './fake-native.mjs'

const redaction = JSON.parse(readFileSync(new URL('../tables/redaction.json', import.meta.url), 'utf8'))
const call = (name, input = {}) => ({ id: '1', name, input })
const ctx = { sessionId: 's' }

test('ESM and CommonJS give the same objects', () => {
  const named = { ...esm }
  expect(Object.keys(named).sort()).toEqual(Object.keys(sdk).sort())
  for (const [name, value] of Object.entries(sdk)) expect(named[name]).toBe(value)
})

test.each([
  [{ workdri: '.' }, 'did you mean "workdir"'],
  [{ Permission: 1 }, 'did you mean "permission"'],
  [{ zzz: 1 }, 'unknown configuration field "zzz"'],
  [{ hookFiles: [] }, '"hookFiles" is not supported yet'],
  [{ maxTokens: 5 }, '"maxTokens" is not supported yet'],
  [{ sessions: 'no' }, '"sessions" must be a boolean, not a string'],
  [{ strictMcpConfig: 'yes' }, '"strictMcpConfig" must be a boolean, not a string'],
  [{ mcpTransports: 'http' }, '"mcpTransports" must be an array of strings'],
  [{ mcpTransports: ['sse'] }, '"mcpTransports" may hold "stdio" and "http" only'],
  [{ agents: 'no' }, '"agents" must be a boolean'],
  [{ workdir: 1 }, '"workdir" must be a string'],
  [{ workdir: undefined }, '"workdir" is required'],
  [{ model: undefined }, '"model" is required'],
  [{ model: { id: 'x' } }, '"model.stream" must be a function'],
  [{ maxTurns: Number.NaN }, '"maxTurns" must be a positive integer'],
  [{ allowedTools: [1] }, '"allowedTools" must be an array of strings'],
  [{ permission: {} }, 'policy with a check function'],
  [{ onApproval: () => {} }, 'request function'],
  [{ tools: [{ name: 'a', description: '', execute() {}, schema: {} }] }, 'not a Standard Schema'],
  [{ tools: [sdk.tool('a', '', z.object({ when: z.date() }), () => '')] }, 'JSON Schema'],
  [{ mcpServers: { a: { command: () => {} } } }, 'mcpServers.a.command cannot be a function'],
  [{ mcpServers: { a: { args: [undefined] } } }, 'mcpServers.a.args[0] cannot be undefined'],
  [{ mcpServers: { a: { timeoutMs: Number.NaN } } }, 'mcpServers.a.timeoutMs cannot be NaN'],
  [{ mcpServers: { a: { env: new Map() } } }, 'mcpServers.a.env must be a plain object'],
  [{ mcpServers: new Map() }, '"mcpServers" must be a plain object'],
  [{ mcpServers: { a: new Map() } }, 'mcpServers.a must be a plain object'],
  [{ maxTurns: 2 ** 40 }, '"maxTurns" must be at most'],
  [{ maxParallelTools: Number.MAX_SAFE_INTEGER }, '"maxParallelTools" must be at most'],
  [{ tools: new Array(1) }, 'tools[0] must be a tool, not undefined'],
  [{ allowedTools: new Array(1) }, '"allowedTools" must be an array of strings'],
])('%o is refused', (field, message) => {
  const make = () => sdk.createLiteAgent({ workdir: '.', model: silent, ...field })
  expect(make).toThrow(message)
  expect(make).toThrow(expect.objectContaining({ name: 'ConfigError', code: 'CONFIG_INVALID' }))
})

test('the native side gets the configuration as data', () => {
  const { agent, named } = openAgent({
    maxTurns: 3,
    mcpServers: { a: { command: 'x' } },
    sessions: false,
    modelName: 'm',
  })
  expect(agent.sessionId).toBe('s1')
  expect(named('configure')[0][0]).toEqual({
    workdir: '.',
    modelId: 'silent',
    modelName: 'm',
    mcpServers: { a: { command: 'x' } },
    tools: [],
    hasApproval: false,
    hasSandbox: false,
    maxTurns: 3,
    sessions: false,
  })
})

test('sessions are the native side’s; the shim keeps which one is current, and lets go of a deleted history', async () => {
  const refusal = { name: 'ConfigError', code: 'CONFIG_INVALID', message: 'the id: no' }
  const { agent, ask, named } = openAgent(
    {},
    { resume: (id) => JSON.stringify(id === 'bad' ? { error: refusal } : { ok: null }) },
  )
  agent.resume('s7')
  expect(agent.sessionId).toBe('s7')
  expect(() => agent.resume('bad')).toThrow(expect.objectContaining(refusal))
  expect(agent.sessionId).toBe('s7')
  expect([agent.clear(), agent.sessionId]).toEqual(['s2', 's2'])
  const stream = (messages) =>
    ask('model.stream', { request: { model: 'm', tools: null }, history: { key: '1', from: 0, messages } })
  await stream([{ role: 'user', content: 'old' }])
  await agent.deleteSession('s7')
  expect(named('deleteSession')).toEqual([['s7']])
  await ask('history.forget', { key: '1' })
  const fresh = { key: '1', from: 0, messages: [{ role: 'user', content: 'new' }] }
  const result = { text: '', usage: {}, stopReason: 'stop', history: fresh }
  const seen = []
  agent.subscribe(({ event }) => seen.push(event.result.messages))
  const record = { sessionId: 's7', source: 'user', event: { type: 'done', reason: 'stop', result } }
  await ask('events', JSON.stringify(record))
  expect(seen).toEqual([[{ role: 'user', content: 'new' }]])
})

test('a native refusal of the configuration is thrown', () => {
  const error = { name: 'McpError', code: 'MCP_NAME', message: 'bad name' }
  expect(() => openAgent({}, { configure: JSON.stringify({ error }) })).toThrow(expect.objectContaining(error))
})

test('a policy judges deny over ask over allow over its default', () => {
  const rules = [
    { id: 'r', description: 'why', tool: 'write', when: { path: { glob: '/etc/*' } }, effect: 'deny' },
    { tool: 'w*', when: { 'a.0.b': { not: { in: [1, 2] } } }, effect: 'ask' },
    { when: { re: { regex: '(?i)^RM' } }, effect: 'deny' },
    { when: { list: { contains: { x: 1 } } }, where: (input) => input.sure === true, effect: 'deny' },
  ]
  const judge = sdk.policy({ allow: ['read_{file,dir}'], ask: ['m?p__*'], deny: ['*_all'], rules, default: 'ask' })
  const verdict = (name, input) => judge.check(call(name, input), ctx)
  expect(verdict('read_file')).toEqual({ decision: 'allow' })
  expect(verdict('read_all')).toEqual({ decision: 'deny' })
  expect(verdict('mcp__a__b')).toEqual({ decision: 'ask' })
  expect(verdict('write', { path: '/etc/a' })).toEqual({ decision: 'deny', ruleId: 'r', reason: 'why' })
  expect(verdict('read_dir', { re: 'rm -rf' })).toEqual({ decision: 'deny' })
  expect(verdict('read_dir', { list: [{ x: 1 }], sure: true })).toEqual({ decision: 'deny' })
  expect(verdict('read_dir', { list: [{ x: 1 }] })).toEqual({ decision: 'allow' })
  expect(verdict('read_dir', Object.create({ re: 'rm' }))).toEqual({ decision: 'allow' })
  expect(sdk.policy().check(call('x'), ctx)).toEqual({ decision: 'allow' })
  expect(sdk.strictPolicy({ allow: ['a'] }).check(call('b'), ctx)).toEqual({ decision: 'deny' })
  const not = sdk.strictPolicy({ rules: [{ when: { a: { not: { equals: 1 } } }, effect: 'allow' }] })
  expect([{ a: 2 }, { a: 1 }, {}].map((input) => not.check(call('x', input), ctx).decision)).toEqual([
    'allow',
    'deny',
    'deny',
  ])
})

test('malformed policies are refused', () => {
  for (const options of [
    { alow: [] },
    { allow: 'x' },
    { default: 'maybe' },
    { rules: {} },
    { rules: [{}] },
    { rules: [{ effect: 'deny', when: { a: {} } }] },
    { rules: [{ effect: 'deny', when: { a: { regex: '(' } } }] },
    { rules: [{ effect: 'deny', where: true }] },
    { allow: ['[a'] },
  ]) {
    expect(() => sdk.policy(options)).toThrow(sdk.ConfigError)
  }
  expect(() => sdk.strictPolicy({ default: 'allow' })).toThrow(sdk.ConfigError)
  expect(() => sdk.composePolicies()).toThrow(sdk.ConfigError)
})

test('composed policies deny if any denies or fails', async () => {
  const is = (decision) => ({ check: () => decision })
  const judge = async (...all) => (await sdk.composePolicies(...all).check(call('x'), ctx)).decision
  expect(await judge(is('allow'), is('ask'))).toBe('ask')
  expect(await judge(is('ask'), is('deny'), is('allow'))).toBe('deny')
  expect(await judge(is('allow'), sdk.policy())).toBe('allow')
  expect(await judge(is('allow'), is(undefined))).toBe('deny')
  expect(await judge(is('allow'), { check: () => Promise.reject(new Error('x')) })).toBe('deny')
})

test('the redactor takes secrets out of strings and leaves the input alone', () => {
  const jwt = 'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-def'
  const input = {
    a: ['Authorization: Bearer abc.def', `t ${jwt}`, 'sk-abcdef123456'],
    b: { c: 'mail joe@example.com now' },
    n: 1,
    z: null,
    d: 'api_key=hunter2 x',
    e: '{"password": "hunter2", "n": 1}',
    f: 'token: Bearer hunter2',
    g: String.raw`{\"secret\":\"hunter2\"}`,
  }
  const copy = structuredClone(input)
  const out = sdk.defaultRedactor(input)
  expect(input).toEqual(copy)
  expect(out.a).toEqual(['Authorization: Bearer [redacted]', 't [redacted]', '[redacted]'])
  expect(out.b).toEqual({ c: 'mail [redacted] now' })
  expect(out.d).toBe('api_key=[redacted] x')
  expect(out.e).toBe('{"password": [redacted], "n": 1}')
  expect(JSON.stringify(out)).not.toContain('hunter2')
  expect([out.n, out.z]).toEqual([1, null])
})

test.each(redaction.secrets)('the redactor makes of %j what the shared table says', (text, shown) => {
  expect(sdk.defaultRedactor(text)).toBe(shown)
  expect(sdk.defaultRedactor(shown)).toBe(shown)
})

test('the redactor takes any JSON value', () => {
  const deep = {}
  let at = deep
  for (let i = 0; i < 20_000; i++) {
    at.a = { key: 'token=x' }
    at = at.a
  }
  let out = sdk.defaultRedactor(deep)
  for (let i = 0; i < 20_000; i++) out = out.a
  expect(out).toEqual({ key: 'token=[redacted]' })
  const shared = { a: 'sk-abcdef123456' }
  const odd = JSON.parse('{"__proto__":{"token":"token=x"},"1":[null,true,[]],"0":""}')
  expect(JSON.stringify(sdk.defaultRedactor({ odd, x: shared, y: [shared] }))).toBe(
    '{"odd":{"0":"","1":[null,true,[]],"__proto__":{"token":"token=[redacted]"}},"x":{"a":"[redacted]"},"y":[{"a":"[redacted]"}]}',
  )
  const circle = { a: [] }
  circle.a.push(circle)
  expect(sdk.defaultRedactor(circle)).toEqual({ a: ['[circular]'] })
})

test('only the last 256 host errors are kept', () => {
  const kept = new errors.KeptErrors()
  const ids = Array.from({ length: 300 }, (_, i) => kept.keep(i))
  expect([kept.has(ids[43]), kept.find(ids[44]), kept.find(ids[299])]).toEqual([false, 44, 299])
})

test('a failed load lists every file with its reason', () => {
  const load = (id) => {
    throw new Error(`cannot open ${id.slice(-4)}`)
  }
  expect(() => loader.loadNative({ platform: 'linux', arch: 'x64', load })).toThrow(
    /linux-x64.*lite-agent\.linux-x64-gnu\.node: cannot open node.*musl\.node: cannot.*@lite-agent\/sdk-linux-x64-gnu: cannot open -gnu/s,
  )
})

test('a path into the input goes by its dots', () => {
  const nested = sdk.policy({ rules: [{ when: { 'a.b': { equals: 1 } }, effect: 'deny' }] })
  expect(nested.check(call('x', { a: { b: 1 } }), ctx)).toEqual({ decision: 'deny' })
  expect(nested.check(call('x', { 'a.b': 1 }), ctx)).toEqual({ decision: 'allow' })
})
