"""The supervisor: deadlines, pauses and limits."""
import signal
import time

import pytest

from runbox import needs_root
from supbox import kinds, place, record, record_after_stop, sup, sups  # noqa: F401 (fixtures)
from suplink import KILL, PAUSE, PAUSED, RUNNING, UNKNOWN

SH = "/bin/sh"

pytestmark = needs_root


def test_a_deadline_ends_it(sups):
    sup = sups(TIMEOUT_MS=400, ACTION=KILL)
    assert 0 < sup.link.status.TIMEOUT_MS <= 401
    end = sup.link.until_ended()
    assert end.CAUSE == "time-limit" and "400" in end.TEXT
    assert record(sup)["limits_hit"] == ["time-limit"]


def test_a_deadline_holds_without_a_daemon(sups):
    sup = sups(TIMEOUT_MS=400, ACTION=KILL)
    sup.link.close()
    assert record(sup)["cause"] == "time-limit"


def test_a_deadline_pauses_it(sups):
    sup = sups(TIMEOUT_MS=300, ACTION=PAUSE)
    status = sup.link.until_state(PAUSED)
    assert "time" in status.REASON and status.TIMEOUT_MS == 0
    assert sup.link.call("RESUME", TIMEOUT_MS=60000, ACTION=KILL).name == "OK"
    assert 59000 < sup.link.until_state(RUNNING).TIMEOUT_MS <= 60001


def test_a_deadline_can_move(sup):
    link = sup.link
    assert link.call("DEADLINE", TIMEOUT_MS=60000, ACTION=KILL).name == "OK"
    link.wait(lambda: link.status.TIMEOUT_MS > 50000)
    assert link.call("DEADLINE", TIMEOUT_MS=0).name == "OK"
    link.wait(lambda: link.status.TIMEOUT_MS == 0)
    assert link.call("DEADLINE", TIMEOUT_MS=2 ** 63).ERRNO == 22
    assert link.call("DEADLINE", TIMEOUT_MS=1, ACTION=KILL).name == "OK"
    assert link.until_ended().CAUSE == "time-limit"


def test_pause_and_resume(sup):
    link = sup.link
    stream, pid = link.start([SH, "-c", "while :; do echo x; sleep 0.01; done"], WINDOW=1 << 20)
    link.take(stream)
    assert link.call("PAUSE").name == "OK"
    assert link.until_state(PAUSED).REASON == "the daemon"
    assert link.call("PAUSE").ERRNO == 114
    before = link.entries("STARTED")[0].WAITING
    link.frames.clear()
    time.sleep(0.3)
    assert link.entries("STARTED")[0].WAITING == before, "a paused process writes nothing"
    for kind, fields in (("START", dict(ARG=["/bin/true"])), ("STAT", dict(PATH="/")), ("TELL", dict(PID=pid, SIGNAL=9)),
                         ("DEADLINE", dict(TIMEOUT_MS=1)), ("BIND", dict())):
        assert link.call(kind, **fields).ERRNO == 112, kind
    assert link.usage()["pids"] >= 2
    assert link.call("RESUME").name == "OK"
    assert link.call("RESUME").ERRNO == 114
    assert link.take(stream).name == "DATA"


def test_a_paused_sandbox_keeps_over_a_daemon(sup):
    sup.link.ok("PAUSE")
    link = sup.reconnect()
    assert link.status.STATE == PAUSED
    link.ok("RESUME")
    assert link.run(["/bin/echo", "again"])[0] == b"again\n"


def test_the_deadline_stands_still_while_paused(sup):
    link = sup.link
    link.ok("DEADLINE", TIMEOUT_MS=600, ACTION=KILL)
    link.ok("PAUSE")
    time.sleep(0.9)
    assert sup.process.poll() is None
    link.ok("RESUME")
    assert link.until_ended().CAUSE == "time-limit"


def test_the_time_of_a_process_stands_still_while_paused(sup):
    link = sup.link
    stream, pid = link.start([SH, "-c", "echo begun; sleep 60"], TIMEOUT_MS=700)
    link.ok("PAUSE")
    time.sleep(1)
    link.ok("RESUME")
    assert link.run(["/bin/true"])[2].CODE == 0
    assert [e.FLAGS for e in link.entries("STARTED") if e.PID == pid] == [0], "it has some of its time left"
    assert link.collect(stream)[2].SIGNAL == 9


@pytest.mark.parametrize("how", ["stop", "grace", "sigterm"])
def test_a_paused_sandbox_can_end(sup, how):
    sup.link.start(["/bin/sleep", "60"])
    sup.link.ok("PAUSE")
    if how == "sigterm":
        sup.process.send_signal(signal.SIGTERM)
    else:
        sup.link.ok("STOP", GRACE_MS=5000 if how == "grace" else None)
    assert sup.link.until_ended().CAUSE == "killed-by-operator"


def test_pausing_gives_caches_back(sup):
    link = sup.link
    link.run([SH, "-c", "cat /usr/bin/* > /dev/null 2>&1; cat /usr/lib/x86_64-linux-gnu/*.so* > /dev/null 2>&1"], timeout=60)
    before = link.usage()
    link.ok("PAUSE")
    after = link.usage()
    assert after["mem_used"] <= before["mem_used"]


def test_a_process_in_a_denied_call_can_be_paused(sup):
    # It waits for the supervisor's answer while the supervisor waits for it to stand still.
    sup.link.start(["/usr/bin/python3", "-c", "import ctypes\nl = ctypes.CDLL(None)\nwhile True: l.mount(0, 0, 0, 0, 0)"])
    time.sleep(0.2)
    for _ in range(20):
        sup.link.ok("PAUSE")
        sup.link.ok("RESUME")
    rec = record_after_stop(sup)
    assert rec["denials"][0]["what"] == "mount" and "denied" in kinds(rec)


def test_limits_change_while_it_runs(sup):
    link = sup.link
    assert link.usage()["mem_limit"] == 2 << 30
    link.ok("LIMITS", MEMORY=256 << 20, PIDS=20, CPU_MILLI=500)
    u = link.usage()
    assert (u["mem_limit"], u["pids_limit"]) == (256 << 20, 20)
    link.wait(lambda: link.status.MEMORY == 256 << 20)
    assert (link.status.PIDS, link.status.CPU_MILLI) == (20, 500)
    out = link.run([SH, "-c", "for i in $(seq 30); do sleep 5 & done; wait"])
    assert b"fork" in out[1].lower() or out[2].CODE != 0
    link.ok("LIMITS", MEMORY=1 << 30, PIDS=1000)
    assert link.usage()["mem_limit"] == 1 << 30
    assert link.call("LIMITS", MEMORY=1000).ERRNO == 22
    assert link.call("LIMITS", DISK=1 << 30).ERRNO == 95


def test_less_memory_than_is_used(sup):
    link = sup.link
    link.start(["/usr/bin/python3", "-c", "x = bytearray(100 << 20)\nprint('full', flush=True)\nimport time\ntime.sleep(60)"])
    link.wait(lambda: any(f.name == "DATA" for f in link.frames))
    assert link.call("LIMITS", MEMORY=20 << 20).ERRNO == 16
    assert link.run(["/bin/echo", "lives"])[0] == b"lives\n"
    assert link.usage()["mem_limit"] == 2 << 30


def test_usage(sup):
    link = sup.link
    before = link.usage()
    link.run([SH, "-c", "head -c 5000000 /dev/zero > /tmp/f; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"])
    u = link.usage()
    assert u["cpu_us"] > before["cpu_us"] and u["mem_used"] >= 4 << 20 and u["mem_peak"] >= u["mem_used"]
    assert u["disk_used"] >= 4 << 20 and u["disk_total"] == 1 << 30
    assert u["pids"] == 1 and u["pids_limit"] == 1024 and u["net_in"] != UNKNOWN


def test_one_command_that_is_too_large_ends_alone(sups):
    sup = sups(MEMORY=64 << 20)
    out, err, end = sup.link.run(["/usr/bin/python3", "-c", "x = bytearray(200 << 20)"], timeout=60)
    assert end.SIGNAL == 9 or end.CODE == 1
    assert sup.link.run(["/bin/echo", "still here"])[0] == b"still here\n"
    rec = record_after_stop(sup)
    assert rec["limits_hit"] == ["out-of-memory"] and rec["cause"] == "killed-by-operator"
    assert any(e["kind"] == "limit" and "memory" in e["text"] for e in rec["events"])
