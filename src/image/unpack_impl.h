/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_UNPACK_IMPL_H
#define WARD_IMAGE_UNPACK_IMPL_H

#include <stdbool.h>
#include <sys/stat.h>
#include <linux/openat2.h>

#include "base/err.h"
#include "image/folders.h"
#include "image/names.h"
#include "image/tap.h"
#include "image/unpack.h"

/* What the files of the unpacker share: unpack.c drives, parents.c finds the way, place.c puts. */
enum { BELOW = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV };

struct unpack {
	int root;
	bool by_root;
	struct budget *budget;
	struct layer_info info;
	struct tap tap;
	struct folders folders;
	struct progress *progress;
	int blob;
	/* The folder of the last entry: most entries share it with their neighbour. */
	char parent[IMAGE_NAME_MAX + 1];
	int parent_fd;
};

/* One entry on its way in: the checked name, the folder it goes to, what the tar says of it. */
struct item {
	struct entry_name name;
	struct archive_entry *meta;
	int dir;
};

bool unpack_is_whiteout(const struct stat *st);
int unpack_set_opaque(const struct unpack *u, int dir, struct err *e);
/* Makes the folder @name, where nothing or, @hides, a whiteout is; then it hides what is below. */
int unpack_make_folder(
	const struct unpack *u, int dir, const char *name, bool hides, int *ret_fd, struct err *e);
/* The folder @path below the layer's root, made if need be; good until the next call. */
int unpack_parent(struct unpack *u, const char *path, int *ret_fd, struct err *e);

int place_file(struct unpack *u, struct item *it, struct err *e);
int place_folder(struct unpack *u, struct item *it, struct err *e);
int place_link(struct unpack *u, struct item *it, struct err *e);
int place_hard_link(struct unpack *u, struct item *it, struct err *e);
int place_fifo(struct unpack *u, struct item *it, struct err *e);
int place_whiteout(struct unpack *u, struct item *it, struct err *e);

#endif
