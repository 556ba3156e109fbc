// `npm test`: builds, runs every suite, adds the numbers up.
//
// The last line is `N passed, N failed`. A runner that reports no number counts as a failure.
// With LITE_AGENT_COUNTS set, `passed failed` is also written to that file.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { build, main, root } from './build.mjs'

const isWindows = process.platform === 'win32'
const scratch = mkdtempSync(join(tmpdir(), 'lite-agent-test-'))
const totals = { passed: 0, failed: 0 }

const tool = (name) => join(root, 'node_modules', '.bin', isWindows ? `${name}.cmd` : name)

/** Runs a command, shows its output and keeps it. */
function show(command, args) {
  return new Promise((resolve) => {
    let output = ''
    const child = spawn(command, args, { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], shell: isWindows })
    for (const [stream, sink] of [
      [child.stdout, process.stdout],
      [child.stderr, process.stderr],
    ]) {
      stream.setEncoding('utf8').on('data', (text) => {
        output += text
        sink.write(text)
      })
    }
    child.on('error', (error) => resolve({ status: 1, output: `${output}\n${error.message}` }))
    child.on('close', (status) => resolve({ status: status ?? 1, output: stripVTControlCharacters(output) }))
  })
}

async function suite(title, command, args, count) {
  console.log(`\n── ${title}`)
  const { status, output } = await show(command, args)
  let numbers
  try {
    numbers = count(output, status)
  } catch (error) {
    console.error(`${title}: no readable numbers (${error.message})`)
  }
  if (!numbers || numbers.passed + numbers.failed === 0) {
    console.error(`${title}: reported no number of tests`)
    numbers = { passed: 0, failed: 1 }
  } else if (status !== 0 && numbers.failed === 0) {
    console.error(`${title}: ended with exit code ${status} although no test failed`)
    numbers.failed = 1
  }
  totals.passed += numbers.passed
  totals.failed += numbers.failed
}

const number = (output, pattern) => Number(output.match(pattern)?.[1] ?? 0)

function countNextest(output) {
  const summary = output.match(/Summary \[.*?\] (.*)/)?.[1]
  if (!summary) return undefined
  const bad = ['failed', 'timed out', 'exec failed'].map((word) => number(summary, new RegExp(`(\\d+) ${word}`)))
  return { passed: number(summary, /(\d+) passed/), failed: bad.reduce((sum, value) => sum + value, 0) }
}

function countCargo(output) {
  const numbers = { passed: 0, failed: 0 }
  for (const [, passed, failed] of output.matchAll(/test result: .*? (\d+) passed; (\d+) failed/g)) {
    numbers.passed += Number(passed)
    numbers.failed += Number(failed)
  }
  return numbers
}

const countCheck = (_, status) => (status === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 })

function countTap(output) {
  if (!/^1\.\.\d+/m.test(output)) return undefined
  return { passed: number(output, /^# pass (\d+)/m), failed: number(output, /^# fail (\d+)/m) }
}

function rustSuite() {
  const scope = ['--locked', '--workspace']
  return spawnSync('cargo', ['nextest', '--version'], { cwd: root, stdio: 'ignore' }).status === 0
    ? suite('Rust', 'cargo', ['nextest', 'run', ...scope, '--cargo-profile', 'fast'], countNextest)
    : suite('Rust', 'cargo', ['test', ...scope, '--profile', 'fast'], countCargo)
}

async function vitestSuite() {
  const report = join(scratch, 'vitest.json')
  await suite(
    'vitest',
    tool('vitest'),
    ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${report}`],
    () => {
      const { numPassedTests, numFailedTests, testResults } = JSON.parse(readFileSync(report, 'utf8'))
      // A file that cannot be loaded holds no test but has failed all the same.
      const broken = testResults.filter((file) => file.status === 'failed' && file.assertionResults.length === 0)
      return { passed: numPassedTests, failed: numFailedTests + broken.length }
    },
  )
}

await main(async () => {
  try {
    build()
    await rustSuite()
    for (const project of ['tsconfig.json', join('__test__', 'types', 'tsconfig.json')]) {
      if (existsSync(join(root, project))) await suite(`tsc ${project}`, tool('tsc'), ['-p', project], countCheck)
    }
    await vitestSuite()
    await suite('ava', tool('ava'), ['--tap'], countTap)
  } catch (error) {
    totals.failed += 1
    throw error
  } finally {
    rmSync(scratch, { recursive: true, force: true })
    if (process.env.LITE_AGENT_COUNTS)
      writeFileSync(process.env.LITE_AGENT_COUNTS, `${totals.passed} ${totals.failed}\n`)
    if (totals.failed > 0) process.exitCode = 1
    process.on('exit', () => console.log(`${totals.passed} passed, ${totals.failed} failed`))
  }
})
