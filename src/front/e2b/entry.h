/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_ENTRY_H
#define WARD_FRONT_E2B_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "front/e2b/accounts.h"
#include "proto/proto.h"

/* One file, directory or link as the filesystem service describes it. */
struct entry {
	const char *path; /* absolute */
	enum file_kind kind;
	uint32_t mode, uid, gid;
	uint64_t size, mtime_ns;
	const char *link;                /* NULL, or where it leads: absolute, if it leads anywhere */
	const struct pairs *attributes;  /* NULL: none */
};

enum { ENTRY_PERMISSIONS = 16 };

/* "-rw-r--r--", "drwxr-xr-x", "Lrwxrwxrwx"; set-uid, set-gid and sticky are letters in front. */
void entry_permissions(enum file_kind kind, uint32_t mode, char out[ENTRY_PERMISSIONS]);

/* "FILE_TYPE_FILE" and so on. */
const char *entry_type(enum file_kind kind);

/* Writes the object under @key (NULL inside a list). @a names owners; those without one are numbers. */
void entry_json(struct buf *b, const char *key, const struct entry *t, const struct accounts *a);

/* "2026-01-02T03:04:05.678901234Z"; nanoseconds since 1970. */
enum { ENTRY_TIME = 40 };
void entry_time(uint64_t ns, char out[ENTRY_TIME]);

#endif
