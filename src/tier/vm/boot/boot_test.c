/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/boot/boot_test.c - kernels that are none, and what lies in the memory of one that is.
 */
#include <elf.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/vm/boot/boot.h"

enum { MEM = 64 << 20, FILE_BYTES = 16384, CODE_AT = 0x1000000, NOTE_AT = 0x400 };

static int file_with(const void *data, size_t len)
{
	int fd = memfd_create("kernel", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, len), (ssize_t)len);
	return fd;
}

struct vmlinux {
	Elf64_Ehdr h;
	Elf64_Phdr p[2];
	uint8_t rest[FILE_BYTES - sizeof(Elf64_Ehdr) - 2 * sizeof(Elf64_Phdr)];
};

static void make_vmlinux(struct vmlinux *v, bool pvh)
{
	struct {
		Elf64_Nhdr n;
		char name[4];
		uint32_t entry;
	} note = { { 4, 4, 18 }, "Xen", CODE_AT + 0x40 };

	memset(v, 0, sizeof(*v));
	memcpy(v->h.e_ident, ELFMAG, SELFMAG);
	v->h.e_ident[EI_CLASS] = ELFCLASS64;
	v->h.e_ident[EI_DATA] = ELFDATA2LSB;
	v->h.e_machine = EM_X86_64;
	v->h.e_phoff = sizeof(v->h);
	v->h.e_phentsize = sizeof(v->p[0]);
	v->h.e_phnum = 2;
	v->h.e_entry = CODE_AT + 0x80;
	v->p[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
		.p_offset = 0x1000,
		.p_paddr = CODE_AT,
		.p_filesz = 0x1000,
		.p_memsz = 0x2000 };
	v->p[1] = (Elf64_Phdr){
		.p_type = PT_NOTE, .p_offset = NOTE_AT, .p_filesz = pvh ? sizeof(note) : 0
	};
	memcpy((uint8_t *)v + NOTE_AT, &note, sizeof(note));
	memset((uint8_t *)v + 0x1000, 0x90, 0x1000);
}

static int load(
	const struct vmlinux *v, size_t len, struct boot_cpu *cpu, struct gmem *mem, struct err *e)
{
	static const struct boot_device devices[] = { { BOOT_DEVICES_AT, 5 },
		{ BOOT_DEVICES_AT + 0x1000, 6 } };
	int fd = file_with(v, len), initrd = file_with("initramfs", 9), r;
	struct boot_request q = { .kernel = fd,
		.initrd = initrd,
		.cmdline = "quiet",
		.devices = devices,
		.device_count = 2,
		.cpus = 2 };

	assert_int_equal(gmem_create(mem, MEM, GMEM_ANON, e), 0);
	r = boot_load(mem, &q, cpu, e);
	close(fd);
	close(initrd);
	return r;
}

static void good_kernels(void **state)
{
	struct vmlinux *v = malloc(sizeof(*v));
	uint32_t word;
	char text[128];

	(void)state;
	assert_non_null(v);
	for (int pvh = 0; pvh < 2; pvh++) {
		struct boot_cpu cpu;
		struct gmem mem;
		struct err e = { 0 };

		make_vmlinux(v, pvh);
		assert_int_equal(load(v, sizeof(*v), &cpu, &mem, &e), 0);
		assert_int_equal(cpu.way, pvh ? BOOT_PVH : BOOT_LINUX64);
		assert_int_equal(cpu.rip, CODE_AT + (pvh ? 0x40 : 0x80));
		assert_true(gmem_read(&mem, GPA(CODE_AT), &word, 4));
		assert_int_equal(word, 0x90909090);
		assert_true(gmem_read(&mem, GPA(BOOT_CMDLINE), text, sizeof(text)));
		assert_string_equal(text, "quiet virtio_mmio.device=4K@0xc0001000:5 "
					  "virtio_mmio.device=4K@0xc0002000:6");
		assert_true(gmem_read(&mem, GPA(MEM - 4096), text, 9));
		assert_memory_equal(text, "initramfs", 9);
		gmem_done(&mem);
	}
	free(v);
}

static void bad_kernels(void **state)
{
	enum {
		CUT,
		SHORT_FILE,
		BIG_OFFSET,
		WRAPS,
		FILE_OVER_MEM,
		LOW,
		BEYOND,
		ENTRY,
		MACHINE,
		MANY,
		NOTES,
		PVH_ENTRY,
		NO_LOAD,
		EMPTY,
		CASES
	};
	struct vmlinux *v = malloc(sizeof(*v));

	(void)state;
	assert_non_null(v);
	for (int i = 0; i < CASES; i++) {
		size_t len = sizeof(*v);
		struct boot_cpu cpu;
		struct gmem mem;
		struct err e = { 0 };

		make_vmlinux(v, true);
		if (i == CUT)
			len = 0x1800;
		else if (i == SHORT_FILE)
			len = 100;
		else if (i == BIG_OFFSET)
			v->p[0].p_offset = UINT64_MAX - 10;
		else if (i == WRAPS)
			v->p[0].p_memsz = UINT64_MAX - 0x1000;
		else if (i == FILE_OVER_MEM)
			v->p[0].p_memsz = 0x10;
		else if (i == LOW)
			v->p[0].p_paddr = 0x8000;
		else if (i == BEYOND)
			v->p[0].p_paddr = MEM - 0x1000;
		else if (i == ENTRY)
			v->h.e_entry = 0xffffffff81000000ull;
		else if (i == MACHINE)
			v->h.e_machine = EM_AARCH64;
		else if (i == MANY)
			v->h.e_phnum = 65535;
		else if (i == NOTES)
			v->p[1].p_filesz = UINT64_MAX;
		else if (i == PVH_ENTRY)
			memset((uint8_t *)v + NOTE_AT + 16, 0, 4);
		else if (i == NO_LOAD)
			v->p[0].p_type = PT_NULL;
		else if (i == EMPTY)
			memset(v, 0, sizeof(*v));
		if (load(v, len, &cpu, &mem, &e) == 0)
			fail_msg("case %d was taken", i);
		assert_true(e.msg[0] != '\0');
		gmem_done(&mem);
	}
	free(v);
}

/* Every table sums to zero, and points to the next. */
static void acpi_tables(void **state)
{
	static const struct boot_device devices[BOOT_DEVICES_MAX] = { { BOOT_DEVICES_AT, 5 } };
	struct boot_request q = { .devices = devices,
		.device_count = BOOT_DEVICES_MAX,
		.cpus = BOOT_CPUS_MAX,
		.acpi = true,
		.serial = true };
	uint8_t rsdp[36], table[16384];
	uint64_t xsdt, entry;
	struct gmem mem;
	struct err e;
	uint32_t len;

	(void)state;
	assert_int_equal(gmem_create(&mem, MEM, GMEM_ANON, &e), 0);
	assert_true(boot_acpi(&mem, &q));
	assert_true(gmem_read(&mem, GPA(BOOT_RSDP), rsdp, sizeof(rsdp)));
	assert_int_equal(boot_checksum(rsdp, 20), 0);
	assert_int_equal(boot_checksum(rsdp, 36), 0);
	memcpy(&xsdt, rsdp + 24, 8);
	for (unsigned i = 0; i < 4; i++) {
		static const char *const names[] = { "XSDT", "FACP", "APIC", "DSDT" };
		uint64_t at = xsdt;

		if (i == 1 || i == 2) {
			assert_true(gmem_read(&mem, GPA(xsdt + 36 + 8 * (i - 1)), &at, 8));
		} else if (i == 3) {
			assert_true(gmem_read(&mem, GPA(xsdt + 36), &entry, 8));
			assert_true(gmem_read(&mem, GPA(entry + 140), &at, 8));
		}
		assert_true(gmem_read(&mem, GPA(at), table, 36));
		memcpy(&len, table + 4, 4);
		assert_memory_equal(table, names[i], 4);
		assert_true(len <= sizeof(table));
		assert_true(gmem_read(&mem, GPA(at), table, len));
		assert_int_equal(boot_checksum(table, len), 0);
		/* For iasl, when somebody wants to look. */
		if (i == 3 && getenv("WARD_DSDT_FILE")) {
			FILE *f = fopen(getenv("WARD_DSDT_FILE"), "w");

			assert_non_null(f);
			fwrite(table, 1, len, f);
			fclose(f);
		}
	}
	q.cpus = BOOT_CPUS_MAX + 1;
	assert_false(boot_acpi(&mem, &q));
	gmem_done(&mem);
}

static void mp_table(void **state)
{
	uint8_t data[1024];
	uint16_t len;
	struct gmem mem;
	struct err e;

	(void)state;
	assert_int_equal(gmem_create(&mem, MEM, GMEM_ANON, &e), 0);
	assert_true(boot_mptable(&mem, BOOT_CPUS_MAX));
	assert_true(gmem_read(&mem, GPA(BOOT_MPTABLE), data, sizeof(data)));
	assert_memory_equal(data, "_MP_", 4);
	assert_int_equal(boot_checksum(data, 16), 0);
	assert_memory_equal(data + 16, "PCMP", 4);
	memcpy(&len, data + 20, 2);
	assert_true(len <= sizeof(data) - 16);
	assert_int_equal(boot_checksum(data + 16, len), 0);
	assert_false(boot_mptable(&mem, 0));
	assert_false(boot_mptable(&mem, BOOT_CPUS_MAX + 1));
	gmem_done(&mem);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_kernels),
		cmocka_unit_test(bad_kernels),
		cmocka_unit_test(acpi_tables),
		cmocka_unit_test(mp_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
