#!/usr/bin/python3
"""loads.py sqlite|sqlite-small|build DIR: one load in DIR, in whatever sandbox this is. Prints the milliseconds of
the load itself, without the start of Python and without the making of the sources."""
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

FILES = 50
ROWS = 10000
SCANS = 15
SINGLE = 200


def filled(place):
    db = sqlite3.connect(place / "load.db", isolation_level=None)
    db.execute("create table t (id integer primary key, word text, n integer)")
    db.execute("begin")
    for i in range(ROWS):
        db.execute("insert into t (word, n) values (?, ?)", (f"word {i * 7919 % ROWS} " * 4, i * 31 % 9973))
    db.execute("commit")
    return db


def changed(db, wanted):
    found = db.execute("select count(*) from t where word like '%new%'").fetchone()[0]
    if found != wanted:
        sys.exit(f"loads: {found} rows changed, not {wanted}")


def sqlite(place):
    """As SQLite's own speed test does it: large transactions, scans, an index, updates, a vacuum."""
    began = time.monotonic()
    db = filled(place)
    db.execute("begin")
    for i in range(SCANS):
        db.execute("select count(*), avg(id) from t where n between ? and ?", (i * 100, i * 100 + 900)).fetchone()
        db.execute("select count(*) from t where word like ?", (f"%{i}7%",)).fetchone()
    db.execute("commit")
    db.execute("create index by_n on t (n)")
    db.execute("begin")
    for i in range(ROWS):
        db.execute("select max(word) from t where n = ?", (i,)).fetchone()
    db.execute("commit")
    db.execute("begin")
    for i in range(ROWS // 2):
        db.execute("update t set word = ? where id = ?", (f"new {i}", i * 2 + 1))
    db.execute("commit")
    changed(db, ROWS // 2)
    db.execute("delete from t where n < 3000")
    db.execute("vacuum")
    if db.execute("pragma integrity_check").fetchone()[0] != "ok":
        sys.exit("loads: the database is damaged")
    db.close()
    return time.monotonic() - began


def sqlite_small(place):
    """The other end: each statement is a transaction, with its locks, its journal and its syncs."""
    db = filled(place)
    began = time.monotonic()
    for i in range(SINGLE):
        db.execute("update t set word = ? where id = ?", (f"new {i}", i * 13 % ROWS + 1))
    for i in range(SINGLE * 10):
        db.execute("select word from t where id = ?", (i + 1,)).fetchone()
    took = time.monotonic() - began
    changed(db, SINGLE)
    db.close()
    return took


def source(i):
    body = "\n".join(f"static int step_{i}_{k}(int x)\n{{\n\tchar text[64];\n\n\tsnprintf(text, sizeof(text), \"%d\", x * {k + 3});\n"
                     f"\treturn (int)strlen(text) + {i};\n}}\n" for k in range(12))
    calls = " + ".join(f"step_{i}_{k}(x)" for k in range(12))
    return (f"#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include \"all.h\"\n\n{body}\n"
            f"int part_{i}(int x)\n{{\n\treturn {calls};\n}}\n")


def build(place):
    """make -j2 of a program of FILES files and a header, which then has to run."""
    parts = [f"part_{i}" for i in range(FILES)]
    (place / "all.h").write_text("".join(f"int {p}(int x);\n" for p in parts))
    for i in range(FILES):
        (place / f"part_{i}.c").write_text(source(i))
    (place / "main.c").write_text("#include \"all.h\"\n\nint main(void)\n{\n\treturn (" + " + ".join(f"{p}(1)" for p in parts) + ") == 0;\n}\n")
    objects = " ".join(f"{p}.o" for p in (*parts, "main"))
    (place / "Makefile").write_text(f"prog: {objects}\n\tgcc -o $@ $^\n%.o: %.c all.h\n\tgcc -O1 -c -o $@ $<\n")
    began = time.monotonic()
    subprocess.run(["make", "-s", "-j2", "-C", place], check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    took = time.monotonic() - began
    subprocess.run([place / "prog"], check=True)
    return took


def main():
    loads = {"sqlite": sqlite, "sqlite-small": sqlite_small, "build": build}
    if len(sys.argv) != 3 or sys.argv[1] not in loads:
        sys.exit(f"usage: loads.py {'|'.join(loads)} DIR")
    place = pathlib.Path(tempfile.mkdtemp(prefix="load-", dir=sys.argv[2]))
    try:
        print(f"{loads[sys.argv[1]](place) * 1000:.2f}")
    finally:
        shutil.rmtree(place)


main()
