"""Hosts unlike the one the tests run on: shared mounts, cgroups that cannot be used, older kernels.

What can be staged in a mount namespace, or by ward-fault, is staged here; tests/rig boots the rest.
"""
import os
import pathlib
import subprocess

import pytest

from leftovers import Leaks
from runbox import Box, box, needs_root, place, user_box  # noqa: F401
from wardtest import BINARY, public_directory

FAULT = BINARY.parent / "ward-fault"
pytestmark = needs_root
needs_fault = pytest.mark.skipif(not FAULT.exists(), reason="this build has no ward-fault")


def on_host(box, staging, *args, propagation="private"):
    """Runs ward in a mount namespace of its own, after the shell commands of @staging."""
    argv = ["unshare", "--mount", f"--propagation={propagation}", "sh", "-ec", f'{staging}\n"$@"', "sh",
            *box.argv("run", "--tier", "container", *args)]
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, env=box.env())


# Shared mounts: what systemd makes of all of them.

@pytest.fixture(params=["root", "user"])
def either(request):
    return request.getfixturevalue("box" if request.param == "root" else "user_box")


def points(path):
    return sorted(line.split()[4] for line in path.read_text().splitlines())


def test_shared_mounts_get_nothing_from_a_sandbox(either, place):
    staging = f"cat /proc/self/mountinfo > {place}/before; trap 'cat /proc/self/mountinfo > {place}/after' EXIT"
    done = on_host(either, staging, "--mount", f"{place}:/usr/share/ward-test", "--mount", f"{place}:/mnt/more", "--", "true",
                   propagation="shared")
    # A mount point below the host's own /usr cannot be made; one that is there can be used.
    assert done.returncode == 125 and "/usr/share/ward-test" in done.stderr
    assert points(place / "after") == points(place / "before")
    done = on_host(either, staging, "--mount", f"{place}:/usr/share", "--mount", f"{place}:/mnt/more", "--", "true", propagation="shared")
    assert done.returncode == 0, done.stderr
    assert points(place / "after") == points(place / "before")


def test_shared_mounts_bring_nothing_into_a_sandbox(either, place):
    """What the host mounts later below a folder that the sandbox sees stays outside."""
    for name in ("seen/below", "go"):
        (place / name).mkdir(parents=True)
    os.mkfifo(place / "go/now")
    os.chmod(place / "go/now", 0o666)
    late = f"(timeout 60 cat {place}/go/now; mount -t tmpfs late {place}/seen/below; touch {place}/seen/below/late; echo > {place}/go/now) &"
    done = on_host(either, late, "--mount", f"{place}/seen:/seen", "--mount", f"{place}/go:/go:rw", "--", "sh", "-c",
                   "echo > /go/now; cat /go/now; ls /seen/below; cat /proc/self/mountinfo", propagation="shared")
    assert done.returncode == 0, done.stderr
    assert "late" not in done.stdout
    tied = [line for line in done.stdout.splitlines() if " shared:" in line or " master:" in line]
    # An ordinary user's device nodes are the host's own: nothing can be mounted below those.
    assert [line for line in tied if line.split()[3] not in ("/null", "/zero", "/full", "/random", "/urandom", "/tty")] == []


# Cgroups that cannot be used.

READ_ONLY = "for m in $(awk '$5 ~ \"^/sys/fs/cgroup\" {print $5}' /proc/self/mountinfo); do mount -o remount,bind,ro $m; done"
HIDDEN = "mount -t tmpfs none /sys/fs/cgroup"


@pytest.mark.native_only("asan cannot live under RLIMIT_DATA")
@pytest.mark.parametrize("staging", [READ_ONLY, HIDDEN], ids=["read-only", "none"])
def test_without_cgroups_defaults_fall_back_and_say_so(either, staging):
    done = on_host(either, staging, "--", "bash", "-c", "ulimit -u; ulimit -d")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if "no cgroup is writable" not in line] == []
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout.split() == ["1024", str(2 << 20)], "the default limits, as limits of a process"


@pytest.mark.parametrize("limit", [("--memory", "64M"), ("--pids", "20"), ("--cpus", "1")], ids=lambda v: v[0])
@pytest.mark.parametrize("staging", [READ_ONLY, HIDDEN], ids=["read-only", "none"])
def test_without_cgroups_a_limit_that_was_asked_for_is_refused(either, staging, limit):
    done = on_host(either, staging, *limit, "--", "true")
    assert (done.returncode, len(done.stderr.splitlines())) == (125, 1), done.stderr
    assert "a limit was asked for that needs a cgroup" in done.stderr


# Linux before 6.13: overlays by path only.

@pytest.fixture(scope="module")
def old(request):
    with public_directory() as place:
        yield Box(FAULT, place / "state", (), {"WARD_FAULT_LACK": "fsconfig_fd"})


@needs_fault
def test_old_overlay_is_really_taken(old, place):
    """The way around is taken: the calls of the errand are in the log."""
    done = old("--", "true", env={"WARD_FAULT_LOG": str(place / "calls"), "WARD_FAULT_SIDE": "parent"})
    assert done.returncode == 0, done.stderr
    calls = (place / "calls").read_text().split()
    assert "clone" in calls and calls.index("fsconfig_fd") < calls.index("clone")


@needs_fault
def test_old_overlay_root(old):
    watch = Leaks(old.state)
    script = "ls /usr; echo more >> /etc/hosts; tail -1 /etc/hosts; mkdir /new; rm -r /srv; mkdir /srv; touch /srv/x; ls /srv; echo s > /dev/shm/s"
    assert old.out("--", "sh", "-c", script).split() == [*sorted(os.listdir("/usr")), "more", "x"]
    info = old.out("--", "cat", "/proc/self/mountinfo")
    assert [line for line in info.splitlines() if line.split()[4] == "/"][0].split(" - ")[1].startswith("overlay")
    watch.check()


@needs_fault
def test_old_overlay_mounts(old, place):
    for name in ("a", "b", "c", "d"):
        (place / name).mkdir()
        (place / name / "file").write_text(name + "\n")
    mounts = [f"{place}/a:/a:overlay", f"{place}/b:/b:ro", f"{place}/c:/c:rw", f"{place}/d:/d:overlay"]
    done = old(*(word for m in mounts for word in ("--mount", m)), "--", "sh", "-c",
               "for d in a b c d; do echo new > /$d/file; echo $d > /$d/more; cat /$d/file; done; rm /d/file; ls /d")
    assert done.stdout.split() == ["new", "b", "new", "new", "more"], done.stderr
    assert {n: (place / n / "file").read_text() for n in "abcd"} == {"a": "a\n", "b": "b\n", "c": "new\n", "d": "d\n"}
    assert sorted(p.name for n in "abd" for p in (place / n).iterdir()) == ["file"] * 3


@needs_fault
@pytest.mark.parametrize("args", [(), ("--upper", "disk", "--disk", "16M")], ids=["tmpfs", "disk"])
def test_old_overlay_limits_and_keep(old, args):
    watch = Leaks(old.state)
    done, report = old.report(*(args or ("--disk", "2M")), "--", "sh", "-c", "head -c 20M /dev/zero > /big")
    assert (report["cause"], report["limits_hit"]) == ("disk-limit", ["disk-limit"]), report
    done = old(*args, "--keep", "--", "sh", "-c", "echo kept > /srv/kept")
    kept = done.stderr.split()[-1]
    assert (old.state / "boxes" / kept / "upper/srv/kept").read_text() == "kept\n"
    assert old.ward("rm", kept).returncode == 0
    watch.check()


@needs_fault
@pytest.mark.parametrize("do", ["kill", "5"])
def test_old_overlay_that_fails_is_told(old, do):
    """Every call of the process that makes the overlays fails or kills it once."""
    watch, told = Leaks(old.state), 0
    assert old("--", "true").returncode == 0
    for n in range(1, 16):
        done = old("--", "true", env={"WARD_FAULT_AT": str(n), "WARD_FAULT_DO": do, "WARD_FAULT_SIDE": "child"})
        assert done.returncode in (0, 125), (n, done)
        assert done.returncode == 0 or len(done.stderr.splitlines()) == 1, (n, done)
        told += "overlay" in done.stderr or "namespace" in done.stderr
        if watch.found():
            assert old.ward("gc").returncode == 0
            watch.check()
    assert told >= 3
