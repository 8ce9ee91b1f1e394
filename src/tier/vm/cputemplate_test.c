/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/cputemplate_test.c - what is left of CPUs that have everything, and of ones that have
 * little.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/kvm.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/vm/cputemplate.h"

static struct kvm_cpuid_entry2 masked(enum cpu_template t, uint32_t function, uint32_t index)
{
	struct kvm_cpuid_entry2 c = {
		.function = function, .index = index, .eax = ~0u, .ebx = ~0u, .ecx = ~0u, .edx = ~0u
	};

	cpu_template_apply(t, &c);
	return c;
}

static void names(void **state)
{
	enum cpu_template t = CPU_TEMPLATES;

	(void)state;
	for (int i = 0; i < CPU_TEMPLATES; i++) {
		assert_int_equal(cpu_template_find(cpu_template_name((enum cpu_template)i), &t), 0);
		assert_int_equal(t, i);
	}
	assert_int_equal(cpu_template_find("pentium", &t), -ENOENT);
	assert_null(cpu_template_name(CPU_TEMPLATES));
}

static void host_is_untouched(void **state)
{
	static const uint32_t functions[] = { 1, 7, 0xd, 0x14, 0x80000001, 0x80000008 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(functions); i++) {
		struct kvm_cpuid_entry2 c = masked(CPU_HOST, functions[i], 0);

		assert_int_equal(c.eax & c.ebx & c.ecx & c.edx, ~0u);
	}
}

enum reg { EAX, EBX, ECX, EDX };

static uint32_t reg_of(const struct kvm_cpuid_entry2 *c, enum reg r)
{
	return r == EAX ? c->eax : r == EBX ? c->ebx : r == ECX ? c->ecx : c->edx;
}

static void portable(void **state)
{
	static const struct {
		const char *name;
		uint32_t function, index;
		enum reg reg;
		unsigned bit;
		bool stays;
	} cases[] = {
		{ "SSE2", 1, 0, EDX, 26, true },
		{ "SSE4.2", 1, 0, ECX, 20, true },
		{ "AES", 1, 0, ECX, 25, true },
		{ "AVX", 1, 0, ECX, 28, true },
		{ "TSC deadline", 1, 0, ECX, 24, true },
		{ "hypervisor", 1, 0, ECX, 31, true },
		{ "MONITOR", 1, 0, ECX, 3, false },
		{ "VMX", 1, 0, ECX, 5, false },
		{ "debug store", 1, 0, EDX, 21, false },
		{ "AVX2", 7, 0, EBX, 5, true },
		{ "SMEP", 7, 0, EBX, 7, true },
		{ "SMAP", 7, 0, EBX, 20, true },
		{ "HLE", 7, 0, EBX, 4, false },
		{ "RTM", 7, 0, EBX, 11, false },
		{ "MPX", 7, 0, EBX, 14, false },
		{ "AVX512F", 7, 0, EBX, 16, false },
		{ "SHA", 7, 0, EBX, 29, false },
		{ "AVX512VL", 7, 0, EBX, 31, false },
		{ "PKU", 7, 0, ECX, 3, false },
		{ "VAES", 7, 0, ECX, 9, false },
		{ "LA57", 7, 0, ECX, 16, false },
		{ "AMX", 7, 0, EDX, 24, false },
		{ "MD_CLEAR", 7, 0, EDX, 10, true },
		{ "IBRS", 7, 0, EDX, 26, true },
		{ "SSBD", 7, 0, EDX, 31, true },
		{ "AVX-VNNI", 7, 1, EAX, 4, false },
		{ "state of AVX", 0xd, 0, EAX, 2, true },
		{ "state of AVX-512", 0xd, 0, EAX, 5, false },
		{ "state of PKRU", 0xd, 0, EAX, 9, false },
		{ "state of AMX", 0xd, 0, EAX, 18, false },
		{ "XSAVEOPT", 0xd, 1, EAX, 0, true },
		{ "XSAVES", 0xd, 1, EAX, 3, false },
		{ "place of AVX", 0xd, 2, EAX, 8, true },
		{ "place of AVX-512", 0xd, 5, EAX, 8, false },
		{ "trace", 0x14, 0, EBX, 0, false },
		{ "SYSCALL", 0x80000001, 0, EDX, 11, true },
		{ "NX", 0x80000001, 0, EDX, 20, true },
		{ "long mode", 0x80000001, 0, EDX, 29, true },
		{ "LZCNT", 0x80000001, 0, ECX, 5, true },
		{ "SVM", 0x80000001, 0, ECX, 2, false },
		{ "XOP", 0x80000001, 0, ECX, 11, false },
		{ "invariant TSC", 0x80000007, 0, EDX, 8, true },
		{ "CLZERO", 0x80000008, 0, EBX, 0, false },
		{ "IBPB", 0x80000008, 0, EBX, 12, true },
		{ "SEV", 0x8000001f, 0, EAX, 1, false },
		{ "KVM's own", 0x40000001, 0, EAX, 3, true },
		{ "its name", 0x80000002, 0, EAX, 3, true },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct kvm_cpuid_entry2 c = masked(CPU_PORTABLE, cases[i].function, cases[i].index);

		if ((reg_of(&c, cases[i].reg) >> cases[i].bit & 1) != cases[i].stays)
			fail_msg("%s", cases[i].name);
	}
	/* A size, not bits. */
	assert_int_equal(masked(CPU_PORTABLE, 0xd, 0).ecx, 832);
}

/* A poor CPU does not become richer; twice is as once. */
static void adds_nothing(void **state)
{
	(void)state;
	for (uint32_t f = 0; f < 0x30; f++)
		for (uint32_t i = 0; i < 4; i++) {
			struct kvm_cpuid_entry2 once = masked(CPU_PORTABLE, f, i), twice = once;
			struct kvm_cpuid_entry2 none = { .function = f, .index = i };

			cpu_template_apply(CPU_PORTABLE, &none);
			assert_int_equal(none.eax | none.ebx | none.ecx | none.edx, 0);
			cpu_template_apply(CPU_PORTABLE, &twice);
			assert_memory_equal(&once, &twice, sizeof(once));
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names),
		cmocka_unit_test(host_is_untouched),
		cmocka_unit_test(portable),
		cmocka_unit_test(adds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
