/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/build.c - a template out of another one and files of the host.
 *
 * Owns:  nothing.
 * Rules: the new layer is written as a tar and then goes the way of every layer, so that its name
 *        is its digest and the rules for names hold for it too. Files become root's.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/image.h"
#include "image/pack.h"
#include "image/stage.h"
#include "template/record.h"
#include "template/template.h"

struct build {
	const struct build_options *o;
	struct stage stage;
	struct template base;
	struct record record;
	char created[CLOCK_TEXT];
};

/* "K=V" over "K=OLD", or at the end. */
static int set_env(struct record *rec, const char *var, struct err *e)
{
	size_t key = strcspn(var, "=") + 1;
	unsigned i;

	for (i = 0; i < rec->env_count; i++)
		if (strncmp(rec->env[i], var, key) == 0)
			break;
	if (i >= ENV_VARS_MAX)
		return err_say(e, E2BIG, "more than %d variables", ENV_VARS_MAX);
	rec->env[i] = var;
	if (i == rec->env_count)
		rec->env_count++;
	return 0;
}

static int fill_record(struct build *b, struct err *e)
{
	const struct build_options *o = b->o;
	struct record *rec = &b->record;
	int r = 0;

	rec->kind = RECORD_LAYERS;
	rec->source = rec->digest = rec->stamp = "";
	clock_text(b->created);
	rec->created = b->created;
	rec->workdir = o->workdir ? o->workdir : b->base.workdir ? b->base.workdir : "";
	rec->user = o->user ? o->user : b->base.user ? b->base.user : "";
	for (const char *const *v = b->base.env; *v && r == 0; v++)
		r = set_env(rec, *v, e);
	for (unsigned i = 0; i < o->env_count && r == 0; i++)
		r = set_env(rec, o->env[i], e);
	for (const char *const *c = o->cmd_count ? o->cmd : b->base.cmd; *c && r == 0; c++) {
		if (rec->cmd_count >= TEMPLATE_ARGS_MAX)
			return err_say(
				e, E2BIG, "a command of more than %d words", TEMPLATE_ARGS_MAX);
		rec->cmd[rec->cmd_count++] = *c;
	}
	return r;
}

/* The base's own names of its layers; a directory is its own name. */
static int add_base(struct build *b, struct err *e)
{
	const struct record *rec = template_record(&b->base);
	int r = 0;

	for (unsigned i = b->base.root.layer_count; r == 0 && i-- > 0;)
		r = stage_add(&b->stage, rec ? rec->layers[i] : b->base.root.layers[i], e);
	return r;
}

/* A file without a name for a layer's tar. */
static int open_tar(struct build *b, struct err *e)
{
	int tar = host_openat(b->stage.work, "tar", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (tar < 0)
		return err_set(e, -tar, "making a file for the new layer");
	host_unlinkat(b->stage.work, "tar", 0);
	return tar;
}

static int add_tar(struct build *b, int tar, struct err *e)
{
	if (lseek(tar, 0, SEEK_SET) < 0)
		return err_set(e, errno, "reading the new layer");
	return stage_unpack(&b->stage, tar, NULL, NULL, e);
}

static int add_copies(struct build *b, const char *state_dir, struct err *e)
{
	own_fd int tar = -1;
	int r;

	if (!b->o->copy_count)
		return 0;
	tar = open_tar(b, e);
	if (tar < 0)
		return tar;
	r = pack_copies(
		tar, state_dir, &b->base.root, b->o->copies, b->o->copy_count, b->o->max_bytes, e);
	return r < 0 ? r : add_tar(b, tar, e);
}

static int add_upper(struct build *b, struct err *e)
{
	own_fd int tar = -1;
	int r;

	if (!b->o->upper)
		return 0;
	tar = open_tar(b, e);
	if (tar < 0)
		return tar;
	r = pack_upper(tar, b->o->upper, b->o->max_bytes, e);
	return r < 0 ? r : add_tar(b, tar, e);
}

static int build(struct build *b, const char *state_dir, const char *name, struct err *e)
{
	int r = fill_record(b, e);

	if (r == 0)
		r = add_base(b, e);
	if (r == 0)
		r = add_copies(b, state_dir, e);
	if (r == 0)
		r = add_upper(b, e);
	if (r == 0)
		r = stage_commit(&b->stage, name, &b->record, e);
	return r;
}

int image_build(const char *state_dir, const char *name, const struct build_options *o,
	struct import_result *ret, struct err *e)
{
	own_mem struct build *b = calloc(1, sizeof(*b));
	int r;

	if (!b)
		return err_set(e, ENOMEM, "building '%s'", name);
	b->o = o;
	if (str_eq(o->from, "host")) /* before it is resolved, which would make it */
		return err_say(e, EINVAL,
			"--from host: the host template is put together at each start and has no "
			"layers to build on; start from an image or a directory");
	r = template_resolve(state_dir, o->from, &b->base, e);
	if (r < 0)
		return r;
	r = stage_begin(state_dir, o->max_bytes, &b->stage, e);
	if (r < 0) {
		template_done(&b->base);
		return r;
	}
	r = build(b, state_dir, name, e);
	if (r == 0) {
		memset(ret, 0, sizeof(*ret));
		str_copy(ret->name, sizeof(ret->name), name);
		ret->layers = b->stage.count;
		ret->new_layers = b->stage.folders;
		ret->dropped_xattrs = b->stage.dropped_xattrs;
	} else {
		err_wrap(e, r, "building '%s'", name);
	}
	stage_done(&b->stage);
	template_done(&b->base);
	return r;
}
