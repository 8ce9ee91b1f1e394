"""--mount."""
import os
import pathlib
import subprocess

import pytest

from runbox import box, needs_root, place  # noqa: F401
from runparts import one_line, tree  # noqa: F401


def snapshot(path):
    return sorted((str(p.relative_to(path)), p.read_text() if p.is_file() else None) for p in path.rglob("*"))


@pytest.mark.parametrize("mode", ["", ":ro"])
def test_mount_read_only(box, tree, mode):
    before = snapshot(tree)
    script = "cat /m/file; for c in 'echo x > /m/file' 'touch /m/new' 'rm /m/file' 'mkdir /m/d' 'chmod 777 /m/file' " \
             "'chown 5 /m/file' 'ln /m/file /m/l' 'mv /m/file /m/g' 'touch /m/sub/deep'; do " \
             "(eval $c) 2>&1 | grep -q 'Read-only file system' || echo \"not refused: $c\"; done"
    assert box.out("--mount", f"{tree}:/m{mode}", "--", "sh", "-c", script) == "content\n"
    assert snapshot(tree) == before


@needs_root
def test_mount_read_only_cannot_be_undone(box, tree):
    script = "mount -o remount,rw /m; umount /m; echo x > /m/file; true"
    box("--mount", f"{tree}:/m", "--", "sh", "-c", script)
    assert (tree / "file").read_text() == "content\n"


def test_mount_writable(box, tree):
    box.out("--mount", f"{tree}:/m:rw", "--", "sh", "-c", "echo new > /m/new; mkdir /m/d; rm /m/file; echo more >> /m/sub/deep")
    assert (tree / "new").read_text() == "new\n" and (tree / "d").is_dir() and not (tree / "file").exists()
    assert (tree / "sub" / "deep").read_text() == "deep\nmore\n"


@needs_root
def test_mount_ids(box, tree):
    """What root owns outside root owns inside, and what is written inside belongs to the same id outside."""
    os.chown(tree / "file", 1234, 2345)
    assert box.out("--mount", f"{tree}:/m:rw", "--", "stat", "-c", "%u:%g", "/m", "/m/file") == "0:0\n1234:2345\n"
    box.out("--mount", f"{tree}:/m:rw", "--", "sh", "-c", "touch /m/a; touch /m/b; chown 77:88 /m/b; chmod 4755 /m/b")
    assert [(os.stat(tree / n).st_uid, os.stat(tree / n).st_gid) for n in "ab"] == [(0, 0), (77, 88)]
    os.chmod(tree, 0o777)
    box.out("--mount", f"{tree}:/m:rw", "--user", "1000", "--", "touch", "/m/c")
    assert os.stat(tree / "c").st_uid == 1000


@needs_root
def test_mount_setuid_and_devices_have_no_power(box, tree):
    os.mknod(tree / "disk", 0o666 | 0o020000, os.makedev(1, 5))
    subprocess.run(["cp", "/usr/bin/id", tree / "id"], check=True)
    (tree / "id").chmod(0o4755)
    done = box("--mount", f"{tree}:/m", "--user", "1000", "--", "sh", "-c", "/m/id -u; head -c 1 /m/disk")
    assert done.stdout == "1000\n" and done.returncode != 0


def test_mount_overlay(box, tree):
    before = snapshot(tree)
    script = "echo changed > /m/file; rm -r /m/sub; echo new > /m/new; ls /m; cat /m/file"
    assert box.out("--mount", f"{tree}:/m:overlay", "--", "sh", "-c", script) == "file\nnew\nchanged\n"
    assert snapshot(tree) == before
    assert box.out("--mount", f"{tree}:/m:overlay", "--", "sh", "-c", "ls /m; cat /m/file") == "file\nsub\ncontent\n"


def test_mount_of_a_file(box, tree):
    assert box.out("--mount", f"{tree}/file:/etc/single", "--", "cat", "/etc/single") == "content\n"
    assert box("--mount", f"{tree}/file:/etc/single", "--", "sh", "-c", "echo x > /etc/single").returncode != 0
    box.out("--mount", f"{tree}/file:/new/place/f:rw", "--", "sh", "-c", "echo through >> /new/place/f")
    assert (tree / "file").read_text() == "content\nthrough\n"
    assert box.out("--mount", f"{tree}/file:/etc/passwd", "--", "cat", "/etc/passwd") == "content\nthrough\n"


def test_mounts_inside_each_other(box, tree, place):
    other = place / "other"
    (other / "x").mkdir(parents=True)
    (other / "here").write_text("other\n")
    args = ["--mount", f"{other}:/a/b:rw", "--mount", f"{tree}:/a/b/x", "--mount", f"{tree}/file:/a/b/x/sub/deep"]
    assert box.out(*args, "--", "sh", "-c", "cat /a/b/here /a/b/x/file /a/b/x/sub/deep") == "other\ncontent\ncontent\n"
    assert box.out("--mount", f"{tree}:/twice", "--mount", f"{other}:/twice", "--", "ls", "/twice") == "here\nx\n"


def test_mount_from_a_link_and_relative(box, tree, place):
    (place / "link").symlink_to(tree)
    (place / "filelink").symlink_to(tree / "file")
    assert box.out("--mount", f"{place}/link:/m", "--", "cat", "/m/file") == "content\n"
    assert box.out("--mount", f"{place}/filelink:/m", "--", "cat", "/m") == "content\n"
    assert box.out("--mount", "source:/m", "--", "cat", "/m/file", cwd=place) == "content\n"
    assert box.out("--mount", ".:/m", "--", "cat", "/m/source/file", cwd=place) == "content\n"
    (place / "dangling").symlink_to(place / "nothing")
    one_line(box("--mount", f"{place}/dangling:/m", "--", "true"), "--mount", "No such file")


def test_mount_links_inside_the_source_stay_inside(box, tree):
    """A link in a mount leads to the sandbox's files, not to the host's."""
    (tree / "out").symlink_to("/etc/shadow")
    (tree / "up").symlink_to("../../../../../../etc/hostname")
    done = box("--mount", f"{tree}:/m", "--", "sh", "-c", "cat /m/out; cat /m/up")
    assert "root:" not in done.stdout


def test_mount_target_through_a_link_stays_inside(box, place):
    """A template whose folder is a link to a host path must not lead the mount there."""
    root = place / "root"
    for name in ("usr", "tmp", "proc", "dev", "sys"):
        (root / name).mkdir(parents=True)
    (root / "evil").symlink_to("/etc")
    (place / "src").mkdir()
    done = box("--template", root, "--mount", f"{place}/src:/evil/made-by-ward", "--", "/usr/bin/true")
    assert not pathlib.Path("/etc/made-by-ward").exists()
    assert done.returncode in (125, 126, 127)


def test_mount_target_of_the_wrong_kind(box, tree):
    for spec in (f"{tree}:/etc/passwd", f"{tree}/file:/etc", f"{tree}:/etc/passwd/below"):
        done, report = box.report("--mount", spec, "--", "true")
        assert (done.returncode, report["cause"], report["step"]) == (125, "setup-failed", "mounts"), report
        one_line(done, spec)


def test_mount_over_a_host_folder(box, tree):
    assert box.out("--mount", f"{tree}:/usr/local", "--", "ls", "/usr/local") == "file\nsub\n"
    assert box.out("--mount", f"{tree}:/usr/share/doc:overlay", "--", "sh", "-c", "touch /usr/share/doc/x; ls /usr/share/doc") == \
        "file\nsub\nx\n"


def test_mount_below_a_read_only_folder_that_is_missing(box, tree):
    """/usr is the host's and read-only: no mount point can be made there, and ward says so."""
    done, report = box.report("--mount", f"{tree}:/usr/no-such-folder", "--", "true")
    assert (done.returncode, report["cause"], report["step"]) == (125, "setup-failed", "mounts")
    one_line(done, "/usr/no-such-folder", "Read-only file system")
    assert not pathlib.Path("/usr/no-such-folder").exists()


def test_mount_source_with_odd_name(box, place):
    odd = place / "with space, comma\\and\ttab"
    odd.mkdir()
    (odd / "f").write_text("odd\n")
    for mode in ("ro", "rw", "overlay"):
        assert box.out("--mount", f"{odd}:/m/also odd,\\x:{mode}", "--", "cat", "/m/also odd,\\x/f") == "odd\n"


def test_thirty_two_mounts(box, tree):
    args = [word for i in range(32) for word in ("--mount", f"{tree}:/m{i}" + ("" if i % 2 else ":overlay"))]
    assert box.out(*args, "--", "sh", "-c", "cat /m*/file | sort | uniq -c").split() == ["32", "content"]
