/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_MACHINE_H
#define WARD_TIER_VM_MACHINE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "tier/vm/boot/boot.h"
#include "tier/vm/cputemplate.h"
#include "tier/vm/watches.h"
#include "tier/vm/gmem.h"
#include "tier/vm/i8042.h"
#include "tier/vm/serial.h"
#include "tier/vm/virtio/device.h"

/*
 * One virtual machine: memory, CPUs, interrupts, devices. Every vCPU is a thread; the devices run
 * in the thread that calls machine_run(). Everything but the guest's own memory is under one lock.
 */
struct machine;

enum vcpu_state { VCPU_PAUSED, VCPU_RUNNING, VCPU_ENDED };

/* What a CPU asked the monitor for last. */
struct vcpu_asked {
	enum { ASKED_NOTHING, ASKED_PORT, ASKED_MEMORY } kind;
	bool write;
	uint64_t at;
};

struct vcpu {
	struct machine *machine;
	unsigned index;
	int fd; /* -1: none */
	struct kvm_run *run;
	pthread_t thread;
	bool has_thread;
	enum vcpu_state state;   /* under the machine's lock */
	bool guarded;            /* its thread has done what it must before the guest runs */
	bool half_done;          /* an exit whose second half the next run has to do */
	struct vcpu_asked asked; /* its thread's own */
};

/* What the guest cost: exits to this process, by kind. Exact, so a test can hold them. */
struct machine_exits {
	uint64_t port_in, port_out, mmio_read, mmio_write, interrupted, other;
};

enum machine_end {
	MACHINE_RUNS,
	MACHINE_OFF,     /* the guest switched itself off, or was asked to stop */
	MACHINE_CRASHED, /* a triple fault, or an exit that makes no sense */
	MACHINE_FAILED,  /* KVM refused */
};

/* What this KVM can tell of a CPU; found out while /dev/kvm is still open. */
enum { MACHINE_MSRS_MAX = 256 };
struct machine_traits {
	uint32_t msrs[MACHINE_MSRS_MAX];
	unsigned msr_count;
	unsigned xsave_bytes; /* 0: it cannot */
	bool xcrs, debugregs;
};

/* The signal that gets a vCPU out of its guest. */
#define MACHINE_KICK SIGRTMIN

/* A device in its place. */
struct machine_device {
	struct vdev *dev; /* borrowed; NULL: the place is kept for one */
	unsigned queues;  /* that have an event */
	uint64_t at;
	uint32_t gsi;
	int line; /* eventfd that raises the interrupt */
	struct machine_kick {
		struct machine_device *device;
		int fd; /* eventfd that the guest's notify writes to; -1: none */
		struct watch watch;
	} kicks[VDEV_QUEUES_MAX];
};

struct machine {
	int kvm, vm; /* kvm is borrowed */
	struct gmem mem;
	unsigned cpus;
	struct vcpu *vcpus;
	size_t run_bytes;
	struct kvm_cpuid2 *cpuid; /* what KVM offers, masked; per CPU details are filled in later */
	enum cpu_template cpu;    /* ...by this */
	bool plain_fpu;
	struct machine_traits traits;
	bool logs_dirty; /* KVM notes which pages the guest writes */

	pthread_mutex_t lock;
	pthread_cond_t changed; /* a vCPU's state did */
	bool go;                /* vCPUs may run */
	bool stop_asked;        /* atomic: see machine_stop() */
	enum machine_end end;
	char why[160];
	struct machine_exits exits;

	void (*console)(void *arg, uint8_t byte);
	int (*guard)(void *arg, struct err *e);
	void *arg;
	struct serial serial;
	struct i8042 keyboard;
	int serial_line, keyboard_line, genid_line;
	struct machine_device devices[BOOT_DEVICES_MAX];
	unsigned place_count, device_count; /* places that are made; those with a device */
	struct watches events;              /* of the device thread */
	int wakeup;                         /* eventfd: something changed that it must look at */
	struct watch wakeup_watch;
};

struct machine_config {
	int kvm; /* an open /dev/kvm; borrowed */
	uint64_t memory_bytes;
	enum gmem_kind memory_kind;
	/* With GMEM_COPY: a file of memory_bytes, mapped privately; borrowed, never to change. */
	int memory_file;
	unsigned cpus;
	enum cpu_template cpu;
	bool plain_fpu; /* hide XSAVE and what needs it: for emulators that get it wrong */
	/* A byte on the console; must not block. NULL: dropped. */
	void (*console)(void *arg, uint8_t byte);
	/* The first that each vCPU's thread does: lock itself up. NULL: nothing. */
	int (*guard)(void *arg, struct err *e);
	void *arg;
};

/*
 * In two halves, so that the first can be done before anybody knows what the machine will be. open:
 * what the host makes of it, with the first c->cpus CPUs and, as a guess, what these can do; memory
 * is not looked at. machine_arm() can follow at once. fill: memory, what its CPUs can do, and
 * the other CPUs. On failure of open nothing is left; after fill, machine_done() is still due.
 */
int machine_open(struct machine *m, const struct machine_config *c, struct err *e);
int machine_fill(struct machine *m, const struct machine_config *c, struct err *e);
/* Both. On failure nothing is left. */
int machine_create(struct machine *m, const struct machine_config *c, struct err *e);
/* Makes a place for a device of so many queues, ahead: places are filled in this order. */
int machine_reserve(struct machine *m, unsigned queues, struct err *e);
/* Puts @dev into the next free place; what that lacks is made. Before machine_boot(). */
int machine_attach(struct machine *m, struct vdev *dev, struct err *e);
/* How a device raises its line, for vdev_init(): arg is the machine_device. */
void machine_raise(void *arg);
/* Place number @i, for machine_raise(). */
struct machine_device *machine_place(struct machine *m, unsigned i);
/* Loads the kernel and sets the first CPU; fills in the request's devices and CPUs. */
int machine_boot(struct machine *m, struct boot_request *q, struct err *e);
/* Makes the vCPUs' threads, which guard themselves and wait; so that a filter that makes none can
 * be loaded. */
int machine_arm(struct machine *m, struct err *e);
/* Starts the vCPUs and serves the devices until the machine ends; its exit tells in m->end. */
int machine_run(struct machine *m, struct err *e);
/* From any thread, also a signal handler: ends machine_run(). */
void machine_stop(struct machine *m);
/* Kicks every vCPU out of the guest and waits until each stands still, with no exit half done. */
int machine_pause(struct machine *m, struct err *e);
/* The same under the machine's lock: for the device thread. */
int machine_halt(struct machine *m, struct err *e);
void machine_resume(struct machine *m);
void machine_go_on(struct machine *m); /* under the lock */
void machine_done(struct machine *m);

/* vcpu.c */
int vcpu_create(struct machine *m, unsigned index, struct err *e);
int vcpu_start(struct vcpu *v, struct err *e); /* its thread; it waits for m->go */
void vcpu_kick(struct vcpu *v);
void vcpu_done(struct vcpu *v);
int vcpu_set_boot(struct vcpu *v, const struct boot_cpu *cpu, struct err *e);
/*
 * vstate.c: all of a machine but its memory, written down and read back. It stands still, under its
 * lock or before its first run. A machine that could not be loaded must not run.
 */
struct vwalk;
int machine_traits_read(struct machine *m, struct err *e);
int machine_save(struct machine *m, struct vwalk *w, struct err *e);
/* Into one that was made with the same memory, CPUs and devices. It has a new generation id, its
 * interrupts that were due are raised, and its devices have looked at their queues. */
int machine_load(struct machine *m, const void *data, size_t len, struct err *e);
/* KVM's notes of written pages, on; and those since the last time, added to m->mem.dirty. */
int machine_log_dirty(struct machine *m, struct err *e);
int machine_collect_dirty(struct machine *m, struct err *e);

/* cpuid.c: what CPU @index of @count sees, made from what KVM offers. */
int cpuid_read(int kvm, enum cpu_template template, bool plain_fpu, struct kvm_cpuid2 **ret,
	struct err *e);
int cpuid_set(
	int vcpu, const struct kvm_cpuid2 *offered, unsigned index, unsigned count, struct err *e);
/* bus.c: an access of the guest. False: the guest asked for the end. */
bool bus_port(struct machine *m, bool out, uint16_t port, uint8_t *data, unsigned size);
/* Without the lock, for what comes with every interrupt. False: it is something else. */
bool bus_quick(struct machine *m, bool write, uint64_t at, uint8_t *data, unsigned len);
void bus_mmio(struct machine *m, bool write, uint64_t at, uint8_t *data, unsigned len);

#endif
