/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VM_H
#define WARD_TIER_VM_VM_H

#include <sys/types.h>
#include <linux/filter.h>

#include "base/buf.h"
#include "base/limits.h"
#include "tier/cgroup.h"
#include "tier/tier_impl.h"
#include "tier/vm/cputemplate.h"
#include "tier/vm/snapfile.h"
#include "tier/vm/touched.h"

enum {
	VM_AGENT_PORT = 1024, /* of the host, where the guest's agent calls */
	VM_CID = 3,
	VM_MOUNTS_MAX = 8,            /* each is a disk */
	VM_CPUS_MAX = 8,              /* when nobody says how many */
	VM_BOOT_MS = 240 * 1000,      /* from the first instruction to the agent's call */
	VM_MONITOR_TASKS = 16,        /* threads of the monitor, beside one per CPU */
	VM_MONITOR_MEMORY = 64 << 20, /* on top of the guest's */
	VM_CONTROL_ROOM = 2 << 20,    /* bytes of a snapshot on their way to ward */
	VM_LINE_MAX = 512,
};

/* What a monitor is given, open; -1: there is none. */
enum order_fd {
	ORDER_ROOT,   /* the image of the template */
	ORDER_KERNEL, /* to boot */
	ORDER_INITRD,
	ORDER_MEMORY, /* to go on from, for reading */
	ORDER_STATE,  /* the same; only on the way to one that waited, a clone has it in memory */
	ORDER_TAP,
	ORDER_VSOCK, /* a listening socket of the host */
	ORDER_MOUNTS,
	ORDER_FDS = ORDER_MOUNTS + VM_MOUNTS_MAX,
};

/* And what it is told, all of it ward's own word. */
struct order {
	uint64_t memory_bytes, io_rate[2], net_rate[2], boot_ms;
	uint64_t state_bytes; /* 0: it boots */
	uint32_t
		touched; /* runs of pages that it needs first, if known; they come with the state */
	bool notes_touched; /* they are not known yet: find out */
	uint32_t cpus;
	enum cpu_template cpu;
	bool plain_fpu; /* the kernel's own template says so */
	bool acpi;      /* so that the guest finds its devices; else the command line names them */
	char id[ID_LEN + 1];
	char line[VM_LINE_MAX]; /* the guest kernel's command line */
	int fds[ORDER_FDS];
};

/* The host's end of a guest's vsock, and which file it is. */
struct hostsock {
	int fd; /* -1: none */
	dev_t dev;
	ino_t ino; /* 0: none */
};

/* The vm tier's own state, on ward's side. */
struct vmbox {
	struct box box; /* first */
	struct cgroup cg;
	bool paused; /* every CPU stands still */
	bool held;   /* and so did everything inside, by the agent's word, before that */
	bool based;  /* the monitor notes what changes since the last snapshot */
	bool lost;   /* the control socket makes no sense any more */
	int control; /* to the monitor: control.h; -1: none */
	int keeper;  /* to the agent, through the monitor: proto/keeper.h; -1: none */
	int control_end, keeper_end; /* the monitor's ends of both, while it is being made */
	uint64_t ballooned;          /* bytes that the guest was asked for, and gave up */
	uint32_t holds;              /* number of the last KEEPER_HOLD */
	struct plan outer;           /* the plan with the monitor's own needs added to its limits */
	int kvm;                     /* -1: not open (any more) */
	bool waits; /* its monitor is there, with an empty machine, and gets its order later */
	struct order order;
	struct hostsock vsock;
	char kernel_dir[WARD_PATH_MAX];
	char image[ROOTFS_KEY_BYTES + 1]; /* which image its root is */
	/* Of a plan that goes on from a snapshot: what its state file says, checked. */
	struct snap_head from;
	void *state; /* from.body_bytes of them; NULL: it starts */
	struct touched touched;
};

/* kernel.c: the guest's kernel and what it needs to find its root, in folder @dir. */
int kernel_dir(const char *state_dir, char ret[WARD_PATH_MAX], struct err *e);
int kernel_open(const char *dir, int *ret_kernel, struct err *e);
/* The default one, and its folder. If there is none, why the last that was tried was not taken:
 * that is in kernels/KERNEL_REFUSED. */
#define KERNEL_REFUSED "refused"
int kernel_default(const char *state_dir, char ret[WARD_PATH_MAX], int *ret_kernel, struct err *e);
/* The CPU template that goes with the kernel, `cpu`: one word a line. */
int kernel_cpu_template(const char *dir, bool *ret_plain_fpu, bool *ret_acpi, struct err *e);
/* An initramfs in a memory file: our init, the kernel's modules if it has any, the list of @plan's
 * mounts; NULL: of none. */
int initramfs_make(const char *dir, const struct plan *plan, int *ret_fd, struct err *e);

/* trial.c: boots the kernel in folder @dir until its init calls. 0, or why it does not. */
int vm_trial(const char *dir, int kvm, unsigned timeout_ms, struct err *e);

/* rootfs.c: the template as an image that many guests read. */
int rootfs_open(
	const struct plan *plan, char key[ROOTFS_KEY_BYTES + 1], int *ret_fd, struct err *e);
/* The one that a snapshot was made with, whatever the template is now. */
int rootfs_reopen(const char *state_dir, const char *key, int *ret_fd, struct err *e);
/* Puts what an image is made of below @at: in a process and a mount namespace of its own. */
typedef int image_fill_fn(const void *arg, const char *at);
/* An ext4 of it at @image, of @what for the message. What is half made stays at @image. */
int image_make(const struct plan *plan, const char *image, image_fill_fn *fill, const void *arg,
	const char *what, struct err *e);

/* mounts.c: each --mount as an image that nobody else has; -1 where there is none. */
int mounts_check(const struct plan *plan, struct err *e);
int mounts_open(const struct plan *plan, int ret_fds[VM_MOUNTS_MAX], struct err *e);
/* What ward-init reads: for each "ro" or "overlay", "dir" or "file", and a path; all end in NUL. */
int mounts_list(const struct plan *plan, struct buf *b, struct err *e);

/* tap.c: the tap @name, which must be there already; and the card's address in sandbox @id. */
int tap_open(const char *name, int *ret_fd, struct err *e);
void tap_mac(const char *id, uint8_t ret[6]);

/* hostsock.c: a socket at @path, at which clients say which port of the guest they want. */
int hostsock_open(const char *path, struct hostsock *ret, struct err *e);
void hostsock_remove(const char *path, struct hostsock *s); /* also if it is not there */

/* filter.c: what the calling thread may ask of the host from now on, for good. */
enum filter_thread { FILTER_DEVICES = 1, FILTER_CPU = 2 };
enum { FILTER_CODE_MAX = 256 };
int filter_load(enum filter_thread who, struct err *e);
/* The same as a program, for a test: how many instructions. */
unsigned filter_make(enum filter_thread who, struct sock_filter ret[FILTER_CODE_MAX]);
/* Host calls that any of the threads may make. */
unsigned filter_calls(void);

/* jail.c: the walls around the calling process, for good; it is user @id of the host from then on
 * (0: the same as before). */
int vmjail_enter(struct trail *trail, uint32_t id, struct err *e);
/* Closes all but stdio and @fds, of which some may be -1; sorts them. */
int vmjail_keep_only(int *fds, unsigned count, struct err *e);

/* steer.c: ward's hand on the monitor and the agent. */
int steer_pause(struct vmbox *v, void (*meanwhile)(void *arg), void *arg, struct err *e);
int steer_resume(struct vmbox *v, struct err *e);
int steer_snapshot(struct vmbox *v, const struct snap *into, unsigned flags,
	void (*meanwhile)(void *arg), void *arg, struct err *e);
/* The guest does with @limit bytes of its memory from now on. -EBUSY: it does not. */
int steer_memory(struct vmbox *v, uint64_t limit, struct err *e);
/* Which pages it needed first, into the state file that it goes on from. */
int steer_note_touched(struct vmbox *v, struct err *e);
/* The first words for a copy: who it is. */
int steer_renew(struct vmbox *v, struct err *e);

/* order.c: the plan as an order, its descriptors apart. */
int order_fill(struct vmbox *v, struct err *e);
void order_close(struct order *o);
/* To a monitor that waits, with what it goes on from. */
int order_send(const struct vmbox *v, struct err *e);
/* Waits for one; the monitor's side. @ret_state, of what it goes on from, is the caller's, or NULL.
 * -ENOTCONN: nobody will send one any more. */
int order_receive(int control, struct order *ret, void **ret_state, struct touched *ret_touched,
	struct err *e);

/* monitor.c: the first process; never returns. */
void monitor_main(struct box *box, int channel) __attribute__((noreturn));

#endif
