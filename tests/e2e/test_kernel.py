"""The kernel tier: a userspace kernel answers every call. Real programs, what it reports, what attacks it."""
import contextlib
import errno
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

from runbox import needs_root
from wardtest import BINARY, SANITIZED

pytestmark = needs_root

KERNEL = ("run", "--tier", "kernel")
PROGRAMS = BINARY.parent / "tests" / "kernel"

# (name, shell script, what it prints)
SCRIPTS = [
    ("pipeline", "seq 1000 | sort -rn | head -1", "1000\n"),
    ("substitution", "x=$(echo a; echo b); echo $x", "a b\n"),
    ("jobs", "(sleep 0.05; echo late) & wait; echo end", "late\nend\n"),
    ("trap", "trap 'echo got' USR1; kill -USR1 $$; echo end", "got\nend\n"),
    ("here document", "cat <<E\nhi\nE", "hi\n"),
    ("files", "cd /tmp && mkdir -p a/b && echo x > a/b/c && mv a z && find z | sort", "z\nz/b\nz/b/c\n"),
    ("links", "cd /tmp && echo x > f && ln f g && ln -s f h && stat -c %h f && cat h", "2\nx\n"),
    ("tar", "cd /tmp && mkdir d && echo a > d/a && tar czf d.tgz d && rm -r d && tar xzf d.tgz && cat d/a", "a\n"),
    ("awk and sed", "echo a,b | sed s/a/x/ | awk -F, '{print $2 $1}'", "bx\n"),
    ("users", "id -u; setpriv --reuid=65534 --clear-groups sh -c 'id -u; echo x > /etc/x' 2>/dev/null; echo $?", "0\n65534\n2\n"),
    ("loader", "cd /tmp && cp /lib/x86_64-linux-gnu/libm.so.6 m.so && LD_PRELOAD=./m.so /bin/echo loaded 2>&1", "loaded\n"),
    ("proc", "cat /proc/self/comm; test -d /proc/$$/fd && echo fd", "cat\nfd\n"),
    ("compiler", "cd /tmp && printf 'int puts(const char*);int main(){puts(\"built\");}' > a.c && gcc a.c -o a && ./a", "built\n"),
    ("make", "cd /tmp && for i in 1 2 3 4; do echo \"int f$i;\" > $i.c; done; printf 'all: 1.o 2.o 3.o 4.o\\n' > Makefile; "
             "make -s -j2 && ls *.o | wc -l", "4\n"),
    ("git", "cd /tmp && export HOME=/tmp; git init -q r && cd r && echo x > f && git add f && "
            "git -c user.name=a -c user.email=a@b commit -qm one && git clone -q /tmp/r /tmp/c && ls /tmp/c", "f\n"),
    ("sqlite", "python3 -c \"import sqlite3; c=sqlite3.connect('/tmp/x'); c.execute('create table t(a)'); "
               "c.executemany('insert into t values(?)', [(i,) for i in range(500)]); c.commit(); "
               "print(c.execute('select sum(a) from t').fetchone()[0])\"", "124750\n"),
    ("http", "cd /tmp && echo page > i && (python3 -m http.server 8000 >/dev/null 2>&1 & "
             "for n in $(seq 50); do curl -fs http://127.0.0.1:8000/i && break; sleep 0.1; done; kill %1)", "page\n"),
]

PYTHON = {
    "threads": ("import threading\nl=[]\nt=[threading.Thread(target=lambda i=i: l.append(i)) for i in range(40)]\n"
                "[x.start() for x in t]; [x.join() for x in t]\nprint(sum(l))", "780\n"),
    "subprocess": ("import subprocess\nprint(subprocess.run(['echo','x'],capture_output=True,text=True).stdout,end='')", "x\n"),
    "asyncio": ("import asyncio\nasync def m():\n p=await asyncio.create_subprocess_exec('echo','hi',stdout=-1)\n"
                " print((await p.communicate())[0])\nasyncio.run(m())", "b'hi\\n'\n"),
    "multiprocessing": ("import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as p: print(p.map(abs, [-1,-2]))",
                        "[1, 2]\n"),
    "tcp": ("import socket,threading\ns=socket.socket(); s.bind(('127.0.0.1',0)); s.listen(100)\n"
            "def serve():\n for _ in range(100):\n  c,_a=s.accept(); c.sendall(c.recv(9)); c.close()\n"
            "threading.Thread(target=serve).start()\nn=0\nfor _ in range(100):\n c=socket.create_connection(s.getsockname())\n"
            " c.sendall(b'hi'); n+=c.recv(9)==b'hi'; c.close()\nprint(n)", "100\n"),
    "signals": ("import signal,os\nsignal.signal(signal.SIGALRM,lambda *a: print('alarm'))\nsignal.alarm(1)\nsignal.pause()", "alarm\n"),
}


@pytest.mark.parametrize("name,script,text", SCRIPTS, ids=[s[0] for s in SCRIPTS])
def test_shell(ward, name, script, text):
    done = ward(*KERNEL, "--net", "loopback", "--", "bash", "-c", script)
    assert (done.stdout, done.returncode) == (text, 0), done.stderr


@pytest.mark.parametrize("name", PYTHON)
def test_python(ward, name):
    program, text = PYTHON[name]
    done = ward(*KERNEL, "--net", "loopback", "--", "/usr/bin/python3", "-c", program)
    assert (done.stdout, done.returncode) == (text, 0), done.stderr


def test_same_answers_as_outside(ward):
    script = "uname -sm; umask; ulimit -n; pwd; echo $$ > /dev/null; ls -d /proc/self/fd/0; test -t 0; echo $?"
    inside = ward(*KERNEL, "--", "sh", "-c", script).stdout.splitlines()
    assert inside[0] == "Linux x86_64" and inside[1] == "0022" and inside[-1] == "1"


def test_what_policy_picks_for_code_that_nobody_vouches_for(ward, tmp_path):
    path = tmp_path / "report.json"
    assert ward("run", "--json", path, "--", "true").returncode == 0
    assert json.loads(path.read_text())["tier"] == "kernel"


def test_pid_1_is_the_agent(ward):
    assert ward(*KERNEL, "--", "cat", "/proc/1/comm").stdout == "ward-agent\n"


def report(ward, tmp_path, *args):
    path = tmp_path / "report.json"
    done = ward(*KERNEL, "--json", path, *args)
    return done, json.loads(path.read_text())


def test_unknown_calls_have_names(ward, tmp_path):
    program = "import ctypes; l=ctypes.CDLL(None); [l.syscall(425, 1, 0) for _ in range(3)]; l.syscall(499)"
    _, r = report(ward, tmp_path, "--", "/usr/bin/python3", "-c", program)
    assert r["unknown_calls"].get("io_uring_setup") == 3 and r["unknown_calls"].get("call 499") == 1


def test_few_calls_of_the_host(ward):
    tier = {t["name"]: t for t in json.loads(ward("doctor", "--json").stdout)["tiers"]}["kernel"]
    assert 0 < tier["guest_calls"] <= 25 and 0 < tier["kernel_calls"] <= 96


def end(ward, process):
    """As if it had crashed; what it had is swept."""
    process.kill()
    process.wait()
    assert ward("gc").returncode == 0


def test_the_wall_is_there(ward, leaks):
    """What the kernel process and a guest process are, seen from the host."""
    process = ward.start(*KERNEL, "--", "sleep", "30")
    try:
        for _ in range(100):
            kernel = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
            guests = subprocess.run(["pgrep", "-P", kernel[0]], capture_output=True, text=True).stdout.split() if kernel else []
            if len(guests) >= 4:
                break
            time.sleep(0.05)
        for pid in kernel + guests:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            assert len(re.findall(r"^Cap(?:Inh|Prm|Eff|Bnd|Amb):\s+0+$", status, re.M)) == 5, status
            assert re.search(r"^NoNewPrivs:\s+1$", status, re.M), pid
            assert os.listdir(f"/proc/{pid}/root/") == [] and os.listdir(f"/proc/{pid}/cwd/") == [], f"{pid} sees files"
            for space in "net", "mnt", "ipc", "uts", "pid", "user", "cgroup":
                link = os.readlink(f"/proc/{pid}/ns/{space}")
                assert link != os.readlink(f"/proc/self/ns/{space}"), f"{pid} is in the host's {space}"
                assert space == "cgroup" or link == os.readlink(f"/proc/{kernel[0]}/ns/{space}"), (pid, space)
            cgroups = pathlib.Path(f"/proc/{pid}/cgroup").read_text()
            assert cgroups == pathlib.Path(f"/proc/{kernel[0]}/cgroup").read_text(), cgroups
        assert re.search(r"^Seccomp:\s+2$", pathlib.Path(f"/proc/{kernel[0]}/status").read_text(), re.M)
    finally:
        end(ward, process)


def test_a_crash_is_reported_and_ends_the_sandbox(ward, tmp_path):
    path = tmp_path / "report.json"
    process = ward.start(*KERNEL, "--json", path, "--", "sleep", "30")
    try:
        for _ in range(100):
            kernel = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
            if kernel and len(os.listdir(f"/proc/{kernel[0]}/task")) > 3:
                break
            time.sleep(0.05)
        done = subprocess.run(["gdb", "-p", kernel[0], "-batch", "-ex", "set $rip=0", "-ex", "detach"], capture_output=True)
        if done.returncode:
            pytest.skip("no gdb here to make it fault")
        process.wait(timeout=20)
    finally:
        process.kill()
        process.wait()
    r = json.loads(path.read_text())
    if not SANITIZED:  # which takes the fault itself, and exits
        assert (r["cause"], r["exit_status"]) == ("signaled", 128 + signal.SIGSEGV)
        assert "kernel process crashed" in r["detail"]
    assert r["exit_status"] != 0 and not os.path.exists(f"/proc/{kernel[0]}")


def test_attacks_on_the_tier_itself(ward):
    done = ward(*KERNEL, "--mount", f"{PROGRAMS}:/k", "--", "/k/kernel_hostile")
    lines = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    assert done.stdout.endswith("still here\n") and done.returncode == 0, done.stderr
    for name in ("old door", "x32 numbers", "into the shim", "forged calls", "everywhere in the shim", "stolen hello", "spoiled frames",
                 "changed own parts", "old page", "machinery", "copies into everything", "racing arguments", "native descriptors",
                 "change the age", "forged answers", "without table", "forged writes", "spoiled log", "spoiled page"):
        assert lines[name] == "0", lines
    for name in ("without shim", "over the shim", "without slots", "forged frame", "bad stack", "fast door"):
        assert lines[name].startswith("signal"), lines


@pytest.mark.parametrize("fast", ["off", "place", "lend", "later", None])
def test_answers_in_place_can_be_turned_off(ward, fast):
    env = {k: v for k, v in os.environ.items() if k != "WARD_KERNEL_FAST"} | ({"WARD_KERNEL_FAST": fast} if fast else {})
    done = ward(*KERNEL, "--mount", f"{PROGRAMS}:/k", "--", "/k/kernel_hostile", "not in place", env=env)
    new = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2]) >= (6, 11)
    assert done.returncode == 0 and f"not in place: {0 if new and fast != 'off' else 1}\n" in done.stdout, done.stdout
    done = ward(*KERNEL, "--mount", f"{PROGRAMS}:/k", "--", "/k/kernel_hostile", "not later", env=env)
    assert done.returncode == 0 and f"not later: {0 if new and fast in ('later', None) else 1}\n" in done.stdout, done.stdout


FULL_DISK = """
import errno, os
fd = os.open("/tmp/f", os.O_RDWR | os.O_CREAT)
told = 0
try:
    while True:
        told += os.pwrite(fd, b"%06d" % (told // 4000 % 1000000) + b"x" * 3994, told)
except OSError as e:
    print(errno.errorcode[e.errno])
for at in range(0, told - 3999, 4000):
    if os.pread(fd, 6, at) != b"%06d" % (at // 4000):
        raise SystemExit(f"lost: {at} of {told}")
print(os.fstat(fd).st_size == told, told > 2 << 20)
"""


def test_no_write_is_lost_when_the_disk_is_full(ward):
    """Also of those that are made later than they were answered."""
    done = ward(*KERNEL, "--disk", "4M", "--upper", "tmpfs", "--", "python3", "-c", FULL_DISK)
    assert done.stdout == "ENOSPC\nTrue True\n", (done.stdout, done.stderr)


def first_process(process):
    """The kernel process of a running `ward run`, as a pid of the host."""
    for _ in range(400):
        kernel = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        if kernel:
            return int(kernel[0])
        time.sleep(0.05)
    raise AssertionError("no kernel process")


def held_by(pid):
    """Descriptors, threads and MiB of memory of a process."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    memory = int(re.search(r"^RssAnon:\s+(\d+) kB", status, re.M)[1]) // 1024
    return len(os.listdir(f"/proc/{pid}/fd")), int(re.search(r"^Threads:\s+(\d+)", status, re.M)[1]), memory


def settles(pid, most=None):
    """What is held once no more than @most is, or when time is up: deaths are noticed a little later. The first time: what stays."""
    last, same = None, 0
    for _ in range(200):
        now = held_by(pid)
        same = same + 1 if now == last else 0
        if all(n <= m for n, m in zip(now, most)) if most else same == 5:
            return now
        last = now
        time.sleep(0.1)
    return now


@contextlib.contextmanager
def inside(ward, *command, options=()):
    """A program of tests/kernel in the tier that waits for a line of input after each of its own."""
    process = ward.start(*KERNEL, *options, "--mount", f"{PROGRAMS}:/k", "--", *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True, errors="replace")
    try:
        yield process, first_process(process)
    finally:
        end(ward, process)


SEED = os.environ.get("WARD_FUZZ_SEED", "1")


def test_random_calls(ward, leaks):
    """Nothing that processes do with random calls is left in the kernel process when they are gone."""
    rounds = int(os.environ.get("WARD_FUZZ_ROUNDS", "3"))
    with inside(ward, "/k/kernel_fuzz", "4", "400", str(rounds), SEED) as (process, kernel):
        for n in range(rounds):
            line = process.stdout.readline()
            assert line == f"round {n + 1}\n", f"seed {SEED}, after round {n}: {line}"
            if n == 0:
                fds, threads, memory = settles(kernel)
                # A sanitizer keeps what was freed for a while.
                most = (fds + 4, threads + 2, memory + (512 if SANITIZED else 8))
            now = settles(kernel, most)
            assert all(a <= b for a, b in zip(now, most)), f"seed {SEED}, round {n + 1}: {now} held, at most {most} expected"
            process.stdin.write("\n")
            process.stdin.flush()
        assert process.stdout.readline() == "still here\n", f"seed {SEED}"
        assert process.wait(timeout=60) == 0


# What there is too much of, and how that is said.
EXHAUSTED = {
    "pipes": ("EMFILE", "ENFILE"), "sockets": ("EMFILE", "ENFILE", "ENOBUFS"), "events": ("EMFILE", "ENFILE"), "timers": ("EAGAIN",),
    "watches": ("ENOSPC",), "signals": ("EAGAIN",), "processes": ("EAGAIN",), "messages": ("EAGAIN",), "locks": ("ENOLCK",), "segments": ("ENOSPC",),
    "semaphores": ("ENOSPC",), "queues": ("ENOSPC",), "mappings": ("ENOMEM",),
}


@pytest.mark.slow
def test_tables_that_are_full(ward, leaks):
    """Everything that the kernel process keeps for guests has an end, and is given back."""
    with inside(ward, "/k/kernel_exhaust") as (process, kernel):
        got, peak = {}, 0
        while (line := process.stdout.readline()) not in ("", "still here\n"):
            name, text = line.strip().split(": ")
            got[name] = errno.errorcode.get(int(text), text)
            peak = int(re.search(r"^VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{kernel}/status").read_text(), re.M)[1]) // 1024
            process.stdin.write("\n")
            process.stdin.flush()
        assert line == "still here\n" and {k: v for k, v in got.items() if v not in EXHAUSTED[k]} == {} and len(got) == len(EXHAUSTED), got
        assert peak < 512, f"the kernel process had {peak} MiB"


@pytest.mark.parametrize("args,words", [
    (["--keep"], "--keep is not supported by the kernel tier"),
    (["--net", "host"], "--net host is not possible in the kernel tier"),
])
def test_what_it_does_not_do(ward, args, words):
    done = ward(*KERNEL, *args, "--", "true")
    assert done.returncode == 125 and words in done.stderr and done.stderr.count("\n") == 1
