"""`ward run` at the container tier: bad values, exit statuses, and whatever state its caller is in."""
import os
import resource
import signal
import subprocess

import pytest

from leftovers import state_files
from runbox import Box, CONTAINER, box, needs_root, place  # noqa: F401
from runparts import one_line
from wardtest import BINARY, Ward


# Bad input: option, value, what the line must say.

LONG = "x" * 5000

BAD = [
    ("--tier", "", "auto, workspace, container"),
    ("--tier", "Container", "auto, workspace, container"),
    ("--tier", "containers", "auto, workspace, container"),
    ("--memory", "", "1M or more"), ("--memory", "0", "1M or more"), ("--memory", "1023K", "1M or more"),
    ("--memory", "-1", "1M or more"), ("--memory", "1e9", "1M or more"), ("--memory", "1 G", "1M or more"),
    ("--memory", "18446744073709551616", "1M or more"), ("--memory", "99999999999T", "1M or more"),
    ("--memory", "1GG", "1M or more"), ("--memory", "+5M", "1M or more"), ("--memory", " 5M", "1M or more"),
    ("--memory", "0x100000", "1M or more"), ("--memory", LONG, "1M or more"),
    ("--disk", "", "64K or more"), ("--disk", "63K", "64K or more"), ("--disk", "-5G", "64K or more"),
    ("--disk", "lots", "64K or more"), ("--disk", "2000P", "64K or more"),
    ("--cpus", "", "0.01 to 1024"), ("--cpus", "0", "0.01 to 1024"), ("--cpus", "0.001", "0.01 to 1024"),
    ("--cpus", "1025", "0.01 to 1024"), ("--cpus", "1.2.3", "0.01 to 1024"), ("--cpus", "-1", "0.01 to 1024"),
    ("--cpus", "nan", "0.01 to 1024"), ("--cpus", "inf", "0.01 to 1024"), ("--cpus", "1,5", "0.01 to 1024"),
    ("--cpu-weight", "0", "1 to 10000"), ("--cpu-weight", "10001", "1 to 10000"), ("--cpu-weight", "1.5", "1 to 10000"),
    ("--pids", "", "2 to 4194304"), ("--pids", "1", "2 to 4194304"), ("--pids", "4194305", "2 to 4194304"),
    ("--pids", "-2", "2 to 4194304"), ("--pids", "1K", "2 to 4194304"),
    ("--timeout", "", "500ms, 30s"), ("--timeout", "0", "500ms, 30s"), ("--timeout", "-1s", "500ms, 30s"),
    ("--timeout", "5 s", "500ms, 30s"), ("--timeout", "1y", "500ms, 30s"), ("--timeout", "99999999999h", "500ms, 30s"),
    ("--output-limit", "", "64K or 10M"), ("--output-limit", "0", "64K or 10M"), ("--output-limit", "-1", "64K or 10M"),
    ("--env", "", "NAME=VALUE"), ("--env", "NAME", "NAME=VALUE"), ("--env", "=x", "NAME=VALUE"),
    ("--env", "1A=x", "NAME=VALUE"), ("-e", "NAME", "NAME=VALUE"),
    ("--workdir", "", "absolute path"), ("--workdir", "tmp", "absolute"), ("--workdir", "/tmp/../etc", "absolute path"),
    ("--workdir", "/./tmp", "absolute path"), ("--workdir", "//tmp", "absolute path"), ("-w", "tmp", "absolute"),
    ("--workdir", "/" + LONG, "absolute path"),
    ("--mount", "", "SRC:DST"), ("--mount", "/usr", "SRC:DST"), ("--mount", "/usr:", "SRC:DST"), ("--mount", ":/x", "SRC:DST"),
    ("--mount", "/usr:/x:wr", "SRC:DST"), ("--mount", "/usr:/x:ro:rw", "SRC:DST"), ("--mount", "/usr:/x:", "SRC:DST"),
    ("--mount", "/no/such/thing:/x", "No such file"), ("--mount", "/usr:x", "absolute path"),
    ("--mount", "/usr:/x/../y", "absolute path"), ("--mount", "/usr:/x/./y", "absolute path"), ("--mount", "/usr:/", "not /"),
    ("--mount", "/usr:/proc", "/proc"), ("--mount", "/usr:/proc/sys", "/proc"), ("--mount", "/usr:/dev", "/dev"),
    ("--mount", "/usr:/dev/shm", "/dev"), ("--mount", "/usr:/sys", "/sys"), ("--mount", "/usr:/sys/fs/cgroup", "/sys"),
    ("--mount", "/dev/null:/x", "directory or a file"), ("--mount", "/etc/passwd:/x:overlay", "directory"),
    ("--mount", f"/usr:/{LONG}", "SRC:DST"),
    ("-v", "/usr", "SRC:DST"),
    ("--user", "", "NAME"), ("--user", "a b", "NAME"), ("--user", "1000:", "NAME"), ("--user", ":5", "NAME"),
    ("--user", "65536", "0 to 65535"), ("--user", "99999999999999999999", "0 to 65535"), ("--user", "../x", "NAME"),
    ("--user", "x" * 65, "NAME"), ("-u", "", "NAME"),
    ("--net", "", "none, loopback or host"), ("--net", "bridge", "none, loopback or host"),
    ("--net", "HOST", "none, loopback or host"),
    ("--cpu-template", "", "host or portable"), ("--cpu-template", "pentium", "host or portable"),
    ("--io-rate", "", "BYTES"), ("--io-rate", "1K", "BYTES"), ("--io-rate", "10M:", "BYTES"), ("--io-rate", "10M:5", "BYTES"),
    ("--io-rate", ":500", "BYTES"), ("--io-rate", "10M:500:1", "BYTES"),
    ("--net-rate", "", "FRAMES"), ("--net-rate", "1K", "FRAMES"), ("--net-rate", "10M:5", "FRAMES"),
    ("--vsock", "", "absolute path"), ("--vsock", "x", "absolute path"), ("--vsock", "/" + "x" * 107, "absolute path"),
    ("--boot-timeout", "", "1s to 1h"), ("--boot-timeout", "0s", "1s to 1h"), ("--boot-timeout", "2h", "1s to 1h"),
    ("--tap", "", "a tap that is there"), ("--tap", "sixteen-letters-", "a tap that is there"), ("--tap", "a/b", "a tap that is there"),
    ("--tap-addr", "10.0.0.1", "A.B.C.D/N"), ("--tap-addr", "10.0.0.1/32", "A.B.C.D/N"), ("--tap-addr", "10.0.0.300/24", "A.B.C.D/N"),
    ("--tap-addr", "10.0.0.1/24,", "A.B.C.D/N"), ("--tap-addr", "10.0.0.1/24,10.0.1.1", "same network"),
    ("--tap-addr", "10.0.0.1/24 ward.trial=1", "A.B.C.D/N"),
    ("--upper", "", "auto, tmpfs or disk"), ("--upper", "ram", "auto, tmpfs or disk"),
    ("--template", "", "host, a directory"),
    ("--accept-risk", "", "reason"), ("--accept-risk", "  ", "reason"),
    ("--json", "", "a file"),
    ("--code", "", "generated"), ("--code", "evil", "generated"),
    ("--tenants", "three", "many"), ("--data", "secret", "sensitive"), ("--load", "heavy", "compute"),
]


def test_bad_values(ward, state):
    for option, value, accepts in BAD:
        done = ward("run", "--tier", "container", option, value, "--", "true")
        name = {"-e": "--env", "-w": "--workdir", "-v": "--mount", "-u": "--user"}.get(option, option)
        one_line(done, name, accepts)
        if option.startswith("--"):
            assert ward("run", "--tier", "container", f"{option}={value}", "--", "true").stderr == done.stderr
    assert not state.exists(), "something was made for a bad value"


@pytest.mark.parametrize("words, says", [
    ([], "no command"),
    (["--tier", "container"], "no command"),
    (["--tier", "container", "--"], "no command"),
    (["--tier"], "--tier needs a value"),
    (["--memory"], "--memory needs a value"),
    (["-e"], "--env needs a value"),
    (["--tty=yes", "true"], "--tty takes no value"),
    (["--keep=1", "true"], "--keep takes no value"),
    (["--gpu=yes", "true"], "--gpu takes no value"),
    (["--nonsense", "true"], "'--nonsense' is not an option"),
    (["--memory-limit=5M", "true"], "'--memory-limit=5M' is not an option"),
    (["-x", "true"], "'-x' is not an option"),
    (["-tq", "true"], "'-tq' is not an option"),
    (["--" + "x" * 3000, "true"], "is not an option"),
    (["--=x", "true"], "is not an option"),
])
def test_bad_words(ward, state, words, says):
    one_line(ward("run", *words), says)
    assert not state.exists()


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\x1b[31mred", "a\x07b", "\x7f"])
def test_control_bytes_in_a_value_stay_on_one_line(ward, state, value):
    for option in ("--tier", "--memory", "--mount", "--env", "--net", "--workdir", "--user", "--nonsense"):
        one_line(ward("run", "--tier", "container", option, value, "--", "true"), option)
    assert not state.exists()


def test_too_many(ward, state):
    one_line(ward("run", *["--mount", "/usr:/x"] * 33, "--", "true"), "--mount", "32")
    one_line(ward("run", *["--env", "A=b"] * 1025, "--", "true"), "--env", "1024")
    assert not state.exists()


def test_missing_template(ward):
    for spec in ("/no/such/dir", "dir:/no/such/dir", "dir:/etc/passwd", "./nowhere"):
        one_line(ward("run", "--tier", "container", "--template", spec, "--", "true"), spec.removeprefix("dir:"))


def test_policy_refuses_and_nothing_is_made(ward, state):
    one_line(ward("run", "--tier", "container", "--tenants", "many", "--", "true"), "--accept-risk")
    one_line(ward("run", "--tier", "vm", "--", "true"), "vm")
    assert not state_files(state)


def test_unwritable_state_directory(place):
    blocker = place / "file"
    blocker.write_text("")
    one_line(Ward(BINARY, blocker / "state")("run", "--tier", "container", "--", "true"), str(blocker))


def test_help_is_not_a_run(ward, state):
    for words in (["--help"], ["-h"], ["--tier", "container", "--help"]):
        done = ward("run", *words)
        assert (done.returncode, done.stderr) == (0, "") and done.stdout.startswith("Usage: ward run")
    assert ward("run", "--tier", "container", "--", "sh", "-c", "echo $1", "sh", "--help").stdout == "--help\n"


def test_options_end_at_the_command(box):
    assert box.out("sh", "-c", "echo $*", "sh", "-t", "--memory", "--") == "-t --memory --\n"
    assert box.out("--", "sh", "-c", "echo $*", "--", "--", "-t") == "-- -t\n"
    assert box.out("--memory=64M", "-e", "A=1", "--env=B=2=3", "sh", "-c", "echo $A $B") == "1 2=3\n"


# Exit statuses.

@pytest.mark.parametrize("script, status", [
    ("exit 0", 0), ("exit 1", 1), ("exit 42", 42), ("exit 124", 124), ("exit 125", 125), ("exit 126", 126),
    ("exit 127", 127), ("exit 255", 255), ("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -INT $$", 130),
    ("kill -SEGV $$", 139), ("kill -ABRT $$", 134), ("kill -PIPE $$", 141), ("kill -USR1 $$", 138),
    ("kill -64 $$", 192), ("exec /nonexistent", 127), ("exec /etc/passwd", 126),
])
def test_exit_status(box, script, status):
    done, report = box.report("--", "sh", "-c", script)
    assert done.returncode == report["exit_status"] == status
    if "kill" in script:
        assert (report["cause"], report["signal"]) == ("signaled", status - 128)
        assert "code" not in report
    else:
        assert (report["cause"], report["code"]) == ("exited", status)
        assert "signal" not in report
    assert "ward run" not in done.stderr


@pytest.mark.parametrize("command, status, says", [
    ("no-such-command", 127, "no-such-command"),
    ("/no/such/file", 127, "/no/such/file"),
    ("/usr/no\nsuch", 127, "/usr/no?such"),
    ("/etc/passwd", 126, "/etc/passwd"),
    ("/etc", 126, "/etc"),
    ("/etc/passwd/x", 127, "/etc/passwd/x"),
    ("", 127, "''"),
    ("/" + "x" * 300, 126, "x" * 100),
])
def test_not_started(box, command, status, says):
    done, report = box.report("--", command)
    assert done.returncode == report["exit_status"] == status
    assert report["cause"] == "exited" and report["code"] == status and report["detail"]
    assert len(done.stderr.splitlines()) == 1 and says in done.stderr


def test_wrong_interpreter_and_binary(box, place):
    for name, text in (("script", "#!/no/such/interpreter\n"), ("empty", ""), ("noise", "\x7fELF garbage")):
        (place / name).write_text(text)
        (place / name).chmod(0o755)
    mount = ["--mount", f"{place}:/p"]
    assert box(*mount, "--", "/p/script").returncode in (126, 127)
    # What execve() does not know is given to sh, as env(1) and shells do.
    assert box(*mount, "--", "/p/noise").returncode in (126, 127)
    assert box(*mount, "--", "/p/empty").returncode == 0


def test_time_limit_is_124(box):
    done, report = box.report("--timeout", "200ms", "--", "sleep", "600")
    assert (done.returncode, report["cause"]) == (124, "time-limit")


# Whatever state its caller is in.

def odd_signals():
    """As after `nohup`, or below a careless parent."""
    for sig in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGINT])


def test_inherited_signal_settings_end_at_the_wall(box):
    done, report = box.report("--", "sh", "-c", "grep -E 'Sig(Blk|Ign)' /proc/self/status; exit 3", preexec_fn=odd_signals,
                              restore_signals=False)
    assert {line.split()[1] for line in done.stdout.splitlines()} == {"0" * 16}
    assert (done.returncode, report["cause"], report["code"]) == (3, "exited", 3)
    done, report = box.report("--", "sh", "-c", "kill -TERM $$; echo survived", preexec_fn=odd_signals, restore_signals=False)
    assert (done.returncode, done.stdout, report["cause"]) == (143, "", "signaled")


@pytest.mark.parametrize("mask", [0o000, 0o077, 0o777], ids=oct)
@needs_root
def test_umask_of_the_caller(ward, mask):
    """Neither the template nor the command inherits it."""
    options = {"preexec_fn": lambda: os.umask(mask) and None}
    assert ward("run", "--tier", "container", "--user", "1000", "--", "sh", "-c", "ls /etc/passwd; umask", **options).stdout == \
        "/etc/passwd\n0022\n"
    assert ward("run", "--tier", "container", "--", "sh", "-c", "touch /f; stat -c %a /f / /etc /tmp", **options).stdout == \
        "644\n755\n755\n1777\n"


def test_working_directory_of_the_caller_is_gone(box, place):
    gone = place / "gone"
    gone.mkdir()
    done = subprocess.run(["sh", "-c", 'cd "$1" && rmdir "$1" && shift && exec "$@"', "sh", gone, *box.argv(*CONTAINER, "--", "pwd")],
                          capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert (done.stdout, done.stderr) == ("/\n", "")


@pytest.mark.parametrize("count", [6, 12, 16, 20, 24, 28, 32, 40])
def test_few_descriptors(box, count):
    """It works or says that it does not; it never does half."""
    done = box("--", "echo", "fine", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count)))
    if done.returncode == 0:
        assert done.stdout == "fine\n" and done.stderr == ""
    else:
        one_line(done)


def test_odd_state_directories(place):
    deep = place / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    (place / "link").symlink_to(deep)
    for path in (place / "with space, comma: and \u00fc", deep / "state", place / "link" / "other", place / "back\\slash"):
        box = Box(BINARY, path)
        assert box.out("--", "echo", "fine") == "fine\n"
        assert box.ward("gc").returncode == 0
    done = subprocess.run([BINARY, "--state-dir", "relative", *CONTAINER, "--", "echo", "fine"], cwd=place, capture_output=True, text=True,
                          timeout=60, stdin=subprocess.DEVNULL)
    assert done.stdout == "fine\n" and (place / "relative").is_dir()


def test_stdin_is_a_folder(box):
    folder = os.open("/", os.O_RDONLY)
    try:
        assert box("--", "cat", stdin=folder).returncode in (0, 1)
    finally:
        os.close(folder)


def test_ward_in_ward_fails_in_one_line(box):
    done = box("--mount", f"{BINARY.parent}:/ward", "--", "/ward/ward", "--state-dir", "/tmp/s", *CONTAINER, "--", "true")
    own = [line for line in done.stderr.splitlines() if not line.startswith("ward run: denied: ")]
    assert done.returncode == 125 and len(own) == 1, done


@pytest.mark.parametrize("source", ["/proc", "/sys", "/dev", "/"])
@needs_root
def test_mounts_that_cannot_be_mapped_are_refused(box, source):
    done, report = box.report("--mount", f"{source}:/m", "--", "ls", "/m")
    one_line(done, f"--mount {source}:/m")
    assert report["cause"] == "setup-failed"
