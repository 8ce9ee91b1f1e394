/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/path.c - paths as clients write them.
 *
 * Owns:  nothing.
 * Rules: pure; no file system is asked.
 */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "front/e2b/path.h"

/* Appends the parts of @path to @out, an absolute path without a slash at its end ("" is the top). */
static int add_parts(char *out, size_t cap, size_t *len, const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && path[0] == '.' && path[1] == '.') {
			while (*len && out[*len - 1] != '/')
				(*len)--;
			if (*len)
				(*len)--;
		} else if (n && !(n == 1 && path[0] == '.')) {
			if (*len + 1 + n + 1 > cap)
				return -ENAMETOOLONG;
			out[(*len)++] = '/';
			memcpy(out + *len, path, n);
			*len += n;
		}
		path += n + (path[n] == '/');
	}
	return 0;
}

int path_resolve(const char *given, const char *home, const char *workdir, char *out, size_t cap,
	struct err *e)
{
	const char *base = home, *rest = given;
	size_t len = 0;
	int r;

	if (!*given) {
		base = workdir && *workdir ? workdir : home;
	} else if (given[0] == '/') {
		base = "";
	} else if (given[0] == '~') {
		if (given[1] && given[1] != '/')
			return err_say(e, EINVAL,
				"a path may start with '~' or '~/', not with a user's name");
		rest = given + 1;
	}
	r = add_parts(out, cap, &len, base);
	if (r == 0)
		r = add_parts(out, cap, &len, rest);
	if (r < 0)
		return err_say(e, EINVAL, "the path is longer than %zu bytes", cap - 1);
	if (!len)
		out[len++] = '/';
	out[len] = '\0';
	return 0;
}

const char *path_base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}
