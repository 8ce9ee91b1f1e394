# SPDX-License-Identifier: Apache-2.0
"""`ward template`: where images come from, how templates live and go, builds, words."""
import fcntl
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest

import images
from images import Image, Index, Layer, entry, sha, symlink
from templates import ROOT, layers_of, leftovers, listed, ok, refused, registry, small  # noqa: F401

needs_root = pytest.mark.skipif(not ROOT, reason="needs root")

# Where images come from.

def test_layout_folder(ward, state, tmp_path):
    image = small(config={"Env": ["A=1", "B=x\ny"], "Entrypoint": ["/bin/e"], "Cmd": ["c"], "WorkingDir": "/w",
                          "User": "7:8"})
    images.write_layout(tmp_path / "img", (image, "v1"))
    out = json.loads(ok(ward("template", "import", f"oci:{tmp_path}/img:v1", "--name", "one", "--json")))
    assert out == {"name": "one", "digest": sha(image.manifest), "layers": 1, "new_layers": 1, "dropped_xattrs": 0}
    record = (state / "templates/one/template").read_text()
    for line in ["env=A=1", "env=B=x\\ny", "cmd=/bin/e", "cmd=c", "workdir=/w", "user=7:8"]:
        assert line + "\n" in record
    (fs,) = layers_of(ward, state, "one")
    assert (fs / "etc/motd").read_text() == "hello"
    assert (state / "layers").stat().st_mode & 0o777 == 0o700  # set-uid files of images are in there


def test_layout_needs_a_choice(ward, state, tmp_path):
    images.write_layout(tmp_path / "img", (small("1"), "v1"), (small("2"), "v2"))
    refused(ward("template", "import", f"oci:{tmp_path}/img"), state, "holds 2 images", "oci:PATH:TAG")
    refused(ward("template", "import", f"oci:{tmp_path}/img:v3"), state, "'v3'")
    ok(ward("template", "import", f"oci:{tmp_path}/img:v2", "--name", "two"))
    assert (layers_of(ward, state, "two")[0] / "etc/motd").read_text() == "2"


@pytest.mark.parametrize("compress", ["", "gzip", "zstd"])
def test_layout_tar(ward, state, tmp_path, compress):
    data = images.write_tar(tmp_path / "t", images.layout_files((small(), "v1"))).read_bytes()
    if compress:
        data = images.zstd(data) if compress == "zstd" else gzip.compress(data)
    (tmp_path / "img.tar").write_bytes(data)
    ok(ward("template", "import", f"oci:{tmp_path}/img.tar", "--name", "t"))
    assert (layers_of(ward, state, "t")[0] / "etc/motd").read_text() == "hello"


def test_docker_save_old(ward, state, tmp_path):
    low, high = Layer(entry("a", "low")), Layer(entry("b", "high"))
    image = Image(low, high, low)
    images.docker_save(tmp_path / "s.tar", image, tags=["r.test/x:1", "x:2"], doubled=True)
    out = json.loads(ok(ward("template", "import", f"oci:{tmp_path}/s.tar:2", "--name", "s", "--json")))
    assert out["digest"] == sha(image.config) and out["layers"] == 2  # a double shows once, on top
    assert [f.name for f in layers_of(ward, state, "s")[0].iterdir()] == ["a"]
    result = ward("template", "import", f"oci:{tmp_path}/s.tar:3")
    assert result.returncode == 125 and "'3'" in result.stderr


def test_docker_save_new(ward, state, tmp_path):
    image = small()
    files = images.layout_files((image, "v1"))
    files["manifest.json"] = json.dumps([{"Config": "blobs/sha256/" + sha(image.config)[7:], "RepoTags": ["x:v1"],
                                          "Layers": ["blobs/sha256/" + sha(l.blob)[7:] for l in image.layers]}]).encode()
    images.write_tar(tmp_path / "both.tar", files)
    out = json.loads(ok(ward("template", "import", f"oci:{tmp_path}/both.tar", "--name", "b", "--json")))
    assert out["digest"] == sha(image.manifest)  # by the index, which has digests for all
    del files["index.json"], files["oci-layout"]
    images.write_tar(tmp_path / "docker.tar", files)
    out = json.loads(ok(ward("template", "import", f"oci:{tmp_path}/docker.tar:v1", "--name", "d", "--json")))
    assert out["new_layers"] == 0


def test_oci_word_is_kept_and_notices_changes(ward, state, tmp_path):
    images.write_layout(tmp_path / "img", (small("1"), None))
    name = json.loads(ok(ward("template", "import", f"oci:{tmp_path}/img", "--json")))["name"]
    first = (state / "templates" / name / "template").read_text()
    images.write_layout(tmp_path / "img", (small("2"), None))
    assert json.loads(ok(ward("template", "import", f"oci:{tmp_path}/img", "--json")))["name"] == name
    assert (state / "templates" / name / "template").read_text() != first
    assert (layers_of(ward, state, name)[0] / "etc/motd").read_text() == "2"
    ok(ward("template", "ls"))
    ok(ward("template", "rm", f"oci:{tmp_path}/img"))
    assert leftovers(state) == []


@pytest.mark.parametrize("compress, docker", [("gzip", False), ("zstd", False), ("", False), ("gzip", True)])
def test_registry(ward, state, registry, compress, docker):
    layers = [Layer(entry("n", f"{compress}{docker}{i}"), compress=compress) for i in range(3)]
    image = Image(*layers, docker=docker)
    name = f"test/{compress or 'plain'}{'-d' if docker else ''}"
    images.push(registry, name, "1.0", image)
    out = json.loads(ok(ward("template", "import", f"{registry}/{name}:1.0", "--json")))
    assert out == {"name": f"{registry}/{name}:1.0", "digest": sha(image.manifest), "layers": 3, "new_layers": 3,
                   "dropped_xattrs": 0}
    assert [(f / "n").read_text()[-1] for f in layers_of(ward, state, out["name"])] == ["2", "1", "0"]
    # By digest: no layer is fetched twice.
    by_digest = f"{registry}/{name}@{sha(image.manifest)}"
    out = json.loads(ok(ward("template", "import", by_digest, "--json")))
    assert (out["name"], out["new_layers"]) == (by_digest, 0)


def test_registry_index(ward, state, registry):
    other = "arm64" if images.ARCH == "amd64" else "amd64"
    mine = small("mine")
    unknown = Image(Layer(entry("x", "attestation")), arch="unknown", os="unknown")
    index = Index((small("other", arch=other), {"os": "linux", "architecture": other}),
                  (unknown, {"os": "unknown", "architecture": "unknown"}),
                  (mine, {"os": "linux", "architecture": images.ARCH}))
    nested = Index((index, None))
    images.push(registry, "multi", "1", index)
    images.push(registry, "multi", "nested", nested)
    out = json.loads(ok(ward("template", "import", f"{registry}/multi:1", "--json")))
    assert out["digest"] == sha(mine.manifest)
    assert (layers_of(ward, state, out["name"])[0] / "etc/motd").read_text() == "mine"
    assert json.loads(ok(ward("template", "import", f"{registry}/multi:nested", "--json")))["new_layers"] == 0


def test_registry_default(ward, state, registry):
    images.push(registry, "library/tiny", "latest", small())
    images.push(registry, "team/tiny", "latest", small())
    refused(ward("template", "import", "tiny"), state, "names no registry", "WARD_REGISTRY")
    ok(ward("template", "import", "tiny", "--registry", registry))
    ok(ward("template", "import", "team/tiny", env={**os.environ, "WARD_REGISTRY": registry}))
    assert set(listed(ward)) == {"tiny:latest", "team/tiny:latest"}
    assert listed(ward)["tiny:latest"]["source"] == f"{registry}/library/tiny:latest"
    ok(ward("template", "rm", "tiny", "team/tiny"))
    assert leftovers(state) == []


def test_registry_says_no(ward, state, registry):
    refused(ward("template", "import", f"{registry}/no/such:1"), state, "does not have it", "no/such:1")


# Life on the shelf.

def test_layers_are_shared_and_counted(ward, state, tmp_path):
    base, a, b = Layer(entry("base", "0")), Layer(entry("a", "a")), Layer(entry("b", "b"))
    for name, top in [("a", a), ("b", b)]:
        images.write_layout(tmp_path / name, (Image(base, top), None))
        ok(ward("template", "import", f"oci:{tmp_path}/{name}", "--name", name))
    assert len(list((state / "layers").glob("sha256-*"))) == 3
    ok(ward("template", "rm", "a"))
    assert {p.name for p in (state / "layers").glob("sha256-*")} == {l.diff_id.replace(":", "-") for l in (base, b)}
    # One wrong name among right ones removes nothing.
    result = ward("template", "rm", "b", "nothing")
    assert result.returncode == 125 and "'nothing'" in result.stderr and "b" in listed(ward)
    assert ward("template", "rm", "b", "b").returncode == 125
    ok(ward("template", "rm", "b"))
    assert leftovers(state) == []


def test_new_import_replaces(ward, state, tmp_path):
    for text in "12":
        images.write_layout(tmp_path / text, (small(text), None))
        ok(ward("template", "import", f"oci:{tmp_path}/{text}", "--name", "n"))
    assert (layers_of(ward, state, "n")[0] / "etc/motd").read_text() == "2"
    images.write_layout(tmp_path / "3", (small("3"), None))
    ok(ward("template", "import", f"oci:{tmp_path}/3", "--name", "m"))  # sweeps
    assert len(list((state / "layers").glob("sha256-*"))) == 2


def test_in_use(ward, state, tmp_path):
    """A sandbox holds a shared lock on the record; this stands in for one."""
    images.write_layout(tmp_path / "1", (small("1"), None))
    images.write_layout(tmp_path / "2", (small("2"), None))
    ok(ward("template", "import", f"oci:{tmp_path}/1", "--name", "n"))
    (first,) = layers_of(ward, state, "n")
    with open(state / "templates/n/template") as hold:
        fcntl.flock(hold, fcntl.LOCK_SH)
        result = ward("template", "rm", "n")
        assert result.returncode == 125 and "in use" in result.stderr and "n" in listed(ward)
        ok(ward("template", "import", f"oci:{tmp_path}/2", "--name", "n"))
        ok(ward("template", "import", f"oci:{tmp_path}/2", "--name", "other"))  # sweeps
        assert (first / "etc/motd").read_text() == "1"
        ok(ward("template", "rm", "n"))
        assert (first / "etc/motd").read_text() == "1"
    ok(ward("template", "rm", "other"))
    assert leftovers(state) == []


def test_broken_record(ward, state, tmp_path):
    images.write_layout(tmp_path / "img", (small(), None))
    ok(ward("template", "import", f"oci:{tmp_path}/img", "--name", "good"))
    (state / "templates/bad").mkdir()
    (state / "templates/bad/template").write_text("nonsense\n")
    result = ward("template", "ls")
    assert result.returncode == 125 and "good" in result.stdout and "'bad'" in result.stderr
    # It may name any layer, so none goes; once it is gone itself, all is well.
    result = ward("template", "rm", "good")
    assert result.returncode == 125 and "'bad'" in result.stderr and list((state / "layers").glob("sha256-*"))
    ok(ward("template", "rm", "bad"))
    assert leftovers(state) == []


def test_ls(ward, state, tmp_path):
    assert json.loads(ok(ward("template", "ls", "--json"))) == []
    assert ok(ward("template", "ls")).split() == ["NAME", "KIND", "SIZE", "LAYERS", "CREATED", "DIGEST"]
    assert not state.exists()
    images.write_layout(tmp_path / "img", (small("x" * 2048), None))
    ok(ward("template", "import", f"oci:{tmp_path}/img", "--name", "n"))
    ok(ward("template", "build", "d", "--dir", tmp_path))
    rows = [line.split() for line in ok(ward("template", "ls")).splitlines()[1:]]
    assert [r[:3] for r in rows] == [["d", "dir", "-"], ["n", "layers", "2.0"]]
    as_json = listed(ward)
    assert as_json["n"]["size"] == 2048 and as_json["d"]["size"] is None
    assert as_json["d"]["layers"] == [str(tmp_path)] and as_json["n"]["source"] == f"oci:{tmp_path}/img"


# build

@pytest.fixture
def base(ward, tmp_path):
    layer = Layer(entry("tmp/", mode=0o1777), entry("etc/"), entry("etc/motd", "m"), symlink("bin", "usr/bin"),
                  entry("usr/"), entry("usr/bin/"), entry("gone/"), entry("gone/x", "x"))
    top = Layer(entry("new/", mode=0o711), entry(".wh.gone", ""))
    images.write_layout(tmp_path / "base", (Image(layer, top, config={"Env": ["A=1", "B=2"], "Cmd": ["sh"]}), None))
    ok(ward("template", "import", f"oci:{tmp_path}/base", "--name", "base"))
    return "base"


def test_build(ward, state, tmp_path, base):
    src = tmp_path / "src"
    (src / "in/ner").mkdir(parents=True)
    (src / "in/ner/f").write_text("f")
    (src / "run").write_text("#!/bin/sh\n")
    (src / "run").chmod(0o755)
    (src / "link").symlink_to("/etc/motd")
    ok(ward("template", "build", "mine", "--from", base, "--copy", f"{src}:/opt/app", "--copy", f"{src}/run:/tmp/",
            "--copy", f"{src}/run:/new/r", "--copy", f"{src}/run:/gone/r", "--env", "A=3", "--env", "C=x=y", "--cmd", "/opt/app/run", "--cmd", "-x",
            "--workdir", "/opt/app", "--user", "1000:1000"))
    folders = layers_of(ward, state, "mine")
    assert len(folders) == 3 and folders[1:] == layers_of(ward, state, base)
    top = folders[0]
    assert (top / "opt/app/in/ner/f").read_text() == "f" and (top / "tmp/run").stat().st_mode & 0o7777 == 0o755
    assert os.readlink(top / "opt/app/link") == "/etc/motd"
    assert (top / "tmp").stat().st_mode & 0o7777 == 0o1777 and (top / "new").stat().st_mode & 0o7777 == 0o711
    assert (top / "gone").stat().st_mode & 0o7777 == 0o755
    if ROOT:
        assert (top / "opt/app/run").stat().st_uid == 0
    record = (state / "templates/mine/template").read_text().splitlines()
    assert [l for l in record if l.startswith(("env=", "cmd=", "workdir=", "user="))] == [
        "workdir=/opt/app", "user=1000:1000", "env=A=3", "env=B=2", "env=C=x=y", "cmd=/opt/app/run", "cmd=-x"]
    # The same again is the same layer; without --copy there is no new one.
    out = json.loads(ok(ward("template", "build", "again", "--from", "mine", "--env", "D=1", "--json")))
    assert (out["layers"], out["new_layers"]) == (3, 0)
    ok(ward("template", "rm", "base", "mine"))
    assert (top / "opt/app/in/ner/f").exists()
    ok(ward("template", "rm", "again"))
    assert leftovers(state) == []


@pytest.fixture(scope="module")
def shell_root(tmp_path_factory):
    """A directory in which a shell can run."""
    top = tmp_path_factory.mktemp("root")
    for folder in ("usr/bin", "lib64", "usr/lib/x86_64-linux-gnu", "tmp", "etc", "old/sub"):
        (top / folder).mkdir(parents=True)
    for name, to in (("bin", "usr/bin"), ("lib", "usr/lib"), ("usr/bin/sh", "dash")):
        (top / name).symlink_to(to)
    for program in ("dash", "rm", "mkdir", "chown", "cat", "ls", "stat", "find", "sort"):
        shutil.copy(f"/usr/bin/{program}", top / "usr/bin" / program)
        for line in subprocess.run(["ldd", f"/usr/bin/{program}"], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines():
            if "=> /" in line:
                found = line.split()[2]
                shutil.copy(found, top / "usr/lib/x86_64-linux-gnu" / pathlib.Path(found).name)
    shutil.copy("/lib64/ld-linux-x86-64.so.2", top / "lib64")
    (top / "old/sub/f").write_text("f")
    (top / "old/g").write_text("g")
    os.chmod(top, 0o755)
    return top


@needs_root
def test_build_with_commands(ward, state, tmp_path, shell_root):
    (tmp_path / "f").write_text("copied\n")
    out = json.loads(ok(ward("template", "build", "mine", "--from", f"dir:{shell_root}", "--copy", f"{tmp_path}/f:/copied", "--env", "A=1",
                             "--user", "5", "--run", "cat /copied; echo $A > /etc/new; chown 7:8 /etc/new; rm -r /old/sub; echo to stdout",
                             "--run", "rm -r /old; mkdir -m 700 /old; echo h > /old/h", "--json")))
    assert (out["layers"], out["new_layers"]) == (4, 3)
    assert list(listed(ward)) == ["mine"] and json.loads(ok(ward("ls", "--json"))) == []
    inside = ok(ward("run", "--quiet", "--tier", "container", "--template", "mine", "--user", "0", "--", "sh", "-c",
                     "cat /etc/new; stat -c '%u:%g %a %n' /etc/new /old; find /old | sort"))
    assert inside == "1\n7:8 644 /etc/new\n0:0 700 /old\n/old\n/old/h\n"
    # A copy of it is a template like any other.
    ok(ward("template", "build", "more", "--from", "mine", "--run", "cat /old/h > /etc/more"))
    ok(ward("template", "rm", "mine"))
    assert ok(ward("run", "--quiet", "--tier", "container", "--template", "more", "--user", "0", "--", "cat", "/etc/more")) == "h\n"
    ok(ward("template", "rm", "more"))
    assert [p.name for p in (state / "layers").iterdir() if p.name != ".lock"] == []


@needs_root
@pytest.mark.parametrize("args, says", [
    (["--run", "exit 3"], ["--run 'exit 3'", "status 3"]),
    (["--run", "echo x > /etc/x", "--run", "kill -9 $$"], ["--run 'kill -9 $$'", "137"]),
    (["--run", "cat /dev/zero > /f", "--disk", "4M"], ["status 1"]),
    (["--run", "true", "--net", "everywhere"], ["status 125"]),
    (["--net", "none"], ["--net and --disk are for"]),
    (["--run"], ["--run needs a value"]),
], ids=str)
def test_build_with_commands_that_fail(ward, state, shell_root, args, says):
    ok(ward("run", "--quiet", "--tier", "container", "--template", f"dir:{shell_root}", "--", "sh", "-c", "true"))
    done = ward("template", "build", "bad", "--from", f"dir:{shell_root}", *args)
    assert done.returncode == 125 and done.stdout == "" and done.stderr.splitlines()[-1].startswith("ward template: ")
    for word in says:
        assert word in done.stderr
    assert listed(ward) == {} and json.loads(ok(ward("ls", "--json"))) == []
    assert [p.name for p in (state / "layers").iterdir() if p.name != ".lock"] == [] and list((state / "boxes").iterdir()) == []


@needs_root
def test_build_with_commands_is_killed(ward, state, shell_root):
    """Its own template goes with the next sweep, once the command is over too."""
    p = subprocess.Popen([ward.binary, "--state-dir", state, "template", "build", "late", "--from", f"dir:{shell_root}", "--run",
                          "echo x > /etc/x; cat"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not any(r["state"] == "running" for r in json.loads(ok(ward("ls", "--json")))):
            assert time.monotonic() < end
            time.sleep(0.05)
        p.kill()
        p.wait()
        ok(ward("gc"))  # the command still runs from it
        assert [n.startswith("build-") for n in listed(ward)] == [True]
    finally:
        p.stdin.close()
    while any(r["state"] == "running" for r in json.loads(ok(ward("ls", "--json")))):
        time.sleep(0.05)
    ok(ward("gc"))
    assert listed(ward) == {}
    ok(ward("rm", "--all"))
    ok(ward("gc"))
    assert [x.name for x in (state / "layers").iterdir() if x.name != ".lock"] == []


def test_build_over_itself(ward, state, tmp_path, base):
    (tmp_path / "f").write_text("f")
    ok(ward("template", "build", "base", "--from", "base", "--copy", f"{tmp_path}/f:/f"))
    assert len(listed(ward)["base"]["layers"]) == 3
    ok(ward("template", "rm", "base"))
    assert leftovers(state) == []


def test_build_on_a_directory(ward, state, tmp_path):
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "f").write_text("f")
    ok(ward("template", "build", "d", "--dir", tmp_path / "root", "--env", "X=1"))
    ok(ward("template", "build", "e", "--from", "d", "--copy", f"{tmp_path}/f:/etc/f"))
    assert listed(ward)["e"]["layers"][1] == str(tmp_path / "root")
    ok(ward("template", "rm", "d", "e"))
    assert (tmp_path / "root/etc").is_dir() and leftovers(state) == []


@pytest.mark.parametrize("args, word", [
    (["--copy", "{t}/f:/bin/f"], "'/bin' is a link"),
    (["--copy", "{t}/f:/etc/motd/f"], "no folder"),
    (["--copy", "{t}/f:/etc"], "end DST with '/'"),
    (["--copy", "{t}/d:/etc/motd"], "no folder"),
    (["--copy", "{t}/f:/a/../b"], "leads out"),
    (["--copy", "{t}/f:/a/.wh.b"], "deletion"),
    (["--copy", "{t}/f:/"], None),
    (["--copy", "{t}/nothing:/x"], "No such file"),
    (["--copy", "{t}/d:/x"], "neither a file"),
    (["--copy", "{t}/w:/x"], "deletion"),
    (["--copy", "{s}/layers:/x"], "state directory"),
    (["--copy", "{t}:/x"], "state directory"),
    (["--copy", "{t}/f"], "SRC:/DST"),
    (["--copy", "{t}/f:x"], "SRC:/DST"),
    (["--env", "X"], "NAME=VALUE"),
    (["--env", "=X"], "NAME=VALUE"),
    (["--workdir", "x"], "absolute"),
    (["--user", ""], "--user"),
    (["--cmd"], "--cmd needs a value"),
    (["--ran", "true"], "'--ran' is not an option"),
    (["--max-size", "1", "--copy", "{t}/f:/f"], "--max-size"),
    (["second"], "one name"),
    (["--dir", "{t}"], "either --from"),
])
def test_build_refusals(ward, state, tmp_path, base, args, word):
    (tmp_path / "f").write_text("ff")
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "d/pipe")
    (tmp_path / "w").mkdir()
    (tmp_path / "w/.wh.x").write_text("")
    before = leftovers(state)
    result = ward("template", "build", "new", "--from", base, *[a.format(t=tmp_path, s=state) for a in args])
    if word is None:
        ok(result)
        return
    assert result.returncode == 125 and result.stderr.count("\n") == 1 and word in result.stderr, result.stderr
    assert leftovers(state) == before


# Words and options.

@pytest.mark.parametrize("args, word", [
    ([], "build, import, ls or rm"),
    (["frobnicate"], "'frobnicate'"),
    (["ls", "x"], "'x'"),
    (["rm"], "name one or more"),
    (["rm", "--all"], "'--all'"),
    (["rm", "no-such"], "'no-such'"),
    (["rm", "WHAT IS THIS"], "no template"),
    (["import"], "which image"),
    (["import", "--name"], "--name needs a value"),
    (["import", "a.test/x", "b.test/y"], "one too many"),
    (["import", "--what", "a.test/x"], "'--what'"),
    (["import", "a.test/x", "--name", "UPPER"], "'UPPER'"),
    (["import", "a.test/x", "--name", "host"], "'host'"),
    (["import", "a.test/x", "--name", "../x"], "'../x'"),
    (["import", "a.test/x", "--name", "oci-1"], "oci-"),
    (["import", "a.test/x", "--name", "x" * 300], "at most"),
    (["import", "x", "--registry", "http://r.test"], "HOST[:PORT]"),
    (["import", "host"], "always there"),
    (["import", "dir:/usr"], "needs no import"),
    (["import", "/usr"], "needs no import"),
    (["import", "oci:/no/such"], "No such file"),
    (["import", "oci:/etc"], "index.json"),
    (["import", "oci:/dev/null"], "layout"),
    (["import", "a.test/UPPER"], "a-z"),
    (["import", "a.test/x:"], "tag"),
    (["import", "a.test/x@sha256:12"], "sha256"),
    (["import", "http://a.test/x"], "image 'http://a.test/x'"),
    (["import", "a.test/x\ny"], "\\x0a"),
    (["import", ""], "image ''"),
    (["build"], "name"),
    (["build", "x"], "either --from"),
    (["build", "x", "--from", "host"], "no layers"),
    (["build", "x", "--from", "nothing"], "'nothing'"),
    (["build", "x", "--from", "a.test/y"], "ward template import"),
    (["build", "x", "--dir", "/etc/passwd"], "not a directory"),
    (["build", "x", "--dir", "/no/such"], "No such file"),
    (["build", "x", "--dir", "/usr", "--copy", "/etc/passwd:/x"], "--copy goes with --from"),
    (["build", "X", "--dir", "/usr"], "'X'"),
])
def test_bad_words(ward, state, args, word):
    env = {k: v for k, v in os.environ.items() if k != "WARD_REGISTRY"}
    result = ward("template", *args, env=env)
    refused(result, state, word)
    assert not state.exists()


def test_state_directory_is_no_template(ward, state, tmp_path):
    state.mkdir()
    refused(ward("template", "build", "x", "--dir", state), state, "state directory")


def test_help(ward):
    for args in (["help", "template"], ["template", "--help"], ["template", "import", "--help"]):
        assert "Usage: ward template import" in ok(ward(*args))


# In a sandbox.

@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A static program that tells where it is."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "p.c").write_text(r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(void)
{
	char dir[100];
	printf("%s %s %d%d%d\n", getenv("FROM"), getcwd(dir, 100), access("/low", F_OK), access("/gone", F_OK),
		access("/opaque/old", F_OK));
	return 0;
}
""")
    subprocess.run(["gcc", "-static", "-O1", "-o", folder / "p", folder / "p.c"], check=True)
    return (folder / "p").read_bytes()


# Without a cgroup the memory limit is one of address space, which a sanitizer cannot live with.
@pytest.mark.parametrize("who", ["ward", pytest.param("user_ward", marks=pytest.mark.native_only)])
def test_run(request, who, program, public_dir):
    """An image becomes the root of a sandbox: its files, deletions, environment and working directory."""
    runner = request.getfixturevalue(who)
    image = Image(Layer(entry("p", program, mode=0o755), entry("low", ""), entry("gone", ""), entry("opaque/"),
                        entry("opaque/old", ""), entry("w/")),
                  Layer(entry(".wh.gone", ""), entry("opaque/"), entry("opaque/.wh..wh..opq", "")),
                  config={"Env": ["FROM=image"], "WorkingDir": "/w"})
    images.write_layout(public_dir / "img", (image, None))
    subprocess.run(["chmod", "-R", "a+rX", public_dir / "img"], check=True)
    word = f"oci:{public_dir}/img"
    # Not imported yet: the run does it.
    for _ in range(2):
        assert ok(runner("run", "--tier", "container", "--template", word, "--", "/p")) == "image /w 0-1-1\n"
    name = next(iter(listed(runner)))
    ok(runner("template", "build", "mine", "--from", name, "--env", "FROM=build", "--workdir", "/"))
    assert ok(runner("run", "--tier", "container", "--template", "mine", "--", "/p")) == "build / 0-1-1\n"


@pytest.mark.parametrize("tier", ["container", "kernel"])
def test_a_folder_to_start_in_that_the_image_lacks(ward, tmp_path, program, tier):
    """It is made, as docker does; for one that was asked for by hand, ward says that it is missing."""
    image = Image(Layer(entry("p", program, mode=0o755), entry("low", "")), config={"Env": ["FROM=image"], "WorkingDir": "/srv/new/app"})
    images.write_layout(tmp_path / "img", (image, None))
    word = f"oci:{tmp_path}/img"
    assert ok(ward("run", "--tier", tier, "--accept-risk", "test", "--template", word, "--", "/p")) == "image /srv/new/app 0-1-1\n"
    done = ward("run", "--tier", tier, "--accept-risk", "test", "--template", word, "-w", "/srv/other", "--", "/p")
    assert done.returncode == 125 and "working directory '/srv/other'" in done.stderr


def test_in_use_by_a_sandbox(ward, state, tmp_path, program):
    (tmp_path / "s.c").write_text("#include <unistd.h>\nint main(void) { write(1, \"x\", 1); pause(); }\n")
    subprocess.run(["gcc", "-static", "-O1", "-o", tmp_path / "s", tmp_path / "s.c"], check=True)
    images.write_layout(tmp_path / "img", (Image(Layer(entry("s", (tmp_path / "s").read_bytes(), mode=0o755))), None))
    ok(ward("template", "import", f"oci:{tmp_path}/img", "--name", "n"))
    p = subprocess.Popen([ward.binary, "--state-dir", state, "run", "--tier", "container", "--template", "n", "--", "/s"],
                         stdout=subprocess.PIPE)
    try:
        assert p.stdout.read(1) == b"x"
        result = ward("template", "rm", "n")
        assert result.returncode == 125 and "in use" in result.stderr
    finally:
        p.terminate()
        p.communicate(timeout=30)
    ok(ward("template", "rm", "n"))


def test_a_kept_sandbox_keeps_its_layers(ward, state, tmp_path, program):
    """Its files lie on top of them; they go when the last one that needs them does."""
    images.write_layout(tmp_path / "img", (Image(Layer(entry("p", program, mode=0o755)), Layer(entry("low", "")),
                                                 config={"Env": ["FROM=i"]}), None))
    ok(ward("template", "import", f"oci:{tmp_path}/img", "--name", "n"))
    folders = layers_of(ward, state, "n")
    ok(ward("run", "--quiet", "--keep", "--tier", "container", "--template", "n", "--", "/p"))
    kept = [p.name for p in (state / "boxes").iterdir()]
    ok(ward("template", "rm", "n"))
    ok(ward("gc"))
    assert len(kept) == 1 and all(f.exists() for f in folders) and listed(ward) == {}
    ok(ward("rm", *kept))
    ok(ward("gc"))
    assert not any(f.exists() for f in folders)
