/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/sysfs.c - a small /sys.
 *
 * Owns:  nothing: it is a tree of texts. Only loop devices have some that change (sysfs_set()).
 * Rules: the texts are in the tree's own tables, so an idle sandbox has no host file for them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/kernel/fs/sysfs.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"

static const struct {
	const char *path, *text; /* NULL: a directory */
} rows[] = {
	{ "block", NULL },
	{ "bus", NULL },
	{ "class/net", NULL },
	{ "class/block", NULL },
	{ "class/tty", NULL },
	{ "class/mem", NULL },
	{ "dev/block", NULL },
	{ "dev/char", NULL },
	{ "firmware", NULL },
	{ "fs/cgroup", NULL },
	{ "kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n" },
	{ "kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise madvise [never]\n" },
	{ "kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n" },
	{ "kernel/mm/hugepages", NULL },
	{ "module", NULL },
	{ "power", NULL },
	{ "devices/virtual", NULL },
	{ "devices/system/node/online", "0\n" },
	{ "devices/system/node/possible", "0\n" },
	{ "devices/system/node/has_cpu", "0\n" },
	{ "devices/system/node/has_memory", "0\n" },
	{ "devices/system/node/has_normal_memory", "0\n" },
	{ "devices/system/node/node0/distance", "10\n" },
	{ "devices/system/cpu/isolated", "\n" },
	{ "devices/system/cpu/offline", "\n" },
	{ "devices/system/cpu/smt/active", "0\n" },
	{ "devices/system/cpu/smt/control", "notsupported\n" },
};

/* The directory or text at @path below @at, with what is missing on the way. */
static struct dentry *make(struct dentry *at, const char *path, bool file)
{
	while (at && *path) {
		const char *end = strchrnul(path, '/');
		char name[64];

		if (str_fmt(name, sizeof(name), "%.*s", (int)(end - path), path) < 0)
			return NULL;
		at = tree_child(at, name, *end || !file ? S_IFDIR | 0555 : S_IFREG | 0444, 0);
		path = *end ? end + 1 : end;
	}
	return at;
}

static int text_at(struct dentry *sys, const char *path, const char *text)
{
	struct dentry *d = make(sys, path, true);

	if (!d)
		return -ENOMEM;
	free(node_of(d->inode)->target);
	node_of(d->inode)->target = strdup(text);
	if (!node_of(d->inode)->target)
		return -ENOMEM;
	node_of(d->inode)->content = CONTENT_TEXT;
	d->inode->size = (int64_t)strlen(text);
	return 0;
}

static int cpus(struct dentry *sys, unsigned count)
{
	static const char *const lists[] = { "online", "possible", "present" };
	char path[96], text[32];
	int r = 0;

	if (count > 1)
		str_fmt(text, sizeof(text), "0-%u\n", count - 1);
	else
		str_fmt(text, sizeof(text), "0\n");
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(lists); i++) {
		str_fmt(path, sizeof(path), "devices/system/cpu/%s", lists[i]);
		r = text_at(sys, path, text);
	}
	if (r == 0)
		r = text_at(sys, "devices/system/node/node0/cpulist", text);
	if (r == 0) {
		str_fmt(text, sizeof(text), "%llx\n", count >= 64 ? ~0ULL : (1ULL << count) - 1);
		r = text_at(sys, "devices/system/node/node0/cpumap", text);
	}
	if (r == 0)
		r = text_at(sys, "devices/system/cpu/kernel_max", "8191\n");
	for (unsigned i = 0; r == 0 && i < count; i++) {
		str_fmt(path, sizeof(path), "devices/system/cpu/cpu%u/topology/core_id", i);
		str_fmt(text, sizeof(text), "%u\n", i);
		r = text_at(sys, path, text);
		str_fmt(path, sizeof(path), "devices/system/cpu/cpu%u/topology/physical_package_id",
			i);
		if (r == 0)
			r = text_at(sys, path, "0\n");
		str_fmt(path, sizeof(path),
			"devices/system/cpu/cpu%u/topology/thread_siblings_list", i);
		if (r == 0)
			r = text_at(sys, path, text);
	}
	return r;
}

/* The memory of the one node; what is free of it, as it was at the start. */
static int node_memory(struct dentry *sys)
{
	uint64_t total = 0, limit = sys->sb->k->memory_limit;
	struct sysinfo si;
	char text[128];

	if (sysinfo(&si) == 0)
		total = (uint64_t)si.totalram * si.mem_unit;
	if (limit && limit < total)
		total = limit;
	total >>= 10;
	str_fmt(text, sizeof(text),
		"Node 0 MemTotal:       %8llu kB\nNode 0 MemFree:        %8llu kB\n"
		"Node 0 MemUsed:               0 kB\n",
		(unsigned long long)total, (unsigned long long)total);
	return text_at(sys, "devices/system/node/node0/meminfo", text);
}

int sysfs_set(struct kernel *k, const char *path, const char *text)
{
	for (struct mount *m = k->vfs->mounts; m; m = m->next)
		if (m->kept && m->sb->ops == &tree_sysfs)
			return text_at(m->sb->root, path, text);
	return -ENOENT;
}

int sysfs_fill(struct dentry *sys)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(rows); i++) {
		if (rows[i].text)
			r = text_at(sys, rows[i].path, rows[i].text);
		else
			r = make(sys, rows[i].path, false) ? 0 : -ENOMEM;
	}
	if (r == 0)
		r = node_memory(sys);
	return r < 0 ? r : cpus(sys, sys->sb->k->cpus);
}
