/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/names.c - the names in a layer.
 *
 * Owns:  nothing.
 * Rules: pure; hostile input. What passes can be used below the layer's root part by part; that no
 *        part is a link is checked when it is used (image/unpack.c).
 */
#include <errno.h>
#include <stdint.h>

#include "base/ckd.h"
#include "base/str.h"
#include "image/names.h"

static const char wh[] = ".wh.", wh_opaque[] = ".wh..wh..opq";

static int split_last(const char *path, struct entry_name *n)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;

	memcpy(n->parent, path, len);
	n->parent[len] = '\0';
	return str_copy(n->base, sizeof(n->base), slash ? slash + 1 : path);
}

static int check_whiteout(struct entry_name *n, struct err *e)
{
	const char *gone = str_after(n->base, wh);

	for (const char *p = n->parent; *p; p += strcspn(p, "/"), p += *p == '/')
		if (str_after(p, wh))
			return err_say(e, EINVAL,
				"a name with .wh. means a deletion and cannot be a folder");
	if (!gone)
		return 0;
	if (str_eq(n->base, wh_opaque)) {
		n->kind = NAME_OPAQUE;
		return 0;
	}
	if (!*gone || str_eq(gone, ".") || str_eq(gone, "..") || str_after(gone, wh))
		return err_say(e, EINVAL, "the deletion mark names nothing that can be deleted");
	n->kind = NAME_WHITEOUT;
	memmove(n->base, gone, strlen(gone) + 1);
	return 0;
}

int entry_name_parse(const char *raw, struct entry_name *ret, struct err *e)
{
	char path[IMAGE_NAME_MAX + 1];
	struct entry_name n = { 0 };
	size_t at = 0, len;
	unsigned depth = 0;
	int r;

	if (!*raw)
		return err_say(e, EINVAL, "its name is empty");
	/* A lone "/" is how some builders write the root; anything after it is an absolute path. */
	if (*raw == '/' && raw[strspn(raw, "/")])
		return err_say(e, EINVAL, "its path is absolute");
	if (strlen(raw) > IMAGE_NAME_MAX)
		return err_say(e, ENAMETOOLONG, "its path has more than %d bytes", IMAGE_NAME_MAX);
	for (const char *p = raw; *p; p += len, p += *p == '/') {
		len = strcspn(p, "/");
		if (!len || (len == 1 && *p == '.'))
			continue;
		if (len == 2 && memcmp(p, "..", 2) == 0)
			return err_say(e, EINVAL, "'..' in its path leads out of the layer");
		if (len >= sizeof(n.base))
			return err_say(
				e, ENAMETOOLONG, "a part of its path has more than 255 bytes");
		if (++depth > IMAGE_TREE_DEPTH_MAX)
			return err_say(
				e, ELOOP, "it is more than %d folders deep", IMAGE_TREE_DEPTH_MAX);
		if (at)
			path[at++] = '/';
		memcpy(path + at, p, len);
		at += len;
	}
	path[at] = '\0';
	r = split_last(path, &n);
	if (r == 0)
		r = check_whiteout(&n, e);
	if (r == 0)
		*ret = n;
	return r;
}

/* A number of a tar header, octal; -1 when it is none, or larger than a header may be. */
static int64_t octal(const char *p, size_t len)
{
	int64_t v = 0;

	while (len && *p == ' ')
		p++, len--;
	for (; len && *p >= '0' && *p <= '7'; p++, len--) {
		v = v * 8 + (*p - '0');
		if (v > IMAGE_HEADER_MAX)
			return -1;
	}
	return !len || *p == ' ' || *p == '\0' ? v : -1;
}

static int nul_inside(struct err *e)
{
	return err_say(e, EINVAL, "its name holds a NUL byte");
}

static bool is_name_key(const char *key, size_t len)
{
	static const char *const keys[] = { "path", "linkpath", "GNU.sparse.name" };

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strlen(keys[i]) == len && memcmp(keys[i], key, len) == 0)
			return true;
	return false;
}

/* "LENGTH KEY=VALUE\n", again and again. What is malformed the tar reader refuses by itself. */
static int check_pax(const char *p, size_t len, struct err *e)
{
	while (len) {
		size_t n = 0, digits = 0;
		const char *key, *eq;

		while (digits < len && digits < 8 && p[digits] >= '0' && p[digits] <= '9')
			n = n * 10 + (size_t)(p[digits++] - '0');
		if (n <= digits + 1 || n > len || p[digits] != ' ')
			return 0;
		key = p + digits + 1;
		eq = memchr(key, '=', n - digits - 1);
		if (eq && is_name_key(key, (size_t)(eq - key)) &&
			memchr(eq, '\0', (size_t)(p + n - eq)))
			return nul_inside(e);
		p += n;
		len -= n;
	}
	return 0;
}

/* GNU's long names end with a NUL; after the first one nothing else may come. */
static int check_long(const char *p, size_t len, struct err *e)
{
	const char *nul = memchr(p, '\0', len);

	for (; nul && nul < p + len; nul++)
		if (*nul)
			return nul_inside(e);
	return 0;
}

int raw_header_check(const char *p, size_t len, struct err *e)
{
	enum { BLOCK = 512, AT_SIZE = 124, AT_TYPE = 156 };
	int r = 0;

	while (r == 0 && len >= BLOCK && p[AT_TYPE] && strchr("AgKLVXx", p[AT_TYPE])) {
		int64_t size = octal(p + AT_SIZE, 12);
		size_t whole;

		if (size < 0)
			return err_say(e, EINVAL, "its header has no size that makes sense");
		whole = BLOCK + ((size_t)size + BLOCK - 1) / BLOCK * BLOCK;
		if (BLOCK + (size_t)size > len)
			return err_say(e, EINVAL, "its header is cut short");
		if (strchr("gXx", p[AT_TYPE]))
			r = check_pax(p + BLOCK, (size_t)size, e);
		else if (strchr("KL", p[AT_TYPE]))
			r = check_long(p + BLOCK, (size_t)size, e);
		if (whole > len)
			break;
		p += whole;
		len -= whole;
	}
	return r;
}
