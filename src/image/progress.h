/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_PROGRESS_H
#define WARD_IMAGE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* A line on stderr that says how far a layer is; nothing at all unless @on. */
struct progress {
	bool on;
	unsigned layer, layers; /* which of how many */
	const char *doing;
	uint64_t done, total, shown_ns;
};

void progress_begin(struct progress *p, unsigned layer, const char *doing, uint64_t total);
void progress_add(struct progress *p, uint64_t bytes);
void progress_at(struct progress *p, uint64_t bytes); /* so far, all together */
void progress_clear(struct progress *p);              /* before any other line, and at the end */

#endif
