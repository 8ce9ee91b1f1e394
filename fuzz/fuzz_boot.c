/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_boot.c - any file as a guest's kernel.
 *
 * Input: the first byte says how it is booted (tables, CPUs, devices); the rest is the file. It is
 * loaded into plain memory with everything that goes beside it. What is loaded lies within that
 * memory, or it is refused with a reason.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "tier/vm/boot/boot.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEM = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gmem mem;
	static int file = -1;
	struct boot_device devices[] = { { BOOT_DEVICES_AT, BOOT_FIRST_GSI },
		{ BOOT_DEVICES_AT + 4096, BOOT_FIRST_GSI + 1 } };
	unsigned how = size ? data[0] : 0;
	struct boot_request q = { .initrd = -1,
		.cmdline = "console=ttyS0",
		.devices = devices,
		.device_count = how % 3,
		.cpus = 1 + how / 16 % 8,
		.acpi = how & 4,
		.serial = how & 8 };
	struct boot_cpu cpu;
	struct err e = { 0 };

	if (!mem.area && gmem_create(&mem, MEM, GMEM_ANON, &e) < 0)
		abort();
	if (file < 0)
		file = memfd_create("kernel", MFD_CLOEXEC);
	if (file < 0 || ftruncate(file, 0) < 0 ||
		(size > 1 && pwrite(file, data + 1, size - 1, 0) != (ssize_t)(size - 1)))
		abort();
	q.kernel = file;
	if (boot_load(&mem, &q, &cpu, &e) == 0) {
		if (!gmem_has(&mem, (gpa_t){ cpu.rip }, 1))
			abort(); /* the CPU would start where nothing is */
	} else if (!e.msg[0]) {
		abort();
	}
	return 0;
}
