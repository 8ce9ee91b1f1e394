"""ward on a machine as Debian installs it, and on three that differ in their cgroups."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from leftovers import Leaks, cgroups
from runbox import Box, ends, read_until
from wardtest import BINARY, USER_ID, as_user, public_directory

TOP = pathlib.Path("/sys/fs/cgroup")
WARNING = "ward run: warning: no cgroup is writable here"
with_cgroups = pytest.mark.variant("v2", "hybrid", "v1")
on_v2 = pytest.mark.variant("v2")
without = pytest.mark.variant("none")


@pytest.fixture(params=["root", "user"])
def either(request):
    return request.getfixturevalue("box" if request.param == "root" else "user_box")


def told(done):
    """What ward said, without the one warning that an ordinary user's cgroups earn."""
    return [line for line in done.stderr.splitlines() if not line.startswith(WARNING)]


def test_the_machine_is_what_it_says(variant):
    """Otherwise everything below would test something else."""
    kinds = {line.split(" - ")[1].split()[0] for line in open("/proc/self/mountinfo") if " /sys/fs/cgroup" in line}
    assert kinds - {"tmpfs"} == {"v2": {"cgroup2"}, "hybrid": {"cgroup", "cgroup2"}, "v1": {"cgroup"}, "none": set()}[variant]
    assert os.uname().release.startswith("6.1.")
    assert os.path.basename(os.path.realpath("/proc/1/exe")) == ("dash" if variant == "none" else "systemd")


def test_doctor(ward, variant):
    done = ward("doctor", "--json")
    text = done.stdout
    assert done.returncode == 0, done
    found = json.loads(text)
    names = json.dumps(found)
    assert f'"layout": "{variant}"' in names or f'"layout":"{variant}"' in text
    assert "6.1." in names


@pytest.mark.parametrize("tier", ["container", "workspace"])
def test_run(either, tier):
    """Before the modules for overlay and loop were needed by anybody: the kernel loads them by itself."""
    done = subprocess.run(either.argv("run", "--tier", tier, "--", "sh", "-c", "echo out; echo err >&2; exit 3"), capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, env=either.env())
    assert (done.returncode, done.stdout, told(done)) == (3, "out\n", ["err"])


def test_root_of_the_sandbox(either):
    done = either("--", "sh", "-ec", "id -u; echo x > /etc/new; mkdir /new; rm /etc/hosts; ls /usr; cat /proc/self/mountinfo")
    assert (done.returncode, told(done)) == (0, [])
    out = done.stdout.splitlines()
    assert out[0] == "0" and out[1:1 + len(os.listdir("/usr"))] == sorted(os.listdir("/usr"))
    info = {line.split()[4]: line for line in out if " - " in line}
    assert " - overlay " in info["/"] and "/usr" in info and "/proc" in info
    assert not [line for line in info.values() if " shared:" in line], "a mount that the host would see"


def test_mounts(either, place):
    for name in ("ro", "rw", "overlay"):
        (place / name).mkdir()
        (place / name / "file").write_text("old\n")
        os.chown(place / name, USER_ID, USER_ID) if either.prefix else None
    mounts = [word for m in ("ro", "rw", "overlay") for word in ("--mount", f"{place}/{m}:/{m}:{m}")]
    done = either(*mounts, "--", "sh", "-c", "for d in ro rw overlay; do echo new > /$d/new 2>/dev/null; ls /$d; done")
    assert done.stdout.split() == ["file", "file", "new", "file", "new"], done.stderr
    assert sorted(p.name for p in place.glob("*/new")) == ["new"] and (place / "rw/new").exists()


def test_replacing_a_folder_of_the_template(either):
    """An ordinary user's overlay on a tmpfs has no attributes before Linux 6.6: see docs/design/container.md."""
    done = either("--", "sh", "-c", "rm -r /srv && mkdir /srv && touch /srv/x && ls /srv")
    if either.prefix:
        assert done.returncode != 0 and "Input/output error" in done.stderr
    else:
        assert (done.returncode, done.stdout) == (0, "x\n"), done.stderr


def test_a_file_of_a_tmpfs_can_be_shown(box, place):
    """Linux 6.1 cannot id-map a tmpfs, where many hosts have their resolv.conf; a folder there is refused."""
    inside = pathlib.Path("/run/rig-tmpfs")
    inside.mkdir(exist_ok=True)
    (inside / "file").write_text("shown\n")
    assert box.out("--mount", f"{inside}/file:/file:ro", "--", "cat", "/file") == "shown\n"
    done = box("--mount", f"{inside}:/folder:ro", "--", "true")
    assert (done.returncode, len(done.stderr.splitlines())) == (125, 1) and "id-mapped" in done.stderr


def test_keep(either):
    done = either("--keep", "--", "sh", "-c", "echo kept > /srv/kept")
    kept = re.search(r"kept as (\w+)", done.stderr)[1]
    assert (either.state / "boxes" / kept / "upper/srv/kept").read_text() == "kept\n"
    assert either.ward("rm", kept).returncode == 0


def test_disk(either):
    done, report = either.report("--disk", "2M", "--", "sh", "-c", "head -c 20M /dev/zero > /big")
    assert (report["cause"], done.returncode) == ("disk-limit", 1), done.stderr


def test_upper_on_disk(box):
    watch = Leaks(box.state)
    done, report = box.report("--upper", "disk", "--disk", "16M", "--", "sh", "-c", "df -T / | tail -1; head -c 40M /dev/zero > /big")
    assert report["cause"] == "disk-limit", (report, done.stderr)
    watch.check()
    assert "/dev/loop" not in subprocess.run(["losetup", "-a"], capture_output=True, text=True).stdout


def test_timeout(either):
    done, report = either.report("--timeout", "1s", "--", "sleep", "600")
    assert (report["cause"], done.returncode) == ("time-limit", 124)


# Limits that cgroups keep, as root.

HOG = "b=[]\nwhile True: b.append(bytearray(1<<20))"


@with_cgroups
def test_memory(box, variant):
    done, report = box.report("--memory", "64M", "--", "sh", "-c", f"python3 -c '{HOG}'; echo went on")
    assert (report["cause"], done.returncode, done.stdout) == ("out-of-memory", 137, ""), (report, done.stderr)
    assert report["usage"]["memory_peak_bytes"] <= 64 << 20
    # v1 tells of the want of memory before it kills, and ward may be quicker.
    assert report["usage"]["oom_kills"] >= (variant == "v2")


@with_cgroups
def test_processes(box):
    done, report = box.report("--pids", "12", "--", "sh", "-c", "for i in $(seq 20); do sleep 5 & done; wait")
    assert report["usage"]["pids_refused"] >= 1 and "process-limit" in report["limits_hit"], report


@with_cgroups
def test_cpu(box):
    done, report = box.report("--cpus", "0.25", "--timeout", "4s", "--", "sh", "-c", "while :; do :; done")
    assert report["cause"] == "time-limit"
    assert report["usage"]["cpu_us"] < 2_500_000, "a quarter of 4 seconds, and what it took to start"


@with_cgroups
def test_cgroup_of_a_running_sandbox(box, variant):
    """The numbers are in the kernel's files while it runs, and the folders are gone afterwards."""
    want = {"v2": {"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "20", "cpu.max": "50000 100000"}}
    v1 = {"memory.limit_in_bytes": "67108864", "pids.max": "20", "cpu.cfs_quota_us": "50000"}
    before = cgroups()
    process = box.start("--memory", "64M", "--pids", "20", "--cpus", "0.5", "--", "sh", "-c", "echo up; cat", stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, bufsize=0)
    with ends(process):
        read_until(process.stdout, b"up")
        made = [pathlib.Path(d) for d in cgroups() - before if "/ward-" in d]
        found = {name: (d / name).read_text().strip() for d in made for name in want.get(variant, v1) if (d / name).exists()}
        process.stdin.close()
    assert found == want.get(variant, v1)
    assert {d for d in cgroups() - before if d != str(TOP / "ward")} == set()


@with_cgroups
@pytest.mark.parametrize("sweeper", ["gc", "run"])
def test_killed_leaves_no_cgroup(box, sweeper):
    assert box("--", "true").returncode == 0
    watch = Leaks(box.state)
    process = box.start("--", "sh", "-c", "(setsid sleep 999 &); echo up; sleep 999", stdout=subprocess.PIPE, bufsize=0)
    with ends(process):
        read_until(process.stdout, b"up")
        assert watch.found().get("cgroups")
        process.kill()
    done = box.ward("gc") if sweeper == "gc" else box("--", "true")
    assert done.returncode == 0, done.stderr
    watch.check()


@on_v2
def test_the_parent_stays(box):
    """One folder for all sandboxes of root, made on first use; empty between runs."""
    assert box("--", "true").returncode == 0
    assert (TOP / "ward").is_dir() and not [p for p in (TOP / "ward").iterdir() if p.is_dir()]
    assert {"memory", "pids"} <= set((TOP / "ward/cgroup.subtree_control").read_text().split())


@on_v2
def test_systemd_does_not_take_the_controllers_back(box):
    assert box("--cpus", "1", "--", "true").returncode == 0
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    subprocess.run(["systemd-run", "--wait", "--quiet", "-p", "CPUWeight=10", "true"], check=True)
    assert {"cpu", "memory", "pids"} <= set((TOP / "ward/cgroup.subtree_control").read_text().split())
    assert box("--cpus", "1", "--", "true").returncode == 0


# An ordinary user's cgroups.

@with_cgroups
def test_user_without_delegation(user_box):
    done = user_box("--", "true")
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1) and done.stderr.startswith(WARNING)
    done = user_box("--memory", "64M", "--", "true")
    assert (done.returncode, len(done.stderr.splitlines())) == (125, 1)
    assert "a limit was asked for that needs a cgroup" in done.stderr and "Delegate" in done.stderr


@pytest.fixture(scope="module")
def session():
    """A user with a systemd of its own, as after logging in; how to run something there."""
    name = "rig-user"
    subprocess.run(["useradd", "--create-home", name], check=True)
    uid = int(subprocess.run(["id", "-u", name], check=True, capture_output=True, text=True).stdout)
    subprocess.run(["systemctl", "start", f"user@{uid}.service"], check=True)
    with public_directory() as place:
        for program in ("ward", "ward-full"):
            shutil.copy2(BINARY.parent / program, place / program)

        def run(how, *args):
            argv = ["runuser", "-u", name, "--", "env", f"XDG_RUNTIME_DIR=/run/user/{uid}", "systemd-run", "--user", "--quiet",
                    "--collect", *how, str(place / "ward"), "run", "--tier", "container", *args]
            return subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, cwd="/")

        yield run
        subprocess.run(["systemctl", "stop", f"user@{uid}.service"], check=True)
        subprocess.run(["userdel", "--remove", name], check=True, capture_output=True)


@on_v2
@pytest.mark.parametrize("how", [("--scope", "-p", "Delegate=yes"), ("--pipe", "--wait", "-p", "Delegate=yes")], ids=["scope", "service"])
def test_user_with_delegation(session, how):
    before = cgroups()
    done = session(how, "--memory", "64M", "--pids", "20", "--", "python3", "-c", HOG)
    assert (done.returncode, done.stderr.splitlines()) == (137, [f"ward run: out-of-memory: of {64 << 20} bytes"])
    done = session(how, "--pids", "8", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do sleep 5 & done; wait")
    assert "Cannot fork" in done.stderr or "process-limit" in done.stderr, done
    done = session(how, "--", "echo", "fine")
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
    end = time.monotonic() + 20
    while (left := {d for d in cgroups() - before if "ward" in d}) and time.monotonic() < end:
        time.sleep(0.1)
    assert not left


# No cgroup at all.

@without
def test_without_cgroups(either):
    done = either("--", "bash", "-c", "ulimit -u; ulimit -d")
    assert (done.returncode, done.stdout.split()) == (0, ["1024", str(2 << 20)])
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith(WARNING)
    for option, value in (("--memory", "64M"), ("--pids", "20"), ("--cpus", "1")):
        done = either(option, value, "--", "true")
        assert (done.returncode, len(done.stderr.splitlines())) == (125, 1), done
        assert "a limit was asked for that needs a cgroup" in done.stderr


@without
def test_without_cgroups_killed_leaves_nothing(box):
    watch = Leaks(box.state)
    process = box.start("--", "sh", "-c", "(setsid sleep 999 &); echo up; sleep 999", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                        bufsize=0)
    with ends(process):
        read_until(process.stdout, b"up")
        process.send_signal(signal.SIGKILL)
    assert box.ward("gc").returncode == 0
    watch.check()
