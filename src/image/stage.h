/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_IMAGE_STAGE_H
#define WARD_IMAGE_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "image/unpack.h"
#include "template/shelf.h"

struct progress;
struct record;

/*
 * New layers on their way to the shelf. Everything is made in a folder of its own, and appears
 * under its name only in stage_commit, all together; whatever fails before leaves nothing.
 */
struct stage {
	struct shelf shelf;
	int work;
	char work_name[ID_LEN + 6];
	bool by_root;
	struct budget budget;
	/* Lowest first, each once: overlayfs refuses doubles, and only the upper one would show. */
	struct staged {
		char *name; /* "sha256-HEX", or "/PATH" for a directory that is not ours */
		int folder; /* its number in the work folder; -1: on the shelf already */
		bool hides_all;
	} layers[LAYERS_MAX];
	unsigned count, folders;
	uint64_t dropped_xattrs;
};

int stage_begin(const char *state_dir, uint64_t max_bytes, struct stage *s, struct err *e);
void stage_done(struct stage *s);

/* Is the layer with this diff id on the shelf already? Then it becomes the next one: 1; or 0. */
int stage_reuse(struct stage *s, const char *diff_id, struct err *e);
/* Unpacks @blob as the next layer. @diff_id NULL: whatever it turns out to be. */
int stage_unpack(struct stage *s, int blob, const char *diff_id, struct progress *p, struct err *e);
/* A layer that another template has, by the name in its record. */
int stage_add(struct stage *s, const char *layer, struct err *e);
/* Puts the layers on the shelf and the record beside them; fills the layers of @r. */
int stage_commit(struct stage *s, const char *name, struct record *r, struct err *e);

/* What is known of a layer on the shelf: STATE/layers/NAME/meta. */
struct layer_meta {
	bool by_root, hides_all;
	uint64_t bytes, entries;
};
int layer_meta_read(int layers, const char *name, struct layer_meta *ret, struct err *e);

#endif
