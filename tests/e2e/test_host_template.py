"""The template `host`: real tools work in it, and nothing of the host shows that should not."""
import os
import pathlib
import shutil
import stat
import subprocess

import pytest

from runbox import CONTAINER, Box, box, ends, needs_root, place, read_until, user_box  # noqa: F401
from wardtest import BINARY, public_directory

# Who runs the tools: the sandbox's root, and somebody without any capability.
USERS = {"root": (), "user": ("--user", "1000", "-e", "HOME=/tmp/home")}
everybody = pytest.mark.parametrize("who", [pytest.param(USERS["root"], id="root"),
                                            pytest.param(USERS["user"], id="user", marks=needs_root)])


def shell(box, who, script, *args):
    return box.out(*who, *args, "--workdir", "/tmp", "--", "sh", "-ec", "mkdir -p $HOME\n" + script)


def needs(tool):
    return pytest.mark.skipif(not shutil.which(tool, path="/usr/local/bin:/usr/bin:/bin"), reason=f"no {tool} on this host")


# Real work.

@everybody
@needs("python3")
def test_python(box, who):
    script = ("python3 - <<'E'\nimport ssl, sqlite3, json, subprocess, multiprocessing, tempfile, threading, socket, os, ctypes\n"
              "with multiprocessing.Pool(2) as p: assert p.map(abs, [-1, -2]) == [1, 2]\n"
              "c = sqlite3.connect('/tmp/db'); c.execute('create table t(x)'); c.commit()\n"
              "assert subprocess.check_output(['echo', 'x']) == b'x\\n'\n"
              "assert ssl.create_default_context().get_ca_certs()\n"
              "with tempfile.NamedTemporaryFile() as f: f.write(b'x')\n"
              "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n"
              "print(6 * 7)\nE")
    assert shell(box, who, script) == "42\n"


@everybody
@needs("gcc")
def test_compile_and_run(box, who):
    script = ("cat > a.c <<'E'\n#include <stdio.h>\n#include <pthread.h>\nstatic void *f(void *p) { puts(p); return 0; }\n"
              "int main(void) { pthread_t t; pthread_create(&t, 0, f, \"thread\"); return pthread_join(t, 0); }\nE\n"
              "gcc -O2 -Wall -pthread a.c -o a && ./a && gcc -c -g a.c && ar rc liba.a a.o && gcc -shared -fPIC -o a.so a.c")
    assert shell(box, who, script) == "thread\n"


@everybody
@needs("git")
def test_git(box, who):
    script = ("git init -q r && cd r && git config user.name n && git config user.email e@x && echo a > f && git add f\n"
              "git commit -qm first && git checkout -qb other && echo b >> f && git commit -qam second\n"
              "git clone -q . ../copy && cd ../copy && git log --format=%s && git worktree add -q ../tree HEAD~1 && cat ../tree/f && git gc -q")
    assert shell(box, who, script) == "second\nfirst\na\n"


@everybody
def test_tar(box, who):
    script = ("mkdir -p d/e && echo x > d/e/f && ln -s f d/e/l && ln d/e/f d/e/h && chmod 640 d/e/f && mkfifo d/p\n"
              "tar czf a.tgz d && mkdir out && tar xpzf a.tgz -C out && find out | sort && stat -c %a out/d/e/f && cmp d/e/f out/d/e/h")
    assert shell(box, who, script) == "out\nout/d\nout/d/e\nout/d/e/f\nout/d/e/h\nout/d/e/l\nout/d/p\n640\n"


@needs_root
def test_tar_keeps_owners_as_root(box):
    """chown works inside, as package managers need it."""
    script = ("echo x > f && chown 1000:50 f && tar cf a.tar f && rm f && tar xpf a.tar && stat -c %u:%g f\n"
              "install -o 33 -g 33 -m 4755 f g && stat -c '%u:%g %a' g && cp -a g h && stat -c %u h")
    assert shell(box, USERS["root"], script) == "1000:50\n33:33 4755\n33\n"


@everybody
@needs("make")
def test_make(box, who):
    script = "printf 'all: a b c\\n\\ta=1; true\\n%%: ; @sleep 0.1; touch $@\\n' > Makefile && make -s -j4 && ls"
    assert set(shell(box, who, script).split()) >= {"a", "b", "c", "Makefile"}


@everybody
@needs("python3")
def test_virtual_environment(box, who):
    script = "python3 -m venv --without-pip v && . v/bin/activate && python -c 'import sys; print(sys.prefix)'"
    assert shell(box, who, script) == "/tmp/v\n"


@everybody
@needs("node")
def test_node(box, who):
    script = ("node -e 'const {Worker, isMainThread} = require(\"worker_threads\"); const w = new Worker(\"require(\\\"worker_threads\\\")"
              ".parentPort.postMessage(6*7)\", {eval: true}); w.on(\"message\", m => console.log(m))'")
    assert shell(box, who, script) == "42\n"


@everybody
@needs("perl")
def test_perl(box, who):
    assert shell(box, who, "perl -MFile::Temp=tempfile -MPOSIX -e 'my ($f) = tempfile(); print 6*7, \"\\n\"'") == "42\n"


@everybody
def test_small_things(box, who):
    script = ("date +%Z > /dev/null; echo $$ > /dev/null; head -c 8 /dev/urandom | wc -c; echo x | tee /dev/shm/f; cat < /dev/null\n"
              "test -w /tmp && test -w /var/tmp && test -d /run && id > /dev/null; getent passwd root | cut -d: -f1; (sleep 0.01 & wait)\n"
              "python3 -c 'import os; os.openpty()'; find /proc/self/fd > /dev/null; ps ax > /dev/null; df / > /dev/null; getconf PAGESIZE > /dev/null")
    assert shell(box, who, script) == "8\nx\nroot\n"


@needs_root
def test_package_files_can_be_unpacked(box, place):
    """dpkg as root inside: owners, modes, its database."""
    if not shutil.which("dpkg-deb"):
        pytest.skip("no dpkg-deb on this host")
    script = ("mkdir -p p/DEBIAN p/usr/share/x && echo hi > p/usr/share/x/f && printf 'Package: x\\nVersion: 1\\nArchitecture: all\\n"
              "Maintainer: m <m@x>\\nDescription: d\\n' > p/DEBIAN/control && dpkg-deb -b p x.deb > /dev/null && mkdir r && dpkg-deb -x x.deb r"
              " && cat r/usr/share/x/f")
    assert shell(box, USERS["root"], script) == "hi\n"


# What is not there.

def test_etc_is_curated(box):
    listing = box.out("--", "find", "/etc", "-printf", "%y %m %p\\n")
    names = {line.split(" ", 2)[2] for line in listing.splitlines()}
    for secret in ("shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private", "machine-id", "fstab",
                   "crontab", "cron.d", "resolv.conf", "krb5.keytab", "docker", "environment", "security/opasswd", "passwd-", "subuid",
                   "gitconfig", "apt", "pam.d", "systemd", "wireguard", "NetworkManager"):
        assert f"/etc/{secret}" not in names, secret
    for line in listing.splitlines():
        kind, mode, name = line.split(" ", 2)
        assert kind in "fdl", line
        assert not int(mode, 8) & 0o6000, f"setuid or setgid: {line}"


def test_etc_shows_only_what_everybody_may_read(box):
    """Each file inside is one that the host shows to everybody, and has the same bytes."""
    names = box.out("--", "find", "/etc", "-type", "f").splitlines()
    assert len(names) > 20
    for name in set(names) - {"/etc/hosts", "/etc/hostname"}:
        outside = os.stat(name)
        assert stat.S_ISREG(outside.st_mode) and outside.st_mode & stat.S_IROTH, name
        folder = pathlib.Path(name).parent
        while folder != pathlib.Path("/"):
            assert os.stat(folder).st_mode & stat.S_IXOTH, f"{name} is in a closed folder"
            folder = folder.parent


def test_etc_has_what_programs_need(box):
    for name in ("passwd", "group", "ld.so.cache", "nsswitch.conf", "ssl/certs", "alternatives", "hosts"):
        if os.path.exists(f"/etc/{name}"):
            assert box("--", "test", "-e", f"/etc/{name}").returncode == 0, name
    assert "localhost" in box.out("--", "cat", "/etc/hosts")


def test_host_folders_are_not_there(box):
    assert box.out("--", "find", "/home", "/root", "/srv", "/mnt", "/media", "/run", "-mindepth", "1").split() == ["/home/user"]
    assert box.out("--", "find", "/var", "-mindepth", "2").split() == []
    assert set(box.out("--", "ls", "-A", "/").split()) <= {"bin", "dev", "etc", "home", "lib", "lib32", "lib64", "libx32", "media", "mnt",
                                                           "opt", "proc", "root", "run", "sbin", "srv", "sys", "tmp", "usr", "var"}
    assert box.out("--", "ls", "-A", "/sys", "/tmp") == "/sys:\n\n/tmp:\n"


def test_the_top_is_the_top(box):
    assert len(set(box.out("--", "stat", "-c", "%d:%i", "/", "/..", "/../..", "/tmp/../..").split())) == 1
    assert box.out("--", "sh", "-c", "cd /; ls -A /.. ; ls -A /../../..").split() == 2 * box.out("--", "ls", "-A", "/").split()
    done = box("--", "python3", "-c", "import os\nos.mkdir('/x'); os.chroot('/x')\nfor i in range(50):\n  os.chdir('..')\nos.chroot('.')\n"
               "print(*sorted(os.listdir('/')))")
    assert "usr" in done.stdout and "work" not in done.stdout.split()


ALLOWED = {"/": "overlay", "/usr": None, "/opt": None, "/bin": None, "/sbin": None, "/lib": None, "/lib32": None, "/lib64": None,
           "/libx32": None, "/dev": None, "/dev/shm": None, "/dev/pts": "devpts", "/dev/mqueue": "mqueue", "/proc": "proc"}
PROC_ALLOWED = {"sys", "irq", "bus", "fs", "acpi", "scsi", "asound", "kcore", "keys", "key-users", "kmsg", "latency_stats", "sched_debug",
                "sysrq-trigger", "timer_list"}


def mountinfo(text):
    for line in text.splitlines():
        before, after = line.split(" - ")
        fields = before.split()
        yield fields[4], fields[5].split(","), after.split()[0]


@pytest.mark.parametrize("which", ["box", "user_box"])
def test_only_its_own_mounts(which, request):
    """The host's mount table is gone; what is left is listed here, with what each may do."""
    box = request.getfixturevalue(which)
    seen = set()
    for at, options, kind in mountinfo(box.out("--", "cat", "/proc/self/mountinfo")):
        name = at.removeprefix("/proc/") if at.startswith("/proc/") else None
        below = [top for top in ("/usr/", "/opt/") if at.startswith(top)]
        if name:
            assert name in PROC_ALLOWED, at
            if which == "box":
                assert "ro" in options, (at, options)
        elif at.startswith("/dev/") and at not in ALLOWED:
            assert which == "user_box" and at in {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}, at
            continue
        elif not below:
            assert at in ALLOWED, at
            assert ALLOWED[at] in (None, kind), (at, kind)
        seen.add(at)
        assert "nosuid" in options or name, (at, options)
        assert "nodev" in options or at.startswith("/dev") or name, (at, options)
        if at in ("/usr", "/opt", "/bin", "/lib") or below:
            assert "ro" in options, (at, options)
    assert {"/", "/usr", "/dev", "/dev/pts", "/dev/shm", "/proc", "/proc/sys"} <= seen


def test_usr_is_read_only(box):
    for path in ("/usr/x", "/usr/bin/x", "/opt/x", "/usr/local/x"):
        done = box("--", "touch", path)
        assert done.returncode == 1 and "Read-only file system" in done.stderr


def test_devices(box):
    names = set(box.out("--", "ls", "/dev").split())
    assert names == {"fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
    assert box("--", "mknod", "/tmp/disk", "b", "8", "0").returncode == 1


def test_writes_go_nowhere(box):
    """What one run writes, no other sees; the template is untouched."""
    before = box.out("--", "sh", "-c", "find / -xdev 2>/dev/null | sort | cksum")
    box.out("--", "sh", "-c", "echo x > /etc/passwd; rm -rf /etc/ssl /var /home; touch /new /root/new; chmod 0 /etc; mkdir /tmp/d")
    assert box.out("--", "sh", "-c", "find / -xdev 2>/dev/null | sort | cksum") == before
    assert box.out("--", "sh", "-c", "grep -c ^root: /etc/passwd") == "1\n"


def test_two_at_once_do_not_meet(box):
    """Files, processes, queues, shared memory, abstract sockets, host names: each has its own."""
    first = box.start("--", "python3", "-c",
                      "import os, socket, sys\nopen('/tmp/mine','w').write('first'); open('/dev/shm/mine','w').write('first')\n"
                      "s = socket.socket(socket.AF_UNIX); s.bind('\\0mine'); s.listen()\nos.system('ipcmk -M 4096 > /dev/null')\n"
                      "print('up', flush=True); sys.stdin.read()", stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    with ends(first):
        read_until(first.stdout, b"up\n")
        second = box.out("--", "sh", "-c", "ls -A /tmp /dev/shm /dev/mqueue; set -- /proc/[0-9]*; echo $#; ipcs -m | grep -c 4096; "
                         "grep -c '@mine' /proc/net/unix; true")
        assert second == "/dev/mqueue:\n\n/dev/shm:\n\n/tmp:\n2\n0\n0\n", second
        first.stdin.close()
        first.stdin = None


def test_processes_inside_are_only_ours(box):
    table = box.out("--", "sh", "-c", "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done")
    assert "pytest" not in table and "/" + str(BINARY.name) + " " not in table and "--state-dir" not in table
    assert table.splitlines()[0].startswith("ward-agent")


# The template follows the host.

def unshared(script, *args):
    """A shell with mounts of its own: what it hangs over /etc nobody else sees."""
    return subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-ec", script, "sh", *map(str, args)], text=True,
                          capture_output=True, timeout=60, stdin=subprocess.DEVNULL)


@needs_root
def test_follows_the_hosts_users(box, place):
    before = box.out("--", "cat", "/etc/passwd")
    (place / "passwd").write_text(pathlib.Path("/etc/passwd").read_text() + "newcomer:x:4242:4242::/home/newcomer:/bin/sh\n")
    run = " ".join(box.argv(*CONTAINER))
    done = unshared(f"mount --bind $1 /etc/passwd; {run} --user newcomer -- id -u; {run} -- grep newcomer /etc/passwd", place / "passwd")
    assert done.stdout.startswith("4242\nnewcomer:"), done
    assert box.out("--", "cat", "/etc/passwd") == before


@needs_root
def test_skeletons_of_the_past_are_swept(box, place):
    (place / "group").write_text(pathlib.Path("/etc/group").read_text() + "newgroup:x:4242:\n")
    folder = box.state / "templates" / ".host"
    box.out("--", "true")
    unshared(f"mount --bind $1 /etc/group; {' '.join(box.argv(*CONTAINER))} -- true", place / "group")
    assert len(list(folder.iterdir())) >= 2
    assert box.ward("gc").returncode == 0
    box.out("--", "true")
    assert len(list(folder.iterdir())) <= 2, "gc keeps at most the one in use and the newest"


def test_first_runs_at_once_make_one_template():
    with public_directory() as place:
        box = Box(BINARY, place / "state")
        processes = [box.start("--", "sh", "-c", "ls /etc | wc -l", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                     for _ in range(12)]
        ended = [(*p.communicate(timeout=60), p.returncode) for p in processes]
        assert len(set(ended)) == 1 and ended[0][1:] == ("", 0), ended
        # Losers of the race leave nothing of their attempt.
        box.ward("gc")
        assert len(list((place / "state" / "templates" / ".host").iterdir())) == 1


def test_ordinary_user_tools(user_box):
    script = ("mkdir -p /root/x; echo 'int main(){return 0;}' > a.c; gcc a.c -o a && ./a; python3 -c 'print(6*7)'; git init -q r; ls -d r;"
              " tar cf a.tar a && tar xf a.tar && make --version > /dev/null && echo made")
    assert user_box.out("--workdir", "/tmp", "--", "sh", "-ec", script) == "42\nr\nmade\n"


def test_ordinary_user_sees_nothing_of_the_host(user_box):
    assert user_box.out("--", "find", "/home", "/root", "/srv", "/mnt", "/media", "/run", "-mindepth", "1").split() == ["/home/user"]
    assert user_box("--", "cat", "/etc/shadow").returncode == 1
    assert user_box("--", "touch", "/usr/x").returncode == 1


@needs_root
def test_closed_files_of_the_host_stay_closed(place):
    """/opt and /usr/local are shown, but a file that only the host's root may read is not for the sandbox's root."""
    box = Box(BINARY, place / "state")
    done = unshared("mount -t tmpfs x /opt; chmod 755 /opt; echo secret > /opt/key; chmod 600 /opt/key; echo open > /opt/open; "
                    f"{' '.join(box.argv(*CONTAINER))} -- cat /opt/open /opt/key || true")
    assert done.stdout == "open\n" and "Permission denied" in done.stderr, done


@needs_root
def test_follows_every_file_that_it_shows(box, place):
    box.out("--", "true")
    (place / "profile").write_text("# another one\n")
    done = unshared(f"mount --bind $1 /etc/profile; {' '.join(box.argv(*CONTAINER))} -- cat /etc/profile", place / "profile")
    assert done.stdout == "# another one\n"


@needs_root
def test_closed_files_in_a_listed_folder_stay_out(place):
    """/etc/skel is shown, but not what only root may read in it, nor what is no file."""
    box = Box(BINARY, place / "state")
    fill = ("mount -t tmpfs x /etc/skel; cd /etc/skel; echo open > open; echo closed > closed; chmod 600 closed; mkdir shut; echo x > shut/inner;"
            "chmod 700 shut; mkfifo fifo; mknod disk b 8 0; ln -s /etc/shadow link; echo s > setuid; chmod 4755 setuid; chown 1000:1000 open; ")
    done = unshared(fill + f"{' '.join(box.argv(*CONTAINER))} -- sh -c 'find /etc/skel -mindepth 1 | sort; cat /etc/skel/open /etc/skel/closed /etc/skel/link /etc/skel/shut/inner; true'")
    names = {line for line in done.stdout.splitlines() if line.startswith("/etc/skel/")}
    assert "/etc/skel/open" in names
    assert not names & {"/etc/skel/closed", "/etc/skel/fifo", "/etc/skel/disk", "/etc/skel/shut/inner"}, names
    assert "closed" not in done.stdout.replace("/etc/skel/closed", "") and "root:" not in done.stdout


def test_ordinary_user_masks_are_read_only(user_box):
    table = mountinfo(user_box.out("--", "cat", "/proc/self/mountinfo"))
    assert [at for at, options, kind in table if at.startswith("/proc/") and kind != "devtmpfs" and "ro" not in options] == []


# The account that clients of the API expect.

@needs_root
def test_account(box):
    """One `user`, number 1000, whose home is there and writable by it; the host's own 1000 is gone."""
    script = ("id -un; id -gn; echo $HOME; touch ~/f; stat -c '%U:%G %a' ~ ; grep -c '^user:' /etc/passwd /etc/group\n"
              "cut -d: -f3 /etc/passwd | grep -cx 1000; getent passwd user | cut -d: -f7")
    assert box.out("--user", "user", "--", "sh", "-ec", script) == (
        "user\nuser\n/home/user\nuser:user 755\n/etc/passwd:1\n/etc/group:1\n1\n/bin/bash\n")
