// Servers declared in files: what is read, how the sources come together, and what is said about the rest.
import { execFile } from 'node:child_process'
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { ConfigError, createLiteAgent, fakeProvider, McpError, policy } from '@lite-agent/sdk'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { callsTurn, collect, createBench, resultsOf, textTurn } from '../servers/start.mjs'

let bench
let agents
let home
let workdir
beforeEach(() => {
  bench = createBench()
  agents = []
  home = join(bench.directory, 'home')
  workdir = join(bench.directory, 'work')
  for (const directory of [home, join(workdir, '.lite-agent')]) mkdirSync(directory, { recursive: true })
})
afterEach(async () => {
  await Promise.all(agents.map((agent) => agent.close()))
  bench.dispose()
})

const paths = {
  global: () => join(home, 'mcps.json'),
  project: () => join(workdir, '.lite-agent', 'mcps.json'),
}

function write(role, content) {
  const isText = typeof content === 'string' || Buffer.isBuffer(content)
  writeFileSync(paths[role](), isText ? content : JSON.stringify({ mcpServers: content }))
}

function createAgent(config = {}) {
  const agent = createLiteAgent({ workdir, home, model: fakeProvider([]), permission: policy({}), ...config })
  agents.push(agent)
  return agent
}

function refusal(config) {
  try {
    createAgent(config)
  } catch (error) {
    expect(error.message).not.toContain('s3cr3t')
    return error
  }
  throw new Error('the configuration was taken')
}

const sourcesOf = (agent) => agent.mcp.list().map(({ name, source }) => [name, source])
const http = (host) => ({ type: 'http', url: `https://${host}.example/mcp` })

test('servers of every source work together, in the order of their sources', async () => {
  const servers = ['one', 'two', 'three', 'four'].map(() => bench.stdio('official-stdio'))
  const [one, two, three, four] = servers.map((server) => server.config)
  write('global', { one, same: two })
  // The byte order mark of an editor, and the same content written in another way.
  write('project', `\u{feff}${JSON.stringify({ mcpServers: { two: three, same: { type: 'stdio', ...two } } })}`)
  const names = ['one', 'same', 'two', 'three', 'four']
  const calls = names.map((name, index) => [`mcp__${name}__add`, { a: index, b: 1 }])
  const agent = createAgent({
    model: fakeProvider([callsTurn(...calls), textTurn('end')]),
    mcpServers: { three: four, one },
  })
  expect(sourcesOf(agent)).toEqual([
    ['one', 'global'],
    ['same', 'global'],
    ['two', 'project'],
    ['three', 'constructor'],
  ])
  expect(servers.some((server) => server.wasTouched())).toBe(false)
  await agent.mcp.register('four', bench.stdio('official-stdio').config)
  await expect(agent.mcp.register('two', three)).rejects.toMatchObject({
    code: 'MCP_EXISTS',
    message: expect.stringContaining('already registered'),
  })
  const results = resultsOf(await collect(agent.run('go')))
  expect(results.map((result) => JSON.parse(result.content).content[0].text).sort()).toEqual(['1', '2', '3', '4', '5'])
  expect(sourcesOf(agent).at(-1)).toEqual(['four', 'instance'])
})

test('files are read once, when the agent is made', async () => {
  write('project', { docs: http('a') })
  const agent = createAgent()
  write('project', '{')
  expect(sourcesOf(agent)).toEqual([['docs', 'project']])
  rmSync(paths.project())
  expect(sourcesOf(agent)).toEqual([['docs', 'project']])
  expect(sourcesOf(createAgent())).toEqual([])
})

test('a connection says which file asked for it', async () => {
  write('project', { docs: http('a') })
  const asked = []
  const agent = createAgent({
    permission: undefined,
    onApproval: {
      request: async (call) => {
        asked.push(call.input)
        return 'deny'
      },
    },
  })
  await expect(agent.send('go')).rejects.toMatchObject({ code: 'MCP_DENIED' })
  expect(asked).toEqual([
    { server: 'docs', source: 'project', type: 'http', origin: 'https://a.example', headerKeys: [] },
  ])
})

test('strictMcpConfig ignores both files, broken or not', () => {
  write('global', { a: http('a') })
  write('project', '{')
  expect(sourcesOf(createAgent({ strictMcpConfig: true, mcpServers: { c: http('c') } }))).toEqual([
    ['c', 'constructor'],
  ])
  for (const strictMcpConfig of [false, undefined]) {
    expect(refusal({ strictMcpConfig })).toBeInstanceOf(ConfigError)
  }
})

test('mcpTransports refuses any other transport, whatever its source', async () => {
  const only = { mcpTransports: ['http'] }
  const local = { command: 's3cr3t' }
  const refused = { code: 'MCP_TRANSPORT', message: expect.stringContaining('transport') }
  write('global', { web: http('a') })
  const agent = createAgent(only)
  await expect(agent.mcp.register('local', local)).rejects.toMatchObject(refused)
  expect(sourcesOf(agent)).toEqual([['web', 'global']])
  expect(refusal({ ...only, mcpServers: { local } })).toMatchObject(refused)
  for (const role of ['global', 'project']) {
    write(role, { local })
    const error = refusal(only)
    expect(error).toBeInstanceOf(McpError)
    expect(error).toMatchObject(refused)
    expect(error.message).toContain(`${role} mcps.json, line 1, column 16, at /mcpServers/local: `)
    rmSync(paths[role]())
  }
  expect(refusal({ mcpTransports: [], mcpServers: { docs: http('a') } })).toMatchObject(refused)
})

test('different declarations of one name conflict, and both sources are named', () => {
  const pairs = [
    ['global', 'project'],
    ['global', 'constructor'],
    ['project', 'constructor'],
  ]
  for (const [first, second] of pairs) {
    const given = { [first]: { docs: http('s3cr3t') }, [second]: { docs: { command: 's3cr3t' } } }
    for (const role of ['global', 'project']) write(role, given[role] ?? {})
    const error = refusal({ mcpServers: Object.hasOwn(given, 'constructor') ? given.constructor : {} })
    expect(error).toBeInstanceOf(McpError)
    expect(error).toMatchObject({ code: 'MCP_CONFLICT' })
    expect(error.message).toMatch(new RegExp(`"docs".*Conflicting.*${first}.*${second}`))
  }
})

test('at most 32 servers remain after merging', () => {
  const some = (from, to) =>
    Object.fromEntries(Array.from({ length: to - from }, (_, i) => [`s${from + i}`, http(`h${from + i}`)]))
  write('global', some(0, 20))
  write('project', some(15, 30))
  expect(sourcesOf(createAgent({ mcpServers: some(30, 32) })).length).toBe(32)
  const error = refusal({ mcpServers: some(30, 33) })
  expect(error).toMatchObject({ code: 'MCP_LIMIT', message: expect.stringContaining('32') })
})

describe.each(['global', 'project'])('a %s file is refused', (role) => {
  const text = JSON.stringify({ mcpServers: { a: { command: 'x' } } })
  test.each([
    ['cut off', text.slice(0, -6), 'line 1, column 31: is not valid JSON'],
    ['a comment', '{\n  // s3cr3t\n}', 'line 2, column 3: is not valid JSON: .*comments are not allowed'],
    ['a trailing comma', '{ "mcpServers": {},\n}', 'line 1, column 19: .*trailing comma.*remove'],
    ['not UTF-8', Buffer.from([0x7b, 0x0a, 0xff]), 'line 2, column 1: .*UTF-8'],
    ['too large', text.padEnd(256 * 1024 + 1), 'too large.*256 KiB'],
    ['another top-level key', '{ "mcpServers": {},\n "x": "s3cr3t" }', 'line 2, column 2, at /x: unknown key'],
    ['no mcpServers', '{}', 'line 1, column 1: has no "mcpServers"'],
    [
      'a key twice',
      '{ "mcpServers": { "a": {},\n"a": {} } }',
      'line 2, column 1, at /mcpServers/a: this key is there twice',
    ],
    [
      'bad entries, all told',
      '{ "mcpServers": {\n"bad": { "args": [] },\n"ok": { "command": "x" },\n"b": { "url": "https://s3cr3t" } } }',
      'line 2, column 1, at /mcpServers/bad: has no command.*line 4, column 1, at /mcpServers/b: .*"type": "http"',
    ],
    [
      'a misspelt key',
      '{"mcpServers":{"a":{"command":"x",\n"timeout":1}}}',
      'line 2, column 1, at /mcpServers/a/timeout.*timeoutMs',
    ],
  ])('%s', (_, content, message) => {
    write(role, content)
    const error = refusal({ mcpServers: { c: http('c') } })
    expect(error.message).toMatch(new RegExp(`^${role} mcps\\.json(: |, ).*${message}`))
    expect(error).toMatchObject({ name: 'ConfigError', code: 'CONFIG_INVALID' })
    rmSync(paths[role]())
    expect(sourcesOf(createAgent())).toEqual([])
  })

  test.each([
    ['plaintext', http('a').url.replace('https', 'http'), {}, 'MCP_INSECURE_URL', 'url'],
    ['a reserved header', http('a').url, { 'Mcp-X': 's3cr3t' }, 'MCP_RESERVED', 'headers/Mcp-X'],
  ])('%s', (_, url, headers, code, path) => {
    write(role, { web: { type: 'http', url, headers } })
    const error = refusal()
    expect(error).toMatchObject({ name: 'McpError', code })
    expect(error.message).toContain(`${role} mcps.json, line 1, column `)
    expect(error.message).toContain(`, at /mcpServers/web/${path}: `)
  })

  test('a symbolic link, and what is no file', () => {
    const target = join(bench.directory, 'target.json')
    writeFileSync(target, text)
    symlinkSync(target, paths[role]())
    expect(refusal()).toMatchObject({ code: 'CONFIG_INVALID', message: expect.stringMatching(/symbolic link/) })
    rmSync(paths[role]())
    mkdirSync(paths[role]())
    expect(refusal().message).toBe(`${role} mcps.json: is not a file`)
  })
})

test('the home of a host that names none is $LITE_AGENT_HOME, or .lite-agent in the user’s own', async () => {
  const user = join(bench.directory, 'user')
  mkdirSync(join(user, '.lite-agent'), { recursive: true })
  writeFileSync(join(user, '.lite-agent', 'mcps.json'), JSON.stringify({ mcpServers: { own: http('a') } }))
  write('global', { named: http('a') })
  const list = async (env) => {
    const child = fileURLToPath(new URL('children/list.mjs', import.meta.url))
    const options = { cwd: workdir, env: { ...process.env, HOME: user, USERPROFILE: user, ...env }, timeout: 20_000 }
    return JSON.parse((await promisify(execFile)(process.execPath, [child], options)).stdout)
  }
  expect(await list({ LITE_AGENT_HOME: home })).toEqual(['named'])
  expect(await list({ LITE_AGENT_HOME: '' })).toEqual(['own'])
})
