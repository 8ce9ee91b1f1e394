"""Who starts a sandbox of the kernel tier may be short of anything, or odd: it works, or says in a line what it lacks. It never hangs."""
import ctypes
import itertools
import os
import resource
import signal
import subprocess

import pytest

from leftovers import Leaks
from runbox import box, needs_root, place  # noqa: F401
from wardtest import SANITIZED

pytestmark = needs_root
# A run waits for nobody, so this is no measure of speed: whoever reaches it hangs.
HANG = 120
# Processes, a file that is written, signals, a program that is mapped.
WORK = "true | cat; trap 'echo usr1' USR1; kill -USR1 $$; echo 12345 > /tmp/x; cat /tmp/x; (exit 3); echo $?"
DONE = "usr1\n12345\n3\n"


def run(box, *args, tier="kernel", **options):  # noqa: F811
    try:
        return box.ward("run", "--tier", tier, *args, timeout=HANG, **options)
    except subprocess.TimeoutExpired:
        pytest.fail("hangs")


def works_or_tells(done, out=DONE):
    if done.returncode == 0:
        assert done.stdout == out and not done.stderr, done
        return True
    lines = done.stderr.splitlines()
    # The audit log may be what cannot be written, which is told before and after.
    assert done.returncode in (125, 126) and 1 <= len(lines) <= 2 and all(line.startswith("ward") for line in lines), done
    return False


def limited(what, n):
    return lambda: resource.setrlimit(what, (n, n))


@pytest.mark.skipif(SANITIZED, reason="the sanitizer takes more of everything")
@pytest.mark.parametrize("what, values", [
    ("NOFILE", (5, 12, 20, 24, 28, 30, 31, 32, 40, 63, 64, 80)), ("NPROC", (0, 1, 4, 6)), ("AS", (1 << 24, 1 << 26, 1 << 28)),
    ("DATA", (1 << 20, 1 << 22)), ("STACK", (1 << 16, 1 << 18)), ("FSIZE", (0, 4, 4096)), ("MEMLOCK", (0,)),
    ("CORE", (0,)), ("RSS", (4096,)), ("SIGPENDING", (0, 1)), ("MSGQUEUE", (0,)), ("NICE", (0,)), ("RTPRIO", (0,)),
], ids=lambda v: v if isinstance(v, str) else "")
def test_limits_of_the_caller(box, what, values):  # noqa: F811
    # Who cannot have two processes may still have one.
    command, out = (["echo", "here"], "here\n") if what == "NPROC" else (["sh", "-c", WORK], DONE)
    assert works_or_tells(run(box, "--", *command), out)
    watch = Leaks(box.state)
    for n in values:
        worked = works_or_tells(run(box, "--", *command, preexec_fn=limited(getattr(resource, f"RLIMIT_{what}"), n)), out)
        assert worked or what not in ("MEMLOCK", "CORE", "RSS", "SIGPENDING", "MSGQUEUE", "NICE", "RTPRIO"), f"{what} of {n}"
    watch.check()


@pytest.mark.parametrize("closed", [c for n in (1, 2, 3) for c in itertools.combinations((0, 1, 2), n)], ids=str)
def test_closed_descriptors(box, place, closed):  # noqa: F811
    """What is not there leads nowhere inside, and is nothing of ward's."""
    def close():
        for fd in closed:
            os.close(fd)

    place.chmod(0o777)
    script = "echo out; echo err >&2; cat; ls -l /proc/self/fd > /mnt/fds; exit 7"
    done = run(box, "--mount", f"{place}:/mnt:rw", "--", "sh", "-c", script, preexec_fn=close)
    assert (done.returncode, done.stdout, done.stderr) == (7, "" if 1 in closed else "out\n", "" if 2 in closed else "err\n")
    lines = (place / "fds").read_text().splitlines()
    # 3 is the directory that ls reads.
    assert [line.split()[8] for line in lines if " -> " in line] == ["0", "1", "2", "3"], lines


def odd_signals():
    for sig in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(sig, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def odd_group():
    os.setpgrp()
    os.umask(0o777)


def no_directory():
    at = f"/var/tmp/ward-gone-{os.getpid()}"
    os.mkdir(at)
    os.chdir(at)
    for _ in range(300):  # its name is longer than a path may be
        os.mkdir("deeper-and-deeper")
        os.chdir("deeper-and-deeper")
    subprocess.run(["rm", "-rf", at], check=True)


def no_dump():
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    os.nice(19)


@pytest.mark.parametrize("odd", [odd_signals, odd_group, no_directory, no_dump, lambda: os.chroot("/"), os.setsid])
def test_odd_callers(box, odd):  # noqa: F811
    assert works_or_tells(run(box, "--", "sh", "-c", WORK + "; umask; pwd", preexec_fn=odd), DONE + "0022\n/\n")


def test_many_words(box):  # noqa: F811
    words = [f"word-{i}" for i in range(10000)]
    assert run(box, "--", "sh", "-c", "echo $#; shift 9998; echo $2", "sh", *words).stdout == "10000\nword-9999\n"
    many = [f"--env=V{i}={'x' * 1000}" for i in range(150)]
    done = run(box, *many, "--", "sh", "-c", "echo ${#V149}", env={f"HOST{i}": "y" * 1000 for i in range(500)})
    assert works_or_tells(done, "1000\n")


GREEDY = """
import errno, os, subprocess, sys
held, told = [], {}
def until_told(what, make):
    for i in range(400):
        try:
            held.append(make(i))
        except OSError as e:
            told[what] = errno.errorcode[e.errno]
            return
def begin(i):
    child = subprocess.Popen(["/bin/sleep", "60"])
    children.append(child)
children = []
names = [os.open(f"/tmp/{i}", os.O_CREAT | os.O_RDWR) for i in range(300)]
until_told("contents", lambda i: os.write(names[i], b"x" * 9000))
until_told("open", lambda i: os.open("/usr/bin/env", os.O_RDONLY))
until_told("memory", lambda i: os.memfd_create("m"))
until_told("process", begin)
for child in children:
    child.kill()
    child.wait()
for fd in names:
    os.close(fd)
held.clear()
print(*sorted(told), set(told.values()) <= {"EMFILE", "ENFILE", "EAGAIN", "ENOMEM"})
for i in range(300):
    os.unlink(f"/tmp/{i}")
print(subprocess.run(["/bin/echo", "after"], stdout=subprocess.PIPE).stdout)
"""


@pytest.mark.skipif(SANITIZED, reason="the sanitizer takes more of everything")
def test_descriptors_of_the_kernel_process_run_out(box):  # noqa: F811
    """Whoever asks for one too many is told so; when they are given back, everything goes on."""
    done = run(box, "--", "python3", "-c", GREEDY, preexec_fn=limited(resource.RLIMIT_NOFILE, 120))
    assert done.stdout == "contents memory open process True\nb'after\\n'\n", done
