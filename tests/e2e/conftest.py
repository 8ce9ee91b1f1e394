# SPDX-License-Identifier: Apache-2.0
"""What every end-to-end test gets: the real binary, and a state directory of its own."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def state(tmp_path):
    """The state directory of this test; ward makes it when it first needs it."""
    return tmp_path / "state"


@pytest.fixture
def ward(state):
    """Runs ward with that state directory; returns a CompletedProcess with text output."""
    binary = os.environ.get("WARD", str(ROOT / "build" / "ward"))

    def run(*args, **kwargs):
        kwargs.setdefault("timeout", 60)
        kwargs.setdefault("capture_output", True)
        return subprocess.run([binary, "--state-dir", str(state), *map(str, args)], text=True, **kwargs)

    return run
