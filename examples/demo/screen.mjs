// How the demo shows an agent's events: colours and a live progress line on a terminal, plain lines elsewhere.
import { clearLine, cursorTo } from 'node:readline'

// A reader that went away (`| head`) ends the demo quietly.
process.stdout.on('error', () => process.exit(1))

const isTerminal = process.stdout.isTTY === true
const hasColour = isTerminal && !process.env.NO_COLOR
const paint = (code) => (text) => (hasColour ? `\u001b[${code}m${text}\u001b[0m` : String(text))

export const bold = paint(1)
export const dim = paint(2)
export const red = paint(31)
export const green = paint(32)
export const yellow = paint(33)
export const cyan = paint(36)

const pad = (text, width) => text + ' '.repeat(Math.max(0, width - text.length))
const shorten = (text, width) => (text.length > width ? `${text.slice(0, width - 1)}…` : text)
const bar = (share) => '▰'.repeat(Math.round(share * 10)).padEnd(10, '▱')
const duration = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`)

/** `mcp__shelf__find_books` reads better as `shelf › find_books`. */
export function toolTitle(name) {
  const [, server, tool] = name.match(/^mcp__(.+?)__(.+)$/) ?? []
  return server ? `${server} › ${tool}` : name
}

/** A table with aligned columns; the first row is the head. */
export function table([head, ...rows]) {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => row[column].length)))
  const line = (row) =>
    row
      .map((cell, column) => pad(cell, widths[column]))
      .join('  ')
      .trimEnd()
  return [dim(line(head)), dim(widths.map((width) => '─'.repeat(width)).join('  ')), ...rows.map(line)]
    .map((text) => `  ${text}`)
    .join('\n')
}

export function createScreen() {
  const calls = new Map()
  const requests = new Map()
  /** Lines that came while a prompt was open; undefined when none is. */
  let held
  let isInText = false
  let hasLiveLine = false

  function clearLive() {
    if (!hasLiveLine) return
    clearLine(process.stdout, 0)
    cursorTo(process.stdout, 0)
    hasLiveLine = false
  }

  function print(line = '') {
    if (held) return held.push(line)
    clearLive()
    if (isInText) process.stdout.write('\n')
    isInText = false
    console.log(line)
  }

  /** What is known of a request for approval; `shown` resolves when its events have been printed. */
  function requestOf(id) {
    if (!requests.has(id)) {
      const request = { title: '' }
      request.shown = new Promise((resolve) => {
        request.show = resolve
      })
      requests.set(id, request)
    }
    return requests.get(id)
  }

  /** Asks a question with the screen held still; lines that come meanwhile are printed after it. */
  async function ask(call, question) {
    await requestOf(call.id).shown
    print(`    ${dim(JSON.stringify(call.input))}`)
    held = []
    try {
      return await question()
    } finally {
      const lines = held
      held = undefined
      for (const line of lines) print(line)
    }
  }

  const row = (sign, name, rest) => print(`  ${sign} ${pad(toolTitle(name), 20)} ${rest}`)

  const show = {
    turn_start: ({ turn }) => print(`\n${bold(`Turn ${turn}`)}`),
    text_delta({ text }) {
      if (held) return held.push(`  ${text}`)
      clearLive()
      process.stdout.write(isInText ? text : `  ${text}`)
      isInText = true
    },
    tool_use({ call }) {
      calls.set(call.id, call)
      row(cyan('→'), call.name, dim(shorten(JSON.stringify(call.input), 60)))
    },
    permission_decision({ call, decision, by, reason }) {
      if (by === 'policy' && decision === 'allow' && call.name !== 'mcp_connect') return
      const title = call.name === 'mcp_connect' ? `connect ${call.input.server}` : call.name
      requestOf(call.id).title = title
      const why = reason ? dim(` (${shorten(reason, 60)})`) : ''
      if (decision === 'ask') row(yellow('?'), title, yellow('asks for approval') + why)
      else if (decision === 'allow') row(green('✓'), title, green(`allowed by ${by}`) + why)
      else row(red('✗'), title, red(`denied by ${by}`) + why)
    },
    approval_request: ({ call }) => requestOf(call.id).show(),
    approval_resolved({ id, decision, by }) {
      const title = requestOf(id).title
      if (decision === 'allow') row(green('✓'), title, green(`allowed by ${by}`))
      else row(red('✗'), title, red(`denied by ${by}`))
    },
    tool_progress({ name, progress, total, message }) {
      const steps = total ? `${progress}/${total}` : String(progress)
      if (!isTerminal) return print(`  · ${pad(toolTitle(name), 20)} ${steps} ${message ?? ''}`)
      if (held) return
      clearLive()
      const line = `${pad(toolTitle(name), 20)} ${total ? `${bar(progress / total)} ` : ''}${steps} ${message ?? ''}`
      process.stdout.write(`  ${cyan('⋯')} ${dim(shorten(line, 70))}`)
      hasLiveLine = true
    },
    tool_call_end({ id, name, durationMs, isError }) {
      const { id: item, offset } = calls.get(id)?.input ?? {}
      const what = item ?? (offset === undefined ? '' : `from character ${offset}`)
      row(isError ? red('✗') : green('✓'), name, `${pad(duration(durationMs), 8)} ${dim(isError ? 'failed' : what)}`)
    },
    diagnostic: ({ level, code, message }) => print(`  ${yellow('!')} ${level} ${code}: ${message}`),
    // A fatal one is thrown as well, and shown where it is caught.
    error: ({ error, fatal }) => fatal || print(`  ${red('✗')} ${error?.message ?? String(error)}`),
  }

  return { print, ask, event: (event) => show[event.type]?.(event), clear: clearLive }
}
