/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/boot/mptable.c - the MP table: CPUs and interrupts for a guest without ACPI.
 *
 * Owns:  up to a kilobyte at BOOT_MPTABLE.
 */
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "tier/vm/boot/boot.h"

/* clang-format off */
enum { ENTRY_CPU, ENTRY_BUS, ENTRY_IOAPIC, ENTRY_LINE, ENTRY_LOCAL };
enum { LINE_INT, LINE_NMI, LINE_SMI, LINE_EXT };
/* clang-format on */

enum {
	TABLE_MAX = 1024,
	APIC_VERSION = 0x14,
	CPU_ENABLED = 1,
	CPU_FIRST = 2,
	CPU_STEPPING = 0x600,
	CPU_FEATURES = 0x201, /* FPU and APIC */
	LINES = 24,
	EVERY_CPU = 0xff,
};

struct floating {
	char magic[4];
	uint32_t table;
	uint8_t length, version, checksum, features[5];
} __attribute__((packed));

struct table {
	char magic[4];
	uint16_t length;
	uint8_t version, checksum;
	char vendor[8], product[12];
	uint32_t oem;
	uint16_t oem_size, entries;
	uint32_t lapic;
	uint16_t ext_length;
	uint8_t ext_checksum, reserved;
} __attribute__((packed));

struct cpu {
	uint8_t type, apic_id, version, flags;
	uint32_t signature, features, reserved[2];
} __attribute__((packed));

struct bus {
	uint8_t type, id;
	char name[6];
} __attribute__((packed));

struct ioapic {
	uint8_t type, id, version, flags;
	uint32_t at;
} __attribute__((packed));

struct line {
	uint8_t type, kind;
	uint16_t flags;
	uint8_t bus, bus_line, to, to_line;
} __attribute__((packed));

_Static_assert(sizeof(struct floating) == 16, "MP specification 4.1");
_Static_assert(sizeof(struct table) == 44, "MP specification 4.2");
_Static_assert(sizeof(struct cpu) == 20 && sizeof(struct line) == 8, "MP specification 4.3");

struct writer {
	uint8_t data[TABLE_MAX];
	size_t len;
	unsigned entries;
};

static void add(struct writer *w, const void *entry, size_t len)
{
	memcpy(w->data + w->len, entry, len);
	w->len += len;
	w->entries++;
}

uint8_t boot_checksum(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint8_t sum = 0;

	for (size_t i = 0; i < len; i++)
		sum = (uint8_t)(sum + p[i]);
	return (uint8_t)-sum;
}

static void add_cpus(struct writer *w, unsigned cpus)
{
	for (unsigned i = 0; i < cpus; i++) {
		struct cpu c = { .type = ENTRY_CPU,
			.apic_id = (uint8_t)i,
			.version = APIC_VERSION,
			.flags = i == 0 ? CPU_ENABLED | CPU_FIRST : CPU_ENABLED,
			.signature = CPU_STEPPING,
			.features = CPU_FEATURES };

		add(w, &c, sizeof(c));
	}
}

bool boot_mptable(struct gmem *mem, unsigned cpus)
{
	struct floating f = { .magic = "_MP_", .length = 1, .version = 4 };
	struct table t = { .magic = "PCMP", .version = 4, .lapic = BOOT_LAPIC_AT };
	struct bus isa = { .type = ENTRY_BUS, .name = "ISA   " };
	struct ioapic io = { .type = ENTRY_IOAPIC,
		.id = (uint8_t)(cpus + 1),
		.version = APIC_VERSION,
		.flags = 1,
		.at = BOOT_IOAPIC_AT };
	struct writer w = { .len = sizeof(t) };

	_Static_assert(sizeof(struct table) + BOOT_CPUS_MAX * sizeof(struct cpu) +
				       sizeof(struct bus) + sizeof(struct ioapic) +
				       (LINES + 2) * sizeof(struct line) <=
			       TABLE_MAX - sizeof(struct floating),
		"the table fits for the most CPUs");
	if (cpus == 0 || cpus > BOOT_CPUS_MAX)
		return false;
	memcpy(t.vendor, "WARD    ", sizeof(t.vendor));
	memcpy(t.product, "microvm     ", sizeof(t.product));
	add_cpus(&w, cpus);
	add(&w, &isa, sizeof(isa));
	add(&w, &io, sizeof(io));
	for (unsigned i = 0; i < LINES; i++) {
		struct line l = { .type = ENTRY_LINE,
			.kind = LINE_INT,
			.bus_line = (uint8_t)i,
			.to = io.id,
			.to_line = (uint8_t)i };

		add(&w, &l, sizeof(l));
	}
	add(&w, &(struct line){ .type = ENTRY_LOCAL, .kind = LINE_EXT }, sizeof(struct line));
	add(&w,
		&(struct line){
			.type = ENTRY_LOCAL, .kind = LINE_NMI, .to = EVERY_CPU, .to_line = 1 },
		sizeof(struct line));
	t.length = (uint16_t)w.len;
	t.entries = (uint16_t)w.entries;
	memcpy(w.data, &t, sizeof(t));
	((struct table *)w.data)->checksum = boot_checksum(w.data, w.len);
	f.table = BOOT_MPTABLE + sizeof(f);
	f.checksum = boot_checksum(&f, sizeof(f));
	return gmem_write(mem, GPA(BOOT_MPTABLE), &f, sizeof(f)) &&
	       gmem_write(mem, GPA(BOOT_MPTABLE + sizeof(f)), w.data, w.len);
}
