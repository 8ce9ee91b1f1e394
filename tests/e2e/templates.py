# SPDX-License-Identifier: Apache-2.0
"""What the tests of templates and images share."""
import json
import os

import pytest

import registries
from images import Image, Layer, entry

ROOT = os.geteuid() == 0
NOBODY = 65534
needs_root = pytest.mark.skipif(not ROOT, reason="mounts and other users need root")


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    with registries.real(tmp_path_factory.mktemp("registry")) as host:
        yield host


def small(text="hello", **kwargs):
    return Image(Layer(entry("etc/"), entry("etc/motd", text)), **kwargs)


def ok(result):
    assert result.returncode == 0, result.stderr
    return result.stdout


def listed(ward):
    return {t["name"]: t for t in json.loads(ok(ward("template", "ls", "--json")))}


def layers_of(ward, state, name):
    """The layer folders of a template, uppermost first."""
    return [state / "layers" / l / "fs" for l in listed(ward)[name]["layers"]]


def leftovers(state):
    """Everything below the state directory but the empty frame."""
    frame = {"layers", "templates", "layers/.lock"}
    return sorted(str(p.relative_to(state)) for p in state.rglob("*") if str(p.relative_to(state)) not in frame)


def refused(result, state, *words):
    """Exit 125, one line that says what is wrong, nothing kept."""
    assert result.returncode == 125, (result.returncode, result.stdout, result.stderr)
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1 and result.stderr.startswith("ward template: "), result.stderr
    for word in words:
        assert word in result.stderr, result.stderr
    if state.exists():
        assert leftovers(state) == []


@pytest.fixture
def fake():
    with registries.Fake() as f:
        yield f
