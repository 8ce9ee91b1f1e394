/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/progress.c - how far an import is.
 *
 * Owns:  one line of the terminal.
 * Rules: at most ten times a second; the line is gone when the work is over.
 */
#include <stdio.h>

#include "base/clock.h"
#include "image/progress.h"

enum { BAR = 30, EVERY_NS = 100000000 };

static void draw(struct progress *p)
{
	static const char full[] = "##############################",
			  empty[] = "..............................";
	uint64_t part = p->total ? p->done * BAR / p->total : 0;
	int n = part > BAR ? BAR : (int)part;

	fprintf(stderr, "\r\033[Klayer %u/%u %-9s [%.*s%.*s] %.1f/%.1f MiB", p->layer, p->layers,
		p->doing, n, full, BAR - n, empty, (double)p->done / 1048576,
		(double)p->total / 1048576);
	fflush(stderr);
	p->shown_ns = clock_ns();
}

void progress_begin(struct progress *p, unsigned layer, const char *doing, uint64_t total)
{
	p->layer = layer;
	p->doing = doing;
	p->done = 0;
	p->total = total;
	if (p->on)
		draw(p);
}

void progress_add(struct progress *p, uint64_t bytes)
{
	progress_at(p, p->done + bytes);
}

void progress_at(struct progress *p, uint64_t bytes)
{
	p->done = bytes;
	if (p->on && clock_ns() - p->shown_ns >= EVERY_NS)
		draw(p);
}

void progress_clear(struct progress *p)
{
	if (p->on)
		fputs("\r\033[K", stderr);
}
