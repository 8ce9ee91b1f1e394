/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_NAMES_H
#define WARD_IMAGE_NAMES_H

#include <stddef.h>

#include "base/err.h"
#include "base/limits.h"

/*
 * The path of one entry of a layer, checked and in one spelling: relative, parts joined by single
 * slashes, without "." and ".."; empty for the layer's root.
 */
enum name_kind {
	NAME_PLAIN,
	NAME_WHITEOUT, /* the file or folder @base of a lower layer is gone */
	NAME_OPAQUE,   /* all that lower layers have in the folder @parent is gone */
};

struct entry_name {
	enum name_kind kind;
	char parent[IMAGE_NAME_MAX + 1]; /* the folder; empty for the layer's root */
	char base[256];                  /* the last part; empty for the layer's root itself */
};

int entry_name_parse(const char *raw, struct entry_name *ret, struct err *e);

/*
 * The headers of one entry as they stand in the tar stream, @len bytes from the first one on. The
 * tar reader ends names at the first NUL; a name that goes on after one is refused here.
 */
int raw_header_check(const char *p, size_t len, struct err *e);

#endif
