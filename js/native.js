// Finds and loads the addon, on the first agent and not at import.
//
// A local build beside the package comes first, then the platform's own package.

/** @import { NativeAgentClass } from './border.d.ts' */

const path = require('node:path')
const { AgentError, messageOf } = require('./errors.js')

/** @type {NativeAgentClass | undefined} */
let loaded

/**
 * The names this platform's builds go by.
 *
 * @param {string} platform
 * @param {string} arch
 */
function triples(platform, arch) {
  const base = `${platform}-${arch}`
  if (platform === 'linux') return [`${base}-gnu`, `${base}-musl`]
  if (platform === 'win32') return [`${base}-msvc`]
  return [base]
}

/**
 * Loads the addon once; a failure lists every file that was tried, with its reason.
 *
 * @param {{ platform?: string, arch?: string, load?: (id: string) => unknown }} [from]
 * @returns {NativeAgentClass}
 */
function loadNative(from = {}) {
  if (loaded) return loaded
  const { platform = process.platform, arch = process.arch, load = require } = from
  const names = triples(platform, arch)
  const candidates = [
    ...names.map((triple) => path.join(__dirname, '..', `lite-agent.${triple}.node`)),
    ...names.map((triple) => `@lite-agent/sdk-${triple}`),
  ]
  /** @type {string[]} */
  const tried = []
  /** @type {unknown[]} */
  const causes = []
  for (const candidate of candidates) {
    try {
      const addon = /** @type {{ NativeAgent?: NativeAgentClass }} */ (load(candidate))
      if (typeof addon?.NativeAgent === 'function') {
        if (load === require) loaded = addon.NativeAgent
        return addon.NativeAgent
      }
      tried.push(`  ${candidate}: it exports no NativeAgent`)
    } catch (error) {
      causes.push(error)
      tried.push(`  ${candidate}: ${messageOf(error).split('\n', 1)[0]}`)
    }
  }
  throw new AgentError(`no native addon for ${platform}-${arch} could be loaded; tried:\n${tried.join('\n')}`, {
    code: 'INTERNAL',
    cause: new AggregateError(causes),
  })
}

module.exports = { loadNative, triples }
