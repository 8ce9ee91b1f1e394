/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_PROCESS_H
#define WARD_FRONT_E2B_PROCESS_H

#include "base/err.h"
#include "front/jin.h"
#include "sup/link.h"

/* {"process": {"pid": 7}} or {"process": {"tag": "x"}}; the tag is borrowed from @doc. */
int process_who(const struct jin *doc, struct link_who *ret, struct err *e);

/* {"size": {"cols": 80, "rows": 24}} */
int process_size(const struct jin *pty, unsigned *ret_cols, unsigned *ret_rows, struct err *e);

#endif
