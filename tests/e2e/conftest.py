# SPDX-License-Identifier: Apache-2.0
"""What every end-to-end test gets: the binary, and a state directory of its own."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def ward(state):
    binary = os.environ.get("WARD", str(ROOT / "build" / "ward"))

    def run(*args, **kwargs):
        return subprocess.run([binary, "--state-dir", str(state), *map(str, args)],
                              **{"capture_output": True, "text": True, "timeout": 120, **kwargs})

    run.binary = binary
    return run
