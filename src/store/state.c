/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/state.c - the one directory below which everything lives.
 *
 * Owns:  the list of sub-directories.
 * Rules: on the run path: two calls when the directory exists. Sub-directories are made when the
 *        directory is, and again by whoever finds one missing (a crash in between).
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "store/state.h"

/* slots comes last: see state.h. */
static const char *const folders[] = { "audit", "trash", "boxes", "layers", "templates", "run",
	"slots" };

int state_fill(int state_fd, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		int r = host_mkdirat(state_fd, folders[i], 0700);

		if (r < 0 && r != -EEXIST)
			return err_set(e, -r, "making '%s' in the state directory", folders[i]);
	}
	return 0;
}

static int make_path(const char *state_dir, struct err *e)
{
	char path[WARD_PATH_MAX];
	int r = str_copy(path, sizeof(path), state_dir);

	if (r < 0)
		return err_set(e, -r, "state directory '%s'", state_dir);
	for (char *p = path + 1;; p++) {
		char was = *p;

		if (was != '/' && was != '\0')
			continue;
		*p = '\0';
		r = host_mkdirat(AT_FDCWD, path, 0700);
		/* An existing parent may be one that we could not have made: read-only, not ours.
		 */
		if (r < 0 && r != -EEXIST && (was == '\0' || r == -ENOENT || r == -ENOTDIR))
			return err_set(e, -r,
				"making state directory '%s' (choose another with --state-dir)",
				path);
		*p = was;
		if (was == '\0')
			return 0;
	}
}

static int check_owner(int fd, const char *state_dir, struct err *e)
{
	struct stat st;
	int r = host_fstat(fd, &st);

	if (r < 0)
		return err_set(e, -r, "looking at state directory '%s'", state_dir);
	if (st.st_uid != geteuid())
		return err_say(e, EPERM,
			"state directory '%s' belongs to user %u, not to the caller (user %u); "
			"choose another with --state-dir",
			state_dir, (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_say(e, EPERM,
			"state directory '%s' can be written by others (mode %04o); "
			"run 'chmod go-w' on it or choose another with --state-dir",
			state_dir, (unsigned)st.st_mode & 07777);
	return 0;
}

static int open_checked(const char *state_dir, int *ret_fd, struct err *e)
{
	own_fd int fd = host_open(state_dir, O_RDONLY | O_DIRECTORY, 0);
	int r;

	if (fd < 0)
		return err_set(e, -fd, "opening state directory '%s'", state_dir);
	r = check_owner(fd, state_dir, e);
	if (r < 0)
		return r;
	*ret_fd = take_fd(&fd);
	return 0;
}

int state_open_existing(const char *state_dir, int *ret_fd, struct err *e)
{
	return open_checked(state_dir, ret_fd, e);
}

int state_open(const char *state_dir, int *ret_fd, struct err *e)
{
	int fd, r = open_checked(state_dir, &fd, e);

	if (r == -ENOENT) {
		r = make_path(state_dir, e);
		if (r == 0)
			r = open_checked(state_dir, &fd, e);
		if (r == 0) {
			r = state_fill(fd, e);
			if (r < 0)
				close(fd);
		}
	}
	if (r == 0)
		*ret_fd = fd;
	return r;
}
