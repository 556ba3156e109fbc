// What a test needs around its servers: a scratch directory, declarations, logs, processes, and waiting.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export const serverFile = (name) => fileURLToPath(new URL(`${name}.mjs`, import.meta.url))

/** A directory of the test's own, with `dispose()`, log files and servers that end with it. */
export function createBench() {
  const directory = mkdtempSync(join(tmpdir(), 'lite-agent-e2e-'))
  const running = []
  let count = 0
  const freshLog = () => join(directory, `server-${++count}.log`)

  return {
    directory,

    /** A declaration of a stdio server and a reader of its log. */
    stdio(name, options = {}, declaration = {}) {
      const log = freshLog()
      const args = [serverFile(name), JSON.stringify({ log, ...options })]
      return { config: { command: process.execPath, args, ...declaration }, ...logReader(log) }
    },

    /** Starts an HTTP server; resolves to its declaration and a reader of its log. */
    async http(name, options = {}, declaration = {}) {
      const log = freshLog()
      const child = spawn(process.execPath, [serverFile(name), JSON.stringify({ log, ...options })], {
        stdio: ['pipe', 'pipe', 'inherit'],
      })
      running.push(child)
      const port = await new Promise((resolve, reject) => {
        createInterface({ input: child.stdout }).on('line', (line) => {
          const found = line.match(/^PORT=(\d+)$/)
          if (found) resolve(found[1])
        })
        child.once('exit', () => reject(new Error(`${name} ended before it listened`)))
      })
      const url = `http://127.0.0.1:${port}/mcp`
      return { config: { type: 'http', url, ...declaration }, url, child, ...logReader(log) }
    },

    dispose() {
      for (const child of running) child.kill('SIGKILL')
      rmSync(directory, { recursive: true, force: true })
    },
  }
}

function logReader(log) {
  const entries = () =>
    existsSync(log)
      ? readFileSync(log, 'utf8')
          .split('\n')
          .slice(0, -1)
          .map((line) => JSON.parse(line))
      : []
  const messages = (method) =>
    entries()
      .map((entry) => entry.message)
      .filter((message) => message && (method === undefined || message.method === method))
  return {
    log,
    entries,
    messages,
    /** The process ids of all the times this server was started. */
    pids: () =>
      entries()
        .filter((entry) => entry.started)
        .map((entry) => entry.pid),
    wasTouched: () => existsSync(log),
  }
}

/** Waits for a condition, at most `withinMs`. */
export async function until(condition, { withinMs = 10_000, what = String(condition) } = {}) {
  const deadline = Date.now() + withinMs
  for (;;) {
    const value = await condition()
    if (value) return value
    if (Date.now() > deadline) throw new Error(`not within ${withinMs} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

/** State, parent and group of a process; undefined when it is gone. */
function processState(pid) {
  try {
    // The fields after the command, which stands in parentheses.
    const [state, parent, group] = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return { isZombie: state === 'Z', parent: Number(parent), group: Number(group) }
  } catch {
    return undefined
  }
}

/** Whether a process is there. A zombie counts, unless init inherited it: that one is not ours to reap. */
export function isAlive(pid) {
  const found = processState(pid)
  return found !== undefined && !(found.isZombie && found.parent === 1)
}

/** The processes of a group that are alive in the sense of `isAlive`. */
export function groupMembers(group) {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => processState(pid)?.group === group && isAlive(pid))
}

/** A model turn that makes calls: `[name, input]` pairs; the ids are call-1, call-2, … */
export function callsTurn(...calls) {
  const content = calls.map(([name, input], index) => ({ type: 'tool_call', id: `call-${index + 1}`, name, input }))
  return { message: { role: 'assistant', content } }
}

/** A model turn that ends the run. */
export const textTurn = (text) => ({ text, message: { role: 'assistant', content: [{ type: 'text', text }] } })

/** All events of a run. */
export async function collect(run) {
  const events = []
  for await (const event of run) events.push(event)
  return events
}

export const ofType = (events, type) => events.filter((event) => event.type === type)
export const resultsOf = (events) => ofType(events, 'tool_result').map((event) => event.result)
