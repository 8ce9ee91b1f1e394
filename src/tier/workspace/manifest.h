/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_WORKSPACE_MANIFEST_H
#define WARD_TIER_WORKSPACE_MANIFEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/err.h"

/*
 * What a folder held at one moment: for each entry its type, permissions, size and time of change.
 * With it, `ward apply` knows who changed a file: the command, or somebody else since.
 */
struct manifest_entry {
	const char *path; /* relative */
	uint32_t mode;    /* type and permissions */
	uint64_t size;
	int64_t mtime_ns;
};

struct manifest {
	struct manifest_entry *entries; /* by path */
	size_t count;
	char *text;
};

int manifest_write(const char *dir, const char *file, struct err *e);
int manifest_read(const char *file, struct manifest *ret, struct err *e);
void manifest_done(struct manifest *m);
const struct manifest_entry *manifest_find(const struct manifest *m, const char *path);

/* Is @st still what @entry says? A folder is the same as long as it is a folder. */
bool manifest_same(const struct manifest_entry *entry, const struct stat *st);

#endif
