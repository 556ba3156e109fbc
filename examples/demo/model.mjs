// The scripted model of the demo: offline, but it reads the conversation as a real one would.
//
// Every argument of a call is taken from the user's request or from an earlier tool result.

import { setTimeout as delay } from 'node:timers/promises'
import { isToolCallBlock, textBlock } from '@lite-agent/sdk'

const usage = { inputTokens: 0, outputTokens: 0 }

/** The tool results of the conversation so far, each with the name of the tool that gave it. */
function resultsOf(messages) {
  const names = new Map()
  const results = []
  for (const { content } of messages) {
    if (typeof content === 'string') continue
    for (const block of content) {
      if (isToolCallBlock(block)) names.set(block.id, block.name)
      if (block.type === 'tool_result') results.push({ name: names.get(block.id), ...block })
    }
  }
  return results
}

function structured(results, name) {
  return results
    .filter((result) => result.name === name && !result.isError)
    .map((result) => JSON.parse(result.content).structuredContent)
}

function requestOf(messages) {
  const text = messages
    .filter((message) => message.role === 'user')
    .flatMap(({ content }) => (typeof content === 'string' ? [content] : content.map((block) => block.text ?? '')))
    .join('\n')
  const [, topic] = text.match(/about the (\w+)/)
  const [, budget] = text.match(/(\d+) euros/)
  return { topic, budget: Number(budget) * 100 }
}

const euros = (cents) => `${(cents / 100).toFixed(2)} €`

/** What to say and which calls to make next. */
function decide(messages) {
  const { topic, budget } = requestOf(messages)
  const results = resultsOf(messages)
  const failed = results.find((result) => result.isError)
  if (failed) return { text: `I stop here: ${failed.name} gave "${failed.content}".`, calls: [] }

  const [found] = structured(results, 'mcp__shelf__find_books')
  if (!found) {
    return { text: `I look for books about the ${topic}.`, calls: [['mcp__shelf__find_books', { topic }]] }
  }
  const quotes = structured(results, 'mcp__shop__quote')
  if (quotes.length === 0) {
    return {
      text: `${found.books.length} books fit. I ask for all the prices at once.`,
      calls: found.books.map(({ id }) => ['mcp__shop__quote', { id }]),
    }
  }
  const best = quotes.filter(({ cents }) => cents <= budget).sort((a, b) => a.cents - b.cents)[0]
  if (!best) return { text: `None of them costs ${euros(budget)} or less.`, calls: [] }
  const [reserved] = structured(results, 'mcp__shelf__reserve')
  if (!reserved) {
    return {
      text: `The best price is ${euros(best.cents)}. I put that copy aside.`,
      calls: [['mcp__shelf__reserve', { id: best.id, quote: best.quote }]],
    }
  }
  const receipt = results.find((result) => result.name === 'receipt')
  if (!receipt) {
    const { reservation, title } = reserved
    return { text: 'Now the receipt.', calls: [['receipt', { reservation, title, cents: best.cents }]] }
  }
  return { text: `Done. ${receipt.content}`, calls: [] }
}

export const scriptedModel = {
  id: 'scripted-bookseller',
  async *stream({ messages }, signal) {
    const { text, calls } = decide(messages)
    for (const word of text.split(/(?<= )/)) {
      await delay(15, undefined, { signal })
      yield { type: 'text_delta', text: word }
    }
    const turn = messages.filter((message) => message.role === 'assistant').length + 1
    const blocks = calls.map(([name, input], index) => ({
      type: 'tool_call',
      id: `call_${turn}_${index + 1}`,
      name,
      input,
    }))
    yield { type: 'message_done', message: { role: 'assistant', content: [textBlock(text), ...blocks] }, usage }
  },
}
