/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/folders.c - modes and times of folders, set when all else is done.
 *
 * Owns:  the list.
 * Rules: from the leaves up: a folder that gets closed to its owner must not be in the way of one
 *        inside it, and setting something inside would change its time again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <linux/openat2.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/folders.h"

struct folder {
	char *path;
	size_t nr; /* the order they came in */
	mode_t mode;
	struct timespec mtime;
};

int folders_add(struct folders *f, const char *path, mode_t mode, const struct timespec *mtime,
	struct err *e)
{
	struct folder *more, *one;

	f->bytes += strlen(path) + sizeof(*one);
	if (f->bytes > IMAGE_FOLDER_BYTES_MAX)
		return err_say(e, EFBIG, "the layer has too many folders");
	if (f->count == f->cap) {
		f->cap = f->cap ? 2 * f->cap : 64;
		more = realloc(f->list, f->cap * sizeof(*more));
		if (!more)
			return err_set(e, ENOMEM, "listing folders");
		f->list = more;
	}
	one = &f->list[f->count];
	*one = (struct folder){ .path = strdup(path), .nr = f->count, .mode = mode };
	if (!one->path)
		return err_set(e, ENOMEM, "listing folders");
	one->mtime = mtime ? *mtime : (struct timespec){ .tv_nsec = UTIME_OMIT };
	f->count++;
	return 0;
}

/* Paths backwards: what is inside comes before what it is in; of one path the last comes first. */
static int leaves_first(const void *a, const void *b)
{
	const struct folder *x = a, *y = b;
	int c = strcmp(y->path, x->path);

	if (c)
		return c;
	return x->nr < y->nr ? 1 : -1;
}

static int apply(int root, const struct folder *one)
{
	struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, one->mtime };
	own_fd int fd = host_openat2(root, one->path[0] ? one->path : ".", O_RDONLY | O_DIRECTORY,
		0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);

	if (fd < 0)
		return fd;
	return fchmod(fd, one->mode) < 0 || futimens(fd, times) < 0 ? -errno : 0;
}

int folders_apply(struct folders *f, int root, struct err *e)
{
	char shown[128];
	int r;

	if (f->count)
		qsort(f->list, f->count, sizeof(*f->list), leaves_first);
	for (size_t i = 0; i < f->count; i++) {
		if (i && str_eq(f->list[i].path, f->list[i - 1].path))
			continue;
		r = apply(root, &f->list[i]);
		if (r < 0)
			return err_set(e, -r, "setting mode and time of '%s'",
				str_show(shown, sizeof(shown), f->list[i].path));
	}
	return 0;
}

void folders_done(struct folders *f)
{
	for (size_t i = 0; i < f->count; i++)
		free(f->list[i].path);
	free(f->list);
	*f = (struct folders){ 0 };
}
