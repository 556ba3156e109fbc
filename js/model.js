// The host's model: pumps its chunks into the native queue, with credit. And the scripted model.

/** @import { FakeTurn, ModelChunk, ModelProvider } from '../index.js' */
/** @import { ModelRequest, Usage } from '../index.js' */
/** @import { NativeAgent } from './border.d.ts' */

const { ConfigError, ProviderError } = require('./errors.js')
const { encodeJson, isRecord, kindOf } = require('./json.js')

const FULL = 1
const CLOSED = 2
/** How the chunk begins after which nothing is read; one that is written otherwise is ended by the native side. */
const LAST = '{"type":"message_done",'

/**
 * Pushes every chunk of a model's stream; resolves when the stream is over, the native side has
 * closed the queue, or `signal` fires. Rejects with the model's error.
 *
 * @param {ModelProvider} model
 * @param {ModelRequest} request
 * @param {AbortSignal} signal
 * @param {NativeAgent} native
 * @param {number} call
 * @returns {Promise<void>}
 */
async function pump(model, request, signal, native, call) {
  const iterator = iterate(await model.stream(request, signal))
  let over = false
  // A generator answers `return()` only after its pending `next()`, so nobody waits for it.
  const stop = () => {
    if (over) return
    over = true
    close(iterator)
  }
  /** @type {Promise<void>} */
  const aborted = new Promise((resolve) => {
    const leave = () => {
      stop()
      resolve()
    }
    if (signal.aborted) leave()
    else signal.addEventListener('abort', leave, { once: true })
  })
  const flowing = flow(iterator, native, call, () => over).then((finished) => {
    if (finished) over = true
    else stop()
  })
  try {
    await Promise.race([flowing, aborted])
  } catch (error) {
    over = true
    throw error
  }
}

/**
 * @param {AsyncIterator<ModelChunk> | Iterator<ModelChunk>} iterator
 * @param {NativeAgent} native
 * @param {number} call
 * @param {() => boolean} isOver
 * @returns {Promise<boolean>} whether the stream came to its own end
 */
async function flow(iterator, native, call, isOver) {
  while (!isOver()) {
    const step = await iterator.next()
    if (!isRecord(step)) throw new ProviderError(`the model's iterator gave ${kindOf(step)}`)
    if (step.done) return true
    try {
      const json = encode(step.value)
      // As it crosses, not as the host's object says: that is what the loop ends the call by.
      const isLast = json.startsWith(LAST)
      if (!(await push(native, call, json, isLast)) || isLast) return false
    } catch (error) {
      close(iterator)
      throw error
    }
  }
  return false
}

/**
 * @param {NativeAgent} native
 * @param {number} call
 * @param {string} json
 * @param {boolean} isLast whether nothing follows
 * @returns {Promise<boolean>} false: the queue is closed
 */
async function push(native, call, json, isLast) {
  for (;;) {
    const state = isLast ? native.pushLastChunk(call, json) : native.pushChunk(call, json)
    if (state === CLOSED) return false
    if (state !== FULL) return true
    if (!(await native.chunkReady(call))) return false
  }
}

/** @param {AsyncIterator<ModelChunk> | Iterator<ModelChunk>} iterator */
function close(iterator) {
  Promise.resolve()
    .then(() => iterator.return?.())
    .catch(() => {})
}

/** @param {unknown} chunk */
function encode(chunk) {
  if (!isRecord(chunk)) throw new ProviderError(`the model yielded ${kindOf(chunk)}, not a chunk`)
  /** @type {unknown} */
  let json
  try {
    json = encodeJson(chunk)
  } catch (error) {
    throw new ProviderError('the model yielded a chunk that is not JSON', { cause: error })
  }
  // A toJSON() of the chunk's own may give anything.
  if (typeof json !== 'string') throw new ProviderError('the model yielded a chunk that is not JSON')
  return json
}

/**
 * @param {unknown} stream
 * @returns {AsyncIterator<ModelChunk> | Iterator<ModelChunk>}
 */
function iterate(stream) {
  if ((typeof stream === 'object' && stream !== null) || typeof stream === 'function') {
    const source = /** @type {{ [Symbol.asyncIterator]?: unknown, [Symbol.iterator]?: unknown }} */ (stream)
    const open = source[Symbol.asyncIterator] ?? source[Symbol.iterator]
    if (typeof open === 'function') return open.call(stream)
  }
  throw new ProviderError(`the model's stream() returned ${kindOf(stream)}, which cannot be iterated`)
}

/** @type {Usage} */
const NO_USAGE = { inputTokens: 0, outputTokens: 0 }

/**
 * A model that replays `turns` in order: one for each call of `stream()`.
 *
 * @param {FakeTurn[]} turns
 * @returns {ModelProvider}
 */
function fakeProvider(turns) {
  if (!Array.isArray(turns)) throw new ConfigError(`fakeProvider needs an array of turns, not ${kindOf(turns)}`)
  turns.forEach((turn, at) => {
    if (!isRecord(turn) || !isRecord(turn.message)) {
      throw new ConfigError(`turn ${at} of fakeProvider must be an object with a message`)
    }
  })
  let next = 0
  return {
    id: 'fake',
    async *stream(_request, signal) {
      signal?.throwIfAborted()
      const turn = turns[next++]
      if (turn === undefined) {
        throw new ProviderError(`the fake model is out of turns: it has ${turns.length}`)
      }
      if (turn.text) yield { type: 'text_delta', text: turn.text }
      signal?.throwIfAborted()
      const message = structuredClone(turn.message)
      yield { type: 'message_done', message, usage: { ...NO_USAGE, ...turn.usage } }
    },
  }
}

module.exports = { pump, fakeProvider }
