/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/registry.c - images from a registry (Docker Registry v2, OCI distribution).
 *
 * Owns:  the connection, and the token that the registry gave out.
 * Rules: every part is checked against the digest and size it was asked by before anybody else
 *        sees it. A credential goes to the registry, or to the token server that it names, and
 *        nowhere else.
 */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/auth.h"
#include "image/http.h"
#include "image/manifest.h"
#include "image/progress.h"
#include "image/source.h"
#include "template/ref.h"

struct registry {
	struct source source;
	struct ref ref;
	struct http *http;
	bool plain_http, asked; /* @asked: a credential or token was fetched already */
	uint64_t max_bytes;
	const char *credential;
	char authorization[REGISTRY_TOKEN_MAX + 16]; /* empty: none yet */
};

static const char accept_manifests[] = "application/vnd.oci.image.index.v1+json, "
				       "application/vnd.oci.image.manifest.v1+json, "
				       "application/vnd.docker.distribution.manifest.list.v2+json, "
				       "application/vnd.docker.distribution.manifest.v2+json";

static int to_buf(void *data, const void *bytes, size_t len, struct err *e)
{
	struct buf *b = data;

	buf_add(b, bytes, len);
	return b->bad ? err_set(e, ENOMEM, "keeping the answer") : 0;
}

/* Adds "&key=value", with everything in @value escaped that a URL does not take. */
static void add_query(struct buf *url, const char *key, const char *val)
{
	char *escaped = val[0] ? curl_easy_escape(NULL, val, (int)strlen(val)) : NULL;

	if (escaped)
		buf_add_fmt(url, "%c%s=%s", strchr(url->data, '?') ? '&' : '?', key, escaped);
	curl_free(escaped);
}

static int fetch_token(
	struct registry *g, const struct challenge *c, const char *credential, struct err *e)
{
	own_buf struct buf url, text;
	struct http_answer answer;
	char scope[sizeof(g->ref.path) + 32];
	int r;

	buf_init(&url, 8192);
	buf_init(&text, REGISTRY_TOKEN_MAX);
	buf_add_str(&url, c->realm);
	add_query(&url, "service", c->service);
	r = str_fmt(scope, sizeof(scope), "repository:%s:pull", g->ref.path);
	add_query(&url, "scope", c->scope[0] ? c->scope : scope);
	if (r < 0 || url.bad)
		return err_say(
			e, EBADMSG, "the registry names a token server with a very long address");

	struct http_request q = { .url = url.data,
		.max = REGISTRY_TOKEN_MAX,
		.sink = to_buf,
		.data = &text,
		.authorization = credential[0] ? credential : NULL };
	r = http_get(g->http, &q, &answer, e);
	if (r < 0)
		return err_wrap(e, r, "asking for a token");
	if (answer.status != 200)
		return err_say(e, EACCES, "the token server says no (status %ld); %s",
			answer.status,
			credential[0]
				? "are user and password right?"
				: "set WARD_REGISTRY_AUTH=USER:PASSWORD, or use `docker login`");
	return token_parse(&text, g->authorization, sizeof(g->authorization), e);
}

/* After a 401: gets what it asks for, once. */
static int authorize(struct registry *g, const struct http_answer *a, struct err *e)
{
	char credential[8 * 1024];
	struct challenge c;
	int has, r;

	if (g->asked)
		return err_say(e, EACCES,
			"the registry refuses what it was given: no right to pull this image, "
			"or no such image");
	g->asked = true;
	has = credential_find(g->ref.host, g->credential, credential, sizeof(credential), e);
	if (has < 0)
		return has;
	if (a->bearer[0]) {
		r = challenge_parse(a->bearer, &c, e);
		return r < 0 ? r : fetch_token(g, &c, credential, e);
	}
	if (!a->basic[0])
		return err_say(e, EACCES,
			"the registry wants neither a token nor user and password (401)");
	if (!has)
		return err_say(e, EACCES,
			"the registry wants user and password; set "
			"WARD_REGISTRY_AUTH=USER:PASSWORD, or use `docker login`");
	return str_copy(g->authorization, sizeof(g->authorization), credential);
}

static int status_error(const struct registry *g, long status, struct err *e)
{
	if (status == 404)
		return err_say(e, ENOENT, "the registry %s does not have it", g->ref.host);
	if (status == 429)
		return err_say(e, EBUSY,
			"the registry %s says that there were too many requests; try later",
			g->ref.host);
	return err_say(e, EIO, "the registry %s answers with status %ld", g->ref.host, status);
}

/* GET /v2/PATH/KIND/WHAT. */
static int get(struct registry *g, const char *kind, const char *what, uint64_t max,
	int (*sink)(void *, const void *, size_t, struct err *), void *data, struct err *e)
{
	bool plain = g->plain_http || ref_host_is_loopback(g->ref.host);
	char url[1024];
	struct http_request q = { .url = url, .max = max, .sink = sink, .data = data };
	struct http_answer answer;
	int r;

	if (str_fmt(url, sizeof(url), "%s://%s/v2/%s/%s/%s", plain ? "http" : "https", g->ref.host,
		    g->ref.path, kind, what) < 0)
		return err_say(e, ENAMETOOLONG, "its address is too long");
	if (str_eq(kind, "manifests"))
		q.accept = accept_manifests;
	for (;;) {
		q.authorization = g->authorization[0] ? g->authorization : NULL;
		r = http_get(g->http, &q, &answer, e);
		if (r < 0)
			return r;
		if (answer.status == 200) {
			g->asked = false; /* a later 401 means that the token has run out */
			return 0;
		}
		if (answer.status != 401)
			return status_error(g, answer.status, e);
		r = authorize(g, &answer, e);
		if (r < 0)
			return r;
	}
}

static int get_text(struct registry *g, const char *kind, const char *what, size_t max,
	struct buf *text, struct err *e)
{
	buf_cut(text, 0);
	return get(g, kind, what, max, to_buf, text, e);
}

static int registry_top(struct source *s, struct buf *text, char digest[DIGEST_TEXT],
	struct manifest *unused, struct err *e)
{
	struct registry *g = (struct registry *)s;
	const char *want = g->ref.digest;
	int r;

	(void)unused;
	r = get_text(g, "manifests", want[0] ? want : g->ref.tag, IMAGE_MANIFEST_MAX, text, e);
	if (r == 0)
		r = digest_of(text->data ? text->data : "", text->len, digest, e);
	if (r == 0 && want[0])
		r = digest_compare(want, digest, e);
	return r < 0 ? err_wrap(e, r, "its manifest") : 0;
}

static int registry_text(struct source *s, const struct descriptor *d, bool is_manifest, size_t max,
	struct buf *text, struct err *e)
{
	const char *what = is_manifest ? "its manifest" : "its configuration";
	char got[DIGEST_TEXT];
	int r;

	if (d->size > max)
		return err_say(e, EFBIG, "%s has more than %zu bytes", what, max);
	r = get_text((struct registry *)s, is_manifest ? "manifests" : "blobs", d->digest,
		(size_t)d->size, text, e);
	if (r == 0 && text->len != d->size)
		r = err_say(e, EBADMSG, "it has %zu bytes and not the %llu promised", text->len,
			(unsigned long long)d->size);
	if (r == 0)
		r = digest_of(text->data ? text->data : "", text->len, got, e);
	if (r == 0)
		r = digest_compare(d->digest, got, e);
	return r < 0 ? err_wrap(e, r, "%s", what) : 0;
}

/* A blob on its way to a file. */
struct download {
	int fd;
	struct hash hash;
	struct progress *progress;
};

static int to_file(void *data, const void *bytes, size_t len, struct err *e)
{
	struct download *d = data;
	int r = host_write_all(d->fd, bytes, len);

	if (r < 0)
		return err_set(e, -r, "writing the download");
	hash_add(&d->hash, bytes, len);
	progress_add(d->progress, len);
	return 0;
}

static int download(
	struct registry *g, const struct descriptor *d, struct download *to, struct err *e)
{
	char got[DIGEST_TEXT];
	int r = get(g, "blobs", d->digest, d->size, to_file, to, e);

	if (r < 0)
		return r;
	if (to->hash.total != d->size)
		return err_say(e, EBADMSG, "it has %llu bytes and not the %llu promised",
			(unsigned long long)to->hash.total, (unsigned long long)d->size);
	hash_end(&to->hash, got);
	r = digest_compare(d->digest, got, e);
	if (r == 0 && lseek(to->fd, 0, SEEK_SET) < 0)
		r = err_set(e, errno, "reading the download");
	return r;
}

static int registry_layer(struct source *s, const struct descriptor *d, int work,
	struct progress *p, int *ret_fd, struct err *e)
{
	struct registry *g = (struct registry *)s;
	own_fd int fd = -1;
	struct download to = { .progress = p };
	int r;

	if (d->size > g->max_bytes)
		return err_say(e, EFBIG,
			"it has %llu bytes, more than the %llu allowed; --max-size allows more",
			(unsigned long long)d->size, (unsigned long long)g->max_bytes);
	fd = host_openat(work, "blob", O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	if (fd < 0)
		return err_set(e, -fd, "making a file for the download");
	host_unlinkat(work, "blob", 0); /* the descriptor is enough */
	to.fd = fd;
	r = hash_init(&to.hash, e);
	if (r == 0)
		r = download(g, d, &to, e);
	hash_done(&to.hash);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

static void registry_destroy(struct source *s)
{
	struct registry *g = (struct registry *)s;

	http_destroy(g->http);
	free(g);
}

static const struct source_ops registry_ops = {
	.top = registry_top,
	.text = registry_text,
	.layer = registry_layer,
	.destroy = registry_destroy,
};

int registry_open(
	const struct ref *r, const struct registry_options *o, struct source **ret, struct err *e)
{
	own_mem struct registry *g = calloc(1, sizeof(*g));
	int n;

	if (!g)
		return err_set(e, ENOMEM, "asking a registry");
	g->source.ops = &registry_ops;
	g->ref = *r;
	g->plain_http = o->plain_http;
	g->max_bytes = o->max_bytes;
	g->credential = o->credential;
	n = http_create(o->plain_http                   ? PLAIN_ANYWHERE
			: ref_host_is_loopback(r->host) ? PLAIN_HERE
							: PLAIN_NOWHERE,
		&g->http, e);
	if (n < 0)
		return n;
	*ret = &take_ptr(&g)->source;
	return 0;
}
