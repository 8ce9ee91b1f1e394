"""Each limit of a sandbox holds, and the cause of its end has a name of its own."""
import json
import os
import pathlib
import select
import socket
import subprocess
import time

import pytest

from leftovers import Leaks, children_of
from runbox import CONTAINER, box, ends, needs_root, place, read_until, user_box, wait_until  # noqa: F401

pytestmark = needs_root

MB = 1 << 20
HOG = "b=[]\nwhile True: b.append(bytearray(1<<20))"


@pytest.fixture(autouse=True)
def nothing_left(box):
    box("--", "true")
    watch = Leaks(box.state)
    yield
    watch.check()


def ended(box, cause, status, *args, **options):
    done, report = box.report(*args, **options)
    assert (report["cause"], done.returncode, report["exit_status"]) == (cause, status, status), (report, done.stderr)
    assert cause in report["limits_hit"] or cause in ("exited", "signaled", "denied", "killed-by-operator")
    return done, report


# Memory.

def test_memory_of_the_command(box):
    done, report = ended(box, "out-of-memory", 137, "--memory", "64M", "--", "python3", "-c", HOG)
    assert report["usage"]["memory_peak_bytes"] <= 64 * MB and report["usage"]["oom_kills"] >= 1
    assert "signal" not in report or report["signal"] == 9
    assert str(64 * MB) in report["detail"] and str(64 * MB) in done.stderr


@pytest.mark.parametrize("script", [
    "python3 -c '%s'; echo went on; sleep 600" % HOG,
    "python3 -c '%s'; echo went on; exit 0" % HOG,
    "(python3 -c '%s' &) ; sleep 600; echo went on" % HOG,
    "trap '' TERM INT HUP; sh -c \"python3 -c '%s'\" & wait; echo went on; while :; do sleep 1; done" % HOG,
], ids=["sleeping parent", "parent that would succeed", "orphan", "grandchild"])
def test_memory_of_a_child_ends_all(box, script):
    done, report = ended(box, "out-of-memory", 137, "--memory", "64M", "--", "sh", "-c", script)
    assert report["limits_hit"] == ["out-of-memory"]


def test_memory_of_many_small_processes(box):
    script = "i=0; while [ $i -lt 40 ]; do python3 -c 'x=bytearray(6<<20); import time; time.sleep(600)' & i=$((i+1)); done; wait"
    ended(box, "out-of-memory", 137, "--memory", "100M", "--", "sh", "-c", script)


@pytest.mark.parametrize("where", ["/dev/shm/f", "/tmp/f", "memfd"])
def test_memory_in_files_counts(box, where):
    """A tmpfs is memory: a file larger than the memory limit does not fit, whatever its folder."""
    if where == "memfd":
        code = "import os\nf=os.memfd_create('x')\nwhile True: os.write(f, bytes(1<<20))"
    else:
        code = f"f=open('{where}','wb',0)\nwhile True: f.write(bytes(1<<20))"
    ended(box, "out-of-memory", 137, "--memory", "48M", "--disk", "1G", "--upper", "tmpfs", "--", "python3", "-c", code)


def test_memory_is_no_ordinary_kill(box):
    for script in ("kill -9 $$", "sh -c 'kill -9 $$'; exit 137", "python3 -c 'import os; os.kill(os.getpid(), 9)'; exit $?"):
        done, report = box.report("--memory", "64M", "--", "sh", "-c", script)
        assert done.returncode == 137 and report["cause"] in ("signaled", "exited") and report["usage"]["oom_kills"] == 0


def test_memory_is_given_up_to_the_limit(box):
    assert box.out("--memory", "200M", "--", "python3", "-c", "x=bytearray(150<<20); print(len(x))") == f"{150 * MB}\n"


def test_memory_least(box):
    """One megabyte is accepted, and whatever does not fit is out of memory, not a broken set-up."""
    done, report = box.report("--memory", "1M", "--", "python3", "-c", HOG)
    assert report["cause"] == "out-of-memory", report


def test_memory_locked_is_bounded(box):
    done = box("--", "sh", "-c", "ulimit -l; ulimit -c")
    assert done.stdout.split()[0] != "unlimited" and done.stdout.split()[1] == "0"


# Processes.

BOMB = "bomb() { bomb | bomb & }; bomb; sleep 0.5; exit 1"


def test_fork_bomb(box):
    done, report = ended(box, "process-limit", 1, "--pids", "40", "--timeout", "60s", "--", "sh", "-c", BOMB)
    assert report["usage"]["pids_peak"] <= 40 and report["usage"]["pids_refused"] > 0


def test_fork_bomb_with_the_default(box):
    done, report = box.report("--timeout", "60s", "--", "python3", "-c", "import os\nn=0\ntry:\n  while True:\n    if os.fork()==0:\n"
                              "      import time; time.sleep(600)\n    n+=1\nexcept OSError as e:\n  print(n, e.errno); raise SystemExit(1)")
    assert report["cause"] == "process-limit" and done.stdout.split()[1] == "11"
    assert int(done.stdout.split()[0]) <= 1024


def test_threads_are_processes(box):
    code = ("import threading,time\nn=0\ntry:\n  while True:\n    threading.Thread(target=time.sleep,args=(600,),daemon=True).start()\n"
            "    n+=1\nexcept RuntimeError:\n  print(n,flush=True)\n  import os; os._exit(1)")
    done, report = ended(box, "process-limit", 1, "--pids", "25", "--", "python3", "-c", code)
    assert 15 <= int(done.stdout) < 25


def test_process_limit_that_was_survived(box):
    """It was hit, but the command went on and succeeded: an ordinary end that mentions it."""
    done, report = box.report("--pids", "6", "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do (sleep 0.3 &) 2>/dev/null; done; exit 0")
    if done.returncode == 0:
        assert report["cause"] == "exited" and "process-limit" in report["limits_hit"]
    else:
        assert report["cause"] == "process-limit"


def test_least_processes(box):
    assert box("--pids", "2", "--", "true").returncode == 0
    ended(box, "process-limit", 2, "--pids", "2", "--", "sh", "-c", "true | true")


# Disk.

KINDS = {"tmpfs": ("--disk", "4M", "--upper", "tmpfs"), "disk": ("--disk", "16M", "--upper", "disk")}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_disk_data(box, kind):
    done, report = ended(box, "disk-limit", 1, *KINDS[kind], "--", "sh", "-c", "cat /dev/zero > /f")
    assert "No space left" in done.stderr


@pytest.mark.parametrize("where", ["/f", "/tmp/f", "/var/f", "/dev/shm/f", "/etc/f", "/home/f"])
def test_disk_limit_is_one_for_all_folders(box, where):
    done, report = ended(box, "disk-limit", 1, *KINDS["tmpfs"], "--", "sh", "-c", f"head -c 64M /dev/zero > {where}; e=$?; exit $e")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_disk_is_never_more_than_asked(box, kind):
    limit = int(KINDS[kind][1][:-1]) * MB
    code = ("import os\nn=0\nf=open('/f','wb',0)\ntry:\n  while True: n+=f.write(bytes(65536))\nexcept OSError as e:\n  print(n,e.errno)")
    written, code = box.out(*KINDS[kind], "--", "python3", "-c", code).split()
    assert limit // 2 < int(written) <= limit and code == "28"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_disk_many_small_files(box, kind):
    """Empty files are no way around: their number has an end too."""
    code = ("import os\ni=0\ntry:\n  while True:\n    os.close(os.open('/tmp/f%d'%i,os.O_CREAT|os.O_WRONLY)); i+=1\n"
            "except OSError as e:\n  print(i,e.errno); raise SystemExit(1)")
    done, report = ended(box, "disk-limit", 1, *KINDS[kind], "--", "python3", "-c", code)
    assert int(done.stdout.split()[0]) < 200000 and done.stdout.split()[1] == "28"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_disk_hard_links_and_folders(box, kind):
    code = ("import os\ni=0\ntry:\n  while True:\n    os.mkdir('/tmp/d%d'%i); i+=1\nexcept OSError as e:\n  print(e.errno); raise SystemExit(1)")
    done, report = ended(box, "disk-limit", 1, *KINDS[kind], "--", "python3", "-c", code)
    assert done.stdout.strip() in ("28", "31")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_disk_of_deleted_files_counts(box, kind):
    """Deleted but open: the space is still taken, so there is no way past the limit."""
    limit = int(KINDS[kind][1][:-1]) * MB
    code = ("import os\nn,keep=0,[]\ntry:\n  while True:\n    f=open('/tmp/x','wb',0); keep.append(f); os.unlink('/tmp/x')\n"
            "    for i in range(4): n+=f.write(bytes(65536))\nexcept OSError as e:\n  print(n,e.errno)")
    written, code = box.out(*KINDS[kind], "--", "python3", "-c", code).split()
    assert int(written) <= limit and code == "28"


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_disk_sparse_files_and_fallocate(box, kind):
    assert box(*KINDS[kind], "--", "fallocate", "-l", "100M", "/f").returncode != 0
    assert box.out(*KINDS[kind], "--", "sh", "-c", "truncate -s 1G /f && stat -c %s /f") == f"{1 << 30}\n"


def test_disk_overlay_mount_counts(box, place):
    (place / "src").mkdir()
    ended(box, "disk-limit", 1, *KINDS["tmpfs"], "--mount", f"{place}/src:/m:overlay", "--", "sh", "-c", "cat /dev/zero > /m/f")


def test_disk_large_goes_to_disk_by_itself(box):
    """More than half of the memory cannot be kept in memory; `auto` takes a disk, and it is not charged as memory."""
    done, report = box.report("--memory", "64M", "--disk", "256M", "--", "sh", "-c", "head -c 150M /dev/zero > /f && df -k / | tail -1")
    assert (report["cause"], done.returncode) == ("exited", 0), (report, done.stderr)
    assert 200 << 10 < int(done.stdout.split()[1]) <= 256 << 10


def test_disk_leaves_no_loop_device(box):
    def loops():
        return {p.name for p in pathlib.Path("/sys/block").glob("loop*") if (p / "loop" / "backing_file").exists()}

    before = loops()
    box.out("--upper", "disk", "--disk", "16M", "--", "sh", "-c", "echo x > /f")
    wait_until(lambda: loops() <= before, what="the end of the loop device")


# Processor.

def cgroup_of(ward, name):
    """The host's folder of the running sandbox's cgroup in one hierarchy."""
    for child in children_of(ward.pid):
        for line in pathlib.Path(f"/proc/{child}/cgroup").read_text().splitlines():
            _, names, path = line.split(":", 2)
            if name in names.split(",") or (names == "" and not pathlib.Path("/sys/fs/cgroup/cpu").exists()):
                return pathlib.Path("/sys/fs/cgroup", name if names else "", path.lstrip("/"))
    raise AssertionError("no cgroup")


def running(box, *args):
    process = box.start(*args, "--", "sh", "-c", "echo up; exec sleep 1000", stdout=subprocess.PIPE, bufsize=0)
    read_until(process.stdout, b"up\n")
    return process


@pytest.mark.parametrize("cpus, quota", [("0.5", 50000), ("2", 200000), ("0.01", 1000), ("1.25", 125000)])
def test_cpu_quota(box, cpus, quota):
    with ends(running(box, "--cpus", cpus)) as ward:
        folder = cgroup_of(ward, "cpu")
        if (folder / "cpu.max").exists():
            assert (folder / "cpu.max").read_text().split() == [str(quota), "100000"]
        else:
            assert int((folder / "cpu.cfs_quota_us").read_text()) == quota
            assert int((folder / "cpu.cfs_period_us").read_text()) == 100000
        ward.kill()
    box.ward("gc")


@pytest.mark.parametrize("weight", [1, 100, 10000])
def test_cpu_weight(box, weight):
    with ends(running(box, "--cpu-weight", weight)) as ward:
        folder = cgroup_of(ward, "cpu")
        if (folder / "cpu.weight").exists():
            assert int((folder / "cpu.weight").read_text()) == weight
        else:
            want = max(2, weight * 1024 // 100)
            assert abs(int((folder / "cpu.shares").read_text()) - want) <= 2
        ward.kill()
    box.ward("gc")


def test_limits_are_in_the_kernel(box):
    with ends(running(box, "--memory", "96M", "--pids", "33")) as ward:
        memory, pids = cgroup_of(ward, "memory"), cgroup_of(ward, "pids")
        name = "memory.max" if (memory / "memory.max").exists() else "memory.limit_in_bytes"
        assert int((memory / name).read_text()) == 96 * MB
        assert int((pids / "pids.max").read_text()) == 33
        swap = memory / "memory.memsw.limit_in_bytes"
        assert not swap.exists() or int(swap.read_text()) == 96 * MB
        inside = set(map(int, (pids / "cgroup.procs").read_text().split()))
        assert len(inside) >= 2, "the command is in the cgroup"
        ward.kill()
    box.ward("gc")


def test_cpu_quota_holds_a_busy_loop(box):
    done, report = box.report("--cpus", "0.2", "--", "timeout", "2", "sh", "-c", "while :; do :; done")
    assert report["usage"]["cpu_us"] < 0.6 * report["timings_us"]["run"]


# Time.

@pytest.mark.parametrize("script", [
    "while :; do :; done",
    "sleep 1000",
    "trap '' TERM INT HUP QUIT; while :; do sleep 0.1; done",
    "kill -STOP $$",
    "sh -c 'kill -STOP $$' & kill -STOP $$",
    "setsid sleep 1000 & (sleep 1000 &) ; exec sleep 1000",
    "cat",
    "exec cat /dev/zero > /dev/null",
], ids=["busy", "sleeping", "deaf", "stopped", "all stopped", "orphans", "reading", "copying"])
def test_time_limit(box, script):
    process = subprocess.Popen(box.argv(*CONTAINER, "--json", box.state.parent / "report", "--timeout", "400ms", "--", "sh", "-c", script),
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with ends(process):
        assert process.wait(30) == 124
    report = json.loads((box.state.parent / "report").read_text())
    assert (report["cause"], report["detail"]) == ("time-limit", "after 400 ms")
    assert report["timings_us"]["run"] >= 390000


def test_time_limit_is_not_for_those_in_time(box):
    done, report = box.report("--timeout", "1h", "--", "sh", "-c", "exit 7")
    assert (report["cause"], done.returncode, report["limits"]["timeout_ms"]) == ("exited", 7, 3600000)


def test_time_limit_shortest(box):
    ended(box, "time-limit", 124, "--timeout", "1ms", "--", "sleep", "1000")


def test_time_limit_delivers_what_was_written(box):
    done, report = ended(box, "time-limit", 124, "--timeout", "500ms", "--", "sh", "-c", "echo before; sleep 1000")
    assert done.stdout == "before\n"


# Output.

@pytest.mark.parametrize("limit", [1, 10, 4096, 65536, 1000003])
def test_output_limit_is_exact(box, limit):
    done, report = ended(box, "output-limit", 137, "--output-limit", str(limit), "--", "yes", text=False)
    assert len(done.stdout) == limit == report["usage"]["output_bytes"]
    assert done.stdout == (b"y\n" * (limit // 2 + 1))[:limit]


def test_output_limit_reached_but_not_passed(box):
    done, report = box.report("--output-limit", "10", "--", "printf", "0123456789")
    assert (done.stdout, report["cause"], done.returncode) == ("0123456789", "exited", 0)


def test_output_limit_is_for_both_together(box):
    done, report = ended(box, "output-limit", 137, "--output-limit", "1000", "--", "sh", "-c",
                         "yes out & yes err >&2 & wait", text=False)
    tail = done.stderr[done.stderr.index(b"ward run: "):]
    assert len(done.stdout) + len(done.stderr) - len(tail) == 1000, (len(done.stdout), len(done.stderr))


def test_output_limit_on_stderr_alone(box):
    done, report = ended(box, "output-limit", 137, "--output-limit", "100", "--", "sh", "-c", "yes >&2", text=False)
    assert done.stdout == b"" and done.stderr.startswith(b"y\n" * 50) and done.stderr[100:].startswith(b"ward run: output-limit")


def test_output_limit_to_a_file_and_one_target(box, place):
    with open(place / "out", "wb") as out:
        done = subprocess.run(box.argv(*CONTAINER, "--quiet", "--output-limit", "12345", "--", "sh", "-c", "yes & yes >&2"), stdout=out,
                              stderr=out, stdin=subprocess.DEVNULL, timeout=60)
    assert done.returncode == 137 and (place / "out").stat().st_size == 12345


def test_output_limit_with_a_terminal(box):
    done, report = ended(box, "output-limit", 137, "-t", "--output-limit", "5000", "--", "yes", text=False)
    assert len(done.stdout) == 5000 == report["usage"]["output_bytes"]


def test_output_flood_from_the_background(box):
    ended(box, "output-limit", 137, "--output-limit", "64K", "--", "sh", "-c", "setsid yes & sleep 1000")


# Denied.

SOCKET = "import socket; socket.socket(socket.{}, socket.{})"


@pytest.mark.parametrize("what, command", [
    ("mount", ["mount", "-t", "tmpfs", "x", "/mnt"]),
    ("unshare", ["unshare", "-m", "true"]),
    ("unshare", ["unshare", "-U", "true"]),
    ("umount", ["umount", "/proc"]),
    ("bpf", ["python3", "-c", "import ctypes,os; l=ctypes.CDLL(None,use_errno=True); l.syscall(321,0,0,0); raise SystemExit(ctypes.get_errno())"]),
    ("pivot_root", ["pivot_root", "/", "/mnt"]),
    ("socket", ["python3", "-c", SOCKET.format("AF_PACKET", "SOCK_RAW")]),
    ("socket", ["python3", "-c", "import socket; socket.socket(40, socket.SOCK_STREAM)"]),
], ids=lambda v: v if isinstance(v, str) else "")
def test_denied(box, what, command):
    done, report = box.report("--", *command)
    assert report["cause"] == "denied" and done.returncode == report["exit_status"] != 0, (report, done.stderr)
    assert what in report["detail"] and any(what in d["what"] and d["count"] >= 1 for d in report["denials"])
    assert what in done.stderr.splitlines()[-1]


def test_denied_but_survived(box):
    """A program that shrugs and succeeds ended well; what it tried is told all the same."""
    done, report = box.report("--", "sh", "-c", "mount -t tmpfs x /mnt 2>/dev/null; unshare -m true 2>/dev/null; exit 0")
    assert (report["cause"], done.returncode) == ("exited", 0)
    assert {d["what"].split()[0] for d in report["denials"]} >= {"mount", "unshare"}


def test_denied_flood(box):
    """Asking ten thousand times costs the asker, not ward, and changes nothing."""
    code = ("import ctypes\nl=ctypes.CDLL(None,use_errno=True)\nfor i in range(10000):\n  l.syscall(165,0,0,0,0,0)\nprint('over')")
    done, report = box.report("--timeout", "60s", "--", "python3", "-c", code)
    assert done.stdout == "over\n" and report["cause"] == "exited"
    assert sum(d["count"] for d in report["denials"]) >= 100


def test_denied_is_in_the_audit_log(box):
    done, report = box.report("--", "mount", "-t", "tmpfs", "x", "/mnt")
    lines = [json.loads(line) for line in box.ward("audit", "show", "--json").stdout.splitlines()]
    text = json.dumps([line for line in lines if report["id"] in json.dumps(line)])
    assert '"denied"' in text and '"mount"' in text


# Several at once: the first in the order of sup/end.c wins, and the others are still named.

def test_time_before_memory(box):
    code = "import time\nx=bytearray(20<<20)\ntime.sleep(1000)"
    ended(box, "time-limit", 124, "--memory", "64M", "--timeout", "500ms", "--", "python3", "-c", code)


def test_process_limit_and_time(box):
    done, report = ended(box, "time-limit", 124, "--pids", "20", "--timeout", "1s", "--", "sh", "-c",
                         "bomb() { bomb | bomb & }; bomb; sleep 600")
    assert set(report["limits_hit"]) >= {"time-limit", "process-limit"}


def test_disk_and_output(box):
    done, report = ended(box, "output-limit", 137, "--disk", "1M", "--output-limit", "1000", "--", "sh", "-c",
                         "cat /dev/zero > /f; yes")
    assert set(report["limits_hit"]) == {"disk-limit", "output-limit"}


def test_denied_and_disk(box):
    done, report = box.report("--disk", "1M", "--", "sh", "-c", "mount -t tmpfs x /mnt; cat /dev/zero > /f")
    assert report["cause"] == "disk-limit" and [d["what"] for d in report["denials"]] == ["mount"]


def test_all_limits_at_once(box):
    done, report = box.report("--memory", "128M", "--pids", "64", "--cpus", "1", "--cpu-weight", "50", "--disk", "8M", "--timeout", "1m",
                              "--output-limit", "1M", "--", "sh", "-c", "echo fine")
    assert (done.stdout, report["cause"]) == ("fine\n", "exited")
    assert report["limits"] == {"memory_bytes": 128 * MB, "disk_bytes": 8 * MB, "output_bytes": MB, "timeout_ms": 60000, "pids": 64,
                                "cpu_milli": 1000}


# As an ordinary user, without a cgroup: what needs none still holds.

def test_ordinary_user_limits(user_box):
    for cause, status, args, script in [
        ("time-limit", 124, ("--timeout", "400ms"), "trap '' TERM; while :; do sleep 0.1; done"),
        ("output-limit", 137, ("--output-limit", "1000"), "yes"),
        ("disk-limit", 1, ("--disk", "1M"), "cat /dev/zero > /f"),
    ]:
        done, report = user_box.report(*args, "--", "sh", "-c", script)
        assert (report["cause"], done.returncode) == (cause, status), (report, done.stderr)


def test_ordinary_user_default_limits_hold_per_process(user_box):
    code = "import resource as r; print(*(r.getrlimit(k)[1] for k in (r.RLIMIT_DATA, r.RLIMIT_NPROC)))"
    assert user_box("--", "python3", "-c", code).stdout == f"{2 << 30} 1024\n"


# What was used is told also when the sandbox was killed.

@pytest.mark.parametrize("args, script", [
    (("--timeout", "1s"), "while :; do :; done"),
    (("--timeout", "2s", "--output-limit", "5M"), "yes > /dev/null & sleep 1; exec yes"),
    ((), "sh -c 'while :; do :; done' & sleep 1"),
], ids=["time", "output", "orphan"])
def test_usage_of_the_killed(box, args, script):
    """About a second of one processor was used; a loaded machine gives less, never none."""
    done, report = box.report("--cpus", "2", *args, "--", "sh", "-c", script)
    assert report["usage"]["cpu_us"] is None or report["usage"]["cpu_us"] > 100000, report["usage"]


# A reader that stays but does not read.

HANG = 5  # nobody waits for anything here, so whoever reaches it hangs


def stuck_reader(box, target, args, insist):
    near, far = os.pipe() if target == "pipe" else (s.detach() for s in socket.socketpair())
    process = subprocess.Popen(box.argv(*CONTAINER, *args, "--", "yes"), stdin=subprocess.DEVNULL, stdout=far, stderr=subprocess.DEVNULL)
    os.close(far)
    try:
        wait_until(lambda: select.select([near], [], [], 0)[0], what="output")
        time.sleep(0.3)
        for _ in range(3 if insist else 0):
            process.terminate()
            time.sleep(0.1)
        return process.wait(HANG)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(near)
        box.ward("gc")


TIME, OUTPUT, TTY = ("--timeout", "500ms"), ("--output-limit", "10M"), ("-t",)


@pytest.mark.parametrize("target, args", [("pipe", TIME), ("socket", TIME), ("socket", (*TIME, *OUTPUT))])
def test_stuck_reader_cannot_hold_the_time_limit(box, target, args):
    assert stuck_reader(box, target, args, insist=False) == 124


@pytest.mark.parametrize("target", ["pipe", "socket"])
def test_stuck_reader_cannot_hold_the_operator(box, target):
    assert stuck_reader(box, target, (), insist=True) == 143


@pytest.mark.parametrize("args, insist, status", [
    ((*TIME, *OUTPUT), False, 124), ((*TTY, *TIME), False, 124), (OUTPUT, True, 143), (TTY, True, 143),
], ids=["time, relayed", "time, terminal", "operator, relayed", "operator, terminal"])
def test_stuck_reader_cannot_hold_the_end(box, args, insist, status):
    assert stuck_reader(box, "pipe", args, insist) == status


# Nobody is told when a disk is full, so ward looks; what is full for a few milliseconds only may be missed.

@pytest.mark.parametrize("kind", sorted(KINDS))
def test_disk_limit_met_by_deleted_files(box, kind):
    ended(box, "disk-limit", 1, *KINDS[kind], "--", "sh", "-c", "exec 3>/f; rm /f; cat /dev/zero >&3; e=$?; sleep 0.3; exit $e")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_disk_limit_met_and_cleaned_up(box, kind):
    """As a package manager does that runs out of room: it tidies up, and then fails."""
    ended(box, "disk-limit", 1, *KINDS[kind], "--", "sh", "-c", "cat /dev/zero > /f || { sleep 0.3; rm /f; exit 1; }")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_disk_limit_met_long_after_the_start(box, kind):
    """Also when nothing was written for a while before."""
    ended(box, "disk-limit", 1, *KINDS[kind], "--", "sh", "-c", "sleep 2; cat /dev/zero > /f || { sleep 2; rm /f; exit 1; }")


def test_disk_limit_not_met_by_half(box):
    ended(box, "exited", 1, *KINDS["tmpfs"], "--", "sh", "-c", "head -c 2M /dev/zero > /f; sleep 0.3; rm /f; exit 1")


def test_disk_limit_met_by_files_without_data(box):
    code = ("import os,sys,time\ni=0\ntry:\n  while True:\n    os.close(os.open('/tmp/f%d'%i,os.O_CREAT|os.O_WRONLY)); i+=1\n"
            "except OSError:\n  time.sleep(0.3)\n  [os.unlink('/tmp/f%d'%k) for k in range(i)]\n  sys.exit(1)")
    ended(box, "disk-limit", 1, *KINDS["tmpfs"], "--", "python3", "-c", code)


def test_ordinary_user_disk_on_disk_is_refused(user_box):
    done, report = user_box.report("--upper", "disk", "--disk", "16M", "--", "true")
    assert (done.returncode, report["cause"]) == (125, "setup-failed") and "needs root" in done.stderr
