"""What several suites about `ward run` share: the shape of a report, a tree to mount, capabilities."""
import os

import pytest

from runbox import CAUSES, box, place  # noqa: F401


ROOT_CAPS = ["chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "net_bind_service",
             "sys_chroot"]

CAP_BITS = {"chown": 0, "dac_override": 1, "fowner": 3, "fsetid": 4, "kill": 5, "setgid": 6, "setuid": 7, "setpcap": 8,
            "net_bind_service": 10, "sys_chroot": 18}


def one_line(done, *words):
    """ward refused: status 125, nothing on stdout, one line on stderr that has all the words."""
    assert done.returncode == 125, done
    assert done.stdout == "", done
    assert done.stderr.endswith("\n") and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("ward run: "), done.stderr
    for word in words:
        assert word in done.stderr, (word, done.stderr)
    assert all(c == "\n" or c.isprintable() for c in done.stderr), repr(done.stderr)


def read_all(fd):
    got = b""
    while True:
        try:
            data = os.read(fd, 65536)
        except OSError:  # EIO: a terminal whose other side is closed
            return got
        if not data:
            return got
        got += data


def status_inside(box, *args):
    text = box.out(*args, "--", "cat", "/proc/self/status")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


@pytest.fixture
def tree(place):
    source = place / "source"
    (source / "sub").mkdir(parents=True)
    (source / "file").write_text("content\n")
    (source / "sub" / "deep").write_text("deep\n")
    source.chmod(0o755)
    return source

FIELDS = {
    "id": str, "tier": str, "why": str, "decision": dict, "command": list, "cause": str, "exit_status": int,
    "limits_hit": list, "denials": list, "unknown_calls": dict, "timings_us": dict, "total_us": int, "usage": dict, "limits": dict, "grants": dict,
    "kept": bool,
}

MAYBE = {"template": str, "detail": str}

ONLY_SOMETIMES = {"code": int, "signal": int, "step": str}

USAGE = {"cpu_us", "memory_peak_bytes", "written_bytes", "pids_peak", "pids_refused", "oom_kills", "output_bytes"}

LIMITS = {"memory_bytes", "disk_bytes", "output_bytes", "timeout_ms", "pids", "cpu_milli"}

ENDS = {
    "exited": ((), "exit 3"),
    "signaled": ((), "kill -SEGV $$"),
    "out-of-memory": (("--memory", "64M"), "python3 -c 'bytearray(300<<20)'"),
    "time-limit": (("--timeout", "300ms"), "sleep 600"),
    "process-limit": (("--pids", "4"), "for i in 1 2 3 4 5 6 7 8; do sleep 1 & done; exit 1"),
    "disk-limit": (("--disk", "256K"), "cat /dev/zero > /f"),
    "output-limit": (("--output-limit", "10K"), "yes"),
    "denied": ((), "unshare -m true"),
    "setup-failed": (("--user", "nosuchuser"), "true"),
}


def check_report(report):
    for name, kind in FIELDS.items():
        assert type(report[name]) is kind, (name, report[name])
    for name, kind in MAYBE.items():
        assert report[name] is None or type(report[name]) is kind, (name, report[name])
    for name, kind in ONLY_SOMETIMES.items():
        assert name not in report or type(report[name]) is kind, (name, report.get(name))
    assert set(report) <= FIELDS.keys() | MAYBE.keys() | ONLY_SOMETIMES.keys()
    assert report["cause"] in CAUSES
    assert set(report["usage"]) == USAGE and set(report["limits"]) == LIMITS
    for value in [*report["usage"].values(), *report["limits"].values()]:
        assert value is None or (type(value) is int and value >= 0)
    assert all(type(us) is int and us >= 0 for us in report["timings_us"].values())
    assert set(report["limits_hit"]) <= CAUSES
    assert ("step" in report) == (report["cause"] == "setup-failed")
    assert not ("code" in report and "signal" in report)
