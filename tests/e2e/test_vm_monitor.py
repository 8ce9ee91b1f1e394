"""The vm tier's monitor, around a guest of a few instructions: that runs on any /dev/kvm, also one on which no
Linux boots."""
import json
import os
import pathlib
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time

import pytest

import vmcalls
from suplink import WALLS, Ahead, Closed, request
from vmcalls import first_child
from wardtest import BINARY, SANITIZED

pytestmark = [
    pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="no /dev/kvm"),
    pytest.mark.skipif(os.geteuid() != 0, reason="the monitor's jail is made by root"),
    pytest.mark.skipif(not shutil.which("mkfs.ext4"), reason="no mkfs.ext4 (e2fsprogs)"),
    pytest.mark.skipif(SANITIZED, reason="a sanitizer's own calls do not pass the monitor's filter"),
]

# mov dx,0x3f8; "hi" to it; mov al,0xfe; out 0x64,al (off); jmp .
SAYS_HI = bytes([0x66, 0xBA, 0xF8, 0x03, 0xB0, ord("h"), 0xEE, 0xB0, ord("i"), 0xEE, 0xB0, 0xFE, 0xE6, 0x64, 0xEB, 0xFE])
RUNS_ON = bytes([0xEB, 0xFE])
MONITOR_KIB_MAX = 3 * 1024


def guest(state, code):
    """An ELF file with a PVH entry as the guest's kernel."""
    code = code.ljust(512, b"\0")
    at, note = 0x100000, struct.pack("<III4sI", 4, 4, 18, b"Xen\0", 0x100000)
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, at, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    where = len(head) + 2 * 56
    load = struct.pack("<IIQQQQQQ", 1, 7, where + len(note), 0, at, len(code), len(code), 0)
    tell = struct.pack("<IIQQQQQQ", 4, 4, where, 0, 0, len(note), len(note), 0)
    folder = state / "kernels" / "default"
    folder.mkdir(parents=True)
    (folder / "kernel").write_bytes(head + load + tell + note + code)


def vm(tmp_path):
    (tmp_path / "tpl" / "bin").mkdir(parents=True)
    return ["run", "--tier", "vm", "--template", f"dir:{tmp_path / 'tpl'}", "--memory", "64M", "--cpus", "1"]


def child_in_jail(process, seconds=60):
    """The monitor, once its filter is loaded; None: it ended before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        for child in open(f"/proc/{process.pid}/task/{process.pid}/children").read().split():
            try:
                if "\nSeccomp:\t2\n" in open(f"/proc/{child}/status").read():
                    return int(child)
            except OSError:
                pass
        time.sleep(0.02)
    return None


def test_a_guest_runs_behind_the_filter(ward, state, tmp_path, leaks):
    guest(state, SAYS_HI)
    done = ward(*vm(tmp_path), "--", "true")
    assert done.returncode == 125
    assert "the guest switched itself off" in done.stderr and "console: hi" in done.stderr


def test_a_state_directory_with_blanks(ward, state, tmp_path, leaks):
    blanks = state / "with some  blanks"
    guest(blanks, SAYS_HI)
    words = vm(tmp_path / "tem plate")
    done = ward("--state-dir", blanks, *words, "--", "true")
    assert "the guest switched itself off" in done.stderr
    assert len(list((blanks / "images").glob("*.ext4"))) == 1


@pytest.fixture
def monitor(ward, state, tmp_path, leaks):
    """A monitor whose guest runs on and never calls; its first process id, and what ward had open beside."""
    guest(state, RUNS_ON)
    secret = tmp_path / "secret"
    secret.write_text("x")
    with open(secret) as f:
        os.set_inheritable(f.fileno(), True)
        process = ward.start(*vm(tmp_path), "--", "true", pass_fds=[f.fileno()])
    pid = child_in_jail(process)
    try:
        assert pid, "no monitor came up"
        yield pid
    finally:
        if pid:
            os.kill(pid, signal.SIGKILL)  # and ward sees it end
        else:
            process.kill()
        process.wait(timeout=60)


def threads(pid):
    """Those that run code of ours: newer kernels show a worker of KVM's as a thread too."""
    return [t for t in os.listdir(f"/proc/{pid}/task") if not open(f"/proc/{pid}/task/{t}/comm").read().startswith("kvm-")]


def test_the_monitor_has_nothing_open_but_its_machine(monitor, state):
    open_files = [os.readlink(f"/proc/{monitor}/fd/{n}") for n in os.listdir(f"/proc/{monitor}/fd")]
    allowed = ("anon_inode:kvm-vm", "anon_inode:kvm-vcpu:0", "anon_inode:[eventfd]", "anon_inode:[eventpoll]",
               "anon_inode:[timerfd]", "socket:", f"/proc/{monitor}/pagemap", str(state / "images"))
    assert not [name for name in open_files if not name.startswith(allowed)]
    assert sum(name.startswith("socket:") for name in open_files) == 3  # channel, keeper, control
    assert sum(name.startswith("anon_inode:kvm") for name in open_files) == 2  # the machine and its CPU, not /dev/kvm
    # The image: for reading only.
    for n in os.listdir(f"/proc/{monitor}/fd"):
        if os.readlink(f"/proc/{monitor}/fd/{n}").startswith("/"):
            flags = int(open(f"/proc/{monitor}/fdinfo/{n}").read().split("flags:")[1].split()[0], 8)
            assert flags & os.O_ACCMODE == os.O_RDONLY


def test_the_monitor_may_nothing(monitor):
    """Of each thread: no capability, a user of its own, no way to more, a filter of its own."""
    assert len(threads(monitor)) == 2
    for t in threads(monitor):
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{monitor}/task/{t}/status").read().splitlines() if ":\t" in line)
        for caps in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]:
            assert int(status[caps], 16) == 0, (t, caps)
        for ids in ["Uid", "Gid"]:
            assert len(set(status[ids].split())) == 1 and int(status[ids].split()[0]) != 0, status[ids]
        assert status["Groups"].split() == []
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    # Nobody of the same user could look into it, if there were one.
    assert os.stat(f"/proc/{monitor}/mem").st_uid == 0


def test_the_monitor_sees_nothing(monitor):
    """Namespaces of its own, a root with nothing in it, no environment, no core files, no files to write."""
    for name in ["mnt", "net", "ipc", "uts", "pid", "cgroup"]:
        assert os.readlink(f"/proc/{monitor}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}"), name
    assert os.listdir(f"/proc/{monitor}/root") == []
    assert open(f"/proc/{monitor}/environ", "rb").read().strip(b"\0") == b""
    assert os.readlink(f"/proc/{monitor}/cwd") == "/"
    mounts = open(f"/proc/{monitor}/mounts").read().splitlines()
    assert len(mounts) == 1 and mounts[0].split()[1] == "/" and "ro" in mounts[0].split()[3].split(",")
    assert [line.split(":")[0].strip() for line in open(f"/proc/{monitor}/net/dev").read().splitlines()[2:]] == ["lo"]
    limits = {line[:26].strip(): line[26:].split()[:2] for line in open(f"/proc/{monitor}/limits").read().splitlines()}
    assert limits["Max core file size"] == ["0", "0"] and limits["Max file size"] == ["0", "0"]
    assert int(limits["Max open files"][1]) <= 512


def test_what_the_monitor_has_mapped(monitor):
    """Nothing that can be written and executed; of files the program alone; guards around the guest's memory."""
    assert open(f"/proc/{monitor}/cmdline", "rb").read().strip(b"\0") == b"ward-agent"
    maps = [line.split(maxsplit=5) for line in open(f"/proc/{monitor}/maps").read().splitlines()]
    assert not [m for m in maps if "w" in m[1] and "x" in m[1]]
    names = {m[5] for m in maps if len(m) > 5 and m[5].startswith("/")}
    assert len(names - {"/dev/zero (deleted)"}) <= 2, names  # ward, and what all of them share with it
    spans = [(*(int(x, 16) for x in m[0].split("-")), m[1]) for m in maps]
    memory = [i for i, (start, end, flags) in enumerate(spans) if end - start == 64 << 20 and flags.startswith("rw")]
    assert len(memory) == 1
    before, after = spans[memory[0] - 1], spans[memory[0] + 1]
    assert before[2].startswith("---") and before[1] == spans[memory[0]][0]
    assert after[2].startswith("---") and after[0] == spans[memory[0]][1]
    # And what it takes beside the guest's memory is little.
    pss, name = {}, None
    for line in open(f"/proc/{monitor}/smaps"):
        name = line.split()[0] if "-" in line.split()[0] else name
        pss[name] = int(line.split()[1]) if line.startswith("Pss:") else pss.get(name, 0)
    assert sum(kib for name, kib in pss.items() if name != maps[memory[0]][0]) <= MONITOR_KIB_MAX, pss


def test_a_kernel_is_tried_behind_the_same_walls(ward, state, leaks):
    guest(state, RUNS_ON)
    process = ward.start("kernel", "use", state / "kernels" / "default" / "kernel", stderr=subprocess.PIPE, text=True)
    pid = child_in_jail(process)
    try:
        assert pid, "no machine came up"
        test_the_monitor_may_nothing(pid)
        test_the_monitor_sees_nothing(pid)
        names = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
        assert sum(name.startswith("pipe:") for name in names) == 1, names  # its answer
        assert not [name for name in names if not name.startswith(("pipe:", "anon_inode:"))], names
        assert "anon_inode:kvm-vm" in names
    finally:
        os.kill(pid or process.pid, signal.SIGKILL)
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 125 and "the trial machine crashed" in said


def test_a_host_on_which_no_kernel_came_up(ward, state, tmp_path, leaks):
    """Policy, doctor and run say what the trial had said; one that is taken untried is another matter."""
    guest(tmp_path, SAYS_HI)
    kernel = tmp_path / "kernels" / "default" / "kernel"
    done = ward("kernel", "use", kernel)
    assert done.returncode == 125 and "last words: hi" in done.stderr
    done = ward(*vm(tmp_path), "--", "true")
    assert done.returncode == 125 and "no guest kernel came up on this host" in done.stderr and "last words: hi" in done.stderr
    tiers = {t["name"]: t for t in json.loads(ward("doctor", "--json").stdout)["tiers"]}
    assert not tiers["vm"]["available"] and "last words: hi" in tiers["vm"]["missing"]
    assert ward("kernel", "use", "--untested", kernel).returncode == 0
    assert "console: hi" in ward(*vm(tmp_path / "again"), "--", "true").stderr


def test_a_guest_that_hangs_is_ended(ward, state, tmp_path, leaks):
    guest(state, RUNS_ON)
    report = tmp_path / "report"
    done = ward(*vm(tmp_path), "--boot-timeout", "1s", "--json", str(report), "--", "true")
    assert done.returncode == 125
    assert "did not come up within 1 s (--boot-timeout); console: (nothing)" in done.stderr
    told = json.loads(report.read_text())
    assert told["cause"] == "setup-failed" and told["step"] == "agent" and told["limits"]["boot_ms"] == 1000


def test_a_socket_to_the_guest(ward, state, tmp_path, leaks):
    """--vsock: there while the machine is, for its owner alone, and closed to who says nothing that makes sense."""
    guest(state, RUNS_ON)
    path = str(tmp_path / "u")
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(path)  # what somebody left behind
    stale.close()
    process = ward.start(*vm(tmp_path), "--vsock", path, "--", "true")
    monitor = child_in_jail(process)
    try:
        assert monitor, "no monitor came up"
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(path)
            client.sendall(b"CONNECT me\n")
            assert client.recv(16) == b""
        again = ward(*vm(tmp_path / "b"), "--vsock", path, "--", "true")
        assert again.returncode == 125 and "--vsock" in again.stderr and "in use" in again.stderr
        assert os.path.exists(path)
    finally:
        if monitor:
            os.kill(monitor, signal.SIGKILL)
        else:
            process.kill()
        process.wait(timeout=60)
    assert not os.path.exists(path)


# --- What the host does for a copy ---


@pytest.mark.skipif(not shutil.which("strace"), reason="no strace")
@pytest.mark.parametrize("ahead", [True, False], ids=["ahead", "cold"])
def test_the_calls_of_a_copy_are_counted(state, tmp_path, leaks, ahead):
    guest(state, vmcalls.STILL)
    still = vmcalls.Still(BINARY, state, tmp_path / "still", state / "kernels/default/kernel")
    counts = vmcalls.count(still, tmp_path / "log", ahead)
    still.close()
    for who, calls in counts.items():
        assert calls.total() <= vmcalls.CALLS_MAX[who, ahead], f"{who}: {calls}"
    if ahead:
        # What a request must not pay for.
        made = {"KVM_CREATE_VM", "KVM_CREATE_VCPU", "KVM_CREATE_IRQCHIP", "KVM_IRQFD", "KVM_IOEVENTFD", "clone", "clone3", "execve", "unshare"}
        assert not made & set(counts["monitor"] + counts["supervisor"])


# --- A machine that is made before there is a request for it ---

FAULT = BINARY.parent / "ward-fault"


def template(tmp_path):
    (tmp_path / "tpl" / "bin").mkdir(parents=True, exist_ok=True)
    return dict(TIER=WALLS["vm"], TEMPLATE=f"dir:{tmp_path / 'tpl'}", MEMORY=64 << 20, CPU_MILLI=1000)


def status_of(pid):
    return dict(line.split(":\t", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())


def sweep(state):
    subprocess.run([BINARY, "--state-dir", state, "gc"], check=True, capture_output=True)


def test_an_empty_machine_waits_behind_its_wall(state, leaks):
    ahead = Ahead(BINARY, state)
    assert ahead.waits()
    monitor = first_child(ahead.process.pid)
    status = status_of(monitor)
    assert status["CapEff"] == status["CapPrm"] == "0" * 16 and status["NoNewPrivs"] == "1" and status["Uid"].split()[0] != "0"
    assert "2" in {status_of(int(t))["Seccomp"] for t in os.listdir(f"/proc/{monitor}/task")}  # the CPU's thread is locked up
    assert not os.listdir(f"/proc/{monitor}/root")
    allowed = ("anon_inode:", "socket:", f"/proc/{monitor}/pagemap", "/dev/kvm", "/dev/null")
    open_files = {os.readlink(f"/proc/{monitor}/fd/{n}") for n in os.listdir(f"/proc/{monitor}/fd")}
    assert not [name for name in open_files if not name.startswith(allowed)]
    assert ahead.over() == (0, "")


def test_it_becomes_the_machine_of_a_request(state, tmp_path, leaks):
    guest(state, SAYS_HI)
    ahead = Ahead(BINARY, state)
    assert ahead.waits()
    monitor = first_child(ahead.process.pid)
    link = ahead.ask(**template(tmp_path))
    ended = link.until_ended()
    assert "the guest switched itself off" in ended.TEXT and "console: hi" in ended.TEXT
    assert not os.path.exists(f"/proc/{monitor}")
    assert json.load(open(ahead.record_path()))["cause"] == "setup-failed"
    ahead.over()


def test_what_a_request_makes_of_it_is_no_weaker(state, tmp_path, leaks):
    guest(state, RUNS_ON)
    ahead = Ahead(BINARY, state)
    assert ahead.waits()
    monitor = first_child(ahead.process.pid)
    ahead.ask(**dict(template(tmp_path), CPU_MILLI=2000))
    end = time.monotonic() + 60
    while time.monotonic() < end and {status_of(int(t))["Seccomp"] for t in os.listdir(f"/proc/{monitor}/task")} != {"2"}:
        time.sleep(0.02)
    assert len(os.listdir(f"/proc/{monitor}/task")) >= 3  # devices, and two CPUs, one of which came later; KVM may add its own
    open_files = [os.readlink(f"/proc/{monitor}/fd/{n}") for n in os.listdir(f"/proc/{monitor}/fd")]
    allowed = ("anon_inode:", "socket:", f"/proc/{monitor}/pagemap", str(state / "images"))
    assert not [name for name in open_files if not name.startswith(allowed)]
    os.kill(monitor, signal.SIGKILL)
    ahead.link.until_ended()
    ahead.over()


def test_a_request_for_another_wall_gets_that(state, leaks):
    ahead = Ahead(BINARY, state)
    assert ahead.waits()
    link = ahead.ask(TIER=WALLS["container"])
    link.until_state(2)
    assert link.run(["/bin/echo", "here"])[0] == b"here\n"
    link.call("STOP")
    link.until_ended()
    ahead.over()


@pytest.mark.parametrize("how", ["nonsense", "word", "fds", "id", "refused"])
def test_a_request_that_makes_no_sense(state, tmp_path, leaks, how):
    ahead = Ahead(BINARY, state)
    assert ahead.waits()
    with open("/dev/null") as null:
        link = {"nonsense": lambda: ahead.ask(raw=b"x"), "word": lambda: ahead.ask(word=b"Q", **template(tmp_path)),
                "fds": lambda: ahead.ask(fds=[null.fileno()], **template(tmp_path)),
                "id": lambda: ahead.ask(raw=request("a" * 12, **template(tmp_path))),
                "refused": lambda: ahead.ask(**dict(template(tmp_path), TEMPLATE="nowhere"))}[how]()
        with pytest.raises(Closed):
            link.wait(lambda: False)
    status, said = ahead.over()
    assert status == 125 and said


@pytest.mark.skipif(not FAULT.exists(), reason="this build has no ward-fault")
@pytest.mark.parametrize("side", ["parent", "child"])
def test_killed_at_each_step_nothing_is_left(state, tmp_path, leaks, side):
    guest(state, SAYS_HI)
    sweep(state)
    n, quiet = 0, 0
    while quiet < 3:
        n += 1
        ahead = Ahead(FAULT, state, env={"WARD_FAULT_AT": str(n), "WARD_FAULT_DO": "kill", "WARD_FAULT_SIDE": side})
        try:
            if ahead.waits():
                ahead.ask(**template(tmp_path)).until_ended()
        except (Closed, OSError):
            pass
        ahead.over()
        died = ahead.process.returncode == -signal.SIGKILL
        quiet = 0 if died or side == "child" and n < 40 else quiet + 1
        if died:
            sweep(state)
        for name in (state / "run").glob("*") if (state / "run").exists() else ():
            name.unlink()
    assert n > 20
    sweep(state)
    leaks.check()
