/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/place_fd.c - what is known of open files in place, and what is lent.
 *
 * Owns:  the guest's struct place_fd, and the bytes of files beside them.
 * Rules: under the kernel lock. Only what the host gave read-only is lent, to a process that has
 *        its memory and its descriptors for itself: then nobody sees when it reads or closes. What
 *        it says that it did is done before anything else that it asks for.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "base/ckd.h"
#include "tier/kernel/fs/listing.h"
#include "tier/kernel/fs/mapnames.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/sys/stat.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/later.h"
#include "tier/kernel/trap/place_impl.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"

enum { HOT_FD = 2, HOT_READ = 8 };
enum { TEXT_WHOLE = 16 << 10, TEXT_HEAD = 1 << 10, TEXT_ALIGN = 64 };

static uint64_t entry_at(unsigned fd)
{
	return PLACE_FDS_AT + fd * sizeof(struct place_fd);
}

static uint64_t bit_of(unsigned fd)
{
	return (uint64_t)1 << fd;
}

static bool asks(const struct place *p, int kind)
{
	return p->asks >> kind & 1;
}

/* Would nobody notice that it is read or closed a little later? */
static bool can_lend(struct task *t, const struct file *f)
{
	return t->k->fast <= FAST_LEND && f->refs == 1 && !file_writable(f) &&
	       !(f->flags & O_DIRECT) && !f->inode->locks && !f->dnotify && !t->k->notify &&
	       !t->k->fan && answers_fixed(t, f->path);
}

/* The first bytes of @f, all of them if they are few, for the guest. */
static void take_text(struct task *t, struct file *f, struct place_fd *e)
{
	struct place *p = t->mm->place;
	int64_t size = f->inode->size;
	size_t len = size > TEXT_WHOLE ? TEXT_HEAD : (size_t)size;
	uint8_t *text = answers_text(t->k);
	bool used = false;
	ssize_t n;

	for (unsigned i = 0; i < PLACE_FDS; i++)
		used |= (p->fds_lent >> i & 1) && (p->knows[i] & FD_TEXT);
	if (!used)
		p->text_used = 0;
	if (!text || len > PLACE_TEXT - p->text_used)
		return;
	n = len ? file_kread(f, text, len, 0) : 0;
	if (n < 0)
		return;
	e->size = size;
	e->text_at = PLACE_TEXT_AT + p->text_used;
	e->text_len = (uint32_t)n;
	e->knows |= FD_TEXT;
	p->text_used += ((uint32_t)n + TEXT_ALIGN - 1) & ~(uint32_t)(TEXT_ALIGN - 1);
}

static void lend(struct task *t, struct file *f, struct place_fd *e)
{
	struct place *p = t->mm->place;

	if (!can_lend(t, f))
		return;
	if (asks(p, PLACE_CLOSE))
		e->knows |= FD_CLOSE;
	if (asks(p, PLACE_READ) && S_ISREG(f->inode->mode))
		take_text(t, f, e);
}

/* @lent: so is the file, from now on. */
static bool put_entry(struct task *t, unsigned fd, struct place_fd *e, size_t len, bool lent)
{
	uint64_t all = t->mm->place->fds_lent | bit_of(fd);
	struct iovec from[3] = { { e, len }, { answers_text(t->k), e->text_len },
		{ &all, lent ? sizeof(all) : 0 } };
	struct iovec to[3] = { { (void *)entry_at(fd), len },
		{ (void *)(uintptr_t)e->text_at, e->text_len },
		{ (void *)(PLACE_STATE + offsetof(struct place_state, lent)), from[2].iov_len } };

	if (host_write_parts(t->mm, to, from, ARRAY_LEN(from)) !=
		(ssize_t)(len + e->text_len + from[2].iov_len))
		return false;
	if (lent)
		t->mm->place->fds_lent = all;
	return true;
}

static void ages(struct task *t, struct place_fd *e)
{
	struct place *p = t->mm->place;

	if (!p->fds_age)
		p->fds_age = (uint16_t)(AGE_PROC + (unsigned)t->proc->pid % AGE_PROCS * 2);
	e->age = t->k->age[p->fds_age];
	e->age_at = p->fds_age * 8u;
	e->pos_age = t->k->age[p->fds_age + 1];
	e->pos_age_at = e->age_at + 8;
}

/* The host's copy of @f, which can only be read, comes to descriptor @fd with the answer. */
static bool send_copy(struct task *t, unsigned fd, struct file *f)
{
	struct fd_slot *slot = &t->files->slots[fd];
	struct call *c = &t->call;
	int from = tree_read_fd(f), mirror, copy;

	if (from < 0)
		return false;
	mirror = file_writable(f) ? from + 1 : -(from + 1);
	if (slot->mirror == mirror)
		return true;
	if (!t->host || c->ordered || c->go_native || c->map_fd || t->deliver.sig)
		return false;
	copy = copy_fd(from);
	if (copy < 0)
		return false;
	c->map_fd = copy + 1;
	c->map_at = (int)fd;
	slot->mirror = mirror;
	return true;
}

/* What the loader opens it maps: then it does that by itself, and we do now what we would have done
 * then. */
static void lend_mapping(struct task *t, unsigned fd, struct file *f, struct place_fd *e)
{
	const struct place *p = t->mm->place;
	struct map_source src;
	bool loader = false;

	for (unsigned i = 0; i < p->ahead; i++)
		loader |= p->sites[i].ip == t->call.ip;
	if (!loader || !(e->knows & FD_CLOSE) || !asks(p, PLACE_MMAP) || t->mm->lock_future ||
		f->ops != &tree_file_ops || f->ops->mmap(f, PROT_READ, MAP_PRIVATE, &src) < 0 ||
		src.fd != tree_read_fd(f) || !send_copy(t, fd, f))
		return;
	map_name_note(f);
	e->knows |= FD_MAPPED;
}

/* What is known of descriptor @fd goes to the guest. @opened: it has just been, so its position is
 * nobody else's. @kept: the call has told what stat says. */
static void leave_fd(struct task *t, unsigned fd, bool opened, bool kept)
{
	struct file *f = fd_get(t, (int)fd);
	struct place *p = t->mm->place;
	struct place_fd e = { 0 };
	uint64_t bit = bit_of(fd);
	struct kstat st;
	size_t len;

	if ((p->fds_lent & bit) || !f || !f->path.dentry ||
		(f->path.dentry->sb->flags & SB_NO_CACHE) ||
		(!S_ISREG(f->inode->mode) && !S_ISDIR(f->inode->mode)))
		return;
	ages(t, &e);
	/* No more than some site would ask for: to leave it costs a copy. */
	if (S_ISREG(f->inode->mode))
		e.knows = (asks(p, PLACE_IOCTL) ? FD_NO_TTY : 0) |
			  (opened && asks(p, PLACE_LSEEK) ? FD_POS : 0);
	e.pos = f->pos;
	if ((asks(p, PLACE_FSTAT) || asks(p, PLACE_AT_ARG)) && answers_fixed(t, f->path) &&
		vfs_fstat(f, &st) == 0) {
		e.stat_age_at = AGE_NEVER * 8;
		stat_lay(&st, e.stat);
		e.knows |= FD_STAT;
	} else if (kept) {
		e.stat_age_at = AGE_FILES * 8;
		memcpy(e.stat, answers_kept(t), sizeof(e.stat));
		e.knows |= FD_STAT;
	}
	e.stat_age = t->k->age[e.stat_age_at / 8];
	if (opened) {
		lend(t, f, &e);
		lend_mapping(t, fd, f, &e);
	}
	len = e.knows & FD_STAT ? sizeof(e) : offsetof(struct place_fd, stat);
	if (!e.knows || !put_entry(t, fd, &e, len, e.knows & (FD_TEXT | FD_CLOSE)))
		return;
	p->fds_left |= bit;
	p->knows[fd] = e.knows;
	p->pos_left |= opened;
}

/* Could a process that has @f for itself read it by the host's descriptor, unseen? Contents are the
 * host's at all times; as long as nothing changes no access time is moved a second time. */
static bool can_read_there(struct task *t, const struct file *f)
{
	const struct inode *i = f->inode;

	if (t->k->fast > FAST_LEND || f->refs != 1 || f->ops != &tree_file_ops || !f->path.dentry ||
		(f->path.dentry->sb->flags & SB_NO_CACHE) || !file_readable(f) ||
		(f->flags & O_DIRECT) || f->dnotify || t->k->notify || t->k->fan)
		return false;
	return answers_fixed(t, f->path) ||
	       (node_of(i)->content == CONTENT_STORE && i->atime > i->mtime &&
		       i->atime > i->ctime && !(f->path.mnt->flags & MOUNT_STRICT_ATIME));
}

static void leave_reads(struct task *t, unsigned fd, struct file *f)
{
	struct place *p = t->mm->place;
	bool fixed = answers_fixed(t, f->path);
	struct place_fd e = { .pos = f->pos, .size = f->inode->size };
	struct kstat st;

	if (vfs_fstat(f, &st) < 0 || !send_copy(t, fd, f))
		return;
	ages(t, &e);
	e.stat_age_at = (fixed ? AGE_NEVER : AGE_FILES) * 8;
	e.stat_age = t->k->age[e.stat_age_at / 8];
	stat_lay(&st, e.stat);
	e.knows = FD_NO_TTY | FD_POS | FD_STAT | FD_NATIVE;
	if (fixed && asks(p, PLACE_CLOSE) && !t->mm->lock_future && can_lend(t, f))
		e.knows |= FD_CLOSE | FD_MAPPED;
	if (!put_entry(t, fd, &e, sizeof(e), true))
		return;
	p->fds_left |= bit_of(fd);
	p->knows[fd] = e.knows;
	p->pos_left = true;
}

void place_read_seen(struct task *t, uint64_t ip, int kind)
{
	const struct call *c = &t->call;
	unsigned fd = (unsigned)c->args[0];
	struct file *f = fd_get(t, (int)fd);
	uint64_t now = t->k->age[AGE_FILES];
	struct place *p;
	bool again;

	if (c->ret <= 0 || fd >= PLACE_FDS || !f || !place_owns_files(t) || !can_read_there(t, f) ||
		place_changed_site(t, ip, true, HOT_READ) < 0)
		return;
	p = t->mm->place;
	p->asks |= 1u << kind;
	again = answers_fixed(t, f->path) ? p->read_age[fd] != 0 : p->read_age[fd] == now;
	p->read_age[fd] = now;
	if (again)
		leave_reads(t, fd, f);
}

/* One more thing is known of a file that is lent. */
static void tell_more(struct task *t, unsigned fd, uint32_t what)
{
	struct place *p = t->mm->place;
	uint32_t knows = p->knows[fd] | what;

	if (!(p->fds_lent >> fd & 1) || knows == p->knows[fd])
		return;
	if (t->mm->ops->write(t->mm, entry_at(fd) + offsetof(struct place_fd, knows), &knows,
		    sizeof(knows)) == sizeof(knows))
		p->knows[fd] = knows;
}

bool place_owns_files(const struct task *t)
{
	return t->mm->refs == 1 && !t->mm->place_many && t->files->refs == 1;
}

void place_opened(struct task *t)
{
	if (!t->mm->place || (uint64_t)t->call.ret >= PLACE_FDS)
		return;
	t->mm->place->read_age[t->call.ret] = 0;
	if (t->mm->place->asks && place_owns_files(t))
		leave_fd(t, (unsigned)t->call.ret, true, false);
}

/* Would the stub have had it? */
static bool could_have(struct task *t, int kind)
{
	const struct call *c = &t->call;
	uint64_t fd = kind == PLACE_MMAP ? (uint32_t)c->args[4] : c->args[0];
	struct file *f;

	if (!place_owns_files(t) || fd >= PLACE_FDS)
		return false;
	switch (kind) {
	case PLACE_IOCTL:
		return c->ret == -ENOTTY && (uint32_t)c->args[1] == 0x5401;
	case PLACE_LSEEK:
		return c->ret >= 0 &&
		       (c->args[2] == SEEK_SET || (c->args[2] == SEEK_CUR && !c->args[1]));
	case PLACE_MMAP:
		return c->go_native && !(c->args[3] & MAP_ANONYMOUS);
	case PLACE_READ:
	case PLACE_DENTS:
		f = fd_get(t, (int)fd);
		return c->ret >= 0 && f && f->path.dentry && answers_fixed(t, f->path);
	default:
		return c->ret >= 0;
	}
}

/* Then the next time it shall. */
void place_fd_seen(struct task *t, uint64_t ip, int kind)
{
	struct call *c = &t->call;
	unsigned fd = (unsigned)c->args[kind == PLACE_MMAP ? 4 : 0];
	struct place *p;
	struct file *f;
	bool again;

	if (!could_have(t, kind) || place_changed_site(t, ip, true, HOT_FD) < 0)
		return;
	p = t->mm->place;
	p->asks |= 1u << kind;
	switch (kind) {
	case PLACE_MMAP:
		if (t->files->slots[fd].mirror && !t->mm->lock_future)
			tell_more(t, fd, FD_MAPPED);
		break;
	case PLACE_DENTS:
		f = fd_get(t, (int)fd);
		if (f->ops == &tree_dir_ops && listing_is_over(f->priv))
			tell_more(t, fd, FD_END);
		break;
	case PLACE_FSTAT:
	case PLACE_AT_ARG:
		again = p->stat_age[fd] == t->k->age[AGE_FILES];
		p->stat_age[fd] = t->k->age[AGE_FILES];
		if (again || c->fixed)
			leave_fd(t, fd, false, c->data_len == PLACE_DATA_MAX);
		break;
	default:
		break;
	}
}

void place_fds_gone(struct task *t, int fd)
{
	struct place *p = t->mm ? t->mm->place : NULL;

	if (p && p->later)
		later_forget(p->later, fd);
	if (!p || !p->fds_left || (fd >= 0 && (fd >= PLACE_FDS || !(p->fds_left >> fd & 1))))
		return;
	answers_proc(t->k, p->fds_age);
	p->fds_left = p->fds_lent = 0;
}

void place_fd_closed(struct task *t, unsigned fd)
{
	struct place *p = t->mm->place;

	if (!p)
		return;
	p->fds_left &= ~bit_of(fd);
	p->fds_lent &= ~bit_of(fd);
}

static void close_lent(struct task *t, unsigned fd)
{
	place_fd_closed(t, fd);
	if (!fd_get_path(t, (int)fd))
		return;
	t->files->slots[fd].mirror = 0; /* the stub has seen to the host's copy */
	fd_close(t, (int)fd);
}

/* What the guest did with @fd: where it is now, and whether it closed it. */
static void sync_one(struct task *t, unsigned fd, int64_t pos, bool closed)
{
	struct file *f = fd_get_path(t, (int)fd);

	if (closed)
		close_lent(t, fd);
	else if (f && (t->mm->place->knows[fd] & (FD_TEXT | FD_NATIVE)) && pos >= 0)
		f->pos = pos;
}

/* The same of all that are lent, out of what came with the call; false: that does not say it. */
static bool sync_carried(struct task *t, struct carried *c)
{
	uint64_t lent = t->mm->place->fds_lent;

	if (!c || (lent & ~c->lent))
		return false;
	for (; lent; lent &= lent - 1) {
		unsigned fd = (unsigned)__builtin_ctzll(lent);
		int64_t pos;
		bool closed;

		if (carry_lent(c, fd, &pos, &closed))
			sync_one(t, fd, pos, closed);
	}
	c->lent = 0; /* what is left there from now on is newer */
	return true;
}

void place_sync(struct task *t)
{
	struct place *p = t->mm ? t->mm->place : NULL;
	struct place_fd now[PLACE_FDS];
	unsigned first, count;
	ssize_t len;

	if (!p || !p->fds_lent || !t->files || t->files->refs != 1 ||
		sync_carried(t, t->mm->carried))
		return;
	first = (unsigned)__builtin_ctzll(p->fds_lent);
	count = 64 - (unsigned)__builtin_clzll(p->fds_lent) - first;
	/* Up to where the last one's stat begins. */
	len = (ssize_t)((count - 1) * sizeof(now[0]) + offsetof(struct place_fd, stat));
	if (t->mm->ops->read(t->mm, now, entry_at(first), (size_t)len) != len)
		return;
	for (unsigned i = 0; i < count; i++) {
		if (p->fds_lent >> (first + i) & 1)
			sync_one(t, first + i, now[i].pos, now[i].closed);
	}
}

void place_take_back(struct task *t)
{
	struct place *p = t->mm ? t->mm->place : NULL;

	place_sync(t);
	if (!p || !p->pos_left)
		return;
	answers_proc(t->k, p->fds_age + 1u);
	p->pos_left = false;
	p->fds_lent = 0;
}

/* Where somebody is in @fd is about to change: from now on it asks again for that. */
static void take_one_back(struct task *t, uint64_t fd)
{
	enum { STAYS = FD_STAT | FD_NO_TTY | FD_CLOSE | FD_MAPPED };
	struct place *p = t->mm ? t->mm->place : NULL;
	uint32_t knows;

	place_sync(t);
	if (!p || fd >= PLACE_FDS || !(p->fds_left >> fd & 1) || !(p->knows[fd] & ~STAYS))
		return;
	knows = p->knows[fd] & STAYS;
	if (t->mm->ops->write(t->mm, entry_at((unsigned)fd) + offsetof(struct place_fd, knows),
		    &knows, sizeof(knows)) != sizeof(knows)) {
		place_take_back(t);
		return;
	}
	p->knows[fd] = knows;
	if (!(knows & FD_CLOSE))
		p->fds_lent &= ~bit_of((unsigned)fd);
}

enum touch { TOUCH_NONE, TOUCH_FDS, TOUCH_ONE, TOUCH_POS };

/* What has nothing to do with descriptors; with one, or what it is a number of; with where somebody
 * is in the file of its first argument, if that is nobody else's; in any that may be lent. What is
 * not here does that. */
static enum touch touch_of(int64_t nr, uint64_t first)
{
	switch (nr) {
	case SYS_stat:
	case SYS_lstat:
	case SYS_rt_sigaction:
	case SYS_rt_sigprocmask:
	case SYS_access:
	case SYS_getpid:
	case SYS_getuid:
	case SYS_getgid:
	case SYS_geteuid:
	case SYS_getegid:
	case SYS_readlink:
	case SYS_gettid:
	case SYS_getrandom:
	case SYS_getppid:
	case SYS_getcwd:
	case SYS_uname:
	case SYS_umask:
	case SYS_sysinfo:
	case SYS_clock_gettime:
		return TOUCH_NONE;
	case SYS_newfstatat:
		return (int)first == AT_FDCWD ? TOUCH_NONE : TOUCH_FDS;
	case SYS_open:
	case SYS_close:
	case SYS_fstat:
	case SYS_mmap:
	case SYS_ioctl:
	case SYS_pread64:
	case SYS_getdents64:
	case SYS_openat:
		return TOUCH_FDS;
	case SYS_read:
	case SYS_write:
	case SYS_lseek:
		return TOUCH_ONE;
	default:
		return TOUCH_POS;
	}
}

void place_call(struct task *t, int64_t nr, uint64_t first)
{
	enum touch touch = touch_of(nr, first);

	if (touch == TOUCH_FDS)
		place_sync(t);
	else if (touch == TOUCH_ONE)
		take_one_back(t, (uint32_t)first);
	else if (touch == TOUCH_POS)
		place_take_back(t);
}
