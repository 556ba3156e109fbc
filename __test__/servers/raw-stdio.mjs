// A stdio peer that misbehaves as told. Node built-ins only.
//
// Modes of a method besides those in raw.mjs: good, silent, exit (code 3), killed, crlf, twice, bom, flood. `banner: true` prints
// lines that are no JSON first; `bom: true` starts with a byte order mark.
import { createInterface } from 'node:readline'
import { options, record } from './log.mjs'
import { answer, flood, hears, meet, modeOf, steps, wrongAnswers } from './raw.mjs'

const write = (text, end = '\n') => process.stdout.write(text + end)

if (options.bom) process.stdout.write('\ufeff')
if (options.banner) write('Welcome to the server!\n[info] {listening')
if (options.stderr) process.stderr.write('x'.repeat(1 << 20))

createInterface({ input: process.stdin })
  .on('line', async (line) => {
    const message = JSON.parse(line)
    record({ message })
    if (message.id === undefined) return
    if (message.method === 'subscriptions/listen' && options.listen) {
      for (const heard of hears(message).messages) write(JSON.stringify(heard))
      return
    }
    await meet(message)
    const mode = modeOf(message.method)
    if (mode === 'silent') return
    if (mode === 'flood') return flood(process.stdout, message, (text) => `${text}\n`)
    if (mode === 'exit') process.exit(3)
    if (mode === 'killed') process.kill(process.pid, 'SIGKILL')
    if (mode === 'crlf') return write(JSON.stringify(answer(message)), '\r\n')
    if (mode === 'bom') return write(`\ufeff${JSON.stringify(answer(message))}`)
    if (mode === 'twice') write(JSON.stringify(answer(message)))
    write([...steps(message), wrongAnswers[mode]?.(message) ?? JSON.stringify(answer(message))].join('\n'))
  })
  .on('close', () => process.exit(0))
