// client.mjs WORK [NUMBER...]: the daemon's clients for tests/bench/daemon.py. The package `e2b` as npm has it where
// the table says SDK, requests as they stand where it says HTTP. One JSON object on standard output. The
// daemon and the key come from the environment (WARD_URL, WARD_KEY).
import http from 'node:http'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'

const { Sandbox } = createRequire(new URL('../front/package.json', import.meta.url))('e2b')

const url = process.env.WARD_URL
const connection = { apiKey: process.env.WARD_KEY, apiUrl: url, sandboxUrl: url }
const options = { ...connection, timeoutMs: 600_000 }
const WINDOW_MS = 500 // one figure of a rate
const RELEASE_S = 1 // for what has written its first line and has not come to its next call yet
const OPEN_MS = 20_000 // until all commands have written their first line, or it is too late for them

const now = () => performance.now()

/** Runs `step` by `width` workers until it gives false. */
const workers = (width, step) => Promise.all(Array.from({ length: width }, async () => { while (await step()); }))

const agent = new http.Agent({ keepAlive: true })

function call(method, path, body) {
  const headers = { 'X-API-KEY': connection.apiKey, ...(body ? { 'Content-Type': 'application/json' } : {}) }
  return new Promise((resolve, reject) => {
    const request = http.request(url + path, { method, agent, headers }, (response) => {
      const parts = []
      response.on('data', (part) => parts.push(part))
      response.on('error', reject)
      response.on('end', () => resolve({ status: response.statusCode, text: Buffer.concat(parts).toString() }))
    })
    request.on('error', reject)
    request.end(body && JSON.stringify(body))
  })
}

async function httpCreate() {
  const answer = await call('POST', '/v2/sandboxes', { templateID: 'base', timeout: 600 })
  if (answer.status !== 201) throw new Error(`create: ${answer.status} ${answer.text}`)
  const id = JSON.parse(answer.text).sandboxID
  return { id, kill: async () => {
    const gone = await call('DELETE', `/sandboxes/${id}`)
    if (gone.status !== 204) throw new Error(`kill: ${gone.status} ${gone.text}`)
  } }
}

async function sdkCreate() {
  const sandbox = await Sandbox.create(options)
  return { id: sandbox.sandboxId, kill: () => sandbox.kill() }
}

/** Create and the first command, one after another, with a pause in which a pool can fill again. */
async function first(count, pauseMs, warmup) {
  const found = { create_ms: [], run_ms: [], total_ms: [], errors: [] }
  for (let i = 0; i < count + warmup; i++) {
    await sleep(pauseMs)
    let sandbox
    try {
      const began = now()
      sandbox = await Sandbox.create({ ...options, envs: { ROUND: String(i) } })
      const created = now()
      const { stdout } = await sandbox.commands.run('echo hi')
      const ended = now()
      if (stdout !== 'hi\n') throw new Error(`echo gave ${JSON.stringify(stdout)}`)
      if (i < warmup) continue
      found.create_ms.push(created - began)
      found.run_ms.push(ended - created)
      found.total_ms.push(ended - began)
    } catch (error) {
      found.errors.push(String(error))
    } finally {
      await sandbox?.kill()
    }
  }
  return found
}

/** Creates with as many kills beside them, for a while: how many in each window. */
async function rate(create, ms, width) {
  const began = now()
  const windows = Array(Math.floor(ms / WINDOW_MS)).fill(0)
  const found = { created: 0, killed: 0, errors: [] }
  await workers(width, async () => {
    try {
      const sandbox = await create()
      const at = Math.floor((now() - began) / WINDOW_MS)
      if (at < windows.length) windows[at]++
      found.created++
      await sandbox.kill()
      found.killed++
    } catch (error) {
      found.errors.push(String(error))
    }
    return now() - began < ms && found.errors.length < 100
  })
  return { ...found, ms: now() - began, per_s: windows.map((n) => n * 1000 / WINDOW_MS) }
}

/** Sandboxes that stay. */
async function make(count, width) {
  const ids = [], errors = []
  const began = now()
  let left = count
  await workers(width, async () => {
    if (left-- <= 0) return false
    try {
      ids.push((await httpCreate()).id)
    } catch (error) {
      errors.push(String(error))
    }
    return true
  })
  return { ids, errors, ms: now() - began }
}

/** All commands are open at the same time: each waits, after its first line, for one that lets all of its sandbox go on. */
async function commands(count, boxes) {
  const sandboxes = await Promise.all(Array.from({ length: boxes }, () => Sandbox.create(options)))
  try {
    await Promise.all(sandboxes.map((s) => s.commands.run('mkfifo go')))
    const began = now()
    const errors = [], first_ms = []
    let open = 0, peak = 0
    const one = async (sandbox) => {
      let seen = ''
      let handle
      try {
        handle = await sandbox.commands.run('echo one; cat go; seq 100', { background: true, timeoutMs: 2 * OPEN_MS, requestTimeoutMs: 2 * OPEN_MS,
          onStdout: (text) => {
            if (!seen) { first_ms.push(now() - began); peak = Math.max(peak, ++open) }
            seen += text
          } })
        await handle.wait()
        const lines = seen.split('\n')
        if (lines.length !== 102 || lines[0] !== 'one' || lines[100] !== '100') throw new Error(`output of ${seen.length} bytes`)
      } catch (error) {
        errors.push(String(error))
      } finally {
        if (seen) open--
      }
    }
    const all = Promise.all(Array.from({ length: count }, (_, i) => one(sandboxes[i % boxes])))
    while (first_ms.length + errors.length < count && now() - began < OPEN_MS) await sleep(20)
    const opened = now() - began
    await Promise.all(sandboxes.map((s) => s.commands.run(`sleep ${RELEASE_S} >go`)))
    await all
    return { count, boxes, peak, errors, first_ms, opened_ms: opened, ms: now() - began }
  } finally {
    await Promise.all(sandboxes.map((s) => s.kill()))
  }
}

/** A file in and out by the package. */
async function file(bytes, rounds) {
  const sandbox = await Sandbox.create(options)
  const found = { octet: [], form: [], download: [] }
  const data = new Blob([Buffer.alloc(bytes, 'ward')])
  const timed = async (name, act) => {
    const began = now()
    await act()
    found[name].push(bytes / 1e3 / (now() - began))
  }
  try {
    for (let i = 0; i < rounds; i++) {
      await timed('octet', () => sandbox.files.write('big', data, { useOctetStream: true }))
      await timed('form', () => sandbox.files.write('big', data))
      await timed('download', async () => {
        let got = 0
        for await (const part of await sandbox.files.read('big', { format: 'stream' })) got += part.length
        if (got !== bytes) throw new Error(`${got} bytes came back`)
      })
    }
  } finally {
    await sandbox.kill()
  }
  return found
}

const work = {
  first,
  http: (ms, width) => rate(httpCreate, ms, width),
  sdk: (ms, width) => rate(sdkCreate, ms, width),
  make,
  commands,
  file,
}
const [name, ...numbers] = process.argv.slice(2)
console.log(JSON.stringify(await work[name](...numbers.map(Number))))
agent.destroy()
