"""The control protocol of a supervisor (docs/SUPERVISOR.md), from Python.

Written from the document, apart from the C side, so that a mistake in one is not a mistake in both.
"""
import array
import os
import random
import select
import socket
import struct
import subprocess
import time

MSG = dict(
    OK=2, ERROR=3, OPENED=5, DATA=6, END=7, CREDIT=8, CANCEL=9, ENTRY=10, START=16, START_FAILED=17,
    EXIT=18, PROCS=21, READ=32, WRITE=33, STAT=34, LIST=35, MKDIR=36, REMOVE=37, RENAME=38, WATCH=39,
    EVENT=40, DIAL=48, STATUS=256, ENDED=257, ATTACH=258, INPUT=259, TELL=260, SHAPE=261, STARTED=262,
    BIND=263, LIMITS=264, DEADLINE=265, PAUSE=266, RESUME=267, STOP=268, USAGE=269, SNAPSHOT=270, SOON=271)
NAMES = {v: k for k, v in MSG.items()}
TAGS = dict(
    VERSION=(1, 'I'), ERRNO=(2, 'I'), TEXT=(3, 's'), WINDOW=(4, 'I'), BYTES=(5, 'Q'), GRACE_MS=(6, 'I'),
    ARG=(10, 's'), ENV=(11, 's'), CWD=(12, 's'), USER=(13, 's'), ROWS=(14, 'I'), COLS=(15, 'I'),
    PID=(16, 'I'), STEP=(17, 'I'), CODE=(18, 'I'), SIGNAL=(19, 'I'), USER_US=(20, 'Q'),
    SYSTEM_US=(21, 'Q'), PEAK_KB=(22, 'Q'), PPID=(23, 'I'), STATE=(24, 'I'), STREAM=(25, 'I'),
    CMDLINE=(26, 'b'), PATH=(32, 's'), TO=(33, 's'), OFFSET=(34, 'Q'), LENGTH=(35, 'Q'), MODE=(36, 'I'),
    KIND=(37, 'I'), SIZE=(38, 'Q'), UID=(39, 'I'), GID=(40, 'I'), MTIME_NS=(41, 'Q'), LINK=(42, 's'),
    NAME=(43, 's'), DEPTH=(44, 'I'), CHANGE=(45, 'I'), PORT=(46, 'I'), META=(47, 'b'), OWNER=(48, 's'),
    GROUP=(49, 's'), LABEL=(64, 's'), TIMEOUT_MS=(65, 'Q'), LOST=(66, 'Q'), WAITING=(67, 'Q'),
    ATTACHED=(68, 'I'), FLAGS=(69, 'I'), ACTION=(70, 'I'), MEMORY=(71, 'Q'), DISK=(72, 'Q'),
    OUTPUT=(73, 'Q'), PIDS=(74, 'I'), CPU_MILLI=(75, 'I'), CPU_WEIGHT=(76, 'I'), ASKED=(77, 'I'),
    HOSTNAME=(78, 's'), CALLER=(79, 's'), TRACE=(80, 's'), BOX=(81, 's'), TIER=(82, 'I'), WHY=(83, 's'),
    WARNING=(84, 's'), REASON=(85, 's'), SUP_PID=(86, 'I'), PROCESSES=(87, 'I'), CAUSE=(88, 's'),
    AT_STEP=(89, 's'), NUMBERS=(90, 'b'), WAITS=(91, 'I'), STARTS=(92, 'I'), CPU=(93, 'I'), TRAITS=(96, 'b'), ASKED_BY=(97, 's'), RISK=(98, 's'),
    TEMPLATE=(99, 's'), MOUNT=(100, 'b'), NET=(101, 'I'), UPPER=(102, 'I'), FROM=(103, 'I'),
    IO_BYTES=(120, 'Q'), IO_OPS=(121, 'Q'), BOOT_MS=(122, 'Q'), OOM_KILLS=(27, 'Q'), PIDS_REFUSED=(28, 'Q'))
BY_NUMBER = {n: (name, kind) for name, (n, kind) in TAGS.items()}
REPEATED = ('ARG', 'ENV', 'MOUNT')
USAGE = ('cpu_us', 'mem_used', 'mem_cache', 'mem_limit', 'disk_used', 'disk_total', 'pids', 'pids_limit',
         'net_in', 'net_out', 'mem_peak')
STARTING, RUNNING, PAUSED, ENDED = 1, 2, 3, 4
KILL, PAUSE = 1, 2
WALLS = dict(workspace=1, container=2, kernel=3, vm=4)
UNKNOWN = 2 ** 64 - 1


def encode(**fields):
    """Fields as bytes; a list gives one field for each of its members."""
    out = b''
    for name, value in fields.items():
        if value is None:
            continue
        number, kind = TAGS[name]
        for v in value if isinstance(value, (list, tuple)) else [value]:
            if kind == 's':
                v = (v if isinstance(v, bytes) else str(v).encode()) + b'\0'
            elif kind != 'b':
                v = struct.pack('<' + kind, v)
            out += struct.pack('<HI', number, len(v)) + v
    return out


def decode(data):
    out = {}
    at = 0
    while at < len(data):
        number, length = struct.unpack_from('<HI', data, at)
        value = data[at + 6:at + 6 + length]
        assert len(value) == length, 'a field is cut'
        at += 6 + length
        name, kind = BY_NUMBER[number]
        if kind == 's':
            assert value.endswith(b'\0')
            value = value[:-1].decode(errors='surrogateescape')
        elif kind != 'b':
            value = struct.unpack('<' + kind, value)[0]
        if name in REPEATED:
            out.setdefault(name, []).append(value)
        else:
            assert name not in out, f'{name} comes twice'
            out[name] = value
    return out


class Frame:
    def __init__(self, kind, flags, stream, data, fds):
        self.kind, self.flags, self.stream, self.data, self.fds = kind, flags, stream, data, fds
        self.name = NAMES.get(kind, kind)
        self._fields = None

    def __getattr__(self, key):
        if not key.isupper():
            raise AttributeError(key)
        return self.fields.get(key)

    @property
    def fields(self):
        if self._fields is None:
            self._fields = decode(self.data)
        return self._fields

    @property
    def final(self):
        return self.name in ('OK', 'EXIT', 'START_FAILED') or (self.name == 'ERROR' and not self.flags & 1)

    def __repr__(self):
        body = repr(self.data[:60]) if self.name == 'DATA' else self.fields
        return f'<{self.name} {self.stream} flags={self.flags} {body}>'


class Closed(Exception):
    pass


class Link:
    """One connection. Frames are kept by stream until somebody asks for them."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = b''
        self.fds = []
        self.frames = []
        self.next_stream = 0
        self.status = None
        self.ended = None

    @classmethod
    def connect(cls, state, box):
        sock = socket.socket(socket.AF_UNIX)
        where = os.open(f'{state}/run', os.O_RDONLY)
        try:
            sock.connect(f'/proc/self/fd/{where}/{box}.sock')
        finally:
            os.close(where)
        return cls(sock)

    def close(self):
        self.sock.close()

    def send_raw(self, kind, stream, payload=b'', flags=0):
        number = MSG[kind] if isinstance(kind, str) else kind
        self.sock.sendall(struct.pack('<IHHI', len(payload), number, flags, stream) + payload)

    def open(self, kind, flags=0, **fields):
        """A request; its stream."""
        self.next_stream += 1
        stream = self.next_stream
        self.send_raw(kind, stream, encode(**fields), flags)
        return stream

    def _pump(self, timeout):
        if not select.select([self.sock], [], [], timeout)[0]:
            raise TimeoutError('the supervisor says nothing')
        try:
            data, control, _, _ = self.sock.recvmsg(1 << 17, socket.CMSG_SPACE(16 * 4))
        except ConnectionResetError as e:
            raise Closed('the supervisor has hung up') from e
        for level, kind, payload in control:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                got = array.array('i')
                got.frombytes(payload[:len(payload) - len(payload) % 4])
                self.fds.extend(got)
        if not data:
            raise Closed('the supervisor has closed the connection')
        self.buffer += data
        while len(self.buffer) >= 12:
            length, kind, flags, stream = struct.unpack_from('<IHHI', self.buffer)
            if len(self.buffer) < 12 + length:
                break
            payload, self.buffer = self.buffer[12:12 + length], self.buffer[12 + length:]
            fds = [self.fds.pop(0)] if NAMES.get(kind) == 'OPENED' and flags & 1 else []
            frame = Frame(kind, flags, stream, payload, fds)
            if frame.name == 'STATUS':
                self.status = frame
            elif frame.name == 'ENDED':
                self.ended = frame
            else:
                self.frames.append(frame)

    def wait(self, test, timeout=20):
        """Until test() is not None or false; what it says."""
        end = time.monotonic() + timeout
        while True:
            got = test()
            if got:
                return got
            self._pump(max(0, end - time.monotonic()))

    def take(self, stream, timeout=20):
        """The next frame of a stream."""
        def find():
            for i, frame in enumerate(self.frames):
                if frame.stream == stream:
                    return self.frames.pop(i)
            return None
        return self.wait(find, timeout)

    def call(self, kind, flags=0, timeout=20, **fields):
        """A request that is one question and one answer."""
        frame = self.take(self.open(kind, flags, **fields), timeout)
        assert frame.final, frame
        return frame

    def ok(self, kind, flags=0, **fields):
        frame = self.call(kind, flags, **fields)
        assert frame.name == 'OK', frame
        return frame

    def until_state(self, state, timeout=20):
        return self.wait(lambda: self.status and self.status.STATE == state and self.status, timeout)

    def until_ended(self, timeout=20):
        return self.wait(lambda: self.ended, timeout)

    def credit(self, stream, count):
        self.send_raw('CREDIT', stream, encode(BYTES=count))

    def start(self, argv, flags=16, **fields):
        """START and its OPENED: (stream, pid)."""
        stream = self.open('START', flags, ARG=argv, **fields)
        frame = self.take(stream)
        assert frame.name == 'OPENED', frame
        return stream, frame.PID

    def attach(self, flags=0, **fields):
        stream = self.open('ATTACH', flags, **fields)
        frame = self.take(stream)
        assert frame.name == 'OPENED', frame
        return stream, frame

    def collect(self, stream, credit=True, timeout=20):
        """All that a process says: (stdout, stderr, its final frame)."""
        out = [b'', b'']
        while True:
            frame = self.take(stream, timeout)
            if frame.name == 'DATA':
                out[frame.flags & 1] += frame.data
                if credit:
                    self.credit(stream, len(frame.data))
            elif frame.final:
                return out[0], out[1], frame

    def run(self, argv, flags=16, timeout=20, **fields):
        stream = self.open('START', flags, ARG=argv, **fields)
        return self.collect(stream, timeout=timeout)

    def input(self, data, close=False, **who):
        stream = self.open('INPUT', 1 if close else 0, **who)
        if data:
            self.send_raw('DATA', stream, data)
        self.send_raw('END', stream)
        return self.take(stream)

    def entries(self, kind, flags=0, **fields):
        stream = self.open(kind, flags, **fields)
        found = []
        while True:
            frame = self.take(stream)
            if frame.final:
                assert frame.name == 'OK', frame
                return found
            found.append(frame)

    def usage(self):
        numbers = struct.unpack('<11Q', self.ok('USAGE').NUMBERS)
        return dict(zip(USAGE, numbers))


def make_id():
    return random.choice('abcdefghijklmnopqrstuvwxyz') + ''.join(
        random.choice('abcdefghijklmnopqrstuvwxyz234567') for _ in range(11))


def request(box, **fields):
    fields = dict(dict(TIER=WALLS['container'], ASKED_BY='a test', RISK='a test'), **fields)
    return encode(VERSION=1, BOX=box, TRAITS=bytes(9), **fields)


def request_file(box, raw=None, **fields):
    memory = os.memfd_create('request')
    os.write(memory, request(box, **fields) if raw is None else raw)
    return memory


class Sup:
    """A supervisor that this test has started."""

    def __init__(self, ward, state, box=None, env=None, raw=None, fds=(), prefix=(), **fields):
        self.state, self.id = str(state), box or make_id()
        memory = request_file(self.id, raw, **fields)
        ours, theirs = socket.socketpair()
        self.spawn(ward, [self.id], [memory, theirs.fileno(), *fds], env, prefix)
        theirs.close()
        os.close(memory)
        self.link = Link(ours)

    def spawn(self, ward, words, fds, env, prefix=()):
        """`ward sup WORDS` with these descriptors from 3 on."""
        stderr_read, stderr_write = os.pipe()

        def place():
            os.setsid()
            high = [os.dup2(fd, 100 + i) for i, fd in enumerate(fds)]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)
            os.closerange(3 + len(fds), 200)
        self.process = subprocess.Popen(
            [*prefix, str(ward), '--state-dir', self.state, 'sup', *words], preexec_fn=place, close_fds=False,
            env=dict(env or {}), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr_write)
        os.close(stderr_write)
        self.stderr = os.fdopen(stderr_read, 'rb')

    def running(self):
        self.link.until_state(RUNNING)
        return self

    def reconnect(self):
        self.link.close()
        self.link = Link.connect(self.state, self.id)
        self.link.wait(lambda: self.link.status)
        return self.link

    def record_path(self):
        return f'{self.state}/run/{self.id}.end'

    def stop(self):
        """Ends it, however it is; the exit status."""
        if self.process.poll() is None:
            try:
                link = self.reconnect()
                link.open('STOP', TEXT='the test is over')
            except (OSError, Closed, TimeoutError):
                pass
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.link.close()
        self.stderr.close()
        return self.process.returncode


class Ahead(Sup):
    """One that waits for a request. `link` is there after ask()."""

    def __init__(self, ward, state, tier='vm', box=None, env=None):
        self.state, self.id, self.link = str(state), box or make_id(), None
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.spawn(ward, ['--ahead', tier, self.id], [theirs.fileno()], env)
        theirs.close()

    def waits(self, timeout=20):
        """True: it is ready; False: it has ended."""
        self.sock.settimeout(timeout)
        try:
            return self.sock.recv(16) == b'W'
        except ConnectionResetError:
            return False

    def ask(self, raw=None, fds=(), word=b'A', **fields):
        memory = request_file(self.id, raw, **fields)
        ours, theirs = socket.socketpair()
        try:
            socket.send_fds(self.sock, [word], [memory, theirs.fileno(), *fds])
        finally:
            os.close(memory)
            theirs.close()
        self.link = Link(ours)
        return self.link

    def over(self, timeout=30):
        """Nobody wants it: its status, and what it said."""
        self.sock.close()
        if self.link:
            self.link.close()
        status = self.process.wait(timeout)
        said = self.stderr.read().decode()
        self.stderr.close()
        return status, said
