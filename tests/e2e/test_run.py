"""Every option of `ward run` at the container tier, its bad values, and what passes through."""
import fcntl
import hashlib
import json
import os
import pathlib
import pty
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest

from leftovers import state_files
from runbox import (CAUSES, CONTAINER, Box, box, ends, needs_root, place, read_until, user_box,  # noqa: F401
                    wait_until)
from wardtest import BINARY, USER_ID, Ward

ROOT_CAPS = ["chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "net_bind_service",
             "sys_chroot"]
CAP_BITS = {"chown": 0, "dac_override": 1, "fowner": 3, "fsetid": 4, "kill": 5, "setgid": 6, "setuid": 7, "setpcap": 8,
            "net_bind_service": 10, "sys_chroot": 18}

# Bad input: option, value, what the line must say.

LONG = "x" * 5000
BAD = [
    ("--tier", "", "auto, workspace, container"),
    ("--tier", "Container", "auto, workspace, container"),
    ("--tier", "containers", "auto, workspace, container"),
    ("--memory", "", "1M or more"), ("--memory", "0", "1M or more"), ("--memory", "1023K", "1M or more"),
    ("--memory", "-1", "1M or more"), ("--memory", "1e9", "1M or more"), ("--memory", "1 G", "1M or more"),
    ("--memory", "18446744073709551616", "1M or more"), ("--memory", "99999999999T", "1M or more"),
    ("--memory", "1GG", "1M or more"), ("--memory", "+5M", "1M or more"), ("--memory", " 5M", "1M or more"),
    ("--memory", "0x100000", "1M or more"), ("--memory", LONG, "1M or more"),
    ("--disk", "", "64K or more"), ("--disk", "63K", "64K or more"), ("--disk", "-5G", "64K or more"),
    ("--disk", "lots", "64K or more"), ("--disk", "2000P", "64K or more"),
    ("--cpus", "", "0.01 to 1024"), ("--cpus", "0", "0.01 to 1024"), ("--cpus", "0.001", "0.01 to 1024"),
    ("--cpus", "1025", "0.01 to 1024"), ("--cpus", "1.2.3", "0.01 to 1024"), ("--cpus", "-1", "0.01 to 1024"),
    ("--cpus", "nan", "0.01 to 1024"), ("--cpus", "inf", "0.01 to 1024"), ("--cpus", "1,5", "0.01 to 1024"),
    ("--cpu-weight", "0", "1 to 10000"), ("--cpu-weight", "10001", "1 to 10000"), ("--cpu-weight", "1.5", "1 to 10000"),
    ("--pids", "", "2 to 4194304"), ("--pids", "1", "2 to 4194304"), ("--pids", "4194305", "2 to 4194304"),
    ("--pids", "-2", "2 to 4194304"), ("--pids", "1K", "2 to 4194304"),
    ("--timeout", "", "500ms, 30s"), ("--timeout", "0", "500ms, 30s"), ("--timeout", "-1s", "500ms, 30s"),
    ("--timeout", "5 s", "500ms, 30s"), ("--timeout", "1y", "500ms, 30s"), ("--timeout", "99999999999h", "500ms, 30s"),
    ("--output-limit", "", "64K or 10M"), ("--output-limit", "0", "64K or 10M"), ("--output-limit", "-1", "64K or 10M"),
    ("--env", "", "NAME=VALUE"), ("--env", "NAME", "NAME=VALUE"), ("--env", "=x", "NAME=VALUE"),
    ("--env", "1A=x", "NAME=VALUE"), ("-e", "NAME", "NAME=VALUE"),
    ("--workdir", "", "absolute path"), ("--workdir", "tmp", "absolute"), ("--workdir", "/tmp/../etc", "absolute path"),
    ("--workdir", "/./tmp", "absolute path"), ("--workdir", "//tmp", "absolute path"), ("-w", "tmp", "absolute"),
    ("--workdir", "/" + LONG, "absolute path"),
    ("--mount", "", "SRC:DST"), ("--mount", "/usr", "SRC:DST"), ("--mount", "/usr:", "SRC:DST"), ("--mount", ":/x", "SRC:DST"),
    ("--mount", "/usr:/x:wr", "SRC:DST"), ("--mount", "/usr:/x:ro:rw", "SRC:DST"), ("--mount", "/usr:/x:", "SRC:DST"),
    ("--mount", "/no/such/thing:/x", "No such file"), ("--mount", "/usr:x", "absolute path"),
    ("--mount", "/usr:/x/../y", "absolute path"), ("--mount", "/usr:/x/./y", "absolute path"), ("--mount", "/usr:/", "not /"),
    ("--mount", "/usr:/proc", "/proc"), ("--mount", "/usr:/proc/sys", "/proc"), ("--mount", "/usr:/dev", "/dev"),
    ("--mount", "/usr:/dev/shm", "/dev"), ("--mount", "/usr:/sys", "/sys"), ("--mount", "/usr:/sys/fs/cgroup", "/sys"),
    ("--mount", "/dev/null:/x", "directory or a file"), ("--mount", "/etc/passwd:/x:overlay", "directory"),
    ("--mount", f"/usr:/{LONG}", "SRC:DST"),
    ("-v", "/usr", "SRC:DST"),
    ("--user", "", "NAME"), ("--user", "a b", "NAME"), ("--user", "1000:", "NAME"), ("--user", ":5", "NAME"),
    ("--user", "65536", "0 to 65535"), ("--user", "99999999999999999999", "0 to 65535"), ("--user", "../x", "NAME"),
    ("--user", "x" * 65, "NAME"), ("-u", "", "NAME"),
    ("--net", "", "none, loopback or host"), ("--net", "bridge", "none, loopback or host"),
    ("--net", "HOST", "none, loopback or host"),
    ("--upper", "", "auto, tmpfs or disk"), ("--upper", "ram", "auto, tmpfs or disk"),
    ("--template", "", "host, a directory"),
    ("--accept-risk", "", "reason"), ("--accept-risk", "  ", "reason"),
    ("--json", "", "a file"),
    ("--code", "", "generated"), ("--code", "evil", "generated"),
    ("--tenants", "three", "many"), ("--data", "secret", "sensitive"), ("--load", "heavy", "compute"),
]


def one_line(done, *words):
    """ward refused: status 125, nothing on stdout, one line on stderr that has all the words."""
    assert done.returncode == 125, done
    assert done.stdout == "", done
    assert done.stderr.endswith("\n") and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("ward run: "), done.stderr
    for word in words:
        assert word in done.stderr, (word, done.stderr)
    assert all(c == "\n" or c.isprintable() for c in done.stderr), repr(done.stderr)


def test_bad_values(ward, state):
    for option, value, accepts in BAD:
        done = ward("run", "--tier", "container", option, value, "--", "true")
        name = {"-e": "--env", "-w": "--workdir", "-v": "--mount", "-u": "--user"}.get(option, option)
        one_line(done, name, accepts)
        if option.startswith("--"):
            assert ward("run", "--tier", "container", f"{option}={value}", "--", "true").stderr == done.stderr
    assert not state.exists(), "something was made for a bad value"


@pytest.mark.parametrize("words, says", [
    ([], "no command"),
    (["--tier", "container"], "no command"),
    (["--tier", "container", "--"], "no command"),
    (["--tier"], "--tier needs a value"),
    (["--memory"], "--memory needs a value"),
    (["-e"], "--env needs a value"),
    (["--tty=yes", "true"], "--tty takes no value"),
    (["--keep=1", "true"], "--keep takes no value"),
    (["--gpu=yes", "true"], "--gpu takes no value"),
    (["--nonsense", "true"], "'--nonsense' is not an option"),
    (["--memory-limit=5M", "true"], "'--memory-limit=5M' is not an option"),
    (["-x", "true"], "'-x' is not an option"),
    (["-tq", "true"], "'-tq' is not an option"),
    (["--" + "x" * 3000, "true"], "is not an option"),
    (["--=x", "true"], "is not an option"),
])
def test_bad_words(ward, state, words, says):
    one_line(ward("run", *words), says)
    assert not state.exists()


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\x1b[31mred", "a\x07b", "\x7f"])
def test_control_bytes_in_a_value_stay_on_one_line(ward, state, value):
    for option in ("--tier", "--memory", "--mount", "--env", "--net", "--workdir", "--user", "--nonsense"):
        one_line(ward("run", "--tier", "container", option, value, "--", "true"), option)
    assert not state.exists()


def test_too_many(ward, state):
    one_line(ward("run", *["--mount", "/usr:/x"] * 33, "--", "true"), "--mount", "32")
    one_line(ward("run", *["--env", "A=b"] * 1025, "--", "true"), "--env", "1024")
    assert not state.exists()


def test_missing_template(ward):
    for spec in ("/no/such/dir", "dir:/no/such/dir", "dir:/etc/passwd", "./nowhere"):
        one_line(ward("run", "--tier", "container", "--template", spec, "--", "true"), spec.removeprefix("dir:"))


def test_policy_refuses_and_nothing_is_made(ward, state):
    one_line(ward("run", "--tier", "container", "--tenants", "many", "--", "true"), "--accept-risk")
    one_line(ward("run", "--tier", "vm", "--", "true"), "vm")
    assert not state_files(state)


def test_unwritable_state_directory(place):
    blocker = place / "file"
    blocker.write_text("")
    one_line(Ward(BINARY, blocker / "state")("run", "--tier", "container", "--", "true"), str(blocker))


def test_help_is_not_a_run(ward, state):
    for words in (["--help"], ["-h"], ["--tier", "container", "--help"]):
        done = ward("run", *words)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("Usage: ward run")
    assert ward("run", "--tier", "container", "--", "sh", "-c", "echo $1", "sh", "--help").stdout == "--help\n"


def test_options_end_at_the_command(box):
    assert box.out("sh", "-c", "echo $*", "sh", "-t", "--memory", "--") == "-t --memory --\n"
    assert box.out("--", "sh", "-c", "echo $*", "--", "--", "-t") == "-- -t\n"
    assert box.out("--memory=64M", "-e", "A=1", "--env=B=2=3", "sh", "-c", "echo $A $B") == "1 2=3\n"


# Exit statuses.

@pytest.mark.parametrize("script, status", [
    ("exit 0", 0), ("exit 1", 1), ("exit 42", 42), ("exit 124", 124), ("exit 125", 125), ("exit 126", 126),
    ("exit 127", 127), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -INT $$", 130),
    ("kill -SEGV $$", 139), ("kill -ABRT $$", 134), ("kill -PIPE $$", 141), ("kill -USR1 $$", 138),
    ("kill -64 $$", 192), ("exec /nonexistent", 127), ("exec /etc/passwd", 126),
])
def test_exit_status(box, script, status):
    done, report = box.report("--", "sh", "-c", script)
    assert done.returncode == report["exit_status"] == status
    if "kill" in script:
        assert (report["cause"], report["signal"]) == ("signaled", status - 128)
        assert "code" not in report
    else:
        assert (report["cause"], report["code"]) == ("exited", status)
        assert "signal" not in report
    assert "ward run" not in done.stderr


@pytest.mark.parametrize("command, status, says", [
    ("no-such-command", 127, "no-such-command"),
    ("/no/such/file", 127, "/no/such/file"),
    ("/usr/no\nsuch", 127, "/usr/no?such"),
    ("/etc/passwd", 126, "/etc/passwd"),
    ("/etc", 126, "/etc"),
    ("/etc/passwd/x", 127, "/etc/passwd/x"),
    ("", 127, "''"),
    ("/" + "x" * 300, 126, "x" * 100),
])
def test_not_started(box, command, status, says):
    done, report = box.report("--", command)
    assert done.returncode == report["exit_status"] == status
    assert report["cause"] == "exited" and report["code"] == status and report["detail"]
    assert len(done.stderr.splitlines()) == 1 and says in done.stderr


def test_wrong_interpreter_and_binary(box, place):
    for name, text in (("script", "#!/no/such/interpreter\n"), ("empty", ""), ("noise", "\x7fELF garbage")):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    mount = ["--mount", f"{place}:/p"]
    assert box(*mount, "--", "/p/script").returncode in (126, 127)
    # What execve() does not know is given to sh, as env(1) and shells do.
    assert box(*mount, "--", "/p/noise").returncode in (126, 127)
    assert box(*mount, "--", "/p/empty").returncode == 0


def test_time_limit_is_124(box):
    done, report = box.report("--timeout", "200ms", "--", "sleep", "600")
    assert (done.returncode, report["cause"]) == (124, "time-limit")


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


# A terminal.

class Terminal:
    """ward on a terminal of its own, as somebody sits in front of it."""

    def __init__(self, box, *args, rows=33, cols=101):
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
                os.execve(str(box.binary), box.argv(*CONTAINER, *args), {"TERM": "vt220", "PATH": "/usr/bin:/bin"})
            finally:
                os._exit(99)
        self.before = termios.tcgetattr(self.master)
        self.shown, self.status = b"", None

    def type(self, data):
        os.write(self.master, data)

    def resize(self, rows, cols):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def expect(self, text, seconds=20):
        end = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < end, f"{text!r} was not shown: {self.shown!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:
                    data = b""
                assert data, f"the terminal closed before {text!r}: {self.shown!r}"
                self.shown += data
        self.shown = self.shown.split(text, 1)[1]

    def mode(self):
        return termios.tcgetattr(self.master)

    def wait(self, seconds=30):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                return self.status
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    self.shown += os.read(self.master, 65536)
                except OSError:
                    pass
        pytest.fail(f"ward did not end; shown: {self.shown!r}")

    def close(self):
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.master)


@pytest.fixture
def terminal(box):
    made = []

    def make(*args, **options):
        made.append(Terminal(box, *args, **options))
        return made[-1]

    yield make
    for t in made:
        t.close()


def test_terminal_size_and_resize(terminal):
    t = terminal("-t", "--", "sh", "-c", "stty size; trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.1; done")
    t.expect(b"33 101")
    t.expect(b"ready")
    t.resize(50, 160)
    t.expect(b"50 160")
    assert t.wait() == 0


def test_terminal_is_a_terminal(terminal):
    t = terminal("-t", "--", "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && tty && echo TERM=$TERM && ls -l $(tty)"
                 " && : > /dev/tty && echo fine")
    t.expect(b"/dev/pts/0")
    t.expect(b"TERM=vt220")
    t.expect(b"fine")
    assert t.wait() == 0


def test_terminal_is_raw_meanwhile_and_restored(terminal):
    t = terminal("-t", "--", "sh", "-c", "echo ready; read x; exit 3")
    t.expect(b"ready")
    wait_until(lambda: not t.mode()[3] & (termios.ICANON | termios.ECHO | termios.ISIG), what="raw mode")
    t.type(b"hello\r")
    assert t.wait() == 3
    assert t.shown.count(b"hello") == 1, "echoed once, by the terminal inside"


@pytest.mark.parametrize("end", ["exit 0", "kill -9 $$", "sleep 1000"])
def test_terminal_mode_is_put_back(box, end):
    """Seen from a shell that goes on after ward, whatever the end was."""
    command = " ".join(box.argv(*CONTAINER, "-t", "--timeout", "1s", "--", "sh", "-c", f"'{end}'"))
    script = f"before=$(stty -g); {command}; [ \"$before\" = \"$(stty -g)\" ] && echo SAME || echo DIFFERENT"
    pid, master = pty.fork()
    if pid == 0:
        os.execv("/bin/sh", ["sh", "-c", script])
    shown = read_all(master)
    os.waitpid(pid, 0)
    os.close(master)
    assert b"SAME" in shown and b"DIFFERENT" not in shown, shown


@pytest.mark.parametrize("key, status", [(b"\x03", 130), (b"\x1c", 131)], ids=["^C", "^\\"])
def test_terminal_keys(terminal, key, status):
    t = terminal("-t", "--", "sh", "-c", "echo ready; exec sleep 1000")
    t.expect(b"ready")
    wait_until(lambda: not t.mode()[3] & termios.ISIG, what="raw mode")
    t.type(key)
    assert t.wait() == status


def test_terminal_end_of_file_key(terminal):
    t = terminal("-t", "--", "sh", "-c", "echo ready; cat; echo over")
    t.expect(b"ready")
    wait_until(lambda: not t.mode()[3] & termios.ICANON, what="raw mode")
    t.type(b"abc\r\x04")
    t.expect(b"over")
    assert t.wait() == 0


def test_terminal_large_output(terminal):
    t = terminal("-t", "--", "sh", "-c", "seq 1 20000; echo the-end")
    t.expect(b"20000\r\nthe-end", 40)
    assert t.wait() == 0


def test_interrupt_without_a_terminal_inside_arrives_once(terminal):
    code = ("import signal,time\nn=0\ndef f(*a):\n global n\n n+=1\nsignal.signal(signal.SIGINT,f)\nprint('ready',flush=True)\n"
            "end=time.time()+20\nwhile not n and time.time()<end: time.sleep(.05)\ntime.sleep(.5)\nprint('count',n,flush=True)")
    t = terminal("--", "python3", "-c", code)
    t.expect(b"ready")
    t.type(b"\x03")
    t.expect(b"count 1")
    assert t.wait() == 0


def test_terminal_asked_for_without_one_outside(box):
    done = box("-t", "--", "sh", "-c", "tty; read x; echo got $x", input="typed\n")
    assert done.returncode == 0, done
    assert "/dev/pts/0" in done.stdout and "got typed" in done.stdout


# Signals.

@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"])
def test_signal_reaches_the_command(box, name):
    process = box.start("--", "sh", "-c", f"trap 'echo caught; exit 7' {name}; echo up; while :; do sleep 0.05; done",
                        stdout=subprocess.PIPE, bufsize=0)
    with ends(process):
        read_until(process.stdout, b"up\n")
        process.send_signal(getattr(signal, "SIG" + name))
        read_until(process.stdout, b"caught\n")
        assert process.wait(30) == 7


@pytest.mark.parametrize("name", ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"])
def test_signal_that_ends_the_command(box, place, name):
    sig = getattr(signal, "SIG" + name)
    process = box.start("--json", place / "report", "--", "sh", "-c", "echo up; exec sleep 1000", stdout=subprocess.PIPE,
                        bufsize=0)
    with ends(process):
        read_until(process.stdout, b"up\n")
        process.send_signal(sig)
        assert process.wait(30) == 128 + sig
    report = json.loads((place / "report").read_text())
    assert (report["cause"], report["signal"]) == ("killed-by-operator", sig)


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_insisting_kills(box, place, name):
    process = box.start("--json", place / "report", "--", "sh", "-c",
                        f"trap 'echo caught' {name}; echo up; while :; do sleep 0.05; done", stdout=subprocess.PIPE,
                        bufsize=0)
    with ends(process):
        read_until(process.stdout, b"up\n")
        for _ in range(2):
            process.send_signal(getattr(signal, "SIG" + name))
            read_until(process.stdout, b"caught\n")
        assert process.poll() is None
        process.send_signal(getattr(signal, "SIG" + name))
        assert process.wait(30) == 128 + getattr(signal, "SIG" + name)
    report = json.loads((place / "report").read_text())
    assert report["cause"] == "killed-by-operator"


def test_polite_signals_are_not_insisting(box):
    process = box.start("--", "sh", "-c", "n=0; trap 'n=$((n+1)); echo n$n' USR1; echo up; while [ $n -lt 6 ]; do sleep 0.05; done",
                        stdout=subprocess.PIPE, bufsize=0)
    with ends(process):
        read_until(process.stdout, b"up\n")
        for i in range(1, 7):
            process.send_signal(signal.SIGUSR1)
            read_until(process.stdout, b"n%d\n" % i)
        assert process.wait(30) == 0


def test_early_signal_is_not_lost(box):
    """A signal while the sandbox is being made ends it too."""
    for delay in (0.0, 0.001, 0.002, 0.004, 0.008):
        process = box.start("--", "sleep", "1000", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with ends(process):
            time.sleep(delay)
            process.terminate()
            assert process.wait(30) in (-signal.SIGTERM, 128 + signal.SIGTERM)


# Environment, working directory, user.

def env_inside(box, *args, **options):
    return dict(item.split("=", 1) for item in box.out(*args, "--", "env", "-0", **options).split("\0") if item)


def test_environment_is_ours_alone(box):
    inside = env_inside(box, env={"SECRET_TOKEN": "x", "LD_PRELOAD": "", "PYTHONPATH": "/tmp", "LC_ALL": "C", "TERM": "vt100"})
    assert set(inside) <= {"PATH", "LANG", "HOME", "USER", "LOGNAME", "PWD", "SHLVL"}, inside
    assert inside["PATH"] == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert inside["LANG"] == "C.UTF-8"
    assert inside["HOME"] == "/root"


def test_environment_order_and_odd_values(box):
    odd = {"EMPTY": "", "SPACES": "  a  b ", "EQUALS": "a=b=c", "LINES": "one\ntwo", "UTF": "žluťoučký 🐎", "QUOTES": "'\"$`\\",
           "lower": "1", "A.B-C": "dots", "PATH": "/bin", "LANG": "de_DE", "HOME": "/tmp/h"}
    args = [word for name, value in odd.items() for word in ("--env", f"{name}={value}")]
    inside = env_inside(box, "-e", "EMPTY=first", "-e", "PATH=/nowhere", *args)
    for name, value in odd.items():
        assert inside[name] == value, name


def test_environment_that_is_not_text(box):
    process = subprocess.run([*map(os.fsencode, box.argv(*CONTAINER)), b"-e", b"RAW=\xff\xfe\x80", b"--", b"printenv", b"RAW"],
                             capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert process.stdout == b"\xff\xfe\x80\n", process


def test_large_environment_and_arguments(box):
    value = "v" * 100000
    assert box.out("-e", f"BIG={value}", "--", "sh", "-c", "echo ${#BIG} ${#1}", "sh", "a" * 100000) == "100000 100000\n"
    many = [word for i in range(900) for word in ("--env", f"N{i}=x")]
    assert box.out(*many, "--", "sh", "-c", "env | grep -c ^N") == "900\n"


def test_environment_path_finds_the_command(box, place):
    (place / "tool").write_text("#!/bin/sh\necho found $0\n")
    (place / "tool").chmod(0o755)
    assert box.out("--mount", f"{place}:/tools", "-e", "PATH=/tools:/usr/bin:/bin", "--", "tool") == "found /tools/tool\n"


def test_workdir(box):
    assert box.out("--", "pwd") == "/\n"
    assert box.out("--workdir", "/usr/share", "--", "pwd") == "/usr/share\n"
    assert box.out("-w", "/tmp/", "--", "sh", "-c", "touch x && ls /tmp") == "x\n"
    for bad in ("/no/such", "/etc/passwd"):
        done, report = box.report("-w", bad, "--", "true")
        assert (done.returncode, report["cause"]) == (125, "setup-failed") and report["step"]
        one_line(done, bad)


def status_inside(box, *args):
    text = box.out(*args, "--", "cat", "/proc/self/status")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_root_inside_has_ten_capabilities(box):
    want = sum(1 << CAP_BITS[name] for name in ROOT_CAPS)
    status = status_inside(box)
    for kind in ("CapPrm", "CapEff", "CapBnd"):
        assert int(status[kind], 16) == want, (kind, status[kind])
    for kind in ("CapInh", "CapAmb"):
        assert int(status[kind], 16) == 0, (kind, status[kind])
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"


@pytest.mark.parametrize("user, ids", [("1000", ("1000", "1000")), ("1000:2000", ("1000", "2000")), ("daemon", ("1", "1")),
                                       ("daemon:tty", ("1", "5")), ("nobody", ("65534", "65534")), ("0:7", ("0", "7")),
                                       ("65535", ("65535", "65535")), ("7:daemon", ("7", "1"))])
@needs_root
def test_user(box, user, ids):
    assert box.out("--user", user, "--", "sh", "-c", "id -u; id -g; id -G").split()[:2] == list(ids)
    status = status_inside(box, "--user", user)
    if ids[0] != "0":
        for kind in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            assert int(status[kind], 16) == 0, (kind, status[kind])
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert status["Groups"].split() in ([], [ids[1]], ["0"])
    assert set(status["Uid"].split()) == {ids[0]} and set(status["Gid"].split()) == {ids[1]}


@needs_root
def test_user_has_a_home_and_a_tmp(box):
    inside = env_inside(box, "--user", "daemon")
    assert (inside["HOME"], inside["USER"], inside["LOGNAME"]) == ("/usr/sbin", "daemon", "daemon")
    assert env_inside(box, "--user", "4321")["HOME"] == "/"
    assert box.out("--user", "4321", "--", "sh", "-c", "echo x > /tmp/f && cat /tmp/f && ! touch /etc/f 2>/dev/null && echo no") == "x\nno\n"


@pytest.mark.parametrize("user", ["nosuchuser", "0:nosuchgroup", "0:65536", "5:99999999999"])
def test_unknown_user(box, user):
    done, report = box.report("--user", user, "--", "true")
    assert (done.returncode, report["cause"]) == (125, "setup-failed")
    one_line(done, user.split(":")[-1])


@needs_root
def test_ids_outside_are_a_private_range(box):
    """Two sandboxes at once never share an owner, and neither is anybody of the host."""
    processes = [box.start("--", "sh", "-c", "echo up; exec sleep 1000", stdout=subprocess.PIPE, bufsize=0) for _ in range(2)]
    try:
        owners = []
        for process in processes:
            read_until(process.stdout, b"up\n")
            child = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
            owners.append(os.stat(f"/proc/{pathlib.Path(f'/proc/{child}/task/{child}/children').read_text().split()[0]}").st_uid)
        assert all(owner >= 0x70000000 for owner in owners) and owners[0] != owners[1]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()


# Mounts.

@pytest.fixture
def tree(place):
    source = place / "source"
    (source / "sub").mkdir(parents=True)
    (source / "file").write_text("content\n")
    (source / "sub" / "deep").write_text("deep\n")
    source.chmod(0o755)
    return source


def snapshot(path):
    return sorted((str(p.relative_to(path)), p.read_text() if p.is_file() else None) for p in path.rglob("*"))


@pytest.mark.parametrize("mode", ["", ":ro"])
def test_mount_read_only(box, tree, mode):
    before = snapshot(tree)
    script = "cat /m/file; for c in 'echo x > /m/file' 'touch /m/new' 'rm /m/file' 'mkdir /m/d' 'chmod 777 /m/file' " \
             "'chown 5 /m/file' 'ln /m/file /m/l' 'mv /m/file /m/g' 'touch /m/sub/deep'; do " \
             "(eval $c) 2>&1 | grep -q 'Read-only file system' || echo \"not refused: $c\"; done"
    assert box.out("--mount", f"{tree}:/m{mode}", "--", "sh", "-c", script) == "content\n"
    assert snapshot(tree) == before


@needs_root
def test_mount_read_only_cannot_be_undone(box, tree):
    script = "mount -o remount,rw /m; umount /m; echo x > /m/file; true"
    box("--mount", f"{tree}:/m", "--", "sh", "-c", script)
    assert (tree / "file").read_text() == "content\n"


def test_mount_writable(box, tree):
    box.out("--mount", f"{tree}:/m:rw", "--", "sh", "-c", "echo new > /m/new; mkdir /m/d; rm /m/file; echo more >> /m/sub/deep")
    assert (tree / "new").read_text() == "new\n" and (tree / "d").is_dir() and not (tree / "file").exists()
    assert (tree / "sub" / "deep").read_text() == "deep\nmore\n"


@needs_root
def test_mount_ids(box, tree):
    """What root owns outside root owns inside, and what is written inside belongs to the same id outside."""
    os.chown(tree / "file", 1234, 2345)
    assert box.out("--mount", f"{tree}:/m:rw", "--", "stat", "-c", "%u:%g", "/m", "/m/file") == "0:0\n1234:2345\n"
    box.out("--mount", f"{tree}:/m:rw", "--", "sh", "-c", "touch /m/a; touch /m/b; chown 77:88 /m/b; chmod 4755 /m/b")
    assert [(os.stat(tree / n).st_uid, os.stat(tree / n).st_gid) for n in "ab"] == [(0, 0), (77, 88)]
    os.chmod(tree, 0o777)
    box.out("--mount", f"{tree}:/m:rw", "--user", "1000", "--", "touch", "/m/c")
    assert os.stat(tree / "c").st_uid == 1000


@needs_root
def test_mount_setuid_and_devices_have_no_power(box, tree):
    os.mknod(tree / "disk", 0o666 | 0o020000, os.makedev(1, 5))
    subprocess.run(["cp", "/usr/bin/id", tree / "id"], check=True)
    (tree / "id").chmod(0o4755)
    done = box("--mount", f"{tree}:/m", "--user", "1000", "--", "sh", "-c", "/m/id -u; head -c 1 /m/disk")
    assert done.stdout == "1000\n" and done.returncode != 0


def test_mount_overlay(box, tree):
    before = snapshot(tree)
    script = "echo changed > /m/file; rm -r /m/sub; echo new > /m/new; ls /m; cat /m/file"
    assert box.out("--mount", f"{tree}:/m:overlay", "--", "sh", "-c", script) == "file\nnew\nchanged\n"
    assert snapshot(tree) == before
    assert box.out("--mount", f"{tree}:/m:overlay", "--", "sh", "-c", "ls /m; cat /m/file") == "file\nsub\ncontent\n"


def test_mount_of_a_file(box, tree):
    assert box.out("--mount", f"{tree}/file:/etc/single", "--", "cat", "/etc/single") == "content\n"
    assert box("--mount", f"{tree}/file:/etc/single", "--", "sh", "-c", "echo x > /etc/single").returncode != 0
    box.out("--mount", f"{tree}/file:/new/place/f:rw", "--", "sh", "-c", "echo through >> /new/place/f")
    assert (tree / "file").read_text() == "content\nthrough\n"
    assert box.out("--mount", f"{tree}/file:/etc/passwd", "--", "cat", "/etc/passwd") == "content\nthrough\n"


def test_mounts_inside_each_other(box, tree, place):
    other = place / "other"
    (other / "x").mkdir(parents=True)
    (other / "here").write_text("other\n")
    args = ["--mount", f"{other}:/a/b:rw", "--mount", f"{tree}:/a/b/x", "--mount", f"{tree}/file:/a/b/x/sub/deep"]
    assert box.out(*args, "--", "sh", "-c", "cat /a/b/here /a/b/x/file /a/b/x/sub/deep") == "other\ncontent\ncontent\n"
    assert box.out("--mount", f"{tree}:/twice", "--mount", f"{other}:/twice", "--", "ls", "/twice") == "here\nx\n"


def test_mount_from_a_link_and_relative(box, tree, place):
    (place / "link").symlink_to(tree)
    (place / "filelink").symlink_to(tree / "file")
    assert box.out("--mount", f"{place}/link:/m", "--", "cat", "/m/file") == "content\n"
    assert box.out("--mount", f"{place}/filelink:/m", "--", "cat", "/m") == "content\n"
    assert box.out("--mount", "source:/m", "--", "cat", "/m/file", cwd=place) == "content\n"
    assert box.out("--mount", ".:/m", "--", "cat", "/m/source/file", cwd=place) == "content\n"
    (place / "dangling").symlink_to(place / "nothing")
    one_line(box("--mount", f"{place}/dangling:/m", "--", "true"), "--mount", "No such file")


def test_mount_links_inside_the_source_stay_inside(box, tree):
    """A link in a mount leads to the sandbox's files, not to the host's."""
    (tree / "out").symlink_to("/etc/shadow")
    (tree / "up").symlink_to("../../../../../../etc/hostname")
    done = box("--mount", f"{tree}:/m", "--", "sh", "-c", "cat /m/out; cat /m/up")
    assert "root:" not in done.stdout


def test_mount_target_through_a_link_stays_inside(box, place):
    """A template whose folder is a link to a host path must not lead the mount there."""
    root = place / "root"
    for name in ("usr", "tmp", "proc", "dev", "sys"):
        (root / name).mkdir(parents=True)
    (root / "evil").symlink_to("/etc")
    (place / "src").mkdir()
    done = box("--template", root, "--mount", f"{place}/src:/evil/made-by-ward", "--", "/usr/bin/true")
    assert not pathlib.Path("/etc/made-by-ward").exists()
    assert done.returncode in (125, 126, 127)


def test_mount_target_of_the_wrong_kind(box, tree):
    for spec in (f"{tree}:/etc/passwd", f"{tree}/file:/etc", f"{tree}:/etc/passwd/below"):
        done, report = box.report("--mount", spec, "--", "true")
        assert (done.returncode, report["cause"], report["step"]) == (125, "setup-failed", "mounts"), report
        one_line(done, spec)


def test_mount_over_a_host_folder(box, tree):
    assert box.out("--mount", f"{tree}:/usr/local", "--", "ls", "/usr/local") == "file\nsub\n"
    assert box.out("--mount", f"{tree}:/usr/share/doc:overlay", "--", "sh", "-c", "touch /usr/share/doc/x; ls /usr/share/doc") == \
        "file\nsub\nx\n"


def test_mount_below_a_read_only_folder_that_is_missing(box, tree):
    """/usr is the host's and read-only: no mount point can be made there, and ward says so."""
    done, report = box.report("--mount", f"{tree}:/usr/no-such-folder", "--", "true")
    assert (done.returncode, report["cause"], report["step"]) == (125, "setup-failed", "mounts")
    one_line(done, "/usr/no-such-folder", "Read-only file system")
    assert not pathlib.Path("/usr/no-such-folder").exists()


def test_mount_source_with_odd_name(box, place):
    odd = place / "with space, comma\\and\ttab"
    odd.mkdir()
    (odd / "f").write_text("odd\n")
    for mode in ("ro", "rw", "overlay"):
        assert box.out("--mount", f"{odd}:/m/also odd,\\x:{mode}", "--", "cat", "/m/also odd,\\x/f") == "odd\n"


def test_thirty_two_mounts(box, tree):
    args = [word for i in range(32) for word in ("--mount", f"{tree}:/m{i}" + ("" if i % 2 else ":overlay"))]
    assert box.out(*args, "--", "sh", "-c", "cat /m*/file | sort | uniq -c").split() == ["32", "content"]


# Host name and network.

def test_host_name(box):
    done, report = box.report("--", "hostname")
    assert done.stdout.strip() == report["id"] != socket.gethostname()
    assert re.fullmatch(r"[a-z2-7]{12}", report["id"])
    assert box("--", "hostname", "new-name").returncode != 0
    assert socket.gethostname() != "new-name"


LISTEN = ("import socket,sys\ns=socket.socket()\ns.bind(('127.0.0.1',0))\ns.listen()\nc=socket.create_connection(s.getsockname())\n"
          "print('connected')")


@pytest.fixture
def host_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def interfaces(box, *args):
    text = box.out(*args, "--", "cat", "/proc/net/dev")
    return {line.split(":")[0].strip() for line in text.splitlines()[2:]}


def test_net_none(box, host_port):
    assert interfaces(box) <= {"lo"} and interfaces(box, "--net", "none") <= {"lo"}
    assert "connected" not in box("--", "python3", "-c", LISTEN).stdout
    done = box("--", "python3", "-c", f"import socket; socket.create_connection(('127.0.0.1',{host_port}))")
    assert done.returncode == 1


def test_net_loopback(box, host_port):
    assert interfaces(box, "--net", "loopback") == {"lo"}
    assert box.out("--net", "loopback", "--", "python3", "-c", LISTEN) == "connected\n"
    done = box("--net", "loopback", "--", "python3", "-c", f"import socket; socket.create_connection(('127.0.0.1',{host_port}))")
    assert done.returncode == 1 and "refused" in done.stderr


def test_net_host(box, host_port):
    done, report = box.report("--net", "host", "--", "python3", "-c",
                              f"import socket; socket.create_connection(('127.0.0.1',{host_port})); print('connected')")
    assert done.stdout == "connected\n" and report["grants"]["net"] == "host"
    audit = box.ward("audit", "show", "--json").stdout
    assert '"net":"host"' in audit.replace(" ", "")


def test_net_low_port_inside(box):
    code = "import socket\ns=socket.socket()\ns.bind(('127.0.0.1',80))\nprint('bound')"
    assert box.out("--net", "loopback", "--", "python3", "-c", code) == "bound\n"


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


@pytest.mark.parametrize("args", [("--tier", "container", "--tenants", "many"), ("--tier", "vm"),
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
    quiet = box("--quiet", *args, "--", "sh", "-c", f"({script}) 2>/dev/null" if cause != "signaled" else script)
    loud = box(*args, "--", "sh", "-c", f"({script}) 2>/dev/null" if cause != "signaled" else script)
    assert loud.returncode == quiet.returncode
    if cause in ("exited", "signaled"):
        assert loud.stderr == quiet.stderr == ""
    else:
        assert loud.stderr.count("\n") == 1 and loud.stderr.startswith("ward run: ") and cause in loud.stderr, loud.stderr
        if cause != "setup-failed":
            assert quiet.stderr == ""


# Whatever state its caller is in.

def odd_signals():
    """As after `nohup`, or below a careless parent."""
    for sig in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGINT])


def test_inherited_signal_settings_end_at_the_wall(box):
    done, report = box.report("--", "sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status; exit 3", preexec_fn=odd_signals,
                              restore_signals=False)
    assert {line.split()[1] for line in done.stdout.splitlines()} == {"0" * 16}
    assert (done.returncode, report["cause"], report["code"]) == (3, "exited", 3)
    done, report = box.report("--", "sh", "-c", "kill -TERM $$; echo survived", preexec_fn=odd_signals, restore_signals=False)
    assert (done.returncode, done.stdout, report["cause"]) == (143, "", "signaled")


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o777], ids=oct)
@needs_root
def test_umask_of_the_caller(ward, mask):
    """Neither the template nor the command inherits it."""
    options = {"preexec_fn": lambda: os.umask(mask) and None}
    assert ward("run", "--tier", "container", "--user", "1000", "--", "sh", "-c", "ls /etc/passwd; umask", **options).stdout == \
        "/etc/passwd\n0022\n"
    assert ward("run", "--tier", "container", "--", "sh", "-c", "touch /f; stat -c %a /f / /etc /tmp", **options).stdout == \
        "644\n755\n755\n1777\n"


def test_working_directory_of_the_caller_is_gone(box, place):
    gone = place / "gone"
    gone.mkdir()
    done = subprocess.run(["sh", "-c", 'cd "$1" && rmdir "$1" && shift && exec "$@"', "sh", gone, *box.argv(*CONTAINER, "--", "pwd")],
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.stdout, done.stderr) == ("/\n", "")


@pytest.mark.parametrize("count", [6, 12, 16, 20, 24, 28, 32, 40])
def test_few_descriptors(box, count):
    """It works or says that it does not; it never does half."""
    done = box("--", "echo", "fine", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count)))
    if done.returncode == 0:
        assert done.stdout == "fine\n" and done.stderr == ""
    else:
        one_line(done)


def test_odd_state_directories(place):
    deep = place / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    (place / "link").symlink_to(deep)
    for path in (place / "with space, comma: and \u00fc", deep / "state", place / "link" / "other", place / "back\\slash"):
        box = Box(BINARY, path)
        assert box.out("--", "echo", "fine") == "fine\n"
        assert box.ward("gc").returncode == 0
    done = subprocess.run([BINARY, "--state-dir", "relative", *CONTAINER, "--", "echo", "fine"], cwd=place, capture_output=True, text=True,
                          timeout=60, stdin=subprocess.DEVNULL)
    assert done.stdout == "fine\n" and (place / "relative").is_dir()


def test_stdin_is_a_folder(box):
    folder = os.open("/", os.O_RDONLY)
    try:
        assert box("--", "cat", stdin=folder).returncode in (0, 1)
    finally:
        os.close(folder)


def test_ward_in_ward_fails_in_one_line(box):
    done = box("--mount", f"{BINARY.parent}:/ward", "--", "/ward/ward", "--state-dir", "/tmp/s", *CONTAINER, "--", "true")
    own = [line for line in done.stderr.splitlines() if not line.startswith("ward run: denied: ")]
    assert done.returncode == 125 and len(own) == 1, done


@pytest.mark.parametrize("source", ["/proc", "/sys", "/dev", "/"])
@needs_root
def test_mounts_that_cannot_be_mapped_are_refused(box, source):
    done, report = box.report("--mount", f"{source}:/m", "--", "ls", "/m")
    one_line(done, f"--mount {source}:/m")
    assert report["cause"] == "setup-failed"


# As an ordinary user.

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


def test_keep_nothing_when_set_up_failed(box):
    before = kept(box)
    done, report = box.report("--keep", "--user", "nosuchuser", "--", "true")
    assert report["cause"] == "setup-failed" and report["kept"] is False
    assert kept(box) == before


def test_long_names_are_cut_not_fatal(box):
    """A mount as long as paths can be, and a command full of bytes that JSON writes as six."""
    deep = "/m" + "/abcdefghi" * 300
    assert box.out("--mount", f"/usr/share/common-licenses:{deep}", "--", "ls", deep) != ""
    done, report = box.report("--", "true", *["\x01" * 2000] * 200)
    assert done.returncode == 0, done.stderr


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


def test_quiet_does_not_hide_failures(box):
    one_line(box("--quiet", "--user", "nosuchuser", "--", "true"), "nosuchuser")
