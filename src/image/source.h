/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_SOURCE_H
#define WARD_IMAGE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "image/digest.h"

struct descriptor;
struct manifest;
struct oci_word;
struct progress;
struct ref;
struct source;

/* Where the parts of an image come from. What these hand out has the digest that was asked for. */
struct source_ops {
	/*
	 * Required. The document that the image's name stands for, into @text, and its digest. A
	 * source that has no such document fills @ret_manifest instead and returns 1.
	 */
	int (*top)(struct source *s, struct buf *text, char digest[DIGEST_TEXT],
		struct manifest *ret_manifest, struct err *e);
	/* Required. A manifest (@is_manifest) or configuration, at most @max bytes. */
	int (*text)(struct source *s, const struct descriptor *d, bool is_manifest, size_t max,
		struct buf *text, struct err *e);
	/* Required. A layer as a file that is read from its start. May use the folder @work. */
	int (*layer)(struct source *s, const struct descriptor *d, int work, struct progress *p,
		int *ret_fd, struct err *e);
	/* Required. Takes NULL inside. */
	void (*destroy)(struct source *s);
};

struct source {
	const struct source_ops *ops;
	const char *tag; /* what to choose from an index at the top: see document_parse */
	struct progress *progress;
};

/* An OCI image layout, or an archive of one or of `docker save`; those are spread out in @work. */
int bundle_open(
	const struct oci_word *w, int work, uint64_t max_bytes, struct source **ret, struct err *e);

struct registry_options {
	bool plain_http;        /* also for hosts that are not this one */
	const char *credential; /* "user:password", or NULL */
	uint64_t max_bytes;     /* of one blob */
};
/* @r has a host. */
int registry_open(
	const struct ref *r, const struct registry_options *o, struct source **ret, struct err *e);

#endif
