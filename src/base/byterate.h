/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_BYTERATE_H
#define WARD_BASE_BYTERATE_H

#include <stdint.h>

/* "10M" or "10M:500": so many bytes and, of what they are moved in, so many, each second; at least
 * 64K and 10. @ret[1] is 0 when nothing was said. 0 or a negative errno. */
int parse_byte_rate(const char *text, uint64_t ret[2]);

#endif
