// The official server package over stdio. Logs each line that arrives before the package sees it.
//
// Options: `log`; `grandchild: true` starts a process in the server's group that never ends by itself.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { PassThrough } from 'node:stream'
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio'
import { options, record } from './log.mjs'
import { official } from './official.mjs'

if (options.grandchild) {
  const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'ignore' })
  record({ grandchild: child.pid })
}

const inbound = new PassThrough()
createInterface({ input: process.stdin })
  .on('line', (line) => {
    record({ message: JSON.parse(line) })
    inbound.write(`${line}\n`)
  })
  .on('close', () => {
    record({ stdinClosed: true })
    inbound.end()
    // A server that leaves on end of input, as the protocol wants it. `stay: true` has to be made to leave.
    if (options.stay) setInterval(() => {}, 1000)
    else process.exit(0)
  })

serveStdio(official, { legacy: 'reject', transport: new StdioServerTransport(inbound, process.stdout) })
