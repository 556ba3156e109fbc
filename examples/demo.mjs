// The demo: one agent, two MCP servers (stdio and HTTP), one tool of our own, an approval prompt.
//
// Works offline: the model is a script, in demo/model.mjs. One result is too large for a model and is read from
// the archive, one call is cancelled. At the end the servers' own logs are compared with what the agent reported.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import { createLiteAgent, policy, tool } from '@lite-agent/sdk'
import { z } from 'zod'
import { scriptedModel } from './demo/model.mjs'
import { bold, createScreen, green, red, table, toolTitle, yellow } from './demo/screen.mjs'

const help = `Usage: npm run demo -- [options]

An agent buys a book: it searches a shelf (an MCP server over stdio), asks a shop for prices
(an MCP server over HTTP), reserves the best offer, reads the book page by page and writes a receipt.
Then it waits for a price to change until it is cancelled. Nothing leaves this machine.

  --yes      answer every approval prompt with "yes"
  --help     show this text`

const { values: options } = parseArgs({ options: { yes: { type: 'boolean' }, help: { type: 'boolean' } } })
if (options.help) {
  console.log(help)
  process.exit(0)
}

const screen = createScreen()
const scratch = mkdtempSync(join(tmpdir(), 'lite-agent-demo-'))
const logs = { shelf: join(scratch, 'shelf.log'), shop: join(scratch, 'shop.log') }
const serverFile = (name) => fileURLToPath(new URL(`servers/${name}.mjs`, import.meta.url))

/** Starts the shop and resolves to its address. */
async function openShop() {
  const process_ = spawn(process.execPath, [serverFile('shop-http'), logs.shop], { stdio: ['pipe', 'pipe', 'inherit'] })
  for await (const line of createInterface({ input: process_.stdout })) {
    const port = line.match(/^PORT=(\d+)$/)?.[1]
    if (port) return { url: `http://127.0.0.1:${port}/mcp`, close: () => process_.stdin.end() }
  }
  throw new Error('the shop ended before it was open')
}

/** Asks on the terminal; `--yes` answers by itself, and without a terminal the answer is no. */
function createApproval() {
  let isAllAllowed = options.yes === true
  let hasExplained = false
  return {
    async request(call, signal) {
      if (isAllAllowed) return 'allow'
      if (!process.stdin.isTTY) {
        if (!hasExplained)
          screen.print(yellow('  No terminal to ask on, so the answer is no. Run with --yes to allow everything.'))
        hasExplained = true
        return 'deny'
      }
      const prompt = createInterface({ input: process.stdin, output: process.stdout })
      try {
        const reply = (await screen.ask(call, () => prompt.question('    [y]es, [n]o, yes to [a]ll: ', { signal })))
          .trim()
          .toLowerCase()
        isAllAllowed = reply.startsWith('a')
        return isAllAllowed || reply.startsWith('y') ? 'allow' : 'deny'
      } finally {
        prompt.close()
      }
    },
  }
}

const receipt = tool(
  'receipt',
  'Writes the receipt for a reserved book',
  z.object({ reservation: z.string(), title: z.string(), dedication: z.string(), cents: z.number().int() }),
  ({ reservation, title, dedication, cents }) =>
    `Receipt ${reservation}: "${title}" (${dedication}), ${(cents / 100).toFixed(2)} €.`,
)

function readLog(file) {
  if (!existsSync(file)) return []
  return readFileSync(file, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}

const sorted = (entries) => entries.map((entry) => JSON.stringify(entry)).sort()

const check = (isTrue, text) => {
  screen.print(`  ${isTrue ? green('✓') : red('✗')} ${text}`)
  return isTrue
}

/** Compares what each server logged with the calls that the agent announced. */
function confirm(announced) {
  let isConfirmed = true
  for (const [server, file] of Object.entries(logs)) {
    const prefix = `mcp__${server}__`
    const expected = announced
      .filter((call) => call.name.startsWith(prefix))
      .map((call) => ({ tool: call.name.slice(prefix.length), input: call.input }))
    const received = readLog(file).filter((entry) => entry.tool)
    const isSame = expected.length > 0 && isDeepStrictEqual(sorted(received), sorted(expected))
    isConfirmed &&= check(isSame, `${server}: ${received.length} calls in its log, ${expected.length} expected`)
  }
  return isConfirmed
}

/** Waits until something is true, for five seconds at most. */
async function within5s(isTrue) {
  const until = Date.now() + 5000
  while (!isTrue() && Date.now() < until) await delay(20)
  return isTrue()
}

const isAlive = (pid) => {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

async function main() {
  const shop = await openShop()
  const agent = createLiteAgent({
    workdir: scratch,
    home: join(scratch, 'home'),
    strictMcpConfig: true,
    model: scriptedModel,
    mcpServers: {
      shelf: { command: process.execPath, args: [serverFile('shelf-stdio'), logs.shelf] },
      shop: { type: 'http', url: shop.url },
    },
    tools: [receipt],
    permission: policy({
      allow: ['receipt', 'context', 'mcp__shelf__find_books', 'mcp__shelf__read_book', 'mcp__shop__*'],
      default: 'ask',
    }),
    onApproval: createApproval(),
  })
  const interrupted = new AbortController()
  process.once('SIGINT', () => interrupted.abort())
  const announced = new Map()

  /** One request: shows its events, and gives up when `isEnough` says so. */
  async function run(request, isEnough = () => false) {
    screen.print(`\n${bold('You')}: ${request}`)
    const cancel = new AbortController()
    const signal = AbortSignal.any([interrupted.signal, cancel.signal])
    for await (const event of agent.run(request, { signal })) {
      screen.event(event)
      if (event.type === 'tool_use') announced.set(event.call.id, event.call)
      // A call that was refused must not have reached its server.
      if (event.type === 'approval_resolved' && event.decision !== 'allow') announced.delete(event.id)
      if (isEnough(event)) {
        screen.print(`  ${yellow('That is enough: the call is cancelled.')}`)
        cancel.abort()
      }
    }
  }

  try {
    await run('Please reserve a book about the sea for at most 18 euros.')
    // Whoever denied everything has no list of books to watch.
    const isServed = [...announced.values()].some((call) => call.name === 'receipt')
    let looks = 0
    if (isServed) {
      const isThirdLook = (event) => event.type === 'tool_progress' && ++looks === 3
      await run('Tell me when the price of Nine Lighthouses changes.', isThirdLook)
    }

    screen.print(`\n${bold('Servers')}`)
    const rows = agent.mcp
      .list()
      .map(({ name, source, status, toolNames }) => [name, source, status, toolNames.map(toolTitle).join(', ')])
    screen.print(table([['name', 'source', 'status', 'tools'], ...rows]))

    screen.print(`\n${bold('Servers’ own logs')}`)
    const isConfirmed = confirm([...announced.values()])
    const wasTold = () => readLog(logs.shop).some((entry) => entry.cancelled)
    const isCancelled = isServed && check(await within5s(wasTold), 'shop: it was told of the cancelled call')

    screen.print(`\n${bold('Shutdown')}`)
    const [{ pid } = {}] = readLog(logs.shelf)
    await agent.close()
    const isGone = check(pid !== undefined && !isAlive(pid), 'closed: the process of shelf is gone')
    return isConfirmed && isCancelled && isGone
  } finally {
    screen.clear()
    await agent.close()
    shop.close()
    rmSync(scratch, { recursive: true, force: true })
  }
}

try {
  process.exitCode = (await main()) ? 0 : 1
} catch (error) {
  screen.print(`\n${red('✗')} ${error.code ? `${error.code}: ` : ''}${error.message}`)
  process.exitCode = 1
}
