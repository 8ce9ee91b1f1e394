/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_PARSE_H
#define WARD_BASE_PARSE_H

#include <stdint.h>

/*
 * Numbers as people write them. All return 0, -EINVAL (not a number of this kind) or -ERANGE (too
 * large, or below @min), and write the result on success only. None accepts a sign, blanks, or an
 * empty string.
 */
int parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret);
/* "4096", "64k", "512M", "2G", "1T"; also KiB/MiB/GiB/TiB and KB/MB/GB/TB, all powers of 1024. */
int parse_size(const char *text, uint64_t min, uint64_t max, uint64_t *ret_bytes);
/* "500ms", "30", "30s", "5m", "2h"; a bare number is seconds; a fraction is accepted: "1.5s". */
int parse_duration(const char *text, uint64_t min_ms, uint64_t max_ms, uint64_t *ret_ms);
/* "2", "0.5", "1.25": CPUs in thousandths. */
int parse_milli(const char *text, uint64_t min, uint64_t max, uint64_t *ret_milli);

#endif
