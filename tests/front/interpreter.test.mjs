// The code interpreter, with the real package.
import test from 'node:test'
import assert from 'node:assert/strict'
import { Sandbox, NotFoundError, SandboxError, TimeoutError } from '@e2b/code-interpreter'
import { json, raw, statusOf, shared, toPort, until, withSandbox } from './lib.mjs'

const box = shared({ envs: { FROM_SANDBOX: 'yes' } }, Sandbox)
const run = (...args) => box.it.runCode(...args)

test('the value of the last line', async () => {
  const execution = await run('x = 1\nx + 1')
  assert.equal(execution.text, '2')
  assert.equal(execution.error, undefined)
  assert.equal(execution.executionCount, 1)
})

test('state is kept', async () => {
  await run('kept = [1, 2]')
  assert.equal((await run('kept.append(3); kept')).text, '[1, 2, 3]')
  assert.equal((await run('def f():\n    return len(kept)')).text, undefined)
  assert.equal((await run('f()')).text, '3')
})

test('strings come without their quotes', async () => {
  assert.equal((await run("'grüß'")).text, 'grüß')
})

test('output streams', async () => {
  const seen = []
  const execution = await run('import sys, time\nfor i in range(3):\n    print("line", i)\n    time.sleep(0.2)\nprint("oops", file=sys.stderr)', {
    onStdout: (message) => seen.push(message), onStderr: (message) => seen.push(message),
  })
  assert.equal(execution.logs.stdout.join(''), 'line 0\nline 1\nline 2\n')
  assert.equal(execution.logs.stderr.join(''), 'oops\n')
  assert.ok(seen.length >= 4)
  assert.ok(seen.every((message) => message.timestamp))
})

test('output of other processes too', async () => {
  assert.equal((await run('import os\n_ = os.system("echo from sh")')).logs.stdout.join(''), 'from sh\n')
  assert.equal((await run('!echo magic')).logs.stdout.join(''), 'magic\n')
})

test('characters are never cut', async () => {
  const execution = await run('print("ü€😀" * 50000)')
  assert.equal(execution.logs.stdout.join(''), 'ü€😀'.repeat(50000) + '\n')
})

test('errors', async () => {
  const execution = await run('def broken():\n    return 1 / 0\nbroken()')
  assert.equal(execution.error.name, 'ZeroDivisionError')
  assert.equal(execution.error.value, 'division by zero')
  assert.match(execution.error.traceback, /return 1 \/ 0/)
  assert.equal((await run('x = = 1')).error.name, 'SyntaxError')
  assert.equal((await run('raise SystemExit(3)')).error.name, 'SystemExit')
  assert.equal((await run('1 + 1')).text, '2')
})

test('rich results', async () => {
  const execution = await run('class Rich:\n    def _repr_html_(self): return "<b>x</b>"\n    def _repr_png_(self): return b"png"\n    def _repr_json_(self): return {"a": 1}\nRich()')
  const [result] = execution.results
  assert.equal(result.html, '<b>x</b>')
  assert.equal(Buffer.from(result.png, 'base64').toString(), 'png')
  assert.deepEqual(result.json, { a: 1 })
  assert.equal(result.isMainResult, true)
  const shown = await run('display("one"); display(2); "main"')
  assert.deepEqual(shown.results.map((r) => [r.text, r.isMainResult]), [['one', false], ['2', false], ['main', true]])
})

test('await at the top', async () => {
  assert.equal((await run('import asyncio\nasync def later():\n    await asyncio.sleep(0.01)\n    return 5\nawait later()')).text, '5')
})

test('variables of the sandbox, and of one execution', async () => {
  const execution = await run('import os\n[os.environ["FROM_SANDBOX"], os.environ["ONCE"]]', { envs: { ONCE: 'ü' } })
  assert.equal(execution.text, "['yes', 'ü']")
  assert.equal((await run('"ONCE" in os.environ')).text, 'False')
  assert.equal((await run('os.environ["E2B_SANDBOX_ID"]')).text, box.it.sandboxId)
  assert.equal((await run('import getpass; [getpass.getuser(), os.getcwd()]')).text, "['user', '/home/user']")
})

test('contexts', async () => {
  const context = await box.it.createCodeContext({ cwd: '/tmp' })
  assert.deepEqual([context.language, context.cwd], ['python', '/tmp'])
  assert.equal((await run('import os; os.getcwd()', { context })).text, '/tmp')
  await run('mine = 1', { context })
  assert.equal((await run('mine')).error.name, 'NameError')
  assert.ok((await box.it.listCodeContexts()).some((c) => c.id === context.id))
  await box.it.restartCodeContext(context)
  assert.equal((await run('mine', { context })).error.name, 'NameError')
  await box.it.removeCodeContext(context)
  await assert.rejects(run('1', { context }), NotFoundError)
  await assert.rejects(box.it.removeCodeContext('none'), NotFoundError)
  assert.equal((await box.it.commands.list()).length, 0)
})

test('executions of one context wait for each other', async () => {
  const context = await box.it.createCodeContext()
  const all = await Promise.all([0, 1, 2, 3].map((i) => run(`import time; time.sleep(0.1)\nlog = globals().get("log", []) + [${i}]\nlog`, { context })))
  assert.deepEqual(all.map((e) => JSON.parse(e.text).length), [1, 2, 3, 4])
  await box.it.removeCodeContext(context)
})

test('a client that leaves stops its code', async () => {
  await assert.rejects(run('import time\nbusy = True\ntime.sleep(60)', { timeoutMs: 500 }), TimeoutError)
  const start = Date.now()
  assert.equal((await run('busy')).text, 'True')
  assert.ok(Date.now() - start < 10_000)
})

test('code that cannot be stopped takes its interpreter with it', async () => {
  await run('forgotten = 1')
  await assert.rejects(run('import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass', { timeoutMs: 500 }), TimeoutError)
  assert.equal((await run('forgotten', { timeoutMs: 30_000 })).error.name, 'NameError')
})

test('an interpreter that dies says so, and the next one works', async () => {
  const execution = await run('import os\nprint("last words", flush=True)\nos._exit(3)')
  assert.equal(execution.logs.stdout.join(''), 'last words\n')
  assert.match(execution.error.value, /status 3/)
  assert.equal((await run('2 + 2')).text, '4')
})

test('a result that is too large is an error, and no more than that', async () => {
  const execution = await run('"x" * (20 << 20)')
  assert.equal(execution.error.name, 'OutputTooLong')
  assert.equal((await run('"x" * (2 << 20)')).text.length, 2 << 20)
})

test('javascript', async () => {
  const js = (code, options = {}) => run(code, { language: 'javascript', ...options })
  assert.equal((await js('const x = 1; console.log("hi"); x + 1')).text, '2')
  assert.equal((await js('const x = 5; [x, typeof require]')).text, "[ 5, 'function' ]")
  assert.equal((await js('await new Promise((r) => setTimeout(r, 10)); x')).text, '5')
  const failed = await js('throw new TypeError("bad ü")')
  assert.deepEqual([failed.error.name, failed.error.value], ['TypeError', 'bad ü'])
  assert.equal((await js('console.error("e"); console.log("o")')).logs.stderr.join(''), 'e\n')
  assert.equal((await js('import os from "node:os"; os.platform()')).text, 'linux')
  assert.equal((await js('process.env.ONCE', { envs: { ONCE: 'x' } })).text, 'x')
  assert.deepEqual((await js('({ a: [1] })')).results[0].json, { a: [1] })
})

test('bash', async () => {
  const sh = (code, options = {}) => run(code, { language: 'bash', ...options })
  assert.equal((await sh('kept=5; cd /tmp; echo hi; echo oops >&2')).logs.stdout.join(''), 'hi\n')
  assert.equal((await sh('echo $kept $PWD; false')).logs.stdout.join(''), '5 /tmp\n')
  assert.equal((await sh('echo $ONCE', { envs: { ONCE: "it's" } })).logs.stdout.join(''), "it's\n")
  assert.equal((await sh('echo "[$ONCE]"; cat')).logs.stdout.join(''), '[]\n')
})

test('languages that are not there', async () => {
  await assert.rejects(run('1', { language: 'r' }), SandboxError)
  const answer = await raw('POST', '/execute', { headers: { ...toPort(box.it, 49999), 'X-Access-Token': box.it.envdAccessToken }, body: JSON.stringify({ code: '1', language: 'java' }) })
  assert.equal(answer.status, 400)
  assert.match(answer.body.toString(), /java/)
})

test('bad requests', async () => {
  const post = (body, headers = {}) => raw('POST', '/execute', { headers: { ...toPort(box.it, 49999), 'X-Access-Token': box.it.envdAccessToken, ...headers }, body: typeof body === 'string' ? body : JSON.stringify(body) })
  assert.equal((await post({})).status, 400)
  assert.equal((await post({ code: 1 })).status, 400)
  assert.equal((await post('{')).status, 400)
  assert.equal((await post({ code: '1', context_id: 'x', language: 'python' })).status, 400)
  assert.equal((await post({ code: '1', context_id: 'none' })).status, 404)
  assert.equal((await post({ code: '1' }, { 'X-Access-Token': 'wrong' })).status, 401)
  assert.equal((await post({ code: '1', context_id: null, language: null, env_vars: null })).status, 200)
  assert.ok([413, 'cut'].includes(await statusOf(post('x'.repeat(5 << 20)))))
})

test('lines are what clients can read', async () => {
  const answer = await raw('POST', '/execute', { headers: { ...toPort(box.it, 49999), 'X-Access-Token': box.it.envdAccessToken }, body: JSON.stringify({ code: 'print("a\\n\\nü")\n"ü"' }) })
  const lines = answer.body.toString('latin1').split('\n')
  assert.equal(lines.pop(), '')
  assert.ok(lines.every((line) => line.length && /^[\x20-\x7e]+$/.test(line)))
  const types = lines.map((line) => JSON.parse(line).type)
  assert.deepEqual([...new Set(types)], ['stdout', 'result', 'number_of_executions', 'end_of_execution'])
})

test('health', async () => {
  assert.equal(json(await raw('GET', '/health', { headers: toPort(box.it, 49999) })), 'OK')
})

test('silence is broken by keepalives', async () => {
  await withSandbox({}, async (sandbox) => {
    const answer = await raw('POST', '/execute', { headers: { ...toPort(sandbox, 49999), 'X-Access-Token': sandbox.envdAccessToken }, body: JSON.stringify({ code: 'import time; time.sleep(6)' }) })
    assert.ok(answer.body.toString().includes('"keepalive"'))
  }, Sandbox)
})

test('killed while it runs', async () => {
  const sandbox = await Sandbox.create({ ...(await import('./lib.mjs')).connection })
  const running = sandbox.runCode('import time; time.sleep(60)').catch((error) => error)
  await until(async () => (await sandbox.runCode('1', { language: 'bash' })).error === undefined, 'the sandbox')
  await sandbox.kill()
  const end = await running
  assert.ok(end instanceof Error || end.error)
})
