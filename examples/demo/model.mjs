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

const textsOf = ({ content }) =>
  typeof content === 'string' ? content : content.map((block) => block.text ?? '').join('')

/** What the user asked last, and the messages since. */
function lastRequest(messages) {
  const at = messages.findLastIndex((message) => message.role === 'user' && textsOf(message) !== '')
  return { text: textsOf(messages[at]), since: messages.slice(at) }
}

const euros = (cents) => `${(cents / 100).toFixed(2)} €`

/** The reference by which a result that was too large can be read. */
const referenceIn = (content) => content.match(/context\(\{ ref: "([0-9a-f]{64})"/)?.[1]

/** The pages of an archived result, and the next call when there are more. */
function readOn(results, ref) {
  const pages = results.filter(({ name }) => name === 'context').map(({ content }) => content)
  const [, next] = pages.at(-1)?.match(/^offset=\d+; nextOffset=(\d+|end);/) ?? [undefined, '0']
  return { pages, call: next === 'end' ? undefined : ['context', { ref, offset: Number(next) }] }
}

/** Buys a book: what to say and which calls to make next. */
function buy(request, results) {
  const [, topic] = request.match(/about the (\w+)/)
  const budget = Number(request.match(/(\d+) euros/)[1]) * 100
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
  const book = results.find(({ name }) => name === 'mcp__shelf__read_book')
  if (!book) {
    return { text: 'Whom is it dedicated to? I read it.', calls: [['mcp__shelf__read_book', { id: best.id }]] }
  }
  const { pages, call } = readOn(results, referenceIn(book.content))
  if (call) {
    const text = pages.length === 0 ? 'It is long, so it went to the archive. I read it page by page.' : 'On.'
    return { text, calls: [call] }
  }
  const receipt = results.find(({ name }) => name === 'receipt')
  if (!receipt) {
    const [, dedication] = pages.join('').match(/Dedication: (.+?)\./)
    const { reservation, title } = reserved
    const input = { reservation, title, dedication, cents: best.cents }
    return { text: `The last of ${pages.length} pages says it. Now the receipt.`, calls: [['receipt', input]] }
  }
  return { text: `Done. ${receipt.content}`, calls: [] }
}

/** Watches a price, which takes as long as the one who asked has patience. */
function watch(request, earlier) {
  const [, title] = request.match(/price of (.+) changes/)
  const { id } = structured(earlier, 'mcp__shelf__find_books')[0].books.find((book) => book.title === title)
  return { text: `I wait for the price of ${title}.`, calls: [['mcp__shop__watch_price', { id }]] }
}

function decide(messages) {
  const { text, since } = lastRequest(messages)
  const results = resultsOf(since)
  const failed = results.find((result) => result.isError)
  if (failed) return { text: `I stop here: ${failed.name} gave "${failed.content}".`, calls: [] }
  return text.includes('changes') ? watch(text, resultsOf(messages)) : buy(text, results)
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
