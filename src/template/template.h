/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TEMPLATE_TEMPLATE_H
#define WARD_TEMPLATE_TEMPLATE_H

#include <stdbool.h>

#include "base/err.h"
#include "plan/plan.h"

struct record;

/*
 * What a sandbox starts from. Everything in it is good until template_done. While it is held, the
 * template's layers stay on disk: `ward template rm` refuses, and a new import under the same name
 * keeps the old layers until the last holder is gone. The hold is a lock on an open file; it ends
 * with template_done or with the process (and with every child that inherited it without exec).
 */
struct template
{
	struct plan_root root;  /* layers: absolute host directories, uppermost first */
	const char *const *env; /* "K=V", NULL-terminated; never NULL */
	const char *workdir;    /* NULL: nothing said */
	const char *user;       /* NULL: nothing said */
	const char *const *cmd; /* entry point and command, NULL-terminated; may be empty */
	const char *digest;     /* of the image; "" when there is none */
	/* Set, with -ENOENT, for a word that `ward template import` could turn into a template. */
	bool needs_import;

	int hold_; /* -1: none */
	struct record *record_;
	char *paths_;
};

/*
 * What the word after --template means: `host`; `dir:PATH`, or a path that starts with '/' or '.';
 * `oci:PATH[:TAG]`; the name of a template; an image reference. @ret needs template_done only after
 * success; after a failure just its needs_import may be read.
 */
int template_resolve(const char *state_dir, const char *spec, struct template *ret, struct err *e);
void template_done(struct template *t);
/* A sandbox of it is kept in the folder @box: no sweep removes its layers as long as that is there.
 * To be called before template_done(). */
int template_keep(const struct template *t, const char *box, struct err *e);
/* What is written down about it; NULL for `host` and for a directory without a name. */
const struct record *template_record(const struct template *t);

/*
 * Is @path, with all links resolved, the state directory or inside it? What lies there is ward's
 * and changes under you.
 */
bool template_is_state(const char *state_dir, const char *path);

/*
 * An oci: word as the import and the resolver both understand it. The whole rest is the path when
 * something of that name exists; otherwise the last ':' separates a tag.
 */
struct oci_word {
	char path[WARD_PATH_MAX];        /* absolute, symlinks resolved */
	char tag[TEMPLATE_NAME_MAX + 1]; /* empty: none was written */
	char name[32];                   /* the record it is kept under when no name is given */
	char source[WARD_PATH_MAX + TEMPLATE_NAME_MAX + 8]; /* "oci:PATH[:TAG]" in one spelling */
	char stamp[96]; /* changes when the file (of a layout: its index.json) does */
};
int oci_word_parse(const char *spec, struct oci_word *ret, struct err *e);

#endif
