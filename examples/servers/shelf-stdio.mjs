// A small book store's shelf as an MCP server over stdio.
//
// Usage: node shelf-stdio.mjs [log file]. The log gets one JSON line for the process and one for each tool call.
import { appendFileSync } from 'node:fs'
import { McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

const logFile = process.argv[2]
const note = (entry) => logFile && appendFileSync(logFile, `${JSON.stringify(entry)}\n`)
const log = (tool, input) => note({ tool, input })

note({ pid: process.pid })

const books = [
  { id: 'B-104', title: 'The Salt Road', topic: 'sea', copies: 3 },
  { id: 'B-211', title: 'Harbour Lights', topic: 'sea', copies: 5 },
  { id: 'B-318', title: 'A Cartographer’s Winter', topic: 'maps', copies: 2 },
  { id: 'B-402', title: 'Nine Lighthouses', topic: 'sea', copies: 1 },
]

/** The whole text of a book: too long for one answer to a model. Its last words say whom it is for. */
function textOf({ title }) {
  const sentences = [
    'The tide came in over the stones and took the names of the boats with it.',
    'Nobody had lit the lamp that night, and yet there was a light. 🌊',
    'She counted the waves as others count sheep; at a thousand she got up and rowed.',
    '灯台の下は暗い, said the keeper, and poured the tea.',
  ]
  const pages = Array.from({ length: 500 }, (_, page) => `${page + 1}. ${sentences[page % sentences.length]}`)
  return `${title}\n\n${pages.join('\n')}\n\nDedication: for those who wait ashore.`
}

const answer = (text, structuredContent) => ({ content: [{ type: 'text', text }], structuredContent })

function shelf() {
  const server = new McpServer({ name: 'shelf', version: '1.0.0' }, { capabilities: { tools: {} } })
  server.registerTool(
    'find_books',
    { description: 'Lists the books on a topic', inputSchema: z.object({ topic: z.string() }) },
    ({ topic }) => {
      log('find_books', { topic })
      const found = books.filter((book) => book.topic === topic).map(({ id, title, copies }) => ({ id, title, copies }))
      return answer(`${found.length} books about ${topic}`, { books: found })
    },
  )
  server.registerTool(
    'reserve',
    {
      description: 'Puts a quoted book aside',
      inputSchema: z.object({ id: z.string(), quote: z.string() }),
    },
    ({ id, quote }) => {
      log('reserve', { id, quote })
      const book = books.find((candidate) => candidate.id === id)
      if (!book || book.copies === 0) return { ...answer(`No copy of ${id} is left`), isError: true }
      book.copies -= 1
      return answer(`${book.title} is reserved`, {
        reservation: `R-${id.slice(2)}`,
        title: book.title,
        left: book.copies,
      })
    },
  )
  server.registerTool(
    'read_book',
    { description: 'Gives the whole text of a book', inputSchema: z.object({ id: z.string() }) },
    ({ id }) => {
      log('read_book', { id })
      const book = books.find((candidate) => candidate.id === id)
      const text = book ? textOf(book) : `There is no book ${id}`
      return { content: [{ type: 'text', text }], isError: book === undefined }
    },
  )
  return server
}

serveStdio(shelf, { legacy: 'reject' })
