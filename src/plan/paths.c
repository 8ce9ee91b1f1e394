/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/ckd.h"
#include "base/limits.h"
#include "base/str.h"
#include "plan/paths.h"

bool path_is_clean(const char *p)
{
	if (p[0] != '/' || strlen(p) >= WARD_PATH_MAX)
		return false;
	for (; *p; p++) {
		if (p[0] != '/')
			continue;
		if (p[1] == '/' || (p[1] == '.' && (p[2] == '/' || !p[2])) ||
			(p[1] == '.' && p[2] == '.' && (p[3] == '/' || !p[3])))
			return false;
	}
	return true;
}

bool path_is_reserved(const char *dst)
{
	static const char *const names[] = { "/proc", "/dev", "/sys" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *rest = str_after(dst, names[i]);

		if (rest && (!*rest || *rest == '/'))
			return true;
	}
	return str_eq(dst, "/");
}
