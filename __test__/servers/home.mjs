// Before all vitest files: an agent that names no home keeps its sessions in a scratch one, never in the user's own.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export default function setup() {
  const home = mkdtempSync(join(tmpdir(), 'lite-agent-home-'))
  process.env.LITE_AGENT_HOME = home
  return () => rmSync(home, { recursive: true, force: true })
}
