"""What a command finds inside: environment, users, host name, network."""
import os
import pathlib
import re
import socket
import subprocess

import pytest

from runbox import CONTAINER, box, needs_root, place, read_until  # noqa: F401
from runparts import CAP_BITS, ROOT_CAPS, one_line, status_inside


# Environment, working directory, user.

def env_inside(box, *args, **options):
    return dict(item.split("=", 1) for item in box.out(*args, "--", "env", "-0", **options).split("\0") if item)


def test_environment_is_ours_alone(box):
    inside = env_inside(box, env={"SECRET_TOKEN": "x", "LD_PRELOAD": "", "PYTHONPATH": "/tmp", "LC_ALL": "C", "TERM": "vt100"})
    assert set(inside) <= {"PATH", "LANG", "HOME", "USER", "LOGNAME", "PWD", "SHLVL"}, inside
    assert inside["PATH"] == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert inside["LANG"] == "C.UTF-8"
    assert inside["HOME"] == "/root"


def test_environment_order_and_odd_values(box):
    odd = {"EMPTY": "", "SPACES": "  a  b ", "EQUALS": "a=b=c", "LINES": "one\ntwo", "UTF": "žluťoučký 🐎", "QUOTES": "'\"$`\\",
           "lower": "1", "A.B-C": "dots", "PATH": "/bin", "LANG": "de_DE", "HOME": "/tmp/h"}
    args = [word for name, value in odd.items() for word in ("--env", f"{name}={value}")]
    inside = env_inside(box, "-e", "EMPTY=first", "-e", "PATH=/nowhere", *args)
    for name, value in odd.items():
        assert inside[name] == value, name


def test_environment_that_is_not_text(box):
    process = subprocess.run([*map(os.fsencode, box.argv(*CONTAINER)), b"-e", b"RAW=\xff\xfe\x80", b"--", b"printenv", b"RAW"],
                             capture_output=True, timeout=60, stdin=subprocess.DEVNULL)
    assert process.stdout == b"\xff\xfe\x80\n", process


def test_large_environment_and_arguments(box):
    value = "v" * 100000
    assert box.out("-e", f"BIG={value}", "--", "sh", "-c", "echo ${#BIG} ${#1}", "sh", "a" * 100000) == "100000 100000\n"
    many = [word for i in range(900) for word in ("--env", f"N{i}=x")]
    assert box.out(*many, "--", "sh", "-c", "env | grep -c ^N") == "900\n"


def test_environment_path_finds_the_command(box, place):
    (place / "tool").write_text("#!/bin/sh\necho found $0\n")
    (place / "tool").chmod(0o755)
    assert box.out("--mount", f"{place}:/tools", "-e", "PATH=/tools:/usr/bin:/bin", "--", "tool") == "found /tools/tool\n"


def test_workdir(box):
    assert box.out("--", "pwd") == "/\n"
    assert box.out("--workdir", "/usr/share", "--", "pwd") == "/usr/share\n"
    assert box.out("-w", "/tmp/", "--", "sh", "-c", "touch x && ls /tmp") == "x\n"
    for bad in ("/no/such", "/etc/passwd"):
        done, report = box.report("-w", bad, "--", "true")
        assert (done.returncode, report["cause"]) == (125, "setup-failed") and report["step"]
        one_line(done, bad)


def test_root_inside_has_ten_capabilities(box):
    want = sum(1 << CAP_BITS[name] for name in ROOT_CAPS)
    status = status_inside(box)
    for kind in ("CapPrm", "CapEff", "CapBnd"):
        assert int(status[kind], 16) == want, (kind, status[kind])
    for kind in ("CapInh", "CapAmb"):
        assert int(status[kind], 16) == 0, (kind, status[kind])
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"


@pytest.mark.parametrize("user, ids", [("1000", ("1000", "1000")), ("1000:2000", ("1000", "2000")), ("daemon", ("1", "1")),
                                       ("daemon:tty", ("1", "5")), ("nobody", ("65534", "65534")), ("0:7", ("0", "7")),
                                       ("65535", ("65535", "65535")), ("7:daemon", ("7", "1"))])
@needs_root
def test_user(box, user, ids):
    assert box.out("--user", user, "--", "sh", "-c", "id -u; id -g; id -G").split()[:2] == list(ids)
    status = status_inside(box, "--user", user)
    if ids[0] != "0":
        for kind in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            assert int(status[kind], 16) == 0, (kind, status[kind])
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    assert status["Groups"].split() in ([], [ids[1]], ["0"])
    assert set(status["Uid"].split()) == {ids[0]} and set(status["Gid"].split()) == {ids[1]}


@needs_root
def test_user_has_a_home_and_a_tmp(box):
    inside = env_inside(box, "--user", "daemon")
    assert (inside["HOME"], inside["USER"], inside["LOGNAME"]) == ("/usr/sbin", "daemon", "daemon")
    assert env_inside(box, "--user", "4321")["HOME"] == "/"
    assert box.out("--user", "4321", "--", "sh", "-c", "echo x > /tmp/f && cat /tmp/f && ! touch /etc/f 2>/dev/null && echo no") == "x\nno\n"


@pytest.mark.parametrize("user", ["nosuchuser", "0:nosuchgroup", "0:65536", "5:99999999999"])
def test_unknown_user(box, user):
    done, report = box.report("--user", user, "--", "true")
    assert (done.returncode, report["cause"]) == (125, "setup-failed")
    one_line(done, user.split(":")[-1])


@needs_root
def test_ids_outside_are_a_private_range(box):
    """Two sandboxes at once never share an owner, and neither is anybody of the host."""
    processes = [box.start("--", "sh", "-c", "echo up; exec sleep 1000", stdout=subprocess.PIPE, bufsize=0) for _ in range(2)]
    try:
        owners = []
        for process in processes:
            read_until(process.stdout, b"up\n")
            child = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
            owners.append(os.stat(f"/proc/{pathlib.Path(f'/proc/{child}/task/{child}/children').read_text().split()[0]}").st_uid)
        assert all(owner >= 0x70000000 for owner in owners) and owners[0] != owners[1]
    finally:
        for process in processes:
            process.kill()
            process.wait()
            process.stdout.close()


# Host name and network.

def test_host_name(box):
    done, report = box.report("--", "hostname")
    assert done.stdout.strip() == report["id"] != socket.gethostname()
    assert re.fullmatch(r"[a-z2-7]{12}", report["id"])
    assert box("--", "hostname", "new-name").returncode != 0
    assert socket.gethostname() != "new-name"

LISTEN = ("import socket,sys\ns=socket.socket()\ns.bind(('127.0.0.1',0))\ns.listen()\nc=socket.create_connection(s.getsockname())\n"
          "print('connected')")


@pytest.fixture
def host_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def interfaces(box, *args):
    text = box.out(*args, "--", "cat", "/proc/net/dev")
    return {line.split(":")[0].strip() for line in text.splitlines()[2:]}


def test_net_none(box, host_port):
    assert interfaces(box) <= {"lo"} and interfaces(box, "--net", "none") <= {"lo"}
    assert "connected" not in box("--", "python3", "-c", LISTEN).stdout
    done = box("--", "python3", "-c", f"import socket; socket.create_connection(('127.0.0.1',{host_port}))")
    assert done.returncode == 1


def test_net_loopback(box, host_port):
    assert interfaces(box, "--net", "loopback") == {"lo"}
    assert box.out("--net", "loopback", "--", "python3", "-c", LISTEN) == "connected\n"
    done = box("--net", "loopback", "--", "python3", "-c", f"import socket; socket.create_connection(('127.0.0.1',{host_port}))")
    assert done.returncode == 1 and "refused" in done.stderr


def test_net_host(box, host_port):
    done, report = box.report("--net", "host", "--", "python3", "-c",
                              f"import socket; socket.create_connection(('127.0.0.1',{host_port})); print('connected')")
    assert done.stdout == "connected\n" and report["grants"]["net"] == "host"
    audit = box.ward("audit", "show", "--json").stdout
    assert '"net":"host"' in audit.replace(" ", "")


def test_net_low_port_inside(box):
    code = "import socket\ns=socket.socket()\ns.bind(('127.0.0.1',80))\nprint('bound')"
    assert box.out("--net", "loopback", "--", "python3", "-c", code) == "bound\n"


# As an ordinary user.

def test_long_names_are_cut_not_fatal(box):
    """A mount as long as paths can be, and a command full of bytes that JSON writes as six."""
    deep = "/m" + "/abcdefghi" * 300
    assert box.out("--mount", f"/usr/share/common-licenses:{deep}", "--", "ls", deep) != ""
    done, report = box.report("--", "true", *["\x01" * 2000] * 200)
    assert done.returncode == 0, done.stderr
