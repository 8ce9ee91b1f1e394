"""Whatever call fails and whoever is killed when: the end is told, and nothing is left behind.

ward-fault is ward with a gate before each call to the kernel (src/host/fault.c): the n-th fails, or the
process is killed there. Every test walks n from 1 until the walk is past the last call.
"""
import concurrent.futures
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time

import pytest

from leftovers import Leaks, children_of
from runbox import Box, box, ends, needs_root, read_until, wait_until  # noqa: F401
from wardtest import BINARY, SANITIZED, USER_ID, as_user, public_directory

FAULT = BINARY.parent / "ward-fault"
# A run waits for nobody, so this is no measure of speed: whoever reaches it hangs.
HANG = 60
NO_CGROUP = "no cgroup is writable"
CHILD_QUIET = 12  # normal ends in a row, after which the first process has no calls left

pytestmark = [needs_root, pytest.mark.skipif(not FAULT.exists(), reason="this build has no ward-fault")]


@pytest.fixture(scope="module")
def faulty():
    """ward-fault with a state directory whose template is there already."""
    with public_directory() as place:
        box = Box(FAULT, place / "state")
        assert box("--", "true").returncode == 0
        yield box


class Walk:
    """Runs with a fault at call 1, 2, 3...; each yields (n, done, report)."""

    def __init__(self, box, side, do, args=("--", "true")):
        self.box, self.side, self.do, self.args = box, side, do, args
        self.log = box.state.parent / "calls"
        self.report = box.state.parent / "report"

    def once(self, n):
        for path in (self.log, self.report):
            path.unlink(missing_ok=True)
        env = {"WARD_FAULT_AT": str(n), "WARD_FAULT_DO": str(self.do), "WARD_FAULT_SIDE": self.side}
        if self.side == "parent":
            # In the first process the log would share its descriptor with what follows dup3().
            env["WARD_FAULT_LOG"] = str(self.log)
        try:
            done = self.box("--json", self.report, *self.args, env=env, timeout=HANG)
        except subprocess.TimeoutExpired:
            pytest.fail(f"hangs when call {n} of the {self.side} meets {self.do}")
        text = self.report.read_text() if self.report.exists() else ""
        return done, json.loads(text) if text else None

    def calls(self):
        return self.log.read_text().split() if self.log.exists() else []

    def __iter__(self):
        n, quiet = 0, 0
        while True:
            n += 1
            done, report = self.once(n)
            calls = self.calls()
            # A set-up that goes on after a failure has made a sandbox with a part missing.
            went_on = done.returncode == 0 and "sendmsg" in calls[n:]
            if quiet and done.returncode != 0:
                pytest.fail(f"the first process goes on when one of its calls before {n} meets {self.do}")
            yield n, calls[n - 1] if n <= len(calls) else "?", done, report if not went_on else {"cause": "went on without"}
            quiet = quiet + 1 if self.side == "child" and done.returncode == 0 else 0
            if (self.side == "parent" and len(calls) < n) or (self.side == "child" and quiet == CHILD_QUIET):
                assert n > 20, f"only {n} calls: the gate is not where the calls are"
                return


def is_told(done, report):
    """The run failed, and said so once and in one line; or it is over and ended as `true` does."""
    lines = done.stderr.splitlines()
    if done.returncode == 0:
        # What fails after the command's end is told as a warning, if at all.
        return (report is None or (report["cause"] == "exited" and report["code"] == 0)) and \
            len(lines) <= 1 and all("ward run: " in line for line in lines)
    return done.returncode == 125 and len(lines) == 1 and lines[0].startswith("ward run: ") and \
        report is not None and report["cause"] == "setup-failed" and bool(report["step"]) and bool(report["detail"])


def leftovers(watch, patience):
    try:
        watch.check(patience)
    except AssertionError as failed:
        return str(failed)
    return None


@pytest.mark.parametrize("keep", [False, True], ids=["plain", "keep"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOMEM], ids=errno.errorcode.get)
@pytest.mark.parametrize("side", ["parent", "child"])
def test_failing_call(faulty, side, code, keep):
    watch, bad = Leaks(faulty.state), []
    for n, call, done, report in Walk(faulty, side, code, [*(["--keep"] if keep else []), "--", "true"]):
        if keep and done.returncode == 0:
            done.stderr = "".join(line for line in done.stderr.splitlines(True) if ": kept as " not in line)
            faulty.ward("rm", "--all")
        if not is_told(done, report):
            bad.append((n, call, done.returncode, done.stderr, report and (report["cause"], report.get("step"))))
        if watch.found():
            faulty.ward("gc")
            if left := leftovers(watch, 2.0):
                bad.append((n, call, left))
                watch.begin()
    assert not bad, "\n".join(map(str, bad))


def killed_at_call(faulty, side, keep, sweeper):
    watch, bad = Leaks(faulty.state), []
    for n, call, done, report in Walk(faulty, side, "kill", [*(["--keep"] if keep else []), "--", "true"]):
        if side == "parent" and call != "?":
            assert done.returncode == -signal.SIGKILL
        elif side == "child" and done.returncode != 0:
            ok = report and report["cause"] in ("setup-failed", "killed-by-operator") and done.stderr.count("\n") == 1 and \
                (done.returncode == 125 if report["cause"] == "setup-failed" else done.returncode > 128)
            if not ok:
                bad.append((n, call, done.returncode, done.stderr, report and report["cause"]))
        if watch.found():
            if sweeper == "gc":
                swept = faulty.ward("gc")
            else:
                swept = faulty("--", "true")
            if swept.returncode != 0:
                bad.append((n, call, swept))
            if keep:
                faulty.ward("rm", "--all")
            if left := leftovers(watch, 2.0):
                bad.append((n, call, left))
                watch.begin()
    assert not bad, "\n".join(map(str, bad))


either = pytest.mark.parametrize("sweeper", ["gc", "run"])
kept_or_not = pytest.mark.parametrize("keep", [False, True], ids=["plain", "keep"])


@either
@kept_or_not
def test_ward_killed_at_call(faulty, keep, sweeper):
    killed_at_call(faulty, "parent", keep, sweeper)


@either
@kept_or_not
def test_first_process_killed_at_call(faulty, keep, sweeper):
    killed_at_call(faulty, "child", keep, sweeper)


def started(box, *args, script="sleep 1000"):
    """A run whose command is known to be running."""
    process = box.start(*args, "--", "sh", "-c", f"echo up; {script}", stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    read_until(process.stdout, b"up")
    return process


def pid_namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except FileNotFoundError:  # gone meanwhile
        return None


def first_process(ward):
    # For a moment ward also has a child that syncs the audit log; it is in ward's own pid namespace.
    [pid] = wait_until(lambda: [p for p in children_of(ward.pid) if pid_namespace(p) not in (None, pid_namespace("self"))],
                       what="the sandbox's first process")
    return pid


@pytest.mark.parametrize("args", [(), ("--keep",), ("--upper", "disk", "--disk", "16M"), ("-t",)], ids=" ".join)
def test_killed_while_running(box, args):
    box("--", "true")
    watch = Leaks(box.state)
    with ends(started(box, *args)) as ward:
        ward.kill()
    assert box.ward("gc").returncode == 0
    watch.check()


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP], ids=lambda s: s.name)
def test_first_process_killed_from_outside(box, sig, place_json):
    watch = Leaks(box.state)
    with ends(started(box, "--json", place_json)) as ward:
        first = first_process(ward)
        os.kill(first, sig)
        if sig == signal.SIGSTOP:
            ward.send_signal(signal.SIGTERM)
            ward.send_signal(signal.SIGTERM)
            wait_until(lambda: ward.poll() is not None or ward.send_signal(signal.SIGTERM), what="insisting")
        elif sig == signal.SIGTERM:
            # The agent takes no orders from strangers: whatever it does, the run must end or go on as one.
            time.sleep(0.2)
            if ward.poll() is None:
                ward.kill()
                ward.wait()
                assert box.ward("gc").returncode == 0
                watch.check()
                return
    report = json.loads(place_json.read_text())
    assert report["cause"] == "killed-by-operator", report
    assert ward.returncode >= 128
    watch.check()


@pytest.fixture
def place_json():
    with public_directory() as place:
        yield place / "report"


def test_killed_at_any_time(box):
    """kill -9 of ward after a random while, most of them while the sandbox is being made."""
    box("--", "true")
    watch, chance = Leaks(box.state), random.Random(2024)
    for _ in range(60):
        process = box.start("--keep", "--", "sleep", "1000", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(chance.choice([0.0, 0.001, 0.002, 0.003, 0.005, 0.01, 0.03]))
        process.kill()
        process.wait()
    assert box.ward("gc").returncode == 0
    watch.check()


def test_many_at_once_some_killed(box):
    box("--", "true")
    watch, chance = Leaks(box.state), random.Random(7)
    fate = [chance.random() < 0.3 for _ in range(50)]

    def one(i):
        process = box.start("--", "sh", "-c", f"sleep 0.2; echo {i} > /mine; cat /mine; exit {i}",
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if fate[i]:
            time.sleep(0.01 * (i % 30))
            process.kill()
        out, err = process.communicate(timeout=HANG)
        return i, process.returncode, out, err

    with concurrent.futures.ThreadPoolExecutor(max_workers=50) as pool:
        ended = list(pool.map(one, range(50)))
    for i, status, out, err in ended:
        if not (fate[i] and status == -signal.SIGKILL):
            assert (status, out, err) == (i, b"%d\n" % i, b"")
    assert box.ward("gc").returncode == 0
    watch.check()


def test_next_run_sweeps_a_killed_one(box):
    box("--", "true")
    watch = Leaks(box.state)
    with ends(started(box)) as ward:
        ward.kill()
    # The command itself must have gone with ward, before anybody sweeps.
    wait_until(lambda: "processes" not in watch.found(), what="the end of the sandbox's processes")
    assert box("--", "true").returncode == 0
    watch.check()


def test_processes_die_with_ward_at_once(box):
    """Nobody runs on without its supervisor, also not those that ran away from their parents."""
    box("--", "true")
    watch = Leaks(box.state)
    with ends(started(box, script="(setsid sleep 999 &) ; trap '' TERM HUP INT; while :; do sleep 1; done")) as ward:
        ward.kill()
    wait_until(lambda: "processes" not in watch.found(), what="the end of the sandbox's processes")
    assert box.ward("gc").returncode == 0
    watch.check()


def test_what_cannot_be_removed_is_not_forgotten(box):
    """Somebody's folder in a cgroup of ours: it stays, the run says so, and a later gc gets it."""
    box("--", "true")
    watch = Leaks(box.state)
    with ends(started(box, script="sleep 1")) as ward:
        slot = next((box.state / "slots").iterdir())
        groups = [line.split()[-1] for line in slot.read_text().splitlines() if line.startswith("undo=cgroup")]
        if not groups:
            pytest.skip("no cgroups here")
        extra = pathlib.Path(groups[0]) / "somebody"
        extra.mkdir()
        try:
            out, err = ward.communicate(timeout=HANG)
            assert ward.returncode == 0 and b"not all of" in err and len(err.splitlines()) == 1, err
            assert slot.exists() and pathlib.Path(groups[0]).exists()
            ends_before = box.ward("audit", "show").stdout.count("killed-by-operator")
        finally:
            extra.rmdir()
    assert box.ward("gc").returncode == 0 and not slot.exists()
    assert box.ward("audit", "show").stdout.count("killed-by-operator") == ends_before
    watch.check()


@pytest.mark.slow
@pytest.mark.parametrize("how", [errno.EIO, "kill"])
def test_first_template(how):
    """A fault while the host's template is made: the next run makes it again, complete."""
    with public_directory() as place:
        box = Box(FAULT, place / "state")
        good = Box(FAULT, place / "good")
        want = good.out("--", "sh", "-c", "cd /; find etc dev -xdev | sort | cksum")
        total = None
        log = place / "calls"
        Box(FAULT, place / "counted")("--", "true", env={"WARD_FAULT_LOG": str(log), "WARD_FAULT_SIDE": "parent"})
        calls = len(log.read_text().split())
        for n in (1, 5, 40, calls // 4, calls // 2, calls - 100):
            env = {"WARD_FAULT_AT": str(n), "WARD_FAULT_DO": str(how), "WARD_FAULT_SIDE": "parent"}
            done = box("--", "true", env=env, timeout=HANG)
            if how == "kill":
                assert done.returncode == -signal.SIGKILL, n
            elif done.returncode:
                assert (done.returncode, len(done.stderr.splitlines())) == (125, 1), (n, done.stderr)
            got = box.out("--", "sh", "-c", "cd /; find etc dev -xdev | sort | cksum")
            assert got == want, f"after a fault at call {n}"
            assert box.ward("gc").returncode == 0
            left = [p.name for p in (place / "state" / "templates").iterdir()]
            total = total or sorted(left)
            assert len(left) == len(total), f"a half-made template is left after call {n}: {left}"
            subprocess.run(["rm", "-rf", place / "state"], check=True)


# As an ordinary user the first process does nearly all of the work.

@pytest.fixture(scope="module")
def user_faulty():
    if SANITIZED:
        pytest.skip("the sanitizer's shadow does not fit into the data limit")
    with public_directory() as place:
        for name in ("ward-fault", "ward-full", "ward-agent"):
            if (BINARY.parent / name).exists():
                shutil.copy2(BINARY.parent / name, place / name)
        home = place / "home"
        home.mkdir()
        os.chown(home, USER_ID, USER_ID)
        box = Box(place / "ward-fault", home / "state", as_user(), {"HOME": str(home)})
        assert box("--quiet", "--", "true").returncode == 0
        yield box


@pytest.mark.parametrize("do", [errno.EIO, "kill"])
@pytest.mark.parametrize("side", ["parent", "child"])
def test_ordinary_user(user_faulty, side, do):
    watch, bad = Leaks(user_faulty.state), []
    for n, call, done, report in Walk(user_faulty, side, do):
        done.stderr = "".join(line for line in done.stderr.splitlines(True) if NO_CGROUP not in line)
        if do == "kill":
            told = done.returncode in (0, -signal.SIGKILL) if side == "parent" else done.returncode in (0, 125) or done.returncode > 128
        else:
            told = is_told(done, report)
        if not told:
            bad.append((n, call, done.returncode, done.stderr, report and (report["cause"], report.get("step"))))
        if watch.found():
            user_faulty.ward("gc")
            if left := leftovers(watch, 2.0):
                bad.append((n, call, left))
                watch.begin()
    assert not bad, "\n".join(map(str, bad))


# Known to fail.

def test_no_cgroup_only_when_there_is_none(faulty):
    """/proc/self/cgroup is looked at right after the first process is born."""
    walk = Walk(faulty, "parent", errno.EIO)
    walk.once(0)
    born = walk.log.read_text().split().index("clone3") + 1
    for n in (born + 1, born + 2):
        done, report = walk.once(n)
        assert (done.returncode, report["cause"], report["step"]) == (125, "setup-failed", "cgroup"), (n, done.stderr)
