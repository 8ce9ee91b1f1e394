/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_AGENT_DIRENTS_H
#define WARD_AGENT_DIRENTS_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a directory with no memory but this; it can stop at any entry and go on later. */
struct dirents {
	int fd;
	uint32_t at, len;
	int64_t pos; /* where the directory stands after the last entry taken */
	char buf[4096] __attribute__((aligned(8)));
};

struct dirent_view {
	const char *name;
	unsigned char type; /* DT_*; DT_UNKNOWN is possible */
};

/* Takes @fd, an open directory. */
void dirents_init(struct dirents *d, int fd);
void dirents_done(struct dirents *d);
/* The next entry without "." and ".."; stays the next until dirents_take(). 1, 0 at the end, or a
 * negative errno. */
int dirents_peek(struct dirents *d, struct dirent_view *ret);
void dirents_take(struct dirents *d);

#endif
