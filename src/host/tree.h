/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HOST_TREE_H
#define WARD_HOST_TREE_H

#include <stdint.h>

#include "base/err.h"

/*
 * Deletes @name below @dir, file or directory tree; a missing one is success. Follows no symlink,
 * enters no mount point, opens up directories without permission bits where it may, and goes as
 * deep as the tree does with a bounded stack. Goes on past what it cannot delete and returns the
 * first error. tree_remove() is the same by path.
 */
int rm_tree(int dir, const char *name, struct err *e);
int tree_remove(const char *path, struct err *e);

/* Makes a directory deletable for its owner: u+rwx. Follows no symlink. */
int tree_unlock(int dir, const char *name);

/*
 * Copies the folder @src to @dst, which must not exist. Blocks are shared where the file system
 * can; holes stay holes. Keeps modes (but not set-id bits), times, symlinks, fifos and user.*
 * attributes, and as root the owners; hard links become files of their own. Leaves out sockets,
 * devices and other file systems mounted below @src. On failure part of @dst may exist.
 */
int tree_copy(const char *src, const char *dst, struct err *e);

/* The same for the upper folder of an overlay: with its deletions (devices 0:0) and the marks of
 * folders that hide what is below them. */
int tree_copy_upper(const char *src, const char *dst, struct err *e);

/* One regular file, as in tree_copy; @dst_name must not exist. */
int tree_copy_file(
	int src_dir, const char *src_name, int dst_dir, const char *dst_name, struct err *e);

/*
 * The bytes on disk of all that is in the folder @path, hard links each time. -ELOOP: it is deeper
 * than TREE_SIZE_DEPTH_MAX. What was counted up to an error is in @ret_bytes.
 */
int tree_size(const char *path, uint64_t *ret_bytes);

/* mkdir -p: makes @path and what is missing above it. */
int tree_make(const char *path, unsigned mode, struct err *e);

#endif
