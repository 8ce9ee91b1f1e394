/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/bundle.c - images in files: an OCI image layout, or an archive of one or of `docker save`.
 *
 * Owns:  the folder of a layout; of an archive, its members spread out as numbered files.
 * Rules: hostile input. A member's name is only ever compared, never used as a path; a layout's
 *        blobs are opened below its folder, not through links.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <linux/openat2.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/manifest.h"
#include "image/source.h"
#include "image/stop.h"
#include "template/template.h"

struct member {
	char *name;
	char *link; /* another member's name; NULL: a file of its own, named by its number */
};

struct bundle {
	struct source source;
	char tag[TEMPLATE_NAME_MAX + 1];
	int layout; /* the folder; -1 for an archive */
	int work;   /* where the members lie */
	struct member *members;
	unsigned count;
};

static void clean(const char *name, char *out, size_t cap)
{
	while (str_after(name, "./"))
		name += 2;
	if (str_copy(out, cap, name) < 0)
		out[0] = '\0';
}

static const struct member *member_find(const struct bundle *b, const char *name)
{
	/* The last of a name counts, as in every tar. */
	for (unsigned i = b->count; i-- > 0;)
		if (str_eq(b->members[i].name, name))
			return &b->members[i];
	return NULL;
}

static int member_open(const struct bundle *b, const char *name)
{
	const struct member *m = member_find(b, name);
	char file[32];

	if (m && m->link)
		m = member_find(b, m->link);
	if (!m || m->link)
		return -ENOENT;
	str_fmt(file, sizeof(file), "member-%u", (unsigned)(m - b->members));
	return host_openat(b->work, file, O_RDONLY | O_NOFOLLOW, 0);
}

static int part_open(const struct bundle *b, const char *name, int *ret_fd, struct err *e)
{
	own_fd int fd = -1;
	struct stat st;
	char shown[120];

	str_show(shown, sizeof(shown), name);
	if (b->layout < 0)
		fd = member_open(b, name);
	else
		fd = host_openat2(b->layout, name, O_RDONLY | O_NONBLOCK, 0,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS);
	if (fd < 0)
		return err_set(e, -fd, "its part '%s'", shown);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return err_say(e, EINVAL, "its part '%s' is no file", shown);
	*ret_fd = take_fd(&fd);
	return 0;
}

static int read_all(int fd, size_t max, struct buf *text, struct err *e)
{
	char chunk[16 * 1024];
	ssize_t n;

	buf_cut(text, 0);
	while ((n = host_read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && n != -EINTR)
			return err_set(e, (int)-n, "reading it");
		if (n > 0)
			buf_add(text, chunk, (size_t)n);
		if (text->len > max || text->bad)
			return err_say(e, EFBIG, "it has more than %zu bytes", max);
	}
	return 0;
}

static int read_part(
	const struct bundle *b, const char *name, size_t max, struct buf *text, struct err *e)
{
	own_fd int fd = -1;
	char shown[120];
	int r = part_open(b, name, &fd, e);

	if (r < 0)
		return r;
	r = read_all(fd, max, text, e);
	return r < 0 ? err_wrap(e, r, "its part '%s'", str_show(shown, sizeof(shown), name)) : 0;
}

static int bundle_top(struct source *s, struct buf *text, char digest[DIGEST_TEXT],
	struct manifest *ret_manifest, struct err *e)
{
	struct bundle *b = (struct bundle *)s;
	int r;

	/* An index has digests for everything, so it goes first where an archive has both. */
	if (b->layout >= 0 || (member_find(b, "index.json") && member_find(b, "oci-layout"))) {
		r = read_part(b, "index.json", IMAGE_MANIFEST_MAX, text, e);
		return r < 0 ? r : digest_of(text->data ? text->data : "", text->len, digest, e);
	}
	if (!member_find(b, "manifest.json"))
		return err_say(e, EINVAL,
			"the archive holds neither index.json nor manifest.json, so it is no "
			"image");
	digest[0] = '\0';
	r = read_part(b, "manifest.json", IMAGE_MANIFEST_MAX, text, e);
	if (r == 0)
		r = docker_manifest_parse(text, b->tag, ret_manifest, e);
	return r < 0 ? r : 1;
}

static void blob_name(const struct descriptor *d, char out[256])
{
	if (d->member[0])
		clean(d->member, out, 256);
	else
		str_fmt(out, 256, "blobs/sha256/%s", d->digest + strlen("sha256:"));
}

static int bundle_text(struct source *s, const struct descriptor *d, bool is_manifest, size_t max,
	struct buf *text, struct err *e)
{
	char name[256], got[DIGEST_TEXT];
	int r;

	(void)is_manifest;
	blob_name(d, name);
	r = read_part((struct bundle *)s, name, max, text, e);
	if (r < 0 || d->member[0])
		return r;
	if (text->len != d->size)
		return err_say(e, EBADMSG, "blob %.19s... has %zu bytes and not the %llu promised",
			d->digest, text->len, (unsigned long long)d->size);
	r = digest_of(text->data ? text->data : "", text->len, got, e);
	if (r == 0)
		r = digest_compare(d->digest, got, e);
	return r < 0 ? err_wrap(e, r, "blob %.19s...", d->digest) : 0;
}

static int bundle_layer(struct source *s, const struct descriptor *d, int work, struct progress *p,
	int *ret_fd, struct err *e)
{
	own_fd int fd = -1;
	char name[256];
	int r;

	(void)work;
	(void)p;
	blob_name(d, name);
	r = part_open((struct bundle *)s, name, &fd, e);
	if (r == 0 && !d->member[0]) /* a `docker save` layer is checked by its diff id alone */
		r = digest_check_file(fd, d->digest, d->size, e);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static void bundle_destroy(struct source *s)
{
	struct bundle *b = (struct bundle *)s;

	for (unsigned i = 0; i < b->count; i++) {
		free(b->members[i].name);
		free(b->members[i].link);
	}
	free(b->members);
	if (b->layout >= 0)
		host_close(b->layout);
	free(b);
}

static const struct source_ops bundle_ops = {
	.top = bundle_top,
	.text = bundle_text,
	.layer = bundle_layer,
	.destroy = bundle_destroy,
};

/* "../ID/layer.tar" in "OTHER/layer.tar", as `docker save` writes for a layer that comes twice. */
static char *link_target(const char *name, const char *target)
{
	const char *slash = strrchr(name, '/');
	char out[512];
	int r;

	if (str_after(target, "../"))
		r = str_copy(
			out, sizeof(out), target + 3); /* one folder up is the archive's root */
	else if (slash)
		r = str_fmt(out, sizeof(out), "%.*s/%s", (int)(slash - name), name, target);
	else
		r = str_copy(out, sizeof(out), target);
	return r < 0 ? NULL : strdup(out);
}

/* 1 when it is a link, 0 when not. */
static int member_link(struct archive_entry *entry, struct member *m, struct err *e)
{
	const char *hard = archive_entry_hardlink(entry), *soft = archive_entry_symlink(entry);
	char name[512];

	if (hard) {
		clean(hard, name, sizeof(name));
		m->link = strdup(name);
	} else if (archive_entry_filetype(entry) == AE_IFLNK && soft) {
		m->link = link_target(m->name, soft);
	} else {
		return 0;
	}
	return m->link ? 1
		       : err_say(e, EINVAL, "a link in the archive has a target that is too long");
}

static int copy_member(struct archive *a, int fd, uint64_t *budget, struct err *e)
{
	const void *data;
	la_int64_t at;
	size_t len;
	int r;

	while ((r = archive_read_data_block(a, &data, &len, &at)) == ARCHIVE_OK) {
		if (stop_check(e) < 0)
			return -EINTR;
		if (at < 0 || len > *budget)
			return err_say(e, EFBIG,
				"the archive is larger than allowed; --max-size allows more");
		*budget -= len;
		for (size_t done = 0; done < len;) {
			ssize_t n =
				pwrite(fd, (const char *)data + done, len - done, at + (off_t)done);

			if (n < 0 && errno != EINTR)
				return err_set(e, errno, "writing a part of the archive");
			if (n > 0)
				done += (size_t)n;
		}
	}
	return r == ARCHIVE_EOF ? 0 : err_say(e, EBADMSG, "the archive is broken or cut short");
}

static int spread_one(struct bundle *b, struct archive *a, struct archive_entry *entry,
	uint64_t *budget, struct err *e)
{
	const char *raw = archive_entry_pathname(entry);
	struct member *m = &b->members[b->count];
	char name[512], file[32];
	own_fd int fd = -1;
	int r;

	if (!raw)
		return 0; /* a name that is no text is none that an image asks for */
	clean(raw, name, sizeof(name));
	m->name = strdup(name);
	if (!m->name)
		return err_set(e, ENOMEM, "reading the archive");
	b->count++;
	r = member_link(entry, m, e);
	if (r != 0)
		return r < 0 ? r : 0;
	if (archive_entry_filetype(entry) != AE_IFREG) {
		m->name[0] = '\0'; /* folders and the like are no parts */
		return 0;
	}
	str_fmt(file, sizeof(file), "member-%u", b->count - 1);
	fd = host_openat(b->work, file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(e, -fd, "writing a part of the archive");
	return copy_member(a, fd, budget, e);
}

static int spread(struct bundle *b, struct archive *a, uint64_t budget, struct err *e)
{
	struct archive_entry *entry;
	int r, n;

	b->members = calloc(IMAGE_MEMBERS_MAX, sizeof(*b->members));
	if (!b->members)
		return err_set(e, ENOMEM, "reading the archive");
	while ((n = archive_read_next_header(a, &entry)) == ARCHIVE_OK || n == ARCHIVE_WARN) {
		if (b->count >= IMAGE_MEMBERS_MAX)
			return err_say(e, E2BIG, "the archive has more than %d members",
				IMAGE_MEMBERS_MAX);
		r = spread_one(b, a, entry, &budget, e);
		if (r < 0)
			return r;
	}
	return n == ARCHIVE_EOF ? 0 : err_say(e, EBADMSG, "it is no tar archive, or a broken one");
}

static int open_archive(struct bundle *b, const char *path, uint64_t max_bytes, struct err *e)
{
	own_fd int fd = host_open(path, O_RDONLY | O_NONBLOCK, 0);
	struct archive *a;
	int r = 0;

	if (fd < 0)
		return err_set(e, -fd, "opening it");
	a = archive_read_new();
	if (!a || archive_read_support_filter_gzip(a) != ARCHIVE_OK ||
		archive_read_support_filter_zstd(a) != ARCHIVE_OK ||
		archive_read_support_format_tar(a) != ARCHIVE_OK)
		r = err_say(e, ENOTSUP, "this libarchive cannot read tar, gzip and zstd by itself");
	else if (archive_read_open_fd(a, fd, 64 * 1024) != ARCHIVE_OK)
		r = err_say(e, EBADMSG, "it is no tar archive");
	if (r == 0)
		r = spread(b, a, max_bytes, e);
	archive_read_free(a);
	return r;
}

int bundle_open(
	const struct oci_word *w, int work, uint64_t max_bytes, struct source **ret, struct err *e)
{
	struct bundle *b = calloc(1, sizeof(*b));
	struct stat st;
	int r = 0;

	if (!b)
		return err_set(e, ENOMEM, "opening '%s'", w->path);
	b->source.ops = &bundle_ops;
	b->source.tag = b->tag;
	b->layout = -1;
	b->work = work;
	memcpy(b->tag, w->tag, sizeof(b->tag));
	if (stat(w->path, &st) < 0) {
		r = err_set(e, errno, "opening it");
	} else if (S_ISDIR(st.st_mode)) {
		b->layout = host_open(w->path, O_RDONLY | O_DIRECTORY, 0);
		r = b->layout < 0 ? err_set(e, -b->layout, "opening it") : 0;
	} else {
		r = open_archive(b, w->path, max_bytes, e);
	}
	if (r < 0) {
		bundle_destroy(&b->source);
		return r;
	}
	*ret = &b->source;
	return 0;
}
