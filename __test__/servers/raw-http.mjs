// An HTTP peer that misbehaves as told. Node built-ins only.
//
// Modes of a method besides those in raw.mjs: good, sse, silent, html, empty, 500, 302, 404, drop (after the
// request), status (`status`, `headers` and `body` as given), steps (an event stream with progress), half (the connection ends inside the body), stream-end (an event stream without an answer), unended.
import { listen } from './http.mjs'
import { options, record } from './log.mjs'
import { answer, flood, hears, modeOf, steps, wrongAnswers } from './raw.mjs'

const json = (response, text) => response.writeHead(200, { 'content-type': 'application/json' }).end(text)

const modes = {
  good: (response, message) => json(response, JSON.stringify(answer(message))),
  sse: (response, message) =>
    response
      .writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
      .end(`: hello\r\n\r\nevent: message\r\ndata: ${JSON.stringify(answer(message))}\r\n\r\n`),
  silent: () => {},
  html: (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>SECRET remote text</h1>'),
  empty: (response) => json(response, ''),
  500: (response) => response.writeHead(500, { 'content-type': 'text/plain' }).end('SECRET remote text'),
  404: (response) => response.writeHead(404).end(),
  302: (response) => response.writeHead(302, { location: 'http://127.0.0.1:9/elsewhere' }).end(),
  status: (response, { id }) =>
    response
      .writeHead(options.status, options.headers)
      .end(Buffer.from(options.body.replace('ID', JSON.stringify(id)), options.encoding ?? 'utf8')),
  steps: (response, message) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    const all = [...steps(message), JSON.stringify(answer(message))]
    response.end(all.map((text) => `data: ${text}\n\n`).join(''))
  },
  flood: (response, message) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.on('close', () => record({ closed: message.id }))
    flood(response, message, (text) => `data: ${text}\n\n`)
  },
  drop: (_, __, request) => request.socket.destroy(),
  half: (response, message) => {
    const text = JSON.stringify(answer(message))
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': text.length + 100 })
    response.write(text.slice(0, 20), () => response.socket.destroy())
  },
  'stream-end': (response) => response.writeHead(200, { 'content-type': 'text/event-stream' }).end(': nothing\n\n'),
  unended: (response, message) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(`data: ${JSON.stringify(answer(message))}\n\n`)
  },
}

/** The event stream of a subscription: it stays open unless its mode ends it. */
function subscribe(response, message) {
  const { messages, after } = hears(message)
  response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
  response.on('close', () => record({ closed: message.id }))
  for (const heard of messages) response.write(`data: ${JSON.stringify(heard)}\n\n`)
  if (after === 'end' || after === 'refuse') response.end()
  if (after === 'drop') setImmediate(() => response.destroy())
  if (after === 'huge') {
    const more = () => {
      while (!response.destroyed && response.write('x'.repeat(1 << 16)));
      if (!response.destroyed) response.once('drain', more)
    }
    response.write('data: ')
    more()
  }
}

listen((request, response, body) => {
  const message = body.length > 0 ? JSON.parse(body) : {}
  record({ message, verb: request.method, headers: request.headers })
  if (message.id === undefined) return response.writeHead(202).end()
  if (message.method === 'subscriptions/listen' && options.listen) return subscribe(response, message)
  const mode = modeOf(message.method)
  const wrong = wrongAnswers[mode]
  if (wrong) json(response, wrong(message))
  else modes[mode](response, message, request)
})
