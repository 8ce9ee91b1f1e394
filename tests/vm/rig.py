#!/usr/bin/python3
"""Runs the vm tier where the machine has no hardware virtualization: in an emulated one.

    tests/vm/rig.py [--build DIR] [--quick] [--kernel VMLINUX [--no-acpi]] [CASE...]
    tests/vm/rig.py --fetch

An emulator plays a computer with AMD's virtualization (L1): Debian's kernel for clouds, a few programs,
ward. In it, each case of tests/vm/cases runs with real KVM, all in one machine; --quick leaves out those
whose first line says "# slow"; the guests' kernel is Debian's too, or VMLINUX. Prints a line per case; the last line is "N passed, N failed". A case that
fails is tried again, twice at most, in a fresh machine, and told by name.

The machine is made below DIR/vmrig. The packages are kept in ~/.cache/ward/vmrig (--fetch only gets them),
so a second run needs no network.
"""
import argparse
import ctypes
import glob
import mmap
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PACKAGE = "linux-image-cloud-amd64"
L1_MODULES = ["virt/lib/irqbypass.ko", "arch/x86/kvm/kvm.ko", "arch/x86/kvm/kvm-amd.ko", "drivers/net/tun.ko"]
# From this machine, with the libraries that they need.
PROGRAMS = ["/bin/dash", "/usr/bin/du", "/usr/bin/find", "/usr/bin/mawk", "/usr/bin/truncate", "/usr/bin/wc", "/usr/sbin/mkfs.ext4"]
INSIDE = ("sh cat ls echo id uname ps head sleep true false wc seq env hostname mount cut df dd nproc free yes grep kill tr "
          "ifconfig route ping wget httpd sha256sum").split()
SECONDS_MAX = 1700  # both tries together, beside other suites; nothing that works takes half of it
CASE_SECONDS_MAX = 300
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "ward" / "vmrig"

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
for c in /cases/*.sh; do
	name=${c##*/}; name=${name%.sh}
	busybox timeout -s KILL CASE_SECONDS_MAX sh /cases/one $c > /tmp/out 2>&1 < /dev/null; status=$?
	if [ $status = 0 ]; then echo "case ok $name"; continue; fi
	echo "case FAILED $name"
	busybox sed 's/^/    /' /tmp/out
	if [ $status = 137 ]; then
		echo "    no end after CASE_SECONDS_MAX s; what runs:"; busybox ps -o pid,ppid,stat,args | busybox grep -v '\[' | busybox sed 's/^/    /'
		busybox dmesg | busybox tail -20 | busybox sed 's/^/    /'
	fi
	# What it left behind is no business of the next one.
	for p in $(busybox pidof ward); do kill -9 $p; done; ward gc > /dev/null 2>&1
done
echo "all cases are over"
busybox poweroff -f
""".replace("CASE_SECONDS_MAX", str(CASE_SECONDS_MAX))

# One case; what it says and how it ends is the verdict.
ONE = r"""WARD_STATE_DIR=/var/lib/ward; export WARD_STATE_DIR
VM="ward run --tier vm --template dir:/tpl --memory 192M --cpus 1"
failed=0
fail() { echo "$*"; failed=1; }
is() { [ "$1" = "$2" ] || fail "got '$1', wanted '$2'"; }
# $1 tries, a second apart, until the command after it succeeds.
within() { n=$1; shift; while ! "$@"; do n=$((n - 1)); [ $n -gt 0 ] || return 1; busybox sleep 1; done; }
no_slot() { [ -z "$(busybox ls /var/lib/ward/slots 2>/dev/null)" ]; }
no_cgroup() { ! busybox find /sys/fs/cgroup/ward -mindepth 1 -type d 2>/dev/null | busybox grep -q .; }
cause() { busybox grep -q "\"cause\":\"$1\"" /tmp/j || fail "cause is not $1: $(busybox cat /tmp/j)"; }
. $1
within 20 no_slot || fail "a slot is left"
within 20 no_cgroup || fail "a cgroup is left"
exit $failed
"""


def run(*argv, **options):
    done = subprocess.run([str(a) for a in argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    if done.returncode != 0:
        sys.exit(f"vm rig: {' '.join(map(str, argv))}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def download(to):
    """Debian's kernel and a static busybox, as apt has them; the lists are renewed when they are not there or too old."""
    for renewed in False, True:
        if renewed:
            run("apt-get", "update", "-qq")
        depends = subprocess.run(["apt-cache", "depends", PACKAGE], text=True, capture_output=True)
        kernel = re.search(r"Depends: (linux-image-\S+)", depends.stdout)
        if kernel and subprocess.run(["apt-get", "download", "-qq", kernel[1], "busybox-static"], cwd=to, capture_output=True).returncode == 0:
            return
    sys.exit(f"vm rig: {PACKAGE} and busybox-static could not be downloaded with apt-get")


def fetch():
    """The packages, unpacked and never installed."""
    done = CACHE / "x"
    if done.exists():
        return done
    CACHE.mkdir(parents=True, exist_ok=True)
    part = CACHE / f"part.{os.getpid()}"
    part.mkdir()
    try:
        download(part)
        for deb in part.glob("*.deb"):
            run("dpkg-deb", "-x", deb, part / "x")
        version = os.path.basename(glob.glob(str(part / "x/lib/modules/*"))[0])
        run("/sbin/depmod", "-b", part / "x", version)
        if not done.exists():
            (part / "x").rename(done)
    finally:
        shutil.rmtree(part)
    return done


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


def make_l1(work, build, packages, guest, cases, script=ALL):
    """The machine's files; it runs @script."""
    top = work / "l1"
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
    for name in ["ward", "ward-init", "ward-agent", "tests/vm/vm-snap", "tests/vm/vm-vsock"]:
        shutil.copy(build / name, top / "ward")
    if any("ward serve" in case.read_text() for case in cases):
        copy_program(build / "ward-full", top)
        (top / "usr/bin/ward-full").rename(top / "ward/ward-full")
    version = os.path.basename(glob.glob(str(packages / "lib/modules/*"))[0])
    modules = packages / "lib/modules" / version
    for m in L1_MODULES:
        shutil.copy(modules / "kernel" / m, top / "m")
    # The guests' kernel is the same one if none was given; this machine cannot try it.
    guest = guest or ["--modules", modules, packages / "boot" / f"vmlinuz-{version}"]
    run(build / "ward", "--state-dir", top / "var/lib/ward", "kernel", "use", "--untested", "--no-xsave", *guest)
    make_template(top / "tpl", busybox)
    shutil.copy(build / "tests/vm/vm-vsock", top / "tpl/bin")
    for case in cases:
        shutil.copy(case, top / "cases")
    (top / "cases/all").write_text(script)
    (top / "cases/one").write_text(ONE)
    (top / "init").write_text(INIT)
    (top / "init").chmod(0o755)
    with open(work / "l1.cpio", "wb") as out:
        names = run("find", ".", cwd=top)
        subprocess.run(["cpio", "-o", "-H", "newc", "-R", "0:0", "--quiet"], cwd=top, input=names.encode(), stdout=out, check=True)
    return packages / "boot" / f"vmlinuz-{version}"


def tsc_khz():
    """How fast this processor's counter runs, which is the emulated one's too. A kernel that has to find that out for itself while
    others take the processor away gets it wrong now and then, and its clock with it: four times too fast was seen."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(bytes.fromhex("0f31 48c1e220 4809d0 c3"))  # rdtsc; shl rdx,32; or rax,rdx; ret
    count = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))

    def both():
        """Ticks and nanoseconds of one moment."""
        before, ticks, after = min(((time.monotonic_ns(), count(), time.monotonic_ns()) for _ in range(20)), key=lambda t: t[2] - t[0])
        return ticks, (before + after) / 2

    first = both()
    time.sleep(0.3)
    last = both()
    return round((last[0] - first[0]) * 1000000 / (last[1] - first[1]))


class Machine:
    """The emulated computer. It ends with its script, when nobody has said go_on() for `patience` seconds, when the block that it
    was made for is left, however that happens, and with this process."""

    def __init__(self, work, kernel, mib=2600):
        # A processor that others take away for a while must not look like a broken timer or clock.
        calm = f"no_timer_check tsc=reliable tsc_early_khz={tsc_khz()} nowatchdog rcupdate.rcu_cpu_stall_suppress=1"
        self.argv = ["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64", "-M", "q35,accel=tcg", "-cpu", "EPYC,+svm", "-smp", "2",
                     "-m", mib, "-nographic", "-nodefaults", "-serial", "stdio", "-no-reboot", "-kernel", kernel,
                     "-initrd", work / "l1.cpio", "-append", f"console=ttyS0 quiet panic=-1 mitigations=off {calm}"]
        self.log_path, self.timer = work / "console", None

    def __enter__(self):
        self.log = open(self.log_path, "w", buffering=1)
        self.qemu = subprocess.Popen([str(a) for a in self.argv], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        if self.timer:
            self.timer.cancel()
        self.qemu.kill()
        self.qemu.wait()
        self.qemu.stdout.close()
        self.log.close()

    def go_on(self, patience):
        if self.timer:
            self.timer.cancel()
        self.timer = threading.Timer(max(patience, 1), self.qemu.kill)
        self.timer.daemon = True
        self.timer.start()

    def lines(self):
        for raw in self.qemu.stdout:
            line = raw.decode(errors="replace").rstrip().rsplit("\x1b[2J", 1)[-1]  # the firmware clears the screen, without a newline
            self.log.write(line + "\n")
            yield line


def boot(work, kernel, seconds):
    """Runs the machine; the set of cases that passed."""
    passed, said, name, began = set(), set(), None, time.monotonic()
    end = time.monotonic() + seconds
    with Machine(work, kernel) as machine:
        machine.go_on(min(CASE_SECONDS_MAX + 60, seconds))
        for line in machine.lines():
            found = re.match(r"case (ok|FAILED) (\S+)", line)
            if found:
                name = found[2]
                print(f"{found[1]:6} {name:16} {time.monotonic() - began:6.1f} s", flush=True)
                began = time.monotonic()
                # One that hangs must leave time for another.
                machine.go_on(min(CASE_SECONDS_MAX + 60, end - began))
                (passed if found[1] == "ok" else said).add(name)
            elif name in said and line.startswith("    "):
                print(line, flush=True)
    return passed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build", type=pathlib.Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--kernel", type=pathlib.Path)
    parser.add_argument("--no-acpi", action="store_true")
    parser.add_argument("--fetch", action="store_true")
    parser.add_argument("cases", nargs="*")
    args = parser.parse_args()
    for program in ["qemu-system-x86_64", "cpio", "dpkg-deb", "apt-get"]:
        if not shutil.which(program):
            sys.exit(f"vm rig: {program} is not here: tools/setup rig installs it")
    packages = fetch()
    if args.fetch:
        return 0
    work = args.build.resolve() / "vmrig"
    work.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + SECONDS_MAX
    cases = {c.stem: c for c in sorted((HERE / "cases").glob("*.sh"))
             if (c.stem in args.cases if args.cases else not (args.quick and c.read_text().startswith("# slow")))}
    unknown = set(args.cases) - set(cases)
    if unknown or not cases:
        sys.exit(f"vm rig: there is no case {', '.join(sorted(unknown)) or 'at all'} in tests/vm/cases")
    guest = [*(["--no-acpi"] if args.no_acpi else []), args.kernel] if args.kernel else []
    failed = sorted(cases)
    for again in False, True, True:
        if again:
            print(f"trying again: {' '.join(failed)}")
        kernel = make_l1(work, args.build.resolve(), packages, guest, [cases[name] for name in failed])
        passed = boot(work, kernel, end - time.monotonic())
        for name in sorted(passed) if again else ():
            print(f"failed once, passed when run again: {name}")
        failed = sorted(set(failed) - passed)
        if not failed or time.monotonic() > end:
            break
    if failed:
        print(f"vm rig: not passed: {' '.join(failed)}; the machine's console is {work / 'console'}")
    print(f"{len(cases) - len(failed)} passed, {len(failed)} failed")
    return bool(failed)


def heed_signals():
    """An end by signal is an end like others: the machine goes first."""
    for which in signal.SIGHUP, signal.SIGINT, signal.SIGTERM:
        signal.signal(which, lambda number, _: sys.exit(128 + number))


if __name__ == "__main__":
    heed_signals()
    sys.exit(main())
