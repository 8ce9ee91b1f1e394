"""The hub without a front: tests/hub/driver.c as a Python object.

hub       fixture: a factory of Hub objects on one state directory; what is left is ended afterwards
fakes     fixture: the same with supervisors that tests/e2e/fakesup.py plays
"""
import contextlib
import itertools
import json
import os
import pathlib
import queue
import signal
import subprocess
import sys
import threading
import time

import pytest

from leftovers import Leaks
from wardtest import BINARY

DRIVER = BINARY.parent / "tests" / "hub" / "hub-driver"
FAKE = pathlib.Path(__file__).parents[1] / "e2e" / "fakesup.py"
PATIENCE = 60


class Gone(Exception):
    """The driver died before it answered."""


class Refused(Exception):
    def __init__(self, answer):
        super().__init__(answer["msg"])
        self.code, self.http, self.retry_after, self.msg = answer["fail"], answer["http"], answer["retry_after"], answer["msg"]


class Hub:
    def __init__(self, state, *options, tier="container", log=None):
        argv = [str(DRIVER), str(state), str(BINARY), *(["--tier", tier] if tier else []), *map(str, options)]
        self.log = log or open(pathlib.Path(state).with_name("driver.log"), "a")
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, bufsize=1)
        self.numbers, self.answers, self.events = itertools.count(1), {}, queue.Queue()
        self.is_ready, self.held, self.changed = False, None, threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            with self.changed:
                if "ready" in answer:
                    self.is_ready = True
                elif "held" in answer:
                    self.held = answer["held"]
                elif "event" in answer:
                    self.events.put(answer)
                else:
                    self.answers[answer["n"]] = answer
                self.changed.notify_all()
        with self.changed:
            self.answers[None] = True
            self.changed.notify_all()

    def ready(self):
        with self.changed:
            if not self.changed.wait_for(lambda: self.is_ready or None in self.answers, PATIENCE):
                raise TimeoutError("the hub is not ready")
            if not self.is_ready:
                raise Gone()
        return self

    def send(self, *words):
        n = next(self.numbers)
        try:
            self.process.stdin.write(f"{n} {' '.join(map(str, words))}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Gone() from None
        return n

    def wait(self, n):
        with self.changed:
            if not self.changed.wait_for(lambda: n in self.answers or None in self.answers, PATIENCE):
                raise TimeoutError(f"no answer to {n}")
            if n not in self.answers:
                raise Gone()
            answer = self.answers.pop(n)
        if "fail" in answer:
            raise Refused(answer)
        return answer

    def at_step(self, n, do, *words):
        """Asks, and calls do() while the daemon stands still at its n-th step. The step, None when there are not so many; and the answer."""
        self.held, self.struck = None, False
        self("hold", n)
        number = self.send(*words)
        self.hold_until(number, do)
        self.hold_until(self.send("hold", 0), do)
        try:
            return self.held, self.wait(number)
        except Refused as refused:
            return self.held, refused

    def hold_until(self, number, do):
        def over():
            return number in self.answers or None in self.answers
        with self.changed:
            assert self.changed.wait_for(lambda: over() or (self.held and not self.struck), PATIENCE), "no answer"
        if not self.held or self.struck:
            return
        self.struck = True
        try:
            os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)
            do()
        finally:
            self.process.send_signal(signal.SIGCONT)
        with self.changed:
            assert self.changed.wait_for(over, PATIENCE), "no answer"

    def __call__(self, *words):
        return self.wait(self.send(*words))

    def list(self, *words):
        return self("list", *words)["list"]

    def all(self, *words):
        """Every page of a list."""
        found, token = [], ""
        while True:
            page = self("list", *words, f"token={token}")
            found += page["list"]
            token = page["token"]
            if not token:
                return found

    def quit(self, everything=False, may_die=False):
        """Ends the daemon in an orderly way; its sandboxes too, if told so. True: it did not die on the way."""
        with contextlib.suppress(*([Gone] if may_die else [])):
            self.send("quit", *(["all"] if everything else []))
        code = self.process.wait(PATIENCE)
        assert code == 0 or (may_die and code == -signal.SIGKILL), f"{code}: see {self.log.name}"
        return code == 0

    def kill(self):
        self.process.kill()
        return self.process.wait(PATIENCE)

    def died(self):
        return self.process.wait(PATIENCE)


def supervisors(state):
    """Processes of `ward sup` on this state directory."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                # Its children may have its command line; it alone leads a session.
                if b"sup" in words and str(state).encode() in words and os.getsid(int(entry.name)) == int(entry.name):
                    found[words[-2].decode()] = int(entry.name)  # the id comes last
    return found


def until(check, what, patience=20):
    end = time.monotonic() + patience
    while not (found := check()):
        assert time.monotonic() < end, f"still waiting for {what}"
        time.sleep(0.02)
    return found


@pytest.fixture
def hub(state):
    state.mkdir(mode=0o700, parents=True)
    leaks = Leaks(state)
    hubs = []

    def make(*options, **named):
        hubs.append(Hub(state, *options, **named))
        return hubs[-1]

    make.state = state
    yield make
    for one in hubs:
        if one.process.poll() is None:
            one.kill()
    last = Hub(state, tier=None).ready()
    until(lambda: set(supervisors(state)) <= {b["id"] for b in last.all("all=1", "states=127")}, "strays to be stopped")
    last.quit(everything=True)
    until(lambda: not supervisors(state), "supervisors to end")
    for name in (state / "run").iterdir():
        assert not name.name.endswith((".sock", ".end", ".new")), f"left behind: {name}"
    leaks.check()


@pytest.fixture
def fakes(hub, monkeypatch):
    """Hubs whose supervisors are fakes; `fakes.mode` says how these behave."""
    def make(*options, **named):
        with monkeypatch.context() as m:
            m.setattr(sys.modules[__name__], "BINARY", FAKE)
            return hub(*options, tier="vm", **named)

    make.state = hub.state
    make.mode = lambda text: (hub.state.parent / "fake-mode").write_text(text)
    make.mode("ok")
    return make
