"""HTTP/2 and TLS of src/wire/: with curl and h2load, and with frames made by hand."""
import os
import signal
import socket
import ssl
import struct
import subprocess
import time

import pytest

import h2raw
from h2raw import ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE, Client, \
    frame, request
from wardtest import SANITIZED
from wiretest import Echo, own_echo  # noqa: F401

WHOLE = END_STREAM | END_HEADERS


@pytest.fixture(scope="module")
def echo(tmp_path_factory):
    server = Echo(tmp_path_factory.mktemp("wire2"), tls=True)
    yield server
    server.stop()


def curl(*args, input=None):
    done = subprocess.run(["curl", "-sS", "-k", "--max-time", "60", *args], capture_output=True, input=input, timeout=90)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ways(echo):
    return {
        "1.1": ["--http1.1", f"http://127.0.0.1:{echo.port}"],
        "2": ["--http2-prior-knowledge", f"http://127.0.0.1:{echo.port}"],
        "unix 2": ["--unix-socket", echo.unix, "--http2-prior-knowledge", "http://localhost"],
        "tls 1.1": ["--http1.1", f"https://127.0.0.1:{echo.tls}"],
        "tls 2": ["--http2", f"https://127.0.0.1:{echo.tls}"],
    }


WAYS = ["1.1", "2", "unix 2", "tls 1.1", "tls 2"]


def fetch(echo, way, path, *args, **more):
    *options, base = ways(echo)[way]
    return curl(*options, *args, base + path, **more)


@pytest.mark.parametrize("way", WAYS)
def test_curl_every_way(echo, way, tmp_path):
    text = fetch(echo, way, "/info?a=1", "-H", "X-One: 1", "-b", "a=1; b=2").decode()
    assert f"version={2 if '2' in way else 1}\n" in text and f"tls={int('tls' in way)}\n" in text
    assert "query=a=1\n" in text and "cookie: a=1; b=2" in text.lower() and "x-one: 1" in text.lower()
    body = os.urandom(5_000_000)
    (tmp_path / "body").write_bytes(body)
    assert fetch(echo, way, "/echo", "--data-binary", f"@{tmp_path}/body") == body
    assert fetch(echo, way, "/echo", "-X", "POST", "-T", "-", input=body) == body
    assert fetch(echo, way, f"/file?path={tmp_path}/body") == body
    assert len(fetch(echo, way, "/stream?bytes=5000000")) == 5_000_000
    assert fetch(echo, way, "/tick?n=3&ms=1") == b"tick\n" * 3
    status = ["-o", "/dev/null", "-w", "%{http_code}"]
    assert fetch(echo, way, "/nothing", *status) == b"404"
    assert fetch(echo, way, "/status", *status) == b"204"
    assert fetch(echo, way, "/hello", "-I", *status) == b"200"
    assert fetch(echo, way, "/whole?max=100", "--data-binary", f"@{tmp_path}/body", *status) == b"413"
    assert fetch(echo, way, "/sink?max=100", "-X", "POST", "-T", "-", *status, input=body) == b"413"


@pytest.mark.parametrize("way", WAYS)
def test_forms_and_gzip(echo, way, tmp_path):
    data = os.urandom(200_000)
    (tmp_path / "a b.bin").write_bytes(data)
    lines = fetch(echo, way, "/form", "-F", "note=hi", "-F", f"file=@{tmp_path}/a b.bin;filename=x/y%22.bin;type=application/x-thing").decode().splitlines()
    assert lines[0].startswith("note|-|-|2|")
    assert lines[1].startswith("file|x/y\".bin|application/x-thing|200000|")
    packed = subprocess.run(["gzip", "-c"], input=data, capture_output=True, check=True).stdout
    assert fetch(echo, way, "/gunzip", "--data-binary", "@-", input=packed).split()[0] == b"200000"
    status = ["-o", "/dev/null", "-w", "%{http_code}"]
    assert fetch(echo, way, "/gunzip?max=1000", "--data-binary", "@-", *status, input=packed) == b"413"
    assert fetch(echo, way, "/gunzip", "--data-binary", "@-", *status, input=packed[:-5]) == b"400"
    assert fetch(echo, way, "/gzip", "--compressed", "--data-binary", "@-", input=data) == data


@pytest.mark.parametrize("way", ["2", "tls 2"])
def test_h2load(echo, way):
    url = ways(echo)[way][-1]
    n = 2000 if SANITIZED else 20000
    done = subprocess.run(["h2load", "-n", str(n), "-c", "20", "-m", "50", url + "/hello"], capture_output=True, text=True, timeout=120)
    assert f"{n} succeeded, 0 failed, 0 errored, 0 timeout" in done.stdout, done.stdout


def test_h2load_thousand_streams_on_one_connection(echo):
    done = subprocess.run(["h2load", "-n", "1000", "-c", "1", "-m", "1000", echo.url("/tick?n=5&ms=50")], capture_output=True, text=True, timeout=120)
    assert "1000 succeeded, 0 failed" in done.stdout, done.stdout


def test_thousand_connections_stream(echo):
    done = subprocess.run(["h2load", "--h1", "-n", "1000", "-c", "1000", "-m", "1", echo.url("/tick?n=5&ms=50")], capture_output=True, text=True, timeout=120)
    assert "1000 succeeded, 0 failed" in done.stdout, done.stdout


def test_wrk(echo):
    done = subprocess.run(["wrk", "-t1", "-c100", "-d2s", echo.url("/hello")], capture_output=True, text=True, timeout=60)
    assert "Requests/sec" in done.stdout and "Socket errors" not in done.stdout and "Non-2xx" not in done.stdout, done.stdout


# TLS

def tls_connect(echo, **context_options):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, value in context_options.items():
        setattr(context, name, value)
    s = socket.create_connection(("127.0.0.1", echo.tls), timeout=20)
    return context.wrap_socket(s)


def test_tls_versions(echo):
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            tls_connect(echo, maximum_version=ssl.TLSVersion.TLSv1_1, minimum_version=ssl.TLSVersion.TLSv1)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        with tls_connect(echo, minimum_version=version, maximum_version=version) as s:
            s.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            data = b""
            while piece := s.recv(1000):
                data += piece
            assert data.endswith(b"hello\n")


def test_alpn_without_ours_is_refused(echo):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["spdy/3"])
    with socket.create_connection(("127.0.0.1", echo.tls), timeout=20) as s, pytest.raises((ssl.SSLError, ConnectionResetError)):
        context.wrap_socket(s)


def test_tls_garbage_and_silence(own_echo):
    echo = own_echo("--head-ms", 300, tls=True)
    with socket.create_connection(("127.0.0.1", echo.tls), timeout=20) as s:
        s.sendall(b"GET / HTTP/1.1\r\n\r\n")
        try:
            while s.recv(1000):
                pass
        except ConnectionResetError:
            pass
    with socket.create_connection(("127.0.0.1", echo.tls), timeout=20) as s:
        assert s.recv(10) == b""  # no handshake in time
    echo.stop()


def test_half_a_record_is_waited_for_asleep(own_echo):
    echo = own_echo(tls=True)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)
    with socket.create_connection(("127.0.0.1", echo.tls), timeout=20) as s:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                s.sendall(outgoing.read())
                incoming.write(s.recv(65536))
        tls.write(b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        record = outgoing.read()
        s.sendall(record[:-20])

        def ticks():
            fields = open(f"/proc/{echo.process.pid}/stat").read().rsplit(") ", 1)[1].split()
            return int(fields[11]) + int(fields[12])

        time.sleep(0.2)
        before = ticks()
        time.sleep(2)
        assert ticks() - before < 0.1 * os.sysconf("SC_CLK_TCK")  # a loop that spins takes all it can get
        s.sendall(record[-20:])
        data = b""
        while b"hello" not in data:
            incoming.write(s.recv(65536))
            try:
                data += tls.read(65536)
            except ssl.SSLWantReadError:
                pass
    echo.stop()


def test_reload_of_the_certificate(own_echo, tmp_path):
    echo = own_echo(tls=True)

    def subject():
        return subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{echo.tls}"], input="", capture_output=True, text=True).stdout

    assert "CN = first" in subject()
    with tls_connect(echo) as old:
        echo.make_certificate("second")
        echo.process.send_signal(signal.SIGHUP)
        while "CN = second" not in subject():
            time.sleep(0.05)
        (tmp_path / "cert.pem").write_text("not a certificate")
        echo.process.send_signal(signal.SIGHUP)
        while "cert.pem" not in echo.stderr():
            time.sleep(0.05)
        assert "CN = second" in subject() and echo.stderr().count("\n") == 1
        old.sendall(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")  # a connection from before goes on
        assert old.recv(1000).startswith(b"HTTP/1.1 200")
    echo.stop()


@pytest.mark.parametrize("cert,key,word", [("nothing", "key.pem", "certificate"), ("cert.pem", "nothing", "key"), ("cert.pem", "other.pem", "key")])
def test_wrong_certificate_files(tmp_path, cert, key, word):
    from wiretest import ECHO
    for name in ("other", "key"):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
                        str(tmp_path / f"{name}.pem"), "-out", str(tmp_path / "cert.pem"), "-days", "1", "-subj", "/CN=x"], check=True, capture_output=True)
    done = subprocess.run([str(ECHO), "--tls", str(tmp_path / cert), str(tmp_path / key)], capture_output=True, text=True, timeout=20)
    assert done.returncode == 125 and done.stderr.count("\n") == 1 and word in done.stderr


# Frames by hand

def test_by_hand(echo):
    with Client(echo.port) as c:
        c.send(frame(HEADERS, WHOLE, 1, request()))
        assert c.answer(1) == (200, b"hello\n")
        c.send(frame(HEADERS, END_HEADERS, 3, request("/whole", "POST")), frame(DATA, 0, 3, b"ab"), frame(DATA, END_STREAM, 3, b"c"))
        assert c.answer(3) == (200, b"abc")
        c.send(frame(HEADERS, END_HEADERS, 5, request("/whole", "POST")), frame(DATA, 0, 5, b"ab"), frame(HEADERS, WHOLE, 5, h2raw.headers(("x-sum", "1"))))
        assert c.answer(5) == (200, b"ab")  # trailers are dropped
        half = request()
        c.send(frame(HEADERS, END_STREAM, 7, half[:10]), frame(CONTINUATION, END_HEADERS, 7, half[10:]))
        assert c.answer(7) == (200, b"hello\n")


def test_preface_byte_by_byte(echo):
    with Client(echo.port, greet=False) as c:
        c.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in h2raw.PREFACE + frame(SETTINGS) + frame(HEADERS, WHOLE, 1, request()):
            c.send(bytes([byte]))
        assert c.answer(1) == (200, b"hello\n")


BAD_HEADS = {
    "no path": ([(":method", "GET"), (":scheme", "http"), (":authority", "x")], None),
    "no method": ([(":scheme", "http"), (":authority", "x"), (":path", "/")], None),
    "two paths": ([(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/"), (":path", "/b")], None),
    "pseudo after plain": ([(":method", "GET"), (":scheme", "http"), ("a", "b"), (":authority", "x"), (":path", "/hello")], None),
    "capital name": ([(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/hello"), ("A", "b")], None),
    "connection header": ([(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/hello"), ("connection", "close")], None),
    "transfer-encoding": ([(":method", "POST"), (":scheme", "http"), (":authority", "x"), (":path", "/sink"), ("transfer-encoding", "chunked")], None),
    "unknown pseudo": ([(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/hello"), (":x", "y")], None),
    "LF in a value": ([(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/hello"), ("a", "b\nc: d")], None),
    "host differs": ([(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/hello"), ("host", "y")], 400),
    "no authority": ([(":method", "GET"), (":scheme", "http"), (":path", "/hello")], None),
    "bad authority": ([(":method", "GET"), (":scheme", "http"), (":authority", "a@b"), (":path", "/hello")], 400),
    "blank in the path": ([(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/he llo")], None),
    "fragment": ([(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/hello#x")], 400),
    "NUL escape": ([(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/he%00llo")], 400),
    "long path": ([(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/" + "a" * 8200)], 414),
    "CONNECT": ([(":method", "CONNECT"), (":authority", "x:1")], 501),
    "long method": ([(":method", "G" * 30), (":scheme", "http"), (":authority", "x"), (":path", "/hello")], 501),
    "too many": ([(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/hello"), *[("a", "b")] * 100], 431),
}


@pytest.mark.parametrize("name", BAD_HEADS)
def test_bad_heads(echo, name):
    pairs, want = BAD_HEADS[name]
    before = echo.stats()["requests"]
    with Client(echo.port) as c:
        c.send(frame(HEADERS, WHOLE, 1, h2raw.headers(*pairs)))
        status, _ = c.answer(1)
        # nghttp2 resets such a stream, or answers 400 itself; a handler never sees it.
        assert status == want or (want is None and status == 400)
    assert echo.stats()["requests"] == before + 1


def test_large_heads_are_refused(echo):
    with Client(echo.port) as c:
        block = request() + h2raw.headers(*[(f"x-{i}", "y" * 1000) for i in range(40)])
        c.send(frame(HEADERS, END_STREAM, 1, block[:16000]), frame(CONTINUATION, 0, 1, block[16000:32000]),
               frame(CONTINUATION, END_HEADERS, 1, block[32000:]))
        assert c.answer(1)[0] == 431
        c.send(frame(HEADERS, WHOLE, 3, request()))
        assert c.answer(3) == (200, b"hello\n")


def test_endless_continuation_ends_the_connection(echo):
    before = echo.stats()
    with Client(echo.port) as c:
        try:
            c.send(frame(HEADERS, END_STREAM, 1, request()))
            for _ in range(5000):
                c.send(frame(CONTINUATION, 0, 1, h2raw.headers(("a", "b" * 1000))))
        except (BrokenPipeError, ConnectionResetError):
            pass
        while c.next():
            pass
    assert echo.grew(before) < 4096


def test_content_length_must_be_true(echo):
    with Client(echo.port) as c:
        c.send(frame(HEADERS, END_HEADERS, 1, request("/whole", "POST", ("content-length", "5"))), frame(DATA, END_STREAM, 1, b"abc"))
        assert c.answer(1)[0] is None
        c.send(frame(HEADERS, END_HEADERS, 3, request("/whole", "POST", ("content-length", "2"))), frame(DATA, END_STREAM, 3, b"abc"))
        assert c.answer(3)[0] is None


def test_body_window_is_small_until_asked_for(echo):
    with Client(echo.port) as c:
        kind, _, _, payload = c.until(SETTINGS)
        values = dict(struct.unpack(">HI", payload[i:i + 6]) for i in range(0, len(payload), 6))
        assert values[4] == 16 * 1024 and values[6] == 32 * 1024
        c.send(frame(SETTINGS, ACK))
        c.send(frame(HEADERS, END_HEADERS, 1, request("/hang", "POST")), frame(DATA, 0, 1, b"x" * 16384))
        c.send(frame(DATA, 0, 1, b"x"))  # one more than the window
        assert c.until(RST_STREAM, 1) or c.until(GOAWAY)


def test_slow_reader_of_a_body(echo):
    before = echo.stats()
    with Client(echo.port) as c:
        c.s.settimeout(1)
        c.send(frame(HEADERS, END_HEADERS, 1, request("/sink?ms=100000", "POST")))
        room = {0: 65535, 1: 16384}
        sent = 0
        try:
            while True:
                f = c.next()
                if f and f[0] == WINDOW_UPDATE:
                    room[f[2]] += int.from_bytes(f[3], "big")
                while min(room.values()) >= 16384:
                    c.send(frame(DATA, 0, 1, b"x" * 16384))
                    sent += 16384
                    room[0] -= 16384
                    room[1] -= 16384
        except socket.timeout:
            pass
        assert 500_000 < sent < 3_000_000
        assert echo.grew(before) < 4096
        # Another stream is not held up by that.
        c.s.settimeout(20)
        c.send(frame(HEADERS, WHOLE, 3, request()))
        assert c.answer(3) == (200, b"hello\n")


def test_cancelled_stream_ends_its_request(echo):
    before = echo.stats()
    with Client(echo.port) as c:
        for i in range(10):
            c.send(frame(HEADERS, WHOLE, 2 * i + 1, request("/hang")))
        echo.until(lambda n: n["live"] == before["live"] + 10)
        for i in range(10):
            c.send(frame(RST_STREAM, 0, 2 * i + 1, struct.pack(">I", 8)))
        after = echo.until(lambda n: n["live"] == before["live"])
        assert after["gone"] - before["gone"] == 10
        c.send(frame(HEADERS, WHOLE, 101, request()))
        assert c.answer(101) == (200, b"hello\n")


def test_closed_connection_ends_its_requests(echo):
    before = echo.stats()
    with Client(echo.port) as c:
        c.send(frame(HEADERS, WHOLE, 1, request("/hang")), frame(HEADERS, WHOLE, 3, request("/tick?n=100000&ms=10")),
               frame(HEADERS, WHOLE, 5, request("/stream?bytes=100000000000")))
        echo.until(lambda n: n["live"] == before["live"] + 3)
    after = echo.until(lambda n: n["live"] == before["live"])
    assert after["gone"] - before["gone"] == 3


def test_early_answer_stops_the_body(echo):
    with Client(echo.port) as c:
        c.send(frame(HEADERS, END_HEADERS, 1, request("/hello", "POST")))
        assert c.answer(1) == (200, b"hello\n")
        assert c.until(RST_STREAM, 1)[3] == struct.pack(">I", 0)


def flood(echo, make, limit=20000):
    """Sends until the server has enough of it; how many times it took."""
    with Client(echo.port) as c:
        c.s.settimeout(20)
        sent = 0
        try:
            while sent < limit:
                c.send(b"".join(make(i) for i in range(sent, sent + 100)))
                sent += 100
        except (BrokenPipeError, ConnectionResetError):
            return sent
        c.s.setblocking(False)
        try:
            while c.s.recv(1 << 20):
                pass
        except BlockingIOError:
            return None
        except ConnectionResetError:
            pass
        return sent


FLOODS = {
    "rapid reset": lambda i: frame(HEADERS, WHOLE, 2 * i + 1, request("/hang")) + frame(RST_STREAM, 0, 2 * i + 1, struct.pack(">I", 8)),
    "pings": lambda i: frame(PING, 0, 0, b"12345678"),
    "settings": lambda i: frame(SETTINGS),
    "empty data": lambda i: (frame(HEADERS, END_HEADERS, 1, request("/sink", "POST")) if i == 0 else b"") + frame(DATA, 0, 1),
}


@pytest.mark.parametrize("name", FLOODS)
def test_floods_end_the_connection(echo, name):
    before = echo.stats()
    assert flood(echo, FLOODS[name]) is not None
    echo.until(lambda n: n["live"] == before["live"])
    assert echo.grew(before) < 8192


def test_too_many_streams_are_refused(echo):
    with Client(echo.port) as c:
        c.until(SETTINGS)
        c.send(frame(SETTINGS, ACK))
        for i in range(1030):
            c.send(frame(HEADERS, WHOLE, 2 * i + 1, request("/hang")))
        assert c.until(GOAWAY)[3][:8] == struct.pack(">II", 2 * 1024 - 1, 1)  # after the last good one: PROTOCOL_ERROR
    echo.until(lambda n: n["live"] == 1)


def test_heads_of_many_streams_are_bounded(echo):
    before = echo.stats()
    head = request("/hang") + h2raw.headers(*[(f"x-{i}", "y" * 1000) for i in range(15)])
    with Client(echo.port) as c:
        for i in range(600):  # 9 MB of heads
            c.send(frame(HEADERS, WHOLE, 2 * i + 1, head))
        c.send(frame(PING, 0, 0, b"12345678"))
        refused = 0
        while (f := c.next())[0] != PING or not f[1] & ACK:
            refused += f[0] == HEADERS  # 503: the others hang
        assert 250 < refused < 400
        assert echo.grew(before) < 12000
    echo.until(lambda n: n["live"] == before["live"])


def test_replies_of_many_streams_are_bounded(echo):
    before = echo.stats()
    with Client(echo.port) as c:
        for i in range(800):  # 256 KB for each would be 200 MB
            c.send(frame(HEADERS, WHOLE, 2 * i + 1, request("/stream?bytes=100000000&piece=4096")))
        c.send(frame(PING, 0, 0, b"12345678"))
        while (f := c.next())[0] != PING or not f[1] & ACK:
            pass
        assert echo.until(lambda n: n["live"] == before["live"] + 800)
        assert echo.grew(before) < 40000
    echo.until(lambda n: n["live"] == before["live"])


def test_reader_that_gives_no_window(own_echo):
    echo = own_echo("--write-ms", 400)
    with Client(echo.port) as c:
        c.send(frame(HEADERS, WHOLE, 1, request("/stream?bytes=10000000")))
        assert c.until(RST_STREAM, 1)
        assert echo.stats()["timeout"] == 1
    echo.stop()


def test_stalled_body(own_echo):
    echo = own_echo("--body-ms", 300)
    with Client(echo.port) as c:
        c.send(frame(HEADERS, END_HEADERS, 1, request("/sink", "POST")), frame(DATA, 0, 1, b"x"))
        assert c.answer(1)[0] == 408
    echo.stop()


def test_idle_connection_gets_goaway(own_echo):
    echo = own_echo("--idle-ms", 300)
    with Client(echo.port) as c:
        c.send(frame(HEADERS, WHOLE, 1, request()))
        assert c.answer(1) == (200, b"hello\n")
        assert c.until(GOAWAY)[3][4:8] == b"\0\0\0\0"
        assert c.next() is None
    echo.stop()


def test_pings_do_not_keep_an_idle_connection(own_echo):
    echo = own_echo("--idle-ms", 500, "--conns", 3)
    with Client(echo.port) as c, Client(echo.port) as first:
        first.send(frame(PING, 0, 0, b"12345678"))
        assert first.until(PING)
        # Nor does a ping keep its place when room is needed.
        with echo.connect(), echo.connect():
            assert echo.stats()["conns"] <= 3
        c.s.settimeout(0.05)
        got = []
        end = time.monotonic() + 20
        while time.monotonic() < end and GOAWAY not in got:
            try:
                c.send(frame(PING, 0, 0, b"12345678"))
                f = c.next()
                if f is None:
                    break
                got.append(f[0])
            except socket.timeout:
                pass
            except (BrokenPipeError, ConnectionResetError):
                break
        assert time.monotonic() < end
    echo.stop()


def test_drain_with_streams(own_echo):
    echo = own_echo()
    with Client(echo.port) as c:
        c.send(frame(HEADERS, WHOLE, 1, request("/tick?n=20&ms=20")))
        c.until(DATA, 1)
        echo.terminate()
        goaway = c.until(GOAWAY)
        assert goaway[3] == struct.pack(">II", 1, 0)
        status, body = c.answer(1)
        assert body.endswith(b"tick\n")
        assert c.next() is None
    echo.stop()


def test_file_that_gets_shorter_resets_the_stream(echo, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 1000)
    with Client(echo.port) as c:
        c.send(frame(HEADERS, WHOLE, 1, request(f"/file?path={tmp_path}/f&len=5000")))
        assert c.answer(1)[0] is None
        c.send(frame(HEADERS, WHOLE, 3, request("/short")))
        assert c.answer(3)[0] is None
        c.send(frame(HEADERS, WHOLE, 5, request("/abort")))
        assert c.answer(5)[0] is None
        c.send(frame(HEADERS, WHOLE, 7, request()))
        assert c.answer(7) == (200, b"hello\n")
