"""Whatever is killed, at whatever moment: afterwards every sandbox is found or cleanly gone, and none is leaked."""
import contextlib
import os
import random
import signal
import sqlite3
import threading
import time

import pytest

from hubtest import *  # noqa: F401,F403
from hubtest import Gone, Refused, supervisors, until
from runbox import needs_root

pytestmark = needs_root
LIVE = {0: "creating", 1: "ready", 2: "running", 3: "pausing", 4: "paused", 5: "resuming", 6: "stopping"}


def rows(state):
    with sqlite3.connect(f"file:{state}/ward.db?mode=ro", uri=True) as db:
        return dict(db.execute("SELECT id, state FROM sandboxes"))


def settle(hub, h):
    """Rows and supervisors say the same, and nothing is on its way."""
    def same():
        live = {id for id, s in rows(hub.state).items() if s in LIVE}
        moving = [s for s in rows(hub.state).values() if s in (0, 3, 5, 6)]
        return not moving and live == set(supervisors(hub.state)) and not list((hub.state / "run").glob("*.end"))
    until(same, f"rows {rows(hub.state)} and supervisors {supervisors(hub.state)} to agree")


def check_journal(state):
    """The last line of each sandbox's journal is the state that its row has."""
    with sqlite3.connect(f"file:{state}/ward.db?mode=ro", uri=True) as db:
        for id, now, last in db.execute("SELECT id, state, (SELECT to_state FROM journal j WHERE j.id = s.id ORDER BY seq DESC LIMIT 1)"
                                        " FROM sandboxes s"):
            assert now == last, (id, now, last)


def usable(h, box):
    """What is found can be used, whatever state it was found in."""
    try:
        state = h("get", box)["state"]
    except Refused as e:
        assert e.code == "not-found"
        return h("why", box)["state"]
    if state == "paused":
        h("connect", box, "timeout=60000")
    assert h("exec", box, "echo", "alive")["out"] == "alive\n"
    return state


def make_one(hub, *verbs):
    h = hub().ready()
    box = h("create", "timeout=120000")["id"]
    for verb in verbs:
        h(verb, box)
    h.quit()
    return box


SCENARIOS = {
    # name: (verbs before, in a daemon of their own; what the daemon does that dies; states that may follow)
    "create": ((), lambda h, box: h("create", "timeout=120000"), None),
    "exec": ((), lambda h, box: h("exec", box, "true"), {"running"}),
    "pause": ((), lambda h, box: h("pause", box), {"running", "paused"}),
    "resume": (("pause",), lambda h, box: h("resume", box), {"running", "paused"}),
    "kill": ((), lambda h, box: h("kill", box), {"running", "stopped"}),
    "timeout": ((), lambda h, box: h("timeout", box, "timeout=90000"), {"running"}),
    "expire": ((), lambda h, box: h("timeout", box, "timeout=0"), {"running", "stopped"}),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_daemon_dies_at_each_step(hub, name):
    before, act, allowed = SCENARIOS[name]
    for n in range(1, 100):
        box = make_one(hub, *before)
        dying = hub("--crash", n)
        died = True
        try:
            act(dying.ready(), box)
            died = not dying.quit(may_die=True)
        except Gone:
            assert dying.died() == -signal.SIGKILL
        h = hub().ready()
        settle(hub, h)
        check_journal(hub.state)
        state = usable(h, box)
        if allowed:
            assert state in allowed, (n, state)
        else:
            assert state == "running"
        for other in h.list("all=1"):
            usable(h, other["id"])
            h("kill", other["id"])
        h.quit()
        if not died:
            assert n > 3, "the scenario has no steps to die at"
            return
    pytest.fail("it never got to its end")


def victims(state, who, but=()):
    """The supervisors, or the first processes, of all sandboxes but some."""
    for box, pid in supervisors(state).items():
        if box in but:
            continue
        if who == "supervisor":
            yield pid
            continue
        with contextlib.suppress(OSError):
            yield from map(int, open(f"/proc/{pid}/task/{pid}/children").read().split()[:1])


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("who", ["supervisor", "first process"])
@pytest.mark.parametrize("verb", ["create", "pause", "resume", "kill"])
def test_the_others_die_at_each_step(hub, verb, who):
    """The daemon stands still at the n-th step of a verb; what it works on dies, and it goes on."""
    h = hub().ready()
    bystander = h("create")["id"]
    for n in range(1, 100):
        settle(hub, h)  # the one before is gone
        killed = []

        def strike():
            killed.extend(victims(hub.state, who, (bystander,)))
            kill_all(killed)
        if verb == "create":
            held, answer = h.at_step(n, strike, "create", "timeout=120000")
            box = None if isinstance(answer, Refused) else answer["id"]
        else:
            box = h("create")["id"]
            if verb == "resume":
                h("pause", box)
            held, answer = h.at_step(n, strike, verb, box)
        if isinstance(answer, Refused):
            assert held and answer.code in ("internal", "not-found", "not-running", "conflict"), (n, held, answer.msg)
        if killed and who == "first process" and rows(hub.state).get(box) == 4:
            with contextlib.suppress(Refused):
                h("kill", box)  # a frozen process dies when it is thawed, on a host with the older freezer
        if killed:
            until(lambda: list(supervisors(hub.state)) == [bystander], "what was killed to be noticed")
        settle(hub, h)
        check_journal(hub.state)
        if killed and box:
            story = h("why", box)
            assert story["state"] in ("stopped", "failed") and story["cause"], (n, held, story)
        elif box and verb != "kill":
            assert h("kill", box)["state"] == "stopped"
        if not held:
            assert n > 2, "the verb has no steps to stand still at"
            break
    assert usable(h, bystander) == "running"


@pytest.mark.parametrize("who", ["supervisor", "first process"])
def test_the_others_die_under_a_command(hub, who):
    """Before its command is sent, while it starts, and while it runs: it is answered, and the end has a cause."""
    h = hub().ready()
    for wait in ("before", "starting", "running"):
        box = h("create")["id"]
        if wait == "before":
            kill_all(victims(hub.state, who))
        n = h.send("exec", box, "echo", "here;", "exec", "sleep", "1000")
        if wait == "running":
            until(lambda: any(b"sleep\x001000" in open(f"/proc/{p}/cmdline", "rb").read() for p in below(supervisors(hub.state)[box])), "the command to run")
        kill_all(victims(hub.state, who))
        with contextlib.suppress(Refused):
            h.wait(n)
        until(lambda: not supervisors(hub.state), "the end to be noticed")
        settle(hub, h)
        check_journal(hub.state)
        story = h("why", box)
        assert story["state"] in ("stopped", "failed") and story["cause"], story


def below(pid):
    """All processes under one."""
    found = [pid]
    for one in found:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{one}/task"):
                found += map(int, open(f"/proc/{one}/task/{task}/children").read().split())
    return found


def test_a_daemon_that_dies_again_and_again(hub):
    """Each restart dies a little later than the one before, also while it looks for its sandboxes."""
    boxes = [make_one(hub), make_one(hub, "pause"), make_one(hub)]
    for n in range(1, 25):
        dying = hub("--crash", n)
        try:
            dying.ready()
            time.sleep(0.05)
            dying.quit(may_die=True)
        except (Gone, BrokenPipeError):
            assert dying.died() == -signal.SIGKILL
    h = hub().ready()
    settle(hub, h)
    assert [h("get", box)["state"] for box in boxes] == ["running", "paused", "running"]
    assert [usable(h, box) for box in boxes] == ["running", "paused", "running"]


def test_the_supervisor_dies(hub):
    h = hub().ready()
    for verbs in ((), ("pause",)):
        box = h("create")["id"]
        for verb in verbs:
            h(verb, box)
        os.kill(supervisors(hub.state)[box], signal.SIGKILL)
        until(lambda: box not in [b["id"] for b in h.list()], "the daemon to notice")
        story = h("why", box)
        assert story["state"] == "failed" and story["cause"] == "supervisor-lost" and story["steps"][-1] == "failed"
    assert h("create")["state"] == "running"


def test_the_supervisor_dies_while_it_starts(hub):
    h = hub().ready()
    for _ in range(10):
        n = h.send("create")
        pids = until(lambda: supervisors(hub.state), "a supervisor")
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
        try:
            box = h.wait(n)["id"]  # it was up already
            until(lambda: box not in [b["id"] for b in h.list()], "the daemon to notice")
        except Refused as e:
            assert e.code == "internal"
        settle(hub, h)


def test_the_first_process_dies(hub):
    h = hub().ready()
    box = h("create")["id"]
    sup = supervisors(hub.state)[box]
    children = open(f"/proc/{sup}/task/{sup}/children").read().split()
    os.kill(int(children[0]), signal.SIGKILL)
    until(lambda: box not in [b["id"] for b in h.list()], "the end to be told")
    assert h("why", box)["state"] in ("stopped", "failed")
    settle(hub, h)


def test_a_supervisor_that_dies_without_a_daemon(hub):
    box, other = make_one(hub), make_one(hub)
    os.kill(supervisors(hub.state)[box], signal.SIGKILL)
    h = hub().ready()
    settle(hub, h)
    assert h("why", box)["cause"] == "supervisor-lost"
    assert usable(h, other) == "running"


def test_time_passes_without_a_daemon(hub):
    h = hub().ready()
    dies, sleeps = h("create", "timeout=1500")["id"], h("create", "timeout=1500", "on=pause")["id"]
    h("exec", dies, "echo", "last", "words")
    h.kill()
    until(lambda: dies not in supervisors(hub.state), "its supervisor to end it")
    time.sleep(0.5)
    h = hub().ready()
    settle(hub, h)
    story = h("why", dies)
    assert story["state"] == "stopped" and story["cause"] == "time-limit" and "last words" in story["output"]
    assert h("get", sleeps)["state"] == "paused"
    assert usable(h, sleeps) == "paused"


def test_output_is_not_lost(hub):
    h = hub().ready()
    box = h("create")["id"]
    n = h.send("start", box, "i=0;", "while", "[", "$i", "-lt", "40", "];", "do", "echo", "line$i;", "i=$((i+1));",
               "sleep", "0.05;", "done;", "exit", "7")
    pid = h.wait(n)["pid"]
    h.kill()  # what it had received is gone with it; it gave credit for that
    time.sleep(0.5)
    h = hub().ready()
    done = h("attach", box, pid)
    assert done["exit"] == 7
    lines = done["out"].split()
    first = int(lines[0][4:])
    assert lines == [f"line{i}" for i in range(first, 40)]
    assert first < 15  # nothing of what was written while no daemon ran is missing


def test_a_socket_without_a_row(hub):
    box = make_one(hub)
    with sqlite3.connect(hub.state / "ward.db") as db:
        for table in ("sandboxes", "journal", "ends"):
            db.execute(f"DELETE FROM {table}")
    h = hub().ready()
    until(lambda: not supervisors(hub.state), "the stray to be stopped")
    assert h.list("all=1", f"states={0x1ff}") == []
    until(lambda: not list((hub.state / "run").glob(f"{box}*")), "its files to go")


def test_after_a_restart_of_the_host(hub):
    """Another boot: whatever the rows say, nothing of it lives."""
    box = make_one(hub)
    os.kill(supervisors(hub.state)[box], signal.SIGKILL)
    with sqlite3.connect(hub.state / "ward.db") as db:
        db.execute("UPDATE sandboxes SET boot_id = 'another'")
    h = hub().ready()
    story = h("why", box)
    assert story["state"] == "failed" and "the host was restarted" in story["reason"]


def storm(h, choose, known, count):
    """Many verbs at once, whatever state their sandboxes are in; the daemon may die below them."""
    waiting = []
    with contextlib.suppress(Gone):
        for _ in range(count):
            verb = choose.choice(["create"] * 3 + ["kill", "pause", "resume", "connect", "timeout", "exec", "limits", "metrics", "get"])
            if verb == "create" or not known:
                words = ("create", "timeout=60000", choose.choice(["auto=1", "secure=1", "cold=1"]))
            else:
                words = (verb, choose.choice(sorted(known)), *{"exec": ("echo", "x"), "timeout": ("timeout=50000",),
                         "limits": (f"memory={choose.randrange(100, 300) << 20}",)}.get(verb, ()))
            waiting.append((words[0], h.send(*words)))
            while len(waiting) > 24:
                settle_one(h, *waiting.pop(choose.randrange(len(waiting))), known)
        for verb, n in waiting:
            settle_one(h, verb, n, known)


def settle_one(h, verb, n, known):
    try:
        answer = h.wait(n)
        if verb == "create":
            known.add(answer["id"])
    except Refused as e:
        # What another verb did meanwhile is a reason; a crash of ours is not.
        assert e.code in ("not-found", "not-running", "conflict", "invalid", "internal"), (verb, e.code, e.msg)
        if e.code == "internal":
            assert verb in ("exec", "resume", "connect", "pause", "create", "limits"), (verb, e.msg)


@pytest.mark.parametrize("seed", range(3))
def test_a_storm(hub, seed):
    choose, known = random.Random(seed), set()
    h = hub().ready()
    h("pool", "base", "min=2", "max=4")
    for _ in range(3):
        timer = threading.Timer(choose.uniform(0.2, 1.0), h.process.kill)
        timer.start()
        storm(h, choose, known, 150)
        timer.join()
        h.died()
        h = hub().ready()
    storm(h, choose, known, 60)
    h("pool", "base", "max=0")
    settle(hub, h)
    check_journal(hub.state)
    for box in known:
        usable(h, box)
    text = h("text")["text"]
    live = len(h.all(f"states={0x7f}"))
    assert f'ward_tenant_sandboxes{{tenant="default"}} {live}' in text  # what is counted is what is there


@pytest.mark.parametrize("damage", ["junk", "newer", "half"])
def test_a_database_that_is_no_good(hub, damage):
    make_one(hub)
    path = hub.state / "ward.db"
    whole = path.read_bytes()
    log = open(hub.state.parent / "log", "w+")
    if damage == "newer":
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version = 1000")
    else:
        path.write_bytes(b"junk" * 4096 if damage == "junk" else whole[:4096 * 3 + 100])
    bad = hub(log=log)
    assert bad.died() == 1
    log.seek(0)
    text = log.read()
    assert text.count("\n") == 1 and ("damaged" in text or "newer" in text), text
    for side in ("-wal", "-shm"):
        path.with_name(path.name + side).unlink(missing_ok=True)
    path.write_bytes(whole)
