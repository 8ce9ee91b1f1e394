"""The hub when its surroundings fail: supervisors that are no good, a full disk, a held database."""
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import time

import pytest

import hubtest
from hubtest import *  # noqa: F401,F403
from hubtest import Hub, Refused, supervisors, until
from runbox import needs_root
from wardtest import BINARY

pytestmark = needs_root

FAKES = {
    "ends at once": "exit 3",
    "is killed at once": "kill -9 $$",
    "hangs up": "exec 4>&-; sleep 0.2",
    "talks nonsense": "printf 'GET / HTTP/1.1\\r\\n\\r\\n%0200d' 7 >&4; kill -STOP $$",
    "talks for ever": "exec cat /dev/zero >&4",
    "sends half a frame": "printf '\\001\\000\\000' >&4; exit 0",
}


@pytest.fixture
def fake(hub, tmp_path, monkeypatch):
    def make(script):
        path = tmp_path / "fake-ward"
        path.write_text("#!/bin/sh\n" + script + "\n")
        path.chmod(0o755)
        monkeypatch.setattr(hubtest, "BINARY", path)
        return hub().ready()
    yield make
    monkeypatch.setattr(hubtest, "BINARY", BINARY)


@pytest.mark.parametrize("name", FAKES)
def test_a_supervisor_that_is_no_good(fake, name):
    h = fake(FAKES[name])
    for _ in range(3):
        with pytest.raises(Refused) as e:
            h("create", "tenant=acme")
        assert e.value.http == 500
    assert h.list("all=1") == []
    ended = h.list("all=1", f"states={1 << 8}")
    assert len(ended) == 3 and all(b["state"] == "failed" for b in ended)
    story = h("why", ended[0]["id"])
    assert story["cause"] == "supervisor-lost" and story["steps"] == ["creating", "failed"]
    assert 'ward_tenant_sandboxes{tenant="acme"} 0' in h("text")["text"]  # nothing stays counted


def test_an_executable_that_is_not_there(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(hubtest, "BINARY", tmp_path / "nothing")
    h = hub().ready()
    with pytest.raises(Refused) as e:
        h("create")
    assert e.value.http in (404, 500) and "nothing" in e.value.msg
    monkeypatch.setattr(hubtest, "BINARY", BINARY)


def test_a_busy_supervisor_is_not_a_lost_one(hub):
    """One whose queue of connections is full is called again."""
    h = hub().ready()
    box = h("create")["id"]
    h.kill()
    pid = supervisors(hub.state)[box]
    os.kill(pid, signal.SIGSTOP)
    callers = []
    try:
        with pytest.raises(BlockingIOError):
            while len(callers) < 100:
                callers.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK))
                callers[-1].connect(str(hub.state / "run" / f"{box}.sock"))
        h = hub()
        with h.changed:
            assert not h.changed.wait_for(lambda: h.is_ready, 0.5)
    finally:
        os.kill(pid, signal.SIGCONT)
        for one in callers:
            one.close()
    h.ready()
    assert h("get", box)["state"] == "running"
    assert supervisors(hub.state)[box] == pid


def test_the_daemon_stays_quick_beside_it(fake):
    """Creates that fail do not hold up those that would not."""
    h = fake("sleep 2; exit 1")
    waiting = [h.send("create") for _ in range(20)]
    began = time.monotonic()
    assert h.list() == []
    assert time.monotonic() - began < 2  # it answers long before the fakes end
    for n in waiting:
        with pytest.raises(Refused):
            h.wait(n)


def test_a_database_that_somebody_holds(hub):
    h = hub().ready()
    box, other = h("create")["id"], h("create")["id"]
    db = sqlite3.connect(hub.state / "ward.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    with pytest.raises(Refused) as e:
        h("create")
    assert e.value.http == 503 and e.value.retry_after >= 1
    with pytest.raises(Refused) as e:
        h("pause", box)
    assert e.value.http == 503 and h("get", box)["state"] == "running"
    assert h("kill", other)["state"] == "stopped"  # an end must not depend on it
    db.execute("ROLLBACK")
    db.close()
    assert h("create")["state"] == "running"
    # What could not be written is put right at the next start.
    h.kill()
    h = hub().ready()
    assert h("why", other)["state"] in ("stopped", "failed")
    assert h("get", box)["state"] == "running"


def test_a_full_disk(hub):
    hub.state.rmdir()
    hub.state.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "ward-test", hub.state], check=True)
    try:
        h = hub().ready()
        box = h("create")["id"]
        with open(hub.state / "filler", "wb", buffering=0) as f, pytest.raises(OSError):
            while True:
                f.write(bytes(65536))
        with pytest.raises(Refused) as e:
            for _ in range(200):
                h("kill", h("create", "cold=1")["id"])
        assert e.value.http in (500, 503), e.value.msg
        assert h("kill", box)["state"] == "stopped"
        os.unlink(hub.state / "filler")
        assert h("create")["state"] == "running"
        h.quit(everything=True)
        until(lambda: not supervisors(hub.state), "them to end")
    finally:
        subprocess.run(["umount", "-l", hub.state], check=True)
