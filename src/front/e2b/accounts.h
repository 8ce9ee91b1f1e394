/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_ACCOUNTS_H
#define WARD_FRONT_E2B_ACCOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

/*
 * Who is who inside a sandbox: its own /etc/passwd and /etc/group, read as text. Both belong to
 * whoever runs in there, so nothing here trusts them; they only answer for that sandbox.
 */
struct accounts {
	char *passwd, *group; /* NUL-terminated; owned */
};

struct account {
	char name[64];
	char home[WARD_PATH_MAX];
	uint32_t uid, gid;
};

void accounts_done(struct accounts *a);
/* @name: a name, or a number, which needs no entry. false: nobody is called that. */
bool accounts_find(const struct accounts *a, const char *name, struct account *ret);
/* The name of a number, or the number as text. Returns @out. */
const char *accounts_user(const struct accounts *a, uint32_t uid, char out[64]);
const char *accounts_group(const struct accounts *a, uint32_t gid, char out[64]);

#endif
