/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/vm/vm_still.c - a snapshot of a machine whose guest does nothing, on any /dev/kvm.
 *
 *	vm-still STATE-DIR KERNEL CPUS MIB FOLDER
 *
 * Loads KERNEL into a machine with the devices of a sandbox and writes that down, before its first
 * instruction, as FOLDER/state, memory and disk; its image is a page of zeros in STATE-DIR/images.
 * What it costs to go on from that is the host's work of a copy, and nothing else.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/str.h"
#include "tier/vm/machine.h"
#include "tier/vm/snapfile.h"
#include "tier/vm/virtio/balloon.h"
#include "tier/vm/virtio/block.h"
#include "tier/vm/virtio/rng.h"
#include "tier/vm/virtio/vsock.h"
#include "tier/vm/vm.h"
#include "tier/vm/vwalk.h"

static const char key[] = "00112233445566778899aabbccddeeff";

static void must(int r, const struct err *e)
{
	if (r >= 0)
		return;
	fprintf(stderr, "vm-still: %s\n", e->msg);
	exit(1);
}

static int make(const char *folder, const char *name)
{
	char path[WARD_PATH_MAX];
	int fd = str_fmt(path, sizeof(path), "%s/%s", folder, name);

	if (fd == 0)
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0) {
		fprintf(stderr, "vm-still: %s: %s\n", path, strerror(errno));
		exit(1);
	}
	return fd;
}

static int make_image(const char *state_dir)
{
	char path[WARD_PATH_MAX], name[80];
	struct err e = { 0 };
	int fd;

	must(str_fmt(path, sizeof(path), "%s/images", state_dir), &e);
	mkdir(path, 0700);
	must(str_fmt(name, sizeof(name), "%s.ext4", key), &e);
	fd = make(path, name);
	if (ftruncate(fd, 4096) < 0)
		exit(1);
	return fd;
}

static int refuse(void *arg, uint32_t port)
{
	(void)arg;
	(void)port;
	return -ECONNREFUSED;
}

static void write_down(struct machine *m, const char *folder)
{
	int state = make(folder, "state"), memory = make(folder, "memory");
	const struct gmem_region *g = &m->mem.regions[0];
	struct snap_head head;
	struct err e = { 0 };
	struct vwalk w;

	vwalk_save(&w);
	must(machine_save(m, &w, &e), &e);
	snapfile_head(&head, m->mem.bytes, m->cpus, key, w.data, w.len);
	must(snapfile_write(state, &head, w.data, &e), &e);
	if (pwrite(memory, g->host, g->size, 0) != (ssize_t)g->size)
		exit(1);
	close(make(folder, "disk"));
	vwalk_done(&w);
}

int main(int argc, char **argv)
{
	static struct machine m;
	static struct disk disk;
	static struct block block;
	static struct rng rng;
	static struct vsock vsock;
	static struct balloon balloon;
	struct machine_config c = { 0 };
	struct boot_request q = { .cmdline = "", .acpi = true };
	struct err e = { 0 };

	if (argc != 6)
		return 1;
	c.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	q.kernel = open(argv[2], O_RDONLY | O_CLOEXEC);
	q.initrd = -1;
	c.cpus = (unsigned)strtoul(argv[3], NULL, 10);
	c.memory_bytes = strtoull(argv[4], NULL, 10) << 20;
	if (c.kvm < 0 || q.kernel < 0)
		return 1;
	must(machine_create(&m, &c, &e), &e);
	must(disk_open(&disk, make_image(argv[1]), -1, true, &e), &e);
	block_init(&block, &disk, "root", false, &m.mem, machine_raise, machine_place(&m, 0));
	must(machine_attach(&m, &block.dev, &e), &e);
	rng_init(&rng, &m.mem, machine_raise, machine_place(&m, 1));
	must(machine_attach(&m, &rng.dev, &e), &e);
	vsock_init(&vsock, VM_CID, &m.events, refuse, NULL, &m.mem, machine_raise,
		machine_place(&m, 2));
	must(machine_attach(&m, &vsock.dev, &e), &e);
	balloon_init(&balloon, &m.mem, machine_raise, machine_place(&m, 3));
	must(machine_attach(&m, &balloon.dev, &e), &e);
	must(machine_boot(&m, &q, &e), &e);
	write_down(&m, argv[5]);
	return 0;
}
