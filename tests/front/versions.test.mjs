// Older packages: the first one that can be pointed at another server, and the last one that uses the old paths.
import test from 'node:test'
import assert from 'node:assert/strict'
import { connection } from './lib.mjs'

for (const name of ['e2b-first', 'e2b-before', 'e2b']) {
  test(name, async () => {
    Object.assign(process.env, { E2B_API_KEY: connection.apiKey, E2B_API_URL: connection.apiUrl, E2B_SANDBOX_URL: connection.sandboxUrl })
    const { Sandbox } = await import(name)
    const tag = `v${Math.random()}`
    const sandbox = await Sandbox.create({ timeoutMs: 60_000, metadata: { tag, 'a b': 'c&d' }, envs: { A: 'b' } })
    try {
      assert.equal((await sandbox.commands.run('echo $A; id -un')).stdout, 'b\nuser\n')
      await sandbox.files.write('dir/a.txt', 'text')
      assert.equal(await sandbox.files.read('dir/a.txt'), 'text')
      assert.deepEqual((await sandbox.files.list('dir')).map((entry) => entry.name), ['a.txt'])
      assert.equal(await sandbox.files.makeDir('other'), true)
      assert.equal(await sandbox.files.exists('nope'), false)
      assert.equal(await sandbox.isRunning(), true)
      assert.equal((await sandbox.getInfo()).metadata.tag, tag)
      assert.equal((await Sandbox.list({ query: { metadata: { tag, 'a b': 'c&d' } } }).nextItems()).length, 1)
      const background = await sandbox.commands.run('sleep 30', { background: true })
      assert.equal((await sandbox.commands.list()).length, 1)
      assert.equal(await background.kill(), true)
      assert.equal(await (await fetch(await sandbox.downloadUrl('dir/a.txt'))).text(), 'text')
      await sandbox.setTimeout(90_000)
      await sandbox.betaPause()
      const again = await Sandbox.connect(sandbox.sandboxId)
      assert.equal(await again.files.read('dir/a.txt'), 'text')
    } finally {
      await sandbox.kill()
    }
    assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
    assert.equal(await sandbox.isRunning(), false)
  })
}
