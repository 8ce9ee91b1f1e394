/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk/survey.c - what a sandbox has, found by following what its tasks hold.
 *
 * Owns:  the lists of a survey.
 * Rules: changes nothing. A file that only a message, a device or a queue holds is found too, and
 *        what such a file's queue holds.
 */
#include <errno.h>
#include <stdlib.h>

#include "tier/kernel/fs/loop.h"
#include "tier/kernel/io/fanotify.h"
#include "tier/kernel/io/inotify.h"
#include "tier/kernel/ipc/ipc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/sock/sock.h"
#include "tier/kernel/task/treewalk.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/walk/backings.h"
#include "tier/kernel/walk/domains.h"
#include "tier/kernel/walk/files.h"
#include "tier/kernel/walk/names.h"
#include "tier/kernel/walk/survey.h"

struct finder {
	struct survey *s;
	struct kernel *k;
	struct walk *w;
};

static void add(struct finder *f, enum walk_kind kind, void ***list, uint32_t *count, uint32_t *cap,
	void *p)
{
	if (!p || f->w->err || walk_knows(&f->s->seen, kind, p))
		return;
	walk_number(&f->s->seen, kind, p);
	if (*count == *cap) {
		uint32_t grown = *cap ? *cap * 2 : 64;
		void **all = realloc(*list, grown * sizeof(void *));

		if (!all) {
			walk_fail(f->w, -ENOMEM);
			return;
		}
		*list = all;
		*cap = grown;
	}
	(*list)[(*count)++] = p;
}

static void add_inode(void *arg, struct inode *i)
{
	struct finder *f = arg;
	struct walk_wanted *want = &f->s->wanted;

	add(f, WALK_INODE, (void ***)&want->inodes, &want->inode_count, &f->s->inode_cap, i);
}

/* A name, with the inode of one that cannot be found by it. */
static void add_name(struct finder *f, struct dentry *d)
{
	struct walk_wanted *want = &f->s->wanted;

	if (!d)
		return;
	add(f, WALK_DENTRY, (void ***)&want->dentries, &want->dentry_count, &f->s->dentry_cap, d);
	for (; d; d = d->parent)
		if (d->flags & DENTRY_DELETED)
			add_inode(f, d->inode);
}

static void add_used_name(void *arg, struct dentry *d)
{
	struct finder *f = arg;

	add_name(f, d);
	add_inode(f, d->inode);
}

static void add_rules(struct finder *f, const struct landlock_rule *rules, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (rule_is_lost(f->k, &rules[i]))
			continue;
		if (rules[i].name)
			add_used_name(f, rules[i].name);
		else
			add_inode(f, rules[i].inode);
	}
}

/* No deeper than LANDLOCK_LAYERS. */
static void add_domain(struct finder *f, struct landlock *d)
{
	if (!d || walk_knows(f->w, WALK_LANDLOCK, d))
		return;
	add_domain(f, d->below);
	walk_number(f->w, WALK_LANDLOCK, d);
	add_rules(f, d->rules, d->count);
}

static void add_cred(struct finder *f, struct cred *c)
{
	struct walk_wanted *want = &f->s->wanted;

	add(f, WALK_CRED, (void ***)&want->creds, &want->cred_count, &f->s->cred_cap, c);
	add_domain(f, c ? c->landlock : NULL);
}

static void add_file(void *arg, struct file *file)
{
	struct finder *f = arg;
	const struct landlock_rule *rules;
	uint32_t count;

	if (!file || walk_knows(f->w, WALK_FILE, file))
		return;
	walk_number(f->w, WALK_FILE, file);
	if (file_is_lost(file))
		return; /* nothing but its number comes along */
	add_inode(f, file->inode);
	if (file->path.dentry)
		add_used_name(f, file->path.dentry);
	add_cred(f, file->cred);
	inotify_each(file, add_inode, f);
	fanotify_each(file, add_inode, add_used_name, f);
	count = ruleset_rules(file, &rules);
	add_rules(f, rules, count);
}

static void add_table(struct finder *f, struct files *fs)
{
	if (!fs || walk_knows(f->w, WALK_FILES, fs))
		return;
	walk_number(f->w, WALK_FILES, fs);
	for (unsigned i = 0; i < fs->cap; i++)
		add_file(f, fs->slots[i].file);
}

static void add_place(struct finder *f, struct fs_ctx *fs)
{
	if (!fs || walk_knows(f->w, WALK_FS, fs))
		return;
	walk_number(f->w, WALK_FS, fs);
	if (!name_is_lost(f->k, fs->root.dentry))
		add_name(f, fs->root.dentry);
	if (!name_is_lost(f->k, fs->cwd.dentry))
		add_name(f, fs->cwd.dentry);
}

static void add_messages(struct finder *f)
{
	struct sock *s = f->k->sock ? f->k->sock->all : NULL;

	while (s && s->all_next) /* the oldest first */
		s = s->all_next;
	for (; s; s = s->all_prev) {
		add_inode(f, s->inode);
		add_domain(f, s->landlock);
		for (struct skb *b = s->rx; b; b = b->next)
			for (unsigned i = 0; i < b->scm.count; i++)
				add_file(f, b->scm.files[i]);
	}
}

int survey_make(struct survey *s, struct kernel *k, struct walk *w)
{
	struct finder f = { s, k, w };
	int r;

	*s = (struct survey){ .inode_cap = 0 };
	r = walk_save_begin(&s->seen);
	if (r < 0)
		return r;
	for (struct proc *p = k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next) {
			add_table(&f, t->files);
			add_place(&f, t->fs);
			add_file(&f, call_held(t));
			add_domain(&f, t->cred->landlock);
			if (t->mm) {
				walk_number(w, WALK_MM, t->mm);
				add_file(&f, t->mm->exe);
			}
		}
	add_messages(&f);
	for (unsigned n = 0; n < LOOP_DEVICES; n++)
		add_file(&f, loop_file(k, n));
	mq_each_file(k, add_file, &f);
	for (struct mount *m = k->vfs->mounts; m; m = m->next) {
		add_name(&f, m->root);
		add_name(&f, m->point);
	}
	if (!w->err && !s->seen.err)
		walk_fail(w, backings_make(&s->wanted.backings, k, w, &s->wanted, add_inode, &f));
	return w->err == -ESRCH ? -EBUSY : w->err ? w->err : s->seen.err;
}

void survey_done(struct survey *s)
{
	backings_free(s->wanted.backings);
	free(s->wanted.inodes);
	free(s->wanted.dentries);
	free(s->wanted.creds);
	walk_done(&s->seen);
}
