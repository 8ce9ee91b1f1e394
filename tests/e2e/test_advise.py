# SPDX-License-Identifier: Apache-2.0
"""ward advise: the rules, through the real binary."""
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess
import tempfile

import pytest

ORDERED = ["workspace", "container", "kernel", "vm"]
TIERS = ORDERED + ["js", "wasm"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES_C = ROOT / "src" / "policy" / "rules.c"


def advise(ward, *args):
    done = ward("advise", *args, "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


# One row per row of the risk table and per decision rule: traits, least, recommended, fired.
ROWS = [
    ("", "kernel", "vm", ["R1.generated"]),
    ("--code none", "workspace", "container", ["T1.text-only"]),
    ("--code trusted", "workspace", "container", ["T2.trusted"]),
    ("--code generated", "kernel", "vm", ["R1.generated"]),
    ("--tenants many", "vm", "vm", ["R1.generated", "R2.tenants"]),
    ("--code trusted --data sensitive", "vm", "vm", ["T2.trusted", "T5.sensitive"]),
    ("--gpu", "kernel", "kernel", ["R1.generated", "R3.gpu"]),
    ("--code plugin", "vm", "wasm", ["T7.plugin"]),
    ("--browser", "kernel", "wasm", ["R1.generated-browser", "T8.browser"]),
    ("--code trusted --kubernetes", "kernel", "kernel", ["T2.trusted", "R4.kubernetes"]),
    ("--code trusted --fast-start", "workspace", "container", ["T2.trusted", "R5.fast-start"]),
    ("--load compute", "kernel", "kernel", ["R1.generated", "R6.compute"]),
    ("--load io", "kernel", "vm", ["R1.generated", "S6.io"]),
    ("--code trusted --compliance", "vm", "vm", ["T2.trusted", "R7.compliance"]),
    ("--gpu --tenants many", None, None, ["R1.generated", "R2.tenants", "R3.gpu"]),
    ("--fast-start", None, None, ["R1.generated", "R5.fast-start"]),
]


@pytest.mark.parametrize("options,least,recommended,fired", ROWS)
def test_each_row_of_the_document(ward, options, least, recommended, fired):
    a = advise(ward, *options.split())
    assert a["least"] == least
    assert a["recommended"] == recommended
    assert [r["id"] for r in a["rules"]] == fired
    assert all(r["reason"] and r["covers"] for r in a["rules"])


def test_every_rule_is_covered_above():
    ids = set(re.findall(r'\.id = "([^"]+)"', RULES_C.read_text()))
    assert ids == {i for row in ROWS for i in row[3]}


def documented_rules():
    """The rows of the table in docs/POLICY.md, by id."""
    rows = {}
    for line in (ROOT / "docs" / "POLICY.md").read_text().splitlines():
        cells = [c.strip() for c in line.strip("|").split("|")]
        found = re.match(r"`([TRS]\d\.[a-z-]+)`", cells[0])
        if found:
            rows[found[1]] = cells[2:]
    return rows


def test_the_docs_say_what_the_rules_say(ward):
    documented = documented_rules()
    manual = (ROOT / "man" / "ward-policy.7.scd").read_text()
    rules = {r["id"]: r for row in ROWS for r in advise(ward, *row[0].split())["rules"]}
    assert set(documented) == set(rules)
    for name, (least, also, cannot, recommends) in documented.items():
        rule = rules[name]
        assert least == (rule["least"] or ""), name
        assert also == ", ".join(rule["beside"]), name
        assert cannot == ", ".join(rule["cannot"]), name
        assert recommends.split(",")[0] == rule["recommends"], name
        assert re.search(rf"^{re.escape(name)}$", manual, re.M), name


def test_nothing_said_is_the_least_trusting_reading(ward):
    silent = advise(ward)
    said = advise(ward, "--code", "generated", "--tenants", "one", "--data", "public")
    assert silent["traits"] == said["traits"]
    assert silent["assumed"] == ["code", "tenants", "data"] and said["assumed"] == []
    for key in ("least", "recommended", "allowed", "rules", "host"):
        assert silent[key] == said[key]
    assert silent["run"]["tier"] == said["run"]["tier"]


def test_the_host_is_shown_tier_by_tier(ward):
    a = advise(ward)
    assert [h["tier"] for h in a["host"]] == TIERS
    for h in a["host"]:
        assert h["available"] == (h["missing"] is None)
        assert h["built"] or h["missing"] == "not in this build"


@pytest.mark.parametrize("options", [row[0] for row in ROWS])
def test_run_never_gets_less_than_the_rules_demand(ward, options):
    a = advise(ward, *options.split())
    here = {h["tier"] for h in a["host"] if h["available"]}
    run = a["run"]
    assert run["why"]
    if run["refused"] is None:
        assert run["tier"] in set(a["allowed"]) & here
    elif a["allowed"]:
        assert run["refused"] == "not-available"
        assert not set(a["allowed"]) & here
    else:
        assert run["refused"] == "conflict"
    if a["recommended"] in here:
        assert run["tier"] == a["recommended"]


@pytest.mark.parametrize("tier", TIERS)
def test_a_tier_by_hand(ward, tier):
    here = {h["tier"] for h in advise(ward)["host"] if h["available"]}
    alone = advise(ward, "--tier", tier)["run"]
    assert alone["tier"] == (tier if tier in here else None)
    assert alone["by_operator"] == (tier in here)
    assert alone["refused"] == (None if tier in here else "not-available")

    strict = advise(ward, "--tier", tier, "--code", "generated")["run"]
    risky = advise(ward, "--tier", tier, "--code", "generated", "--accept-risk", "a demo")["run"]
    if tier in ("kernel", "vm"):
        assert strict["refused"] in (None, "not-available")
        assert risky["risk_unused"]
    else:
        assert strict["refused"] == "too-weak" and strict["tier"] is None
        assert "--accept-risk" in strict["why"] and "R1.generated" in strict["why"]
        assert risky["tier"] == (tier if tier in here else None)
        assert risky["accepted_risk"] == ("a demo" if tier in here else None)


def test_a_risk_is_accepted_for_a_named_tier_only(ward):
    run = advise(ward, "--gpu", "--tenants", "many", "--accept-risk", "a demo")["run"]
    assert run["refused"] == "conflict" and run["risk_unused"] and run["accepted_risk"] is None


def test_what_a_wall_cannot_do_no_risk_can_change(ward):
    run = advise(ward, "--tier", "vm", "--gpu", "--accept-risk", "a demo")["run"]
    assert run["refused"] == "conflict"
    assert "--gpu" in run["why"]


def test_equals_sign_and_blank_are_the_same(ward):
    assert advise(ward, "--code=plugin", "--tier=auto") == advise(ward, "--code", "plugin")


@pytest.mark.parametrize("args,says", [
    (["--code"], "--code needs a value: none, trusted, generated or plugin"),
    (["--code", "mine"], "--code 'mine' is not known: give none, trusted, generated or plugin"),
    (["--code="], "--code '' is not known: give none, trusted, generated or plugin"),
    (["--code", "trusted", "--code", "generated"],
     "--code is given as trusted and as generated: say one"),
    (["--tenants", "2"], "--tenants '2' is not known: give one or many"),
    (["--data", "secret"], "--data 'secret' is not known: give public or sensitive"),
    (["--load", "net"], "--load 'net' is not known: give compute or io"),
    (["--gpu=yes"], "--gpu takes no value"),
    (["--tier", "docker"], "--tier 'docker' is not known: give auto, workspace, container, kernel, "
                           "vm, js or wasm"),
    (["--accept-risk"], "--accept-risk needs a reason"),
    (["--accept-risk", " "], "--accept-risk is empty: say why the risk is acceptable, it goes into "
                             "the audit log"),
    (["--nope"], "'--nope' is not an option; 'ward help advise' lists them"),
    (["--" + "x" * 99], "'--" + "x" * 62 + "' is not an option; 'ward help advise' lists them"),
    (["run"], "takes options only, not 'run'; 'ward help advise' lists them"),
])
def test_bad_input_is_one_line_and_125(ward, state, args, says):
    done = ward("advise", *args)
    assert done.returncode == 125
    assert done.stdout == ""
    assert done.stderr == f"ward advise: {says}\n"
    assert not state.exists()


def test_help(ward):
    for args in (["advise", "--help"], ["help", "advise"], ["advise", "-h"]):
        done = ward(*args)
        assert done.returncode == 0
        assert done.stdout.startswith("Usage: ward advise")
    for option in ("--code", "--tenants", "--data", "--gpu", "--kubernetes", "--fast-start",
                   "--load", "--compliance", "--browser", "--tier", "--accept-risk", "--json"):
        assert option in done.stdout


def test_text_has_the_same_answer(ward):
    a = advise(ward, "--code", "generated", "--compliance")
    done = ward("advise", "--code", "generated", "--compliance")
    assert done.returncode == 0
    assert re.search(r"least allowed +vm\n", done.stdout)
    assert re.search(r"recommended +vm\n", done.stdout)
    flat = " ".join(done.stdout.split())
    for rule in a["rules"]:
        assert rule["id"] in flat and rule["reason"] in flat
    for h in a["host"]:
        assert re.search(rf"\n  {h['tier']} +{'available' if h['available'] else 'not available'} ",
                         done.stdout)
    assert "\033" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def read_terminal(fd):
    out = b""
    while True:
        try:
            part = os.read(fd, 4096)
        except OSError:  # the last writer is gone
            return out
        if not part:
            return out
        out += part


@pytest.mark.parametrize("env,coloured", [({}, True), ({"NO_COLOR": "1"}, False),
                                          ({"TERM": "dumb"}, False)])
def test_colour_on_a_terminal_only(ward, env, coloured):
    ours, theirs = pty.openpty()
    full = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    done = ward("advise", stdout=theirs, env={**full, "TERM": "xterm", **env})
    os.close(theirs)
    out = read_terminal(ours)
    os.close(ours)
    assert done.returncode == 0
    assert (b"\033[" in out) == coloured


def test_a_full_disk_is_an_error(ward):
    with open("/dev/full", "w") as full:
        done = ward("advise", stdout=full)
    assert done.returncode == 125
    assert done.stderr == "ward advise: writing to standard output: No space left on device\n"


@pytest.fixture
def binary_for_all():
    """A copy of the binary where every user can reach it, wherever the tree is."""
    binary = os.environ.get("WARD", str(ROOT / "build" / "ward"))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield shutil.copy(binary, folder)


def as_nobody(binary, *args):
    return subprocess.run([binary, "--state-dir", "/nonexistent", *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=120, cwd="/", user=65534,
                          group=65534, extra_groups=[])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")
def test_works_without_any_right(binary_for_all):
    done = as_nobody(binary_for_all, "advise", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["least"] == "kernel"
