"""Helpers for tests of src/wire/: the server of tests/wire/, raw sockets to it, and answers taken apart."""
import json
import pathlib
import signal
import socket
import subprocess
import time

import pytest

from wardtest import BINARY, SANITIZED

ECHO = BINARY.parent / "tests" / "wire" / "wire-echo"


class Echo:
    """A running wire-echo."""

    def __init__(self, folder, *options, tls=False):
        self.folder = pathlib.Path(folder)
        self.unix = str(self.folder / "s.sock")
        argv = [str(ECHO), "--tcp", "127.0.0.1", "--unix", self.unix]
        if tls:
            self.make_certificate("first")
            argv += ["--tls", str(self.folder / "cert.pem"), str(self.folder / "key.pem")]
        self.errors = open(self.folder / "stderr", "w+")
        self.process = subprocess.Popen([*argv, *map(str, options)], stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.port = self.tls = None
        self.asked = False
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "ready":
                break
            if words[0] in ("tcp", "tls"):
                setattr(self, "port" if words[0] == "tcp" else "tls", int(words[1]))
        assert self.port, self.stderr()

    def make_certificate(self, name):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                        str(self.folder / "key.pem"), "-out", str(self.folder / "cert.pem"), "-days", "30", "-subj", f"/CN={name}"],
                       check=True, capture_output=True)

    def stderr(self):
        self.errors.flush()
        return (self.folder / "stderr").read_text()

    def url(self, path=""):
        return f"http://127.0.0.1:{self.port}{path}"

    def connect(self, receive_buffer=None, timeout=20):
        s = socket.socket()
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(timeout)
        s.connect(("127.0.0.1", self.port))
        return s

    def ask(self, data, timeout=20):
        """Sends bytes, and reads until the server closes."""
        with self.connect(timeout=timeout) as s:
            s.sendall(data)
            return read_all(s)

    def stats(self):
        answer = read_answer(self.ask(b"GET /stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
        return json.loads(answer.body)

    def until(self, check, seconds=20):
        """The statistics, as soon as they satisfy @check."""
        end = time.monotonic() + seconds
        while True:
            stats = self.stats()
            if check(stats):
                return stats
            assert time.monotonic() < end, stats
            time.sleep(0.02)

    def terminate(self):
        """Asks it to drain; once, since a second signal would find it without a handler."""
        if not self.asked and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.asked = True

    def grew(self, before):
        """Kilobytes of memory since @before; a sanitizer keeps what was freed, so there it says nothing."""
        return 0 if SANITIZED else self.stats()["rss_kb"] - before["rss_kb"]

    def stop(self):
        """Drains it, and looks at how it ended. A second time is nothing."""
        if self.errors.closed:
            return
        self.terminate()
        self.process.stdout.close()
        try:
            code = self.process.wait(timeout=30)
        finally:
            self.process.kill()
            text = self.stderr()
            self.errors.close()
        assert code == 0, text
        assert "Sanitizer" not in text and "runtime error" not in text, text


@pytest.fixture
def own_echo(tmp_path):
    """A server with options of the test's own, stopped whatever happens: own_echo(*options)."""
    made = []

    def make(*options, **more):
        made.append(Echo(tmp_path, *options, **more))
        return made[-1]
    yield make
    for server in made:
        server.stop()


class Answer:
    def __init__(self, status, headers, body, rest):
        self.status, self.headers, self.body, self.rest = status, headers, body, rest

    def header(self, name):
        found = [v for k, v in self.headers if k.lower() == name.lower()]
        return found[0] if found else None


def read_all(s):
    data = b""
    try:
        while piece := s.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return data


def read_until(s, end, data=b""):
    while end not in data:
        piece = s.recv(65536)
        assert piece, f"closed after {data!r}"
        data += piece
    return data


def unchunk(data):
    body = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        n = int(size, 16)
        if not n:
            assert data.startswith(b"\r\n")
            return body, data[2:]
        assert data[n:n + 2] == b"\r\n"
        body += data[:n]
        data = data[n + 2:]


def read_answer(data, head_only=False):
    """Takes the first answer off @data. Interim ones (100) are passed by."""
    head, mark, rest = data.partition(b"\r\n\r\n")
    assert mark, f"no head in {data!r}"
    lines = head.decode("latin-1").split("\r\n")
    version, status = lines[0].split(" ")[:2]
    assert version == "HTTP/1.1"
    if status == "100":
        return read_answer(rest, head_only)
    headers = [tuple(line.split(": ", 1)) for line in lines[1:]]
    answer = Answer(int(status), headers, b"", rest)
    if head_only or int(status) in (204, 304):
        return answer
    if answer.header("transfer-encoding") == "chunked":
        answer.body, answer.rest = unchunk(rest)
    elif (length := answer.header("content-length")) is not None:
        answer.body, answer.rest = rest[:int(length)], rest[int(length):]
        assert len(answer.body) == int(length)
    else:
        answer.body, answer.rest = rest, b""
    return answer


def checksum(data):
    """As wire-echo adds up: a polynomial in 31, 64 bits. Folded by halves, since Python is slow."""
    total = 0
    for byte in data:
        total = (total * 31 + byte) & 0xffffffffffffffff
    return total
