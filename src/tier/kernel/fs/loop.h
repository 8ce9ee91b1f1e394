/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_FS_LOOP_H
#define WARD_TIER_KERNEL_FS_LOOP_H

struct file;
struct inode;
struct kernel;
struct task;
struct walk;

/*
 * Loop devices: a file of the guest's as a block device of the guest's. Whoever reads and writes
 * the device reads and writes the file; there is no file system here that could be mounted from
 * one.
 */
enum { LOOP_MAJOR = 7, LOOP_CONTROL_MAJOR = 10, LOOP_CONTROL_MINOR = 237, LOOP_DEVICES = 8 };

int loop_open(struct inode *i, struct file *f, struct task *t);
int loop_control_open(struct inode *i, struct file *f, struct task *t);
void loops_done(struct kernel *k);
struct file *loop_file(struct kernel *k, unsigned n); /* borrowed; NULL: free */
void loops_walk(struct kernel *k, struct walk *w);

#endif
