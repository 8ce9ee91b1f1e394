"""Who may do what with files that are not the kernel process's own: the kernel tier beside the container tier, and what a kernel
process that is somebody else's could do with the right to read them. tests/kernel/perm.c runs inside, traitor.c is the other."""
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from runbox import needs_root, place, user_box  # noqa: F401
from wardtest import BINARY, SANITIZED, USER_ID, Ward

PROGRAMS = BINARY.parent / "tests" / "kernel"
FILE_MODES = [0o000, 0o200, 0o400, 0o640, 0o604, 0o711]
DIR_MODES = [0o000, 0o300, 0o500, 0o750, 0o707, 0o1777, 0o2775]
OWNERS = [(0, 0), (0, 42), (999, 999), (1000, 50)]


def make_tree(at, owners):
    at.mkdir(parents=True)
    for uid, gid in owners:
        for mode in FILE_MODES:
            path = at / f"f{mode:04o}-{uid}-{gid}"
            path.write_text("content\n")
            os.chown(path, uid, gid)
            path.chmod(mode)
        for mode in DIR_MODES:
            path = at / f"d{mode:04o}-{uid}-{gid}"
            path.mkdir()
            (path / "in").write_text("content\n")
            os.chown(path / "in", uid, gid)
            (path / "in").chmod(0o640)
            os.chown(path, uid, gid)
            path.chmod(mode)
    at.chmod(0o777)


def outside(at):
    """Owners, modes and sizes of all there is."""
    found = {}
    for folder, _, names in os.walk(at):
        for path in [folder, *(os.path.join(folder, n) for n in names)]:
            st = os.lstat(path)
            found[os.path.relpath(path, at)] = (oct(st.st_mode), st.st_uid, st.st_gid, st.st_size if os.path.isfile(path) else 0)
    return found


def look(ward, place, kind, tier, owners):
    """What is said inside about a new tree, as lines, and what is left of it outside."""
    root, tree = place / f"{kind}-{tier}-root", place / f"{kind}-{tier}"
    root.mkdir()
    shutil.copy2(PROGRAMS / "kernel_perm", root / "perm")
    make_tree(root / "m" if kind == "template" else tree, owners)
    if owners[0][0] == USER_ID:
        for path in (root, root / "perm", root / "m", tree):
            if path.exists():
                os.chown(path, USER_ID, USER_ID)
    mount = () if kind == "template" else ("--mount", f"{tree}:/m:{kind}")
    done = Ward.__call__(ward, "run", "--tier", tier, "--accept-risk", "test", "--template", f"dir:{root}", *mount, "--", "/perm", "/m",
                         "root" if owners[0][0] == USER_ID else "all")
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    if owners[0][0] == USER_ID:  # root is the only id there, but to the kernel tier, which has all of them in its own files
        lines = [line for line in lines if line.split()[1] not in ("chown", "chgrp", "is")]
    return lines, outside(tree)


def differences(ward, place, kind, owners):
    """Lines of the container tier and of the kernel tier where they are not the same."""
    (container, left), (kernel, there) = (look(ward, place, kind, tier, owners) for tier in ("container", "kernel"))
    assert len(container) == len(kernel) > 100
    return [pair for pair in zip(container, kernel) if pair[0] != pair[1]] + \
        [(n, left.get(n), there.get(n)) for n in sorted({*left, *there}) if left.get(n) != there.get(n)]


@needs_root
@pytest.mark.parametrize("kind", ["template", "ro", "overlay", "rw"])
def test_as_in_a_container(place, kind):
    assert differences(Ward(BINARY, place / "state"), place, kind, OWNERS) == []


@pytest.mark.parametrize("kind", ["template", "ro", "overlay", "rw"])
def test_as_in_a_container_of_an_ordinary_user(user_box, place, kind):
    assert differences(user_box, place, kind, [(USER_ID, USER_ID)]) == []



def test_mounts_lie_in_each_other_and_on_their_like(user_box, place):
    """Also in a writable folder of the host, whose names the kernel process does not keep."""
    for name in ("low", "high"):
        (place / name).mkdir()
        (place / name / "file").write_text(name + "\n")
    for path in (place / "low", place / "low" / "file"):
        os.chown(path, USER_ID, USER_ID)
    mounts = ("--mount", f"{place}/low:/a/b:rw", "--mount", f"{place}/high:/a/b/x", "--mount", f"{place}/high/file:/a/b/y")
    script = "cd /a/b/x && pwd && cat file ../file /a/b/y && cd .. && ls && ls x; rmdir x 2>&1 | grep -c busy; touch x/new"
    done = Ward.__call__(user_box, "run", "--tier", "kernel", "-q", *mounts, "--", "sh", "-c", script)
    assert (done.stdout, done.returncode) == ("/a/b/x\nhigh\nlow\nhigh\nfile\nx\ny\nfile\n1\n", 1), done
    for spec in (f"{place}/low:/etc/passwd", f"{place}/low/file:/etc", f"{place}/low:/usr/no-such-folder"):
        done = Ward.__call__(user_box, "run", "--tier", "kernel", "-q", "--mount", spec, "--", "true")
        assert done.returncode == 125 and f"step 'mounts': --mount {spec}: " in done.stderr, done


# What the kernel process has a capability for, and what not, should it ever be somebody else's.

OUTSIDE = {"a path upwards": "No such file or directory", "above is nothing new": "ok", "a file by its number": "Operation not permitted",
           "writable": "Operation not permitted"}
UNCHANGED = {"written": "Permission denied", **{word: "Read-only file system" for word in ("made", "given away", "opened to all", "removed")}}


def betray(place, *args, closed="-"):
    """What the traitor got, part by part: a name, and a result for each attempt."""
    (place / "answer").write_text("")
    (place / "secret").write_text("secret\n")
    done = Ward(PROGRAMS / "kernel_traitor", place / "state")(
        "run", "--tier", "kernel", *args, "--", "/bin/true", env={"WARD_TRAITOR": str(place), "WARD_TRAITOR_CLOSED": closed})
    lines = [line.split(": ") for line in (place / "answer").read_text().splitlines()]
    assert lines and lines[-1] == ["end", "ok"], done
    parts = []
    for word, result in lines[:-1]:
        if word in ("template", "host", "mount"):
            parts.append((word, {}))
        else:
            parts[-1][1][word] = result
    assert parts[-1][1].pop("all capabilities") == "Operation not permitted"
    return parts


def theirs(at):
    """A folder and a file of somebody whom the sandbox has, and a file of somebody whom it has not."""
    (at / "theirs").mkdir(parents=True)
    for path in (at / "theirs" / "file", at / "beyond"):
        path.write_text("text\n")
        os.chown(path, *((999, 999) if path.name == "file" else (70000, 70000)))
        path.chmod(0o600)
    os.chown(at / "theirs", 999, 999)
    (at / "theirs").chmod(0o700)
    return at


@needs_root
def test_a_traitor_reads_what_is_shown_and_no_more(place):
    template, shown = theirs(place / "template"), theirs(place / "shown")
    parts = betray(place, "--template", f"dir:{template}", "--mount", f"{shown}:/m", "--mount", f"{shown}:/o:overlay")
    seen = {"another's file": "ok", "beyond the ids": "Permission denied", **OUTSIDE}
    assert parts == [("template", {**seen, "another's folder": "ok", **UNCHANGED}), ("mount", seen), ("mount", seen)]


@needs_root
def test_a_traitor_gets_nothing_closed_of_the_host(place):
    """What the host template shows is the host's own, and its ids mean nothing inside."""
    with tempfile.NamedTemporaryFile(dir="/usr/local", prefix="ward-test-") as closed:  # mode 0600, root's
        closed.write(b"secret\n")
        closed.flush()
        parts = betray(place, "--template", "host", closed=os.path.relpath(closed.name, "/usr"))
    usr = next(got for name, got in parts if name == "host")
    assert usr == {"a closed file": "Permission denied", **OUTSIDE, **UNCHANGED}


@needs_root
def test_what_the_kernel_process_may_do_with_files(place):
    """Seen from the host: the right to read, with a writable mount those to write as well; none without a mount; guests have none."""
    (place / "m").mkdir()
    for mount, want in [(None, 0), ("ro", 1 << 2), ("rw", 0b11111)]:
        mounts = ["--mount", f"{place}/m:/m:{mount}"] if mount else []
        process = Ward(BINARY, place / "state").start(
            "run", "--tier", "kernel", *mounts, "--", "sh", "-c", "echo here; exec sleep 60", stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == "here\n"
            kernel = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()[0]
            guests = subprocess.run(["pgrep", "-P", kernel], capture_output=True, text=True).stdout.split()
            assert guests
            for pid, caps in [(kernel, want), *((guest, 0) for guest in guests)]:
                for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
                    status = dict(line.split(":\t", 1) for line in (task / "status").read_text().splitlines() if ":\t" in line)
                    assert [int(status[n], 16) for n in ("CapEff", "CapPrm")] == [caps, caps], task
                    assert [int(status[n], 16) for n in ("CapInh", "CapBnd", "CapAmb")] == [0, 0, 0], task
        finally:
            process.kill()
            process.wait()
    assert Ward(BINARY, place / "state")("gc").returncode == 0
