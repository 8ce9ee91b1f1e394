/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HOST_TREE_H
#define WARD_HOST_TREE_H

#include "base/err.h"

/*
 * Removes @path, a file or a folder with all in it. What is not there is no error. Follows no
 * symlink, needs no more than a few descriptors however deep the tree is, and opens folders that
 * their owner has closed: a sandbox made the tree and may have wanted to keep it.
 */
int tree_remove(const char *path, struct err *e);

/*
 * Copies the folder @src to @dst, which must not exist. Blocks are shared where the file system
 * can; holes stay holes. Keeps modes (but not set-id bits), times, symlinks, fifos and user.*
 * attributes, and as root the owners; hard links become files of their own. Leaves out sockets,
 * devices and other file systems mounted below @src. On failure part of @dst may exist.
 */
int tree_copy(const char *src, const char *dst, struct err *e);

/* One regular file, as in tree_copy; @dst_name must not exist. */
int tree_copy_file(
	int src_dir, const char *src_name, int dst_dir, const char *dst_name, struct err *e);

/* mkdir -p: makes @path and what is missing above it. */
int tree_make(const char *path, unsigned mode, struct err *e);

#endif
