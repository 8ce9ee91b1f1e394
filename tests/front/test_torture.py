"""HTTP torture against the whole daemon: what is malformed, huge, slow or abandoned gets its answer, and costs nothing that stays."""
import base64
import json
import os
import re
import socket
import struct
import threading
import time
import urllib.request
import zlib

import pytest

# A sanitizer keeps what was freed, and remembers every byte.
SANITIZED = "WARD_SANITIZED" in os.environ
MEMORY_KB, GROWTH_KB = (1_000_000, 300_000) if SANITIZED else (100_000, 8_000)


class Client:
    def __init__(self, daemon, key):
        self.daemon, self.key = daemon, key

    def call(self, method, path, body=None, headers=()):
        request = urllib.request.Request(self.daemon.url + path, method=method, data=body, headers={"X-API-KEY": self.key, **dict(headers)})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.daemon.port), timeout=30)

    def raw(self, data, read=True):
        """Sends bytes, and gives the status line's number, 0 when the server only closed."""
        with self.connect() as s:
            try:
                s.sendall(data)
                answer = s.recv(65536) if read else b""
            except (ConnectionResetError, BrokenPipeError):
                return 0
        return int(answer.split(b" ")[1]) if answer.startswith(b"HTTP/1.1 ") else 0


@pytest.fixture(scope="module")
def client(daemon, keys):
    return Client(daemon, keys[0])


@pytest.fixture(scope="module")
def box(client):
    status, body = client.call("POST", "/v2/sandboxes", b'{"templateID":"base","timeout":900}')
    assert status == 201, body
    told = json.loads(body)
    plane = {"E2b-Sandbox-Id": told["sandboxID"], "E2b-Sandbox-Port": "49983", "X-Access-Token": told["envdAccessToken"]}
    yield {"id": told["sandboxID"], "headers": plane}
    client.call("DELETE", "/sandboxes/" + told["sandboxID"])


@pytest.fixture(autouse=True)
def stays_well(daemon, client):
    """After every test the daemon lives, answers, and holds neither descriptors nor memory of it."""
    before = daemon.descriptors()
    yield
    assert daemon.process.poll() is None
    assert client.call("GET", "/health")[0] == 200
    deadline = time.monotonic() + 20
    while daemon.descriptors() > before + 4 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert daemon.descriptors() <= before + 4
    assert daemon.memory_kb() < MEMORY_KB


def head(method, path, headers, body=b""):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def envelope(message, flags=0):
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack(">BI", flags, len(data)) + data


def rpc(client, box, method, body, kind="application/json", headers=()):
    return client.call("POST", method, body, {**box["headers"], "Content-Type": kind, **dict(headers)})


STREAM = "application/connect+json"
START = {"process": {"cmd": "/bin/true", "args": []}}


@pytest.mark.parametrize("body, code", ids=range(20), argvalues=[
    (b"", "invalid_argument"), (b"\0", "invalid_argument"), (envelope(b"{"), "invalid_argument"), (envelope(b"[]"), "invalid_argument"),
    (envelope(START, 1), "invalid_argument"), (struct.pack(">BI", 0, 1 << 31) + b"{}", "invalid_argument"), (envelope(b"\xff\xfe"), "invalid_argument"),
    (envelope({}), "invalid_argument"), (envelope({"process": {}}), "invalid_argument"), (envelope({"process": []}), "invalid_argument"),
    (envelope({"process": {"cmd": ""}}), "invalid_argument"), (envelope({"process": {"cmd": "/bin/true", "args": [1]}}), "invalid_argument"),
    (envelope({"process": {"cmd": "/bin/true", "envs": {"A=B": "c"}}}), "invalid_argument"), (envelope({"process": {"cmd": "/bin/true", "cwd": "/no"}}), "invalid_argument"),
    (envelope({"process": {"cmd": "/no/such"}}), "invalid_argument"), (envelope({**START, "pty": {"size": {"cols": -1}}}), "invalid_argument"),
    (envelope({**START, "tag": "x" * 5000}), "invalid_argument"), (envelope({"process": {"cmd": "x" * 3_000_000}}), None),
    (envelope({"process": {"cmd": "/bin/true", "args": ["a"] * 5000}}), "invalid_argument"), (envelope(b"[" * 100_000), "invalid_argument"),
])
def test_bad_starts(client, box, body, code):
    """Errors of a stream come under status 200, in its last message."""
    status, answer = rpc(client, box, "/process.Process/Start", body, STREAM)
    assert status == 200, answer
    flags, size = struct.unpack(">BI", answer[:5])
    last = json.loads(answer[5:5 + size])
    assert flags == 2 and last["error"]["message"]
    assert code is None or last["error"]["code"] == code
    assert b"/no" not in body or "'/no" in last["error"]["message"], "it names what is not there"


@pytest.mark.parametrize("method, body, status", ids=range(14), argvalues=[
    ("Stat", b"{", 400), ("Stat", b'{"path":1}', 400), ("Stat", b'{"path":"/a\\u0000b"}', 400), ("Stat", b'{"path":"' + b"x" * 9000 + b'"}', 400),
    ("ListDir", b'{"path":"/","depth":"x"}', 400), ("ListDir", b'{"path":"/proc/self/fd/0"}', 400), ("MakeDir", b'{"path":"/proc/x/y"}', None), ("Move", b"{}", 400),
    ("Move", b'{"source":"/etc","destination":"/etc/x/y"}', None), ("Remove", b'{"path":"/proc/1"}', None),
    ("GetWatcherEvents", b"{}", 400), ("GetWatcherEvents", b'{"watcherId":"../x"}', 404), ("Nope", b"{}", 404), ("Stat", b"null", 400),
])
def test_bad_filesystem_calls(client, box, method, body, status):
    got, answer = rpc(client, box, "/filesystem.Filesystem/" + method, body)
    assert got == status or (status is None and got >= 400), answer
    assert isinstance(json.loads(answer)["code"], str if got != 404 or method != "Nope" else int)


def test_wrong_types_of_content(client, box):
    assert rpc(client, box, "/process.Process/List", b"{}", "application/proto")[0] == 415
    assert rpc(client, box, "/process.Process/Start", envelope(START), "application/json")[0] == 415
    assert rpc(client, box, "/process.Process/List", b"{}", headers={"Content-Encoding": "gzip"})[0] == 501
    assert rpc(client, box, "/process.Process/List", b"{}", headers={"Content-Encoding": "identity"})[0] == 200
    assert rpc(client, box, "/process.Process/List", b"{}", "application/json; charset=utf-8")[0] == 200
    assert rpc(client, box, "/process.Process/Start", envelope(START), STREAM, {"Connect-Timeout-Ms": "x"})[0] in (200, 400)


def test_users_are_names(client, box):
    for user in ("0:0", "root:root", "-x", "a b", "../x", "x" * 100, ""):
        basic = base64.b64encode(f"{user}:".encode()).decode()
        status, answer = rpc(client, box, "/filesystem.Filesystem/Stat", b'{"path":"/"}', headers={"Authorization": "Basic " + basic})
        assert status == (200 if user in ("0:0", "root:root") else 401), (user, answer)  # what follows the colon is the password
    for user in ("0:0", "-x", "a%20b"):
        assert client.call("GET", f"/files?path=/etc/hostname&username={user}", headers=box["headers"])[0] == 401


@pytest.mark.parametrize("path", ids=range(4), argvalues=["/files?path=/etc/../../../../../../etc/shadow", "/files?path=%2e%2e%2f%2e%2e%2fetc%2fshadow", "/files?path=/proc/1/root/../../etc/shadow",
                                  "/files?path=/proc/self/root/etc/shadow"])
def test_nothing_of_the_host_can_be_named(client, box, path):
    assert client.call("GET", path, headers=box["headers"])[0] in (400, 403, 404)


@pytest.mark.parametrize("data", ids=range(14), argvalues=[
    b"GET / HTTP/1.1\r\n\r\n", b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", b"\x00\x01\x02\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 60000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"".join(b"H%d: x\r\n" % i for i in range(500)) + b"\r\n", b"GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n", b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n", b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
])
def test_malformed_requests(client, data):
    assert client.raw(data) in (0, 400, 401, 404, 405, 408, 413, 414, 431, 501, 505)


@pytest.mark.parametrize("name", ["Host", "Content-Length", "X-API-Key", "Authorization", "X-Access-Token", "X-Ward-Tenant", "E2b-Sandbox-Id",
                                  "E2b-Sandbox-Port", "E2b-Traffic-Access-Token", "Content-Type"])
def test_a_header_that_decides_stands_once(client, box, name):
    """Also with the same value: who is behind two answers is nobody's guess."""
    given = {"X-API-Key": client.key, "Content-Length": "0", **box["headers"]} if name.startswith("E2b") else {"X-API-Key": client.key, "Content-Length": "0"}
    once = {**given, name: given.get(name, "x")}
    assert client.raw(head("GET", "/v2/sandboxes", given)) in (200, 404)
    assert client.raw(head("GET", "/v2/sandboxes", once | {name.lower(): once[name]})) == 400


def test_queries(client):
    assert client.call("GET", "/v2/sandboxes?" + "&".join(f"a{i}=1" for i in range(1000)))[0] == 400
    assert client.call("GET", "/v2/sandboxes?metadata=" + "%2541" * 1000)[0] in (200, 400, 414)


def test_bodies_that_are_too_large(client, box):
    """Refused by their announced length before a byte is read, or at the limit when there is none."""
    for path, headers in (("/v2/sandboxes", {"X-API-KEY": client.key}), ("/process.Process/List", {**box["headers"], "Content-Type": "application/json"})):
        assert client.raw(head("POST", path, {**headers, "Content-Length": str(1 << 40)})) in (400, 413)
        chunks = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
        assert client.raw(head("POST", path, {**headers, "Transfer-Encoding": "chunked"}, chunks * 8)) in (0, 400, 413)


def held(client):
    return int(re.search(rb"^ward_http_held_bytes (\d+)$", client.call("GET", "/metrics")[1], re.M)[1])


def test_what_all_requests_hold_is_bounded(daemon, client, box):
    """Large bodies on many connections: some are told to try again, small ones are served as ever, and nothing stays."""
    body = b'{"process":{"pid":9},"input":{"stdin":"' + b"A" * 4_100_000 + b'"}}'
    request = head("POST", "/process.Process/SendInput", {**box["headers"], "Content-Type": "application/json", "Content-Length": str(len(body))}, body)
    before, sockets = daemon.memory_kb(), []
    try:
        for _ in range(45):
            sockets.append(client.connect())
            try:
                sockets[-1].sendall(request[:-1])
            except (ConnectionResetError, BrokenPipeError):
                pass  # it was answered before all of it was sent
        deadline, status = time.monotonic() + 60, 404
        while status == 404 and time.monotonic() < deadline:  # until it has read what the others sent
            status, answer = rpc(client, box, "/process.Process/SendInput", body)
        assert status == 429 and json.loads(answer)["code"] == "resource_exhausted"
        assert held(client) <= 129 << 20
        assert daemon.memory_kb() < before + (1_500_000 if SANITIZED else 300_000)
        assert rpc(client, box, "/process.Process/List", b"{}")[0] == 200
    finally:
        for s in sockets:
            s.close()
    deadline = time.monotonic() + 20
    while held(client) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert held(client) == 0 and rpc(client, box, "/process.Process/SendInput", body)[0] == 404


def test_json_of_many_values_is_refused(daemon, client, box):
    """A few bytes that become many: the parser never sees them."""
    before = daemon.memory_kb()
    body = b'{"path":"/","x":[' + b"[]," * 1_300_000 + b"0]}"
    status, answer = rpc(client, box, "/filesystem.Filesystem/Stat", body)
    assert status == 400 and b"values" in answer
    assert client.call("POST", "/v2/sandboxes", b'{"x":[' + b'"",' * 300_000 + b"0]}")[0] == 400
    assert daemon.memory_kb() < before + GROWTH_KB * 3


def test_numbers_are_for_whom_they_concern(daemon, client, keys):
    """Without a key only from this host itself, which neither a proxy nor a browser's idea of a name is; with one, its tenant's."""
    def ask(host="127.0.0.1", **headers):
        return client.raw(head("GET", "/metrics", headers).replace(b"Host: x", b"Host: " + host.encode()))
    assert [ask(h) for h in ("localhost:7700", "127.0.0.1", "[::1]:80", "")] == [200] * 4
    assert ask("rebound.example") == ask(**{"X-Forwarded-For": "8.8.8.8"}) == ask(Forwarded="for=8.8.8.8") == 401
    told = client.call("GET", "/metrics")[1]
    assert b'{tenant="alpha"}' in told and b'{tenant="beta"}' not in told
    assert client.call("GET", "/metrics", headers={"X-API-KEY": "e2b_" + "0" * 40})[0] == 401


def test_abandoned_in_the_middle(client, box):
    """Clients that vanish: in the head, in the body, in the answer, in a stream, in an upload."""
    def leave(data, wait=0.02):
        with client.connect() as s:
            s.sendall(data)
            time.sleep(wait)
    sleeper = envelope({"process": {"cmd": "/bin/sleep", "args": ["600"]}, "tag": "abandoned"})
    talker = envelope({"process": {"cmd": "/bin/sh", "args": ["-c", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"]}})
    plane = box["headers"]
    for _ in range(5):
        leave(b"GET /v2/sand")
        leave(head("POST", "/v2/sandboxes", {"X-API-KEY": client.key, "Content-Length": "100"}, b'{"te'))
        leave(head("POST", "/v2/sandboxes", {"X-API-KEY": client.key, "Content-Length": "2"}, b"{}"), 0)
        leave(head("POST", "/process.Process/Start", {**plane, "Content-Type": STREAM, "Content-Length": str(len(sleeper))}, sleeper), 0.2)
        leave(head("POST", "/process.Process/Start", {**plane, "Content-Type": STREAM, "Content-Length": str(len(talker))}, talker), 0.2)
        leave(head("POST", "/files?path=/tmp/half", {**plane, "Content-Type": "application/octet-stream", "Content-Length": "1000000"}, b"x" * 70000), 0.05)
        leave(head("GET", "/files?path=/usr/bin/python3", plane))
        watch = envelope({"path": "/tmp", "recursive": True})
        leave(head("POST", "/filesystem.Filesystem/WatchDir", {**plane, "Content-Type": STREAM, "Content-Length": str(len(watch))}, watch), 0.05)
    listed = json.loads(rpc(client, box, "/process.Process/List", b"{}")[1])["processes"]
    assert sum(p.get("tag") == "abandoned" for p in listed) == 5, "they go on without their clients"
    for p in listed:
        assert rpc(client, box, "/process.Process/SendSignal", json.dumps({"process": {"pid": p["pid"]}, "signal": "SIGNAL_SIGKILL"}).encode())[0] == 200
    for row in json.loads(client.call("GET", "/v2/sandboxes")[1]):
        if row["sandboxID"] != box["id"]:
            client.call("DELETE", "/sandboxes/" + row["sandboxID"])


def test_a_reader_that_does_not_read(daemon, client, box):
    """A process that writes without end, for a client that reads nothing: both wait, and memory does not grow."""
    talker = envelope({"process": {"cmd": "/bin/sh", "args": ["-c", "head -c 300000000 /dev/zero"]}})
    before = daemon.memory_kb()
    with client.connect() as s:
        s.sendall(head("POST", "/process.Process/Start", {**box["headers"], "Content-Type": STREAM, "Content-Length": str(len(talker))}, talker))
        time.sleep(1.5)
        assert daemon.memory_kb() < before + GROWTH_KB
        assert client.call("GET", "/health")[0] == 200
        total = 0
        while total < 5_000_000:
            total += len(s.recv(1 << 20))


def test_slow_uploads_do_not_stop_others(client, box):
    with client.connect() as s:
        s.sendall(head("POST", "/files?path=/tmp/slow", {**box["headers"], "Content-Type": "application/octet-stream", "Content-Length": "10"}))
        for byte in b"0123456789":
            s.sendall(bytes([byte]))
            assert client.call("GET", "/health")[0] == 200
        assert s.recv(65536).startswith(b"HTTP/1.1 200")
    assert client.call("GET", "/files?path=/tmp/slow", headers=box["headers"])[1] == b"0123456789"


def test_input_that_waits_at_its_very_end(client, box):
    """A body with a length whose last bytes must wait for the process to read."""
    start = json.dumps({"args": ["sh", "-c", "sleep 1; wc -c"], "stdin": True, "detach": True}).encode()
    base = "/ward/v1/sandboxes/" + box["id"]
    pid = json.loads(client.call("POST", base + "/exec", start)[1])["pid"]
    assert client.call("POST", f"{base}/stdin/{pid}?close=1", b"x" * 500_000, {"Content-Type": "application/octet-stream"})[0] == 204
    deadline = time.monotonic() + 20
    while b"500000" not in client.call("GET", f"{base}/logs/{pid}?follow=0")[1]:
        assert time.monotonic() < deadline


def test_a_bomb_fills_a_file_and_not_the_daemon(daemon, client, box):
    squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([*(squeeze.compress(bytes(1 << 20)) for _ in range(200)), squeeze.flush()])
    before = daemon.memory_kb()
    status, _ = client.call("POST", "/files?path=/tmp/bomb", bomb, {**box["headers"], "Content-Type": "application/octet-stream", "Content-Encoding": "gzip"})
    assert status in (200, 507)
    assert daemon.memory_kb() < before + GROWTH_KB
    rpc(client, box, "/filesystem.Filesystem/Remove", b'{"path":"/tmp/bomb"}')


def test_a_full_disk_is_507(client):
    status, body = client.call("POST", "/v2/sandboxes", b'{"templateID":"base","timeout":300}')
    told = json.loads(body)
    plane = {"E2b-Sandbox-Id": told["sandboxID"], "E2b-Sandbox-Port": "49983", "X-Access-Token": told["envdAccessToken"], "Content-Type": "application/octet-stream"}
    detail = json.loads(client.call("GET", "/sandboxes/" + told["sandboxID"])[1])
    piece = os.urandom(1 << 20) * 64
    for i in range(detail["diskSizeMB"] // 64 + 2):
        status, body = client.call("POST", f"/files?path=/home/user/f{i}", piece, plane)
        if status != 200:
            break
    client.call("DELETE", "/sandboxes/" + told["sandboxID"])
    assert status == 507 and json.loads(body)["code"] == 507


def test_many_streams_at_once(daemon, client, box):
    """200 clients listen to commands at one time, in one sandbox; every one gets its line and its end."""
    wait = envelope({"process": {"cmd": "/bin/sh", "args": ["-c", "sleep 1; echo done"]}})
    request = head("POST", "/process.Process/Start", {**box["headers"], "Content-Type": STREAM, "Content-Length": str(len(wait)), "Connection": "close"}, wait)
    results = []

    def listen():
        with client.connect() as s:
            s.sendall(request)
            data = b""
            while part := s.recv(65536):
                data += part
            results.append(b"ZG9uZQo=" in data and b'"exitCode":0' in data)
    threads = [threading.Thread(target=listen) for _ in range(200)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(timeout=120)
    assert results == [True] * 200


def test_events(client, daemon):
    """The event stream tells of a life from beginning to end, and goes on where a reader left off."""
    with client.connect() as s:
        s.sendall(head("GET", "/ward/v1/events", {"X-API-KEY": client.key}))
        told = json.loads(client.call("POST", "/v2/sandboxes", b"{}")[1])
        client.call("DELETE", "/sandboxes/" + told["sandboxID"])
        seen = b""
        while b"sandbox.stopped" not in seen:
            seen += s.recv(65536)
    kinds = [json.loads(line[5:])["kind"] for line in seen.decode().splitlines() if line.startswith("data:") and told["sandboxID"] in line]
    assert kinds[-1] == "sandbox.stopped" and "sandbox.running" in kinds
    first = min(json.loads(line[5:])["seq"] for line in seen.decode().splitlines() if line.startswith("data:") and told["sandboxID"] in line)
    with client.connect() as s:
        s.sendall(head("GET", f"/ward/v1/events?since={first}", {"X-API-KEY": client.key}))
        again = b""
        while b"sandbox.stopped" not in again:
            again += s.recv(65536)
    assert f"id: {first}\n".encode() not in again


def test_readers_of_events_leave_room_for_others(client, daemon, keys):
    readers = []
    try:
        for _ in range(17):
            readers.append(client.connect())
            readers[-1].sendall(head("GET", "/ward/v1/events", {"X-API-KEY": client.key}))
            status = readers[-1].recv(12)
        assert status == b"HTTP/1.1 429"
        assert client.raw(head("GET", "/ward/v1/events", {"X-API-KEY": keys[1]})) == 200
    finally:
        for s in readers:
            s.close()


def test_http2(client, daemon, box):
    """The same calls over HTTP/2, by prior knowledge."""
    import shutil
    import subprocess
    curl = shutil.which("curl")
    if not curl:
        pytest.skip("no curl on this host")
    done = subprocess.run([curl, "-s", "--http2-prior-knowledge", "-w", "%{http_version} %{http_code}", "-o", "/dev/null", "-H", f"X-API-KEY: {client.key}", daemon.url + "/v2/sandboxes"],
                          capture_output=True, text=True)
    assert done.stdout == "2 200"
    args = [x for k, v in box["headers"].items() for x in ("-H", f"{k}: {v}")]
    done = subprocess.run([curl, "-s", "--http2-prior-knowledge", *args, daemon.url + "/files?path=/etc/hostname"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip()


def test_revoked_key_loses_its_streams(daemon):
    """What a key opened ends with it; the sandbox's own token is another matter."""
    short = Client(daemon, daemon.key("short-lived", "gamma"))
    status, body = short.call("POST", "/v2/sandboxes", b'{"templateID":"base","timeout":300}')
    assert status == 201, body
    told = json.loads(body)
    with short.connect() as events, short.connect() as output:
        events.sendall(head("GET", "/ward/v1/events", {"X-API-KEY": short.key}))
        run = json.dumps({"args": ["sleep", "300"]}).encode()
        output.sendall(head("POST", f"/ward/v1/sandboxes/{told['sandboxID']}/exec", {"X-API-KEY": short.key, "Content-Length": len(run)}, run))
        assert events.recv(65536).startswith(b"HTTP/1.1 200") and output.recv(65536).startswith(b"HTTP/1.1 200")
        assert daemon.ward("key", "revoke", "short-lived").returncode == 0
        assert short.call("GET", "/v2/sandboxes")[0] == 401
        for stream in events, output:
            try:
                while stream.recv(65536):
                    pass
            except ConnectionResetError:
                pass
    plane = {"E2b-Sandbox-Id": told["sandboxID"], "E2b-Sandbox-Port": "49983", "X-Access-Token": told["envdAccessToken"]}
    assert short.call("GET", "/files?path=/etc/hostname", headers=plane)[0] == 200
    assert daemon.ward("kill", told["sandboxID"]).returncode == 0


@pytest.mark.parametrize("body,status", [({}, 400), ({"limits": {"memory": 64 << 20}}, 400), ({"memory": "64M"}, 400), ({"memory": 1 << 60}, 400), ({"memory": 1}, 400),
                                         ({"pids": 1}, 400), ({"disk": 3 << 20}, 501), ({"memory": 512 << 20, "pids": 200}, 200)])
def test_limits_of_a_running_sandbox(client, box, body, status):
    got, answer = client.call("POST", f"/ward/v1/sandboxes/{box['id']}/limits", json.dumps(body).encode())
    assert got == status, answer


def stream_of(data):
    """The messages of a command's stream: (kind, bytes)."""
    while data:
        kind, length = struct.unpack(">BI", data[:5])
        yield kind, data[5:5 + length]
        data = data[5 + length:]


def test_a_sandbox_and_its_command_at_once(client):
    def ask(path="/ward/v1/exec", **body):
        status, answer = client.call("POST", path, json.dumps(body).encode())
        return status, list(stream_of(answer)) if status == 200 and not body.get("detach") else json.loads(answer)

    wanted = {"template": "base", "timeout_ms": 300_000, "env": {"A": "b"}, "metadata": {"at": "once"}}
    script = 'echo $A $B $E2B_SANDBOX_ID "$(cat /run/e2b/.E2B_SANDBOX_ID)"; id -u; echo bad >&2; exit 3'
    status, ((_, first), *rest) = ask("/ward/v1/exec?user=nobody", sandbox=wanted, args=["sh", "-c", script], env={"B": "c"})
    told = json.loads(first)
    made = [told["id"]]
    out = b"".join(data for kind, data in rest if kind == 1).decode().split("\n")
    assert status == 200 and out[0] == f"b c {told['id']} {told['id']}" and out[1] == "65534" and told["pid"] > 0
    assert (2, b"bad\n") in rest and json.loads(rest[-1][1])["exit"]["code"] == 3
    assert json.loads(client.call("GET", "/ward/v1/sandboxes/" + told["id"])[1])["metadata"] == {"at": "once"}
    # A command that is not there leaves a sandbox, whose id is told; so does one that nobody listens to.
    status, ((_, only),) = ask(args=["/no/such"])
    made.append(json.loads(only)["id"])
    assert json.loads(only)["status"] == 127
    status, told = ask(args=["sleep", "300"], detach=True)
    made.append(told["id"])
    assert status == 200 and told["pid"] > 0
    # What is refused leaves none.
    there = lambda: {box["id"] for box in json.loads(client.call("GET", "/ward/v1/sandboxes")[1])["sandboxes"]}
    before = there()
    assert set(made) <= before
    for body, want in (({}, 400), ({"args": ["id"], "sandbox": []}, 400), ({"args": ["id"], "sandbox": {"timeout_ms": -1}}, 400),
                       ({"args": ["id"], "sandbox": {"template": "no-such"}}, 404), ({"args": ["id"], "sandbox": {"accept_risk": "x"}}, 403)):
        status, answer = ask(**body)
        assert status == want, (body, answer)
    status, answer = ask(args=["x" * 6000] * 500)  # found out when the sandbox is there
    assert status == 413 and "more than" in answer["message"], (status, answer)
    deadline = time.monotonic() + 20
    while there() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not there() - before
    for box in made:
        assert client.call("DELETE", "/ward/v1/sandboxes/" + box)[0] == 200
