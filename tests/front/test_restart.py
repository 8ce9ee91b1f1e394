"""A daemon that is killed and started again: its clients go on where they were."""
import json
import struct
import time
import urllib.request

import pytest

from daemon import Daemon
from runbox import IS_ROOT
from wardtest import public_directory


def call(d, method, path, body=None, headers=()):
    request = urllib.request.Request(d.url + path, method=method, data=body, headers=dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def envelope(message):
    data = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(data)) + data


def envelopes(data):
    while data:
        size = struct.unpack(">I", data[1:5])[0]
        yield json.loads(data[5:5 + size])
        data = data[5 + size:]


@pytest.fixture
def own():
    if not IS_ROOT:
        pytest.skip("sandboxes of more than one user need root")
    with public_directory() as place:
        d = Daemon(place / "state").start()
        yield d
        d.stop()


def test_clients_go_on(own):
    key = own.key("k")
    told = json.loads(call(own, "POST", "/v2/sandboxes", b'{"templateID":"base","timeout":600}', {"X-API-KEY": key})[1])
    plane = {"E2b-Sandbox-Id": told["sandboxID"], "E2b-Sandbox-Port": "49983", "X-Access-Token": told["envdAccessToken"]}
    code = {**plane, "E2b-Sandbox-Port": "49999"}
    stream = {**plane, "Content-Type": "application/connect+json"}

    def execute(text):
        status, body = call(own, "POST", "/execute", json.dumps({"code": text}).encode(), code)
        assert status == 200, body
        return [json.loads(line) for line in body.decode().splitlines()]

    assert any(line.get("text") == "41" for line in execute("kept = 41\nkept"))
    talk = "for i in $(seq 40); do echo line $i; sleep 0.1; done; exit 9"
    started = call(own, "POST", "/ward/v1/sandboxes/" + told["sandboxID"] + "/exec", json.dumps({"args": ["sh", "-c", talk], "detach": True}).encode(), {"X-API-KEY": key})
    pid = json.loads(started[1])["pid"]
    time.sleep(0.5)
    own.kill()
    time.sleep(0.5)
    own.start()

    assert call(own, "GET", "/health", headers=plane)[0] == 204
    assert any(line.get("text") == "42" for line in execute("kept + 1")), "the interpreter kept its state"
    contexts = json.loads(call(own, "GET", "/contexts", headers=code)[1])
    assert len(contexts) == 1 and contexts[0]["language"] == "python"
    status, body = call(own, "POST", "/process.Process/Connect", envelope({"process": {"pid": pid}}), stream)
    assert status == 200
    events = list(envelopes(body))
    import base64
    said = b"".join(base64.b64decode(e["event"]["data"]["stdout"]) for e in events if "data" in e.get("event", {})).decode()
    assert said.splitlines() == [f"line {i}" for i in range(1, 41)], "nothing of its output is lost"
    assert [e["event"]["end"]["exitCode"] for e in events if "end" in e.get("event", {})] == [9]
    assert call(own, "DELETE", "/sandboxes/" + told["sandboxID"], headers={"X-API-KEY": key})[0] == 204


def test_events_go_on(own):
    """Whoever listened comes back with the last number of the daemon before, and misses nothing of this one."""
    key = {"X-API-KEY": own.key("k")}

    def until_stopped(since, box):
        request = urllib.request.Request(f"{own.url}/ward/v1/events", headers={**key, "Last-Event-ID": str(since)})
        seen = []
        with urllib.request.urlopen(request, timeout=60) as answer:
            for line in answer:
                if line.startswith(b"data:"):
                    seen.append(json.loads(line[5:]))
                    if seen[-1]["id"] == box and seen[-1]["kind"] == "sandbox.stopped":
                        return seen

    def one_life():
        box = json.loads(call(own, "POST", "/v2/sandboxes", b"{}", key)[1])["sandboxID"]
        assert call(own, "DELETE", "/sandboxes/" + box, headers=key)[0] == 204
        return box
    before = until_stopped(1, one_life())
    own.kill()
    own.start()
    boxes = [one_life() for _ in range(3)]
    after = until_stopped(before[-1]["seq"], boxes[-1])
    for box in boxes:
        assert [e["kind"] for e in after if e["id"] == box] == [e["kind"] for e in before], after
    assert min(e["seq"] for e in after) > before[-1]["seq"]
