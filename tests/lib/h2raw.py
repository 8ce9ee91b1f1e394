"""HTTP/2 frames made by hand, for what no library would send."""
import socket
import ssl
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    n = len(s)
    if n < 127:
        return bytes([n]) + s
    out, n = [127], n - 127
    while n >= 128:
        out.append(n % 128 + 128)
        n //= 128
    return bytes([*out, n]) + s


def headers(*pairs):
    """Literal, never indexed, no Huffman."""
    return b"".join(b"\x10" + text(k) + text(v) for k, v in pairs)


def request(path="/hello", method="GET", *more, authority="x", scheme="http"):
    return headers((":method", method), (":scheme", scheme), (":authority", authority), (":path", path), *more)


class Client:
    """Sends frames, collects what comes back."""

    def __init__(self, port, tls=False, settings=b"", greet=True, receive_buffer=None):
        s = socket.socket()
        if receive_buffer:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        s.settimeout(20)
        s.connect(("127.0.0.1", port))
        if tls:
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(["h2"])
            s = context.wrap_socket(s)
        self.s, self.data = s, b""
        if greet:
            self.send(PREFACE, frame(SETTINGS, payload=settings))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.s.close()

    def send(self, *frames):
        self.s.sendall(b"".join(frames))

    def next(self):
        """(kind, flags, stream, payload), or None at the end."""
        while len(self.data) < 9 or len(self.data) < 9 + int.from_bytes(self.data[:3], "big"):
            try:
                piece = self.s.recv(65536)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self.data += piece
        n = int.from_bytes(self.data[:3], "big")
        head, payload, self.data = self.data[:9], self.data[9:9 + n], self.data[9 + n:]
        return head[3], head[4], int.from_bytes(head[5:9], "big"), payload

    def until(self, kind, stream=None):
        """The next frame of that kind; None when the connection ends before it."""
        while (f := self.next()) is not None:
            if f[0] == kind and (stream is None or f[2] == stream):
                return f
        return None

    def answer(self, stream):
        """(status, body) of a stream; status is None when it was reset."""
        status, body = None, b""
        while (f := self.next()) is not None:
            kind, flags, number, payload = f
            if number != stream:
                continue
            if kind == RST_STREAM:
                return None, body
            if kind == HEADERS:
                status = status_of(payload)
            if kind == DATA:
                body += payload
                if payload:
                    self.send(frame(WINDOW_UPDATE, stream=0, payload=struct.pack(">I", len(payload))),
                              *([] if flags & END_STREAM else [frame(WINDOW_UPDATE, stream=stream, payload=struct.pack(">I", len(payload)))]))
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                return status, body
        return None, body


STATIC = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}


def status_of(block):
    """The status at the head of a header block: nghttp2 puts it first."""
    first = block[0]
    if first & 0x80:
        return STATIC.get(first & 0x7f)
    # Literal with the name from the static table; three digits, perhaps Huffman-coded (5 bits each for 0-2, 6 for 3-9).
    n = block[1] & 0x7f
    value = block[2:2 + n]
    if not block[1] & 0x80:
        return int(value)
    bits = "".join(f"{b:08b}" for b in value)
    codes = {"00000": "0", "00001": "1", "00010": "2", "011001": "3", "011010": "4", "011011": "5", "011100": "6", "011101": "7",
             "011110": "8", "011111": "9"}
    digits, at = "", 0
    while len(digits) < 3:
        for width in (5, 6):
            if bits[at:at + width] in codes:
                digits += codes[bits[at:at + width]]
                at += width
                break
        else:
            raise AssertionError(bits)
    return int(digits)
