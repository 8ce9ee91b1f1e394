# SPDX-License-Identifier: Apache-2.0
"""The workspace tier, ward diff and ward apply, as root and as an ordinary user."""
import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

from store_files import FAULT
from wardtest import Ward, as_user

# Becomes the rest of its arguments on a host that gives no namespaces: unshare(2) is refused.
NO_NAMESPACES = ["/usr/bin/python3", "-c", """
import ctypes, os, struct, sys
UNSHARE = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
code = [(0x20, 0, 0, 0), (0x15, 0, 1, UNSHARE), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(filter))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""]


class Place:
    """A folder for sources, and a ward that may use them."""

    def __init__(self, ward, top, prefix, plain=False):
        self.ward, self.top, self.prefix, self.plain = ward, pathlib.Path(top), prefix, plain

    def sh(self, script, cwd=None):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.top)}
        done = subprocess.run([*self.prefix, "/bin/sh", "-ec", script], cwd=cwd or self.top, env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        assert done.returncode == 0, done.stdout
        return done.stdout

    def repo(self, name="repo"):
        self.sh(f"mkdir {name}; cd {name}; git init -q -b main .; git config user.name Ann; "
                "git config user.email ann@example.org; printf 'one\\ntwo\\nthree\\n' > a; mkdir d; echo x > d/x; "
                "printf '*.o\\n' > .gitignore; git add .; git commit -q -m first; git tag v1; "
                "echo four >> a; git commit -q -a -m second")
        return self.top / name

    def folder(self, name="dir"):
        self.sh(f"mkdir -p {name}/sub {name}/empty; cd {name}; echo one > a; echo two > b; echo three > sub/c; "
                "ln -s a link; printf '#!/bin/sh\\n' > tool; chmod 755 tool")
        return self.top / name

    def run(self, *args):
        return self.ward("run", "--tier", "workspace", *args)

    def keep(self, *args, script):
        """Runs @script in a kept workspace; its id."""
        done = self.run(*args, "--keep", "--", "sh", "-ec", script)
        assert done.returncode == 0, done.stderr
        return done.stderr.strip().split()[-1]

    def leftovers(self):
        boxes = self.ward.state / "boxes"
        found = sorted(p.name for p in boxes.iterdir()) if boxes.exists() else []
        found += [str(p) for p in self.top.rglob("ward-*") if "/.git/" in str(p)]
        found += [str(p) for p in self.top.rglob(".ward-*")]
        return found


@pytest.fixture(params=["root", "user", "plain"])
def place(request):
    """As root; as an ordinary user; as one on a host without namespaces."""
    if request.param == "root":
        if os.geteuid() != 0:
            pytest.skip("not root")
        ward, top = request.getfixturevalue("ward"), request.getfixturevalue("tmp_path") / "place"
        top.mkdir()
        return Place(ward, top, [])
    ward = request.getfixturevalue("user_ward")
    top = request.getfixturevalue("user_home") / "place"
    subprocess.run([*as_user(), "mkdir", str(top)], check=True)
    if request.param == "plain":
        ward = Ward(ward.binary, ward.state, as_user(NO_NAMESPACES), ward.environ)
    return Place(ward, top, as_user(), plain=request.param == "plain")


def one_line(done):
    assert done.returncode == 125, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.startswith("ward "), done.stderr
    return done.stderr


# The wall ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("script", [
    "for i in 1 2 3 4 5 6; do head -c 1M /dev/zero > $i; done; sleep 60",
    "cd $HOME; for i in 1 2 3 4 5 6; do head -c 1M /dev/zero > $i; done; sleep 60",
    "cd $TMPDIR; for i in 1 2 3 4 5 6; do head -c 1M /dev/zero > $i; done; sleep 60",
    "i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done; sleep 60",
], ids=["work", "home", "tmp", "too deep to count"])
def test_disk_limit_of_all_files_together(place, script):
    folder = place.folder()
    place.sh(f"head -c 8M /dev/zero > {folder}/before")  # what was there does not count
    report = place.top / "report"
    done = place.run("--source", f"dir:{folder}", "--disk", "4M", "--json", report, "--", "sh", "-c", script)
    told = json.loads(report.read_text())
    assert (done.returncode, told["cause"], told["limits_hit"]) == (137, "disk-limit", ["disk-limit"]), (done.stderr, told)
    assert place.leftovers() == []


def test_disk_limit_of_all_files_together_holds_for_what_fits(place):
    done = place.run("--source", f"dir:{place.folder()}", "--disk", "4M", "--", "sh", "-c",
                     "head -c 1M /dev/zero > x; rm x; head -c 1M /dev/zero > x; sleep 0.5; head -c 1M x | wc -c")
    assert (done.returncode, done.stdout) == (0, "1048576\n"), done.stderr


def test_an_empty_workspace(place):
    done = place.run("--", "sh", "-c", "echo hi > f; cat f; ls -A; echo $PWD $TMPDIR $HOME")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:2] == ["hi", "f"]
    cwd, tmp, home = lines[2].split()
    assert cwd.startswith(str(place.ward.state)) and cwd.endswith("/work")
    assert tmp.endswith("/tmp") and home.endswith("/home")
    assert place.leftovers() == []


@pytest.mark.parametrize("script, want", [
    ("cat {top}/secret", "No such file|Permission denied"),
    ("echo x > {top}/secret", "No such file|Permission denied|nonexistent"),
    ("cat /etc/shadow", "No such file|Permission denied"),
    ("ls /root /home", "No such file|Permission denied"),
    ("ls /run", "No such file|Permission denied"),
    ("mkdir /usr/x", "Read-only|Permission denied"),
    ("echo x > /dev/sda", "No such file|Permission denied|Read-only|nonexistent"),
    ("mount -t tmpfs none .", "permission denied|not permitted|must be superuser"),
    ("unshare -U true", "not permitted|failed"),
    ("mknod n c 1 3", "not permitted|Permission denied"),
    ("chroot . /bin/true", "not permitted|cannot|No such file"),
    ("kill -9 1 && sleep 0.1 && echo alive >&2; false", "alive|not permitted"),
    ("cat /proc/1/environ", "Permission denied"),
    ("cat < /dev/tcp/127.0.0.1/1", "No such file|refused|nonexistent|cannot"),
])
def test_what_is_refused(place, script, want):
    import re
    place.sh("echo secret > secret")
    done = place.run("--", "sh", "-c", script.format(top=place.top))
    assert done.returncode != 0
    assert re.search(want, done.stderr), done.stderr
    assert place.sh("cat secret") == "secret\n"
    assert place.leftovers() == []


def test_no_network_unless_asked(place):
    script = ("import socket\ntry:\n s = socket.socket(); s.settimeout(2); s.connect(('127.0.0.1', 9))\n"
              "except OSError as e: print(type(e).__name__)")
    assert place.run("--", "/usr/bin/python3", "-c", script).stdout != "ConnectionRefusedError\n"
    assert place.run("--net", "host", "--", "/usr/bin/python3", "-c", script).stdout == "ConnectionRefusedError\n"


def test_mounts(place):
    place.sh("mkdir shared; echo x > shared/x")
    where = place.top / "shared"
    ro = place.run("--mount", f"{where}:{where}:ro", "--", "sh", "-c", f"cat {where}/x; echo y > {where}/y")
    assert ro.stdout == "x\n" and ro.returncode != 0 and not (where / "y").exists()
    rw = place.run("--mount", f"{where}:{where}:rw", "--", "sh", "-c", f"echo y > {where}/y")
    assert rw.returncode == 0 and (where / "y").read_text() == "y\n"
    assert "under its own name" in one_line(place.run("--mount", f"{where}:/mnt", "--", "true"))
    assert "--source dir:" in one_line(place.run("--mount", f"{where}:{where}:overlay", "--", "true"))
    assert place.leftovers() == []


def test_a_pty(place):
    import shutil
    if not shutil.which("script"):
        pytest.skip("no script(1)")
    done = place.ward("run", "--tier", "workspace", "-t", "--", "sh", "-c", "test -t 0 && tty")
    assert done.stdout.strip().startswith("/dev/pts/"), done.stdout + done.stderr


# Sources -------------------------------------------------------------------------------------------

def test_git_inside(place):
    repo = place.repo()
    before = place.sh("git for-each-ref; git status --porcelain; cat .git/HEAD .git/config; ls .git", cwd=repo)
    done = place.run("--source", f"git:{repo}@v1", "--", "sh", "-ec",
                     "cat a; git status --porcelain; git switch -q -c topic; echo new > n; git add n; "
                     "git commit -q -m inside; git log --format='%an %s'; git stash list; git branch | wc -l")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "one\ntwo\nthree\nAnn inside\nAnn first\n2\n"
    after = place.sh("git for-each-ref; git status --porcelain; cat .git/HEAD .git/config; ls .git", cwd=repo)
    assert after == before
    assert place.leftovers() == []


def test_the_repository_survives_anything(place):
    repo = place.repo()
    place.run("--source", f"git:{repo}", "--", "sh", "-c",
              "d=$(git rev-parse --git-common-dir); rm -rf $d/objects $d/refs .git *; echo x > $d/HEAD")
    assert place.sh("git fsck --no-dangling 2>/dev/null; git log --oneline | wc -l", cwd=repo).endswith("2\n")
    assert place.leftovers() == []


def test_many_runs_on_one_repository(place):
    repo = place.repo()
    runs = [place.ward.start("run", "--tier", "workspace", "--source", f"git:{repo}", "--", "sh", "-ec",
                             f"for k in 1 2 3; do echo {i}-$k > f; git add f; git commit -q -m {i}-$k; done; "
                             "git switch -q -c topic; test $(git log --oneline | wc -l) = 5; git status --porcelain",
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for i in range(6)]
    for run in runs:
        out, _ = run.communicate(timeout=120)
        assert run.returncode == 0 and out == "", out
    assert place.sh("git status --porcelain; git branch; git log --oneline | wc -l", cwd=repo) == "* main\n2\n"
    assert place.leftovers() == []


@pytest.mark.parametrize("kind", ["dir", "copy"])
def test_folders_are_private(place, kind):
    folder = place.folder()
    done = place.run("--source", f"{kind}:{folder}", "--", "sh", "-ec",
                     "cat a sub/c link; echo changed > a; rm -r sub b; echo n > n; ls; test -x tool; readlink link")
    assert done.stdout == "one\nthree\none\na\nempty\nlink\nn\ntool\na\n", done.stderr
    assert place.sh("cat a b sub/c; ls", cwd=folder) == "one\ntwo\nthree\na\nb\nempty\nlink\nsub\ntool\n"
    assert place.leftovers() == []


def test_links_are_read_only(place):
    folder = place.folder()
    done = place.run("--source", f"link:{folder}=l", "--", "sh", "-c", "pwd -L; cat a; echo x > a")
    assert done.stdout.endswith("one\n") and done.returncode != 0
    assert (folder / "a").read_text() == "one\n"


def test_several_sources(place):
    repo, folder = place.repo(), place.folder()
    done = place.run("--source", f"git:{repo}@v1=code", "--source", f"dir:{folder}", "--workdir", "code/d",
                     "--", "sh", "-c", "cat x ../../dir/a; ls ../..")
    assert done.stdout == "x\none\ncode\ndir\n", done.stderr


@pytest.mark.parametrize("word, want", [
    ("git:{top}/nowhere", "nowhere"),
    ("git:{top}/dir", "not the top of a git repository"),
    ("git:{top}/repo@nope", "'nope'"),
    ("zip:{top}/dir", "is not a kind"),
    ("dir:{top}/dir=..", "cannot be a folder's name"),
    ("dir:/", "--source"),
    ("dir:{state}", "contains ward's own state"),
])
def test_bad_sources(place, word, want):
    place.repo()
    place.folder()
    place.run("--", "true")
    error = one_line(place.run("--source", word.format(top=place.top, state=place.ward.state), "--", "true"))
    assert want in error
    assert place.leftovers() == []


def test_killed_ward_is_swept(place):
    repo = place.repo()
    run = place.ward.start("run", "--tier", "workspace", "--source", f"git:{repo}", "--", "sleep", "600",
                           start_new_session=True)
    end = time.monotonic() + 30
    while not any((place.ward.state / "boxes").glob("*/workspace")) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2)
    assert place.leftovers() != []
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    assert place.ward("gc").returncode == 0
    assert place.leftovers() == []
    assert place.sh("git worktree list | wc -l", cwd=repo) == "1\n"


def every_call(place):
    """How many host calls a run makes; the run itself, with all kinds of sources."""
    place.repo()
    place.folder()
    place.folder("copied")
    args = ["run", "--tier", "workspace", "--source", f"git:{place.top}/repo", "--source", f"dir:{place.top}/dir",
            "--source", f"copy:{place.top}/copied", "--", "true"]
    fault = Ward(FAULT, place.ward.state)
    log = place.top / "log"
    done = fault(*args, env={"WARD_FAULT_LOG": str(log), "WARD_FAULT_SIDE": "parent"})
    assert done.returncode == 0, done.stderr
    return fault, args, len(log.read_text().splitlines())


@pytest.mark.parametrize("what", ["kill", "5"])
def test_nothing_is_left_whatever_fails(ward, tmp_path, what):
    if os.geteuid() != 0 or not FAULT.exists():
        pytest.skip("needs root and ward-fault")
    top = tmp_path / "place"
    top.mkdir()
    place = Place(ward, top, [])
    fault, args, count = every_call(place)
    before = place.sh("find . -not -path '*/objects/*' | sort")
    for at in range(1, count + 1, 4):
        done = fault(*args, env={"WARD_FAULT_AT": str(at), "WARD_FAULT_DO": what, "WARD_FAULT_SIDE": "parent"})
        if what != "kill":
            assert done.returncode in (0, 125), done.stderr
        gc = place.ward("gc")
        assert gc.returncode == 0, f"call {at}: {gc.stderr}"
        (top / "repo/.git/worktrees").exists() and (top / "repo/.git/worktrees").rmdir()  # empty is git's own way
        assert place.leftovers() == [], f"call {at}"
        assert place.sh("find . -not -path '*/objects/*' | sort") == before, f"call {at}"


def test_the_source_may_vanish(place):
    repo = place.repo()
    box = place.keep("--source", f"git:{repo}", script="echo x > n")
    place.sh("mv repo elsewhere")
    assert "repository" in one_line(place.ward("diff", box))
    assert place.ward("rm", box).returncode == 0
    assert not any((place.ward.state / "boxes").iterdir())


# Diff and apply ------------------------------------------------------------------------------------

CHANGE_REPO = ("sed -i s/two/TWO/ a; git commit -q -a -m inside; echo new > n; rm d/x; mkdir e; echo y > 'e/y z'; "
               "touch t.o; chmod +x .gitignore")


def test_diff_of_a_repository(place):
    repo = place.repo()
    box = place.keep("--source", f"git:{repo}", script=CHANGE_REPO)
    patch = place.ward("diff", box)
    assert patch.returncode == 0, patch.stderr
    for line in ("-two", "+TWO", "deleted file mode 100644", "--- /dev/null", "+++ b/n", "+++ b/e/y z",
                 "new mode 100755"):
        assert line in patch.stdout
    assert "t.o" not in patch.stdout
    assert place.ward("diff", box, "--name-only").stdout.split("\n")[:-1] == [".gitignore", "a", "d/x", "e/y z", "n"]
    assert "5 files changed" in place.ward("diff", "--stat", box).stdout
    data = json.loads(place.ward("diff", box, "--json").stdout)
    assert data["id"] == box
    files = {f["path"]: f for f in data["sources"][0]["files"]}
    assert files["a"] == {"path": "a", "status": "modified", "added": 1, "deleted": 1}
    assert files["d/x"]["status"] == "deleted" and files["n"]["status"] == "added"
    # Looking changes nothing.
    assert place.sh("git status --porcelain", cwd=repo) == ""


def test_apply_to_a_checkout(place):
    repo = place.repo()
    box = place.keep("--source", f"git:{repo}", script=CHANGE_REPO)
    place.sh("echo untouched > other", cwd=repo)
    check = place.ward("apply", box, "--check")
    assert check.returncode == 0 and "5 changes would apply" in check.stdout, check.stderr
    assert place.sh("git status --porcelain", cwd=repo) == "?? other\n"
    done = place.ward("apply", box)
    assert done.returncode == 0, done.stderr
    assert place.sh("cat a n 'e/y z'; ls d 2>&1 || true; git status --porcelain", cwd=repo).startswith(
        "one\nTWO\nthree\nfour\nnew\ny\n")
    assert place.sh("cat other; git log --oneline | wc -l; git branch", cwd=repo) == "untouched\n2\n* main\n"
    # Once more does not fit, and says so.
    assert "does not take the changes" in one_line(place.ward("apply", box))
    assert place.ward("rm", box).returncode == 0


def test_apply_refuses_what_does_not_fit(place):
    repo = place.repo()
    box = place.keep("--source", f"git:{repo}", script="sed -i s/two/TWO/ a; echo new > n")
    place.sh("sed -i s/two/zwei/ a", cwd=repo)
    assert "does not take the changes" in one_line(place.ward("apply", box))
    assert place.sh("git diff --name-only; ls n 2>/dev/null || echo none", cwd=repo) == "a\nnone\n"


def test_apply_as_a_branch(place):
    repo = place.repo()
    box = place.keep("--source", f"git:{repo}", script="git switch -q -c topic; " + CHANGE_REPO)
    place.sh("echo mine >> a", cwd=repo)
    done = place.ward("apply", box, "--branch", "from-ward", "--json")
    assert done.returncode == 0, done.stderr
    commit = json.loads(done.stdout)["sources"][0]["commit"]
    assert place.sh("git log --format=%s from-ward; git rev-parse from-ward", cwd=repo).split("\n")[:4] == [
        f"Changes of workspace {box}", "inside", "second", "first"]
    assert place.sh("git rev-parse from-ward", cwd=repo).strip() == commit
    assert place.sh("git show from-ward:a; git diff --stat main from-ward --name-only", cwd=repo) == (
        "one\nTWO\nthree\nfour\n.gitignore\na\nd/x\ne/y z\nn\n")
    assert place.sh("git status --porcelain; git branch; git fsck --no-dangling 2>/dev/null", cwd=repo) == (
        " M a\n  from-ward\n* main\n")
    assert "already" in one_line(place.ward("apply", box, "--branch", "from-ward"))
    assert "not a name" in one_line(place.ward("apply", box, "--branch", "a..b"))


def test_nothing_to_apply(place):
    repo = place.repo()
    box = place.keep("--source", f"git:{repo}", script="true")
    assert place.ward("diff", box).stdout == ""
    assert "nothing to apply" in place.ward("apply", box).stdout
    assert "nothing to apply" in place.ward("apply", box, "--branch", "x").stdout
    assert place.sh("git branch", cwd=repo) == "* main\n"


def test_a_hostile_workspace_runs_nothing_outside(place):
    repo = place.repo()
    proof = place.top / "proof"
    box = place.keep("--source", f"git:{repo}", script=(
        "rm .git; git init -q .; git config core.fsmonitor 'touch {0}; false'; "
        "git config diff.external 'touch {0}'; git config core.pager 'touch {0}'; "
        "printf '#!/bin/sh\\ntouch {0}\\n' > .git/hooks/post-checkout; chmod +x .git/hooks/*; "
        "printf '* filter=evil diff=evil\\n' > .gitattributes; git config filter.evil.clean 'touch {0}'; "
        "git config diff.evil.textconv 'touch {0}'; echo more >> a").format(proof))
    assert place.ward("diff", box).returncode == 0
    assert place.ward("apply", box, "--branch", "b").returncode == 0
    assert place.ward("apply", box).returncode == 0
    assert place.ward("rm", box).returncode == 0
    assert not proof.exists()
    assert place.leftovers() == []


def test_a_hostile_submodule_runs_nothing_outside(place):
    """A git that looks at a repository with submodules starts one in each of them."""
    place.repo("inner")
    repo, proof = place.repo(), place.top / "proof"
    place.sh("git -c protocol.file.allow=always submodule --quiet add ../inner sub; git commit -q -m sub", cwd=repo)
    inner = place.top / "inner"
    box = place.keep("--source", f"git:{repo}", "--mount", f"{inner}:{inner}:ro", script=(
        "git -c safe.directory='*' clone -q {1} x; mv x/.git sub/; rm -rf x; cd sub; git checkout -q -f; "
        "printf '* filter=evil\\n' > .gitattributes; git config filter.evil.clean 'touch {0}; cat'; "
        "git config core.fsmonitor 'touch {0}'; echo 5 > a; echo new > g; cd ..; echo x > top; "
        "git init -q own; echo y > own/y").format(proof, inner))
    assert place.ward("diff", box, "--name-only").stdout == "top\n"
    assert place.ward("apply", box, "--branch", "b").returncode == 0
    assert place.ward("apply", box).returncode == 0
    assert not proof.exists()
    assert place.sh("git status --porcelain", cwd=repo) == "?? top\n"


def test_a_submodule_that_became_a_folder(place):
    place.repo("inner")
    repo = place.repo()
    place.sh("git -c protocol.file.allow=always submodule --quiet add ../inner sub; git commit -q -m sub", cwd=repo)
    box = place.keep("--source", f"git:{repo}", script="echo x > sub/x; mkdir sub/d; echo y > sub/d/y; echo t > top")
    assert place.ward("diff", box, "--name-only").stdout == "top\n"


def test_a_workspace_that_became_a_link(place):
    repo, folder = place.repo(), place.folder()
    place.sh("mkdir keys; echo key > keys/id")
    for source in (f"git:{repo}", f"copy:{folder}"):
        box = place.keep("--source", source, script=f"cd ..; rm -rf *; ln -s {place.top}/keys {source.split('/')[-1]}")
        for verb in ("diff", "apply"):
            done = place.ward(verb, box)
            assert done.returncode == 125 and "key" not in done.stdout, done.stdout
        assert place.ward("rm", box).returncode == 0
    assert place.sh("cat keys/id; ls repo dir") == "key\ndir:\na\nb\nempty\nlink\nsub\ntool\n\nrepo:\na\nd\n"


CHANGE_DIR = ("echo changed > a; rm -r sub; mkdir new; echo n > new/n; ln -sf b link; chmod 600 tool; rmdir empty; "
              "mkdir b2; mv b b2/b")


@pytest.mark.parametrize("kind", ["dir", "copy"])
def test_diff_and_apply_of_a_folder(place, kind):
    folder = place.folder()
    box = place.keep("--source", f"{kind}:{folder}", script=CHANGE_DIR)
    patch = place.ward("diff", box)
    assert patch.returncode == 0, patch.stderr
    assert "-one\n+changed" in patch.stdout and "deleted file mode 100644" in patch.stdout
    names = place.ward("diff", box, "--name-only").stdout.split()
    assert set(names) >= {"a", "link", "new/n", "sub/c", "tool", "b2/b"}
    assert place.sh("cat a", cwd=folder) == "one\n"
    assert "would apply" in place.ward("apply", box, "--check").stdout
    assert place.sh("cat a", cwd=folder) == "one\n"
    done = place.ward("apply", box)
    assert done.returncode == 0, done.stderr
    assert place.sh("cat a new/n b2/b; readlink link; stat -c %a tool; find . | sort", cwd=folder) == (
        "changed\nn\ntwo\nb\n600\n.\n./a\n./b2\n./b2/b\n./link\n./new\n./new/n\n./tool\n")
    assert place.ward("diff", box).stdout == ""
    assert "nothing to apply" in place.ward("apply", box).stdout
    assert place.ward("rm", box).returncode == 0
    assert place.leftovers() == []


@pytest.mark.parametrize("kind", ["dir", "copy"])
def test_others_changed_the_folder_since(place, kind):
    folder = place.folder()
    box = place.keep("--source", f"{kind}:{folder}", script="echo changed > a; rm b; echo mine > n")
    # What the command did not touch is nobody's business.
    place.sh("echo later > sub/c; echo extra > extra; rm tool", cwd=folder)
    done = place.ward("apply", box, "--check")
    assert done.returncode == 0, done.stderr
    place.sh("echo theirs > a; echo theirs > n", cwd=folder)
    error = one_line(place.ward("apply", box))
    assert "changed since" in error and "2 of its changes" in error and "--force" in error
    assert place.sh("cat a b n", cwd=folder) == "theirs\ntwo\ntheirs\n"
    assert place.ward("apply", box, "--force").returncode == 0
    assert place.sh("cat a n sub/c extra; ls", cwd=folder) == (
        "changed\nmine\nlater\nextra\na\nempty\nextra\nlink\nn\nsub\n")


def test_one_source_that_refuses_stops_all(place):
    repo, folder = place.repo(), place.folder()
    box = place.keep("--source", f"git:{repo}", "--source", f"dir:{folder}",
                     script="echo x > repo/n; echo changed > dir/a")
    assert "+++ b/repo/n" in place.ward("diff", box).stdout and "+++ b/dir/a" in place.ward("diff", box).stdout
    place.sh("echo theirs > a", cwd=folder)
    one_line(place.ward("apply", box))
    assert not (repo / "n").exists()
    assert "is a folder" in one_line(place.ward("apply", box, "--branch", "b"))


@pytest.mark.parametrize("args, want", [
    (("diff",), "needs the id"),
    (("diff", "../x"), "not the id"),
    (("diff", "aaaaaaaaaaaa"), "no kept sandbox"),
    (("diff", "aaaaaaaaaaaa", "--stat", "--json"), "one of"),
    (("diff", "--what"), "not an option"),
    (("apply",), "needs the id"),
    (("apply", "aaaaaaaaaaaa"), "no kept sandbox"),
    (("apply", "aaaaaaaaaaaa", "--branch"), "needs the name"),
    (("apply", "aaaaaaaaaaaa", "--branch", "b", "--check"), "goes with none"),
])
def test_bad_words(ward, args, want):
    ward("run", "--tier", "workspace", "--", "true")
    assert want in one_line(ward(*args))


@pytest.mark.parametrize("name", ["diff", "apply"])
def test_help(ward, name):
    assert ward(name, "--help").stdout.startswith(f"Usage: ward {name} ID")
