/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SHIM_SHIM_H
#define WARD_TIER_KERNEL_SHIM_SHIM_H

#include <stdint.h>

/*
 * What the shim and the kernel process say to each other. The shim is not trusted: it runs in the
 * guest's own process and the guest may write over all of this. Nothing here may hurt anyone but
 * the guest that does so.
 *
 *   SHIM_BASE   code, mapped read and execute at the same low address in every guest process
 *   SLOT_BASE   one slot per thread, aligned to its size: the first bytes are struct slot, the rest
 *               is the stack that host signals arrive on. A handler finds its slot by masking the
 *               address of its own frame.
 */
#define SHIM_BASE 0x100000UL
#define SHIM_SIZE 0x5000UL
#define SHIM_SHARED (SHIM_BASE + SHIM_SIZE) /* zygote and blank only, see shim.c */
#define SLOT_BASE 0x7d0000000000UL
#define SLOT_SIZE 0x8000UL
#define SLOT_COUNT 8192UL
#define SLOT_OF(addr) ((addr) & ~(SLOT_SIZE - 1))
#define SLOT_TOP(slot) ((slot) + SLOT_SIZE)
#define SLOT_DATA 0x1800UL /* struct slot; above it the stack */

/* SIGURG, which nobody sends: a signal without a queue is never refused for being one too many. */
#define KICK_SIGNAL 23

/*
 * Call sites that are answered in place. Where libc has "mov $nr, %eax; syscall" and the same
 * answer is asked for again and again, the kernel process puts "jmp *slot" over the mov. All slots
 * lie at 0x050fXXXX, so that the last two bytes of the jump are 0f 05, which are the syscall that
 * was there: who jumps to it, or was between the two, still finds it, and so does the stub when it
 * has no answer. The stub has two registers of its own (a call destroys rcx and r11), keeps the
 * flags, and never touches the guest's stack.
 *
 *   PLACE_BASE     a table of pointers to stubs, then sites, then the stubs' own state, then sites
 *                  that make any call (syscall(2)) and what they were told, then the dispositions
 *                  of signals: private, of this process
 *   PLACE_AGE      a page that only the kernel process can write: it counts whatever may change an
 *                  answer; one that was given at another age is none
 *   PLACE_ANSWERS_AT   behind it, and nobody else's to write either: what was asked by path, in the
 *                  whole sandbox
 *   PLACE_LOG_AT   where some have a memory that they share with the kernel process: calls that
 *                  were answered here and are made later (trap/later.h)
 *   PLACE_CARRY_AT another one, that every new image has: what a call reads and writes goes this
 *                  way (trap/carry.h)
 */
#define PLACE_BASE 0x50f0000
#define PLACE_SITES_AT 0x50f0400
#define PLACE_STATE 0x50f0c00
#define PLACE_VIEW (PLACE_STATE + 52)
#define PLACE_ANY_AT 0x50f0d00
#define PLACE_VALUES_AT 0x50f0e00
#define PLACE_SIGNALS_AT 0x50f1000
#define PLACE_FDS_AT 0x50f2000
#define PLACE_TEXT_AT 0x50f6000 /* the first bytes of files that are open */
#define PLACE_AGE 0x50ff000
#define PLACE_ANSWERS_AT 0x5100000
#define PLACE_SHARED_END 0x51b0000
#define PLACE_STACK_AT 0x51b0000 /* of what answers in C; its end is the log */
#define PLACE_LOG_AT 0x51b1000
#define PLACE_LOG_SIZE 0x9000
#define PLACE_CARRY_AT 0x51ba000
#define PLACE_CARRY_SIZE 0x3000
#define PLACE_SIZE 0xcd000
#define PLACE_STUB 16 /* bytes of one */
/* What every guest process has of ours. */
#define SHIM_OURS (SLOT_SIZE * SLOT_COUNT + SHIM_SIZE + PLACE_SIZE)
enum {
	PLACE_SITES = 64,
	PLACE_ANSWERS = 2048, /* by the upper 11 bits of the hash, as far as in use; or beside it */
	PLACE_PATH_MAX = 160, /* the longest, without its end, is one shorter */
	PLACE_DATA_MAX = 144, /* struct stat */
	PLACE_TEXT = 0x9000,
	PLACE_SIGNALS = 64,
	PLACE_FDS = 64, /* descriptors from 0 on */
	PLACE_VALUES = 16
};
enum {
	PLACE_VALUE,
	PLACE_PATH,     /* (path, result) */
	PLACE_PATH_ARG, /* (path, what else counts) */
	PLACE_AT,       /* (directory, path) */
	PLACE_AT_ARG,   /* (directory, path, result, what else counts); also fstat */
	PLACE_OPEN,     /* (directory, path, what else counts) */
	PLACE_SIGNAL,   /* rt_sigaction */
	PLACE_FSTAT,    /* (descriptor, result) */
	PLACE_IOCTL,    /* (descriptor, TCGETS) */
	PLACE_LSEEK,    /* (descriptor, 0, SEEK_CUR) */
	PLACE_READ,     /* (descriptor, buffer, length) */
	PLACE_CLOSE,    /* (descriptor) */
	PLACE_MMAP,     /* (address, length, protection, flags, descriptor, offset) */
	PLACE_DENTS,    /* (descriptor), a directory that was listed to its end */
	/* Made later, as some closes are: */
	PLACE_LOCK,  /* fcntl: (descriptor, F_SETLK or F_SETLKW, struct flock) */
	PLACE_PREAD, /* what was read there before; or what the host has */
	PLACE_PWRITE,
	PLACE_SYNC,
	/* In C too: */
	PLACE_CLOCK, /* clock_gettime */
	PLACE_MADE,  /* always made, but carried */
	/* PLACE_OPEN, where the jump lies over "mov $AT_FDCWD, %edi" */
	PLACE_OPEN_CWD
};
/* The counters in PLACE_AGE. */
enum {
	AGE_WHO,     /* who a process is */
	AGE_STILL,   /* names in directories where none has changed; and what may be done there */
	AGE_NAMES,   /* names in the others */
	AGE_SIGNALS, /* dispositions, other than by rt_sigaction */
	AGE_FILES,   /* what stat says of any file */
	AGE_COUNT,
	AGE_NEVER, /* stays as it is */
	AGE_MASK,  /* no age: how much of the table of answers is in use, less one */
	/* From here on two for a process, shared by those whose numbers differ by AGE_PROCS: its
	 * descriptors; the positions of its files. */
	AGE_PROC = 16,
	AGE_PROCS = 248
};

struct place_site {
	uint64_t ret; /* the instruction behind the syscall */
	uint32_t nr, kind;
	uint64_t age; /* PLACE_VALUE: when it was so */
	int64_t value;
};

/*
 * Sites that make any call, at PLACE_ANY_AT, one for each shape of the code before the syscall. The
 * jump goes over instructions that the stub makes good. @nr and @kind of these are the stub's own.
 */
enum {
	ANY_GLIBC,   /* syscall() of glibc */
	ANY_MUSL_CP, /* what musl makes its cancellation points with */
	ANY_MUSL,    /* syscall() of musl */
	ANY_SHAPES
};

/* What such a site gets for PLACE_VALUE, by the lower bits of the number: no two share them. */
struct place_value {
	uint32_t nr, pad;
	uint64_t age;
	int64_t value, pad2;
};

/* Written by the kernel process while guests read: who finds an odd stamp, or another one at the
 * end, has read nothing. */
struct place_answer {
	uint64_t age;
	uint32_t nr, arg, hash, len;
	int64_t value;
	uint32_t view;     /* whose: as PLACE_VIEW */
	uint16_t age_at;   /* which age, in bytes from PLACE_AGE */
	uint16_t data_len; /* what is written to the caller's result; 0: nothing */
	uint32_t stamp, pad;
	char path[PLACE_PATH_MAX];
	uint8_t data[PLACE_DATA_MAX];
};

/*
 * An open file. Ages are given by where they are, in bytes from PLACE_AGE, and what they were. What
 * follows the first line is as old as positions: it is lent. The stub moves @pos and says @closed;
 * the kernel process reads both before anything else that this process asks for, and does what they
 * say: no more than lseek and close would.
 */
struct place_fd {
	uint64_t age, stat_age, pos_age;
	uint32_t age_at, stat_age_at, pos_age_at;
	uint32_t knows; /* FD_* */
	int64_t pos, size;
	uint32_t text_at, text_len; /* its first bytes, all of them where text_len is size */
	uint32_t closed, pad;
	uint8_t stat[PLACE_DATA_MAX];
};
enum {
	FD_STAT = 1,
	FD_NO_TTY = 2,
	FD_POS = 4,
	FD_TEXT = 8,    /* can be read here */
	FD_CLOSE = 16,  /* can be closed here */
	FD_MAPPED = 32, /* the host's copy is at the same number: mmap needs nobody */
	FD_END = 64,    /* there are no more entries */
	FD_NATIVE = 128 /* the host's copy can be read by that number while stat holds */
};

struct place_signals {
	uint64_t act[PLACE_SIGNALS][4]; /* as rt_sigaction gives them */
	uint8_t known[PLACE_SIGNALS];
	uint64_t age;
	/* A child of vfork sets what is the default to the default: one after the other, before
	 * each exec. Nobody but itself could ask for the difference, so the kernel process looks
	 * here before it answers that. */
	uint64_t may_set, set; /* set: one bit each */
};
#define PLACE_SA_RESTORER 0x04000000UL /* the only flag of these */
/* Not by the stub: KILL and STOP cannot be set; CHLD, CONT, URG and WINCH forget what is pending.
 */
#define PLACE_SIGNALS_NEVER (1UL << 8 | 1UL << 18 | 1UL << 16 | 1UL << 17 | 1UL << 22 | 1UL << 27)

/* What a stub keeps while it runs. */
struct place_state {
	uint32_t busy, threads;
	uint64_t rdi, rsi, rdx, flags, site; /* flags: al, ah; site: its offset */
	uint32_t stamp, view, hash;
	uint32_t log;               /* a log is mapped */
	uint64_t read_pos, read_at; /* of a read: where it began, and where that stands, or 0 */
	uint64_t rsp, rbx, rbp, r8, r9, r10, r12, r13, r14, r15;
	uint64_t head, next; /* of the log, before and after; 0: nothing is made later */
	uint64_t clock;      /* where clock_gettime of the vdso is, as AGE_WHO was then */
	uint64_t clock_age;
	uint32_t carry; /* there is a memory for it */
	uint32_t back;  /* the call was made, and what it gave is being copied */
	uint64_t ret;   /* and said this */
	uint64_t lent;  /* what the kernel process has lent, and maybe more: one bit each */
};

/* What may be answered for a descriptor, and the calls that lie in a log. */
enum { LATER_LOCK = 1, LATER_WRITE = 2, LATER_SYNC = 4, LATER_READ = 8, LATER_CLOSE = 16 };
enum {
	LATER_LOG_BYTES = 0x8000,
	LATER_WRITE_MAX = 8192, /* bytes of one */
	LATER_COST_MAX = 256,   /* of all that lie there: a lock costs 1 */
	LATER_WRITE_COST = 4,
	LATER_READS = 4,
	LATER_READ_MAX = 512,
	LATER_FDS = 16,       /* descriptors from 0 on */
	LATER_CLOSED = 0xffff /* as the cost: nothing can be added */
};
#define LATER_OFFSET_MAX (1LL << 40) /* a write behind it is made at once */

struct later_entry {
	uint8_t op, fd;
	uint16_t type; /* of a lock */
	uint32_t len;  /* of the bytes that follow, filled up to 8 */
	int64_t at;
	int64_t count; /* of a lock; or when, by the processor's counter */
};

/* Written by the kernel process while the guest waits in that very read. */
struct later_read {
	uint64_t age; /* AGE_FILES then */
	int64_t at, value;
	uint32_t fd, len; /* len: asked for; 0: nothing here */
	uint8_t data[LATER_READ_MAX];
};

/*
 * The log, in a memory that the guest and the kernel process can both write. @head is the number of
 * times that it was opened (upper half), the cost of what lies there (16 bits) and its length in
 * units of 8 bytes (16 bits). The guest adds by one compare-and-swap; the kernel process takes all
 * by one exchange, which closes it. So neither waits for the other, and what the guest has not
 * added by then it never will: it makes the call.
 */
struct place_log {
	uint64_t head;
	uint16_t may[LATER_FDS]; /* LATER_*, by descriptor */
	struct later_read reads[LATER_READS];
	uint8_t entries[LATER_LOG_BYTES] __attribute__((aligned(4096)));
};

/*
 * Calls that are made at a changed site, with what they read and write beside them, so that the
 * kernel process need not reach into another process for it. The guest copies what the call reads
 * to @in before it, and says where the call may write; the kernel process leaves there, or in the
 * tables above, by leaving it in @data: behind the call the guest copies that. Arguments are what
 * they always are, and whatever is not here is fetched from where it lies.
 */
enum {
	CARRY_IN = 2048,
	CARRY_DATA = 8192,
	CARRY_ROOM = 4096, /* of what a call may write, from its begin */
	CARRY_OUTS = 8,
	CARRY_LENT = 8
};
struct place_carry {
	uint64_t ip; /* behind the site's syscall */
	uint64_t in_at, room_at;
	uint32_t in_len, room_len;
	uint64_t lent; /* which files the next are of, in order */
	struct {
		int64_t pos;
		uint64_t closed;
	} files[CARRY_LENT];
	uint32_t outs, pad; /* from here on the kernel process writes */
	struct {
		uint64_t at;
		uint32_t len, from; /* in @data */
	} out[CARRY_OUTS];
	uint8_t in[CARRY_IN];
	uint8_t data[CARRY_DATA] __attribute__((aligned(4096)));
};

#define PLACE_HASH_START_ 0x811c9dc5
#define PLACE_HASH_TIMES_ 0x01000193

/* What the zygote is asked for: a blank, or one that shares PLACE_CARRY_AT with us. */
enum { ZYGOTE_BLANK = 'b', ZYGOTE_CARRY = 'c' };

/*
 * The shim's own calls. They arrive like any other, so also from hostile code: each is harmless
 * from anyone, at any time, twice. -ENOSYS means that nobody listens any more: the shim exits.
 */
enum {
	SHIM_CALL_FIRST = 0x1000,
	SHIM_BLANK = 0x1000, /* a blank waits for its image */
	SHIM_ASK,            /* kicked: is there an order? */
	SHIM_FAULT,          /* (slot, FAULT_*, signal, mask) a host fault, described in the slot */
	SHIM_HELLO,          /* (token, slot) a new task is there */
	SHIM_FORKED,         /* (token, result) the parent's side of a clone: failed, or vfork */
	SHIM_SIGRETURN,      /* (mask, sp, flags, size) -> address of the slot */
	SHIM_EXEC_FAILED,    /* (step) the image could not be mapped */
	SHIM_STOP,           /* (frame, fs, gs) told to stop: here are the registers */
	SHIM_CALL_END,
};

/* What SHIM_ASK, SHIM_FAULT and SHIM_FORKED say: SHIM_STOP comes first; not a step of the guest's.
 */
enum { SHIM_STOP_NOW = 1, SHIM_STEP_OFF = 2 };

enum {
	FAULT_GUEST,
	FAULT_SHIM,  /* in the shim itself: nothing can go on */
	FAULT_FRAME, /* no room for a handler's frame: its signal, and the mask before it */
};

enum {
	ORDER_NONE,
	ORDER_SIGNAL,    /* run a handler */
	ORDER_CLONE,     /* make a task */
	ORDER_EXEC,      /* a blank: map the image and jump */
	ORDER_SIGRETURN, /* rt_sigreturn from an address that is not ours */
	ORDER_EXIT,      /* this thread: clear the word, wake, exit */
	ORDER_RUN,       /* native calls, one after the other; the result of the last in rax */
	ORDER_LOG,       /* the same, after which there is a log; rax stays */
};

/* One native call of ORDER_EXEC and ORDER_RUN. STEP_ZERO clears a[1] bytes at a[0], STEP_COPY
 * brings a[2] bytes from a[1] there; STEP_VALUE makes a[0] the result. */
struct shim_step {
	int64_t nr;
	uint64_t a[6];
};
enum { STEP_ZERO = -1, STEP_COPY = -2, STEP_VALUE = -3, STEPS_MAX = 64 };

/* No call is made again; and what the host would make again ends with EINTR. */
enum { RESTART_NONE = -1, RESTART_NEVER = -2 };

struct shim_signal {
	uint64_t handler, mask, sig;
	uint64_t alt_sp, alt_size, alt_flags; /* the guest's alternate stack */
	uint64_t on_alt;                      /* SA_ONSTACK */
	int64_t restart;                      /* call number to make again, or RESTART_* */
	uint8_t info[128];
};

struct shim_clone {
	uint64_t flags; /* host flags */
	uint64_t stack; /* the child's stack pointer, 0: as the parent's */
	uint64_t tls, ctid;
	uint64_t slot; /* the child's, when memory is shared */
	uint64_t token;
	int64_t tid;   /* what the parent's call returns */
	uint64_t wait; /* vfork: ask before going on */
	uint64_t log;  /* the parent shares memory with us, a child in one of its own does not */
};

struct shim_exec {
	uint64_t rip, rsp;
	uint64_t map[14]; /* struct prctl_mm_map, for PR_SET_MM */
};

struct slot {
	uint32_t order, more;
	union {
		struct shim_signal signal;
		struct shim_clone clone;
		struct shim_exec exec;
		struct {
			uint64_t word; /* ORDER_EXIT: clear_child_tid */
		} exit;
	};
	uint64_t step_count;
	struct shim_step steps[STEPS_MAX];
	struct {
		uint32_t sig, pad;
		uint64_t trapno, error, cr2, rip, rsp;
		uint8_t info[128];
	} fault;
};

/* At the start of the blob. */
struct shim_head {
	uint64_t handler;       /* every host signal */
	uint64_t host_restorer; /* for the host's own frames */
	uint64_t restorer;      /* what guest frames return to */
	uint64_t restorer_ip;   /* rip of its call: answered 0 by the filter */
	uint64_t sigreturn_ip;  /* rip of the native rt_sigreturn calls */
	uint64_t sigreturn2_ip;
	uint64_t zygote;          /* entry of the zygote */
	uint64_t stubs;           /* PLACE_SITES of them, PLACE_STUB bytes each */
	uint64_t any[ANY_SHAPES]; /* stubs of sites that make any call */
	uint64_t carried_ip;      /* rip of the calls that are carried */
};

#endif
