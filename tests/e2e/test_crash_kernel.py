"""test_crash.py for the kernel tier: a fault at each call of ward, of the kernel process up to the command's start and its end, and
of the zygote; as root and as an ordinary user."""
import errno
import pathlib
import signal

import pytest

from leftovers import Leaks
from runbox import needs_root
from test_crash import CHILD_QUIET, FAULT, NO_CGROUP, Walk, faulty, is_told, leftovers, user_faulty  # noqa: F401

pytestmark = [needs_root, pytest.mark.skipif(not FAULT.exists(), reason="this build has no ward-fault")]

# What a start does without: a guest that is no better victim than others; views that hang apart, which an ordinary user's kernel process
# makes itself.
DOES_WITHOUT = {"parent": ("move_mount",), "child": 1, "zygote": 2}
USER_VIEWS = 1 + sum(p.is_dir() and not p.is_symlink() for p in map(pathlib.Path, "/usr /opt /bin /sbin /lib /lib32 /lib64 /libx32".split()))
CALLS_LEAST = {"parent": 20, "child": 60, "zygote": 3}


def told(done, report):
    """As in is_told(); and what the kernel process cannot do for the command, once it runs, is the command's error."""
    if done.returncode in (126, 127):
        return bool(done.stderr) and report is not None and (report["cause"], report["code"]) == ("exited", done.returncode)
    return is_told(done, report)


def killed(side, call, done, report):
    if side == "parent":
        return done.returncode == -signal.SIGKILL if call != "?" else done.returncode == 0
    return done.returncode == 0 or (report is not None and done.stderr.count("\n") == 1 and (
        (report["cause"], done.returncode) == ("setup-failed", 125) or (report["cause"], report.get("code")) == ("exited", 126) or
        report["cause"] == "killed-by-operator" and done.returncode > 128))


def walk(box, side, do, without=0):
    watch, bad, walk = Leaks(box.state), [], Walk(box, side, do, ["--tier", "kernel", "--", "true"])
    n = quiet = went_on = 0
    while quiet < CHILD_QUIET:
        n += 1
        done, report = walk.once(n)
        done.stderr = "".join(line for line in done.stderr.splitlines(True) if NO_CGROUP not in line)
        calls = walk.calls()
        call = calls[n - 1] if n <= len(calls) else "?"
        if not (killed(side, call, done, report) if do == "kill" else told(done, report)):
            bad.append((n, call, done.returncode, done.stderr, report and (report["cause"], report.get("step"))))
        if watch.found():
            box.ward("gc")
            if left := leftovers(watch, 2.0):
                bad.append((n, call, left))
                watch.begin()
        if side == "parent":
            if done.returncode == 0 and "sendmsg" in calls[n:] and call not in DOES_WITHOUT["parent"]:
                bad.append((n, call, "went on without"))
            if n > len(calls):
                break
            continue
        if done.returncode == 125:  # later on a call may be of nobody's who is waited for
            went_on += quiet
        quiet = quiet + 1 if done.returncode == 0 else 0
    if side != "parent" and do != "kill" and went_on > DOES_WITHOUT[side] + without:
        bad.append(f"{went_on} calls failed and nobody minded")
    assert not bad, "\n".join(map(str, bad))
    assert n - quiet > CALLS_LEAST[side], f"only {n - quiet} calls: the gate is not where the calls are"


@pytest.mark.parametrize("do", [errno.EIO, "kill"])
@pytest.mark.parametrize("side", ["parent", "child", "zygote"])
def test_kernel_tier(faulty, side, do):  # noqa: F811
    walk(faulty, side, do)


@pytest.mark.parametrize("side", ["parent", "child"])
def test_kernel_tier_ordinary_user(user_faulty, side):  # noqa: F811
    walk(user_faulty, side, errno.EIO, USER_VIEWS)
