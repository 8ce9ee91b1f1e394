/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_WALK_DOMAINS_H
#define WARD_TIER_KERNEL_WALK_DOMAINS_H

#include <stdbool.h>

struct kernel;
struct landlock_rights;
struct landlock_rule;
struct walk;

/* Landlock's domains (WALK_LANDLOCK: numbered by the survey, what lies below first), and which cred
 * is in which. Credentials, inodes and names have their numbers. */
void domains_walk(struct kernel *k, struct walk *w);
/* What a ruleset or a layer handles, and its rules. Loading: all of it checked; the array is the
 * caller's to free, what it points at the walk's; on an error there is none. */
void rules_walk(struct kernel *k, struct landlock_rights *what, struct landlock_rule **rules,
	struct walk *w);
/* Is what it names nowhere any more? Then the rule is left behind: it allows nothing. */
bool rule_is_lost(struct kernel *k, const struct landlock_rule *r);

#endif
