/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/vdso.c - the functions of the vdso, which is the same in every guest.
 *
 * Owns:  nothing.
 * Rules: the image is the host kernel's and mapped in this process: it is followed as it is.
 */
#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "tier/kernel/trap/vdso.h"

static const void *at(uint64_t base, uint64_t off)
{
	return (const void *)(uintptr_t)(base + off);
}

static const Elf64_Phdr *find_segment(uint64_t base, uint32_t type)
{
	const Elf64_Ehdr *h = at(base, 0);
	const Elf64_Phdr *p = at(base, h->e_phoff);

	for (unsigned i = 0; i < h->e_phnum; i++)
		if (p[i].p_type == type)
			return &p[i];
	return NULL;
}

uint64_t vdso_find(uint64_t base, const char *name)
{
	const Elf64_Phdr *load = base ? find_segment(base, PT_LOAD) : NULL;
	const Elf64_Phdr *dynamic = base ? find_segment(base, PT_DYNAMIC) : NULL;
	const Elf64_Sym *syms = NULL;
	const char *strings = NULL;
	uint64_t slide;

	if (!load || !dynamic)
		return 0;
	slide = base + load->p_offset - load->p_vaddr;
	for (const Elf64_Dyn *d = at(slide, dynamic->p_vaddr); d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			syms = at(slide, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			strings = at(slide, d->d_un.d_ptr);
	}
	/* How many there are is not said; the strings begin behind the last. */
	for (const Elf64_Sym *s = syms; s && (const char *)(s + 1) <= strings; s++)
		if (s->st_shndx != SHN_UNDEF && strcmp(strings + s->st_name, name) == 0)
			return slide + s->st_value;
	return 0;
}
