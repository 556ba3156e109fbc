// A child script: one run in a session of the project, told line by line; the tool `die` kills the process.
import { createLiteAgent, tool } from '@lite-agent/sdk'
import { z } from 'zod'

const [workdir, sessionId, input, ...script] = process.argv.slice(2)
const say = (told) => process.stdout.write(`${JSON.stringify(told)}\n`)
const model = {
  id: 'script',
  async *stream({ messages }) {
    say({ messages })
    const next = script.shift() ?? 'end'
    const content = next.startsWith('call:')
      ? next
          .slice('call:'.length)
          .split('+')
          .map((name) => ({ type: 'tool_call', id: `${name}-id`, name, input: {} }))
      : [{ type: 'text', text: next }]
    yield { type: 'message_done', message: { role: 'assistant', content }, usage: { inputTokens: 0, outputTokens: 0 } }
  },
}
const tools = [
  tool('note', 'Takes a note', z.object({}), () => 'noted'),
  tool('dump', 'Dumps', z.object({}), () => 'ab漢😀'.repeat(5_000)),
  tool('die', 'Kills the process', z.object({}), () => process.kill(process.pid, 'SIGKILL')),
]
const agent = createLiteAgent({ workdir, model, tools, strictMcpConfig: true })
agent.resume(sessionId)
for await (const event of agent.run(input)) {
  if (event.type === 'diagnostic') say({ diagnostic: event.code })
}
await agent.close()
