/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/config.c - ward.toml, and the blobs that the database gives back.
 *
 * Owns:  nothing.
 * Rules: whatever the text, it is refused with one line or read into bounds; nothing is left
 * behind.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hub/config.h"
#include "hub/pairs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct db_blob blob = { data, size };
	struct config *c = NULL;
	struct err e = { 0 };
	struct network n;
	int r = config_read("f", (const char *)data, size, &c, &e);

	if (r == 0 && (c->timeout_max_ms < 0 || c->template_count > CONFIG_TEMPLATES_MAX))
		abort();
	if (r < 0 && (!e.msg[0] || strchr(e.msg, '\n')))
		abort();
	config_destroy(c);
	if (network_read(&n, blob) == 0)
		network_done(&n);
	return 0;
}
