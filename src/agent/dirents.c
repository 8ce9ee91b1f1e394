/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/dirents.c - a directory, entry by entry.
 *
 * Owns:  the descriptor and one buffer of entries.
 * Rules: no heap, unlike opendir(); a name is good until the next peek.
 */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "agent/dirents.h"

/* What getdents64 gives. */
struct entry {
	uint64_t ino;
	int64_t pos;
	uint16_t len;
	uint8_t type;
	char name[];
};

void dirents_init(struct dirents *d, int fd)
{
	d->fd = fd;
	d->at = d->len = 0;
	d->pos = 0;
}

void dirents_done(struct dirents *d)
{
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
}

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

int dirents_peek(struct dirents *d, struct dirent_view *ret)
{
	for (;;) {
		const struct entry *e;

		if (d->at == d->len) {
			long n = syscall(SYS_getdents64, d->fd, d->buf, sizeof(d->buf));

			if (n <= 0)
				return n < 0 ? -errno : 0;
			d->at = 0;
			d->len = (uint32_t)n;
		}
		e = (const struct entry *)(d->buf + d->at);
		if (!is_dots(e->name)) {
			*ret = (struct dirent_view){ e->name, e->type };
			return 1;
		}
		dirents_take(d);
	}
}

void dirents_take(struct dirents *d)
{
	const struct entry *e = (const struct entry *)(d->buf + d->at);

	d->pos = e->pos;
	d->at += e->len;
}
