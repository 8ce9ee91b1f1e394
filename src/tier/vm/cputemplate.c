/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/cputemplate.c - named sets of CPU features.
 *
 * Owns:  the masks.
 * Rules: a mask names what may stay, so a feature that nobody has thought of is gone. What a guest
 *        needs to protect itself from the CPU's own faults stays in every template, because a guest
 *        that does not see it does without.
 *
 * CPU_PORTABLE is what Intel's Broadwell and AMD's first Zen, and all that came after them, have in
 * common: x86-64-v3 with AES and RDSEED. It does not make an Intel out of an AMD; the number of
 * address bits, the family and the model stay the host's.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/kvm.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/vm/cputemplate.h"

#define B(n) (1u << (n))

enum { ANY = -1 };

/* clang-format off */
static const struct mask {
	uint32_t function;
	int index;                   /* ANY: every sub-leaf that has no line of its own above */
	uint32_t eax, ebx, ecx, edx; /* bits that may stay */
} portable[] = {
	{ 0x1, ANY, ~0u, ~0u,
	  /* SSE3 PCLMUL SSSE3 FMA CX16 PCID SSE4.1 SSE4.2 x2APIC MOVBE POPCNT TSC-deadline AES
	   * XSAVE OSXSAVE AVX F16C RDRAND hypervisor */
	  B(0) | B(1) | B(9) | B(12) | B(13) | B(17) | B(19) | B(20) | B(21) | B(22) | B(23) | B(24) | B(25) |
		  B(26) | B(27) | B(28) | B(29) | B(30) | B(31),
	  /* all of the old ones, without debug store, thermal control and self-snoop */
	  ~(B(21) | B(22) | B(27) | B(29) | B(30) | B(31)) },
	/* FSGSBASE BMI1 AVX2 SMEP BMI2 RDSEED ADX SMAP; MD_CLEAR, IBRS, STIBP, ARCH_CAPABILITIES, SSBD */
	{ 0x7, 0, 0, B(0) | B(3) | B(5) | B(7) | B(8) | B(18) | B(19) | B(20), 0,
	  B(10) | B(26) | B(27) | B(28) | B(29) | B(31) },
	{ 0x7, ANY, 0, 0, 0, 0 },
	/* x87, SSE and AVX; XSAVEOPT; the place of AVX */
	{ 0xd, 0, B(0) | B(1) | B(2), ~0u, ~0u, 0 },
	{ 0xd, 1, B(0), 0, 0, 0 },
	{ 0xd, 2, ~0u, ~0u, ~0u, ~0u },
	{ 0xd, ANY, 0, 0, 0, 0 },
	/* SGX, processor trace, AMX, AVX10 */
	{ 0x12, ANY, 0, 0, 0, 0 }, { 0x14, ANY, 0, 0, 0, 0 }, { 0x1d, ANY, 0, 0, 0, 0 },
	{ 0x1e, ANY, 0, 0, 0, 0 }, { 0x24, ANY, 0, 0, 0, 0 },
	/* LAHF CMP_LEGACY LZCNT PREFETCHW TOPOEXT; SYSCALL NX 1-GiB-pages RDTSCP LM, and leaf 1's again */
	{ 0x80000001, ANY, ~0u, ~0u, B(0) | B(1) | B(5) | B(8) | B(22),
	  0x3ffu | B(11) | 0x3f000u | B(20) | B(23) | B(24) | B(26) | B(27) | B(29) },
	{ 0x80000007, ANY, 0, 0, 0, B(8) }, /* the clock does not change its pace */
	/* IBPB, IBRS, STIBP, SSBD and its kinds */
	{ 0x80000008, ANY, ~0u, B(12) | B(14) | B(15) | B(24) | B(25) | B(26), ~0u, 0 },
	/* nested virtualization, encrypted memory, and what came later */
	{ 0x8000000a, ANY, 0, 0, 0, 0 }, { 0x8000001f, ANY, 0, 0, 0, 0 }, { 0x80000021, ANY, 0, 0, 0, 0 },
	{ 0x80000022, ANY, 0, 0, 0, 0 },
};
/* clang-format on */

enum { XSAVE_AVX_BYTES = 576 + 256 };

const char *cpu_template_name(enum cpu_template t)
{
	static const char *const names[CPU_TEMPLATES] = { "host", "portable" };

	return t < CPU_TEMPLATES ? names[t] : NULL;
}

int cpu_template_find(const char *name, enum cpu_template *ret)
{
	for (int i = 0; i < CPU_TEMPLATES; i++)
		if (str_eq(name, cpu_template_name((enum cpu_template)i))) {
			*ret = (enum cpu_template)i;
			return 0;
		}
	return -ENOENT;
}

static uint32_t at_most(uint32_t v, uint32_t most)
{
	return v < most ? v : most;
}

void cpu_template_apply(enum cpu_template t, struct kvm_cpuid_entry2 *c)
{
	for (size_t i = 0; t == CPU_PORTABLE && i < ARRAY_LEN(portable); i++) {
		const struct mask *m = &portable[i];

		if (m->function != c->function ||
			(m->index != ANY && (uint32_t)m->index != c->index))
			continue;
		c->eax &= m->eax;
		c->ebx &= m->ebx;
		c->ecx &= m->ecx;
		c->edx &= m->edx;
		break;
	}
	/* Sizes are no bits: as much as the parts that are left need. */
	if (t == CPU_PORTABLE && c->function == 0xd && c->index == 0) {
		c->ebx = at_most(c->ebx, XSAVE_AVX_BYTES);
		c->ecx = at_most(c->ecx, XSAVE_AVX_BYTES);
	}
}
