# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: the real binary, and a state directory of their own."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def state(tmp_path):
    """The state directory of one test."""
    return tmp_path / "state"


@pytest.fixture
def ward(state):
    """ward(*args, **kw): runs the binary at $WARD or build/ward; a CompletedProcess with text."""
    binary = os.environ.get("WARD", str(ROOT / "build" / "ward"))

    def run(*args, **kw):
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        kw.setdefault("text", True)
        kw.setdefault("timeout", 120)
        return subprocess.run([binary, "--state-dir", str(state), *map(str, args)], **kw)

    return run
