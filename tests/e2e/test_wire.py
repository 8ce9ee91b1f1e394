"""The HTTP server of src/wire/ through raw sockets: what it must refuse, and what it must bear."""
import concurrent.futures
import os
import signal
import socket
import struct
import subprocess
import time

import pytest

from wiretest import ECHO, Echo, checksum, own_echo, read_all, read_answer, read_until  # noqa: F401

HOST = b"Host: x\r\n"
CLOSE = b"Host: x\r\nConnection: close\r\n"


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    server = Echo(tmp_path_factory.mktemp("wire"))
    yield server
    server.stop()


def get(path, more=b""):
    return b"GET " + path + b" HTTP/1.1\r\n" + CLOSE + more + b"\r\n"


# What must be refused, and how. None of these may reach a handler.
MALFORMED = {
    "no version": (b"GET /hello\r\n\r\n", 400),
    "two blanks": (b"GET  /hello HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "tab": (b"GET\t/hello HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "blank at the end": (b"GET /hello HTTP/1.1 \r\n" + HOST + b"\r\n", 400),
    "blank in front": (b" GET /hello HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "version 2.0": (b"GET /hello HTTP/2.0\r\n" + HOST + b"\r\n", 505),
    "version 1.2": (b"GET /hello HTTP/1.2\r\n" + HOST + b"\r\n", 505),
    "version 0.9": (b"GET /hello HTTP/0.9\r\n" + HOST + b"\r\n", 505),
    "small http": (b"GET /hello http/1.1\r\n" + HOST + b"\r\n", 400),
    "version of two digits": (b"GET /hello HTTP/1.10\r\n" + HOST + b"\r\n", 400),
    "method with a colon": (b"GE:T /hello HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "method too long": (b"G" * 25 + b" /hello HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    "CONNECT": (b"CONNECT example.com:443 HTTP/1.1\r\n" + HOST + b"\r\n", 501),
    "target without a slash": (b"GET hello HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "target with a fragment": (b"GET /hello#x HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "target with a high byte": (b"GET /h\xc3\xa9 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "target with a control byte": (b"GET /h\x01 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "target too long": (b"GET /" + b"a" * 8200 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
    "star with GET": (b"GET * HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "broken escape": (b"GET /a%2 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "NUL escape": (b"GET /a%00b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "other scheme": (b"GET ftp://x/hello HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "user in the target": (b"GET http://u@x/hello HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "target differs from Host": (b"GET http://y/hello HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "no Host": (b"GET /hello HTTP/1.1\r\n\r\n", 400),
    "two Hosts": (b"GET /hello HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
    "Host with a path": (b"GET /hello HTTP/1.1\r\nHost: x/y\r\n\r\n", 400),
    "Host with a user": (b"GET /hello HTTP/1.1\r\nHost: a@x\r\n\r\n", 400),
    "Host with a bad port": (b"GET /hello HTTP/1.1\r\nHost: x:70000\r\n\r\n", 400),
    "Host with two ports": (b"GET /hello HTTP/1.1\r\nHost: x:1:2\r\n\r\n", 400),
    "Host, open bracket": (b"GET /hello HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
    "Host too long": (b"GET /hello HTTP/1.1\r\nHost: " + b"a" * 256 + b"\r\n\r\n", 400),
    "header without colon": (b"GET /hello HTTP/1.1\r\n" + HOST + b"nothing\r\n\r\n", 400),
    "header without name": (b"GET /hello HTTP/1.1\r\n" + HOST + b": x\r\n\r\n", 400),
    "blank before the colon": (b"GET /hello HTTP/1.1\r\n" + HOST + b"A : x\r\n\r\n", 400),
    "folded line": (b"GET /hello HTTP/1.1\r\n" + HOST + b"A: x\r\n y\r\n\r\n", 400),
    "folded first line": (b"GET /hello HTTP/1.1\r\n A: x\r\n" + HOST + b"\r\n", 400),
    "bare LF": (b"GET /hello HTTP/1.1\nHost: x\n\n", 400),
    "bare LF in a header": (b"GET /hello HTTP/1.1\r\n" + HOST + b"A: x\nB: y\r\n\r\n", 400),
    "bare CR": (b"GET /hello HTTP/1.1\r\n" + HOST + b"A: x\rB: y\r\n\r\n", 400),
    "CR CR LF": (b"GET /hello HTTP/1.1\r\r\n" + HOST + b"\r\n", 400),
    "NUL in a value": (b"GET /hello HTTP/1.1\r\n" + HOST + b"A: x\0y\r\n\r\n", 400),
    "NUL in the line": (b"GET /he\0llo HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "control byte in a value": (b"GET /hello HTTP/1.1\r\n" + HOST + b"A: \x08\r\n\r\n", 400),
    "too many headers": (b"GET /hello HTTP/1.1\r\n" + HOST + b"A: x\r\n" * 100 + b"\r\n", 431),
    "one huge header": (b"GET /hello HTTP/1.1\r\n" + HOST + b"A: " + b"x" * 40000 + b"\r\n\r\n", 431),
    "headers too large": (b"GET /hello HTTP/1.1\r\n" + HOST + (b"A: " + b"x" * 1000 + b"\r\n") * 40 + b"\r\n", 431),
    "three empty lines": (b"\r\n\r\n\r\nGET /hello HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "other expectation": (b"POST /sink HTTP/1.1\r\n" + HOST + b"Expect: cake\r\nContent-Length: 1\r\n\r\na", 417),
    "bytes of TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n", 400),
    "preface with a mistake": (b"PRI * HTTP/2.0\r\n\r\nSN\r\n\r\n", 505),
}

# Where two servers in a row could see two different requests.
SMUGGLED = {
    "both lengths": (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
    "both, other order": (b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
    "two lengths": (b"Content-Length: 5\r\nContent-Length: 6\r\n", 400),
    "the same length twice": (b"Content-Length: 5\r\nContent-Length: 5\r\n", 400),
    "a list of lengths": (b"Content-Length: 5, 5\r\n", 400),
    "length with a sign": (b"Content-Length: +5\r\n", 400),
    "length below zero": (b"Content-Length: -5\r\n", 400),
    "hex length": (b"Content-Length: 0x5\r\n", 400),
    "length with a blank": (b"Content-Length: 5 5\r\n", 400),
    "empty length": (b"Content-Length: \r\n", 400),
    "huge length": (b"Content-Length: 99999999999999999999\r\n", 400),
    "length, underscore": (b"Content-Length: 1_0\r\n", 400),
    "two codings": (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
    "coding and identity": (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 400),
    "list of codings": (b"Transfer-Encoding: gzip, chunked\r\n", 501),
    "chunked twice": (b"Transfer-Encoding: chunked, chunked\r\n", 501),
    "chunked first": (b"Transfer-Encoding: chunked, identity\r\n", 501),
    "unknown coding": (b"Transfer-Encoding: xchunked\r\n", 501),
    "quoted coding": (b"Transfer-Encoding: \"chunked\"\r\n", 501),
    "empty coding": (b"Transfer-Encoding:\r\n", 501),
    "vertical tab": (b"Transfer-Encoding: \x0bchunked\r\n", 400),
    "blank in the name": (b"Transfer-Encoding : chunked\r\n", 400),
    "folded coding": (b"Transfer-Encoding:\r\n chunked\r\n", 400),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_are_refused(echo, name):
    data, status = MALFORMED[name]
    before = echo.stats()
    answer = read_answer(echo.ask(data + b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n"))
    after = echo.stats()
    assert answer.status == status
    assert answer.header("connection") == "close"
    assert answer.body.count(b"\n") == 1 and answer.rest == b""
    # One request was for the statistics; nothing after the bad one was looked at.
    assert after["requests"] - before["requests"] == 1 and after["refused"] - before["refused"] == 1


@pytest.mark.parametrize("name", SMUGGLED)
def test_no_request_has_two_meanings(echo, name):
    headers, status = SMUGGLED[name]
    hidden = b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n"
    data = echo.ask(b"POST /sink HTTP/1.1\r\n" + HOST + headers + b"\r\n0\r\n\r\n" + hidden)
    answer = read_answer(data)
    assert answer.status == status and answer.rest == b""


def test_coding_in_http_1_0_is_refused(echo):
    answer = read_answer(echo.ask(b"POST /sink HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))
    assert answer.status == 400


CHUNKS = {
    "plain": (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
    "two": (b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", b"hello world"),
    "none": (b"0\r\n\r\n", b""),
    "many zeros": (b"000\r\n\r\n", b""),
    "capital hex": (b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
    "extension": (b"5;a=b;c=\"d\"\r\nhello\r\n0;last\r\n\r\n", b"hello"),
    "trailer": (b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n", b"hello"),
    "data like a chunk": (b"5\r\n0\r\n\r\n\r\n0\r\n\r\n", b"0\r\n\r\n"),
    "no size": (b"\r\nhello\r\n0\r\n\r\n", 400),
    "not hex": (b"g\r\nhello\r\n0\r\n\r\n", 400),
    "prefix": (b"0x5\r\nhello\r\n0\r\n\r\n", 400),
    "sign": (b"+5\r\nhello\r\n0\r\n\r\n", 400),
    "negative": (b"-1\r\nhello\r\n0\r\n\r\n", 400),
    "blank before": (b" 5\r\nhello\r\n0\r\n\r\n", 400),
    "blank behind": (b"5 \r\nhello\r\n0\r\n\r\n", 400),
    "too many digits": (b"0000000000000005\r\nhello\r\n0\r\n\r\n", 400),
    "overflow": (b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n", 400),
    "bare LF": (b"5\nhello\n0\n\n", 400),
    "bare LF after data": (b"5\r\nhello\n0\r\n\r\n", 400),
    "bare CR in an extension": (b"5;a\rb\r\nhello\r\n0\r\n\r\n", 400),
    "LF in an extension": (b"5;a\nb\r\nhello\r\n0\r\n\r\n", 400),
    "too little": (b"6\r\nhello\r\n0\r\n\r\n", 400),
    "too much": (b"4\r\nhello\r\n0\r\n\r\n", 400),
    "long extension": (b"5;" + b"a" * 300 + b"\r\nhello\r\n0\r\n\r\n", 400),
    "folded trailer": (b"0\r\nA: b\r\n c\r\n\r\n", 400),
    "first trailer folded": (b"0\r\n c\r\n\r\n", 400),
    "bare LF in a trailer": (b"0\r\nA: b\n\r\n", 400),
    "NUL in a trailer": (b"0\r\nA: \0\r\n\r\n", 400),
    "long trailer": (b"0\r\nA: " + b"x" * 5000 + b"\r\n\r\n", 400),
    "many extensions": ((b"1;" + b"a" * 200 + b"\r\nx\r\n") * 400 + b"0\r\n\r\n", 400),
}


@pytest.mark.parametrize("pieces", ["whole", "bytes"])
@pytest.mark.parametrize("name", CHUNKS)
def test_chunked_bodies(echo, name, pieces):
    data, want = CHUNKS[name]
    step = 1 if len(data) < 200 else 97
    head = b"POST /whole HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    tail = b"GET /hello HTTP/1.1\r\n" + CLOSE + b"\r\n"
    with echo.connect() as s:
        if pieces == "whole":
            s.sendall(head + data + tail)
        else:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            s.sendall(head)
            for i in range(0, len(data), step):
                try:
                    s.sendall(data[i:i + step])
                except (BrokenPipeError, ConnectionResetError):
                    break
            try:
                s.sendall(tail)
            except (BrokenPipeError, ConnectionResetError):
                pass
        got = read_all(s)
    answer = read_answer(got)
    if want == 400:
        assert answer.status == 400 and answer.rest == b""
        return
    assert (answer.status, answer.body) == (200, want)
    assert read_answer(answer.rest).body == b"hello\n"


GOOD = {
    "plain": (b"GET /info HTTP/1.1\r\nHost: x\r\n", {"method": "GET", "version": "1", "host": "x"}),
    "1.0": (b"GET /info HTTP/1.0\r\n", {"version": "0", "host": "", "authority": ""}),
    "empty lines first": (b"\r\n\r\nGET /info HTTP/1.1\r\nHost: x\r\n", {"method": "GET"}),
    "own method": (b"FROB /info HTTP/1.1\r\nHost: x\r\n", {"method": "FROB"}),
    "query": (b"GET /info?a=1&b=%20 HTTP/1.1\r\nHost: x\r\n", {"query": "a=1&b=%20", "path": "/info"}),
    "escapes": (b"GET /info/a%20b%2Fc HTTP/1.1\r\nHost: x\r\n", {"path": "/info/a b/c", "raw": "/info/a%20b%2Fc"}),
    "plus stays": (b"GET /info/a+b HTTP/1.1\r\nHost: x\r\n", {"path": "/info/a+b"}),
    "dots stay": (b"GET /info/../x HTTP/1.1\r\nHost: x\r\n", {"path": "/info/../x"}),
    "host and port": (b"GET /info HTTP/1.1\r\nHost: 49983-ABC.example.com:7700\r\n",
                      {"host": "49983-abc.example.com", "authority": "49983-ABC.example.com:7700"}),
    "IPv6": (b"GET /info HTTP/1.1\r\nHost: [::1]:80\r\n", {"host": "::1"}),
    "empty host": (b"GET /info HTTP/1.1\r\nHost:\r\n", {"host": ""}),
    "absolute": (b"GET http://Example.com:80/info?q HTTP/1.1\r\nHost: example.com:80\r\n",
                 {"host": "example.com", "path": "/info", "query": "q"}),
    "blanks around": (b"GET /info HTTP/1.1\r\nHost: \t x \t \r\n", {"authority": "x"}),
    "loopback": (b"GET /info HTTP/1.1\r\nHost: x\r\n", {"loopback": "1", "unix": "0", "addr": "127.0.0.1", "tls": "0"}),
    "h2c is not an upgrade": (b"GET /info HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                              b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n", {"upgrade": ""}),
    "websocket": (b"GET /info HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n",
                  {"upgrade": "websocket"}),
    "upgrade without Connection": (b"GET /info HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n", {"upgrade": ""}),
}


@pytest.mark.parametrize("name", GOOD)
def test_heads_are_understood(echo, name):
    head, want = GOOD[name]
    with echo.connect() as s:
        s.sendall(head + b"\r\n")
        s.settimeout(2)
        data = b""
        while True:
            try:
                answer = read_answer(data)
                break
            except (AssertionError, ValueError):
                piece = s.recv(65536)
                if not piece:
                    answer = read_answer(data)
                    break
                data += piece
    seen = dict(line.split("=", 1) for line in answer.body.decode().splitlines() if not line.startswith("header "))
    assert {k: seen[k] for k in want} == want


def test_a_head_byte_by_byte(echo):
    with echo.connect() as s:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in get(b"/hello"):
            s.sendall(bytes([byte]))
        assert read_answer(read_all(s)).body == b"hello\n"


def test_the_largest_head_that_fits(echo):
    line, end = b"GET /hello HTTP/1.1\r\n" + CLOSE, b"\r\n\r\n"
    fits = line + b"A: " + b"x" * (32 * 1024 - len(line) - 3 - len(end)) + end
    assert len(fits) == 32 * 1024
    assert read_answer(echo.ask(fits)).status == 200
    assert read_answer(echo.ask(fits.replace(b"A: x", b"A: xx"))).status == 431


def test_unix_socket_tells_who(echo):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20)
        s.connect(echo.unix)
        s.sendall(get(b"/info"))
        text = read_answer(read_all(s)).body.decode()
    assert f"uid={os.getuid()}\n" in text and "unix=1\n" in text and "loopback=0\n" in text
    assert os.stat(echo.unix).st_mode & 0o777 == 0o600


# Keep-alive, pipelining, HEAD and the like.

def test_pipelined_requests_in_order(echo):
    n = 200
    data = b"".join(b"POST /whole HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n%d" % (len(str(i)), i) for i in range(n))
    data = echo.ask(data + get(b"/hello"))
    for i in range(n):
        answer = read_answer(data)
        assert answer.body == str(i).encode()
        data = answer.rest
    assert read_answer(data).body == b"hello\n"


def test_pipelined_behind_a_slow_one(echo):
    data = echo.ask(b"GET /slow?ms=50 HTTP/1.1\r\n" + HOST + b"\r\n" + b"GET /tick?n=2&ms=5 HTTP/1.1\r\n" + HOST + b"\r\n" + get(b"/hello"))
    first = read_answer(data)
    second = read_answer(first.rest)
    assert (first.body, second.body, read_answer(second.rest).body) == (b"late\n", b"tick\ntick\n", b"hello\n")


def test_half_closed_client_gets_its_answer(echo):
    with echo.connect() as s:
        s.sendall(b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n")
        s.shutdown(socket.SHUT_WR)
        assert read_answer(read_all(s)).body == b"hello\n"


@pytest.mark.parametrize("path,length", [(b"/hello", "6"), (b"/stream?bytes=1000000", None), (b"/stream?bytes=1000&length=1", "1000"),
                                         (b"/file?path=/etc/passwd", str(os.stat("/etc/passwd").st_size))])
def test_head_has_no_body(echo, path, length):
    data = echo.ask(b"HEAD " + path + b" HTTP/1.1\r\n" + HOST + b"\r\n" + get(b"/hello"))
    answer = read_answer(data, head_only=True)
    assert answer.status == 200 and answer.header("content-length") == length
    assert read_answer(answer.rest).body == b"hello\n"


@pytest.mark.parametrize("code", [204, 304])
def test_statuses_without_body(echo, code):
    data = echo.ask(b"GET /status?code=%d HTTP/1.1\r\n" % code + HOST + b"\r\n" + get(b"/hello"))
    answer = read_answer(data)
    assert answer.status == code
    assert read_answer(answer.rest).body == b"hello\n"


def test_http_1_0(echo):
    assert read_answer(echo.ask(b"GET /hello HTTP/1.0\r\n\r\n")).header("connection") == "close"
    data = echo.ask(b"GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /tick?n=1 HTTP/1.0\r\n\r\n")
    first = read_answer(data)
    assert first.header("connection") == "keep-alive"
    second = read_answer(first.rest)  # no chunks: until the end
    assert second.header("transfer-encoding") is None and second.body == b"tick\n"


def test_header_injection_is_refused(echo):
    answer = read_answer(echo.ask(get(b"/header?name=X-A&value=a%0d%0aX-Evil:%20b")))
    assert answer.header("x-evil") is None and answer.header("x-a") is None and int(answer.body) < 0
    answer = read_answer(echo.ask(get(b"/header?name=Content-Length&value=9")))
    assert [v for k, v in answer.headers if k.lower() == "content-length"] == [str(len(answer.body))]
    assert read_answer(echo.ask(get(b"/header?name=X-A&value=b"))).header("x-a") == "b"


def test_second_reply_is_not_sent(echo):
    answer = read_answer(echo.ask(get(b"/twice")))
    assert answer.body == b"first\n" and answer.rest == b""


def test_short_reply_is_cut(echo):
    before = echo.stats()["aborted"]
    data = echo.ask(get(b"/short"))
    assert b"a hundred" not in data or data.endswith(b"not a hundred")
    assert echo.stats()["aborted"] == before + 1
    assert echo.ask(get(b"/abort")) == b""


def test_file_that_gets_shorter(echo, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"x" * 1000)
    data = echo.ask(get(b"/file?path=%s&len=5000" % str(path).encode()))
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"Content-Length: 5000" in head and len(body) <= 1000


def test_file_ranges_and_chunks(echo, tmp_path):
    path = tmp_path / "f"
    data = os.urandom(3_000_000)
    path.write_bytes(data)
    p = str(path).encode()
    assert read_answer(echo.ask(get(b"/file?path=" + p))).body == data
    assert read_answer(echo.ask(get(b"/file?from=1000&len=70000&path=" + p))).body == data[1000:71000]
    assert read_answer(echo.ask(get(b"/file?chunked=1&path=" + p))).body == data


# Bodies.

def test_expect_continue(echo):
    with echo.connect() as s:
        s.sendall(b"POST /whole HTTP/1.1\r\n" + CLOSE + b"Content-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        data = read_until(s, b"\r\n\r\n")
        assert data == b"HTTP/1.1 100 Continue\r\n\r\n"
        s.sendall(b"hello")
        assert read_answer(read_all(s)).body == b"hello"


def test_expect_is_refused_without_the_body(echo):
    with echo.connect() as s:
        s.sendall(b"POST /whole?max=10 HTTP/1.1\r\n" + HOST + b"Content-Length: 50\r\nExpect: 100-continue\r\n\r\n")
        answer = read_answer(read_all(s))
    assert answer.status == 413 and answer.header("connection") == "close"


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_body_limits(echo, framing):
    for size, status in ((10, 200), (11, 413)):
        body = b"x" * size
        if framing == "length":
            more = b"Content-Length: %d\r\n" % size
        else:
            more, body = b"Transfer-Encoding: chunked\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (size, body)
        for path in (b"/whole?max=10", b"/sink?max=10"):
            answer = read_answer(echo.ask(b"POST " + path + b" HTTP/1.1\r\n" + CLOSE + more + b"\r\n" + body))
            assert answer.status == status, (path, size)


def test_unread_small_body_keeps_the_connection(echo):
    data = echo.ask(b"POST /hello HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\n\r\n" + b"x" * 100000 + get(b"/hello"))
    first = read_answer(data)
    assert first.header("connection") is None
    assert read_answer(first.rest).body == b"hello\n"


def test_unread_huge_body_ends_the_connection(echo):
    with echo.connect() as s:
        s.sendall(b"POST /hello HTTP/1.1\r\n" + HOST + b"Content-Length: 100000000\r\n\r\n")
        answer = read_answer(read_until(s, b"hello\n"))
        assert answer.status == 200 and answer.header("connection") == "close"
        # The client is still sending; what it gets is the answer and not a reset on top of it.
        s.sendall(b"x" * 300000)
        assert s.recv(100) == b""


@pytest.mark.parametrize("path", [b"/hello", b"/sink?max=1000"])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_client_that_reads_last_gets_its_answer(echo, framing, path):
    size = 30_000_000
    with echo.connect() as s:
        s.sendall(b"POST " + path + b" HTTP/1.1\r\n" + HOST)
        if framing == "length":
            s.sendall(b"Content-Length: %d\r\n\r\n" % size)
            s.sendall(b"x" * size)
        else:
            s.sendall(b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % size)
            s.sendall(b"x" * size + b"\r\n0\r\n\r\n")
        assert read_answer(read_all(s)).status == (413 if b"max" in path else 200)


def test_unread_endless_chunks_end_the_connection(echo):
    with echo.connect() as s:
        s.sendall(b"POST /hello HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        assert read_until(s, b"hello\n")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            for _ in range(500):
                s.sendall(b"100000\r\n" + b"x" * 0x100000 + b"\r\n")


def test_large_bodies_come_whole(echo):
    body = os.urandom(300_000)
    want = checksum(body)
    for more, data in ((b"Content-Length: %d\r\n" % len(body), body),
                       (b"Transfer-Encoding: chunked\r\n", b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7001]), body[i:i + 7001])
                                                                    for i in range(0, len(body), 7001)) + b"0\r\n\r\n")):
        answer = read_answer(echo.ask(b"POST /sink?sum=1 HTTP/1.1\r\n" + CLOSE + more + b"\r\n" + data))
        assert answer.body.split() == [b"300000", str(want).encode()]
        assert read_answer(echo.ask(b"POST /echo HTTP/1.1\r\n" + CLOSE + more + b"\r\n" + data)).body == body


def test_slow_reader_of_a_body_holds_the_sender_back(echo):
    before = echo.stats()
    with echo.connect() as s:
        s.settimeout(0.5)
        s.sendall(b"POST /sink?ms=2000 HTTP/1.1\r\n" + HOST + b"Content-Length: 100000000\r\n\r\n")
        sent = 0
        try:
            while sent < 100_000_000:
                sent += s.send(b"x" * 65536)
        except socket.timeout:
            pass
        assert sent < 50_000_000
        assert echo.grew(before) < 4096
        # A plain close would wait behind all that.
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    echo.until(lambda n: n["live"] == 1)


def test_slow_reader_of_a_reply_holds_the_writer_back(echo):
    before = echo.stats()
    with echo.connect(receive_buffer=65536) as s:
        s.sendall(b"GET /stream?bytes=1000000000 HTTP/1.1\r\n" + HOST + b"\r\n")
        time.sleep(0.3)
        assert echo.grew(before) < 4096
        assert echo.stats()["live"] == 2


# Clients that go away, or never come to the point.

def test_hang_up_is_noticed(echo):
    before = echo.stats()
    idle = [echo.connect() for _ in range(20)]
    for s in idle:
        s.sendall(b"GET /hang HTTP/1.1\r\n" + HOST + b"\r\n")
    echo.until(lambda n: n["live"] == before["live"] + 20)
    for s in idle:
        s.close()
    after = echo.until(lambda n: n["live"] == before["live"])
    assert after["gone"] - before["gone"] == 20


@pytest.mark.parametrize("request_line", [b"GET /tick?n=100000&ms=5", b"GET /stream?bytes=100000000000"])
@pytest.mark.parametrize("how", ["close", "reset"])
def test_hang_up_in_the_middle_of_a_reply(echo, request_line, how):
    before = echo.stats()["live"]
    s = echo.connect()
    s.sendall(request_line + b" HTTP/1.1\r\n" + HOST + b"\r\n")
    s.recv(1000)
    if how == "reset":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    echo.until(lambda n: n["live"] == before)


def test_hang_up_in_the_middle_of_a_body(echo):
    before = echo.stats()
    for framing in (b"Content-Length: 1000\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n10\r\nabc"):
        for path in (b"/sink", b"/whole", b"/hang", b"/echo"):
            s = echo.connect()
            s.sendall(b"POST " + path + b" HTTP/1.1\r\n" + HOST + framing)
            s.close()
    after = echo.until(lambda n: n["live"] == before["live"] and n["gone"] - before["gone"] == 8)
    assert after["conns"] == before["conns"]


def test_abandoned_streams_leave_no_memory(echo):
    def abandon(i):
        s = echo.connect()
        s.sendall(b"GET /stream?bytes=1000000000 HTTP/1.1\r\n" + HOST + b"\r\n")
        s.recv(10)
        s.close()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(abandon, range(50)))
        middle = echo.until(lambda n: n["live"] == 1)
        for _ in range(4):
            list(pool.map(abandon, range(50)))
        echo.until(lambda n: n["live"] == 1)
    assert echo.grew(middle) < 2000


def test_slow_heads_time_out(own_echo):
    echo = own_echo("--head-ms", 300, "--idle-ms", 300)
    began = time.monotonic()
    with echo.connect() as slow, echo.connect() as silent:
        slow.sendall(b"GET /hello HTTP/1.1\r\n")
        slow.settimeout(0.05)
        data = b""
        while time.monotonic() - began < 20:  # a byte now and then does not help
            try:
                slow.sendall(b"A")
                piece = slow.recv(1000)
                if not piece:
                    break
                data += piece
            except socket.timeout:
                pass
            except (BrokenPipeError, ConnectionResetError):
                break
        assert read_answer(data).status == 408
        assert read_all(silent) == b""  # nothing asked, nothing answered
    assert echo.stats()["timeouts"] >= 2


def test_slow_bodies_time_out(own_echo):
    echo = own_echo("--body-ms", 300)
    for framing in (b"Content-Length: 10\r\n\r\nab", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"):
        for path in (b"/sink", b"/whole"):
            answer = read_answer(echo.ask(b"POST " + path + b" HTTP/1.1\r\n" + HOST + framing))
            assert answer.status == 408 and answer.header("connection") == "close"
    # A body that nobody has asked for is not late.
    with echo.connect() as s:
        s.sendall(b"POST /slow?ms=900 HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\nab")
        assert read_answer(read_until(s, b"late\n")).status == 200


def test_readers_that_stop_time_out(own_echo):
    echo = own_echo("--write-ms", 300)
    s = echo.connect(receive_buffer=4096)
    s.sendall(b"GET /stream?bytes=1000000000 HTTP/1.1\r\n" + HOST + b"\r\n")
    assert echo.until(lambda n: n["timeout"] == 1)["live"] == 1
    s.close()


def test_idle_connections_end(own_echo):
    echo = own_echo("--idle-ms", 200)
    with echo.connect() as s:
        s.sendall(b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n")
        data = read_all(s)
    assert read_answer(data).rest == b""


def test_idle_makes_room_at_the_limit(own_echo):
    echo = own_echo("--conns", 10)
    idle = [echo.connect() for _ in range(10)]
    for s in idle:
        s.sendall(b"GET /hello HTTP/1.1\r\n" + HOST + b"\r\n")
        read_until(s, b"hello\n")
    assert echo.stats()["conns"] <= 10  # the one who asks has pushed an old one out
    assert idle[0].recv(10) == b""
    idle[-1].sendall(get(b"/hello"))
    assert read_answer(read_all(idle[-1])).status == 200
    for s in idle:
        s.close()


def test_silent_connections_make_room_too(own_echo):
    echo = own_echo("--conns", 10)
    silent = [echo.connect() for _ in range(10)]
    assert echo.stats()["conns"] <= 10
    assert silent[0].recv(10) == b""
    for s in silent:
        s.close()


def test_busy_connections_keep_their_place_at_the_limit(own_echo):
    echo = own_echo("--conns", 4)
    busy = [echo.connect() for _ in range(4)]
    for s in busy:
        s.sendall(b"GET /hang HTTP/1.1\r\n" + HOST + b"\r\n")
    time.sleep(0.2)
    with echo.connect() as late:
        late.sendall(get(b"/stats"))
        late.settimeout(0.5)
        with pytest.raises(socket.timeout):
            late.recv(1)
        busy.pop().close()  # now there is room
        late.settimeout(20)
        assert b'"live": 4' in read_all(late)
    for s in busy:
        s.close()


@pytest.mark.native_only("descriptors of a sanitized process are another matter")
def test_running_out_of_descriptors(tmp_path):
    script = 'ulimit -n 40; exec "$@"'
    process = subprocess.Popen(["sh", "-c", script, "sh", str(ECHO), "--tcp", "127.0.0.1"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline().split()[1])
        conns = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        time.sleep(0.3)
        for s in conns:
            s.close()
        with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
            s.sendall(get(b"/hello"))
            assert read_answer(read_all(s)).body == b"hello\n"
        process.terminate()
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
        process.stdout.close()


# Upgrades.

def upgrade(echo):
    s = echo.connect()
    s.sendall(b"GET /upgrade HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\nfirst")
    data = read_until(s, b"\r\n\r\nfirst")
    head = read_answer(data, head_only=True)
    assert head.status == 101 and head.header("upgrade") == "websocket" and head.header("connection") == "Upgrade"
    assert head.header("x-raw") == "yes" and head.header("content-length") is None and head.header("transfer-encoding") is None
    return s


def test_upgrade_is_a_pipe(echo):
    with upgrade(echo) as s:
        for i in range(20):
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert read_until(s, b"\r\n\r\n") == b"GET / HTTP/1.1\r\n\r\n"
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b"bye"


def test_upgrade_holds_back_both_ways(echo):
    before = echo.stats()
    with upgrade(echo) as s:
        s.settimeout(0.5)
        sent = 0
        try:
            while sent < 200_000_000:
                sent += s.send(b"x" * 65536)
        except socket.timeout:
            pass
        assert sent < 100_000_000
        assert echo.grew(before) < 4096
        s.settimeout(20)
        got = 0
        while got < sent:
            got += len(s.recv(1 << 20))
        s.shutdown(socket.SHUT_WR)
        assert read_all(s) == b"bye"


def test_upgrade_peer_goes_away(echo):
    before = echo.stats()["live"]
    s = upgrade(echo)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
    echo.until(lambda n: n["live"] == before)


# The end of the server.

def test_drain_lets_requests_finish(own_echo):
    echo = own_echo()
    idle, busy, slow = echo.connect(), echo.connect(), echo.connect()
    busy.sendall(b"GET /tick?n=20&ms=20 HTTP/1.1\r\n" + HOST + b"\r\n")
    slow.sendall(b"GET /slow?ms=300 HTTP/1.1\r\n" + HOST + b"\r\n")
    read_until(busy, b"tick")
    echo.terminate()
    assert read_all(idle) == b""
    assert read_all(busy).endswith(b"0\r\n\r\n")
    answer = read_answer(read_all(slow))
    assert answer.body == b"late\n" and answer.header("connection") == "close"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", echo.port))
    assert not os.path.exists(echo.unix)
    echo.stop()


def test_drain_answers_a_head_that_is_on_its_way(own_echo):
    echo = own_echo()
    with echo.connect() as s, echo.connect() as silent:
        s.sendall(b"GET /hello HTTP/1.1\r\nHo")
        time.sleep(0.1)
        echo.terminate()
        assert read_all(silent) == b""
        s.sendall(b"st: x\r\n\r\n")
        answer = read_answer(read_all(s))
        assert answer.body == b"hello\n" and answer.header("connection") == "close"
    echo.stop()


def test_drain_cuts_what_does_not_end(own_echo):
    echo = own_echo()
    with echo.connect() as s:
        s.sendall(b"GET /hang HTTP/1.1\r\n" + HOST + b"\r\n")
        time.sleep(0.1)
        echo.terminate()
        assert read_all(s) == b""
    echo.stop()


def test_old_unix_socket_is_replaced_but_not_a_live_one(own_echo, tmp_path):
    echo = own_echo()
    second = subprocess.run([str(ECHO), "--unix", echo.unix], capture_output=True, text=True, timeout=20)
    assert second.returncode == 125 and second.stderr.count("\n") == 1 and "already" in second.stderr
    echo.process.kill()
    echo.process.wait()
    echo.process.stdout.close()
    echo.errors.close()
    assert os.path.exists(echo.unix)
    own_echo().stop()  # in the place of the dead one
    (tmp_path / "s.sock").write_text("a file")
    third = subprocess.run([str(ECHO), "--unix", echo.unix], capture_output=True, text=True, timeout=20)
    assert third.returncode == 125 and (tmp_path / "s.sock").read_text() == "a file"
