"""The commands that are compared: how each peer runs one program in a sandbox, at its fastest."""
import json
import os
import pathlib
import shutil
import subprocess

IDS = {"containerID": 0, "hostID": 100000, "size": 65536}
NAMESPACES = ("user", "mount", "pid", "network", "ipc", "uts", "cgroup")


class Row:
    """One command of the table. @refuses says why it cannot run here, when it cannot."""

    def __init__(self, name, argv, peer=True):
        self.name, self.argv, self.peer, self.refuses = name, [str(a) for a in argv], peer, None

    def probe(self):
        done = subprocess.run(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=60)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            self.refuses = said[-1] if said else f"exit status {done.returncode}"
        return self


def bundle(place, program):
    """An OCI bundle: the host's /usr read-only, every namespace, no filter, no devices."""
    root = place / "rootfs"
    for d in ("usr", "proc", "dev", "tmp"):
        (root / d).mkdir(parents=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        if pathlib.Path("/", link).is_symlink():
            (root / link).symlink_to(f"usr/{link}")
    place.chmod(0o755)
    spec = {
        "ociVersion": "1.0.0",
        "process": {"terminal": False, "user": {"uid": 0, "gid": 0}, "args": list(program), "cwd": "/", "noNewPrivileges": True,
                    "env": ["PATH=/usr/bin:/bin"], "capabilities": {k: [] for k in ("bounding", "effective", "permitted")}},
        "root": {"path": "rootfs", "readonly": True},
        "hostname": "bench",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=64k"]},
            {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
        ],
        "linux": {"namespaces": [{"type": n} for n in NAMESPACES], "uidMappings": [IDS], "gidMappings": [IDS]},
    }
    (place / "config.json").write_text(json.dumps(spec))
    return place


def oci_rows(place, label, program):
    rows = []
    for name, options in (("runc", ()), ("crun", ()), ("crun, no cgroup", ("--cgroup-manager=disabled",))):
        runtime = shutil.which(name.split(",")[0], path=os.environ["PATH"] + ":/usr/sbin")
        if runtime:
            folder = place / f"{name.replace(', ', '-').replace(' ', '-')}-{label}"
            argv = [runtime, "--root", place / "run", *options, "run", "--bundle", bundle(folder, program), f"bench-{folder.name}"]
            rows.append(Row(name, argv))
    return rows


def docker_row(program):
    """docker runs an image: one is made from the host's own files, for this benchmark only."""
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "version"], capture_output=True).returncode:
        return []
    tar = subprocess.Popen(["tar", "-C", "/", "-c", "--dereference", "bin/true", "usr/bin/python3", "lib64/ld-linux-x86-64.so.2",
                            "lib/x86_64-linux-gnu/libc.so.6"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    made = subprocess.run([docker, "import", "-", "ward-bench"], stdin=tar.stdout, capture_output=True)
    tar.wait()
    if made.returncode:
        return []
    return [Row("docker", [docker, "run", "--rm", "--network", "none", "ward-bench", *program])]


def rows(ward, state, place, program):
    label = pathlib.Path(program[0]).name
    run = [ward, "--state-dir", state, "run", "--quiet"]
    found = [
        Row("fork + exec", program),
        Row("ward", [*run, "--tier", "container", "--", *program], peer=False),
        Row("ward, loopback", [*run, "--tier", "container", "--net", "loopback", "--", *program], peer=False),
        Row("ward, workspace", [*run, "--tier", "workspace", "--", *program], peer=False),
        Row("ward, kernel", [*run, "--tier", "kernel", "--", *program], peer=False),
    ]
    runsc = shutil.which("runsc")
    if runsc:
        found.append(Row("runsc", [runsc, "--platform=ptrace", "--network=none", "--ignore-cgroups", "do", *program]))
    bwrap = shutil.which("bwrap")
    if bwrap:
        found.append(Row("bubblewrap", [bwrap, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all",
                                        "--die-with-parent", *program]))
    found += oci_rows(place, label, program)
    if label == "true":
        found += docker_row(program)
    return [row.probe() for row in found]


def versions(ward):
    asked = {"ward": [ward, "version"], "bubblewrap": ["bwrap", "--version"], "runc": ["/usr/sbin/runc", "--version"],
             "crun": ["crun", "--version"], "runsc": ["runsc", "--version"],
             "docker": ["docker", "version", "--format", "{{.Server.Version}}"]}
    found = {}
    for name, argv in asked.items():
        if shutil.which(str(argv[0])):
            done = subprocess.run([str(a) for a in argv], capture_output=True, text=True)
            found[name] = done.stdout.splitlines()[0] if done.returncode == 0 and done.stdout else None
    return found
