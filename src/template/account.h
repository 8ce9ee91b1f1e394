/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TEMPLATE_ACCOUNT_H
#define WARD_TEMPLATE_ACCOUNT_H

#include "base/err.h"

/* The ordinary account of the `host` template, which clients of the API expect to find. */
#define ACCOUNT_NAME "user"
#define ACCOUNT_HOME "/home/user"
enum { ACCOUNT_ID = 1000 };

/*
 * Writes the account into etc/passwd and etc/group below @root and makes its home. Whatever the
 * host calls by the same name or number goes: two answers to one question are none.
 */
int account_add(int root, struct err *e);

#endif
