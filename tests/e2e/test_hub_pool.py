"""Warm pools: claims with everything of their own, misses, refills, shrinking, restarts."""
import json
import os
import signal
import sqlite3
import time

import pytest

from hubtest import *  # noqa: F401,F403
from hubtest import Gone, Refused, supervisors, until
from runbox import needs_root

pytestmark = needs_root


def pool(h):
    return h("pools")["pools"][0]


def filled(h, n):
    return until(lambda: pool(h)["ready"] == n and not pool(h)["starting"], f"{n} warm sandboxes, not {pool(h)}")


def test_a_claim_is_warm_with_all_of_its_own(hub):
    h = hub().ready()
    h("pool", "base", "min=1", "max=3", "warm=echo+warm+>/tmp/warm")
    filled(h, 1)
    ready = set(supervisors(hub.state))
    box = h("create", "env.A=b", "meta.k=v", "timeout=50000", f"memory={300 << 20}", "pids=77", "secure=1", "tenant=acme")
    assert box["from_pool"] and {box["id"]} == ready
    assert box["tenant"] == "acme" and box["metadata"] == {"k": "v"} and box["env"] == {"A": "b"} and box["token"]
    assert h("get", box["id"])["memory"] == 300 << 20
    assert h("exec", box["id"], "echo", "$A", "$(cat", "/tmp/warm)")["out"] == "b warm\n"
    assert pool(h)["hits"] == 1
    assert h("why", box["id"])["steps"] == ["creating", "ready", "running"]
    filled(h, 1)
    assert not h("create", "cold=1")["from_pool"]


def test_a_claim_does_not_wait_for_its_supervisor(hub):
    """What it was given is on its way before anybody is told of it, and arrives whatever becomes of the daemon."""
    h = hub().ready()
    h("pool", "base", "min=1", "max=1")
    filled(h, 1)
    ((box, pid),) = supervisors(hub.state).items()
    os.kill(pid, signal.SIGSTOP)
    try:
        assert h("create", "env.A=b", "timeout=120000")["id"] == box
        h.kill()
    finally:
        os.kill(pid, signal.SIGCONT)
    h = hub().ready()
    assert h("get", box)["state"] == "running"
    assert h("exec", box, "echo", "$A")["out"] == "b\n"
    until(lambda: any("run.bound" in line and box in line for line in h("audit", "limit=1000")["lines"]), "the supervisor's line in the audit log")


def test_the_first_command_comes_with_the_claim(hub):
    """Warm, warm with limits that the kernel may refuse, and cold: it runs once, and as what the claim asked for."""
    h = hub().ready()
    h("pool", "base", "min=2", "max=2")
    filled(h, 2)
    claimed = set()
    for words, warm in (((), True), ((f"memory={300 << 20}",), True), (("cold=1",), False)):
        got = h("first", "env.A=b", "run=echo+$A;+echo+x>>/tmp/ran;+wc+-l</tmp/ran", *words)
        assert got["from_pool"] == warm and got["out"] == "b\n1\n" and got["exit"] == 0, got
        assert h("get", got["id"])["state"] == "running"
        claimed.add(got["id"])
    with pytest.raises(Refused):
        h("first", "timeout=-5")
    # Nobody answers for a while, and the daemon dies: what was claimed is bound, and its command runs.
    filled(h, 2)
    before = supervisors(hub.state)
    for pid in before.values():
        os.kill(pid, signal.SIGSTOP)
    try:
        h.send("first", "env.A=b", "timeout=120000", "run=echo+$A>/tmp/late")
        (box,) = {row["id"] for row in h.list()} - claimed
        assert box in before
        h.kill()
    finally:
        for pid in before.values():
            os.kill(pid, signal.SIGCONT)
    h = hub().ready()
    until(lambda: h("exec", box, "cat", "/tmp/late")["out"] == "b\n", "the command")


def test_limits_that_cannot_be_are_refused(hub):
    """These the kernel may refuse: such a claim waits for the answer."""
    h = hub().ready()
    h("pool", "base", "min=1", "max=1", "warm=head+-c+9000000+/dev/zero+>/tmp/full")
    filled(h, 1)
    with pytest.raises(Refused) as e:
        h("create", f"memory={2 << 20}")
    assert "a warm sandbox did not take the request" in e.value.msg
    until(lambda: not h.list("all=1"), "the one that could not be bound to end")


def test_claimed_timeouts_hold(hub):
    h = hub().ready()
    h("pool", "base", "min=1", "max=1")
    filled(h, 1)
    box = h("create", "timeout=700")
    assert box["from_pool"]
    until(lambda: box["id"] not in [b["id"] for b in h.list()], "the end at the deadline")
    assert h("why", box["id"])["cause"] == "time-limit"


def test_what_cannot_be_bound_late_is_a_miss(hub, tmp_path):
    shared, toml = tmp_path / "shared", tmp_path / "ward.toml"
    shared.mkdir()
    toml.write_text(f'[mounts]\nroots = ["{shared}"]\n')
    h = hub("--config", toml).ready()
    h("pool", "base", "min=1", "max=2")
    filled(h, 1)
    assert not h("create", f"mount={shared}")["from_pool"]
    assert pool(h)["misses"] == 1
    filled(h, 2)  # a miss makes it larger, up to max


def test_nobody_sees_the_pool(hub):
    h = hub().ready()
    h("pool", "base", "min=2", "max=2")
    filled(h, 2)
    ready = list(supervisors(hub.state))
    assert h.list() == [] and h.list("tenant=acme", "as-tenant=1", f"states={0x1ff}") == []
    for verb in ("get", "kill", "connect"):
        with pytest.raises(Refused):
            h(verb, ready[0], "tenant=acme", "as-tenant=1")
    with pytest.raises(Refused) as e:
        h("pool", "base", "min=1", "max=1", "as-tenant=1")
    assert e.value.http == 403


def test_it_shrinks_when_idle_and_goes_when_removed(hub, tmp_path):
    toml = tmp_path / "ward.toml"
    toml.write_text('[pool]\nidle = "1s"\n')
    h = hub("--config", toml).ready()
    h("pool", "base", "min=1", "max=3")
    filled(h, 1)
    for _ in range(3):  # a rush: misses raise the target
        h.wait(h.send("create")), h.wait(h.send("create", "cold=1"))
    until(lambda: pool(h)["ready"] > 1, "the pool to grow")
    until(lambda: pool(h)["ready"] == 1, "the pool to shrink", patience=30)
    assert pool(h)["shrunk"] >= 1
    h("pool", "base", "max=0")
    until(lambda: len(supervisors(hub.state)) == 6, "the pool's sandboxes to end")
    assert h("pools")["pools"] == []


def test_a_warm_up_that_fails_says_so(hub):
    h = hub().ready()
    h("pool", "base", "min=1", "max=1", "warm=echo+no+luck;+exit+9")
    until(lambda: "exit status 9" in pool(h)["trouble"], "the trouble")
    assert not h("create")["from_pool"]
    until(lambda: len(supervisors(hub.state)) == 1, "the failed ones to end")
    h("pool", "base", "min=1", "max=1", "warm=true")
    filled(h, 1)
    assert pool(h)["trouble"] == ""


def test_a_warm_one_that_died_is_replaced(hub):
    h = hub().ready()
    h("pool", "base", "min=1", "max=1")
    filled(h, 1)
    (first,) = supervisors(hub.state).items()
    os.kill(first[1], signal.SIGKILL)
    until(lambda: supervisors(hub.state) and first[0] not in supervisors(hub.state), "another one")
    filled(h, 1)
    assert h("create")["from_pool"]


def test_the_pool_is_found_again(hub):
    h = hub().ready()
    h("pool", "base", "min=2", "max=2")
    filled(h, 2)
    before = set(supervisors(hub.state))
    h.kill()
    h = hub().ready()
    filled(h, 2)
    assert set(supervisors(hub.state)) == before
    assert h("create")["id"] in before


def test_the_daemon_dies_during_a_claim(hub):
    for n in range(1, 60):
        h = hub().ready()
        h("pool", "base", "min=1", "max=1")
        filled(h, 1)
        h.quit()
        dying = hub("--crash", n)
        died, box = True, None
        try:
            box = dying.ready()("create", "timeout=60000", "env.A=b")["id"]
            died = not dying.quit(may_die=True)
        except Gone:
            assert dying.died() == -signal.SIGKILL
        h = hub().ready()
        filled(h, 1)
        for one in h.list():  # what is somebody's is whole: it has its environment and its time
            assert one["env"] == {"A": "b"} and one["end_us"] > 0
            assert h("exec", one["id"], "echo", "$A")["out"] == "b\n"
            h("kill", one["id"])
        h.quit()
        if not died:
            assert n > 5
            return
    pytest.fail("it never got to its end")
