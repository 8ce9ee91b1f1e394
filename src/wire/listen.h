/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_LISTEN_H
#define WARD_WIRE_LISTEN_H

#include <stdbool.h>

/* Between server.c and listen.c. */
struct wire_server;

void listeners_close(struct wire_server *s);
/* Accepting was off for want of room or descriptors: on again. */
void listeners_resume(struct wire_server *s);
bool server_is_full(const struct wire_server *s);
/* Closes the connection that has been idle longest; false when none is. */
bool server_drop_idle(struct wire_server *s);

#endif
