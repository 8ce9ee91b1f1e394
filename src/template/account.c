/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template/account.c - the account `user` of the host template.
 *
 * Owns:  its lines in the skeleton's etc/passwd and etc/group, and its home.
 * Rules: works on the skeleton's own copies, never on the host's files. A line that is no account
 *        stays as it is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/ckd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "template/account.h"

static const struct {
	const char *path, *line;
} tables[] = {
	{ "etc/passwd", ACCOUNT_NAME ":x:1000:1000::" ACCOUNT_HOME ":/bin/bash\n" },
	{ "etc/group", ACCOUNT_NAME ":x:1000:\n" },
};

/* "NAME:x:NUMBER:..." with our name or our number. */
static bool is_ours(const char *line, size_t len)
{
	static const char name[] = ACCOUNT_NAME ":";
	const char *colon, *end = line + len;
	char *rest;

	if (len >= sizeof(name) - 1 && memcmp(line, name, sizeof(name) - 1) == 0)
		return true;
	colon = memchr(line, ':', len);
	colon = colon ? memchr(colon + 1, ':', (size_t)(end - colon - 1)) : NULL;
	if (!colon || colon + 1 == end)
		return false;
	return strtol(colon + 1, &rest, 10) == ACCOUNT_ID && *rest == ':';
}

static void copy_others(struct buf *out, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		if (!is_ours(text, len)) {
			buf_add(out, text, len);
			buf_add(out, "\n", 1);
		}
		text += len + (text[len] == '\n');
	}
}

static int read_all(int root, const char *path, struct buf *out)
{
	own_fd int fd = host_openat(root, path, O_RDONLY | O_NOFOLLOW, 0);
	char part[4096];
	ssize_t n;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd; /* a host without one: ours is the only line */
	while ((n = host_read(fd, part, sizeof(part))) > 0)
		buf_add(out, part, (size_t)n);
	return n < 0 ? (int)n : out->bad ? -EFBIG : 0;
}

static int rewrite(int root, const char *path, const char *line)
{
	own_buf struct buf old, new;
	own_fd int fd = -1;
	int r;

	buf_init(&old, AGENT_PASSWD_BYTES_MAX);
	buf_init(&new, AGENT_PASSWD_BYTES_MAX);
	r = read_all(root, path, &old);
	if (r < 0)
		return r;
	if (old.len)
		copy_others(&new, old.data);
	buf_add_str(&new, line);
	if (new.bad)
		return -EFBIG;
	fd = host_openat(root, path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
	return fd < 0 ? fd : host_write_all(fd, new.data, new.len);
}

int account_add(int root, struct err *e)
{
	static const char home[] = ACCOUNT_HOME;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
		r = rewrite(root, tables[i].path, tables[i].line);
		if (r < 0)
			return err_set(e, -r, "writing the account '" ACCOUNT_NAME "' to %s",
				tables[i].path);
	}
	r = host_mkdirat(root, &home[1], 0755);
	/* Somebody who may not give files away has no second id to run as either. */
	if (r == 0 && geteuid() == 0)
		r = host_fchownat(root, &home[1], ACCOUNT_ID, ACCOUNT_ID, AT_SYMLINK_NOFOLLOW);
	return r < 0 ? err_set(e, -r, "making the home of '" ACCOUNT_NAME "'") : 0;
}
