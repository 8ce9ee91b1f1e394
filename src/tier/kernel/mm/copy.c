/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/mm/copy.c - the only file that turns a guest address into bytes.
 *
 * Owns:  nothing.
 * Rules: every length is bounded by the caller's buffer; an address is only ever handed to the
 *        host's process_vm calls (or looked up in a fake's buffer), never followed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/ckd.h"
#include "tier/kernel/mm/copy.h"
#include "tier/kernel/task/task.h"

enum { PAGE = 4096 };

ssize_t guest_read_some(struct task *t, void *dst, gva_t src, size_t len)
{
	ssize_t n = len ? t->mm->ops->read(t->mm, dst, src.v, len) : 0;

	return n < 0 || (n == 0 && len) ? -EFAULT : n;
}

ssize_t guest_write_some(struct task *t, gva_t dst, const void *src, size_t len)
{
	ssize_t n = len ? t->mm->ops->write(t->mm, dst.v, src, len) : 0;

	return n < 0 || (n == 0 && len) ? -EFAULT : n;
}

int guest_read(struct task *t, void *dst, gva_t src, size_t len)
{
	ssize_t n = guest_read_some(t, dst, src, len);

	return n == (ssize_t)len ? 0 : -EFAULT;
}

int guest_write(struct task *t, gva_t dst, const void *src, size_t len)
{
	ssize_t n = guest_write_some(t, dst, src, len);

	return n == (ssize_t)len ? 0 : -EFAULT;
}

ssize_t guest_copy_string(struct task *t, gva_t src, char *dst, size_t cap)
{
	size_t at = 0;

	while (at < cap) {
		/* Up to the end of a page at a time: the next one may not be there. */
		size_t room = PAGE - (src.v + at) % PAGE;
		size_t want = room < cap - at ? room : cap - at;
		ssize_t n;
		char *end;

		if (want > 256 && at == 0)
			want = 256; /* most are short */
		n = t->mm->ops->hand ? (ssize_t)t->mm->ops->hand(t->mm, dst + at, src.v + at, want)
				     : 0;
		if (!n)
			n = guest_read_some(t, dst + at, gva_add(src, at), want);
		if (n < 0)
			return n;
		end = memchr(dst + at, 0, (size_t)n);
		if (end)
			return end - dst;
		at += (size_t)n;
	}
	return -ENAMETOOLONG;
}

ssize_t guest_copy_path(struct task *t, gva_t src, char *dst, size_t cap)
{
	ssize_t n = guest_copy_string(t, src, dst, cap);

	if (n > 0 && n < (ssize_t)sizeof(t->call.path))
		memcpy(t->call.path, dst, (size_t)n + 1);
	else if (n > 0)
		t->call.path[0] = '?'; /* too long to be told from another, but not none */
	return n;
}

/* The bytes from @at to the end of its page; NULL: not readable. */
static const char *peek_at(struct task *t, struct peek *w, uint64_t at, size_t *ret_len)
{
	uint64_t page = at & ~(uint64_t)(PEEK_PAGE - 1);
	unsigned i = (unsigned)(page / PEEK_PAGE % PEEK_PAGES);

	if (w->pages[i].at != page + 1) {
		w->pages[i].at = 0;
		if (guest_read(t, w->pages[i].bytes, GVA(page), PEEK_PAGE) < 0)
			return NULL;
		w->pages[i].at = page + 1;
	}
	*ret_len = PEEK_PAGE - (at - page);
	return w->pages[i].bytes + (at - page);
}

int peek_read(struct task *t, struct peek *w, void *dst, gva_t src, size_t len)
{
	for (size_t done = 0, n; done < len; done += n) {
		const char *from = peek_at(t, w, src.v + done, &n);

		if (!from)
			return -EFAULT;
		n = n < len - done ? n : len - done;
		memcpy((char *)dst + done, from, n);
	}
	return 0;
}

ssize_t peek_string(struct task *t, struct peek *w, gva_t src, char *dst, size_t cap)
{
	for (size_t at = 0, n; at < cap; at += n) {
		const char *from = peek_at(t, w, src.v + at, &n), *end;

		if (!from)
			return -EFAULT;
		n = n < cap - at ? n : cap - at;
		end = memchr(from, 0, n);
		memcpy(dst + at, from, end ? (size_t)(end - from) + 1 : n);
		if (end)
			return (ssize_t)at + (end - from);
	}
	return -ENAMETOOLONG;
}

int guest_read_timespec(struct task *t, gva_t src, int64_t *ret_ns)
{
	int64_t v[2], ns;

	if (guest_read(t, v, src, sizeof(v)) < 0)
		return -EFAULT;
	if (v[0] < 0 || v[1] < 0 || v[1] >= 1000000000)
		return -EINVAL;
	if (ckd_mul(&ns, v[0], 1000000000) || ckd_add(&ns, ns, v[1]))
		ns = INT64_MAX;
	*ret_ns = ns;
	return 0;
}

int guest_write_timespec(struct task *t, gva_t dst, int64_t ns)
{
	int64_t v[2] = { ns / 1000000000, ns % 1000000000 };

	return guest_write(t, dst, v, sizeof(v));
}

int uio_guest(struct uio *io, struct task *t, gva_t base, uint64_t len)
{
	if (len > GUEST_RW_MAX)
		len = GUEST_RW_MAX;
	memset(io, 0, sizeof(*io));
	io->task = t;
	io->one.base = base;
	io->one.len = io->left = len;
	io->iov = (void *)&io->one;
	io->count = 1;
	return 0;
}

int uio_guest_iov(struct uio *io, struct task *t, gva_t iov, uint64_t count)
{
	uint64_t total = 0;

	memset(io, 0, sizeof(*io));
	if (count > GUEST_IOV_MAX)
		return -EINVAL;
	io->task = t;
	io->iov = (void *)&io->one;
	if (count > 1)
		io->iov = malloc(count * sizeof(*io->iov));
	if (!io->iov)
		return -ENOMEM;
	if (guest_read(t, io->iov, iov, count * sizeof(*io->iov)) < 0) {
		uio_done(io);
		return -EFAULT;
	}
	for (uint64_t i = 0; i < count; i++) {
		if ((int64_t)io->iov[i].len < 0) {
			uio_done(io);
			return -EINVAL;
		}
		if (!gva_range_ok(io->iov[i].base, io->iov[i].len)) {
			uio_done(io);
			return -EFAULT;
		}
		if (io->iov[i].len > GUEST_RW_MAX - total)
			io->iov[i].len = GUEST_RW_MAX - total;
		total += io->iov[i].len;
	}
	io->count = (unsigned)count;
	io->left = total;
	return 0;
}

void uio_kernel(struct uio *io, void *base, size_t len)
{
	memset(io, 0, sizeof(*io));
	io->kernel_base = base;
	io->left = len;
}

void uio_done(struct uio *io)
{
	if (io->iov != (void *)&io->one)
		free(io->iov);
	io->iov = NULL;
}

static ssize_t move(struct uio *io, void *in, const void *out, size_t len)
{
	size_t done = 0;

	if (len > io->left)
		len = io->left;
	if (io->kernel_base) {
		memcpy(in ? in : io->kernel_base, in ? io->kernel_base : out, len);
		io->kernel_base += len;
		io->left -= len;
		return (ssize_t)len;
	}
	while (done < len) {
		uint64_t room = io->iov[io->at].len - io->skip;
		size_t want = room < len - done ? room : len - done;
		gva_t at = gva_add(io->iov[io->at].base, io->skip);
		ssize_t n = 0;

		if (want)
			n = in ? guest_read_some(io->task, (char *)in + done, at, want)
			       : guest_write_some(io->task, at, (const char *)out + done, want);
		if (n < 0)
			return done ? (ssize_t)done : -EFAULT;
		done += (size_t)n;
		io->skip += (uint64_t)n;
		io->left -= (uint64_t)n;
		if ((size_t)n < want)
			return (ssize_t)done;
		if (io->skip == io->iov[io->at].len) {
			io->at++;
			io->skip = 0;
		}
	}
	return (ssize_t)done;
}

ssize_t uio_in(struct uio *io, void *dst, size_t len)
{
	return move(io, dst, NULL, len);
}

ssize_t uio_out(struct uio *io, const void *src, size_t len)
{
	return move(io, NULL, src, len);
}

void uio_back(struct uio *io, size_t len)
{
	io->left += len;
	if (io->kernel_base) {
		io->kernel_base -= len;
		return;
	}
	while (len) {
		if (io->skip == 0) {
			io->at--;
			io->skip = io->iov[io->at].len;
		}
		size_t n = io->skip < len ? io->skip : len;

		io->skip -= n;
		len -= n;
	}
}
