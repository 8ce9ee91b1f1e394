/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_MANIFEST_H
#define WARD_IMAGE_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "image/digest.h"

struct record;

/* One part of an image: what it must hash to, and how long it must be. */
struct descriptor {
	char digest[DIGEST_TEXT];
	uint64_t size;
	/* In a `docker save` archive parts have names instead: then digest is empty, size 0. */
	char member[256];
};

struct manifest {
	struct descriptor config;
	struct descriptor layers[LAYERS_MAX]; /* lowest first, as images have it */
	unsigned layer_count;
};

/* What a machine can run, in the words of images: "linux", "amd64". */
struct platform {
	const char *os, *arch;
};
struct platform platform_here(void);

/*
 * A document that says of itself what it is: an index of manifests, or a manifest. For an index,
 * @ret_child gets the entry for @p. @tag: its name there; empty: there must be no choice; NULL: the
 * first that fits.
 */
enum document { DOCUMENT_MANIFEST, DOCUMENT_INDEX };
int document_parse(const struct buf *text, const struct platform *p, const char *tag,
	enum document *ret, struct manifest *ret_manifest, struct descriptor *ret_child,
	struct err *e);

/* manifest.json of `docker save`. @tag: its name there; empty: there must be no choice. */
int docker_manifest_parse(
	const struct buf *text, const char *tag, struct manifest *ret, struct err *e);

/*
 * The configuration of an image: checks that it is for @p and that it has one diff id for each of
 * @layer_count layers. The environment and so on are put into @ret_record; its strings are good
 * until config_done.
 */
struct config {
	char diff_ids[LAYERS_MAX][DIGEST_TEXT];
	void *json_;
};
int config_parse(const struct buf *text, const struct platform *p, unsigned layer_count,
	struct config *ret, struct record *ret_record, struct err *e);
void config_done(struct config *c);

#endif
