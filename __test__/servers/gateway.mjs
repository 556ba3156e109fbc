// Starts the gateway as its users do, on a free port with a home of its own, and asks it things.
import { spawn } from 'node:child_process'
import { request as httpRequest } from 'node:http'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { gatewayPath } from '../../scripts/build.mjs'

/** Runs the program to its end; resolves to its exit code, signal and output. */
export function runGateway(home, args = [], env = {}) {
  const child = start(home, args, env)
  const output = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) child[name].on('data', (text) => (output[name] += text))
  return new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal, ...output })))
}

function start(home, args, env) {
  const child = spawn(gatewayPath(), args, {
    env: { PATH: process.env.PATH, LITE_AGENT_HOME: home, LITE_GATEWAY_LISTEN: '127.0.0.1:0', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  child.stdout.setEncoding('utf8')
  child.stderr.setEncoding('utf8')
  return child
}

/** A running gateway: its address, what it wrote, requests to it, and its end. */
export async function startGateway(home, { args = [], env = {} } = {}) {
  const child = start(home, args, env)
  const lines = []
  let errors = ''
  child.stderr.on('data', (text) => (errors += text))
  const ended = new Promise((resolve) => child.on('close', (code, signal) => resolve({ code, signal })))
  const url = await new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line)
      const found = line.match(/^Listening on (\S+)$/)
      if (found) resolve(found[1])
    })
    ended.then(() => reject(new Error(`the gateway ended before it listened: ${errors}`)))
  })
  return {
    url,
    port: Number(new URL(url).port),
    directory: join(home, 'gateway'),
    child,
    lines,
    ended,
    log: () => errors,
    /** Ends it as a service manager does. */
    async stop() {
      child.kill('SIGTERM')
      return ended
    },
    ask: (path, options) => ask(url, path, options),
  }
}

/** One request over a connection of its own, any header as given; resolves to `{ status, headers, text, json() }`. */
export function ask(url, path, { method = 'GET', headers = {}, body, host } = {}) {
  const { port } = new URL(url)
  const text = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      {
        host: '127.0.0.1',
        port,
        path,
        method,
        agent: false,
        headers: {
          host: host ?? `localhost:${port}`,
          ...(text === undefined
            ? {}
            : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }),
          ...headers,
        },
      },
      async (response) => {
        try {
          const chunks = []
          for await (const chunk of response) chunks.push(chunk)
          const text = Buffer.concat(chunks).toString()
          resolve({ status: response.statusCode, headers: response.headers, text, json: () => JSON.parse(text) })
        } catch (error) {
          reject(error)
        }
      },
    )
    request.on('error', reject)
    request.end(text)
  })
}
