/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template/template.c - what the word after --template means.
 *
 * Owns:  the hold on a template while a sandbox uses it.
 * Rules: reads only; nothing is made or fetched here. A word that has no record yet but could get
 *        one sets needs_import, and the caller decides.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/sha256.h"
#include "base/str.h"
#include "host/host.h"
#include "template/host.h"
#include "template/record.h"
#include "template/ref.h"
#include "template/shelf.h"
#include "template/template.h"

static const char *const no_words[] = { NULL };

static void template_init(struct template *t, enum root_kind kind, const char *name)
{
	memset(t, 0, sizeof(*t));
	t->root.kind = kind;
	t->root.name = name;
	t->env = no_words;
	t->cmd = no_words;
	t->digest = "";
	t->hold_ = -1;
}

void template_done(struct template *t)
{
	if (!t || !t->env)
		return;
	if (t->hold_ >= 0)
		host_close(t->hold_);
	record_destroy(t->record_);
	free(t->paths_);
	memset(t, 0, sizeof(*t));
	t->hold_ = -1;
}

int template_keep(const struct template *t, const char *box, struct err *e)
{
	own_fd int dir = -1;
	int r = 0;

	if (!t->record_ || t->record_->kind != RECORD_LAYERS)
		return 0;
	dir = host_open(box, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0)
		return err_set(e, -dir, "opening %s", box);
	for (unsigned i = 0; r == 0 && i < t->record_->layer_count; i++)
		r = shelf_pin(NULL, dir, t->record_->layers[i], e);
	return r;
}

const struct record *template_record(const struct template *t)
{
	return t->record_;
}

bool template_is_state(const char *state_dir, const char *path)
{
	char real[PATH_MAX];
	const char *rest;

	if (!realpath(state_dir, real))
		return false; /* not there yet: nothing can be inside it */
	rest = str_after(path, real);
	return rest && (*rest == '\0' || *rest == '/');
}

static int check_dir(const char *state_dir, const char *real, const char *shown, struct err *e)
{
	struct stat st;

	if (stat(real, &st) < 0)
		return err_set(e, errno, "template '%s'", shown);
	if (!S_ISDIR(st.st_mode))
		return err_say(e, ENOTDIR,
			"template '%s' is not a directory; give one that holds a root file system, "
			"or "
			"oci:PATH for an image",
			shown);
	if (template_is_state(state_dir, real))
		return err_say(e, EINVAL,
			"template '%s' is in ward's own state directory; give a directory "
			"elsewhere",
			shown);
	return 0;
}

static int resolve_dir(const char *state_dir, const char *spec, const char *path,
	struct template *t, struct err *e)
{
	char shown[128], real[PATH_MAX];
	int r;

	str_show(shown, sizeof(shown), spec);
	if (!*path)
		return err_say(e, EINVAL, "template '%s' names no directory: dir:PATH", shown);
	if (!realpath(path, real))
		return err_set(e, errno, "template '%s'", shown);
	r = check_dir(state_dir, real, shown, e);
	if (r < 0)
		return r;
	template_init(t, ROOT_DIR, spec);
	t->paths_ = strdup(real);
	if (!t->paths_)
		return err_set(e, ENOMEM, "template '%s'", shown);
	t->root.layers[t->root.layer_count++] = t->paths_;
	return 0;
}

/* The layers' host directories, one after the other in t->paths_. */
static int set_layers(
	const char *state_dir, const struct record *rec, struct template *t, struct err *e)
{
	size_t each = strlen(state_dir) + sizeof("/layers/sha256-/fs") + 64, room = 0, len;
	struct stat st;
	char *p;

	for (unsigned i = 0; i < rec->layer_count; i++)
		room += rec->layers[i][0] == '/' ? strlen(rec->layers[i]) + 1 : each;
	p = t->paths_ = malloc(room);
	if (!p)
		return err_set(e, ENOMEM, "its layers");
	for (unsigned i = 0; i < rec->layer_count; i++) {
		if (rec->layers[i][0] == '/')
			str_copy(p, room, rec->layers[i]);
		else
			str_fmt(p, room, "%s/layers/%s/fs", state_dir, rec->layers[i]);
		if (stat(p, &st) < 0 || !S_ISDIR(st.st_mode))
			return err_say(e, ENOTDIR,
				"its layer %s is not there; import or build it again", p);
		t->root.layers[t->root.layer_count++] = p;
		len = strlen(p) + 1;
		p += len;
		room -= len;
	}
	return 0;
}

/* A shared lock on the record's file, and proof that the file still is the record. */
static int hold(int fd, struct err *e)
{
	struct stat st;

	/* Moments of waiting: the other side holds it while it replaces or removes the record. */
	while (flock(fd, LOCK_SH) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "locking its record");
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "its record");
	return st.st_nlink ? 0 : -ESTALE;
}

static int load_held(
	const char *state_dir, const char *name, struct record **ret, int *ret_fd, struct err *e)
{
	int r;

	/* Between open and lock an import may have put a new record in its place: look again. */
	do {
		own_record struct record *rec = NULL;
		own_fd int fd = -1;

		r = template_record_load(state_dir, name, &rec, &fd, e);
		if (r < 0)
			return r;
		r = hold(fd, e);
		if (r == 0) {
			*ret = take_ptr(&rec);
			*ret_fd = take_fd(&fd);
		}
	} while (r == -ESTALE);
	return r < 0 ? err_wrap(e, r, "template '%s'", name) : 0;
}

static int fill(const char *state_dir, const char *spec, const char *name, struct template *t,
	struct err *e)
{
	struct record *rec = t->record_;
	int r;

	if (rec->kind == RECORD_LAYERS && rec->by_root != (geteuid() == 0))
		return err_say(e, EPERM,
			"template '%s' was made by %s and would look different to you; import it "
			"again with "
			"a --state-dir of your own",
			name, rec->by_root ? "root" : "an ordinary user");
	t->root.kind = rec->kind == RECORD_DIR ? ROOT_DIR : ROOT_LAYERS;
	t->root.name = spec;
	r = set_layers(state_dir, rec, t, e);
	if (r == 0 && rec->kind == RECORD_DIR && t->root.layer_count != 1)
		r = err_say(e, EINVAL, "its record names no directory; make it again");
	else if (r == 0 && rec->kind == RECORD_DIR)
		r = check_dir(state_dir, t->root.layers[0], t->root.layers[0], e);
	if (r < 0)
		return err_wrap(e, r, "template '%s'", name);
	t->env = rec->env;
	t->cmd = rec->cmd;
	t->workdir = rec->workdir[0] ? rec->workdir : NULL;
	t->user = rec->user[0] ? rec->user : NULL;
	t->digest = rec->digest;
	return 0;
}

/* -ENOENT without a message when there is no record of that name, or not for @oci as it is now. */
static int resolve_record(const char *state_dir, const char *spec, const char *name,
	const struct oci_word *oci, struct template *ret, struct err *e)
{
	struct template t;
	int r;

	template_init(&t, ROOT_LAYERS, spec);
	r = load_held(state_dir, name, &t.record_, &t.hold_, e);
	if (r < 0)
		return r;
	assert(t.record_);
	if (oci &&
		(!str_eq(t.record_->source, oci->source) || !str_eq(t.record_->stamp, oci->stamp)))
		r = -ENOENT;
	else
		r = fill(state_dir, spec, name, &t, e);
	if (r < 0) {
		template_done(&t);
		return r;
	}
	*ret = t;
	return 0;
}

static int stamp(struct oci_word *w, struct err *e)
{
	char index[WARD_PATH_MAX];
	struct stat st;

	if (stat(w->path, &st) < 0)
		return err_set(e, errno, "'%s'", w->path);
	if (S_ISDIR(st.st_mode)) {
		if (str_fmt(index, sizeof(index), "%s/index.json", w->path) < 0)
			return err_say(e, ENAMETOOLONG, "the path is too long");
		if (stat(index, &st) < 0)
			return err_say(e, errno,
				"the directory holds no index.json, so it is no OCI image layout; "
				"for a root "
				"file system write dir:PATH");
	}
	if (!S_ISREG(st.st_mode))
		return err_say(e, EINVAL,
			"give an OCI image layout, or a tar file of one or of `docker save`");
	return str_fmt(w->stamp, sizeof(w->stamp), "%llu-%llu-%lld-%lld.%09ld",
		(unsigned long long)st.st_dev, (unsigned long long)st.st_ino, (long long)st.st_size,
		(long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static int oci_split(const char *rest, struct oci_word *w, struct err *e)
{
	char path[WARD_PATH_MAX], real[PATH_MAX];
	char *colon;

	if (!*rest)
		return err_say(e, EINVAL, "it names no file: oci:PATH[:TAG]");
	if (str_copy(path, sizeof(path), rest) < 0)
		return err_say(e, ENAMETOOLONG, "the path is too long");
	if (!realpath(path, real)) {
		colon = strrchr(path, ':');
		if (errno != ENOENT || !colon || colon == path || strchr(colon, '/'))
			return err_set(e, errno, "opening it");
		*colon = '\0';
		if (!realpath(path, real))
			return err_set(e, errno, "opening it");
		if (!colon[1] || str_copy(w->tag, sizeof(w->tag), colon + 1) < 0)
			return err_say(
				e, EINVAL, "the tag after the last ':' is empty or too long");
	}
	return str_copy(w->path, sizeof(w->path), real);
}

int oci_word_parse(const char *spec, struct oci_word *ret, struct err *e)
{
	const char *rest = str_after(spec, "oci:");
	struct oci_word w = { 0 };
	char hex[SHA256_HEX + 1], shown[128];
	int r;

	str_show(shown, sizeof(shown), spec);
	if (!rest)
		return err_say(e, EINVAL, "'%s' is not oci:PATH[:TAG]", shown);
	r = oci_split(rest, &w, e);
	if (r == 0)
		r = stamp(&w, e);
	if (r < 0)
		return r;
	str_fmt(w.source, sizeof(w.source), "oci:%s%s%s", w.path, w.tag[0] ? ":" : "", w.tag);
	sha256_hex(w.source, strlen(w.source), hex);
	str_fmt(w.name, sizeof(w.name), "oci-%.16s", hex);
	*ret = w;
	return 0;
}

static int resolve_oci(const char *state_dir, const char *spec, struct template *ret, struct err *e)
{
	struct oci_word w;
	char shown[128];
	int r = oci_word_parse(spec, &w, e);

	str_show(shown, sizeof(shown), spec);
	if (r < 0)
		return err_wrap(e, r, "template '%s'", shown);
	r = resolve_record(state_dir, spec, w.name, &w, ret, e);
	if (r != -ENOENT)
		return r;
	ret->needs_import = true;
	return err_say(e, ENOENT,
		"template '%s' was not imported yet; 'ward template import %s' does that", shown,
		shown);
}

static int resolve_name(
	const char *state_dir, const char *spec, struct template *ret, struct err *e)
{
	char name[TEMPLATE_NAME_MAX + 1], shown[128];
	const char *registry = getenv("WARD_REGISTRY");
	struct ref ref;
	int r;

	str_show(shown, sizeof(shown), spec);
	if (template_name_is_valid(spec)) {
		r = resolve_record(state_dir, spec, spec, NULL, ret, e);
		if (r != -ENOENT)
			return r;
	}
	r = ref_parse(spec, &ref, e);
	if (r < 0)
		return err_say(e, EINVAL,
			"template '%s' is not host, dir:PATH, oci:PATH[:TAG], a template's name or "
			"an image "
			"reference",
			shown);
	ref_text(&ref, name);
	r = resolve_record(state_dir, spec, name, NULL, ret, e);
	if (r != -ENOENT)
		return r;
	if (ref.host[0] || (registry && *registry)) {
		ret->needs_import = true;
		return err_say(e, ENOENT,
			"image '%s' was not imported yet; 'ward template import %s' does that",
			shown, shown);
	}
	return err_say(e, ENOENT,
		"there is no template '%s'; 'ward template ls' lists them; an image to fetch is "
		"written "
		"HOST[:PORT]/PATH[:TAG]",
		shown);
}

static int resolve_host(
	const char *state_dir, const char *spec, struct template *ret, struct err *e)
{
	char skeleton[WARD_PATH_MAX];
	int r = template_host_skeleton(state_dir, skeleton, e);

	if (r < 0)
		return r;
	template_init(ret, ROOT_HOST, spec);
	ret->paths_ = strdup(skeleton);
	if (!ret->paths_)
		return err_set(e, ENOMEM, "reading template '%s'", spec);
	ret->root.layers[0] = ret->paths_;
	ret->root.layer_count = 1;
	return 0;
}

int template_resolve(const char *state_dir, const char *spec, struct template *ret, struct err *e)
{
	const char *dir = str_after(spec, "dir:");

	ret->needs_import = false;
	if (str_eq(spec, "host"))
		return resolve_host(state_dir, spec, ret, e);
	if (dir || spec[0] == '/' || spec[0] == '.')
		return resolve_dir(state_dir, spec, dir ? dir : spec, ret, e);
	if (str_after(spec, "oci:"))
		return resolve_oci(state_dir, spec, ret, e);
	return resolve_name(state_dir, spec, ret, e);
}
