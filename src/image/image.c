/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/image.c - from an image's name to a template.
 *
 * Owns:  the order of an import: manifest, configuration, layers, commit.
 * Rules: a layer that is on the shelf is not fetched again; its diff id is its name. An error names
 *        the image, the layer and the entry.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/image.h"
#include "image/manifest.h"
#include "image/progress.h"
#include "image/source.h"
#include "image/stage.h"
#include "template/record.h"
#include "template/ref.h"
#include "template/template.h"

/* One import: big, so it lives on the heap. */
struct import {
	const struct import_options *o;
	struct stage stage;
	struct source *source;
	struct progress progress;
	struct platform platform;
	struct manifest manifest;
	struct config config;
	struct record record;
	struct oci_word word;
	struct ref ref;
	char source_name[WARD_PATH_MAX + TEMPLATE_NAME_MAX + 8], created[CLOCK_TEXT];
	struct import_result result;
};

/* Down through indexes to the manifest for this machine. */
static int find_manifest(struct import *m, struct err *e)
{
	enum document kind = DOCUMENT_INDEX;
	struct descriptor child;
	own_buf struct buf text;
	int r;

	buf_init(&text, IMAGE_MANIFEST_MAX + 64 * 1024);
	r = m->source->ops->top(m->source, &text, m->result.digest, &m->manifest, e);
	if (r != 0)
		return r < 0 ? r : 0;
	for (unsigned depth = 0; depth <= IMAGE_INDEX_DEPTH_MAX; depth++) {
		const char *tag = depth ? NULL : m->source->tag;

		r = document_parse(&text, &m->platform, tag, &kind, &m->manifest, &child, e);
		if (r < 0 || kind == DOCUMENT_MANIFEST)
			return r;
		r = m->source->ops->text(m->source, &child, true, IMAGE_MANIFEST_MAX, &text, e);
		if (r < 0)
			return r;
		/* The image is what stays the same when others are added to its index. */
		memcpy(m->result.digest, child.digest, DIGEST_TEXT);
	}
	return err_say(
		e, ELOOP, "more than %d indexes, one inside the other", IMAGE_INDEX_DEPTH_MAX);
}

static int read_config(struct import *m, struct err *e)
{
	const struct descriptor *d = &m->manifest.config;
	own_buf struct buf text;
	int r;

	buf_init(&text, IMAGE_CONFIG_MAX + 64 * 1024);
	r = m->source->ops->text(m->source, d, false, IMAGE_CONFIG_MAX, &text, e);
	if (r == 0 &&
		!m->result.digest[0]) /* `docker save`: the configuration is what has a digest */
		r = digest_of(text.data ? text.data : "", text.len, m->result.digest, e);
	if (r == 0)
		r = config_parse(
			&text, &m->platform, m->manifest.layer_count, &m->config, &m->record, e);
	return r;
}

static int get_layer(struct import *m, unsigned i, struct err *e)
{
	const struct descriptor *d = &m->manifest.layers[i];
	const char *diff_id = m->config.diff_ids[i];
	own_fd int blob = -1;
	int r = stage_reuse(&m->stage, diff_id, e);

	if (r != 0)
		return r < 0 ? r : 0;
	progress_begin(&m->progress, i + 1, "fetching", d->size);
	r = m->source->ops->layer(m->source, d, m->stage.work, &m->progress, &blob, e);
	if (r < 0)
		return r;
	progress_begin(&m->progress, i + 1, "unpacking", d->size);
	r = stage_unpack(&m->stage, blob, diff_id, &m->progress, e);
	if (r == 0)
		m->result.new_layers++;
	return r;
}

static int get_layers(struct import *m, struct err *e)
{
	int r = 0;

	m->progress.layers = m->manifest.layer_count;
	for (unsigned i = 0; r == 0 && i < m->manifest.layer_count; i++) {
		r = get_layer(m, i, e);
		if (r < 0)
			err_wrap(e, r, "layer %u of %u (%.15s...)", i + 1, m->manifest.layer_count,
				m->config.diff_ids[i]);
	}
	progress_clear(&m->progress);
	return r;
}

/* A reference without a host goes to the default registry, where one word means library/WORD. */
static int complete_ref(struct import *m, struct err *e)
{
	const char *registry = m->o->registry;
	char path[sizeof(m->ref.path)];

	if (m->ref.host[0])
		return 0;
	if (!registry || !*registry)
		return err_say(e, EINVAL,
			"it names no registry: write HOST[:PORT]/PATH[:TAG], or give --registry "
			"HOST or "
			"WARD_REGISTRY");
	if (!ref_host_is_valid(registry) ||
		str_copy(m->ref.host, sizeof(m->ref.host), registry) < 0)
		return err_say(e, EINVAL, "the default registry is not HOST[:PORT]");
	if (strchr(m->ref.path, '/'))
		return 0;
	memcpy(path, m->ref.path, sizeof(path));
	if (str_fmt(m->ref.path, sizeof(m->ref.path), "library/%s", path) < 0)
		return err_say(e, ENAMETOOLONG, "its name is too long");
	return 0;
}

static int parse_reference(struct import *m, const char *spec, struct err *e)
{
	int r = ref_parse(spec, &m->ref, e);

	if (r == 0)
		r = ref_text(&m->ref, m->result.name); /* the name is as it was written */
	if (r == 0)
		r = complete_ref(m, e);
	if (r < 0)
		return r;
	return str_fmt(m->source_name, sizeof(m->source_name), "%s/%s%s%s", m->ref.host,
		m->ref.path, m->ref.digest[0] ? "@" : ":",
		m->ref.digest[0] ? m->ref.digest : m->ref.tag);
}

/* All that can be wrong with the word itself, before anything is made. */
static int parse_spec(struct import *m, const char *spec, struct err *e)
{
	int r;

	if (str_after(spec, "dir:") || spec[0] == '/' || spec[0] == '.')
		return err_say(e, EINVAL,
			"a directory needs no import: write --template dir:PATH, or give it a name "
			"with "
			"'ward template build NAME --dir PATH'; an image file is written oci:PATH");
	if (str_eq(spec, "host"))
		return err_say(e, EINVAL, "the host template is always there");
	if (!str_after(spec, "oci:"))
		return parse_reference(m, spec, e);
	r = oci_word_parse(spec, &m->word, e);
	if (r < 0)
		return r;
	str_copy(m->source_name, sizeof(m->source_name), m->word.source);
	str_copy(m->result.name, sizeof(m->result.name), m->word.name);
	m->record.stamp = m->word.stamp;
	return 0;
}

static int open_source(struct import *m, struct err *e)
{
	struct registry_options o = { .plain_http = m->o->plain_http,
		.credential = m->o->credential,
		.max_bytes = m->o->max_bytes };

	if (m->word.path[0])
		return bundle_open(&m->word, m->stage.work, m->o->max_bytes, &m->source, e);
	return registry_open(&m->ref, &o, &m->source, e);
}

static int import(struct import *m, struct err *e)
{
	int r = open_source(m, e);

	if (r == 0)
		r = find_manifest(m, e);
	if (r == 0)
		r = read_config(m, e);
	if (r == 0)
		r = get_layers(m, e);
	if (r < 0)
		return r;
	if (m->o->name)
		str_copy(m->result.name, sizeof(m->result.name), m->o->name);
	clock_text(m->created);
	m->record.source = m->source_name;
	m->record.digest = m->result.digest;
	m->record.created = m->created;
	r = stage_commit(&m->stage, m->result.name, &m->record, e);
	m->result.layers = m->stage.count;
	m->result.dropped_xattrs = m->stage.dropped_xattrs;
	return r;
}

int image_import(const char *state_dir, const char *spec, const struct import_options *o,
	struct import_result *ret, struct err *e)
{
	own_mem struct import *m = calloc(1, sizeof(*m));
	char shown[128];
	int r;

	if (!m)
		return err_set(e, ENOMEM, "importing an image");
	m->o = o;
	m->progress.on = o->progress;
	m->platform = platform_here();
	m->record.kind = RECORD_LAYERS;
	m->record.stamp = "";
	r = parse_spec(m, spec, e);
	if (r == 0)
		r = stage_begin(state_dir, o->max_bytes, &m->stage, e);
	if (r < 0)
		return err_wrap(e, r, "image '%s'", str_show(shown, sizeof(shown), spec));
	r = import(m, e);
	if (r == 0)
		*ret = m->result;
	else
		err_wrap(e, r, "image '%s'", str_show(shown, sizeof(shown), spec));
	if (m->source)
		m->source->ops->destroy(m->source);
	config_done(&m->config);
	stage_done(&m->stage);
	return r;
}
