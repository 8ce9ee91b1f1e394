/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/proc_host.c - what only the host knows of a guest: its mappings and their size.
 *
 * Owns:  nothing.
 * Rules: the host's words never reach the guest: a line is taken apart, the shim's own memory left
 *        out, and a file is named by the guest's path, or not at all.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/fs/mapnames.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/mm/lock.h"
#include "tier/kernel/shim/shim.h"
#include "tier/kernel/sys/memory.h"
#include "tier/kernel/sys/usage.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/vfs/ops.h"

/* What a guest may read of it, and what a walk must have all of. */
enum { MAPS_MAX = 2 << 20, SMAPS_MAX = 128 << 20, PATH_COLUMN = 73 };

/* What anonymous memory that is shared is called. */
#define SHARED_MEMORY "/dev/zero (deleted)"

/* One line of the host's maps. */
struct line {
	uint64_t from, to, offset, ino;
	unsigned major, minor;
	char perms[5];
	const char *name; /* "" or what the host calls it */
};

static char *read_host(struct task *t, const char *what, size_t max)
{
	char path[40], *text = NULL;
	size_t len = 0, cap = 0;
	int fd;

	if (t->k->host_proc < 0 || !t->mm || t->mm->host_pid <= 0)
		return NULL;
	str_fmt(path, sizeof(path), "%d/%s", (int)t->mm->host_pid, what);
	fd = host_openat(t->k->host_proc, path, O_RDONLY | O_CLOEXEC, 0);
	while (fd >= 0 && len < max) {
		ssize_t n;

		if (cap - len < 4097) {
			char *more = realloc(text, cap ? cap * 2 : 16384);

			if (!more)
				break;
			text = more;
			cap = cap ? cap * 2 : 16384;
		}
		n = host_read(fd, text + len, cap - len - 1);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	if (text)
		text[len] = '\0';
	return text;
}

static bool parse(char *s, struct line *l)
{
	int at = 0;

	if (sscanf(s, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &l->from,
		    &l->to, l->perms, &l->offset, &l->major, &l->minor, &l->ino, &at) < 7)
		return false;
	l->name = s + at;
	return true;
}

static bool is_ours(const struct line *l)
{
	return (l->from >= SHIM_BASE && l->from < SHIM_BASE + 16 * SHIM_SIZE) ||
	       (l->from >= PLACE_BASE && l->from < PLACE_BASE + PLACE_SIZE) ||
	       (l->from >= SLOT_BASE && l->from < SLOT_BASE + SLOT_SIZE * SLOT_COUNT);
}

/* The store's files are named by number; 0: it is none of those. */
static uint64_t store_id_of(struct kernel *k, const struct line *l)
{
	const char *base = strrchr(l->name, '/');
	struct stat st;

	if (!l->ino || !base || k->store < 0 || fstat(k->store, &st) < 0 ||
		major(st.st_dev) != l->major || minor(st.st_dev) != l->minor)
		return 0;
	return strtoull(base + 1, NULL, 16);
}

/* Is @d the name of the file that the line maps? */
static bool is_mapped(const struct dentry *d, const struct line *l, uint64_t store_id)
{
	const struct node *n;

	if (!d->inode || d->inode->ops != &tree_ops || !S_ISREG(d->inode->mode))
		return false;
	n = node_of(d->inode);
	if (n->content == CONTENT_STORE)
		return store_id && n->store_id == store_id;
	return n->content == CONTENT_LOWER && n->host_ino == l->ino &&
	       major(n->host_dev) == l->major && minor(n->host_dev) == l->minor;
}

/* Any name will do: a mapping does not say by which it was opened. */
static struct dentry *find_name(struct vfs_state *v, const struct line *l, uint64_t store_id)
{
	for (unsigned b = 0; b < DENTRY_BUCKETS; b++)
		for (struct dentry *d = v->buckets[b]; d; d = d->hash_next)
			if (is_mapped(d, l, store_id))
				return d;
	return NULL;
}

static struct mount *mount_of(struct vfs_state *v, const struct super *sb)
{
	struct mount *m = v->mounts;

	while (m && m->sb != sb)
		m = m->next;
	return m;
}

/* No name of it is in the cache: is it where it was mapped from? */
static void name_again(struct task *t, const struct line *l, uint64_t store_id, char *out,
	size_t cap, uint64_t *ret_ino)
{
	struct task *first = t->k->init ? t->k->init->tasks : NULL;
	const char *path = map_name_find(
		t->k, store_id ? 0 : makedev(l->major, l->minor), store_id ? store_id : l->ino);
	struct path p;

	if (!path || !first || !first->fs || vfs_walk(first, AT_FDCWD, path, 0, &p) < 0)
		return;
	if (!is_mapped(p.dentry, l, store_id) || path_show(p, t->fs->root, out, cap) < 0)
		out[0] = '\0';
	else
		*ret_ino = p.dentry->inode->ino;
	path_unref(p);
}

static void name_file(
	struct task *t, const struct line *l, char *out, size_t cap, uint64_t *ret_ino)
{
	uint64_t store_id = store_id_of(t->k, l);
	struct vfs_state *v = t->k->vfs;
	struct dentry *d;
	struct mount *m;

	out[0] = '\0';
	if (str_after(l->name, "/memfd:")) {
		str_fmt(out, cap, "/memfd: (deleted)");
		return;
	}
	if (str_eq(l->name, SHARED_MEMORY)) {
		str_fmt(out, cap, "%s", l->name);
		return;
	}
	d = find_name(v, l, store_id);
	m = d ? mount_of(v, d->sb) : NULL;
	if (!d)
		name_again(t, l, store_id, out, cap, ret_ino);
	else if (!m || path_show((struct path){ m, d }, t->fs->root, out, cap) < 0)
		out[0] = '\0';
	else
		*ret_ino = d->inode->ino;
}

/* The segments of one file follow each other: what the last line found is kept. */
struct named {
	uint64_t host_ino, ino;
	char path[GUEST_PATH_MAX];
};

static void show_line(struct task *t, const struct line *l, struct named *was, struct buf *out)
{
	const char *path = was->path;
	uint64_t ino = 0;
	size_t start = out->len;

	if (l->ino) {
		if (was->host_ino != l->ino) {
			was->ino = l->ino;
			name_file(t, l, was->path, sizeof(was->path), &was->ino);
		}
		was->host_ino = l->ino;
		ino = path[0] ? was->ino : 0;
	}
	buf_add_fmt(out, "%08" PRIx64 "-%08" PRIx64 " %s %08" PRIx64 " %02x:%02x %" PRIu64 " ",
		l->from, l->to, l->perms, ino ? l->offset : 0, 0, ino ? 1 : 0, ino);
	if (ino || (t->mm->stack_top > l->from && t->mm->stack_top <= l->to) || l->name[0] == '[') {
		while (out->len - start < PATH_COLUMN)
			buf_add_str(out, " ");
		if (ino)
			buf_add_str(out, path);
		else if (t->mm->stack_top > l->from && t->mm->stack_top <= l->to)
			buf_add_str(out, "[stack]");
		else if (!str_eq(l->name, "[stack]"))
			buf_add_str(out, l->name);
	}
	buf_add_str(out, "\n");
}

/* What differs in its policy is a mapping of its own. */
static void show_parts(struct task *t, struct line l, struct named *was, struct buf *out)
{
	const uint64_t end = l.to;

	while (l.from < end) {
		l.to = policy_edge(t->mm, l.from, end);
		show_line(t, &l, was, out);
		l.offset += l.to - l.from;
		l.from = l.to;
	}
}

void proc_host_maps(struct task *t, struct buf *out)
{
	char *text = read_host(t, "maps", MAPS_MAX), *save = NULL;
	struct named was = { .host_ino = 0 };

	if (!t->fs)
		goto done;
	for (char *s = text ? strtok_r(text, "\n", &save) : NULL; s;
		s = strtok_r(NULL, "\n", &save)) {
		struct line l;

		if (parse(s, &l) && !is_ours(&l) && !str_eq(l.name, "[vsyscall]"))
			show_parts(t, l, &was, out);
	}
done:
	free(text);
}

void proc_host_memory(struct task *t, struct proc_memory *ret)
{
	const uint64_t ours = SHIM_OURS / 4096;
	char *text = read_host(t, "statm", MAPS_MAX);
	uint64_t lib;

	memset(ret, 0, sizeof(*ret));
	if (text &&
		sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
			&ret->size, &ret->resident, &ret->shared, &ret->text, &lib, &ret->data) < 6)
		memset(ret, 0, sizeof(*ret));
	free(text);
	ret->size -= ret->size < ours ? ret->size : ours;
	ret->data -= ret->data < ours ? ret->data : ours;
}

uint64_t proc_host_used(struct kernel *k)
{
	uint64_t pages = 0;

	for (struct proc *p = k->procs; p; p = p->next) {
		struct proc_memory m;

		if (p->state != PROC_LIVE || !p->tasks->mm || p->vfork_waits)
			continue;
		proc_host_memory(p->tasks, &m);
		pages += m.resident;
	}
	return pages * 4096;
}

static struct proc_range range_of(const struct task *t, const struct line *l)
{
	return (struct proc_range){ .from = l->from,
		.to = l->to,
		.readable = l->perms[0] == 'r',
		.writable = l->perms[1] == 'w',
		.stack = t->mm->stack_top > l->from && t->mm->stack_top <= l->to,
		.executable = l->perms[2] == 'x',
		.shared = l->perms[3] == 's',
		.time = str_after(l->name, "[vvar") || str_eq(l->name, "[vdso]"),
		.file = l->ino != 0,
		.dev = makedev(l->major, l->minor),
		.ino = l->ino,
		.offset = l->offset };
}

static bool is_guests(const struct line *l)
{
	return !is_ours(l) && !str_eq(l->name, "[vsyscall]");
}

int proc_host_each(struct task *t, int (*fn)(void *arg, const struct proc_range *r), void *arg)
{
	char *text = read_host(t, "maps", MAPS_MAX), *save = NULL;
	int r = 0;

	for (char *s = text ? strtok_r(text, "\n", &save) : NULL; s && r == 0;
		s = strtok_r(NULL, "\n", &save)) {
		struct proc_range one;
		struct line l;

		if (!parse(s, &l) || !is_guests(&l))
			continue;
		one = range_of(t, &l);
		r = fn(arg, &one);
	}
	free(text);
	return r;
}

int proc_host_each_used(struct task *t, int (*fn)(void *arg, const struct proc_range *r), void *arg)
{
	char *text = read_host(t, "smaps", SMAPS_MAX), *save = NULL;
	struct proc_range one = { .to = 0 };
	int r = !text || !*text ? -ESRCH : strlen(text) >= SMAPS_MAX ? -EOVERFLOW : 0;

	for (char *s = r == 0 ? strtok_r(text, "\n", &save) : NULL; s && r == 0;
		s = strtok_r(NULL, "\n", &save)) {
		uint64_t kb;
		struct line l;

		if (parse(s, &l)) { /* what the last one has is known */
			r = one.to ? fn(arg, &one) : 0;
			one = is_guests(&l) ? range_of(t, &l) : (struct proc_range){ .to = 0 };
			one.store_id = store_id_of(t->k, &l);
		} else if (sscanf(s, "Rss: %" SCNu64, &kb) == 1 ||
			   sscanf(s, "Swap: %" SCNu64, &kb) == 1) {
			one.used_kb += kb;
		}
	}
	if (r == 0 && one.to)
		r = fn(arg, &one);
	free(text);
	return r;
}

struct lock_sum {
	const struct mm *mm;
	uint64_t bytes;
};

static int add_locked(void *arg, const struct proc_range *r)
{
	struct lock_sum *sum = arg;

	sum->bytes += mm_locked(sum->mm, r->from, r->to);
	return 0;
}

uint64_t proc_host_locked(struct task *t)
{
	struct lock_sum sum = { t->mm, 0 };

	if (t->mm && (t->mm->lock_count || t->mm->lock_future))
		proc_host_each(t, add_locked, &sum);
	return sum.bytes;
}

/* A field of smaps: a word, a number and its unit; what is locked is ours to say. */
static void show_field(struct task *t, const struct line *l, const char *s, struct buf *out)
{
	unsigned long long kb;
	char name[32];

	if (sscanf(s, "%31[A-Za-z_]: %llu kB", name, &kb) != 2)
		return;
	if (str_eq(name, "Locked"))
		kb = mm_locked(t->mm, l->from, l->to) / 1024;
	buf_add_fmt(out, "%s:%*llu kB\n", name, 24 - (int)strlen(name) - 1, kb);
}

void proc_host_smaps(struct task *t, struct buf *out)
{
	char *text = read_host(t, "smaps", MAPS_MAX), *save = NULL;
	struct named was = { .host_ino = 0 };
	struct line l = { 0 };
	bool shown = false;

	for (char *s = text && t->fs ? strtok_r(text, "\n", &save) : NULL; s;
		s = strtok_r(NULL, "\n", &save)) {
		struct line next;

		if (parse(s, &next)) {
			l = next;
			shown = !is_ours(&l) && !str_eq(l.name, "[vsyscall]");
			if (shown)
				show_line(t, &l, &was, out);
		} else if (shown) {
			show_field(t, &l, s, out);
		}
	}
	free(text);
}

bool proc_host_sleeps(const struct task *t)
{
	char path[40], text[256], *at;
	ssize_t n = -1;
	int fd;

	if (t->k->host_proc < 0 || !t->host || t->host->in_call)
		return false;
	str_fmt(path, sizeof(path), "%d/stat", (int)t->host->tid);
	fd = host_openat(t->k->host_proc, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd >= 0) {
		n = host_read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return false;
	text[n] = '\0';
	at = strrchr(text, ')');
	return at && (at[1] == ' ' && (at[2] == 'S' || at[2] == 'D'));
}

static uint64_t ns(const struct timeval *tv)
{
	return (uint64_t)tv->tv_sec * 1000000000 + (uint64_t)tv->tv_usec * 1000;
}

void proc_host_times(struct task *t, bool whole, uint64_t *user_ns, uint64_t *system_ns)
{
	struct rusage u;

	if (whole)
		usage_of(t->proc, &u);
	else
		usage_of_task(t, &u);
	*user_ns = ns(&u.ru_utime);
	*system_ns = ns(&u.ru_stime);
}
