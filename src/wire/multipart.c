/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/multipart.c - multipart/form-data as it arrives.
 *
 * Owns:  the boundary and the headers of the part that is being read.
 * Rules: no byte of a part's data is kept. What might be the beginning of a boundary at the end of
 *        the input is remembered as a count, since its bytes are known.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "wire/limits.h"
#include "wire/multipart.h"

enum state {
	PREAMBLE, /* before the first boundary: dropped */
	MARK,     /* behind a boundary */
	MARK_DASH,
	MARK_LF,
	HEAD,
	DATA,
	EPILOGUE, /* behind the last one: dropped */
};

struct multipart {
	const struct multipart_events *on;
	void *ctx;
	enum state state;
	char mark[4 + WIRE_BOUNDARY_MAX + 1]; /* CR LF - - boundary */
	size_t mark_len, matched;
	unsigned parts;
	size_t head_len;
	char head[WIRE_PART_HEAD_MAX + 1];
	char name[WIRE_PART_NAME_MAX + 1], filename[WIRE_PART_NAME_MAX + 1];
	int failed;
};

/* ---- parameters: name=token or name="text" ---- */

static size_t copy_escaped(char *out, const char *p, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		static const struct {
			const char *from;
			char to;
		} escapes[] = { { "%22", '"' }, { "%0D", '\r' }, { "%0A", '\n' }, { "\\\"", '"' } };
		char c = p[i];

		for (unsigned k = 0; k < sizeof(escapes) / sizeof(escapes[0]); k++) {
			size_t m = strlen(escapes[k].from);

			if (len - i >= m && strncasecmp(p + i, escapes[k].from, m) == 0) {
				c = escapes[k].to;
				i += m - 1;
				break;
			}
		}
		out[n++] = c;
	}
	out[n] = '\0';
	return n;
}

/* The end of a quoted text that begins at @p; a quote after a backslash does not end it. */
static const char *quote_end(const char *p)
{
	for (; *p && *p != '"'; p++)
		if (*p == '\\' && p[1] == '"')
			p++;
	return *p ? p : NULL;
}

/*
 * The next parameter of *@at ("; name=value"). 1: found, 0: no more, -1: malformed.
 */
static int next_param(
	const char **at, const char **name, size_t *name_len, const char **value, size_t *value_len)
{
	const char *p = *at + strspn(*at, " \t");

	if (!*p)
		return 0;
	if (*p != ';')
		return -1;
	p += 1 + strspn(p + 1, " \t");
	if (!*p)
		return 0; /* a semicolon at the end */
	*name = p;
	*name_len = strcspn(p, "= \t;\"");
	p += *name_len;
	if (!*name_len || *p != '=')
		return -1;
	if (*++p == '"') {
		const char *end = quote_end(++p);

		if (!end)
			return -1;
		*value = p;
		*value_len = (size_t)(end - p);
		p = end + 1;
	} else {
		*value = p;
		*value_len = strcspn(p, " \t;");
		p += *value_len;
	}
	*at = p;
	return 1;
}

static bool is_word(const char *p, size_t len, const char *word)
{
	return len == strlen(word) && strncasecmp(p, word, len) == 0;
}

static bool boundary_is_legal(const char *p, size_t len)
{
	static const char extra[] = "'()+_,-./:=? ";

	if (len < 1 || len > WIRE_BOUNDARY_MAX || p[len - 1] == ' ')
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = p[i];

		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
			!(c && strchr(extra, c)))
			return false;
	}
	return true;
}

static int find_boundary(const char *type, const char **ret, size_t *ret_len)
{
	static const char form[] = "multipart/form-data";
	const char *at, *name, *value;
	size_t name_len, value_len;
	bool found = false;
	int r;

	if (strncasecmp(type, form, sizeof(form) - 1) != 0)
		return -EINVAL;
	at = type + sizeof(form) - 1;
	while ((r = next_param(&at, &name, &name_len, &value, &value_len)) > 0) {
		if (!is_word(name, name_len, "boundary"))
			continue;
		if (found)
			return -EINVAL;
		found = true;
		*ret = value;
		*ret_len = value_len;
	}
	return r == 0 && found && boundary_is_legal(*ret, *ret_len) ? 0 : -EINVAL;
}

int multipart_create(const char *content_type, const struct multipart_events *events, void *ctx,
	struct multipart **ret)
{
	const char *boundary = NULL;
	struct multipart *m;
	size_t len = 0;

	if (find_boundary(content_type, &boundary, &len) < 0)
		return -EINVAL;
	m = malloc(sizeof(*m));
	if (!m)
		return -ENOMEM;
	m->on = events;
	m->ctx = ctx;
	m->state = PREAMBLE;
	m->mark_len = 4 + len;
	memcpy(m->mark, "\r\n--", 4);
	memcpy(m->mark + 4, boundary, len);
	m->matched = 2; /* the first one may stand at the very beginning, without CR LF */
	m->parts = 0;
	m->head_len = 0;
	m->failed = 0;
	*ret = m;
	return 0;
}

void multipart_destroy(struct multipart *m)
{
	free(m);
}

/* ---- the head of a part ---- */

static int read_disposition(struct multipart *m, const char *value, struct multipart_part *part)
{
	const char *at = value + strcspn(value, "; \t"), *name, *text;
	size_t name_len, len;
	int r;

	if (!is_word(value, (size_t)(at - value), "form-data"))
		return -EPROTO;
	while ((r = next_param(&at, &name, &name_len, &text, &len)) > 0) {
		char *to = is_word(name, name_len, "name")       ? m->name
			   : is_word(name, name_len, "filename") ? m->filename
								 : NULL;

		if (!to)
			continue;
		if (len > WIRE_PART_NAME_MAX)
			return -E2BIG;
		copy_escaped(to, text, len);
		*(to == m->name ? &part->name : &part->filename) = to;
	}
	return r < 0 ? -EPROTO : 0;
}

static int read_line(struct multipart *m, char *line, struct multipart_part *part)
{
	char *colon = strchr(line, ':'), *value;

	if (!colon || *line == ' ' || *line == '\t')
		return -EPROTO;
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	if (strcasecmp(line, "Content-Disposition") == 0)
		return part->name ? -EPROTO : read_disposition(m, value, part);
	if (strcasecmp(line, "Content-Type") == 0)
		part->type = value;
	return 0;
}

/* m->head holds all lines, each ended by CR LF. */
static int head_over(struct multipart *m)
{
	struct multipart_part part = { 0 };
	char *at = m->head;

	m->head[m->head_len] = '\0';
	if (strlen(m->head) != m->head_len)
		return -EPROTO;
	while (*at) {
		char *end = strstr(at, "\r\n");
		int r;

		*end = '\0';
		if (strpbrk(at, "\r\n"))
			return -EPROTO;
		r = read_line(m, at, &part);
		if (r < 0)
			return r;
		at = end + 2;
	}
	if (++m->parts > WIRE_PARTS_MAX)
		return -E2BIG;
	if (!part.name)
		part.name = "";
	m->head_len = 0;
	m->state = DATA;
	m->matched = 0;
	return m->on->begin ? m->on->begin(m->ctx, &part) : 0;
}

static int head_byte(struct multipart *m, char c)
{
	if (m->head_len == WIRE_PART_HEAD_MAX)
		return -E2BIG;
	m->head[m->head_len++] = c;
	if (c != '\n')
		return 0;
	if (m->head_len < 2 || m->head[m->head_len - 2] != '\r')
		return -EPROTO;
	if (m->head_len == 2 || m->head[m->head_len - 3] == '\n') { /* an empty line */
		m->head_len -= 2;
		return head_over(m);
	}
	return 0;
}

/* ---- data and boundaries ---- */

static int put(struct multipart *m, const char *data, size_t len)
{
	if (m->state != DATA || !len || !m->on->data)
		return 0;
	return m->on->data(m->ctx, data, len);
}

static int mark_over(struct multipart *m)
{
	int r = m->state == DATA && m->on->end ? m->on->end(m->ctx) : 0;

	m->state = MARK;
	m->matched = 0;
	return r;
}

/* How many of the last bytes may be the beginning of a mark. */
static size_t mark_begins(const struct multipart *m, const char *data, size_t len)
{
	for (size_t n = len < m->mark_len - 1 ? len : m->mark_len - 1; n; n--)
		if (data[len - n] == '\r' && memcmp(data + len - n, m->mark, n) == 0)
			return n;
	return 0;
}

/* Outside of a mark, in pieces as large as they come: a CR alone must not cut them small. */
static ssize_t plain_bytes(struct multipart *m, const char *data, size_t len)
{
	const char *mark = memmem(data, len, m->mark, m->mark_len);
	int r;

	if (mark) {
		r = put(m, data, (size_t)(mark - data));
		if (r == 0)
			r = mark_over(m);
		return r < 0 ? r : (ssize_t)(mark - data) + (ssize_t)m->mark_len;
	}
	m->matched = mark_begins(m, data, len);
	r = put(m, data, len - m->matched);
	return r < 0 ? r : (ssize_t)len;
}

/* How many bytes were used, or a negative errno. */
static ssize_t data_bytes(struct multipart *m, const char *data, size_t len)
{
	size_t n;
	int r;

	if (!m->matched)
		return plain_bytes(m, data, len);
	if (*data != m->mark[m->matched]) {
		/* A CR is nowhere in the mark but at its head, so nothing of it can begin inside.
		 */
		n = m->matched;
		m->matched = 0;
		r = put(m, m->mark, n);
		return r;
	}
	if (++m->matched == m->mark_len) {
		r = mark_over(m);
		if (r < 0)
			return r;
	}
	return 1;
}

static int mark_byte(struct multipart *m, char c)
{
	switch (m->state) {
	case MARK:
		if (c == '-')
			m->state = MARK_DASH;
		else if (c == '\r')
			m->state = MARK_LF;
		else if (c != ' ' && c != '\t')
			return -EPROTO;
		return 0;
	case MARK_DASH:
		m->state = EPILOGUE;
		return c == '-' ? 0 : -EPROTO;
	default: /* MARK_LF */
		m->state = HEAD;
		m->head_len = 0;
		return c == '\n' ? 0 : -EPROTO;
	}
}

static int feed(struct multipart *m, const char *data, size_t len)
{
	while (len) {
		ssize_t used = 1;

		switch (m->state) {
		case PREAMBLE:
		case DATA:
			used = data_bytes(m, data, len);
			break;
		case HEAD: {
			int r = head_byte(m, *data);

			if (r < 0)
				return r;
			break;
		}
		case EPILOGUE:
			return 0;
		default: {
			int r = mark_byte(m, *data);

			if (r < 0)
				return r;
			break;
		}
		}
		if (used < 0)
			return (int)used;
		data += used;
		len -= (size_t)used;
	}
	return 0;
}

int multipart_feed(struct multipart *m, const void *data, size_t len)
{
	if (!m->failed)
		m->failed = feed(m, data, len);
	return m->failed;
}

int multipart_finish(struct multipart *m)
{
	if (m->failed)
		return m->failed;
	return m->state == EPILOGUE ? 0 : -EPROTO;
}
