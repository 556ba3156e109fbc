// A native agent made of plain data: it records what the shim calls and answers as scripted.
import agentModule from '../../js/agent.js'
import config from '../../js/config.js'

/** Opens an agent over a fake native side; `native` and `host` are its two ends. */
export function openAgent(given, script = {}) {
  const seen = { calls: [], native: undefined }
  class NativeAgent {
    constructor(host) {
      this.host = host
      seen.native = this
    }
    #say(name, args, fallback) {
      seen.calls.push([name, ...args])
      const own = script[name]
      return typeof own === 'function' ? own(...args) : (own ?? fallback)
    }
    configure(json) {
      return this.#say('configure', [JSON.parse(json)], '{"ok":{"sessionId":"s1"}}')
    }
    resume(session) {
      return this.#say('resume', [session], '{"ok":null}')
    }
    clear() {
      return this.#say('clear', [], '{"ok":{"sessionId":"s2"}}')
    }
    async listSessions() {
      return this.#say('listSessions', [], '{"ok":[]}')
    }
    async deleteSession(session) {
      return this.#say('deleteSession', [session], '{"ok":null}')
    }
    startRun(json) {
      return this.#say('startRun', [JSON.parse(json)], '{"ok":{"run":1}}')
    }
    async nextBatch(run) {
      return this.#say('nextBatch', [run], null)
    }
    async runOutcome(run) {
      return this.#say('runOutcome', [run], result('s1', 0, []))
    }
    cancelRun(run) {
      this.#say('cancelRun', [run])
    }
    async dropRun(run) {
      await this.#say('dropRun', [run])
    }
    setListening(on) {
      this.#say('setListening', [on])
    }
    pushChunk(call, json) {
      return this.#say('pushChunk', [call, JSON.parse(json)], 0)
    }
    pushLastChunk(call, json) {
      return this.#say('pushLastChunk', [call, JSON.parse(json)], 0)
    }
    async chunkReady(call) {
      return this.#say('chunkReady', [call], true)
    }
    endChunks(call) {
      this.#say('endChunks', [call])
    }
    emitEvent(run, json) {
      this.#say('emitEvent', [run, JSON.parse(json)])
    }
    addHook(...args) {
      return this.#say('addHook', args, '{"ok":null}')
    }
    removeHook(handler) {
      this.#say('removeHook', [handler])
    }
    async awaitIdle(session) {
      return this.#say('awaitIdle', [session], '{"ok":null}')
    }
    async mcpRegister(name, json) {
      return this.#say('mcpRegister', [name, JSON.parse(json)], '{"ok":null}')
    }
    async mcpUnregister(name) {
      return this.#say('mcpUnregister', [name], '{"ok":null}')
    }
    mcpList() {
      return this.#say('mcpList', [], '[]')
    }
    abandon() {}
    async close() {
      return this.#say('close', [], '{"ok":null}')
    }
  }
  const agent = new agentModule.LiteAgent(config.readConfig({ workdir: '.', model: silent, ...given }), NativeAgent)
  const ask = async (op, args, call = 1) =>
    JSON.parse(await seen.native.host(call, op, typeof args === 'string' ? args : JSON.stringify(args)))
  const named = (name) => seen.calls.filter(([one]) => one === name).map(([, ...args]) => args)
  return { agent, ask, named }
}

/** A run's outcome as it crosses the border. */
export function result(key, from, messages) {
  const usage = { inputTokens: 0, outputTokens: 0 }
  return JSON.stringify({ ok: { text: 't', usage, stopReason: 'stop', history: { key, from, messages } } })
}

/** A model that is never asked. */
export const silent = { id: 'silent', async *stream() {} }
