/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/client.c - the daemon, for commands.
 *
 * Owns:  one libcurl handle on ward.sock.
 * Rules: only ever the socket in the state directory: no proxy, no address from the environment.
 */
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/client.h"
#include "front/limits.h"

enum { ANSWER_MAX = 256 << 20 };

struct client {
	CURL *curl;
	char socket[WARD_PATH_MAX];
	char tenant[80];
};

static int is_there(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	own_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (str_copy(to.sun_path, sizeof(to.sun_path), path) < 0)
		return -ENAMETOOLONG;
	return connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ? -errno : 0;
}

int client_open(const struct globals *g, const char *tenant, struct client **ret, struct err *e)
{
	own_mem struct client *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return err_set(e, ENOMEM, "talking to the daemon");
	if (str_fmt(c->socket, sizeof(c->socket), "%s/ward.sock", g->state_dir) < 0 ||
		str_fmt(c->tenant, sizeof(c->tenant), "X-Ward-Tenant: %s",
			tenant ? tenant : "default") < 0)
		return err_say(e, ENAMETOOLONG, "the state directory or the tenant is too long");
	r = is_there(c->socket);
	if (r == -EACCES || r == -EPERM)
		return err_say(e, -r, "the daemon at %s belongs to another user", c->socket);
	if (r < 0)
		return err_say(e, ENOTCONN, "no daemon runs on %s; start one with 'ward serve'",
			g->state_dir);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		return err_set(e, ENOMEM, "starting libcurl");
	c->curl = curl_easy_init();
	if (!c->curl)
		return err_set(e, ENOMEM, "starting libcurl");
	*ret = take_ptr(&c);
	return 0;
}

void client_close(struct client *c)
{
	if (!c)
		return;
	curl_easy_cleanup(c->curl);
	curl_global_cleanup();
	free(c);
}

static int set_up(struct client *c, CURL *curl, const char *method, const char *path,
	struct curl_slist *headers)
{
	own_mem char *url = NULL;
	int bad = 0;

	if (asprintf(&url, "http://ward%s", path) < 0) {
		url = NULL;
		return -ENOMEM;
	}
	bad |= curl_easy_setopt(curl, CURLOPT_URL, url);
	bad |= curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, c->socket);
	bad |= curl_easy_setopt(curl, CURLOPT_PROXY, "");
	bad |= curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
	bad |= curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
	bad |= curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
	bad |= curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	return bad ? -EINVAL : 0;
}

static struct curl_slist *make_headers(const struct client *c, const char *type)
{
	const char *lines[] = { c->tenant, "Expect:", type };
	struct curl_slist *list = NULL, *more;

	for (size_t i = 0; i < 3; i++) {
		if (!lines[i])
			continue;
		more = curl_slist_append(list, lines[i]);
		if (!more) {
			curl_slist_free_all(list);
			return NULL;
		}
		list = more;
	}
	return list;
}

static size_t keep(char *data, size_t size, size_t count, void *ctx)
{
	struct buf *b = ctx;

	buf_add(b, data, size * count);
	return b->bad ? 0 : size * count;
}

int client_error(long status, const char *body, size_t len, struct err *e)
{
	own_jin struct jin *doc = NULL;
	const char *message = NULL;
	char shown[300];
	int code = status == 404 ? ENOENT : EREMOTEIO;

	if (body && jin_parse(body, len, FRONT_JSON_MAX, &doc, NULL) == 0 &&
		jin_str(doc, "message", &message, NULL) > 0)
		return err_say(e, code, "%s", str_show(shown, sizeof(shown), message));
	return err_say(e, code, "the daemon answered %ld", status);
}

int client_call(struct client *c, const char *method, const char *path, const struct buf *body,
	struct jin **ret, struct err *e)
{
	struct curl_slist *headers = make_headers(c, "Content-Type: application/json");
	own_buf struct buf answer = { 0 };
	long status = 0;
	CURLcode code;
	int r;

	buf_init(&answer, ANSWER_MAX);
	if (!headers)
		return err_set(e, ENOMEM, "asking the daemon");
	curl_easy_reset(c->curl);
	r = set_up(c, c->curl, method, path, headers);
	if (r == 0 && body) {
		curl_easy_setopt(c->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
		curl_easy_setopt(c->curl, CURLOPT_POSTFIELDS, body->data);
	}
	curl_easy_setopt(c->curl, CURLOPT_WRITEFUNCTION, keep);
	curl_easy_setopt(c->curl, CURLOPT_WRITEDATA, &answer);
	code = r < 0 ? CURLE_FAILED_INIT : curl_easy_perform(c->curl);
	curl_slist_free_all(headers);
	if (code != CURLE_OK)
		return err_say(e, EIO, "asking the daemon: %s", curl_easy_strerror(code));
	curl_easy_getinfo(c->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status < 200 || status > 299)
		return client_error(status, answer.data, answer.len, e);
	if (!ret)
		return 0;
	return jin_parse(
		answer.len ? answer.data : "{}", answer.len ? answer.len : 2, ANSWER_MAX, ret, e);
}

int client_easy(struct client *c, const char *method, const char *path, const char *type,
	struct client_easy *ret, struct err *e)
{
	*ret = (struct client_easy){ curl_easy_init(), make_headers(c, type) };
	if (ret->curl && ret->headers && set_up(c, ret->curl, method, path, ret->headers) == 0)
		return 0;
	client_easy_free(ret);
	return err_set(e, ENOMEM, "asking the daemon");
}

void client_easy_free(struct client_easy *h)
{
	curl_easy_cleanup(h->curl);
	curl_slist_free_all(h->headers);
	*h = (struct client_easy){ 0 };
}

int client_path(char *out, size_t cap, const char *id, const char *rest, struct err *e)
{
	char shown[60];

	if (!*id || id[strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789")])
		return err_say(e, EINVAL, "'%s' is no sandbox id: 'ward ls' shows them",
			str_show(shown, sizeof(shown), id));
	if (str_fmt(out, cap, "/ward/v1/sandboxes/%s%s", id, rest) < 0)
		return err_say(e, ENAMETOOLONG, "the id is too long");
	return 0;
}

void client_escape(struct buf *path, const char *value)
{
	for (; *value; value++) {
		unsigned char ch = (unsigned char)*value;

		if ((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
			(ch >= '0' && ch <= '9') || strchr("-._~/", ch))
			buf_add(path, value, 1);
		else
			buf_add_fmt(path, "%%%02X", ch);
	}
}

void client_query(struct buf *path, char first, const char *key, const char *value)
{
	buf_add_fmt(path, "%c%s=", first, key);
	client_escape(path, value);
}
