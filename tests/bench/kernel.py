#!/usr/bin/python3
"""kernel.py BUILD: the kernel tier beside native execution and runsc, interleaved. Environment:
BENCH_KERNEL_ROUNDS (20; the table of calls and the loads take a part of that), BENCH_GAP_MS (0)."""
import contextlib
import ctypes
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import bench
import peers
from leftovers import PR_SET_CHILD_SUBREAPER, descendants, reap

CALLS = bench.BUILD / "tests" / "bench" / "ward-calls"
BARE = bench.BUILD / "tests" / "bench" / "ward-bare"
RUNSC = ["--platform=ptrace", "--network=none", "--ignore-cgroups", "do"]
PYTHON = "/usr/bin/python3"
CALL_BUDGET_MS = 40
RUN_SECONDS_MAX = 120
SLEEP_SECONDS = "30"
# A title, and which part of the rounds it gets.
LOADS = {"sqlite": ("sqlite, large transactions and scans", 4),
         "sqlite-small": ("sqlite, each statement its own transaction", 8),
         "build": ("make -j2 of 50 C files", 8)}


class Place:
    """Where a program runs: natively, in the tier, in runsc. All of them write to memory: @work."""

    def __init__(self, name, before, work):
        self.name, self.before, self.work = name, [str(a) for a in before], work

    def row(self, program):
        return peers.Row(self.name, [*self.before, *program])


def places(folder, fast):
    """@folder holds the programs and is at the same path in each; @fast is native memory."""
    found = [Place("native", [], str(fast)),
             Place("ward", [bench.WARD, "--state-dir", folder / "state", "run", "--quiet", "--tier", "kernel",
                            "--mount", f"{folder}/tools:{folder}/tools:ro", "--"], "/tmp")]
    runsc = shutil.which("runsc")
    if runsc:
        found.append(Place("runsc", [runsc, *RUNSC], "/tmp"))
    else:
        print("runsc is not here: its rows are left out (tools/setup bench installs it)")
    return found


def output(place, program):
    """What @program printed there, or None with @place's own words on the screen."""
    try:
        done = subprocess.run([*place.before, *program], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        print(f"  {place.name}: not over after {RUN_SECONDS_MAX} s")
        return None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.strip()]
        print(f"  {place.name}: {said[-1] if said else f'exit status {done.returncode}'}")
        return None
    return done.stdout


def rounds_of(where, rounds):
    """Every place once in a round, in a new order."""
    for _ in range(rounds):
        yield from random.sample(where, len(where))


def spread(numbers):
    numbers = sorted(numbers)
    return {"min": numbers[0], "p50": statistics.median(numbers), "p99": numbers[min(len(numbers) - 1, int(len(numbers) * 0.99))],
            "samples": len(numbers)}


def short(cell):
    """min/p50/p99, with as many digits as mean something."""
    return "/".join(f"{n:.{2 if n < 100 else 1 if n < 1000 else 0}f}" for n in (cell["min"], cell["p50"], cell["p99"]))


def ratio(cells, other):
    return cells["ward"]["p50"] / cells[other]["p50"] if "ward" in cells and other in cells else None


def ratios(cells):
    """The two columns that everything here ends with."""
    found = {other: ratio(cells, other) for other in ("native", "runsc")}
    return found, "".join(f"{found[o]:10.2f}" if found[o] else f"{'-':>10}" for o in found)


def calls(where, program, rounds):
    """What one call costs, measured inside."""
    samples = {}
    failed = []
    print(f"\none call, microseconds: {rounds} rounds, measured inside, min/p50/p99 of batches")
    for place in rounds_of(where, rounds):
        text = output(place, [program, place.work, str(CALL_BUDGET_MS)])
        if text is None:
            failed.append(place.name)
            continue
        for line in text.splitlines():
            name, *ns = line.split("\t")
            samples.setdefault(name, {}).setdefault(place.name, []).extend(float(n) / 1000 for n in ns)
    print(f"  {'':24}" + "".join(f"{p.name:>24}" for p in where) + f"{'/native':>10}{'/runsc':>10}")
    rows = {}
    for name, by_place in samples.items():
        cells = {who: spread(us) for who, us in by_place.items()}
        found, text = ratios(cells)
        shown = (short(cells[p.name]) if p.name in cells else "failed" for p in where)
        print(f"  {name:24}" + "".join(f"{s:>24}" for s in shown) + text)
        rows[name] = {**cells, "ward_over": found}
    return {"rounds": rounds, "rows": rows, "failed": failed}


def bare(rows, rounds):
    """The floor under every answered call on this host, and how far above it the cheapest one is."""
    us = []
    for _ in range(rounds):
        done = subprocess.run([BARE, str(CALL_BUDGET_MS)], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=RUN_SECONDS_MAX)
        us += [float(ns) / 1000 for ns in done.stdout.split()]
    if not us:
        print(f"  a bare notification: not measured: {done.stderr.strip()}")
        return None
    found = spread(us)
    over = rows["getppid"]["ward"]["min"] / found["min"] if "ward" in rows.get("getppid", {}) else None
    print(f"  a bare notification, native: {short(found)} us" + (f"; ward's getppid is {over:.2f} of it by minimum" if over else ""))
    return {**found, "getppid_over": over}


def load(where, title, program, rounds):
    """A load that times itself: a line for each place."""
    taken, failed = {}, []
    print(f"\n{title}: {rounds} rounds, milliseconds, measured inside")
    for place in rounds_of(where, rounds):
        text = output(place, [*program, place.work])
        if text is None:
            failed.append(place.name)
        else:
            taken.setdefault(place.name, []).append(float(text))
    cells = {who: spread(ms) for who, ms in taken.items()}
    found, text = ratios(cells)
    for place in where:
        got = cells.get(place.name)
        print(f"  {place.name:18}" + (f"{got['min']:10.1f}{got['p50']:10.1f}{got['p99']:10.1f}" if got else "failed"))
    print(f"  ward over native and runsc:{text}")
    return {"title": title, "rounds": rounds, **cells, "ward_over": found, "failed": failed}


def settled_pss(child, ours):
    """PSS of all processes of @ours(), once they have stopped changing. Empty when @child has ended."""
    last = None
    time.sleep(1)
    for _ in range(40):
        time.sleep(0.25)
        if child.poll() is not None:
            return {}
        parts = {f"{name} ({pid})": kib for pid, name in bench.names(ours()).items() if (kib := bench.pss_kib(pid)) is not None}
        if parts == last:
            break
        last = parts
    return parts


def sleeping(place):
    """PSS of all that exists because of one sleep there."""
    before = descendants()
    child = subprocess.Popen([*place.before, "/bin/sleep", SLEEP_SECONDS], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    try:
        return settled_pss(child, lambda: descendants() - before)
    finally:
        child.terminate()
        child.wait()
        deadline = time.monotonic() + 10
        while descendants() - before and time.monotonic() < deadline:
            reap(descendants() - before)
            time.sleep(0.05)


def idle_memory(where):
    """Everything that one sleeping sandbox is made of, less what the same sleep takes natively."""
    found = {"failed": []}
    print("\nmemory of one idle sandbox with a sleep inside, PSS in KiB")
    for place in where:
        parts = sleeping(place)
        if not parts:
            print(f"  {place.name:18}failed")
            found["failed"].append(place.name)
            continue
        whole = sum(parts.values())
        found[place.name] = {"kib": whole, "adds_kib": whole - found.get("native", {"kib": whole})["kib"], "parts_kib": parts}
        print(f"  {place.name:18}{whole:8} adds {found[place.name]['adds_kib']:6}  {parts}")
    return found


def prepare(folder):
    tools = folder / "tools"
    tools.mkdir()
    shutil.copy(CALLS, tools / "calls")
    shutil.copy(bench.HERE / "loads.py", tools / "loads.py")
    for path in (folder, tools, tools / "calls", tools / "loads.py"):
        path.chmod(0o755)
    return tools


def run_all(folder, fast, rounds, gap):
    tools = prepare(folder)
    where = places(folder, fast)
    part = max(rounds // 4, 1)
    found = {"tables": []}
    for title, program in (("/bin/true, kernel tier", ["/bin/true"]), ("python3 -c 'print(1)', kernel tier", [PYTHON, "-c", "print(1)"])):
        found["tables"].append(bench.compare(title, [place.row(program).probe() for place in where], rounds, gap))
    found["phases"] = bench.phases(folder / "state", rounds, "kernel")
    found["calls"] = calls(where, str(tools / "calls"), part)
    found["bare"] = bare(found["calls"]["rows"], part)
    for name, (title, share) in LOADS.items():
        found[name] = load(where, title, [PYTHON, str(tools / "loads.py"), name], max(rounds // share, 1))
    found["idle_memory"] = idle_memory(where)
    return found


def end_ours():
    """A run that was given up leaves processes behind; they are all below this one."""
    for pid in descendants():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    reap(descendants())


def ward_failed(found):
    """Runs of ward that did not succeed; a time is never a failure."""
    bad = [t["title"] for t in found["tables"] if t["rows"]["ward"].get("failed", 1)]
    return bad + [part for part in ("calls", *LOADS, "idle_memory") if "ward" in found[part]["failed"]]


def main():
    rounds, gap = bench.setting("BENCH_KERNEL_ROUNDS", 20), bench.setting("BENCH_GAP_MS", 0)
    if rounds == 0:
        sys.exit("bench: BENCH_KERNEL_ROUNDS must be 1 or more")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    bench.OUT.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="ward-bench-", dir="/var/tmp"))
    fast = pathlib.Path(tempfile.mkdtemp(prefix="ward-bench-", dir="/dev/shm"))
    began = time.monotonic()
    try:
        about = bench.machine()
        print(f"\nthe kernel tier. {about['cpu']}, {about['cpus']} CPUs, Linux {about['kernel']}, load {about['load'][0]:.2f}")
        result = {"machine": about, **run_all(folder, fast, rounds, gap), "load_after": os.getloadavg()}
    finally:
        end_ours()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(fast, ignore_errors=True)
    (bench.OUT / "last.json").unlink(missing_ok=True)
    (bench.OUT / "kernel.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"\n{time.monotonic() - began:.0f} s, load {result['load_after'][0]:.2f} at the end; {bench.OUT}/kernel.json written; read the ratios")
    bad = ward_failed(result)
    if bad:
        print("ward failed in " + ", ".join(bad))
    return int(bool(bad))


sys.exit(main())
