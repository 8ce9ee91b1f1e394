"""These run in the guest of tests/rig only; the fixtures are those of the end-to-end tests."""
import os

import pytest
from runbox import box, place, user_box  # noqa: F401
from wardtest import *  # noqa: F401,F403

VARIANT = os.environ.get("RIG_VARIANT", "")


def pytest_configure(config):
    config.addinivalue_line("markers", "variant(names): the machines of tests/rig/rig.py on which the test has a meaning")


def pytest_collection_modifyitems(items):
    """A test says on which machines it has a meaning; the others do not count it."""
    items[:] = [i for i in items if all(VARIANT in m.args for m in i.iter_markers("variant"))]


@pytest.fixture
def variant():
    assert VARIANT, "these tests are for the rig: tests/rig/rig.py"
    return VARIANT
