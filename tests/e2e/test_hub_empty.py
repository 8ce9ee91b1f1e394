"""Supervisors that wait for a request, made ahead by the hub (tests/e2e/fakesup.py plays them)."""
import os
import pathlib
import signal

import pytest

from hubtest import *  # noqa: F401,F403
from hubtest import Gone, supervisors, until
from runbox import needs_root

pytestmark = needs_root


@pytest.fixture(autouse=True)
def can_wait(hub):
    """The fakes are of a kind that can be made ahead."""
    (hub.state.parent / "fake-waits").touch()


def empty(h):
    return (h("pools")["empty"] or [dict(ready=0, starting=0, target=0, hits=0, misses=0, lost=0)])[0]


def filled(h, n):
    until(lambda: empty(h)["ready"] == n == empty(h)["target"] and not empty(h)["starting"], f"{n} empty ones")
    return empty(h)


def waiting(h, state):
    """Those that are nobody's sandbox."""
    return {id: pid for id, pid in supervisors(state).items() if id not in {b["id"] for b in h.list("all=1")}}


def test_a_create_takes_one_that_waits(fakes):
    h = fakes().ready()
    assert not h("pools")["empty"]  # before the first, nobody knows that they can be made
    first = h("create")["id"]
    assert filled(h, 1)["misses"] == 1
    (made,) = waiting(h, fakes.state)
    assert made != first
    second = h("create", "timeout=60000")
    assert second["id"] == made and empty(h)["hits"] == 1
    filled(h, 1)
    # So does what goes on from a snapshot; more at one time than there are make it grow.
    snap = h("snapshot", made)["id"]
    (made,) = waiting(h, fakes.state)
    third = h("create", f"template={snap}")
    assert third["id"] == made and h("get", made)["warning"] == "born again"
    filled(h, 1)
    forks = h("fork", first, "count=3")["forks"]
    assert len(set(forks)) == 3 and empty(h)["hits"] == 3
    filled(h, 3)
    for box in [first, second["id"], third["id"], *forks]:
        h("kill", box)
    until(lambda: len(supervisors(fakes.state)) == 3, "the others to end")
    # They end with the daemon, whose sandboxes would not.
    h.kill()
    until(lambda: not supervisors(fakes.state), "the empty ones to end")


def test_how_many_there_are_at_most(fakes, tmp_path):
    toml = tmp_path / "ward.toml"
    toml.write_text("[pool]\nempty = 2\nidle = \"1s\"\n")
    h = fakes("--config", toml).ready()
    boxes = [h("create")["id"]]
    boxes += h("fork", boxes[0], "count=5")["forks"]
    until(lambda: empty(h)["target"] == 2 or empty(h)["misses"] > 2, "it to grow")
    until(lambda: empty(h)["target"] == 0 and empty(h)["ready"] == 0, "idle ones to be given up")
    until(lambda: set(supervisors(fakes.state)) == set(boxes), "their processes to end")
    h.quit(everything=True)
    toml.write_text("[pool]\nempty = 0\n")
    h = fakes("--config", toml).ready()
    h("create")
    assert not h("pools")["empty"] and not waiting(h, fakes.state)


def test_one_that_dies_is_replaced(fakes):
    h = fakes().ready()
    box = h("create")["id"]
    filled(h, 1)
    (pid,) = waiting(h, fakes.state).values()
    os.kill(pid, signal.SIGKILL)
    until(lambda: empty(h)["lost"] == 1, "its end to be seen")
    assert h("create")["id"] != box  # cold, if the next one is not there yet
    filled(h, empty(h)["target"])
    # One of which nobody has seen yet that it is gone is not asked.
    (pid, *_) = waiting(h, fakes.state).values()
    h.process.send_signal(signal.SIGSTOP)
    os.kill(pid, signal.SIGKILL)
    until(lambda: pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z", "its end")
    number = h.send("create")
    h.process.send_signal(signal.SIGCONT)
    assert h("get", h.wait(number)["id"])["state"] == "running"


def test_when_none_can_be_made_creates_go_on(fakes):
    h = fakes().ready()
    (fakes.state.parent / "fake-waits").unlink()
    h("create")  # says that it cannot
    assert not h("pools")["empty"]
    (fakes.state.parent / "fake-waits").touch()
    h("create")
    (fakes.state.parent / "fake-waits").unlink()
    until(lambda: empty(h)["lost"] or empty(h)["ready"], "one to be tried")
    assert h("create")["id"]


def test_the_daemon_dies_at_each_step_of_asking(fakes):
    for n in range(1, 100):
        h = fakes("--crash", n)
        died = True
        try:
            h.ready()
            h("create")
            filled(h, 1)
            h("create")
            died = not h.quit(may_die=True)
        except Gone:
            assert h.died() == -signal.SIGKILL
        h = fakes().ready()
        until(lambda: set(supervisors(fakes.state)) == {b["id"] for b in h.list("all=1")} | set(waiting(h, fakes.state))
              and len(waiting(h, fakes.state)) <= empty(h)["target"], "rows and supervisors to agree")
        for box in h.list("all=1"):
            h("kill", box["id"])
        h.quit(everything=True)
        until(lambda: not supervisors(fakes.state), "all of them to end")
        if not died:
            break
    assert n > 10
