// Commands: streams, stdin, background, reconnect, kill, timeouts, env, cwd, user.
import test from 'node:test'
import assert from 'node:assert/strict'
import { CommandExitError, InvalidArgumentError, NotFoundError, SandboxNotFoundError, TimeoutError, AuthenticationError } from 'e2b'
import { shared, until, sleep, withSandbox, raw, toPort, envelope, envelopes } from './lib.mjs'

const box = shared({ envs: { FROM_SANDBOX: 'yes', BOTH: 'sandbox' } })
const run = (...args) => box.it.commands.run(...args)

test('echo', async () => {
  const result = await run('echo hi')
  assert.deepEqual([result.exitCode, result.stdout, result.stderr, result.error], [0, 'hi\n', '', undefined])
})

test('stdout and stderr are apart', async () => {
  const result = await run('echo out; echo err >&2')
  assert.deepEqual([result.stdout, result.stderr], ['out\n', 'err\n'])
})

test('output streams while the command runs', async () => {
  const seen = []
  const handle = await run('echo one; read x; echo two', { background: true, stdin: true, onStdout: (text) => seen.push(text) })
  await until(() => seen.join('') === 'one\n', 'the first line')
  await box.it.commands.sendStdin(handle.pid, 'go\n')
  await handle.wait()
  assert.equal(seen.join(''), 'one\ntwo\n')
})

test('exit status', async () => {
  const error = await run('echo x; exit 7').catch((e) => e)
  assert.ok(error instanceof CommandExitError)
  assert.deepEqual([error.exitCode, error.stdout, error.message], [7, 'x\n', 'exit status 7'])
})

test('ended by a signal', async () => {
  const handle = await run('kill -9 $$', { background: true })
  const error = await handle.wait().catch((e) => e)
  assert.deepEqual([error.exitCode, error.error], [-1, 'signal: killed'])
})

test('a command that is not there', async () => {
  const error = await run('no-such-command-here').catch((e) => e)
  assert.equal(error.exitCode, 127)
  assert.match(error.stderr, /not found/)
})

test('default user, home and directory', async () => {
  const result = await run('id -un; id -u; echo $HOME; pwd; echo $USER $LOGNAME')
  assert.equal(result.stdout, 'user\n1000\n/home/user\n/home/user\nuser user\n')
})

test('root on request', async () => {
  assert.equal((await run('id -u; echo $HOME; pwd', { user: 'root' })).stdout, '0\n/root\n/root\n')
})

test('unknown user', async () => {
  await assert.rejects(run('true', { user: 'nobody-at-all' }), AuthenticationError)
})

test('cwd', async () => {
  assert.equal((await run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
  await assert.rejects(run('pwd', { cwd: '/no/such/place' }), (e) => e instanceof InvalidArgumentError && /'\/no\/such\/place'/.test(e.message))
  await assert.rejects(run('pwd', { cwd: '~root' }), InvalidArgumentError)
  await box.it.files.makeDir('below')
  for (const cwd of ['below', '~/below']) assert.equal((await run('pwd', { cwd })).stdout, '/home/user/below\n')
  assert.equal((await run('pwd', { cwd: '~', user: 'root' })).stdout, '/root\n')
})

test('environment: sandbox, then request', async () => {
  const result = await run('echo $FROM_SANDBOX $BOTH $MINE', { envs: { BOTH: 'request', MINE: 'a b=c' } })
  assert.equal(result.stdout, 'yes request a b=c\n')
})

test('what a sandbox says about itself', async () => {
  const result = await run('echo $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID; cd /run/e2b; cat .E2B_SANDBOX .E2B_SANDBOX_ID .E2B_TEMPLATE_ID')
  const id = box.it.sandboxId
  assert.equal(result.stdout.split('\n')[0], `true ${id} base`)
  assert.equal(result.stdout.split('\n').slice(1).join(''), `true${id}base`)
})

test('those cannot be overridden', async () => {
  await withSandbox({ envs: { E2B_SANDBOX: 'no', E2B_SANDBOX_ID: 'x' } }, async (sandbox) => {
    assert.equal((await sandbox.commands.run('echo $E2B_SANDBOX $E2B_SANDBOX_ID')).stdout, `true ${sandbox.sandboxId}\n`)
  })
})

test('stdin: lines, then end', async () => {
  const handle = await run('cat; echo done', { background: true, stdin: true })
  await handle.sendStdin('one\n')
  await handle.sendStdin(new TextEncoder().encode('zwei: ü\n'))
  await handle.closeStdin()
  assert.equal((await handle.wait()).stdout, 'one\nzwei: ü\ndone\n')
})

test('a megabyte on stdin', async () => {
  const handle = await run('sha256sum', { background: true, stdin: true })
  const data = Buffer.alloc(1 << 20, 'ward')
  await handle.sendStdin(data)
  await handle.closeStdin()
  const { createHash } = await import('node:crypto')
  assert.equal((await handle.wait()).stdout, createHash('sha256').update(data).digest('hex') + '  -\n')
})

test('no stdin unless asked for', async () => {
  assert.equal((await run('cat; echo end')).stdout, 'end\n')
  const handle = await run('sleep 30', { background: true })
  await assert.rejects(handle.sendStdin('x'))
  await handle.kill()
})

test('much output arrives whole', async () => {
  const result = await run('head -c 20000000 /dev/zero | tr "\\0" x', { timeoutMs: 120_000 })
  assert.equal(result.stdout.length, 20000000)
})

test('characters that are cut between two reads', async () => {
  const result = await run(`python3 -c "
import os, time
for byte in 'grün €'.encode():
    os.write(1, bytes([byte])); time.sleep(0.01)"`)
  assert.equal(result.stdout, 'grün €')
})

test('what is left in the background still speaks, and a kill ends it', async () => {
  assert.equal((await run('(sleep 0.5; echo late) & echo soon')).stdout, 'soon\nlate\n')
  const handle = await run('sleep 100 & echo $!', { background: true, timeoutMs: 0 })
  const left = await until(() => handle.stdout.trim(), 'its number')
  assert.equal(await handle.kill(), true)
  assert.equal((await handle.wait()).exitCode, 0)
  await until(async () => (await run(`kill -0 ${left} 2>/dev/null || echo gone`)).stdout === 'gone\n', 'the end of the one left behind')
})

test('list', async () => {
  const handle = await run('sleep 40', { background: true, envs: { A: 'b' }, cwd: '/tmp' })
  const found = (await box.it.commands.list()).find((process) => process.pid === handle.pid)
  assert.deepEqual([found.cmd, found.args, found.cwd, found.envs.A], ['/bin/bash', ['-l', '-c', 'sleep 40'], '/tmp', 'b'])
  assert.equal(await handle.kill(), true)
  await until(async () => !(await box.it.commands.list()).some((process) => process.pid === handle.pid), 'it to go')
})

test('kill', async () => {
  const handle = await run('sleep 40', { background: true })
  assert.equal(await box.it.commands.kill(handle.pid), true)
  const error = await handle.wait().catch((e) => e)
  assert.equal(error.error, 'signal: killed')
  await until(async () => (await box.it.commands.kill(handle.pid)) === false, 'a second kill to find nothing')
  assert.equal(await box.it.commands.kill(999999), false)
})

test('time limit of a command kills it', async () => {
  const start = Date.now()
  await assert.rejects(run('echo $$ > /tmp/limited; sleep 60', { timeoutMs: 700 }), TimeoutError)
  assert.ok(Date.now() - start < 30_000)
  await until(async () => {
    const pid = (await box.it.files.read('/tmp/limited')).trim()
    return (await run(`test -d /proc/${pid} && echo alive || echo gone`)).stdout === 'gone\n'
  }, 'the process to be killed')
})

test('the server itself ends a stream at its deadline', async () => {
  const answer = await raw('POST', '/process.Process/Start', {
    headers: { ...toPort(box.it, 49983), 'X-Access-Token': box.it.envdAccessToken, 'Content-Type': 'application/connect+json', 'Connect-Timeout-Ms': '300' },
    body: envelope({ process: { cmd: '/bin/sleep', args: ['60'] } }),
  })
  const messages = envelopes(answer.body)
  assert.equal(answer.status, 200)
  assert.ok(messages[0].message.event.start.pid > 0)
  assert.equal(messages.at(-1).flags, 2)
  assert.equal(messages.at(-1).message.error.code, 'deadline_exceeded')
})

test('disconnect leaves it running, connect finds it', async () => {
  const handle = await run('for i in $(seq 100); do echo $i; sleep 0.1; done', { background: true, timeoutMs: 0 })
  await until(() => handle.stdout.includes('3\n'), 'some output')
  await handle.disconnect()
  const again = await box.it.commands.connect(handle.pid, { timeoutMs: 0 })
  await until(() => again.stdout.length > 2, 'output after connecting')
  assert.equal(await again.kill(), true)
  await assert.rejects(again.wait(), CommandExitError)
})

test('two listeners', async () => {
  const first = await run('read x; echo $x; read x', { background: true, stdin: true })
  const second = await box.it.commands.connect(first.pid)
  await first.sendStdin('both\n')
  await until(() => first.stdout === 'both\n' && second.stdout === 'both\n', 'both to hear it')
  await first.sendStdin('\n')
  assert.deepEqual((await Promise.all([first.wait(), second.wait()])).map((r) => r.exitCode), [1, 1].map(() => 0))
})

test('connect after the end still tells the exit', async () => {
  const handle = await run('exit 3', { background: true })
  await handle.wait().catch(() => {})
  const late = await box.it.commands.connect(handle.pid)
  const error = await late.wait().catch((e) => e)
  assert.equal(error.exitCode, 3)
})

test('a time limit that is none is refused in the stream', async () => {
  const headers = { ...toPort(box.it, 49983), 'X-Access-Token': box.it.envdAccessToken, 'Content-Type': 'application/connect+json', 'Connect-Timeout-Ms': 'soon' }
  const answer = await raw('POST', '/process.Process/Start', { headers, body: envelope({ process: { cmd: '/bin/true' } }) })
  assert.equal(answer.status, 200)
  assert.equal(envelopes(answer.body).at(-1).message.error.code, 'invalid_argument')
})

test('connect to nothing', async () => {
  await assert.rejects(box.it.commands.connect(999999), NotFoundError)
})

test('many at once', async () => {
  const results = await Promise.all(Array.from({ length: 40 }, (_, i) => run(`echo ${i}`)))
  assert.deepEqual(results.map((r) => r.stdout), results.map((_, i) => `${i}\n`))
})

test('the largest command line', async () => {
  const word = 'x'.repeat(100_000)
  assert.equal((await run(`echo ${word} | wc -c`)).stdout, '100001\n')
})

test('a sandbox that is gone', async () => {
  const gone = await withSandbox({}, async (sandbox) => sandbox)
  await assert.rejects(gone.commands.run('true'), SandboxNotFoundError)
})

test('killed in the middle', async () => {
  await withSandbox({}, async (sandbox) => {
    const running = sandbox.commands.run('sleep 60').catch((e) => e)
    await sleep(300)
    await sandbox.kill()
    assert.ok((await running) instanceof Error)
  })
})
