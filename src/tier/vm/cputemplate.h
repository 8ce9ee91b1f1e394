/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_CPUTEMPLATE_H
#define WARD_TIER_VM_CPUTEMPLATE_H

struct kvm_cpuid_entry2;

/* Which of the features that KVM offers a guest is told of. */
enum cpu_template {
	CPU_HOST,     /* all: fastest, and a snapshot goes on only on a CPU that has them too */
	CPU_PORTABLE, /* what every server CPU of a maker has had for years */
	CPU_TEMPLATES
};

/* NULL: there is no such. */
const char *cpu_template_name(enum cpu_template t);
/* 0, or -ENOENT. */
int cpu_template_find(const char *name, enum cpu_template *ret);
/* Takes from @c what the template does not have. Adds nothing. */
void cpu_template_apply(enum cpu_template t, struct kvm_cpuid_entry2 *c);

#endif
