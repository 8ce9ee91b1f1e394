/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TESTS_WIRE_ECHO_H
#define WARD_TESTS_WIRE_ECHO_H

#include <stdint.h>

#include "loop/loop.h"
#include "wire/query.h"
#include "wire/server.h"

/* The test server: what its handlers count, and one call of them. */
struct echo {
	struct loop *loop;
	struct wire_server *server;
	struct wire_tls *tls;
	uint64_t ended[4]; /* by enum wire_end */
};

struct call {
	struct echo *echo;
	struct wire_req *q;
	struct query query;
	struct loop_timer timer;
	uint64_t left, bytes, sum;
	unsigned ms, piece;
	struct multipart *form;
	struct zip *zip;
	char text[4096];
	int failed;
};

uint64_t call_number(struct call *c, const char *key, uint64_t otherwise);
void call_ended(void *ctx, struct wire_req *q, enum wire_end how);

void on_form(struct call *c);
void on_gunzip(struct call *c);
void on_gzip(struct call *c);
void on_proxy(struct call *c);

#endif
