// A small book store's shelf as an MCP server over stdio.
//
// Usage: node shelf-stdio.mjs [log file]. Each tool call that arrives is appended to the log as one JSON line.
import { appendFileSync } from 'node:fs'
import { McpServer } from '@modelcontextprotocol/server'
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { z } from 'zod'

const logFile = process.argv[2]
const log = (tool, input) => logFile && appendFileSync(logFile, `${JSON.stringify({ tool, input })}\n`)

const books = [
  { id: 'B-104', title: 'The Salt Road', topic: 'sea', copies: 3 },
  { id: 'B-211', title: 'Harbour Lights', topic: 'sea', copies: 5 },
  { id: 'B-318', title: 'A Cartographer’s Winter', topic: 'maps', copies: 2 },
  { id: 'B-402', title: 'Nine Lighthouses', topic: 'sea', copies: 1 },
]

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
  return server
}

serveStdio(shelf, { legacy: 'reject' })
