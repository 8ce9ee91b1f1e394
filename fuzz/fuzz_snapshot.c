/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_snapshot.c - the state file of a machine.
 *
 * Owns:  one machine in plain memory, with every kind of device but no KVM; used again each time.
 * Rules: whatever the bytes, they are refused, or every ring of an active device lies in memory.
 *        Byte 0 chooses: the head of the file (its sum is made right, or nothing behind it would
 *        ever be reached), or what comes after it.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "tier/vm/snapfile.h"
#include "tier/vm/touched.h"
#include "tier/vm/virtio/block.h"
#include "tier/vm/virtio/rng.h"
#include "tier/vm/virtio/vsock.h"
#include "tier/vm/walks.h"

/* What the first copy touched: as it is, and past the sum. */
static void check_touched(const uint8_t *data, size_t size)
{
	static struct touched t;
	struct snap_head h = { .memory_bytes = 64 << 20 };

	touched_take(data, size, &h, &t);
	memset(&t, 0, sizeof(t));
	memcpy(&t, data, size < sizeof(t) ? size : sizeof(t));
	if (touched_is_sound(&t, h.memory_bytes) &&
		((uint64_t)t.runs[t.count - 1].first + t.runs[t.count - 1].count) * GMEM_PAGE >
			h.memory_bytes)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEM = 16 << 20, DISK = 1 << 20 };

static void nothing(void *arg)
{
	(void)arg;
}

static void no_byte(void *arg, uint8_t byte)
{
	(void)arg;
	(void)byte;
}

static int refuse(void *arg, uint32_t port)
{
	(void)arg;
	(void)port;
	return -ECONNREFUSED;
}

struct bench {
	struct gmem mem;
	struct watches events;
	struct disk disk;
	struct block block;
	struct rng rng;
	struct vsock vsock;
	struct serial serial;
	struct i8042 keyboard;
	struct saved_machine kvm;
	struct saved_cpu cpus[1];
};

static struct bench *make(void)
{
	struct bench *b = calloc(1, sizeof(*b));
	int fd = memfd_create("disk", MFD_CLOEXEC);

	if (!b || fd < 0 || ftruncate(fd, DISK) < 0 ||
		gmem_create(&b->mem, MEM, GMEM_ANON, NULL) < 0 ||
		watches_init(&b->events, NULL) < 0 || disk_open(&b->disk, fd, -1, true, NULL) < 0)
		abort();
	return b;
}

static void load(struct bench *b, const uint8_t *data, size_t size)
{
	struct walked all = { .kvm = &b->kvm,
		.serial = &b->serial,
		.keyboard = &b->keyboard,
		.devices = { &b->block.dev, &b->rng.dev, &b->vsock.dev },
		.device_count = 3 };
	struct vwalk w;

	block_init(&b->block, &b->disk, "root", false, &b->mem, nothing, NULL);
	rng_init(&b->rng, &b->mem, nothing, NULL);
	vsock_init(&b->vsock, 3, &b->events, refuse, NULL, &b->mem, nothing, NULL);
	serial_init(&b->serial, no_byte, nothing, NULL);
	i8042_init(&b->keyboard, nothing, NULL);
	b->kvm = (struct saved_machine){ .memory_bytes = MEM, .cpu_count = 1, .cpus = b->cpus };
	vwalk_load(&w, data, size);
	machine_walk(&all, &w);
	if (vwalk_end(&w) == 0) {
		for (unsigned i = 0; i < all.device_count; i++)
			for (unsigned q = 0;
				vdev_is_active(all.devices[i]) && q < all.devices[i]->ops->queues;
				q++)
				all.devices[i]->ops->kick(all.devices[i], q);
		vsock_drop_all(&b->vsock, true);
		for (unsigned i = 0; i < 100; i++) {
			serial_read(&b->serial, 0);
			i8042_read(&b->keyboard, 0x60);
		}
	}
	vsock_done(&b->vsock);
}

static void check_head(const uint8_t *data, size_t size)
{
	struct snap_head h = { .version = SNAP_VERSION }, got, made;

	snapfile_check(data, size, &got, NULL);
	if (size > sizeof(h))
		size = sizeof(h);
	memcpy(&h, data, size);
	/* Its sums as they should be. */
	snapfile_head(&made, h.memory_bytes, h.cpus, "", "", 1);
	memcpy(h.magic, made.magic, sizeof(h.magic));
	h.version = SNAP_VERSION;
	h.head_bytes = sizeof(h);
	{
		struct sha256 s;

		sha256_init(&s);
		sha256_add(&s, &h, offsetof(struct snap_head, head_sha));
		sha256_end(&s, h.head_sha);
	}
	if (snapfile_check(&h, sizeof(h), &got, NULL) == 0 &&
		(got.cpus == 0 || got.cpus > BOOT_CPUS_MAX || got.memory_bytes < GMEM_MIN ||
			strlen(got.image) > ROOTFS_KEY_BYTES))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct bench *b;

	if (!b)
		b = make();
	if (size && data[0] == 'h')
		check_head(data + 1, size - 1);
	else if (size && data[0] == 't')
		check_touched(data + 1, size - 1);
	else if (size)
		load(b, data + 1, size - 1);
	return 0;
}
