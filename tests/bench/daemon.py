#!/usr/bin/python3
"""daemon.py BUILD: what `ward serve` promises in numbers, in the container tier. Environment: BENCH_DAEMON_ROUNDS (100),
BENCH_DAEMON_SECONDS (4) of each rate, BENCH_DAEMON_IDLE (500) sandboxes, BENCH_DAEMON_COMMANDS (1000).

Engine rows are the hub without a front (tests/hub/driver.c), as it says itself; HTTP rows are requests as they stand;
SDK rows are the package `e2b` on node. A client shares the CPUs with the daemon."""
import collections
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
os.environ.setdefault("WARD", str(BUILD / "ward"))
sys.path.insert(0, str(ROOT / "tests" / "lib"))  # before this folder: there is a daemon.py too
import node  # noqa: E402
from daemon import Daemon  # noqa: E402
from hubtest import Hub, supervisors, until  # noqa: E402
from leftovers import Leaks, children_of  # noqa: E402
from wardtest import BINARY  # noqa: E402

OUT = BUILD / "bench"
NODE = node.find()
POOL = 16
WIDTH = 8  # creates under way at one time
FILE_BYTES = 100_000_000
FILE_ROUNDS = 5
COMMAND_BOXES = 10
PAUSE_S = 0.02  # before a claim: a refill and an idle moment
CLIENT_S = 180  # for one work of client.mjs
WARM_UP = 3  # the first sandbox of a state directory prepares the template


def setting(name, default):
    text = os.environ.get(name, str(default))
    if not text.isdigit() or int(text) < 1:
        sys.exit(f"bench: {name}={text} is not a number above 0")
    return int(text)


ROUNDS = setting("BENCH_DAEMON_ROUNDS", 100)
SECONDS = setting("BENCH_DAEMON_SECONDS", 4)
IDLE = setting("BENCH_DAEMON_IDLE", 500)
COMMANDS = setting("BENCH_DAEMON_COMMANDS", 1000)


class Table:
    """Rows in the order in which they were measured; printed as they come, since the whole takes a minute."""

    def __init__(self):
        self.rows, self.failures = {}, []

    def title(self, text):
        print(f"\n{text}, load {os.getloadavg()[0]:.2f}\n  {'':40}{'min':>9}{'p50':>9}{'p90':>9}{'p99':>9}  {'unit':6}{'goal':>8}{'of it':>8}")

    def add(self, name, values, unit, goal=None, at_least=False):
        """@values: single measurements, or percentiles that somebody else made of them."""
        if not values:
            self.refuse(name, "nothing was measured")
            return
        row = dict(values) if isinstance(values, dict) else percentiles(values)
        row |= {"unit": unit, "load": os.getloadavg()[0]}
        text = ""
        if goal is not None:
            row |= {"goal": goal, "at_least": at_least, "ratio": row["p50"] / goal, "met": row["p50"] >= goal if at_least else row["p50"] < goal}
            text = f"{'>=' if at_least else '<'}{goal:g}".rjust(8) + f"{row['ratio']:8.2f}" + ("" if row["met"] else "  missed")
        self.rows[name] = row
        print(f"  {name:40}" + "".join(f"{row[p]:9.2f}" for p in ("min", "p50", "p90", "p99")) + f"  {unit:6}{text}", flush=True)

    def count(self, name, got, wanted, **note):
        """Failures out of so many: the goal is none."""
        self.rows[name] = {"failed": got, "of": wanted, "load": os.getloadavg()[0], **note}
        rest = "".join(f", {k.replace('_', ' ')} {v}" for k, v in note.items() if k != "errors")
        print(f"  {name:40}{got} of {wanted} failed{rest}", flush=True)
        if got:
            self.failures.append(f"{name}: {got} of {wanted}, first {note.get('errors', ['?'])[0]}")

    def refuse(self, name, why):
        self.rows[name] = {"refuses": why}
        print(f"  {name:40}refuses: {why}", flush=True)


def percentiles(values):
    values = sorted(values)
    at = {p: values[min(len(values) - 1, int(len(values) * p / 100))] for p in (90, 99)}
    return {"min": values[0], "p50": statistics.median(values), "p90": at[90], "p99": at[99], "count": len(values)}


# The engine: no HTTP, no client in the way.

def over_the_link(table, place):
    """What a daemon of no code at all would take."""
    def claim(rounds):
        argv = [BUILD / "tests" / "bench" / "ward-claim", BINARY, place / "link", str(rounds)]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout

    claim(WARM_UP)
    text = claim(ROUNDS)
    found = {}
    for line in text.splitlines():
        parts = re.match(r"(.*?)\s+min\s+(\d+)\s+p50\s+(\d+)\s+p90\s+(\d+)\s+p99\s+(\d+) us", line)
        found[parts[1]] = dict(zip(("min", "p50", "p90", "p99"), (int(n) / 1000 for n in parts.groups()[1:])), count=ROUNDS)
    table.add("claim to exec'd, link alone", found["claim to exec'd"], "ms", 0.5)
    table.add("cold start to running, link alone", found["cold start to running"], "ms")
    table.add("plain spawn to exec'd, no sandbox", found["plain spawn to exec'd"], "ms")


def once(hub, *words):
    """A create and its first command, as one verb, by the engine's own clock: until the daemon knows that it was exec'd."""
    time.sleep(PAUSE_S)
    got = hub("first", "env.A=b", *words)
    hub("kill", got["id"])
    return got


def pool_is_full(hub):
    pool = hub("pools")["pools"][0]
    return pool["ready"] >= POOL and not pool["starting"]


def engine_singles(table, hub):
    for _ in range(WARM_UP):
        once(hub, "cold=1")
    cold = [once(hub, "cold=1") for _ in range(ROUNDS)]
    hub("pool", "base", f"min={POOL}", f"max={POOL}")
    until(lambda: pool_is_full(hub), "a pool", 30)
    claims = [once(hub) for _ in range(ROUNDS)]
    warm = [got for got in claims if got["from_pool"]]
    hub("pool", "base", "min=0", "max=0")
    for name, rows, goal in (("warm claim", warm, 0.5), ("cold create", cold, None)):
        table.add(f"{name} to exec'd, in the daemon", [got["opened_us"] / 1000 for got in rows], "ms", goal)
        for step, what in (("journaled", "it is journaled"), ("bind-sent", "its supervisor is told")):
            at = [got["steps_us"][step] / 1000 for got in rows if step in got["steps_us"]]
            if at:
                table.add(f"  of it: until {what}", at, "ms")
        table.add(f"  of it: until the {name.split()[1]} is answered", [got["created_us"] / 1000 for got in rows], "ms")
    if len(warm) < ROUNDS:
        print(f"  {ROUNDS - len(warm)} of {ROUNDS} claims found the pool empty and are not in it")


def engine_rate(table, hub):
    """Creates and kills side by side, WIDTH of each under way."""
    creates, kills = collections.deque(), collections.deque()
    began, done = time.monotonic(), []
    while time.monotonic() < began + SECONDS:
        while len(creates) < WIDTH:
            creates.append(hub.send("create", "cold=1"))
        box = hub.wait(creates.popleft())
        done.append(time.monotonic() - began)
        kills.append(hub.send("kill", box["id"]))
        if len(kills) > WIDTH:
            hub.wait(kills.popleft())
    while creates:
        kills.append(hub.send("kill", hub.wait(creates.popleft())["id"]))
    for n in kills:
        hub.wait(n)
    table.add("creates with kills beside, engine", windows(done), "per s", 200, at_least=True)


def windows(times, width=0.5):
    whole = int(SECONDS / width)
    counts = collections.Counter(int(t / width) for t in times)
    return [counts[i] / width for i in range(whole)]


def engine(table, place):
    table.title("engine")
    over_the_link(table, place)
    state = place / "engine"
    state.mkdir(mode=0o700)
    hub = Hub(state, log=open(place / "engine.log", "w"))
    try:
        hub.ready()
        engine_singles(table, hub)
        engine_rate(table, hub)
        hub.quit(everything=True)
    finally:
        if hub.process.poll() is None:
            hub.kill()
        if supervisors(state):
            Hub(state, tier=None, log=hub.log).ready().quit(everything=True)
        until(lambda: not supervisors(state), "supervisors to end")


# Through HTTP.

class Clients:
    """client.mjs with the daemon's address and a key."""

    def __init__(self, daemon, key):
        self.env = {"PATH": os.environ["PATH"], "HOME": "/tmp", "WARD_URL": daemon.url, "WARD_KEY": key,
                    # The package opens 200 at most by itself.
                    "E2B_ENVD_RPC_CONNECTIONS": str(2 * COMMANDS + 100)}

    def __call__(self, *words):
        done = subprocess.run([NODE, HERE / "client.mjs", *map(str, words)], env=self.env, capture_output=True, text=True, timeout=CLIENT_S)
        if done.returncode:
            raise RuntimeError(f"client.mjs {words}: {done.stderr[-2000:]}")
        return json.loads(done.stdout)


def why_no_node():
    if not NODE:
        return f"no node {node.NODE_MIN} or newer"
    if not (ROOT / "tests" / "front" / "node_modules" / "e2b").is_dir():
        return "the client packages are not installed: tools/setup bench"
    return None


def pool_row(daemon):
    return json.loads(daemon.ward("pool", "ls", "--json").stdout)[0]


def claims_of(daemon, count, patience=5):
    """Hits and misses, when all claims are written down: that is done every second."""
    end = time.monotonic() + patience
    while True:
        pool = {k: pool_row(daemon)[k] for k in ("hits", "misses")}
        if sum(pool.values()) >= count or time.monotonic() > end:
            return pool
        time.sleep(0.1)


def sdk_first(table, daemon, clients):
    """Sandbox.create and the first command as a program sees them."""
    warmup = max(WARM_UP, ROUNDS // 10)
    for kind, goal in (("cold", 25), ("warm", 15)):
        if kind == "warm":
            assert daemon.ward("pool", "set", "base", "--min", str(POOL)).returncode == 0
            until(lambda: pool_row(daemon)["ready"] >= POOL, "a pool", 30)
        got = clients("first", ROUNDS, PAUSE_S * 1000, warmup)
        table.add(f"SDK create + run('echo hi'), {kind}", got["total_ms"], "ms", goal)
        table.add(f"  of it: create, {kind}", got["create_ms"], "ms")
        table.add(f"  of it: run, {kind}", got["run_ms"], "ms")
        pool = claims_of(daemon, ROUNDS + warmup) if kind == "warm" else {}
        table.count(f"SDK rounds, {kind}", len(got["errors"]), ROUNDS + warmup, errors=got["errors"], **pool)
    assert daemon.ward("pool", "rm", "base").returncode == 0
    until(lambda: not supervisors(daemon.state), "the pool to be gone")


def http_rates(table, clients):
    for kind, name in (("http", "HTTP"), ("sdk", "SDK")):
        got = clients(kind, SECONDS * 1000, WIDTH)
        table.add(f"creates with kills beside, {name}", got["per_s"], "per s", 200, at_least=True)
        table.count(f"creates and kills, {name}", len(got["errors"]), got["created"] + len(got["errors"]), killed=got["killed"], errors=got["errors"])


def commands(table, daemon, clients):
    forget_peak(daemon)
    got = clients("commands", COMMANDS, COMMAND_BOXES)
    table.count("commands that stream at the same time", len(got["errors"]), COMMANDS, most_at_once=got["peak"], sandboxes=got["boxes"],
                s_until_all_wrote=round(got["opened_ms"] / 1000, 2), daemon_peak_MB=round(peak_mb(daemon), 1), errors=got["errors"][:20])


# Files, by a client that costs nearly nothing.

def forget_peak(daemon):
    pathlib.Path(f"/proc/{daemon.process.pid}/clear_refs").write_text("5")


def status_mb(daemon, field):
    text = pathlib.Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", text)[1]) * 1024 / 1e6


def peak_mb(daemon):
    return status_mb(daemon, "VmHWM")


class Files:
    """One connection to the files of one sandbox."""

    def __init__(self, daemon, key):
        self.api, self.key = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60), key
        box = self.call("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 600, "secure": True}, 201)
        self.id = box["sandboxID"]
        self.head = f"Host: ward\r\nE2b-Sandbox-Id: {self.id}\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: {box['envdAccessToken']}\r\n"
        self.sock = socket.create_connection(("127.0.0.1", daemon.port), timeout=60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.data, self.room = memoryview(b"\x5a" * FILE_BYTES), memoryview(bytearray(1 << 20))

    def call(self, method, path, body, status):
        self.api.request(method, path, json.dumps(body) if body else None, {"X-API-KEY": self.key, "Content-Type": "application/json"})
        answer = self.api.getresponse()
        text = answer.read()
        assert answer.status == status, (answer.status, text)
        return json.loads(text) if text else None

    def answer(self):
        """The head of an answer, and what came of its body with it; the rest is drained."""
        got = b""
        while b"\r\n\r\n" not in got:
            part = self.sock.recv(65536)
            assert part, "the daemon hung up"
            got += part
        head, _, body = got.partition(b"\r\n\r\n")
        assert head.split()[1] == b"200", got[:500]
        length = int(re.search(rb"content-length: *(\d+)", head, re.I)[1])
        left = length - len(body)
        while left:
            n = self.sock.recv_into(self.room, min(left, len(self.room)))
            assert n, "the daemon hung up"
            left -= n
        return length

    def send(self, kind, before=b"", after=b""):
        length = len(before) + FILE_BYTES + len(after)
        self.sock.sendall(f"POST /files?path=/home/user/big HTTP/1.1\r\n{self.head}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n".encode() + before)
        self.sock.sendall(self.data)
        if after:
            self.sock.sendall(after)
        self.answer()

    def octet(self):
        self.send("application/octet-stream")

    def form(self):
        self.send("multipart/form-data; boundary=edge",
                  b'--edge\r\nContent-Disposition: form-data; name="file"; filename="big"\r\nContent-Type: application/octet-stream\r\n\r\n',
                  b"\r\n--edge--\r\n")

    def download(self):
        self.sock.sendall(f"GET /files?path=/home/user/big HTTP/1.1\r\n{self.head}\r\n".encode())
        assert self.answer() == FILE_BYTES

    def close(self):
        self.sock.close()
        self.call("DELETE", f"/sandboxes/{self.id}", None, 204)
        self.api.close()


def files(table, daemon, key):
    one = Files(daemon, key)
    before = status_mb(daemon, "VmRSS")
    try:
        for name, act in (("upload, octet-stream", one.octet), ("upload, form", one.form), ("download", one.download)):
            forget_peak(daemon)
            act()
            speeds = []
            for _ in range(FILE_ROUNDS):
                began = time.monotonic()
                act()
                speeds.append(FILE_BYTES / 1e6 / (time.monotonic() - began))
            table.add(f"{name}, 100 MB, HTTP", speeds, "MB/s", 500, at_least=True)
            table.add("  the daemon's memory beyond before, peak", [max(0, peak_mb(daemon) - before)], "MB")
    finally:
        one.close()


def sdk_files(table, daemon, clients):
    got = clients("file", FILE_BYTES, max(1, FILE_ROUNDS // 2))
    for name in ("octet", "form", "download"):
        table.add(f"{name}, 100 MB, SDK", got[name], "MB/s")


# Many that do nothing.

def pss_mb(pid):
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        for line in open(f"/proc/{pid}/smaps_rollup"):
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024 / 1e6
    return 0.0


def is_same_memory(one, other):
    """A process between clone and exec, like the one that waits for a first command, has what its parent has."""
    kcmp_vm, number = 1, {"x86_64": 312, "aarch64": 272}[os.uname().machine]
    return ctypes.CDLL(None).syscall(number, one, other, kcmp_vm, 0, 0) == 0


def below(pids):
    """All of them and their descendants, each memory once."""
    found, todo = set(), set(pids)
    while todo:
        found |= todo
        todo = {c for p in todo for c in children_of(p) if not is_same_memory(p, c)} - found
    return found


def available_mb():
    return int(re.search(r"MemAvailable:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1]) * 1024 / 1e6


def idle(table, daemon, clients):
    host = available_mb()
    got = clients("make", IDLE, WIDTH)
    table.count(f"{IDLE} sandboxes made to stay", len(got["errors"]), IDLE, per_s=round(len(got["ids"]) * 1000 / got["ms"]), errors=got["errors"][:20])
    live = supervisors(daemon.state)
    if not live:
        return
    time.sleep(1)
    processes = below(live.values())
    each = sum(map(pss_mb, processes)) / len(live)
    own = pss_mb(daemon.process.pid)
    table.add(f"PSS of each of {len(live)}, all included", [each + own / len(live)], "MB", 2)
    table.add("  of it: supervisor and first process", [each], "MB")
    table.add("the daemon's own, PSS", [own], "MB", 30)
    table.add("the daemon's own, resident", [status_mb(daemon, "VmRSS")], "MB", 30)
    table.add("available memory of the host, less by", [max(0, host - available_mb()) / len(live)], "MB")


def through_http(table, place):
    table.title("through HTTP, loopback")
    no_node = why_no_node()
    daemon = Daemon(place / "state", "--stop-sandboxes")
    try:
        daemon.start()
        key = daemon.key("bench")
        clients = Clients(daemon, key)
        files(table, daemon, key)
        if no_node:
            table.refuse("everything by a client in JavaScript", no_node)
        else:
            sdk_files(table, daemon, clients)
            sdk_first(table, daemon, clients)
            http_rates(table, clients)
            commands(table, daemon, clients)
            idle(table, daemon, clients)
        left = len(supervisors(daemon.state))
        began = time.monotonic()
        daemon.stop(sandboxes=False)
        until(lambda: not supervisors(daemon.state), "supervisors to end")
        print(f"  the daemon ended with its {left} sandboxes in {time.monotonic() - began:.1f} s")
    finally:
        if daemon.process and daemon.process.poll() is None:
            daemon.kill()
        if supervisors(daemon.state):
            Daemon(place / "state", "--stop-sandboxes").start().stop(sandboxes=False)
        until(lambda: not supervisors(daemon.state), "supervisors to end")


def main():
    if os.geteuid() != 0:
        print("bench: sandboxes of more than one user need root: the daemon is not measured")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    OUT.mkdir(parents=True, exist_ok=True)
    place = pathlib.Path(tempfile.mkdtemp(prefix="ward-bench-", dir="/var/tmp"))
    place.chmod(0o755)
    table, began = Table(), time.monotonic()
    leaks = Leaks(place / "state")
    result = {"cpus": os.cpu_count(), "kernel": os.uname().release, "load": os.getloadavg()}
    print(f"the daemon: container tier, {os.cpu_count()} CPUs, Linux {os.uname().release}, load {os.getloadavg()[0]:.2f}")
    try:
        engine(table, place)
        through_http(table, place)
        left = leaks.settled()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    result |= {"load_after": os.getloadavg(), "seconds": time.monotonic() - began, "rows": table.rows, "left": left}
    (OUT / "daemon.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{OUT}/daemon.json written after {result['seconds']:.0f} s, load {os.getloadavg()[0]:.2f}, left behind: {left if left else 'nothing'}")
    for line in table.failures:
        print(line)
    return int(bool(table.failures or left))


sys.exit(main())
