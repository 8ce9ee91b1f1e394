/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/spare.c - files that are set aside to be used again.
 *
 * Owns:  the names.
 * Rules: a name changes hands by a rename that never replaces, so two can want the same.
 */
#include <errno.h>

#include "base/limits.h"
#include "base/str.h"
#include "host/host.h"
#include "store/spare.h"

int spare_name(char *out, size_t cap, const char *stem, unsigned n)
{
	return str_fmt(out, cap, "%s.%u", stem, n % SPARES_MAX);
}

int spare_take(int dir, const char *stem, unsigned first, const char *to)
{
	char name[WARD_PATH_MAX];
	int r = -ENOENT;

	for (unsigned i = 0; r == -ENOENT && i < SPARES_MAX; i++) {
		r = spare_name(name, sizeof(name), stem, first + i);
		if (r == 0)
			r = host_rename_new(dir, name, dir, to);
	}
	return r;
}

int spare_give(int dir, const char *from, const char *stem, unsigned first)
{
	char name[WARD_PATH_MAX];
	int r = -EEXIST;

	for (unsigned i = 0; r == -EEXIST && i < SPARES_MAX; i++) {
		r = spare_name(name, sizeof(name), stem, first + i);
		if (r == 0)
			r = host_rename_new(dir, from, dir, name);
	}
	return r;
}
