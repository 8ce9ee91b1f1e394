/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CMD_SERVE_H
#define WARD_CMD_SERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "hub/config.h"
#include "plan/wall.h"

/* What `ward serve` was told on its command line. */
struct serve_options {
	const char *config; /* NULL: the default place, if there is one */
	struct {
		const char *words[CONFIG_LISTEN_MAX];
		unsigned count;
	} listen;
	const char *domain, *tls_cert, *tls_key, *log;
	enum wall tier;
	bool check, stop_sandboxes;
};

int serve_options_read(int argc, char **argv, struct serve_options *ret, struct err *e);
/* ward.toml with what the command line says put over it. */
int serve_config(const struct serve_options *o, struct config **ret, struct err *e);
/* "127.0.0.1:7700", "[::1]:7700". */
int serve_address(const char *text, char host[64], uint16_t *ret_port, struct err *e);
/* Tells systemd, when it asked to be told. */
void serve_notify(const char *what);

#endif
