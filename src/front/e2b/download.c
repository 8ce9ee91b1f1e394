/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/download.c - a file of a sandbox to a client.
 *
 * Owns:  one file on its way out.
 * Rules: the agent opens the file inside the sandbox and passes the descriptor, so that the kernel
 *        moves the bytes; a tier that cannot pass one streams it. Both are hostile: the size is
 *        read once, a file that shrinks under us cuts the connection, and one that grows is cut.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "front/call.h"
#include "front/e2b/download.h"
#include "front/e2b/entry.h"
#include "front/e2b/handlers.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "wire/text.h"
#include "wire/zip.h"

enum { PIECE = 256 * 1024 };

struct file {
	struct call *c;
	char *path;
	struct zip *zip;
	int fd; /* while it is compressed */
	uint64_t at;
	bool full;
	bool answered; /* the reply has begun, or is complete */
	bool plainly;  /* asked for without a descriptor */
	bool looking;  /* plainly: only for its size, which a range needs first */
	bool sized;    /* plainly: @left bytes were promised and are still to come */
	uint64_t from, left;
	struct loop_later more;
};

static void file_ended(struct call *c)
{
	struct file *f = c->state;

	loop_later_cancel(&f->more);
	zip_destroy(f->zip);
	if (f->fd >= 0)
		close(f->fd);
	free(f->path);
}

/* `inline; filename="x"`: quotes and what is no header text are left out. */
static void put_disposition(struct call *c, const char *path)
{
	const char *name = path ? entry_name(path) : "";
	char value[300];
	size_t n = 0;

	for (; *name && n < 200; name++)
		if ((unsigned char)*name >= ' ' && (unsigned char)*name < 0x7f && *name != '"' &&
			*name != '\\')
			value[n++] = *name;
	value[n] = '\0';
	if (n) {
		char line[340];

		if (str_fmt(line, sizeof(line), "inline; filename=\"%s\"", value) == 0)
			wire_reply_header(c->q, "Content-Disposition", line);
	}
}

static void put_headers(struct call *c, const char *path)
{
	put_disposition(c, path);
	wire_reply_header(c->q, "Content-Type", "application/octet-stream");
	wire_reply_header(c->q, "Accept-Ranges", "bytes");
	wire_reply_header(c->q, "Vary", "Accept-Encoding"); /* also where it is not compressed */
	wire_reply_header(c->q, "Access-Control-Allow-Origin", "*");
}

/* A client that also names other codings takes the bytes as they are: that is faster on the
 * networks this is for. One that wants gzip alone gets it. */
static bool wants_gzip(struct call *c)
{
	const char *accepts = wire_header(c->q, "Accept-Encoding");

	return http_accepts(accepts, "gzip") &&
	       (!http_accepts_plain(accepts) ||
		       (!http_accepts(accepts, "deflate") && !http_accepts(accepts, "br")));
}

/* --- Compressed ------------------------------------------------------------------------------- */

static int zip_out(void *ctx, const void *data, size_t len)
{
	struct file *f = ctx;
	int r = wire_reply_write(f->c->q, data, len);

	f->full = f->full || r > 0;
	return r < 0 ? r : 0;
}

/* One piece per turn of the loop: others want their turn too. */
static void zip_more(void *ctx)
{
	struct file *f = ctx;
	own_mem char *piece = malloc(PIECE);
	ssize_t n = piece ? pread(f->fd, piece, PIECE, (off_t)f->at) : -1;
	int r = 0;

	if (n > 0)
		r = zip_feed(f->zip, piece, (size_t)n);
	else if (n == 0)
		r = zip_finish(f->zip);
	if (n < 0 || r < 0) {
		wire_reply_abort(f->c->q);
	} else if (n == 0) {
		wire_reply_end(f->c->q);
	} else {
		f->at += (uint64_t)n;
		if (!f->full)
			loop_later_set(f->c->front->loop, &f->more, zip_more, f);
	}
}

static void on_drained(struct call *c)
{
	struct file *f = c->state;

	if (f->full && f->zip) {
		f->full = false;
		if (f->fd < 0)
			return; /* the link has its credit again */
		loop_later_set(c->front->loop, &f->more, zip_more, f);
	}
}

static bool start_zipped(struct file *f)
{
	struct call *c = f->c;

	if (zip_deflate_create(1, zip_out, f, &f->zip) < 0) {
		call_fail_memory(c);
		return false;
	}
	wire_reply_header(c->q, "Content-Encoding", "gzip");
	wire_reply_start(c->q, 200, -1);
	c->on_drained = on_drained;
	return true;
}

static void send_zipped(struct file *f, int fd)
{
	f->fd = fd;
	if (start_zipped(f))
		zip_more(f);
}

/* A part is only of use to who has the rest: of this very state of the file, says If-Range. No name
 * for such a state was ever given out, so it is another one. */
static const char *range_of(struct call *c)
{
	return wire_header(c->q, "If-Range") ? NULL : wire_header(c->q, "Range");
}

/* --- Plain ------------------------------------------------------------------------------------ */

static void start_range(struct call *c, uint64_t size, uint64_t from, uint64_t len)
{
	char line[80];

	if (str_fmt(line, sizeof(line), "bytes %llu-%llu/%llu", (unsigned long long)from,
		    (unsigned long long)(from + len - 1), (unsigned long long)size) == 0)
		wire_reply_header(c->q, "Content-Range", line);
	wire_reply_start(c->q, 206, (int64_t)len);
}

static void fail_range(struct call *c, uint64_t size)
{
	char line[40];

	if (str_fmt(line, sizeof(line), "bytes */%llu", (unsigned long long)size) == 0)
		wire_reply_header(c->q, "Content-Range", line);
	call_fail(c, 416, "the file has %llu bytes", (unsigned long long)size);
}

static void send_file(struct file *f, int fd, const char *path)
{
	struct call *c = f->c;
	const char *wanted = range_of(c);
	uint64_t from = 0, len = 0;
	struct stat st;
	int range;

	if (fstat(fd, &st) < 0) {
		close(fd);
		call_fail(c, 500, "looking at the file: %s", strerror(errno));
		return;
	}
	put_headers(c, path);
	range = wanted ? http_range(wanted, (uint64_t)st.st_size, &from, &len) : 0;
	if (range == -ERANGE) {
		close(fd);
		fail_range(c, (uint64_t)st.st_size);
	} else if (range == 1) {
		start_range(c, (uint64_t)st.st_size, from, len);
		wire_reply_file(c->q, fd, from, len);
		wire_reply_end(c->q);
	} else if (wants_gzip(c) && st.st_size) {
		send_zipped(f, fd);
	} else {
		wire_reply_start(c->q, 200, st.st_size);
		if (st.st_size)
			wire_reply_file(c->q, fd, 0, (uint64_t)st.st_size);
		else
			close(fd);
		wire_reply_end(c->q);
	}
}

/* --- From the agent --------------------------------------------------------------------------- */

/* A file of which only the bytes will come. */
static void start_plainly(struct file *f, const struct link_opened *o)
{
	struct call *c = f->c;
	uint64_t size = o->has_file ? o->file.size : 0;

	put_headers(c, o->has_file ? o->file.path : NULL);
	f->answered = true;
	if (f->left) {
		f->sized = true;
		start_range(c, size, f->from, f->left);
	} else if (wants_gzip(c) && size) {
		start_zipped(f);
	} else if (size) {
		f->sized = true;
		f->left = size;
		wire_reply_start(c->q, 200, (int64_t)size);
	} else {
		wire_reply_start(c->q, 200, -1); /* a file may say 0 and have something to say */
	}
}

/* Its size is known: which part of it was meant? */
static void look(struct file *f, uint64_t size)
{
	int range = http_range(range_of(f->c), size, &f->from, &f->left);

	if (range == 1)
		return;
	f->from = f->left = 0;
	if (range == -ERANGE) {
		f->answered = true;
		fail_range(f->c, size);
	}
}

static void on_opened(void *arg, struct link_call *l, const struct link_opened *o)
{
	struct call *c = arg;
	struct file *f = c->state;

	if (o->fd >= 0) {
		f->answered = true;
		send_file(f, o->fd, o->has_file ? o->file.path : NULL);
	} else if (f->looking) {
		look(f, o->has_file ? o->file.size : 0);
	} else {
		start_plainly(f, o);
	}
}

static void on_data(void *arg, struct link_call *l, const void *data, size_t len, bool of_stderr)
{
	struct call *c = arg;
	struct file *f = c->state;
	size_t part = f->sized && len > f->left ? (size_t)f->left : len;

	if (f->looking)
		return; /* one byte, for which nobody asked */
	if (f->zip) {
		if (zip_feed(f->zip, data, len) < 0)
			wire_reply_abort(c->q);
		call_credit(c, l, len, f->full);
		return;
	}
	f->left -= f->sized ? part : 0;
	call_pass(c, l, data, part, len);
}

static void plainly_done(struct file *f)
{
	struct call *c = f->c;

	if (f->sized ? f->left != 0 : f->zip && zip_finish(f->zip) < 0)
		wire_reply_abort(c->q);
	else
		wire_reply_end(c->q);
}

static void ask(struct call *c, struct link *l, unsigned flags);

static void on_done(void *arg, struct link_call *l, const struct link_done *d)
{
	struct call *c = arg;
	struct file *f = c->state;
	struct link *link = link_of(l);

	call_link_over(c, l);
	if (f->looking && !f->answered) {
		f->looking = false;
		ask(c, link, 0);
	} else if (!f->answered) {
		call_fail(c, 500, "the sandbox did not open the file");
	} else if (f->plainly && !f->looking) {
		plainly_done(f);
	}
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f);

static const struct link_handler handler = {
	.opened = on_opened, .data = on_data, .done = on_done, .failed = on_failed
};

static void ask(struct call *c, struct link *l, unsigned flags)
{
	struct file *f = c->state;
	struct proto_request q = { .type = PROTO_READ,
		.flags = (uint16_t)(FILE_HOME | FILE_FULL | flags),
		.path = f->path,
		.user = call_owner(c),
		.offset = f->from,
		.length = f->looking ? 1 : f->left,
		.window = FRONT_FILE_WINDOW };

	f->c = c;
	call_request(c, 0, l, &q, &handler);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	struct call *c = arg;
	struct file *file = c->state;
	struct link *link = link_of(l);

	call_link_over(c, l);
	if (file->answered) {
		wire_reply_abort(c->q);
	} else if (f->code == EOPNOTSUPP && !file->plainly) {
		file->plainly = true; /* this tier passes no descriptors */
		file->looking = range_of(c) != NULL;
		ask(c, link, 0);
	} else {
		call_fail_link(c, f);
	}
}

static void go_read(struct call *c, struct link *l)
{
	ask(c, l, FILE_PASS_FD);
}

void download_start(struct call *c, const char *path)
{
	const char *accepts = wire_header(c->q, "Accept-Encoding");
	struct file *f;

	if (!http_accepts_plain(accepts) && !http_accepts(accepts, "gzip")) {
		call_fail(c, 406, "a file is sent as it is, or with gzip");
		return;
	}
	f = call_alloc(c, sizeof(*f));
	if (!f)
		return;
	f->fd = -1;
	f->path = strdup(path);
	c->state = f;
	c->on_ended = file_ended;
	if (f->path)
		call_with_link(c, go_read);
	else
		call_fail_memory(c);
}

void envd_download(struct call *c)
{
	const char *path = call_query(c, "path");

	download_start(c, path ? path : "");
}
