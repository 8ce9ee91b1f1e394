"""Fixtures and helpers for the tests that run the real binary.

ward      callable: runs $WARD (or build/ward) with a state directory of this test's own
user_ward the same, as an ordinary user with a throw-away id; needs root to become that user
state     the state directory of `ward`, a pathlib.Path
leaks     remembers mounts, cgroups, processes and state files; compares at the end of the test
"""
import contextlib
import json
import os
import pathlib
import pty
import select
import shutil
import subprocess
import tempfile
import time

import pytest

from leftovers import Leaks

ROOT = pathlib.Path(__file__).resolve().parents[2]
BINARY = pathlib.Path(os.environ.get("WARD", ROOT / "build" / "ward")).resolve()
SANITIZED = os.environ.get("WARD_SANITIZED") == "1"
USER_ID = 54321


class Ward:
    """Runs ward. Calling it waits; start() does not."""

    def __init__(self, binary, state, prefix=(), environ=None):
        self.binary = pathlib.Path(binary)
        self.state = pathlib.Path(state)
        self.prefix = list(prefix)
        self.environ = environ or {}

    def argv(self, *args):
        return [*self.prefix, str(self.binary), "--state-dir", str(self.state), *map(str, args)]

    def env(self, env=None):
        return {**os.environ, **self.environ, **(env or {})}

    def __call__(self, *args, timeout=120, env=None, input=None, **options):
        if input is None and "stdin" not in options:
            options["stdin"] = subprocess.DEVNULL
        elif input is not None:
            options["input"] = input
        options.setdefault("text", True)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        return subprocess.run(self.argv(*args), timeout=timeout, env=self.env(env), **options)

    def start(self, *args, env=None, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen(self.argv(*args), env=self.env(env), **options)

    def run(self, *args, **options):
        """`ward run --json FILE ARGS`: the process that ended, and the object that it wrote."""
        with tempfile.NamedTemporaryFile(prefix="ward-json-") as f:
            if self.prefix:
                os.chown(f.name, USER_ID, USER_ID)
            done = self("run", "--json", f.name, *args, **options)
            text = pathlib.Path(f.name).read_text()
        return done, json.loads(text) if text else None


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def ward(state):
    return Ward(BINARY, state)


@contextlib.contextmanager
def public_directory():
    """A directory that other users can reach, unlike pytest's own."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="ward-test-", dir="/var/tmp"))
    try:
        path.chmod(0o755)
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def public_dir():
    with public_directory() as path:
        yield path


@pytest.fixture(scope="session")
def public_binary():
    """ward and its second executable where an ordinary user can start them."""
    with public_directory() as path:
        for name in ("ward", "ward-full", "ward-agent"):
            source = BINARY.parent / name
            if source.exists():
                shutil.copy2(source, path / name)
        yield path / "ward"


def as_user(argv=()):
    """A command line that drops root for good."""
    return ["/usr/bin/setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups", "--inh-caps=-all", *argv]


@pytest.fixture
def user_home(public_dir):
    home = public_dir / "home"
    home.mkdir()
    os.chown(home, USER_ID, USER_ID)
    return home


@pytest.fixture
def user_ward(public_binary, user_home):
    if os.geteuid() != 0:
        pytest.skip("becoming an ordinary user needs root")
    return Ward(public_binary, user_home / "state", as_user(), {"HOME": str(user_home)})


def run_in_terminal(argv, env=None, typed=b"", timeout=30):
    """Runs a command as the leader of its own terminal; its wait status, and all that it showed."""
    pid, master = pty.fork()
    if pid == 0:
        try:
            os.execvpe(argv[0], argv, env or os.environ)
        finally:
            os._exit(127)
    shown, end = b"", time.monotonic() + timeout
    try:
        if typed:
            os.write(master, typed)
        while time.monotonic() < end:
            if not select.select([master], [], [], 0.1)[0]:
                continue
            try:
                data = os.read(master, 65536)
            except OSError:  # EIO: the other side is closed
                break
            if not data:
                break
            shown += data
        else:
            os.kill(pid, 9)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode(errors="replace")
    finally:
        os.close(master)


@pytest.fixture
def leaks(state):
    watch = Leaks(state)
    yield watch
    watch.check()


def pytest_collection_modifyitems(config, items):
    if SANITIZED:
        gone = [i for i in items if i.get_closest_marker("native_only")]
        config.hook.pytest_deselected(items=gone)
        items[:] = [i for i in items if i not in gone]
