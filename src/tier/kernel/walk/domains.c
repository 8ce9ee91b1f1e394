/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk/domains.c - Landlock's rules and domains, saved and built again.
 *
 * Owns:  nothing.
 * Rules: a domain is shared as it was, layer by layer: who may reach whom depends on that. Where
 *        there is a doubt a rule goes, and never a layer: less is allowed then, not more.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/walk.h"
#include "tier/kernel/walk/domains.h"
#include "tier/kernel/walk/names.h"

static void drop_domain(void *p)
{
	landlock_unref(p);
}

/* Nobody comes to what is not mounted any more. */
static bool is_mounted(const struct kernel *k, const struct super *sb)
{
	for (const struct mount *m = k->vfs->mounts; m; m = m->next)
		if (m->sb == sb)
			return true;
	return sb == k->vfs->nsfs->sb;
}

bool rule_is_lost(struct kernel *k, const struct landlock_rule *r)
{
	if (!r->inode)
		return false;
	if (!is_mounted(k, r->inode->sb))
		return true;
	for (const struct dentry *d = r->name; d; d = d->parent)
		if (d->flags & DENTRY_DELETED)
			return true;
	return r->name && (r->name->inode != r->inode || name_is_lost(k, r->name));
}

/* Is it one that landlock_add_rule() could have made? */
static bool is_fine(
	const struct kernel *k, const struct landlock_rights *what, const struct landlock_rule *r)
{
	const struct inode *i = r->inode;
	unsigned can = !i ? what->net : S_ISDIR(i->mode) ? what->fs : what->fs & LANDLOCK_OF_FILES;

	if (!r->allowed || (r->allowed & ~can))
		return false;
	if (!i)
		return !r->name && r->port <= UINT16_MAX;
	return !r->port && i->sb && i->sb != k->vfs->anon->sb && i->sb != k->vfs->memfds &&
	       !(i->sb->flags & SB_NO_CACHE) == !r->name && (!r->name || r->name->inode == i);
}

/* False: another file has the name by now. */
static bool rule_walk(struct landlock_rule *r, struct walk *w)
{
	uint64_t ino = r->inode ? r->inode->ino : 0;

	walk_ref(w, "inode", WALK_INODE, (void **)&r->inode);
	walk_ref(w, "name", WALK_DENTRY, (void **)&r->name);
	walk_u64(w, "ino", &ino);
	walk_u32(w, "port", &r->port);
	walk_u32(w, "allowed", &r->allowed);
	return !r->inode || r->inode->ino == ino;
}

static void rules_save(struct kernel *k, const struct landlock_rights *what,
	struct landlock_rule *rules, struct walk *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < what->count; i++)
		n += !rule_is_lost(k, &rules[i]);
	walk_list(w, "rules", &n, LANDLOCK_RULES_MAX);
	for (uint32_t i = 0; i < what->count; i++)
		if (!rule_is_lost(k, &rules[i])) {
			struct landlock_rule r = rules[i];

			rule_walk(&r, w);
		}
}

/* No two about the same thing: only one of them would be found. */
static int check_twins(const struct landlock_rule *rules, uint32_t count)
{
	struct landlock_rule *sorted = calloc(count + 1, sizeof(*sorted));
	bool twins = false;

	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, rules, count * sizeof(*sorted));
	qsort(sorted, count, sizeof(*sorted), landlock_rule_order);
	for (uint32_t i = 1; i < count; i++)
		twins = twins || landlock_rule_order(&sorted[i - 1], &sorted[i]) == 0;
	free(sorted);
	return twins ? -EBADMSG : 0;
}

static struct landlock_rule *rules_load(
	struct kernel *k, struct landlock_rights *what, struct walk *w)
{
	struct landlock_rule *rules;
	uint32_t n = 0;

	walk_list(w, "rules", &n, LANDLOCK_RULES_MAX);
	rules = calloc(n + 1, sizeof(*rules));
	if (!rules)
		walk_fail(w, -ENOMEM);
	for (; n > 0 && !w->err; n--) {
		struct landlock_rule r = { .port = 0 };
		bool same = rule_walk(&r, w);

		if (!w->err && same && !is_fine(k, what, &r))
			walk_fail(w, -EBADMSG);
		if (!w->err && same)
			rules[what->count++] = r;
	}
	if (!w->err)
		walk_fail(w, check_twins(rules, what->count));
	if (!w->err)
		return rules;
	what->count = 0;
	free(rules);
	return NULL;
}

void rules_walk(struct kernel *k, struct landlock_rights *what, struct landlock_rule **rules,
	struct walk *w)
{
	walk_u32(w, "fs", &what->fs);
	walk_u32(w, "net", &what->net);
	walk_u32(w, "scoped", &what->scoped);
	if (w->mode == WALK_SAVE) {
		rules_save(k, what, *rules, w);
		return;
	}
	if ((what->fs & ~(uint32_t)LANDLOCK_ALL) || (what->net & ~(uint32_t)LANDLOCK_NET_ALL) ||
		(what->scoped & ~(uint32_t)LANDLOCK_SCOPES) ||
		!(what->fs | what->net | what->scoped))
		walk_fail(w, -EBADMSG);
	*rules = rules_load(k, what, w);
}

static void domain_walk(struct kernel *k, struct landlock *d, struct walk *w)
{
	struct landlock_rights what = { 0 };
	struct landlock_rule *rules = d ? d->rules : NULL;
	struct landlock *below = d ? d->below : NULL;
	int r;

	if (d)
		what = (struct landlock_rights){ d->fs, d->net, d->scoped, d->count };
	walk_ref(w, "below", WALK_LANDLOCK, (void **)&below);
	rules_walk(k, &what, &rules, w);
	if (w->mode == WALK_SAVE || w->err)
		return;
	r = landlock_add(k, below, &what, rules, &d);
	free(rules);
	if (r < 0) {
		walk_fail(w, r == -E2BIG ? -EBADMSG : r);
		return;
	}
	walk_keep(w, d, drop_domain);
	if (!w->err)
		walk_number(w, WALK_LANDLOCK, d);
}

void domains_walk(struct kernel *k, struct walk *w)
{
	uint32_t n = walk_count_of(w, WALK_LANDLOCK);

	walk_list(w, "domains", &n, (GUEST_FILES_MAX + SOCKETS_MAX) * LANDLOCK_LAYERS);
	for (uint32_t i = 1; i <= n && !w->err; i++)
		domain_walk(k, w->mode == WALK_SAVE ? walk_get(w, WALK_LANDLOCK, i) : NULL, w);
	for (uint32_t i = 1; i <= walk_count_of(w, WALK_CRED) && !w->err; i++) {
		struct cred *c = walk_get(w, WALK_CRED, i);
		struct landlock *d = c->landlock;

		walk_ref(w, "landlock", WALK_LANDLOCK, (void **)&d);
		if (w->mode == WALK_LOAD)
			c->landlock = landlock_ref(d);
	}
}
