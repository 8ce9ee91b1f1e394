/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/cp.c - `ward cp`: one file into or out of a sandbox.
 *
 * Owns:  the file on this side.
 * Rules: a file that could not be fetched whole is not there afterwards; the old one stays.
 */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/client.h"
#include "cmd/common.h"
#include "front/limits.h"

struct side {
	char id[64];      /* "": this side */
	const char *path; /* "-": stdin or stdout */
};

struct copy {
	struct client_easy h;
	int fd;
	bool sending; /* what is answered is no file */
	struct buf error;
	struct err err;
};

/* "ID:PATH"; anything with a slash before the colon is a file of ours. */
static void read_side(const char *text, struct side *s)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");

	*s = (struct side){ .path = text };
	if (n && text[n] == ':' && n < sizeof(s->id)) {
		memcpy(s->id, text, n);
		s->path = text + n + 1;
	}
}

static size_t on_answer(char *data, size_t size, size_t count, void *ctx)
{
	struct copy *c = ctx;
	size_t len = size * count, at = 0;
	long code = 0;

	curl_easy_getinfo(c->h.curl, CURLINFO_RESPONSE_CODE, &code);
	if (code != 200 || c->sending) {
		buf_add(&c->error, data, len);
		return c->error.bad ? 0 : len;
	}
	while (at < len) {
		ssize_t n = write(c->fd, data + at, len - at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err_set(&c->err, errno, "writing the file");
			return 0;
		}
		at += (size_t)n;
	}
	return len;
}

static size_t on_upload(char *out, size_t size, size_t count, void *ctx)
{
	struct copy *c = ctx;
	ssize_t n;

	do
		n = read(c->fd, out, size * count);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return (size_t)n;
	err_set(&c->err, errno, "reading the file");
	return CURL_READFUNC_ABORT;
}

static int perform(struct copy *c, struct err *e)
{
	CURLcode code = curl_easy_perform(c->h.curl);
	long status = 0;

	curl_easy_getinfo(c->h.curl, CURLINFO_RESPONSE_CODE, &status);
	if (c->err.code) {
		*e = c->err;
		return -e->code;
	}
	if (status && status != 200)
		return client_error(status, c->error.data, c->error.len, e);
	return code == CURLE_OK
		       ? 0
		       : err_say(e, EIO, "the daemon hung up: %s", curl_easy_strerror(code));
}

static int make_path(const struct side *s, const char *user, struct buf *out, struct err *e)
{
	char base[200];
	int r = client_path(base, sizeof(base), s->id, "/files", e);

	if (r < 0)
		return r;
	buf_init(out, 64 * 1024);
	buf_add_str(out, base);
	client_query(out, '?', "path", s->path);
	if (user)
		client_query(out, '&', "user", user);
	return out->bad ? err_say(e, ENAMETOOLONG, "the path is too long") : 0;
}

static int upload(struct client *client, const struct side *from, const struct side *to,
	const char *user, struct err *e)
{
	own_fd int fd = str_eq(from->path, "-") ? dup(0) : open(from->path, O_RDONLY | O_CLOEXEC);
	struct copy c = { .fd = fd, .sending = true };
	own_buf struct buf path = { 0 };
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "opening '%s'", from->path);
	if (S_ISDIR(st.st_mode))
		return err_say(e, EISDIR, "'%s' is a directory: tar c %s | ward exec -i %s tar x",
			from->path, from->path, to->id);
	r = make_path(to, user, &path, e);
	if (r == 0)
		r = client_easy(client, "PUT", path.data, "Content-Type: application/octet-stream",
			&c.h, e);
	if (r < 0)
		return r;
	buf_init(&c.error, FRONT_JSON_MAX);
	curl_easy_setopt(c.h.curl, CURLOPT_UPLOAD, 1L);
	if (S_ISREG(st.st_mode))
		curl_easy_setopt(c.h.curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)st.st_size);
	curl_easy_setopt(c.h.curl, CURLOPT_READFUNCTION, on_upload);
	curl_easy_setopt(c.h.curl, CURLOPT_READDATA, &c);
	curl_easy_setopt(c.h.curl, CURLOPT_UPLOAD_BUFFERSIZE, 1L << 20);
	curl_easy_setopt(c.h.curl, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(c.h.curl, CURLOPT_WRITEDATA, &c);
	r = perform(&c, e);
	client_easy_free(&c.h);
	buf_done(&c.error);
	return r;
}

/* Where the file goes: into a folder under its own name, else as it is called. */
static int target(const struct side *from, const struct side *to, char out[WARD_PATH_MAX],
	char temp[WARD_PATH_MAX], struct err *e)
{
	const char *slash = strrchr(from->path, '/'), *name = slash ? slash + 1 : from->path;
	struct stat st;
	int r;

	if (stat(to->path, &st) == 0 && S_ISDIR(st.st_mode))
		r = str_fmt(out, WARD_PATH_MAX, "%s/%s", to->path, name);
	else
		r = str_copy(out, WARD_PATH_MAX, to->path);
	if (r == 0)
		r = str_fmt(temp, WARD_PATH_MAX, "%s.ward-%d", out, (int)getpid());
	return r < 0 ? err_say(e, -r, "the path is too long") : 0;
}

static int fetch(
	struct client *client, const struct side *from, int fd, const char *user, struct err *e)
{
	struct copy c = { .fd = fd };
	own_buf struct buf path = { 0 };
	int r = make_path(from, user, &path, e);

	if (r == 0)
		r = client_easy(client, "GET", path.data, NULL, &c.h, e);
	if (r < 0)
		return r;
	buf_init(&c.error, FRONT_JSON_MAX);
	curl_easy_setopt(c.h.curl, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(c.h.curl, CURLOPT_WRITEDATA, &c);
	curl_easy_setopt(c.h.curl, CURLOPT_BUFFERSIZE, 512L * 1024);
	r = perform(&c, e);
	client_easy_free(&c.h);
	buf_done(&c.error);
	return r;
}

static int download(struct client *client, const struct side *from, const struct side *to,
	const char *user, struct err *e)
{
	char path[WARD_PATH_MAX], temp[WARD_PATH_MAX];
	own_fd int fd = -1;
	int r;

	if (str_eq(to->path, "-"))
		return fetch(client, from, 1, user, e);
	r = target(from, to, path, temp, e);
	if (r < 0)
		return r;
	fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (fd < 0)
		return err_set(e, errno, "making '%s'", temp);
	r = fetch(client, from, fd, user, e);
	if (r == 0 && rename(temp, path) < 0)
		r = err_set(e, errno, "putting '%s' in place", path);
	if (r < 0)
		unlink(temp);
	return r;
}

int cmd_cp(int argc, char **argv, const struct globals *g)
{
	const char *tenant = NULL, *user = NULL, *words[2] = { NULL };
	struct client *client = NULL;
	struct side from, to;
	struct err e = { 0 };
	unsigned n = 0;
	int r;

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--help")) {
			fputs(cmd_help_text("cp"), stdout);
			return 0;
		}
		r = cmd_value(argv, &i, "--tenant", &tenant, &e);
		if (r == 0)
			r = cmd_value(argv, &i, "--user", &user, &e);
		if (r < 0)
			return cmd_fail("cp", &e);
		if (r > 0)
			continue;
		if ((argv[i][0] == '-' && argv[i][1]) || n == 2)
			return cmd_usage(
				"cp", "'%s' is not accepted: ward cp [--user U] FROM TO", argv[i]);
		words[n++] = argv[i];
	}
	if (n < 2)
		return cmd_usage(
			"cp", "from where to where? ward cp FILE ID:PATH, or ID:PATH FILE");
	read_side(words[0], &from);
	read_side(words[1], &to);
	if (!from.id[0] == !to.id[0])
		return cmd_usage("cp", "one side is ID:PATH in a sandbox, the other a file here");
	r = client_open(g, tenant, &client, &e);
	if (r == 0)
		r = from.id[0] ? download(client, &from, &to, user, &e)
			       : upload(client, &from, &to, user, &e);
	client_close(client);
	return r < 0 ? cmd_fail("cp", &e) : 0;
}
