/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/walks.c - what of a machine is written down, field by field.
 *
 * Owns:  the order of fields in a state file; a change of it is a new SNAP_VERSION.
 * Rules: plain memory, no KVM. What is read is checked as if a guest had written it: rings with the
 *        rules of queue.c, steps of a device's life with those of device.c. What is wrong leaves a
 *        machine that must not run.
 */
#include "tier/vm/walks.h"

void serial_walk(struct serial *s, struct vwalk *w)
{
	vwalk_u8(w, "serial.ier", &s->ier);
	vwalk_u8(w, "serial.iir", &s->iir);
	vwalk_u8(w, "serial.lcr", &s->lcr);
	vwalk_u8(w, "serial.mcr", &s->mcr);
	vwalk_u8(w, "serial.scr", &s->scr);
	vwalk_u8(w, "serial.fcr", &s->fcr);
	vwalk_bytes(w, "serial.divisor", s->divisor, sizeof(s->divisor));
	vwalk_bool(w, "serial.thr_empty", &s->thr_empty);
	vwalk_bytes(w, "serial.in", s->in, sizeof(s->in));
	vwalk_count(w, "serial.in_at", &s->in_at, SERIAL_INPUT_MAX - 1);
	vwalk_count(w, "serial.in_len", &s->in_len, SERIAL_INPUT_MAX);
}

void i8042_walk(struct i8042 *k, struct vwalk *w)
{
	vwalk_u8(w, "keyboard.control", &k->control);
	vwalk_u8(w, "keyboard.output_port", &k->output_port);
	vwalk_u8(w, "keyboard.command", &k->command);
	vwalk_bytes(w, "keyboard.queue", k->queue, sizeof(k->queue));
	vwalk_count(w, "keyboard.at", &k->at, I8042_QUEUE - 1);
	vwalk_count(w, "keyboard.len", &k->len, I8042_QUEUE);
}

/* --- virtio ----------------------------------------------------------------------------------- */

static void virtq_walk(struct virtq *q, bool event_idx, struct vwalk *w)
{
	bool active = q->active, broken = q->broken != NULL;
	uint16_t size = q->size;

	vwalk_same(w, "queue.size_max", q->size_max);
	vwalk_u16(w, "queue.size", &size);
	vwalk_bool(w, "queue.ready", &q->ready);
	vwalk_u64(w, "queue.desc", &q->desc.v);
	vwalk_u64(w, "queue.avail", &q->avail.v);
	vwalk_u64(w, "queue.used", &q->used.v);
	vwalk_bool(w, "queue.active", &active);
	vwalk_bool(w, "queue.broken", &broken);
	vwalk_u16(w, "queue.next_avail", &q->next_avail);
	vwalk_u16(w, "queue.next_used", &q->next_used);
	vwalk_u16(w, "queue.told_used", &q->told_used);
	if (!w->loading)
		return;
	q->size = size;
	q->active = false;
	/* The same checks as when the driver set it up, against this memory. */
	if (active && vwalk_ok(w) && !virtq_activate(q, event_idx))
		vwalk_wrong(w, "queue", "cannot work");
	if (broken)
		virtq_break(q, "it was broken before the snapshot");
}

/* A life's steps come in one order. */
static bool is_status(uint32_t v)
{
	static const uint32_t steps[] = { 0, VDEV_ACK, VDEV_ACK | VDEV_DRIVER,
		VDEV_ACK | VDEV_DRIVER | VDEV_FEATURES_OK,
		VDEV_ACK | VDEV_DRIVER | VDEV_FEATURES_OK | VDEV_DRIVER_OK };

	v &= ~(uint32_t)(VDEV_NEEDS_RESET | VDEV_FAILED);
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (v == steps[i])
			return true;
	return false;
}

void vdev_walk(struct vdev *d, struct vwalk *w)
{
	if (!w->loading && d->ops->settle)
		d->ops->settle(d);
	vwalk_same(w, "device.id", d->ops->id);
	vwalk_same(w, "device.queues", d->ops->queues);
	vwalk_same(w, "device.offered", d->offered);
	vwalk_u64(w, "device.acked", &d->acked);
	vwalk_u32(w, "device.feature_word", &d->feature_word);
	vwalk_u32(w, "device.driver_word", &d->driver_word);
	vwalk_u32(w, "device.queue_at", &d->queue_at);
	vwalk_u32(w, "device.status", &d->status);
	vwalk_u32(w, "device.interrupts", &d->interrupts);
	vwalk_u32(w, "device.generation", &d->generation);
	if (!is_status(d->status))
		vwalk_wrong(w, "device.status", "is no step of a device's life");
	if (d->acked & ~d->offered)
		vwalk_wrong(w, "device.acked", "has a feature that was not offered");
	if (d->interrupts & ~(uint32_t)(VDEV_INT_RING | VDEV_INT_CONFIG))
		vwalk_wrong(w, "device.interrupts", "has a bit that does not exist");
	for (unsigned i = 0; i < d->ops->queues; i++) {
		virtq_walk(&d->queues[i], d->acked & VDEV_F_EVENT_IDX, w);
		if (d->queues[i].active && !(d->status & VDEV_DRIVER_OK))
			vwalk_wrong(w, "queue.active", "does not go with the device's status");
	}
	if (d->ops->walk)
		d->ops->walk(d, w);
	if (!vwalk_ok(w) && w->loading)
		d->status = 0; /* whatever happens to it now, no queue is looked at */
}

/* --- What KVM keeps --------------------------------------------------------------------------- */

#define WALK_STRUCT(w, name, p) vwalk_bytes(w, name, p, sizeof(*(p)))

static void cpu_walk(struct saved_cpu *c, struct vwalk *w)
{
	WALK_STRUCT(w, "cpu.mp", &c->mp);
	WALK_STRUCT(w, "cpu.regs", &c->regs);
	WALK_STRUCT(w, "cpu.sregs", &c->sregs);
	WALK_STRUCT(w, "cpu.xcrs", &c->xcrs);
	WALK_STRUCT(w, "cpu.debug", &c->debug);
	WALK_STRUCT(w, "cpu.lapic", &c->lapic);
	WALK_STRUCT(w, "cpu.events", &c->events);
	vwalk_u32(w, "cpu.tsc_khz", &c->tsc_khz);
	vwalk_count(w, "cpu.xsave_bytes", &c->xsave_bytes, SAVED_XSAVE_MAX);
	vwalk_bytes(w, "cpu.xsave", c->xsave, c->xsave_bytes);
	vwalk_count(w, "cpu.cpuid_count", &c->cpuid_count, SAVED_CPUID_MAX);
	vwalk_bytes(w, "cpu.cpuid", c->cpuid, c->cpuid_count * sizeof(c->cpuid[0]));
	vwalk_count(w, "cpu.msr_count", &c->msr_count, SAVED_MSRS_MAX);
	vwalk_bytes(w, "cpu.msrs", c->msrs, c->msr_count * sizeof(c->msrs[0]));
	if (c->xcrs.nr_xcrs > KVM_MAX_XCRS)
		vwalk_wrong(w, "cpu.xcrs", "is too large");
}

static void kvm_walk(struct saved_machine *m, struct vwalk *w)
{
	vwalk_same(w, "memory", m->memory_bytes);
	vwalk_same(w, "cpus", m->cpu_count);
	for (uint32_t i = 0; i < m->cpu_count && vwalk_ok(w); i++)
		cpu_walk(&m->cpus[i], w);
	for (uint32_t i = 0; i < SAVED_CHIPS; i++) {
		WALK_STRUCT(w, "chip", &m->chips[i]);
		if (w->loading && m->chips[i].chip_id != i)
			vwalk_wrong(w, "chip", "is in another's place");
	}
	vwalk_u64(w, "clock", &m->clock_ns);
}

void machine_walk(struct walked *m, struct vwalk *w)
{
	kvm_walk(m->kvm, w);
	serial_walk(m->serial, w);
	i8042_walk(m->keyboard, w);
	vwalk_same(w, "devices", m->device_count);
	for (unsigned i = 0; i < m->device_count; i++)
		vdev_walk(m->devices[i], w);
}
