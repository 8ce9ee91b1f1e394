/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VM_H
#define WARD_TIER_VM_VM_H

#include <linux/filter.h>

#include "base/limits.h"
#include "tier/cgroup.h"
#include "tier/tier_impl.h"
#include "tier/vm/cputemplate.h"

/* The vm tier's own state, on ward's side. */
struct vmbox {
	struct box box; /* first */
	struct cgroup cg;
	bool paused;       /* every process is frozen */
	struct plan outer; /* the plan with the monitor's own needs added to its limits */
	/* What the monitor is given, open. -1: not yet. */
	int kvm, kernel, initrd, root;
	int tap; /* -1: no network card */
	enum cpu_template cpu;
	bool plain_fpu; /* the kernel's own template says so */
	char kernel_dir[WARD_PATH_MAX];
};

enum {
	VM_AGENT_PORT = 1024, /* of the host, where the guest's agent calls */
	VM_CID = 3,
	VM_CPUS_MAX = 8,              /* when nobody says how many */
	VM_MONITOR_TASKS = 16,        /* threads of the monitor, beside one per CPU */
	VM_MONITOR_MEMORY = 64 << 20, /* on top of the guest's */
};

/* kernel.c: the guest's kernel and what it needs to find its root, in folder @dir. */
int kernel_dir(const char *state_dir, char ret[WARD_PATH_MAX], struct err *e);
int kernel_open(const char *dir, int *ret_kernel, struct err *e);
/* The CPU template that goes with the kernel, `cpu`: one word a line. */
int kernel_cpu_template(const char *dir, bool *ret_plain_fpu, struct err *e);
/* An initramfs in a memory file: our init, and the kernel's modules if it has any. */
int initramfs_make(const char *dir, int *ret_fd, struct err *e);

/* trial.c: boots a kernel until its init calls. 0, or why it does not. */
struct vm_trial {
	int kvm, kernel, initrd; /* borrowed */
	bool plain_fpu;
	unsigned timeout_ms;
};
int vm_trial(const struct vm_trial *q, struct err *e);

/* rootfs.c: the template as an image that many guests read. */
int rootfs_open(const struct plan *plan, int *ret_fd, struct err *e);

/* tap.c: the tap @name, which must be there already; and the card's address in sandbox @id. */
int tap_open(const char *name, int *ret_fd, struct err *e);
void tap_mac(const char *id, uint8_t ret[6]);

/* filter.c: what the calling thread may ask of the host from now on, for good. */
enum filter_thread { FILTER_DEVICES = 1, FILTER_CPU = 2 };
enum { FILTER_CODE_MAX = 256 };
int filter_load(enum filter_thread who, struct err *e);
/* The same as a program, for a test: how many instructions. */
unsigned filter_make(enum filter_thread who, struct sock_filter ret[FILTER_CODE_MAX]);
/* Host calls that any of the threads may make. */
unsigned filter_calls(void);

/* monitor.c: the first process; never returns. */
void monitor_main(struct box *box, int channel) __attribute__((noreturn));

#endif
