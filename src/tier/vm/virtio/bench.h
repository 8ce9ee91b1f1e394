/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VIRTIO_BENCH_H
#define WARD_TIER_VM_VIRTIO_BENCH_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "tier/vm/virtio/block.h"

/* For tests: a disk, and a driver for it in plain memory that can do everything wrong. */
enum {
	MEM = 16 << 20,
	SIZE = 8,
	DESC = 0x10000,
	AVAIL = 0x20000,
	USED = 0x30000,
	BUF = 0x40000,
	DISK_BYTES = 64 * 1024,
	NEXT = 1,
	WRITE = 2,
	INDIRECT = 4,
};

struct bench {
	struct gmem mem;
	struct disk disk;
	struct block block;
	unsigned raised;
	uint16_t avail; /* requests made so far */
};

static inline void raise_line(void *arg)
{
	((struct bench *)arg)->raised++;
}

static inline void put16(struct bench *b, uint64_t at, uint16_t v)
{
	assert_true(gmem_write(&b->mem, GPA(at), &v, sizeof(v)));
}

static inline uint16_t get16(struct bench *b, uint64_t at)
{
	uint16_t v;

	assert_true(gmem_read(&b->mem, GPA(at), &v, sizeof(v)));
	return v;
}

static inline uint32_t get32(struct bench *b, uint64_t at)
{
	uint32_t v;

	assert_true(gmem_read(&b->mem, GPA(at), &v, sizeof(v)));
	return v;
}

static inline void set_desc(
	struct bench *b, unsigned i, uint64_t addr, uint32_t len, uint16_t flags, uint16_t next)
{
	struct {
		uint64_t addr;
		uint32_t len;
		uint16_t flags, next;
	} d = { addr, len, flags, next };

	assert_true(gmem_write(&b->mem, GPA(DESC + 16ull * i), &d, sizeof(d)));
}

/* Makes descriptor @head available, without a kick. */
static inline void offer(struct bench *b, uint16_t head)
{
	put16(b, AVAIL + 4 + 2ull * (b->avail % SIZE), head);
	put16(b, AVAIL + 2, ++b->avail);
}

static inline void wr(struct vdev *d, unsigned off, uint32_t v)
{
	vdev_write(d, off, &v, sizeof(v));
}

static inline uint32_t rd(struct vdev *d, unsigned off)
{
	uint32_t v = 0xdeadbeef;

	vdev_read(d, off, &v, sizeof(v));
	return v;
}

/* Up to FEATURES_OK, with the features in @acked. */
static inline void greet(struct vdev *d, uint64_t acked)
{
	wr(d, 0x70, 1);
	wr(d, 0x70, 3);
	wr(d, 0x24, 0);
	wr(d, 0x20, (uint32_t)acked);
	wr(d, 0x24, 1);
	wr(d, 0x20, (uint32_t)(acked >> 32));
	wr(d, 0x70, 11);
}

static inline void set_queue(
	struct vdev *d, unsigned q, uint32_t size, uint64_t desc, uint64_t avail, uint64_t used)
{
	wr(d, 0x30, q);
	wr(d, 0x38, size);
	wr(d, 0x80, (uint32_t)desc);
	wr(d, 0x84, (uint32_t)(desc >> 32));
	wr(d, 0x90, (uint32_t)avail);
	wr(d, 0x94, (uint32_t)(avail >> 32));
	wr(d, 0xa0, (uint32_t)used);
	wr(d, 0xa4, (uint32_t)(used >> 32));
	wr(d, 0x44, 1);
}

static inline void start(struct bench *b, uint64_t features)
{
	struct vdev *d = &b->block.dev;

	greet(d, VDEV_F_VERSION_1 | features);
	assert_int_equal(rd(d, 0x70), 11);
	set_queue(d, 0, SIZE, DESC, AVAIL, USED);
	wr(d, 0x70, 15);
}

static inline int file_of(const char *name, size_t bytes, uint8_t byte)
{
	int fd = memfd_create(name, MFD_CLOEXEC);
	uint8_t *data = malloc(bytes);

	assert_true(fd >= 0 && data);
	memset(data, byte, bytes);
	assert_int_equal(write(fd, data, bytes), (ssize_t)bytes);
	free(data);
	return fd;
}

static inline struct bench *bench_make_of(uint64_t bytes, bool read_only, bool over)
{
	struct bench *b = calloc(1, sizeof(*b));
	struct err e;

	assert_non_null(b);
	assert_int_equal(gmem_create(&b->mem, bytes, GMEM_ANON, &e), 0);
	assert_int_equal(disk_open(&b->disk, file_of("base", DISK_BYTES, 'b'),
				 over ? file_of("over", 0, 0) : -1, read_only, &e),
		0);
	block_init(&b->block, &b->disk, "disk-one", true, &b->mem, raise_line, b);
	return b;
}

static inline struct bench *bench_make(bool read_only, bool over)
{
	return bench_make_of(MEM, read_only, over);
}

static inline void bench_free(struct bench *b)
{
	disk_close(&b->disk);
	gmem_done(&b->mem);
	free(b);
}

/* A request of three descriptors: head, data, status. Returns the status byte. */
static inline uint8_t ask(
	struct bench *b, uint32_t type, uint64_t sector, uint64_t data, uint32_t len)
{
	struct {
		uint32_t type, reserved;
		uint64_t sector;
	} head = { type, 0, sector };
	uint8_t status = 0x77;

	assert_true(gmem_write(&b->mem, GPA(BUF), &head, sizeof(head)));
	assert_true(gmem_write(&b->mem, GPA(BUF + 0x100), &status, 1));
	set_desc(b, 0, BUF, sizeof(head), NEXT, 1);
	set_desc(b, 1, data, len, NEXT | (type == 1 ? 0 : WRITE), 2);
	set_desc(b, 2, BUF + 0x100, 1, WRITE, 0);
	offer(b, 0);
	wr(&b->block.dev, 0x50, 0);
	assert_true(gmem_read(&b->mem, GPA(BUF + 0x100), &status, 1));
	return status;
}

#endif
