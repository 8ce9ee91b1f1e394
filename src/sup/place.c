/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/place.c - the sockets and end records of supervisors, in <state>/run.
 *
 * Owns:  the names there.
 * Rules: only names that are an id and a known ending are looked at.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/id.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "sup/link.h"
#include "sup/place.h"

enum { DENTS_BYTES = 8192 };

#define SOCKET ".sock"
#define RECORD ".end"
#define HALF ".new" /* a socket at which nobody listens yet */

int place_open(const char *state_dir, bool make, int *ret_dir, struct err *e)
{
	char path[WARD_PATH_MAX];
	int fd = str_fmt(path, sizeof(path), "%s/run", state_dir), r = 0;

	if (fd < 0)
		return err_set(e, -fd, "state directory '%s'", state_dir);
	fd = host_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd == -ENOENT && make) {
		r = host_mkdirat(AT_FDCWD, path, 0700);
		if (r == 0 || r == -EEXIST)
			fd = host_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
		else
			fd = r;
	}
	if (fd < 0)
		return err_set(e, -fd, "opening '%s'", path);
	*ret_dir = fd;
	return 0;
}

static int address_in(int dir, const char *id, const char *ending, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	return str_fmt(
		ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/%s%s", dir, id, ending);
}

int place_listen(int dir, const char *id, int backlog, int *ret_sock, struct err *e)
{
	own_fd int sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	char name[ID_LEN + 8], half[ID_LEN + 8];
	struct sockaddr_un at;
	int r;

	if (sock < 0)
		return err_set(e, errno, "the supervisor's socket");
	r = address_in(dir, id, HALF, &at);
	if (r == 0)
		r = str_fmt(name, sizeof(name), "%s" SOCKET, id);
	if (r == 0)
		r = str_fmt(half, sizeof(half), "%s" HALF, id);
	if (r < 0)
		return err_set(e, -r, "the supervisor's address");
	/* An id is never used twice: what is there is left over from a test or a copy. */
	host_unlinkat(dir, half, 0);
	/* The mode of a socket's file is that of its inode before bind. */
	r = host_fchmod(sock, 0600);
	if (r == 0 &&
		(bind(sock, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(sock, backlog) < 0))
		r = -errno;
	/* Nobody sees the name before there is somebody to answer. */
	if (r == 0)
		r = host_renameat(dir, half, dir, name);
	if (r < 0) {
		host_unlinkat(dir, half, 0);
		return err_set(e, -r, "listening at run/%s", name);
	}
	*ret_sock = take_fd(&sock);
	return 0;
}

int place_address(
	const char *state_dir, const char *id, struct sockaddr_un *ret, int *ret_dir, struct err *e)
{
	int r;

	if (!id_is_valid(id))
		return err_say(e, EINVAL, "'%.40s' is not a sandbox id", id);
	r = place_open(state_dir, false, ret_dir, e);
	if (r == 0)
		r = address_in(*ret_dir, id, SOCKET, ret);
	return r;
}

int sup_record_path(const char *state_dir, const char *id, char ret[WARD_PATH_MAX])
{
	return str_fmt(ret, WARD_PATH_MAX, "%s/run/%s.end", state_dir, id);
}

static void tell_name(
	const char *name, const char *ending, void (*each)(void *arg, const char *id), void *arg)
{
	char id[ID_LEN + 1];

	if (strlen(name) != ID_LEN + strlen(ending) || !str_eq(name + ID_LEN, ending))
		return;
	memcpy(id, name, ID_LEN);
	id[ID_LEN] = '\0';
	if (id_is_valid(id))
		each(arg, id);
}

static int each_name(const char *state_dir, const char *ending,
	void (*each)(void *arg, const char *id), void *arg, struct err *e)
{
	_Alignas(struct host_dirent) char room[DENTS_BYTES];
	own_fd int dir = -1;
	ssize_t n;
	int r = place_open(state_dir, false, &dir, e);

	if (r == -ENOENT)
		return 0; /* nobody has ever run here */
	if (r < 0)
		return r;
	while ((n = host_getdents(dir, room, sizeof(room))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct host_dirent *d = (const void *)(room + at);

			at += d->d_reclen;
			tell_name(d->d_name, ending, each, arg);
		}
	}
	return n < 0 ? err_set(e, (int)-n, "reading '%s/run'", state_dir) : 0;
}

int sup_each_socket(
	const char *state_dir, void (*each)(void *arg, const char *id), void *arg, struct err *e)
{
	return each_name(state_dir, SOCKET, each, arg, e);
}

int sup_each_record(
	const char *state_dir, void (*each)(void *arg, const char *id), void *arg, struct err *e)
{
	return each_name(state_dir, RECORD, each, arg, e);
}

static int remove_name(const char *state_dir, const char *id, const char *ending, struct err *e)
{
	own_fd int dir = -1;
	char name[ID_LEN + 8];
	int r;

	if (!id_is_valid(id) || str_fmt(name, sizeof(name), "%s%s", id, ending) < 0)
		return err_say(e, EINVAL, "'%.40s' is not a sandbox id", id);
	r = place_open(state_dir, false, &dir, e);
	if (r < 0)
		return r;
	r = host_unlinkat(dir, name, 0);
	return r < 0 && r != -ENOENT ? err_set(e, -r, "removing '%s'", name) : 0;
}

int sup_remove_socket(const char *state_dir, const char *id, struct err *e)
{
	return remove_name(state_dir, id, SOCKET, e);
}

static void remove_half(void *arg, const char *id)
{
	remove_name(arg, id, HALF, NULL);
}

int sup_remove_halves(const char *state_dir, struct err *e)
{
	return each_name(state_dir, HALF, remove_half, (void *)state_dir, e);
}
