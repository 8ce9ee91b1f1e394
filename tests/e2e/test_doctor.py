# SPDX-License-Identifier: Apache-2.0
"""ward doctor: what it says is what the host does, and it leaves the host as it was."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
AS_ROOT = os.geteuid() == 0

CHECKS = ["kernel", "namespaces", "userns", "userns-user", "subids", "cgroup", "overlay-root",
          "overlay-user", "idmap", "landlock", "seccomp-notify", "kvm", "userfaultfd", "io_uring",
          "loop", "git", "libnode"]
TIERS = ["workspace", "container", "kernel", "vm", "js", "wasm"]


def read_report(done):
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    report = json.loads(done.stdout)
    assert list(report) == ["checks", "tiers"]
    return {c["name"]: c for c in report["checks"]}, {t["name"]: t for t in report["tiers"]}


def examine(ward, **kw):
    return read_report(ward("doctor", "--json", **kw))


@pytest.fixture
def binary_for_all():
    """A copy of the binary where every user can reach it, wherever the tree is."""
    binary = os.environ.get("WARD", str(ROOT / "build" / "ward"))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield shutil.copy(binary, folder)


def as_nobody(binary, *args):
    return subprocess.run([binary, "--state-dir", "/nonexistent", *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120, cwd="/", user=65534,
                          group=65534, extra_groups=[])


def check_shape(checks, tiers):
    assert list(checks) == CHECKS
    assert list(tiers) == TIERS
    for c in checks.values():
        assert c["state"] in ("yes", "partly", "no", "unknown")
        assert c["found"] and "\n" not in c["found"]
        assert not c["found"].startswith("the probe"), "a probe hung, crashed or fell silent"
        assert (c["hint"] is None) == (c["state"] == "yes")
        assert c["for"]
    for t in tiers.values():
        assert t["available"] == (t["missing"] is None)
        assert t["built"] or t["missing"].startswith("not in this build")


def test_every_check_answers(ward):
    check_shape(*examine(ward))


@pytest.mark.skipif(not AS_ROOT, reason="only root can become nobody")
def test_every_check_answers_for_an_ordinary_user(binary_for_all):
    checks, tiers = read_report(as_nobody(binary_for_all, "doctor", "--json"))
    check_shape(checks, tiers)
    assert checks["overlay-root"]["state"] == "unknown"
    assert checks["idmap"]["state"] == "unknown"
    assert checks["userns"]["state"] == checks["userns-user"]["state"]
    if os.path.exists("/dev/kvm") and not os.stat("/dev/kvm").st_mode & 0o006:
        assert checks["kvm"]["state"] == "partly"
        assert checks["kvm"]["facts"]["permission"] == "no"
        assert not tiers["vm"]["host_ready"]


def test_the_kernel_is_this_one(ward):
    checks, _ = examine(ward)
    assert checks["kernel"]["facts"]["release"] == os.uname().release


def test_user_namespaces_as_unshare_sees_them(ward):
    kw = {"user": 65534, "group": 65534, "extra_groups": []} if AS_ROOT else {}
    works = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"],
                           stderr=subprocess.DEVNULL, **kw).returncode == 0
    checks, _ = examine(ward)
    assert (checks["userns-user"]["state"] == "yes") == works


def test_git_as_the_path_has_it(ward, tmp_path):
    checks, _ = examine(ward)
    assert (checks["git"]["state"] == "yes") == (shutil.which("git") is not None)
    checks, _ = examine(ward, env={**os.environ, "PATH": str(tmp_path)})
    assert checks["git"]["state"] == "no"
    assert checks["git"]["hint"] == "apt install git"
    assert checks["subids"]["state"] == "no"


def test_a_git_that_hangs_does_not_hang_the_doctor(ward, tmp_path):
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\nexec sleep 1000\n")
    git.chmod(0o755)
    done = ward("doctor", "--json", env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert done.returncode == 0
    checks = {c["name"]: c for c in json.loads(done.stdout)["checks"]}
    assert checks["git"]["state"] == "unknown"
    assert "did not end within" in checks["git"]["found"]
    assert checks["libnode"]["found"]
    assert not processes_below(str(git))


def processes_below(text):
    found = []
    for p in pathlib.Path("/proc").iterdir():
        try:
            if p.name.isdigit() and text in (p / "cmdline").read_text():
                found.append(p.name)
        except OSError:
            continue  # it ended while we looked
    return found


def kvm_opens():
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR))
        return True
    except OSError:
        return False


@pytest.mark.skipif(not kvm_opens(), reason="no usable /dev/kvm here")
def test_kvm_runs_a_guest(ward):
    checks, tiers = examine(ward)
    assert checks["kvm"]["facts"]["api"] == "12"
    ran = checks["kvm"]["state"] == "yes"
    assert checks["kvm"]["facts"]["guest"] == ("ran" if ran else "failed")
    assert tiers["vm"]["host_ready"] == (checks["kvm"]["state"] == "yes")
    assert not tiers["vm"]["available"] and "ward kernel use" in tiers["vm"]["missing"]  # nobody gave it a kernel


def in_own_mounts(script):
    """A command line that changes the mounts of a private namespace first, then runs ward."""
    binary = os.environ.get("WARD", str(ROOT / "build" / "ward"))
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec",
            script + '\nexec "$0" doctor --json', binary]


@pytest.mark.skipif(not AS_ROOT, reason="mounting takes root")
@pytest.mark.parametrize("script,layout,state", [
    ("", "none", "no"),
    ("mount -t cgroup2 cgroup2 /sys/fs/cgroup", "v2", None),
    ("mount -t tmpfs t /sys/fs/cgroup; mkdir /sys/fs/cgroup/m; "
     "mount -t cgroup -o memory m /sys/fs/cgroup/m", "v1", "partly"),
    ("mount -t tmpfs t /sys/fs/cgroup; mkdir /sys/fs/cgroup/m /sys/fs/cgroup/u; "
     "mount -t cgroup -o memory m /sys/fs/cgroup/m; "
     "mount -t cgroup2 u /sys/fs/cgroup/u", "hybrid", "partly"),
])
def test_cgroup_layouts(script, layout, state):
    if "-o memory" in script and "memory" not in v1_controllers():
        pytest.skip("this host's memory controller is not on v1")
    bare = "awk '$3 ~ /^cgroup2?$/ {print $2}' /proc/mounts | while read d; do umount -l $d; done"
    done = subprocess.run(in_own_mounts(bare + "\n" + script), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    c = {c["name"]: c for c in json.loads(done.stdout)["checks"]}["cgroup"]
    assert c["facts"]["layout"] == layout
    assert c["found"].startswith(layout + ": ")
    if state:
        assert c["state"] == state
    if layout in ("v1", "hybrid"):
        assert c["facts"]["v1_controllers"] == "memory"
        assert "memory on v1; pids" in c["facts"]["limits"]


def v1_controllers():
    with open("/proc/self/mounts") as f:
        return {o for line in f if line.split()[2] == "cgroup" for o in line.split()[3].split(",")}


@pytest.mark.skipif(not AS_ROOT, reason="hiding /dev takes root")
def test_a_host_without_devices(tmp_path):
    script = "mount -t tmpfs t /dev; mknod -m 666 /dev/null c 1 3"
    done = subprocess.run(in_own_mounts(script), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    checks = {c["name"]: c for c in report["checks"]}
    assert checks["kvm"]["state"] == "no" and checks["kvm"]["facts"]["device"] == "absent"
    assert "nested virtualization" in checks["kvm"]["hint"]
    assert checks["loop"]["state"] == "no"
    assert checks["loop"]["hint"] == "modprobe loop"
    assert not {t["name"]: t for t in report["tiers"]}["vm"]["host_ready"]


@pytest.mark.skipif(not AS_ROOT, reason="setting sysctls takes root")
def test_no_user_namespaces_left(ward):
    """A host with the limit at 0: tried in a namespace of its own, where the limit is ours."""
    binary = os.environ.get("WARD", str(ROOT / "build" / "ward"))
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc",
         "sh", "-ec", 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$0" doctor --json',
         binary],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    checks = {c["name"]: c for c in report["checks"]}
    assert checks["userns"]["state"] == "no"
    assert checks["userns"]["hint"] == "sysctl -w user.max_user_namespaces=15000"
    tiers = {t["name"]: t for t in report["tiers"]}
    assert not tiers["container"]["host_ready"] and not tiers["kernel"]["host_ready"]


def snapshot():
    cgroups = sorted(str(p) for p in pathlib.Path("/sys/fs/cgroup").glob("*/*") if p.is_dir())
    return {
        "mounts": pathlib.Path("/proc/self/mountinfo").read_text(),
        "tmp": sorted(n for n in os.listdir("/tmp") if "ward" in n or n in
                      ("lower", "upper", "work", "root")),
        "loops": sorted(n for n in os.listdir("/dev") if n.startswith("loop")),
        "cgroups": [c for c in cgroups if "ward" in c],
    }


def test_nothing_is_left_behind(ward, state):
    before = snapshot()
    for _ in range(3):
        examine(ward)
    assert snapshot() == before
    assert not state.exists()


def test_text_says_the_same(ward):
    checks, tiers = examine(ward)
    done = ward("doctor")
    assert done.returncode == 0 and done.stderr == ""
    assert "\033" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100
    for c in checks.values():
        assert re.search(rf"\n  {c['state']} +{re.escape(c['name'])} +", done.stdout)
    flat = " ".join(done.stdout.split())
    for c in checks.values():
        assert c["hint"] is None or " ".join(c["hint"].split()) in flat
    for t in tiers.values():
        assert re.search(rf"\n  {'yes' if t['available'] else 'no'} +{t['name']} +", done.stdout)


@pytest.mark.parametrize("arg", ["--nope", "x", "--json=1"])
def test_bad_input(ward, arg):
    done = ward("doctor", arg)
    assert done.returncode == 125
    assert done.stdout == ""
    assert done.stderr == f"ward doctor: '{arg}' is not known: it takes --json and nothing else\n"


def test_help(ward):
    for args in (["doctor", "--help"], ["help", "doctor"], ["doctor", "-h"]):
        done = ward(*args)
        assert done.returncode == 0
        assert done.stdout.startswith("Usage: ward doctor")


def test_a_full_disk_is_an_error(ward):
    with open("/dev/full", "w") as full:
        done = ward("doctor", stdout=full)
    assert done.returncode == 125
    assert done.stderr == "ward doctor: writing to standard output: No space left on device\n"
