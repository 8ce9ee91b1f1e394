"""Sandboxes through the hub's verbs: states, timeouts, limits, tenants, lists."""
import json
import os
import sqlite3
import time

import pytest

from hubtest import *  # noqa: F401,F403
from hubtest import Refused, supervisors, until
from runbox import needs_root

pytestmark = needs_root


def refused(call, *words):
    with pytest.raises(Refused) as e:
        call(*words)
    return e.value


def test_a_life(hub):
    h = hub().ready()
    box = h("create", "meta.a=b", "env.GREETING=hello", "secure=1")
    assert box["state"] == "running" and box["tier"] == "container" and box["metadata"] == {"a": "b"}
    assert len(box["token"]) == 40 and box["traffic"] is None
    done = h("exec", box["id"], "echo", "$GREETING;", "exit", "3")
    assert (done["out"], done["exit"]) == ("hello\n", 3)
    assert h("get", box["id"])["state"] == "running"
    assert h("kill", box["id"])["state"] == "stopped"
    assert refused(h, "get", box["id"]).code == "not-found"
    assert refused(h, "kill", box["id"]).http == 404
    story = h("why", box["id"])
    assert story["steps"] == ["creating", "running", "stopping", "stopped"]
    assert story["cause"] == "killed-by-operator" and "hello" in story["output"]
    assert story["env"] == {} and story["token"] is None  # what was secret is gone


def test_pause_and_resume(hub):
    h = hub().ready()
    box = h("create", "timeout=60000")["id"]
    pid = h("start", box, "i=0;", "while", "sleep", "0.02;", "do", "i=$((i+1));", "echo", "$i", ">/tmp/n;", "done")["pid"]
    assert pid
    until(lambda: h("exec", box, "cat", "/tmp/n")["exit"] == 0, "the loop to begin")
    assert h("pause", box)["state"] == "paused"
    assert refused(h, "pause", box).http == 409
    assert refused(h, "timeout", box, "timeout=1000").http == 404
    assert refused(h, "exec", box, "true").code == "not-running"
    again = h("connect", box, "timeout=60000")
    assert again["state"] == "running" and again["changed"]
    first = h("exec", box, "cat", "/tmp/n")["out"]
    until(lambda: h("exec", box, "cat", "/tmp/n")["out"] not in ("", first), "the loop to go on")
    assert not h("connect", box, "timeout=1000")["changed"]
    assert h("pause", box)["state"] == "paused"
    assert h("resume", box)["changed"]
    assert refused(h, "resume", box).http == 409
    assert h("why", box)["steps"] == ["creating", "running", *["pausing", "paused", "resuming", "running"] * 2]


def test_kill_in_every_state(hub):
    h = hub().ready()
    box = h("create")["id"]
    h("pause", box)
    assert h("kill", box)["state"] == "stopped"
    n = h.send("create")
    ids = until(lambda: h.list("states=1", "all=1"), "a sandbox that is being made")
    h("kill", ids[0]["id"])
    with pytest.raises(Refused):
        h.wait(n)
    assert not supervisors(hub.state) or until(lambda: not supervisors(hub.state), "its supervisor to end")


def test_whoever_asked_has_gone(hub):
    """Nobody was told the id: it does not wait for its deadline."""
    h = hub().ready()
    h("pool", "base", "min=1", "max=1")
    until(lambda: h("pools")["pools"][0]["ready"], "a warm one")
    for words in ((), ("cold=1",)):
        h.send("create", "forget=1", *words)
    until(lambda: len(h.list("all=1", f"states={1 << 7}")) == 2, "both to end")
    assert all("had gone" in b["reason"] for b in h.list("all=1", f"states={1 << 7}"))
    assert h.list() == []


def test_auto_resume(hub):
    h = hub().ready()
    box = h("create", "auto=1", "on=pause")["id"]
    h("pause", box)
    assert h("exec", box, "echo", "up")["out"] == "up\n"
    assert h("get", box)["state"] == "running"


def test_timeouts(hub):
    h = hub().ready()
    dies, sleeps, lives = (h("create", f"timeout={ms}", *more)["id"] for ms, more in
                           ((1000, ()), (1000, ("on=pause",)), (60000, ())))
    until(lambda: h("get", sleeps)["state"] == "paused", "a pause at the deadline")
    until(lambda: dies not in [b["id"] for b in h.list()], "the end at the deadline")
    assert h("why", dies)["cause"] == "time-limit"
    # Shorter, longer, now.
    end = h("get", lives)["end_us"]
    assert h("timeout", lives, "timeout=5000")["end_us"] < end
    assert h("connect", lives, "timeout=90000")["end_us"] > end
    now = h("get", lives)["end_us"]
    assert h("connect", lives, "timeout=1000")["end_us"] == now  # never shorter
    assert h("timeout", lives, "timeout=0")["state"] == "stopped"
    assert h("connect", sleeps, "timeout=60000")["state"] == "running"
    assert h("timeout", sleeps, "timeout=-1")["state"] == "paused"
    assert refused(h, "create", "timeout=999999999").code == "invalid"
    assert refused(h, "create", "timeout=0").code == "invalid"
    assert refused(h, "connect", sleeps, "timeout=999999999").code == "invalid"


def test_lists_and_pages(hub):
    h = hub().ready()
    ids = [h("create", f"meta.n={i}", f"meta.even={i % 2 == 0}")["id"] for i in range(5)]
    assert [b["id"] for b in h.list()] == ids[::-1]
    assert [b["id"] for b in h.list("asc=1")] == ids
    assert [b["id"] for b in h.list("meta.even=True")] == [ids[4], ids[2], ids[0]]
    assert h.list("meta.even=True", "meta.n=1") == []
    h("pause", ids[1])
    assert [b["id"] for b in h.list(f"states={1 << 4}")] == [ids[1]]
    seen, token = [], ""
    while True:
        page = h("list", "limit=2", f"token={token}")
        seen += [b["id"] for b in page["list"]]
        token = page["token"]
        if not token:
            break
    assert seen == ids[::-1]
    assert refused(h, "list", "token=nonsense").code == "invalid"
    h("kill", ids[4])
    # Ended ones come from the database, in the same order.
    assert [b["id"] for b in h.list(f"states={1 << 7 | 1 << 2}")] == [ids[4], ids[3], ids[2], ids[0]]


def test_tenants_do_not_see_each_other(hub):
    h = hub().ready()
    mine = h("create", "tenant=acme", "as-tenant=1")["id"]
    for verb in ("get", "kill", "pause", "resume", "connect", "timeout", "limits", "exec", "metrics", "fork", "snapshot"):
        foreign = refused(h, verb, mine, "tenant=other", "as-tenant=1")
        unknown = refused(h, verb, "a" * 12, "tenant=other", "as-tenant=1")
        assert (foreign.code, foreign.msg.replace(mine, "a" * 12)) == (unknown.code, unknown.msg), verb
    foreign = refused(h, "why", mine, "tenant=other", "as-tenant=1")
    assert foreign.code == "not-found"
    assert h.list("tenant=other", "as-tenant=1", "all=1") == []
    assert [b["id"] for b in h.list("tenant=acme", "as-tenant=1")] == [mine]
    assert [b["id"] for b in h.list("all=1")] == [mine]
    assert refused(h, "fork", mine).http == 501
    assert refused(h, "snapshot", mine).http == 501
    lines = [json.loads(line) for line in h("audit", "tenant=acme", "as-tenant=1")["lines"]]
    assert {"sandbox.create", "run.start"} <= {line["event"] for line in lines}
    assert h("audit", "tenant=other", "as-tenant=1")["lines"] == []


def test_who_chose_the_tier_is_written_down(hub):
    h = hub().ready()
    box = h("create")["id"]
    lines = [json.loads(line) for line in h("audit")["lines"]]
    create = next(line for line in lines if line["event"] == "sandbox.create" and line["id"] == box)
    start = next(line for line in lines if line["event"] == "run.start" and line["id"] == box)
    assert create["tier_by"] == "driver --tier"
    assert start["tier"] == "container" and "driver --tier" in start["decision"]["accepted_risk"]


def test_policy_decides_when_nobody_does(hub):
    h = hub(tier=None).ready()
    assert h("create")["tier"] == "kernel"
    # A tenant may ask for a tier, not for a risk.
    e = refused(h, "create", "tier=container", "tenant=acme", "as-tenant=1")
    assert e.http in (403, 501) and "generated code" in e.msg


def test_what_ward_toml_says_about_templates(hub, tmp_path):
    toml = tmp_path / "ward.toml"
    toml.write_text('[sandbox]\nmemory = "300M"\ntimeout = "100s"\n[alias]\nsmall = "dir:/"\n'
                    '[template.host]\ntier = "container"\nmemory = "100M"\npids = 50\n')
    h = hub("--config", toml, tier=None).ready()
    box = h("create")
    assert (box["tier"], box["memory"], box["pids"]) == ("container", 100 << 20, 50)
    assert 90e6 < box["end_us"] - box["started_us"] < 110e6
    line = next(json.loads(line) for line in h("audit")["lines"] if '"sandbox.create"' in line)
    assert line["tier_by"] == "ward.toml [template] tier"
    assert refused(h, "create", "template=nowhere").code == "not-found"
    assert refused(h, "create", "template=dir:/").code == "not-found"  # a path is the operator's to name
    assert refused(h, "create", "template=../x").code == "not-found"
    assert h("create", f"memory={64 << 20}")["memory"] == 64 << 20


@pytest.mark.parametrize("tier", ["container", "kernel"])
def test_limits_change_while_it_runs(hub, tier):
    h = hub(tier=tier).ready()
    box = h("create", f"memory={256 << 20}", "pids=64")
    assert box["memory"] == 256 << 20 and box["pids"] == 64
    assert h("limits", box["id"], f"memory={128 << 20}")["memory"] == 128 << 20
    assert h("get", box["id"])["memory"] == 128 << 20
    assert h("limits", box["id"], "pids=32")["pids"] == 32
    # Of 40 not all can be had at one time; a shell that gets no child says so and ends.
    crowd = ("i=0;", "while", "[", "$i", "-lt", "40", "];", "do", "sleep", "1", "&", "i=$((i+1));", "done")
    assert h("exec", box["id"], *crowd)["exit"] != 0
    assert h("limits", box["id"], "pids=300")["pids"] == 300
    assert h("exec", box["id"], *crowd)["exit"] == 0
    metrics = h("metrics", box["id"])
    assert metrics["count"] >= 1 and metrics["mem"] > 0 and metrics["pids"] >= 1


def test_quotas(hub, tmp_path):
    toml = tmp_path / "ward.toml"
    toml.write_text('[quota]\nsandboxes = 2\nmemory = "600M"\n[sandbox]\nmemory = "200M"\n')
    h = hub("--config", toml).ready()
    first = h("create")["id"]
    h("create")
    full = refused(h, "create")
    assert full.http == 429 and full.retry_after >= 1 and "may have 2" in full.msg
    assert h("create", "tenant=other")["id"]  # somebody else's quota
    assert refused(h, "limits", first, f"memory={500 << 20}").http == 429
    h("kill", first)
    assert refused(h, "create", f"memory={500 << 20}").http == 429
    assert h("create")["id"]


def test_rate_of_creates(hub, tmp_path):
    toml = tmp_path / "ward.toml"
    toml.write_text('[quota]\ncreates = "1/m"\n')
    h = hub("--config", toml).ready()
    h("create")
    e = refused(h, "create")
    assert e.http == 429 and 1 <= e.retry_after <= 60


def test_mounts_only_below_the_operators_roots(hub, tmp_path):
    shared, secret = tmp_path / "shared", tmp_path / "secret"
    shared.mkdir(), secret.mkdir()
    (shared / "data").write_text("for everybody\n")
    (secret / "data").write_text("for nobody\n")
    (shared / "way-out").symlink_to(secret)
    (tmp_path / "shared-too").mkdir()
    toml = tmp_path / "ward.toml"
    toml.write_text(f'[mounts]\nroots = ["{shared}"]\n')
    for path in (tmp_path, shared):
        path.chmod(0o755)
    h = hub("--config", toml).ready()
    box = h("create", f"mount={shared}")["id"]
    assert h("exec", box, "cat", "/mnt/data")["out"] == "for everybody\n"
    assert h("exec", box, "touch", "/mnt/x", "2>&1")["exit"] != 0
    for path in (secret, shared / "way-out", tmp_path, tmp_path / "shared-too", "/", "/nowhere", f"{shared}/../secret",
                 f"{shared}/.", hub.state):
        e = refused(h, "create", f"mount={path}")
        assert e.code in ("forbidden", "invalid"), path
    assert refused(h, "create", f"mount={shared}", "rw=1").code == "forbidden"


def test_events(hub):
    h = hub().ready()
    h("text")
    h.send("events")
    box = h("create")["id"]
    h("kill", box)
    kinds = []
    while not kinds or kinds[-1] != "sandbox.stopped":
        event = h.events.get(timeout=20)
        assert event["id"] == box
        kinds.append(event["event"])
    assert kinds == ["sandbox.creating", "sandbox.running", "sandbox.stopping", "sandbox.stopped"]


def test_prometheus_text_is_well_formed(hub):
    h = hub().ready()
    h("create")
    text = h("text")["text"]
    names = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            names.add(line.split()[2])
        elif not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            float(value)
            base = name.split("{")[0]
            assert base in names or base.rsplit("_", 1)[0] in names, line
    assert 'ward_sandboxes{state="running"} 1' in text
    assert 'ward_creates_total{how="cold"} 1' in text


def test_one_daemon_at_a_time(hub):
    first = hub().ready()
    second = hub()
    assert second.process.wait(20) == 1
    assert first("create")["state"] == "running"


def test_what_is_old_is_forgotten(hub, tmp_path):
    toml = tmp_path / "ward.toml"
    toml.write_text("[keep]\ncount = 2\n")
    h = hub("--config", toml).ready()
    ids = []
    for _ in range(5):
        ids.append(h("create")["id"])
        h("kill", ids[-1])
    h.quit()
    h = hub("--config", toml).ready()  # prunes when it starts
    kept = {b["id"] for b in h.list(f"states={1 << 7}")}
    assert kept == set(ids[-2:])
    with sqlite3.connect(f"file:{hub.state}/ward.db?mode=ro", uri=True) as db:
        for table in ("journal", "ends"):
            assert {row[0] for row in db.execute(f"SELECT DISTINCT id FROM {table}")} == kept
