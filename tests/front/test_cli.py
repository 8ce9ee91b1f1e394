"""The commands that talk to the daemon."""
import json
import os
import pty
import subprocess
import time

import pytest

from wardtest import BINARY


@pytest.fixture(scope="module")
def box(daemon):
    done = daemon.ward("create", "--timeout", "10m", "--env", "FROM=create", "--metadata", "k=v")
    assert done.returncode == 0, done
    yield done.stdout.strip()
    daemon.ward("kill", done.stdout.strip())


def out(done, status=0):
    assert done.returncode == status, done
    return done.stdout


def test_without_a_daemon(tmp_path):
    for args in (["create"], ["exec", "aaaaaaaaaaaa", "true"], ["kill", "aaaaaaaaaaaa"], ["pause", "a"], ["resume", "a"], ["top"], ["logs", "a"],
                 ["cp", "/etc/hostname", "a:x"]):
        done = subprocess.run([BINARY, "--state-dir", tmp_path, *args], capture_output=True, text=True)
        assert done.returncode == 125 and done.stdout == ""
        assert done.stderr == f"ward {args[0]}: no daemon runs on {tmp_path}; start one with 'ward serve'\n"
    assert subprocess.run([BINARY, "--state-dir", tmp_path, "ls"], capture_output=True).returncode == 0


def test_create_says_all(daemon):
    told = json.loads(out(daemon.ward("create", "--json", "--memory", "64M", "--cpus", "0.5", "--pids", "33", "--metadata", "a=b=c")))
    assert told["state"] == "running" and told["tier"] == "container" and told["metadata"] == {"a": "b=c"}
    assert told["limits"]["memory"] == 64 << 20 and told["limits"]["cpu_milli"] == 500 and told["limits"]["pids"] == 33
    out(daemon.ward("kill", told["id"]))


@pytest.mark.parametrize("args, says", [
    (["create", "--timeout", "x"], "--timeout takes"), (["create", "--env", "x"], "NAME=VALUE"), (["create", "--nope"], "'--nope' is not accepted"),
    (["create", "--template", "none-such"], "none-such"), (["create", "--tier", "odd"], "'tier'"), (["create", "--on-timeout", "x"], "kill or pause"),
    (["exec"], "which command"), (["exec", "UPPER", "x"], "is no sandbox id"), (["exec", "aaaaaaaaaaaa", "x"], "aaaaaaaaaaaa"),
    (["kill"], "which sandbox"), (["kill", "aaaaaaaaaaaa"], "aaaaaaaaaaaa"), (["cp", "a", "b"], "one side"), (["cp", "x"], "from where"),
    (["snapshot"], "which sandbox"), (["snapshot", "rm", "none"], "no template or snapshot 'none'"), (["snapshot", "rm", "a b"], "is no snapshot"),
    (["restore"], "which snapshot"), (["restore", "none"], "no template or snapshot 'none'"), (["fork", "-n", "0", "a"], "--count takes"),
    (["fork", "aaaaaaaaaaaa"], "aaaaaaaaaaaa"), (["logs"], "which sandbox"), (["top", "x"], "is not accepted"), (["resume", "--timeout", "x", "a"], "--timeout takes"),
])
def test_errors_are_one_line(daemon, args, says):
    done = daemon.ward(*args)
    assert done.returncode == 125 and done.stderr.count("\n") == 1 and says in done.stderr, done
    assert done.stderr.startswith(f"ward {args[0]}: ")


def test_snapshots_where_the_wall_has_none(daemon, box):
    for args in (["snapshot", box, "name"], ["fork", box]):
        done = daemon.ward(*args)
        assert done.returncode == 125 and done.stderr.count("\n") == 1 and "the container tier cannot snapshot a sandbox" in done.stderr, done
    assert json.loads(out(daemon.ward("snapshot", "ls", "--json"))) == [] and out(daemon.ward("snapshot", "ls")).startswith("ID ")
    assert out(daemon.ward("exec", box, "echo", "goes", "on")) == "goes on\n"


def test_exec(daemon, box):
    done = daemon.ward("exec", box, "sh", "-c", "echo out $FROM; echo err >&2; exit 3")
    assert (done.returncode, done.stdout, done.stderr) == (3, "out create\n", "err\n")
    assert out(daemon.ward("exec", "-e", "X=y z", "-w", "/tmp", box, "--", "sh", "-c", "echo $X; pwd")) == "y z\n/tmp\n"
    assert out(daemon.ward("exec", "-u", "user", box, "id", "-un")) == "user\n"
    assert daemon.ward("exec", box, "no-such-program").returncode == 127
    assert daemon.ward("exec", box, "/etc/hostname").returncode == 126
    assert daemon.ward("exec", box, "sh", "-c", "kill -9 $$").returncode == 137
    done = daemon.ward("exec", "--timeout", "300ms", box, "sh", "-c", "echo begun; sleep 60")
    assert done.returncode == 124 and done.stdout == "begun\n"
    assert done.stderr == "ward: the command was killed: the time of its --timeout was over\n"
    assert len(out(daemon.ward("exec", box, "sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' x"))) == 5000000


def test_exec_reads_stdin(daemon, box):
    assert out(daemon.ward("exec", "-i", box, "cat", input="one\ntwo")) == "one\ntwo"
    big = "x" * 3_000_000
    assert out(daemon.ward("exec", "-i", box, "wc", "-c", input=big)).strip() == "3000000"
    assert out(daemon.ward("exec", box, "cat", input="not read")) == ""
    assert daemon.ward("exec", "-i", box, "true", input=big).returncode == 0


def test_exec_on_a_terminal(daemon, box):
    leader, follower = pty.openpty()
    process = subprocess.Popen([BINARY, "--state-dir", daemon.state, "exec", "-t", box, "sh", "-c", "tty; read x; echo got $x"],
                               stdin=follower, stdout=follower, stderr=follower)
    os.close(follower)
    seen = b""
    while b"/dev/pts/" not in seen:
        seen += os.read(leader, 4096)
    os.write(leader, b"hello\r")
    while b"got hello" not in seen:
        seen += os.read(leader, 4096)
    assert process.wait(timeout=20) == 0
    os.close(leader)


def test_exec_passes_signals_on(daemon, box):
    process = subprocess.Popen([BINARY, "--state-dir", daemon.state, "exec", box, "sh", "-c", "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done"],
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(2)
    assert process.stdout.read() == "caught\n" and process.wait(timeout=20) == 5


def test_detach_and_logs(daemon, box):
    pid = out(daemon.ward("exec", "-d", box, "sh", "-c", "for i in 1 2 3; do echo line $i; done; sleep 1; echo last; exit 6")).strip()
    deadline = time.monotonic() + 10
    while "line 3" not in out(daemon.ward("logs", box, pid)):
        assert time.monotonic() < deadline
    done = daemon.ward("logs", "--follow", box, pid)
    assert (done.returncode, done.stdout) == (6, "line 1\nline 2\nline 3\nlast\n")
    assert daemon.ward("logs", box, "99999").returncode == 125


def test_cp(daemon, box, tmp_path):
    data = os.urandom(3_000_001)
    (tmp_path / "a").write_bytes(data)
    out(daemon.ward("cp", tmp_path / "a", f"{box}:/tmp/deep/er/b"))
    out(daemon.ward("cp", f"{box}:/tmp/deep/er/b", tmp_path))
    assert (tmp_path / "b").read_bytes() == data
    out(daemon.ward("cp", "-", f"{box}:small", input="small"))
    assert out(daemon.ward("cp", f"{box}:small", "-")) == "small"
    assert daemon.ward("cp", f"{box}:/no/where", tmp_path / "c").returncode == 125
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"], "what failed leaves nothing"
    assert "is a directory" in daemon.ward("cp", tmp_path, f"{box}:x").stderr
    assert daemon.ward("cp", f"{box}:/tmp", tmp_path / "d").returncode == 125


def test_life(daemon):
    box = out(daemon.ward("create")).strip()
    assert any(row["id"] == box and row["state"] == "running" for row in json.loads(out(daemon.ward("ls", "--json"))))
    assert box in out(daemon.ward("ls"))
    out(daemon.ward("pause", box))
    assert "is paused already" in daemon.ward("pause", box).stderr
    assert "resume it first" in daemon.ward("exec", box, "--", "true").stderr
    assert any(row["id"] == box and row["state"] == "paused" for row in json.loads(out(daemon.ward("ls", "--json"))))
    assert json.loads(out(daemon.ward("resume", "--json", "--timeout", "5m", box)))[0]["state"] == "running"
    assert any(row["id"] == box and row["usage"] for row in json.loads(out(daemon.ward("top", "--json"))))
    assert box in out(daemon.ward("top"))
    out(daemon.ward("kill", box))
    assert daemon.ward("kill", box).returncode == 125
    assert "killed" in out(daemon.ward("why", box))


def test_tenants(daemon):
    box = out(daemon.ward("create", "--tenant", "other")).strip()
    assert out(daemon.ward("exec", "--tenant", "other", box, "echo", "x")) == "x\n"
    out(daemon.ward("kill", "--tenant", "other", box))


def test_ls_lists_both_kinds(daemon):
    process = subprocess.Popen([BINARY, "--state-dir", daemon.state, "run", "--tier", "container", "--", "sh", "-c", "echo up; read x"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout.readline() == "up\n"
    box = out(daemon.ward("create")).strip()
    rows = json.loads(out(daemon.ward("ls", "--json")))
    assert sum(row["id"] == box for row in rows) == 1
    assert any(row["command"][:1] == ["sh"] for row in rows)
    out(daemon.ward("kill", box))
    process.communicate("\n", timeout=20)
