"""Snapshots and forks through the hub, with supervisors whose tier has them (tests/e2e/fakesup.py)."""
import signal
import sqlite3
import stat

import pytest

from hubtest import *  # noqa: F401,F403
from hubtest import Gone, Refused, supervisors, until
from runbox import needs_root

pytestmark = needs_root


def refused(h, *words):
    with pytest.raises(Refused) as e:
        h(*words)
    return e.value


def folders(state):
    there = state / "snapshots"
    return sorted(p.name for p in there.iterdir()) if there.exists() else []


def rows(state):
    with sqlite3.connect(f"file:{state}/ward.db?mode=ro", uri=True) as db:
        return dict(db.execute("SELECT id, state FROM snapshots"))


def story(h, box):
    return h("get", box)["warning"]


def test_a_snapshot_and_what_goes_on_from_it(fakes):
    h = fakes().ready()
    box = h("create", "env.A=1")["id"]
    snap = h("snapshot", box, "name=base/one")["id"]
    assert h("get", box)["state"] == "running"
    folder = fakes.state / "snapshots" / snap
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert {(p.name, stat.S_IMODE(p.stat().st_mode)) for p in folder.iterdir()} == {("state", 0o600), ("memory", 0o600), ("disk", 0o600)}
    assert [(s["id"], s["name"], s["sandbox"]) for s in h("snapshots")["list"]] == [(snap, "base/one", box)]
    for word in (snap, f"{snap}:default", "base/one", "base/one:default"):
        made = h("create", f"template={word}")
        assert made["tier"] == "vm" and made["env"] == {"A": "1"} and story(h, made["id"]) == "born again"
    # What goes on from it can be written down too, and any number of times.
    second = h("snapshot", made["id"])["id"]
    again = h("create", f"template={second}", "env.B=2")
    assert story(h, again["id"]) == "born again again" and again["env"] == {"B": "2"}
    assert refused(h, "create", f"template={snap}", "memory=1073741824").http == 400
    # A paused one stays paused.
    h("pause", box)
    h("snapshot", box)
    assert h("get", box)["state"] == "paused"
    # Those that live do not need it any more.
    h("unsnap", "base/one")
    until(lambda: snap not in folders(fakes.state) and snap not in rows(fakes.state), "it to be removed")
    assert refused(h, "create", f"template={snap}").http == 404 and refused(h, "unsnap", snap).http == 404
    assert h("get", made["id"])["state"] == "running"


def test_a_snapshot_is_its_tenants(fakes):
    h = fakes().ready()
    box = h("create", "tenant=acme")["id"]
    snap = h("snapshot", box, "tenant=acme", "name=mine")["id"]
    other = ("tenant=rival", "as-tenant=1")
    missing = refused(h, "create", "template=nosuchsnapsh", *other)
    for word in (snap, "mine"):
        for words in (("create", f"template={word}"), ("unsnap", word)):
            e = refused(h, *words, *other)
            assert (e.http, e.msg.replace(word, "nosuchsnapsh")) == (404, missing.msg)
    assert h("snapshots", *other)["list"] == [] and h("snapshots", *other, "all=1")["list"] == []
    assert refused(h, "snapshot", box, *other).http == 404 and refused(h, "fork", box, *other).http == 404
    assert len(h("snapshots", "tenant=acme")["list"]) == 1 == len(h("snapshots", "all=1")["list"])


def test_a_tier_that_cannot(fakes):
    h = fakes().ready()
    box = h("create")["id"]
    fakes.mode("no")
    for verb in ("snapshot", "fork"):
        e = refused(h, verb, box)
        assert e.http == 501 and "cannot snapshot" in e.msg
    assert folders(fakes.state) == [] and rows(fakes.state) == {} and h("get", box)["state"] == "running"
    assert refused(h, "snapshot", box, "name=a$b").http == 400 and refused(h, "fork", box, "count=1000").http == 400


def test_forks(fakes):
    h = fakes().ready()
    box = h("create", "env.A=1", "meta.k=v", "secure=1")
    forks = h("fork", box["id"], "count=3")["forks"]
    assert len(set(forks)) == 3 and box["id"] not in forks
    for one in forks:
        made = h("get", one)
        assert made["warning"] == "born again" and made["env"] == {"A": "1"} and made["metadata"] == {"k": "v"}
        assert made["token"] and made["token"] != box["token"]
    assert folders(fakes.state) == [] and rows(fakes.state) == {}  # the disk was not touched


def test_quotas(fakes, tmp_path):
    config = tmp_path / "ward.toml"
    config.write_text('[quota]\nsnapshots = 2\nsandboxes = 3\n')
    h = fakes("--config", config).ready()
    box = h("create", "tenant=acme")["id"]
    h("snapshot", box, "tenant=acme")
    first = h("snapshot", box, "tenant=acme")["id"]
    assert refused(h, "snapshot", box, "tenant=acme").http == 429
    h("unsnap", first, "tenant=acme")
    until(lambda: first not in rows(fakes.state), "it to be removed")
    h("snapshot", box, "tenant=acme")
    # Of four copies there is room for two.
    forks = h("fork", box, "tenant=acme", "count=4")["forks"]
    assert sum(" " not in one for one in forks) == 2, forks


def test_the_sandbox_ends_meanwhile(fakes):
    h = fakes().ready()
    for verb in ("snapshot", "fork"):
        box = h("create")["id"]
        fakes.mode("slow")
        n = h.send(verb, box)
        assert h("get", box)["state"] == "running"
        h("kill", box)
        with pytest.raises(Refused) as e:
            h.wait(n)
        assert e.value.http == 404
        fakes.mode("ok")
        until(lambda: folders(fakes.state) == [] and rows(fakes.state) == {}, "its files to go")


@pytest.mark.parametrize("verb", ["snapshot", "unsnap"])
def test_the_daemon_dies_at_each_step(fakes, verb):
    for n in range(1, 60):
        h = fakes().ready()
        box = h("create", "timeout=120000")["id"]
        word = box if verb == "snapshot" else h("snapshot", box)["id"]
        h.quit()
        dying = fakes("--crash", n)
        died = True
        try:
            dying.ready()(verb, word)
            died = not dying.quit(may_die=True)
        except Gone:
            assert dying.died() == -signal.SIGKILL
        h = fakes().ready()
        whole = [s["id"] for s in h("snapshots")["list"]]
        assert folders(fakes.state) == sorted(rows(fakes.state)) == sorted(whole), n
        for snap in whole:
            assert story(h, h("create", f"template={snap}")["id"]) == "born again"
            h("unsnap", snap)
        assert h("get", box)["state"] == "running"
        for one in h.list("all=1"):
            h("kill", one["id"])
        until(lambda: folders(fakes.state) == [] and not supervisors(fakes.state), "everything to go")
        h.quit()
        if not died:
            assert n > 3
            return
    pytest.fail("it never got to its end")
