// Large results: archived, and read back by the model through `context`.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createLiteAgent, fakeProvider, policy, strictPolicy, tool } from '@lite-agent/sdk'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import { callsTurn, collect, createBench, ofType, resultsOf, textTurn } from '../servers/start.mjs'
import { longText } from '../servers/texts.mjs'

const MIB = 1024 * 1024

let bench
let agents

beforeEach(() => {
  bench = createBench()
  agents = []
})
afterEach(async () => {
  await Promise.all(agents.map((agent) => agent.close()))
  bench.dispose()
})

function createAgent(model, config = {}) {
  const agent = createLiteAgent({
    workdir: bench.directory,
    home: join(bench.directory, 'home'),
    model: Array.isArray(model) ? fakeProvider(model) : model,
    permission: policy({ default: 'allow' }),
    sessions: false,
    mcpServers: { local: bench.stdio('official-stdio').config },
    ...config,
  })
  agents.push(agent)
  return agent
}

/** A model of which each answer is made from the request before it. */
function thinking(next) {
  return {
    id: 'thinking',
    async *stream(request) {
      yield { type: 'message_done', ...next(request), usage: { inputTokens: 0, outputTokens: 0 } }
    },
  }
}

const lastResult = ({ messages }) => messages.at(-1).content[0]?.content
const refIn = (text) => text.match(/context\(\{ ref: "([0-9a-f]{64})", offset: 0 \}\)/)[1]
const dataIn = (text) => {
  const [, data] = text.match(/^<archived-data>\n(.*)\n<\/archived-data>$/ms)
  expect(data).not.toContain('<')
  return data.replaceAll('&lt;', '<').replaceAll('&amp;', '&')
}
const only = (folder) => {
  const names = readdirSync(folder)
  expect(names.length).toBe(1)
  return join(folder, names[0])
}
const sessionsFolder = () => join(only(join(bench.directory, 'home', 'projects')), 'sessions')

/** Calls a tool, takes the reference from its result, reads all pages, and keeps them. */
function reader(call) {
  const pages = []
  const model = thinking((request) => {
    const seen = lastResult(request)
    if (request.messages.length === 1) return callsTurn(call)
    if (request.messages.length === 3) return callsTurn(['context', { ref: refIn(seen), offset: 0 }])
    const [, , next] = seen.match(/^offset=(\d+); nextOffset=(\d+|end); totalChars=\d+\n/)
    pages.push(seen)
    if (next === 'end') return textTurn('read')
    const { ref } = request.messages.at(-2).content[0].input
    return callsTurn(['context', { ref, offset: Number(next) }])
  })
  return { model, pages }
}

test.each(['stdio', 'http'])('3 MiB over %s come back page by page, every character', async (transport) => {
  const server = transport === 'stdio' ? bench.stdio('official-stdio') : await bench.http('official-http')
  const { model, pages } = reader(['mcp__local__long', { bytes: 3 * MIB }])
  const agent = createAgent(model, { maxTurns: 1000, mcpServers: { local: server.config } })
  const events = await collect(agent.run('go'))

  expect(ofType(events, 'done')[0].result.text).toBe('read')
  const whole = JSON.stringify({ content: [{ type: 'text', text: longText(3 * MIB) }] })
  const joined = pages.map(dataIn).join('')
  expect(joined.length).toBe(whole.length)
  expect(joined === whole).toBe(true)

  const [first, ...rest] = resultsOf(events)
  expect(first.isError).toBeUndefined()
  expect(first.content.length).toBeLessThan(3000)
  expect(refIn(first.content)).toBe(createHash('sha256').update(whole).digest('hex'))
  expect(dataIn(first.content)).toBe([...whole].slice(0, 1000).join(''))
  for (const { content, isError } of rest) {
    expect(isError).toBeUndefined()
    expect(dataIn(content).length).toBeLessThanOrEqual(16_000)
    expect(Buffer.byteLength(content)).toBeLessThan(17_000)
  }
  const [offset, next, total] = pages[0].match(/\d+/g).map(Number)
  expect([offset, total]).toEqual([0, whole.length])
  expect(pages[1].startsWith(`offset=${next}; `)).toBe(true)
  // What crosses to JavaScript is never larger than a page.
  for (const event of events) if (event.type !== 'done') expect(JSON.stringify(event).length).toBeLessThan(20_000)
})

test('a large result of a JavaScript tool is archived as well, and its error stays one', async () => {
  const dump = tool('dump', 'Dumps', z.object({}), () => ({ content: 'ab😀\n'.repeat(10_000), isError: true }))
  const { model, pages } = reader(['dump', {}])
  const agent = createAgent(model, { tools: [dump], mcpServers: {} })
  const events = await collect(agent.run('go'))
  expect(resultsOf(events)[0]).toMatchObject({ isError: true })
  expect(pages.map(dataIn).join('')).toBe('ab😀\n'.repeat(10_000))
})

test('media is archived whatever its size, and no base64 is shown', async () => {
  const agent = createAgent([
    callsTurn(['mcp__local__gallery', {}], ['mcp__local__long_failure', {}], ['mcp__local__long', { bytes: 10_000 }]),
    textTurn('end'),
  ])
  const results = Object.fromEntries(resultsOf(await collect(agent.run('go'))).map((result) => [result.id, result]))
  const { content, isError } = results['call-1']
  expect(isError).toBeUndefined()
  expect(content).not.toMatch(/aW1hZ2Uh|c291bmQh|cGxhbg==/)
  expect(JSON.parse(dataIn(content)).content).toMatchObject([
    { type: 'text', text: 'four works' },
    { type: 'image', data: '(400 characters of base64)', mimeType: 'image/png' },
    { type: 'audio', data: '(400 characters of base64)' },
    { type: 'resource', resource: { uri: 'file:///plan.pdf', blob: '(8 characters of base64)' } },
  ])
  expect(refIn(content)).toMatch(/^[0-9a-f]{64}$/)
  expect(results['call-2']).toMatchObject({ isError: true, content: expect.stringContaining('context({ ref: "') })
  expect(JSON.parse(results['call-3'].content).content[0].text).toBe(longText(10_000))
})

test('one turn has a budget; the next turn goes on', async () => {
  const model = thinking((request) => {
    if (request.messages.length === 1) return callsTurn(['mcp__local__long', { bytes: 100_000 }])
    if (request.messages.length === 7) return textTurn('end')
    const ref = refIn(request.messages[2].content[0].content)
    return callsTurn(['context', { ref }], ['context', { ref }], ['context', { query: '漢字', ref }])
  })
  const results = resultsOf(await collect(createAgent(model).run('go'))).slice(1)
  for (const turn of [results.slice(0, 3), results.slice(3)]) {
    const errors = turn.filter(({ isError }) => isError)
    expect(errors.length).toBeGreaterThan(0)
    expect(errors.length).toBeLessThan(3)
    for (const { content } of errors) expect(content).toMatch(/16384 bytes of archived text a turn.*next turn/)
  }
})

test('a search finds texts in the session’s results', async () => {
  const model = thinking((request) => {
    if (request.messages.length === 1) return callsTurn(['mcp__local__long', { bytes: 100_000 }])
    if (request.messages.length === 5) return textTurn('end')
    return callsTurn(['context', { query: 'NAÏVE <B>"700"' }], ['context', { query: 'absent' }], ['context', {}])
  })
  const results = resultsOf(await collect(createAgent(model).run('go')))
  const byId = Object.fromEntries(results.slice(1).map(({ id, content }) => [id, content]))
  const ref = refIn(results[0].content)
  expect(byId['call-1']).toMatch(
    new RegExp(`^hits=1\n.*not instructions.*\n\nref=${ref}; offset=\\d+; totalChars=\\d+`),
  )
  expect(dataIn(byId['call-1'])).toContain('<b>\\"700\\"</b>')
  expect(byId['call-2']).toBe('hits=0')
  expect(byId['call-3']).toMatch(new RegExp(`^results=1\n.*\n\nref=${ref}; offset=0; `))
})

test('a reference of another session, or of another agent, leads nowhere', async () => {
  const known = { ref: '' }
  const model = thinking((request) => {
    if (request.messages.length > 1) return textTurn('end')
    return known.ref ? callsTurn(['context', known]) : callsTurn(['mcp__local__long', { bytes: 50_000 }])
  })
  const agent = createAgent(model)
  const first = resultsOf(await collect(agent.run('go')))[0]
  known.ref = refIn(first.content)
  const other = createAgent(model)
  for (const run of [agent.run('go', { sessionId: 'another' }), other.run('go', { sessionId: agent.sessionId })]) {
    expect(resultsOf(await collect(run))).toEqual([
      {
        id: 'call-1',
        name: 'context',
        content: 'TOOL: there is no archived result with this reference in this session',
        isError: true,
      },
    ])
  }
})

test('the archive is private, made when it is needed, checked when it is read, and gone after close', async () => {
  const model = thinking((request) => {
    if (request.messages.length === 1) return callsTurn(['mcp__local__add', { a: 1, b: 1 }])
    if (request.messages.length === 3) return callsTurn(['mcp__local__long', { bytes: 50_000 }])
    if (request.messages.length === 5) return textTurn('kept')
    if (request.messages.length === 7) return callsTurn(['context', { ref: refIn(lastKept(request)) }])
    return textTurn('end')
  })
  const lastKept = ({ messages }) => messages[4].content[0].content
  const agent = createAgent(model)
  for await (const event of agent.run('go')) {
    if (event.type === 'tool_result' && event.result.name === 'mcp__local__add') {
      expect(existsSync(join(bench.directory, 'home'))).toBe(false)
    }
  }
  const project = only(join(bench.directory, 'home', 'projects'))
  const hash = createHash('sha256').update(realpathSync(bench.directory)).digest('hex')
  expect(project.endsWith(`/${hash.slice(0, 32)}`)).toBe(true)
  const session = join(project, 'sessions', `${agent.sessionId}.context`)
  const folder = only(session)
  const files = readdirSync(folder).map((name) => join(folder, name))
  expect(files.map((file) => statSync(file).mode & 0o777)).toEqual([0o600, 0o600])
  expect([project, session, folder].map((path) => statSync(path).mode & 0o777)).toEqual([0o700, 0o700, 0o700])
  const entry = JSON.parse(readFileSync(join(folder, 'index.jsonl'), 'utf8'))
  expect(entry).toMatchObject({ tool: 'mcp__local__long', preview: expect.stringMatching(/^\{"content":\[/) })

  writeFileSync(join(folder, entry.ref), 'forged')
  expect(resultsOf(await collect(agent.run('again')))).toEqual([
    {
      id: 'call-1',
      name: 'context',
      content: 'STORAGE: the archived text was changed on the disk and is not used',
      isError: true,
    },
  ])
  await agent.close()
  expect(readdirSync(sessionsFolder())).toEqual([])
})

test('an archive that cannot be written costs the result, not the run', async () => {
  const home = join(bench.directory, 'home')
  mkdirSync(home)
  writeFileSync(join(home, 'projects'), 'in the way')
  const agent = createAgent([callsTurn(['mcp__local__long', { bytes: 50_000 }]), textTurn('went on')])
  const events = await collect(agent.run('go'))
  expect(resultsOf(events)).toMatchObject([
    { isError: true, content: expect.stringMatching(/^STORAGE: .*could not be kept.*do not repeat side effects/) },
  ])
  expect(ofType(events, 'diagnostic')).toMatchObject([{ level: 'error', code: 'archive_failed' }])
  const told = events.filter(({ type }) => type !== 'permission_decision')
  expect(JSON.stringify(told)).not.toContain(bench.directory)
  expect(ofType(events, 'done')[0].result.text).toBe('went on')
})

test('context is a tool like others: listed, hidden, denied, checked, reserved', async () => {
  const requests = []
  const model = thinking((request) => {
    requests.push(request)
    return request.messages.length === 1
      ? callsTurn(['context', {}], ['context', { ref: '../x', limit: 16_001 }])
      : textTurn('end')
  })
  const bare = { mcpServers: {}, tools: [tool('noop', 'Does nothing', z.object({}), () => '')] }
  const results = async (config) => resultsOf(await collect(createAgent(model, { ...bare, ...config }).run('go')))

  const [listed, misfit] = (await results({ permission: undefined })).sort((a, b) => a.id.localeCompare(b.id))
  expect(requests[0].tools).toMatchObject([
    { name: 'noop' },
    { name: 'context', parameters: { additionalProperties: false } },
  ])
  expect(listed).toEqual({ id: 'call-1', name: 'context', content: 'results=0' })
  expect(misfit.content).toMatch(/does not fit the tool's schema: .*\/ref.*pattern/)
  expect(misfit.content).toMatch(/\/limit/)

  const denied = await results({ permission: strictPolicy({ allow: ['mcp__*'] }) })
  expect(denied.map(({ content }) => content)).toContainEqual(expect.stringContaining('`context` was denied'))
  requests.length = 0
  const hidden = await results({ disallowedTools: ['context'] })
  expect(requests[0].tools.map(({ name }) => name)).toEqual(['noop'])
  expect(hidden.map(({ isError }) => isError)).toEqual([true, true])
  requests.length = 0
  await results({ tools: [] })
  expect(requests[0].tools, 'nothing is archived, and nothing can be').toBeUndefined()

  const tools = [tool('context', 'Mine', z.object({}), () => '')]
  expect(() => createAgent(model, { tools })).toThrow(
    expect.objectContaining({ code: 'MCP_RESERVED', message: expect.stringContaining('reserved') }),
  )
  const long = createAgent(model, bare).send('go', { sessionId: 'x'.repeat(201) })
  await expect(long).rejects.toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringContaining('limit of 200') })
})

test('without context in sight, the model is told that it cannot read the result', async () => {
  const agent = createAgent([callsTurn(['mcp__local__long', { bytes: 50_000 }]), textTurn('end')], {
    allowedTools: ['mcp__local__long'],
  })
  const [{ content }] = resultsOf(await collect(agent.run('go')))
  expect(content).toContain('`context`, which reads it, is not among the tools of this run')
  expect(content).not.toContain('context({')
})

test('a process that exits without close leaves no archive', async () => {
  const { execFileSync } = await import('node:child_process')
  const script = `
    const { createLiteAgent, fakeProvider, tool } = require('@lite-agent/sdk')
    const { z } = require('zod')
    const turns = [
      { message: { role: 'assistant', content: [{ type: 'tool_call', id: '1', name: 'dump', input: {} }] } },
      { message: { role: 'assistant', content: [] } },
    ]
    const dump = tool('dump', 'Dumps', z.object({}), () => 'x'.repeat(20000))
    const agent = createLiteAgent({ workdir: process.argv[1], model: fakeProvider(turns), tools: [dump], sessions: false })
    agent.send('go').then(() => {
      const { readdirSync } = require('node:fs')
      console.log(readdirSync(process.env.LITE_AGENT_HOME, { recursive: true }).length)
      process.exit()
    })`
  const home = join(bench.directory, 'home')
  const stdout = execFileSync(process.execPath, ['-e', script, bench.directory], {
    env: { ...process.env, LITE_AGENT_HOME: home },
    encoding: 'utf8',
  })
  expect(Number(stdout)).toBe(7)
  expect(readdirSync(sessionsFolder())).toEqual([])
})
