#!/usr/bin/python3
"""Runs the vm tier where the machine has no hardware virtualization: in an emulated one.

    tests/vm/rig.py [--build DIR] [--keep] [CASE...]

An emulator plays a computer with AMD's virtualization (L1): Debian's kernel for clouds, a few programs,
ward. In it, each case of tests/vm/cases runs with real KVM. Everything is made below DIR/vmrig and
kept for the next time. Prints a line per case; the last line is "N passed, N failed".
"""
import argparse
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = "linux-image-cloud-amd64"
L1_MODULES = ["virt/lib/irqbypass.ko", "arch/x86/kvm/kvm.ko", "arch/x86/kvm/kvm-amd.ko", "drivers/net/tun.ko"]
# From this machine, with the libraries that they need.
PROGRAMS = ["/bin/dash", "/usr/bin/du", "/usr/bin/find", "/usr/bin/mawk", "/usr/bin/truncate", "/usr/bin/wc", "/usr/sbin/mkfs.ext4"]
INSIDE = "sh cat ls echo id uname ps head sleep true false wc seq env hostname mount df dd nproc free yes grep kill tr cut ifconfig route ping wget httpd sha256sum".split()
SECONDS_MAX = 600

INIT = r"""#!/bin/busybox sh
export PATH=/usr/bin:/bin:/usr/sbin:/ward
busybox mount -t proc p /proc; busybox mount -t sysfs s /sys; busybox mount -t devtmpfs d /dev
busybox mkdir /new; busybox mount -t tmpfs -o size=1200m t /new
for d in bin lib lib64 usr var etc root tpl ward cases m; do [ -d /$d ] && busybox cp -a /$d /new/; done
for m in irqbypass kvm kvm-amd tun; do busybox insmod /m/$m.ko; done
busybox mkdir /new/proc /new/sys /new/dev /new/tmp
for d in proc sys dev; do busybox mount --move /$d /new/$d; done
busybox mount -t cgroup2 c /new/sys/fs/cgroup
echo "+memory +pids +cpu" > /new/sys/fs/cgroup/cgroup.subtree_control
cd /new; busybox mount --move . /
exec busybox chroot . /bin/busybox sh /cases/all
"""

ALL = r"""cd /; busybox mkdir -p /dev/shm; export PATH=/usr/bin:/bin:/usr/sbin:/ward
WARD_STATE_DIR=/var/lib/ward; export WARD_STATE_DIR
VM="ward run --tier vm --template dir:/tpl --memory 192M --cpus 1"
fail() { echo "    $*"; failed=1; }
is() { [ "$1" = "$2" ] || fail "got '$1', wanted '$2'"; }
left() { [ -z "$(busybox ls /var/lib/ward/slots)" ] || fail "a slot is left"; busybox find /sys/fs/cgroup/ward -mindepth 1 -type d 2>/dev/null | busybox grep -q . && fail "a cgroup is left"; }
for c in /cases/*.sh; do
	failed=0; name=${c##*/}; name=${name%.sh}
	. $c > /tmp/out 2>&1
	left >> /tmp/out
	if [ $failed = 0 ]; then echo "case ok $name"; else echo "case FAILED $name"; busybox sed 's/^/    /' /tmp/out; fi
done
echo "all cases are over"
busybox poweroff -f
"""


def run(*argv, **options):
    done = subprocess.run([str(a) for a in argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"vm rig: {' '.join(map(str, argv))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def fetch(work):
    """Debian's kernel and a static busybox, unpacked and never installed."""
    if (work / "packages").exists():
        return
    part = work / "packages.part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    kernel = re.search(r"Depends: (linux-image-\S+)", run("apt-cache", "depends", PACKAGE))
    if not kernel:
        sys.exit(f"vm rig: apt-cache knows no {PACKAGE}: run tools/setup test")
    run("apt-get", "download", kernel[1], "busybox-static", cwd=part)
    for deb in part.glob("*.deb"):
        run("dpkg-deb", "-x", deb, part / "x")
    version = os.path.basename(glob.glob(str(part / "x/lib/modules/*"))[0])
    run("/sbin/depmod", "-b", part / "x", version)
    part.rename(work / "packages")


def copy_program(path, top):
    path = pathlib.Path(path)
    to = top / "usr/bin" / path.name
    shutil.copy(path.resolve(), to)
    for lib in re.findall(r"(/\S+)", subprocess.run(["ldd", path], text=True, capture_output=True).stdout):
        target = top / lib.lstrip("/")
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(pathlib.Path(lib).resolve(), target)


def make_template(top, busybox):
    for d in ["bin", "proc", "sys", "dev", "tmp", "etc", "root", "usr/bin"]:
        (top / d).mkdir(parents=True)
    shutil.copy(busybox, top / "bin/busybox")
    for name in INSIDE:
        (top / "bin" / name).symlink_to("busybox")
    (top / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/tmp:/bin/sh\n")


def make_l1(work, build, cases):
    top, packages = work / "l1", work / "packages/x"
    shutil.rmtree(top, ignore_errors=True)
    for d in ["bin", "usr/bin", "usr/sbin", "proc", "sys", "dev", "tmp", "m", "ward", "var/lib/ward", "etc", "root", "cases"]:
        (top / d).mkdir(parents=True)
    busybox = packages / "bin/busybox"
    shutil.copy(busybox, top / "bin/busybox")
    for program in PROGRAMS:
        copy_program(program, top)
    (top / "usr/bin/sh").symlink_to("dash")
    (top / "bin/sh").symlink_to("../usr/bin/dash")
    (top / "usr/bin/awk").symlink_to("mawk")
    (top / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    for name in ["ward", "ward-init", "ward-agent"]:
        shutil.copy(build / name, top / "ward" / name)
    version = os.path.basename(glob.glob(str(packages / "lib/modules/*"))[0])
    modules = packages / "lib/modules" / version
    for m in L1_MODULES:
        shutil.copy(modules / "kernel" / m, top / "m")
    # The guests' kernel is the same one; this machine cannot try it.
    run(build / "ward", "--state-dir", top / "var/lib/ward", "kernel", "use", "--untested", "--no-xsave", "--modules", modules,
        packages / "boot" / f"vmlinuz-{version}")
    make_template(top / "tpl", busybox)
    for case in cases:
        shutil.copy(case, top / "cases")
    (top / "cases/all").write_text(ALL)
    (top / "init").write_text(INIT)
    (top / "init").chmod(0o755)
    with open(work / "l1.cpio", "wb") as out:
        names = run("find", ".", cwd=top)
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=top, input=names.encode(), stdout=out, check=True)
    return packages / "boot" / f"vmlinuz-{version}"


def boot(work, kernel):
    argv = ["nice", "-n", "10", "qemu-system-x86_64", "-M", "q35,accel=tcg", "-cpu", "EPYC,+svm", "-smp", "2", "-m", "2600",
            "-nographic", "-nodefaults", "-serial", "stdio", "-no-reboot", "-kernel", kernel, "-initrd", work / "l1.cpio",
            "-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check"]
    counts = {"ok": 0, "FAILED": 0}
    over = False
    with open(work / "console", "w") as log, subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE,
                                                              stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) as qemu:
        timer = threading.Timer(SECONDS_MAX, qemu.kill)
        timer.start()
        show = False
        for raw in qemu.stdout:
            line = raw.decode(errors="replace").rstrip()
            log.write(line + "\n")
            found = re.match(r"case (ok|FAILED) (\S+)", line)
            if found:
                counts[found[1]] += 1
                print(f"{found[1]:6} {found[2]}", flush=True)
                show = found[1] == "FAILED"
            elif show and line.startswith("    "):
                print(line, flush=True)
            over |= line == "all cases are over"
        timer.cancel()
    return counts, over


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    if not shutil.which("qemu-system-x86_64"):
        sys.exit("vm rig: qemu-system-x86_64 is not here: tools/setup rig installs it")
    work = args.build.resolve() / "vmrig"
    work.mkdir(parents=True, exist_ok=True)
    fetch(work)
    cases = sorted(c for c in (HERE / "cases").glob("*.sh") if not args.cases or c.stem in args.cases)
    kernel = make_l1(work, args.build.resolve(), cases)
    counts, over = boot(work, kernel)
    missing = len(cases) - sum(counts.values())
    if missing or not over:
        print(f"vm rig: {missing} cases never ended; see {work / 'console'}")
    print(f"{counts['ok']} passed, {counts['FAILED'] + missing} failed")
    return bool(counts["FAILED"] or missing or not over or not cases)


sys.exit(main())
