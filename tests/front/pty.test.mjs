// Terminals: create, input, resize, connect, kill.
import test from 'node:test'
import assert from 'node:assert/strict'
import { shared, until } from './lib.mjs'

const box = shared()
const text = new TextEncoder()

async function open(options = {}) {
  const seen = { text: '' }
  const decoder = new TextDecoder()
  const handle = await box.it.pty.create({ cols: 80, rows: 24, timeoutMs: 0, onData: (data) => { seen.text += decoder.decode(data, { stream: true }) }, ...options })
  return { handle, seen, type: (line) => box.it.pty.sendInput(handle.pid, text.encode(line)) }
}

test('a shell on a terminal', async () => {
  const { handle, seen, type } = await open({ envs: { MARK: 'here' }, cwd: '/tmp' })
  await type('test -t 0 && echo is-$MARK-$(pwd)-$TERM\n')
  await until(() => seen.text.includes('is-here-/tmp-xterm-256color'), 'the answer')
  await type('exit\n')
  assert.equal((await handle.wait()).exitCode, 0)
})

test('size and resize', async () => {
  const { handle, seen, type } = await open({ cols: 91, rows: 31 })
  await type('stty size\n')
  await until(() => seen.text.includes('31 91'), 'the first size')
  await box.it.pty.resize(handle.pid, { cols: 120, rows: 40 })
  await type('stty size\n')
  await until(() => seen.text.includes('40 120'), 'the second size')
  await handle.kill()
})

test('control characters reach the foreground', async () => {
  const { handle, seen, type } = await open()
  await type('echo be""gun; sleep 100\n')
  await until(() => seen.text.includes('begun'), 'the command to begin: before that it is the shell that hears')
  await type('\x03')
  await type('echo inter""rupted\n')
  await until(() => seen.text.includes('interrupted'), 'the prompt to come back')
  await handle.kill()
})

test('another user', async () => {
  const { handle, seen, type } = await open({ user: 'root' })
  await type('echo uid=$(id -u)\n')
  await until(() => seen.text.includes('uid=0'), 'root')
  await handle.kill()
})

test('connect to a terminal', async () => {
  const { handle, type } = await open()
  const seen = []
  await handle.disconnect()
  const again = await box.it.pty.connect(handle.pid, { onData: (data) => { seen.push(Buffer.from(data)) }, timeoutMs: 0 })
  await type('echo re""connected\n')
  await until(() => Buffer.concat(seen).includes('reconnected'), 'output')
  assert.equal(await box.it.pty.kill(again.pid), true)
})

test('kill', async () => {
  const { handle } = await open()
  assert.equal(await box.it.pty.kill(handle.pid), true)
  await assert.rejects(handle.wait())
  await until(async () => (await box.it.pty.kill(handle.pid)) === false, 'it to be gone')
})
