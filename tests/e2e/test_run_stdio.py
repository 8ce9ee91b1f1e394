"""stdin, stdout and stderr of `ward run`: pipes, files, sockets, and who goes away first."""
import hashlib
import json
import os
import pty
import signal
import socket
import subprocess
import time

import pytest

from runbox import CONTAINER, box, ends, needs_root, place, read_until  # noqa: F401
from runparts import read_all


# stdin, stdout and stderr.

def run_raw(box, *args, **options):
    """Bytes instead of text; nothing is set up that the caller did not ask for."""
    return subprocess.run(box.argv(*CONTAINER, *args), env=box.env(), timeout=60, **options)


def test_pipes(box):
    done = box("--", "sh", "-c", "cat; echo err >&2", input="hello\n")
    assert (done.stdout, done.stderr, done.returncode) == ("hello\n", "err\n", 0)


def test_files(box, place):
    (place / "in").write_text("from a file\n")
    with open(place / "in") as stdin, open(place / "out", "w") as out, open(place / "err", "w") as err:
        run_raw(box, "--", "sh", "-c", "cat; echo err >&2", stdin=stdin, stdout=out, stderr=err)
        assert os.lseek(stdin.fileno(), 0, os.SEEK_CUR) == 12, "the offset is shared with the caller"
    assert (place / "out").read_text() == "from a file\n" and (place / "err").read_text() == "err\n"


def test_append_to_a_file(box, place):
    path = place / "log"
    for i in range(3):
        with open(path, "a") as out:
            run_raw(box, "--", "echo", str(i), stdout=out, stdin=subprocess.DEVNULL)
    assert path.read_text() == "0\n1\n2\n"


def test_stdin_file_is_not_writable_from_inside(box, place):
    path = place / "in"
    path.write_text("precious\n")
    path.chmod(0o666)
    with open(path) as stdin:
        done = run_raw(box, "--", "sh", "-c", "(echo no > /proc/self/fd/0) 2>/dev/null; (echo no > /dev/stdin) 2>/dev/null;"
                       "truncate -s 0 /dev/stdin; chmod 777 /proc/self/fd/0; true", stdin=stdin, capture_output=True)
    assert done.returncode == 0
    assert path.read_text() == "precious\n" and path.stat().st_mode & 0o7777 == 0o666


def test_dev_null(box):
    done = run_raw(box, "--", "sh", "-c", "cat; echo x; echo y >&2", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    assert done.returncode == 0


def test_sockets(box):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(box.argv(*CONTAINER, "--", "sh", "-c", "read x; echo got $x; read y; echo and $y"),
                                   stdin=theirs, stdout=theirs, stderr=subprocess.PIPE)
        with ends(process):
            ours.sendall(b"one\n")
            assert ours.recv(100) == b"got one\n"
            ours.sendall(b"two\n")
            assert ours.recv(100) == b"and two\n"
        assert process.returncode == 0


@pytest.mark.parametrize("kind", ["file", "pipe", "socket", "pty"])
def test_lines_keep_their_order(box, place, kind):
    script = "i=0; while [ $i -lt 200 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
    want = "".join(f"o{i}\ne{i}\n" for i in range(200))
    if kind == "file":
        with open(place / "both", "w") as both:
            run_raw(box, "--", "sh", "-c", script, stdout=both, stderr=both, stdin=subprocess.DEVNULL)
        got = (place / "both").read_text()
    elif kind == "pipe":
        got = box("--", "sh", "-c", script, stderr=subprocess.STDOUT).stdout
    else:
        near, far = pty.openpty() if kind == "pty" else (s.detach() for s in socket.socketpair())
        process = subprocess.Popen(box.argv(*CONTAINER, "--", "sh", "-c", script), stdin=subprocess.DEVNULL, stdout=far,
                                   stderr=far)
        os.close(far)
        with ends(process):
            got = read_all(near).decode().replace("\r\n", "\n")
        os.close(near)
    assert got == want


def loop_script(box, body="true"):
    command = " ".join(box.argv(*CONTAINER, "--", body))
    return f"while read line; do echo \"got $line\"; {command}; done"


@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_while_read_loop_keeps_its_input(box, place, kind):
    text = b"".join(b"line %d\n" % i for i in range(5))
    want = b"".join(b"got line %d\n" % i for i in range(5))
    if kind == "pipe":
        done = subprocess.run(["sh", "-c", loop_script(box)], input=text, capture_output=True, timeout=60)
    else:
        (place / "in").write_bytes(text)
        with open(place / "in", "rb") as stdin:
            done = subprocess.run(["sh", "-c", loop_script(box)], stdin=stdin, capture_output=True, timeout=60)
    assert (done.stdout, done.stderr) == (want, b"")


def test_while_read_loop_keeps_its_input_from_a_fifo(box, place):
    fifo = place / "fifo"
    os.mkfifo(fifo)
    with ends(subprocess.Popen(["sh", "-c", f"printf '1\\n2\\n3\\n' > {fifo}"])):
        done = subprocess.run(["sh", "-c", f"{{ {loop_script(box)}; }} < {fifo}"], capture_output=True, text=True, timeout=60)
    assert done.stdout == "got 1\ngot 2\ngot 3\n"

BIG = 100 << 20


@pytest.mark.slow
@pytest.mark.parametrize("through", ["pipe", "file"])
def test_large_data_both_ways(box, place, through):
    block = os.urandom(1 << 20)
    want = hashlib.sha256(block * (BIG >> 20)).hexdigest()
    (place / "in").write_bytes(block * (BIG >> 20))
    with open(place / "in", "rb") as stdin, open(place / "out", "wb") as out:
        if through == "file":
            done = run_raw(box, "--", "cat", stdin=stdin, stdout=out, stderr=subprocess.PIPE)
            assert done.returncode == 0, done.stderr
        else:
            feeder = subprocess.Popen(["cat"], stdin=stdin, stdout=subprocess.PIPE)
            process = subprocess.Popen(box.argv(*CONTAINER, "--", "cat"), stdin=feeder.stdout, stdout=subprocess.PIPE)
            feeder.stdout.close()
            with ends(feeder), ends(process):
                while data := process.stdout.read(1 << 20):
                    out.write(data)
            assert process.returncode == 0
    digest = hashlib.sha256()
    with open(place / "out", "rb") as out:
        while data := out.read(1 << 20):
            digest.update(data)
    assert digest.hexdigest() == want


@pytest.mark.parametrize("args", [(), ("--output-limit", "1G")], ids=["direct", "relayed"])
def test_slow_reader_gets_everything(box, args):
    process = subprocess.Popen(box.argv(*CONTAINER, *args, "--", "sh", "-c", "seq 1 50000"), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, bufsize=0)
    with ends(process):
        got = b""
        while data := process.stdout.read(4000):
            got += data
            if len(got) % 5 == 0:
                time.sleep(0.002)
    assert got == b"".join(b"%d\n" % i for i in range(1, 50001)) and process.returncode == 0


@pytest.mark.parametrize("args", [(), ("--output-limit", "1G")], ids=["direct", "relayed"])
def test_reader_that_goes_away(box, place, args):
    process = subprocess.Popen(box.argv(*CONTAINER, *args, "--json", place / "report", "--", "yes"),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with ends(process):
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        process.wait(30)
        process.stdout = None
    report = json.loads((place / "report").read_text())
    assert (process.returncode, report["cause"], report["signal"]) == (141, "signaled", signal.SIGPIPE)


def test_output_that_cannot_be_written_is_told(box):
    with open("/dev/full", "w") as full:
        done = box("--", "sh", "-c", "echo lost", stdout=full)
    assert done.returncode != 0 and "No space left" in done.stderr and done.stderr.count("\n") == 1


def test_writer_that_goes_away_is_an_end_of_file(box):
    process = subprocess.Popen(box.argv(*CONTAINER, "--", "sh", "-c", "cat; echo end"), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE)
    with ends(process):
        process.stdin.write(b"x\n")
        process.stdin.close()
        process.stdin = None
        assert process.stdout.read() == b"x\nend\n"


def test_the_end_does_not_wait_for_stdin(box):
    process = subprocess.Popen(box.argv(*CONTAINER, "--", "echo", "done"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with ends(process):
        assert process.stdout.read() == b"done\n"
        assert process.wait(30) == 0


def test_the_end_does_not_wait_for_a_background_process(box):
    """Its output pipe is held open by an orphan, which dies with the sandbox."""
    done = box("--", "sh", "-c", "(sleep 600; echo late) & echo now", timeout=60)
    assert (done.stdout, done.returncode) == ("now\n", 0)


def test_open_by_name(box):
    script = "echo a > /dev/stdout; echo b > /dev/stderr; cat /dev/stdin; echo c > /dev/fd/1"
    done = box("--", "sh", "-c", script, input="in\n")
    assert (done.stdout, done.stderr) == ("a\nin\nc\n", "b\n")


def test_other_descriptors_stay_outside(box, place):
    (place / "secret").write_text("secret")
    with open(place / "secret") as secret:
        os.set_inheritable(secret.fileno(), True)
        done = subprocess.run(box.argv(*CONTAINER, "--", "sh", "-c", "ls -l /proc/self/fd /proc/1/fd 2>/dev/null"), pass_fds=[secret.fileno()],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert "secret" not in done.stdout and "4 ->" not in done.stdout


# As an ordinary user.

@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)], ids=str)
def test_closed_descriptors(box, place, closed):
    """Nothing of ward's own takes the place of what is closed."""
    script = "for f in 0 1 2; do [ -e /proc/self/fd/$f ] || exit 9; done; cat; echo out; echo err >&2; exit 5"
    shell = " ".join(f"{fd}{'<' if fd == 0 else '>'}&-" for fd in closed)
    command = box.argv(*CONTAINER, "--json", place / "report", "--", "sh", "-c", script)
    quoted = " ".join("'" + word.replace("'", "'\\''") + "'" for word in command)
    done = subprocess.run(["sh", "-c", f"exec {quoted} {shell}"], input=b"in\n", capture_output=True, timeout=60)
    assert done.returncode == 5, done
    assert done.stdout == (b"" if 1 in closed else b"out\n" if 0 in closed else b"in\nout\n")
    assert done.stderr == (b"" if 2 in closed else b"err\n")
    assert json.loads((place / "report").read_text())["cause"] == "exited"


@needs_root
def test_two_runs_on_one_pipe(box):
    near, far = os.pipe()
    first = box.start("--", "sh", "-c", "read go; echo one > /dev/stdout", stdin=subprocess.PIPE, stdout=far)
    second = box.start("--", "sh", "-c", "echo two > /dev/stdout; read go", stdin=subprocess.PIPE, stdout=far)
    os.close(far)
    with os.fdopen(near, "rb", 0) as out, ends(first), ends(second):
        read_until(out, b"two\n")
        for process in (first, second):
            process.stdin.write(b"go\n")
            process.stdin.flush()
        assert out.read() == b"one\n"
    assert (first.returncode, second.returncode) == (0, 0)
