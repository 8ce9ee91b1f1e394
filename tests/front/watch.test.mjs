// Watching directories: streams, and the three calls of clients that poll.
import test from 'node:test'
import assert from 'node:assert/strict'
import { FileNotFoundError, InvalidArgumentError } from 'e2b'
import { shared, until, raw, toPort, json } from './lib.mjs'

const box = shared()
const files = () => box.it.files
const has = (events, type, name) => events.find((event) => event.type === type && event.name === name)

async function watch(path, options = {}) {
  const events = []
  const handle = await files().watchDir(path, (event) => { events.push(event) }, { timeoutMs: 0, ...options })
  return { events, handle }
}

test('create, write, rename, remove, chmod', async () => {
  await files().makeDir('w')
  const { events, handle } = await watch('w')
  await box.it.commands.run('cd w; echo a > f; chmod 600 f; mv f g; rm g')
  await until(() => has(events, 'create', 'f') && has(events, 'write', 'f') && has(events, 'chmod', 'f') &&
    has(events, 'rename', 'f') && has(events, 'create', 'g') && has(events, 'remove', 'g'), 'all six')
  await handle.stop()
})

test('only the directory itself unless recursive', async () => {
  await files().makeDir('w2/sub')
  const flat = await watch('w2')
  const deep = await watch('w2', { recursive: true })
  await files().write('w2/sub/f', 'x')
  await until(() => has(deep.events, 'create', 'sub/f'), 'the deep one')
  assert.equal(flat.events.some((event) => event.name.startsWith('sub/')), false)
  await files().write('w2/new/deeper/f', 'x')
  await until(() => has(deep.events, 'create', 'new/deeper/f'), 'a directory that came later')
  await flat.handle.stop()
  await deep.handle.stop()
})

test('with the entry', async () => {
  await files().makeDir('w3')
  const { events, handle } = await watch('w3', { includeEntry: true })
  await files().write('w3/f', '12345')
  const event = await until(() => events.find((e) => e.type === 'write' && e.entry?.size === 5) ?? has(events, 'create', 'f'), 'an entry')
  assert.deepEqual([event.entry.name, event.entry.path, event.entry.type, event.entry.owner], ['f', '/home/user/w3/f', 'file', 'user'])
  await files().remove('w3/f')
  assert.equal((await until(() => has(events, 'remove', 'f'), 'the removal')).entry, undefined)
  await handle.stop()
})

test('errors', async () => {
  await assert.rejects(watch('nope'), FileNotFoundError)
  await files().write('plain', 'x')
  await assert.rejects(watch('plain'), InvalidArgumentError)
})

test('the stream ends at its time', async () => {
  await files().makeDir('w4')
  let ended
  await files().watchDir('w4', () => {}, { timeoutMs: 400, onExit: (error) => { ended = error ?? 'ended' } })
  await until(() => ended, 'the end')
})

test('polled watchers', async () => {
  const rpc = async (method, body) => {
    const answer = await raw('POST', `/filesystem.Filesystem/${method}`, {
      headers: { ...toPort(box.it, 49983), 'X-Access-Token': box.it.envdAccessToken, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: answer.status, ...json(answer) }
  }
  await files().makeDir('w5')
  const { watcherId } = await rpc('CreateWatcher', { path: 'w5', recursive: true })
  assert.ok(watcherId)
  await files().write('w5/f', 'x')
  const events = []
  await until(async () => {
    events.push(...(await rpc('GetWatcherEvents', { watcherId })).events ?? [])
    return events.some((event) => event.type === 'EVENT_TYPE_CREATE' && event.name === 'f')
  }, 'the event')
  assert.equal((await rpc('RemoveWatcher', { watcherId })).status, 200)
  assert.deepEqual((({ status, code }) => [status, code])(await rpc('GetWatcherEvents', { watcherId })), [404, 'not_found'])
  assert.equal((await rpc('RemoveWatcher', { watcherId })).code, 'not_found')
  assert.equal((await rpc('CreateWatcher', { path: 'nope' })).code, 'not_found')
})
