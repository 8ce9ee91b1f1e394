/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/vcpu.c - one CPU of a guest, and the thread that runs it.
 *
 * Owns:  the vCPU's descriptor, its shared page and its thread.
 * Rules: an exit to a port or to memory is finished by the next run only, so a CPU that is to stand
 *        still runs once more with immediate_exit set before anyone reads its registers. To get it
 *        out of the guest takes two things: the flag, for before the run, and a signal, for during.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <linux/kvm.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/vm/machine.h"

/* clang-format off */
enum {
	CR0_PE = 1u << 0, CR0_ET = 1u << 4, CR4_PAE = 1u << 5,
	EFER_LME = 1u << 8, EFER_LMA = 1u << 10,
	LAPIC_LVT0 = 0x350, LAPIC_LVT1 = 0x360, MODE_NMI = 4u << 8, MODE_EXTINT = 7u << 8,
	STACK_BYTES = 64 * 1024,
};
#define CR0_PG (1ull << 31)
/* clang-format on */

static int fail(struct err *e, const struct vcpu *v, const char *what)
{
	return err_set(e, errno, "%s of CPU %u", what, v->index);
}

int vcpu_create(struct machine *m, unsigned index, struct err *e)
{
	struct vcpu *v = &m->vcpus[index];
	void *run;

	v->machine = m;
	v->index = index;
	v->fd = ioctl(m->vm, KVM_CREATE_VCPU, (unsigned long)index);
	if (v->fd < 0)
		return fail(e, v, "making");
	run = mmap(NULL, m->run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	if (run == MAP_FAILED)
		return fail(e, v, "mapping the state");
	v->run = run;
	return 0;
}

static int set_msrs(const struct vcpu *v, struct err *e)
{
	static const struct kvm_msr_entry start[] = {
		{ .index = 0x174 }, { .index = 0x175 }, { .index = 0x176 }, /* SYSENTER */
		{ .index = 0xc0000081 }, { .index = 0xc0000082 },           /* STAR, LSTAR */
		{ .index = 0xc0000083 }, { .index = 0xc0000084 },           /* CSTAR, FMASK */
		{ .index = 0xc0000102 },                                    /* KERNEL_GS_BASE */
		{ .index = 0x10 },                                          /* TSC */
		{ .index = 0x1a0, .data = 1 },                              /* fast strings */
		{ .index = 0x2ff, .data = 0x806 },                          /* write-back */
	};
	union {
		struct kvm_msrs head;
		uint8_t room[sizeof(struct kvm_msrs) + sizeof(start)];
	} msrs = { .room = { 0 } };
	int n;

	msrs.head.nmsrs = ARRAY_LEN(start);
	memcpy(msrs.head.entries, start, sizeof(start));
	n = ioctl(v->fd, KVM_SET_MSRS, &msrs);
	if (n < 0)
		return fail(e, v, "setting the MSRs");
	if (n != (int)ARRAY_LEN(start)) /* it stops at the first that it does not like */
		return err_say(
			e, EINVAL, "KVM refuses MSR %#x of CPU %u", start[n].index, v->index);
	return 0;
}

static struct kvm_segment segment(uint64_t gdt_entry, unsigned index)
{
	struct kvm_segment s = {
		.limit = (uint32_t)((gdt_entry & 0xffff) | (gdt_entry >> 32 & 0xf0000)),
		.selector = (uint16_t)(index * 8),
		.type = gdt_entry >> 40 & 0xf,
		.present = gdt_entry >> 47 & 1,
		.dpl = gdt_entry >> 45 & 3,
		.db = gdt_entry >> 54 & 1,
		.s = gdt_entry >> 44 & 1,
		.l = gdt_entry >> 53 & 1,
		.g = gdt_entry >> 55 & 1,
	};

	if (s.g) /* KVM wants bytes */
		s.limit = s.limit << 12 | 0xfff;
	return s;
}

static int set_system(const struct vcpu *v, const struct boot_cpu *cpu, struct err *e)
{
	struct kvm_sregs s;
	uint64_t gdt[4];

	if (ioctl(v->fd, KVM_GET_SREGS, &s) < 0)
		return fail(e, v, "reading the registers");
	gmem_read(&v->machine->mem, GPA(BOOT_GDT), gdt, sizeof(gdt));
	s.cs = segment(gdt[1], 1);
	s.ds = s.es = s.fs = s.gs = s.ss = segment(gdt[2], 2);
	s.tr = segment(gdt[3], 3);
	s.gdt = (struct kvm_dtable){ .base = BOOT_GDT, .limit = sizeof(gdt) - 1 };
	s.idt = (struct kvm_dtable){ .base = BOOT_IDT, .limit = 7 };
	if (cpu->way == BOOT_PVH) {
		s.tr.limit = 0x67;
		s.cr0 = CR0_PE | CR0_ET;
		s.cr4 = 0;
		s.efer = 0;
	} else {
		s.cr0 |= CR0_PE | CR0_PG;
		s.cr3 = BOOT_PML4;
		s.cr4 |= CR4_PAE;
		s.efer |= EFER_LME | EFER_LMA;
	}
	if (ioctl(v->fd, KVM_SET_SREGS, &s) < 0)
		return fail(e, v, "setting the system registers");
	return 0;
}

/* The legacy interrupt controller and the NMI come in through the local APIC. */
static int set_lapic(const struct vcpu *v, struct err *e)
{
	struct kvm_lapic_state a;
	uint32_t lvt;

	if (ioctl(v->fd, KVM_GET_LAPIC, &a) < 0)
		return fail(e, v, "reading the local APIC");
	memcpy(&lvt, a.regs + LAPIC_LVT0, sizeof(lvt));
	lvt = (lvt & ~0x700u) | MODE_EXTINT;
	memcpy(a.regs + LAPIC_LVT0, &lvt, sizeof(lvt));
	memcpy(&lvt, a.regs + LAPIC_LVT1, sizeof(lvt));
	lvt = (lvt & ~0x700u) | MODE_NMI;
	memcpy(a.regs + LAPIC_LVT1, &lvt, sizeof(lvt));
	if (ioctl(v->fd, KVM_SET_LAPIC, &a) < 0)
		return fail(e, v, "setting the local APIC");
	return 0;
}

int vcpu_set_boot(struct vcpu *v, const struct boot_cpu *cpu, struct err *e)
{
	struct kvm_regs regs = { .rip = cpu->rip,
		.rsi = cpu->rsi,
		.rbx = cpu->rbx,
		.rsp = cpu->rsp,
		.rbp = cpu->rsp,
		.rflags = 2 };
	struct kvm_fpu fpu = { .fcw = 0x37f, .mxcsr = 0x1f80 };
	int r = set_msrs(v, e);

	/* The others wait inside KVM until the first wakes them. */
	if (r == 0 && v->index == 0 && ioctl(v->fd, KVM_SET_REGS, &regs) < 0)
		r = fail(e, v, "setting the registers");
	if (r == 0 && ioctl(v->fd, KVM_SET_FPU, &fpu) < 0)
		r = fail(e, v, "setting the FPU");
	if (r == 0 && v->index == 0)
		r = set_system(v, cpu, e);
	return r == 0 ? set_lapic(v, e) : r;
}

/* --- Running ---------------------------------------------------------------------------------- */

/* Under the lock. The first reason stays. */
static void end_machine(struct machine *m, enum machine_end end, const char *why, unsigned detail)
{
	if (m->end != MACHINE_RUNS)
		return;
	m->end = end;
	str_fmt(m->why, sizeof(m->why), "%s (%u)", why, detail);
	m->go = false;
	machine_stop(m);
}

/* Under the lock. KVM on AMD keeps no register of a CPU that shut down: what it asked for last is
 * all there is to tell. */
static void crash(struct vcpu *v, const char *how, unsigned detail)
{
	const struct vcpu_asked *a = &v->asked;
	char why[128];

	if (a->kind == ASKED_NOTHING)
		str_fmt(why, sizeof(why), "%s before it asked for anything", how);
	else
		str_fmt(why, sizeof(why), "%s after it %s %s %#llx", how,
			a->write ? "wrote to" : "read from",
			a->kind == ASKED_PORT ? "port" : "address", (unsigned long long)a->at);
	end_machine(v->machine, MACHINE_CRASHED, why, detail);
}

static void do_port(struct vcpu *v)
{
	struct machine *m = v->machine;
	const struct kvm_run *run = v->run;
	bool out = run->io.direction == KVM_EXIT_IO_OUT;
	uint8_t *data = (uint8_t *)v->run + run->io.data_offset;

	*(out ? &m->exits.port_out : &m->exits.port_in) += 1;
	v->asked = (struct vcpu_asked){ ASKED_PORT, out, run->io.port };
	for (uint32_t i = 0; i < run->io.count; i++, data += run->io.size)
		if (!bus_port(m, out, run->io.port, data, run->io.size))
			end_machine(m, MACHINE_OFF, "the guest switched itself off", 0);
}

/* CPUs count beside each other: not all of it is under the lock. */
static void count_mmio(struct vcpu *v)
{
	struct machine_exits *x = &v->machine->exits;
	bool write = v->run->mmio.is_write;

	__atomic_fetch_add(write ? &x->mmio_write : &x->mmio_read, 1, __ATOMIC_RELAXED);
	v->asked = (struct vcpu_asked){ ASKED_MEMORY, write, v->run->mmio.phys_addr };
}

static void do_mmio(struct vcpu *v)
{
	struct machine *m = v->machine;
	struct kvm_run *run = v->run;

	count_mmio(v);
	bus_mmio(m, run->mmio.is_write, run->mmio.phys_addr, run->mmio.data, run->mmio.len);
}

/* Under the lock. */
static void do_exit(struct vcpu *v)
{
	struct machine *m = v->machine;

	v->half_done = false;
	switch (v->run->exit_reason) {
	case KVM_EXIT_IO:
		v->half_done = true;
		do_port(v);
		break;
	case KVM_EXIT_MMIO:
		v->half_done = true;
		do_mmio(v);
		break;
	case KVM_EXIT_INTR:
		m->exits.interrupted++;
		break;
	case KVM_EXIT_SHUTDOWN: /* a triple fault: how a guest reboots, or breaks */
		crash(v, "the guest's CPU shut down", v->index);
		break;
	default:
		m->exits.other++;
		crash(v, "the guest left in a way that makes no sense", v->run->exit_reason);
		break;
	}
}

/* Into the guest and out again. The lock is not held. */
static int enter(struct vcpu *v)
{
	int r = ioctl(v->fd, KVM_RUN, 0);

	return r < 0 ? -errno : 0;
}

/* Without the lock: is this an exit that needs none, and is answered now? Who waits for the device
 * thread at every interrupt works at its pace. */
static bool do_quick(struct vcpu *v)
{
	struct machine *m = v->machine;
	struct kvm_run *run = v->run;

	if (run->exit_reason != KVM_EXIT_MMIO ||
		!bus_quick(
			m, run->mmio.is_write, run->mmio.phys_addr, run->mmio.data, run->mmio.len))
		return false;
	count_mmio(v);
	v->half_done = true;
	return true;
}

/* Under the lock: no exit is left half done. One instruction can make several: an access that is
 * cut in two, a string to a port. */
static void settle(struct vcpu *v)
{
	while (v->half_done && v->machine->end == MACHINE_RUNS) {
		__atomic_store_n(&v->run->immediate_exit, 1, __ATOMIC_SEQ_CST);
		v->half_done = false;
		if (enter(v) == 0)
			do_exit(v);
	}
}

/* Under the lock. Waits for leave to run; false: the machine is over. */
static bool wait_to_run(struct vcpu *v)
{
	struct machine *m = v->machine;

	while (!m->go && m->end == MACHINE_RUNS) {
		if (v->state != VCPU_PAUSED) {
			settle(v);
			v->state = VCPU_PAUSED;
			pthread_cond_broadcast(&m->changed);
		}
		pthread_cond_wait(&m->changed, &m->lock);
	}
	if (m->end != MACHINE_RUNS)
		return false;
	v->state = VCPU_RUNNING;
	__atomic_store_n(&v->run->immediate_exit, 0, __ATOMIC_SEQ_CST);
	return true;
}

static void *vcpu_main(void *arg)
{
	struct vcpu *v = arg;
	struct machine *m = v->machine;

	struct err e = { 0 };
	int failed = m->guard ? m->guard(m->arg, &e) : 0;

	pthread_mutex_lock(&m->lock);
	if (failed < 0)
		end_machine(m, MACHINE_FAILED, e.msg, v->index);
	v->guarded = true;
	pthread_cond_broadcast(&m->changed);
	while (wait_to_run(v)) {
		int r;

		pthread_mutex_unlock(&m->lock);
		/* A kick is seen by the run: it comes back at once then. */
		do
			r = enter(v);
		while (r == 0 && do_quick(v));
		pthread_mutex_lock(&m->lock);
		if (r == 0)
			do_exit(v);
		else if (r == -EINTR)
			m->exits.interrupted++;
		else if (r != -EAGAIN)
			end_machine(m, MACHINE_FAILED, "running the guest", (unsigned)-r);
	}
	v->state = VCPU_ENDED;
	pthread_cond_broadcast(&m->changed);
	pthread_mutex_unlock(&m->lock);
	return NULL;
}

static void on_kick(int sig)
{
	(void)sig; /* that KVM_RUN returns is all */
}

int vcpu_start(struct vcpu *v, struct err *e)
{
	struct sigaction sa = { .sa_handler = on_kick };
	pthread_attr_t attr;
	int r;

	sigemptyset(&sa.sa_mask);
	if (sigaction(MACHINE_KICK, &sa, NULL) < 0)
		return fail(e, v, "a signal");
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	r = pthread_create(&v->thread, &attr, vcpu_main, v);
	pthread_attr_destroy(&attr);
	if (r != 0)
		return err_set(e, r, "a thread for CPU %u", v->index);
	v->has_thread = true;
	return 0;
}

void vcpu_kick(struct vcpu *v)
{
	if (!v->has_thread)
		return;
	__atomic_store_n(&v->run->immediate_exit, 1, __ATOMIC_SEQ_CST);
	pthread_kill(v->thread, MACHINE_KICK);
}

void vcpu_done(struct vcpu *v)
{
	if (v->has_thread)
		pthread_join(v->thread, NULL);
	if (v->run)
		munmap(v->run, v->machine->run_bytes);
	if (v->fd >= 0)
		close(v->fd);
	*v = (struct vcpu){ .fd = -1 };
}
