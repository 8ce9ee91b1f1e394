"""The supervisor: files of its sandbox, by descriptor and by frames."""
import os
import time

import pytest

from runbox import needs_root
from supbox import place, sup, sups  # noqa: F401 (fixtures)

SH = "/bin/sh"
PARENTS, APPEND, NEW, NOFOLLOW, RECURSIVE, FULL, HOME, PASS_FD = 1, 2, 4, 8, 16, 32, 64, 128

pytestmark = needs_root


def opened_file(link, kind, flags, **fields):
    stream = link.open(kind, flags | PASS_FD, **fields)
    frame = link.take(stream)
    assert frame.name == "OPENED" and len(frame.fds) == 1, frame
    assert link.take(stream).name == "OK"
    return frame, frame.fds[0]


def test_files_by_descriptor(sup):
    link = sup.link
    frame, fd = opened_file(link, "WRITE", PARENTS | FULL | HOME, PATH="a/b/file", USER="65534", MODE=0o640,
                            META=b"one=1\0two=x=y\0")
    assert frame.PATH.endswith("/a/b/file") and (frame.UID, frame.MODE) == (65534, 0o640)
    assert sorted(frame.META.split(b"\0")) == [b"", b"one=1", b"two=x=y"]
    data = os.urandom(3 << 20)
    assert os.write(fd, data) == len(data)
    os.close(fd)
    frame, fd = opened_file(link, "READ", FULL, PATH=frame.PATH)
    assert frame.SIZE == len(data) and frame.OWNER == "nobody"
    assert os.read(fd, len(data)) == data
    with pytest.raises(OSError):
        os.write(fd, b"x")
    os.close(fd)


def test_many_files_at_once(sup):
    """More than may be on their way: none is lost, none is mixed up."""
    link = sup.link
    link.run([SH, "-c", "for i in $(seq 300); do echo $i > f$i; done"])
    streams = {link.open("READ", PASS_FD, PATH=f"/root/f{i}"): i for i in range(1, 301)}
    time.sleep(0.2)
    refused = 0
    for stream, i in streams.items():
        frame = link.take(stream)
        if frame.name == "ERROR":
            assert frame.ERRNO == 11
            refused += 1
            continue
        assert os.read(frame.fds[0], 100) == b"%d\n" % i
        os.close(frame.fds[0])
        assert link.take(stream).name == "OK"
    assert refused < 300


def test_attributes_are_replaced(sup):
    link = sup.link
    for meta, want in ((b"a=1\0b=2\0", {b"a=1", b"b=2"}), (None, {b"a=1", b"b=2"}), (b"c=3\0", {b"c=3"}), (b"", set())):
        frame, fd = opened_file(link, "WRITE", 0, PATH="/root/f", META=meta)
        os.close(fd)
        got = link.ok("STAT", FULL, PATH="/root/f").META or b""
        assert set(got.split(b"\0")) - {b""} == want
    assert link.call("WRITE", 0, PATH="/root/g", META=b"no-value\0").ERRNO == 22


def test_files_by_frames(sup):
    link = sup.link
    stream = link.open("WRITE", 0, PATH="/tmp/x")
    assert link.take(stream).name == "OPENED"
    link.send_raw("DATA", stream, b"through frames")
    link.send_raw("END", stream)
    assert link.take(stream).BYTES == 14
    stream = link.open("READ", 0, PATH="/tmp/x")
    assert link.take(stream).SIZE == 14
    assert link.take(stream).data == b"through frames"
    assert link.take(stream).name == "OK"


def test_a_user_who_changed_before_the_first_command(sup):
    """Users are looked up ahead; a file that was written since counts, also through a descriptor that was passed before."""
    link = sup.link
    _, fd = opened_file(link, "WRITE", APPEND, PATH="/etc/passwd")
    assert link.call("STAT", HOME, PATH="", USER="daemon").PATH == "/usr/sbin"
    os.truncate(fd, 0)
    os.write(fd, b"daemon:x:4321:4322::/srv:/bin/sh\n")
    os.close(fd)
    out, _, end = link.run(["sh", "-c", "id -u; id -g; pwd; echo $HOME"], USER="daemon")
    assert out.split() == [b"4321", b"4322", b"/srv", b"/srv"], end


@pytest.mark.parametrize("path", ["/dev/zero", "/proc/self/mem", "/tmp", "/dev/fd/0", "/no/such"])
def test_only_files_are_passed(sup, path):
    frame = sup.link.call("READ", PASS_FD, PATH=path)
    assert frame.name == "ERROR" or path == "/proc/self/mem"
    for fd in frame.fds:
        os.close(fd)


def test_paths_as_a_user_means_them(sup):
    link = sup.link
    home = link.ok("STAT", HOME, PATH="", USER="root").PATH
    assert home == "/root"
    for path, want in (("~", "/root"), ("~/", "/root"), ("a", "/root/a"), ("./a/../b/", "/root/b"),
                       ("/../x//y", "/x/y"), ("~/../tmp", "/tmp")):
        link.call("MKDIR", PARENTS | HOME, PATH=path, USER="root")
        assert link.ok("STAT", HOME, PATH=path, USER="root").PATH == want
    assert link.call("STAT", HOME, PATH="~root/x", USER="root").ERRNO == 22
    assert link.call("STAT", HOME, PATH="x", USER="nobody-here").ERRNO == 126
    assert link.call("STAT", HOME, PATH="x").ERRNO == 22


def test_links_tell_where_they_lead(sup):
    link = sup.link
    link.run([SH, "-c", "mkdir d; echo x > d/f; ln -s d/f l; ln -s nowhere broken; ln -s d dl"])
    entry = link.ok("STAT", FULL, PATH="/root/l")
    assert (entry.KIND, entry.SIZE, entry.LINK, entry.OWNER, entry.GROUP) == (1, 2, "/root/d/f", "root", "root")
    assert link.ok("STAT", FULL, PATH="/root/broken").KIND == 3
    found = {e.NAME: (e.KIND, e.LINK) for e in link.entries("LIST", FULL, PATH="/root", DEPTH=3)}
    assert found == {"d": (2, None), "d/f": (1, None), "l": (1, "/root/d/f"), "broken": (3, "nowhere"),
                     "dl": (2, "/root/d")}


def test_moving_makes_the_way(sup):
    link = sup.link
    link.run([SH, "-c", "echo x > f"])
    frame = link.ok("RENAME", PARENTS | FULL | HOME, PATH="f", TO="deep/er/g", USER="root")
    assert (frame.PATH, frame.SIZE, frame.KIND) == ("/root/deep/er/g", 2, 1)
    assert link.call("RENAME", PARENTS, PATH="/root/none", TO="/root/new/none").ERRNO == 2
    assert link.call("STAT", 0, PATH="/root/new").ERRNO == 2, "nothing is made for what does not exist"


def test_watching_tells_what_it_is(sup):
    link = sup.link
    link.run([SH, "-c", "mkdir w"])
    stream = link.open("WATCH", FULL | HOME | RECURSIVE, PATH="w", USER="root")
    assert link.take(stream).PATH == "/root/w"
    link.run([SH, "-c", "echo abc > w/f; chmod 600 w/f; rm w/f"])
    seen = []
    while not seen or seen[-1].CHANGE != 3:
        seen.append(link.take(stream))
    assert all(e.NAME == "f" for e in seen)
    assert seen[0].CHANGE == 1 and seen[-1].KIND is None
    link.send_raw("CANCEL", stream)
    assert link.take(stream).name == "OK"


def test_a_port_inside(sups):
    sup = sups(NET=1)
    link = sup.link
    link.start(["/usr/bin/python3", "-c",
                "import socket; s=socket.create_server(('127.0.0.1', 8000)); print('up', flush=True)\n"
                "c, _ = s.accept(); c.sendall(c.recv(100).upper()); c.close()"])
    link.wait(lambda: any(f.name == "DATA" for f in link.frames))
    stream = link.open("DIAL", PORT=8000)
    assert link.take(stream).name == "OPENED"
    link.send_raw("DATA", stream, b"hello")
    assert link.take(stream).data == b"HELLO"
