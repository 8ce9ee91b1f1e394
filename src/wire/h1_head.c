/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/h1_head.c - heads of HTTP/1.1 messages.
 *
 * Owns:  nothing; works on the caller's copy.
 * Rules: RFC 9112 without its tolerances. A line ends in CR LF and nothing else; no folded lines,
 * no blank before a colon, one length, one coding, one Host. Each refusal is one line of words.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"
#include "wire/h1.h"

static int refuse(struct h1_fault *fault, unsigned status, const char *why)
{
	*fault = (struct h1_fault){ status, why };
	return -1;
}

int h1_head_end(const char *data, size_t len, size_t *seen, struct h1_fault *fault)
{
	while (*seen < len) {
		const char *nl = memchr(data + *seen, '\n', len - *seen);
		size_t at = nl ? (size_t)(nl - data) : len;

		if (memchr(data + *seen, '\0', at - *seen))
			return refuse(fault, 400, "NUL in the head");
		if (!nl) {
			*seen = len;
			break;
		}
		if (at == 0 || data[at - 1] != '\r')
			return refuse(fault, 400, "line end without CR");
		*seen = at + 1;
		/* An empty line: CR LF behind a line end. */
		if (at >= 3 && data[at - 2] == '\n') {
			if (at + 1 > WIRE_HEAD_MAX)
				break;
			return (int)(at + 1);
		}
	}
	if (*seen > WIRE_HEAD_MAX)
		return refuse(fault, 431, "head too large");
	return 0;
}

static bool is_token_char(unsigned char c)
{
	return isalnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool h1_is_token(const char *s)
{
	if (!*s)
		return false;
	while (is_token_char((unsigned char)*s))
		s++;
	return !*s;
}

bool h1_is_value(const char *s)
{
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

bool h1_list_next(const char **list, const char **ret_word, size_t *ret_len)
{
	const char *p = *list + strspn(*list, " \t,"), *end;

	if (!*p)
		return false;
	end = p + strcspn(p, ",");
	*list = end;
	while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*ret_word = p;
	*ret_len = (size_t)(end - p);
	return true;
}

bool h1_list_has(const char *list, const char *word)
{
	size_t want = strlen(word), n;
	const char *w;

	while (h1_list_next(&list, &w, &n))
		if (n == want && strncasecmp(w, word, n) == 0)
			return true;
	return false;
}

/* ---- lines ---- */

/* The next line of [*@at, @end), ended with a NUL where its CR was; NULL when CR stands elsewhere.
 */
static char *take_line(char **at, const char *end)
{
	char *line = *at, *nl = memchr(line, '\n', (size_t)(end - line));

	if (!nl || nl == line || nl[-1] != '\r')
		return NULL;
	nl[-1] = '\0';
	*at = nl + 1;
	return memchr(line, '\r', (size_t)(nl - line)) ? NULL : line;
}

static int parse_version(const char *v, unsigned *ret_minor, struct h1_fault *fault)
{
	if (str_eq(v, "HTTP/1.1") || str_eq(v, "HTTP/1.0")) {
		*ret_minor = (unsigned)(v[7] - '0');
		return 0;
	}
	if (strncmp(v, "HTTP/", 5) == 0 && isdigit((unsigned char)v[5]) && v[6] == '.' &&
		isdigit((unsigned char)v[7]) && !v[8])
		return refuse(fault, 505, "HTTP version not supported");
	return refuse(fault, 400, "malformed request line");
}

static bool is_target(const char *t)
{
	for (; *t; t++)
		if (*t <= ' ' || *t > '~' || *t == '#')
			return false;
	return true;
}

static int request_line(struct h1_head *h, char *line, struct h1_fault *fault)
{
	char *target = strchr(line, ' '), *version = target ? strchr(target + 1, ' ') : NULL;

	if (!version || target == line || version == target + 1)
		return refuse(fault, 400, "malformed request line");
	*target++ = '\0';
	*version++ = '\0';
	if (parse_version(version, &h->minor, fault) < 0)
		return -1;
	if (!h1_is_token(line))
		return refuse(fault, 400, "malformed method");
	if (strlen(line) > WIRE_METHOD_MAX || str_eq(line, "CONNECT"))
		return refuse(fault, 501, "method not implemented");
	if (strlen(target) > WIRE_TARGET_MAX)
		return refuse(fault, 414, "request target too long");
	if (!is_target(target))
		return refuse(fault, 400, "malformed request target");
	h->method = line;
	h->target = target;
	return 0;
}

static int status_line(struct h1_head *h, char *line, struct h1_fault *fault)
{
	char *status = strchr(line, ' ');

	if (!status)
		return refuse(fault, 502, "malformed status line");
	*status++ = '\0';
	if (parse_version(line, &h->minor, fault) < 0)
		return refuse(fault, 502, "malformed status line");
	for (int i = 0; i < 3; i++)
		if (!isdigit((unsigned char)status[i]))
			return refuse(fault, 502, "malformed status");
	if (status[0] == '0' || (status[3] && status[3] != ' ') || !h1_is_value(status))
		return refuse(fault, 502, "malformed status");
	h->status = (unsigned)(status[0] - '0') * 100 + (unsigned)(status[1] - '0') * 10 +
		    (unsigned)(status[2] - '0');
	h->reason = status[3] ? status + 4 : "";
	return 0;
}

static int header_line(struct h1_head *h, char *line, struct h1_fault *fault)
{
	char *colon = strchr(line, ':'), *value, *end;

	if (*line == ' ' || *line == '\t')
		return refuse(fault, 400, "folded header line");
	if (!colon)
		return refuse(fault, 400, "header without a colon");
	*colon = '\0';
	if (!h1_is_token(line))
		return refuse(fault, 400, "malformed header name");
	value = colon + 1 + strspn(colon + 1, " \t");
	end = value + strlen(value);
	while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	if (!h1_is_value(value))
		return refuse(fault, 400, "control character in a header");
	if (h->count == WIRE_HEADERS_MAX)
		return refuse(fault, 431, "too many headers");
	h->fields[h->count++] = (struct wire_field){ line, value };
	return 0;
}

/* ---- what the headers mean ---- */

static int parse_length(struct h1_head *h, const char *value, struct h1_fault *fault)
{
	size_t digits = strspn(value, "0123456789");

	if (h->length >= 0)
		return refuse(fault, 400, "two Content-Length headers");
	if (!digits || value[digits] || digits > 18)
		return refuse(fault, 400, "malformed Content-Length");
	h->length = strtoll(value, NULL, 10);
	return 0;
}

static int parse_coding(struct h1_head *h, const char *value, struct h1_fault *fault)
{
	if (h->chunked)
		return refuse(fault, 400, "two Transfer-Encoding headers");
	if (h->minor == 0)
		return refuse(fault, 400, "Transfer-Encoding in HTTP/1.0");
	if (strcasecmp(value, "chunked") != 0)
		return refuse(fault, 501, "transfer coding not implemented");
	h->chunked = true;
	return 0;
}

struct wishes {
	bool close, keep_alive, upgrade;
	const char *protocol;
};

static int read_field(
	struct h1_head *h, const struct wire_field *f, struct wishes *w, struct h1_fault *fault)
{
	if (strcasecmp(f->name, "Content-Length") == 0)
		return parse_length(h, f->value, fault);
	if (strcasecmp(f->name, "Transfer-Encoding") == 0)
		return parse_coding(h, f->value, fault);
	if (strcasecmp(f->name, "Connection") == 0) {
		w->close |= h1_list_has(f->value, "close");
		w->keep_alive |= h1_list_has(f->value, "keep-alive");
		w->upgrade |= h1_list_has(f->value, "upgrade");
	} else if (strcasecmp(f->name, "Upgrade") == 0) {
		w->protocol = w->protocol ? "" : f->value; /* two of them: none */
	} else if (strcasecmp(f->name, "Host") == 0) {
		if (h->host)
			return refuse(fault, 400, "two Host headers");
		if (!h1_host_is_legal(f->value))
			return refuse(fault, 400, "malformed Host");
		h->host = f->value;
	} else if (strcasecmp(f->name, "Expect") == 0) {
		if (strcasecmp(f->value, "100-continue") != 0)
			return refuse(fault, 417, "expectation not known");
		h->expects = true;
	}
	return 0;
}

static int read_fields(struct h1_head *h, struct wishes *w, struct h1_fault *fault)
{
	h->length = -1;
	for (unsigned i = 0; i < h->count; i++)
		if (read_field(h, &h->fields[i], w, fault) < 0)
			return -1;
	if (h->chunked && h->length >= 0)
		return refuse(fault, 400, "both Content-Length and Transfer-Encoding");
	h->close = w->close || (h->minor == 0 && !w->keep_alive);
	return 0;
}

static int header_lines(struct h1_head *h, char *at, const char *end, struct h1_fault *fault)
{
	for (;;) {
		char *line = take_line(&at, end);

		if (!line)
			return refuse(fault, 400, "malformed line end");
		if (!*line)
			return at == end ? 0 : refuse(fault, 400, "text behind the head");
		if (header_line(h, line, fault) < 0)
			return -1;
	}
}

int h1_parse_request(struct h1_head *h, char *text, size_t len, struct h1_fault *fault)
{
	char *at = text, *line;
	const char *end = text + len;
	struct wishes w = { 0 };

	*h = (struct h1_head){ 0 };
	line = take_line(&at, end);
	if (!line)
		return refuse(fault, 400, "malformed line end");
	if (request_line(h, line, fault) < 0 || header_lines(h, at, end, fault) < 0 ||
		read_fields(h, &w, fault) < 0)
		return -1;
	if (h->minor == 1 && !h->host)
		return refuse(fault, 400, "no Host header");
	if (h->minor == 0)
		h->expects = false;
	/* One with a body may go on in HTTP/1.1 alone, and so does one that asks for HTTP/2 this
	 * way. */
	if (w.upgrade && h->minor == 1 && w.protocol && *w.protocol && !h->chunked &&
		h->length <= 0 && strcasecmp(w.protocol, "h2c") != 0)
		h->upgrade = w.protocol;
	return 0;
}

int h1_parse_response(struct h1_head *h, char *text, size_t len, struct h1_fault *fault)
{
	char *at = text, *line;
	const char *end = text + len;
	struct wishes w = { 0 };

	*h = (struct h1_head){ 0 };
	line = take_line(&at, end);
	if (!line)
		return refuse(fault, 502, "malformed line end");
	if (status_line(h, line, fault) < 0)
		return -1;
	if (header_lines(h, at, end, fault) < 0 || read_fields(h, &w, fault) < 0)
		return refuse(fault, 502, fault->why);
	if (h->status == 101 && w.upgrade && w.protocol && *w.protocol)
		h->upgrade = w.protocol;
	return 0;
}

/* ---- targets and hosts ---- */

static char *after_scheme(char *target)
{
	if (strncasecmp(target, "http://", 7) == 0)
		return target + 7;
	return strncasecmp(target, "https://", 8) == 0 ? target + 8 : NULL;
}

int h1_split_target(char *target, const char *method, struct h1_target *ret, struct h1_fault *fault)
{
	char *rest = after_scheme(target), *query;

	*ret = (struct h1_target){ "", "/", "" };
	if (rest) {
		size_t n = strcspn(rest, "/?");

		/* Moved one to the left, so that there is room for its NUL before the path. */
		memmove(rest - 1, rest, n);
		(rest - 1)[n] = '\0';
		ret->authority = rest - 1;
		if (n == 0 || !h1_host_is_legal(ret->authority))
			return refuse(fault, 400, "malformed authority");
		target = rest + n;
	} else if (str_eq(target, "*")) {
		if (!str_eq(method, "OPTIONS"))
			return refuse(fault, 400, "target * is for OPTIONS");
		ret->path = "*";
		return 0;
	} else if (*target != '/') {
		return refuse(fault, 400, "malformed request target");
	}
	query = strchr(target, '?');
	if (query) {
		*query = '\0';
		ret->query = query + 1;
	}
	if (*target)
		ret->path = target;
	return 0;
}

static bool is_port(const char *p)
{
	size_t n = strspn(p, "0123456789");

	return n <= 5 && !p[n] && strtoul(*p ? p : "0", NULL, 10) <= 65535;
}

bool h1_host_is_legal(const char *host)
{
	size_t n;

	if (strlen(host) > WIRE_HOST_MAX)
		return false;
	if (*host == '[') {
		n = strspn(host + 1, "0123456789abcdefABCDEF:.");
		if (n < 2 || host[1 + n] != ']')
			return false;
		host += n + 2;
	} else {
		n = strspn(
			host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~");
		host += n;
		if (!n)
			return !*host; /* a port alone is nothing */
	}
	return !*host || (*host == ':' && is_port(host + 1));
}

void h1_host_name(const char *host, char *out)
{
	const char *stop = ":";

	if (*host == '[') {
		host++;
		stop = "]";
	}
	for (; *host && *host != *stop; host++)
		*out++ = (char)tolower((unsigned char)*host);
	*out = '\0';
}
