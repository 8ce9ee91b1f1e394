"""--keep, --json and --quiet: what is told of a run, and what is left of it."""
import json
import os
import subprocess

import pytest

from runbox import CONTAINER, box, ends, place, read_until  # noqa: F401
from runparts import ENDS, check_report, one_line


# --keep, ls, rm.

def kept(box):
    return {row["id"]: row for row in json.loads(box.ward("ls", "--json").stdout) if row["state"] == "kept"}


def test_keep(box):
    done, report = box.report("--keep", "--", "sh", "-c", "mkdir -p /w/d; echo kept > /w/f; ln -s f /w/l; rm /etc/hostname; exit 6")
    assert (done.returncode, report["kept"]) == (6, True)
    assert done.stderr == f"ward run: kept as {report['id']}\n"
    row = kept(box)[report["id"]]
    assert (row["cause"], row["status"], row["tier"], row["command"][0]) == ("exited", 6, "container", "sh")
    upper = box.state / "boxes" / report["id"] / "upper"
    assert (upper / "w" / "f").read_text() == "kept\n" and os.readlink(upper / "w" / "l") == "f"
    assert box.ward("gc").returncode == 0 and report["id"] in kept(box), "gc leaves what is kept"
    assert box.ward("rm", report["id"]).stdout == f"removed {report['id']}\n"
    assert report["id"] not in kept(box) and not (box.state / "boxes" / report["id"]).exists()
    one_line_any(box.ward("rm", report["id"]), "ward rm: ", report["id"])


def one_line_any(done, start, *words):
    assert done.returncode == 125 and done.stderr.count("\n") == 1 and done.stderr.startswith(start), done
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("args, script, cause", [
    (("--timeout", "300ms"), "echo x > /f; sleep 600", "time-limit"),
    ((), "echo x > /f; kill -9 $$", "signaled"),
    (("--memory", "64M"), "echo x > /f; python3 -c 'bytearray(300<<20)'", "out-of-memory"),
    (("--upper", "disk", "--disk", "16M"), "echo x > /f", "exited"),
])
def test_keep_whatever_the_end(box, args, script, cause):
    done, report = box.report("--keep", "--quiet", *args, "--", "sh", "-c", script)
    assert done.stderr == "" and report["cause"] == cause and report["kept"]
    assert (box.state / "boxes" / report["id"] / "upper" / "f").read_text() == "x\n"
    assert kept(box)[report["id"]]["cause"] == cause
    assert box.ward("rm", report["id"]).returncode == 0


def test_running_ones_are_listed(box):
    process = box.start("--", "sh", "-c", "echo up; exec sleep 1000", stdout=subprocess.PIPE, bufsize=0)
    with ends(process):
        read_until(process.stdout, b"up\n")
        rows = json.loads(box.ward("ls", "--json").stdout)
        assert [(r["tier"], r["pid"]) for r in rows if r["state"] == "running"] == [("container", process.pid)]
        [row] = [r for r in rows if r["state"] == "running"]
        one_line_any(box.ward("rm", row["id"]), "ward rm: ", row["id"])
        process.terminate()


# --json and --quiet.

@pytest.mark.parametrize("cause", sorted(ENDS))
def test_report_of_every_end(box, cause):
    args, script = ENDS[cause]
    done, report = box.report(*args, "--", "sh", "-c", script, "a\"b\\c\n\x01\u00e9")
    check_report(report)
    assert report["cause"] == cause, report
    assert report["exit_status"] == done.returncode
    assert report["command"] == ["sh", "-c", script, "a\"b\\c\n\x01\u00e9"]
    assert report["tier"] == "container" and report["why"] and report["template"] == "host"
    if cause not in ("exited",):
        assert report["detail"]


def test_report_of_the_operators_end(box, place):
    process = box.start("--json", place / "report", "--", "sh", "-c", "echo up; exec sleep 1000", stdout=subprocess.PIPE, bufsize=0)
    with ends(process):
        read_until(process.stdout, b"up\n")
        process.terminate()
    report = json.loads((place / "report").read_text())
    check_report(report)
    assert report["cause"] == "killed-by-operator"


@pytest.mark.parametrize("args", [("--tenants", "many"), ("--tier", "container", "--tenants", "many"), ("--tier", "vm"),
                                  ("--tier", "container", "--template", "/no/such")], ids=" ".join)
def test_report_of_a_refusal(ward, args):
    done, report = ward.run(*args, "--", "true")
    one_line(done)
    check_report(report)
    assert (report["cause"], report["exit_status"]) == ("setup-failed", 125)


def test_report_of_a_refusal_names_the_command(ward):
    assert ward.run("--tier", "container", "--tenants", "many", "--", "true", "x")[1]["command"] == ["true", "x"]


def test_report_to_stdout_comes_last(box):
    done = box("--json", "-", "--", "echo", "output")
    first, second = done.stdout.split("\n", 1)
    assert first == "output" and json.loads(second)["cause"] == "exited" and done.stdout.count("\n") == 2


def test_report_replaces_what_was_there(box, place):
    path = place / "report"
    path.write_text("x" * 100000)
    box("--json", path, "--", "true")
    check_report(json.loads(path.read_text()))


def test_report_that_cannot_be_opened(ward, state):
    one_line(ward("run", "--tier", "container", "--json", "/no/such/dir/x", "--", "true"), "--json", "/no/such/dir/x")
    one_line(ward("run", "--tier", "container", "--json", "/etc", "--", "true"), "--json", "/etc")
    assert not state.exists()


def test_report_that_cannot_be_written(box):
    done = box("--json", "/dev/full", "--", "sh", "-c", "exit 3")
    assert done.returncode in (3, 125) and done.stderr.count("\n") == 1 and "No space" in done.stderr


def test_report_of_bytes_that_are_not_text(box):
    process = subprocess.run([*map(os.fsencode, box.argv(*CONTAINER)), b"--json", b"-", b"--", b"true", b"\xff\xc3\x28\xed\xa0\x80"],
                             capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    check_report(json.loads(process.stdout.decode()))


def test_report_says_what_was_used(box):
    done, report = box.report("--", "sh", "-c", "head -c 3000000 /dev/zero > /f; python3 -c 'x=b\"y\"*(30<<20); sum(range(3000000))'")
    usage = report["usage"]
    assert usage["cpu_us"] > 10000 and usage["memory_peak_bytes"] > 30 << 20 and usage["written_bytes"] >= 3000000
    assert usage["pids_peak"] >= 3
    assert report["total_us"] >= report["timings_us"]["run"] > 0


def test_report_names_variables_but_not_their_values(box):
    done, report = box.report("--env", "API_KEY=hunter2", "--", "true")
    assert "API_KEY" in report["grants"]["env"]
    assert "hunter2" not in json.dumps(report) and "hunter2" not in box.ward("audit", "show", "--json").stdout


@pytest.mark.parametrize("cause", sorted(ENDS))
def test_one_line_for_each_end(box, cause):
    """Ends that the status alone explains are silent; the others have a line; --quiet has none, but for failures."""
    args, script = ENDS[cause]
    script = f"exec 2>/dev/null; {script}"  # the shell has words of its own for some ends
    quiet = box("--quiet", *args, "--", "sh", "-c", script)
    loud = box(*args, "--", "sh", "-c", script)
    assert loud.returncode == quiet.returncode
    if cause in ("exited", "signaled"):
        assert loud.stderr == quiet.stderr == ""
    else:
        assert loud.stderr.count("\n") == 1 and loud.stderr.startswith("ward run: ") and cause in loud.stderr, loud.stderr
        if cause != "setup-failed":
            assert quiet.stderr == ""


# As an ordinary user.

def test_keep_nothing_when_set_up_failed(box):
    before = kept(box)
    done, report = box.report("--keep", "--user", "nosuchuser", "--", "true")
    assert report["cause"] == "setup-failed" and report["kept"] is False
    assert kept(box) == before


def test_quiet_does_not_hide_failures(box):
    one_line(box("--quiet", "--user", "nosuchuser", "--", "true"), "nosuchuser")
