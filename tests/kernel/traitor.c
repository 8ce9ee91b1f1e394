/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/kernel/traitor.c - a kernel process that is somebody else's, and uses what it has.
 *
 * Linked with all of ward into kernel_traitor, which tests/e2e/test_kernel_perm.py runs. Of the
 * jail only the last part is missing, the list of calls, so that this can do more than the real
 * one: it has the views of the template and of mounts, and the capabilities. WARD_TRAITOR names a
 * folder: in it a file "answer", which takes one line for each attempt, and a file "secret" that no
 * view shows.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "abi/newer.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/box.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/walk/walker.h"

enum { HANDLE_BYTES = 128 };

struct walker {
	int answer;
	struct file_handle *secret;
};

static void say(const struct walker *w, const char *what, long r)
{
	char line[256];
	int n = snprintf(line, sizeof(line), "%s: %s\n", what, r < 0 ? strerror(errno) : "ok");

	if (n > 0 && (size_t)n < sizeof(line))
		host_write(w->answer, line, (size_t)n);
}

static void try_open(const struct walker *w, const char *what, int dir, const char *path, int flags)
{
	int fd = openat(dir, path, flags | O_CLOEXEC, 0600);
	char buf[1024];
	long r = fd;

	if (fd >= 0 && (flags & O_DIRECTORY))
		r = syscall(SYS_getdents64, fd, buf, sizeof(buf));
	else if (fd >= 0 && (flags & O_ACCMODE) == O_RDONLY)
		r = read(fd, buf, 1);
	say(w, what, r);
	if (fd >= 0)
		close(fd);
}

int walker_open(struct walker **ret, struct err *e)
{
	const char *place = getenv("WARD_TRAITOR");
	struct walker *w;
	char path[512];
	int mount, r;

	if (!place)
		return 0;
	w = calloc(1, sizeof(*w));
	if (w)
		w->secret = calloc(1, sizeof(*w->secret) + HANDLE_BYTES);
	if (!w || !w->secret)
		return err_set(e, ENOMEM, "becoming a traitor");
	w->secret->handle_bytes = HANDLE_BYTES;
	r = str_fmt(path, sizeof(path), "%s/secret", place);
	if (r == 0 && name_to_handle_at(AT_FDCWD, path, w->secret, &mount, 0) < 0)
		r = -errno;
	if (r == 0)
		r = str_fmt(path, sizeof(path), "%s/answer", place);
	w->answer = r == 0 ? host_open(path, O_WRONLY | O_APPEND, 0) : r;
	*ret = w;
	return w->answer < 0 ? err_set(e, -w->answer, "opening %s", path) : 0;
}

static bool is_one_of(const struct stat *st, const int *fds, unsigned count)
{
	struct stat own;

	for (unsigned i = 0; i < count; i++)
		if (fstat(fds[i], &own) == 0 && own.st_ino == st->st_ino &&
			own.st_dev == st->st_dev)
			return true;
	return false;
}

/* What lies outside of a view, by every way that leads up or by number. */
static void leave(const struct walker *w, const struct kernel *k, const struct kbox *b, int view)
{
	struct ward_mount_attr writable = { .attr_clr = WARD_MOUNT_ATTR_RDONLY };
	char up[768];
	struct stat above;
	int fd, dir;

	if (str_fmt(up, sizeof(up), "../../../../../../../..%s/secret", getenv("WARD_TRAITOR")) < 0)
		_exit(1);
	try_open(w, "a path upwards", view, up, O_RDONLY);
	/* Views and proc may hang on the store, or on each other; never on a directory of the host.
	 */
	fd = openat(view, "..", O_PATH | O_CLOEXEC);
	dir = fd < 0 ? fd : fstat(fd, &above);
	errno = EXDEV;
	say(w, "above is nothing new",
		dir == 0 && (is_one_of(&above, &b->upper, 1) ||
				    is_one_of(&above, &k->host_proc, 1) ||
				    is_one_of(&above, b->lowers, b->lower_count) ||
				    is_one_of(&above, b->binds, b->bind_count) ||
				    is_one_of(&above, b->mounts, b->mount_count))
			? 0
			: -1);
	if (fd >= 0)
		close(fd);
	dir = openat(view, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = dir < 0 ? dir : open_by_handle_at(dir, w->secret, O_RDONLY | O_CLOEXEC);
	say(w, "a file by its number", fd);
	if (fd >= 0)
		close(fd);
	if (dir >= 0)
		close(dir);
	say(w, "writable", host_mount_setattr(view, "", WARD_AT_EMPTY_PATH, &writable));
}

static void change(const struct walker *w, int view, const char *name)
{
	try_open(w, "made", view, "made", O_WRONLY | O_CREAT);
	try_open(w, "written", view, name, O_WRONLY);
	say(w, "given away", fchownat(view, name, 1000, 1000, AT_SYMLINK_NOFOLLOW));
	say(w, "opened to all", fchmodat(view, name, 0777, 0));
	say(w, "removed", unlinkat(view, name, 0));
}

int walker_start(struct walker *w, struct kernel *k, const struct kbox *b, struct err *e)
{
	if (!w)
		return 0;
	for (unsigned i = 0; i < b->lower_count; i++) {
		say(w, "template", 0);
		try_open(w, "another's file", b->lowers[i], "theirs/file", O_RDONLY);
		try_open(w, "another's folder", b->lowers[i], "theirs", O_RDONLY | O_DIRECTORY);
		try_open(w, "beyond the ids", b->lowers[i], "beyond", O_RDONLY);
		leave(w, k, b, b->lowers[i]);
		change(w, b->lowers[i], "theirs/file");
	}
	for (unsigned i = 0; i < b->bind_count; i++) {
		say(w, "host", 0);
		try_open(w, "a closed file", b->binds[i], getenv("WARD_TRAITOR_CLOSED"), O_RDONLY);
		leave(w, k, b, b->binds[i]);
		change(w, b->binds[i], getenv("WARD_TRAITOR_CLOSED"));
	}
	for (unsigned i = 0; i < b->mount_count; i++) {
		say(w, "mount", 0);
		try_open(w, "another's file", b->mounts[i], "theirs/file", O_RDONLY);
		try_open(w, "beyond the ids", b->mounts[i], "beyond", O_RDONLY);
		leave(w, k, b, b->mounts[i]);
	}
	say(w, "all capabilities", host_capset(UINT64_MAX >> 24, UINT64_MAX >> 24, 0));
	say(w, "end", 0);
	return 0;
}
