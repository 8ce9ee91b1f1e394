"""The proxy of src/wire/: one request through a byte stream to another server, which may misbehave."""
import os
import socket
import struct
import subprocess
import threading
import time

import pytest

from wardtest import SANITIZED
from wiretest import Echo, own_echo, read_all, read_answer, read_until  # noqa: F401


@pytest.fixture(scope="module")
def front(tmp_path_factory):
    server = Echo(tmp_path_factory.mktemp("front"), tls=True)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def back(tmp_path_factory):
    server = Echo(tmp_path_factory.mktemp("back"))
    yield server
    server.stop()


class Far:
    """A server of one connection: sends back fixed bytes once it has read a head; remembers what it read."""

    def __init__(self, answer, wait_for=b"\r\n\r\n", then="close"):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.got, self.answer, self.wait_for, self.then = b"", answer, wait_for, then
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        s, _ = self.listener.accept()
        s.settimeout(20)
        while self.wait_for not in self.got:
            piece = s.recv(65536)
            if not piece:
                break
            self.got += piece
        try:
            for piece in self.answer if isinstance(self.answer, list) else [self.answer]:
                s.sendall(piece)
                time.sleep(0.01 if isinstance(self.answer, list) else 0)
            if self.then == "wait":
                while piece := s.recv(65536):
                    self.got += piece
            elif self.then == "reset":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass
        s.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.thread.join(timeout=20)


def ask(front, far_port, path="/", method="GET", more="", body=b"", query=""):
    head = f"{method} /proxy/{far_port}{path}?{query} HTTP/1.1\r\nHost: client.example\r\nConnection: close\r\n{more}\r\n"
    return front.ask(head.encode() + body)


def lines_of(data):
    return data.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")


def test_head_is_written_anew(front):
    with Far(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as far:
        more = ("Accept: */*\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Authorization: x\r\nTE: trailers\r\n"
                "X-Secret: key\r\nX-Twice: 1\r\nX-Twice: 2\r\nUpgrade: h2c\r\n")
        assert read_answer(ask(front, far.port, "/a%20b", more=more)).body == b"ok"
    lines = lines_of(far.got)
    assert lines[0] == "GET /a%20b? HTTP/1.1"
    assert lines[1:] == ["Host: client.example", "Accept: */*", "X-Twice: 1", "X-Twice: 2", "X-Forwarded-Proto: http", "Connection: close"]


def test_host_can_be_replaced(front):
    with Far(b"HTTP/1.1 204 No Content\r\n\r\n") as far:
        assert read_answer(ask(front, far.port, query="host=localhost:3000")).status == 204
    assert "Host: localhost:3000" in lines_of(far.got)


def test_illegal_host_is_not_sent(front):
    with Far(b"HTTP/1.1 204 No Content\r\n\r\n", wait_for=b"x") as far:
        assert read_answer(ask(front, far.port, query="host=a%0d%0aEvil:%201")).status == 500
    assert far.got == b""


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_request_bodies(front, framing):
    body = os.urandom(100_000)
    end = b"0\r\n\r\n" if framing == "chunked" else body[-20:]
    with Far(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", wait_for=end) as far:
        if framing == "chunked":
            more, sent = "Transfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        else:
            more, sent = f"Content-Length: {len(body)}\r\n", body
        assert read_answer(ask(front, far.port, method="POST", more=more, body=sent)).status == 200
    head, _, got = far.got.partition(b"\r\n\r\n")
    if framing == "chunked":
        assert b"Transfer-Encoding: chunked" in head and b"Content-Length" not in head
        from wiretest import unchunk
        got, rest = unchunk(got)
        assert rest == b""
    else:
        assert b"Content-Length: 100000" in head and b"Transfer-Encoding" not in head
    assert got == body


def test_body_limit(front):
    with Far(b"", wait_for=b"never") as far:
        assert read_answer(ask(front, far.port, method="POST", more="Content-Length: 11\r\n", body=b"x" * 11, query="body_max=10")).status == 413
    with Far(b"", wait_for=b"never") as far:
        more = "Transfer-Encoding: chunked\r\n"
        assert read_answer(ask(front, far.port, method="POST", more=more, body=b"b\r\n" + b"x" * 11 + b"\r\n0\r\n\r\n", query="body_max=10")).status == 413


ANSWERS = {
    "length": (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, b"hello"),
    "chunked": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n3;x\r\n yo\r\n0\r\nT: 1\r\n\r\n", 200, b"hello yo"),
    "until close": (b"HTTP/1.1 200 OK\r\n\r\nhello", 200, b"hello"),
    "1.0": (b"HTTP/1.0 200 OK\r\n\r\nhello", 200, b"hello"),
    "no reason": (b"HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", 404, b""),
    "empty reason": (b"HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n", 404, b""),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    "304 with a length": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, b""),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, b"ok"),
    "odd status": (b"HTTP/1.1 799 Odd\r\nContent-Length: 2\r\n\r\nok", 799, b"ok"),
    "junk behind": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n\r\n", 200, b"ok"),
    # 502: what cannot be understood in one way only
    "nothing": (b"", 502, None),
    "not HTTP": (b"SSH-2.0-OpenSSH_9\r\n\r\n", 502, None),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-", 502, None),
    "bare LF": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok", 502, None),
    "bad status": (b"HTTP/1.1 2x0 OK\r\n\r\n", 502, None),
    "status of four": (b"HTTP/1.1 2000 OK\r\n\r\n", 502, None),
    "status 000": (b"HTTP/1.1 000 OK\r\n\r\n", 502, None),
    "version": (b"HTTP/3.0 200 OK\r\n\r\n", 502, None),
    "both lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502, None),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!", 502, None),
    "folded": (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", 502, None),
    "NUL": (b"HTTP/1.1 200 OK\r\nA: b\0c\r\n\r\n", 502, None),
    "other coding": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", 502, None),
    "huge head": (b"HTTP/1.1 200 OK\r\n" + b"A: " + b"x" * 40000 + b"\r\n\r\n", 502, None),
    "many headers": (b"HTTP/1.1 200 OK\r\n" + b"A: x\r\n" * 200 + b"\r\n", 502, None),
    "upgrade not asked for": (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", 502, None),
}


@pytest.mark.parametrize("pieces", ["whole", "bytes"])
@pytest.mark.parametrize("name", ANSWERS)
def test_answers(front, name, pieces):
    data, status, body = ANSWERS[name]
    if pieces == "bytes":
        step = 1 if len(data) < 60 else len(data) // 20
        data = [data[i:i + step] for i in range(0, len(data), step)]
    with Far(data) as far:
        answer = read_answer(ask(front, far.port))
    assert answer.status == status and answer.rest == b""
    if body is None:
        assert answer.body.count(b"\n") == 1
    else:
        assert answer.body == body


CUT = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n50\r\nhello",
    "chunks without end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    "bad chunks": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nnonsense\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("name", CUT)
def test_cut_answers_are_cut_for_the_client_too(front, name):
    with Far(CUT[name]) as far:
        data = ask(front, far.port)
    assert data == b"" or not data.endswith(b"0\r\n\r\n")
    if b"Content-Length: 50" in data:
        assert len(data.partition(b"\r\n\r\n")[2]) < 50


def test_headers_of_the_answer(front):
    with Far(b"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nConnection: X-Hop, close\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nServer: far\r\n"
             b"Date: then\r\nContent-Length: 2\r\n\r\nok") as far:
        answer = read_answer(ask(front, far.port))
    assert [v for k, v in answer.headers if k == "Set-Cookie"] == ["a", "b"]
    assert answer.header("x-hop") is None and answer.header("keep-alive") is None
    assert [v for k, v in answer.headers if k in ("Server", "Date")] == ["far", "then"]


def test_head_request(front):
    with Far(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n") as far:
        answer = read_answer(ask(front, far.port, method="HEAD"), head_only=True)
    assert answer.header("content-length") == "500" and answer.rest == b""


def test_nobody_there(front):
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    assert read_answer(ask(front, port)).status == 502


def test_no_answer_in_time(front):
    with Far(b"", wait_for=b"never") as far:
        assert read_answer(ask(front, far.port, query="head_ms=200")).status == 504


def test_far_side_resets(front):
    with Far(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", then="reset") as far:
        data = ask(front, far.port)
    assert len(data.partition(b"\r\n\r\n")[2]) < 50


def test_client_goes_away(front):
    before = front.stats()["live"]
    with Far(b"HTTP/1.1 200 OK\r\n\r\nhello", then="wait") as far:
        s = front.connect()
        s.sendall(b"GET /proxy/%d/ HTTP/1.1\r\nHost: x\r\n\r\n" % far.port)
        read_until(s, b"hello")
        s.close()
        front.until(lambda n: n["live"] == before)
        far.thread.join(timeout=20)  # it saw the end of its connection
        assert not far.thread.is_alive()


def test_slow_bodies_are_the_far_sides_business(own_echo, back):
    front = own_echo("--body-ms", 200)
    with front.connect() as s:
        s.sendall(b"POST /proxy/%d/whole HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 4\r\n\r\nab" % back.port)
        time.sleep(0.6)
        s.sendall(b"cd")
        assert read_answer(read_all(s)).body == b"abcd"
    front.stop()


def test_early_answer_to_a_long_upload(front):
    with Far(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nno\n") as far:
        s = front.connect()
        s.sendall(b"POST /proxy/%d/ HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n" % far.port)
        answer = read_answer(read_until(s, b"no\n"))
        s.close()
    assert answer.status == 413


# Through to another wire-echo: big, slow, upgraded.

def fetch(*args, input=None):
    done = subprocess.run(["curl", "-sS", "-k", "--max-time", "60", *args], capture_output=True, input=input, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("way", ["--http1.1", "--http2-prior-knowledge", "tls"])
def test_large_bodies_both_ways(front, back, way, tmp_path):
    base = f"https://127.0.0.1:{front.tls}" if way == "tls" else front.url()
    options = ["--http2"] if way == "tls" else [way]
    data = os.urandom(3_000_000 if SANITIZED else 20_000_000)
    (tmp_path / "data").write_bytes(data)
    before = front.stats()
    assert fetch(*options, "--data-binary", f"@{tmp_path}/data", f"{base}/proxy/{back.port}/echo") == data
    assert fetch(*options, "-X", "POST", "-T", "-", f"{base}/proxy/{back.port}/echo", input=data) == data
    assert fetch(*options, f"{base}/proxy/{back.port}/tick?n=3&ms=5") == b"tick\n" * 3
    assert front.grew(before) < 6000


def test_slow_client_holds_the_far_side_back(front, back):
    front_before, back_before = front.stats(), back.stats()
    with front.connect(receive_buffer=65536) as s:
        s.sendall(b"GET /proxy/%d/stream?bytes=1000000000 HTTP/1.1\r\nHost: x\r\n\r\n" % back.port)
        time.sleep(0.5)
        assert front.grew(front_before) < 4096
        assert back.grew(back_before) < 4096
    back.until(lambda n: n["live"] == 1)


def test_slow_far_side_holds_the_client_back(front, back):
    before = front.stats()
    with front.connect() as s:
        s.sendall(b"POST /proxy/%d/sink?ms=100000 HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n" % back.port)
        s.settimeout(0.5)
        sent = 0
        try:
            while sent < 100_000_000:
                sent += s.send(b"x" * 65536)
        except socket.timeout:
            pass
        assert sent < 60_000_000
        assert front.grew(before) < 4096
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    front.until(lambda n: n["live"] == 1)


def upgrade(front, back):
    s = front.connect()
    s.sendall(b"GET /proxy/%d/upgrade HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: abc\r\n\r\nfirst" % back.port)
    head = read_answer(read_until(s, b"\r\n\r\nfirst"), head_only=True)
    assert head.status == 101 and head.header("upgrade") == "websocket" and head.header("x-raw") == "yes"
    return s


def test_websocket_through_the_proxy(front, back):
    before = back.stats()["live"]
    with upgrade(front, back) as s:
        for i in range(50):
            s.sendall(b"message %03d." % i)
            assert read_until(s, b".") == b"message %03d." % i
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b"bye"
    front.until(lambda n: n["live"] == 1)
    back.until(lambda n: n["live"] == before)


def test_websocket_with_much_in_it(front, back):
    data = os.urandom(1_000_000)
    with upgrade(front, back) as s:
        sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        sender.start()
        assert read_all(s) == data + b"bye"
        sender.join()


def test_refused_upgrade_is_an_ordinary_answer(front):
    with Far(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\n") as far:
        data = front.ask(b"GET /proxy/%d/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
                         b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % far.port)
    answer = read_answer(data)
    assert answer.status == 403 and read_answer(answer.rest).body == b"hello\n"
    assert "Connection: Upgrade" in lines_of(far.got) and "Upgrade: websocket" in lines_of(far.got)


def test_far_side_ends_a_websocket(front):
    with Far(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\ngoodbye") as far:
        data = front.ask(b"GET /proxy/%d/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" % far.port)
    assert data.endswith(b"\r\n\r\ngoodbye")
