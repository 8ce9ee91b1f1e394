/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/mapnames.c - by which names files were mapped.
 *
 * Owns:  kernel.map_names.
 * Rules: the host names what is mapped by device and number, and a name of ours for that is looked
 *        for in the cache of names. When it has left the cache, this says where to look again; who
 *        asks checks what is found there. So what is old here does no harm, and nothing is held.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tier/kernel/fs/mapnames.h"
#include "tier/kernel/fs/tree.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"

enum { SLOTS = 1024 };

struct map_names {
	struct {
		uint64_t dev, number;
		char *path;
	} slots[SLOTS];
};

static unsigned slot_of(uint64_t dev, uint64_t number)
{
	return (unsigned)((number ^ dev * 31) * 0x9e3779b97f4a7c15u >> 54) % SLOTS;
}

/* The same words as a line of the host's maps has: 0 for the store's device. */
static bool key_of(const struct file *f, uint64_t *dev, uint64_t *number)
{
	const struct node *n;

	if (!f->path.dentry || f->inode->ops != &tree_ops || !S_ISREG(f->inode->mode))
		return false;
	n = node_of(f->inode);
	*dev = n->content == CONTENT_LOWER ? n->host_dev : 0;
	*number = n->content == CONTENT_LOWER ? n->host_ino : n->store_id;
	return n->content == CONTENT_LOWER || n->content == CONTENT_STORE;
}

void map_name_note(const struct file *f)
{
	struct path root = { f->k->root_mount, f->k->root_mount->root };
	char path[GUEST_PATH_MAX], *copy;
	uint64_t dev, number;
	unsigned at;

	if (!key_of(f, &dev, &number))
		return;
	if (!f->k->map_names)
		f->k->map_names = calloc(1, sizeof(*f->k->map_names));
	if (!f->k->map_names)
		return;
	at = slot_of(dev, number);
	if (f->k->map_names->slots[at].path && f->k->map_names->slots[at].dev == dev &&
		f->k->map_names->slots[at].number == number)
		return;
	if (path_show(f->path, root, path, sizeof(path)) <= 0 || path[0] != '/')
		return;
	copy = strdup(path);
	if (!copy)
		return;
	free(f->k->map_names->slots[at].path);
	f->k->map_names->slots[at].dev = dev;
	f->k->map_names->slots[at].number = number;
	f->k->map_names->slots[at].path = copy;
}

const char *map_name_find(const struct kernel *k, uint64_t dev, uint64_t number)
{
	const struct map_names *m = k->map_names;
	unsigned at = slot_of(dev, number);

	return m && m->slots[at].dev == dev && m->slots[at].number == number ? m->slots[at].path
									     : NULL;
}

void map_names_done(struct kernel *k)
{
	for (unsigned i = 0; k->map_names && i < SLOTS; i++)
		free(k->map_names->slots[i].path);
	free(k->map_names);
	k->map_names = NULL;
}
