/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk/files.c - open files, tables of descriptors and places, saved and built again.
 *
 * Owns:  the files that stand where a host's, or one of a process that is gone, was.
 * Rules: all files are made before any of them is filled: they point at each other. Whoever points
 *        at a file takes a reference of its own; the walk's go with the walk. What is loaded is as
 *        hostile as anything: a file is what its inode makes of it, or what its own walk made.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/io/epoll.h"
#include "tier/kernel/io/event.h"
#include "tier/kernel/io/fanotify.h"
#include "tier/kernel/io/inotify.h"
#include "tier/kernel/io/pipe.h"
#include "tier/kernel/ipc/ipc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/sock/sock.h"
#include "tier/kernel/task/listener.h"
#include "tier/kernel/task/treewalk.h"
#include "tier/kernel/tty/tty.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/guestmount.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/lease.h"
#include "tier/kernel/vfs/limits.h"
#include "tier/kernel/vfs/lock.h"
#include "tier/kernel/vfs/ops.h"
#include "tier/kernel/vfs/pidfd.h"
#include "tier/kernel/walk.h"
#include "tier/kernel/walk/files.h"
#include "tier/kernel/walk/names.h"

/* O_* that a file may have: what open leaves, and FILE_RUNS. */
enum { FLAGS_KNOWN = 037777777 };
enum how { HOW_PATH, HOW_REOPENED, HOW_LOST, HOW_MADE };

static const struct file_ops *const made[] = {
#define MADE(ops) &ops,
#include "tier/kernel/walk/kinds.def"
};

static const struct {
	const char *name;
	bool walks;
} kinds[] = {
#define MADE(ops) { #ops, true },
#define REOPENED(ops, where) { #ops, false },
#define LOST(ops, where) { #ops, false },
#include "tier/kernel/walk/kinds.def"
};

unsigned file_kinds(void)
{
	return ARRAY_LEN(kinds);
}

const char *file_kind_name(unsigned n)
{
	return kinds[n].name;
}

bool file_kind_walks(unsigned n)
{
	return !kinds[n].walks || (n < ARRAY_LEN(made) && made[n]->walk);
}

/* What stands where it was. */
static unsigned lost_poll(struct file *f, struct poll_reg *reg)
{
	return POLLERR | POLLHUP;
}

static const struct file_ops lost_ops = { .name = "lost", .flags = FILE_STREAM, .poll = lost_poll };

bool file_is_lost(const struct file *f)
{
	if (f->ops == &lost_ops)
		return true;
	for (size_t i = 0; i < ARRAY_LEN(made); i++)
		if (f->ops == made[i])
			return false;
	/* Without a name there is no way to open it again. */
	return !f->path.dentry || name_is_lost(f->k, f->path.dentry);
}

static uint32_t how_of(const struct file *f)
{
	for (size_t i = 0; i < ARRAY_LEN(made); i++)
		if (f->ops == made[i])
			return (uint32_t)(HOW_MADE + i);
	if (file_is_lost(f))
		return HOW_LOST;
	return f->ops == &path_only_ops ? HOW_PATH : HOW_REOPENED;
}

static void drop_file(void *f)
{
	file_unref(f);
}

static void owner_walk(struct file *f, struct walk *w)
{
	walk_i32(w, "owner_type", &f->owner_type);
	walk_i32(w, "owner_pid", &f->owner_pid);
	walk_i32(w, "owner_sig", &f->owner_sig);
	walk_i32(w, "owner_fd", &f->owner_fd);
	walk_bool(w, "quiet", &f->quiet);
	walk_u32(w, "owner_uid", &f->owner_uid);
	walk_u32(w, "owner_euid", &f->owner_euid);
	if (f->owner_sig < 0 || f->owner_sig > GSIG_MAX) {
		f->owner_sig = 0;
		walk_fail(w, -EBADMSG);
	}
}

/* Kept in file.version until it is filled: how. */
static struct file *make_file(struct kernel *k, uint32_t flags, struct inode *i, struct walk *w)
{
	struct file *f;

	i = i ? inode_ref(i) : inode_anon(k, 0600); /* a lost one has none */
	f = i ? file_create(k, NULL, flags, i, NULL) : NULL;
	if (!f) {
		inode_unref(i);
		walk_fail(w, -ENOMEM);
		return NULL;
	}
	walk_keep(w, f, drop_file);
	return w->err ? NULL : f;
}

static void file_walk(struct kernel *k, struct file *f, struct walk *w)
{
	uint32_t how = f ? how_of(f) : 0, flags = f ? f->flags : 0;
	bool lost = how == HOW_LOST;
	struct inode *i = f && !lost ? f->inode : NULL;
	struct cred *c = f && !lost ? f->cred : NULL;
	struct path p = f && !lost ? f->path : (struct path){ NULL, NULL };
	bool counted = f && !lost && f->counted;
	uint32_t refused = f && !lost ? f->refused : 0;
	int64_t pos = f ? f->pos : 0;

	walk_count(w, "how", &how, HOW_MADE + (uint32_t)ARRAY_LEN(made) - 1);
	walk_count(w, "flags", &flags, FLAGS_KNOWN);
	walk_ref(w, "inode", WALK_INODE, (void **)&i);
	walk_ref(w, "cred", WALK_CRED, (void **)&c);
	walk_i64(w, "pos", &pos);
	walk_bool(w, "counted", &counted);
	walk_u32(w, "refused", &refused);
	path_walk(&p, w);
	if (w->mode == WALK_LOAD && !w->err) {
		lost = how == HOW_LOST;
		/* mq_open() takes O_PATH along: then there is a queue that cannot be used. */
		if (lost != !i ||
			(how < HOW_MADE && (how == HOW_PATH) != ((flags & O_PATH) != 0)) ||
			(p.dentry && p.dentry->inode != i) || (!p.dentry && how < HOW_LOST) ||
			(counted && !p.dentry) || pos < 0 ||
			(refused & ~(uint32_t)(LANDLOCK_TRUNCATE | LANDLOCK_IOCTL_DEV)))
			walk_fail(w, -EBADMSG);
		f = w->err ? NULL : make_file(k, flags, i, w);
	}
	if (w->mode == WALK_LOAD) {
		if (!f) {
			if (p.dentry)
				path_unref(p);
			return;
		}
		f->path = p;
		f->pos = pos;
		f->refused = refused;
		f->cred = c ? cred_ref(c) : NULL;
		f->version = (uint64_t)how << 1 | counted;
		walk_number(w, WALK_FILE, f);
	}
	owner_walk(f, w);
}

void files_make_walk(struct kernel *k, struct walk *w)
{
	uint32_t n = walk_count_of(w, WALK_FILE);

	walk_list(w, "files", &n, GUEST_FILES_MAX);
	for (uint32_t i = 1; i <= n && !w->err; i++)
		file_walk(k, w->mode == WALK_SAVE ? walk_get(w, WALK_FILE, i) : NULL, w);
}

/* As vfs_open_path() counts. */
static void count(struct file *f)
{
	f->counted = true;
	f->inode->opens++;
	f->inode->write_opens += file_writable(f);
	f->path.mnt->writers += file_writable(f);
	if (f->flags & FILE_RUNS)
		f->inode->writers--;
}

static int reopen(struct kernel *k, struct file *f)
{
	struct inode *i = f->inode;
	int r = i->ops->open ? i->ops->open(i, f, k->init->tasks) : -ENXIO;

	if (r < 0)
		f->ops = NULL;
	return r == -ENOMEM || r == -ENFILE ? r : r < 0 ? -EBADMSG : 0;
}

/* Sets ops and priv; f->ops stays NULL when there is nothing to release. */
static void file_load(struct kernel *k, struct file *f, struct walk *w)
{
	uint32_t how = (uint32_t)(f->version >> 1);
	bool counted = f->version & 1;
	int r = 0;

	f->version = 0;
	if (how == HOW_PATH) {
		f->ops = &path_only_ops;
	} else if (how == HOW_LOST) {
		f->ops = &lost_ops;
		f->priv = f; /* epolls may go on watching it */
	} else if (how == HOW_REOPENED) {
		r = reopen(k, f);
	} else if (made[how - HOW_MADE] == &epoll_ops) {
		r = epoll_prepare(f);
	} else {
		f->ops = made[how - HOW_MADE];
		f->ops->walk(f, w);
		if (!f->priv) {
			f->ops = NULL;
			walk_fail(w, -EBADMSG);
		}
	}
	walk_fail(w, r);
	if (!w->err && counted)
		count(f);
	else if (f->flags & FILE_RUNS) {
		f->flags &= ~(unsigned)FILE_RUNS;
		walk_fail(w, -EBADMSG);
	}
	if (!w->err && how == HOW_REOPENED && f->ops->walk)
		f->ops->walk(f, w);
}

void files_fill_walk(struct kernel *k, struct walk *w)
{
	for (uint32_t i = 1; i <= walk_count_of(w, WALK_FILE) && !w->err; i++) {
		struct file *f = walk_get(w, WALK_FILE, i);
		uint64_t version = f->version;

		if (w->mode == WALK_LOAD) {
			file_load(k, f, w);
		} else if (!file_is_lost(f)) {
			if (f->ops->walk && f->ops != &epoll_ops)
				f->ops->walk(f, w);
		}
		walk_u64(w, "version", &version);
		if (w->mode == WALK_LOAD)
			f->version = version;
	}
}

void files_watch_walk(struct kernel *k, struct walk *w)
{
	for (uint32_t i = 1; i <= walk_count_of(w, WALK_FILE) && !w->err; i++) {
		struct file *f = walk_get(w, WALK_FILE, i);

		dnotify_walk(f, w);
		if (f->ops == &epoll_ops)
			f->ops->walk(f, w);
		else if (w->mode == WALK_LOAD && (f->flags & O_ASYNC))
			file_set_async(f, f->owner_fd);
	}
}

/* Tables */

static void drop_table(void *p)
{
	files_unref(NULL, p);
}

static void drop_place(void *p)
{
	fs_ctx_unref(p);
}

static int slot_set(struct files *fs, uint32_t fd, struct file *f, bool cloexec)
{
	int r = files_room(fs, fd + 1);

	if (r < 0)
		return r;
	if (fs->slots[fd].file)
		return -EBADMSG;
	fs->slots[fd] = (struct fd_slot){ .file = file_ref(f), .cloexec = cloexec };
	return 0;
}

static void table_walk(struct files *fs, struct walk *w)
{
	uint32_t n = 0, next = fs->next, fd = 0;

	for (unsigned i = 0; i < fs->cap; i++)
		n += fs->slots[i].file != NULL;
	walk_list(w, "descriptors", &n, GUEST_FDS_MAX);
	for (; n > 0 && !w->err; n--, fd++) {
		struct file *f = NULL;
		bool cloexec = false;

		if (w->mode == WALK_SAVE) {
			while (!fs->slots[fd].file)
				fd++;
			f = fs->slots[fd].file;
			cloexec = fs->slots[fd].cloexec;
		}
		walk_count(w, "fd", &fd, GUEST_FDS_MAX - 1);
		walk_need(w, "file", WALK_FILE, (void **)&f);
		walk_bool(w, "cloexec", &cloexec);
		if (w->mode == WALK_LOAD && !w->err)
			walk_fail(w, slot_set(fs, fd, f, cloexec));
	}
	/* No free one lies below: a promise that is made again rather than believed. */
	for (next = 0; next < fs->cap && fs->slots[next].file; next++)
		;
	if (w->mode == WALK_LOAD)
		fs->next = next;
}

static void place_walk(struct kernel *k, struct fs_ctx *fs, struct walk *w)
{
	struct path home = { k->root_mount, k->root_mount->root };
	struct path root = fs->root, cwd = fs->cwd;

	if (w->mode == WALK_SAVE && name_is_lost(k, root.dentry))
		root = home;
	if (w->mode == WALK_SAVE && name_is_lost(k, cwd.dentry))
		cwd = home;
	path_walk(&root, w);
	path_walk(&cwd, w);
	walk_count(w, "umask", &fs->umask, 0777);
	if (w->mode == WALK_SAVE)
		return;
	if (!root.dentry || !cwd.dentry || !S_ISDIR(root.dentry->inode->mode) ||
		!S_ISDIR(cwd.dentry->inode->mode))
		walk_fail(w, -EBADMSG);
	fs->root = root.dentry ? root : path_ref(home);
	fs->cwd = cwd.dentry ? cwd : path_ref(home);
}

/* A file that a blocked call goes on with, also when its number is another's by now. */
static void held_walk(struct task *t, struct walk *w)
{
	struct call *c = &t->call;
	struct file *f = call_held(t);
	int32_t fd = f ? c->held_fd : 0;

	if (!c->active)
		return;
	walk_ref(w, "held", WALK_FILE, (void **)&f);
	walk_i32(w, "held_fd", &fd);
	if (w->mode == WALK_SAVE || !f || w->err)
		return;
	c->held = file_ref(f);
	c->held_fd = fd;
}

/* Whoever lives has all of it; who is dead may have lost it. */
static void task_tables_walk(struct task *t, struct walk *w)
{
	struct files *files = t->files;
	struct fs_ctx *fs = t->fs;
	struct mm *mm = t->mm;

	held_walk(t, w);
	walk_ref(w, "files", WALK_FILES, (void **)&files);
	walk_ref(w, "fs", WALK_FS, (void **)&fs);
	walk_ref(w, "mm", WALK_MM, (void **)&mm);
	if (w->mode == WALK_SAVE || w->err)
		return;
	t->files = files ? files_ref(files) : NULL;
	t->fs = fs ? fs_ctx_ref(fs) : NULL;
	t->mm = mm ? mm_ref(mm) : NULL;
	if (t->state != TASK_DEAD && (!files || !fs || !mm))
		walk_fail(w, -EBADMSG);
}

static void *make_kept(struct walk *w, void *p, enum walk_kind kind, void (*drop)(void *p))
{
	if (!p) {
		walk_fail(w, -ENOMEM);
		return NULL;
	}
	walk_keep(w, p, drop);
	if (!w->err)
		walk_number(w, kind, p);
	return w->err ? NULL : p;
}

static struct fs_ctx *place_new(void)
{
	struct fs_ctx *fs = calloc(1, sizeof(*fs));

	if (fs)
		fs->refs = 1;
	return fs;
}

void tables_walk(struct kernel *k, struct walk *w)
{
	uint32_t tables = walk_count_of(w, WALK_FILES), places = walk_count_of(w, WALK_FS);

	walk_list(w, "tables", &tables, GUEST_TASKS_MAX);
	for (uint32_t i = 1; i <= tables && !w->err; i++) {
		struct files *fs = w->mode == WALK_SAVE
					   ? walk_get(w, WALK_FILES, i)
					   : make_kept(w, files_create(), WALK_FILES, drop_table);

		if (fs)
			table_walk(fs, w);
	}
	walk_list(w, "places", &places, GUEST_TASKS_MAX);
	for (uint32_t i = 1; i <= places && !w->err; i++) {
		struct fs_ctx *fs = w->mode == WALK_SAVE
					    ? walk_get(w, WALK_FS, i)
					    : make_kept(w, place_new(), WALK_FS, drop_place);

		if (fs)
			place_walk(k, fs, w);
	}
	for (uint32_t i = 1; i <= walk_count_of(w, WALK_TASK) && !w->err; i++)
		task_tables_walk(walk_get(w, WALK_TASK, i), w);
}

/* Locks */

void files_lock_walk(struct kernel *k, struct walk *w)
{
	uint32_t count_of = walk_count_of(w, WALK_INODE), n = 0;

	for (uint32_t i = 1; i <= count_of && w->mode == WALK_SAVE; i++) {
		struct inode *at = walk_get(w, WALK_INODE, i);

		n += locks_any(at) || at->leases;
	}
	walk_list(w, "locked", &n, count_of);
	for (uint32_t i = 1; n > 0 && !w->err; n--, i++) {
		struct inode *at = NULL;

		while (w->mode == WALK_SAVE && at == NULL) {
			at = walk_get(w, WALK_INODE, i);
			if (!locks_any(at) && !at->leases) {
				at = NULL;
				i++;
			}
		}
		walk_need(w, "inode", WALK_INODE, (void **)&at);
		if (w->err)
			return;
		locks_walk(k, at, w);
		if (!w->err)
			leases_walk(at, w);
	}
}
