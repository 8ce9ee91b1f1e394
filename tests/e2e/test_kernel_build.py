# SPDX-License-Identifier: Apache-2.0
"""`ward kernel build` before it builds: what it refuses, and that nothing is left of it. The build itself takes minutes."""
import errno
import fcntl
import os
import time

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


def test_what_the_dead_left_is_swept(ward, state):
    """Folders of a `ward kernel` that was killed go with the next one and with gc; those in which somebody works stay."""
    kernels = state / "kernels"
    for name in [".build.1", ".fetch.999999", ".new.2"]:
        (kernels / name / "deep").mkdir(parents=True)
        (kernels / name / "deep" / "file").write_text("x")
    (kernels / "build.log").write_text("x")
    busy = os.open(kernels / ".build.1", os.O_RDONLY)
    fcntl.flock(busy, fcntl.LOCK_EX)
    done = ward("gc")
    assert done.returncode == 0
    assert {p.name for p in kernels.iterdir()} == {".build.1", "build.log"}
    assert done.stdout.count("removed kernel ") == 2
    os.close(busy)
    assert ward("kernel", "build", "--config", "/no/such/file").returncode == 125
    assert {p.name for p in kernels.iterdir()} == {"build.log"}


def opened(fifo, process):
    """The end to write to, once somebody reads."""
    while process.poll() is None:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as e:
            assert e.errno == errno.ENXIO
            time.sleep(0.02)
    raise AssertionError(f"it ended: {process.communicate()}")


def test_what_a_killed_one_started_works_on(ward, state, tmp_path):
    """A program of a killed `ward kernel` works on in its folder: until it ends the folder stays, then it goes."""
    fake = tmp_path / "bin"
    fake.mkdir()
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    (fake / "apt-cache").write_text(f"#!/bin/sh\nexec cat {gate}\n")
    (fake / "apt-cache").chmod(0o755)
    process = ward.start("kernel", "use", "--untested", "debian", env={"PATH": f"{fake}:{os.environ['PATH']}"})
    held = opened(gate, process)
    process.kill()
    process.wait(timeout=60)
    assert ward("gc").returncode == 0
    assert list((state / "kernels").glob(".fetch.*"))
    os.close(held)

    def swept():
        assert ward("gc").returncode == 0
        return not list((state / "kernels").glob(".fetch.*"))
    assert any(swept() for _ in range(200))
