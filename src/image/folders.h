/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_FOLDERS_H
#define WARD_IMAGE_FOLDERS_H

#include <stddef.h>
#include <sys/types.h>
#include <time.h>

#include "base/err.h"

struct folder;

/* The modes and times that the folders of a layer get once everything is in them. */
struct folders {
	struct folder *list;
	size_t count, cap, bytes;
};

/* Copies @path. @mtime NULL: leave it as it comes. A later one of the same path counts. */
int folders_add(struct folders *f, const char *path, mode_t mode, const struct timespec *mtime,
	struct err *e);
int folders_apply(struct folders *f, int root, struct err *e);
void folders_done(struct folders *f);

#endif
