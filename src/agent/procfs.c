/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/procfs.c - what /proc says about processes.
 *
 * Owns:  nothing.
 * Rules: a process names itself, so its name may hold anything: the numbers are looked for after
 *        the last bracket, and the name comes out printable.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/procfs.h"
#include "base/parse.h"
#include "base/str.h"

int procfs_open(struct procfs *p)
{
	int fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	dirents_init(&p->dir, fd);
	return 0;
}

void procfs_close(struct procfs *p)
{
	dirents_done(&p->dir);
}

static pid_t to_pid(const char *text)
{
	uint64_t v;

	return parse_u64(text, 1, INT32_MAX, &v) == 0 ? (pid_t)v : 0;
}

pid_t procfs_self(struct procfs *p)
{
	char target[32];
	ssize_t n = readlinkat(p->dir.fd, "self", target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return to_pid(target);
}

pid_t procfs_next(struct procfs *p)
{
	struct dirent_view e;

	while (dirents_peek(&p->dir, &e) > 0) {
		pid_t pid = to_pid(e.name);

		dirents_take(&p->dir);
		if (pid > 0)
			return pid;
	}
	return 0;
}

static void copy_name(char *out, size_t cap, const char *from, const char *to)
{
	size_t n = 0;

	for (; from < to && n < cap - 1; from++)
		out[n++] = *from >= ' ' && *from <= '~' ? *from : '?';
	out[n] = '\0';
}

int procfs_stat(struct procfs *p, pid_t pid, struct procfs_stat *ret)
{
	char path[32], text[512], *open_at, *close_at, *end;
	ssize_t n;
	int fd;

	if (str_fmt(path, sizeof(path), "%d/stat", (int)pid) < 0)
		return -EINVAL;
	fd = openat(p->dir.fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -ESRCH;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return -ESRCH;
	text[n] = '\0';
	open_at = strchr(text, '(');
	close_at = strrchr(text, ')');
	if (!open_at || !close_at || close_at < open_at || strlen(close_at) < 5)
		return -EINVAL;
	copy_name(ret->name, sizeof(ret->name), open_at + 1, close_at);
	ret->state = close_at[2];
	ret->ppid = (pid_t)strtol(close_at + 4, &end, 10);
	return 0;
}

ssize_t procfs_cmdline(struct procfs *p, pid_t pid, char *out, size_t cap)
{
	char path[32];
	ssize_t n;
	int fd;

	if (str_fmt(path, sizeof(path), "%d/cmdline", (int)pid) < 0)
		return 0;
	fd = openat(p->dir.fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, out, cap);
	close(fd);
	if (n > 0)
		out[n - 1] = '\0'; /* where it was cut, or where a process wrote over its own */
	return n < 0 ? 0 : n;
}
