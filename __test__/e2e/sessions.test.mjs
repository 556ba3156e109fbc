// Sessions on disk: resumed, listed, deleted, and what a crash leaves of them.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLiteAgent, StorageError, tool } from '@lite-agent/sdk'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import { callsTurn, collect, createBench, ofType, resultsOf, textTurn, until } from '../servers/start.mjs'

let bench
let home
let agents

beforeEach(() => {
  bench = createBench()
  home = join(bench.directory, 'home')
  agents = []
})
afterEach(async () => {
  await Promise.all(agents.map((agent) => agent.close()))
  bench.dispose()
})

/** A model that answers `answer 1`, `answer 2`, … by the messages before, and keeps what it was asked. */
function recorder(next = ({ messages }) => textTurn(`answer ${(messages.length + 1) / 2}`)) {
  const requests = []
  return {
    id: 'recorder',
    requests,
    async *stream(request) {
      requests.push(request)
      yield { type: 'message_done', ...(await next(request)), usage: { inputTokens: 0, outputTokens: 0 } }
    },
  }
}

function createAgent(config = {}) {
  const agent = createLiteAgent({ workdir: bench.directory, home, model: recorder(), ...config })
  agents.push(agent)
  return agent
}

const textsOf = (messages) =>
  messages.map(({ content }) => (typeof content === 'string' ? content : content.map(({ text }) => text).join('')))
const sessionsFolder = () => {
  const [project, ...others] = readdirSync(join(home, 'projects'))
  expect(others).toEqual([])
  return join(home, 'projects', project, 'sessions')
}
const fileOf = (id) => join(sessionsFolder(), `${id}.jsonl`)

test('another agent goes on where one stopped; both see the whole conversation', async () => {
  const first = createAgent()
  expect(existsSync(home), 'nothing is written before a run').toBe(false)
  await first.send('one')
  const second = createAgent()
  expect(second.sessionId).not.toBe(first.sessionId)
  second.resume(first.sessionId)
  expect(second.sessionId).toBe(first.sessionId)
  const { messages } = await second.send('two')
  const four = ['one', 'answer 1', 'two', 'answer 2']
  expect(textsOf(messages)).toEqual(four)
  expect((await second.send('three')).messages).toHaveLength(6)

  const model = recorder()
  const third = createAgent({ model })
  const options = { sessionId: first.sessionId }
  expect(textsOf((await third.send('four', options)).messages)).toEqual([
    ...four,
    'three',
    'answer 3',
    'four',
    'answer 4',
  ])
  expect(model.requests[0].messages).toHaveLength(7)
  // The first one finds what the others added.
  const events = await collect(first.run('five'))
  expect(textsOf(events.at(-1).result.messages).slice(6)).toEqual(['four', 'answer 4', 'five', 'answer 5'])
})

test('files and folders are private, and hold one line for each message', async () => {
  const agent = createAgent()
  await agent.send([{ role: 'user', content: [{ type: 'text', text: 'line\nbreak \u2028 😀' }] }])
  const lines = readFileSync(fileOf(agent.sessionId), 'utf8').split('\n')
  expect(lines.map((line) => line && JSON.parse(line))).toEqual([
    { type: 'session', version: 1, id: agent.sessionId },
    { type: 'message', message: { role: 'user', content: [{ type: 'text', text: 'line\nbreak \u2028 😀' }] } },
    { type: 'message', message: textTurn('answer 1').message },
    '',
  ])
  expect(statSync(fileOf(agent.sessionId)).mode & 0o777).toBe(0o600)
  for (const folder of [home, join(home, 'projects'), sessionsFolder()])
    expect(statSync(folder).mode & 0o777).toBe(0o700)
})

test('clear begins anew and keeps the old session; the list has the newest first', async () => {
  const agent = createAgent()
  expect(await agent.listSessions()).toEqual([])
  const old = agent.sessionId
  await agent.send('one')
  const fresh = agent.clear()
  expect(fresh).not.toBe(old)
  expect(agent.sessionId).toBe(fresh)
  expect(textsOf((await agent.send('two')).messages)).toEqual(['two', 'answer 1'])
  await agent.send('three', { sessionId: '../../odd name' })
  for (const [id, at] of [
    [old, 2],
    [fresh, 3],
  ])
    utimesSync(fileOf(id), at, at)
  utimesSync(join(sessionsFolder(), '%2e%2e%2f%2e%2e%2fodd%20name.jsonl'), 1, 1)
  const listed = [
    { id: fresh, mtime: 3000 },
    { id: old, mtime: 2000 },
    { id: '../../odd name', mtime: 1000 },
  ]
  expect(await agent.listSessions()).toEqual(listed)
  expect(await createAgent().listSessions()).toEqual(listed)
  mkdirSync(join(bench.directory, 'other'))
  expect(await createAgent({ workdir: join(bench.directory, 'other') }).listSessions(), 'of its project only').toEqual(
    [],
  )
  agent.resume(old)
  expect((await agent.send('four')).messages).toHaveLength(4)
})

test('a deleted session is gone with its archive, and its id begins anew', async () => {
  const dump = tool('dump', 'Dumps', z.object({}), () => 'x'.repeat(20_000))
  const model = recorder(({ messages }) => (messages.length === 1 ? callsTurn(['dump', {}]) : textTurn('end')))
  const agent = createAgent({ model, tools: [dump] })
  const id = agent.sessionId
  await agent.send('one')
  expect(readdirSync(sessionsFolder()).sort()).toEqual([`${id}.context`, `${id}.jsonl`])
  await agent.deleteSession(id)
  await agent.deleteSession(id)
  await agent.deleteSession('never there')
  expect(readdirSync(sessionsFolder())).toEqual([])
  expect(agent.sessionId).toBe(id)
  const { messages } = await agent.send('anew')
  expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant'])
  expect(messages[0].content).toBe('anew')
  expect(model.requests[2].messages).toEqual([{ role: 'user', content: 'anew' }])
  expect(model.requests[2].tools.map(({ name }) => name)).toEqual(['dump', 'context'])
})

test('a session that runs is neither deleted nor run by another agent', async () => {
  let go
  const gate = new Promise((resolve) => {
    go = resolve
  })
  const model = recorder(() => gate.then(() => textTurn('end')))
  const agent = createAgent({ model })
  const sent = agent.send('one')
  const busy = { name: 'StorageError', code: 'STORAGE', message: expect.stringContaining('busy') }
  await expect(agent.deleteSession(agent.sessionId)).rejects.toMatchObject(busy)
  await until(() => model.requests.length === 1)
  const other = createAgent()
  await expect(other.send('two', { sessionId: agent.sessionId })).rejects.toMatchObject(busy)
  await expect(other.deleteSession(agent.sessionId)).rejects.toMatchObject(busy)
  go()
  expect(textsOf((await sent).messages)).toEqual(['one', 'end'])
  expect((await other.send('two', { sessionId: agent.sessionId })).messages).toHaveLength(4)
  await other.deleteSession(agent.sessionId)
  await expect(agent.send('three')).rejects.toMatchObject({
    code: 'STORAGE',
    message: expect.stringContaining('removed'),
  })
  agent.clear()
  await agent.send('four')
})

test('the archive of a session is there for the next agent, and for no other session', async () => {
  const text = 'ab漢😀'.repeat(10_000)
  const dump = tool('dump', 'Dumps', z.object({}), () => text)
  const pages = []
  const model = recorder(({ messages }) => {
    if (messages.length === 1) return callsTurn(['dump', {}])
    const seen = messages.at(-1).content
    if (messages.length === 3) return textTurn('kept')
    const ref = messages[2].content[0].content.match(/ref: "([0-9a-f]{64})"/)[1]
    const [, next] = (seen[0].content ?? '').match(/^offset=\d+; nextOffset=(\d+|end)/) ?? [undefined, '0']
    if (seen[0].content) pages.push(seen[0].content.match(/<archived-data>\n(.*)\n<\/archived-data>/s)[1])
    return next === 'end' ? textTurn('read') : callsTurn(['context', { ref, offset: Number(next) }])
  })
  const first = createAgent({ model, tools: [dump] })
  await first.send('one')
  await first.close()
  // It has no other tool: `context` is there because something is archived.
  const second = createAgent({ model })
  second.resume(first.sessionId)
  expect((await second.send('two')).text).toBe('read')
  expect(model.requests.at(-1).tools.map(({ name }) => name)).toEqual(['context'])
  expect(pages.join('')).toBe(text)
  expect(pages.length).toBeGreaterThan(2)

  const ref = readdirSync(join(sessionsFolder(), `${first.sessionId}.context`)).find((name) => name.length === 64)
  const thief = createAgent({
    tools: [dump],
    model: recorder(({ messages }) => (messages.length === 1 ? callsTurn(['context', { ref }]) : textTurn('end'))),
  })
  const [result] = resultsOf(await collect(thief.run('go')))
  expect(result).toMatchObject({ isError: true, content: expect.stringContaining('no archived result') })
})

test('with sessions: false nothing is written or listed, and a session is deleted from memory', async () => {
  const agent = createAgent({ sessions: false })
  await agent.send('one')
  expect((await agent.send('two')).messages).toHaveLength(4)
  const id = agent.sessionId
  agent.clear()
  expect((await agent.send('three')).messages).toHaveLength(2)
  agent.resume(id)
  expect((await agent.send('four')).messages).toHaveLength(6)
  expect(existsSync(home)).toBe(false)
  await expect(agent.listSessions()).rejects.toThrow(StorageError)
  await agent.deleteSession(id)
  await agent.deleteSession('never there')
  expect((await agent.send('five')).messages).toHaveLength(2)
})

test('a session that is no longer in memory is read from the disk', async () => {
  const agent = createAgent()
  const ids = Array.from({ length: 20 }, (_, at) => `session-${at}`)
  for (const turn of [1, 2]) {
    for (const sessionId of ids) {
      expect((await agent.send(`turn ${turn}`, { sessionId })).messages, sessionId).toHaveLength(2 * turn)
    }
  }
  // Many at once, and the events of one are read after it went.
  const late = agent.run('turn 3', { sessionId: ids[0] })
  const first = await late.next()
  await Promise.all(ids.slice(1).map((sessionId) => agent.send('turn 3', { sessionId })))
  expect(first.value.type).toBe('turn_start')
  let event = await late.next()
  while (!event.done) event = await late.next()
  expect(event.value.messages).toHaveLength(6)
})

test('ids are checked, and a closed agent has no sessions', async () => {
  const agent = createAgent()
  const invalid = expect.objectContaining({ name: 'ConfigError', code: 'CONFIG_INVALID' })
  for (const id of ['', 'x'.repeat(201), 7, undefined]) expect(() => agent.resume(id)).toThrow(invalid)
  for (const id of ['', 'x'.repeat(201), 7]) await expect(agent.deleteSession(id)).rejects.toEqual(invalid)
  const { sessionId } = agent
  expect(() => {
    agent.sessionId = 'other'
  }).toThrow(TypeError)
  await agent.close()
  expect(agent.sessionId).toBe(sessionId)
  const closed = expect.objectContaining({ code: 'CLOSED' })
  for (const call of [() => agent.resume('x'), () => agent.clear()]) expect(call).toThrow(closed)
  for (const call of [() => agent.listSessions(), () => agent.deleteSession('x')])
    await expect(call()).rejects.toEqual(closed)
})

describe('what is on the disk', () => {
  test('a torn last line is dropped, and said', async () => {
    const agent = createAgent()
    await agent.send('one')
    appendFileSync(fileOf(agent.sessionId), '{"type":"message","mess')
    const other = createAgent()
    const events = await collect(other.run('two', { sessionId: agent.sessionId }))
    expect(ofType(events, 'diagnostic')).toMatchObject([{ level: 'warning', code: 'transcript_torn' }])
    expect(textsOf(events.at(-1).result.messages)).toEqual(['one', 'answer 1', 'two', 'answer 2'])
    expect((await createAgent().send('three', { sessionId: agent.sessionId })).messages).toHaveLength(6)
  })

  test('any other damage rejects the run, names the line, and is left as it is', async () => {
    const agent = createAgent()
    await agent.send('one')
    const file = fileOf(agent.sessionId)
    const damaged = readFileSync(file, 'utf8').replace('"message","message":{', '"message","message":{{secret')
    writeFileSync(file, damaged)
    const other = createAgent()
    const error = await other.send('two', { sessionId: agent.sessionId }).catch((caught) => caught)
    expect(error).toMatchObject({ name: 'StorageError', code: 'STORAGE', message: expect.stringContaining('line 2 ') })
    expect(error.message).not.toMatch(/secret|home|projects/)
    expect(readFileSync(file, 'utf8')).toBe(damaged)
    await other.deleteSession(agent.sessionId)
    expect((await other.send('two', { sessionId: agent.sessionId })).messages).toHaveLength(2)
  })

  test('no link is followed', async () => {
    const agent = createAgent()
    await agent.send('one')
    const target = join(bench.directory, 'target')
    writeFileSync(target, '')
    symlinkSync(target, fileOf('linked'))
    await expect(agent.send('two', { sessionId: 'linked' })).rejects.toMatchObject({ code: 'STORAGE' })
    expect((await agent.listSessions()).map(({ id }) => id)).toEqual([agent.sessionId])
    rmSync(sessionsFolder(), { recursive: true })
    const elsewhere = join(bench.directory, 'elsewhere')
    mkdirSync(elsewhere)
    symlinkSync(elsewhere, sessionsFolder())
    await expect(createAgent().send('three')).rejects.toMatchObject({ code: 'STORAGE' })
    await expect(agent.listSessions()).rejects.toMatchObject({ code: 'STORAGE' })
    expect(readdirSync(elsewhere)).toEqual([])
    expect(readFileSync(target, 'utf8')).toBe('')
  })

  test('a home that cannot be written rejects the run before the model is asked', async () => {
    writeFileSync(home, 'in the way')
    expect(() => createAgent()).toThrow(expect.objectContaining({ code: 'CONFIG_INVALID' }))
    rmSync(home)
    mkdirSync(home)
    writeFileSync(join(home, 'projects'), 'in the way')
    const model = recorder()
    const agent = createAgent({ model })
    const error = await agent.send('one').catch((caught) => caught)
    expect(error).toMatchObject({ name: 'StorageError', message: expect.stringContaining('could not be written') })
    expect(error.message).not.toContain(bench.directory)
    expect(model.requests).toEqual([])
  })
})

describe('across processes', () => {
  /** Runs the child script to its end; what it told, and the signal that ended it. */
  async function run(sessionId, input, ...script) {
    const child = fileURLToPath(new URL('children/session.mjs', import.meta.url))
    const env = { ...process.env, LITE_AGENT_HOME: home }
    const args = [child, bench.directory, sessionId, input, ...script]
    const started = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
    let stdout = ''
    started.stdout.on('data', (chunk) => {
      stdout += chunk
    })
    const [, signal] = await once(started, 'close')
    return {
      told: stdout
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line)),
      signal,
    }
  }

  test('a process goes on where another one stopped', async () => {
    await run('s', 'one', 'call:note', 'first')
    const { told } = await run('s', 'two', 'second')
    expect(told).toHaveLength(1)
    expect(told[0].messages).toEqual([
      { role: 'user', content: 'one' },
      { role: 'assistant', content: [{ type: 'tool_call', id: 'note-id', name: 'note', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', id: 'note-id', content: 'noted' }] },
      textTurn('first').message,
      { role: 'user', content: 'two' },
    ])
  })

  test('kill -9 loses no turn, and the model hears of the calls that were cut off', async () => {
    const { told: before, signal } = await run('s', 'one', 'call:note', 'call:dump', 'call:note+die')
    expect(signal).toBe('SIGKILL')
    const { told } = await run('s', 'two', 'end')
    expect(told).toHaveLength(2)
    expect(told).toContainEqual({ diagnostic: 'calls_interrupted' })
    const { messages } = told.find((one) => one.messages)
    expect(messages.slice(0, 5)).toEqual(before.at(-1).messages)
    expect(messages[4].content[0].content).toContain('context({ ref: "')
    expect(messages[5].content.map(({ id }) => id)).toEqual(['note-id', 'die-id'])
    expect(messages[6].content).toEqual(
      ['note-id', 'die-id'].map((id) => ({
        type: 'tool_result',
        id,
        isError: true,
        content: expect.stringMatching(/cut off.*outcome may be unknown.*do not repeat/),
      })),
    )
    expect(messages[7]).toEqual({ role: 'user', content: 'two' })
    const { told: last } = await run('s', 'three')
    expect(last).toHaveLength(1)
    expect(last[0].messages).toHaveLength(10)
  })
})

test('an id that is no text is refused wherever it is given, so that two of them never share a session', async () => {
  const agent = createAgent()
  const before = agent.sessionId
  const refused = expect.objectContaining({
    name: 'ConfigError',
    code: 'CONFIG_INVALID',
    message: expect.stringContaining('half a surrogate pair'),
  })
  for (const id of ['\ud800', 'a\udfff', '\udc00\ud800']) {
    expect(() => agent.resume(id)).toThrow(refused)
    await expect(agent.deleteSession(id)).rejects.toEqual(refused)
    await expect(agent.send('go', { sessionId: id })).rejects.toEqual(refused)
    await expect(agent.run('go', { sessionId: id }).next()).rejects.toEqual(refused)
    await expect(agent.awaitIdle(id)).rejects.toEqual(refused)
  }
  expect(agent.sessionId).toBe(before)
  agent.resume('\ud83d\ude00')
  await agent.send('go')
  expect(await agent.listSessions()).toMatchObject([{ id: '\ud83d\ude00' }])
})
