/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_CODE_H
#define WARD_FRONT_E2B_CODE_H

/* The codes of the Connect protocol. */
enum code {
#define CODE(id, name, http) CODE_##id,
#include "front/e2b/codes.def"
#undef CODE
	CODE_COUNT
};

const char *code_name(enum code c); /* "not_found" */
int code_http(enum code c);         /* of a unary answer */

/* What an errno of the sandbox, the hub or the link is to a client. */
enum code code_of_errno(int err);
int http_of_errno(int err);

#endif
