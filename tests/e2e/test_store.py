# SPDX-License-Identifier: Apache-2.0
"""ward ls, ward rm, ward gc: what is listed, what goes, what stays."""
import errno
import hashlib
import json
import os
import pathlib
import subprocess

import pytest

from store_files import (FAULT, dead_sandbox, hold, kept_sandbox, leftovers, make_box, make_id, make_slot,
                         make_state)


def one_line(result):
    assert result.returncode == 125
    assert result.stderr.count("\n") == 1 and result.stderr.endswith("\n"), result.stderr
    return result.stderr


def test_nothing_was_ever_run(ward, state):
    assert ward("ls").stdout == ""
    assert json.loads(ward("ls", "--json", "--all").stdout) == []
    assert ward("gc").stdout == "nothing to remove\n"
    assert ward("rm", "--all").returncode == 0
    assert not state.exists()  # commands that look make nothing


@pytest.mark.parametrize("args", [("ls", "x"), ("gc", "--all"), ("rm",), ("rm", "--all", "aaaaaaaaaaaa"),
                                  ("rm", "-x"), ("rm", "../../etc"), ("rm", "short")])
def test_bad_arguments(ward, state, args):
    assert one_line(ward(*args)).startswith(f"ward {args[0]}: ")
    assert not state.exists()


@pytest.mark.parametrize("name", ["ls", "rm", "gc", "audit"])
def test_help(ward, name):
    result = ward(name, "--help")
    assert result.returncode == 0 and result.stdout.startswith(f"Usage: ward {name}")
    assert ward("help", name).stdout == result.stdout


def test_ls_lists_running_kept_and_dead(ward, state):
    make_state(state)
    kept, dead, live = kept_sandbox(state, "time-limit"), dead_sandbox(state, 5), make_id()
    slot = make_slot(state, 7, live)
    make_slot(state, 8, "", text="")  # taken, and not written yet
    with hold(slot):
        rows = {r["id"]: r for r in json.loads(ward("ls", "--json", "--all").stdout)}
        text = ward("ls").stdout
    assert set(rows) == {kept, dead, live}
    assert rows[live]["state"] == "running" and rows[live]["pid"] == os.getpid()
    assert rows[live]["command"] == ["/bin/echo", "two words"]
    assert rows[dead]["state"] == "dead" and rows[dead]["pid"] is None
    assert rows[kept]["state"] == "kept" and rows[kept]["cause"] == "time-limit" and rows[kept]["status"] == 3
    assert kept in text and live in text and dead not in text
    assert "\033" not in text  # not a terminal


def test_ls_escapes_what_a_terminal_would_obey(ward, state):
    make_state(state)
    box = make_id()
    (state / "boxes" / box).mkdir()
    (state / "boxes" / box / "record").write_text(f"id={box}\ncommand=%1b[31mred %0a %ff\n")
    assert "\\x1b[31mred \\x0a \\xff" in ward("ls").stdout
    assert json.loads(ward("ls", "--json").stdout)[0]["command"][1] == "\n"


def test_rm_removes_kept_ones_only(ward, state):
    make_state(state)
    first, second, other = (kept_sandbox(state) for _ in range(3))
    live, dead = make_id(), dead_sandbox(state, 5)
    with hold(make_slot(state, 7, live)):
        assert "is running" in one_line(ward("rm", live))
    assert "ward gc" in one_line(ward("rm", dead))
    assert "no kept sandbox" in one_line(ward("rm", make_id()))
    assert ward("rm", first).stdout == f"removed {first}\n"
    # Those that can be removed are, whatever stands before them.
    result = ward("rm", make_id(), second, "--json")
    one_line(result)
    assert json.loads(result.stdout) == [second]
    assert json.loads(ward("rm", "--all", "--json").stdout) == [other]
    assert [p.name for p in (state / "boxes").iterdir()] == [dead]
    assert ward("audit", "verify").returncode == 0


def test_gc_sweeps_the_dead_and_leaves_the_rest(ward, state):
    make_state(state)
    kept, dead, live = kept_sandbox(state), dead_sandbox(state, 5), make_id()
    make_box(state, live)
    leftover = make_id()
    make_box(state, leftover)  # no slot and no record speaks for it
    (state / "trash" / "old" / "deep").mkdir(parents=True)
    make_slot(state, 6, "", text="")  # killed between taking and writing
    with hold(make_slot(state, 7, live)):
        result = ward("gc", "--json")
        report = json.loads(result.stdout)
        assert ward("gc").stdout == "nothing to remove\n"
    assert result.returncode == 0
    assert (report["swept"], report["running"], report["failed"], report["errors"]) == (2, 1, 0, [])
    assert sorted(r["kind"] for r in report["removed"]) == ["leftover", "trash", "tree"]
    assert sorted(leftovers(state)) == sorted(["slots/7", f"boxes/{kept}", f"boxes/{live}"])
    assert ward("audit", "show", "--event", "run.swept", "--id", dead, "--json").stdout.count("\n") == 1
    assert pathlib.Path("/etc/passwd").exists()  # the link in the box was not followed


def test_gc_says_what_it_cannot_remove(ward, state, tmp_path):
    make_state(state)
    box = make_id()
    (tmp_path / "precious").mkdir()
    make_slot(state, 5, box, [f"tree {tmp_path}/precious"])
    result = ward("gc")
    assert "1 of 1 dead sandboxes could not be swept" in one_line(result)
    assert "not below the state directory" in result.stdout
    assert (tmp_path / "precious").is_dir() and (state / "slots" / "5").exists()


def test_a_sandbox_with_processes_is_ended(ward, state):
    root = next((p for p in map(pathlib.Path, ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"))
                 if os.access(p, os.W_OK) and (p / "cgroup.procs").exists()), None)
    if root is None:
        pytest.skip("no cgroup can be made here")
    make_state(state)
    box = make_id()
    group = root / f"ward-test-{box}"
    group.mkdir()
    sleeper = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        (group / "cgroup.procs").write_text(str(sleeper.pid))
        make_slot(state, 5, box, [f"cgroup {group}"])
        assert ward("gc").returncode == 0
        assert sleeper.wait(10) == -9
        assert not group.exists()
    finally:
        if sleeper.poll() is None:
            sleeper.kill()
            sleeper.wait()
        if group.exists():
            group.rmdir()


def git(repo, *args):
    return subprocess.run(["git", "-C", str(repo), "-c", "user.name=t", "-c", "user.email=t@localhost", *args],
                          check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("how", ["dead", "kept"])
def test_a_worktree_leaves_its_repository_too(ward, state, tmp_path, how):
    make_state(state)
    repo = tmp_path / "my repo"
    repo.mkdir()
    git(repo, "init", "-q")
    git(repo, "commit", "-q", "--allow-empty", "-m", "first")
    box = dead_sandbox(state) if how == "dead" else kept_sandbox(state)
    work = state / "boxes" / box / "work"
    git(repo, "worktree", "add", "-q", "--detach", str(work))
    # Under the name that ward gives its own, which is the only one that it takes out again.
    name = "ward-" + hashlib.sha256(str(work).encode()).hexdigest()[:16]
    (repo / ".git" / "worktrees" / "work").rename(repo / ".git" / "worktrees" / name)
    record = state / "slots" / "5" if how == "dead" else state / "boxes" / box / "record"
    with record.open("a") as f:
        f.write(f"undo=worktree {str(repo).replace(' ', '%20')} {work}\n")
    assert git(repo, "worktree", "list").count("\n") == 2
    result = ward("gc") if how == "dead" else ward("rm", box)
    assert result.returncode == 0, result.stderr
    assert git(repo, "worktree", "list").count("\n") == 1
    assert leftovers(state) == []


def test_state_directory_of_others_is_refused(ward, state):
    make_state(state)
    state.chmod(0o777)
    for args in (("ls",), ("gc",), ("rm", "--all"), ("audit", "verify")):
        assert "written by others" in one_line(ward(*args))


def fault(state, *args, at, do):
    env = dict(os.environ, WARD_FAULT_AT=str(at), WARD_FAULT_DO=do)
    return subprocess.run([FAULT, "--state-dir", str(state), *args], env=env, capture_output=True, text=True,
                          timeout=60)


def calls_of(state, *args):
    """How many host calls the command makes."""
    log = state.parent / "calls"
    log.unlink(missing_ok=True)
    subprocess.run([FAULT, "--state-dir", str(state), *args], env=dict(os.environ, WARD_FAULT_LOG=str(log)),
                   check=True, capture_output=True, timeout=60)
    return len(log.read_text().splitlines())


BROKEN = ["kill", str(errno.ENOSPC), str(errno.EIO), str(errno.EINTR)]
needs_fault = pytest.mark.skipif(not FAULT.exists(), reason="built without ward-fault")


def check_end(result, do):
    if do == "kill":
        assert result.returncode == -9
    else:
        assert result.returncode in (0, 125), result.stderr
        assert result.stderr.count("\n") == (1 if result.returncode else 0)


@needs_fault
@pytest.mark.parametrize("do", BROKEN)
def test_gc_broken_at_every_call(ward, state, do):
    """Killed or failing at each host call: the next gc finishes, and no line of the log is lost."""
    make_state(state)
    for _ in range(2):  # the second time the audit log is there already
        dead_sandbox(state, 5)
        total = calls_of(state, "gc")
    assert total > 30
    for at in range(1, total + 1):
        dead = dead_sandbox(state, 5)
        result = fault(state, "gc", at=at, do=do)
        check_end(result, do)
        assert ward("audit", "verify").returncode == 0, at
        final = ward("gc")
        assert final.returncode == 0, (at, final.stderr)
        assert leftovers(state) == [], at
        swept = ward("audit", "show", "--json", "--event", "run.swept", "--id", dead).stdout
        assert swept.count("\n") >= 1, at
        assert ward("audit", "verify").returncode == 0, at


@needs_fault
@pytest.mark.parametrize("do", BROKEN)
def test_rm_broken_at_every_call(ward, state, do):
    make_state(state)
    for _ in range(2):
        total = calls_of(state, "rm", kept_sandbox(state))
    assert total > 30
    for at in range(1, total + 1):
        box = kept_sandbox(state)
        result = fault(state, "rm", box, at=at, do=do)
        check_end(result, do)
        assert ward("audit", "verify").returncode == 0, at
        ward("rm", box)  # gone already, or goes now
        assert ward("gc").returncode == 0
        assert leftovers(state) == [], at


@needs_fault
@pytest.mark.parametrize("do", BROKEN)
def test_first_line_broken_at_every_call(ward, state, tmp_path, do):
    """The same in a state directory whose audit log is only about to be made."""
    make_state(state)
    total = calls_of(state, "rm", kept_sandbox(state))
    for at in range(1, total + 1):
        for name in ("log", "head"):
            (state / "audit" / name).unlink(missing_ok=True)
        box = kept_sandbox(state)
        check_end(fault(state, "rm", box, at=at, do=do), do)
        assert ward("audit", "verify").returncode == 0, at
        other = kept_sandbox(state)
        assert ward("rm", other).returncode == 0, at
        assert ward("audit", "verify").returncode == 0, at
        assert "audit.repaired" not in ward("audit", "show").stdout
        ward("rm", box)
        ward("gc")
