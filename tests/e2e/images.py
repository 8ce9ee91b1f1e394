# SPDX-License-Identifier: Apache-2.0
"""Makes images, good and bad, and puts them where ward can find them."""
import gzip
import hashlib
import io
import json
import platform
import subprocess
import tarfile
import urllib.parse
import urllib.request

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
OCI = "application/vnd.oci.image."
DOCKER = "application/vnd.docker."
INDEX, MANIFEST, CONFIG = OCI + "index.v1+json", OCI + "manifest.v1+json", OCI + "config.v1+json"


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def entry(name, data=None, type=None, mode=None, link="", **fields):
    """One member of a tar: a file when there is data, else a folder, unless type says otherwise."""
    info = tarfile.TarInfo(name)
    info.type = type or (tarfile.REGTYPE if data is not None else tarfile.DIRTYPE)
    info.mode = mode if mode is not None else (0o755 if info.isdir() else 0o644)
    info.linkname = link
    info.mtime = 1700000000
    data = data.encode() if isinstance(data, str) else data or b""
    info.size = len(data)
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def symlink(name, target):
    return entry(name, type=tarfile.SYMTYPE, link=target, mode=0o777)


def hardlink(name, target):
    return entry(name, type=tarfile.LNKTYPE, link=target)


def tar(*entries, format=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as t:
        for info, data in entries:
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


class Layer:
    def __init__(self, *entries, raw=None, compress="gzip"):
        self.tar = raw if raw is not None else tar(*entries)
        self.diff_id = sha(self.tar)
        self.blob = {"gzip": lambda d: gzip.compress(d, mtime=0), "zstd": zstd, "": lambda d: d}[compress](self.tar)
        self.media = OCI + "layer.v1.tar" + ("+" + compress if compress else "")

    def descriptor(self):
        return {"mediaType": self.media, "digest": sha(self.blob), "size": len(self.blob)}


class Image:
    """layers: lowest first. What is given in parts overrides what would be made."""

    def __init__(self, *layers, arch=ARCH, os="linux", docker=False, config=None, manifest=None):
        self.layers, self.arch = layers, arch
        self.config = json.dumps({
            "architecture": arch, "os": os, "config": config or {},
            "rootfs": {"type": "layers", "diff_ids": [l.diff_id for l in layers]},
        }).encode()
        self.type = DOCKER + "distribution.manifest.v2+json" if docker else MANIFEST
        config_type = DOCKER + "container.image.v1+json" if docker else CONFIG
        descriptors = [l.descriptor() for l in layers]
        if docker:
            for d in descriptors:
                d["mediaType"] = DOCKER + "image.rootfs.diff.tar.gzip"
        self.document = {
            "schemaVersion": 2, "mediaType": self.type,
            "config": {"mediaType": config_type, "digest": sha(self.config), "size": len(self.config)},
            "layers": descriptors, **(manifest or {}),
        }
        self.manifest = json.dumps(self.document).encode()

    def blobs(self):
        return {sha(b): b for b in [self.config, *(l.blob for l in self.layers)]}

    def documents(self):
        return {sha(self.manifest): (self.type, self.manifest)}

    def descriptor(self, **extra):
        return {"mediaType": self.type, "digest": sha(self.manifest), "size": len(self.manifest), **extra}


class Index:
    """images: (image, platform dictionary or None)."""
    type = INDEX

    def __init__(self, *images):
        self.images = [i for i, _ in images]
        self.manifest = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
            i.descriptor(**({"platform": p} if p else {})) for i, p in images]}).encode()

    def blobs(self):
        return {k: v for i in self.images for k, v in i.blobs().items()}

    def documents(self):
        # What it names comes before it: a registry wants them in that order.
        return {**{k: v for i in self.images for k, v in i.documents().items()},
                sha(self.manifest): (INDEX, self.manifest)}

    descriptor = Image.descriptor


def layout_files(*tagged):
    """(image, tag or None)... -> {path: bytes} of an OCI image layout."""
    files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}'}
    index = {"schemaVersion": 2, "manifests": []}
    for image, tag in tagged:
        notes = {"annotations": {"org.opencontainers.image.ref.name": tag}} if tag else {}
        index["manifests"].append(image.descriptor(**notes))
        for digest, blob in [*image.blobs().items(), *((d, b) for d, (_, b) in image.documents().items())]:
            files["blobs/sha256/" + digest[7:]] = blob
    files["index.json"] = json.dumps(index).encode()
    return files


def write_layout(path, *tagged):
    for name, data in layout_files(*tagged).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


def write_tar(path, files, links=()):
    entries = [entry(n, d) for n, d in files.items()] + [symlink(n, t) for n, t in links]
    path.write_bytes(tar(*entries))
    return path


def docker_save(path, image, tags=("x:1",), doubled=False):
    """As older versions of docker wrote it: a folder and a layer.tar for each layer."""
    files, links, names = {}, [], []
    for i, layer in enumerate(image.layers):
        name = f"{i:064x}/layer.tar"
        if doubled and i and layer.diff_id == image.layers[0].diff_id:
            links.append((name, f"../{0:064x}/layer.tar"))
        else:
            files[name] = layer.tar
        names.append(name)
    config = sha(image.config)[7:] + ".json"
    files[config] = image.config
    files["manifest.json"] = json.dumps([{"Config": config, "RepoTags": list(tags), "Layers": names}]).encode()
    return write_tar(path, files, links)


def request(method, url, data=None, **headers):
    q = urllib.request.Request(url, data=data, method=method, headers={k.replace("_", "-"): v for k, v in headers.items()})
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(q, timeout=30)


def push(host, name, tag, image):
    """The push of the distribution API, by hand."""
    base = f"http://{host}/v2/{name}"
    for digest, blob in image.blobs().items():
        where = request("POST", base + "/blobs/uploads/", b"").headers["Location"]
        where = urllib.parse.urljoin(base, where)
        join = "&" if "?" in where else "?"
        request("PUT", f"{where}{join}digest={digest}", blob, Content_Type="application/octet-stream")
    for digest, (media, body) in image.documents().items():
        request("PUT", f"{base}/manifests/{digest}", body, Content_Type=media)
    request("PUT", f"{base}/manifests/{tag}", image.manifest, Content_Type=image.type)
