/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/why.c - everything that is known about one sandbox, alive or gone.
 *
 * Owns:  the way from the database's rows to a struct hub_story.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/str.h"
#include "hub/hub_impl.h"

enum { STEPS_MAX = 1000 };

struct story {
	struct hub *hub;
	const struct hub_caller *who;
	struct sandbox *sb;
	struct hub_step *steps;
	unsigned count, cap;
	void (*tell)(void *arg, const struct hub_story *story);
	void *arg;
};

static int see_row(void *arg, const struct db_box *row)
{
	struct story *s = arg;
	bool mine = s->who->is_operator || str_eq(row->tenant, s->who->tenant);

	if (!mine)
		return -ENOENT;
	return sandbox_from_row(s->hub, row, &s->sb);
}

static int see_step(void *arg, const struct db_step *step)
{
	struct story *s = arg;
	struct hub_step *to;

	if (s->count == STEPS_MAX)
		return 1;
	if (s->count == s->cap) {
		unsigned cap = s->cap ? s->cap * 2 : 16;
		struct hub_step *more = realloc(s->steps, cap * sizeof(*more));

		if (!more)
			return -ENOMEM;
		s->steps = more;
		s->cap = cap;
	}
	if (!lifecycle_is_state(step->from) || !lifecycle_is_state(step->to))
		return 0;
	to = &s->steps[s->count];
	*to = (struct hub_step){ step->at_us, (enum hub_state)step->from, (enum hub_state)step->to,
		strdup(step->reason) };
	if (!to->reason)
		return -ENOMEM;
	s->count++;
	return 0;
}

static void tell(struct story *s, const struct hub_end *end)
{
	struct hub_story story = { .steps = s->steps, .step_count = s->count, .end = end };

	sandbox_view(s->sb, &story.box);
	s->tell(s->arg, &story);
}

static int see_end(void *arg, const struct db_end *row)
{
	struct hub_sample *samples = NULL;
	struct hub_end end = {
		.cause = row->cause,
		.detail = row->detail,
		.step = row->step,
		.status = row->status,
		.at_us = row->at_us,
		.report = row->report,
		.output = row->output.data ? row->output.data : "",
		.output_len = row->output.len,
	};

	if (row->samples.len && row->samples.len % sizeof(*samples) == 0) {
		samples = malloc(row->samples.len); /* the database's own is not aligned */
		if (samples) {
			memcpy(samples, row->samples.data, row->samples.len);
			end.sample_count = (unsigned)(row->samples.len / sizeof(*samples));
		}
	}
	end.samples = samples;
	tell(arg, &end);
	free(samples);
	return 0;
}

int hub_why(struct hub *hub, const struct hub_caller *who, const char *id,
	void (*fn)(void *arg, const struct hub_story *story), void *arg, struct hub_fail *f)
{
	struct story s = { .hub = hub, .who = who, .tell = fn, .arg = arg };
	struct err e = { 0 };
	char shown[64];
	int r = id_is_valid(id) ? db_box_get(hub->db, id, see_row, &s, &e) : -ENOENT;

	if (r == 0)
		r = db_step_each(hub->db, id, see_step, &s, &e);
	if (r >= 0) {
		r = db_end_get(hub->db, id, see_end, &s, &e);
		if (r == -ENOENT) {
			tell(&s, NULL);
			r = 0;
		}
	} else if (r == -ENOENT) {
		r = hub_fail(f, HUB_NOT_FOUND, "there is no sandbox '%s'",
			str_show(shown, sizeof(shown), id));
	} else {
		r = hub_fail_err(f, &e);
	}
	for (unsigned i = 0; i < s.count; i++)
		free((char *)s.steps[i].reason);
	free(s.steps);
	if (s.sb)
		sandbox_release(s.sb);
	return r;
}
