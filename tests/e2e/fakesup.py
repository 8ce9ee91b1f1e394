#!/usr/bin/python3
"""A supervisor without a sandbox, whose tier has snapshots: `fakesup.py --state-dir DIR sup ID`.

With `sup --ahead vm ID` it waits for its request at descriptor 3; it says that it can when DIR/../fake-waits is there.
It holds one text, "born" and what happened to it since; SNAPSHOT writes that down, and a request with FROM goes on
from it. How it behaves is in DIR/../fake-mode: "ok"; "no": its tier has no snapshots; "slow": it does not answer.
"""
import contextlib
import os
import pathlib
import select
import socket
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from suplink import ENDED, MSG, NAMES, PAUSED, RUNNING, WALLS, decode, encode  # noqa: E402

EOPNOTSUPP, ENOSYS = 95, 38
state, box = pathlib.Path(sys.argv[2]), sys.argv[-1]


def wait_for_request():
    """The descriptors of the request come to lie where they otherwise are from the start."""
    if not (state.parent / "fake-waits").exists():
        sys.exit(125)
    for fd in 4, 5, 6, 7:
        os.dup2(0, fd)
    here = socket.socket(fileno=os.dup(3))
    here.send(b"W")
    word, fds, _, _ = socket.recv_fds(here, 16, 8)
    if not word:
        sys.exit(0)
    assert word == b"A" and len(fds) in (2, 5), (word, fds)
    for i, fd in enumerate(fds):
        os.dup2(fd, 3 + i)


class Fake:
    def __init__(self):
        self.request = decode(os.pread(3, 1 << 20, 0))
        self.story = "born"
        if self.request.get("FROM"):
            state_, memory, disk = (os.pread(fd, 1 << 20, 0).decode() for fd in (5, 6, 7))
            assert state_ == "state" and disk == "disk", (state_, disk)
            self.story = memory + " again"
        self.link = socket.socket(fileno=4)
        self.now, self.rest, self.fds = RUNNING, b"", []
        self.listener = socket.socket(socket.AF_UNIX)
        half = state / "run" / f"{box}.new"
        self.listener.bind(str(half))
        self.listener.listen(4)
        half.rename(state / "run" / f"{box}.sock")

    def send(self, kind, stream=0, **fields):
        data = encode(**fields)
        with contextlib.suppress(ConnectionError):  # a daemon that dies is seen when it is read from
            self.link.sendall(struct.pack("<IHHI", len(data), MSG[kind], 0, stream) + data)

    def status(self):
        self.send("STATUS", VERSION=1, STATE=self.now, BOX=box, SUP_PID=os.getpid(), REASON=self.story, TIER=WALLS["vm"], WAITS=int((state.parent / "fake-waits").exists()), WHY="fake",
                  WARNING=self.story, PID=os.getpid(), MEMORY=self.request.get("MEMORY") or 64 << 20, DISK=self.request.get("DISK") or 32 << 20,
                  PIDS=100, CPU_MILLI=1000, TIMEOUT_MS=self.request.get("TIMEOUT_MS", 0), ACTION=1, PROCESSES=0)

    def receive(self):
        try:
            data, fds, _, _ = socket.recv_fds(self.link, 65536, 8)
        except ConnectionError:
            data, fds = b"", []
        if not data:
            self.link.close()
            self.link = None
            return
        self.rest += data
        self.fds += fds
        while len(self.rest) >= 12:
            size, kind, _, stream = struct.unpack_from("<IHHI", self.rest)
            if len(self.rest) < 12 + size:
                return
            name, data, self.rest = NAMES.get(kind), self.rest[12:12 + size], self.rest[12 + size:]
            if name not in ("DATA", "END", "CREDIT", "CANCEL"):
                self.handle(name, stream, decode(data))

    def handle(self, name, stream, fields):
        if name == "SNAPSHOT":
            self.snapshot(stream)
        elif name in ("PAUSE", "RESUME"):
            self.now = PAUSED if name == "PAUSE" else RUNNING
            self.status()
            self.send("OK", stream)
        elif name == "DEADLINE":
            self.send("OK", stream)
        elif name == "STOP":
            self.send("OK", stream)
            self.send("ENDED", CAUSE="killed-by-operator", TEXT=fields.get("TEXT", "stopped"), CODE=137)
            self.now = ENDED
        else:
            self.send("ERROR", stream, ERRNO=ENOSYS, TEXT="fake")

    def snapshot(self, stream):
        files, self.fds = self.fds[:3], self.fds[3:]
        mode = (state.parent / "fake-mode").read_text()
        if mode == "ok":
            for fd, text in zip(files, ("state", self.story, "disk")):
                os.write(fd, text.encode())
            self.send("OK", stream)
        elif mode == "no":
            self.send("ERROR", stream, ERRNO=EOPNOTSUPP, TEXT="the fake tier cannot snapshot a sandbox")
        for fd in files:
            os.close(fd)

    def serve(self):
        self.status()
        while self.now != ENDED:
            ready, _, _ = select.select([self.listener, *([self.link] if self.link else [])], [], [])
            if self.listener in ready:
                if self.link:
                    self.link.close()
                self.link, self.rest, self.fds = self.listener.accept()[0], b"", []
                self.status()
            elif self.link in ready:
                self.receive()
        (state / "run" / f"{box}.sock").unlink(missing_ok=True)


if "--ahead" in sys.argv:
    wait_for_request()
Fake().serve()
