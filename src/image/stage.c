/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/stage.c - new layers on their way to the shelf.
 *
 * Owns:  one work folder of the shelf.
 * Rules: a layer is named by what its tar hashes to, so two imports that make the same one agree,
 *        and the second finds it there. Everything is on disk before the first rename.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "host/host.h"
#include "image/stage.h"
#include "image/stop.h"
#include "template/record.h"

int stage_begin(const char *state_dir, uint64_t max_bytes, struct stage *s, struct err *e)
{
	int r;

	memset(s, 0, sizeof(*s));
	s->work = -1;
	s->by_root = geteuid() == 0;
	budget_init(&s->budget, max_bytes);
	r = shelf_open(state_dir, true, &s->shelf, e);
	if (r < 0)
		return r;
	/* What a killed import left goes first. A template that cannot be read is none of our
	 * business here: `ward gc` and `ward template ls` report it. */
	shelf_sweep(&s->shelf, NULL, NULL);
	r = shelf_work_begin(&s->shelf, s->work_name, &s->work, e);
	if (r < 0)
		shelf_done(&s->shelf);
	return r;
}

void stage_done(struct stage *s)
{
	shelf_work_end(&s->shelf, s->work_name, &s->work);
	shelf_done(&s->shelf);
	for (unsigned i = 0; i < s->count; i++)
		free(s->layers[i].name);
	s->count = 0;
}

static bool is_digits(const char *text, const char *key, uint64_t *ret)
{
	const char *at = strstr(text, key);
	char number[24];
	size_t n;

	if (!at)
		return false;
	at += strlen(key);
	n = strcspn(at, "\n");
	if (n >= sizeof(number))
		return false;
	memcpy(number, at, n);
	number[n] = '\0';
	return parse_u64(number, 0, UINT64_MAX, ret) == 0;
}

int layer_meta_read(int layers, const char *name, struct layer_meta *ret, struct err *e)
{
	char path[LAYER_NAME_MAX + 8], text[1024];
	ssize_t n = str_fmt(path, sizeof(path), "%s/meta", name);

	if (n == 0)
		n = host_get(layers, path, text, sizeof(text));
	if (n < 0)
		return n == -ENOENT ? -ENOENT
				    : err_set(e, (int)-n, "layer %s: reading its meta file", name);
	ret->by_root = strstr(text, "\nowner=root\n") != NULL;
	ret->hides_all = strstr(text, "\nhides-all=yes\n") != NULL;
	if (!is_digits(text, "\nbytes=", &ret->bytes) ||
		!is_digits(text, "\nentries=", &ret->entries))
		return err_say(e, EBADMSG, "layer %s: its meta file makes no sense", name);
	return 0;
}

static int write_meta(int dir, bool by_root, const struct layer_info *info, struct err *e)
{
	own_fd int fd = host_openat(dir, "meta", O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	char text[512], now[CLOCK_TEXT];
	int r = fd;

	clock_text(now);
	if (r >= 0)
		r = str_fmt(text, sizeof(text),
			"diff-id=%s\nowner=%s\nopaque=%s\nwhiteout=chardev\nhides-all=%s\n"
			"bytes=%llu\nentries=%llu\ncreated=%s\n",
			info->diff_id, by_root ? "root" : "user",
			by_root ? "trusted.overlay.opaque" : "user.overlay.opaque",
			info->hides_all ? "yes" : "no", (unsigned long long)info->bytes,
			(unsigned long long)info->entries, now);
	if (r >= 0)
		r = host_write_all(fd, text, strlen(text));
	return r < 0 ? err_set(e, -r, "writing the layer's meta file") : 0;
}

/* The next layer. One that hides all that is below makes the others unneeded. */
static int push(struct stage *s, const char *name, int folder, bool hides_all, struct err *e)
{
	struct staged one = { .folder = folder, .hides_all = hides_all };
	unsigned i;

	for (i = 0; i < s->count && !str_eq(s->layers[i].name, name); i++)
		;
	if (i < s->count) { /* once more, further up */
		one = s->layers[i];
		s->count--;
		memmove(s->layers + i, s->layers + i + 1, (s->count - i) * sizeof(one));
	} else {
		if (s->count >= LAYERS_MAX)
			return err_say(e, E2BIG, "more than %d layers", LAYERS_MAX);
		one.name = strdup(name);
		if (!one.name)
			return err_set(e, ENOMEM, "listing layers");
	}
	for (i = 0; one.hides_all && i < s->count; i++)
		free(s->layers[i].name);
	if (one.hides_all)
		s->count = 0;
	s->layers[s->count++] = one;
	return 0;
}

/* Wants the lock. 1: on the shelf, and pinned from now on; 0: not there. */
static int find_and_pin(struct stage *s, const char *name, struct layer_meta *meta, struct err *e)
{
	int r = layer_meta_read(s->shelf.layers, name, meta, e);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (meta->by_root != s->by_root)
		return err_say(e, EPERM,
			"layer %.15s... was unpacked by %s; use a --state-dir of your own", name,
			meta->by_root ? "root" : "an ordinary user");
	r = shelf_pin(&s->shelf, s->work, name, e);
	return r < 0 ? r : 1;
}

static int reuse(struct stage *s, const char *name, struct err *e)
{
	struct layer_meta meta;
	int r = shelf_lock(&s->shelf, e);

	if (r < 0)
		return r;
	r = find_and_pin(s, name, &meta, e);
	shelf_unlock(&s->shelf);
	if (r == 1)
		r = push(s, name, -1, meta.hides_all, e) < 0 ? -ENOMEM : 1;
	return r;
}

static void layer_name(const char *diff_id, char out[LAYER_NAME_MAX + 1])
{
	str_fmt(out, LAYER_NAME_MAX + 1, "sha256-%s", diff_id + strlen("sha256:"));
}

int stage_reuse(struct stage *s, const char *diff_id, struct err *e)
{
	char name[LAYER_NAME_MAX + 1];
	int r;

	layer_name(diff_id, name);
	for (unsigned i = 0; i < s->count; i++)
		if (str_eq(s->layers[i].name, name))
			return (r = push(s, name, -1, false, e)) < 0 ? r : 1;
	return reuse(s, name, e);
}

int stage_add(struct stage *s, const char *layer, struct err *e)
{
	int r;

	if (layer[0] == '/')
		return push(s, layer, -1, false, e);
	r = reuse(s, layer, e);
	return r == 0  ? err_say(e, ENOENT, "its layer %.15s... is gone; import it again", layer)
	       : r < 0 ? r
		       : 0;
}

/* STATE/layers/.tmp-X/N/fs, and the descriptors of N and fs. */
static int make_folder(struct stage *s, int *ret_dir, int *ret_fs, struct err *e)
{
	own_fd int dir = -1, fs = -1;
	char name[16];
	int r;

	str_fmt(name, sizeof(name), "%u", s->folders++);
	r = host_mkdirat(s->work, name, 0700);
	if (r == 0)
		r = dir = host_openat(s->work, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (r >= 0)
		r = host_mkdirat(dir, "fs", 0755);
	if (r >= 0)
		r = fs = host_openat(dir, "fs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (r >= 0 && fchmod(fs, 0755) < 0) /* whatever the umask says */
		r = -errno;
	if (r < 0)
		return err_set(e, -r, "making a folder for the layer");
	*ret_dir = take_fd(&dir);
	*ret_fs = take_fd(&fs);
	return 0;
}

int stage_unpack(struct stage *s, int blob, const char *diff_id, struct progress *p, struct err *e)
{
	char name[LAYER_NAME_MAX + 1];
	own_fd int dir = -1, fs = -1;
	struct layer_info info = { 0 };
	int r = make_folder(s, &dir, &fs, e);

	if (r == 0)
		r = unpack_layer(blob, fs, s->by_root, &s->budget, p, &info, e);
	if (r == 0 && diff_id) {
		r = digest_compare(diff_id, info.diff_id, e);
		if (r < 0)
			err_wrap(e, r, "its contents are not what the configuration promises");
	}
	if (r == 0)
		r = write_meta(dir, s->by_root, &info, e);
	if (r < 0)
		return r;
	s->dropped_xattrs += info.dropped_xattrs;
	layer_name(info.diff_id, name);
	return push(s, name, (int)s->folders - 1, info.hides_all, e);
}

static int place(struct stage *s, const struct staged *one, struct err *e)
{
	char from[16];
	int r;

	if (one->folder < 0)
		return 0;
	str_fmt(from, sizeof(from), "%d", one->folder);
	r = host_renameat(s->work, from, s->shelf.layers, one->name);
	if (r == -ENOTEMPTY || r == -EEXIST)
		return 0; /* another import was faster with the same one */
	return r < 0 ? err_set(e, -r, "putting layer %.15s... on the shelf", one->name) : 0;
}

static int commit_locked(struct stage *s, const char *name, struct record *rec, struct err *e)
{
	int r = 0;

	rec->layer_count = 0;
	for (unsigned i = s->count; r == 0 && i-- > 0;) {
		r = place(s, &s->layers[i], e);
		rec->layers[rec->layer_count++] = s->layers[i].name;
	}
	if (r == 0 && fsync(s->shelf.layers) < 0)
		r = err_set(e, errno, "the folder of layers");
	return r < 0 ? r : shelf_put(&s->shelf, name, rec, e);
}

int stage_commit(struct stage *s, const char *name, struct record *rec, struct err *e)
{
	int r;

	if (s->folders && syncfs(s->work) < 0)
		return err_set(e, errno, "writing the layers to disk");
	r = stop_check(e);
	if (r == 0)
		r = shelf_lock(&s->shelf, e);
	if (r < 0)
		return r;
	rec->by_root = s->by_root;
	r = commit_locked(s, name, rec, e);
	shelf_unlock(&s->shelf);
	if (r < 0)
		shelf_sweep(&s->shelf, NULL, NULL); /* layers that were placed but have no record */
	return r;
}
