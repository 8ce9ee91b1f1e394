/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_ENTRY_H
#define WARD_FRONT_E2B_ENTRY_H

#include <stdint.h>

#include "base/buf.h"
#include "proto/client.h"

/* A file, directory or link as the filesystem service describes it (EntryInfo). */

enum { ENTRY_PERMISSIONS = 16, ENTRY_TIME = 40 };

/* "-rw-r--r--", "drwxr-xr-x", "Lrwxrwxrwx"; set-uid, set-gid and sticky are letters in front. */
void entry_permissions(enum file_kind kind, uint32_t mode, char out[ENTRY_PERMISSIONS]);

/* "FILE_TYPE_FILE" and so on. A link that leads nowhere has no type. */
const char *entry_type(enum file_kind kind);

/* "2026-01-02T03:04:05.678901234Z"; nanoseconds since 1970. */
void entry_time(uint64_t ns, char out[ENTRY_TIME]);

/* The last part of an absolute path; "/" for the top. */
const char *entry_name(const char *path);

/*
 * Writes the object under @key (NULL inside a list). @f was asked for with FILE_FULL; @path is
 * absolute.
 */
void entry_json(struct buf *b, const char *key, const char *path, const struct proto_file *f);

/* The extended attributes of a file as the object "metadata"; nothing when there are none. */
void entry_metadata(struct buf *b, const char *meta, uint32_t len);

#endif
