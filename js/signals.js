// Abort signals of the host: one listener for each, however many runs it serves.

const { ConfigError } = require('./errors.js')

/** @typedef {{ callbacks: Set<() => void>, listener: () => void }} Watch */

/** @type {WeakMap<AbortSignal, Watch>} */
const watched = new WeakMap()

/**
 * Calls back once when `signal` fires; gives a function that ends that.
 *
 * @param {AbortSignal} signal
 * @param {() => void} callback
 * @returns {() => void}
 */
function onAbort(signal, callback) {
  const watch = watched.get(signal) ?? listen(signal)
  watch.callbacks.add(callback)
  return () => {
    if (!watch.callbacks.delete(callback) || watch.callbacks.size > 0 || watched.get(signal) !== watch) return
    watched.delete(signal)
    try {
      signal.removeEventListener('abort', watch.listener)
    } catch {}
  }
}

/**
 * @param {AbortSignal} signal
 * @returns {Watch}
 */
function listen(signal) {
  /** @type {Watch} */
  const watch = {
    callbacks: new Set(),
    listener() {
      watched.delete(signal)
      for (const callback of [...watch.callbacks]) callback()
    },
  }
  try {
    signal.addEventListener('abort', watch.listener, { once: true })
  } catch (error) {
    throw new ConfigError('"signal" cannot be listened to; its cause says why', { cause: error })
  }
  watched.set(signal, watch)
  return watch
}

module.exports = { onAbort }
