// The control plane: life, lists, metadata, time, metrics, and what other tenants see.
import test from 'node:test'
import assert from 'node:assert/strict'
import { AuthenticationError, Sandbox, SandboxError, SandboxNotFoundError, NotFoundError, Secret, SecretNotFoundError, Volume, VolumeNotFoundError } from 'e2b'
import { api, connection, json, keys, other, raw, statusOf, toPort, until, withSandbox } from './lib.mjs'

const mark = () => `m${Math.random().toString(36).slice(2)}`
const all = async (paginator) => {
  const found = []
  while (paginator.hasNext) found.push(...(await paginator.nextItems()))
  return found
}

test('create, look, kill, kill again', async () => {
  const sandbox = await Sandbox.create('base', { ...connection, metadata: { who: 'me', 'odd key': 'a&b=c ü' }, timeoutMs: 90_000 })
  assert.match(sandbox.sandboxId, /^[a-z0-9]+$/)
  assert.equal(await sandbox.isRunning(), true)
  const info = await sandbox.getInfo()
  assert.equal(info.sandboxId, sandbox.sandboxId)
  assert.equal(info.templateId, 'base')
  assert.deepEqual(info.metadata, { who: 'me', 'odd key': 'a&b=c ü' })
  assert.equal(info.state, 'running')
  assert.deepEqual(info.lifecycle, { onTimeout: 'kill', autoResume: false })
  assert.ok(info.cpuCount >= 1 && info.memoryMB > 0)
  const left = info.endAt - Date.now()
  assert.ok(left > 60_000 && left <= 90_000, `${left} ms left`)
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.kill(), false)
  assert.equal(await Sandbox.kill(sandbox.sandboxId, connection), false)
  assert.equal(await sandbox.isRunning(), false)
  await assert.rejects(sandbox.getInfo(), SandboxNotFoundError)
})

test('both generations of create and connect', async () => {
  const old = await api('POST', '/sandboxes', { templateID: 'base', timeout: 60, secure: true, allow_internet_access: true })
  assert.equal(old.status, 201)
  for (const field of ['sandboxID', 'templateID', 'clientID', 'envdVersion', 'envdAccessToken', 'domain']) assert.ok(json(old)[field], field)
  const id = json(old).sandboxID
  for (const path of [`/sandboxes/${id}/connect`, `/v2/sandboxes/${id}/connect`, `/sandboxes/${id}-clientid/connect`]) {
    const answer = await api('POST', path, { timeout: 60 })
    assert.equal(answer.status, 200)
    assert.equal(json(answer).envdAccessToken, json(old).envdAccessToken)
  }
  assert.equal((await api('POST', `/v2/sandboxes/${id}/connect`, {})).status, 200)
  assert.equal((await api('DELETE', `/sandboxes/${id}`)).status, 204)
  const empty = await api('POST', '/v2/sandboxes', {})
  assert.equal(empty.status, 201)
  assert.equal((await api('DELETE', `/sandboxes/${json(empty).sandboxID}`)).status, 204)
})

test('without a token on request', async () => {
  const answer = await api('POST', '/sandboxes', { templateID: 'base', timeout: 60, secure: false })
  const id = json(answer).sandboxID
  assert.equal(json(answer).envdAccessToken, undefined)
  assert.equal((await raw('GET', '/files?path=/etc/hostname', { headers: { 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': '49983' } })).status, 200)
  await api('DELETE', `/sandboxes/${id}`)
})

test('errors of create', async () => {
  await assert.rejects(Sandbox.create('no-such-template-here', connection), SandboxError)
  for (const [body, field] of [
    [{ templateID: 7 }, 'templateID'], [{ timeout: 'x' }, 'timeout'], [{ timeout: 0 }, 'timeout'], [{ metadata: [] }, 'metadata'],
    [{ metadata: { a: 1 } }, 'metadata.a'], [{ envVars: 'x' }, 'envVars'], [{ autoPause: 'yes' }, 'autoPause'], [{ network: 3 }, 'network'],
    [{ autoResume: true }, 'autoResume'], [{ network: { allowOut: [1] } }, 'allowOut[0]'],
  ]) {
    const answer = await api('POST', '/v2/sandboxes', { templateID: 'base', ...body })
    assert.equal(answer.status, 400, JSON.stringify(body))
    assert.equal(json(answer).code, 400)
    assert.ok(json(answer).message.includes(`'${field}'`), json(answer).message)
  }
  for (const body of ['', '[]', '{', 'null', '{"a":1,"a":2}', '"x"', '['.repeat(1000)]) {
    const answer = await raw('POST', '/v2/sandboxes', { headers: { 'X-API-KEY': keys[0] }, body })
    assert.equal(answer.status, body === '' ? 201 : 400)
    if (answer.status === 201) await api('DELETE', `/sandboxes/${json(answer).sandboxID}`)
  }
  assert.ok([413, 'cut'].includes(await statusOf(raw('POST', '/v2/sandboxes', { headers: { 'X-API-KEY': keys[0] }, body: '{"x":"' + 'y'.repeat(2 << 20) + '"}' }))))
})

test('keys', async () => {
  await assert.rejects(Sandbox.create({ ...connection, apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError)
  for (const key of ['', 'x', 'e2b_', 'e2b_' + 'f'.repeat(40), keys[0] + '0', keys[0].slice(0, -1)]) {
    const answer = await api('GET', '/v2/sandboxes', undefined, key)
    assert.equal(answer.status, 401)
    assert.equal(json(answer).code, 401)
    assert.ok(!answer.body.toString().includes(key || 'never'), 'a key is not said back')
  }
  assert.equal((await raw('GET', '/v2/sandboxes')).status, 401)
  assert.equal((await raw('GET', '/v2/sandboxes', { headers: { Authorization: `Bearer ${keys[0]}` } })).status, 200)
})

test('paths and methods', async () => {
  assert.equal((await api('GET', '/nothing')).status, 404)
  assert.equal((await api('PUT', '/v2/sandboxes')).status, 405)
  assert.equal((await api('GET', '/sandboxes/aaaaaaaaaaaa')).status, 404)
  assert.equal((await api('GET', '/sandboxes/i0123456789abcdefghij')).status, 404)
  assert.equal((await api('GET', '/sandboxes/AB..%2f')).status, 400)
  assert.equal((await raw('GET', '/health')).status, 200)
  assert.equal((await raw('GET', '/ready')).status, 200)
  assert.match((await raw('GET', '/metrics')).body.toString(), /ward_sandboxes/)
})

test('a page in a browser may ask', async () => {
  const asked = await raw('OPTIONS', '/v2/sandboxes', { headers: { Origin: 'https://x.test', 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'x-api-key' } })
  assert.equal(asked.status, 204)
  assert.equal(asked.headers['access-control-allow-origin'], '*')
  assert.match(asked.headers['access-control-allow-headers'], /x-api-key/)
  assert.equal((await api('GET', '/v2/sandboxes')).headers['access-control-allow-origin'], '*')
})

test('list: pages, order, state, metadata', async () => {
  const tag = mark()
  const made = []
  for (let i = 0; i < 5; i++) made.push(await Sandbox.create('base', { ...connection, timeoutMs: 120_000, metadata: { tag, 'k 1': `v&${i % 2}` } }))
  try {
    const ids = made.map((sandbox) => sandbox.sandboxId)
    const query = { metadata: { tag } }
    assert.deepEqual((await all(Sandbox.list({ ...connection, query }))).map((s) => s.sandboxId), [...ids].reverse())
    assert.deepEqual((await all(Sandbox.list({ ...connection, query, order: 'asc', limit: 2 }))).map((s) => s.sandboxId), ids)
    assert.deepEqual((await all(Sandbox.list({ ...connection, query: { metadata: { tag, 'k 1': 'v&1' } }, order: 'asc' }))).map((s) => s.sandboxId), [ids[1], ids[3]])
    assert.deepEqual(await all(Sandbox.list({ ...connection, query: { metadata: { tag, other: 'x' } } })), [])
    await made[2].pause()
    assert.deepEqual((await all(Sandbox.list({ ...connection, query: { ...query, state: ['paused'] } }))).map((s) => [s.sandboxId, s.state]), [[ids[2], 'paused']])
    assert.equal((await all(Sandbox.list({ ...connection, query: { ...query, state: ['running'] } }))).length, 4)
    assert.equal((await all(Sandbox.list({ ...connection, query: { ...query, state: ['running', 'paused'] } }))).length, 5)
    assert.equal((await all(Sandbox.list({ ...connection, query: { ...query, template: 'base' } }))).length, 5)
    const later = (await made[4].getInfo()).startedAt
    assert.ok((await all(Sandbox.list({ ...connection, query: { ...query, startedAfter: new Date(later.getTime() + 60_000) } }))).length === 0)
    const old = json(await api('GET', '/sandboxes'))
    assert.ok(old.every((s) => s.state === 'running'))
    const [first] = await Sandbox.list({ ...connection, query }).nextItems()
    assert.deepEqual(first.metadata.tag, tag)
    assert.equal((await api('GET', '/v2/sandboxes?limit=0')).status, 400)
    assert.equal((await api('GET', '/v2/sandboxes?state=odd')).status, 400)
    assert.equal((await api('GET', '/v2/sandboxes?nextToken=garbage')).status, 400)
    assert.equal((await api('GET', '/v2/sandboxes?metadata=%25zz')).status, 400)
  } finally {
    await Promise.all(made.map((sandbox) => sandbox.kill()))
  }
})

test('time limits', async () => {
  const sandbox = await Sandbox.create({ ...connection, timeoutMs: 60_000 })
  await sandbox.setTimeout(200_000)
  assert.ok((await sandbox.getInfo()).endAt - Date.now() > 150_000)
  await sandbox.setTimeout(1_000)
  await until(async () => !(await sandbox.isRunning()), 'its time to be over')
  assert.equal(await sandbox.kill(), false)
  await assert.rejects(sandbox.setTimeout(1000), SandboxNotFoundError)
})

test('connect extends and never shortens', async () => {
  await withSandbox({ timeoutMs: 100_000 }, async (sandbox) => {
    await Sandbox.connect(sandbox.sandboxId, { ...connection, timeoutMs: 10_000 })
    assert.ok((await sandbox.getInfo()).endAt - Date.now() > 50_000)
    await Sandbox.connect(sandbox.sandboxId, { ...connection, timeoutMs: 300_000 })
    assert.ok((await sandbox.getInfo()).endAt - Date.now() > 200_000)
    await api('POST', `/sandboxes/${sandbox.sandboxId}/refreshes`, { duration: 3000 })
    assert.ok((await sandbox.getInfo()).endAt - Date.now() > 2000_000)
  })
})

test('timeout pauses instead, and connect resumes', async () => {
  await withSandbox({ timeoutMs: 2_000, lifecycle: { onTimeout: 'pause' } }, async (sandbox) => {
    await sandbox.files.write('kept', 'x')
    await until(async () => (await sandbox.getInfo()).state === 'paused', 'the pause')
    assert.equal((await sandbox.getInfo()).lifecycle.onTimeout, 'pause')
    const again = await Sandbox.connect(sandbox.sandboxId, { ...connection, timeoutMs: 60_000 })
    assert.equal(await again.files.read('kept'), 'x')
  })
})

test('pause and resume', async () => {
  await withSandbox({ timeoutMs: 120_000 }, async (sandbox) => {
    const counter = await sandbox.commands.run('i=0; while :; do i=$((i+1)); echo $i > /tmp/count; sleep 0.05; done', { background: true, timeoutMs: 0 })
    await until(async () => await sandbox.files.exists('/tmp/count'), 'the counter')
    assert.equal(await sandbox.pause(), true)
    assert.equal(await sandbox.pause(), false)
    assert.equal((await sandbox.getInfo()).state, 'paused')
    assert.equal(await sandbox.isRunning(), false)
    assert.equal((await raw('GET', '/health', { headers: toPort(sandbox, 49999) })).status, 502)
    await assert.rejects(sandbox.commands.run('true'))
    await assert.rejects(sandbox.setTimeout(10_000), NotFoundError)
    const again = await sandbox.connect({ timeoutMs: 60_000 })
    assert.equal(again.sandboxId, sandbox.sandboxId)
    assert.equal(await sandbox.isRunning(), true)
    const before = Number(await sandbox.files.read('/tmp/count'))
    await until(async () => Number(await sandbox.files.read('/tmp/count')) > before, 'the counter to go on')
    await sandbox.commands.kill(counter.pid)
    assert.equal((await api('POST', `/sandboxes/${sandbox.sandboxId}/resume`, {})).status, 409)
    assert.equal((await api('POST', `/sandboxes/${sandbox.sandboxId}/pause`, {})).status, 204)
    assert.equal((await api('POST', `/sandboxes/${sandbox.sandboxId}/resume`, { timeout: 60 })).status, 201)
    assert.equal((await api('POST', `/sandboxes/${sandbox.sandboxId}/pause`)).status, 204)
    assert.equal((await api('POST', `/v2/sandboxes/${sandbox.sandboxId}/connect`, {})).status, 201)
  })
})

test('connect wins over a pause that is under way', async () => {
  await withSandbox({ timeoutMs: 120_000 }, async (sandbox) => {
    for (let round = 0; round < 5; round++) {
      await Promise.all([sandbox.pause(), Sandbox.connect(sandbox.sandboxId, connection), Sandbox.connect(sandbox.sandboxId, connection)])
      await Sandbox.connect(sandbox.sandboxId, connection)
    }
    assert.equal((await sandbox.commands.run('echo awake')).stdout, 'awake\n')
  })
})

test('a paused sandbox can be killed', async () => {
  const sandbox = await Sandbox.create(connection)
  await sandbox.pause()
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.kill(), false)
})

test('traffic wakes a sandbox that wants it', async () => {
  await withSandbox({ timeoutMs: 120_000, lifecycle: { onTimeout: 'pause', autoResume: true } }, async (sandbox) => {
    await sandbox.pause()
    assert.equal((await sandbox.commands.run('echo awake')).stdout, 'awake\n')
    assert.equal((await sandbox.getInfo()).state, 'running')
  })
})

test('metrics', async () => {
  await withSandbox({}, async (sandbox) => {
    await sandbox.commands.run('head -c 30000000 /dev/zero > /tmp/x')
    const metrics = await sandbox.getMetrics()
    assert.ok(metrics.length >= 1)
    const last = metrics.at(-1)
    for (const field of ['cpuUsedPct', 'cpuCount', 'memUsed', 'memTotal', 'memCache', 'diskUsed', 'diskTotal']) assert.equal(typeof last[field], 'number', field)
    assert.ok(last.timestamp instanceof Date && Math.abs(last.timestamp - Date.now()) < 60_000)
    assert.ok(last.memUsed > 0)
    const many = json(await api('GET', `/sandboxes/metrics?sandbox_ids=${sandbox.sandboxId},aaaaaaaaaaaa`))
    assert.deepEqual(Object.keys(many.sandboxes), [sandbox.sandboxId])
    const envd = await raw('GET', '/metrics', { headers: { ...toPort(sandbox, 49983), 'X-Access-Token': sandbox.envdAccessToken } })
    assert.ok(json(envd).mem_used > 0)
    assert.equal((await api('GET', '/sandboxes/aaaaaaaaaaaa/metrics')).status, 404)
  })
})

test('logs', async () => {
  await withSandbox({}, async (sandbox) => {
    const old = json(await api('GET', `/sandboxes/${sandbox.sandboxId}/logs`))
    assert.ok(old.logEntries.length > 0)
    // E2B's command line parses each line, and wants a level in it.
    for (const { line } of old.logs) assert.equal(JSON.parse(line).level, 'info')
    assert.ok(json(await api('GET', `/v2/sandboxes/${sandbox.sandboxId}/logs`)).logs[0].message)
  })
})

test('what is not there yet says so', async () => {
  await withSandbox({}, async (sandbox) => {
    await assert.rejects(sandbox.createSnapshot(), (error) => error instanceof SandboxError && /501/.test(error.message))
    await assert.rejects(Sandbox.fork(sandbox.sandboxId, connection), (error) => /501/.test(error.message))
    assert.equal((await api('POST', '/sandboxes/aaaaaaaaaaaa/fork', {})).status, 404)
    assert.equal((await api('POST', '/sandboxes/aaaaaaaaaaaa/snapshots', {})).status, 404)
    assert.deepEqual(await all(Sandbox.listSnapshots(connection)), [])
    assert.equal(await Sandbox.deleteSnapshot('none:default', connection), false)
    for (const [method, path] of [
      ['POST', '/v3/templates'], ['POST', '/volumes'], ['POST', '/secrets'], ['POST', '/templates/tags'], ['DELETE', '/templates/tags'],
      ['GET', '/templates/base/tags'], ['GET', '/templates/base/builds/b/status?logsOffset=0'], ['GET', '/templates/base/files/h'],
      ['POST', '/v2/templates/base/builds/b'], ['PATCH', '/v2/templates/base'], ['GET', '/teams'],
    ])
      assert.equal((await api(method, path, method[0] === 'P' ? {} : undefined)).status, 501, path)
    for (const body of [{ iam: { tokens: { t: { audience: 'a' } } } }, { mcp: { browser: {} } }, { volumeMounts: [{ name: 'v', path: '/v' }] }, { network: { egressProxy: { address: 'a:1' } } }, { network: { rules: { 'x.test': [{}] } } }, { network: { httpsPorts: [8443] } }])
      assert.equal((await api('POST', '/v2/sandboxes', { templateID: 'base', ...body })).status, 501)
  })
})

test('fields that ask for nothing are accepted', async () => {
  const body = { templateID: 'base', iam: { tokens: {} }, mcp: null, volumeMounts: [], network: { rules: {}, egressProxy: null, httpsPorts: [], allowOut: null }, autoResume: null, allow_internet_access: null }
  const made = await api('POST', '/v2/sandboxes', body)
  assert.equal(made.status, 201)
  const { sandboxID } = JSON.parse(made.body)
  const info = await Sandbox.getInfo(sandboxID, connection)
  assert.deepEqual([info.lifecycle, info.allowInternetAccess], [{ onTimeout: 'kill', autoResume: false }, true])
  assert.equal(await Sandbox.kill(sandboxID, connection), true)
  // Things that ward has none of are not found; what would make one says that it cannot.
  assert.equal(await Volume.destroy('none', connection), false)
  await assert.rejects(Volume.connect('none', connection), VolumeNotFoundError)
  await assert.rejects(Volume.create('new', connection), /501/)
  assert.equal(await Secret.exists('none', connection), false)
  await assert.rejects(Secret.update('none', 'value', connection), SecretNotFoundError)
  await assert.rejects(Secret.create('new', 'value', connection), /501/)
})

test('network settings', async () => {
  await withSandbox({ allowInternetAccess: false, network: { allowOut: ['1.1.1.1', '*.example.com'], denyOut: ['0.0.0.0/0'] } }, async (sandbox) => {
    assert.deepEqual((await sandbox.getInfo()).network.allowOut, ['1.1.1.1', '*.example.com'])
    assert.equal((await sandbox.getInfo()).allowInternetAccess, false)
    for (const wrong of [{ allowOut: ['300.1.1.1'] }, { denyOut: ['example.com'] }, { allowOut: 'x' }, { allow_internet_access: 'x' }, []])
      assert.equal((await api('PUT', `/sandboxes/${sandbox.sandboxId}/network`, wrong)).status, 400)
    assert.deepEqual((await sandbox.getInfo()).network.denyOut, ['0.0.0.0/0'])
    // All of it is replaced; what is not said is cleared.
    await sandbox.updateNetwork({ allowOut: ['8.8.8.8'] })
    const after = await sandbox.getInfo()
    assert.deepEqual([after.allowInternetAccess, after.network.allowOut, after.network.denyOut ?? []], [true, ['8.8.8.8'], []])
    await sandbox.updateNetwork({ denyOut: ['0.0.0.0/0'] })
    const info = await sandbox.getInfo()
    assert.deepEqual(info.network.denyOut, ['0.0.0.0/0'])
    await sandbox.updateNetwork({ allowInternetAccess: false })
    assert.deepEqual((await sandbox.getInfo()).network.denyOut ?? [], [])
    assert.equal((await api('PUT', '/sandboxes/aaaaaaaaaaaa/network', {})).status, 404)
    assert.equal((await api('PUT', `/sandboxes/${sandbox.sandboxId}-client/network`, {})).status, 204)
  })
})

test('what comes in is not changed by what may go out', async () => {
  for (const mask of ['', 'a b', 'x\r\nX-Evil: 1', 'x/y'])
    assert.equal((await api('POST', '/v2/sandboxes', { templateID: 'base', network: { maskRequestHost: mask } })).status, 400, mask)
  await withSandbox({ network: { maskRequestHost: 'localhost:${PORT}', allowPublicTraffic: false } }, async (sandbox) => {
    await sandbox.updateNetwork({ denyOut: ['10.0.0.0/8'] })
    const { network } = await sandbox.getInfo()
    assert.deepEqual([network.maskRequestHost, network.allowPublicTraffic, network.denyOut], ['localhost:${PORT}', false, ['10.0.0.0/8']])
    await sandbox.commands.run('python3 -c "import http.server as h\nclass H(h.BaseHTTPRequestHandler):\n def do_GET(s): s.send_response(200); s.end_headers(); s.wfile.write(s.headers[\'Host\'].encode())\nh.HTTPServer((\'127.0.0.1\', 3000), H).serve_forever()"', { background: true, timeoutMs: 0 })
    const headers = { ...toPort(sandbox, 3000), 'E2b-Traffic-Access-Token': sandbox.trafficAccessToken }
    const answer = await until(async () => { const a = await raw('GET', '/', { headers }); return a.status === 200 && a }, 'the server')
    assert.equal(answer.body.toString(), 'localhost:3000')
  })
})

test('templates', async () => {
  const base = json(await api('GET', '/templates')).find((t) => t.templateID === 'base')
  for (const number of ['cpuCount', 'memoryMB', 'diskSizeMB']) assert.ok(base[number] > 0, number)
  assert.ok(Date.parse(base.createdAt) >= 0 && Date.parse(base.updatedAt) >= 0)
  assert.equal((await api('GET', '/templates/aliases/base')).status, 200)
  assert.equal((await api('GET', '/templates/aliases/none-such')).status, 404)
  assert.equal((await api('DELETE', '/templates/base')).status, 403)
  await withSandbox({ template: 'base:default' }, async (sandbox) => assert.equal((await sandbox.commands.run('id -un')).stdout, 'user\n'))
  await assert.rejects(Sandbox.create('base:other', connection), SandboxError)
})

test('tenants do not see each other', async () => {
  await withSandbox({ metadata: { secret: 'x' } }, async (mine) => {
    const id = mine.sandboxId
    const unknown = 'aaaaaaaaaaaa'
    assert.equal((await all(Sandbox.list(other))).some((s) => s.sandboxId === id), false)
    assert.equal(await Sandbox.kill(id, other), false)
    await assert.rejects(Sandbox.getInfo(id, other), SandboxNotFoundError)
    await assert.rejects(Sandbox.connect(id, other), SandboxNotFoundError)
    for (const [method, path, body] of [
      ['GET', (i) => `/sandboxes/${i}`], ['DELETE', (i) => `/sandboxes/${i}`], ['POST', (i) => `/sandboxes/${i}/pause`, {}],
      ['POST', (i) => `/v2/sandboxes/${i}/connect`, {}], ['POST', (i) => `/sandboxes/${i}/timeout`, { timeout: 1 }],
      ['POST', (i) => `/sandboxes/${i}/refreshes`, {}], ['POST', (i) => `/sandboxes/${i}/resume`, {}], ['GET', (i) => `/sandboxes/${i}/metrics`],
      ['PUT', (i) => `/sandboxes/${i}/network`, {}], ['POST', (i) => `/sandboxes/${i}/fork`, {}], ['POST', (i) => `/sandboxes/${i}/snapshots`, {}],
      ['GET', (i) => `/sandboxes/${i}/logs`], ['GET', (i) => `/ward/v1/sandboxes/${i}`], ['GET', (i) => `/ward/v1/sandboxes/${i}/why`],
      ['DELETE', (i) => `/ward/v1/sandboxes/${i}`], ['POST', (i) => `/ward/v1/sandboxes/${i}/exec`, { args: ['id'] }],
      ['GET', (i) => `/ward/v1/sandboxes/${i}/files?path=/etc/passwd`], ['GET', (i) => `/ward/v1/sandboxes/${i}/processes`],
    ]) {
      const [foreign, none] = [await api(method, path(id), body, keys[1]), await api(method, path(unknown), body, keys[1])]
      assert.equal(foreign.status, 404, `${method} ${path(id)}`)
      assert.equal(none.status, 404)
      assert.equal(foreign.body.toString().replaceAll(id, '*'), none.body.toString().replaceAll(unknown, '*'))
    }
    assert.equal(await mine.isRunning(), true)
    const sneak = new Sandbox({ ...other, sandboxId: id, envdVersion: '0.6.4', envdAccessToken: 'guess' })
    await assert.rejects(sneak.commands.run('id'), AuthenticationError)
    await assert.rejects(sneak.files.read('/etc/passwd'), AuthenticationError)
    assert.equal((await api('GET', '/ward/v1/pools', undefined, keys[1])).status, 403)
  })
})

test('the sandbox plane says gone in one way', async () => {
  for (const path of ['/health', '/files?path=x']) {
    const answer = await raw('GET', path, { headers: { 'E2b-Sandbox-Id': 'aaaaaaaaaaaa', 'E2b-Sandbox-Port': '49983' } })
    assert.equal(answer.status, 502)
    assert.deepEqual([json(answer).sandboxId, json(answer).code], ['aaaaaaaaaaaa', 502])
  }
  assert.equal((await raw('GET', '/', { headers: { 'E2b-Sandbox-Id': 'aaaaaaaaaaaa' } })).status, 400)
  assert.equal((await raw('GET', '/', { headers: { 'E2b-Sandbox-Id': 'aaaaaaaaaaaa', 'E2b-Sandbox-Port': '99999' } })).status, 400)
  assert.equal((await raw('GET', '/', { host: '3000-aaaaaaaaaaaa.localhost' })).status, 502)
})

test('internal routes are closed', async () => {
  await withSandbox({}, async (sandbox) => {
    for (const path of ['/init', '/freeze', '/unfreeze', '/collapse', '/fsfreeze', '/fsthaw', '/upgrade'])
      assert.equal((await raw('POST', path, { headers: { ...toPort(sandbox, 49983), 'X-Access-Token': sandbox.envdAccessToken } })).status, 404)
  })
})

test('many at once', async () => {
  const made = await Promise.all(Array.from({ length: 12 }, () => Sandbox.create({ ...connection, timeoutMs: 60_000 })))
  assert.equal(new Set(made.map((s) => s.sandboxId)).size, 12)
  const said = await Promise.all(made.map((s, i) => s.commands.run(`echo ${i}`)))
  assert.deepEqual(said.map((r) => r.stdout), said.map((_, i) => `${i}\n`))
  assert.deepEqual(await Promise.all(made.map((s) => s.kill())), made.map(() => true))
})
