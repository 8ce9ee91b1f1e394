"""Snapshots and forks over HTTP and from the shell, with supervisors whose tier has them (tests/e2e/fakesup.py)."""
import json
import pathlib
import shutil
import urllib.error
import urllib.request

import pytest

from daemon import Daemon
from wardtest import BINARY, public_directory

FAKE = pathlib.Path(__file__).parents[1] / "e2e" / "fakesup.py"


class Fakes(Daemon):
    """The daemon finds its supervisors' executable beside its own: there a fake is."""

    def __init__(self, place):
        super().__init__(place / "state", tier="vm", binary=place / "bin" / "ward-full")
        bin = place / "bin"
        bin.mkdir()
        shutil.copy2(BINARY.with_name("ward-full"), bin / "ward-full")
        (bin / "ward").symlink_to(FAKE)
        (place / "fake-mode").write_text("ok")

    def call(self, method, path, body=None, key=None):
        headers = {"X-API-KEY": key or self.first, "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, method=method, headers=headers, data=json.dumps(body).encode() if body is not None else None)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None, answer.headers
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read()), error.headers


@pytest.fixture(scope="module")
def fakes():
    with public_directory() as place:
        d = Fakes(place).start()
        d.first, d.other = d.key("first", "alpha"), d.key("second", "beta")
        yield d
        d.stop()


@pytest.fixture
def box(fakes):
    status, made, _ = fakes.call("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300, "metadata": {"k": "v"}})
    assert status == 201, made
    yield made["sandboxID"]
    fakes.call("DELETE", "/sandboxes/" + made["sandboxID"])


def test_as_e2b_knows_them(fakes, box):
    status, snap, _ = fakes.call("POST", f"/sandboxes/{box}/snapshots", {"name": "team/base"})
    assert status == 201 and snap["snapshotID"].endswith(":default") and snap["names"] == ["team/base:default"]
    assert fakes.call("GET", "/snapshots")[1] == [snap] == fakes.call("GET", f"/snapshots?sandboxID={box}&name=team/base")[1]
    assert fakes.call("GET", "/snapshots?sandboxID=aaaaaaaaaaaa")[1] == []
    for template in (snap["snapshotID"], "team/base"):
        status, made, _ = fakes.call("POST", "/v2/sandboxes", {"templateID": template, "timeout": 60})
        assert status == 201 and made["sandboxID"] != box, made
        assert fakes.call("DELETE", "/sandboxes/" + made["sandboxID"])[0] == 204
    status, second, _ = fakes.call("POST", f"/sandboxes/{box}/snapshots", {})
    assert status == 201 and second["names"] == []
    status, page, headers = fakes.call("GET", "/snapshots?limit=1")
    assert page == [second] and fakes.call("GET", "/snapshots?limit=1&nextToken=" + headers["X-Next-Token"])[1] == [snap]
    # Another tenant's are not there.
    missing = fakes.call("DELETE", "/templates/aaaaaaaaaaaa:default", key=fakes.other)[1]
    status, answer, _ = fakes.call("DELETE", "/templates/" + snap["snapshotID"], key=fakes.other)
    assert status == 404 and answer["message"].replace(snap["snapshotID"], "aaaaaaaaaaaa:default") == missing["message"]
    assert fakes.call("GET", "/snapshots", key=fakes.other)[1] == []
    assert fakes.call("POST", "/v2/sandboxes", {"templateID": "team/base"}, key=fakes.other)[0] == 404
    for one in (snap["snapshotID"], second["snapshotID"].removesuffix(":default")):
        assert fakes.call("DELETE", "/templates/" + one)[0] == 204
    assert fakes.call("DELETE", "/templates/team%2Fbase%3Adefault")[0] == 404 and fakes.call("GET", "/snapshots")[1] == []


def test_forks(fakes, box):
    status, forks, _ = fakes.call("POST", f"/sandboxes/{box}/fork", {"count": 2, "timeout": 60})
    assert status == 201 and len(forks) == 2 and all(set(f) == {"sandbox"} for f in forks), forks
    for fork in forks:
        made = fakes.call("GET", "/sandboxes/" + fork["sandbox"]["sandboxID"])[1]
        assert made["metadata"] == {"k": "v"} and fork["sandbox"]["envdAccessToken"]
        assert fakes.call("DELETE", "/sandboxes/" + made["sandboxID"])[0] == 204
    assert fakes.call("POST", f"/sandboxes/{box}/fork", {"count": 0})[0] == 400
    assert fakes.call("POST", f"/sandboxes/{box}/fork", {}, key=fakes.other)[0] == 404


def test_from_the_shell(fakes):
    def ward(*args):
        done = fakes.ward(*args)
        assert done.returncode == 0 and not done.stderr, done
        return done.stdout
    box = ward("create").strip()
    snap = ward("snapshot", box, "nightly").strip()
    assert snap in ward("snapshot", "ls") and json.loads(ward("snapshot", "ls", "--json"))[0]["name"] == "nightly"
    made = [ward("restore", "nightly").strip(), json.loads(ward("restore", "--json", snap))["id"], *ward("fork", "-n", "2", box).split()]
    assert len(set(made)) == 4
    ward("snapshot", "rm", "nightly")
    assert fakes.ward("restore", snap).returncode == 125
    ward("kill", box, *made)
