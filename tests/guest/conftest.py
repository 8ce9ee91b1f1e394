"""The fixtures live in tests/lib/wardtest.py, for every suite that runs the real binary."""
from wardtest import *  # noqa: F401,F403
from wardtest import pytest_collection_modifyitems  # noqa: F401
