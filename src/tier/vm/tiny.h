/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_TINY_H
#define WARD_TIER_VM_TINY_H

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include <cmocka.h>

/* For tests: guests of a few instructions, which run on any KVM. */
enum { TINY_CODE_AT = 0x100000 };

/* An ELF file around 32-bit code, with a PVH entry; or without one, around 64-bit code. */
static inline int kernel_of_way(const uint8_t *code, size_t len, bool pvh)
{
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr p[2];
		Elf64_Nhdr n;
		char name[4];
		uint32_t entry;
		uint8_t code[512];
	} k;
	int fd = memfd_create("kernel", MFD_CLOEXEC);

	memset(&k, 0, sizeof(k));
	memcpy(k.h.e_ident, ELFMAG, SELFMAG);
	k.h.e_ident[EI_CLASS] = ELFCLASS64;
	k.h.e_ident[EI_DATA] = ELFDATA2LSB;
	k.h.e_machine = EM_X86_64;
	k.h.e_phoff = offsetof(__typeof__(k), p);
	k.h.e_phentsize = sizeof(k.p[0]);
	k.h.e_phnum = pvh ? 2 : 1;
	k.h.e_entry = TINY_CODE_AT;
	k.p[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
		.p_offset = offsetof(__typeof__(k), code),
		.p_paddr = TINY_CODE_AT,
		.p_filesz = sizeof(k.code),
		.p_memsz = sizeof(k.code) };
	k.p[1] = (Elf64_Phdr){
		.p_type = PT_NOTE, .p_offset = offsetof(__typeof__(k), n), .p_filesz = 20
	};
	k.n = (Elf64_Nhdr){ 4, 4, 18 };
	memcpy(k.name, "Xen", 4);
	k.entry = TINY_CODE_AT;
	assert_true(fd >= 0 && len <= sizeof(k.code));
	memcpy(k.code, code, len);
	assert_int_equal(write(fd, &k, sizeof(k)), (ssize_t)sizeof(k));
	return fd;
}

static inline int kernel_of(const uint8_t *code, size_t len)
{
	return kernel_of_way(code, len, true);
}

#endif
