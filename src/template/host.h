/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TEMPLATE_HOST_H
#define WARD_TEMPLATE_HOST_H

#include "base/err.h"

struct template;

/* The `host` template: the host's own programs and a curated /etc, made below @state_dir. */
int template_host(const char *state_dir, struct template *ret, struct err *e);

#endif
