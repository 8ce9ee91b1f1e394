"""The completion scripts: made from tables that must not drift from the help texts."""
import re
import subprocess

import pytest

SHELLS = ["bash", "zsh", "fish"]
# Asked for by somebody who has started to type an option.
ASK = """
source /dev/stdin
COMP_WORDS=({words}); COMP_CWORD={at}
_ward
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def commands(ward):
    return re.findall(r"^  (\w+) {2,}", ward("help").stdout.split("Commands:")[1], re.M)


def offered(ward, *words):
    """What bash would offer after these words."""
    script = ward("completion", "bash").stdout
    quoted = " ".join(f"'{w}'" for w in ("ward", *words))
    done = subprocess.run(["/bin/bash", "-c", ASK.format(words=quoted, at=len(words))], input=script, text=True, capture_output=True, check=True)
    return done.stdout.split()


def documented(ward, command):
    """The options that a help text lists: lines that start with one, and the usage lines."""
    text = ward("help", command).stdout
    lines = [l for l in text.splitlines() if re.match(r"Usage:|       ward |\s+\[?--", l)]
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", "\n".join(lines)))


def test_every_command_is_offered(ward):
    assert set(commands(ward)) <= set(offered(ward, ""))
    assert len(commands(ward)) >= 10


def test_the_table_and_the_help_agree(ward):
    for command in commands(ward):
        have = set(offered(ward, command, "--")) - {"--help"}
        want = documented(ward, command) - {"--help", "--state-dir"}
        assert have == want, f"src/cmd/options.def and help/{command}.txt differ for '{command}'"


@pytest.mark.parametrize("words, want", [
    (("run", "--tier", ""), {"auto", "workspace", "container", "kernel", "vm"}),
    (("snapshot", ""), {"ls", "rm"}),
    (("kill", ""), set()),
    (("run", "--net", "l"), {"loopback"}),
    (("run", "--code", "t"), {"trusted"}),
    (("--state-dir", "/x", "completion", ""), set(SHELLS)),
    (("audit", "v"), {"verify"}),
    (("help", "adv"), {"advise"}),
    (("run", "--memory", ""), set()),
])
def test_values(ward, words, want):
    assert set(offered(ward, *words)) == want


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_gets_everything(ward, shell):
    done = ward("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    for command in commands(ward):
        assert re.search(rf"\b{command}\b", done.stdout)
    for option in offered(ward, "run", "--"):
        assert re.search(rf"(--|-l ){option[2:]}\b", done.stdout), option


def test_bash_accepts_its_script(ward):
    script = ward("completion", "bash").stdout
    assert subprocess.run(["/bin/bash", "-n"], input=script, text=True).returncode == 0


@pytest.mark.parametrize("args", [(), ("csh",), ("bash", "zsh"), ("",)])
def test_other_shells_are_refused(ward, args):
    done = ward("completion", *args)
    assert done.returncode == 125
    assert done.stdout == ""
    assert re.fullmatch(r"ward completion: .*bash, zsh or fish\n", done.stderr)


def test_help(ward):
    assert ward("completion", "--help").stdout == ward("help", "completion").stdout
