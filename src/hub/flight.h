/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_FLIGHT_H
#define WARD_HUB_FLIGHT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "hub/hub.h"

/*
 * An end record as a supervisor leaves it (docs/SUPERVISOR.md), checked and taken apart: texts are
 * one printable line, output and curve apart from the rest.
 */
enum { FLIGHT_BYTES_MAX = 512 * 1024, FLIGHT_SAMPLES = 512 };

struct flight_record {
	char cause[32], detail[400], step[32], tier[16];
	char why[400];
	int status;
	int64_t ended_us;
	char *report; /* JSON object: all of it but output and curve */
	uint8_t *output;
	size_t output_len;
	struct hub_sample samples[FLIGHT_SAMPLES];
	unsigned sample_count;
};

/* -EBADMSG when it is none. */
int flight_parse(const char *text, size_t len, struct flight_record *ret, struct err *e);
/* From disk; -ENOENT when there is none. */
int flight_load(const char *path, struct flight_record *ret, struct err *e);
void flight_done(struct flight_record *r);

#endif
