/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/template.c - `ward template`: what sandboxes start from.
 *
 * Owns:  the verbs ls and rm; import and build are in cmd/template_make.c.
 * Rules: an error is one line and exit status 125; a list that holds something broken is printed in
 *        full, and then fails.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/ckd.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/common.h"
#include "cmd/template.h"
#include "image/stage.h"
#include "template/record.h"
#include "template/ref.h"
#include "template/shelf.h"
#include "template/template.h"

struct list {
	const char *state_dir;
	struct shelf shelf;
	bool json, colour;
	struct buf out;
	struct err first; /* the first template that could not be read */
};

static int count_bytes(struct list *l, const struct record *rec, uint64_t *ret, struct err *e)
{
	struct layer_meta meta;
	int r;

	for (unsigned i = 0; i < rec->layer_count; i++) {
		if (rec->layers[i][0] == '/')
			continue; /* a directory of somebody else's */
		r = layer_meta_read(l->shelf.layers, rec->layers[i], &meta, e);
		if (r == -ENOENT)
			return err_say(e, ENOENT,
				"layer %.15s... is missing; import or build it again",
				rec->layers[i]);
		if (r < 0)
			return r;
		*ret += meta.bytes;
	}
	return 0;
}

static void size_text(uint64_t bytes, char *out, size_t cap)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double v = (double)bytes;
	size_t i = 0;

	for (; v >= 1024 && i + 1 < ARRAY_LEN(units); i++)
		v /= 1024;
	str_fmt(out, cap, i ? "%.1f %s" : "%.0f %s", v, units[i]);
}

static void add_json(struct list *l, const char *name, const struct record *rec, uint64_t bytes)
{
	json_open(&l->out, NULL);
	json_str(&l->out, "name", name);
	json_str(&l->out, "kind", rec->kind == RECORD_DIR ? "dir" : "layers");
	json_str(&l->out, "source", rec->source[0] ? rec->source : NULL);
	json_str(&l->out, "digest", rec->digest[0] ? rec->digest : NULL);
	json_str(&l->out, "created", rec->created);
	if (rec->kind == RECORD_DIR)
		json_null(&l->out, "size");
	else
		json_u64(&l->out, "size", bytes);
	json_array(&l->out, "layers");
	for (unsigned i = 0; i < rec->layer_count; i++)
		json_str(&l->out, NULL, rec->layers[i]);
	json_array_end(&l->out);
	json_close(&l->out);
}

static void add_row(struct list *l, const char *name, const struct record *rec, uint64_t bytes)
{
	char size[32] = "-";

	if (rec->kind == RECORD_LAYERS)
		size_text(bytes, size, sizeof(size));
	buf_add_fmt(&l->out, "%-40s %-7s %10s %6u  %-19.19s  %.19s\n", name,
		rec->kind == RECORD_DIR ? "dir" : "layers", size, rec->layer_count, rec->created,
		rec->digest[0] ? rec->digest : "-");
}

static int list_one(const char *name, void *data)
{
	struct list *l = data;
	own_record struct record *rec = NULL;
	struct err e = { 0 };
	uint64_t bytes = 0;
	int r = template_record_load(l->state_dir, name, &rec, NULL, &e);

	if (r == -ENOENT)
		return 0; /* removed just now, or the rest of an import that was killed */
	if (r == 0) {
		r = count_bytes(l, rec, &bytes, &e);
		if (r < 0)
			err_wrap(&e, r, "template '%s'", name);
	}
	if (r < 0) {
		if (!l->first.code)
			l->first = e;
		return 0;
	}
	if (l->json)
		add_json(l, name, rec, bytes);
	else
		add_row(l, name, rec, bytes);
	return 0;
}

static int list_all(struct list *l, struct err *e)
{
	int r = shelf_open(l->state_dir, false, &l->shelf, e);

	if (l->json)
		json_array(&l->out, NULL);
	else
		buf_add_fmt(&l->out, "%s%-40s %-7s %10s %6s  %-19s  %s%s\n",
			l->colour ? "\033[1m" : "", "NAME", "KIND", "SIZE", "LAYERS", "CREATED",
			"DIGEST", l->colour ? "\033[0m" : "");
	if (r == 0) {
		r = shelf_each(&l->shelf, list_one, l, e);
		shelf_done(&l->shelf);
	} else if (r == -ENOENT) {
		r = 0; /* no state yet: an empty list */
	}
	if (l->json) {
		json_array_end(&l->out);
		buf_add_str(&l->out, "\n");
	}
	if (r == 0 && l->out.bad)
		r = err_set(e, ENOMEM, "listing templates");
	return r;
}

static int template_ls(int argc, char **argv, const struct globals *g)
{
	struct list l = { .state_dir = g->state_dir, .colour = cmd_colour(stdout) };
	struct err e = { 0 };
	int r;

	for (int i = 1; i < argc; i++) {
		if (!str_eq(argv[i], "--json"))
			return cmd_usage(
				"template", "ls: '%s' is not accepted: only --json", argv[i]);
		l.json = true;
	}
	buf_init(&l.out, SIZE_MAX);
	r = list_all(&l, &e);
	if (r == 0)
		fwrite(l.out.data, 1, l.out.len, stdout);
	buf_done(&l.out);
	if (r < 0)
		return cmd_fail("template", &e);
	return l.first.code ? cmd_fail("template", &l.first) : 0;
}

static bool exists(const char *state_dir, const char *name)
{
	char path[WARD_PATH_MAX], file[TEMPLATE_NAME_MAX + 1];

	return record_file_name(name, file) == 0 &&
	       str_fmt(path, sizeof(path), "%s/templates/%s/template", state_dir, file) == 0 &&
	       access(path, F_OK) == 0;
}

/* The record that a word means, in the order in which --template looks. */
static int find_name(
	const char *state_dir, const char *word, char out[TEMPLATE_NAME_MAX + 1], struct err *e)
{
	struct oci_word oci;
	struct ref ref;
	char shown[128];
	int r;

	str_show(shown, sizeof(shown), word);
	if (str_after(word, "oci:")) {
		r = oci_word_parse(word, &oci, e);
		return r < 0 ? err_wrap(e, r, "'%s'", shown)
			     : str_copy(out, TEMPLATE_NAME_MAX + 1, oci.name);
	}
	if (template_name_is_valid(word) && exists(state_dir, word))
		return str_copy(out, TEMPLATE_NAME_MAX + 1, word);
	if (ref_parse(word, &ref, NULL) == 0 && ref_text(&ref, out) == 0 && exists(state_dir, out))
		return 0;
	return err_say(
		e, ENOENT, "there is no template '%s'; 'ward template ls' lists them", shown);
}

struct removal {
	char (*names)[TEMPLATE_NAME_MAX + 1];
	int count;
};

/* Looks at all before it removes one: a wrong name among right ones removes nothing. */
static int remove_locked(struct shelf *s, const struct removal *rm, struct err *e)
{
	int r = 0;

	for (int i = 0; r == 0 && i < rm->count; i++)
		r = shelf_check_removable(s, rm->names[i], e);
	for (int i = 0; r == 0 && i < rm->count; i++)
		r = shelf_remove(s, rm->names[i], e);
	return r;
}

static int remove_all(const char *state_dir, const struct removal *rm, struct err *e)
{
	struct shelf s;
	int r = shelf_open(state_dir, false, &s, e);

	if (r == -ENOENT)
		return err_say(e, ENOENT,
			"there is no template '%s'; 'ward template ls' lists them", rm->names[0]);
	if (r < 0)
		return r;
	r = shelf_lock(&s, e);
	if (r == 0) {
		r = remove_locked(&s, rm, e);
		shelf_unlock(&s);
	}
	if (r == 0) {
		r = shelf_sweep(&s, NULL, e);
		if (r < 0)
			err_wrap(e, r, "removed, but its layers are still there");
	}
	shelf_done(&s);
	return r;
}

static int template_rm(int argc, char **argv, const struct globals *g)
{
	struct removal all = { .count = argc - 1 };
	own_mem void *names = NULL;
	struct err e = { 0 };
	int r = 0;

	if (argc < 2)
		return cmd_usage("template",
			"rm: name one or more templates; 'ward template ls' lists them");
	all.names = names = calloc((size_t)argc, sizeof(*all.names));
	if (!names)
		r = err_set(&e, ENOMEM, "removing templates");
	for (int i = 1; r == 0 && i < argc; i++) {
		if (argv[i][0] == '-')
			return cmd_usage(
				"template", "rm: '%s' is not accepted: only names", argv[i]);
		r = find_name(g->state_dir, argv[i], all.names[i - 1], &e);
		for (int k = 0; r == 0 && k < i - 1; k++)
			if (str_eq(all.names[k], all.names[i - 1]))
				r = err_say(&e, EINVAL, "rm: '%s' is named twice", all.names[k]);
	}
	if (r == 0)
		r = remove_all(g->state_dir, &all, &e);
	return r < 0 ? cmd_fail("template", &e) : 0;
}

int cmd_template(int argc, char **argv, const struct globals *g)
{
	static const struct {
		const char *name;
		command_fn *fn;
	} verbs[] = {
		{ "build", template_build },
		{ "import", template_import },
		{ "ls", template_ls },
		{ "rm", template_rm },
	};

	for (int i = 1; i < argc && !str_eq(argv[i], "--"); i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("template"), stdout);
			return 0;
		}
	}
	if (argc < 2)
		return cmd_usage("template",
			"say what to do: build, import, ls or rm; see 'ward help template'");
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
		if (str_eq(verbs[i].name, argv[1]))
			return verbs[i].fn(argc - 1, argv + 1, g);
	return cmd_usage("template", "'%s' is not accepted: build, import, ls or rm", argv[1]);
}
