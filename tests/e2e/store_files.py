# SPDX-License-Identifier: Apache-2.0
"""Makes what a ward leaves in a state directory, without running one."""
import fcntl
import os
import pathlib
import random

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAULT = pathlib.Path(os.environ.get("WARD", str(ROOT / "build" / "ward"))).parent / "ward-fault"
FOLDERS = ("audit", "trash", "boxes", "layers", "templates", "slots")


def make_state(state):
    state.mkdir(mode=0o700)
    for name in FOLDERS:
        (state / name).mkdir(mode=0o700)


def make_id():
    return random.choice("abcdefghijklmnopqrstuvwxyz") + "".join(
        random.choice("abcdefghijklmnopqrstuvwxyz234567") for _ in range(11))


def make_box(state, box):
    """The directory of a sandbox, with something in it."""
    path = state / "boxes" / box
    (path / "upper" / "a" / "b").mkdir(parents=True)
    (path / "upper" / "a" / "file").write_text("x")
    (path / "upper" / "link").symlink_to("/etc")
    return path


def make_slot(state, number, box, undo=(), text=None):
    """A slot as slot_write() writes it. Nobody holds its lock: its ward is dead."""
    path = state / "slots" / str(number)
    if text is None:
        text = (f"version=1\nid={box}\npid=99\ncreated=2025-06-01T10:00:00.000000Z\n"
                "tier=container\ncommand=/bin/echo two%20words\n")
        text += "".join(f"undo={line}\n" for line in undo)
    path.write_text(text)
    return path


def dead_sandbox(state, number=5):
    box = make_id()
    path = make_box(state, box)
    make_slot(state, number, box, [f"tree {path}"])
    return box


def kept_sandbox(state, cause="exited", extra=""):
    box = make_id()
    path = make_box(state, box)
    (path / "record").write_text(
        f"version=1\nid={box}\ntier=workspace\ncreated=2025-06-01T10:00:00.000000Z\n"
        f"ended=2025-06-01T10:00:05.000000Z\ncause={cause}\nstatus=3\n"
        f"command=/bin/sh -c exit%203\n{extra}")
    return box


def hold(path):
    """Takes the lock of a slot as its ward would; the file to close."""
    f = open(path, "r+")
    fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return f


def leftovers(state):
    return [str(p.relative_to(state)) for name in ("slots", "boxes", "trash")
            for p in (state / name).iterdir()]
