/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/cpuid.c - what a guest's CPU says it is.
 *
 * Owns:  nothing.
 * Rules: from what KVM offers, less what makes no sense for a guest of ours, plus what differs from
 *        CPU to CPU. Nothing is offered that KVM does not.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <linux/kvm.h>

#include "base/own.h"
#include "tier/vm/machine.h"

enum { ENTRIES_MAX = 256 };

/* clang-format off */
enum {
	L1_ECX_PDCM = 1u << 15, L1_ECX_TSC_DEADLINE = 1u << 24, L1_ECX_XSAVE = 1u << 26,
	L1_ECX_OSXSAVE = 1u << 27, L1_ECX_AVX = 1u << 28, L1_ECX_F16C = 1u << 29,
	L1_ECX_FMA = 1u << 12, L1_EDX_HTT = 1u << 28,
	L7_EBX_AVX2 = 1u << 5, L7_ECX_WAITPKG = 1u << 5,
	L7_EBX_AVX512 = 1u << 16 | 1u << 17 | 1u << 21 | 1u << 28 | 1u << 30 | 1u << 31,
	L6_EAX_TURBO = 1u << 1, L6_ECX_ENERGY = 1u << 3,
};
#define L1_ECX_HYPERVISOR (1u << 31)
/* clang-format on */

/* A rig's emulator may offer XSAVE and then get it wrong. */
static void hide_xsave(struct kvm_cpuid_entry2 *c)
{
	if (c->function == 1)
		c->ecx &= ~(uint32_t)(L1_ECX_XSAVE | L1_ECX_OSXSAVE | L1_ECX_AVX | L1_ECX_F16C |
				      L1_ECX_FMA);
	if (c->function == 7 && c->index == 0) {
		c->ebx &= ~(uint32_t)(L7_EBX_AVX2 | L7_EBX_AVX512);
		c->ecx &= ~(uint32_t)(1u << 1 | 1u << 6 | 1u << 8 | 1u << 9 | 1u << 10 | 1u << 11 |
				      1u << 12 | 1u << 14);
	}
	if (c->function == 0xd)
		c->eax = c->ebx = c->ecx = c->edx = 0;
}

static void tame(struct kvm_cpuid_entry2 *c)
{
	switch (c->function) {
	case 1:
		c->ecx |= L1_ECX_HYPERVISOR | L1_ECX_TSC_DEADLINE;
		c->ecx &= ~(uint32_t)L1_ECX_PDCM;
		break;
	case 6:
		c->eax &= ~(uint32_t)L6_EAX_TURBO;
		c->ecx &= ~(uint32_t)L6_ECX_ENERGY;
		break;
	case 7:
		if (c->index == 0)
			c->ecx &= ~(uint32_t)L7_ECX_WAITPKG;
		break;
	case 0xa: /* no performance counters */
		c->eax = c->ebx = c->ecx = c->edx = 0;
		break;
	default:
		break;
	}
}

int cpuid_read(
	int kvm, enum cpu_template template, bool plain_fpu, struct kvm_cpuid2 **ret, struct err *e)
{
	own_mem struct kvm_cpuid2 *c = calloc(1, sizeof(*c) + ENTRIES_MAX * sizeof(c->entries[0]));

	if (!c)
		return err_set(e, ENOMEM, "a table of CPU features");
	c->nent = ENTRIES_MAX;
	if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, c) < 0)
		return err_set(e, errno, "asking KVM for CPU features");
	for (unsigned i = 0; i < c->nent; i++) {
		tame(&c->entries[i]);
		cpu_template_apply(template, &c->entries[i]);
		if (plain_fpu)
			hide_xsave(&c->entries[i]);
	}
	*ret = take_ptr(&c);
	return 0;
}

/* How many bits number @count things. */
static unsigned bits_for(unsigned count)
{
	unsigned n = 0;

	while (1u << n < count)
		n++;
	return n;
}

/* Every CPU is a core of one package, without siblings. */
static void per_cpu(struct kvm_cpuid_entry2 *c, unsigned index, unsigned count)
{
	switch (c->function) {
	case 1:
		c->ebx = (c->ebx & 0x0000ffff) | index << 24 | count << 16;
		if (count > 1)
			c->edx |= L1_EDX_HTT;
		else
			c->edx &= ~(uint32_t)L1_EDX_HTT;
		break;
	case 4: /* caches: the outer ones are everybody's */
		c->eax &= 0x00003fff;
		if (c->eax & 0x1f)
			c->eax |= (count - 1) << 26 |
				  ((c->eax >> 5 & 7) >= 3 ? (count - 1) << 14 : 0);
		break;
	case 0xb:
	case 0x1f:
		c->eax = c->index == 0 ? 0 : bits_for(count);
		c->ebx = c->index == 0 ? 1 : c->index == 1 ? count : 0;
		c->ecx = c->index | (c->index < 2 ? (c->index + 1) << 8 : 0);
		c->edx = index;
		break;
	case 0x80000008:
		c->ecx = (c->ecx & ~0xf0ffu) | (count - 1) | bits_for(count) << 12;
		break;
	case 0x8000001d:
		c->eax &= 0x00003fff;
		if ((c->eax >> 5 & 7) >= 3)
			c->eax |= (count - 1) << 14;
		break;
	case 0x8000001e:
		c->eax = index;
		c->ebx = index & 0xff;
		c->ecx = 0;
		break;
	default:
		break;
	}
}

int cpuid_set(
	int vcpu, const struct kvm_cpuid2 *offered, unsigned index, unsigned count, struct err *e)
{
	size_t bytes = sizeof(*offered) + offered->nent * sizeof(offered->entries[0]);
	own_mem struct kvm_cpuid2 *c = malloc(bytes);

	if (!c)
		return err_set(e, ENOMEM, "a table of CPU features");
	memcpy(c, offered, bytes);
	for (unsigned i = 0; i < c->nent; i++)
		per_cpu(&c->entries[i], index, count);
	if (ioctl(vcpu, KVM_SET_CPUID2, c) < 0)
		return err_set(e, errno, "telling CPU %u what it is", index);
	return 0;
}
