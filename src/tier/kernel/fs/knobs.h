/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_KNOBS_H
#define WARD_TIER_KERNEL_FS_KNOBS_H

/*
 * What was written to the knobs of /proc/sys that have no meaning here: it is read back, as
 * programs expect that put a value there and look, and changes nothing else.
 */
struct kernel;
struct proc_entry;
struct walk;

/* What @e says now: its own text until somebody has written another. */
const char *knob_text(const struct kernel *k, const struct proc_entry *e);
int knob_write(struct kernel *k, const struct proc_entry *e, const char *text);
void knobs_walk(struct kernel *k, struct walk *w);
void knobs_done(struct kernel *k);

#endif
