"""What the host does for one copy of a machine, counted: every system call of its supervisor and its monitor.

The machine is one whose guest does nothing (tests/vm/vm_still.c), so any /dev/kvm will do. Counted are the
supervisor's calls until its part is done (the monitor is cloned, or has its order), and the monitor's until the
first run of the guest. Waiting (futex, poll, restart_syscall) depends on who is first, and is left out.
"""
import collections
import os
import pathlib
import re
import signal
import subprocess
import time

from suplink import WALLS, Ahead, Closed, Sup

WAITING = {"futex", "poll", "restart_syscall", "epoll_pwait", "sched_yield", "rt_sigreturn", "tgkill"}
# Calls of a copy with one CPU, who and from one that waits or not. 89, 49, 159 and 208 when this was written, on cgroup v1;
# a template deeper in the tree adds some.
CALLS_MAX = {("supervisor", True): 100, ("monitor", True): 56, ("supervisor", False): 175, ("monitor", False): 220}
# hlt in a loop; mov al,0xfe; out 0x64,al (off)
STILL, OFF = bytes([0xF4, 0xEB, 0xFD]), bytes([0xB0, 0xFE, 0xE6, 0x64, 0xEB, 0xFE])


class Still:
    """A snapshot of a guest of a few instructions, in a state directory of its own."""

    def __init__(self, binary, state, folder, kernel, cpus=1, mib=64):
        self.binary, self.state, self.cpus = pathlib.Path(binary), state, cpus
        folder.mkdir(parents=True)
        (folder / "tpl").mkdir()
        self.template = folder / "tpl"
        subprocess.run([self.binary.parent / "tests/vm/vm-still", state, kernel, str(cpus), str(mib), folder], check=True)
        self.fds = [os.open(folder / name, os.O_RDONLY) for name in ("state", "memory", "disk")]

    def request(self):
        return dict(TIER=WALLS["vm"], TEMPLATE=f"dir:{self.template}", FROM=1, CPU_MILLI=1000 * self.cpus)

    def close(self):
        for fd in self.fds:
            os.close(fd)


def first_child(pid):
    return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def wait_for(check, what, seconds=60):
    end = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < end, f"no {what}"
        time.sleep(0.02)
    return found


def read(log, sup):
    """{who: Counter of calls}; None before the guest's first run."""
    counts = {"supervisor": collections.Counter(), "monitor": collections.Counter()}
    handed = False
    for line in log.read_text().splitlines():
        found = re.match(r"(\d+) +(\w+)\((.*)", line)
        if not found:
            continue
        pid, name, rest = int(found[1]), found[2], found[3]
        if "KVM_RUN" in rest:
            return counts
        ioctl = re.match(r"\d+, (\w+)", rest) if name == "ioctl" else None
        who = "supervisor" if pid == sup else "monitor"
        if name not in WAITING and not (who == "supervisor" and handed):
            counts[who][ioctl[1] if ioctl else name] += 1
        # What it does from here on it does beside the monitor.
        handed |= who == "supervisor" and (name == "clone3" or (name == "sendmsg" and "SCM_RIGHTS" in rest))
    return None


def count(still, log, ahead):
    """The calls of one copy, from one that waits or with everything made for it."""
    argv = ["strace", "-f", "-o", str(log)]
    if ahead:
        sup = Ahead(still.binary, still.state)
        assert sup.waits()
        pid, monitor = sup.process.pid, first_child(sup.process.pid)
        tracer = subprocess.Popen([*argv, "-p", str(pid), "-p", str(monitor)], stderr=subprocess.PIPE, text=True)
        attached = 0
        while attached < 2:
            line = tracer.stderr.readline()
            assert line, "strace cannot attach"
            attached += "attached" in line
        sup.ask(fds=still.fds, **still.request())
    else:
        sup = Sup(still.binary, still.state, prefix=argv, fds=still.fds, **still.request())
        tracer = sup.process
        pid = wait_for(lambda: log.exists() and re.match(r"(\d+) ", log.read_text()), "first call")[1]
        pid = int(pid)
    try:
        counts = wait_for(lambda: read(log, pid) or sup.process.poll(), "run of the guest")
        assert isinstance(counts, dict), sup.stderr.read().decode()
        monitor = first_child(pid)
        os.kill(monitor, signal.SIGKILL)
        sup.link.until_ended(60)
    finally:
        sup.link.close()
        if ahead:
            sup.over()
            tracer.stderr.close()
        else:
            sup.stderr.close()
        tracer.wait(60)
    return counts


def seconds(still, ahead):
    """From the request until the guest, which does nothing else, has switched itself off."""
    sup = Ahead(still.binary, still.state) if ahead else None
    assert not ahead or sup.waits()
    begun = time.monotonic()
    if ahead:
        sup.ask(fds=still.fds, **still.request())
    else:
        sup = Sup(still.binary, still.state, fds=still.fds, **still.request())
    try:
        sup.link.until_ended(60)
    except Closed:
        pass
    took = time.monotonic() - begun
    sup.link.close()
    if ahead:
        sup.over()
    else:
        sup.process.wait(60)
        sup.stderr.close()
    return took
