/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/out.c - bytes on their way out.
 *
 * Owns:  copies of what could not be sent yet, and the descriptors of files that follow.
 * Rules: small pieces share a block; a large one gets its own, of its size.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "wire/out.h"

enum { BLOCK_FIRST = 2048, BLOCK = 16 * 1024 };

static void piece_free(struct out_piece *p)
{
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

/* @n more bytes in memory; fewer, when it is negative. */
static void count(struct out *o, ssize_t n)
{
	o->bytes += (size_t)n;
	if (o->sum)
		*o->sum += (size_t)n;
}

void out_done(struct out *o)
{
	while (o->head) {
		struct out_piece *p = o->head;

		o->head = p->next;
		piece_free(p);
	}
	count(o, -(ssize_t)o->bytes);
	*o = (struct out){ .sum = o->sum };
}

static struct out_piece *piece_add(struct out *o, size_t cap)
{
	struct out_piece *p = malloc(sizeof(*p) + cap);

	if (!p)
		return NULL;
	*p = (struct out_piece){ .fd = -1, .cap = cap };
	if (o->tail)
		o->tail->next = p;
	else
		o->head = p;
	o->tail = p;
	return p;
}

/* How many bytes still fit behind the last piece. */
static size_t tail_room(const struct out *o)
{
	const struct out_piece *p = o->tail;

	return p && p->fd < 0 ? p->cap - p->at - (size_t)p->len : 0;
}

static void tail_fill(struct out *o, const char *data, size_t len)
{
	struct out_piece *p = o->tail;

	memcpy(p->data + p->at + p->len, data, len);
	p->len += len;
	count(o, (ssize_t)len);
}

int out_put(struct out *o, const void *data, size_t len)
{
	const char *p = data;
	size_t room = tail_room(o), cap;

	if (room >= len) {
		tail_fill(o, p, len);
		return 0;
	}
	cap = o->head ? BLOCK : BLOCK_FIRST;
	if (len > cap)
		cap = len;
	if (!piece_add(o, cap))
		return -ENOMEM;
	tail_fill(o, p, len);
	return 0;
}

int out_put_file(struct out *o, int fd, uint64_t offset, uint64_t len)
{
	struct out_piece *p = len ? piece_add(o, 0) : NULL;

	if (!p) {
		close(fd);
		return len ? -ENOMEM : 0;
	}
	p->fd = fd;
	p->offset = offset;
	p->len = len;
	o->file_bytes += len;
	return 0;
}

int out_front(const struct out *o, struct iovec *iov, int max)
{
	int n = 0;

	for (struct out_piece *p = o->head; p && p->fd < 0 && n < max; p = p->next)
		iov[n++] = (struct iovec){ p->data + p->at, (size_t)p->len };
	return n;
}

void out_gone(struct out *o, uint64_t len)
{
	struct out_piece *p;

	while (len && (p = o->head)) {
		uint64_t n = p->len < len ? p->len : len;

		if (p->fd >= 0) {
			p->offset += n;
			o->file_bytes -= n;
		} else {
			p->at += (size_t)n;
			count(o, -(ssize_t)n);
		}
		p->len -= n;
		len -= n;
		if (p->len)
			return;
		o->head = p->next;
		if (!o->head)
			o->tail = NULL;
		piece_free(p);
	}
}

ssize_t out_read(struct out *o, void *data, size_t len)
{
	struct out_piece *p;
	size_t done = 0;

	while (done < len && (p = o->head)) {
		size_t n = p->len < len - done ? (size_t)p->len : len - done;

		if (p->fd >= 0) {
			ssize_t r = pread(p->fd, (char *)data + done, n, (off_t)p->offset);

			if (r <= 0)
				return r < 0 ? -errno : -ENODATA;
			n = (size_t)r;
		} else {
			memcpy((char *)data + done, p->data + p->at, n);
		}
		out_gone(o, n);
		done += n;
	}
	return (ssize_t)done;
}
