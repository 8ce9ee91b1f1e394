/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/vstate.c - what KVM keeps of a machine, read out and set again.
 *
 * Owns:  nothing.
 * Rules: the order is not a matter of taste. Reading: the run state first, since asking for it may
 *        change the local APIC; events last. Setting: what a CPU is before all else; system
 *        registers before the APIC and the extended ones; registers before events, which setting
 *        them drops; MSRs after the APIC, the TSC before its deadline. Interrupts that a load
 *        raises come after the controllers, which would lose them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/random.h>

#include "base/ckd.h"
#include "base/own.h"
#include "tier/vm/machine.h"
#include "tier/vm/walks.h"

enum { MSR_TSC = 0x10, MSR_DEADLINE = 0x6e0, LAPIC_TIMER = 0x320, TSC_PPM = 250 };

/* A CPU's state in MSRs, as far as a guest of ours can have any: first and last. */
static const struct {
	uint32_t first, last;
} kept_msrs[] = {
	{ MSR_TSC, 0x12 }, /* and the old numbers of the paravirtual clock */
	{ 0x3b, 0x3b },    /* TSC_ADJUST */
	{ 0x48, 0x48 },    /* SPEC_CTRL */
	{ 0x122, 0x122 },  /* TSX_CTRL */
	{ 0x140, 0x140 },  /* MISC_FEATURES_ENABLES */
	{ 0x174, 0x176 },  /* SYSENTER */
	{ 0x1a0, 0x1a0 },  /* MISC_ENABLE */
	{ 0x1c4, 0x1c5 },  /* XFD */
	{ 0x200, 0x2ff },  /* MTRR, PAT */
	{ MSR_DEADLINE, MSR_DEADLINE }, { 0xda0, 0xda0 }, /* XSS */
	{ 0x4b564d00, 0x4b564dff }, /* paravirtual: clock, steal time, end of interrupt */
	{ 0xc0000080, 0xc0000084 }, /* EFER, STAR... */
	{ 0xc0000100, 0xc0000103 }, /* bases, TSC_AUX */
	{ 0xc001011f, 0xc001011f }, /* VIRT_SPEC_CTRL */
};

static bool is_kept(uint32_t msr)
{
	for (size_t i = 0; i < ARRAY_LEN(kept_msrs); i++)
		if (msr >= kept_msrs[i].first && msr <= kept_msrs[i].last)
			return true;
	return false;
}

int machine_traits_read(struct machine *m, struct err *e)
{
	enum { MOST = 1024 };
	own_mem struct kvm_msr_list *list = calloc(1, sizeof(*list) + MOST * sizeof(uint32_t));
	struct machine_traits *t = &m->traits;
	int n;

	if (!list)
		return err_set(e, ENOMEM, "a list of MSRs");
	list->nmsrs = MOST;
	if (ioctl(m->kvm, KVM_GET_MSR_INDEX_LIST, list) < 0)
		return err_set(e, errno, "asking KVM for its MSRs");
	for (uint32_t i = 0; i < list->nmsrs && t->msr_count < MACHINE_MSRS_MAX; i++)
		if (is_kept(list->indices[i]))
			t->msrs[t->msr_count++] = list->indices[i];
	n = ioctl(m->vm, KVM_CHECK_EXTENSION, (long)KVM_CAP_XSAVE2);
	if (n <= (int)sizeof(struct kvm_xsave))
		n = ioctl(m->kvm, KVM_CHECK_EXTENSION, (long)KVM_CAP_XSAVE) > 0
			    ? (int)sizeof(struct kvm_xsave)
			    : 0;
	t->xsave_bytes = (unsigned)n;
	t->xcrs = ioctl(m->kvm, KVM_CHECK_EXTENSION, (long)KVM_CAP_XCRS) > 0;
	t->debugregs = ioctl(m->kvm, KVM_CHECK_EXTENSION, (long)KVM_CAP_DEBUGREGS) > 0;
	return 0;
}

static int fail(struct err *e, const struct vcpu *v, const char *what)
{
	return err_set(e, errno, "%s of CPU %u", what, v->index);
}

/* --- Reading ---------------------------------------------------------------------------------- */

/* One that cannot be read is none that this guest has. */
static int get_msrs(const struct vcpu *v, struct saved_cpu *c, struct err *e)
{
	const struct machine_traits *t = &v->machine->traits;
	union {
		struct kvm_msrs head;
		uint8_t room[sizeof(struct kvm_msrs) + sizeof(c->msrs)];
	} *q = calloc(1, sizeof(*q));
	unsigned at = 0;
	int r = 0;

	if (!q)
		return err_set(e, ENOMEM, "the MSRs of CPU %u", v->index);
	c->msr_count = 0;
	while (r == 0 && at < t->msr_count) {
		unsigned count = t->msr_count - at;
		int n;

		q->head.nmsrs = count;
		for (unsigned i = 0; i < count; i++)
			q->head.entries[i] = (struct kvm_msr_entry){ .index = t->msrs[at + i] };
		n = ioctl(v->fd, KVM_GET_MSRS, q);
		if (n < 0 || (unsigned)n > count) {
			r = fail(e, v, "reading the MSRs");
			break;
		}
		memcpy(c->msrs + c->msr_count, q->head.entries, (size_t)n * sizeof(c->msrs[0]));
		c->msr_count += (unsigned)n;
		at += (unsigned)n < count ? (unsigned)n + 1 : count;
	}
	free(q);
	return r;
}

static int get_cpuid(const struct vcpu *v, struct saved_cpu *c, struct err *e)
{
	own_mem struct kvm_cpuid2 *q = calloc(1, sizeof(*q) + sizeof(c->cpuid));

	if (!q)
		return err_set(e, ENOMEM, "the features of CPU %u", v->index);
	q->nent = SAVED_CPUID_MAX;
	if (ioctl(v->fd, KVM_GET_CPUID2, q) < 0 || q->nent > SAVED_CPUID_MAX)
		return fail(e, v, "reading the features");
	c->cpuid_count = q->nent;
	memcpy(c->cpuid, q->entries, q->nent * sizeof(c->cpuid[0]));
	return 0;
}

static int get_xsave(const struct vcpu *v, struct saved_cpu *c, struct err *e)
{
	unsigned bytes = v->machine->traits.xsave_bytes;
	struct kvm_fpu fpu;

	if (bytes > SAVED_XSAVE_MAX)
		return err_say(e, EOPNOTSUPP, "CPU %u has %u bytes of extended state: at most %d",
			v->index, bytes, SAVED_XSAVE_MAX);
	c->xsave_bytes = bytes ? bytes : (unsigned)sizeof(fpu);
	if (!bytes) {
		if (ioctl(v->fd, KVM_GET_FPU, &fpu) < 0)
			return fail(e, v, "reading the FPU");
		memcpy(c->xsave, &fpu, sizeof(fpu));
		return 0;
	}
	if (ioctl(v->fd, bytes > sizeof(struct kvm_xsave) ? KVM_GET_XSAVE2 : KVM_GET_XSAVE,
		    c->xsave) < 0)
		return fail(e, v, "reading the extended state");
	return 0;
}

static int get_cpu(const struct vcpu *v, struct saved_cpu *c, struct err *e)
{
	const struct machine_traits *t = &v->machine->traits;
	int r, khz;

	if (ioctl(v->fd, KVM_GET_MP_STATE, &c->mp) < 0 ||
		ioctl(v->fd, KVM_GET_REGS, &c->regs) < 0 ||
		ioctl(v->fd, KVM_GET_SREGS, &c->sregs) < 0)
		return fail(e, v, "reading the registers");
	r = get_xsave(v, c, e);
	if (r < 0)
		return r;
	if ((t->xcrs && ioctl(v->fd, KVM_GET_XCRS, &c->xcrs) < 0) ||
		(t->debugregs && ioctl(v->fd, KVM_GET_DEBUGREGS, &c->debug) < 0))
		return fail(e, v, "reading the extended registers");
	if (ioctl(v->fd, KVM_GET_LAPIC, &c->lapic) < 0)
		return fail(e, v, "reading the local APIC");
	khz = ioctl(v->fd, KVM_GET_TSC_KHZ, 0);
	c->tsc_khz = khz > 0 ? (uint32_t)khz : 0; /* 0: this KVM does not say */
	r = get_cpuid(v, c, e);
	if (r == 0)
		r = get_msrs(v, c, e);
	if (r == 0 && ioctl(v->fd, KVM_GET_VCPU_EVENTS, &c->events) < 0)
		r = fail(e, v, "reading the events");
	return r;
}

static int saved_make(const struct machine *m, struct saved_machine *s, struct err *e)
{
	*s = (struct saved_machine){ .memory_bytes = m->mem.bytes, .cpu_count = m->cpus };
	s->cpus = calloc(m->cpus, sizeof(*s->cpus));
	return s->cpus ? 0 : err_set(e, ENOMEM, "the state of %u CPUs", m->cpus);
}

static void walked_make(struct machine *m, struct saved_machine *s, struct walked *ret)
{
	*ret = (struct walked){ .kvm = s,
		.serial = &m->serial,
		.keyboard = &m->keyboard,
		.device_count = m->device_count };
	for (unsigned i = 0; i < m->device_count; i++)
		ret->devices[i] = m->devices[i].dev;
}

static int get_machine(struct machine *m, struct saved_machine *s, struct err *e)
{
	struct kvm_clock_data clock = { 0 };
	int r = 0;

	for (unsigned i = 0; r == 0 && i < m->cpus; i++)
		r = get_cpu(&m->vcpus[i], &s->cpus[i], e);
	for (unsigned i = 0; r == 0 && i < SAVED_CHIPS; i++) {
		s->chips[i].chip_id = i;
		if (ioctl(m->vm, KVM_GET_IRQCHIP, &s->chips[i]) < 0)
			r = err_set(e, errno, "reading interrupt controller %u", i);
	}
	if (r == 0 && ioctl(m->vm, KVM_GET_CLOCK, &clock) < 0)
		r = err_set(e, errno, "reading the machine's clock");
	s->clock_ns = clock.clock;
	return r;
}

int machine_save(struct machine *m, struct vwalk *w, struct err *e)
{
	struct saved_machine s;
	struct walked all;
	char text[96];
	int r = saved_make(m, &s, e);

	if (r == 0)
		r = get_machine(m, &s, e);
	if (r == 0) {
		walked_make(m, &s, &all);
		machine_walk(&all, w);
		if (vwalk_end(w) < 0) {
			vwalk_text(w, text, sizeof(text));
			r = err_say(e, ENOMEM, "writing a machine down: %s", text);
		}
	}
	free(s.cpus);
	return r;
}

/* --- Setting ---------------------------------------------------------------------------------- */

/* What the guest was told it has must be here too: @have is what this CPU says before. */
static int check_cpuid(const struct saved_cpu *have, const struct saved_cpu *c, struct err *e)
{
	static const struct {
		uint32_t function;
		uint32_t ebx, ecx,
			edx; /* bits that are features, and are not switched by the guest */
	} leaves[] = {
		{ 1, 0, ~(1u << 27), ~(1u << 28) },
		{ 7, ~0u, ~(1u << 4), ~0u },
		{ 0x80000001, 0, ~0u, ~0u },
	};

	for (uint32_t i = 0; i < c->cpuid_count; i++) {
		const struct kvm_cpuid_entry2 *old = &c->cpuid[i], *now = NULL;

		for (size_t k = 0; k < ARRAY_LEN(leaves); k++) {
			if (old->function != leaves[k].function || old->index != 0)
				continue;
			for (uint32_t n = 0; n < have->cpuid_count && !now; n++)
				if (have->cpuid[n].function == old->function &&
					have->cpuid[n].index == 0)
					now = &have->cpuid[n];
			if (!now || (old->ebx & ~now->ebx & leaves[k].ebx) ||
				(old->ecx & ~now->ecx & leaves[k].ecx) ||
				(old->edx & ~now->edx & leaves[k].edx))
				return err_say(e, EOPNOTSUPP,
					"it was made on another kind of CPU, with features that "
					"this one lacks (leaf %#x)",
					old->function);
		}
	}
	return 0;
}

static int set_cpuid(const struct vcpu *v, const struct saved_cpu *c, struct err *e)
{
	own_mem struct kvm_cpuid2 *q = calloc(1, sizeof(*q) + sizeof(c->cpuid));
	own_mem struct saved_cpu *have = calloc(1, sizeof(*have));
	int r = q && have ? get_cpuid(v, have, e)
			  : err_set(e, ENOMEM, "the features of CPU %u", v->index);

	if (r == 0)
		r = check_cpuid(have, c, e);
	if (r < 0)
		return r;
	q->nent = c->cpuid_count;
	memcpy(q->entries, c->cpuid, c->cpuid_count * sizeof(c->cpuid[0]));
	return ioctl(v->fd, KVM_SET_CPUID2, q) < 0 ? fail(e, v, "setting the features") : 0;
}

static int set_tsc_khz(const struct vcpu *v, const struct saved_cpu *c, struct err *e)
{
	int now = c->tsc_khz ? ioctl(v->fd, KVM_GET_TSC_KHZ, 0) : 0;
	uint64_t gap = now > 0 && (uint32_t)now > c->tsc_khz ? (uint32_t)now - c->tsc_khz
							     : c->tsc_khz - (uint32_t)now;

	if (now <= 0 || gap * 1000000 <= (uint64_t)c->tsc_khz * TSC_PPM)
		return 0;
	if (ioctl(v->fd, KVM_SET_TSC_KHZ, (long)c->tsc_khz) < 0)
		return err_say(e, EOPNOTSUPP,
			"it was made on a CPU of %u kHz; this one has %d and cannot scale",
			c->tsc_khz, now);
	return 0;
}

static int set_msr(const struct vcpu *v, struct kvm_msr_entry entry, struct err *e)
{
	union {
		struct kvm_msrs head;
		uint8_t room[sizeof(struct kvm_msrs) + sizeof(struct kvm_msr_entry)];
	} q = { .room = { 0 } };

	q.head.nmsrs = 1;
	memcpy(q.head.entries, &entry, sizeof(entry));
	if (ioctl(v->fd, KVM_SET_MSRS, &q) == 1)
		return 0;
	/* Some can be read but not written; that is fine if nothing changes. */
	q.head.nmsrs = 1;
	if (ioctl(v->fd, KVM_GET_MSRS, &q) == 1 && q.head.entries[0].data == entry.data)
		return 0;
	return err_say(e, EOPNOTSUPP, "KVM refuses MSR %#x of CPU %u", entry.index, v->index);
}

/* All at once, and one by one where KVM stops. */
static int set_many(
	const struct vcpu *v, const struct kvm_msr_entry *entries, unsigned count, struct err *e)
{
	own_mem struct kvm_msrs *q =
		calloc(1, sizeof(*q) + SAVED_MSRS_MAX * sizeof(struct kvm_msr_entry));
	unsigned at = 0;

	if (!q)
		return err_set(e, ENOMEM, "the MSRs of CPU %u", v->index);
	while (at < count) {
		int n, r;

		q->nmsrs = count - at;
		memcpy(q->entries, entries + at, (count - at) * sizeof(entries[0]));
		n = ioctl(v->fd, KVM_SET_MSRS, q);
		if (n < 0)
			return fail(e, v, "setting the MSRs");
		at += (unsigned)n;
		if (at >= count)
			break;
		r = set_msr(v, entries[at], e);
		if (r < 0)
			return r;
		at++;
	}
	return 0;
}

static int set_msrs(const struct vcpu *v, struct saved_cpu *c, struct err *e)
{
	struct kvm_msr_entry deadline = { .index = MSR_DEADLINE };
	bool has_deadline = false;
	uint64_t tsc = 0;
	uint32_t lvt;
	unsigned n = 0;
	int r;

	for (uint32_t i = 0; i < c->msr_count; i++) {
		/* Hostile: nothing is set that is not on the list. */
		if (!is_kept(c->msrs[i].index))
			return err_say(e, EINVAL, "it sets MSR %#x", c->msrs[i].index);
		if (c->msrs[i].index == MSR_TSC)
			tsc = c->msrs[i].data;
		if (c->msrs[i].index == MSR_DEADLINE) {
			deadline.data = c->msrs[i].data;
			has_deadline = true;
		} else {
			c->msrs[n++] = c->msrs[i];
		}
	}
	r = set_many(v, c->msrs, n, e);
	/* 0: its interrupt was just being delivered, or none is awaited. One too many does no harm;
	 * one too few, and the CPU may sleep for ever. */
	memcpy(&lvt, c->lapic.regs + LAPIC_TIMER, sizeof(lvt));
	if (!deadline.data && (lvt >> 17 & 3) == 2)
		deadline.data = tsc;
	return r == 0 && has_deadline ? set_msr(v, deadline, e) : r;
}

static int set_xsave(const struct vcpu *v, const struct saved_cpu *c, struct err *e)
{
	unsigned bytes = v->machine->traits.xsave_bytes;
	struct kvm_fpu fpu;

	if (c->xsave_bytes != (bytes ? bytes : sizeof(fpu)))
		return err_say(e, EOPNOTSUPP,
			"it was made on another kind of CPU, with %u bytes of extended state",
			c->xsave_bytes);
	if (bytes)
		return ioctl(v->fd, KVM_SET_XSAVE, c->xsave) < 0
			       ? fail(e, v, "setting the extended state")
			       : 0;
	memcpy(&fpu, c->xsave, sizeof(fpu));
	return ioctl(v->fd, KVM_SET_FPU, &fpu) < 0 ? fail(e, v, "setting the FPU") : 0;
}

static int set_cpu(const struct vcpu *v, struct saved_cpu *c, struct err *e)
{
	const struct machine_traits *t = &v->machine->traits;
	int r = set_tsc_khz(v, c, e);

	if (r == 0)
		r = set_cpuid(v, c, e);
	if (r < 0)
		return r;
	if (ioctl(v->fd, KVM_SET_MP_STATE, &c->mp) < 0)
		return fail(e, v, "setting the run state");
	if (ioctl(v->fd, KVM_SET_REGS, &c->regs) < 0 || ioctl(v->fd, KVM_SET_SREGS, &c->sregs) < 0)
		return fail(e, v, "setting the registers");
	r = set_xsave(v, c, e);
	if (r < 0)
		return r;
	if ((t->xcrs && ioctl(v->fd, KVM_SET_XCRS, &c->xcrs) < 0) ||
		(t->debugregs && ioctl(v->fd, KVM_SET_DEBUGREGS, &c->debug) < 0))
		return fail(e, v, "setting the extended registers");
	if (ioctl(v->fd, KVM_SET_LAPIC, &c->lapic) < 0)
		return fail(e, v, "setting the local APIC");
	r = set_msrs(v, c, e);
	if (r == 0 && ioctl(v->fd, KVM_SET_VCPU_EVENTS, &c->events) < 0)
		r = fail(e, v, "setting the events");
	/* Its watchdog must not count the time between. */
	if (r == 0 && ioctl(v->fd, KVM_KVMCLOCK_CTRL, 0) < 0 && errno != EINVAL)
		r = fail(e, v, "stopping the clock");
	return r;
}

static int set_machine(struct machine *m, struct saved_machine *s, struct err *e)
{
	struct kvm_clock_data clock = { .clock = s->clock_ns };
	int r = 0;

	for (unsigned i = 0; r == 0 && i < m->cpus; i++)
		r = set_cpu(&m->vcpus[i], &s->cpus[i], e);
	if (r == 0 && ioctl(m->vm, KVM_SET_CLOCK, &clock) < 0)
		r = err_set(e, errno, "setting the machine's clock");
	for (unsigned i = 0; r == 0 && i < SAVED_CHIPS; i++)
		if (ioctl(m->vm, KVM_SET_IRQCHIP, &s->chips[i]) < 0)
			r = err_set(e, errno, "setting interrupt controller %u", i);
	return r;
}

static int ring(int fd, struct err *e)
{
	uint64_t one = 1;

	return write(fd, &one, sizeof(one)) < 0 && errno != EAGAIN
		       ? err_set(e, errno, "raising an interrupt")
		       : 0;
}

/* The guest's kernel takes new randomness when this changes. */
static int renew_generation(struct machine *m, struct err *e)
{
	uint8_t id[BOOT_GENID_BYTES];

	if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id))
		return err_set(e, errno, "a new generation id");
	if (!gmem_write(&m->mem, GPA(BOOT_GENID), id, sizeof(id)))
		return err_say(e, EINVAL, "the machine has no room for a generation id");
	return ring(m->genid_line, e);
}

/* What was on its way when it was written down: interrupts, and kicks that nobody had seen. */
static int wake_devices(struct machine *m, struct err *e)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < m->device_count; i++) {
		struct vdev *d = m->devices[i].dev;

		if (d->interrupts)
			r = ring(m->devices[i].line, e);
		for (unsigned q = 0; vdev_is_active(d) && q < d->ops->queues; q++)
			d->ops->kick(d, q);
	}
	if (r == 0 && m->serial.ier)
		r = ring(m->serial_line, e); /* an empty transmitter waits for nobody else */
	if (r == 0 && m->keyboard.len)
		r = ring(m->keyboard_line, e);
	return r;
}

int machine_load(struct machine *m, const void *data, size_t len, struct err *e)
{
	struct saved_machine s;
	struct walked all;
	struct vwalk w;
	char text[96];
	int r = saved_make(m, &s, e);

	if (r == 0) {
		walked_make(m, &s, &all);
		vwalk_load(&w, data, len);
		machine_walk(&all, &w);
		if (vwalk_end(&w) < 0) {
			vwalk_text(&w, text, sizeof(text));
			r = err_say(e, EINVAL, "the snapshot makes no sense: %s", text);
		}
	}
	if (r == 0)
		r = set_machine(m, &s, e);
	if (r == 0)
		r = renew_generation(m, e);
	if (r == 0)
		r = wake_devices(m, e);
	free(s.cpus);
	return r;
}

/* --- Written pages ---------------------------------------------------------------------------- */

int machine_log_dirty(struct machine *m, struct err *e)
{
	int r = gmem_track(&m->mem, e);

	for (unsigned i = 0; r == 0 && !m->logs_dirty && i < m->mem.count; i++) {
		struct kvm_userspace_memory_region slot = {
			.slot = i,
			.flags = KVM_MEM_LOG_DIRTY_PAGES,
			.guest_phys_addr = m->mem.regions[i].base,
			.memory_size = m->mem.regions[i].size,
			.userspace_addr = (uint64_t)(uintptr_t)m->mem.regions[i].host,
		};

		if (ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, &slot) < 0)
			r = err_set(e, errno, "noting which pages the guest writes");
	}
	m->logs_dirty = r == 0;
	return r;
}

int machine_collect_dirty(struct machine *m, struct err *e)
{
	for (unsigned i = 0; i < m->mem.count; i++) {
		const struct gmem_region *g = &m->mem.regions[i];
		uint64_t words = (g->size / GMEM_PAGE + 63) / 64, first = g->offset / GMEM_PAGE;
		own_mem uint64_t *bits = calloc(words, sizeof(*bits));
		struct kvm_dirty_log log = { .slot = i, .dirty_bitmap = bits };

		if (!bits)
			return err_set(e, ENOMEM, "a bitmap of guest pages");
		if (ioctl(m->vm, KVM_GET_DIRTY_LOG, &log) < 0)
			return err_set(e, errno, "asking which pages the guest wrote");
		/* The first region's size is a whole number of words of pages, or it is the last.
		 */
		for (uint64_t k = 0; k < words; k++)
			if (bits[k])
				__atomic_fetch_or(
					&m->mem.dirty[first / 64 + k], bits[k], __ATOMIC_RELAXED);
	}
	return 0;
}
