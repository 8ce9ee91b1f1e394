/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_PLACE_H
#define WARD_SUP_PLACE_H

#include <stdbool.h>
#include <sys/un.h>

#include "base/err.h"

/*
 * Where a supervisor is found: <state>/run/<id>.sock, and <id>.end after its end. The address goes
 * through a descriptor of the folder, because a socket's path has at most 107 bytes and a state
 * directory's may have more.
 */

/* Opens <state>/run; with @make it is made when missing. */
int place_open(const char *state_dir, bool make, int *ret_dir, struct err *e);
/* The address of @id's socket; good while @ret_dir is open. */
int place_address(const char *state_dir, const char *id, struct sockaddr_un *ret, int *ret_dir,
	struct err *e);
/* Listens at @id's socket. The name appears only then: whoever finds it can connect. */
int place_listen(int dir, const char *id, int backlog, int *ret_sock, struct err *e);

#endif
