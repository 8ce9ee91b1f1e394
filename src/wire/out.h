/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_OUT_H
#define WARD_WIRE_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

/*
 * Bytes on their way out: pieces of memory and ranges of files, in order. Zeroed is empty.
 */
struct out_piece {
	struct out_piece *next;
	int fd;          /* a file's, owned; -1: memory */
	uint64_t offset; /* into the file */
	uint64_t len;    /* what is left of it */
	size_t at, cap;  /* memory: where the rest begins, and room */
	char data[];
};

struct out {
	struct out_piece *head, *tail;
	size_t bytes;        /* in memory */
	uint64_t file_bytes; /* in files */
	size_t *sum;         /* bytes in memory of this queue and its like; NULL: nobody counts */
};

static inline int out_is_empty(const struct out *o)
{
	return !o->head;
}

void out_done(struct out *o);
/* Copies. 0 or -ENOMEM. */
int out_put(struct out *o, const void *data, size_t len);
/* Takes @fd, also when this fails. */
int out_put_file(struct out *o, int fd, uint64_t offset, uint64_t len);
/* The memory at the front, up to @max pieces; how many. 0: a file is at the front, or nothing. */
int out_front(const struct out *o, struct iovec *iov, int max);
/* @len bytes of the front have gone. */
void out_gone(struct out *o, uint64_t len);
/* Copies up to @len bytes out of the front, files included, and drops them. 0 when empty, -ENODATA
 * when a file has become shorter, or another negative errno. */
ssize_t out_read(struct out *o, void *data, size_t len);

#endif
