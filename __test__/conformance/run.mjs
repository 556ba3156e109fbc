// `npm run conformance`: the official suite against driver.mjs, scenario by scenario; writes result.md.
//
// The suite needs Node.js 22; both come through `npm exec` and are no dependencies of this package.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { leftOut, run } from './scenarios.mjs'

const SUITE = '@modelcontextprotocol/conformance@0.2.0-alpha.12'
const REVISION = '2026-07-28'
const here = (name) => fileURLToPath(new URL(name, import.meta.url))

if (process.argv[2] !== '--inside') {
  const command = `node ${JSON.stringify(here('run.mjs'))} --inside`
  const args = ['exec', '--yes', '--package', SUITE, '--package', 'node@22', '--call', command]
  const { status } = spawnSync('npm', args, { stdio: 'inherit', shell: process.platform === 'win32' })
  process.exit(status ?? 1)
}

const scratch = mkdtempSync(join(tmpdir(), 'lite-agent-conformance-'))
const suite = (args) => spawnSync('conformance', args, { encoding: 'utf8', shell: process.platform === 'win32' })

/** Every check of one scenario, counted by status. */
function checksOf(output) {
  const [directory] = readdirSync(output, { recursive: true }).filter((name) => name.endsWith('checks.json'))
  const counts = { SUCCESS: 0, FAILURE: 0, WARNING: 0 }
  for (const { status } of directory ? JSON.parse(readFileSync(join(output, directory), 'utf8')) : []) {
    if (status in counts) counts[status] += 1
  }
  return counts
}

function runScenario(scenario) {
  const output = mkdtempSync(join(scratch, 'scenario-'))
  const command = `node ${here('driver.mjs')}`
  const args = ['client', '--command', command, '--scenario', scenario, '--spec-version', REVISION, '--force']
  const { status, stdout, stderr } = suite([...args, '--output-dir', output])
  const { SUCCESS, FAILURE, WARNING } = checksOf(output)
  const passed = status === 0 && FAILURE === 0 && SUCCESS > 0
  console.log(
    `${passed ? 'passed' : 'FAILED'}  ${scenario}: ${SUCCESS} checks passed, ${FAILURE} failed, ${WARNING} warnings`,
  )
  if (!passed) console.log(stdout.slice(-3000), stderr.slice(-3000))
  return { scenario, passed, SUCCESS, FAILURE, WARNING }
}

/** The scenarios that the suite has for this revision and nobody here has thought about. */
function unknown() {
  const { stdout } = suite(['list', '--client', '--spec-version', REVISION])
  const all = [...stdout.matchAll(/^ {2}- (\S+)/gm)].map(([, name]) => name)
  if (all.length === 0) return ['the suite lists no scenario']
  return all.filter((name) => !run.includes(name) && !(name in leftOut))
}

try {
  const results = run.map(runScenario)
  const missing = unknown()
  const rows = results.map(({ scenario, passed, SUCCESS, FAILURE, WARNING }) => {
    return `| \`${scenario}\` | ${passed ? 'passed' : 'failed'} | ${SUCCESS} | ${FAILURE} | ${WARNING} |`
  })
  const reasons = Object.entries(leftOut).map(([scenario, reason]) => `| \`${scenario}\` | ${reason} |`)
  const text = [
    '# Conformance',
    '',
    `\`${SUITE}\`, \`--spec-version ${REVISION}\`, client scenarios. Written by \`npm run conformance\`.`,
    '',
    '| scenario | result | checks passed | failed | warnings |',
    '| --- | --- | --- | --- | --- |',
    ...rows,
    '',
    '## Left out',
    '',
    '| scenario | reason |',
    '| --- | --- |',
    ...reasons,
    '',
  ]
  writeFileSync(here('result.md'), text.join('\n'))
  const failed = results.filter(({ passed }) => !passed).length + missing.length
  for (const name of missing) console.log(`FAILED  ${name}: neither run nor left out`)
  console.log(`${results.length - results.filter(({ passed }) => !passed).length} passed, ${failed} failed`)
  process.exitCode = failed === 0 ? 0 : 1
} finally {
  rmSync(scratch, { recursive: true, force: true })
}
