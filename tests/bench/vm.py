#!/usr/bin/python3
"""vm.py BUILD: the vm tier's monitor beside QEMU's microvm, in the machine of tests/vm/rig.py; and what a copy costs the host.

The copy first, on any /dev/kvm, with a guest that does nothing: calls of its supervisor and its monitor until the guest
runs, each and in all, from one that waits (`ward sup --ahead`) and with all made for it; more than CALLS_MAX of
tests/e2e/vmcalls.py fails. Then the rig. Both boot the same kernel with the same initramfs, in turns, in one run of an emulated computer with real
KVM: from exec until the guest resets itself; then the disk is read and the network is used both ways.
Times there are not those of hardware: what is printed for reading is the ratio. Exits of a boot are exact;
more than EXITS_MAX fails. BENCH_VM_ROUNDS boots of each (5), BENCH_VM_WORKS rounds of the rest (3). A guest that dies or
hangs in one of these is told, and its round left out: docs/design/vm.md, "What is known to be wrong". Last, in another such
computer, how long a copy takes beside a start of the same machine; more than COPY_RATIO_MAX fails.
"""
import importlib.util
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = int(os.environ.get("BENCH_VM_ROUNDS", "5"))
WORKS = int(os.environ.get("BENCH_VM_WORKS", "3"))  # rounds of disk and network, in turns
SECONDS_MAX = 2400
GUEST_SECONDS_MAX = 400  # one that hangs must leave time for the others
# Exits to the monitor of one boot of Debian's kernel with the modules below. It made 498, each time, when this was written.
EXITS_MAX = 520
MODULES = ["virtio_mmio", "virtio_blk", "virtio_net"]
ROMS = ["bios-microvm.bin", "qboot.rom", "linuxboot_dma.bin", "pvh.bin"]
MIB = 64
COPY_RATIO_MAX = 0.15

# Starts and copies in turns, each alone in the machine: tests/vm/vm_snap.c.
COPIES = r"""cd /; busybox mkdir -p /dev/shm; export PATH=/usr/bin:/bin:/usr/sbin:/ward
for cpus in 1 2; do
	echo "result cpus $cpus"; for i in $(busybox seq ROUNDS); do vm-snap /var/lib/ward /tpl 0 $cpus; done
done
busybox poweroff -f
"""

# The guest. What it does after its modules are there is the word bench= on its command line.
GUEST = r"""#!/bin/busybox sh
busybox mount -t proc p /proc; busybox mount -t devtmpfs d /dev
for m in $(busybox cat /modules); do busybox insmod /m/$m; done
now() { busybox cut -d' ' -f1 /proc/uptime; }
case "$(busybox cat /proc/cmdline)" in
*bench=work*)
	a=$(now); busybox dd if=/dev/vda of=/dev/null bs=1M 2>/dev/null; b=$(now); echo "bench block $a $b"
	busybox ifconfig eth0 10.78.0.2 netmask 255.255.255.0 up
	a=$(now); busybox nc 10.78.0.1 9001 > /dev/null; b=$(now); echo "bench in $a $b"
	a=$(now); busybox dd if=/dev/zero bs=64k count=COUNT 2>/dev/null | busybox nc 10.78.0.1 9002 > /dev/null; b=$(now); echo "bench out $a $b"
	;;
esac
busybox reboot -f
""".replace("COUNT", str(MIB * 16))

ALL = r"""cd /; export PATH=/usr/bin:/bin:/ward
now() { busybox cut -d' ' -f1 /proc/uptime; }
busybox tunctl -t btap > /dev/null; busybox ifconfig btap 10.78.0.1 netmask 255.255.255.0 up
busybox dd if=/dev/urandom of=/tmp/disk bs=1M count=MIB 2>/dev/null
line="console=ttyS0 quiet loglevel=1 panic=-1 reboot=t tsc=reliable i8042.noaux i8042.nomux i8042.dumbkbd random.trust_cpu=on"
ward_() { busybox timeout -s KILL GUEST_SECONDS_MAX vm-boot -m 256 -a -p -d /tmp/disk -t btap /k /i "$line bench=$1"; }
qemu_() { busybox timeout -s KILL GUEST_SECONDS_MAX qemu-system-x86_64 -L /roms -M microvm,accel=kvm,pit=on,pic=off,rtc=off,isa-serial=on,acpi=on -cpu host,-xsave,-avx,-avx2,-fma,-f16c -m 256 -nodefaults -no-user-config -nographic -serial stdio -no-reboot -kernel /k -initrd /i -append "$line bench=$1" -drive id=d,file=/tmp/disk,format=raw,if=none -device virtio-blk-device,drive=d -netdev tap,id=n,ifname=btap,script=no,downscript=no -device virtio-net-device,netdev=n,mac=02:00:00:00:00:01 -device virtio-rng-device; }
for i in $(busybox seq ROUNDS); do
	for who in ward qemu; do
		a=$(now); ${who}_ boot > /tmp/out 2>&1; b=$(now); echo "result $who boot $a $b"
		busybox grep '^vm-boot: ' /tmp/out | busybox sed "s/^/result $who exits /"
		[ $i = 1 ] && busybox grep -v '^vm-boot: ' /tmp/out | busybox grep . | busybox head -5 | busybox sed "s/^/said $who /"
	done
done
# An end of input would end the connection.
busybox mkfifo /tmp/hold; exec 7<> /tmp/hold
for i in $(busybox seq WORKS); do for who in ward qemu; do
	busybox dd if=/dev/zero bs=64k count=COUNT 2>/dev/null | busybox nc -l -p 9001 > /dev/null & o=$!
	busybox nc -l -p 9002 > /dev/null < /tmp/hold & p=$!
	${who}_ work > /tmp/out 2>&1
	busybox grep '^bench ' /tmp/out | busybox sed "s/^bench/result $who/"
	busybox grep -q '^bench out' /tmp/out || { echo "result $who died"; busybox head -20 /tmp/out | busybox sed "s/^/said $who /"; }
	busybox grep '^vm-boot: ' /tmp/out | busybox sed "s/^/said $who /"
	kill $o $p 2>/dev/null
done; done
echo "the bench is over"
busybox poweroff -f
""".replace("MIB", str(MIB)).replace("ROUNDS", str(ROUNDS)).replace("WORKS", str(WORKS)).replace("COUNT", str(MIB * 16)).replace(
    "GUEST_SECONDS_MAX", str(GUEST_SECONDS_MAX))


def rig():
    spec = importlib.util.spec_from_file_location("rig", ROOT / "tests/vm/rig.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pack(top, to):
    names = subprocess.run(["find", "."], cwd=top, check=True, capture_output=True).stdout
    with open(to, "wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "-R", "0:0", "--quiet"], cwd=top, input=names, stdout=out, check=True)


def make_guest(work, packages, modules):
    """The initramfs of both: busybox, and the modules in the order of their needs."""
    top = work / "guest"
    shutil.rmtree(top, ignore_errors=True)
    for d in ["bin", "m", "proc", "dev"]:
        (top / d).mkdir(parents=True)
    shutil.copy(packages / "bin/busybox", top / "bin/busybox")
    needs = dict(line.split(":", 1) for line in (modules / "modules.dep").read_text().splitlines())
    order = []
    for want in MODULES:
        path = next(p for p in needs if pathlib.Path(p).stem.replace("-", "_") == want)
        order += [p for p in [*reversed(needs[path].split()), path] if p not in order]
    for path in order:
        shutil.copy(modules / path, top / "m")
    (top / "modules").write_text("\n".join(pathlib.Path(p).name for p in order) + "\n")
    (top / "init").write_text(GUEST)
    (top / "init").chmod(0o755)
    pack(top, work / "guest.cpio")


def make_machine(r, work, build, packages, version):
    modules = packages / "lib/modules" / version
    make_guest(work, packages, modules)
    top = work / "l1"
    shutil.rmtree(top, ignore_errors=True)
    for d in ["bin", "usr/bin", "proc", "sys", "dev", "tmp", "m", "ward", "var", "etc", "root", "cases", "roms"]:
        (top / d).mkdir(parents=True)
    shutil.copy(packages / "bin/busybox", top / "bin/busybox")
    for program in ["/bin/dash", shutil.which("qemu-system-x86_64")]:
        r.copy_program(program, top)
    (top / "usr/bin/sh").symlink_to("dash")
    (top / "bin/sh").symlink_to("../usr/bin/dash")
    for m in r.L1_MODULES:
        shutil.copy(modules / "kernel" / m, top / "m")
    for rom in ROMS:
        where = next((d / rom for d in map(pathlib.Path, ["/usr/share/qemu", "/usr/share/seabios"]) if (d / rom).exists()), None)
        if not where:
            sys.exit(f"bench vm: {rom} is not here: tools/setup rig installs it")
        shutil.copy(where, top / "roms")
    shutil.copy(build / "tests/vm/vm-boot", top / "ward/vm-boot")
    shutil.copy(packages / "boot" / f"vmlinuz-{version}", top / "k")
    shutil.copy(work / "guest.cpio", top / "i")
    (top / "cases/all").write_text(ALL)
    (top / "init").write_text(r.INIT.replace("cases m;", "cases m roms;").replace("cd /new;", "busybox cp /k /i /new/; cd /new;"))
    (top / "init").chmod(0o755)
    pack(top, work / "l1.cpio")


def boot(r, work, kernel):
    with r.Machine(work, kernel, 3000) as machine:
        machine.go_on(SECONDS_MAX)
        return list(machine.lines())


def read(lines):
    """{(who, what): [seconds]}, and the exits of each of ward's boots."""
    times, exits = {}, []
    for line in lines:
        found = re.match(r"result (\S+) (boot|block|in|out) ([\d.]+) ([\d.]+)$", line)
        if found:
            times.setdefault((found[1], found[2]), []).append(float(found[4]) - float(found[3]))
        found = re.search(r"result ward exits .*port_in=(\d+) port_out=(\d+) mmio_read=(\d+) mmio_write=(\d+)", line)
        if found:
            exits.append(sum(map(int, found.groups())))
    return times, exits


def copies(build):
    """False: a copy makes more calls than it may."""
    sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tests/lib")]
    os.environ.setdefault("WARD", str(build / "ward"))
    import vmcalls
    from test_vm_monitor import guest
    if not os.access("/dev/kvm", os.R_OK | os.W_OK) or not shutil.which("strace"):
        print("a copy's calls are not counted: this needs /dev/kvm and strace")
        return True
    good, took = True, {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        def still(name, code, cpus):
            state = pathlib.Path(folder) / name
            state.mkdir(mode=0o700)
            guest(state, code)
            return vmcalls.Still(build / "ward", state, state.with_suffix(".snap"), state / "kernels/default/kernel", cpus)
        for cpus in 1, 2:
            here = still(f"still{cpus}", vmcalls.STILL, cpus)
            for ahead in True, False:
                counts = vmcalls.count(here, pathlib.Path(folder) / f"log.{cpus}.{ahead}", ahead)
                print(f"a copy of {cpus} CPU{'s' if cpus > 1 else ''}, {'from one that waits' if ahead else 'all made for it'}")
                for who, calls in counts.items():
                    print(f"  {who:10} {calls.total():4} calls: {', '.join(f'{name} {n}' for name, n in calls.most_common())}")
                    good &= cpus > 1 or calls.total() <= vmcalls.CALLS_MAX[who, ahead]
            here.close()
        here = still("off", vmcalls.OFF, 1)
        for _ in range(ROUNDS * 4):
            for ahead in True, False:
                took[ahead].append(vmcalls.seconds(here, ahead) * 1000)
        here.close()
    for ahead, words in (True, "from one that waits"), (False, "all made for it"):
        print(f"  request to the guest's end, {words:20} least {min(took[ahead]):6.1f} ms   median {statistics.median(took[ahead]):6.1f} ms")
    return good


def starts(r, work, build, packages):
    """False: a copy takes too long beside a start of the same machine, its kernel Debian's or BENCH_VM_KERNEL."""
    rounds = max(1, (ROUNDS + 2) // 3)
    script = COPIES.replace("ROUNDS", str(rounds))
    kernel = os.environ.get("BENCH_VM_KERNEL")
    lines = boot(r, work, r.make_l1(work, build, packages, [kernel] if kernel else [], [], script))
    good, cpus, times = True, 0, {}
    for line in lines:
        found = re.match(r"result cpus (\d+)", line)
        cpus = int(found[1]) if found else cpus
        for name, value in re.findall(r"\b(boot_ms|copy_ms|host_ms|faults)=(\d+)", line):
            times.setdefault((cpus, name), []).append(int(value))
    died = 2 * rounds - lines.count("vm-snap: ok")
    if died:
        print(f"  rounds of starts and copies that were cut short: {died} of {2 * rounds}; see {work / 'console'}")
    for cpus in 1, 2:
        if (cpus, "copy_ms") not in times:
            print(f"bench vm: no copy with {cpus} CPUs was measured")
            return False
        boots, copies, host, faults = (sorted(times[cpus, name]) for name in ["boot_ms", "copy_ms", "host_ms", "faults"])
        least = copies[0] / boots[0]
        print(f"  until the agent is ready, {cpus} CPU{'s' if cpus > 1 else ' '}  copy {statistics.median(copies) / 1000:7.2f} s   start "
              f"{statistics.median(boots) / 1000:6.2f} s   ratio {statistics.median(copies) / statistics.median(boots):.2f}, of the least {least:.2f} "
              f"(at most {COPY_RATIO_MAX})")
        print(f"    of a copy: {host[0] / copies[0]:.2f} before the guest's first instruction; {faults[0]} to {faults[-1]} page faults of its monitor")
        good &= least <= COPY_RATIO_MAX
    return good


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
    if not copies(build):
        sys.exit("bench vm: a copy makes more calls than tests/e2e/vmcalls.py allows")
    r = rig()
    if not shutil.which("qemu-system-x86_64"):
        sys.exit("bench vm: qemu-system-x86_64 is not here: tools/setup rig installs it")
    work = build / "vmbench"
    work.mkdir(parents=True, exist_ok=True)
    packages = r.fetch()
    version = os.path.basename(next((packages / "lib/modules").glob("*")))
    make_machine(r, work, build, packages, version)
    lines = boot(r, work, packages / "boot" / f"vmlinuz-{version}")
    times, exits = read(lines)
    missing = [f"{who} {what}" for who in ["ward", "qemu"] for what in ["boot", "block", "in", "out"] if (who, what) not in times]
    if missing or not exits:
        sys.exit(f"bench vm: no result for {', '.join(missing) or 'exits'}; see {work / 'console'}")
    print(f"the vm tier's monitor beside QEMU's microvm, both in one emulated machine ({ROUNDS} boots, {WORKS} times {MIB} MiB each)")
    for what, words in [("boot", "exec to the guest's reset"), ("block", "reading a disk"), ("in", "network, to the guest"), ("out", "network, from the guest")]:
        ours, theirs = (statistics.median(times[who, what]) for who in ["ward", "qemu"])
        least = min(times["ward", what]) / max(min(times["qemu", what]), 0.01)
        print(f"  {words:28} ward {ours:7.2f} s   qemu {theirs:7.2f} s   ratio {ours / max(theirs, 0.01):.2f}, of the least {least:.2f}")
    print(f"  exits of ward's boot         {min(exits)} to {max(exits)} (at most {EXITS_MAX})")
    for who in ["ward", "qemu"]:
        print(f"  rounds in which the guest died or hung, {who:4}   {lines.count(f'result {who} died')} of {WORKS}")
    work = build / "vmbench-copies"
    work.mkdir(parents=True, exist_ok=True)
    return not starts(r, work, build, packages) or max(exits) > EXITS_MAX


if __name__ == "__main__":
    rig().heed_signals()
    sys.exit(main())
