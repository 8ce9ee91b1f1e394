/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/registry.c - every live sandbox, by id and by start.
 *
 * Owns:  the table and the order; lists and their pages.
 * Rules: loop thread only.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/str.h"
#include "hub/hub_impl.h"

static struct sandbox **bucket(struct hub *hub, const char *id)
{
	uint32_t h = 2166136261u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619u;
	return &hub->buckets[h & (hub->bucket_count - 1)];
}

struct sandbox *registry_find(struct hub *hub, const char *id)
{
	for (struct sandbox *sb = *bucket(hub, id); sb; sb = sb->by_id)
		if (str_eq(sb->id, id))
			return sb;
	return NULL;
}

static void list_put(struct sandbox *sb)
{
	struct hub *hub = sb->hub;
	struct sandbox *after = hub->last;

	/* Nearly always the youngest; after a restart the database gives them in order. */
	while (after &&
		(after->started_us > sb->started_us ||
			(after->started_us == sb->started_us && strcmp(after->id, sb->id) > 0)))
		after = after->prev;
	sb->prev = after;
	sb->next = after ? after->next : hub->first;
	if (sb->prev)
		sb->prev->next = sb;
	else
		hub->first = sb;
	if (sb->next)
		sb->next->prev = sb;
	else
		hub->last = sb;
}

static void list_take(struct sandbox *sb)
{
	struct hub *hub = sb->hub;

	if (hub->sample_next == sb)
		hub->sample_next = sb->next;
	if (sb->prev)
		sb->prev->next = sb->next;
	else
		hub->first = sb->next;
	if (sb->next)
		sb->next->prev = sb->prev;
	else
		hub->last = sb->prev;
	sb->prev = sb->next = NULL;
}

void registry_add(struct sandbox *sb)
{
	struct sandbox **b = bucket(sb->hub, sb->id);

	sb->by_id = *b;
	*b = sb;
	list_put(sb);
	sb->listed = true;
	sb->hub->count++;
	sandbox_hold(sb);
}

void registry_remove(struct sandbox *sb)
{
	struct sandbox **at = bucket(sb->hub, sb->id);

	if (!sb->listed)
		return;
	while (*at != sb)
		at = &(*at)->by_id;
	*at = sb->by_id;
	list_take(sb);
	sb->listed = false;
	sb->hub->count--;
	sandbox_release(sb);
}

void registry_to_end(struct sandbox *sb)
{
	list_take(sb);
	list_put(sb);
}

static bool may_see(const struct hub_caller *who, const struct sandbox *sb)
{
	if (who->is_plane)
		return sb->tenant != NULL;
	if (!sb->tenant)
		return who->is_operator;
	return who->is_operator || str_eq(sb->tenant->name, who->tenant);
}

struct sandbox *registry_see(
	struct hub *hub, const struct hub_caller *who, const char *id, struct hub_fail *f)
{
	struct sandbox *sb = id_is_valid(id) ? registry_find(hub, id) : NULL;
	char shown[64];

	if (sb && lifecycle_is_live(sb->state) && may_see(who, sb))
		return sb;
	hub_fail(f, HUB_NOT_FOUND, "there is no sandbox '%s'", str_show(shown, sizeof(shown), id));
	return NULL;
}

int hub_find(struct hub *hub, const struct hub_caller *who, const char *id, struct hub_box *ret,
	struct hub_fail *f)
{
	struct sandbox *sb = registry_see(hub, who, id, f);

	if (!sb)
		return -ENOENT;
	sandbox_view(sb, ret);
	return 0;
}

bool hub_each_live(struct hub *hub, bool (*each)(void *arg, const struct hub_box *box), void *arg)
{
	struct hub_box box;

	for (struct sandbox *sb = hub->last; sb; sb = sb->prev) {
		if (!sb->tenant || !lifecycle_is_live(sb->state))
			continue;
		sandbox_view(sb, &box);
		if (each(arg, &box))
			return true;
	}
	return false;
}

unsigned hub_count_running(struct hub *hub, const struct hub_caller *who)
{
	unsigned n = 0;

	for (const struct sandbox *sb = hub->first; sb; sb = sb->next)
		n += sb->tenant && may_see(who, sb) &&
		     (sb->state == HUB_RUNNING || sb->state == HUB_PAUSING);
	return n;
}

struct place {
	int64_t us;
	char id[ID_LEN + 1];
};

/* "<start in hex>-<id>": where the page before ended. */
static int read_token(const char *token, struct place *ret, struct hub_fail *f)
{
	char *end = NULL;
	unsigned long long us;

	*ret = (struct place){ 0 };
	if (!token || !*token)
		return 0;
	us = strspn(token, "0123456789abcdef") ? strtoull(token, &end, 16) : 0;
	if (!end || *end != '-' || us > INT64_MAX || !id_is_valid(end + 1))
		return hub_fail(f, HUB_INVALID, "nextToken is not one that a list gave");
	ret->us = (int64_t)us;
	return str_copy(ret->id, sizeof(ret->id), end + 1);
}

static bool is_past(const struct place *from, const struct hub_list *q, int64_t us, const char *id)
{
	int side = us < from->us ? -1 : us > from->us ? 1 : strcmp(id, from->id);

	return !from->id[0] || (q->ascending ? side > 0 : side < 0);
}

static bool matches(const struct hub_list *q, const struct hub_caller *who, unsigned states,
	const struct sandbox *sb)
{
	if (!(states >> sb->state & 1) || sb->started_us <= q->started_after_us)
		return false;
	if (!sb->tenant ? !(who->is_operator && q->all_tenants)
			: !(who->is_operator && q->all_tenants) &&
				  !str_eq(sb->tenant->name, who->tenant))
		return false;
	if (q->template && !str_eq(q->template, sb->template_asked) &&
		!str_eq(q->template, sb->template_used))
		return false;
	return pairs_have(&sb->metadata, q->metadata, q->metadata_count);
}

struct page {
	struct hub *hub;
	const struct hub_list *q;
	const struct hub_caller *who;
	unsigned states, limit, count;
	void (*each)(void *arg, const struct hub_box *box);
	void *arg;
	struct place last;
	bool more;
};

/* True: the page is full. */
static bool put_on_page(struct page *p, const struct sandbox *sb)
{
	struct hub_box box;

	if (!matches(p->q, p->who, p->states, sb))
		return false;
	if (p->count == p->limit) {
		p->more = true;
		return true;
	}
	p->count++;
	p->last.us = sb->started_us;
	str_copy(p->last.id, sizeof(p->last.id), sb->id);
	sandbox_view(sb, &box);
	p->each(p->arg, &box);
	return false;
}

static int put_row(void *arg, const struct db_box *row)
{
	struct page *p = arg;
	struct sandbox *sb = registry_find(p->hub, row->id);
	bool full;

	if (sb)
		return put_on_page(p, sb);
	if (sandbox_from_row(p->hub, row, &sb) < 0)
		return 0; /* a row that cannot be read shows in `ward why` */
	full = put_on_page(p, sb);
	sandbox_release(sb);
	return full;
}

static const struct sandbox *step(const struct sandbox *sb, bool up)
{
	return up ? sb->next : sb->prev;
}

static int walk(struct page *p, const struct place *from, struct hub_fail *f)
{
	struct db_range range = {
		.states = p->states,
		.tenant = p->q->all_tenants && p->who->is_operator ? NULL : p->who->tenant,
		.descending = !p->q->ascending,
		.from_us = from->us,
		.from_id = from->id,
	};
	struct err e = { 0 };
	const struct sandbox *sb = p->q->ascending ? p->hub->first : p->hub->last;

	if (p->states & lifecycle_ended_states()) {
		int r = db_box_each(p->hub->db, &range, put_row, p, &e);

		return r < 0 ? hub_fail_err(f, &e) : 0;
	}
	for (; sb; sb = step(sb, p->q->ascending))
		if (is_past(from, p->q, sb->started_us, sb->id) && put_on_page(p, sb))
			break;
	return 0;
}

int hub_list(struct hub *hub, const struct hub_caller *who, const struct hub_list *q,
	void (*each)(void *arg, const struct hub_box *box), void *arg,
	char ret_token[HUB_TOKEN_MAX + 1], struct hub_fail *f)
{
	struct page p = { .hub = hub, .q = q, .who = who, .each = each, .arg = arg };
	struct place from;
	int r = read_token(q->token, &from, f);

	ret_token[0] = '\0';
	if (r < 0)
		return r;
	p.states = q->states ? q->states : 1u << HUB_RUNNING | 1u << HUB_PAUSED;
	/* What is on its way out of a state is still in it, for whoever asks. */
	if (p.states >> HUB_RUNNING & 1)
		p.states |= 1u << HUB_PAUSING;
	if (p.states >> HUB_PAUSED & 1)
		p.states |= 1u << HUB_RESUMING;
	p.limit = q->limit && q->limit < HUB_LIST_MAX ? q->limit : HUB_LIST_MAX;
	r = walk(&p, &from, f);
	if (r == 0 && p.more)
		str_fmt(ret_token, HUB_TOKEN_MAX + 1, "%" PRIx64 "-%s", (uint64_t)p.last.us,
			p.last.id);
	return r;
}
