#!/usr/bin/python3
"""Boots Debian 12 with its own kernel in an emulator and runs tests there.

    tests/rig/rig.py [--full | --tests WHAT | --sh COMMAND] [VARIANT...]

Makes what it needs below build/rig: Debian's kernel package (unpacked, never installed), a root
file system, and an initramfs. What pytest said and the console are in build/rig/out-VARIANT. The
last line is "N passed, N failed".
"""
import argparse
import glob
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time
import xml.etree.ElementTree as xml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = ROOT / "build" / "rig"
SUITE = "bookworm"
KERNEL = "linux-image-cloud-amd64"
PACKAGES = ["systemd", "systemd-sysv", "libpam-systemd", "dbus", "dbus-user-session", "python3-pytest", "git", "uidmap", "e2fsprogs",
            "kmod", "procps", "libjansson4", "libarchive13", "libcurl4", "libssl3"]
BOOT_MODULES = ["virtio_pci", "virtio_blk", "ext4"]
SECONDS_MAX = 1800  # one boot; the emulator is some twenty times slower than the machine

# What the kernel is told, and what is tested there. The first is a machine as Debian installs it.
MACHINE = "tests/rig/machine"
VARIANTS = {
    "v2": ("", f"{MACHINE} tests/escape tests/e2e/test_hosts.py tests/e2e/test_limits.py"),
    "hybrid": ("systemd.unified_cgroup_hierarchy=0", MACHINE),
    "v1": ("systemd.unified_cgroup_hierarchy=0 systemd.legacy_systemd_cgroup_controller=1", MACHINE),
    "none": ("init=/rig/bare", MACHINE),
}
FULL = f"{MACHINE} tests/escape tests/e2e/test_hosts.py tests/e2e/test_limits.py tests/e2e/test_run*.py tests/e2e/test_workspace.py"


def say(text):
    print(f"rig: {text}", flush=True)


def run(*argv, **options):
    """A command that has to work; what it printed is shown when it did not."""
    done = subprocess.run([str(a) for a in argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"rig: {' '.join(map(str, argv))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def made(path, inputs, make):
    """Calls make() unless @path was already made out of the same inputs."""
    stamp = path.with_name(path.name + ".stamp")
    digest = hashlib.sha256(repr(inputs).encode()).hexdigest()
    if path.exists() and stamp.exists() and stamp.read_text() == digest:
        return path
    say(f"making {path.relative_to(ROOT)}")
    stamp.unlink(missing_ok=True)
    make()
    stamp.write_text(digest)
    return path


def kernel_package():
    found = re.search(r"Depends: (linux-image-\S+)", run("apt-cache", "depends", KERNEL))
    if not found:
        sys.exit(f"rig: the package lists have no {KERNEL}; run apt-get update")
    return found[1]


def make_kernel(package):
    folder = WORK / "kernel"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    run("apt-get", "download", "-q", package, cwd=folder)
    run("dpkg-deb", "-x", next(folder.glob("*.deb")), folder)
    version = package.removeprefix("linux-image-")
    (folder / f"boot/vmlinuz-{version}").rename(folder / "vmlinuz")
    run("depmod", "-b", folder, version)


def mirror():
    """Where apt gets this suite from, so that a local mirror is used here too."""
    for line in run("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)", "Created-By: Packages").splitlines():
        site, release = line.split()
        if release == SUITE:
            return site
    sys.exit(f"rig: no source of apt has {SUITE}")


def make_tree():
    tree = WORK / "tree"
    cache = WORK / "debs"
    shutil.rmtree(tree, ignore_errors=True)
    cache.mkdir(exist_ok=True)
    # In a mount namespace of its own: what it mounts goes away with it, also when it fails.
    run("unshare", "--mount", "debootstrap", "--variant=minbase", f"--cache-dir={cache}", "--include=" + ",".join(PACKAGES), SUITE, tree,
        mirror())


def make_image(version):
    tree, image = WORK / "tree", WORK / "root.img"
    shutil.rmtree(tree / "var/cache/apt", ignore_errors=True)
    modules = tree / "lib/modules"
    shutil.rmtree(modules, ignore_errors=True)
    shutil.copytree(WORK / "kernel/lib/modules", modules, symlinks=True)
    (tree / "rig").mkdir(exist_ok=True)
    for name in ("run", "bare"):
        shutil.copy2(HERE / "guest" / name, tree / "rig" / name)
    shutil.copy2(HERE / "guest/rig.service", tree / "etc/systemd/system/rig.service")
    wants = tree / "etc/systemd/system/default.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "rig.service").unlink(missing_ok=True)
    (wants / "rig.service").symlink_to("/etc/systemd/system/rig.service")
    (tree / "etc/fstab").write_text("")
    image.unlink(missing_ok=True)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-O", "^has_journal", "-d", tree, image, "2G")


def boot_modules(version):
    """Paths of the modules and what they need, in the order in which they load."""
    paths = []
    for name in BOOT_MODULES:
        for line in run("modprobe", "-d", WORK / "kernel", "-S", version, "--show-depends", name).splitlines():
            word = line.split()
            if word[0] == "insmod" and word[1] not in paths:
                paths.append(word[1])
    return paths


def make_initramfs(version):
    top = WORK / "initramfs"
    shutil.rmtree(top, ignore_errors=True)
    for name in ("bin", "dev", "proc", "root", "modules"):
        (top / name).mkdir(parents=True)
    shutil.copy2("/bin/busybox", top / "bin/busybox")
    shutil.copy2(HERE / "guest/init", top / "init")
    order = []
    for path in boot_modules(version):
        shutil.copy2(path, top / "modules")
        order.append(pathlib.Path(path).name)
    (top / "modules/order").write_text("".join(f"{name}\n" for name in order))
    names = run("find", ".", cwd=top)
    with open(WORK / "initramfs.cpio", "wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], input=names.encode(), stdout=out, cwd=top, check=True)


def make_disk(command):
    """The repository's tests and programs, and what to do with them."""
    disk, image = WORK / "disk", WORK / "disk.img"
    top = disk / "ward"  # not the top of a mount, which would be a place like no other
    shutil.rmtree(disk, ignore_errors=True)
    ignore = shutil.ignore_patterns("__pycache__", ".pytest_cache")
    shutil.copytree(ROOT / "tests", top / "tests", ignore=ignore)
    shutil.copy2(ROOT / "pytest.ini", top)
    (top / "build/tests/escape").mkdir(parents=True)
    for name in ("ward", "ward-full", "ward-fault", "ward-agent", "tests/escape/escape"):
        shutil.copy2(ROOT / "build" / name, top / "build" / name)
    (top / "command").write_text(command)
    image.unlink(missing_ok=True)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-O", "^has_journal", "-d", disk, image, "256M")


def boot(variant, command):
    """One machine from power-on to power-off; the folder with what it wrote."""
    append, _ = VARIANTS[variant]
    out = WORK / f"out-{variant}"
    console, results = out / "console.log", out / "results.tar"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    make_disk(command)
    with open(results, "wb") as f:
        f.truncate(64 << 20)
    drives = []
    for path, how in ((WORK / "root.img", "snapshot=on"), (WORK / "disk.img", "snapshot=on"), (results, "cache=unsafe")):
        drives += ["-drive", f"file={path},if=virtio,format=raw,{how}"]
    argv = ["nice", "-n", "15", "qemu-system-x86_64", "-M", "q35,accel=tcg", "-cpu", "max", "-smp", "2", "-m", "1536", "-nodefaults",
            "-display", "none", "-serial", f"file:{console}", "-no-reboot", "-kernel", WORK / "kernel/vmlinuz", "-initrd",
            WORK / "initramfs.cpio", "-append", f"console=ttyS0 quiet panic=-1 rig.variant={variant} {append}", *drives]
    try:
        subprocess.run([str(a) for a in argv], timeout=SECONDS_MAX, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        say(f"{variant}: no end after {SECONDS_MAX} s")
    try:
        with tarfile.open(results) as tar:
            tar.extractall(out)
    except tarfile.ReadError:
        say(f"{variant}: the machine wrote no results")
    return out


def count(out):
    """Passed, failed and skipped tests of one boot; a boot without a report failed."""
    report = out / "report.xml"
    if not report.exists():
        return 0, 1, 0
    suite = xml.parse(report).getroot().find("testsuite")
    total, skipped = int(suite.get("tests")), int(suite.get("skipped"))
    bad = int(suite.get("failures")) + int(suite.get("errors"))
    return total - bad - skipped, bad or int(total == 0), skipped


def show(path):
    if path.exists():
        print(path.read_text(errors="replace"), end="", flush=True)


def prepare():
    if os.geteuid() != 0:
        sys.exit("rig: needs root, to make a root file system with the right owners")
    WORK.mkdir(parents=True, exist_ok=True)
    package = kernel_package()
    version = package.removeprefix("linux-image-")
    guest = [(pathlib.Path(p).name, pathlib.Path(p).read_text()) for p in sorted(glob.glob(str(HERE / "guest/*"))) if os.path.isfile(p)]
    files = [f for f in guest if not f[0].endswith(".py")]
    made(WORK / "kernel", package, lambda: make_kernel(package))
    made(WORK / "tree", (SUITE, PACKAGES), make_tree)
    made(WORK / "root.img", (package, PACKAGES, files), lambda: make_image(version))
    made(WORK / "initramfs.cpio", (package, BOOT_MODULES, files), lambda: make_initramfs(version))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", nargs="*", help="of " + ", ".join(VARIANTS) + "; all of them by default")
    parser.add_argument("--full", action="store_true", help="also the end-to-end tests of both tiers; some twenty minutes a variant")
    parser.add_argument("--tests", help="what to give to pytest in the guest")
    parser.add_argument("--sh", help="a shell command to run in the guest in place of the tests")
    given = parser.parse_args()
    for name in given.variant:
        if name not in VARIANTS:
            parser.error(f"'{name}' is not a variant: {', '.join(VARIANTS)}")
    prepare()
    passed = failed = 0
    for variant in given.variant or VARIANTS:
        began = time.monotonic()
        tests = given.tests or (FULL if given.full else VARIANTS[variant][1])
        out = boot(variant, given.sh or f"exec python3 -m pytest {tests} -q --tb=short --junitxml=/run/rig/report.xml")
        if given.sh:
            show(out / "output.txt")
            continue
        good, bad, skipped = count(out)
        say(f"{variant:8}{good:4} passed {bad:3} failed {skipped:3} skipped {time.monotonic() - began:6.0f} s")
        if bad:
            show(out / "output.txt")
            say(f"the console is in {out / 'console.log'}")
        passed, failed = passed + good, failed + bad
    if not given.sh:
        print(f"{passed} passed, {failed} failed")
    return int(failed > 0 or (passed == 0 and not given.sh))


if __name__ == "__main__":
    sys.exit(main())
