"""The vm tier's monitor, around a guest of a few instructions: that runs on any /dev/kvm, also one on which no
Linux boots."""
import os
import shutil
import signal
import struct
import time

import pytest

from wardtest import SANITIZED

pytestmark = [
    pytest.mark.skipif(not os.access("/dev/kvm", os.R_OK | os.W_OK), reason="no /dev/kvm"),
    pytest.mark.skipif(os.geteuid() != 0, reason="the monitor's jail is made by root"),
    pytest.mark.skipif(not shutil.which("mkfs.ext4"), reason="no mkfs.ext4 (e2fsprogs)"),
    pytest.mark.skipif(SANITIZED, reason="a sanitizer's own calls do not pass the monitor's filter"),
]

# mov dx,0x3f8; "hi" to it; mov al,0xfe; out 0x64,al (off); jmp .
SAYS_HI = bytes([0x66, 0xBA, 0xF8, 0x03, 0xB0, ord("h"), 0xEE, 0xB0, ord("i"), 0xEE, 0xB0, 0xFE, 0xE6, 0x64, 0xEB, 0xFE])
RUNS_ON = bytes([0xEB, 0xFE])


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


def test_the_monitor_has_nothing_open_but_its_machine(ward, state, tmp_path, leaks):
    guest(state, RUNS_ON)
    secret = tmp_path / "secret"
    secret.write_text("x")
    with open(secret) as f:
        os.set_inheritable(f.fileno(), True)
        process = ward.start(*vm(tmp_path), "--", "true", pass_fds=[f.fileno()])
    monitor = child_in_jail(process)
    try:
        assert monitor, "no monitor came up"
        open_files = {os.readlink(f"/proc/{monitor}/fd/{n}") for n in os.listdir(f"/proc/{monitor}/fd")}
        allowed = ("anon_inode:", "socket:", f"/proc/{monitor}/pagemap", str(state / "images"))
        assert not [name for name in open_files if not name.startswith(allowed)]
        assert sum(name.startswith("socket:") for name in open_files) == 3  # channel, keeper, control
    finally:
        if monitor:
            os.kill(monitor, signal.SIGKILL)  # and ward sees it end
        else:
            process.kill()
        process.wait(timeout=60)
