/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_FLIGHT_H
#define WARD_SUP_FLIGHT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "sup/end.h"
#include "tier/tier.h"

/*
 * The flight recorder of one sandbox: its last events, the end of what its commands wrote, and how
 * its use of resources went. All of bounded size, whatever happens inside.
 */
enum { FLIGHT_KIND = 16, FLIGHT_TEXT = 160, FLIGHT_FIRST_MS = 2000 };

struct flight_event {
	int64_t at_us;
	char kind[FLIGHT_KIND]; /* "start", "exit", "pause", "limit", "denied", ... */
	char text[FLIGHT_TEXT]; /* printable, one line */
};

struct flight_sample {
	int64_t at_us;
	uint64_t cpu_us, mem_used, mem_cache, disk_used, pids, net_in, net_out;
};

struct flight {
	struct flight_event events[SUP_EVENTS_MAX];
	uint64_t event_count; /* ever */
	uint8_t tail[SUP_TAIL_BYTES];
	uint64_t tail_bytes; /* ever */
	struct flight_sample samples[SUP_SAMPLES_MAX];
	unsigned sample_count;
	uint64_t interval_ms; /* doubles each time that the samples are thinned out */
};

void flight_init(struct flight *f);
void flight_note(struct flight *f, const char *kind, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void flight_output(struct flight *f, const uint8_t *data, size_t len);
/* One point of the curve. When there are SUP_SAMPLES_MAX, every second one goes. */
void flight_sample(struct flight *f, const struct usage_now *u);

/* What an end record says beside. */
struct flight_end {
	const char *id, *tier, *why; /* tier and why: NULL when it was not decided */
	const char *created;
	const struct sighting *seen;
	const struct run_end *end;
	uint64_t processes; /* started in its life */
};

/* The record as JSON, docs/SUPERVISOR.md; and into the file <id>.end in @dir, whole or not at all.
 */
void flight_json(const struct flight *f, const struct flight_end *end, struct buf *out);
int flight_write(const struct flight *f, const struct flight_end *end, int dir, struct err *e);

#endif
