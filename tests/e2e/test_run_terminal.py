"""`ward run -t`, and signals."""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

from runbox import CONTAINER, box, ends, needs_root, place, read_until, wait_until  # noqa: F401
from runparts import read_all


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


@needs_root
def test_terminals_inside_belong_to_tty(box):
    code = "import os,pty; m,s=pty.openpty(); st=os.fstat(s); print(st.st_uid,st.st_gid,oct(st.st_mode&0o777))"
    assert box.out("--", "python3", "-c", code) == "0 5 0o620\n"
