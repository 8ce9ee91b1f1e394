/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_STORE_SPARE_H
#define WARD_STORE_SPARE_H

#include <stddef.h>

/*
 * Small files that are needed again at once, with other bytes: set aside under one of SPARES_MAX
 * names instead of being removed. A file system may be slow to make a new one: ext4 looks at, and
 * does not use, each inode that was freed in the last minute.
 */
enum { SPARES_MAX = 8 };

/*
 * Names as "<stem>.0": @stem is relative to @dir. @first is any number: callers that have different
 * ones do not get in each other's way.
 */

int spare_name(char *out, size_t cap, const char *stem, unsigned n); /* -ENAMETOOLONG */
/* A spare becomes @to, which must not exist. -ENOENT: there is none. -EEXIST: @to is there. */
int spare_take(int dir, const char *stem, unsigned first, const char *to);
/* @from becomes a spare; with what is in it, so cut it before. -EEXIST: there are enough. */
int spare_give(int dir, const char *from, const char *stem, unsigned first);

#endif
