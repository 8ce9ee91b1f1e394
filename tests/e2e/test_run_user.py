"""`ward run` as an ordinary user."""
import os
import subprocess

import pytest

from runbox import place, user_box  # noqa: F401
from runparts import CAP_BITS, ENDS, ROOT_CAPS, check_report, one_line, status_inside, tree  # noqa: F401
from wardtest import USER_ID


WARNING = "no cgroup is writable"


def warned_once(done):
    rest = [line for line in done.stderr.splitlines() if WARNING not in line]
    assert len(done.stderr.splitlines()) == len(rest) + 1, done.stderr
    return rest


def test_ordinary_user_runs(user_box):
    done, report = user_box.report("--", "sh", "-c", "id -u; pwd; echo x > /tmp/f; cat /tmp/f; exit 3")
    assert (done.stdout, done.returncode) == ("0\n/\nx\n", 3)
    assert warned_once(done) == []
    check_report(report)


@pytest.mark.parametrize("option, value", [("--memory", "64M"), ("--pids", "50"), ("--cpus", "1"), ("--cpu-weight", "50")])
def test_ordinary_user_gets_no_limit_that_cannot_be_kept(user_box, option, value):
    done, report = user_box.report(option, value, "--", "true")
    one_line(done, "cgroup")
    assert (report["cause"], report["step"]) == ("setup-failed", "cgroup")


def test_ordinary_user_quiet(user_box):
    done = user_box("--quiet", "--", "true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("cause", ["exited", "signaled", "time-limit", "disk-limit", "output-limit", "denied", "setup-failed"])
def test_ordinary_user_ends(user_box, cause):
    args, script = ENDS[cause]
    done, report = user_box.report(*args, "--", "sh", "-c", script)
    check_report(report)
    assert report["cause"] == cause, (report, done.stderr)


def test_ordinary_user_mounts(user_box, tree):
    subprocess.run(["chown", "-R", f"{USER_ID}:{USER_ID}", tree], check=True)
    assert user_box.out("--mount", f"{tree}:/m", "--", "cat", "/m/file") == "content\n"
    assert user_box("--mount", f"{tree}:/m", "--", "touch", "/m/new").returncode == 1
    user_box.out("--mount", f"{tree}:/m:rw", "--", "sh", "-c", "echo mine > /m/new")
    assert os.stat(tree / "new").st_uid == USER_ID
    script = "echo changed > /m/file; rm /m/new; ls /m; cat /m/file"
    assert user_box.out("--mount", f"{tree}:/m:overlay", "--", "sh", "-c", script) == "file\nsub\nchanged\n"
    assert (tree / "file").read_text() == "content\n" and (tree / "new").exists()


def test_ordinary_user_cannot_mount_what_it_cannot_read(user_box, tree):
    (tree / "private").mkdir(mode=0o700)
    (tree / "private" / "key").write_text("key")
    done = user_box("--mount", f"{tree}/private:/m", "--", "cat", "/m/key")
    assert done.returncode != 0 and "key" not in done.stdout
    one = user_box("--mount", f"{tree}/private/key:/m", "--", "cat", "/m")
    assert one.returncode == 125 and one.stdout == ""


def test_ordinary_user_capabilities(user_box):
    status = status_inside(user_box)
    want = sum(1 << CAP_BITS[name] for name in ROOT_CAPS)
    assert int(status["CapEff"], 16) | want == want and int(status["CapBnd"], 16) == want


def test_ordinary_user_terminal_and_keep(user_box):
    done = user_box("-t", "--", "sh", "-c", "tty; read x; echo got $x", input="typed\n")
    assert "got typed" in done.stdout
    done, report = user_box.report("--keep", "--", "sh", "-c", "echo x > /f")
    assert (user_box.state / "boxes" / report["id"] / "upper" / "f").read_text() == "x\n"
    assert user_box.ward("rm", "--all").returncode == 0
