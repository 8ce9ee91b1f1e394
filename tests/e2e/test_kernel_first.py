"""The kernel tier's first command, which is there before the agent: nobody can tell."""
import signal
import subprocess

import pytest

from runbox import needs_root

pytestmark = needs_root

KERNEL = ("run", "--tier", "kernel")

# What is no plain command is the agent's: (arguments before it, the command, how it ends, its error)
ENDS = [
    ((), ["true"], 0, ""),
    ((), ["sh", "-c", "exit 7"], 7, ""),
    ((), ["sh", "-c", "kill -KILL $$"], 137, ""),
    ((), ["sh", "-c", "sleep 0.5; exit 9"], 9, ""),  # the agent has come meanwhile
    (("--workdir", "/usr"), ["sh", "-c", 'test "$PWD" = /usr'], 0, ""),
    (("--env", "PATH=/nowhere:/usr/bin"), ["true"], 0, ""),
    (("--env", "PATH=/nowhere"), ["true"], 127, "No such file"),
    ((), ["/etc"], 126, "Permission denied"),
    ((), ["./no/such"], 127, "No such file"),
    ((), [""], 127, "No such file"),
]


@pytest.mark.parametrize("args,command,status,text", ENDS, ids=[" ".join(e[0] + tuple(e[1])) or "empty" for e in ENDS])
def test_ends(ward, args, command, status, text):
    done = ward(*KERNEL, *args, "--", *command)
    assert done.returncode == status and text in done.stderr, done.stderr


def test_who_it_is(ward):
    """Its number, its parent, session and group, its descriptors and signals."""
    script = ("import os, signal; print(os.getpid(), os.getppid(), os.getsid(0), os.getpgid(0), sorted(os.listdir('/proc/self/fd'))[:3], "
              "signal.pthread_sigmask(0, []), signal.getsignal(signal.SIGHUP) == signal.SIG_DFL, open('/proc/1/comm').read().strip(), "
              "open('/proc/1/cmdline').read().split(chr(0))[0])")
    done = ward(*KERNEL, "--", "/usr/bin/python3", "-c", script)
    assert done.stdout == "2 1 2 2 ['0', '1', '2'] set() True ward-agent ward-agent\n", done.stderr


def test_a_script_is_run(ward, tmp_path):
    """With an interpreter, and without one, which is a shell's."""
    for head in "#!/bin/sh -u\n", "":
        (tmp_path / "s").write_text(head + 'echo "$1"')
        (tmp_path / "s").chmod(0o755)
        assert ward(*KERNEL, "--mount", f"{tmp_path}:/m", "--", "/m/s", "said").stdout == "said\n"


def test_signals_reach_it(ward):
    """At once, before anybody has called the agent."""
    process = ward.start(*KERNEL, "--", "sh", "-c", "trap 'echo caught; exit 42' TERM; echo up; while :; do sleep 0.01; done",
                         stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert (process.stdout.read(), process.wait()) == ("caught\n", 42)


def test_orphans_are_reaped(ward):
    """Whoever is pid 1 at that moment: none of them stays."""
    script = """
import os, time
for wait in 0, 0.4:
    r, w = os.pipe()
    if os.fork() == 0:
        child = os.fork()
        if child:
            os.write(w, b"%d" % child)
        os._exit(0)
    os.wait()
    pid = int(os.read(r, 20))
    while os.path.exists(f"/proc/{pid}"):
        time.sleep(0.01)
    time.sleep(wait)
print("gone")
"""
    assert ward(*KERNEL, "--", "/usr/bin/python3", "-c", script).stdout == "gone\n"


def test_the_end_comes_while_the_agent_does(ward):
    for ms in range(197, 207):
        assert ward(*KERNEL, "--", "sh", "-c", f"sleep 0.{ms}; exit 5").returncode == 5
