"""`ward serve` as a fixture.

serve     factory: serve(*options) starts a daemon on the test's state directory and waits until it is ready
"""
import http.client
import json
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from hubtest import supervisors, until
from leftovers import Leaks
from wardtest import BINARY, Ward


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(str(self.path))


class Daemon:
    def __init__(self, ward, *options, tier="container", port=0):
        self.ward, self.log = ward, ward.state.with_name("serve.log")
        self.at = self.log.stat().st_size if self.log.exists() else 0
        listen = [] if port is None else ["--listen", f"127.0.0.1:{port}"]
        self.process = ward.start("serve", *listen, *(["--tier", tier] if tier else []), *options,
                                  stdout=subprocess.PIPE, stderr=open(self.log, "a"))
        self.port, self.key = None, None

    def text(self):
        with open(self.log) as f:
            f.seek(self.at)
            return f.read()

    def ready(self, patience=30):
        def look():
            assert self.process.poll() is None, self.text()
            return "at=daemon.ready" in self.text() and re.search(r"at=daemon.listen addr=\S+ port=(\d+)", self.text())
        self.port = int(until(look, "the daemon to be ready", patience).group(1))
        return self

    def request(self, method, path, body=None, key=True, unix=False, headers=None):
        headers = dict(headers or {})
        if body is not None:
            body, headers["Content-Type"] = json.dumps(body), "application/json"
        if key:
            headers["X-API-KEY"] = self.key if key is True else key
        c = Unix(self.ward.state / "ward.sock") if unix else http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            c.request(method, path, body, headers)
            answer = c.getresponse()
            text = answer.read().decode()
            return answer.status, json.loads(text) if text.startswith(("{", "[")) else text
        finally:
            c.close()

    def make_key(self, name="test", *options):
        done = self.ward("key", "create", name, *options)
        assert done.returncode == 0, done.stderr
        self.key = self.key or done.stdout.strip()
        return done.stdout.strip()

    def create(self, key=True, **body):
        status, box = self.request("POST", "/v2/sandboxes", {"templateID": "base", **body}, key)
        assert status == 201, (status, box)
        return box["sandboxID"]

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        return self.process.wait(60)


@pytest.fixture
def serve(ward, state):
    state.mkdir(mode=0o700, parents=True)
    leaks, daemons = Leaks(state), []

    def make(*options, **named):
        daemons.append(Daemon(ward, *options, **named))
        return daemons[-1]

    yield make
    for daemon in daemons:
        if daemon.process.poll() is None:
            daemon.stop(signal.SIGKILL)
    last = Daemon(ward, "--stop-sandboxes").ready()
    assert last.stop() == 0
    until(lambda: not supervisors(state), "supervisors to end")
    leaks.check()
