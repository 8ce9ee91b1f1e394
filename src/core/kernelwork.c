/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/kernelwork.c - folders in which kernels are made, and what is left of those of the dead.
 *
 * Owns:  kernels/.build.PID, .fetch.PID and .new.PID below the state directory.
 * Rules: who works in one holds a lock on it, and so does every program that it starts there: a
 *        compiler whose ward was killed still works in it. Who gets the lock may remove the folder.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "core/kernelwork.h"
#include "host/host.h"
#include "host/tree.h"

static const char *const kinds[] = { ".build.", ".fetch.", ".new." };

/* The folder is locked, and still the one that has the name. */
static int lock_it(const char *path, int *ret)
{
	/* Not closed at exec: see above. */
	own_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
	struct stat st;

	if (fd < 0)
		return -errno;
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_nlink == 0)
		return -ENOENT; /* somebody swept it before it was locked */
	*ret = take_fd(&fd);
	return 0;
}

int kernel_work_begin(struct kernel_work *w, const char *state_dir, const char *kind, struct err *e)
{
	int r = str_fmt(
		w->path, sizeof(w->path), "%s/kernels/.%s.%d", state_dir, kind, (int)getpid());

	w->lock = -1;
	if (r < 0) {
		w->path[0] = '\0';
		return err_say(e, ENAMETOOLONG, "the state directory's path is too long");
	}
	do {
		r = tree_make(w->path, 0700, e);
		if (r < 0)
			return r;
		r = lock_it(w->path, &w->lock);
	} while (r == -ENOENT);
	return r < 0 ? err_set(e, -r, "locking %s", w->path) : 0;
}

void kernel_work_end(struct kernel_work *w)
{
	struct err e;

	if (!w->path[0])
		return;
	tree_remove(w->path, &e); /* what stays is swept */
	if (w->lock >= 0)
		close(w->lock);
	w->path[0] = '\0';
	w->lock = -1;
}

static bool is_work(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strncmp(name, kinds[i], strlen(kinds[i])) == 0)
			return true;
	return false;
}

int kernel_work_sweep(const char *state_dir, void (*removed)(void *arg, const char *path),
	void *arg, struct err *e)
{
	char top[WARD_PATH_MAX], path[WARD_PATH_MAX];
	struct dirent *entry;
	int r = 0;
	DIR *d;

	if (str_fmt(top, sizeof(top), "%s/kernels", state_dir) < 0)
		return err_say(e, ENAMETOOLONG, "the state directory's path is too long");
	d = opendir(top);
	if (!d)
		return errno == ENOENT ? 0 : err_set(e, errno, "reading %s", top);
	while (r == 0 && (entry = readdir(d)) != NULL) {
		own_fd int fd = -1;

		if (!is_work(entry->d_name) ||
			str_fmt(path, sizeof(path), "%s/%s", top, entry->d_name) < 0)
			continue;
		fd = host_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			continue; /* somebody works in it, or it is no folder of ours */
		r = tree_remove(path, e);
		if (r == 0 && removed)
			removed(arg, path);
	}
	closedir(d);
	return r;
}
