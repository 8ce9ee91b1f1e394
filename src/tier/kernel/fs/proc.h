/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_PROC_H
#define WARD_TIER_KERNEL_FS_PROC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "tier/kernel/vfs/dentry.h"

/*
 * procfs. Directories are const tables of entries; a text is made when its file is opened, so a
 * reader sees one moment. Nothing of the host's /proc shows, except what the table's functions say.
 */
struct cred;
struct kernel;
struct task;
struct file;
struct pid_ns;

enum { PROC_TEXT_MAX = 4 << 20 };

/* For whom and about whom. */
struct proc_ctx {
	struct kernel *k;
	struct task *reader;       /* NULL while a listing asks for types only */
	struct task *t;            /* the process or thread that it is about; NULL: the machine */
	int fd;                    /* below fd/ and fdinfo/ */
	const struct pid_ns *view; /* whose numbers this /proc has */
	const struct cred *opened; /* writing: who opened the file */
};

enum proc_dir { PROC_TABLE, PROC_TASKS, PROC_FDS, PROC_FDINFOS };

struct proc_entry {
	const char *name;
	uint32_t mode;
	const char *text; /* what it always says; or */
	void (*show)(const struct proc_ctx *c, struct buf *out);
	int (*write)(const struct proc_ctx *c,
		char *text); /* NULL: a @text is kept where @mode allows; others forget */
	/* Before a @text is kept: may it be? Negative: no; above 0: the old one comes back. */
	int (*check)(const struct proc_ctx *c, const char *text);
	/* links */
	ssize_t (*link)(const struct proc_ctx *c, char *buf, size_t cap);
	int (*follow)(const struct proc_ctx *c, struct path *ret);
	/* directories */
	enum proc_dir kind;
	const struct proc_entry *entries;
	unsigned count;
	bool private;         /* for who may look into the process only */
	bool mounts;          /* who polls it hears of mounts */
	bool maps;            /* answers PROCMAP_QUERY */
	bool once;            /* a write is all of it: at the start, less than a page */
	bool memory, pagemap; /* no text: the process's memory, or where its pages are */
};

/* One with the numbers of @view (NULL: the first); NULL: no memory. */
struct super *proc_create(struct kernel *k, struct pid_ns *view);
/* Whose numbers @sb has, if it is one; else NULL. */
struct pid_ns *proc_view(const struct super *sb);

/* Of an open directory /proc/PID: PID, or -ESRCH when that process is gone; 0: it is none. */
int32_t proc_dir_pid(const struct file *f);

/* proc_pid.c */
extern const struct proc_entry proc_pid_entry, proc_tid_entry, proc_fd_link, proc_fdinfo_file;
/* proc_machine.c */
extern const struct proc_entry proc_machine[];
extern const unsigned proc_machine_count;
struct proc_ram {
	uint64_t total, free; /* bytes */
};
/* The sandbox's memory, as meminfo and sysinfo(2) tell it. */
struct proc_ram proc_ram(struct kernel *k);
/* proc_ns.c */
enum { PROC_NS_COUNT = 10 };
extern const struct proc_entry proc_ns_entries[PROC_NS_COUNT];
void proc_show_uid_map(const struct proc_ctx *c, struct buf *out);
void proc_show_gid_map(const struct proc_ctx *c, struct buf *out);
void proc_show_projid_map(const struct proc_ctx *c, struct buf *out);
void proc_show_setgroups(const struct proc_ctx *c, struct buf *out);
int proc_write_uid_map(const struct proc_ctx *c, char *text);
int proc_write_gid_map(const struct proc_ctx *c, char *text);
int proc_write_projid_map(const struct proc_ctx *c, char *text);
int proc_write_setgroups(const struct proc_ctx *c, char *text);
/* proc_config.c */
void proc_show_config(const struct proc_ctx *c, struct buf *out);
/* /proc/mounts of @t */
void proc_show_mounts(const struct proc_ctx *c, struct buf *out);

/* proc_host.c: what only the host knows of a process. */
struct proc_memory {
	uint64_t size, resident, shared, text, data; /* pages */
};
/* One mapping of a guest, the shim's own left out. */
struct proc_range {
	uint64_t from, to;
	bool readable, writable, stack, executable, shared;
	bool time; /* the host's own: where its clock is read */
	bool file; /* something else is behind it; also anonymous memory that is shared */
	uint64_t dev, ino, offset; /* the host's names for that; where in it */
	/* proc_host_each_used() only: */
	uint64_t store_id; /* ours, when it is a file of the store */
	uint64_t used_kb;
};
/* All of them, in order; the first answer of @fn that is not 0 ends it and is returned. */
int proc_host_each(struct task *t, int (*fn)(void *arg, const struct proc_range *r), void *arg);
/* The same, with how much of it is there at all; -ESRCH: the host says nothing, -EOVERFLOW: too
 * much. */
int proc_host_each_used(
	struct task *t, int (*fn)(void *arg, const struct proc_range *r), void *arg);
uint64_t proc_host_locked(struct task *t); /* bytes */
/* What all of them have in memory, in bytes; what they share is counted for each. */
uint64_t proc_host_used(struct kernel *k);
void proc_host_smaps(struct task *t, struct buf *out);
void proc_host_maps(struct task *t, struct buf *out); /* /proc/PID/maps, in the guest's words */
/* proc_query.c: PROCMAP_QUERY of @about's maps, asked by @t. */
long proc_maps_query(struct task *about, struct task *t, uint64_t arg);
/* proc_mem.c: @f becomes the memory of @about, or what is known of its pages. */
int proc_mem_open(struct file *f, struct task *reader, struct task *about, bool pages);
/* Does it wait in a call that the host makes for it (a futex)? */
bool proc_host_sleeps(const struct task *t);
void proc_host_memory(struct task *t, struct proc_memory *ret);
void proc_host_times(struct task *t, bool whole_process, uint64_t *user_ns, uint64_t *system_ns);

#endif
