/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/id.c - names for sandboxes.
 *
 * Owns:  nothing.
 * Rules: an id is safe as a file name, a cgroup name, a DNS label and a git branch part.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/id.h"

static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";

int id_make(char id[ID_LEN + 1])
{
	unsigned char raw[ID_LEN];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return -errno;
	for (unsigned i = 0; i < ID_LEN; i++)
		id[i] = letters[raw[i] % 32];
	/* A leading letter keeps every user of the name happy (hostnames, branches). */
	id[0] = letters[raw[0] % 26];
	id[ID_LEN] = '\0';
	return 0;
}

bool id_is_valid(const char *text)
{
	return strlen(text) == ID_LEN && strspn(text, letters) == ID_LEN;
}
