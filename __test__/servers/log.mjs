// The log that every test server keeps: one JSON line per thing that happened.
//
// Options come as one JSON argument: `{ log, ... }`. Without `log` nothing is written.
import { appendFileSync } from 'node:fs'

export const options = JSON.parse(process.argv[2] ?? '{}')

export function record(entry) {
  if (options.log) appendFileSync(options.log, `${JSON.stringify({ pid: process.pid, ...entry })}\n`)
}

const { log: _, ...rest } = options
record({ started: true, cwd: process.cwd(), shell: process.env.SHELL, options: rest })
