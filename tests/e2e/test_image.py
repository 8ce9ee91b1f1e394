# SPDX-License-Identifier: Apache-2.0
"""What an unpacked layer looks like, and what never gets in."""
import gzip
import json
import os
import pathlib
import subprocess
import tarfile

import pytest

import images
from images import Image, Index, Layer, entry, hardlink, sha, symlink
from templates import NOBODY, layers_of, leftovers, needs_root, ok, refused, small

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
    twice.blob = gzip.compress(twice.blob)
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


def test_archive_with_too_much(ward, state, tmp_path):
    images.write_tar(tmp_path / "many.tar", {f"f{i}": b"" for i in range(5000)})
    refused(ward("template", "import", f"oci:{tmp_path}/many.tar"), state, "4096 members")
    images.write_tar(tmp_path / "big.tar", {"f": b"x" * 100000})
    refused(ward("template", "import", f"oci:{tmp_path}/big.tar", "--max-size", "10k"), state, "--max-size")
