"""The daemon with its real clients: one daemon for the whole folder, and one whose sandboxes are of the kernel tier."""
import pytest

from daemon import Daemon
from wardtest import *  # noqa: F401,F403
from runbox import IS_ROOT
from wardtest import public_directory, pytest_collection_modifyitems  # noqa: F401


def serve(tier):
    if not IS_ROOT:
        pytest.skip("sandboxes of more than one user need root")
    with public_directory() as place:
        d = Daemon(place / "state", tier=tier).start()
        yield d
        d.stop()


@pytest.fixture(scope="session")
def daemon():
    yield from serve("container")


@pytest.fixture(scope="session")
def kernel_daemon():
    yield from serve("kernel")


@pytest.fixture(scope="session")
def keys(daemon):
    return daemon.key("first", "alpha"), daemon.key("second", "beta")
