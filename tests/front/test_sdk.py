"""The suites with the packages `e2b` and `@e2b/code-interpreter` as npm has them, against a real daemon."""
import pathlib
import re
import subprocess

import node
import pytest

HERE = pathlib.Path(__file__).parent
SUITES = sorted(p.name for p in HERE.glob("*.test.mjs"))
NODE = node.find()


@pytest.fixture(scope="module", autouse=True)
def packages():
    assert NODE, f"no node {node.NODE_MIN} or newer: tools/setup test"
    assert (HERE / "node_modules" / "e2b").is_dir(), "the client packages are not installed: tools/setup test"


def passes(daemon, keys, suite):
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "WARD_URL": daemon.url, "WARD_KEY": keys[0], "WARD_KEY_OTHER": keys[1]}
    done = subprocess.run([NODE, "--test", "--test-force-exit", "--test-reporter=tap", suite], cwd=HERE, env=env, capture_output=True, text=True, timeout=600)
    bad = re.findall(r"^not ok \d+ - (.*)$", done.stdout, re.M)
    assert done.returncode == 0 and not bad, f"{bad}\n{done.stdout[-20000:]}\n{done.stderr[-2000:]}"
    assert int(re.search(r"^# pass (\d+)", done.stdout, re.M)[1]) > 0
    assert daemon.process.poll() is None, "the daemon lives"


@pytest.mark.parametrize("suite", SUITES)
def test_suite(daemon, keys, suite):
    passes(daemon, keys, suite)


@pytest.fixture(scope="module")
def kernel_keys(kernel_daemon):
    return kernel_daemon.key("first", "alpha"), kernel_daemon.key("second", "beta")


# The same in the tier that code of models gets unless somebody says otherwise. "slow" keeps it from the
# sanitizers, beside whose shadow no guest of that tier can live.
@pytest.mark.slow
@pytest.mark.parametrize("suite", [s for s in SUITES if s != "versions.test.mjs"])
def test_suite_kernel(kernel_daemon, kernel_keys, suite):
    passes(kernel_daemon, kernel_keys, suite)
