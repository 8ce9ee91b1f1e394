/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template/ref.c - what an image is called.
 *
 * Owns:  nothing.
 * Rules: pure; hostile input. What it accepts holds only [A-Za-z0-9._-/:@[]], so that it can be
 *        put into a URL, a file name (template/record.c) and an error line as it is.
 */
#include <errno.h>

#include "base/str.h"
#include "template/ref.h"

static bool is_lower(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_word(char c)
{
	return is_lower(c) || (c >= 'A' && c <= 'Z');
}

bool ref_digest_is_valid(const char *text)
{
	const char *hex = str_after(text, "sha256:");

	if (!hex || strlen(hex) != 64)
		return false;
	return strspn(hex, "0123456789abcdef") == 64;
}

/* One part between slashes: words of [a-z0-9] joined by ".", "_", "__" or any number of "-". */
static bool part_is_valid(const char *p, size_t len)
{
	size_t i = 0, run;

	if (!len || !is_lower(p[0]) || !is_lower(p[len - 1]))
		return false;
	while (i < len) {
		if (is_lower(p[i])) {
			i++;
			continue;
		}
		for (run = 0; !is_lower(p[i + run]) && p[i + run] == p[i];)
			run++;
		if (!is_lower(p[i + run]))
			return false; /* two kinds of joint in a row */
		if (p[i] != '-' && !(p[i] == '.' && run == 1) && !(p[i] == '_' && run <= 2))
			return false;
		i += run;
	}
	return true;
}

static bool path_is_valid(const char *path)
{
	const char *p = path, *slash;

	while ((slash = strchr(p, '/'))) {
		if (!part_is_valid(p, (size_t)(slash - p)))
			return false;
		p = slash + 1;
	}
	return part_is_valid(p, strlen(p));
}

static bool tag_is_valid(const char *tag)
{
	size_t i;

	if (!is_word(tag[0]) && tag[0] != '_')
		return false;
	for (i = 0; tag[i]; i++)
		if (!is_word(tag[i]) && !strchr("._-", tag[i]))
			return false;
	return i <= 128;
}

static bool port_is_valid(const char *port)
{
	size_t n = strspn(port, "0123456789");

	return n >= 1 && n <= 5 && !port[n];
}

bool ref_host_is_valid(const char *host)
{
	const char *end = host;

	if (*host == '[') {
		end = host + 1 + strspn(host + 1, "0123456789abcdefABCDEF:.");
		if (end == host + 1 || *end++ != ']')
			return false;
	} else {
		if (!is_word(*host))
			return false;
		while (is_word(*end) || *end == '.' || *end == '-')
			end++;
	}
	return !*end || (*end == ':' && port_is_valid(end + 1));
}

bool ref_host_is_loopback(const char *host)
{
	char name[TEMPLATE_NAME_MAX + 1];
	const char *rest;
	char *end;

	if (str_copy(name, sizeof(name), host) < 0)
		return false;
	end = name[0] == '[' ? strchr(name, ']') : strchr(name, ':');
	if (end)
		*end = '\0';
	if (str_eq(name, "localhost") || str_eq(name, "[::1"))
		return true;
	/* Four numbers, so that a name such as 127.example.com does not count. */
	rest = str_after(name, "127.");
	for (int i = 0; rest && i < 3; i++) {
		size_t n = strspn(rest, "0123456789");

		if (n < 1 || n > 3 || rest[n] != (i < 2 ? '.' : '\0'))
			return false;
		rest += n + 1;
	}
	return rest != NULL;
}

/* Cuts @text at the last @c that comes after the last '/'; what follows it, or NULL. */
static char *cut_after(char *text, char c)
{
	char *slash = strrchr(text, '/'), *at = strrchr(slash ? slash : text, c);

	if (!at)
		return NULL;
	*at = '\0';
	return at + 1;
}

static int fill(char *text, struct ref *r, struct err *e)
{
	char *digest = strchr(text, '@'), *tag, *slash;

	if (digest) {
		*digest++ = '\0';
		if (!ref_digest_is_valid(digest))
			return err_say(
				e, EINVAL, "after '@' comes sha256: and 64 hexadecimal digits");
		memcpy(r->digest, digest, sizeof(r->digest));
	}
	slash = strchr(text, '/');
	if (slash) {
		*slash = '\0';
		if (strpbrk(text, ".:") || str_eq(text, "localhost")) {
			memcpy(r->host, text, strlen(text) + 1);
			text = slash + 1;
		} else {
			*slash = '/';
		}
	}
	if (r->host[0] && !ref_host_is_valid(r->host))
		return err_say(e, EINVAL, "'%s' is not a registry's HOST[:PORT]", r->host);
	tag = cut_after(text, ':');
	if (tag && !tag_is_valid(tag))
		return err_say(e, EINVAL,
			"a tag is at most 128 of A-Z, a-z, 0-9, '.', '_' and '-', and does not "
			"start "
			"with '.' or '-'");
	if (!path_is_valid(text))
		return err_say(e, EINVAL,
			"an image's path is made of a-z and 0-9, joined by '.', '_', '-' and '/'");
	memcpy(r->path, text, strlen(text) + 1);
	return digest ? 0 : str_copy(r->tag, sizeof(r->tag), tag ? tag : "latest");
}

int ref_parse(const char *text, struct ref *ret, struct err *e)
{
	char copy[TEMPLATE_NAME_MAX + 1], whole[TEMPLATE_NAME_MAX + 1];
	struct ref r = { 0 };
	int n;

	/* Before anything of it is printed: what is left after this test is one clean word. */
	if (text[strspn(text,
		    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@[]")])
		return err_say(
			e, EINVAL, "an image reference holds only letters, digits and ._-/:@[]");
	if (str_copy(copy, sizeof(copy), text) < 0)
		return err_say(e, ENAMETOOLONG, "an image reference has at most %d characters",
			TEMPLATE_NAME_MAX);
	n = fill(copy, &r, e);
	if (n < 0)
		return n;
	if (ref_text(&r, whole) < 0)
		return err_say(e, ENAMETOOLONG,
			"an image reference has at most %d characters, tag included",
			TEMPLATE_NAME_MAX);
	*ret = r;
	return 0;
}

int ref_text(const struct ref *r, char out[TEMPLATE_NAME_MAX + 1])
{
	return str_fmt(out, TEMPLATE_NAME_MAX + 1, "%s%s%s%s%s", r->host, r->host[0] ? "/" : "",
		r->path, r->digest[0] ? "@" : ":", r->digest[0] ? r->digest : r->tag);
}
