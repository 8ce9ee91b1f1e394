# SPDX-License-Identifier: Apache-2.0
"""ward audit: the log is verified and shown; what hands or crashes do to it is found."""
import hashlib
import json
import subprocess

import pytest

from store_files import dead_sandbox, kept_sandbox, make_state


@pytest.fixture
def filled(ward, state):
    """A log of six lines: three sandboxes swept, three removed."""
    make_state(state)
    ids = []
    for _ in range(3):
        ids.append(dead_sandbox(state))
        assert ward("gc").returncode == 0
        ids.append(kept_sandbox(state))
        assert ward("rm", ids[-1]).returncode == 0
    return ids


def lines(state):
    return (state / "audit" / "log").read_bytes().splitlines(keepends=True)


def put(state, new):
    (state / "audit" / "log").write_bytes(b"".join(new))


def one_more(ward, state):
    dead_sandbox(state)
    assert ward("gc").returncode == 0


def test_format(filled, state):
    previous = "0" * 64
    for number, raw in enumerate(lines(state), 1):
        line = json.loads(raw)
        assert list(line)[:4] == ["seq", "ts", "prev", "event"]
        assert line["seq"] == number and line["prev"] == previous
        previous = hashlib.sha256(raw.rstrip(b"\n")).hexdigest()
    head = (state / "audit" / "head").read_text()
    assert previous in head and f"seq={number:020}" in head
    for name in ("log", "head"):
        assert (state / "audit" / name).stat().st_mode & 0o777 == 0o600


def test_verify_whole(ward, filled):
    result = ward("audit", "verify")
    assert result.returncode == 0 and result.stdout.startswith("ok: 6 lines")
    report = json.loads(ward("audit", "verify", "--json").stdout)
    assert report == {"state": "ok", "lines": 6, "repairs": 0, "torn_bytes": 0, "file": None, "line": None,
                      "why": None}


def edit(new):
    new[2] = new[2].replace(b"container", b"CONTAINER")


def remove(new):
    del new[2]


def remove_last(new):
    del new[-1]


def swap(new):
    new[2], new[3] = new[3], new[2]


def insert(new):
    new.insert(3, new[2])


def forge(new):
    """A line that fits the chain, put in with its hash right."""
    line = json.loads(new[2])
    line["prev"] = hashlib.sha256(new[2].rstrip(b"\n")).hexdigest()
    line["seq"] = 4
    new.insert(3, json.dumps(line, separators=(",", ":")).encode() + b"\n")


def forge_last(new):
    line = json.loads(new[-1])
    line["prev"] = hashlib.sha256(new[-1].rstrip(b"\n")).hexdigest()
    line["seq"] += 1
    new.append(json.dumps(line, separators=(",", ":")).encode() + b"\n")


@pytest.mark.parametrize("tamper,line", [(edit, 3), (remove, 3), (remove_last, 0), (swap, 3), (insert, 4),
                                         (forge, 5), (forge_last, 7)])
def test_tampering_is_found(ward, state, filled, tamper, line):
    new = lines(state)
    tamper(new)
    put(state, new)
    result = ward("audit", "verify", "--json")
    report = json.loads(result.stdout)
    assert result.returncode == 1
    assert (report["state"], report["file"], report["line"]) == ("broken", "audit/log", line)
    text = ward("audit", "verify").stdout
    assert text.startswith("broken: audit/log") and (not line or f"line {line}: " in text)
    one_more(ward, state)
    if tamper is not forge_last:
        assert ward("audit", "verify").returncode == 1  # an append does not cover it up
    else:
        assert "audit.repaired" in ward("audit", "show").stdout


def test_torn_last_line(ward, state, filled):
    old = lines(state)
    put(state, old[:-1] + [old[-1][:40]])
    result = ward("audit", "verify")
    assert result.returncode == 1
    assert result.stdout.startswith("torn: audit/log line 6: ") and "40 bytes" in result.stdout
    one_more(ward, state)
    new = lines(state)
    assert new[:5] == old[:5]
    repaired = json.loads(new[5])
    assert repaired["event"] == "audit.repaired" and repaired["torn_bytes"] == 40
    assert repaired["torn_sha256"] == hashlib.sha256(old[-1][:40]).hexdigest()
    torn, = (state / "audit").glob("torn-*")
    assert torn.read_bytes() == old[-1][:40]
    result = ward("audit", "verify")
    assert result.returncode == 0 and "repaired 1 times" in result.stdout


def test_lost_head(ward, state, filled):
    (state / "audit" / "head").unlink()
    result = ward("audit", "verify")
    assert result.returncode == 1 and "audit/head" in result.stdout


def test_show(ward, state, filled):
    raw = b"".join(lines(state)).decode()
    assert ward("audit", "show", "--json").stdout == raw
    assert ward("audit", "show").stdout.count("\n") == 6
    only = ward("audit", "show", "--id", filled[2]).stdout
    assert only.count("\n") == 1 and "run.swept" in only and "tier=container" in only
    assert ward("audit", "show", "--event", "box.removed").stdout.count("\n") == 3
    assert ward("audit", "show", "--event=run.").stdout.count("\n") == 3
    assert ward("audit", "show", "--tail", "2", "--json").stdout == "".join(raw.splitlines(True)[-2:])
    assert ward("audit", "show", "--tail", "1", "--event", "run.swept", "--json").stdout == \
        raw.splitlines(True)[4]
    assert ward("audit", "show", "--since", "1h").stdout.count("\n") == 6
    assert ward("audit", "show", "--since", "2099-01-01").stdout == ""
    assert ward("audit", "show", "--since", json.loads(lines(state)[3])["ts"]).stdout.count("\n") == 3


@pytest.mark.parametrize("args", [(), ("x",), ("verify", "x"), ("show", "--id"), ("show", "--id", "x"),
                                  ("show", "--tail", "0"), ("show", "--tail", "many"), ("show", "--event", ""),
                                  ("show", "--since", "yesterday"), ("show", "--bogus=1")])
def test_bad_arguments(ward, state, args):
    result = ward("audit", *args)
    assert result.returncode == 125 and result.stdout == ""
    assert result.stderr.startswith("ward audit: ") and result.stderr.count("\n") == 1
    assert not state.exists()


def test_many_at_once(ward, state):
    """Forty processes append at the same moment: no line is lost or mixed."""
    make_state(state)
    ids = [kept_sandbox(state) for _ in range(40)]
    binary = ward("version").args[0]
    running = [subprocess.Popen([binary, "--state-dir", str(state), "rm", i], stdout=subprocess.DEVNULL)
               for i in ids]
    assert [p.wait(60) for p in running] == [0] * len(ids)
    assert ward("audit", "verify").stdout.startswith("ok: 40 lines")
    assert sorted(json.loads(raw)["id"] for raw in lines(state)) == sorted(ids)


