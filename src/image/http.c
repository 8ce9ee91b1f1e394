/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/http.c - fetching over https.
 *
 * Owns:  one libcurl handle.
 * Rules: redirects are followed here and not by libcurl, so that each hop passes http_url_check and
 *        the credential stays with the host that it is for. An answer is bounded before it is kept.
 */
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#include "base/own.h"
#include "base/str.h"
#include "image/http.h"
#include "image/stop.h"
#include "template/ref.h"

struct http {
	CURL *curl;
	enum http_plain plain;
	char why[CURL_ERROR_SIZE];
};

/* One request on its way: what the callbacks write to. */
struct flight {
	const struct http_request *q;
	struct http_answer *answer;
	CURL *curl;
	uint64_t got;
	struct err err;
};

struct parts {
	char *scheme, *host, *port, *user;
};

static void parts_done(struct parts *p)
{
	curl_free(p->scheme);
	curl_free(p->host);
	curl_free(p->port);
	curl_free(p->user);
}

static int url_split(const char *url, struct parts *ret)
{
	CURLU *u = curl_url();
	int r = 0;

	*ret = (struct parts){ 0 };
	if (!u)
		return -ENOMEM;
	if (curl_url_set(u, CURLUPART_URL, url, 0) != CURLUE_OK ||
		curl_url_get(u, CURLUPART_SCHEME, &ret->scheme, 0) != CURLUE_OK ||
		curl_url_get(u, CURLUPART_HOST, &ret->host, 0) != CURLUE_OK ||
		curl_url_get(u, CURLUPART_PORT, &ret->port, CURLU_DEFAULT_PORT) != CURLUE_OK)
		r = -EINVAL;
	else
		curl_url_get(u, CURLUPART_USER, &ret->user, 0); /* none is fine */
	curl_url_cleanup(u);
	return r;
}

static bool url_is_loopback(const char *url)
{
	struct parts p __attribute__((cleanup(parts_done)));

	return url_split(url, &p) == 0 && ref_host_is_loopback(p.host);
}

int http_url_check(const char *url, enum http_plain plain, struct err *e)
{
	struct parts p __attribute__((cleanup(parts_done)));
	char shown[120];

	str_show(shown, sizeof(shown), url);
	if (url_split(url, &p) < 0)
		return err_say(e, EINVAL, "'%s' is not a URL", shown);
	if (p.user)
		return err_say(e, EINVAL, "'%s' has a user in it, which is refused", shown);
	if (str_eq(p.scheme, "https"))
		return 0;
	if (!str_eq(p.scheme, "http"))
		return err_say(e, EINVAL, "'%s' is neither https nor http", shown);
	if (plain == PLAIN_ANYWHERE || (plain == PLAIN_HERE && ref_host_is_loopback(p.host)))
		return 0;
	return err_say(e, EPERM, "'%s' is plain http, which --plain-http would allow", shown);
}

bool http_same_origin(const char *a, const char *b)
{
	struct parts x __attribute__((cleanup(parts_done))), y __attribute__((cleanup(parts_done)));
	int r = url_split(a, &x), s = url_split(b, &y);

	return r == 0 && s == 0 && strcasecmp(x.scheme, y.scheme) == 0 &&
	       strcasecmp(x.host, y.host) == 0 && str_eq(x.port, y.port);
}

int http_create(enum http_plain plain, struct http **ret, struct err *e)
{
	own_mem struct http *h = calloc(1, sizeof(*h));

	if (!h || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(e, ENOMEM, "starting libcurl");
	h->curl = curl_easy_init();
	if (!h->curl) {
		curl_global_cleanup();
		return err_set(e, ENOMEM, "starting libcurl");
	}
	h->plain = plain;
	*ret = take_ptr(&h);
	return 0;
}

void http_destroy(struct http *h)
{
	if (!h)
		return;
	curl_easy_cleanup(h->curl);
	curl_global_cleanup();
	free(h);
}

static void keep_header(const char *line, size_t len, const char *scheme, char *out, size_t cap)
{
	size_t n = strlen(scheme);

	if (len <= n || strncasecmp(line, scheme, n) != 0 || line[n] != ' ' || out[0])
		return;
	if (len < cap && !memchr(line, '\0', len)) {
		memcpy(out, line, len);
		out[len] = '\0';
	}
}

static size_t on_header(char *line, size_t size, size_t count, void *data)
{
	static const char key[] = "www-authenticate:";
	struct flight *f = data;
	size_t len = size * count, at = sizeof(key) - 1;

	if (len > at && strncasecmp(line, key, at) == 0) {
		while (len && (line[len - 1] == '\r' || line[len - 1] == '\n'))
			len--;
		while (at < len && line[at] == ' ')
			at++;
		keep_header(line + at, len - at, "Bearer", f->answer->bearer,
			sizeof(f->answer->bearer));
		keep_header(
			line + at, len - at, "Basic", f->answer->basic, sizeof(f->answer->basic));
	}
	return size * count;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *data)
{
	struct flight *f = data;
	size_t len = size * count;
	long status = 0;

	curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &status);
	f->got += len;
	if (status != 200)
		return f->got > REGISTRY_TOKEN_MAX ? 0 : len; /* an error page: nobody reads it */
	if (f->got > f->q->max) {
		err_say(&f->err, EFBIG, "the answer has more than the %llu bytes expected",
			(unsigned long long)f->q->max);
		return 0;
	}
	return f->q->sink(f->q->data, bytes, len, &f->err) < 0 ? 0 : len;
}

static int on_progress(void *data, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	struct flight *f = data;

	return stop_check(&f->err) < 0;
}

static int set_options(
	struct http *h, struct flight *f, const char *url, struct curl_slist *headers)
{
	static const long connect_s = 30, stall_s = 60;
	const char *ca = getenv("SSL_CERT_FILE");
	CURL *c = h->curl;
	int bad = 0;

	curl_easy_reset(c); /* keeps the connections */
	bad |= curl_easy_setopt(c, CURLOPT_URL, url);
	bad |= curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	bad |= curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	bad |= curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
	bad |= curl_easy_setopt(c, CURLOPT_USERAGENT, "ward/" WARD_VERSION);
	bad |= curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
	bad |= curl_easy_setopt(c, CURLOPT_HEADERDATA, f);
	bad |= curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
	bad |= curl_easy_setopt(c, CURLOPT_WRITEDATA, f);
	bad |= curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
	bad |= curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
	bad |= curl_easy_setopt(c, CURLOPT_XFERINFODATA, f);
	bad |= curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->why);
	bad |= curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	bad |= curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, connect_s);
	bad |= curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
	bad |= curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, stall_s);
	if (ca && *ca) /* OpenSSL's own variable; libcurl would not look at it */
		bad |= curl_easy_setopt(c, CURLOPT_CAINFO, ca);
	if (url_is_loopback(url)) /* a proxy's localhost is not ours */
		bad |= curl_easy_setopt(c, CURLOPT_PROXY, "");
	return bad ? -EINVAL : 0;
}

static struct curl_slist *make_headers(const struct http_request *q, bool with_credential)
{
	const struct {
		const char *key, *value;
	} lines[] = {
		{ "Accept", q->accept },
		{ "Authorization", with_credential ? q->authorization : NULL },
	};
	struct curl_slist *list = NULL, *more;

	for (size_t i = 0; i < 2; i++) {
		own_mem char *line = NULL;

		if (!lines[i].value)
			continue;
		if (asprintf(&line, "%s: %s", lines[i].key, lines[i].value) < 0)
			line = NULL;
		more = line ? curl_slist_append(list, line) : NULL;
		if (!more) {
			curl_slist_free_all(list);
			return NULL;
		}
		list = more;
	}
	return list;
}

static int one_hop(
	struct http *h, struct flight *f, const char *url, bool with_credential, struct err *e)
{
	struct curl_slist *headers = make_headers(f->q, with_credential);
	char shown[120];
	CURLcode c;
	int r;

	if (!headers && (f->q->accept || (with_credential && f->q->authorization)))
		return err_set(e, ENOMEM, "asking a registry");
	r = set_options(h, f, url, headers);
	if (r < 0) {
		curl_slist_free_all(headers);
		return err_say(e, EINVAL,
			"this libcurl lacks what ward needs: TLS, or limits on protocols");
	}
	h->why[0] = '\0';
	c = curl_easy_perform(h->curl);
	curl_slist_free_all(headers);
	if (c == CURLE_OK)
		return 0;
	if (f->err.code) {
		if (e)
			*e = f->err;
		return -f->err.code;
	}
	return err_say(e, EIO, "%s",
		str_show(shown, sizeof(shown), h->why[0] ? h->why : curl_easy_strerror(c)));
}

int http_get(struct http *h, const struct http_request *q, struct http_answer *ret, struct err *e)
{
	own_mem char *url = strdup(q->url);
	char shown[160];

	for (unsigned hop = 0; url && hop <= REGISTRY_REDIRECTS_MAX; hop++) {
		struct flight f = { .q = q, .answer = ret, .curl = h->curl };
		char *next = NULL;
		int r;

		memset(ret, 0, sizeof(*ret));
		r = http_url_check(url, h->plain, e);
		if (r == 0)
			r = one_hop(h, &f, url, http_same_origin(q->url, url), e);
		if (r < 0)
			return r == -EINTR
				       ? r
				       : err_wrap(e, r, "%s", str_show(shown, sizeof(shown), url));
		curl_easy_getinfo(h->curl, CURLINFO_RESPONSE_CODE, &ret->status);
		curl_easy_getinfo(h->curl, CURLINFO_REDIRECT_URL, &next);
		if (ret->status < 300 || ret->status > 399 || !next)
			return 0;
		free(url);
		url = strdup(next);
	}
	return url ? err_say(e, ELOOP, "more than %d redirects", REGISTRY_REDIRECTS_MAX)
		   : err_set(e, ENOMEM, "asking a registry");
}
