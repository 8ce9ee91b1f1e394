"""State that can be walked, with a real guest: a sandbox of the kernel tier that has one of everything is stopped, walked by its own
kernel process, built again beside it and compared; and goes on. kernel_walker is ward with an order for that."""
import contextlib
import os
import select
import shutil
import subprocess

import pytest

from runbox import needs_root
from wardtest import BINARY, Ward

pytestmark = needs_root

PROGRAMS = BINARY.parent / "tests" / "kernel"


class Walked:
    """A guest under kernel_walker, and the way to its orders."""

    def __init__(self, process, place):
        self.process = process
        self.order, self.answer = (os.open(place / name, os.O_RDWR) for name in ("order", "answer"))
        self.stream = place / "stream"

    def walk(self):
        """What the kernel process said: "same BYTES TEXTS", or what was wrong."""
        os.write(self.order, b"walk\n")
        assert select.select([self.answer], [], [], 100)[0], f"no answer; the sandbox ended with {self.process.poll()}"
        return os.read(self.answer, 4096).decode().split("\n")[0]

    def says(self, line):
        got = self.process.stdout.readline()
        assert got == line + "\n", got + self.process.stdout.read()

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()


@pytest.fixture
def place(public_dir):
    """A template with nothing but the guest's program, and what the walker wants."""
    (public_dir / "root" / "tmp").mkdir(parents=True)
    shutil.copy2(PROGRAMS / "kernel_busy", public_dir / "root" / "busy")
    for name in ("order", "answer"):
        os.mkfifo(public_dir / name)
    (public_dir / "stream").touch()
    return public_dir


@contextlib.contextmanager
def walked(place, *args, **env):
    ward = Ward(PROGRAMS / "kernel_walker", place / "state")
    process = ward.start("run", "--tier", "kernel", "--net", "loopback", *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         env={"WARD_WALKER": str(place), **env})
    try:
        yield Walked(process, place)
    finally:
        process.kill()
        process.wait()
        assert ward("gc").returncode == 0


def test_a_sandbox_with_everything_is_walked_built_again_and_goes_on(place):
    with walked(place, "--template", f"dir:{place}/root", "--", "/busy", "2") as guest:
        for _ in range(2):
            guest.says("ready")
            word, size, texts = guest.walk().split(" ", 2)
            assert word == "same" and int(size) > 1 << 20 and int(texts) > 500, f"{word} {size} {texts}"
            assert guest.stream.stat().st_size == int(size)
            guest.go_on()
        guest.says("still here")
        assert guest.process.wait(60) == 0


def test_ward_itself_has_no_such_order():
    """The order is in the test's program, not behind a switch of ward's."""
    names = {p: subprocess.run(["nm", p], capture_output=True, text=True, check=True).stdout for p in (BINARY, PROGRAMS / "kernel_walker")}
    assert " W walker_start" in names[PROGRAMS / "kernel_walker"]
    assert not [line for line in names[BINARY].splitlines() if " walker_" in line and line.split()[-2] != "w"]  # w: not there
    assert b"WARD_WALKER" not in BINARY.read_bytes()
