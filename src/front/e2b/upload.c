/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/upload.c - files from a client: POST /files.
 *
 * Owns:  one body on its way into files: raw, gzip, or a form of several.
 * Rules: constant memory. The body waits while the sink is busy; gzip is fed in small slices, so
 *        that a bomb fills a file (whose disk has a limit) and not the daemon.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/entry.h"
#include "front/e2b/handlers.h"
#include "front/e2b/dict.h"
#include "front/e2b/sink.h"
#include "front/e2b/upload.h"
#include "front/limits.h"
#include "wire/multipart.h"
#include "wire/zip.h"

enum { ZIP_SLICE = 4096, PATHS_BYTES_MAX = 4 << 20 };

struct upload {
	struct call *c;
	const char *path; /* of the query; NULL: each part names its own */
	struct buf meta;  /* "name=value", each ending in NUL */
	struct zip *zip;
	struct multipart *form;
	bool skipping;   /* this part is not a file */
	struct buf raw;  /* of the body, not yet fed */
	struct buf json; /* the answer */
	struct dict stored;
	unsigned begun;
	bool over; /* the body is complete */
	bool failed;
};

static void upload_ended(struct call *c)
{
	struct upload *u = c->state;

	zip_destroy(u->zip);
	multipart_destroy(u->form);
	sink_destroy(c->sink);
	buf_done(&u->meta);
	buf_done(&u->raw);
	buf_done(&u->json);
	dict_done(&u->stored);
}

static void refuse(struct upload *u, unsigned status, const char *why)
{
	if (!u->failed)
		call_fail(u->c, status, "%s", why);
	u->failed = true;
}

/* --- Metadata --------------------------------------------------------------------------------- */

static bool is_printable(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || (unsigned char)*s > '~')
			return false;
	return true;
}

static int read_metadata(struct call *c, struct buf *meta, struct err *e)
{
	static const char prefix[] = "x-metadata-";
	const char *name, *value;
	size_t total = 0;

	for (unsigned i = 0; wire_header_at(c->q, i, &name, &value); i++) {
		char key[FRONT_METADATA_KEY_MAX + 1];
		size_t n;

		if (strncasecmp(name, prefix, sizeof(prefix) - 1) != 0)
			continue;
		name += sizeof(prefix) - 1;
		n = strlen(name);
		total += n + strlen(value);
		if (!n || n > FRONT_METADATA_KEY_MAX)
			return err_say(e, EINVAL, "a metadata key has 1 to %d bytes",
				FRONT_METADATA_KEY_MAX);
		if (total > FRONT_METADATA_BYTES_MAX)
			return err_say(e, EINVAL, "the metadata has more than %d bytes",
				FRONT_METADATA_BYTES_MAX);
		if (!is_printable(value))
			return err_say(e, EINVAL, "metadata is printable ASCII");
		for (size_t k = 0; k <= n; k++)
			key[k] = (char)tolower((unsigned char)name[k]);
		buf_add_fmt(meta, "%s=%s", key, value);
		buf_add(meta, "", 1);
	}
	return meta->bad ? err_set(e, ENOMEM, "keeping metadata") : 0;
}

/* --- Files are stored ------------------------------------------------------------------------- */

static void add_stored(struct upload *u, const char *path)
{
	struct buf *b = &u->json;

	json_open(b, NULL);
	json_str(b, "path", path);
	json_str(b, "name", entry_name(path));
	json_str(b, "type", "file");
	entry_metadata(b, u->meta.data, (uint32_t)u->meta.len);
	json_close(b);
}

static void on_stored(struct call *c, const char *path)
{
	struct upload *u = c->state;

	if (dict_get(&u->stored, path))
		refuse(u, 400, "two parts of the upload go to the same path");
	else if (dict_add(&u->stored, path, "", NULL) < 0)
		refuse(u, 400, "the upload has too many files");
	else
		add_stored(u, path);
}

static void finish(struct upload *u)
{
	if (u->failed || !u->over || sink_is_busy(u->c->sink))
		return;
	u->failed = true; /* once */
	if (!u->stored.count) {
		call_fail(u->c, 400, "the upload has no file in it");
		return;
	}
	json_array_end(&u->json);
	call_json(u->c, 200, &u->json);
}

/* --- The body --------------------------------------------------------------------------------- */

static int part_begin(void *ctx, const struct multipart_part *part)
{
	struct upload *u = ctx;
	const char *path = u->path ? u->path : part->filename;

	u->skipping = !str_eq(part->name, "file");
	if (u->skipping)
		return 0;
	if (!path)
		return -ENOENT;
	if (u->path && u->begun)
		return -EEXIST;
	if (++u->begun > FRONT_PAIRS_MAX)
		return -E2BIG;
	return sink_begin(u->c->sink, path);
}

static int part_data(void *ctx, const void *data, size_t len)
{
	struct upload *u = ctx;

	return u->skipping ? 0 : sink_data(u->c->sink, data, len);
}

static int part_end(void *ctx)
{
	struct upload *u = ctx;

	return u->skipping ? 0 : sink_end(u->c->sink);
}

static int feed(struct upload *u, const void *data, size_t len)
{
	if (u->form)
		return multipart_feed(u->form, data, len);
	if (u->zip)
		return zip_feed(u->zip, data, len);
	return sink_data(u->c->sink, data, len);
}

static void refuse_feed(struct upload *u, int r)
{
	switch (r) {
	case -ENOENT:
		refuse(u, 400, "a file needs a path: in the query, or as its part's filename");
		break;
	case -EEXIST:
		refuse(u, 400, "two parts of the upload go to the same path");
		break;
	case -EMSGSIZE:
		refuse(u, 413, "the file is too large");
		break;
	case -ENOMEM:
		refuse(u, 500, "out of memory");
		break;
	case -E2BIG:
		refuse(u, 400, "the form has too many parts, or one with too long a head");
		break;
	default:
		refuse(u, 400, u->form ? "the form is malformed" : "the body is not gzip");
	}
}

/* The end of the body, when all of it was fed. */
static void feed_end(struct upload *u)
{
	int r = u->form ? multipart_finish(u->form) : u->zip ? zip_finish(u->zip) : 0;

	if (r == 0 && !u->form)
		r = sink_end(u->c->sink);
	if (r < 0)
		refuse_feed(u, r);
}

/* Feeds what is there until the sink is busy. */
static void feed_raw(struct upload *u)
{
	size_t at = 0, slice = u->zip ? ZIP_SLICE : u->raw.len;
	int r = 0;

	while (at < u->raw.len && !u->failed && !sink_is_busy(u->c->sink) && r == 0) {
		size_t n = u->raw.len - at < slice ? u->raw.len - at : slice;

		r = feed(u, u->raw.data + at, n);
		at += n;
	}
	if (r < 0)
		refuse_feed(u, r);
	memmove(u->raw.data, u->raw.data + at, u->raw.len - at);
	buf_cut(&u->raw, u->raw.len - at);
}

static void on_ready(struct call *c)
{
	struct upload *u = c->state;

	if (u->failed)
		return;
	if (u->raw.len)
		feed_raw(u);
	if (u->failed || u->raw.len || sink_is_busy(c->sink))
		return; /* this is called again */
	if (u->over)
		finish(u);
	else
		wire_body_resume(c->q);
}

static void on_sink_failed(struct call *c)
{
	struct upload *u = c->state;

	u->failed = true;
}

static void on_body(struct call *c, const void *data, size_t len)
{
	struct upload *u = c->state;
	int r = 0;

	if (u->failed)
		return;
	if (!u->zip && !u->raw.len) {
		r = feed(u, data, len);
	} else {
		buf_add(&u->raw, data, len);
		r = u->raw.bad ? -ENOMEM : 0;
		if (r == 0 && !sink_is_busy(c->sink))
			feed_raw(u);
	}
	if (r < 0)
		refuse_feed(u, r);
	else if (!u->failed && (u->raw.len || sink_is_busy(c->sink)))
		wire_body_pause(c->q);
}

static void on_body_end(struct call *c, int r)
{
	struct upload *u = c->state;

	if (u->failed)
		return;
	if (r < 0) {
		refuse(u, wire_status_of(r), "the body did not arrive whole");
		return;
	}
	u->over = true; /* nothing is kept: while something was, the body waited */
	feed_end(u);
	finish(u);
}

/* --- The head --------------------------------------------------------------------------------- */

static int zip_out(void *ctx, const void *data, size_t len)
{
	struct upload *u = ctx;

	return sink_data(u->c->sink, data, len);
}

static bool is_type(const char *type, const char *want)
{
	size_t n = strlen(want);

	return strncasecmp(type, want, n) == 0 && (!type[n] || type[n] == ';' || type[n] == ' ');
}

/* What the body is, by its headers. False: answered. */
static bool choose(struct upload *u)
{
	static const struct multipart_events parts = { part_begin, part_data, part_end };
	const char *type = wire_header(u->c->q, "Content-Type");
	const char *coding = wire_header(u->c->q, "Content-Encoding");
	bool gzip = coding && strcasecmp(coding, "gzip") == 0;

	type = type ? type : "";
	if (coding && !gzip && strcasecmp(coding, "identity") != 0)
		refuse(u, 400, "Content-Encoding must be gzip, or none");
	else if (is_type(type, "multipart/form-data")) {
		if (gzip)
			refuse(u, 400, "a compressed form is not accepted: send octet-stream");
		else if (multipart_create(type, &parts, u, &u->form) < 0)
			refuse(u, 400, "multipart/form-data needs a boundary");
	} else if (!is_type(type, "application/octet-stream"))
		refuse(u, 400,
			"Content-Type must be multipart/form-data or application/octet-stream");
	else if (!u->path)
		refuse(u, 400, "an octet-stream needs a path in the query");
	else if (gzip && zip_inflate_create(FRONT_FILE_MAX, zip_out, u, &u->zip) < 0)
		refuse(u, 500, "out of memory");
	return !u->failed;
}

void upload_start(struct call *c, const char *path)
{
	static const struct sink_events events = { on_ready, on_stored, on_sink_failed };
	struct upload *u = call_alloc(c, sizeof(*u));
	struct err e = { 0 };

	if (!u)
		return;
	u->c = c;
	u->path = path;
	buf_init(&u->meta, META_BYTES_MAX);
	buf_init(&u->raw, 1 << 20);
	buf_init(&u->json, PATHS_BYTES_MAX);
	json_array(&u->json, NULL);
	c->state = u;
	c->on_ended = upload_ended;
	c->on_body = on_body;
	c->on_body_end = on_body_end;
	if (call_failed(c, read_metadata(c, &u->meta, &e), &e) || !choose(u))
		return;
	c->sink = sink_create(c, &events, &u->meta);
	if (!c->sink || (!u->form && sink_begin(c->sink, u->path) < 0))
		refuse(u, 500, "out of memory");
	else if (!u->failed && wire_body_accept(c->q, FRONT_FILE_MAX) < 0)
		refuse(u, 413, "the file is too large");
	if (!u->failed && sink_is_busy(c->sink))
		wire_body_pause(c->q);
}

void envd_upload(struct call *c)
{
	const char *path = call_query(c, "path");

	upload_start(c, path && *path ? path : NULL);
}
