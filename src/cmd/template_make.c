/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/template_make.c - `ward template import` and `ward template build`.
 *
 * Owns:  the options of both.
 * Rules: every option is checked before anything is made. Ctrl-C undoes what was begun and then
 *        ends the process as the signal would have.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "cmd/common.h"
#include "cmd/template.h"
#include "image/image.h"
#include "image/stop.h"
#include "template/record.h"
#include "template/ref.h"
#include "template/shelf.h"
#include "template/template.h"

static int parse_max_size(const char *text, uint64_t *ret, struct err *e)
{
	char shown[64];

	if (parse_size(text, 1, IMAGE_BYTES_CEILING, ret) == 0)
		return 0;
	return err_say(e, EINVAL,
		"--max-size '%s' is not accepted: a size from 1 to 1024T, as 512M or 20G",
		str_show(shown, sizeof(shown), text));
}

static int check_name(const char *name, struct err *e)
{
	char shown[96];

	if (template_name_is_valid(name) && !str_after(name, "oci-"))
		return 0;
	return err_say(e, EINVAL,
		"'%s' is not accepted as a name: a-z and 0-9, then also '.', '_' and '-', at most "
		"%d; not 'host', "
		"not 'oci-...'",
		str_show(shown, sizeof(shown), name), TEMPLATE_NAME_MAX);
}

static int report(const struct import_result *r, bool json, bool quiet)
{
	own_buf struct buf b;

	buf_init(&b, SIZE_MAX);
	if (json) {
		json_open(&b, NULL);
		json_str(&b, "name", r->name);
		json_str(&b, "digest", r->digest[0] ? r->digest : NULL);
		json_u64(&b, "layers", r->layers);
		json_u64(&b, "new_layers", r->new_layers);
		json_u64(&b, "dropped_xattrs", r->dropped_xattrs);
		json_close(&b);
		buf_add_str(&b, "\n");
	} else if (!quiet) {
		buf_add_fmt(&b, "%s: %u layer%s, %u new%s%.19s\n", r->name, r->layers,
			r->layers == 1 ? "" : "s", r->new_layers, r->digest[0] ? ", " : "",
			r->digest);
	}
	if (b.len)
		fwrite(b.data, 1, b.len, stdout);
	return 0;
}

/* The end of an import or build that was begun with stop_block. */
static int finish(
	int r, const struct import_result *result, bool json, bool quiet, const struct err *e)
{
	if (r == 0)
		report(result, json, quiet);
	else if (r == -EINTR)
		cmd_fail("template", e);
	fflush(stdout);
	stop_unblock(); /* a signal that waits ends us here */
	return r == 0 ? 0 : r == -EINTR ? EXIT_WARD : cmd_fail("template", e);
}

struct import_args {
	const char *spec;
	struct import_options o;
	bool json, quiet;
};

static int import_value(struct import_args *a, char **argv, int *at, struct err *e)
{
	const char *size = NULL;
	int r;

	r = cmd_value(argv, at, "--name", &a->o.name, e);
	if (r != 0)
		return r < 0 ? r : check_name(a->o.name, e) < 0 ? -EINVAL : 1;
	r = cmd_value(argv, at, "--max-size", &size, e);
	if (r != 0)
		return r < 0 ? r : parse_max_size(size, &a->o.max_bytes, e) < 0 ? -EINVAL : 1;
	r = cmd_value(argv, at, "--registry", &a->o.registry, e);
	if (r == 1 && !ref_host_is_valid(a->o.registry))
		r = err_say(e, EINVAL, "--registry takes HOST[:PORT]");
	return r;
}

static int import_parse(int argc, char **argv, struct import_args *a, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		int r = import_value(a, argv, &i, e);

		if (r < 0)
			return r;
		if (r > 0)
			continue;
		if (str_eq(argv[i], "--plain-http"))
			a->o.plain_http = true;
		else if (str_eq(argv[i], "--json"))
			a->json = true;
		else if (str_eq(argv[i], "--quiet"))
			a->quiet = true;
		else if (argv[i][0] == '-')
			return err_say(e, EINVAL,
				"import: '%s' is not an option; see 'ward help template'", argv[i]);
		else if (a->spec)
			return err_say(e, EINVAL,
				"import: one image at a time; '%s' is one too many", argv[i]);
		else
			a->spec = argv[i];
	}
	if (!a->spec)
		return err_say(e, EINVAL,
			"import: which image? oci:PATH[:TAG], or HOST[:PORT]/PATH[:TAG]");
	return 0;
}

int template_import(int argc, char **argv, const struct globals *g)
{
	struct import_args a = { .o = { .max_bytes = IMAGE_BYTES_MAX,
					 .registry = getenv("WARD_REGISTRY"),
					 .credential = getenv("WARD_REGISTRY_AUTH") } };
	struct import_result result;
	struct err e = { 0 };
	int r = import_parse(argc, argv, &a, &e);

	if (r < 0)
		return cmd_fail("template", &e);
	a.o.progress = !a.quiet && isatty(STDERR_FILENO);
	stop_block();
	r = image_import(g->state_dir, a.spec, &a.o, &result, &e);
	return finish(r, &result, a.json, a.quiet, &e);
}

struct build_args {
	const char *name, *dir;
	struct build_options o;
	struct build_copy *copies;
	const char **env, **cmd, **run;
	struct build_runs runs;
	bool json, quiet;
};

/* SRC:DST, cut at the last ':' that a '/' follows: SRC may hold colons. */
static int parse_copy(char *text, struct build_copy *ret, struct err *e)
{
	char shown[96];

	str_show(shown, sizeof(shown), text);
	for (char *p = text + strlen(text); p-- > text;) {
		if (p[0] == ':' && p[1] == '/' && p > text) {
			*p = '\0';
			*ret = (struct build_copy){ text, p + 1 };
			return 0;
		}
	}
	return err_say(e, EINVAL,
		"--copy '%s' is not accepted: SRC:/DST, where /DST is in the template", shown);
}

static int parse_env(const char *text, struct err *e)
{
	char shown[96];

	if (text[0] != '=' && strchr(text, '='))
		return 0;
	return err_say(e, EINVAL, "--env '%s' is not accepted: NAME=VALUE",
		str_show(shown, sizeof(shown), text));
}

static int build_list(struct build_args *a, char **argv, int *at, struct err *e)
{
	const char *v = NULL;
	int r;

	r = cmd_value(argv, at, "--copy", &v, e);
	if (r != 0)
		return r < 0                                                         ? r
		       : parse_copy((char *)v, &a->copies[a->o.copy_count++], e) < 0 ? -EINVAL
										     : 1;
	r = cmd_value(argv, at, "--env", &v, e);
	if (r != 0) {
		if (r > 0)
			a->env[a->o.env_count++] = v;
		return r < 0 ? r : parse_env(v, e) < 0 ? -EINVAL : 1;
	}
	r = cmd_value(argv, at, "--cmd", &v, e);
	if (r > 0)
		a->cmd[a->o.cmd_count++] = v;
	if (r == 0) {
		r = cmd_value(argv, at, "--run", &v, e);
		if (r > 0)
			a->run[a->runs.count++] = v;
	}
	return r;
}

static int build_value(struct build_args *a, char **argv, int *at, struct err *e)
{
	const char *size = NULL;
	int r = cmd_value(argv, at, "--from", &a->o.from, e);

	if (r == 0)
		r = cmd_value(argv, at, "--dir", &a->dir, e);
	if (r == 0) {
		r = cmd_value(argv, at, "--workdir", &a->o.workdir, e);
		if (r == 1 && a->o.workdir[0] != '/')
			r = err_say(e, EINVAL, "--workdir must be absolute");
	}
	if (r == 0) {
		r = cmd_value(argv, at, "--user", &a->o.user, e);
		if (r == 1 && (!a->o.user[0] || strlen(a->o.user) > 255))
			r = err_say(e, EINVAL, "--user takes a name, or UID[:GID]");
	}
	if (r == 0)
		r = cmd_value(argv, at, "--net", &a->runs.net, e);
	if (r == 0)
		r = cmd_value(argv, at, "--disk", &a->runs.disk, e);
	if (r == 0) {
		r = cmd_value(argv, at, "--max-size", &size, e);
		if (r == 1)
			r = parse_max_size(size, &a->o.max_bytes, e) < 0 ? -EINVAL : 1;
	}
	return r;
}

static int build_check(const struct build_args *a, struct err *e)
{
	const struct build_options *o = &a->o;
	int r;

	if (!a->name)
		return err_say(e, EINVAL, "build: give the new template a name");
	r = check_name(a->name, e);
	if (r < 0)
		return r;
	if (!o->from == !a->dir)
		return err_say(e, EINVAL, "build: give either --from TEMPLATE or --dir PATH");
	if (a->dir && o->copy_count)
		return err_say(e, EINVAL,
			"build: --dir names a directory as it is; --copy goes with --from");
	if (a->dir && a->runs.count)
		return err_say(e, EINVAL,
			"build: --dir names a directory as it is; --run goes with --from");
	if ((a->runs.net || a->runs.disk) && !a->runs.count)
		return err_say(e, EINVAL, "build: --net and --disk are for the sandboxes of --run");
	if (a->runs.count > LAYERS_MAX)
		return err_say(e, E2BIG, "build: at most %d --run", LAYERS_MAX);
	if (o->copy_count > SOURCES_MAX * 4 || o->env_count > ENV_VARS_MAX ||
		o->cmd_count > TEMPLATE_ARGS_MAX)
		return err_say(e, E2BIG, "build: at most %d --copy, %d --env and %d --cmd",
			SOURCES_MAX * 4, ENV_VARS_MAX, TEMPLATE_ARGS_MAX);
	return 0;
}

static int build_parse(int argc, char **argv, struct build_args *a, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		int r = build_list(a, argv, &i, e);

		if (r == 0)
			r = build_value(a, argv, &i, e);
		if (r < 0)
			return r;
		if (r > 0)
			continue;
		if (str_eq(argv[i], "--json"))
			a->json = true;
		else if (str_eq(argv[i], "--quiet"))
			a->quiet = true;
		else if (argv[i][0] == '-')
			return err_say(e, EINVAL,
				"build: '%s' is not an option; see 'ward help template'", argv[i]);
		else if (a->name)
			return err_say(e, EINVAL, "build: one name; '%s' is one too many", argv[i]);
		else
			a->name = argv[i];
	}
	return build_check(a, e);
}

/* A name for a directory: just a record. */
static int build_dir(const struct globals *g, const struct build_args *a, struct import_result *ret,
	struct err *e)
{
	own_mem struct record *rec = calloc(1, sizeof(*rec));
	char created[CLOCK_TEXT];
	struct template t;
	struct shelf s;
	char word[PATH_MAX + 8];
	int r;

	if (!rec)
		return err_set(e, ENOMEM, "build");
	if (str_fmt(word, sizeof(word), "dir:%s", a->dir) < 0)
		return err_say(e, ENAMETOOLONG, "--dir is too long");
	r = template_resolve(
		g->state_dir, word, &t, e); /* all that can be wrong with a directory */
	if (r < 0)
		return r;
	clock_text(created);
	*rec = (struct record){ .kind = RECORD_DIR,
		.source = "",
		.digest = "",
		.stamp = "",
		.created = created,
		.workdir = a->o.workdir ? a->o.workdir : "",
		.user = a->o.user ? a->o.user : "",
		.layers = { t.root.layers[0] },
		.layer_count = 1,
		.by_root = geteuid() == 0 };
	memcpy(rec->env, a->env, a->o.env_count * sizeof(*a->env));
	memcpy(rec->cmd, a->cmd, a->o.cmd_count * sizeof(*a->cmd));
	rec->env_count = a->o.env_count;
	rec->cmd_count = a->o.cmd_count;
	r = shelf_open(g->state_dir, true, &s, e);
	if (r == 0) {
		r = shelf_lock(&s, e);
		if (r == 0)
			r = shelf_put(&s, a->name, rec, e);
		shelf_done(&s); /* and with it the lock */
	}
	template_done(&t);
	*ret = (struct import_result){ .layers = 1 };
	return r < 0 ? r : str_copy(ret->name, sizeof(ret->name), a->name);
}

int template_build(int argc, char **argv, const struct globals *g)
{
	struct build_args a = { .o = { .max_bytes = IMAGE_BYTES_MAX } };
	own_mem struct build_copy *copies = calloc((size_t)argc, sizeof(*copies));
	own_mem const char **env = calloc((size_t)argc, sizeof(*env));
	own_mem const char **cmd = calloc((size_t)argc + 1, sizeof(*cmd));
	own_mem const char **run = calloc((size_t)argc, sizeof(*run));
	struct import_result result;
	struct err e = { 0 };
	int r;

	if (!copies || !env || !cmd || !run) {
		err_set(&e, ENOMEM, "build");
		return cmd_fail("template", &e);
	}
	a.o.copies = a.copies = copies;
	a.o.env = a.env = env;
	a.o.cmd = a.cmd = cmd;
	a.runs.commands = a.run = run;
	r = build_parse(argc, argv, &a, &e);
	if (r < 0)
		return cmd_fail("template", &e);
	stop_block();
	if (a.dir)
		r = build_dir(g, &a, &result, &e);
	else if (a.runs.count)
		r = template_build_runs(g, a.name, &a.o, &a.runs, &result, &e);
	else
		r = image_build(g->state_dir, a.name, &a.o, &result, &e);
	return finish(r, &result, a.json, a.quiet, &e);
}
