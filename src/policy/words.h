/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_POLICY_WORDS_H
#define WARD_POLICY_WORDS_H

#include "policy/policy.h"

/*
 * The sentences of a decision; private to this folder. All write into @d->why, one line, and cut
 * what does not fit.
 */
void words_rules_chose(const struct policy_input *in, struct decision *d);
void words_operator_chose(const struct policy_input *in, struct decision *d);
void words_too_weak(const struct policy_input *in, struct decision *d);
void words_nothing_available(const struct policy_input *in, struct decision *d);
void words_asked_not_available(const struct policy_input *in, struct decision *d);
void words_conflict(const struct policy_input *in, struct decision *d);
void words_asked_cannot(const struct policy_input *in, struct decision *d);
void words_no_reason(struct decision *d);

/* The fired rule that demands the most; the first of them when several do. */
const struct policy_rule *decision_demand(const struct decision *d);
/* The fired rule that recommends @w, the one with the strongest pull; NULL when none does. */
const struct policy_rule *decision_advocate(const struct decision *d, enum wall w);
/* The wall of @mask that the rules would rather have: recommended, else the lowest. */
enum wall decision_prefer(const struct decision *d, unsigned mask);

#endif
