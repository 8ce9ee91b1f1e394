#!/usr/bin/python3
"""Runs guest programs natively and inside a tier, case by case, and compares what they print.

    tests/guest/run.py [--build DIR] [--tier container|kernel|native] [--static|--dynamic] [NAME[.CASE]...]

NAME is a program of tests/guest/meson.build, or the start of its name ("fs_"). `--tier native` compares the
static with the dynamic build on bare Linux: both must be deterministic. differs.txt lists the cases that a tier
answers in another way than Linux, and why; a row for a case that does not differ is an error.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INSIDE = "/guest"
SECONDS = 300
# Nothing of the caller's surroundings may change what a program prints.
ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "HOME": "/root", "GUEST_TMP": "/tmp"}


def programs(build):
    """Every program that meson built, by name."""
    folder = pathlib.Path(build) / "tests" / "guest"
    return sorted(p.name for p in folder.iterdir() if p.is_file() and os.access(p, os.X_OK) and not p.name.endswith("_dyn"))


def blocks(text):
    """What each case printed."""
    found = {}
    for part in re.split(r"^== ", text, flags=re.M)[1:]:
        name, _, body = part.partition("\n")
        found[name] = body
    return found


def differs(tier):
    rows = {}
    for line in (HERE / "differs.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            where, case, reason = line.split(None, 2)
            if where == tier:
                rows[case] = reason
    return rows


class Runner:
    def __init__(self, build, state=None):
        self.build = pathlib.Path(build).resolve()
        self.folder = self.build / "tests" / "guest"
        self.tmp = pathlib.Path(tempfile.mkdtemp(prefix="ward-guest-", dir="/var/tmp"))
        self.tmp.chmod(0o755)
        self.state = pathlib.Path(state) if state else self.tmp / "state"
        self.natives = {}

    def close(self):
        shutil.rmtree(self.tmp, ignore_errors=True)

    def run(self, argv, env):
        try:
            done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  timeout=SECONDS, text=True, errors="backslashreplace", start_new_session=True)
            return done.stdout, done.stderr, done.returncode
        except subprocess.TimeoutExpired as late:
            out = late.stdout or b""
            return (out.decode(errors="backslashreplace") if isinstance(out, bytes) else out), "did not end", -1

    def native(self, binary, cases=()):
        key = (binary, tuple(cases))
        if key not in self.natives:
            scratch = self.tmp / "scratch"
            scratch.mkdir(exist_ok=True)
            scratch.chmod(0o755)
            self.natives[key] = self.run([str(self.folder / binary), *cases], {**ENV, "GUEST_TMP": str(scratch)})
        return self.natives[key]

    def inside(self, tier, binary, cases=()):
        argv = [str(self.build / "ward"), "--state-dir", str(self.state), "run", "--tier", tier, "--net", "loopback", "--accept-risk", "guest tests",
                "--mount", f"{self.folder}:{INSIDE}:ro"]
        for key, value in ENV.items():
            argv += ["--env", f"{key}={value}"]
        return self.run([*argv, "--", f"{INSIDE}/{binary}", *cases], dict(os.environ))

    def compare(self, tier, binary, cases=()):
        """(cases that were compared, what is wrong, as a list of texts)."""
        name = binary.removesuffix("_dyn")
        out, errors, status = self.native(name if tier == "native" else binary, cases)
        if status != 0:
            return 0, [f"{binary}: natively: exit status {status}: {errors}"]
        want = blocks(out)
        out, errors, status = self.native(name + "_dyn", cases) if tier == "native" else self.inside(tier, binary, cases)
        got = blocks(out)
        known = differs(tier)
        wrong = [] if status == 0 else [f"{binary}: in {tier}: exit status {status}: {errors.strip()}"]
        for case, text in want.items():
            row = f"{name}.{case}"
            if got.get(case) != text and row not in known:
                wrong.append(f"{row}:\n{side_by_side(text, got.get(case, '  (did not run)'))}")
            elif got.get(case) == text and row in known:
                wrong.append(f"{row}: differs.txt says that {tier} differs, and it does not")
        return len(want), wrong


def side_by_side(want, got):
    lines = []
    a, b = want.splitlines(), got.splitlines()
    for i in range(max(len(a), len(b))):
        left, right = (x[i].strip() if i < len(x) else "(nothing)" for x in (a, b))
        lines.append(f"    {left}" if left == right else f"  ! Linux: {left}  |  here: {right}")
    return "\n".join(lines)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--build", default=ROOT / "build")
    options.add_argument("--tier", default="container", choices=["native", "container", "kernel"])
    options.add_argument("--static", action="store_true")
    options.add_argument("--dynamic", action="store_true")
    options.add_argument("--show", action="store_true", help="print what the native run printed")
    options.add_argument("names", nargs="*")
    args = options.parse_args()
    kinds = ["_dyn"] if args.dynamic else [""] if args.static or args.tier == "native" else ["", "_dyn"]
    wanted = {}
    for name in programs(args.build):
        for ask in args.names or [""]:
            program, _, case = ask.partition(".")
            if name == program or (not case and name.startswith(program)):
                wanted.setdefault(name, []).extend([case] if case else [])
    if not wanted:
        sys.exit(f"run.py: no program is called {args.names}")
    runner, total, bad = Runner(args.build), 0, 0
    try:
        for name, cases in wanted.items():
            for kind in kinds:
                if args.show:
                    print(runner.native(name + kind, cases)[0], end="")
                count, wrong = runner.compare(args.tier, name + kind, cases)
                total, bad = total + count, bad + len(wrong)
                for text in wrong:
                    print(text)
    finally:
        runner.close()
    print(f"{total} cases, {bad} wrong")
    sys.exit(1 if bad or not total else 0)


if __name__ == "__main__":
    main()
