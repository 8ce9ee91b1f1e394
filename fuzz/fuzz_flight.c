/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/flight.c - the end records that supervisors leave for the daemon.
 *
 * Owns:  nothing.
 * Rules: whatever the bytes, it is refused or read into printable texts and bounded lists.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hub/flight.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct flight_record *r = calloc(1, sizeof(*r));

	if (!r)
		return 0;
	if (flight_parse((const char *)data, size, r, NULL) == 0) {
		if (!r->report || r->sample_count > FLIGHT_SAMPLES || strchr(r->detail, '\n'))
			abort();
		flight_done(r);
	}
	free(r);
	return 0;
}
