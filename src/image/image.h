/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_IMAGE_H
#define WARD_IMAGE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "image/digest.h"

struct import_options {
	const char *name;       /* of the template; NULL: the image's own */
	const char *registry;   /* for references without a host; NULL: none */
	const char *credential; /* "user:password"; NULL: look where `docker login` keeps them */
	bool plain_http;
	bool progress; /* draw a bar on stderr */
	uint64_t max_bytes;
};

struct import_result {
	char name[TEMPLATE_NAME_MAX + 1];
	char digest[DIGEST_TEXT];
	unsigned layers, new_layers;
	uint64_t dropped_xattrs; /* attributes of files that were not taken over */
};

/*
 * Makes a template from an image: `oci:PATH[:TAG]`, or a reference to fetch from a registry. When
 * it fails, nothing is left. Wants stop_block.
 */
int image_import(const char *state_dir, const char *spec, const struct import_options *o,
	struct import_result *ret, struct err *e);

struct build_copy {
	const char *src, *dst;
};

struct build_options {
	const char *from; /* the word for the template to start from */
	const struct build_copy *copies;
	unsigned copy_count;
	const char *const *env; /* "K=V", over those of @from */
	unsigned env_count;
	const char *const *cmd; /* instead of that of @from, if any */
	unsigned cmd_count;
	const char *workdir, *user; /* NULL: those of @from */
	const char *upper; /* the files of a kept sandbox of @from, as one more layer; NULL: none */
	uint64_t max_bytes;
};

/* Makes template @name: the layers of another and what is new. As above. */
int image_build(const char *state_dir, const char *name, const struct build_options *o,
	struct import_result *ret, struct err *e);

#endif
