"""Helpers for the suites about `ward run --tier container`.

box       callable: runs ward with a state directory that one test file shares (its template is made once)
user_box  the same as an ordinary user
"""
import contextlib
import json
import os
import pathlib
import signal
import tempfile
import time

import pytest

from wardtest import BINARY, SANITIZED, USER_ID, Ward, as_user, public_directory

# WARD_TEST_TIER=kernel runs the same tests against the other wall.
CONTAINER = ("run", "--tier", os.environ.get("WARD_TEST_TIER", "container"))
CAUSES = {"exited", "signaled", "out-of-memory", "time-limit", "process-limit", "disk-limit", "output-limit", "denied",
          "setup-failed", "killed-by-operator", "protocol-error", "machine-ended"}
IS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not IS_ROOT, reason="needs root")


class Box(Ward):
    """Calling it is `ward run --tier container ...`; ward() is any other command."""

    def __call__(self, *args, **options):
        return Ward.__call__(self, *CONTAINER, *args, **options)

    def start(self, *args, **options):
        return Ward.start(self, *CONTAINER, *args, **options)

    def ward(self, *args, **options):
        return Ward.__call__(self, *args, **options)

    def report(self, *args, **options):
        """The process that ended, and the object that --json wrote."""
        with tempfile.TemporaryDirectory(prefix="ward-json-", dir="/var/tmp") as folder:
            if self.prefix:
                os.chown(folder, USER_ID, USER_ID)
            path = pathlib.Path(folder) / "report"
            done = self("--json", path, *args, **options)
            text = path.read_text() if path.exists() else ""
        assert text, f"no report; exit status {done.returncode}, stderr {done.stderr!r}"
        return done, json.loads(text)

    def out(self, *args, **options):
        """What a command that must succeed printed."""
        done = self(*args, **options)
        assert done.returncode == 0, done
        return done.stdout


@pytest.fixture(scope="module")
def box():
    with public_directory() as place:
        yield Box(BINARY, place / "state")


@pytest.fixture(scope="module")
def user_box(public_binary):
    if not IS_ROOT:
        pytest.skip("becoming an ordinary user needs root")
    if SANITIZED:
        pytest.skip("the sanitizer's shadow does not fit into the data limit")
    with public_directory() as place:
        home = place / "home"
        home.mkdir()
        os.chown(home, USER_ID, USER_ID)
        yield Box(public_binary, home / "state", as_user(), {"HOME": str(home)})


@pytest.fixture
def place():
    """A directory that every user can reach."""
    with public_directory() as path:
        yield path


def wait_until(question, seconds=20.0, what="it"):
    end = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < end, f"{what} did not happen within {seconds} s"
        time.sleep(0.01)
    return answer


def read_until(stream, text, seconds=20.0):
    """Reads an unbuffered binary stream until @text has come."""
    got, end = b"", time.monotonic() + seconds
    while text not in got:
        assert time.monotonic() < end, f"{text!r} did not come; got {got!r}"
        data = os.read(stream.fileno(), 65536)
        assert data, f"the stream ended before {text!r}; got {got!r}"
        got += data
    return got


@contextlib.contextmanager
def ends(process, seconds=30.0):
    """A process that must not outlive the block."""
    try:
        yield process
        process.wait(seconds)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                stream.close()
