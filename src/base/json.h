/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_JSON_H
#define WARD_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * Writes JSON into a struct buf. Only writes: reading is jansson's work, in the programs that can
 * afford it. Commas are put by themselves. @key is NULL inside an array and at the top. Strings
 * that are not UTF-8 come out with U+FFFD for each bad byte, so that the result always parses.
 */
void json_open(struct buf *b, const char *key); /* { */
void json_close(struct buf *b);                 /* } */
/*
 * jansson has functions of these two names, and in a program that is linked with both ours would be
 * called from inside its parser. So they go by other names where the linker looks. A file that
 * reads JSON includes jansson.h and not this header.
 */
void json_array(struct buf *b, const char *key) __asm__("ward_json_array"); /* [ */
void json_array_end(struct buf *b);                                         /* ] */
void json_str(struct buf *b, const char *key, const char *value); /* NULL is written as null */
void json_strn(struct buf *b, const char *key, const char *value, size_t len);
void json_u64(struct buf *b, const char *key, uint64_t value);
void json_i64(struct buf *b, const char *key, int64_t value);
void json_bool(struct buf *b, const char *key, bool value);
void json_null(struct buf *b, const char *key) __asm__("ward_json_null");

#endif
