/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_WALKS_H
#define WARD_TIER_VM_WALKS_H

#include <stdint.h>
#include <linux/kvm.h>

#include "tier/vm/boot/boot.h"
#include "tier/vm/i8042.h"
#include "tier/vm/serial.h"
#include "tier/vm/virtio/device.h"
#include "tier/vm/vwalk.h"

/* What KVM keeps of a machine, in plain memory: vstate.c reads and sets it. */
enum {
	SAVED_MSRS_MAX = 256,
	SAVED_CPUID_MAX = 256,
	SAVED_XSAVE_MAX = 16 * 1024,
	SAVED_CHIPS = 3,
};

struct saved_cpu {
	struct kvm_mp_state mp;
	struct kvm_regs regs;
	struct kvm_sregs sregs;
	struct kvm_xcrs xcrs;
	struct kvm_debugregs debug;
	struct kvm_lapic_state lapic;
	struct kvm_vcpu_events events;
	uint32_t tsc_khz;
	uint32_t xsave_bytes, cpuid_count, msr_count;
	uint8_t xsave[SAVED_XSAVE_MAX] __attribute__((aligned(64)));
	struct kvm_cpuid_entry2 cpuid[SAVED_CPUID_MAX];
	struct kvm_msr_entry msrs[SAVED_MSRS_MAX];
};

struct saved_machine {
	uint64_t memory_bytes;
	uint32_t cpu_count;
	struct saved_cpu *cpus; /* as many */
	struct kvm_irqchip chips[SAVED_CHIPS];
	uint64_t clock_ns;
};

/* All that is written down of a machine but its memory. */
struct walked {
	struct saved_machine *kvm;
	struct serial *serial;
	struct i8042 *keyboard;
	struct vdev *devices[BOOT_DEVICES_MAX]; /* in their places */
	unsigned device_count;
};

void serial_walk(struct serial *s, struct vwalk *w);
void i8042_walk(struct i8042 *k, struct vwalk *w);
/*
 * Registers and queues, then what the device's own ->walk names. A new device needs nothing here:
 * it sets ->walk in its table if it has fields of its own that the guest could miss (a MAC, a
 * target, a counter that goes on), and checks them there when w->loading. What it can make again
 * (buffers, limiters, sockets) is not walked. After loading, every queue of an active device is
 * kicked once: ->kick must be fine with nothing to do.
 */
void vdev_walk(struct vdev *d, struct vwalk *w);
void machine_walk(struct walked *m, struct vwalk *w);

#endif
