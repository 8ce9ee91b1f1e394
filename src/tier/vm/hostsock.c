/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/hostsock.c - the host's end of a guest's vsock: a unix socket with a name.
 *
 * Owns:  the name, from hostsock_open() to hostsock_remove().
 * Rules: a name that is there already is somebody's, unless it is a socket that nobody listens on:
 *        what a killed ward left. It is for its owner alone. Only the inode that was made here is
 *        removed again.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/vm/vm.h"

enum { CALLERS_MAX = 16 }; /* not accepted yet */

/* Is it a socket that is left over? */
static bool is_stale(const struct sockaddr_un *a)
{
	own_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	return fd >= 0 && lstat(a->sun_path, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 && errno == ECONNREFUSED;
}

static int bind_to(int fd, const struct sockaddr_un *a)
{
	mode_t before = umask(0177);
	int r = bind(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 ? -errno : 0;

	umask(before);
	return r;
}

int hostsock_open(const char *path, struct hostsock *ret, struct err *e)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	own_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;
	int r;

	if (fd < 0)
		return err_set(e, errno, "a socket for --vsock %s", path);
	if (str_copy(a.sun_path, sizeof(a.sun_path), path) < 0)
		return err_say(e, ENAMETOOLONG, "--vsock %s: a path of at most %zu bytes", path,
			sizeof(a.sun_path) - 1);
	r = bind_to(fd, &a);
	if (r == -EADDRINUSE && is_stale(&a)) {
		unlink(path);
		r = bind_to(fd, &a);
	}
	if (r == 0 && lstat(path, &st) < 0)
		r = -errno;
	if (r < 0)
		return err_set(e, -r, "making the socket --vsock %s", path);
	ret->dev = st.st_dev;
	ret->ino = st.st_ino;
	if (listen(fd, CALLERS_MAX) < 0) {
		r = err_set(e, errno, "listening on --vsock %s", path);
		hostsock_remove(path, ret);
		return r;
	}
	ret->fd = take_fd(&fd);
	return 0;
}

void hostsock_remove(const char *path, struct hostsock *s)
{
	struct stat st;

	if (s->fd >= 0)
		close(s->fd);
	if (s->ino && lstat(path, &st) == 0 && st.st_ino == s->ino && st.st_dev == s->dev)
		unlink(path);
	*s = (struct hostsock){ .fd = -1 };
}
