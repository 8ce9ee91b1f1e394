/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/vm/vm_boot.c - boots a kernel and shows its console, for the rig.
 *
 *	vm-boot [-m MIB] [-c CPUS] [-d DISK]... [-t TAP] [-a] [-p] [-q] KERNEL INITRAMFS
 *COMMAND-LINE
 *
 * -t: a network card. -a: ACPI tables. -p: no XSAVE. -q: no console. The last line tells how it
 *ended and what it cost.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "tier/vm/machine.h"
#include "tier/vm/virtio/block.h"
#include "tier/vm/virtio/net.h"
#include "tier/vm/virtio/rng.h"
#include "tier/vm/virtio/vsock.h"
#include "tier/vm/vm.h"

enum { DISKS_MAX = 4, ECHO_PORT = 1024 };

static void show(void *arg, uint8_t byte)
{
	(void)arg;
	if (write(1, &byte, 1) < 0)
		exit(1);
}

static int refuse(void *arg, uint32_t port)
{
	(void)arg;
	(void)port;
	return -ECONNREFUSED;
}

static int must(int r, const struct err *e)
{
	if (r < 0) {
		fprintf(stderr, "vm-boot: %s\n", e->msg);
		exit(1);
	}
	return r;
}

static int must_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	if (fd < 0) {
		fprintf(stderr, "vm-boot: %s: %s\n", path, strerror(errno));
		exit(1);
	}
	return fd;
}

int main(int argc, char **argv)
{
	static struct machine m;
	static struct disk disks[DISKS_MAX];
	static struct block blocks[DISKS_MAX];
	static struct rng rng;
	static struct vsock vsock;
	static struct net net;
	static const uint8_t mac[NET_MAC_BYTES] = { 2, 0, 0, 0, 0, 1 };
	struct machine_config c = { .memory_bytes = 128ull << 20, .cpus = 1, .console = show };
	struct boot_request q = { .serial = true };
	const char *disk_paths[DISKS_MAX];
	unsigned disk_count = 0;
	uint64_t start = clock_ns();
	struct err e = { 0 };
	int opt, tap = -1;

	while ((opt = getopt(argc, argv, "m:c:d:t:apq")) >= 0) {
		if (opt == 'm')
			c.memory_bytes = strtoull(optarg, NULL, 10) << 20;
		else if (opt == 'c')
			c.cpus = (unsigned)strtoul(optarg, NULL, 10);
		else if (opt == 'd' && disk_count < DISKS_MAX)
			disk_paths[disk_count++] = optarg;
		else if (opt == 't')
			must(tap_open(optarg, &tap, &e), &e);
		else if (opt == 'a')
			q.acpi = true;
		else if (opt == 'p')
			c.plain_fpu = true;
		else if (opt == 'q')
			c.console = NULL;
		else
			return 1;
	}
	if (argc - optind != 3)
		return 1;
	c.kvm = must_open("/dev/kvm", O_RDWR);
	q.kernel = must_open(argv[optind], O_RDONLY);
	q.initrd = must_open(argv[optind + 1], O_RDONLY);
	q.cmdline = argv[optind + 2];
	must(machine_create(&m, &c, &e), &e);
	for (unsigned i = 0; i < disk_count; i++) {
		must(disk_open(&disks[i], must_open(disk_paths[i], O_RDWR), -1, false, &e), &e);
		block_init(&blocks[i], &disks[i], "disk", true, &m.mem, machine_raise,
			machine_place(&m, m.device_count));
		must(machine_attach(&m, &blocks[i].dev, &e), &e);
	}
	rng_init(&rng, &m.mem, machine_raise, machine_place(&m, m.device_count));
	must(machine_attach(&m, &rng.dev, &e), &e);
	vsock_init(&vsock, 3, &m.events, refuse, NULL, &m.mem, machine_raise,
		machine_place(&m, m.device_count));
	must(machine_attach(&m, &vsock.dev, &e), &e);
	if (tap >= 0) {
		must(net_init(&net, tap, mac, &m.events, &m.mem, machine_raise,
			     machine_place(&m, m.device_count), &e),
			&e);
		must(machine_attach(&m, &net.dev, &e), &e);
	}
	must(machine_boot(&m, &q, &e), &e);
	must(machine_run(&m, &e), &e);
	printf("\nvm-boot: end=%d why='%s' ms=%llu port_in=%llu port_out=%llu mmio_read=%llu "
	       "mmio_write=%llu interrupted=%llu\n",
		m.end, m.why, (unsigned long long)((clock_ns() - start) / 1000000),
		(unsigned long long)m.exits.port_in, (unsigned long long)m.exits.port_out,
		(unsigned long long)m.exits.mmio_read, (unsigned long long)m.exits.mmio_write,
		(unsigned long long)m.exits.interrupted);
	if (tap >= 0)
		printf("vm-boot: frames in=%llu out=%llu dropped=%llu\n",
			(unsigned long long)net.received, (unsigned long long)net.sent,
			(unsigned long long)net.dropped);
	return m.end == MACHINE_OFF ? 0 : 2;
}
