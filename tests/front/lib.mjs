// What the suites share: one sandbox per file unless a test needs its own, and raw HTTP for what the
// packages hide. The daemon's address and two keys of different tenants come from the environment.
import { after, before } from 'node:test'
import http from 'node:http'
import { Sandbox } from 'e2b'

export const url = process.env.WARD_URL
export const keys = [process.env.WARD_KEY, process.env.WARD_KEY_OTHER]
export const connection = { apiKey: keys[0], apiUrl: url, sandboxUrl: url }
export const other = { ...connection, apiKey: keys[1] }

export const sleep = (ms) => new Promise((done) => setTimeout(done, ms))

/** Waits until `check` gives something true, and gives that. */
export async function until(check, what, ms = 20000) {
  const end = Date.now() + ms
  for (;;) {
    const found = await check()
    if (found) return found
    if (Date.now() > end) throw new Error(`still waiting for ${what}`)
    await sleep(20)
  }
}

/** A sandbox for every test of a file: `const box = shared()`, then `box.it`. */
export function shared(options = {}, Kind = Sandbox, prepare = async () => {}) {
  const holder = {}
  before(async () => {
    holder.it = await Kind.create({ ...connection, timeoutMs: 300_000, ...options })
    await prepare(holder.it)
  })
  after(async () => {
    await holder.it?.kill()
  })
  return holder
}

export async function withSandbox(options, use, Kind = Sandbox) {
  const sandbox = await Kind.create({ ...connection, timeoutMs: 120_000, ...options })
  try {
    return await use(sandbox)
  } finally {
    await sandbox.kill()
  }
}

/** One request as it stands: { status, headers, body }. */
export function raw(method, path, { headers = {}, body, host } = {}) {
  const base = new URL(url)
  return new Promise((resolve, reject) => {
    const request = http.request(
      { host: base.hostname, port: base.port, method, path, headers: { ...(host ? { Host: host } : {}), ...headers } },
      (response) => {
        const parts = []
        response.on('data', (part) => parts.push(part))
        response.on('error', reject)
        response.on('end', () =>
          resolve({ status: response.statusCode, headers: response.headers, body: Buffer.concat(parts) }))
      })
    request.on('error', reject)
    request.end(body)
  })
}

/** The status, or 'cut' when the server closed the connection on a body that it would not read. */
export const statusOf = (answer) => answer.then((a) => a.status, (error) => (['EPIPE', 'ECONNRESET'].includes(error.code) ? 'cut' : Promise.reject(error)))

export const json = (answer) => JSON.parse(answer.body.toString())
export const api = (method, path, body, key = keys[0]) =>
  raw(method, path, {
    headers: { 'X-API-KEY': key, ...(body ? { 'Content-Type': 'application/json' } : {}) },
    body: body && JSON.stringify(body),
  })

/** Headers for a port of a sandbox. */
export const toPort = (sandbox, port) => ({ 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': String(port) })

export const envelope = (message) => {
  const text = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(text.length, 1)
  return Buffer.concat([head, text])
}

export const envelopes = (body) => {
  const found = []
  for (let at = 0; at < body.length;) {
    const length = body.readUInt32BE(at + 1)
    found.push({ flags: body[at], message: JSON.parse(body.subarray(at + 5, at + 5 + length).toString()) })
    at += 5 + length
  }
  return found
}
