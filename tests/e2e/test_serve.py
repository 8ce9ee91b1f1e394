"""`ward serve`, `ward key`, `ward pool` and `ward why`: the daemon as a program."""
import json
import os
import pathlib
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import time

import pytest

from hubtest import supervisors, until
from runbox import needs_root
from servetest import *  # noqa: F401,F403

pytestmark = needs_root


def one_line(done, *words):
    assert done.returncode == 125 and done.stdout == "" and done.stderr.count("\n") == 1, (done.stdout, done.stderr)
    for word in words:
        assert word in done.stderr, done.stderr


def test_keys(ward, serve):
    d = serve().ready()
    done = ward("key", "create", "ci", "--tenant", "acme", "--limit", "sandboxes=1,memory=4G,cpus=8,creates=100/s")
    key = done.stdout.strip()
    assert re.fullmatch(r"e2b_[0-9a-f]{40}", key) and done.stdout == key + "\n" and done.stderr == ""
    d.key = key
    assert d.request("GET", "/v2/sandboxes") == (200, [])
    d.create()
    status, answer = d.request("POST", "/v2/sandboxes", {"templateID": "base"})
    assert status == 429 and answer["code"] == 429 and "may have 1" in answer["message"]
    listed = json.loads(ward("key", "ls", "--json").stdout)
    assert [(k["name"], k["tenant"], k["id"], k["limits"]["sandboxes"]) for k in listed] == [("ci", "acme", key[4:12], 1)]
    one_line(ward("key", "create", "ci"), "already")
    # Revoked: at once, for a daemon that runs.
    assert ward("key", "revoke", "ci").returncode == 0
    assert d.request("GET", "/v2/sandboxes")[0] == 401
    assert json.loads(ward("key", "ls", "--json").stdout)[0]["revoked"]
    one_line(ward("key", "revoke", "ci"), "no key 'ci'")
    for bad in ("", "e2b_", "x" * 44, key[:-1] + ("0" if key[-1] != "0" else "1")):
        assert d.request("GET", "/v2/sandboxes", key=bad or False)[0] == 401
    # The key is nowhere: not in the log, the audit log, or any file of the state directory.
    for path in (d.log, *(p for p in ward.state.rglob("*") if p.is_file())):
        assert key.encode() not in path.read_bytes(), path
    events = [json.loads(line)["event"] for line in ward("audit", "show", "--json").stdout.splitlines()]
    assert {"key.created", "key.used", "key.revoked", "key.refused"} <= set(events)
    assert ward("audit", "verify").returncode == 0


@pytest.mark.parametrize("words,says", [
    ((), "say what to do"), (("make", "x"), "create, ls or revoke"), (("create",), "a name"), (("create", "a b"), "letters"),
    (("create", "x", "--tenant", "Y"), "lower-case"), (("create", "x", "--limit", "apples=3"), "sandboxes=N"),
    (("create", "x", "--limit", "memory=lots"), "512M"), (("create", "x", "--limit", "creates=3"), "10/s"),
    (("create", "x", "--limit"), "needs a value"), (("create", "x", "y"), "not accepted"), (("revoke",), "name one key"),
    (("ls", "--yaml"), "--json"), (("revoke", "x"), "no key"),
])
def test_key_mistakes(ward, words, says):
    one_line(ward("key", *words), "ward key: ", says)


def test_tenants_share_nothing(serve):
    d = serve().ready()
    d.make_key("a", "--tenant", "a")
    other = d.make_key("b", "--tenant", "b")
    box = d.create()
    assert d.request("GET", "/v2/sandboxes", key=other) == (200, [])
    for method, path in (("GET", f"/sandboxes/{box}"), ("DELETE", f"/sandboxes/{box}"), ("POST", f"/sandboxes/{box}/pause")):
        unknown = d.request(method, path.replace(box, "a" * 12), key=other)
        foreign = d.request(method, path, key=other)
        assert foreign[0] == 404 and str(foreign[1]).replace(box, "a" * 12) == str(unknown[1])
    assert d.request("GET", f"/sandboxes/{box}")[0] == 200


def test_upgrade_is_a_restart(serve):
    d = serve().ready()
    d.make_key()
    boxes = [d.create(metadata={"n": str(i)}) for i in range(3)]
    assert d.request("POST", f"/sandboxes/{boxes[1]}/pause")[0] == 204
    for sig, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        assert d.stop(sig) == code
        key, d = d.key, serve().ready()
        d.key = key
        found = {b["sandboxID"]: (b["state"], b["metadata"]["n"]) for b in d.request("GET", "/v2/sandboxes")[1]}
        assert found == {boxes[0]: ("running", "0"), boxes[1]: ("paused", "1"), boxes[2]: ("running", "2")}
    assert d.request("DELETE", f"/sandboxes/{boxes[1]}")[0] == 204


def test_stop_sandboxes(ward, serve):
    d = serve("--stop-sandboxes").ready()
    d.make_key()
    d.create(), d.create()
    assert len(supervisors(ward.state)) == 2
    assert d.stop() == 0
    until(lambda: not supervisors(ward.state), "them to end")


def test_files_are_closed_to_others(ward, serve):
    d = serve().ready()
    d.make_key()
    d.create()
    for name in ("ward.db", "ward.db-wal", "ward.sock", "serve.lock", "run/sup.log"):
        mode = (ward.state / name).stat().st_mode
        assert stat.S_IMODE(mode) & 0o077 == 0, (name, oct(mode))


def test_a_second_daemon_says_so(ward, serve):
    serve().ready()
    one_line(ward("serve", "--listen", "127.0.0.1:0"), "another 'ward serve' runs")


def test_reload(ward, serve, tmp_path):
    toml = tmp_path / "ward.toml"
    toml.write_text("")
    d = serve("--config", toml).ready()
    d.make_key()
    assert d.request("POST", "/v2/sandboxes", {"templateID": "mine"})[0] == 404
    toml.write_text('[alias]\nmine = "host"\n[quota]\nsandboxes = 1\n')
    d.process.send_signal(signal.SIGHUP)
    until(lambda: "at=daemon.reload" in d.text(), "the reload")
    d.create(templateID="mine")
    assert d.request("POST", "/v2/sandboxes", {"templateID": "mine"})[0] == 429
    # What is wrong leaves everything as it was.
    toml.write_text("[quota]\nsandboxes = \"lots\"\n")
    d.process.send_signal(signal.SIGHUP)
    until(lambda: "lvl=error at=daemon.reload" in d.text(), "the complaint")
    assert d.request("POST", "/v2/sandboxes", {"templateID": "mine"})[0] == 429
    # What needs another start says so.
    toml.write_text('[serve]\ntls_cert = "/c"\ntls_key = "/k"\n')
    d.process.send_signal(signal.SIGHUP)
    until(lambda: "tls_key change with the next start" in d.text(), "the word about the next start")


def test_a_pool_follows_ward_toml(ward, serve, tmp_path):
    """What waits was made as ward.toml was; nobody gets it who would get something else now."""
    toml = tmp_path / "ward.toml"
    toml.write_text('[sandbox]\nnet = "loopback"\n')
    d = serve("--config", toml).ready()
    d.make_key()
    assert ward("pool", "set", "base", "--min", "1").returncode == 0

    def waiting():
        with sqlite3.connect(ward.state / "ward.db") as db:
            ready = [row[0] for row in db.execute("SELECT id FROM sandboxes WHERE tenant = '' AND reason LIKE '%waits in the pool'")]
        return ready and ready[0]
    first = until(waiting, "one that waits")
    toml.write_text('[sandbox]\nnet = "none"\n')
    d.process.send_signal(signal.SIGHUP)
    second = until(lambda: waiting() not in (first, []) and waiting(), "another one")
    # The same between two daemons.
    d.process.kill()
    d.process.wait()
    toml.write_text('[sandbox]\nnet = "none"\nmemory = "64M"\n')
    d = serve("--config", toml).ready()
    d.make_key("another")
    third = until(lambda: waiting() not in (first, second, []) and waiting(), "a third one")
    assert d.create() == third
    assert ward("pool", "rm", "base").returncode == 0


def test_check(ward, tmp_path):
    toml = tmp_path / "ward.toml"
    toml.write_text("[sandbox]\nmemory = \"1G\"\n")
    done = ward("serve", "--check", "--config", toml)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok\n", "")
    for text, says in (("[sandbox]\nmemry = 1\n", "ward.toml:2: 'memry'"), ("[mounts]\nroots = [\"/nowhere\"]\n", "/nowhere"),
                       ("[serve]\ntls_cert = \"/no\"\ntls_key = \"/no\"\n", "'/no': No such file"), ("[serve]\nlisten = \"x:y\"\n", "HOST:PORT"),
                       ("[serve]\nlisten = \"host.example:80\"\n", "host.example"),
                       ("[serve]\nlisten = [\"127.0.0.1:7\", \"127.0.0.1:7\"]\n", "twice"), ("[serve]\ndomain = \"a b\"\n", "NAME[:PORT]")):
        toml.write_text(text)
        one_line(ward("serve", "--check", "--config", toml), says)
    one_line(ward("serve", "--check", "--config", tmp_path / "none"), "none")
    one_line(ward("serve", "--tier", "castle"), "castle")
    one_line(ward("serve", "--sideways"), "--sideways")
    one_line(ward("serve", "--log", "loud", "--check"), "loud")
    assert not (ward.state / "ward.db").exists()


def test_check_of_certificates(ward, tmp_path):
    def make(name, *words):
        subprocess.run(["openssl", "req", "-x509", "-nodes", "-subj", "/CN=x", "-keyout", tmp_path / f"{name}.key", "-out", tmp_path / f"{name}.pem", *words],
                       check=True, capture_output=True)
    make("ec", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "9")
    make("rsa", "-newkey", "rsa:2048", "-days", "9")
    make("new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "9")
    (tmp_path / "new.key").rename(tmp_path / "old.key")
    subprocess.run(["openssl", "x509", "-in", tmp_path / "new.pem", "-signkey", tmp_path / "old.key", "-days", "-1", "-out", tmp_path / "old.pem"], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-aes128", "-passout", "pass:x", "-in", tmp_path / "ec.key", "-out", tmp_path / "locked.key"], check=True, capture_output=True)

    def check(cert, key):
        return ward("serve", "--check", "--tls-cert", tmp_path / f"{cert}.pem", "--tls-key", tmp_path / f"{key}.key", stdin=subprocess.DEVNULL)
    assert check("ec", "ec").stdout == "ok\n"
    for cert, key, says in (("ec", "rsa", "does not belong"), ("rsa", "ec", "does not belong"), ("ec", "old", "does not belong"), ("old", "old", "has expired"),
                            ("ec", "locked", "pass phrase"), ("ec", "none", "No such file")):
        one_line(check(cert, key), says)


def test_the_operators_socket(serve):
    d = serve().ready()
    status, box = d.request("POST", "/v2/sandboxes", {"templateID": "base"}, key=False, unix=True)
    assert status == 201
    assert d.request("GET", "/v2/sandboxes", key=False)[0] == 401


def test_systemd_is_told(ward, serve, tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path)
        s.settimeout(30)
        ward.environ["NOTIFY_SOCKET"] = path
        d = serve().ready()
        del ward.environ["NOTIFY_SOCKET"]
        assert s.recv(100) == b"READY=1"
        d.process.send_signal(signal.SIGHUP)
        assert [s.recv(100), s.recv(100)] == [b"RELOADING=1", b"READY=1"]
        d.process.send_signal(signal.SIGTERM)
        assert s.recv(100) == b"STOPPING=1"
        assert d.process.wait(30) == 0


def test_a_request_under_way_is_finished(serve):
    d = serve().ready()
    d.make_key()
    with socket.create_connection(("127.0.0.1", d.port)) as s:
        body = b'{"templateID":"base"}'
        head = f"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-KEY: {d.key}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        s.sendall(head.encode() + body[:5])
        time.sleep(0.2)
        d.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        s.sendall(body[5:])
        answer = s.recv(65536)
    assert answer.startswith(b"HTTP/1.1 503 ")  # it is answered; nothing new is started any more
    assert d.process.wait(30) == 0


def test_trace_ids(ward, serve):
    d = serve().ready()
    d.make_key()
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    status, box = d.request("POST", "/v2/sandboxes", {"templateID": "base"},
                            headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})
    assert status == 201
    assert f"trace={trace}" in d.text()
    lines = [json.loads(line) for line in ward("audit", "show", "--json", "--id", box["sandboxID"]).stdout.splitlines()]
    assert any(line.get("trace") == trace for line in lines if line["event"] == "sandbox.create")


def test_pools_from_the_command_line(ward, serve):
    one_line(ward("pool", "set", "base"), "--min")
    one_line(ward("pool", "set", "base", "--min", "3", "--max", "2"), "--max")
    one_line(ward("pool", "set", "base", "--min", "x"), "--min")
    one_line(ward("pool", "rm", "base"), "no pool")
    assert ward("pool", "ls", "--json").stdout == "[]\n"
    d = serve().ready()
    d.make_key()
    one_line(ward("pool", "set", "no/such:one", "--min", "1"), "there is no template 'no/such:one'")
    assert ward("pool", "set", "base", "--min", "1", "--warm-up", "true").returncode == 0

    def pool():
        (one,) = json.loads(ward("pool", "ls", "--json").stdout)
        return one
    until(lambda: pool()["ready"] == 1, "the daemon to follow")
    d.create()
    until(lambda: pool()["hits"] == 1 and pool()["ready"] == 1, "the hit to be counted, and a refill")
    assert "base" in ward("pool", "ls").stdout
    assert ward("pool", "rm", "base").returncode == 0
    until(lambda: len(supervisors(ward.state)) == 1, "the pool to go")


def test_why(ward, serve):
    d = serve().ready()
    d.make_key()
    box = d.create()
    assert "running" in ward("why", box).stdout
    assert json.loads(ward("why", box, "--json").stdout)["end"] is None
    d.request("DELETE", f"/sandboxes/{box}")
    text = ward("why", box).stdout
    assert "stopped" in text and "killed-by-operator" in text
    assert re.search(r"^  events    \d+$", text, re.M) and re.search(r"^    \S+  running +the sandbox is ready$", text, re.M)
    story = json.loads(ward("why", box, "--json").stdout)
    assert [s["to"] for s in story["steps"]] == ["creating", "running", "stopping", "stopped"]
    assert story["end"]["cause"] == "killed-by-operator" and story["end"]["report"]["version"] == 1
    assert story["tier_by"] == "ward serve --tier"
    one_line(ward("why", "a" * 12), "no sandbox")
    one_line(ward("why", "../x"), "id")
    one_line(ward("why"), "id")


def test_many_idle_sandboxes_cost_the_daemon_little(ward, serve):
    d = serve().ready()
    d.make_key()

    def rss():
        # In a namespace of its own for numbers, /proc still shows the daemon by the pid that we started.
        return int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{d.process.pid}/status").read()).group(1))
    for _ in range(40):
        d.create()
    assert rss() < 30 * 1024


def test_an_ordinary_user_runs_the_daemon(user_ward):
    """No root: the user's own state directory, user namespaces, everything else the same."""
    from servetest import Daemon
    os.makedirs(user_ward.state, mode=0o700)
    os.chown(user_ward.state, 54321, 54321)
    d = Daemon(user_ward).ready()
    try:
        d.make_key()
        status, answer = d.request("POST", "/v2/sandboxes", {"templateID": "base"})
        if status != 201:  # without a range of ids there is nobody for commands to run as, and that is said
            assert status == 500 and "/etc/subuid" in answer["message"], answer
        else:
            assert d.request("DELETE", f"/sandboxes/{answer['sandboxID']}")[0] == 204
        assert d.request("GET", "/v2/sandboxes") == (200, [])
    finally:
        assert d.stop() == 0


def test_every_key_is_in_the_manual():
    """What the daemon reads, and what ward.toml(5) says that it reads: the same, table by table."""
    root = pathlib.Path(__file__).resolve().parents[2]
    rows = re.findall(r'^\t\{ (NULL|"\w+"), "(\w+)", K_', (root / "src/hub/config.c").read_text(), re.M)
    known = {("sandbox" if table == "NULL" else table.strip('"'), key) for table, key in rows}
    assert len(known) > 25
    told, table = set(), None
    for line in (root / "man/ward.toml.5.scd").read_text().split("# EXAMPLE")[0].splitlines():
        if line.startswith("# "):
            table = line[3:-1] if line.startswith("# [") else None
        elif table and " = " in line and line.startswith("*"):
            told |= {(table, key) for part in line.split(";") for key in re.findall(r"\*(\w+)\*", part.split(" = ")[0] + " " + ", ".join(
                re.findall(r", (\*\w+\*) =", part)))}
    assert told - {("alias", "NAME")} == known
