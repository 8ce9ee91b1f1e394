/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/hurry.c - may the daemon look for an answer, instead of sleeping until it comes?
 *
 * Owns:  what is made of /proc/loadavg.
 * Rules: yes only while there is a CPU for everybody who wants to run: nobody loses anything then,
 *        and a wake-up from an idle CPU is saved. Where it cannot be told: no.
 */
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "hub/hub_impl.h"

enum { AVERAGES = 3, LINE_MAX_BYTES = 128 };

/* "0.00 0.01 0.05 1/123 4567": the fourth is how many run, of how many. */
unsigned hurry_running(const char *line)
{
	unsigned n = 0;

	for (unsigned i = 0; line && i < AVERAGES; i++) {
		line = strchr(line, ' ');
		line = line ? line + 1 : NULL;
	}
	for (; line && *line >= '0' && *line <= '9' && n < UINT16_MAX; line++)
		n = n * 10 + (unsigned)(*line - '0');
	return n;
}

void hurry_count(struct hub *hub)
{
	cpu_set_t ours;

	/* More CPUs than the set has room for are more than one. */
	hub->own_cpus = sched_getaffinity(0, sizeof(ours), &ours) < 0 ? hub->cpus
								      : (unsigned)CPU_COUNT(&ours);
}

bool hurry_may(const struct hub *hub)
{
	char line[LINE_MAX_BYTES];
	unsigned running;
	ssize_t n;

	if (hub->own_cpus < 2 || hub->load_fd < 0)
		return false;
	n = pread(hub->load_fd, line, sizeof(line) - 1, 0);
	line[n > 0 ? n : 0] = '\0';
	running = hurry_running(line);
	return running && running <= hub->own_cpus;
}
