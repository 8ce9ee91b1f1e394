/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_KNOBS_H
#define WARD_TIER_KERNEL_FS_KNOBS_H

#include <stdint.h>

/*
 * What was written to the knobs of /proc/sys: it is read back, as programs expect that put a value
 * there and look. It changes nothing else, but for those that somebody asks for with knob_value().
 */
struct kernel;
struct proc_entry;
struct walk;

/* What @e says now: its own text until somebody has written another. */
const char *knob_text(const struct kernel *k, const struct proc_entry *e);
/* The first number that the knob at @path (below /proc) says now. */
uint64_t knob_value(const struct kernel *k, const char *path);
int knob_write(struct kernel *k, const struct proc_entry *e, const char *text);
void knobs_walk(struct kernel *k, struct walk *w);
void knobs_done(struct kernel *k);

#endif
