#!/usr/bin/python3
"""bench.py BUILD: ward beside its peers. Environment: BENCH_ROUNDS (200), BENCH_GAP_MS (0),
BENCH_SAVE=1 (also writes docs/bench.svg), BENCH_SERIES (1000), BENCH_BURST (200)."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "lib")]
import chart  # noqa: E402
import peers  # noqa: E402
from leftovers import Leaks, descendants  # noqa: E402

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
WARD = pathlib.Path(os.environ.get("WARD", BUILD / "ward"))
BENCH = BUILD / "tests" / "bench" / "ward-bench"
OUT = BUILD / "bench"
# A tight loop hides what an idle machine pays (the cgroup lock of the kernel stays warm), so there is
# always a second table with a pause before each run.
IDLE_GAP_MS = 30


def setting(name, default):
    text = os.environ.get(name, str(default))
    if not text.isdigit():
        sys.exit(f"bench: {name}={text} is not a number")
    return int(text)


def measure(mode, rows, *numbers):
    result = OUT / "last.json"
    lines = "".join("\t".join(row.argv) + "\n" for row in rows)
    subprocess.run([BENCH, mode, result, *map(str, numbers)], input=lines, text=True, check=True)
    return json.loads(result.read_text())


def summary(ns):
    ms = sorted(n / 1e6 for n in ns)
    return {"min": ms[0], "p50": statistics.median(ms), "p99": ms[min(len(ms) - 1, int(len(ms) * 0.99))], "runs": len(ms)}


def compare(title, rows, rounds, gap_ms):
    """One table. Rows that cannot run here stay in it, with the reason."""
    able = [row for row in rows if not row.refuses]
    seed = int.from_bytes(os.urandom(4), "little")
    warmup = max(5, rounds // 20)
    raw = measure("compare", able, rounds, warmup, gap_ms, seed)
    table = {}
    for row, got in zip(able, raw["commands"]):
        table[row.name] = {**summary(got["ns"]), "failed": got["failed"]} if got["ns"] else {"refuses": f"all runs failed, status {got['last_status']}"}
    for row in rows:
        if row.refuses:
            table[row.name] = {"refuses": row.refuses}
    base = table.get("ward", {}).get("p50")
    print(f"\n{title}: {rounds} rounds after {warmup}, {gap_ms} ms pause, order shuffled in each (seed {seed})")
    print(f"  {'':18}{'min':>8}{'p50':>8}{'p99':>8}  ms   ward/this   failed")
    for row in rows:
        got = table[row.name]
        if "refuses" in got:
            print(f"  {row.name:18}refuses: {got['refuses']}")
            continue
        got["ratio"] = base / got["p50"] if base else None
        ratio = f"{got['ratio']:.2f}" if base else "-"
        print(f"  {row.name:18}{got['min']:8.2f}{got['p50']:8.2f}{got['p99']:8.2f}{ratio:>14}{got['failed']:9}")
    return {"title": title, "rounds": rounds, "warmup": warmup, "gap_ms": gap_ms, "seed": seed, "rows": table,
            "samples_ns": {row.name: got["ns"] for row, got in zip(able, raw["commands"])}}


def phases(state, runs, tier="container"):
    """Where the time goes, as ward's own report says it: the median of each step."""
    steps, totals = {}, []
    report = OUT / "run.json"
    for _ in range(runs):
        subprocess.run([WARD, "--state-dir", state, "run", "--tier", tier, "--json", report, "--", "/bin/true"], check=True,
                       stdin=subprocess.DEVNULL)
        end = json.loads(report.read_text())
        totals.append(end["total_us"])
        for step, us in end["timings_us"].items():
            steps.setdefault(step, []).append(us)
    report.unlink()
    print(f"\nwhere the time goes, inside ward, {tier} tier: median of {runs} runs, microseconds")
    medians = {step: statistics.median(us) for step, us in steps.items()}
    for step, us in medians.items():
        print(f"  {step:12}{us:8.0f}  {'#' * min(60, round(us / 25))}")
    print(f"  {'total':12}{statistics.median(totals):8.0f}")
    return {"runs": runs, "steps_us": medians, "total_us": statistics.median(totals)}


def many(state, rows, mode, count, leaks):
    """@count in a row, or at once: failures, and what is left afterwards."""
    found = {}
    title = f"{count} one after another" if mode == "series" else f"{count} at once"
    print(f"\n{title}:")
    for row in rows:
        leaks.begin()
        got = measure(mode, [row], count)
        left = leaks.settled() if row.name.startswith("ward") else {}
        each = got["total_ns"] / count / 1e6
        failed = got["commands"][0]["failed"]
        found[row.name] = {"ms_each": each, "failed": failed, "left": {k: len(v) for k, v in left.items()}, "what": left}
        print(f"  {row.name:18}{each:8.2f} ms each, {failed} failed" +
              (f", left behind: {left if left else 'nothing'}" if row.name.startswith("ward") else ""))
    return found


def pss_kib(pid):
    """None for a process that is over."""
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        for line in open(f"/proc/{pid}/smaps_rollup"):
            if line.startswith("Pss:"):
                return int(line.split()[1])
    return None


def names(pids):
    found = {}
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            found[pid] = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return found


def idle_memory(state):
    """What one sleeping sandbox costs beside the command itself."""
    before = descendants()
    ward = subprocess.Popen([WARD, "--state-dir", state, "run", "--tier", "container", "--", "/bin/sleep", "30"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 10
        while time.monotonic() < end:
            if "sleep" in names(descendants() - before).values():
                break
            time.sleep(0.05)
        else:
            return None
        time.sleep(0.5)
        inside = names(descendants() - before)
        parts = {f"{name} ({pid})": pss_kib(pid) for pid, name in inside.items() if name != "sleep"}
        parts = {who: kib for who, kib in parts.items() if kib is not None}
    finally:
        ward.send_signal(signal.SIGTERM)
        ward.wait()
    print(f"\nmemory of one idle sandbox, PSS without the command: {sum(parts.values())} KiB = {parts}")
    return {"kib": sum(parts.values()), "parts_kib": parts}


def cold(place, runs=5):
    """The first run of a state directory prepares the template."""
    taken = []
    for i in range(runs):
        began = time.monotonic()
        subprocess.run([WARD, "--state-dir", place / f"cold-{i}", "run", "--tier", "container", "--", "/bin/true"], check=True,
                       stdin=subprocess.DEVNULL)
        taken.append((time.monotonic() - began) * 1000)
    print(f"\nfirst run of a new state directory: {statistics.median(taken):.1f} ms (median of {runs}; the template is prepared once)")
    return {"runs": runs, "p50_ms": statistics.median(taken)}


def machine():
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "unknown")
    kinds = {line.split()[2] for line in open("/proc/mounts") if line.split()[2].startswith("cgroup")}
    layout = "hybrid" if len(kinds) == 2 else "v2" if kinds == {"cgroup2"} else "v1" if kinds else "none"
    return {"cpu": cpu, "cpus": os.cpu_count(), "kernel": os.uname().release, "cgroups": layout, "load": os.getloadavg(),
            "root": os.geteuid() == 0, "host_mounts": sum(1 for _ in open("/proc/self/mountinfo")), "versions": peers.versions(WARD)}


def draw(table, about):
    def kind(name):
        return "ward" if name.startswith("ward") else "floor" if name.startswith("fork") else "peer"

    rows = [(n, kind(n), None, None, r["refuses"]) if "refuses" in r else (n, kind(n), r["min"], r["p50"], r["p99"])
            for n, r in table["rows"].items()]
    rows.sort(key=lambda r: (r[3] is None, r[3]))
    foot = [f"Start to exit of /bin/true, median; the line runs from the fastest run to the 99th percentile. {table['rounds']} interleaved rounds.",
            f"{about['cpu']}, {about['cpus']} CPUs, Linux {about['kernel']}, cgroups {about['cgroups']}; " +
            ", ".join(v for v in about["versions"].values() if v)]
    return chart.chart("Time to run one command in a sandbox", rows, foot)


def main():
    rounds, gap = setting("BENCH_ROUNDS", 200), setting("BENCH_GAP_MS", 0)
    OUT.mkdir(parents=True, exist_ok=True)
    place = pathlib.Path(tempfile.mkdtemp(prefix="ward-bench-", dir="/var/tmp"))
    place.chmod(0o755)
    try:
        state = place / "state"
        about = machine()
        print(f"{about['cpu']}, {about['cpus']} CPUs, Linux {about['kernel']}, cgroups {about['cgroups']}, load {about['load'][0]:.2f}")
        print(", ".join(v for v in about["versions"].values() if v))
        leaks = Leaks(state)
        true, python = ([*peers.rows(WARD, state, place, p)] for p in (["/bin/true"], ["/usr/bin/python3", "-c", "pass"]))
        result = {"machine": about, "tables": [
            compare("/bin/true", true, rounds, gap),
            compare("/bin/true on an idle machine", true, max(rounds // 2, 1), IDLE_GAP_MS),
            compare("python3 -c pass", python, max(rounds // 2, 1), gap)]}
        result["phases"] = phases(state, min(rounds, 100))
        crowd = [r for r in true if not r.refuses and r.name in ("fork + exec", "ward", "bubblewrap")]
        result["series"] = many(state, crowd, "series", setting("BENCH_SERIES", 1000), leaks)
        result["burst"] = many(state, crowd, "burst", setting("BENCH_BURST", 200), leaks)
        result["idle_memory"] = idle_memory(state)
        result["cold"] = cold(place)
        result["load_after"] = os.getloadavg()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    (OUT / "last.json").unlink(missing_ok=True)
    (OUT / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    svg = draw(result["tables"][0], about)
    (OUT / "bench.svg").write_text(svg)
    if os.environ.get("BENCH_SAVE") == "1":
        (ROOT / "docs" / "bench.svg").write_text(svg)
    print(f"\n{OUT}/results.json and bench.svg written; read the ratios, other work on the machine moves the numbers")
    bad = [f"{kind}: {name}" for kind in ("series", "burst") for name, r in result[kind].items()
           if name.startswith("ward") and (r["failed"] or r["left"])]
    if bad:
        print("failures or leftovers in " + ", ".join(bad))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
