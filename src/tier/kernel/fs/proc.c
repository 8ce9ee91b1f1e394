/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/proc.c - procfs: directories, links and texts out of tables.
 *
 * Owns:  struct proc_node.
 * Rules: nothing is kept between two looks: an inode says which entry of which task it is, and what
 *        it shows is made when it is asked for.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"
#include "tier/kernel/fs/listing.h"
#include "tier/kernel/fs/knobs.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/ops.h"

enum { ROOT_INO = 1, WRITE_MAX = 4096 };

struct proc_node {
	const struct proc_entry *e;
	int32_t tid; /* 0: the machine */
	int fd;
	int64_t born; /* of the task: numbers come round */
};

static const struct inode_ops proc_ops, proc_link_ops, proc_magic_ops;
static const struct file_ops proc_text_ops, proc_mounts_ops, proc_dir_ops;

static const struct proc_entry root_entry = {
	.name = "", .mode = S_IFDIR | 0555, .kind = PROC_TABLE
};

static const struct proc_node *node(const struct inode *i)
{
	return i->priv;
}

static uint64_t ino_of(uint64_t parent, const char *name)
{
	uint64_t h = parent * 0x9e3779b97f4a7c15u;

	while (*name)
		h = (h ^ (unsigned char)*name++) * 0x100000001b3u;
	return (h >> 20) + 16; /* leaves room for the root, and 44 bits */
}

static bool alive(const struct task *t)
{
	return t && t->state != TASK_DEAD;
}

static struct proc_ctx ctx_of(const struct inode *i, struct task *reader)
{
	const struct proc_node *n = node(i);
	struct kernel *k = i->sb->k;
	struct task *t = n->tid ? task_find(k, n->tid) : NULL;

	return (struct proc_ctx){ .k = k,
		.reader = reader,
		.t = t && t->proc->start_ns == n->born ? t : NULL,
		.fd = n->fd,
		.view = proc_view(i->sb) };
}

static struct inode *make_inode(
	struct super *sb, const struct proc_entry *e, int32_t tid, int fd, uint64_t ino)
{
	const struct inode_ops *ops = !S_ISLNK(e->mode) ? &proc_ops
				      : e->follow       ? &proc_magic_ops
							: &proc_link_ops;
	struct proc_node *n = malloc(sizeof(*n));
	struct inode *i = n ? inode_create(sb, ops, e->mode) : NULL;
	struct task *t = tid ? task_find(sb->k, tid) : NULL;

	if (!i) {
		free(n);
		return NULL;
	}
	*n = (struct proc_node){ e, tid, fd, t ? t->proc->start_ns : 0 };
	i->priv = n;
	i->ino = ino;
	i->atime = i->mtime = i->ctime = i->btime = kernel_realtime(sb->k);
	if (t && t->cred) {
		i->uid = t->cred->euid;
		i->gid = t->cred->egid;
	}
	return i;
}

static void release(struct inode *i)
{
	free(i->priv);
}

/* A number without a sign or zeroes before it; -1 for what is none. */
static int32_t number(const char *s)
{
	int64_t v = 0;

	if (!*s || (s[0] == '0' && s[1]))
		return -1;
	for (; *s; s++) {
		if (*s < '0' || *s > '9')
			return -1;
		v = v * 10 + (*s - '0');
		if (v > INT32_MAX)
			return -1;
	}
	return (int32_t)v;
}

static const struct proc_entry *in_table(
	const struct proc_entry *e, unsigned count, const char *name)
{
	for (unsigned n = 0; n < count; n++)
		if (str_eq(e[n].name, name))
			return &e[n];
	return NULL;
}

/* What @name is below @dir: entry, task and descriptor. */
static const struct proc_entry *resolve(
	struct super *sb, const struct proc_node *dir, const char *name, int32_t *tid, int *fd)
{
	struct kernel *k = sb->k;
	struct task *t = dir->tid ? task_find(k, dir->tid) : NULL, *other;
	int32_t n = number(name);

	*tid = dir->tid;
	*fd = dir->fd;
	if (dir->tid && !alive(t) && (!t || t->proc->state != PROC_ZOMBIE))
		return NULL;
	if (dir->e == &root_entry) {
		if (n <= 0)
			return in_table(proc_machine, proc_machine_count, name);
		other = task_in(k, proc_view(sb), n);
		*tid = other ? other->tid : 0;
		return other ? &proc_pid_entry : NULL;
	}
	switch (dir->e->kind) {
	case PROC_TASKS:
		other = n > 0 ? task_in(k, proc_view(sb), n) : NULL;
		*tid = other ? other->tid : 0;
		return other && other->proc == t->proc ? &proc_tid_entry : NULL;
	case PROC_FDS:
	case PROC_FDINFOS:
		*fd = n;
		if (n < 0 || !t->files || !fd_get_path(t, n))
			return NULL;
		return dir->e->kind == PROC_FDS ? &proc_fd_link : &proc_fdinfo_file;
	default:
		return in_table(dir->e->entries, dir->e->count, name);
	}
}

static int proc_lookup(struct inode *dir, struct dentry *d)
{
	const struct proc_entry *e;
	int32_t tid;
	int fd;

	if (node(dir)->e == &proc_pid_entry && !ctx_of(dir, NULL).t)
		return -ESRCH;
	e = resolve(dir->sb, node(dir), d->name, &tid, &fd);
	if (!e)
		return 0;
	d->inode = make_inode(dir->sb, e, tid, fd, ino_of(dir->ino, d->name));
	if (!d->inode)
		return -ENOMEM;
	/* fd/N shows how the descriptor was opened. */
	if (e == &proc_fd_link) {
		struct file *f = fd_get_path(task_find(dir->sb->k, tid), fd);

		d->inode->mode =
			S_IFLNK | (file_readable(f) ? 0500 : 0) | (file_writable(f) ? 0300 : 0);
	}
	return 0;
}

static ssize_t proc_readlink(struct inode *i, struct task *t, char *buf, size_t cap)
{
	struct proc_ctx c = ctx_of(i, t);

	if (node(i)->tid) {
		if (!c.t)
			return -ESRCH;
		if (!task_may_look(t, c.t))
			return -EACCES;
	}
	return node(i)->e->link(&c, buf, cap);
}

static int proc_follow(struct inode *i, struct task *t, struct path *ret)
{
	struct proc_ctx c = ctx_of(i, t);

	if (!c.t)
		return -ESRCH;
	if (!task_may_look(t, c.t))
		return -EACCES;
	return node(i)->e->follow(&c, ret);
}

/* Reading: the text of the moment of opening. */

static int open_text(struct inode *i, struct file *f, struct task *t)
{
	const struct proc_entry *e = node(i)->e;
	struct proc_ctx c = ctx_of(i, t);
	struct buf *b;

	if (node(i)->tid && !c.t)
		return -ESRCH;
	if (e->private && !task_may_look(t, c.t))
		return -EACCES;
	if (e->memory || e->pagemap)
		return proc_mem_open(f, t, c.t, e->pagemap);
	b = calloc(1, sizeof(*b));
	if (!b)
		return -ENOMEM;
	buf_init(b, PROC_TEXT_MAX);
	if (e->text)
		buf_add_str(b, knob_text(f->k, e));
	else if (e->show && file_readable(f))
		e->show(&c, b);
	if (b->bad) {
		buf_done(b);
		free(b);
		return -ENOMEM;
	}
	f->priv = b;
	f->ops = e->mounts ? &proc_mounts_ops : &proc_text_ops;
	f->version = f->k->vfs->mount_changes;
	return 0;
}

static int proc_open(struct inode *i, struct file *f, struct task *t)
{
	const struct proc_node *n = node(i);

	if (!S_ISDIR(i->mode))
		return open_text(i, f, t);
	if (n->tid && n->e->private) {
		struct task *about = task_find(f->k, n->tid);

		if (!about)
			return -ESRCH;
		if (!task_may_look(t, about))
			return -EACCES;
	}
	f->ops = &proc_dir_ops;
	return 0;
}

static ssize_t text_read(struct file *f, struct uio *io, int64_t *pos)
{
	const struct proc_entry *e = node(f->inode)->e;
	struct proc_ctx c = ctx_of(f->inode, io->task);
	bool gone = node(f->inode)->tid && !c.t;
	struct buf *b = f->priv;
	ssize_t n;

	if (gone && !e->once) /* a user namespace may outlive who was in it */
		return -ESRCH;
	/* Back at the start: a new moment (top and ps keep their files open). */
	if (*pos == 0 && e->show && !gone && (e->mounts || f->version++)) {
		buf_cut(b, 0);
		e->show(&c, b);
	}
	if (*pos >= (int64_t)b->len || io->left == 0)
		return 0;
	n = uio_out(io, b->data + *pos, b->len - (size_t)*pos);
	if (n > 0)
		*pos += n;
	return n;
}

static int keep_text(const struct proc_ctx *c, const struct proc_entry *e, char *text)
{
	int r = e->check ? e->check(c, text) : 0;

	if (r < 0)
		return r;
	return knob_write(c->k, e, r > 0 ? e->text : text);
}

static ssize_t text_write(struct file *f, struct uio *io, int64_t *pos)
{
	const struct proc_entry *e = node(f->inode)->e;
	struct proc_ctx c = ctx_of(f->inode, io->task);
	char text[WRITE_MAX + 1];
	ssize_t n;
	int r;

	if (node(f->inode)->tid && !c.t)
		return -ESRCH;
	if (!(e->mode & 0222))
		return -EIO;
	if (e->once && (*pos || io->left >= WRITE_MAX))
		return -EINVAL;
	n = uio_in(io, text, WRITE_MAX);
	if (n < 0)
		return n;
	text[n] = '\0';
	c.opened = f->cred;
	r = e->write ? e->write(&c, text) : e->text ? keep_text(&c, e, text) : 0;
	if (r == 0 && e->once)
		*pos += n;
	return r < 0 ? r : n;
}

static long text_ioctl(struct file *f, struct task *t, unsigned cmd, uint64_t arg)
{
	enum { PROCMAP_QUERY_ = 0xc0686611 };
	struct proc_ctx c = ctx_of(f->inode, t);

	return node(f->inode)->e->maps && cmd == PROCMAP_QUERY_ ? proc_maps_query(c.t, t, arg)
								: -ENOTTY;
}

static void text_release(struct file *f)
{
	if (f->priv)
		buf_done(f->priv);
	free(f->priv);
}

/* What is made while it is read has no end to count from; what is kept as it was written has. */
static int64_t text_lseek(struct file *f, int64_t off, int whence)
{
	if (whence == SEEK_CUR && __builtin_add_overflow(off, f->pos, &off))
		return -EINVAL;
	if ((whence == SEEK_END && node(f->inode)->e->show) || whence < SEEK_SET ||
		whence > SEEK_END || off < 0)
		return -EINVAL;
	f->pos = off;
	return off;
}

static const struct file_ops proc_text_ops = {
	.name = "proc",
	.read = text_read,
	.write = text_write,
	.lseek = text_lseek,
	.ioctl = text_ioctl,
	.release = text_release,
};

/* Readable always; a change since it was opened, or asked last, is told once. */
static unsigned mounts_poll(struct file *f, struct poll_reg *reg)
{
	struct vfs_state *v = f->k->vfs;
	bool news = f->version != v->mount_changes;

	poll_wait(reg, &v->mount_wait);
	f->version = v->mount_changes;
	return POLLIN | POLLRDNORM | (news ? POLLERR | POLLPRI : 0);
}

static const struct file_ops proc_mounts_ops = {
	.name = "proc",
	.read = text_read,
	.write = text_write,
	.lseek = text_lseek,
	.poll = mounts_poll,
	.release = text_release,
};

/* Listings */

static int add_entries(
	struct listing *l, uint64_t dir_ino, const struct proc_entry *e, unsigned count)
{
	int r = 0;

	for (unsigned n = 0; r == 0 && n < count; n++)
		r = listing_add(l, e[n].name, strlen(e[n].name), ino_of(dir_ino, e[n].name),
			(unsigned char)((e[n].mode & S_IFMT) >> 12));
	return r;
}

static int add_number(struct listing *l, uint64_t dir_ino, int n, unsigned char type)
{
	char name[16];

	str_fmt(name, sizeof(name), "%d", n);
	return listing_add(l, name, strlen(name), ino_of(dir_ino, name), type);
}

/* Those that have a number here. */
static int add_pid(struct listing *l, struct file *f, int32_t id, const struct pid_nums *nums)
{
	int32_t n = pid_shown(proc_view(f->inode->sb), id, nums);

	return n ? add_number(l, f->inode->ino, n, DT_DIR) : 0;
}

static int fill_listing(struct file *f, struct listing *l)
{
	const struct proc_node *n = node(f->inode);
	struct task *t = n->tid ? task_find(f->k, n->tid) : NULL;
	uint64_t ino = f->inode->ino;
	struct dentry *up = f->path.dentry->parent;
	int r = listing_add(l, ".", 1, ino, DT_DIR);

	if (r == 0)
		r = listing_add(l, "..", 2, up ? up->inode->ino : ino, DT_DIR);
	if (n->tid && !t)
		return -ENOENT;
	if (n->e == &root_entry) {
		if (r == 0)
			r = add_entries(l, ino, proc_machine, proc_machine_count);
		for (struct proc *p = f->k->procs; r == 0 && p; p = p->next)
			r = add_pid(l, f, p->pid, p->tasks->nums);
		return r;
	}
	if (n->e->kind == PROC_TABLE)
		return r < 0 ? r : add_entries(l, ino, n->e->entries, n->e->count);
	if (n->e->kind == PROC_TASKS) {
		for (struct task *o = t->proc->tasks; r == 0 && o; o = o->next)
			if (alive(o))
				r = add_pid(l, f, o->tid, o->nums);
		return r;
	}
	place_sync(t);
	for (unsigned fd = 0; r == 0 && t->files && fd < t->files->cap; fd++)
		if (t->files->slots[fd].file)
			r = add_number(l, ino, (int)fd, n->e->kind == PROC_FDS ? DT_LNK : DT_REG);
	return r;
}

static int dir_iterate(struct file *f, struct dir_emit *emit)
{
	return listing_iterate(f, emit, fill_listing);
}

static const struct file_ops proc_dir_ops = {
	.name = "proc",
	.iterate = dir_iterate,
	.release = listing_release,
	.walk = listing_walk,
};

static int no_setattr(struct inode *i, const struct iattr *a)
{
	return a->valid & (ATTR_MODE | ATTR_UID | ATTR_GID) ? -EPERM : 0;
}

/* Two links, and one for each directory in it: so a program counts its threads. */
static uint32_t links_of(const struct inode *i)
{
	const struct proc_node *n = node(i);
	struct kernel *k = i->sb->k;
	bool root = n->e == &root_entry;
	const struct proc_entry *entries = root ? proc_machine : n->e->entries;
	unsigned count = root ? proc_machine_count : n->e->count;
	struct task *t = ctx_of(i, NULL).t;
	uint32_t links = 2;

	for (unsigned e = 0; e < count; e++)
		links += S_ISDIR(entries[e].mode);
	for (struct proc *p = root ? k->procs : NULL; p; p = p->next)
		links += pid_shown(proc_view(i->sb), p->pid, p->tasks->nums) != 0;
	for (struct task *o = n->e->kind == PROC_TASKS && t ? t->proc->tasks : NULL; o; o = o->next)
		links += alive(o);
	return links;
}

static int proc_getattr(struct inode *i, struct kstat *ret)
{
	inode_attr(i, ret);
	if (S_ISDIR(i->mode))
		ret->nlink = links_of(i);
	return 0;
}

static const struct inode_ops proc_ops = {
	.lookup = proc_lookup,
	.getattr = proc_getattr,
	.open = proc_open,
	.setattr = no_setattr,
	.release = release,
};
static const struct inode_ops proc_link_ops = {
	.readlink = proc_readlink,
	.setattr = no_setattr,
	.release = release,
};
static const struct inode_ops proc_magic_ops = {
	.readlink = proc_readlink,
	.follow = proc_follow,
	.setattr = no_setattr,
	.release = release,
};

static void super_release(struct super *sb)
{
	ns_unref(sb->priv);
}

static const struct super_ops proc_super = {
	.name = "proc", .magic = PROC_SUPER_MAGIC, .release = super_release
};

struct pid_ns *proc_view(const struct super *sb)
{
	return sb->ops == &proc_super ? sb->priv : NULL;
}

int32_t proc_dir_pid(const struct file *f)
{
	const struct proc_node *n;
	struct task *t;

	if (!f->inode || f->inode->ops != &proc_ops || node(f->inode)->e != &proc_pid_entry)
		return 0;
	n = node(f->inode);
	t = task_find(f->k, n->tid);
	return t && t->proc->start_ns == n->born ? t->proc->pid : -ESRCH;
}

struct super *proc_create(struct kernel *k, struct pid_ns *view)
{
	struct super *sb = super_create(k, &proc_super, SB_NO_CACHE, view);
	struct inode *i = sb ? make_inode(sb, &root_entry, 0, -1, ROOT_INO) : NULL;

	if (sb && view)
		ns_ref(&view->ns);
	if (sb)
		sb->root = i ? dentry_create_root(sb, i) : NULL;
	if (!sb || !sb->root) {
		inode_unref(i);
		super_unref(sb);
		return NULL;
	}
	return sb;
}
