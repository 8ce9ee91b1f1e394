// Files: every way in and out, metadata, lists, rename, remove; signed addresses.
import test from 'node:test'
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import { FileNotFoundError, InvalidArgumentError, AuthenticationError, NotFoundError } from 'e2b'
import { shared, raw, toPort, json, withSandbox } from './lib.mjs'

const box = shared()
const files = () => box.it.files
const run = (...args) => box.it.commands.run(...args)
const sha = (data) => createHash('sha256').update(data).digest('hex')
const stream = (...parts) => new Blob(parts).stream()

test('write and read text', async () => {
  const info = await files().write('hello.txt', 'grüß dich')
  assert.deepEqual([info.path, info.name, info.type], ['/home/user/hello.txt', 'hello.txt', 'file'])
  assert.equal(await files().read('hello.txt'), 'grüß dich')
  assert.equal(await files().read('~/hello.txt'), 'grüß dich')
  assert.equal((await run('stat -c %U:%G:%a hello.txt; cat hello.txt')).stdout, 'user:user:644\ngrüß dich')
})

test('overwrite truncates', async () => {
  await files().write('o.txt', 'a long first text')
  await files().write('o.txt', 'short')
  assert.equal(await files().read('o.txt'), 'short')
})

test('empty file', async () => {
  await files().write('empty', '')
  assert.equal(await files().read('empty'), '')
  assert.equal((await files().read('empty', { format: 'bytes' })).length, 0)
  assert.equal((await files().read('empty', { format: 'blob' })).size, 0)
})

test('parents are made, and belong to the user', async () => {
  await files().write('/home/user/a/b/c.txt', 'x')
  assert.equal((await run('stat -c %U:%a a a/b a/b/c.txt')).stdout, 'user:755\nuser:755\nuser:644\n')
})

for (const [name, data] of [
  ['ArrayBuffer', (bytes) => bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)],
  ['Blob', (bytes) => new Blob([bytes])],
  ['stream', (bytes) => stream(bytes)],
]) {
  for (const [how, options] of [['as it comes', {}], ['octet-stream', { useOctetStream: true }], ['gzip', { gzip: true }]]) {
    test(`${name}, ${how}`, async () => {
      const bytes = randomBytes(300_001)
      await files().write('data.bin', data(bytes), options)
      const back = Buffer.from(await files().read('data.bin', { format: 'bytes' }))
      assert.equal(sha(back), sha(bytes))
    })
  }
}

test('read as bytes, blob, stream, and with gzip', async () => {
  const bytes = Buffer.from('abc'.repeat(100_000))
  await files().write('r.bin', new Blob([bytes]))
  assert.equal(sha(await files().read('r.bin', { format: 'bytes' })), sha(bytes))
  assert.equal(sha(Buffer.from(await (await files().read('r.bin', { format: 'blob' })).arrayBuffer())), sha(bytes))
  const parts = []
  for await (const part of await files().read('r.bin', { format: 'stream' })) parts.push(part)
  assert.equal(sha(Buffer.concat(parts)), sha(bytes))
  assert.equal(sha(await files().read('r.bin', { format: 'bytes', gzip: true })), sha(bytes))
  const zipped = await raw('GET', '/files?path=r.bin', { headers: { ...toPort(box.it, 49983), 'X-Access-Token': box.it.envdAccessToken, 'Accept-Encoding': 'gzip' } })
  assert.equal(zipped.headers['content-encoding'], 'gzip')
  assert.equal(sha(gunzipSync(zipped.body)), sha(bytes))
})

test('100 MB up and down', async () => {
  const piece = randomBytes(1 << 20)
  const hash = createHash('sha256')
  for (let i = 0; i < 100; i++) hash.update(piece)
  const want = hash.digest('hex')
  await files().write('/tmp/big', new Blob(Array(100).fill(piece)), { useOctetStream: true, requestTimeoutMs: 120_000 })
  assert.equal((await run('sha256sum < /tmp/big', { timeoutMs: 120_000 })).stdout, want + '  -\n')
  const down = createHash('sha256')
  for await (const part of await files().read('/tmp/big', { format: 'stream', requestTimeoutMs: 120_000 })) down.update(part)
  assert.equal(down.digest('hex'), want)
  await files().write('/tmp/big', new Blob(Array(100).fill(piece)), { requestTimeoutMs: 120_000 })
  assert.equal((await run('sha256sum < /tmp/big; rm /tmp/big', { timeoutMs: 120_000 })).stdout, want + '  -\n')
})

test('ranges', async () => {
  await files().write('range.txt', '0123456789')
  const headers = { ...toPort(box.it, 49983), 'X-Access-Token': box.it.envdAccessToken }
  const some = await raw('GET', '/files?path=range.txt', { headers: { ...headers, Range: 'bytes=2-4' } })
  assert.deepEqual([some.status, some.body.toString(), some.headers['content-range']], [206, '234', 'bytes 2-4/10'])
  assert.equal((await raw('GET', '/files?path=range.txt', { headers: { ...headers, Range: 'bytes=20-' } })).status, 416)
  // Of a state of the file that we never named, the client cannot have the rest.
  const whole = await raw('GET', '/files?path=range.txt', { headers: { ...headers, Range: 'bytes=2-4', 'If-Range': '"one"' } })
  assert.deepEqual([whole.status, whole.body.toString(), whole.headers.vary], [200, '0123456789', 'Accept-Encoding'])
})

test('what a client does not take is not sent', async () => {
  await files().write('coded', 'x'.repeat(1000))
  const headers = { ...toPort(box.it, 49983), 'X-Access-Token': box.it.envdAccessToken }
  const get = (more) => raw('GET', '/files?path=coded', { headers: { ...headers, ...more } })
  for (const accept of ['identity;q=0', '*;q=0', 'br, *;q=0']) assert.equal((await get({ 'Accept-Encoding': accept })).status, 406, accept)
  assert.equal((await get({ 'Accept-Encoding': 'identity;q=0, gzip, deflate' })).headers['content-encoding'], 'gzip')
  const beyond = await get({ Range: 'bytes=5000-6000' })
  assert.deepEqual([beyond.status, beyond.headers['content-range']], [416, 'bytes */1000'])
  const wrong = await raw('DELETE', '/files?path=coded', { headers })
  assert.deepEqual([wrong.status, wrong.headers.allow], [405, 'GET, HEAD, POST'])
})

test('several files at once', async () => {
  const written = await files().writeFiles([{ path: 'many/1.txt', data: 'one' }, { path: '/tmp/many 2 "x".txt', data: 'two' }, { path: 'many/ü.txt', data: 'drei' }])
  assert.deepEqual(written.map((w) => w.path), ['/home/user/many/1.txt', '/tmp/many 2 "x".txt', '/home/user/many/ü.txt'])
  assert.equal(await files().read('/tmp/many 2 "x".txt'), 'two')
  assert.equal(await files().read('many/ü.txt'), 'drei')
  const streamed = await files().writeFiles([{ path: 's1', data: stream('a') }, { path: 's2', data: 'b' }])
  assert.equal(streamed.length, 2)
})

test('the same file twice in one upload is refused', async () => {
  await assert.rejects(files().writeFiles([{ path: 'twice', data: '1' }, { path: '/home/user/twice', data: '2' }]), InvalidArgumentError)
})

test('errors of reading and writing', async () => {
  await assert.rejects(files().read('nothing'), FileNotFoundError)
  await assert.rejects(files().read('/tmp'), InvalidArgumentError)
  await assert.rejects(files().write('/tmp', 'x'), InvalidArgumentError)
  await assert.rejects(files().read('~root/x'), InvalidArgumentError)
  await assert.rejects(files().read('x', { user: 'nobody-at-all' }), AuthenticationError)
})

test('a body that is not what it says', async () => {
  const headers = { ...toPort(box.it, 49983), 'X-Access-Token': box.it.envdAccessToken }
  const put = (more, body) => raw('POST', '/files?path=bad.bin', { headers: { ...headers, ...more }, body })
  assert.equal((await put({ 'Content-Type': 'application/octet-stream', 'Content-Encoding': 'gzip' }, 'not gzip')).status, 400)
  assert.equal((await put({ 'Content-Type': 'application/octet-stream', 'Content-Encoding': 'gzip' }, gzipSync('x'.repeat(99999)).subarray(0, 40))).status, 400)
  assert.equal((await put({ 'Content-Type': 'text/plain' }, 'x')).status, 400)
  assert.equal((await put({ 'Content-Type': 'multipart/form-data; boundary=x' }, '--y\r\n')).status, 400)
  assert.equal((await put({ 'Content-Type': 'multipart/form-data' }, 'x')).status, 400)
  assert.equal((await raw('POST', '/files', { headers: { ...headers, 'Content-Type': 'application/octet-stream' }, body: 'x' })).status, 400)
  assert.equal((await put({ 'Content-Type': 'application/octet-stream', 'Content-Encoding': 'br' }, 'x')).status, 400)
})

test('root and user own what they write', async () => {
  await files().write('/root/r.txt', 'x', { user: 'root' })
  assert.equal((await run('stat -c %U /root/r.txt', { user: 'root' })).stdout, 'root\n')
})

test('metadata', async () => {
  const written = await files().write('m.txt', 'x', { metadata: { Author: 'me', purpose: 'a test' } })
  assert.deepEqual(written.metadata, { author: 'me', purpose: 'a test' })
  assert.deepEqual((await files().getInfo('m.txt')).metadata, { author: 'me', purpose: 'a test' })
  await files().write('m.txt', 'x', { metadata: { only: 'this' }, useOctetStream: true })
  assert.deepEqual((await files().getInfo('m.txt')).metadata, { only: 'this' })
  assert.deepEqual((await files().list('.')).find((e) => e.name === 'm.txt').metadata, { only: 'this' })
  await files().write('m.txt', 'x')
  assert.equal((await files().getInfo('m.txt')).metadata, undefined)
})

test('getInfo', async () => {
  await files().write('info.txt', '12345')
  await run('chmod 640 info.txt; ln -sf info.txt info.link; ln -sf /no/where broken.link; mkdir -p info.dir; chmod 1777 info.dir')
  const file = await files().getInfo('info.txt')
  assert.deepEqual([file.name, file.type, file.path, file.size, file.mode, file.permissions, file.owner, file.group],
    ['info.txt', 'file', '/home/user/info.txt', 5, 0o640, '-rw-r-----', 'user', 'user'])
  assert.ok(Math.abs(file.modifiedTime - Date.now()) < 600_000)
  const link = await files().getInfo('info.link')
  assert.deepEqual([link.type, link.mode, link.symlinkTarget], ['file', 0o640, '/home/user/info.txt'])
  const dir = await files().getInfo('info.dir')
  assert.deepEqual([dir.type, dir.permissions], ['dir', 'dtrwxrwxrwx'])
  await assert.rejects(files().getInfo('nope'), FileNotFoundError)
})

test('list', async () => {
  await run('rm -rf l; mkdir -p l/b/c l/a; touch l/z l/b/c/deep; ln -s z l/link; ln -s nowhere l/broken')
  const names = async (depth) => (await files().list('l', depth ? { depth } : {})).map((e) => e.path.slice('/home/user/l/'.length))
  assert.deepEqual(await names(), ['a', 'b', 'link', 'z'])
  assert.deepEqual(await names(2), ['a', 'b', 'b/c', 'link', 'z'])
  assert.deepEqual(await names(9), ['a', 'b', 'b/c', 'b/c/deep', 'link', 'z'])
  assert.deepEqual(await files().list('l/a'), [])
  await assert.rejects(files().list('l/nope'), FileNotFoundError)
  await assert.rejects(files().list('l/z'), InvalidArgumentError)
})

test('a directory with thousands of files', async () => {
  await run('mkdir -p many.d; cd many.d; seq 3000 | xargs touch')
  assert.equal((await files().list('many.d')).length, 3000)
})

test('makeDir', async () => {
  assert.equal(await files().makeDir('d1/d2/d3'), true)
  assert.equal(await files().makeDir('d1/d2/d3'), false)
  assert.equal((await run('stat -c %U:%a d1 d1/d2 d1/d2/d3')).stdout, 'user:755\n'.repeat(3))
  await files().write('plain', 'x')
  await assert.rejects(files().makeDir('plain'), InvalidArgumentError)
})

test('rename', async () => {
  await files().write('from.txt', 'moved')
  const entry = await files().rename('from.txt', 'new/place/to.txt')
  assert.deepEqual([entry.path, entry.type, entry.size], ['/home/user/new/place/to.txt', 'file', 5])
  assert.equal(await files().exists('from.txt'), false)
  assert.equal(await files().read('new/place/to.txt'), 'moved')
  await assert.rejects(files().rename('nope', 'nope2'), FileNotFoundError)
})

test('remove and exists', async () => {
  await files().write('gone/a/b', 'x')
  assert.equal(await files().exists('gone'), true)
  await files().remove('gone')
  assert.equal(await files().exists('gone'), false)
  await files().remove('gone')
})

test('paths cannot leave the sandbox', async () => {
  assert.match(await files().read('../../../../../../etc/hostname'), /\w/)
  await run('ln -sf /etc/passwd outlink; ln -sfn / rootlink')
  const inside = (await run('cat /etc/passwd')).stdout
  assert.equal(await files().read('outlink'), inside)
  assert.equal(await files().read('rootlink/etc/passwd'), inside)
  await assert.rejects(files().read('/etc/shadow'), NotFoundError)
})

test('special files are refused', async () => {
  await files().write('plain', 'x')
  await assert.rejects(files().write('plain/below', 'x'), InvalidArgumentError)
  await run('mkfifo -m 666 pipe')
  await assert.rejects(files().read('pipe'))
  await assert.rejects(files().read('/dev/zero'))
  await assert.rejects(files().write('/dev/null', 'x'))
  await assert.rejects(files().write('pipe', 'x'), InvalidArgumentError)
})

test('signed addresses', async () => {
  await files().write('signed.txt', 'signed')
  const down = await box.it.downloadUrl('signed.txt', { useSignatureExpiration: 1000 })
  assert.equal(await (await fetch(down)).text(), 'signed')
  const forever = await box.it.downloadUrl('signed.txt')
  assert.equal(await (await fetch(forever)).text(), 'signed')
  const up = await box.it.uploadUrl('upped.txt', { useSignatureExpiration: 1000 })
  const form = new FormData()
  form.append('file', new Blob(['upped']), 'ignored')
  assert.equal((await fetch(up, { method: 'POST', body: form })).status, 200)
  assert.equal(await files().read('upped.txt'), 'upped')
})

test('signatures that do not hold', async () => {
  const down = await box.it.downloadUrl('signed.txt')
  const headers = toPort(box.it, 49983)
  const get = async (text) => { const u = new URL(text); return (await raw('GET', u.pathname + u.search, { headers })).status }
  assert.equal(await get(down), 200)
  assert.equal(await get(down.replace('signed.txt', 'hello.txt')), 401)
  assert.equal(await get(down.replace('v1_', 'v1_x')), 401)
  assert.equal(await get(down + '&username=root'), 401)
  const expired = new URL(await box.it.downloadUrl('signed.txt', { useSignatureExpiration: 1000 }))
  assert.equal(await get(expired.href), 200)
  expired.searchParams.set('signature_expiration', '1')
  assert.equal(await get(expired.href), 401)
  const post = new URL(down)
  assert.equal((await raw('POST', post.pathname + post.search, { headers: { ...headers, 'Content-Type': 'application/octet-stream' }, body: 'x' })).status, 401)
  assert.equal((await raw('GET', '/files?path=signed.txt', { headers })).status, 401)
  assert.equal((await raw('GET', '/files?path=signed.txt', { headers: { ...headers, 'X-Access-Token': 'wrong' } })).status, 401)
  assert.equal((await raw('GET', '/files?path=x&signature=v1_nobody')).status, 401)
})

test('a signature of one sandbox does not open another', async () => {
  await withSandbox({}, async (second) => {
    await second.files.write('signed.txt', 'second')
    const url = new URL(await second.downloadUrl('signed.txt'))
    assert.equal((await raw('GET', url.pathname + url.search)).body.toString(), 'second')
    assert.equal((await raw('GET', url.pathname + url.search, { headers: toPort(box.it, 49983) })).status, 401)
  })
})

test('errors have a body that says so', async () => {
  const answer = await raw('GET', '/files?path=nothing-here', { headers: { ...toPort(box.it, 49983), 'X-Access-Token': box.it.envdAccessToken } })
  assert.equal(answer.status, 404)
  assert.equal(json(answer).code, 404)
  assert.ok(json(answer).message)
})

test('compose', async () => {
  await files().write('p1', 'one')
  await files().write('p2', 'two')
  const answer = await raw('POST', '/files/compose', {
    headers: { ...toPort(box.it, 49983), 'X-Access-Token': box.it.envdAccessToken, 'Content-Type': 'application/json' },
    body: JSON.stringify({ source_paths: ['p1', 'p2'], destination: 'joined' }),
  })
  assert.ok([200, 501].includes(answer.status))
  if (answer.status === 200) assert.equal(await files().read('joined'), 'onetwo')
})
