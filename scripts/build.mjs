// Builds the addon and puts it where index.js looks for it; for daily work also the gateway.
//
// Owns: npm packages and the Rust tool chain being there, the cargo calls, the file names per platform.
import { execFileSync, spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

export const root = fileURLToPath(new URL('..', import.meta.url))
const isWindows = process.platform === 'win32'

/** A step that cannot go on; the message says what to do. */
export class BuildError extends Error {}

function run(command, args) {
  const { status, error } = spawnSync(command, args, {
    cwd: root,
    stdio: 'inherit',
    shell: isWindows && command === 'npm',
  })
  if (error) throw new BuildError(`cannot start ${command}: ${error.message}`)
  if (status !== 0) throw new BuildError(`"${[command, ...args].join(' ')}" failed (exit code ${status})`)
}

const modifiedAt = (path) => statSync(path).mtimeMs

/** Installs the npm packages when they are missing or older than the lock file. */
export function ensurePackages() {
  const marker = join(root, 'node_modules', '.package-lock.json')
  if (existsSync(marker) && modifiedAt(marker) >= modifiedAt(join(root, 'package-lock.json'))) return
  console.log('Installing npm packages (npm ci)')
  run('npm', ['ci', '--no-audit', '--no-fund'])
}

function ensureCargo() {
  const probe = spawnSync('cargo', ['--version'], { cwd: root, encoding: 'utf8' })
  if (probe.status === 0) return
  throw new BuildError(
    probe.error
      ? 'cargo is not on the PATH. The addon is built from Rust sources: install a stable tool chain (1.88 or later) with rustup, see https://rustup.rs, and run this again.'
      : `cargo does not work here: ${probe.stderr.trim()}`,
  )
}

function isMusl() {
  return process.platform === 'linux' && !process.report.getReport().header.glibcVersionRuntime
}

/** The file name under which index.js looks for the addon, for example `lite-agent.linux-x64-gnu.node`. */
export function addonName() {
  const suffix = { linux: isMusl() ? '-musl' : '-gnu', win32: '-msvc' }[process.platform] ?? ''
  return `lite-agent.${process.platform}-${process.arch}${suffix}.node`
}

function libraryName() {
  if (isWindows) return 'lite_agent_node.dll'
  return `liblite_agent_node.${process.platform === 'darwin' ? 'dylib' : 'so'}`
}

function targetDirectory() {
  const metadata = execFileSync('cargo', ['metadata', '--no-deps', '--format-version', '1', '--locked', '--offline'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 << 20,
  })
  return JSON.parse(metadata).target_directory
}

/** A rename replaces the file at once: a process that has the old one loaded keeps it. */
function place(source, target) {
  if (existsSync(target) && readFileSync(target).equals(readFileSync(source))) return
  const fresh = `${target}.${process.pid}.tmp`
  try {
    copyFileSync(source, fresh)
    renameSync(fresh, target)
  } finally {
    rmSync(fresh, { force: true })
  }
}

/** The gateway's program, as `build()` leaves it. */
export function gatewayPath() {
  return join(targetDirectory(), 'fast', isWindows ? 'lite-gateway.exe' : 'lite-gateway')
}

/** Builds the addon with the given cargo profile and returns its path. */
export function build({ profile = 'fast' } = {}) {
  ensurePackages()
  ensureCargo()
  // A release is what people run; every other build also has the faults that the test suite plants.
  const daily = profile === 'release' ? [] : ['-p', 'lite-gateway', '--features', 'lite-agent-node/faults']
  run('cargo', ['build', '--locked', '-p', 'lite-agent-node', '--profile', profile, ...daily])
  const target = join(root, addonName())
  place(join(targetDirectory(), profile, libraryName()), target)
  return target
}

/** Runs a script's main function; a BuildError ends the process with its message alone. */
export async function main(body) {
  try {
    await body()
  } catch (error) {
    console.error(error instanceof BuildError ? `\n${error.message}` : error)
    process.exitCode = 1
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  await main(() => {
    build({ profile: process.argv.includes('--release') ? 'release' : 'fast' })
    console.log(`Built ${addonName()}`)
  })
}
