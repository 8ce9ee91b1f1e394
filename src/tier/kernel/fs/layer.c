/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/layer.c - read-only host directories under a tree file system.
 *
 * Owns:  the descriptors of layers and of their directories, and the inodes found there, by host
 *        number.
 * Rules: a name of the guest reaches the host as one component, never "." or "..", in a directory
 *        whose descriptor we hold; a path that is opened is one that we found, below its layer and
 *        through no link. Nothing but regular files, directories and the text of links is used:
 *        a device or FIFO that lies in a layer is never opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "host/host.h"
#include "tier/kernel/fs/listing.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/limits.h"

enum {
	ID_COUNT = 65536,
	NOBODY = 65534,
	DT_CHR_ = 2, /* as the host numbers it */
	LAYER_SHIFT = 48,
	BENEATH = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
};

static uint64_t lower_ino(unsigned layer, uint64_t host_ino)
{
	return host_ino + ((uint64_t)(layer + 1) << LAYER_SHIFT);
}

static struct inode **bucket(struct tree *t, unsigned layer, uint64_t dev, uint64_t ino)
{
	uint64_t h = (ino * 31 + dev * 7 + layer) * 0x9e3779b97f4a7c15u;

	return &t->lower_hash[(h >> 32) % 1024];
}

static struct inode *find_lower(struct tree *t, unsigned layer, const struct stat *st)
{
	struct inode *i = *bucket(t, layer, st->st_dev, st->st_ino);

	for (; i; i = i->hash_next) {
		struct node *n = node_of(i);

		if (n->layer == layer && n->host_dev == st->st_dev && n->host_ino == st->st_ino)
			return i;
	}
	return NULL;
}

/* Descriptors of directories are kept open while there are not too many. */

static void close_members(struct node *n)
{
	struct tree_state *ts = n->inode->sb->k->vfs->tree;

	if (!n->in_open)
		return;
	for (unsigned m = 0; m < n->member_count; m++) {
		if (n->members[m].fd < 0)
			continue;
		close(n->members[m].fd);
		n->members[m].fd = -1;
		ts->open_dirs--;
	}
	n->open_next->open_prev = n->open_prev;
	n->open_prev->open_next = n->open_next;
	n->in_open = false;
}

static void keep_open(struct node *n)
{
	struct tree_state *ts = n->inode->sb->k->vfs->tree;
	struct node *head = &ts->open_list;

	ts->open_dirs++;
	if (!n->in_open) {
		n->open_next = head;
		n->open_prev = head->open_prev;
		head->open_prev->open_next = n;
		head->open_prev = n;
		n->in_open = true;
	}
	while (ts->open_dirs > LOWER_DIRS_OPEN_MAX && head->open_next != n)
		close_members(head->open_next);
}

static int member_fd(struct inode *dir, unsigned m)
{
	struct node *n = node_of(dir);
	struct member *at = &n->members[m];
	int fd;

	if (at->fd >= 0)
		return at->fd;
	fd = host_openat2(tree_of(dir)->layers[at->layer].fd, n->lower[0] ? n->lower : ".",
		O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, BENEATH);
	if (fd < 0)
		return fd;
	at->fd = fd;
	keep_open(n);
	return fd;
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

static bool is_opaque(int fd)
{
	char y = 0;

	return (fgetxattr(fd, "user.overlay.opaque", &y, 1) == 1 && y == 'y') ||
	       (fgetxattr(fd, "trusted.overlay.opaque", &y, 1) == 1 && y == 'y');
}

static uint32_t guest_id(const struct tree *t, uint32_t id)
{
	if (t->nobody_is_root && id == NOBODY)
		return 0;
	return id >= t->id_base && id - t->id_base < ID_COUNT ? id - t->id_base : NOBODY;
}

static int64_t ns_of(const struct timespec *ts)
{
	return (int64_t)ts->tv_sec * 1000000000 + ts->tv_nsec;
}

static void fill(struct inode *i, unsigned layer, const struct stat *st)
{
	struct node *n = node_of(i);
	struct tree *t = tree_of(i);
	struct inode **b = bucket(t, layer, st->st_dev, st->st_ino);

	n->layer = layer;
	n->host_dev = st->st_dev;
	n->host_ino = st->st_ino;
	n->content = S_ISREG(st->st_mode) ? CONTENT_LOWER : CONTENT_NONE;
	i->ino = lower_ino(layer, st->st_ino);
	i->nlink = (uint32_t)st->st_nlink;
	i->uid = guest_id(t, st->st_uid);
	i->gid = guest_id(t, st->st_gid);
	i->size = st->st_size;
	i->rdev = st->st_rdev;
	i->atime = ns_of(&st->st_atim);
	i->mtime = ns_of(&st->st_mtim);
	i->ctime = i->btime = ns_of(&st->st_ctim);
	i->hash_next = *b;
	*b = i;
}

static char *join(const char *dir, const char *name)
{
	size_t a = strlen(dir), b = strlen(name);
	char *s = malloc(a + b + 2);

	if (!s)
		return NULL;
	memcpy(s, dir, a);
	if (a)
		s[a++] = '/';
	memcpy(s + a, name, b + 1);
	return s;
}

static int read_target(struct node *n, int fd, const char *name, int64_t size)
{
	char text[GUEST_PATH_MAX];
	ssize_t len = readlinkat(fd, name, text, sizeof(text) - 1);

	if (len < 0)
		return -errno;
	text[len] = '\0';
	n->target = strdup(text);
	return n->target ? 0 : -ENOMEM;
}

/* Which of the directory's members behind @first, which has, have @name as a directory too. */
static int gather(struct inode *dir, unsigned first, struct node *n, const char *name)
{
	struct node *dn = node_of(dir);

	n->members = calloc(dn->member_count - first, sizeof(*n->members));
	if (!n->members)
		return -ENOMEM;
	for (unsigned m = first; m < dn->member_count; m++) {
		int fd = member_fd(dir, m), sub;
		struct stat st;

		if (fd < 0)
			return fd;
		if (m > first) { /* that one was just looked at */
			if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
				if (errno == ENOENT)
					continue;
				return -errno;
			}
			if (!S_ISDIR(st.st_mode))
				break; /* a whiteout or a file ends what lies below */
		}
		sub = host_openat2(
			fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW, 0, BENEATH);
		/* Only who may not look into it does without: it may hide what lies below. */
		if (sub < 0 && sub != -EACCES && sub != -EPERM)
			return sub;
		n->members[n->member_count].layer = dn->members[m].layer;
		n->members[n->member_count++].fd = sub < 0 ? -1 : sub;
		if (sub < 0)
			continue;
		keep_open(n);
		if (m + 1 < dn->member_count && is_opaque(sub))
			break;
	}
	return 0;
}

static int found(struct inode *dir, struct dentry *d, unsigned m, int fd, const struct stat *st)
{
	struct node *dn = node_of(dir), *n;
	unsigned layer = dn->members[m].layer;
	struct inode *i = find_lower(tree_of(dir), layer, st);
	int r = 0;

	d->flags |= DENTRY_LOWER;
	if (i) {
		d->inode = inode_ref(i);
		return 0;
	}
	i = tree_inode(dir->sb, st->st_mode & (S_IFMT | 07777));
	if (!i)
		return -ENOMEM;
	n = node_of(i);
	n->lower = join(dn->lower, d->name);
	if (!n->lower)
		r = -ENOMEM;
	if (r == 0)
		fill(i, layer, st);
	if (r == 0 && S_ISLNK(st->st_mode))
		r = read_target(n, fd, d->name, st->st_size);
	if (r == 0 && S_ISDIR(st->st_mode))
		r = gather(dir, m, n, d->name);
	if (r < 0) {
		inode_unref(i);
		return r;
	}
	d->inode = i;
	return 0;
}

int layer_lookup(struct inode *dir, struct dentry *d)
{
	struct node *dn = node_of(dir);

	for (unsigned m = 0; m < dn->member_count; m++) {
		int fd = member_fd(dir, m);
		struct stat st;

		if (fd < 0)
			return fd == -ENOENT ? 0 : fd;
		if (fstatat(fd, d->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			if (is_whiteout(&st))
				return 0;
			return found(dir, d, m, fd, &st);
		}
		if (errno != ENOENT)
			return errno == ENAMETOOLONG ? 0 : -errno;
	}
	return 0;
}

void tree_nobody_is_root(struct super *sb)
{
	struct tree *t = sb->priv;
	struct inode *root = sb->root->inode;

	t->nobody_is_root = true;
	root->uid = guest_id(t, root->uid);
	root->gid = guest_id(t, root->gid);
}

int layer_root(struct super *sb, struct inode *i)
{
	struct tree *t = sb->priv;
	struct node *n = node_of(i);
	struct stat st;

	n->lower = strdup("");
	n->members = calloc(t->layer_count, sizeof(*n->members));
	if (!n->lower || !n->members)
		return -ENOMEM;
	if (fstat(t->layers[0].fd, &st) < 0)
		return -errno;
	i->mode = st.st_mode & (S_IFMT | 07777);
	fill(i, 0, &st);
	if (!S_ISDIR(st.st_mode))
		return 0;
	for (unsigned m = 0; m < t->layer_count; m++)
		n->members[n->member_count++] = (struct member){ m, -1 };
	return 0;
}

static int stat_lower(struct super *sb, uint32_t layer, const char *lower, struct stat *ret)
{
	struct tree *t = sb->priv;
	int fd, r;

	if (layer >= t->layer_count || lower[0] == '\0')
		return -EBADMSG;
	fd = host_openat2(t->layers[layer].fd, lower, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0,
		RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return fd;
	r = fstat(fd, ret) < 0 ? -errno : 0;
	close(fd);
	return r;
}

struct inode *layer_find(struct super *sb, uint32_t layer, const char *lower)
{
	struct stat st;

	return stat_lower(sb, layer, lower, &st) < 0 ? NULL : find_lower(sb->priv, layer, &st);
}

int layer_restore(struct inode *i, uint32_t layer, char *lower)
{
	struct node *n = node_of(i);
	struct inode **b;
	struct stat st;
	int r = stat_lower(i->sb, layer, lower, &st);

	if (r < 0)
		return r;
	if (find_lower(tree_of(i), layer, &st))
		return -EBADMSG;
	n->lower = lower;
	n->layer = layer;
	n->host_dev = st.st_dev;
	n->host_ino = st.st_ino;
	b = bucket(tree_of(i), layer, st.st_dev, st.st_ino);
	i->hash_next = *b;
	*b = i;
	return 0;
}

int layer_open_file(struct inode *i)
{
	struct node *n = node_of(i);
	int layer = tree_of(i)->layers[n->layer].fd, fd;
	struct stat st;

	if (!n->lower[0]) { /* one file, given as such */
		fd = fcntl(layer, F_DUPFD_CLOEXEC, 3);
		return fd < 0 ? -errno : fd;
	}
	fd = host_openat2(layer, n->lower,
		O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0, BENEATH);
	if (fd < 0)
		return fd;
	/* The host's own program may have put another thing there meanwhile. */
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EIO;
	}
	return fd;
}

int layer_open_any(struct inode *i)
{
	int fd;

	if (S_ISREG(i->mode))
		return layer_open_file(i);
	fd = S_ISDIR(i->mode) && node_of(i)->member_count ? member_fd(i, 0) : -ENODATA;
	if (fd < 0)
		return fd;
	fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return fd < 0 ? -errno : fd;
}

void layer_forget(struct inode *i)
{
	struct node *n = node_of(i);
	struct inode **at = bucket(tree_of(i), n->layer, n->host_dev, n->host_ino);

	close_members(n);
	free(n->members);
	while (*at && *at != i)
		at = &(*at)->hash_next;
	if (*at)
		*at = i->hash_next;
}

static int list_one(struct inode *dir, unsigned m, struct listing *hidden, struct listing *l)
{
	unsigned layer = node_of(dir)->members[m].layer;
	int fd = member_fd(dir, m), r = 0;
	char buf[8192];
	ssize_t n;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = host_rewind(fd);
	while (r == 0 && (n = host_getdents(fd, buf, sizeof(buf))) != 0) {
		if (n < 0)
			return (int)n;
		for (ssize_t at = 0; r == 0 && at < n;) {
			const struct host_dirent *e = (const void *)(buf + at);
			size_t len = strlen(e->d_name);
			struct stat st;

			at += e->d_reclen;
			if (len <= 2 && e->d_name[0] == '.' && (len == 1 || e->d_name[1] == '.'))
				continue;
			if (listing_has(hidden, e->d_name, len))
				continue;
			if (e->d_type == DT_CHR_ &&
				fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
				is_whiteout(&st))
				r = listing_has(l, e->d_name, len)
					    ? 0
					    : listing_add(hidden, e->d_name, len, 0, 0);
			else
				r = listing_add(
					l, e->d_name, len, lower_ino(layer, e->d_ino), e->d_type);
		}
	}
	return r;
}

int layer_merge(struct inode *dir, struct listing *hidden, struct listing *l)
{
	int r = 0;

	for (unsigned m = 0; r == 0 && m < node_of(dir)->member_count; m++)
		r = list_one(dir, m, hidden, l);
	return r;
}

int layer_list(struct inode *dir, struct listing *l)
{
	struct listing hidden = { 0 };
	int r = layer_merge(dir, &hidden, l);

	listing_done(&hidden);
	return r;
}
