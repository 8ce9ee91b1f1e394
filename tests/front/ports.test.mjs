// Servers inside a sandbox: by header, by host name, streaming, WebSockets, and who may.
import test from 'node:test'
import assert from 'node:assert/strict'
import http from 'node:http'
import { createHash, randomBytes } from 'node:crypto'
import { Sandbox } from 'e2b'
import { WebSocket } from 'ws'
import { json, keys, raw, shared, toPort, until, url, withSandbox } from './lib.mjs'

const SERVER = `
const http = require('node:http'), crypto = require('node:crypto')
http.createServer((q, s) => {
  if (q.url === '/hello') return s.end('hello ' + q.method)
  if (q.url === '/headers') return s.end(JSON.stringify(q.headers))
  if (q.url === '/status') { s.writeHead(418, { 'X-Mine': 'yes' }); return s.end('tea') }
  if (q.url === '/ticks') { let n = 0; const t = setInterval(() => { s.write('tick ' + n++ + '\\n'); if (n === 5) { clearInterval(t); s.end() } }, 100); return }
  if (q.url === '/sha') { const h = crypto.createHash('sha256'); q.on('data', (d) => h.update(d)); q.on('end', () => s.end(h.digest('hex'))); return }
  if (q.url === '/big') { s.end(Buffer.alloc(20000000, 'x')); return }
  if (q.url === '/cut') { s.writeHead(200, { 'Content-Length': '100' }); s.write('x'); return setTimeout(() => s.destroy(), 100) }
  s.writeHead(404); s.end()
}).on('upgrade', (q, socket) => {
  const key = crypto.createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + key + '\\r\\n\\r\\n')
  let held = Buffer.alloc(0)
  socket.on('error', () => {})
  socket.on('data', (d) => {
    held = Buffer.concat([held, d])
    for (;;) {
      if (held.length < 6) return
      let n = held[1] & 127, at = 2
      if (n === 126) { if (held.length < 8) return; n = held.readUInt16BE(2); at = 4 }
      if (held.length < at + 4 + n) return
      const mask = held.subarray(at, at + 4), body = Buffer.from(held.subarray(at + 4, at + 4 + n))
      for (let i = 0; i < n; i++) body[i] ^= mask[i % 4]
      const code = held[0] & 15
      held = held.subarray(at + 4 + n)
      const head = n < 126 ? Buffer.from([0x80 | code, n]) : Buffer.from([0x80 | code, 126, n >> 8, n & 255])
      socket.write(Buffer.concat([head, body]))
      if (code === 8) return socket.end()
    }
  })
}).listen(3000, '127.0.0.1')
http.createServer((q, s) => s.end('six')).listen(3006, '::1')
require('node:http2').createServer().listen(3002, '127.0.0.1')
`

const box = shared({}, Sandbox, async (sandbox) => {
  await sandbox.files.write('/tmp/server.js', SERVER)
  await sandbox.commands.run('node /tmp/server.js', { background: true, timeoutMs: 0 })
  await until(async () => (await raw('GET', '/hello', { headers: toPort(sandbox, 3000) })).status === 200, 'the server')
})
const get = (path, options = {}) => raw(options.method ?? 'GET', path, { ...options, headers: { ...toPort(box.it, options.port ?? 3000), ...options.headers } })

test('by header', async () => {
  assert.equal((await get('/hello')).body.toString(), 'hello GET')
  assert.equal((await get('/hello', { method: 'DELETE' })).body.toString(), 'hello DELETE')
})

test('by host name', async () => {
  const host = box.it.getHost(3000)
  assert.equal(host, `3000-${box.it.sandboxId}.localhost:${new URL(url).port}`)
  assert.equal((await raw('GET', '/hello', { host })).body.toString(), 'hello GET')
})

test('the server inside sees the client, and no secret', async () => {
  const seen = json(await get('/headers', { headers: { 'X-Mine': 'kept', 'X-Access-Token': 'secret', 'X-API-KEY': 'secret', 'E2b-Traffic-Access-Token': 'secret' } }))
  assert.equal(seen['x-mine'], 'kept')
  assert.equal(seen['x-forwarded-for'], '127.0.0.1')
  assert.equal(seen['x-forwarded-proto'], 'http')
  assert.equal(JSON.stringify(seen).includes('secret'), false)
  // A key of ours is nobody's business inside; any other word is the server's.
  const with_ = async (value) => json(await get('/headers', { headers: { Authorization: value } })).authorization
  assert.deepEqual([await with_(`Bearer ${keys[0]}`), await with_('Bearer e2b_mine'), await with_('Basic eDp5')], [undefined, 'Bearer e2b_mine', 'Basic eDp5'])
})

test('its status and headers come back', async () => {
  const answer = await get('/status')
  assert.deepEqual([answer.status, answer.headers['x-mine'], answer.body.toString()], [418, 'yes', 'tea'])
  assert.equal((await get('/nothing')).status, 404)
})

test('answers stream', async () => {
  const base = new URL(url)
  const times = await new Promise((resolve, reject) => {
    const seen = []
    http.get({ host: base.hostname, port: base.port, path: '/ticks', headers: toPort(box.it, 3000) }, (response) => {
      response.on('data', () => seen.push(Date.now()))
      response.on('end', () => resolve(seen))
    }).on('error', reject)
  })
  assert.ok(times.length >= 4, 'in pieces')
  assert.ok(times.at(-1) - times[0] >= 250, 'as they come')
})

test('large bodies both ways', async () => {
  const body = randomBytes(10_000_000)
  assert.equal((await get('/sha', { method: 'POST', body })).body.toString(), createHash('sha256').update(body).digest('hex'))
  assert.equal((await get('/big')).body.length, 20_000_000)
})

test('a server that breaks off', async () => {
  await assert.rejects(get('/cut'))
  assert.equal((await get('/hello')).status, 200)
})

test('IPv6 loopback', async () => {
  assert.equal((await get('/', { port: 3006 })).body.toString(), 'six')
})

test('nothing listens', async () => {
  const answer = await get('/', { port: 4000 })
  assert.equal(answer.status, 502)
  assert.deepEqual([json(answer).sandboxId, json(answer).port, json(answer).code], [box.it.sandboxId, 4000, 502])
})

test('a server that speaks something else', async () => {
  const answer = await until(async () => { const a = await get('/', { port: 3002 }); return !json(a).message.includes('listens') && a }, 'the other server')
  assert.equal(answer.status, 502)
  assert.match(json(answer).message, /cannot be read as HTTP\/1\.1/)
})

test('WebSockets', async () => {
  for (const options of [{ headers: toPort(box.it, 3000) }, { headers: { Host: box.it.getHost(3000) } }]) {
    const socket = new WebSocket(url.replace('http', 'ws') + '/socket', options)
    await new Promise((resolve, reject) => { socket.on('open', resolve); socket.on('error', reject) })
    for (const text of ['one', 'x'.repeat(60_000), 'ü']) {
      const back = new Promise((resolve) => socket.once('message', (data) => resolve(data.toString())))
      socket.send(text)
      assert.equal(await back, text)
    }
    const closed = new Promise((resolve) => socket.on('close', resolve))
    socket.close()
    await closed
  }
})

test('many at once', async () => {
  const answers = await Promise.all(Array.from({ length: 50 }, () => get('/hello')))
  assert.ok(answers.every((answer) => answer.body.toString() === 'hello GET'))
})

test('private ports need the traffic token', async () => {
  await withSandbox({ network: { allowPublicTraffic: false } }, async (sandbox) => {
    assert.ok(sandbox.trafficAccessToken)
    await sandbox.commands.run('cd /tmp; python3 -m http.server 3000 --bind 127.0.0.1', { background: true, timeoutMs: 0 })
    const headers = toPort(sandbox, 3000)
    await until(async () => (await raw('GET', '/', { headers: { ...headers, 'E2b-Traffic-Access-Token': sandbox.trafficAccessToken } })).status === 200, 'the server')
    assert.equal((await raw('GET', '/', { headers })).status, 403)
    assert.equal((await raw('GET', '/', { headers: { ...headers, 'E2b-Traffic-Access-Token': 'wrong' } })).status, 403)
    assert.equal((await sandbox.commands.run('echo envd needs its own')).exitCode, 0)
  })
})
