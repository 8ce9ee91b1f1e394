"""Supervisors for tests that are their daemon: fixtures, and what they wrote down at their end."""
import json
import os
import subprocess

import pytest

from leftovers import Leaks
from suplink import Sup
from wardtest import BINARY, public_directory


@pytest.fixture(scope="module")
def place():
    with public_directory() as folder:
        state = folder / "state"
        # The template is made once, by a run.
        subprocess.run([BINARY, "--state-dir", state, "run", "--tier", "container", "--accept-risk", "test", "--", "true"],
                       check=True)
        (state / "run").mkdir(mode=0o700, exist_ok=True)
        yield state


@pytest.fixture
def sups(place):
    """Starts supervisors; whatever a test leaves running is stopped, and nothing may be left over."""
    leaks = Leaks(place)
    made = []

    def make(binary=BINARY, ready=True, **fields):
        sup = Sup(binary, place, **fields)
        made.append(sup)
        return sup.running() if ready else sup
    yield make
    for sup in made:
        sup.stop()
    for name in os.listdir(place / "run"):
        os.unlink(place / "run" / name)
    leaks.check()


@pytest.fixture
def sup(sups):
    return sups()


def record(sup):
    sup.process.wait(20)
    with open(sup.record_path()) as f:
        return json.load(f)


def record_after_stop(sup):
    sup.link.call("STOP")
    return record(sup)


def kinds(rec):
    return [e["kind"] for e in rec["events"]]
