# SPDX-License-Identifier: Apache-2.0
"""Registries that misbehave, credentials, and imports that are interrupted."""
import base64
import contextlib
import json
import os
import pty
import signal
import subprocess
import threading
import time

import pytest

import images
import registries
from images import Image, Layer, entry, sha
from templates import fake, leftovers, listed, ok, refused, registry, small  # noqa: F401

# A registry that misbehaves.

def test_wrong_digest(ward, state, fake):
    image = small()
    fake.add("x", "1", image)
    for digest, blob in image.blobs().items():
        path = f"/v2/x/blobs/{digest}"
        fake.answers[path] = (200, {}, blob[:-1] + b"?")
        refused(ward("template", "import", f"{fake.host}/x:1"), state, "digest", "promised")
        fake.answers[path] = (200, {}, blob + b"?")
        refused(ward("template", "import", f"{fake.host}/x:1"), state, "more than")
        fake.answers[path] = (200, {}, blob[:-1])
        refused(ward("template", "import", f"{fake.host}/x:1"), state, "promised")
        fake.answers[path] = (200, {}, blob)
    wrong = "sha256:" + "0" * 64
    fake.answers[f"/v2/x/manifests/{wrong}"] = (200, {}, image.manifest)
    refused(ward("template", "import", f"{fake.host}/x@{wrong}"), state, "digest", "promised")
    ok(ward("template", "import", f"{fake.host}/x:1"))


def test_manifest_too_large(ward, state, fake):
    fake.answers["/v2/x/manifests/1"] = (200, {}, b" " * ((4 << 20) + 1))
    refused(ward("template", "import", f"{fake.host}/x:1"), state, "4194304")


def test_closed_in_the_middle(ward, state, fake):
    image = Image(Layer(entry("a", "a")), Layer(entry("f", os.urandom(300000)), compress=""))
    fake.add("x", "1", image)
    path = f"/v2/x/blobs/{sha(image.layers[1].blob)}"

    def cut(handler):
        if handler.path != path:
            return False
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(image.layers[1].blob)))
        handler.end_headers()
        handler.wfile.write(image.layers[1].blob[:100000])
        handler.close_connection = True
        return True

    fake.before = cut
    refused(ward("template", "import", f"{fake.host}/x:1"), state, "layer 2 of 2")
    fake.before = None
    ok(ward("template", "import", f"{fake.host}/x:1"))


@pytest.mark.parametrize("status", [400, 403, 429, 500, 503])
def test_statuses(ward, state, fake, status):
    fake.answers["/v2/x/manifests/1"] = (status, {}, b"<html>no\n</html>")
    refused(ward("template", "import", f"{fake.host}/x:1"), state, "too many" if status == 429 else str(status))


def test_nobody_there(ward, state):
    refused(ward("template", "import", f"127.0.0.1:{registries.free_port()}/x:1"), state, "127.0.0.1")


def with_tokens(fake, realm_host=None, user=None, expires_after=None):
    """Makes fake ask for a bearer token, and be its own token server."""
    state = {"tokens": 0, "used": 0}

    def before(handler):
        given = handler.headers.get("Authorization", "")
        if handler.path.startswith("/token"):
            if user and given != "Basic " + base64.b64encode(user.encode()).decode():
                handler.reply(401, {}, b"{}")
            else:
                state["tokens"] += 1
                state["used"] = 0
                handler.reply(200, {}, json.dumps({"token": f"t{state['tokens']}"}).encode())
            return True
        state["used"] += 1
        if given == f"Bearer t{state['tokens']}" and not (expires_after and state["used"] > expires_after):
            return False
        handler.reply(401, {"WWW-Authenticate": f'Bearer realm="http://{realm_host or fake.host}/token",'
                                                f'service="a b&c",scope="repository:x:pull"'}, b"{}")
        return True

    fake.before = before
    return state


def test_token_anonymous(ward, state, fake):
    fake.add("x", "1", small())
    tokens = with_tokens(fake)
    ok(ward("template", "import", f"{fake.host}/x:1"))
    assert tokens["tokens"] == 1
    assert [p for p, _ in fake.log if p.startswith("/token")] == ["/token?service=a%20b%26c&scope=repository%3Ax%3Apull"]


def test_token_that_runs_out(ward, state, fake):
    fake.add("x", "1", small())
    tokens = with_tokens(fake, expires_after=2)
    ok(ward("template", "import", f"{fake.host}/x:1"))
    assert tokens["tokens"] == 2


@pytest.mark.parametrize("how", ["environment", "file"])
def test_token_with_user(ward, state, fake, tmp_path, how):
    fake.add("x", "1", small())
    with_tokens(fake, user="me:secret:word")
    env = {**os.environ, "HOME": str(tmp_path)}
    env.pop("DOCKER_CONFIG", None)
    refused(ward("template", "import", f"{fake.host}/x:1", env=env), state, "WARD_REGISTRY_AUTH")
    if how == "environment":
        env["WARD_REGISTRY_AUTH"] = "me:secret:word"
    else:
        (tmp_path / ".docker").mkdir()
        (tmp_path / ".docker/config.json").write_text(json.dumps({"auths": {
            "other.test": {"auth": "bm8="}, fake.host: {"auth": base64.b64encode(b"me:secret:word").decode()}}}))
    ok(ward("template", "import", f"{fake.host}/x:1", env=env))
    bad = ward("template", "import", f"{fake.host}/x:1", "--name", "y", env={**env, "WARD_REGISTRY_AUTH": "me:wrong"})
    assert bad.returncode == 125 and "wrong" not in bad.stderr and "password right?" in bad.stderr


def test_basic(ward, state, fake):
    fake.add("x", "1", small())
    want = "Basic " + base64.b64encode(b"me:pw").decode()

    def before(handler):
        if handler.headers.get("Authorization") == want:
            return False
        handler.reply(401, {"WWW-Authenticate": 'Basic realm="x"'}, b"")
        return True

    fake.before = before
    env = {**os.environ, "DOCKER_CONFIG": "/nonexistent"}
    refused(ward("template", "import", f"{fake.host}/x:1", env=env), state, "user and password")
    refused(ward("template", "import", f"{fake.host}/x:1", env={**env, "WARD_REGISTRY_AUTH": "me:no"}), state, "refuses")
    refused(ward("template", "import", f"{fake.host}/x:1", env={**env, "WARD_REGISTRY_AUTH": "me"}), state, "USER:PASSWORD")
    ok(ward("template", "import", f"{fake.host}/x:1", env={**env, "WARD_REGISTRY_AUTH": "me:pw"}))


@pytest.mark.parametrize("challenge", ['Bearer service="x"', "Bearer realm=", 'Bearer realm="http://',
                                       'Bearer realm="file:///etc/passwd"', 'Bearer realm="http://198.51.100.1/t"',
                                       "Negotiate", 'Bearer realm="http://u:p@127.0.0.1/t"'])
def test_bad_challenges(ward, state, fake, challenge):
    fake.answers["/v2/x/manifests/1"] = (401, {"WWW-Authenticate": challenge}, b"")
    refused(ward("template", "import", f"{fake.host}/x:1"), state)


def test_bad_tokens(ward, state, fake):
    fake.answers["/v2/x/manifests/1"] = (401, {"WWW-Authenticate": f'Bearer realm="http://{fake.host}/token"'}, b"")
    for body in [b"", b"{}", b'{"token":"a\\r\\nX-Evil: 1"}', b'{"token":7}', b'{"token":"' + b"a" * 70000 + b'"}']:
        fake.answers["/token"] = (200, {}, body)
        refused(ward("template", "import", f"{fake.host}/x:1"), state)
    assert not any("X-Evil" in h for _, h in fake.log)


def test_redirect_keeps_the_credential_home(ward, state, fake):
    image = small()
    fake.add("x", "1", image)
    with registries.Fake() as store:
        for digest, blob in image.blobs().items():
            fake.answers[f"/v2/x/blobs/{digest}"] = (307, {"Location": f"http://{store.host}/store/{digest}?sig=1"}, b"")
            store.answers[f"/store/{digest}"] = (200, {}, blob)
        with_tokens(fake)
        ok(ward("template", "import", f"{fake.host}/x:1"))
        assert len(store.log) == 2
        assert not any("Authorization" in h for _, h in store.log)


@pytest.mark.parametrize("to", ["http://198.51.100.1/x", "file:///etc/passwd", "ftp://127.0.0.1/x",
                                "http://u:p@127.0.0.1/x", "/v2/x/manifests/1"])
def test_bad_redirects(ward, state, fake, to):
    fake.answers["/v2/x/manifests/1"] = (302, {"Location": to}, b"")
    refused(ward("template", "import", f"{fake.host}/x:1"), state)


def test_tls(ward, state, fake, tmp_path):
    """A blob store with https: good with its certificate known, refused without."""
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days",
                    "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True,
                   capture_output=True)
    image = small()
    fake.add("x", "1", image)
    with registries.Fake(tls=(cert, key)) as store:
        for digest, blob in image.blobs().items():
            fake.answers[f"/v2/x/blobs/{digest}"] = (302, {"Location": f"https://{store.host}/{digest}"}, b"")
            store.answers[f"/{digest}"] = (200, {}, blob)
        refused(ward("template", "import", f"{fake.host}/x:1"), state, "certificate")
        ok(ward("template", "import", f"{fake.host}/x:1", env={**os.environ, "SSL_CERT_FILE": str(cert)}))


def test_plain_http_is_for_this_host(ward, state, fake):
    """A name that is not this host is asked over https; --plain-http is the explicit word."""
    fake.add("x", "1", small())
    env = {**os.environ, "http_proxy": f"http://{fake.host}", "https_proxy": f"http://{fake.host}", "no_proxy": ""}
    fake.before = lambda h: h.path.startswith("http://r.test/") and setattr(h, "path", h.path[13:])
    result = ward("template", "import", "r.test/x:1", env=env)
    refused(result, state, "https://r.test/")
    assert not any(p.startswith("http://r.test") for p, _ in fake.log)
    ok(ward("template", "import", "r.test/x:1", "--plain-http", env=env))


# Interrupted.

@contextlib.contextmanager
def stuck(fake, image):
    """The last layer stops half-way until the block ends; yields an event that says when."""
    path, blob = f"/v2/x/blobs/{sha(image.layers[-1].blob)}", image.layers[-1].blob
    reached, go_on = threading.Event(), threading.Event()

    def before(handler):
        if handler.path != path:
            return False
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(blob)))
        handler.end_headers()
        handler.wfile.write(blob[:len(blob) // 2])
        handler.wfile.flush()
        reached.set()
        go_on.wait(60)
        handler.close_connection = True
        with contextlib.suppress(OSError):
            handler.wfile.write(blob[len(blob) // 2:])
        return True

    fake.before = before
    try:
        yield reached
    finally:
        go_on.set()
        fake.before = None


def start(ward, state, *args):
    return subprocess.Popen([ward.binary, "--state-dir", state, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True)


def test_kill_in_the_middle(ward, state, fake):
    image = Image(Layer(entry("a", "a")), Layer(entry("f", os.urandom(200000)), compress=""))
    fake.add("x", "1", image)
    with stuck(fake, image) as reached:
        p = start(ward, state, "template", "import", f"{fake.host}/x:1")
        assert reached.wait(30)
        # A live import's folder survives another import and its sweep.
        (work,) = (state / "layers").glob(".tmp-*")
        fake.add("y", "1", small())
        ok(ward("template", "import", f"{fake.host}/y:1"))
        assert work.exists()
        p.kill()
        p.wait()
    assert work.exists()
    ok(ward("template", "import", f"{fake.host}/x:1"))
    assert not list((state / "layers").glob(".*-*"))
    assert len(list((state / "layers").glob("sha256-*"))) == 3


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_in_the_middle(ward, state, fake, which):
    image = Image(Layer(entry("a", "a")), Layer(entry("f", os.urandom(200000)), compress=""))
    fake.add("x", "1", image)
    was = signal.signal(which, signal.SIG_DFL)  # whoever runs this behind nohup, or in the background, ignores some
    with stuck(fake, image) as reached:
        p = start(ward, state, "template", "import", f"{fake.host}/x:1")
        signal.signal(which, was)
        assert reached.wait(30)
        p.send_signal(which)
        out, err = p.communicate(timeout=30)
    assert p.returncode == -which and out == "" and err.count("\n") == 1 and "interrupted" in err
    assert leftovers(state) == []


def test_kill_anywhere(ward, state, tmp_path):
    """Whenever the kill comes, what is there is whole, and the next import cleans up."""
    image = Image(*[Layer(*[entry(f"d{i}/f{n}", f"{i}{n}") for n in range(200)]) for i in range(4)])
    images.write_layout(tmp_path / "img", (image, None))
    for ms in range(0, 60, 4):
        p = start(ward, state, "template", "import", f"oci:{tmp_path}/img", "--name", "k")
        time.sleep(ms / 1000)
        p.kill()
        p.communicate()
        for t in listed(ward).values() if state.exists() else []:
            assert all(len(list((state / "layers" / l / "fs").glob("*/*"))) == 200 for l in t["layers"])
        if (state / "templates/k").exists():
            ward("template", "rm", "k")
    ok(ward("template", "import", f"oci:{tmp_path}/img", "--name", "k"))
    assert not list((state / "layers").glob(".*-*"))
    ok(ward("template", "rm", "k"))
    assert leftovers(state) == []


def test_two_at_once(ward, state, registry):
    image = Image(*[Layer(entry("f", os.urandom(500000))) for _ in range(3)])
    images.push(registry, "two", "1", image)
    both = [start(ward, state, "template", "import", f"{registry}/two:1", "--name", n) for n in ("a", "b")]
    for p in both:
        out, err = p.communicate(timeout=60)
        assert p.returncode == 0, err
    assert listed(ward)["a"]["layers"] == listed(ward)["b"]["layers"]
    assert len(list((state / "layers").glob("sha256-*"))) == 3
    assert not list((state / "layers").glob(".*-*"))


def test_progress_only_on_a_terminal(ward, state, registry):
    images.push(registry, "bar", "1", Image(Layer(entry("f", os.urandom(3 << 20)), compress="")))
    result = ward("template", "import", f"{registry}/bar:1", "--name", "a")
    assert ok(result).startswith("a: 1 layer, 1 new, sha256:") and result.stderr == ""
    ok(ward("template", "rm", "a"))
    for extra, wanted in [([], True), (["--quiet"], False)]:
        main, sub = pty.openpty()
        p = subprocess.Popen([ward.binary, "--state-dir", state, "template", "import", f"{registry}/bar:1", "--name", "a",
                              *extra], stdout=subprocess.DEVNULL, stderr=sub)
        os.close(sub)
        seen = b""
        with contextlib.suppress(OSError):
            while data := os.read(main, 4096):
                seen += data
        os.close(main)
        assert p.wait() == 0
        assert (b"layer 1/1 fetching" in seen) == wanted and (seen == b"") != wanted
        ok(ward("template", "rm", "a"))
