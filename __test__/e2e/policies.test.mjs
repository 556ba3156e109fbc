// Policies in a run: the native core judges as `check()` does, for every policy that is accepted.
import { readFileSync } from 'node:fs'
import { createLiteAgent, fakeProvider, policy, tool } from '@lite-agent/sdk'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { callsTurn, collect, createBench, ofType, textTurn } from '../servers/start.mjs'

const table = JSON.parse(readFileSync(new URL('../tables/policies.json', import.meta.url), 'utf8'))

let bench
beforeAll(() => {
  bench = createBench()
})
afterAll(() => bench.dispose())

const anything = {
  '~standard': {
    version: 1,
    vendor: 'test',
    validate: (value) => ({ value }),
    jsonSchema: { input: () => ({}) },
  },
}

/** The native verdict on each input, as its decision and its rule. */
async function nativeVerdicts(permission, inputs) {
  const agent = createLiteAgent({
    workdir: bench.directory,
    home: bench.directory,
    model: fakeProvider([callsTurn(...inputs.map((input) => ['t', input])), textTurn('end')]),
    tools: [tool('t', '', anything, () => 'ran')],
    maxParallelTools: 1,
    permission,
  })
  const events = await collect(agent.run('go'))
  await agent.close()
  const decided = ofType(events, 'permission_decision')
  expect(decided).toHaveLength(inputs.length)
  return decided.map(({ decision, ruleId }) => ({ decision, ruleId }))
}

const verdicts = (permission, inputs) =>
  inputs.map((input) => {
    const { decision, ruleId } = permission.check({ id: '1', name: 't', input }, { sessionId: 's' })
    return { decision, ruleId }
  })

const texts = new Set(
  table.conditions.flatMap(([, yes, no]) => [...yes, ...no]).filter((value) => typeof value === 'string'),
)
const odd = [
  '\ud7ff\ue000',
  '\u{10ffff}',
  'é\u0301',
  '👨‍👩‍👧',
  'ﬀ',
  'Ω',
  'ǅ',
  '\u0130\u0131',
  'A\u2028B\u2029C\rD\nE',
  '٣۳３',
  '_-.,;:!?',
]
const values = [
  ...texts,
  ...odd,
  ...[0, 1, 1.5, 1e21, 2 ** 53, -1, null, true, false, [], {}, [1, 2], ['a'], { a: 1, b: 2 }, { b: 2, a: 1 }],
  ...[[[]], [null], [0], [{}], [''], '1', 'true', 'null'],
]

test('every condition judges every value natively as it does in JavaScript', async () => {
  const regexes = [/^\d+$/, /k/i, /K/iu, /^a$/m, /\//, /./s, /./, /[\u212a]/i, /^.$/u, /[^\w]/, /\s/, /a-b:/, /^{.}$/]
  const conditions = [
    ...table.conditions.map(([condition]) => condition),
    ...regexes.map((regex) => ({ regex })),
    ...[...odd.map((text) => [...text][0]), ...'^[]-!?*{},\\.&~|/ '].map((c) => ({
      glob: `[!${c === ']' || c === '!' ? 'a' : c}]*`,
    })),
    ...['\\w', '\\W', '\\s', '\\S', '\\d', '\\D', '.', '[^\\w]', '[^\\s]', '\\b', '\\B', '^', '$'].flatMap((part) => [
      { regex: part },
      { regex: `^${part === '^' ? '' : part}` },
      { regex: `(?i)x|${part}` },
      { regex: `(?s)(?:${part})[^]` },
    ]),
  ]
  // One rule for each condition, on a field of its own.
  const made = policy({
    rules: conditions.map((condition, i) => ({ id: `${i}`, when: { [`v${i}`]: condition }, effect: 'deny' })),
  })
  const inputs = values.flatMap((value) => conditions.map((_, i) => ({ [`v${i}`]: value })))
  const native = []
  for (let at = 0; at < inputs.length; at += 4000)
    native.push(...(await nativeVerdicts(made, inputs.slice(at, at + 4000))))
  const own = verdicts(made, inputs)
  const differing = inputs.filter((_, i) => JSON.stringify(native[i]) !== JSON.stringify(own[i]))
  expect(differing.slice(0, 20)).toEqual([])
  expect(own.filter(({ decision }) => decision === 'deny').length).toBeGreaterThan(1000)
}, 120_000)

test('every path leads to the same field', async () => {
  for (const [path, input, found] of table.paths) {
    const made = policy({ rules: [{ when: { [path]: { not: { equals: 'never' } } }, effect: 'deny' }] })
    const [{ decision }] = await nativeVerdicts(made, [input])
    expect([path, input, decision]).toEqual([path, input, found ? 'deny' : 'allow'])
  }
})

test.each(table.refusedNatively)('a configuration with %j is refused', (condition) => {
  const permission = policy({ rules: [{ when: { v: condition }, effect: 'deny' }] })
  const make = () => createLiteAgent({ workdir: bench.directory, model: fakeProvider([]), permission })
  expect(make).toThrow(expect.objectContaining({ name: 'ConfigError', code: 'CONFIG_INVALID' }))
  expect(make).toThrow('rules[0].when["v"].regex')
})

test('rules and names decide alike, and a rule that fails denies', async () => {
  const where = (input) => {
    if (input.boom) throw new Error('x')
    return input.yes === true
  }
  const made = policy({
    allow: ['t'],
    ask: ['{u,v}*'],
    deny: ['t?'],
    rules: [
      { id: 'where', where, effect: 'allow' },
      { id: 'ask', tool: '[!u]', when: { ask: { equals: true } }, effect: 'ask' },
    ],
  })
  const inputs = [{}, { yes: true }, { boom: 1 }, { ask: true }, { ask: true, boom: 1 }]
  expect(await nativeVerdicts(made, inputs)).toEqual(verdicts(made, inputs))
})

test.each([
  ['deny', { regex: /[;&&|`$]/ }, ['ls; rm -rf x', 'ls | sh', 'echo ok'], ['echo ok']],
  ['allow', { regex: /^\w+$/ }, ['йцу', 'ls'], ['ls']],
  ['deny', { glob: '?' }, ['é', 'e', 'ee'], ['ee']],
  ['deny', { glob: '[!a-z]*' }, ['éclair', '/bin', 'ls'], ['ls']],
])('a rule to %s on %j lets only its commands run', async (effect, condition, commands, expected) => {
  const ran = []
  const run = tool('run', '', z.object({ command: z.string() }), ({ command }) => {
    ran.push(command)
    return 'ran'
  })
  const agent = createLiteAgent({
    workdir: bench.directory,
    home: bench.directory,
    model: fakeProvider([callsTurn(...commands.map((command) => ['run', { command }])), textTurn('end')]),
    tools: [run],
    permission: policy({
      rules: [{ when: { command: condition }, effect }],
      default: effect === 'deny' ? 'allow' : 'deny',
    }),
  })
  await agent.send('go')
  await agent.close()
  expect(ran).toEqual(expected)
})
