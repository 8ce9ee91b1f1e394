/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/events.c - what happens, for whoever listens.
 *
 * Owns:  the ring of the last HUB_EVENTS_KEPT events and the list of subscribers.
 * Rules: a slow subscriber loses events and is told how many; nobody waits for it. Numbers go on
 *        from the time at which the daemon began: one of the daemon before is lower than all of
 *        this one's, and whoever comes back after a restart misses nothing of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "hub/hub_impl.h"

struct hub_events {
	struct hub *hub;
	struct hub_events *next;
	bool all;
	char tenant[HUB_TENANT_MAX + 1];
	uint64_t seen, lost;
	void (*wake)(void *arg);
	void *arg;
	struct loop_later later;
};

int events_init(struct hub *hub)
{
	hub->event_seq = hub->event_first = (uint64_t)clock_now_us();
	hub->events = calloc(HUB_EVENTS_KEPT, sizeof(*hub->events));
	return hub->events ? 0 : -ENOMEM;
}

void events_done(struct hub *hub)
{
	while (hub->subscribers)
		hub_events_close(hub->subscribers);
	free(hub->events);
	hub->events = NULL;
}

static void on_later(void *ctx)
{
	struct hub_events *s = ctx;

	s->wake(s->arg);
}

void event_put(struct hub *hub, const char *kind, const struct sandbox *sb, const char *reason)
{
	struct event_slot *ev = &hub->events[++hub->event_seq % HUB_EVENTS_KEPT];

	ev->seq = hub->event_seq;
	ev->at_us = clock_now_us();
	ev->kind = kind;
	str_copy(ev->id, sizeof(ev->id), sb ? sb->id : "");
	str_copy(ev->tenant, sizeof(ev->tenant), sb && sb->tenant ? sb->tenant->name : "");
	str_copy(ev->trace, sizeof(ev->trace), sb ? sb->trace : "");
	record_text(ev->reason, sizeof(ev->reason), reason);
	for (struct hub_events *s = hub->subscribers; s; s = s->next)
		if (s->all || str_eq(s->tenant, ev->tenant))
			loop_later_set(hub->loop, &s->later, on_later, s);
}

struct hub_events *hub_events_open(struct hub *hub, const struct hub_caller *who, uint64_t since,
	void (*wake)(void *arg), void *arg)
{
	struct hub_events *s;
	unsigned count = 0, own = 0;

	for (s = hub->subscribers; s; s = s->next) {
		count++;
		own += !s->all && str_eq(s->tenant, who->tenant);
	}
	if (count >= HUB_SUBSCRIBERS_MAX || (!who->is_operator && own >= HUB_SUBSCRIBERS_EACH))
		return NULL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->hub = hub;
	s->all = who->is_operator;
	str_copy(s->tenant, sizeof(s->tenant), who->tenant);
	s->wake = wake;
	s->arg = arg;
	/* A number from another daemon's life: everything there is. */
	s->seen = since == 0                                            ? hub->event_seq
		  : since > hub->event_first && since <= hub->event_seq ? since
									: hub->event_first;
	s->next = hub->subscribers;
	hub->subscribers = s;
	if (s->seen < hub->event_seq)
		loop_later_set(hub->loop, &s->later, on_later, s);
	return s;
}

int hub_events_next(struct hub_events *s, struct hub_event *ret)
{
	struct hub *hub = s->hub;

	if (hub->event_seq - s->seen > HUB_EVENTS_KEPT) {
		s->lost += hub->event_seq - HUB_EVENTS_KEPT - s->seen;
		s->seen = hub->event_seq - HUB_EVENTS_KEPT;
	}
	while (s->seen < hub->event_seq) {
		const struct event_slot *ev = &hub->events[++s->seen % HUB_EVENTS_KEPT];

		if (!s->all && !str_eq(s->tenant, ev->tenant))
			continue;
		*ret = (struct hub_event){ ev->seq, ev->at_us, ev->kind, ev->id, ev->tenant,
			ev->reason, ev->trace };
		return 1;
	}
	return 0;
}

uint64_t hub_events_lost(const struct hub_events *s)
{
	return s->lost;
}

void hub_events_close(struct hub_events *s)
{
	struct hub_events **at;

	if (!s)
		return;
	for (at = &s->hub->subscribers; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	loop_later_cancel(&s->later);
	free(s);
}
