/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/pairs.c - metadata, environments and network settings in memory and in the database.
 *
 * Owns:  their encoding.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "hub/pairs.h"

int pairs_make(struct pairs *p, const struct hub_pair *list, unsigned count, unsigned max_count,
	size_t max_bytes)
{
	size_t len = 0;
	char *at;

	*p = (struct pairs){ 0 };
	if (count > max_count)
		return -E2BIG;
	for (unsigned i = 0; i < count; i++) {
		len += strlen(list[i].key) + strlen(list[i].value) + 2;
		if (len > max_bytes)
			return -E2BIG;
	}
	if (!count)
		return 0;
	p->bytes = at = malloc(len);
	p->list = calloc(count, sizeof(*p->list));
	if (!p->bytes || !p->list) {
		pairs_done(p);
		return -ENOMEM;
	}
	for (unsigned i = 0; i < count; i++) {
		p->list[i].key = at;
		at = stpcpy(at, list[i].key) + 1;
		p->list[i].value = at;
		at = stpcpy(at, list[i].value) + 1;
	}
	p->len = len;
	p->count = count;
	return 0;
}

int pairs_read(struct pairs *p, struct db_blob blob)
{
	unsigned texts = 0;
	const char *at;

	*p = (struct pairs){ 0 };
	if (!blob.len)
		return 0;
	for (size_t i = 0; i < blob.len; i++)
		texts += ((const char *)blob.data)[i] == '\0';
	if (texts % 2 || ((const char *)blob.data)[blob.len - 1] != '\0')
		return -EBADMSG;
	p->bytes = malloc(blob.len);
	p->list = calloc(texts / 2, sizeof(*p->list));
	if (!p->bytes || !p->list) {
		pairs_done(p);
		return -ENOMEM;
	}
	memcpy(p->bytes, blob.data, blob.len);
	p->len = blob.len;
	p->count = texts / 2;
	at = p->bytes;
	for (unsigned i = 0; i < p->count; i++) {
		p->list[i].key = at;
		at += strlen(at) + 1;
		p->list[i].value = at;
		at += strlen(at) + 1;
	}
	return 0;
}

void pairs_done(struct pairs *p)
{
	free(p->bytes);
	free(p->list);
	*p = (struct pairs){ 0 };
}

struct db_blob pairs_blob(const struct pairs *p)
{
	return (struct db_blob){ p->bytes, p->len };
}

const char *pairs_get(const struct pairs *p, const char *key)
{
	for (unsigned i = 0; i < p->count; i++)
		if (str_eq(p->list[i].key, key))
			return p->list[i].value;
	return NULL;
}

bool pairs_have(const struct pairs *p, const struct hub_pair *want, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const char *value = pairs_get(p, want[i].key);

		if (!value || !str_eq(value, want[i].value))
			return false;
	}
	return true;
}

static unsigned count_list(const char *const *list)
{
	unsigned n = 0;

	while (list && list[n])
		n++;
	return n;
}

/* Keys: "deny" and "private" (there or not), "extra", and one "+" or "-" for each rule. */
int network_make(struct network *n, const struct hub_network *from)
{
	unsigned out = count_list(from->allow_out), in = count_list(from->deny_out), at = 0;
	struct hub_pair *list;
	struct pairs p;
	int r;

	*n = (struct network){ 0 };
	if (out > HUB_NETWORK_RULES_MAX || in > HUB_NETWORK_RULES_MAX)
		return -E2BIG;
	list = calloc(out + in + 3, sizeof(*list));
	if (!list)
		return -ENOMEM;
	if (from->deny_internet)
		list[at++] = (struct hub_pair){ "deny", "" };
	if (from->private_ports)
		list[at++] = (struct hub_pair){ "private", "" };
	if (from->mask_host)
		list[at++] = (struct hub_pair){ "extra", from->mask_host };
	for (unsigned i = 0; i < out; i++)
		list[at++] = (struct hub_pair){ "+", from->allow_out[i] };
	for (unsigned i = 0; i < in; i++)
		list[at++] = (struct hub_pair){ "-", from->deny_out[i] };
	r = pairs_make(&p, list, at, at, HUB_NETWORK_BYTES_MAX);
	free(list);
	if (r == 0) {
		r = network_read(n, pairs_blob(&p));
		pairs_done(&p);
	}
	return r;
}

int network_read(struct network *n, struct db_blob blob)
{
	unsigned at = 0;
	int r;

	*n = (struct network){ 0 };
	r = pairs_read(&n->pairs, blob);
	if (r < 0 || !n->pairs.count)
		return r;
	n->lists = calloc(n->pairs.count + 2, sizeof(*n->lists));
	if (!n->lists) {
		network_done(n);
		return -ENOMEM;
	}
	n->view.deny_internet = pairs_get(&n->pairs, "deny") != NULL;
	n->view.private_ports = pairs_get(&n->pairs, "private") != NULL;
	n->view.mask_host = pairs_get(&n->pairs, "extra");
	for (const char *sign = "+-"; *sign; sign++) {
		const char *const *list = n->lists + at;

		for (unsigned i = 0; i < n->pairs.count; i++)
			if (n->pairs.list[i].key[0] == *sign)
				n->lists[at++] = n->pairs.list[i].value;
		n->lists[at++] = NULL;
		if (!list[0])
			continue;
		if (*sign == '+')
			n->view.allow_out = list;
		else
			n->view.deny_out = list;
	}
	return 0;
}

void network_done(struct network *n)
{
	pairs_done(&n->pairs);
	free(n->lists);
	*n = (struct network){ 0 };
}
