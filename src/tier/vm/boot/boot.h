/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_BOOT_BOOT_H
#define WARD_TIER_VM_BOOT_BOOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tier/vm/gmem.h"

/*
 * From a kernel's file to a guest whose first instruction can run: what lies where in its memory,
 * and what its first CPU's registers are. docs/design/vm.md has the map.
 */
enum {
	BOOT_GDT = 0x500,
	BOOT_IDT = 0x520,
	BOOT_START_INFO = 0x6000,
	BOOT_MODULES = 0x6040,
	BOOT_MEMMAP = 0x6080,
	BOOT_ZERO_PAGE = 0x7000,
	BOOT_STACK = 0x8ff0,
	BOOT_PML4 = 0x9000,
	BOOT_PDPT = 0xa000,
	BOOT_PD = 0xb000,
	BOOT_CMDLINE = 0x20000,
	BOOT_MPTABLE = 0x9fc00,
	BOOT_ACPI = 0xa0000,
	BOOT_GENID = 0xdf000, /* 16 bytes that change with every copy of the machine */
	BOOT_RSDP = 0xe0000,
	BOOT_HIGH = 0x100000,

	BOOT_CMDLINE_MAX = 2048, /* with its NUL */
	BOOT_DEVICES_MAX = 16,
	BOOT_CPUS_MAX = 32,
	BOOT_GENID_BYTES = 16,
};

#define BOOT_DEVICES_AT 0xc0001000ull /* windows of 4 KiB each */
#define BOOT_FIRST_GSI 5u
#define BOOT_GENID_GSI 23u
#define BOOT_IOAPIC_AT 0xfec00000u
#define BOOT_LAPIC_AT 0xfee00000u

struct boot_device {
	uint64_t at; /* its window */
	uint32_t gsi;
};

struct boot_request {
	int kernel, initrd; /* descriptors, borrowed; initrd may be -1 */
	const char *cmdline;
	const struct boot_device *devices; /* in the order in which the guest finds them */
	unsigned device_count, cpus;
	bool acpi;   /* else: MP table, and devices on the command line */
	bool serial; /* the console is worth telling about */
};

enum boot_way { BOOT_PVH, BOOT_LINUX64 };

/* The first CPU. */
struct boot_cpu {
	enum boot_way way;
	uint64_t rip, rsi, rbx, rsp;
};

/* Puts everything into @mem. */
int boot_load(struct gmem *mem, const struct boot_request *q, struct boot_cpu *ret, struct err *e);

/* --- Its parts -------------------------------------------------------------------------------- */

struct boot_kernel {
	bool has_pvh;
	uint64_t pvh_entry, entry64;
	uint64_t low, high; /* guest memory that it takes */
	bool has_setup;     /* a bzImage: its own set-up header */
	uint8_t setup[0x290 - 0x1f1];
	size_t setup_bytes;
};

/* ELF vmlinux or bzImage, into @mem. The file is not trusted. */
int boot_kernel_load(struct gmem *mem, int fd, struct boot_kernel *ret, struct err *e);

/* What the guest's memory is made of; @ret has room for BOOT_RANGES_MAX. How many. */
enum { BOOT_RANGES_MAX = 4 };
struct boot_range {
	uint64_t at, size;
	uint32_t type; /* 1 memory, 2 reserved */
};
unsigned boot_ranges(const struct gmem *mem, struct boot_range ret[BOOT_RANGES_MAX]);

/* How the guest finds its CPUs and interrupts without ACPI. */
bool boot_mptable(struct gmem *mem, unsigned cpus);
/* RSDP, XSDT, FADT, MADT and a DSDT with every device. */
bool boot_acpi(struct gmem *mem, const struct boot_request *q);

uint8_t boot_checksum(const void *data, size_t len);

#endif
