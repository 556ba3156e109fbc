// Policies: the shared table, which the native core's own tests run too, and what only JavaScript has.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import sdk from '../../index.js'

const table = JSON.parse(readFileSync(new URL('../tables/policies.json', import.meta.url), 'utf8'))
const ctx = { sessionId: 's' }
const deny = (when) => sdk.policy({ rules: [{ id: 'r', when, effect: 'deny' }] })
const judge = (when, input) => deny(when).check({ id: '1', name: 't', input }, ctx).decision
const ofRegex = (regex, value) => judge({ v: { regex } }, { v: value }) === 'deny'

test.each(table.conditions)('%j', (condition, yes, no) => {
  const wrong = [
    ...yes.filter((v) => judge({ v: condition }, { v }) !== 'deny'),
    ...no.filter((v) => judge({ v: condition }, { v }) !== 'allow'),
  ]
  expect(wrong).toEqual([])
})

test.each(table.paths)('the path %s in %j', (path, input, found) => {
  expect(judge({ [path]: { not: { equals: 'never' } } }, input)).toBe(found ? 'deny' : 'allow')
})

test.each(table.refused)('%j is refused', (condition) => {
  expect(() => deny({ v: condition })).toThrow(sdk.ConfigError)
})

test('a path with an empty part is refused', () => {
  for (const path of ['', '.', 'a..b', 'a.']) expect(() => deny({ [path]: { equals: 1 } })).toThrow('empty part')
})

test.each([/a/v, /a/y, ...['\\u{41}', '\\p{L}', '\\P{L}', 'a\\\\\\u{41}'].map((source) => new RegExp(source))])(
  'the pattern %s is refused',
  (regex) => {
    expect(() => deny({ v: { regex } })).toThrow(sdk.ConfigError)
  },
)

test('a RegExp means what its source says with the u flag', () => {
  expect(ofRegex(/\u{1F600}/u, '😀')).toBe(true)
  expect(ofRegex(/\\u\{41\}/, '\\u{41}')).toBe(true)
  expect([ofRegex(/^.$/, '😀'), ofRegex(/^a$/gm, 'b\na'), ofRegex(/A/i, 'a'), ofRegex(/a.b/s, 'a\nb')]).toEqual([
    true,
    true,
    true,
    true,
  ])
  // Written without the u flag, punctuation may take a backslash or none.
  expect(ofRegex(/^[\w-]+-@"':# _<$/, 'é-@"\': #_<')).toBe(false)
  expect(ofRegex(/^[\w-]+-@"':# _<$/, 'a-b-@"\':# _<')).toBe(true)
  expect(ofRegex(/^{.*}]$/, '{"a":1}]')).toBe(true)
  expect(ofRegex(/^a{,2}b{2$/, 'a{,2}b{2')).toBe(true)
  expect(ofRegex(/^[{2}]x$/, '}x')).toBe(true)
})

test('half a character is refused in a rule and replaced in an input', () => {
  for (const condition of [
    { startsWith: '\ud83d' },
    { glob: '\ud83d*' },
    { regex: '\ud83d' },
    { equals: ['\ud83d'] },
    { contains: { '\ud83d': 1 } },
    { in: ['\\\\\ud83d'] },
  ]) {
    expect(() => deny({ v: condition })).toThrow('half a character')
  }
  expect(judge({ v: { equals: '\\ud83d' } }, { v: '\\ud83d' })).toBe('deny')
  expect(judge({ v: { startsWith: '\ufffd' } }, { v: '\ud83d!' })).toBe('deny')
})

test('a rule stays what it was when it was checked', () => {
  const wanted = { a: [1] }
  const made = deny({ v: { equals: wanted } })
  wanted.a.push(2)
  expect(made.check({ id: '1', name: 't', input: { v: { a: [1] } } }, ctx).decision).toBe('deny')
})

test('a rule that fails denies, and rules come before names', () => {
  const boom = () => {
    throw new Error('x')
  }
  const made = sdk.policy({ allow: ['t'], rules: [{ id: 'w', where: boom, effect: 'allow' }] })
  expect(made.check({ id: '1', name: 't', input: {} }, ctx)).toEqual({
    decision: 'deny',
    ruleId: 'w',
    reason: 'policy failed',
  })
})

test('only plain objects and whole arrays make a policy', () => {
  const hole = new Array(1)
  for (const options of [
    new Map(),
    new (class {
      deny = ['*']
    })(),
    Object.create({ deny: ['*'] }),
    { deny: hole },
    { rules: hole },
    { rules: [new Map([['effect', 'deny']])] },
    { rules: [{ effect: 'deny', when: new Map() }] },
    { rules: [{ effect: 'deny', when: { a: new Map() } }] },
    { rules: [{ effect: 'deny', when: { a: { equals: new Date(0) } } }] },
  ]) {
    expect(() => sdk.policy(options)).toThrow(sdk.ConfigError)
  }
  expect(() => sdk.strictPolicy(new Map())).toThrow(sdk.ConfigError)
})

test('what a getter or a proxy throws is the cause of a ConfigError', () => {
  const thrown = new Error('mine')
  const boom = () => {
    throw thrown
  }
  for (const options of [
    new Proxy({}, { ownKeys: boom }),
    {
      get deny() {
        return boom()
      },
    },
    { rules: [new Proxy({ effect: 'deny' }, { get: boom })] },
  ]) {
    for (const make of [sdk.policy, sdk.strictPolicy]) {
      expect(() => make(options)).toThrow(
        expect.objectContaining({ name: 'ConfigError', code: 'CONFIG_INVALID', cause: thrown }),
      )
    }
  }
})

test('an answer of a policy is a word or an object with one', async () => {
  const judged = async (answer) => (await sdk.composePolicies({ check: () => answer }).check({}, ctx)).decision
  expect(await judged('allow')).toBe('allow')
  expect(await judged({ decision: 'ask', ruleId: 'r' })).toBe('ask')
  let reads = 0
  const flips = {
    get decision() {
      return reads++ === 0 ? 'deny' : 'allow'
    },
  }
  for (const answer of [
    new String('allow'),
    { toJSON: () => 'allow' },
    ['allow'],
    { decision: new String('allow') },
    flips,
  ]) {
    expect(await judged(answer)).toBe('deny')
  }
})
