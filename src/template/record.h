/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TEMPLATE_RECORD_H
#define WARD_TEMPLATE_RECORD_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"

/*
 * What is written down about one template: STATE/templates/NAME/template, lines of key=value. All
 * strings of a record that was read point into @text_.
 */
enum record_kind { RECORD_LAYERS, RECORD_DIR };

struct record {
	enum record_kind kind;
	bool by_root;       /* made by root: ids are kept and overlay marks are trusted.* */
	const char *source; /* the reference or oci: word that it was made from; "" when built */
	const char *digest; /* of the image's manifest (of its configuration, from `docker save`) */
	const char *created; /* when this record was made */
	const char *stamp;   /* the file behind an oci: word when it was read; "" otherwise */
	const char *workdir, *user; /* "" when the image says nothing */
	/* Uppermost first: names of folders in STATE/layers, or absolute paths of directories. */
	const char *layers[LAYERS_MAX];
	unsigned layer_count;
	const char *env[ENV_VARS_MAX + 1]; /* "K=V", NULL-terminated */
	unsigned env_count;
	const char *cmd[TEMPLATE_ARGS_MAX + 1]; /* NULL-terminated */
	unsigned cmd_count;
	char *text_;
};

/* Takes @text, also when this fails: a heap string that the record's strings will point into. */
int record_parse(char *text, struct record *ret, struct err *e);
int record_format(const struct record *r, struct buf *b, struct err *e);
void record_done(struct record *r);

/*
 * Records by name. A name is a template's own (template_name_is_valid) or an image reference;
 * references become file names by a spelling that can be turned back.
 */
bool template_name_is_valid(const char *name);
int record_file_name(const char *name, char out[TEMPLATE_NAME_MAX + 1]);
void record_file_name_back(char *name); /* in place */

/* -ENOENT without a message when there is none. @ret_fd, unless NULL, gets the open file. */
int template_record_load(
	const char *state_dir, const char *name, struct record **ret, int *ret_fd, struct err *e);
int record_read(int fd, struct record **ret, struct err *e);
void record_destroy(struct record *r);

#define own_record __attribute__((cleanup(record_own_done_)))
static inline void record_own_done_(struct record **r)
{
	record_destroy(*r);
}

#endif
