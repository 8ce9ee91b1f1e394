"""A program inside tries to get out. Every attempt is a row of tests/escape/*.c; each is first made
natively, where it must get through (or fail for another reason), so that a refusal means something."""
import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import uuid

import pytest

from wardtest import BINARY, USER_ID, as_user, public_directory, run_in_terminal

ESCAPE = BINARY.parent / "tests" / "escape" / "escape"
SECRET = "only the host may read this"
TOKEN = {"WARD_ESCAPE_TOKEN": "a credential of the host"}
CONTAINER = ["--tier", os.environ.get("WARD_TEST_TIER", "container"), "--accept-risk", "escape tests"]
KERNEL = ["--tier", "kernel"]
INSIDE = "/escape"
KNOBS = ("kernel/core_pattern", "kernel/randomize_va_space", "kernel/sched_rt_runtime_us", "kernel/domainname", "vm/overcommit_memory")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the native runs need root")


def rows():
    text = subprocess.run([ESCAPE, "table"], check=True, capture_output=True, text=True).stdout
    table = {}
    for line in text.splitlines():
        name, *columns = line.split("\t")
        assert name not in table, f"two rows are called {name}"
        table[name] = dict(zip(("native", "container", "workspace"), columns))
    return table


def kernel_rows(table):
    """Adds the columns of the kernel tier: a container's, but for the rows of kernel.txt."""
    differs = {}
    for line in (pathlib.Path(__file__).parent / "kernel.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, root, user, why = line.split(None, 3)
            assert name in table and name not in differs and why, line
            differs[name] = (root, user)
    for name, row in table.items():
        for column, got in zip(("kernel", "kernel-user"), differs.get(name, ("=", "="))):
            row[column] = row["container"] if got == "=" else got
    return table


ROWS = kernel_rows(rows())


def wanted(column):
    return sorted(name for name, row in ROWS.items() if row[column] != "-")


class Host:
    """What there is on the host to be reached, and what the program inside is told of it."""

    def __init__(self, place):
        self.dir = place
        self.secret = place / "secret"
        self.secret.write_text(SECRET)
        self.stdin = place / "stdin"
        self.stdin.write_text("input\n")
        self.tools = place / "tools"
        self.tools.mkdir()
        shutil.copy2(ESCAPE, self.tools / "escape")
        self.name = "ward-escape-" + uuid.uuid4().hex
        self.listeners = [self.listen(socket.AF_INET, ("127.0.0.1", 0)), self.listen(socket.AF_INET6, ("::1", 0)),
                          self.listen(socket.AF_UNIX, "\0" + self.name), self.listen(socket.AF_UNIX, str(place / "socket"))]
        self.victim = subprocess.Popen(["/bin/sleep", "987654", "0"], env={**os.environ, **TOKEN}, cwd="/")
        self.handle = subprocess.run([ESCAPE, "handle", self.secret], check=True, capture_output=True, text=True).stdout.strip()

    @staticmethod
    def listen(family, address):
        s = socket.socket(family, socket.SOCK_STREAM)
        s.bind(address)
        s.listen(64)
        return s

    def facts(self, **more):
        facts = {"secret": self.secret, "handle": self.handle, "marker": "987654", "abstract": self.name,
                 "socket": self.dir / "socket", "victim": self.victim.pid, "tcp4": self.listeners[0].getsockname()[1],
                 "tcp6": self.listeners[1].getsockname()[1], **more}
        return [f"{key}={value}" for key, value in facts.items()]

    def close(self):
        self.victim.kill()
        self.victim.wait()
        for s in self.listeners:
            s.close()


@pytest.fixture(scope="module")
def host():
    with public_directory() as place:
        h = Host(place)
        yield h
        h.close()


@pytest.fixture
def user_host():
    """A host whose files belong to the ordinary user: nothing but the wall is in the way."""
    with public_directory() as place:
        h = Host(place)
        for path in (place, h.secret, h.stdin):
            os.chown(path, USER_ID, USER_ID)
        yield h
        h.close()


def attempts(argv, host):
    """Runs the program with a descriptor too many and a credential in the environment."""
    leaked = os.open(host.dir, os.O_RDONLY)
    try:
        with open(host.stdin, "rb") as stdin:
            done = subprocess.run(argv, stdin=stdin, capture_output=True, text=True, timeout=120, pass_fds=[leaked],
                                  env={**os.environ, **TOKEN})
    finally:
        os.close(leaked)
    results = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)
    return done, results


def compare(column, results):
    """One list of all rows that ended in another way than they should."""
    wrong = []
    for name in wanted(column):
        got = results.get(name, "did not run")
        accepted = ROWS[name][column]
        short = "ok" if got == "ALLOWED" else got.removeprefix("refused ")
        if short not in accepted.split() and not (" " in short and short in accepted):
            wrong.append(f"{name}: {got}; accepted: {accepted}")
    extra = set(results) - set(wanted(column))
    return wrong + [f"{name}: ran without a row" for name in extra]


def test_each_attempt_is_real(host):
    """Outside, as root, the attempts get through or fail past the permission check."""
    done, results = attempts([ESCAPE, "run", "native", *host.facts(init=host.victim.pid)], host)
    assert done.returncode == 0, done.stderr
    assert compare("native", results) == []
    allowed = sum(r == "ALLOWED" for r in results.values())
    assert allowed > len(results) // 2, "most attempts should get through on the bare host"


def test_the_comparison_can_fail():
    everything_open = {name: "ALLOWED" for name in wanted("container")}
    assert len(compare("container", everything_open)) == len(everything_open)
    assert compare("container", {}) != []


def inside(ward, host, *options, tier=CONTAINER):
    argv = ward.argv("run", *tier, "--mount", f"{host.tools}:{INSIDE}:ro", *options, "--", f"{INSIDE}/escape",
                     "run", "container", *host.facts())
    return attempts(argv, host)


@pytest.mark.parametrize("options", [(), ("--net", "loopback"), ("--user", "1000:1000")], ids=lambda o: " ".join(o) or "default")
def test_nothing_gets_out_of_a_container(ward, host, leaks, options):
    before = fingerprint(host)
    done, results = inside(ward, host, *options)
    assert done.returncode == 0, done.stderr
    assert compare("container", results) == []
    assert fingerprint(host) == before


@pytest.mark.parametrize("options", [(), ("--net", "loopback")], ids=lambda o: " ".join(o) or "default")
def test_nothing_gets_out_of_an_ordinary_users_container(user_ward, user_host, options):
    before = fingerprint(user_host)
    done, results = inside(user_ward, user_host, *options)
    assert done.returncode == 0, done.stderr
    assert compare("container", results) == []
    assert fingerprint(user_host) == before


@pytest.mark.parametrize("options,column", [((), "kernel"), (("--user", "1000:1000"), "kernel-user")], ids=["root", "user"])
def test_nothing_gets_out_of_the_kernel_tier(ward, host, leaks, options, column):
    before = fingerprint(host)
    done, results = inside(ward, host, *options, tier=KERNEL)
    assert done.returncode == 0, done.stderr
    assert compare(column, results) == []
    assert fingerprint(host) == before


def test_nothing_gets_out_of_an_ordinary_users_kernel_tier(user_ward, user_host):
    before = fingerprint(user_host)
    done, results = inside(user_ward, user_host, "--net", "loopback", tier=KERNEL)
    assert done.returncode == 0, done.stderr
    assert compare("kernel", results) == []
    assert fingerprint(user_host) == before


def inside_workspace(ward, host):
    argv = ward.argv("run", "--tier", "workspace", "--accept-risk", "escape tests", "--source", f"copy:{host.tools}=tools",
                     "--", "./escape", "run", "workspace", *host.facts(init=os.getpid()))
    return attempts(argv, host)


def test_nothing_gets_out_of_a_workspace(ward, host, leaks):
    before = fingerprint(host)
    done, results = inside_workspace(ward, host)
    assert done.returncode == 0, done.stderr
    assert compare("workspace", results) == []
    assert fingerprint(host) == before


def test_nothing_gets_out_of_an_ordinary_users_workspace(user_ward, user_host):
    before = fingerprint(user_host)
    done, results = inside_workspace(user_ward, user_host)
    assert done.returncode == 0, done.stderr
    assert compare("workspace", results) == []
    assert fingerprint(user_host) == before


def fingerprint(host):
    """The host as the attempts could have changed it."""
    files = [BINARY, host.secret, host.stdin, pathlib.Path("/etc/passwd"), pathlib.Path("/etc/hostname")]
    return {
        "files": {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files if p.exists()},
        "beside": sorted(p.name for p in host.dir.iterdir()),
        "host name": os.uname().nodename,
        "knobs": {knob: pathlib.Path("/proc/sys", knob).read_text() for knob in KNOBS},
        "victim": host.victim.poll(),
        "victim's nice": os.getpriority(os.PRIO_PROCESS, host.victim.pid),
    }


# Privileges that a file gives.

def privileges(text):
    """What `escape privileges` printed: ids, and whether there is any capability."""
    lines = text.splitlines()
    euid = int(lines[0].split()[1])
    caps = [int(line.split()[1], 16) for line in lines if line.startswith("Cap")]
    assert len(caps) == 2, text
    return euid, any(caps)


@contextlib.contextmanager
def raising_programs():
    """A copy that is setuid and setgid root, and one with capabilities."""
    with public_directory() as place:
        for name in ("setuid", "filecaps"):
            shutil.copy2(ESCAPE, place / name)
            os.chown(place / name, 0, 0)
        (place / "setuid").chmod(0o6755)
        caps = struct.pack("<IIIII", 0x02000001, 1 << 21 | 1 << 12, 0, 0, 0)  # sys_admin and net_admin, effective
        os.setxattr(place / "filecaps", "security.capability", caps)
        yield place


@pytest.mark.parametrize("name", ["setuid", "filecaps"])
def test_a_file_gives_no_privileges(ward, name):
    with raising_programs() as place:
        outside = subprocess.run(as_user([place / name, "privileges"]), check=True, capture_output=True, text=True).stdout
        assert privileges(outside) == ((0 if name == "setuid" else USER_ID), True), "the program must raise outside"
        done = ward("run", *CONTAINER, "--user", "1000:1000", "--mount", f"{place}:{INSIDE}:ro", "--", f"{INSIDE}/{name}", "privileges")
    # Not running at all is fine too; running with more than it was started with is not.
    assert done.returncode in (0, 126), done.stderr
    if done.returncode == 0:
        assert privileges(done.stdout) == (1000, False)


@pytest.mark.parametrize("program", ["/usr/bin/su", "/usr/bin/passwd", "/usr/bin/mount", "/usr/bin/chsh", "/usr/bin/newgrp"])
def test_the_templates_setuid_programs_raise_nobody(ward, program):
    """They exist, with their bit or without it; whatever they do is done as the user."""
    if not pathlib.Path(program).exists():
        pytest.skip(f"this host has no {program}")
    script = f"cp {program} /tmp/copy; chmod 4755 /tmp/copy 2>/dev/null; {program} --version >/dev/null 2>&1; " \
             "exec /usr/bin/id -u"
    done = ward("run", *CONTAINER, "--user", "1000:1000", "--", "/bin/sh", "-c", script)
    assert (done.returncode, done.stdout) == (0, "1000\n"), done.stderr


# Terminals.

def terminal_lines(shown):
    return dict(re.findall(r"(tio[a-z]+-\d): ([A-Za-z ]+)", shown))  # what was typed may stand before it


def test_typing_on_the_hosts_terminal_is_refused(ward, host):
    """Without -t the sandbox may hold the host's own terminal: it must not type there."""
    status, shown = run_in_terminal([str(ESCAPE), "terminal"])
    assert status == 0 and terminal_lines(shown)["tiocsti-0"] == "ALLOWED", "natively, root can type"
    for extra in ([], ["-t"]):
        argv = ward.argv("run", *CONTAINER, *extra, "--mount", f"{host.tools}:{INSIDE}:ro", "--", f"{INSIDE}/escape", "terminal")
        status, shown = run_in_terminal(argv)
        lines = terminal_lines(shown)
        assert status == 0 and len(lines) == 6, shown
        assert not [k for k, v in lines.items() if v == "ALLOWED"], shown


# Exhaustion.

def lines_of(done):
    return dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": " in line)


@pytest.mark.parametrize("upper", ["tmpfs", "disk"])
def test_inodes_run_out_inside(ward, host, leaks, upper):
    done = ward("run", *CONTAINER, "--disk", "16M", "--upper", upper, "--mount", f"{host.tools}:{INSIDE}:ro", "--", f"{INSIDE}/escape",
                "inodes", "/tmp", "500000")
    assert lines_of(done).get("inodes") in ("refused ENOSPC", "refused EDQUOT"), (done.stdout, done.stderr)


def test_descriptors_run_out_for_one_process(ward, host):
    done = ward("run", *CONTAINER, "--mount", f"{host.tools}:{INSIDE}:ro", "--", f"{INSIDE}/escape", "descriptors", str(1 << 22), timeout=120)
    assert lines_of(done) == {"descriptors": "refused EMFILE"}, (done.stdout, done.stderr)


@pytest.mark.parametrize("directory", ["/tmp", "/dev/shm", "/"])
def test_files_in_memory_count(ward, host, leaks, directory):
    done, end = ward.run(*CONTAINER, "--memory", "64M", "--disk", "32M", "--mount", f"{host.tools}:{INSIDE}:ro", "--",
                         f"{INSIDE}/escape", "fill", directory, "2048", timeout=120)
    ended = lines_of(done).get("fill")
    assert ended in ("refused ENOSPC", "refused EDQUOT") or end["cause"] in ("out-of-memory", "disk-limit"), (done.stdout, done.stderr, end)


# Writes stay inside.

def tree_hash(top):
    digest = hashlib.sha256()
    for path in sorted(top.rglob("*")):
        st = path.lstat()
        digest.update(f"{path.relative_to(top)} {st.st_mode} {st.st_uid} {st.st_gid} {st.st_size} {st.st_mtime_ns}".encode())
        if path.is_file() and not path.is_symlink():
            digest.update(path.read_bytes())
    return digest.hexdigest()


VANDAL = """
echo changed > /etc/motd.vandal; echo changed > /file 2>/dev/null; echo more >> /sub/file 2>/dev/null
rm -rf /sub/gone 2>/dev/null; chmod 777 /file 2>/dev/null; chown 1:1 /file 2>/dev/null; mv /sub /sub2 2>/dev/null
ln -f /file /hardlink 2>/dev/null; mkdir -p /usr/vandal; echo x > /usr/vandal/file; touch /escape/new; echo x >> /escape/escape
true
"""


def test_writes_do_not_reach_a_directory_template(ward, host, public_dir):
    for d in ("etc", "sub/gone", "tmp", "usr", "proc", "dev", "escape"):
        (public_dir / d).mkdir(parents=True)
    for link in ("bin", "lib", "lib64"):
        (public_dir / link).symlink_to(f"usr/{link}")
    for name in ("file", "sub/file"):
        (public_dir / name).write_text("as it was")
    before, tools = tree_hash(public_dir), tree_hash(host.tools)
    done = ward("run", *CONTAINER, "--template", f"dir:{public_dir}", "--mount", f"{host.tools}:{INSIDE}:ro", "--mount", "/usr:/usr:ro",
                "--", "/bin/sh", "-c", VANDAL)
    assert done.returncode == 0, done.stderr
    assert tree_hash(public_dir) == before
    assert tree_hash(host.tools) == tools
    assert not pathlib.Path("/usr/vandal").exists()


def test_writes_do_not_reach_the_host(ward, host):
    passwd = pathlib.Path("/etc/passwd").read_bytes()
    tools = tree_hash(host.tools)
    script = VANDAL + "echo evil::0:0::/:/bin/sh >> /etc/passwd; echo x > /usr/bin/ward-escape-vandal; rm -f /usr/bin/env; true"
    done = ward("run", *CONTAINER, "--mount", f"{host.tools}:{INSIDE}:ro", "--", "/bin/sh", "-c", script)
    assert done.returncode == 0, done.stderr
    assert pathlib.Path("/etc/passwd").read_bytes() == passwd
    assert pathlib.Path("/usr/bin/env").exists()
    for left in ("/usr/bin/ward-escape-vandal", "/usr/vandal", "/etc/motd.vandal"):
        assert not pathlib.Path(left).exists()
    assert tree_hash(host.tools) == tools


def test_an_overlay_mount_takes_writes_and_the_source_does_not(ward, public_dir):
    (public_dir / "data").mkdir()
    (public_dir / "data/file").write_text("as it was")
    before = tree_hash(public_dir)
    done = ward("run", *CONTAINER, "--mount", f"{public_dir / 'data'}:/data:overlay", "--", "/bin/sh", "-c",
                "echo new > /data/file && echo new > /data/other && cat /data/file")
    assert (done.returncode, done.stdout) == (0, "new\n"), done.stderr
    assert tree_hash(public_dir) == before


def test_the_binary_survives_a_program_that_is_its_own_interpreter(ward, public_dir):
    """The start of CVE-2019-5736: make the launcher execute itself, then write to its image."""
    before = hashlib.sha256(BINARY.read_bytes()).hexdigest()
    script = public_dir / "again"
    script.write_text("#!/proc/self/exe\n")
    script.chmod(0o755)
    done = ward("run", *CONTAINER, "--timeout", "10s", "--mount", f"{public_dir}:/work:ro", "--", "/bin/sh", "-c",
                "/work/again; for p in /proc/[0-9]*; do (printf x >> $p/exe) 2>/dev/null && echo wrote $p; done; echo over")
    assert "wrote" not in done.stdout and "over" in done.stdout, (done.stdout, done.stderr)
    done = ward("run", *CONTAINER, "--timeout", "10s", "--mount", f"{public_dir}:/work:ro", "--", "/work/again")
    assert hashlib.sha256(BINARY.read_bytes()).hexdigest() == before
