/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_RPC_CODE_H
#define WARD_FRONT_E2B_RPC_CODE_H

/* The codes of the Connect protocol. */
enum rpc_code {
#define RPC(id, name, http) RPC_##id,
#include "front/e2b/rpc_codes.def"
#undef RPC
	RPC_CODES
};

const char *rpc_code_name(enum rpc_code c); /* "not_found" */
int rpc_code_http(enum rpc_code c);         /* of a unary answer */

/* What an errno of the sandbox, the hub or the link is to a client. */
enum rpc_code rpc_code_of(int err);
int http_status_of(int err);

#endif
