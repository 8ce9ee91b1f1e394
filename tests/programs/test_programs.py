"""Real programs in the kernel tier, the long ones too: `make programs`. See tests/lib/programs.py."""
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))
import images
from programs import LONG, NOT_NATIVE, QUICK, STRESS, inside, native, same
from runbox import needs_root
from wardtest import *  # noqa: F401,F403

pytestmark = needs_root


@pytest.mark.parametrize("name", [n for n in {**QUICK, **LONG} if n not in NOT_NATIVE])
def test_program(ward, name):
    same(ward, name, {**QUICK, **LONG}[name])


@pytest.mark.parametrize("name", NOT_NATIVE)
def test_program_that_must_not_run_outside(ward, name):
    done = inside(ward, LONG[name])
    assert (done.stdout, done.returncode) == (NOT_NATIVE[name], 0), done.stderr


@pytest.mark.parametrize("name,stressor", [(c, s) for c, all in STRESS.items() for s in all.split()])
def test_stress(ward, name, stressor):
    script = f"stress-ng --{stressor} 1 --timeout 1 --temp-path . > out 2>&1 || {{ r=$?; tail -5 out; exit $r; }}"
    outside = native(script)
    done = inside(ward, script)
    assert outside.returncode == 0, outside.stdout
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """An image whose root file system is busybox alone."""
    place = tmp_path_factory.mktemp("image")
    busybox = pathlib.Path("/usr/bin/busybox").read_bytes()
    names = subprocess.run(["/usr/bin/busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
    layer = images.Layer(images.entry("bin"), images.entry("tmp", mode=0o1777), images.entry("etc"), images.entry("bin/busybox", busybox, mode=0o755),
                         *(images.symlink(f"bin/{name}", "busybox") for name in names if name != "busybox"),
                         images.entry("etc/passwd", "root:x:0:0::/:/bin/sh\n"))
    images.write_layout(place / "img", (images.Image(layer), None))
    return place / "img"


def test_an_image(ward, image):
    assert ward("template", "import", f"oci:{image}", "--name", "small").returncode == 0
    script = r"""set -e; cd /tmp; seq 100 | sort -rn | head -1; mkdir -p a/b; echo x > a/b/c; tar cf - a | (mkdir o; cd o; tar xf -); cat o/a/b/c
        (echo -e 'HTTP/1.0 200 OK\r\n\r\nserved' | nc -l -p 8080 >/dev/null) & sleep 0.3; wget -qO- http://127.0.0.1:8080/; wait
        vi --help >/dev/null 2>&1 || true; find /bin -type l | wc -l; awk 'BEGIN { print 6 * 7 }'; ls /bin | wc -l"""
    got = {}
    for tier in ("container", "kernel"):
        done = ward("run", "--tier", tier, "--accept-risk", "the same program twice", "--template", "small", "--net", "loopback", "--",
                    "/bin/sh", "-c", script)
        assert done.returncode == 0, done.stderr
        got[tier] = done.stdout
    assert got["kernel"] == got["container"]
