"""The supervisor: what a daemon can ask of it, and what it holds while there is no daemon.

The tests are the daemon: they speak docs/SUPERVISOR.md over the socket (suplink.py).
"""
import base64
import contextlib
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import time

import pytest

import suplink
from leftovers import Leaks
from runbox import needs_root, wait_until
from supbox import kinds, place, record, record_after_stop, sup, sups  # noqa: F401 (fixtures)
from suplink import KILL, PAUSE, RUNNING, STARTING, UNKNOWN, Closed, Link, Sup, encode
from wardtest import BINARY, SANITIZED, public_directory

FAULT = BINARY.parent / "ward-fault"
SH = "/bin/sh"
PTY, NULL_STDIN = 1, 16
PARENTS, APPEND, NEW, NOFOLLOW, RECURSIVE, FULL, HOME, PASS_FD = 1, 2, 4, 8, 16, 32, 64, 128
RING = 256 * 1024

pytestmark = needs_root


# --- Start and end -------------------------------------------------------------------------------


def test_runs_and_stops(sup):
    status = sup.link.status
    assert status.BOX == sup.id and status.TIER == suplink.WALLS["container"]
    assert "operator" in status.WHY and status.SUP_PID == sup.process.pid
    out, err, end = sup.link.run([SH, "-c", "echo out; echo err >&2; exit 3"])
    assert (out, err, end.name, end.CODE) == (b"out\n", b"err\n", "EXIT", 3)
    assert sup.link.call("STOP", TEXT="no longer needed").name == "OK"
    end = sup.link.until_ended()
    assert (end.CAUSE, end.TEXT) == ("killed-by-operator", "no longer needed")
    rec = record(sup)
    assert rec["cause"] == "killed-by-operator" and rec["detail"] == "no longer needed"
    assert sup.process.returncode == 0
    assert not os.path.exists(f"{sup.state}/run/{sup.id}.sock")


def test_the_socket_is_private(sup):
    mode = os.stat(f"{sup.state}/run/{sup.id}.sock").st_mode
    assert mode & 0o777 == 0o600
    assert os.stat(f"{sup.state}/run").st_mode & 0o777 == 0o700


def test_whoever_sees_the_socket_can_connect(sups):
    """There is no moment between its name and its answer."""
    for _ in range(8):
        sup = sups(ready=False)
        path = f"{sup.state}/run/{sup.id}.sock"
        while not os.path.exists(path):
            assert sup.process.poll() is None
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
        sup.stop()
        assert not [name for name in os.listdir(f"{sup.state}/run") if name.endswith(".new")]


def test_the_kernel_takes_a_sandbox_before_its_supervisor(sup):
    assert sup.link.run([SH, "-c", "cat /proc/self/oom_score_adj /proc/1/oom_score_adj"])[0] == b"500\n500\n"
    with open(f"/proc/{sup.process.pid}/oom_score_adj") as own, open("/proc/self/oom_score_adj") as ours:
        assert own.read() == ours.read()


def test_a_long_state_directory():
    with public_directory() as folder:
        state = folder / ("x" * 100)
        sup = Sup(BINARY, state).running()
        try:
            assert sup.reconnect().run(["/bin/echo", "far"])[0] == b"far\n"
        finally:
            sup.stop()


@pytest.mark.parametrize("fields, says", [
    (dict(TEMPLATE="no-such-template"), "no-such-template"),
    (dict(TIER=suplink.WALLS["vm"], RISK=None), "guest kernel"),
    (dict(MOUNT=[b"\0/no/such/place\0/mnt\0"]), "/no/such/place"),
])
def test_a_sandbox_that_cannot_be_made(sups, fields, says):
    sup = sups(ready=False, **fields)
    end = sup.link.until_ended()
    assert end.CAUSE == "setup-failed" and says in end.TEXT and end.AT_STEP
    rec = record(sup)
    assert rec["cause"] == "setup-failed" and says in rec["detail"]
    assert sup.process.returncode == 125
    assert sup.stderr.read().decode().startswith("ward sup: ")


@pytest.mark.parametrize("raw", [
    b"", b"nonsense", suplink.request("abcdefghijkl")[:-1],
    suplink.request("abcdefghijkl", NET=9), suplink.request("abcdefghijkl", HOSTNAME="a\nb"),
    suplink.request("abcdefghijkl", ENV=["novalue"]), suplink.request("abcdefghijkl", CWD="relative"),
    suplink.request("abcdefghijkl", MOUNT=[b"\0/tmp\0/proc/x\0"]), suplink.request("abcdefghijkl", TIMEOUT_MS=5),
    suplink.encode(VERSION=2, BOX="abcdefghijkl"), suplink.request("../../etc/x"),
])
def test_a_request_that_is_none(sups, raw):
    sup = sups(ready=False, raw=raw, box="abcdefghijkl")
    assert sup.process.wait(20) == 125
    lines = sup.stderr.read().decode().splitlines()
    assert len(lines) == 1 and lines[0].startswith("ward sup: ")
    assert not os.path.exists(f"{sup.state}/run/{sup.id}.sock")


def test_a_request_for_another(sups):
    sup = sups(ready=False, raw=suplink.request("abcdefghijkl"), box="bbbbbbbbbbbb")
    assert sup.process.wait(20) == 125


def test_a_grace_before_the_end(sup):
    sup.link.start([SH, "-c", "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"])
    sup.link.wait(lambda: any(f.name == "DATA" for f in sup.link.frames))
    assert sup.link.call("STOP", TEXT="in time", GRACE_MS=10000).name == "OK"
    assert sup.link.until_ended().TEXT == "in time"
    assert b"bye" in base64.b64decode(record(sup)["output_base64"])


def test_a_signal_to_the_supervisor(sup):
    sup.process.send_signal(signal.SIGTERM)
    assert "signal 15" in sup.link.until_ended().TEXT


def test_the_audit_knows_who_asked(sups, place):
    sup = sups(CALLER="tenant a, key e2b_12", TRACE="0af7651916cd43dd8448eb211c80319c", ASKED_BY="ward serve --tier")
    sup.link.call("STOP")
    record(sup)
    lines = [json.loads(x) for x in (place / "audit" / "log").read_text().splitlines()] \
        if (place / "audit" / "log").exists() else \
        [json.loads(x) for p in (place / "audit").iterdir() for x in p.read_text().splitlines() if x.startswith("{")]
    mine = [x for x in lines if x.get("id") == sup.id]
    assert [x["event"] for x in mine] == ["run.start", "run.end"]
    assert mine[0]["caller"] == "tenant a, key e2b_12" and mine[0]["asked_by"] == "ward serve --tier"
    assert mine[0]["trace"] == "0af7651916cd43dd8448eb211c80319c" and mine[1]["cause"] == "killed-by-operator"


# --- Processes -----------------------------------------------------------------------------------


def test_defaults_of_a_process(sups):
    sup = sups(ENV=["A=sandbox", "B=sandbox"], CWD="/usr", HOSTNAME="inside")
    out = sup.link.run([SH, "-c", "echo $A $B $C; pwd; hostname; echo $HOME $USER $LOGNAME"],
                       ENV=["B=process", "C=process"])[0]
    assert out.decode().split("\n") == ["sandbox process process", "/usr", "inside", "/root root root", ""]


def test_home_is_where_a_process_starts(sup):
    assert sup.link.run(["/bin/pwd"])[0] == b"/root\n"
    out = sup.link.run([SH, "-c", "pwd; id -u; echo $HOME"], USER="65534")[0].decode().split("\n")
    assert out[1] == "65534"
    # A home that does not exist is no reason not to start.
    assert sup.link.run(["/bin/pwd"], USER="12345")[0] == b"/\n"
    assert sup.link.run(["/bin/pwd"], CWD="/usr/bin")[0] == b"/usr/bin\n"


@pytest.mark.parametrize("fields, step", [
    (dict(USER="nobody-here"), 3), (dict(CWD="/no/such/folder"), 2), (dict(), 4)])
def test_a_process_that_does_not_start(sup, fields, step):
    frame = sup.link.call("START", NULL_STDIN, ARG=["/no/such/program"], **fields)
    assert (frame.name, frame.STEP) == ("START_FAILED", step)
    assert sup.link.entries("STARTED") == []


def test_tags_and_the_list(sup):
    link = sup.link
    stream, pid = link.start(["/bin/sleep", "60"], LABEL="napper", ENV=["X=1"], CWD="/tmp")
    link.run(["/bin/true"], LABEL="quick")
    by_tag = {e.LABEL: e for e in link.entries("STARTED")}
    assert set(by_tag) == {"napper", "quick"}
    napper, quick = by_tag["napper"], by_tag["quick"]
    assert napper.PID == pid and napper.ARG == ["/bin/sleep", "60"] and napper.ENV == ["X=1"]
    assert napper.CWD == "/tmp" and napper.FLAGS == 0 and napper.ATTACHED == 1
    assert quick.FLAGS == 2 and quick.CODE == 0 and quick.ATTACHED == 0
    assert link.call("TELL", LABEL="napper", SIGNAL=15).name == "OK"
    assert link.collect(stream)[2].SIGNAL == 15
    assert link.call("TELL", PID=pid, SIGNAL=15).ERRNO == 3
    assert link.call("TELL", LABEL="nobody", SIGNAL=15).ERRNO == 3


def test_stdin(sup):
    link = sup.link
    stream, pid = link.start(["/bin/cat"], flags=0)
    assert link.input(b"one ", PID=pid).BYTES == 4
    assert link.input(b"two\n", PID=pid).BYTES == 4
    assert link.input(b"", close=True, PID=pid).name == "OK"
    assert link.collect(stream)[0] == b"one two\n"
    assert link.input(b"late", PID=pid).ERRNO == 32


def test_stdin_that_is_not_read_slows_only_its_sender(sup):
    link = sup.link
    stream, pid = link.start([SH, "-c", "sleep 0.5; exec wc -c"], flags=0)
    data = os.urandom(1 << 20)
    feed = link.open("INPUT", 1, PID=pid)
    credit, at = 65536, 0
    while at < len(data):
        if not credit:
            frame = link.take(feed)
            assert frame.name == "CREDIT", frame
            credit += frame.BYTES
        n = min(credit, 60000, len(data) - at)
        link.send_raw("DATA", feed, data[at:at + n])
        at, credit = at + n, credit - n
        # Others are served while it waits.
        if at < 200000:
            assert link.run(["/bin/echo", "x"])[0] == b"x\n"
    link.send_raw("END", feed)
    while (frame := link.take(feed)).name == "CREDIT":
        pass
    assert frame.BYTES == len(data)
    assert int(link.collect(stream)[0]) == len(data)


def test_no_stdin(sup):
    stream, pid = sup.link.start(["/bin/sleep", "60"])
    assert sup.link.input(b"x", PID=pid).ERRNO == 32


def test_a_terminal(sup):
    link = sup.link
    stream = link.open("START", PTY, ARG=[SH, "-c", "tty; stty size; read x; stty size"], ROWS=24, COLS=80)
    opened = link.take(stream)
    assert opened.name == "OPENED" and opened.flags == 2
    link.wait(lambda: b"24 80" in b"".join(f.data for f in link.frames if f.name == "DATA"))
    assert link.call("SHAPE", PID=opened.PID, ROWS=50, COLS=132).name == "OK"
    assert link.input(b"\n", PID=opened.PID).name == "OK"
    out, _, end = link.collect(stream)
    assert b"50 132" in out and end.CODE == 0
    stream, pid = link.start(["/bin/sleep", "9"])
    assert link.call("SHAPE", PID=pid, ROWS=1, COLS=1).ERRNO == 25


def test_a_time_limit_of_a_process(sup):
    out, _, end = sup.link.run([SH, "-c", "echo begun; sleep 60"], TIMEOUT_MS=300)
    assert out == b"begun\n" and end.SIGNAL == 9 and end.flags == 1
    out, _, end = sup.link.run([SH, "-c", "kill -9 $$"], TIMEOUT_MS=300000)
    assert end.SIGNAL == 9 and end.flags == 0
    assert "timeout" in kinds_after_stop(sup)


def kinds_after_stop(sup):
    sup.link.call("STOP")
    return kinds(record(sup))


def test_long_arguments(sup):
    # Longer than one frame: cut into parts, and put together.
    link = sup.link
    args = ["/bin/echo"] + ["y" * 1000] * 300
    payload = encode(ARG=args)
    link.next_stream += 1
    stream = link.next_stream
    for at in range(0, len(payload), 65536):
        more = 8 if at + 65536 < len(payload) else 0
        link.send_raw("START", stream, payload[at:at + 65536], NULL_STDIN | more)
    out, _, end = link.collect(stream)
    assert end.CODE == 0 and len(out) == 300 * 1001


# --- Output and its replay -----------------------------------------------------------------------

COUNT = "i=0; while [ $i -lt {n} ]; do echo line $i; i=$((i+1)); {pause} done"


def lines(first, last):
    return "".join(f"line {i}\n" for i in range(first, last)).encode()


def test_output_survives_the_daemon(sup):
    link = sup.link
    stream, pid = link.start([SH, "-c", COUNT.format(n=100, pause="sleep 0.01;")])
    got = b""
    while got.count(b"\n") < 20:
        frame = link.take(stream)
        got += frame.data
        link.credit(stream, len(frame.data))
    # At once: what was credited counts although nobody had read it yet.
    link = sup.reconnect()
    stream, opened = link.attach(PID=pid)
    assert opened.LOST == 0
    out, _, end = link.collect(stream)
    assert got + out == lines(0, 100) and end.CODE == 0


def test_what_was_not_acknowledged_comes_again(sup):
    link = sup.link
    stream, pid = link.start([SH, "-c", COUNT.format(n=50, pause="") + "; sleep 60"])
    link.wait(lambda: b"".join(f.data for f in link.frames if f.name == "DATA") == lines(0, 50))
    link.credit(stream, len(lines(0, 10)))
    link.call("USAGE")  # the credit is read before the answer is made
    link = sup.reconnect()
    stream, opened = link.attach(PID=pid)
    frame = link.take(stream)
    assert frame.data == lines(10, 50)


def test_a_process_that_ended_meanwhile(sup):
    _, pid = sup.link.start([SH, "-c", "sleep 0.2; echo done; exit 7"])
    sup.link.close()
    time.sleep(0.6)
    link = sup.reconnect()
    out, _, end = link.collect(link.attach(PID=pid)[0])
    assert out == b"done\n" and end.CODE == 7
    # It is remembered, and what was received once is not told again.
    out, _, end = link.collect(link.attach(PID=pid)[0])
    assert out == b"" and end.CODE == 7
    # But for those who ask for all of it.
    out, _, end = link.collect(link.attach(flags=1, PID=pid)[0])
    assert out == b"done\n" and end.CODE == 7


def test_output_that_nobody_receives_is_counted(sup):
    size = RING * 4
    _, pid = sup.link.start([SH, "-c", f"head -c {size} /dev/zero | tr '\\0' x; echo; echo finished"])
    sup.link.close()
    link = sup.reconnect()
    wait_until(lambda: link.entries("STARTED")[0].FLAGS & 2)
    stream, opened = link.attach(PID=pid)
    out, _, end = link.collect(stream)
    assert end.CODE == 0 and out.endswith(b"x\nfinished\n")
    assert len(out) == RING and opened.LOST + len(out) == size + len("\nfinished\n")


def test_a_slow_receiver_loses_nothing(sup):
    size = RING * 8
    stream = sup.link.open("START", NULL_STDIN, ARG=[SH, "-c", f"head -c {size} /dev/zero"], WINDOW=1000)
    assert sup.link.take(stream).name == "OPENED"
    frame = sup.link.take(stream)
    assert len(frame.data) == 1000
    time.sleep(0.3)
    with pytest.raises(TimeoutError):
        sup.link.take(stream, 0.2)
    assert sup.link.entries("STARTED")[0].FLAGS == 0, "it waits"
    sup.link.credit(stream, 1000)
    out = sup.link.collect(stream)[0]
    assert len(out) == size - 1000


def test_two_receivers(sup):
    link = sup.link
    first, pid = link.start([SH, "-c", "echo early; read x; echo late"], flags=0)
    assert link.take(first).data == b"early\n"
    second, _ = link.attach(PID=pid)
    third, _ = link.attach(flags=1, PID=pid)
    assert link.take(third).data == b"early\n"
    link.input(b"\n", PID=pid)
    assert link.collect(first)[0] == b"late\n"
    assert link.collect(second)[0] == b"late\n", "the second has it from when it came"
    assert link.collect(third)[0] == b"late\n"


def test_detach(sup):
    link = sup.link
    stream, pid = link.start([SH, "-c", "while :; do echo x; sleep 0.01; done"])
    link.send_raw("CANCEL", stream)
    while (frame := link.take(stream)).name == "DATA":
        pass
    assert frame.name == "OK"
    assert link.entries("STARTED")[0].ATTACHED == 0
    again, _ = link.attach(PID=pid)
    assert link.take(again).data.startswith(b"x\n")


def test_a_new_daemon_replaces_the_old_one(sup):
    old = sup.link
    new = Link.connect(sup.state, sup.id)
    new.until_state(RUNNING)
    with pytest.raises((Closed, OSError)):
        old.wait(lambda: False, 5)
    assert new.run(["/bin/echo", "new"])[0] == b"new\n"
    sup.link = new


def test_stderr_and_stdout_keep_their_order(sup):
    script = "for i in 1 2 3 4 5 6 7 8; do echo o$i; sleep 0.02; echo e$i >&2; sleep 0.02; done"
    _, pid = sup.link.start([SH, "-c", script])
    sup.link.close()
    time.sleep(0.8)
    link = sup.reconnect()
    stream, _ = link.attach(PID=pid)
    got = []
    while not (frame := link.take(stream)).final:
        if frame.name == "DATA":
            got.append((frame.flags, frame.data.decode()))
    assert got == [x for i in range(1, 9) for x in ((0, f"o{i}\n"), (1, f"e{i}\n"))]


# --- Other tiers, other people -------------------------------------------------------------------


def test_the_workspace_tier(sups):
    sup = sups(TIER=suplink.WALLS["workspace"])
    out = sup.link.run([SH, "-c", "pwd; echo x > f; cat f"])[0].decode().split("\n")
    assert f"/boxes/{sup.id}/" in out[0] and out[1] == "x"
    assert sup.link.call("PAUSE").ERRNO == 95
    assert sup.link.call("LIMITS", PIDS=10).ERRNO == 95
    assert sup.link.usage()["mem_used"] == UNKNOWN


def test_a_deadline_that_cannot_pause_ends_it(sups):
    sup = sups(TIER=suplink.WALLS["workspace"], TIMEOUT_MS=300, ACTION=PAUSE)
    assert sup.link.until_ended().CAUSE == "time-limit"
    assert "pause-failed" in kinds(record(sup))


# --- A daemon that dies before it is up ----------------------------------------------------------


def test_nobody_waits_for_it(sups, tmp_path):
    """Without a deadline, as in a pool, it would wait for ever for somebody who does not know it."""
    go = tmp_path / "go"
    sup = sups(ready=False, prefix=("/bin/sh", "-c", 'until [ -e "$0" ]; do sleep 0.01; done; exec "$@"', go))
    sup.link.close()
    go.touch()
    assert sup.process.wait(60) == 125 and b"is gone" in sup.stderr.read()


def test_nobody_waits_for_it_any_more(sups):
    for _ in range(20):
        sup = sups(ready=False)
        sup.link.wait(lambda: sup.link.status)
        os.kill(sup.process.pid, signal.SIGSTOP)
        wait_until(lambda: pathlib.Path(f"/proc/{sup.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        with contextlib.suppress(TimeoutError):
            sup.link.wait(lambda: False, 0.01)
        was = sup.link.status.STATE
        sup.link.close()
        os.kill(sup.process.pid, signal.SIGCONT)
        if was == STARTING:  # else it was quicker than we are
            assert record(sup)["detail"] == "the daemon that asked for it was gone"
            return
    pytest.fail("it was never slow enough")


# --- Late binding --------------------------------------------------------------------------------


def test_bind(sups):
    sup = sups(ENV=["A=pool", "B=pool"])
    link = sup.link
    bind = link.open("BIND", ENV=["B=mine", "C=mine"], USER="65534", CWD="/tmp", HOSTNAME="mine", CALLER="tenant t",
                     MEMORY=512 << 20, TIMEOUT_MS=50000, ACTION=KILL)
    # Not waited for: order is enough.
    out = link.run([SH, "-c", "echo $A $B $C; id -u; pwd; hostname"])[0]
    assert link.take(bind).name == "OK"
    assert out == b"pool mine mine\n65534\n/tmp\nmine\n"
    link.wait(lambda: link.status.MEMORY == 512 << 20)
    assert 0 < link.status.TIMEOUT_MS <= 50001
    rec = record_after_stop(sup)
    assert any(e["kind"] == "bound" and e["text"] == "tenant t" for e in rec["events"])


def test_soon(sup):
    """It may come to nothing, come with any number for a CPU, or be followed by anything: it changes nothing but when."""
    link = sup.link
    for cpu in (None, 0, 1, 2 ** 32 - 1):
        assert link.call("SOON", CPU=cpu).name == "OK"
    soon, bind = link.open("SOON", CPU=2 ** 32 - 1), link.open("BIND", ENV=["B=mine"])
    assert link.run([SH, "-c", "echo $B"])[0] == b"mine\n"
    assert link.take(soon).name == link.take(bind).name == "OK"
    link.open("SOON", CPU=2 ** 32 - 1)
    record_after_stop(sup)


@pytest.mark.parametrize("fields", [dict(ENV=["novalue"]), dict(ACTION=9), dict(MEMORY=1)])
def test_a_bind_that_makes_no_sense(sup, fields):
    assert sup.link.call("BIND", **fields).ERRNO == 22
    assert sup.link.run(["/bin/true"])[2].CODE == 0


# --- The flight recorder -------------------------------------------------------------------------


def test_the_record(sup):
    link = sup.link
    for i in range(100):
        link.run([SH, "-c", f"echo run {i}; exit {i}"])
    rec = record_after_stop(sup)
    assert rec["version"] == 1 and rec["id"] == sup.id and rec["tier"] == "container" and rec["processes"] == 100
    assert len(rec["events"]) == 64 < rec["event_count"]
    assert rec["events"][-1]["kind"] == "end"
    assert base64.b64decode(rec["output_base64"]).endswith(b"run 98\nrun 99\n")
    assert rec["usage"]["cpu_us"] > 0
    assert [e["at_us"] for e in rec["events"]] == sorted(e["at_us"] for e in rec["events"])


def test_the_tail_of_much_output(sup):
    sup.link.run([SH, "-c", "seq 100000"])
    rec = record_after_stop(sup)
    tail = base64.b64decode(rec["output_base64"])
    assert len(tail) == 8192 and tail.endswith(b"99999\n100000\n") and rec["output_bytes"] == 588895


def test_the_curve(sup):
    time.sleep(2.3)
    rec = record_after_stop(sup)
    assert len(rec["curve"]) >= 1
    point = rec["curve"][0]
    # the first process, and the one that waits for the first command
    assert point["mem_used"] > 0 and point["pids"] == 2 and point["cpu_us"] > 0


# --- Those who die -------------------------------------------------------------------------------


def sweep(place):
    done = subprocess.run([BINARY, "--state-dir", place, "gc", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("paused", [False, True])
def test_the_supervisor_is_killed(sups, place, paused):
    leaks = Leaks(place)
    sup = sups()
    sup.link.start(["/bin/sleep", "600"])
    if paused:
        sup.link.ok("PAUSE")
    sup.process.kill()
    sup.process.wait()
    sweep(place)
    leaks.check()


def test_the_first_process_is_killed(sup):
    sup.link.start(["/bin/sleep", "600"])
    os.kill(sup.link.status.PID, signal.SIGKILL)
    end = sup.link.until_ended()
    assert end.CAUSE == "killed-by-operator" and "first process was killed by signal 9" in end.TEXT
    assert record(sup)["detail"] == end.TEXT


def test_a_connection_that_breaks_in_a_frame(sup):
    whole = struct.pack("<IHHI", 0, 0, 0, 0)
    frame = encode(ARG=["/bin/true"])
    whole = struct.pack("<IHHI", len(frame), suplink.MSG["START"], NULL_STDIN, 1) + frame
    for cut in range(1, len(whole)):
        link = Link.connect(sup.state, sup.id)
        link.sock.sendall(whole[:cut])
        link.close()
    assert sup.reconnect().run(["/bin/echo", "fine"])[0] == b"fine\n"
    assert sup.link.entries("STARTED")[-1].ARG == ["/bin/echo", "fine"]


@pytest.mark.parametrize("raw", [
    struct.pack("<IHHI", 1 << 20, 16, 0, 1),                                # a frame that is too long
    struct.pack("<IHHI", 3, 16, 0, 1) + b"abc",                             # no fields
    struct.pack("<IHHI", 0, 269, 0, 0),                                     # stream 0
    struct.pack("<IHHI", 0, 269, 0, 5000),                                  # a stream beyond the limit
    struct.pack("<IHHI", 7, 16, 8, 1) + struct.pack("<HI", 10, 1) + b"\0" + struct.pack("<IHHI", 0, 269, 0, 2),
    struct.pack("<IHHI", 10, 264, 0, 1) + struct.pack("<HII", 71, 4, 1),    # a U64 of four bytes
])
def test_a_daemon_that_talks_nonsense(sup, raw):
    sup.link.sock.sendall(raw)
    with pytest.raises((Closed, OSError)):
        sup.link.wait(lambda: False, 10)
    assert sup.reconnect().run(["/bin/echo", "fine"])[0] == b"fine\n"


def test_more_credit_than_was_sent(sup):
    stream, pid = sup.link.start(["/bin/echo", "x"])
    sup.link.credit(stream, 1 << 40)
    with pytest.raises((Closed, OSError)):
        sup.link.wait(lambda: False, 10)
    assert sup.reconnect().run(["/bin/echo", "fine"])[0] == b"fine\n"


@pytest.mark.parametrize("kind", [15, 272, 400])
def test_requests_that_do_not_exist(sup, kind):
    suplink.MSG.setdefault(str(kind), kind)
    assert sup.link.call(str(kind)).ERRNO == 38


def test_a_daemon_that_does_not_read(sup):
    """Output goes into the rings and no further; the supervisor answers the next daemon."""
    link = sup.link
    for _ in range(8):
        link.open("START", NULL_STDIN, ARG=[SH, "-c", "head -c 4000000 /dev/zero"], WINDOW=1 << 28)
    time.sleep(1)
    rss = 0 if SANITIZED else int([x for x in open(f"/proc/{sup.process.pid}/status") if x.startswith("VmRSS")][0].split()[1])
    assert rss < 16 * 1024
    assert sup.reconnect().run(["/bin/echo", "fine"])[0] == b"fine\n"


def test_many_processes(sup):
    link = sup.link
    streams = [link.open("START", NULL_STDIN, ARG=["/bin/sleep", "30"]) for _ in range(257)]
    frames = [link.take(s) for s in streams]
    assert [f.name for f in frames] == ["OPENED"] * 256 + ["ERROR"] and frames[-1].ERRNO == 11
    assert link.status and len(link.entries("STARTED")) == 256
    for f in frames[:-1]:
        link.open("TELL", PID=f.PID, SIGNAL=9)
    for s in streams[:-1]:
        assert link.collect(s)[2].SIGNAL == 9
    # Ended ones are remembered, but not all of them.
    assert len(link.entries("STARTED")) == 64


@pytest.mark.skipif(SANITIZED, reason="sanitizers have their own idea of memory")
def test_an_idle_sandbox_is_small(sup):
    def pss(pid):
        return sum(int(x.split()[1]) for x in open(f"/proc/{pid}/smaps_rollup") if x.startswith("Pss:"))
    sup.link.run(["/bin/true"])
    assert pss(sup.process.pid) + pss(sup.link.status.PID) < 2048


# --- Step by step --------------------------------------------------------------------------------


@pytest.mark.skipif(not FAULT.exists(), reason="this build has no ward-fault")
@pytest.mark.parametrize("do", ["kill", 5, 12])
def test_a_fault_at_every_step_of_a_life(place, do):
    """Start, one process, a pause, a resume, a stop: the n-th host call of the supervisor meets a fault."""
    leaks = Leaks(place)
    log = place.parent / "sup-calls"
    n = 0
    while True:
        n += 1
        log.unlink(missing_ok=True)
        env = {"WARD_FAULT_AT": str(n), "WARD_FAULT_DO": str(do), "WARD_FAULT_SIDE": "parent", "WARD_FAULT_LOG": str(log)}
        sup = Sup(FAULT, place, env=env)
        try:
            sup.link.until_state(RUNNING, 20)
            sup.link.run(["/bin/true"])
            sup.link.call("PAUSE")
            sup.link.call("RESUME")
            sup.link.call("STOP")
            sup.link.until_ended(20)
        except (Closed, OSError):
            pass
        sup.process.wait(30)
        record_is_there = os.path.exists(sup.record_path())
        if record_is_there:
            json.load(open(sup.record_path()))
        sup.link.close()
        sup.stderr.close()
        calls = len(log.read_text().split())
        if do == "kill" and calls >= n:
            assert sup.process.returncode == -9
            sweep(place)
        if n % 10 == 0:
            sweep(place)
            leaks.check()
        for name in os.listdir(place / "run"):
            os.unlink(place / "run" / name)
        if calls < n:
            break
    assert n > 60
    sweep(place)
    leaks.check()


@pytest.mark.skipif(not FAULT.exists(), reason="this build has no ward-fault")
@pytest.mark.parametrize("do", ["kill", 5])
def test_a_fault_at_every_step_of_the_first_process(place, do):
    """The sandbox is not made, the daemon is told why, and nothing is left."""
    leaks = Leaks(place)
    n, quiet = 0, 0
    while quiet < 12:
        n += 1
        env = {"WARD_FAULT_AT": str(n), "WARD_FAULT_DO": str(do), "WARD_FAULT_SIDE": "child"}
        sup = Sup(FAULT, place, env=env)
        try:
            sup.link.wait(lambda: sup.link.ended or sup.link.status and sup.link.status.STATE == RUNNING)
            if not sup.link.ended:
                out, _, last = sup.link.run(["/bin/echo", "whole"])
                if last.name == "EXIT":  # otherwise it died after it was ready
                    assert out == b"whole\n", f"a part is missing after call {n}"
                    sup.link.call("STOP")
                    quiet += 1
            sup.link.until_ended()
        except (Closed, BrokenPipeError):
            # What was said before it hung up can still be read.
            with contextlib.suppress(Closed):
                sup.link.until_ended()
            assert sup.link.ended, f"the supervisor closed without a word at call {n}"
        finally:
            sup.process.wait(30)
            sup.link.close()
            sup.stderr.close()
        end = sup.link.ended
        rec = json.load(open(sup.record_path()))
        assert (rec["cause"], rec["detail"] or "") == (end.CAUSE, end.TEXT)
        if end.TEXT != "stopped":
            quiet = 0
            assert rec["detail"]
        for name in os.listdir(place / "run"):
            os.unlink(place / "run" / name)
    assert n > 30
    leaks.check()
