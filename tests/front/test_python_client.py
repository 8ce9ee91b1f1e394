"""A client that speaks as the Python SDK does: httpx's headers, JSON with blanks and newlines, Content-Length on what is
not a stream, the older paths, one connection kept (HTTP/1.1), or HTTP/2."""
import base64
import http.client
import json
import re
import struct
import subprocess

import pytest

AGENT = {"Accept": "*/*", "Accept-Encoding": "gzip, deflate", "Connection": "keep-alive", "User-Agent": "e2b-python-sdk/2.45.1"}
INFO = {"lang": "python", "lang_version": "3.11.2", "package_version": "2.45.1", "publisher": "e2b", "sdk_runtime": "python", "system": "Linux"}


class Plain:
    """HTTP/1.1, one connection."""

    def __init__(self, daemon):
        self.connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=60)

    def __call__(self, method, path, headers, body=None):
        self.connection.request(method, path, body, {**AGENT, **headers})
        answer = self.connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()


class Multiplexed:
    """HTTP/2, by curl."""

    def __init__(self, daemon):
        self.url = daemon.url

    def __call__(self, method, path, headers, body=None):
        sent = [w for k, v in {**AGENT, **headers}.items() if k != "Connection" for w in ("-H", f"{k}: {v}")]
        data = ["--data-binary", "@-"] if body is not None else []
        done = subprocess.run(["curl", "-s", "-i", "--raw", "--http2-prior-knowledge", "-X", method, *sent, *data, self.url + path], input=body,
                              capture_output=True, timeout=60)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        assert lines[0].startswith("HTTP/2 "), done
        return int(lines[0].split()[1]), dict(line.lower().split(": ", 1) for line in lines[1:]), rest


class Sdk:
    def __init__(self, wire, key):
        self.wire, self.key, self.box = wire, key, None

    def api(self, method, path, body=None):
        headers = {"X-API-KEY": self.key, **INFO}
        if body is not None:
            body = json.dumps(body, indent=2).encode()
            headers |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        status, told, text = self.wire(method, path, headers, body)
        return status, told, json.loads(text) if text else None

    def create(self, **fields):
        status, told, made = self.api("POST", "/sandboxes", {"templateID": "base", "timeout": 300, "secure": True, "allow_internet_access": True,
                                                             "metadata": {}, "envVars": {}, "autoPause": False, **fields})
        assert status == 201, made
        self.box = made["sandboxID"]
        self.plane = {"E2b-Sandbox-Id": self.box, "E2b-Sandbox-Port": "49983", "X-Access-Token": made["envdAccessToken"]}
        return made, told

    def unary(self, method, message, user=None):
        body = json.dumps(message, indent=2).encode()
        headers = {**self.plane, "Connect-Protocol-Version": "1", "Content-Type": "application/json", "Content-Encoding": "identity",
                   "Connect-Timeout-Ms": "60000", "Content-Length": str(len(body))}
        if user:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:".encode()).decode()
        status, _, text = self.wire("POST", "/" + method, headers, body)
        return status, json.loads(text)

    def stream(self, method, message):
        text = json.dumps(message, indent=2).encode()
        body = struct.pack(">BI", 0, len(text)) + text
        status, told, raw = self.wire("POST", "/" + method, {**self.plane, "Connect-Protocol-Version": "1", "Content-Type": "application/connect+json",
                                                             "Connect-Content-Encoding": "identity", "Connect-Timeout-Ms": "60000",
                                                             "Keepalive-Ping-Interval": "50", "Content-Length": str(len(body))}, body)
        assert status == 200 and told["content-type"] == "application/connect+json", raw
        messages = []
        while raw:
            flags, size = struct.unpack(">BI", raw[:5])
            messages.append((flags, json.loads(raw[5:5 + size])))
            raw = raw[5 + size:]
        assert messages[-1] == (2, {}) and all(flags == 0 for flags, _ in messages[:-1])
        return [m for _, m in messages[:-1]]


@pytest.fixture(params=[Plain, Multiplexed], ids=["http1", "http2"])
def sdk(request, daemon, keys):
    one = Sdk(request.param(daemon), keys[0])
    yield one
    if one.box:
        one.api("DELETE", "/sandboxes/" + one.box)


def test_a_session(sdk):
    made, _ = sdk.create(envVars={"A": "ü"}, metadata={"k": "v"})
    assert {"sandboxID", "templateID", "clientID", "envdVersion", "envdAccessToken"} <= set(made)
    assert sdk.wire("GET", "/health", sdk.plane)[0] == 204
    events = [m["event"] for m in sdk.stream("process.Process/Start", {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "echo $A; echo err >&2; exit 3"],
                                                                                   "envs": {}, "cwd": None}, "stdin": False})]
    assert "pid" in events[0]["start"]
    out = b"".join(base64.b64decode(e["data"]["stdout"]) for e in events if "stdout" in e.get("data", {}))
    err = b"".join(base64.b64decode(e["data"]["stderr"]) for e in events if "stderr" in e.get("data", {}))
    assert (out, err, events[-1]["end"]["exitCode"]) == ("ü\n".encode(), b"err\n", 3)
    # Files: a form as httpx makes it, and the bytes back.
    form = b'--b0\r\nContent-Disposition: form-data; name="file"; filename="/home/user/d/f.txt"\r\nContent-Type: application/octet-stream\r\n\r\nhello\r\n--b0--\r\n'
    status, _, text = sdk.wire("POST", "/files?username=user", {**sdk.plane, "Content-Type": "multipart/form-data; boundary=b0",
                                                                "Content-Length": str(len(form))}, form)
    assert status == 200 and json.loads(text) == [{"path": "/home/user/d/f.txt", "name": "f.txt", "type": "file"}]
    assert sdk.wire("GET", "/files?path=d/f.txt&username=user", sdk.plane)[2] == b"hello"
    status, entry = sdk.unary("filesystem.Filesystem/Stat", {"path": "d/f.txt"}, "user")
    assert status == 200 and entry["entry"]["path"] == "/home/user/d/f.txt" and int(entry["entry"]["size"]) == 5
    status, failed = sdk.unary("filesystem.Filesystem/Stat", {"path": "nothing"}, "user")
    assert (status, failed["code"]) == (404, "not_found") and failed["message"]
    assert sdk.unary("process.Process/List", {})[0] == 200
    assert sdk.api("POST", f"/sandboxes/{sdk.box}/timeout", {"timeout": 120})[0] == 204
    assert sdk.api("GET", f"/sandboxes/{sdk.box}/metrics")[0] == 200
    assert sdk.api("DELETE", f"/sandboxes/{sdk.box}")[0] == 204
    status, _, gone = sdk.api("DELETE", f"/sandboxes/{sdk.box}")
    assert status == 404 and gone["code"] == 404
    assert sdk.wire("GET", "/health", sdk.plane)[0] == 502


def test_logs_by_page_and_level(sdk):
    sdk.create()
    sdk.api("POST", f"/sandboxes/{sdk.box}/pause", {})
    at = f"/v2/sandboxes/{sdk.box}/logs"
    logs = sdk.api("GET", at)[2]["logs"]
    assert len(logs) >= 4 and all(set(entry) == {"timestamp", "level", "message", "fields"} for entry in logs)
    assert logs == sorted(logs, key=lambda entry: entry["timestamp"])
    assert sdk.api("GET", at + "?limit=2")[2]["logs"] == logs[:2]
    assert sdk.api("GET", at + "?direction=backward&limit=2")[2]["logs"] == logs[::-1][:2]
    assert sdk.api("GET", at + "?level=error")[2]["logs"] == [] and sdk.api("GET", at + "?level=debug")[2]["logs"] == logs
    assert all("asked for" in entry["message"] for entry in sdk.api("GET", at + "?search=asked+for")[2]["logs"])
    assert sdk.api("GET", at + "?cursor=99999999999999")[2]["logs"] == []
    for bad in ("level=loud", "limit=0", "limit=x", "direction=up", "cursor=-1"):
        assert sdk.api("GET", f"{at}?{bad}")[0] == 400, bad
    old = sdk.api("GET", f"/sandboxes/{sdk.box}/logs?limit=1")[2]
    (line,) = old["logs"]  # which E2B's command line reads as JSON
    assert old["logEntries"] == logs[:1] and line["timestamp"] == logs[0]["timestamp"]
    assert json.loads(line["line"]) == {"level": "info", "logger": "ward", "message": logs[0]["message"], "state": "creating"}


def test_rules_about_the_network(sdk):
    _, told = sdk.create(network={"allowOut": ["*.example.com", "10.0.0.0/8"], "denyOut": ["0.0.0.0/0"]})
    assert re.search("no gateway", told["ward-notice"])
    at = f"/sandboxes/{sdk.box}/network"
    for bad in ({"allowOut": ["http://x"]}, {"denyOut": ["example.com"]}, {"denyOut": ["10.0.0.0/40"]}, {"allowOut": [""]}, {"allowOut": "x"}):
        status, _, answer = sdk.api("PUT", at, bad)
        assert status == 400 and answer["code"] == 400, (bad, answer)
        assert sdk.api("POST", "/sandboxes", {"templateID": "base", "network": bad})[0] == 400
    status, told, _ = sdk.api("PUT", at, {"denyOut": ["8.8.8.8"]})
    assert status == 204 and "ward-notice" not in told
