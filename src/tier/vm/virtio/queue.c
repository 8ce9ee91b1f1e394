/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/virtio/queue.c - split virtqueues in front of a hostile guest.
 *
 * Owns:  the positions in the rings. The rings themselves belong to the guest.
 * Rules: a shared field is read once, into a local; the local is checked and used. No loop runs
 *        longer than the queue is. What is wrong with a queue stops that queue for good, until the
 *        driver resets the device; it never stops the monitor.
 */
#include <string.h>

#include "base/ckd.h"
#include "tier/vm/virtio/queue.h"

enum {
	DESC_BYTES = 16,
	DESC_NEXT = 1,
	DESC_WRITE = 2,
	DESC_INDIRECT = 4,
	AVAIL_NO_INTERRUPT = 1,
};

struct vdesc {
	uint64_t addr;
	uint32_t len;
	uint16_t flags, next;
};

void virtq_init(struct virtq *q, struct gmem *mem, uint16_t size_max)
{
	*q = (struct virtq){
		.mem = mem, .bytes_max = VIRTQ_BYTES_MAX, .size_max = size_max, .size = size_max
	};
}

void virtq_reset(struct virtq *q)
{
	uint64_t bytes_max = q->bytes_max;

	virtq_init(q, q->mem, q->size_max);
	q->bytes_max = bytes_max;
}

int virtq_break(struct virtq *q, const char *why)
{
	if (!q->broken)
		q->broken = why;
	return -1;
}

static uint16_t load16(const volatile uint8_t *at)
{
	return __atomic_load_n(
		(const volatile uint16_t *)(const volatile void *)at, __ATOMIC_ACQUIRE);
}

static void store16(volatile uint8_t *at, uint16_t v)
{
	__atomic_store_n((volatile uint16_t *)(volatile void *)at, v, __ATOMIC_RELEASE);
}

/* {flags, idx, ring[size], used_event} and {flags, idx, {id, len}[size], avail_event} */
static uint64_t avail_bytes(unsigned size)
{
	return 6 + 2ull * size;
}

static uint64_t used_bytes(unsigned size)
{
	return 6 + 8ull * size;
}

bool virtq_activate(struct virtq *q, bool event_idx)
{
	unsigned n = q->size;

	if (!q->ready || n == 0 || n > q->size_max || (n & (n - 1)))
		return false;
	q->desc_at = gmem_ring(q->mem, q->desc, (uint64_t)n * DESC_BYTES, 16);
	q->avail_at = gmem_ring(q->mem, q->avail, avail_bytes(n), 2);
	q->used_at = gmem_ring(q->mem, q->used, used_bytes(n), 4);
	if (!q->desc_at || !q->avail_at || !q->used_at)
		return false;
	q->mask = (uint16_t)(n - 1);
	q->event_idx = event_idx;
	q->broken = NULL;
	return q->active = true;
}

/* One descriptor, whole, into a local: each of its fields is read once. */
static struct vdesc read_desc(const struct virtq *q, uint16_t i)
{
	const volatile uint8_t *at = q->desc_at + (size_t)i * DESC_BYTES;
	struct vdesc d;

	d.addr = *(const volatile uint64_t *)(const volatile void *)at;
	d.len = *(const volatile uint32_t *)(const volatile void *)(at + 8);
	d.flags = *(const volatile uint16_t *)(const volatile void *)(at + 12);
	d.next = *(const volatile uint16_t *)(const volatile void *)(at + 14);
	return d;
}

/* Adds @d to the chain. */
static int add_part(struct virtq *q, struct vchain *c, const struct vdesc *d)
{
	bool write = d->flags & DESC_WRITE;

	if (d->flags & DESC_INDIRECT)
		return virtq_break(q, "an indirect descriptor, which was not offered");
	if (!write && c->out)
		return virtq_break(q, "a readable descriptor behind a writable one");
	if (d->len == 0)
		return 0;
	if (c->in_bytes + c->out_bytes + d->len > q->bytes_max)
		return virtq_break(q, "a request that is too long");
	if (!gmem_iov(q->mem, GPA(d->addr), d->len, write, &c->iov[c->in + c->out]))
		return virtq_break(q, "a descriptor outside memory");
	if (write) {
		c->out++;
		c->out_bytes += d->len;
	} else {
		c->in++;
		c->in_bytes += d->len;
	}
	return 0;
}

static int read_chain(struct virtq *q, uint16_t head, struct vchain *c)
{
	uint16_t i = head;

	c->head = head;
	c->in = c->out = 0;
	c->in_bytes = c->out_bytes = 0;
	for (unsigned hops = 0; hops < q->size; hops++) {
		struct vdesc d;

		if (i >= q->size)
			return virtq_break(q, "a descriptor index beyond the queue");
		d = read_desc(q, i);
		if (add_part(q, c, &d) < 0)
			return -1;
		if (!(d.flags & DESC_NEXT))
			return 1;
		i = d.next;
	}
	return virtq_break(q, "a looped descriptor chain");
}

int virtq_pop(struct virtq *q, struct vchain *ret)
{
	uint16_t pending;

	if (!q->active || q->broken)
		return q->broken ? -1 : 0;
	pending = (uint16_t)(load16(q->avail_at + 2) - q->next_avail);
	if (pending == 0)
		return 0;
	if (pending > q->size)
		return virtq_break(q, "more requests than the queue has room for");
	if (read_chain(q, load16(q->avail_at + 4 + 2 * (q->next_avail & q->mask)), ret) < 0)
		return -1;
	q->next_avail++;
	return 1;
}

void virtq_unpop(struct virtq *q)
{
	q->next_avail--;
}

void virtq_push(struct virtq *q, uint16_t head, uint32_t written)
{
	virtq_push_all(q, &(struct vused){ head, written }, 1);
}

void virtq_push_all(struct virtq *q, const struct vused *done, unsigned count)
{
	if (!q->active || q->broken)
		return;
	for (unsigned i = 0; i < count; i++) {
		volatile uint8_t *at = q->used_at + 4 + 8 * (size_t)(q->next_used & q->mask);

		*(volatile uint32_t *)(volatile void *)at = done[i].head;
		*(volatile uint32_t *)(volatile void *)(at + 4) = done[i].written;
		q->next_used++;
	}
	store16(q->used_at + 2, q->next_used);
	gmem_mark(q->mem, q->used, used_bytes(q->size));
}

bool virtq_should_tell(struct virtq *q)
{
	uint16_t event, fresh;

	if (!q->active)
		return false;
	fresh = (uint16_t)(q->next_used - q->told_used);
	q->told_used = q->next_used;
	if (fresh == 0)
		return false;
	/* The driver writes what it waits for, then looks at used.idx; we the other way round. */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (q->event_idx) {
		event = load16(q->avail_at + 4 + 2 * (size_t)q->size);
		return (uint16_t)(q->next_used - event - 1) < fresh;
	}
	return !(load16(q->avail_at) & AVAIL_NO_INTERRUPT);
}

/* The driver kicks when it goes beyond @seen. Has it already? */
static bool rearm_at(struct virtq *q, uint16_t seen)
{
	if (q->event_idx) {
		store16(q->used_at + 4 + 8 * (size_t)q->size, seen);
		gmem_mark(q->mem, q->used, used_bytes(q->size));
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	}
	return load16(q->avail_at + 2) != seen;
}

bool virtq_rearm(struct virtq *q)
{
	return q->active && !q->broken && rearm_at(q, q->next_avail);
}

bool virtq_rearm_for_more(struct virtq *q)
{
	return q->active && !q->broken && rearm_at(q, load16(q->avail_at + 2));
}

unsigned vchain_slice(const struct vchain *c, bool writable, uint64_t at, uint64_t len,
	struct iovec ret[VIRTQ_SIZE_MAX])
{
	unsigned first = writable ? c->in : 0, last = writable ? c->in + c->out : c->in, n = 0;

	for (unsigned i = first; i < last && len > 0; i++) {
		uint64_t here = c->iov[i].iov_len;

		if (at >= here) {
			at -= here;
			continue;
		}
		here = here - at < len ? here - at : len;
		ret[n++] = (struct iovec){ (uint8_t *)c->iov[i].iov_base + at, here };
		len -= here;
		at = 0;
	}
	return n;
}

static size_t copy(const struct vchain *c, bool writable, uint64_t at, void *buf, size_t len)
{
	struct iovec parts[VIRTQ_SIZE_MAX];
	unsigned n = vchain_slice(c, writable, at, len, parts);
	size_t done = 0;

	for (unsigned i = 0; i < n; i++) {
		if (writable)
			memcpy(parts[i].iov_base, (uint8_t *)buf + done, parts[i].iov_len);
		else
			memcpy((uint8_t *)buf + done, parts[i].iov_base, parts[i].iov_len);
		done += parts[i].iov_len;
	}
	return done;
}

size_t vchain_read(const struct vchain *c, uint64_t at, void *to, size_t len)
{
	return copy(c, false, at, to, len);
}

size_t vchain_write(const struct vchain *c, uint64_t at, const void *from, size_t len)
{
	return copy(c, true, at, (void *)(uintptr_t)from, len);
}
