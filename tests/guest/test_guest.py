"""Every program of tests/guest, natively and in each tier: equal output, case by case."""
import os
import pathlib
import subprocess
import sys

import pytest

from wardtest import BINARY

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import run  # noqa: E402

BUILD = BINARY.parent
PROGRAMS = run.programs(BUILD)
TIERS = ["container"]
if "kernel" in subprocess.run([BINARY, "run", "--help"], capture_output=True, text=True, check=False).stdout:
    TIERS.append("kernel")

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the native runs need root")


@pytest.fixture(scope="module")
def runner():
    r = run.Runner(BUILD)
    yield r
    r.close()


@pytest.mark.parametrize("program", PROGRAMS)
def test_both_builds_agree(runner, program):
    count, wrong = runner.compare("native", program)
    assert count and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", ["static", "dynamic"])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("tier", TIERS)
def test_as_on_linux(runner, tier, program, kind):
    count, wrong = runner.compare(tier, program + ("_dyn" if kind == "dynamic" else ""))
    assert count and not wrong, "\n".join(wrong)


def test_the_comparison_can_fail(runner):
    """A case that did not print what Linux printed is told."""
    program = PROGRAMS[0]
    out, _, _ = runner.native(program)
    runner.natives[(program, ())] = (out + "another thing\n", "", 0)
    try:
        assert runner.compare("native", program)[1]
    finally:
        runner.natives.clear()
