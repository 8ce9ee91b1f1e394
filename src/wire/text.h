/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_TEXT_H
#define WARD_WIRE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Base64 with the standard alphabet. Sizes for buffers: */
#define BASE64_LEN(n) (((n) + 2) / 3 * 4)   /* characters for @n bytes, without the NUL */
#define BASE64_BYTES(n) (((n) + 3) / 4 * 3) /* at most, of @n characters */

/* Padded; @out has BASE64_LEN(@len) + 1 bytes. Returns the length. */
size_t base64_encode(const void *data, size_t len, char *out);
/*
 * Padded or not; nothing else is let through: no blanks, no stray bits at the end. Also reads the
 * URL alphabet (- and _). The number of bytes, or -EINVAL; @out has BASE64_BYTES(@len).
 */
ssize_t base64_decode(const char *text, size_t len, void *out);

/* Takes the same time whatever the first difference is; lengths are not hidden. */
bool secret_eq(const char *a, const char *b);
bool secret_eq_bytes(const void *a, const void *b, size_t len);

/*
 * RFC 3339. Writing: clock_text_at() of base/clock.h ("2025-06-01T10:00:00.125000Z"). Reading: any
 * fraction and any offset ("+02:00"). 0 or -EINVAL.
 */
int rfc3339_parse(const char *text, int64_t *ret_us);

/* Date of HTTP: "Sun, 01 Jun 2025 10:00:00 GMT". */
enum { HTTP_DATE = 30 };
void http_date(int64_t unix_s, char out[HTTP_DATE]);

/*
 * "bytes=0-99", "bytes=100-", "bytes=-100" of a Range header against a size. 1: one range that can
 * be served; 0: no range, or one that is best ignored (several, other units): send all; -ERANGE:
 * answer 416.
 */
int http_range(const char *value, uint64_t size, uint64_t *ret_from, uint64_t *ret_len);

/* Does an Accept-Encoding value (NULL: no header) allow @coding, with a weight above 0? */
bool http_accepts(const char *accept_encoding, const char *coding);
/* Does it allow the bytes as they are? Yes, unless it says no. */
bool http_accepts_plain(const char *accept_encoding);

#endif
