"""Real programs in the kernel tier: their output is what it is outside. `make programs` runs the long ones too."""
import pytest

from programs import QUICK, same
from runbox import needs_root

pytestmark = needs_root


@pytest.mark.parametrize("name", QUICK)
def test_program(ward, name):
    same(ward, name, QUICK[name])
