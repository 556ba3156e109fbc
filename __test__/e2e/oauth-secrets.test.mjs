// No secret of a sign-in is in anything that a host, a model or a log can see.
import { spawnSync } from 'node:child_process'
import { appendFileSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { useBench } from './oauth-bench.mjs'

const bench = useBench()
const child = fileURLToPath(new URL('children/oauth-flow.mjs', import.meta.url))

const namesBelow = (directory) => readdirSync(directory, { recursive: true })

/** All text below a directory: transcripts, archives, and whatever else an agent writes. */
function filesBelow(directory) {
  return namesBelow(directory)
    .map((name) => join(directory, name))
    .filter((path) => statSync(path).isFile())
    .map((path) => readFileSync(path, 'latin1'))
    .join('\n')
}

/** Goes through a flow in a process of its own; gives what can be seen, by sink, and the secrets. */
function goThrough(flow) {
  const directory = join(bench.current.directory, 'agent')
  const out = join(bench.current.directory, 'seen.json')
  mkdirSync(directory)
  const { stderr, stdout, status } = spawnSync(process.execPath, [child, JSON.stringify({ flow, directory, out })], {
    env: { ...process.env, RUST_LOG: 'trace' },
    encoding: 'utf8',
    timeout: 60_000,
  })
  expect(status, stderr).toBe(0)
  const { seen, secrets, issued } = JSON.parse(readFileSync(out, 'utf8'))
  return { directory, secrets, issued, sinks: { ...seen, trace: stderr, output: stdout } }
}

/** The sinks in which a secret or the text of a remote side is found. */
function leaks({ sinks, secrets, directory }) {
  const marks = [...secrets, 'SENTINEL', 'REMOTE-TEXT']
  const texts = { ...sinks, files: filesBelow(directory) }
  const holds = (text) => marks.filter((mark) => [mark, encodeURIComponent(mark)].some((form) => text.includes(form)))
  return Object.fromEntries(
    Object.entries(texts)
      .map(([sink, value]) => [sink, holds(typeof value === 'string' ? value : JSON.stringify(value))])
      .filter(([, found]) => found.length > 0),
  )
}

const FLOWS = {
  'sign-in': 1,
  refresh: 2,
  'refresh refused': 1,
  'refresh unavailable': 1,
  'client forgotten': 1,
  'step-up': 2,
  'scope refused': 1,
  'server moved': 1,
  'callback refused': 0,
  'page cannot be opened': 0,
  'sign-in denied': 0,
  'code refused': 0,
  'registration refused': 0,
  'token of another type': 1,
  'issuer mismatch': 0,
  'target refused': 0,
  'machine secret': 2,
  'machine assertion': 2,
  'machine with odd signs': 2,
  'machine refused': 0,
}

describe('nothing leaks', () => {
  for (const [flow, tokens] of Object.entries(FLOWS)) {
    test(flow, () => {
      const seen = goThrough(flow)
      expect(leaks(seen)).toEqual({})
      // The flow went as far as it should, and there was something to search.
      expect(seen.issued).toBe(tokens)
      expect(seen.sinks.trace).toContain('lite_agent')
      expect(seen.sinks.approvals).toHaveLength(1)
      expect(seen.sinks.events.length).toBeGreaterThan(0)
      expect(seen.sinks.lists).toHaveLength(2)
      expect(namesBelow(seen.directory).some((name) => name.endsWith('.jsonl'))).toBe(true)
    })
  }
})

describe('the credentials of `Basic` are looked for as they travel, form-encoded or not', () => {
  for (const [flow, credentials] of [
    ['machine secret', 'robot:SENTINEL-robot'],
    ['machine with odd signs', 'robot:SENTINEL+robot%2B%25%26'],
    ['machine with odd signs', 'robot:SENTINEL robot+%&'],
  ]) {
    test(credentials, () => {
      const seen = goThrough(flow)
      const secret = btoa(credentials)
      const sinks = { ...seen.sinks, trace: `${seen.sinks.trace}\nauthorization: Basic ${secret}` }
      expect(leaks({ ...seen, sinks })).toEqual({ trace: [secret] })
    })
  }
})

test('a leak that is planted in any sink is found by the same search', () => {
  const seen = goThrough('sign-in')
  const [secret] = seen.secrets
  const archived = namesBelow(seen.directory).filter((name) => name.includes('.context/'))
  expect(archived.length).toBeGreaterThan(0)
  for (const sink of ['events', 'lists', 'errors', 'approvals', 'trace', 'output']) {
    const value = seen.sinks[sink]
    const planted =
      typeof value === 'string' ? `${value}\nx=${secret}` : [...value, { deep: [{ text: `x=${secret}` }] }]
    expect(leaks({ ...seen, sinks: { ...seen.sinks, [sink]: planted } })).toEqual({ [sink]: [secret] })
  }
  for (const part of ['message', 'stack', 'json']) {
    const errors = [{ message: '', stack: '', json: '', [part]: encodeURIComponent(secret) }]
    expect(leaks({ ...seen, sinks: { ...seen.sinks, errors } })).toEqual({ errors: [secret] })
  }
  for (const name of [archived.at(-1), namesBelow(seen.directory).find((name) => name.endsWith('.jsonl'))]) {
    const path = join(seen.directory, name)
    const before = readFileSync(path)
    appendFileSync(path, JSON.stringify({ text: secret }))
    expect(leaks(seen)).toEqual({ files: [secret] })
    writeFileSync(path, before)
  }
})
