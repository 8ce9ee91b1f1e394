/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/handle.c - file handles: name_to_handle_at, open_by_handle_at.
 *
 * Owns:  nothing. A handle is the file system's number and the inode's (vfs/handle.h).
 * Rules: a handle is the guest's word. It leads to files of the sandbox that are known by a name,
 * and only whoever may read everything may use one.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>

#include "tier/kernel/sys/path.h"
#include "tier/kernel/sys/sys.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/handle.h"
#include "tier/kernel/vfs/ops.h"

enum { HANDLE_FID = 0x200, HANDLE_ID64 = 1, CONNECTABLE = 2 };

SYSCALL5(name_to_handle_at, int, dirfd, gva_t, upath, gva_t, uhandle, gva_t, umount_id, unsigned,
	flags)
{
	unsigned at =
		(flags & AT_SYMLINK_FOLLOW ? 0 : AT_SYMLINK_NOFOLLOW) | (flags & AT_EMPTY_PATH);
	struct handle_head h;
	struct handle_body b;
	struct path p;
	uint64_t id;
	uint32_t room;
	long r;

	if (flags & ~(unsigned)(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH | HANDLE_FID | HANDLE_ID64 |
				CONNECTABLE))
		return -EINVAL;
	if ((flags & CONNECTABLE) && (flags & (HANDLE_FID | AT_EMPTY_PATH)))
		return -EINVAL;
	r = path_at(task, dirfd, upath, at, &p);
	if (r < 0)
		return r;
	b = (struct handle_body){ p.dentry->sb->dev, p.dentry->inode->ino };
	id = flags & HANDLE_ID64 ? mount_unique(p.mnt) : p.mnt->id;
	if (p.dentry->sb->flags & SB_NO_CACHE && !(flags & HANDLE_FID))
		r = -EOPNOTSUPP; /* what has no lasting names is not found again */
	path_unref(p);
	if (r < 0)
		return r;
	if (guest_read(task, &h, uhandle, sizeof(h)) < 0)
		return -EFAULT;
	if (h.bytes > HANDLE_MAX)
		return -EINVAL;
	room = h.bytes;
	h.bytes = sizeof(b);
	h.type = HANDLE_TYPE;
	r = flags & HANDLE_ID64 ? guest_write_u64(task, umount_id, id)
				: guest_write_u32(task, umount_id, (uint32_t)id);
	if (r == 0)
		r = guest_write(task, uhandle, &h, sizeof(h));
	if (r < 0)
		return r;
	if (room < sizeof(b))
		return -EOVERFLOW;
	return guest_write(task, gva_add(uhandle, sizeof(h)), &b, sizeof(b));
}

static struct dentry *find_inode(struct super *sb, uint64_t ino)
{
	struct vfs_state *v = sb->k->vfs;

	if (sb->root->inode->ino == ino)
		return dentry_ref(sb->root);
	for (unsigned n = 0; n < DENTRY_BUCKETS; n++)
		for (struct dentry *d = v->buckets[n]; d; d = d->hash_next)
			if (d->sb == sb && d->inode && d->inode->ino == ino)
				return dentry_ref(d);
	return NULL;
}

/* The mount in which a handle is looked for. */
static long mount_of(struct task *t, int fd, struct mount **ret)
{
	struct file *f;

	if (fd == AT_FDCWD) {
		*ret = t->fs->cwd.mnt;
		return 0;
	}
	f = fd_get_path(t, fd);
	if (!f)
		return -EBADF;
	if (!f->path.dentry)
		return -ESTALE;
	*ret = f->path.mnt;
	return 0;
}

SYSCALL3(open_by_handle_at, int, mount_fd, gva_t, uhandle, unsigned, flags)
{
	struct mount *m;
	struct dentry *d;
	struct file *f;
	struct handle_head h;
	struct handle_body b;
	long r;

	if (!task_capable(task, CAP_DAC_READ_SEARCH))
		return -EPERM;
	r = mount_of(task, mount_fd, &m);
	if (r < 0)
		return r;
	if (guest_read(task, &h, uhandle, sizeof(h)) < 0)
		return -EFAULT;
	if (h.bytes == 0 || h.bytes > HANDLE_MAX || h.type < 0)
		return -EINVAL;
	if (h.bytes != sizeof(b) || h.type != HANDLE_TYPE)
		return -ESTALE;
	if (guest_read(task, &b, gva_add(uhandle, sizeof(h)), sizeof(b)) < 0)
		return -EFAULT;
	if (m->sb->dev != b.dev)
		return -ESTALE;
	d = find_inode(m->sb, b.ino);
	if (!d)
		return -ESTALE;
	if (S_ISLNK(d->inode->mode) && !(flags & O_PATH))
		r = -ELOOP;
	if (r == 0 && (flags & O_DIRECTORY) && !S_ISDIR(d->inode->mode))
		r = -ENOTDIR;
	if (r == 0)
		r = fd_room(task);
	if (r == 0)
		r = vfs_open_path(task, (struct path){ m, d },
			flags & ~(unsigned)(O_CREAT | O_EXCL | O_NOFOLLOW), false, &f);
	dentry_unref(d);
	if (r < 0)
		return r;
	r = fd_install(task, f, flags & O_CLOEXEC, 0);
	if (r < 0)
		file_unref(f);
	return r;
}
