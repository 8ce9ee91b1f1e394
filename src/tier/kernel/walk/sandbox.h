/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_WALK_SANDBOX_H
#define WARD_TIER_KERNEL_WALK_SANDBOX_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/*
 * The whole sandbox as bytes, and a kernel that is built from them: docs/design/kernel-walk.md.
 *
 *	u8 magic[8]; u32 version; u32 sections; u64 bytes; i64 taken_ns; u8 sha256[32];
 *	sections: u32 number; u64 bytes; fields, each with a mark made of its name
 *
 * Under the kernel lock, with no guest running: a guest that runs changes its memory meanwhile.
 */
struct kernel;

/* @now: kernel_now(). *ret is the caller's to free. -EBUSY: a task is being made, or has just died;
 * -EOPNOTSUPP: a removed file of a host directory is open; -EFBIG: more is mapped than can be
 * looked at. */
int sandbox_walk(
	struct kernel *k, int64_t now, unsigned char **ret, size_t *ret_len, struct err *e);
/*
 * @k has its mounts (vfs_init) and no process; @now: kernel_now(), so that what was to happen in
 * ten seconds still does. Calls that were blocked wait for sandbox_resume(). After an error the
 * kernel is good for nothing but its end (procs_done, vfs_done, kernel_done).
 */
int sandbox_rebuild(
	struct kernel *k, int64_t now, const unsigned char *buf, size_t len, struct err *e);
/* Every call that was blocked is entered again. */
void sandbox_resume(struct kernel *k);

#endif
