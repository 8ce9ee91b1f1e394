/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/boot/acpi.c - ACPI tables: CPUs, interrupts, and a DSDT that names every device.
 *
 * Owns:  what lies at BOOT_ACPI and BOOT_RSDP.
 * Rules: hardware-reduced: there is no power button, no RTC, no PM timer to look for. Devices
 * appear in the order in which they are given, so the root disk is the first block device.
 */
#include <string.h>

#include "base/str.h"
#include "tier/vm/boot/boot.h"
#include "tier/vm/i8042.h"
#include "tier/vm/serial.h"
#include "tier/vm/virtio/device.h"

enum {
	DSDT_MAX = 8192,
	HEADER_BYTES = 36,
	FADT_BYTES = 276,
	FADT_DSDT = 40,
	FADT_BOOT_FLAGS = 109,
	FADT_FLAGS = 112,
	FADT_MINOR = 131,
	FADT_X_DSDT = 140,
	NO_VGA = 1 << 2,
	NO_MSI = 1 << 3,
	NO_RTC = 1 << 5,
	HAS_8042 = 1 << 1,
	HW_REDUCED = 1 << 20,
};

/* --- AML: just what a list of devices needs --------------------------------------------------- */

/* clang-format off */
enum {
	AML_NAME = 0x08, AML_BYTE = 0x0a, AML_WORD = 0x0b, AML_DWORD = 0x0c, AML_STRING = 0x0d,
	AML_SCOPE = 0x10, AML_BUFFER = 0x11, AML_PACKAGE = 0x12, AML_METHOD = 0x14,
	AML_EXT = 0x5b, AML_DEVICE = 0x82, AML_ARG0 = 0x68, AML_NOTIFY = 0x86, AML_EQUAL = 0x93,
	AML_IF = 0xa0,
	LENGTH_BYTES = 4, /* always the long form: it can be filled in afterwards */
};
/* clang-format on */

struct aml {
	uint8_t data[DSDT_MAX];
	size_t len;
	bool full;
};

static void put(struct aml *a, const void *bytes, size_t len)
{
	if (len > sizeof(a->data) - a->len) {
		a->full = true;
		return;
	}
	memcpy(a->data + a->len, bytes, len);
	a->len += len;
}

static void byte(struct aml *a, unsigned v)
{
	uint8_t b = (uint8_t)v;

	put(a, &b, 1);
}

static void dword(struct aml *a, uint32_t v)
{
	byte(a, AML_DWORD);
	put(a, &v, sizeof(v));
}

static void name(struct aml *a, const char seg[5])
{
	byte(a, AML_NAME);
	put(a, seg, 4);
}

static void string(struct aml *a, const char *s)
{
	byte(a, AML_STRING);
	put(a, s, strlen(s) + 1);
}

/* Where a length is to be filled in by end(). */
static size_t begin(struct aml *a)
{
	size_t at = a->len;

	put(a, "\0\0\0\0", LENGTH_BYTES);
	return at;
}

static void end(struct aml *a, size_t at)
{
	size_t len = a->len - at;

	if (a->full)
		return;
	a->data[at] = (uint8_t)(0xc0 | (len & 0xf));
	a->data[at + 1] = (uint8_t)(len >> 4);
	a->data[at + 2] = (uint8_t)(len >> 12);
	a->data[at + 3] = (uint8_t)(len >> 20);
}

static size_t device(struct aml *a, const char seg[5])
{
	size_t at;

	byte(a, AML_EXT);
	byte(a, AML_DEVICE);
	at = begin(a);
	put(a, seg, 4);
	return at;
}

/* Resources: a buffer of descriptors, ending with a tag. */
struct resources {
	uint8_t data[64];
	size_t len;
};

static void res(struct resources *r, const void *bytes, size_t len)
{
	memcpy(r->data + r->len, bytes, len);
	r->len += len;
}

static void res_memory(struct resources *r, uint32_t at, uint32_t len)
{
	const uint8_t head[] = { 0x86, 9, 0, 1 }; /* fixed, writable */

	res(r, head, sizeof(head));
	res(r, &at, sizeof(at));
	res(r, &len, sizeof(len));
}

static void res_ports(struct resources *r, uint16_t at, uint8_t count)
{
	const uint8_t head[] = { 0x47, 1 }, tail[] = { 1, count };

	res(r, head, sizeof(head));
	res(r, &at, sizeof(at));
	res(r, &at, sizeof(at));
	res(r, tail, sizeof(tail));
}

static void res_line(struct resources *r, uint32_t gsi)
{
	const uint8_t head[] = { 0x89, 6, 0, 3, 1 }; /* consumer, edge, high, exclusive; one */

	res(r, head, sizeof(head));
	res(r, &gsi, sizeof(gsi));
}

static void resources(struct aml *a, struct resources *r)
{
	const uint8_t last[] = { 0x79, 0 };
	size_t at;

	res(r, last, sizeof(last));
	name(a, "_CRS");
	byte(a, AML_BUFFER);
	at = begin(a);
	byte(a, AML_BYTE);
	byte(a, (unsigned)r->len);
	put(a, r->data, r->len);
	end(a, at);
}

/* --- The devices ------------------------------------------------------------------------------ */

static void add_virtio(struct aml *a, unsigned i, const struct boot_device *d)
{
	struct resources r = { .len = 0 };
	char seg[5];
	size_t at;

	str_fmt(seg, sizeof(seg), "VR%02X", i);
	at = device(a, seg);
	name(a, "_HID");
	string(a, "LNRO0005");
	name(a, "_UID");
	byte(a, AML_BYTE);
	byte(a, i);
	name(a, "_CCA");
	byte(a, 1);
	res_memory(&r, (uint32_t)d->at, VDEV_WINDOW);
	res_line(&r, d->gsi);
	resources(a, &r);
	end(a, at);
}

/* An EISA id is a packed number, not a string. */
static uint32_t eisa(const char *id)
{
	uint32_t v = (uint32_t)(id[0] - '@') << 26 | (uint32_t)(id[1] - '@') << 21 |
		     (uint32_t)(id[2] - '@') << 16;

	for (unsigned i = 3; i < 7; i++) {
		uint32_t digit =
			id[i] <= '9' ? (uint32_t)(id[i] - '0') : (uint32_t)(id[i] - 'A' + 10);

		v |= digit << (4 * (6 - i));
	}
	return __builtin_bswap32(v);
}

static void add_serial(struct aml *a)
{
	struct resources r = { .len = 0 };
	size_t at = device(a, "COM1");

	name(a, "_HID");
	dword(a, eisa("PNP0501"));
	name(a, "_UID");
	byte(a, 0);
	res_ports(&r, SERIAL_PORT, SERIAL_PORTS);
	res_line(&r, SERIAL_GSI);
	resources(a, &r);
	end(a, at);
}

static void add_keyboard(struct aml *a)
{
	struct resources r = { .len = 0 };
	size_t at = device(a, "PS2_");

	name(a, "_HID");
	dword(a, eisa("PNP0303"));
	res_ports(&r, I8042_DATA, 1);
	res_ports(&r, I8042_STATUS, 1);
	res_line(&r, I8042_GSI);
	resources(a, &r);
	end(a, at);
}

/* Where the number is that changes with every copy of this machine. */
static void add_genid(struct aml *a)
{
	size_t at = device(a, "VGEN"), package;

	name(a, "_HID");
	string(a, "WARD0001");
	name(a, "_CID");
	string(a, "VM_Gen_Counter");
	name(a, "_DDN");
	string(a, "VM_Gen_Counter");
	name(a, "ADDR");
	byte(a, AML_PACKAGE);
	package = begin(a);
	byte(a, 2);
	dword(a, BOOT_GENID);
	byte(a, 0);
	end(a, package);
	end(a, at);
}

/* The event device: an interrupt says that the number has changed. */
static void add_events(struct aml *a)
{
	struct resources r = { .len = 0 };
	size_t at = device(a, "GED_"), method, cond;

	name(a, "_HID");
	string(a, "ACPI0013");
	name(a, "_UID");
	byte(a, 0);
	res_line(&r, BOOT_GENID_GSI);
	resources(a, &r);
	byte(a, AML_METHOD);
	method = begin(a);
	put(a, "_EVT", 4);
	byte(a, 0x09); /* one argument, serialised */
	byte(a, AML_IF);
	cond = begin(a);
	byte(a, AML_EQUAL);
	byte(a, AML_ARG0);
	byte(a, AML_BYTE);
	byte(a, BOOT_GENID_GSI);
	byte(a, AML_NOTIFY);
	put(a, "VGEN", 4);
	byte(a, AML_BYTE);
	byte(a, 0x80);
	end(a, cond);
	end(a, method);
	end(a, at);
}

static void add_all(struct aml *a, const struct boot_request *q)
{
	size_t at;

	byte(a, AML_SCOPE);
	at = begin(a);
	put(a, "_SB_", 4);
	for (unsigned i = 0; i < q->device_count; i++)
		add_virtio(a, i, &q->devices[i]);
	if (q->serial)
		add_serial(a);
	add_keyboard(a);
	add_genid(a);
	add_events(a);
	end(a, at);
}

/* --- The tables ------------------------------------------------------------------------------- */

struct header {
	char magic[4];
	uint32_t length;
	uint8_t revision, checksum;
	char oem[6], table[8];
	uint32_t oem_revision;
	char creator[4];
	uint32_t creator_revision;
} __attribute__((packed));
_Static_assert(sizeof(struct header) == HEADER_BYTES, "ACPI 5.2.6");

struct rsdp {
	char magic[8];
	uint8_t checksum;
	char oem[6];
	uint8_t revision;
	uint32_t rsdt, length;
	uint64_t xsdt;
	uint8_t ext_checksum, reserved[3];
} __attribute__((packed));
_Static_assert(sizeof(struct rsdp) == 36, "ACPI 5.2.5.3");

/* Where the next table goes. */
struct place {
	struct gmem *mem;
	uint64_t at;
	bool failed;
};

/* Fills in the header and puts the table into the guest; its address. */
static uint64_t place_table(
	struct place *p, uint8_t *table, size_t len, const char magic[5], uint8_t revision)
{
	struct header h = { .length = (uint32_t)len, .revision = revision, .creator_revision = 1 };
	uint64_t at = p->at;

	memcpy(h.magic, magic, 4);
	memcpy(h.oem, "WARD  ", sizeof(h.oem));
	memcpy(h.table, "MICROVM ", sizeof(h.table));
	memcpy(h.creator, "WARD", sizeof(h.creator));
	memcpy(table, &h, sizeof(h));
	((struct header *)(void *)table)->checksum = boot_checksum(table, len);
	p->at = (at + len + 15) & ~15ull;
	if (p->at > BOOT_GENID || !gmem_write(p->mem, GPA(at), table, len))
		p->failed = true;
	return at;
}

static uint64_t place_fadt(struct place *p, uint64_t dsdt)
{
	uint8_t t[FADT_BYTES] = { 0 };
	uint32_t dsdt32 = (uint32_t)dsdt, flags = HW_REDUCED;
	uint16_t boot = HAS_8042 | NO_VGA | NO_MSI | NO_RTC;

	memcpy(t + FADT_DSDT, &dsdt32, sizeof(dsdt32));
	memcpy(t + FADT_BOOT_FLAGS, &boot, sizeof(boot));
	memcpy(t + FADT_FLAGS, &flags, sizeof(flags));
	t[FADT_MINOR] = 5;
	memcpy(t + FADT_X_DSDT, &dsdt, sizeof(dsdt));
	return place_table(p, t, sizeof(t), "FACP", 6);
}

static uint64_t place_madt(struct place *p, unsigned cpus)
{
	uint8_t t[HEADER_BYTES + 8 + 12 + BOOT_CPUS_MAX * 8] = { 0 };
	const uint32_t lapic = BOOT_LAPIC_AT, ioapic = BOOT_IOAPIC_AT;
	size_t n = HEADER_BYTES;

	memcpy(t + n, &lapic, sizeof(lapic));
	n += 8;
	t[n] = 1; /* IOAPIC */
	t[n + 1] = 12;
	memcpy(t + n + 4, &ioapic, sizeof(ioapic));
	n += 12;
	for (unsigned i = 0; i < cpus; i++, n += 8) {
		t[n + 1] = 8;
		t[n + 2] = t[n + 3] = (uint8_t)i;
		t[n + 4] = 1; /* enabled */
	}
	return place_table(p, t, n, "APIC", 6);
}

bool boot_acpi(struct gmem *mem, const struct boot_request *q)
{
	struct place p = { .mem = mem, .at = BOOT_ACPI };
	struct aml a = { .len = HEADER_BYTES };
	uint8_t xsdt[HEADER_BYTES + 16];
	struct rsdp r = { .revision = 2, .length = sizeof(r) };
	uint64_t dsdt, fadt, madt;

	if (q->cpus == 0 || q->cpus > BOOT_CPUS_MAX || q->device_count > BOOT_DEVICES_MAX)
		return false;
	add_all(&a, q);
	if (a.full)
		return false;
	dsdt = place_table(&p, a.data, a.len, "DSDT", 6);
	fadt = place_fadt(&p, dsdt);
	madt = place_madt(&p, q->cpus);
	memcpy(xsdt + HEADER_BYTES, &fadt, sizeof(fadt));
	memcpy(xsdt + HEADER_BYTES + 8, &madt, sizeof(madt));
	r.xsdt = place_table(&p, xsdt, sizeof(xsdt), "XSDT", 1);
	memcpy(r.magic, "RSD PTR ", sizeof(r.magic));
	memcpy(r.oem, "WARD  ", sizeof(r.oem));
	r.checksum = boot_checksum(&r, 20);
	r.ext_checksum = boot_checksum(&r, sizeof(r));
	return !p.failed && gmem_write(mem, GPA(BOOT_RSDP), &r, sizeof(r));
}
