"""What sandboxes leave behind: mounts, cgroups, processes, files of the state directory."""
import contextlib
import ctypes
import os
import pathlib
import time

PR_SET_CHILD_SUBREAPER = 36


def mounts():
    return {line.split(" - ")[0].split(" ", 3)[3] for line in open("/proc/self/mountinfo")}


def cgroups():
    return {d for d, _, _ in os.walk("/sys/fs/cgroup")}


def state_files(state):
    """What belongs to one sandbox: the log, the templates and an empty slot do not."""
    found = set()
    for folder in ("boxes", "trash", "slots"):
        for path in (state / folder).rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                if folder != "slots" or path.stat().st_size:
                    found.add(str(path.relative_to(state)))
    return found


def children_of(pid):
    found = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                text = pathlib.Path(f"/proc/{pid}/task/{task}/children").read_text()
                found |= set(map(int, text.split()))
    return found


def descendants():
    """Every process below this one. It is a subreaper, so orphans of a killed ward show up here."""
    found, todo = set(), children_of(os.getpid())
    while todo:
        found |= todo
        todo = set().union(*(children_of(p) for p in todo)) - found
    return found


def reap(pids):
    for pid in pids:
        with contextlib.suppress(ChildProcessError, FileNotFoundError, ProcessLookupError):
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                os.waitpid(pid, os.WNOHANG)


def name_of(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return "gone"


def is_foreign(cgroup, ours):
    with contextlib.suppress(OSError):
        inside = set(map(int, pathlib.Path(cgroup, "cgroup.procs").read_text().split()))
        return bool(inside) and not inside & ours
    return False


class Leaks:
    """What exists now and did not when begin() was called."""

    def __init__(self, state):
        self.state = pathlib.Path(state)
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self.begin()

    def look(self):
        return {"mounts": mounts(), "cgroups": cgroups(), "processes": descendants(), "files": state_files(self.state)}

    def begin(self):
        self.before = self.look()

    def found(self):
        reap(descendants() - self.before["processes"])
        now = self.look()
        # Somebody else on this host may run sandboxes too: a group that holds only their processes.
        now["cgroups"] -= {d for d in now["cgroups"] - self.before["cgroups"] if is_foreign(d, now["processes"])}
        new = {kind: sorted(now[kind] - self.before[kind]) for kind in now}
        new["processes"] = [f"{pid} {name_of(pid)}" for pid in new["processes"]]
        return {kind: things for kind, things in new.items() if things}

    def settled(self, patience=5.0):
        """The kernel takes a moment to end a namespace, and other sandboxes of this host come and go: what is
        there all the time is a leak."""
        end, stays = time.monotonic() + patience, self.found()
        while stays and time.monotonic() < end:
            time.sleep(0.05)
            now = self.found()
            stays = {kind: left for kind, things in stays.items() if (left := [t for t in things if t in now.get(kind, ())])}
        return stays

    def check(self, patience=5.0):
        found = self.settled(patience)
        assert not found, f"left behind: {found}"
