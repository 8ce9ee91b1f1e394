"""The daemon with its real clients: one daemon for the whole folder."""
import pytest

from daemon import Daemon
from wardtest import *  # noqa: F401,F403
from runbox import IS_ROOT
from wardtest import public_directory, pytest_collection_modifyitems  # noqa: F401


@pytest.fixture(scope="session")
def daemon():
    if not IS_ROOT:
        pytest.skip("sandboxes of more than one user need root")
    with public_directory() as place:
        d = Daemon(place / "state").start()
        yield d
        d.stop()


@pytest.fixture(scope="session")
def keys(daemon):
    return daemon.key("first", "alpha"), daemon.key("second", "beta")
