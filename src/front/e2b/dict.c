/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/dict.c - names with values: metadata, envs, the filter of a list.
 *
 * Owns:  struct dict.
 * Rules: pure but for the heap.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/str.h"
#include "front/e2b/dict.h"
#include "front/limits.h"

void dict_done(struct dict *p)
{
	for (size_t i = 0; i < p->count; i++) {
		free(p->names[i]);
		free(p->values[i]);
	}
	free(p->names);
	free(p->values);
	*p = (struct dict){ 0 };
}

static int grow(struct dict *p)
{
	size_t cap = p->cap ? p->cap * 2 : 8;
	char **names, **values;

	if (p->count < p->cap)
		return 0;
	names = realloc(p->names, cap * sizeof(*names));
	if (!names)
		return -ENOMEM;
	p->names = names;
	values = realloc(p->values, cap * sizeof(*values));
	if (!values)
		return -ENOMEM;
	p->values = values;
	p->cap = cap;
	return 0;
}

int dict_add(struct dict *p, const char *name, const char *value, struct err *e)
{
	own_mem char *n = strdup(name);
	own_mem char *v = strdup(value);

	if (p->count >= FRONT_PAIRS_MAX)
		return err_say(e, EINVAL, "more than %d pairs", FRONT_PAIRS_MAX);
	if (strlen(name) > FRONT_TEXT_MAX || strlen(value) > FRONT_TEXT_MAX)
		return err_say(
			e, EINVAL, "a name or value is longer than %d bytes", FRONT_TEXT_MAX);
	if (!n || !v || grow(p) < 0)
		return err_set(e, ENOMEM, "keeping a pair");
	p->names[p->count] = take_ptr(&n);
	p->values[p->count++] = take_ptr(&v);
	return 0;
}

int dict_add_each(void *pairs, const char *name, const char *value, struct err *e)
{
	return dict_add(pairs, name, value, e);
}

const char *dict_get(const struct dict *p, const char *name)
{
	for (size_t i = 0; i < p->count; i++)
		if (str_eq(p->names[i], name))
			return p->values[i];
	return NULL;
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place: %XX, and '+' as a blank. -EINVAL for half an escape or a NUL. */
static int unescape(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (*s == '%') {
			int hi = hex(s[1]), lo = hi < 0 ? -1 : hex(s[2]);

			if (lo < 0 || (hi == 0 && lo == 0))
				return -EINVAL;
			*to++ = (char)(hi << 4 | lo);
			s += 2;
		} else {
			*to++ = *s == '+' ? ' ' : *s;
		}
	}
	*to = '\0';
	return 0;
}

static int add_part(struct dict *p, char *part, struct err *e)
{
	char *equals = strchr(part, '=');

	if (!equals)
		return err_say(e, EINVAL, "a part of the metadata filter has no '='");
	*equals = '\0';
	if (unescape(part) < 0 || unescape(equals + 1) < 0)
		return err_say(e, EINVAL, "the metadata filter is not URL-encoded");
	return dict_add(p, part, equals + 1, e);
}

int dict_from_filter(struct dict *p, const char *text, struct err *e)
{
	own_mem char *copy = strdup(text);
	char *rest = copy;

	if (!copy)
		return err_set(e, ENOMEM, "reading the metadata filter");
	/* An old client encodes twice only; then there is nothing left to decode here. */
	if (unescape(copy) < 0)
		return err_say(e, EINVAL, "the metadata filter is not URL-encoded");
	while (*rest) {
		char *part = rest;
		int r;

		rest += strcspn(rest, "&");
		if (*rest)
			*rest++ = '\0';
		r = *part ? add_part(p, part, e) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}
