"""State that can be walked, with a real guest: a sandbox of the kernel tier that has one of everything is stopped, walked by its own
kernel process, built again beside it and compared; and goes on. kernel_walker is ward with an order for that."""
import contextlib
import os
import random
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
        assert select.select([self.answer], [], [], 400)[0], f"no answer; the sandbox ended with {self.process.poll()}"
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


def changed_streams(place, stream, count):
    """Streams made from a real one by fuzz_walk's edits, each built again: nothing may break or be left."""
    chance, inputs = random.Random(1), place / "inputs"
    inputs.mkdir()
    for n in range(count):  # the first is left as it is
        edits = bytes(chance.randrange(256) for _ in range(6 * chance.choice((1, 1, 2, 4)))) if n else b""
        (inputs / str(n)).write_bytes(b"\0" + edits)
    env = {**os.environ, "WARD_WALK_STREAM": str(stream), "WARD_WALK_LAYER": str(place / "root")}
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "").replace("detect_leaks=0", "detect_leaks=1")
    return subprocess.run([PROGRAMS.parent / "replay_walk", inputs], env=env, capture_output=True, text=True, timeout=900)


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
    done = changed_streams(place, guest.stream, 60)
    assert (done.returncode, done.stdout) == (0, "60 inputs\n"), done.stderr


def test_open_files_of_host_directories(place):
    """The host's root and a folder of the host's, which may change by themselves: nothing of them is remembered."""
    (place / "given").mkdir()
    os.chmod(place / "given", 0o777)
    for name in "ab":
        (place / "given" / name).write_text(name)
    script = ("exec 3</m/a 4</m/a 5</m/b 6>/m/c 7</etc/passwd; cd /m; read line <&4; (read line <&3; sleep 1000) & "
              "echo ready; head -n 1; kill $!; cat <&5; echo; cat a")
    with walked(place, "--mount", f"{place}/given:/m:rw", "--", "sh", "-c", script) as guest:
        guest.says("ready")
        word, size, texts = guest.walk().split(" ", 2)
        assert word == "same" and int(texts) > 50, f"{word} {size} {texts}"
        guest.go_on()
        for line in ("", "b"):
            guest.says(line)
        assert (guest.process.stdout.read(), guest.process.wait(60)) == ("a", 0)


DOMAIN = """
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
READ, LIST = 4, 8
def allow(name, what):
    fd = os.open(name, os.O_PATH)
    assert libc.syscall(445, rules, 1, struct.pack("<Qi", what, fd), 0) == 0, ctypes.get_errno()
    os.close(fd)
def tell():
    for name in ("a", "b", "sub/in", "sub", "gone", "new", "/etc/passwd", "/usr/lib/os-release"):
        try:
            os.close(os.open(os.path.join("/m", name), os.O_RDONLY))
            print(name, end=" ")
        except PermissionError:
            print("no", end=" ")
        except FileNotFoundError:
            print("none", end=" ")
    print(flush=True)
rules = libc.syscall(444, struct.pack("<QQQ", READ | LIST, 0, 0), 24, 0)
for name, what in ("/m/a", READ), ("/m/sub", READ | LIST), ("/m/gone", READ), ("/m/new", READ), ("/etc", READ):
    allow(name, what)
os.unlink("/m/gone")
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(446, rules, 0) == 0
tell()
os.read(0, 1)
tell()
"""


def test_a_domain_with_rules_about_host_directories(place):
    """Their files are found again by name; the rule about one that was removed is left behind."""
    (place / "given" / "sub").mkdir(parents=True)
    for name in ("a", "b", "gone", "new", "sub/in"):
        (place / "given" / name).write_text(name)
    for path in (place / "given", place / "given" / "sub"):
        os.chmod(path, 0o777)
    with walked(place, "--mount", f"{place}/given:/m:rw", "--", "/usr/bin/python3", "-c", DOMAIN) as guest:
        guest.says("a no sub/in sub none new /etc/passwd no ")
        answer = guest.walk()
        assert answer.startswith("same "), answer
        guest.go_on()
        guest.says("a no sub/in sub none new /etc/passwd no ")
        assert guest.process.wait(60) == 0


IN_PLACE = """
import mmap, os
shared, path = mmap.mmap(-1, 4096), "/usr/lib/os-release"
def read():
    fd = os.open(path, os.O_RDONLY)
    os.read(fd, 7)
    return fd
for _ in range(30):
    os.close(read())
if os.fork() == 0:
    while not shared[0]:
        os.sched_yield()
    os.write(1, b"ready\\n")
    os.read(0, 1)
    shared[1] = 1
    os._exit(0)
fd = read()
shared[0] = 1
while not shared[1]:
    pass
print(os.lseek(fd, 0, os.SEEK_CUR), len(os.read(fd, 5)))
"""


def test_what_was_done_in_place_is_known(place):
    """A process that has read a file without a call, and makes none since."""
    with walked(place, "--", "/usr/bin/python3", "-c", IN_PLACE) as guest:
        guest.says("ready")
        answer = guest.walk()
        assert answer.startswith("same "), answer
        guest.go_on()
        guest.says("7 5")
        assert guest.process.wait(60) == 0


def test_ward_itself_has_no_such_order():
    """The order is in the test's program, not behind a switch of ward's."""
    names = {p: subprocess.run(["nm", p], capture_output=True, text=True, check=True).stdout for p in (BINARY, PROGRAMS / "kernel_walker")}
    assert " W walker_start" in names[PROGRAMS / "kernel_walker"]
    assert not [line for line in names[BINARY].splitlines() if " walker_" in line and line.split()[-2] != "w"]  # w: not there
    assert b"WARD_WALKER" not in BINARY.read_bytes()
