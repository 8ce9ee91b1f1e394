# SPDX-License-Identifier: Apache-2.0
"""`ward kernel build` before it builds: what it refuses, and that nothing is left of it. The build itself takes minutes."""
import pytest


@pytest.mark.parametrize("words, said", [
    (["--config", "/no/such/file"], "accepted are full, ci, or a file"),
    (["--jobs", "0"], "--jobs 1 to 256"),
    (["linux"], "options only"),
])
def test_refused(ward, tmp_path, words, said):
    done = ward("--state-dir", tmp_path / "state", "kernel", "build", *words)
    assert done.returncode == 125 and said in done.stderr and done.stderr.count("\n") == 1
    kernels = tmp_path / "state" / "kernels"
    assert not kernels.exists() or not list(kernels.iterdir())
