/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/vfs/mount.c - the tree of one sandbox, from the descriptors that it was given.
 *
 * Owns:  struct vfs_state.
 * Rules: what is mounted here stays (mount.kept); a guest's own mounts are guestmount.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/str.h"
#include "tier/kernel/fs/dev.h"
#include "tier/kernel/fs/hostdir.h"
#include "tier/kernel/fs/knobs.h"
#include "tier/kernel/fs/mapnames.h"
#include "tier/kernel/fs/loop.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/fs/sysfs.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/mnt.h"
#include "tier/kernel/vfs/ops.h"

static const struct super_ops anon_super = { .name = "anon_inodefs" };

/* A task of nobody, to walk and make names with before there is a guest. */
struct builder {
	struct task task;
	struct cred cred;
	struct fs_ctx fs;
};

static void builder_init(struct builder *b, struct kernel *k)
{
	memset(b, 0, sizeof(*b));
	b->cred.refs = 1;
	b->cred.cap_effective = ~0ULL;
	b->task.k = k;
	b->task.cred = &b->cred;
	b->task.fs = &b->fs;
	b->fs.refs = 1;
	b->fs.root = b->fs.cwd = (struct path){ k->root_mount, k->root_mount->root };
}

/* Makes the directories of @path that are missing. */
static int make_dirs(struct builder *b, const char *path, uint32_t mode)
{
	char part[GUEST_PATH_MAX];

	for (const char *end = path; *end;) {
		int r;

		end = strchrnul(end + 1, '/');
		if ((size_t)(end - path) >= sizeof(part))
			return -ENAMETOOLONG;
		memcpy(part, path, (size_t)(end - path));
		part[end - path] = '\0';
		r = vfs_mkdir(&b->task, AT_FDCWD, part, *end ? 0755 : mode);
		if (r < 0 && r != -EEXIST)
			return r;
	}
	return 0;
}

static int mount_on(struct builder *b, struct super *sb, const char *path, unsigned flags,
	const char *source, struct mount **ret)
{
	struct path at;
	struct mount *m;
	int r;

	if (!sb)
		return -ENOMEM;
	r = vfs_walk(&b->task, AT_FDCWD, path, LOOKUP_FOLLOW, &at);
	if (r < 0) {
		super_unref(sb);
		return r;
	}
	/* A folder on a folder, a file on a file. */
	if (S_ISDIR(sb->root->inode->mode) != S_ISDIR(at.dentry->inode->mode)) {
		path_unref(at);
		super_unref(sb);
		return -EINVAL;
	}
	m = mount_create(b->task.k, sb, &at, flags, source);
	path_unref(at);
	if (!m)
		return -ENOMEM;
	if (ret)
		*ret = m;
	return 0;
}

static int mount_tree(struct builder *b, const struct super_ops *type, const char *path,
	uint32_t mode, unsigned flags, struct mount **ret)
{
	int r = make_dirs(b, path, 0755);

	if (r < 0)
		return r;
	return mount_on(
		b, tree_create(b->task.k, type, NULL, 0, 0, mode), path, flags, type->name, ret);
}

static int mount_dev(struct builder *b)
{
	const unsigned flags = MOUNT_NO_SUID | MOUNT_NO_EXEC;
	struct mount *m;
	int r = mount_tree(b, &tree_devtmpfs, "/dev", 0755, flags, &m);

	if (r == 0)
		r = dev_fill(m->root);
	if (r == 0)
		r = mount_tree(b, &tree_devpts, "/dev/pts", 0755, flags, &m);
	if (r == 0) {
		b->task.k->vfs->pts = m->root;
		if (!tree_child(m->root, "ptmx", S_IFCHR | 0666, makedev(5, 2)))
			r = -ENOMEM;
	}
	if (r == 0)
		r = mount_tree(
			b, &tree_tmpfs, "/dev/shm", 01777, MOUNT_NO_SUID | MOUNT_NO_DEV, NULL);
	if (r == 0)
		r = mount_tree(b, &tree_mqueue, "/dev/mqueue", 01777, flags | MOUNT_NO_DEV, NULL);
	return r;
}

static int mount_kernel(struct builder *b)
{
	const unsigned flags = MOUNT_NO_SUID | MOUNT_NO_EXEC | MOUNT_NO_DEV;
	struct kernel *k = b->task.k;
	struct mount *m;
	int r = make_dirs(b, "/proc", 0555);

	if (r == 0)
		r = mount_on(b, proc_create(k, NULL), "/proc", flags, "proc", NULL);
	if (r == 0)
		r = mount_tree(b, &tree_sysfs, "/sys", 0555, flags | MOUNT_READ_ONLY, &m);
	if (r == 0)
		r = sysfs_fill(m->root);
	if (r == 0)
		r = mount_dev(b);
	if (r == 0)
		r = make_dirs(b, "/tmp", 01777);
	return r;
}

/* A host directory or file at a place of the guest's tree. */
static int mount_bind(struct builder *b, struct vfs_bind *bind, uint32_t id_base)
{
	unsigned flags = MOUNT_NO_SUID | MOUNT_NO_DEV | (bind->read_only ? MOUNT_READ_ONLY : 0);
	struct kernel *k = b->task.k;
	struct super *sb;
	struct stat st;
	int r;

	if (fstat(bind->fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode)) {
		r = make_dirs(b, bind->dst, 0755);
	} else {
		const char *slash = strrchr(bind->dst, '/');
		char dir[GUEST_PATH_MAX];

		r = str_fmt(dir, sizeof(dir), "%.*s", (int)(slash - bind->dst), bind->dst);
		if (r == 0 && dir[0])
			r = make_dirs(b, dir, 0755);
		if (r == 0)
			r = vfs_mknod(&b->task, AT_FDCWD, bind->dst, S_IFREG | 0644, 0, NULL);
		if (r == -EEXIST)
			r = 0;
	}
	if (r < 0)
		return r;
	if (bind->read_only || bind->overlay)
		sb = tree_create(k, &tree_overlay, &bind->fd, 1, id_base, 0755);
	else
		sb = hostdir_create(k, bind->fd, id_base, bind->ids);
	bind->fd = -1;
	if (sb && bind->host_owned)
		tree_nobody_is_root(sb);
	return mount_on(b, sb, bind->dst, flags, bind->overlay ? "overlay" : "host", NULL);
}

static struct vfs_state *new_state(void)
{
	struct vfs_state *v = calloc(1, sizeof(*v));

	if (v)
		v->lru.lru_next = v->lru.lru_prev = &v->lru;
	return v;
}

static int mount_anon(struct kernel *k)
{
	struct super *sb = super_create(k, &anon_super, SB_NO_CACHE, NULL);
	struct inode *i = sb ? inode_anon(k, S_IFDIR) : NULL;

	if (sb)
		sb->root = i ? dentry_create_root(sb, i) : NULL;
	if (!sb || !sb->root) {
		inode_unref(i);
		super_unref(sb);
		return -ENOMEM;
	}
	k->vfs->anon = calloc(1, sizeof(*k->vfs->anon));
	if (!k->vfs->anon) {
		super_unref(sb);
		return -ENOMEM;
	}
	*k->vfs->anon = (struct mount){ .refs = 1, .sb = sb, .root = dentry_ref(sb->root) };
	return 0;
}

int anon_path(struct kernel *k, struct inode *i, const char *name, struct path *ret)
{
	struct dentry *d = dentry_create(k->vfs->anon->root, name, strlen(name));

	if (!d)
		return -ENOMEM;
	d->inode = inode_ref(i);
	*ret = (struct path){ mount_ref(k->vfs->anon), d };
	return 0;
}

static int build(struct kernel *k, struct vfs_setup *setup, struct err *e)
{
	struct builder b;
	struct super *root;
	int r;

	root = tree_create(k, setup->layer_count ? &tree_overlay : &tree_tmpfs, setup->layers,
		setup->layer_count, setup->id_base, 0755);
	setup->layer_count = 0; /* taken */
	if (!root)
		return err_set(e, ENOMEM, "the sandbox's root file system");
	k->root_mount = mount_create(k, root, NULL, 0, "ward");
	if (!k->root_mount)
		return err_set(e, ENOMEM, "the sandbox's root mount");
	k->root_mount->top = true;
	builder_init(&b, k);
	r = mount_anon(k);
	if (r == 0)
		r = nsfs_init(k);
	if (r == 0)
		r = mount_kernel(&b);
	if (r < 0)
		return err_set(e, -r, "mounting /proc, /sys and /dev");
	for (unsigned i = 0; i < setup->bind_count; i++) {
		r = mount_bind(&b, &setup->binds[i], setup->id_base);
		if (r < 0)
			return err_set(e, -r, "--mount %s:%s: attaching it", setup->binds[i].src,
				setup->binds[i].dst);
	}
	return 0;
}

int vfs_init(struct kernel *k, struct vfs_setup *setup, struct err *e)
{
	int r;

	k->vfs = new_state();
	r = k->vfs ? tree_init(k) : -ENOMEM;
	if (r == 0)
		r = build(k, setup, e);
	else
		err_set(e, -r, "the tables of files");
	for (unsigned i = 0; i < setup->layer_count; i++)
		close(setup->layers[i]);
	for (unsigned i = 0; i < setup->bind_count; i++)
		if (setup->binds[i].fd >= 0)
			close(setup->binds[i].fd);
	if (r < 0)
		vfs_done(k);
	return r;
}

void vfs_done(struct kernel *k)
{
	struct vfs_state *v = k->vfs;

	if (!v)
		return;
	wait_flush(&v->mount_wait);
	loops_done(k);
	knobs_done(k);
	map_names_done(k);
	mnt_done(k);
	guest_mounts_done(v);
	nsfs_done(k);
	super_unref(v->memfds);
	if (v->anon) {
		dentry_unref(v->anon->root);
		super_unref(v->anon->sb);
		free(v->anon);
	}
	dentries_done(v);
	tree_done(k);
	free(k->locks);
	k->locks = NULL;
	free(v);
	k->vfs = NULL;
	k->root_mount = NULL;
}

struct fs_ctx *vfs_first_ctx(struct kernel *k)
{
	struct fs_ctx *fs = calloc(1, sizeof(*fs));

	if (!fs)
		return NULL;
	fs->refs = 1;
	fs->umask = 022;
	fs->root = path_ref((struct path){ k->root_mount, k->root_mount->root });
	fs->cwd = path_ref(fs->root);
	return fs;
}
