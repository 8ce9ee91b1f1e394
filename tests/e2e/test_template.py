# SPDX-License-Identifier: Apache-2.0
"""`ward template`: images in, templates out, and what must never get in."""
import base64
import contextlib
import io
import json
import os
import pathlib
import pty
import signal
import subprocess
import tarfile
import threading
import time

import pytest

import images
import registries
from images import Image, Index, Layer, entry, hardlink, sha, symlink

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
        data = images.zstd(data) if compress == "zstd" else __import__("gzip").compress(data)
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


# How an unpacked layer looks.

@needs_root
def test_layers_as_overlay(ward, state, tmp_path):
    low = Layer(entry("./", mode=0o755), entry("etc/", mode=0o750, uid=3, gid=4), entry("etc/keep", "keep", mode=0o4755),
                entry("etc/gone", "gone"), entry("dir/"), entry("dir/old", "old"), entry("dir/sub/"),
                entry("dir/sub/x", "x"), entry("swap/"), entry("swap/old", "old"), entry("both/"),
                entry("both/old", "old"), symlink("abs", "/etc/keep"), symlink("up", "../../../etc/keep"),
                hardlink("etc/hard", "etc/keep"), entry("pipe", type=tarfile.FIFOTYPE, mode=0o600),
                entry("etc/owned", "o", uid=65535, gid=1))
    high = Layer(entry("etc/", mode=0o750, uid=3, gid=4), entry("etc/.wh.gone", ""), entry("dir/"),
                 entry("dir/.wh..wh..opq", ""), entry("dir/new", "new"), entry(".wh.swap", ""), entry("swap/"),
                 entry("swap/new", "new"), entry("both/"), entry("both/new", "new"), entry(".wh.both", ""),
                 compress="zstd")
    images.write_layout(tmp_path / "img", (Image(low, high), None))
    ok(ward("template", "import", f"oci:{tmp_path}/img", "--name", "o"))
    folders = layers_of(ward, state, "o")
    root = tmp_path / "root"
    root.mkdir()
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", "ro,lowerdir=" + ":".join(map(str, folders)), root],
                   check=True)
    try:
        assert sorted(os.listdir(root / "etc")) == ["hard", "keep", "owned"]
        assert os.listdir(root / "dir") == os.listdir(root / "swap") == os.listdir(root / "both") == ["new"]
        st = (root / "etc").stat()
        assert (st.st_mode & 0o7777, st.st_uid, st.st_gid) == (0o750, 3, 4)
        keep, owned = (root / "etc/keep").stat(), (root / "etc/owned").stat()
        assert (keep.st_mode & 0o7777, keep.st_nlink, keep.st_mtime) == (0o4755, 2, 1700000000)
        assert (owned.st_uid, owned.st_gid) == (65535, 1)
        assert os.readlink(root / "abs") == "/etc/keep" and os.readlink(root / "up") == "../../../etc/keep"
        assert (root / "pipe").is_fifo()
    finally:
        subprocess.run(["umount", root], check=True)


def test_layer_that_hides_all(ward, state, tmp_path):
    """overlayfs ignores the mark on a layer's root, so the layers below are left out."""
    low, clear, high = Layer(entry("a", "a")), Layer(entry(".wh..wh..opq", ""), entry("b", "b")), Layer(entry("c", "c"))
    images.write_layout(tmp_path / "img", (Image(low, clear, high), None))
    for name in ["first", "again"]:  # unpacked, and found on the shelf
        out = json.loads(ok(ward("template", "import", f"oci:{tmp_path}/img", "--name", name, "--json")))
        assert out["layers"] == 2
        assert [os.listdir(f) for f in layers_of(ward, state, name)] == [["c"], ["b"]]


def test_names_and_times(ward, state, tmp_path):
    long = "d" * 200 + "/" + "e" * 200
    layer = Layer(entry("implied/by/file", "x"), entry("h\u00e9/\u4e2d", "u"), entry(long + "/f", "l"),
                  entry("./dot/./f", "d"), entry("twice", "1"), entry("twice", "2"), entry("closed/", mode=0o500),
                  entry("closed/f", "c", mode=0o400))
    images.write_layout(tmp_path / "img", (Image(layer), None))
    ok(ward("template", "import", f"oci:{tmp_path}/img", "--name", "n"))
    (fs,) = layers_of(ward, state, "n")
    assert (fs / "implied").stat().st_mode & 0o7777 == 0o755
    assert (fs / "h\u00e9/\u4e2d").read_text() == "u" and (fs / long / "f").read_text() == "l"
    assert (fs / "dot/f").read_text() == "d" and (fs / "twice").read_text() == "2"
    assert (fs / "closed").stat().st_mode & 0o7777 == 0o500 and (fs / "closed").stat().st_mtime == 1700000000


def test_attributes(ward, state, tmp_path):
    pax = {"SCHILY.xattr.user.note": "kept", "SCHILY.xattr.security.capability": "\x01\x00",
           "SCHILY.xattr.trusted.overlay.redirect": "/etc", "SCHILY.xattr.user.overlay.redirect": "/etc",
           "SCHILY.xattr.user.overlay.opaque": "y"}
    layer = Layer(entry("f", "x", pax_headers=pax), entry("d/", pax_headers=pax))
    images.write_layout(tmp_path / "img", (Image(layer), None))
    out = json.loads(ok(ward("template", "import", f"oci:{tmp_path}/img", "--name", "x", "--json")))
    assert out["dropped_xattrs"] == 8
    (fs,) = layers_of(ward, state, "x")
    assert os.listxattr(fs / "f") == os.listxattr(fs / "d") == ["user.note"]


def test_sparse_and_empty(ward, state, tmp_path):
    sparse = tmp_path / "sparse"
    with open(sparse, "wb") as f:
        f.truncate(1 << 20)
        f.seek(1 << 19)
        f.write(b"middle")
    raw = subprocess.run(["tar", "-C", tmp_path, "--sparse", "--format=pax", "-cf", "-", "sparse"], check=True,
                         stdout=subprocess.PIPE).stdout
    images.write_layout(tmp_path / "img", (Image(Layer(raw=raw), Layer(raw=b"\0" * 1024), Layer(raw=b"")), None))
    ok(ward("template", "import", f"oci:{tmp_path}/img", "--name", "s"))
    assert (layers_of(ward, state, "s")[-1] / "sparse").read_bytes() == sparse.read_bytes()


@needs_root
def test_ordinary_user(ward, state, tmp_path):
    """Whiteouts and opaque folders without any privilege, used by an overlay in a user namespace."""
    low = Layer(entry("a", "a"), entry("gone", "g"), entry("d/"), entry("d/old", "o"),
                entry("owned", "x", uid=1000000, gid=5), entry("closed/", mode=0o555), entry("closed/f", "f", mode=0))
    high = Layer(entry(".wh.gone", ""), entry("d/"), entry("d/.wh..wh..opq", ""), entry("d/new", "n"))
    images.write_layout(tmp_path / "img", (Image(low, high), None))
    home = pathlib.Path(subprocess.run(["mktemp", "-d", "/tmp/ward-user-XXXXXX"], check=True, text=True,
                                       stdout=subprocess.PIPE).stdout.strip())
    try:
        for name in ["ward", "ward-full"]:  # the tree that was built in may be closed to others
            subprocess.run(["install", "-m", "755", pathlib.Path(ward.binary).parent / name, home], check=True)
        subprocess.run(["cp", "-r", tmp_path / "img", home / "img"], check=True)
        subprocess.run(["chown", "-R", f"{NOBODY}:{NOBODY}", home], check=True)
        mine = home / "state"

        def user(*args):
            return subprocess.run(args, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True,
                                  env={"PATH": os.environ["PATH"], "HOME": str(home)}, timeout=60)

        ok(user(home / "ward", "--state-dir", mine, "template", "import", f"oci:{home}/img", "--name", "u"))
        top, bottom = [mine / "layers" / l.split("=")[1].strip() / "fs"
                       for l in (mine / "templates/u/template").read_text().splitlines() if l.startswith("layer=")]
        assert (top / "gone").is_char_device() and (top / "gone").stat().st_rdev == 0
        assert os.listxattr(top / "d") == ["user.overlay.opaque"]
        assert (bottom / "owned").stat().st_uid == NOBODY
        for folder in ["m", "up", "work"]:
            os.mkdir(home / folder)
            os.chown(home / folder, NOBODY, NOBODY)
        show = user("unshare", "-Urm", "sh", "-c", f"mount -t overlay o -o userxattr,lowerdir={top}:{bottom},"
                    f"upperdir={home}/up,workdir={home}/work {home}/m && ls {home}/m {home}/m/d")
        assert ok(show).split() == [f"{home}/m:", "a", "closed", "d", "owned", f"{home}/m/d:", "new"]
        # Another user's layers look different: refused, not mixed.
        mixed = subprocess.run([home / "ward", "--state-dir", mine, "template", "import", f"oci:{home}/img"],
                               capture_output=True, text=True)
        assert mixed.returncode == 125 and "an ordinary user" in mixed.stderr
        ok(user(home / "ward", "--state-dir", mine, "template", "rm", "u"))
        assert leftovers(mine) == []
    finally:
        subprocess.run(["rm", "-rf", home], check=True)


# What is refused.

def pax(name, **headers):
    return entry(name, "x", pax_headers=headers)


def nul_gnu():
    """A GNU long name that goes on after a NUL."""
    long = tarfile.TarInfo("././@LongLink")
    long.type, data = b"L", b"a/b\0/../../c\0"
    long.size = len(data)
    out = long.tobuf(tarfile.USTAR_FORMAT) + data.ljust(512, b"\0")
    return out + tarfile.TarInfo("a").tobuf(tarfile.USTAR_FORMAT) + b"\0" * 1024


def nul_pax():
    """tarfile cannot write it, so a name of the same length is changed afterwards."""
    return images.tar(pax("x", path="evilZ/../../x")).replace(b"evilZ/", b"evil\0/")


def truncated():
    return images.tar(entry("f", "x" * 5000))[:3000]


HOSTILE = {
    "absolute path": ([entry("/etc/x", "x")], "'/etc/x'", "absolute"),
    "dot dot": ([entry("a/../../x", "x")], "'a/../../x'", "leads out"),
    "dot dot alone": ([entry("..")], "'..'", "leads out"),
    "dot dot in a pax path": ([pax("x", path="a/../../x")], "leads out"),
    "empty name": ([entry("", "x")], "name is empty"),
    "root as a file": ([entry(".", "x")], "root"),
    "long part": ([entry("a/" + "x" * 256, "x")], "255 bytes"),
    "long path": ([entry("/".join(["y" * 200] * 21), "x")], "4095 bytes"),
    "deep path": ([entry("/".join(["d"] * 300), "x")], "256 folders deep"),
    "nul in a pax path": (nul_pax, "NUL"),
    "nul in a gnu name": (nul_gnu, "NUL"),
    "name that is no UTF-8": (lambda: images.tar(pax("x", path="ab\u00e9")).replace(b"ab\xc3\xa9", b"ab\xff\xfe"),
                              "entry number 1", "UTF-8"),
    "newline in a name": ([entry("a\nb/../c", "x")], "a\\x0ab"),
    "hard link out, absolute": ([hardlink("h", "/etc/passwd")], "'h'", "absolute"),
    "hard link out, dot dot": ([hardlink("h", "../../etc/passwd")], "leads out"),
    "hard link out, through a link": ([symlink("l", "/etc"), hardlink("h", "l/passwd")], "not in the layer"),
    "hard link to nothing": ([hardlink("h", "nothing")], "not in the layer"),
    "hard link to a folder": ([entry("d/"), hardlink("h", "d")], "no file"),
    "hard link to a whiteout": ([entry(".wh.w", ""), hardlink("h", "w")], "no file"),
    "hard link to itself": ([entry("h", "x"), hardlink("h", "h")], "itself"),
    "through a link": ([symlink("l", "/tmp"), entry("l/x", "x")], "'l/x'", "through the link 'l'"),
    "through a link, deeper": ([entry("a/"), symlink("a/l", "../.."), entry("a/l/b/x", "x")], "through the link 'a/l'"),
    "folder through a link": ([symlink("l", "/tmp"), entry("l/d/")], "through the link"),
    "whiteout through a link": ([symlink("l", "/tmp"), entry("l/.wh.x", "")], "through the link"),
    "opaque through a link": ([symlink("l", "/tmp"), entry("l/.wh..wh..opq", "")], "through the link"),
    "folder over a link": ([symlink("l", "/tmp"), entry("l/")], "something else of that name"),
    "file over a folder": ([entry("d/"), entry("d", "x")], "folder of that name"),
    "link over a folder": ([entry("d/"), entry("d/x", "x"), symlink("d", "/tmp")], "folder of that name"),
    "folder over a file": ([entry("f", "x"), entry("f/")], "something else of that name"),
    "through a file": ([entry("f", "x"), entry("f/x", "x")], "no folder"),
    "character device": ([entry("null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)], "'null'", "device"),
    "block device": ([entry("sda", type=tarfile.BLKTYPE, devmajor=8, devminor=0)], "device"),
    "whiteout as a device": ([entry("w", type=tarfile.CHRTYPE, devmajor=0, devminor=0)], "device"),
    "whiteout of nothing": ([entry(".wh.", "")], "names nothing"),
    "whiteout of dot dot": ([entry("d/.wh...", "")], "names nothing"),
    "whiteout that is a folder": ([entry(".wh.x/")], "plain file"),
    "file in a whiteout": ([entry(".wh.x/y", "")], "deletion"),
    "other aufs mark": ([entry(".wh..wh.plnk", "")], "names nothing"),
    "cut short": (truncated, "layer 1 of 1"),
    "no tar": (lambda: b"this is no tar at all " * 100, "layer 1 of 1"),
    "empty link": ([symlink("l", "")], "target"),
}


@pytest.mark.parametrize("case", HOSTILE, ids=lambda c: c.replace(" ", "-"))
def test_hostile_layers(ward, state, tmp_path, case):
    what, *words = HOSTILE[case]
    layer = Layer(raw=what()) if callable(what) else Layer(*what)
    images.write_layout(tmp_path / "img", (Image(layer), None))
    canary = set(os.listdir("/tmp")) | set(os.listdir(tmp_path))
    refused(ward("template", "import", f"oci:{tmp_path}/img"), state, "image 'oci:", "layer 1 of 1 (sha256:", *words)
    assert not any(n in ("x", "d", ".wh.x") for n in set(os.listdir("/tmp")) - canary)


@needs_root
def test_ids_beyond_a_sandbox(ward, state, tmp_path):
    for field in [{"uid": 65536}, {"gid": 65536}, {"uid": 1 << 40}]:
        images.write_layout(tmp_path / "img", (Image(Layer(entry("f", "x", **field))), None))
        refused(ward("template", "import", f"oci:{tmp_path}/img"), state, "'f'", "0 to 65535")


def test_sizes(ward, state, tmp_path):
    images.write_layout(tmp_path / "img", (Image(Layer(entry("f", "x" * 5000)), Layer(entry("g", "y" * 5000))), None))
    word = f"oci:{tmp_path}/img"
    refused(ward("template", "import", word, "--max-size", "4k"), state, "layer 1 of 2", "--max-size")
    refused(ward("template", "import", word, "--max-size", "12k"), state, "layer 2 of 2", "--max-size")
    for bad in ["0", "x", "-1", "2048T"]:
        refused(ward("template", "import", word, "--max-size", bad), state, "--max-size", bad)
    ok(ward("template", "import", word, "--max-size", "1M"))


def test_claimed_sizes(ward, state, tmp_path):
    """A header that promises a terabyte is refused when it is read, not when the disk is full."""
    info = tarfile.TarInfo("huge")
    info.size = 1 << 42
    images.write_layout(tmp_path / "a", (Image(Layer(raw=info.tobuf(tarfile.GNU_FORMAT) + b"x" * 10240)), None))
    refused(ward("template", "import", f"oci:{tmp_path}/a"), state, "'huge'", "--max-size")
    # The same with a sparse file: next to no data, but a size.
    raw = images.tar(entry("s", "0\n" .ljust(512, "\0"), pax_headers={
        "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "s", "GNU.sparse.realsize": str(1 << 42)}))
    images.write_layout(tmp_path / "b", (Image(Layer(raw=raw)), None))
    refused(ward("template", "import", f"oci:{tmp_path}/b"), state, "--max-size")


def test_bomb(ward, state, tmp_path):
    bomb = Layer(entry("zeros", b"\0" * (64 << 20)))
    assert len(bomb.blob) < 100000
    images.write_layout(tmp_path / "img", (Image(bomb), None))
    refused(ward("template", "import", f"oci:{tmp_path}/img", "--max-size", "1M"), state, "--max-size")
    # Compressed twice: the reader would go on unwrapping.
    twice = Layer(entry("f", "x"))
    twice.blob = __import__("gzip").compress(twice.blob)
    images.write_layout(tmp_path / "twice", (Image(twice), None))
    refused(ward("template", "import", f"oci:{tmp_path}/twice"), state, "more than once")


def test_long_headers(ward, state, tmp_path):
    layer = Layer(entry("f", "x", pax_headers={"comment": "c" * (2 << 20)}))
    images.write_layout(tmp_path / "img", (Image(layer), None))
    refused(ward("template", "import", f"oci:{tmp_path}/img"), state, "headers")


def broken(image, **parts):
    for key, value in parts.items():
        setattr(image, key, value)
    return image


def config_with(**parts):
    image = small()
    image.config = json.dumps({**json.loads(image.config), **parts}).encode()
    image.manifest = json.dumps({**image.document, "config": {
        "mediaType": images.CONFIG, "digest": sha(image.config), "size": len(image.config)}}).encode()
    return image


def document_with(**parts):
    return small(manifest=parts)


DOCUMENTS = {
    "no JSON": (lambda: broken(small(), manifest=b"{nonsense"), "no JSON"),
    "no object": (lambda: broken(small(), manifest=b"[]"), "schema version"),
    "schema 1": (lambda: document_with(schemaVersion=1), "schema version"),
    "double key": (lambda: broken(small(), manifest=b'{"schemaVersion":2,"schemaVersion":2}'), "no JSON"),
    "unknown type": (lambda: document_with(mediaType="application/x\n"), "'application/x\\x0a'"),
    "no layers": (lambda: document_with(layers=[]), "no layers"),
    "many layers": (lambda: document_with(layers=[{}] * 129), "129 layers"),
    "unknown layer type": (lambda: document_with(layers=[{"mediaType": "text/plain"}]), "'text/plain'"),
    "bad layer digest": (lambda: document_with(layers=[{**small().layers[0].descriptor(), "digest": "sha256:../x"}]),
                         "sha256:../x"),
    "other hash": (lambda: document_with(layers=[{**small().layers[0].descriptor(), "digest": "sha512:" + "0" * 128}]),
                   "not a sha256"),
    "negative size": (lambda: document_with(layers=[{**small().layers[0].descriptor(), "size": -1}]), "no size"),
    "no config": (lambda: document_with(config={}), "no image that can run"),
    "huge config": (lambda: document_with(config={"mediaType": images.CONFIG, "digest": "sha256:" + "0" * 64,
                                                  "size": 9 << 20}), "8388608 bytes"),
    "other machine": (lambda: config_with(architecture="s390x"), "linux/s390x"),
    "other system": (lambda: config_with(os="windows"), "windows/"),
    "diff ids missing": (lambda: config_with(rootfs={}), "lists 0 layers"),
    "bad diff id": (lambda: config_with(rootfs={"diff_ids": ["sha256:zz"]}), "sha256:zz"),
    "wrong diff id": (lambda: config_with(rootfs={"diff_ids": ["sha256:" + "1" * 64]}), "sha256:111", "promises"),
    "bad env": (lambda: config_with(config={"Env": ["NOTHING"]}), "Env"),
    "env no list": (lambda: config_with(config={"Env": "A=1"}), "Env"),
    "env with a NUL": (lambda: config_with(config={"Env": ["A=\0"]}), "no JSON"),
    "much env": (lambda: config_with(config={"Env": ["A=1"] * 2000}), "Env"),
    "relative workdir": (lambda: config_with(config={"WorkingDir": "x/y"}), "WorkingDir"),
}


@pytest.mark.parametrize("case", DOCUMENTS, ids=lambda c: c.replace(" ", "-"))
def test_hostile_documents(ward, state, tmp_path, case):
    make, *words = DOCUMENTS[case]
    images.write_layout(tmp_path / "img", (make(), None))
    refused(ward("template", "import", f"oci:{tmp_path}/img"), state, *words)


def test_indexes_without_end(ward, state, tmp_path):
    image = small()
    for _ in range(8):
        image = Index((image, None))
    images.write_layout(tmp_path / "img", (image, None))
    refused(ward("template", "import", f"oci:{tmp_path}/img"), state, "one inside the other")


def test_layout_that_lies(ward, state, tmp_path):
    image = small()
    blob = tmp_path / "img/blobs/sha256" / sha(image.layers[0].blob)[7:]
    for change, word in [(lambda b: b[:-1] + b"?", "digest"), (lambda b: b + b"x", "more"), (lambda b: b[:-1], "fewer")]:
        images.write_layout(tmp_path / "img", (image, None))
        blob.write_bytes(change(blob.read_bytes()))
        refused(ward("template", "import", f"oci:{tmp_path}/img"), state, "layer 1 of 1", word)
    blob.unlink()
    refused(ward("template", "import", f"oci:{tmp_path}/img"), state, "No such file")
    blob.symlink_to("/etc/passwd")
    refused(ward("template", "import", f"oci:{tmp_path}/img"), state, "layer 1 of 1")
    (tmp_path / "junk").write_bytes(b"junk" * 1000)
    refused(ward("template", "import", f"oci:{tmp_path}/junk"), state, "tar")
    images.write_tar(tmp_path / "other.tar", {"a": b"b"})
    refused(ward("template", "import", f"oci:{tmp_path}/other.tar"), state, "neither index.json nor manifest.json")


def test_docker_save_that_lies(ward, state, tmp_path):
    """Names in manifest.json are names in the archive and never paths."""
    for name in ["/etc/passwd", "../../../etc/passwd", "loop"]:
        config = json.dumps([{"Config": name, "RepoTags": ["x:1"], "Layers": ["l"]}]).encode()
        images.write_tar(tmp_path / "s.tar", {"manifest.json": config},
                         links=[("loop", "loop"), ("l", "/etc/passwd")])
        refused(ward("template", "import", f"oci:{tmp_path}/s.tar"), state, "its part")


# A registry that misbehaves.

@pytest.fixture
def fake():
    with registries.Fake() as f:
        yield f


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
    with stuck(fake, image) as reached:
        p = start(ward, state, "template", "import", f"{fake.host}/x:1")
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
    import fcntl
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
    (["--run", "true"], "'--run' is not an option"),
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


def test_archive_with_too_much(ward, state, tmp_path):
    images.write_tar(tmp_path / "many.tar", {f"f{i}": b"" for i in range(5000)})
    refused(ward("template", "import", f"oci:{tmp_path}/many.tar"), state, "4096 members")
    images.write_tar(tmp_path / "big.tar", {"f": b"x" * 100000})
    refused(ward("template", "import", f"oci:{tmp_path}/big.tar", "--max-size", "10k"), state, "--max-size")
