/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/serve_options.c - what `ward serve` is told: options, ward.toml, systemd.
 *
 * Owns:  where ward.toml is looked for, and what an option does to it.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "cmd/common.h"
#include "cmd/serve.h"

static int read_tier(const char *word, enum wall *ret, struct err *e)
{
	if (wall_parse(word, ret) < 0 || *ret == WALL_NONE)
		return err_say(e, EINVAL,
			"--tier '%s' is not a tier: workspace, container, kernel, vm, js or wasm",
			word);
	return 0;
}

static int read_one(char **argv, int *at, struct serve_options *o, struct err *e)
{
	const struct {
		const char *name;
		const char **to;
	} texts[] = { { "--config", &o->config }, { "--domain", &o->domain },
		{ "--tls-cert", &o->tls_cert }, { "--tls-key", &o->tls_key },
		{ "--log", &o->log } };
	const char *value;
	int r;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		r = cmd_value(argv, at, texts[i].name, texts[i].to, e);
		if (r)
			return r;
	}
	r = cmd_value(argv, at, "--tier", &value, e);
	if (r)
		return r < 0 ? r : read_tier(value, &o->tier, e);
	r = cmd_value(argv, at, "--listen", &value, e);
	if (r > 0 && o->listen.count == CONFIG_LISTEN_MAX)
		return err_say(e, E2BIG, "--listen is there more than %d times", CONFIG_LISTEN_MAX);
	if (r > 0)
		o->listen.words[o->listen.count++] = value;
	if (r)
		return r;
	if (str_eq(argv[*at], "--check"))
		o->check = true;
	else if (str_eq(argv[*at], "--stop-sandboxes"))
		o->stop_sandboxes = true;
	else
		return err_say(e, EINVAL, "'%s' is not accepted; see 'ward help serve'", argv[*at]);
	return 0;
}

int serve_options_read(int argc, char **argv, struct serve_options *ret, struct err *e)
{
	for (int i = 1; i < argc; i++) {
		int r = read_one(argv, &i, ret, e);

		if (r < 0)
			return r;
	}
	return 0;
}

/* Root's is in /etc; anybody else's where their other configuration is. */
static int default_place(char out[WARD_PATH_MAX])
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (geteuid() == 0)
		return str_copy(out, WARD_PATH_MAX, "/etc/ward/ward.toml");
	if (xdg && xdg[0] == '/')
		return str_fmt(out, WARD_PATH_MAX, "%s/ward/ward.toml", xdg);
	if (home && home[0] == '/')
		return str_fmt(out, WARD_PATH_MAX, "%s/.config/ward/ward.toml", home);
	return -ENOENT;
}

static int load(const struct serve_options *o, struct config **ret, struct err *e)
{
	char path[WARD_PATH_MAX];
	int r;

	if (o->config)
		return config_load(o->config, ret, e);
	r = default_place(path);
	if (r == 0)
		r = config_load(path, ret, e);
	return r == -ENOENT ? config_defaults(ret, e) : r;
}

static int put(char **at, const char *text, struct err *e)
{
	char *copy = strdup(text);

	if (!copy)
		return err_set(e, ENOMEM, "reading the options");
	free(*at);
	*at = copy;
	return 0;
}

static int put_listen(const struct serve_options *o, struct config *c, struct err *e)
{
	unsigned count = o->listen.count;
	static const char *const standard[] = { "127.0.0.1:7700" };
	const char *const *words = o->listen.words;
	int r = 0;

	if (!count && c->listen.count)
		return 0;
	if (!count) {
		words = standard;
		count = 1;
	}
	for (unsigned i = 0; i < c->listen.count; i++)
		free(c->listen.items[i]);
	memset(&c->listen, 0, sizeof(c->listen));
	for (unsigned i = 0; r == 0 && i < count; i++)
		r = put(&c->listen.items[c->listen.count++], words[i], e);
	return r;
}

static int put_over(const struct serve_options *o, struct config *c, struct err *e)
{
	static const char *const levels[] = { "debug", "info", "warn", "error" };
	bool known = false;
	int r = put_listen(o, c, e);

	for (size_t i = 0; i < sizeof(levels) / sizeof(levels[0]); i++)
		known = known || (o->log && str_eq(o->log, levels[i]));
	if (o->log && !known)
		return err_say(e, EINVAL, "--log '%s' is not accepted: debug, info, warn or error",
			o->log);
	if (!o->tls_cert != !o->tls_key)
		return err_say(e, EINVAL, "--tls-cert and --tls-key come together");
	if (r == 0 && o->log)
		r = put(&c->log, o->log, e);
	if (r == 0 && o->domain)
		r = put(&c->domain, o->domain, e);
	if (r == 0 && o->tls_cert)
		r = put(&c->tls_cert, o->tls_cert, e);
	if (r == 0 && o->tls_key)
		r = put(&c->tls_key, o->tls_key, e);
	return r;
}

static int check_domain(const char *text, struct err *e)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.");
	uint64_t port;

	if (n && (!text[n] || (text[n] == ':' && parse_u64(text + n + 1, 1, 65535, &port) == 0)))
		return 0;
	return err_say(
		e, EINVAL, "the domain '%s' is not NAME[:PORT], such as ward.example:7700", text);
}

static int check_listen(const struct config_list *list, struct err *e)
{
	for (unsigned i = 0; i < list->count; i++) {
		char host[64];
		uint16_t port;
		int r = serve_address(list->items[i], host, &port, e);

		if (r < 0)
			return r;
		for (unsigned k = 0; port && k < i; k++)
			if (str_eq(list->items[k], list->items[i]))
				return err_say(e, EINVAL, "'%s' is to be listened on twice",
					list->items[i]);
	}
	return 0;
}

int serve_config(const struct serve_options *o, struct config **ret, struct err *e)
{
	struct config *c = NULL;
	int r = load(o, &c, e);

	if (r < 0)
		return r;
	assert(c);
	r = put_over(o, c, e);
	if (r == 0 && c->domain)
		r = check_domain(c->domain, e);
	if (r == 0)
		r = check_listen(&c->listen, e);
	if (r < 0) {
		config_destroy(c);
		return r;
	}
	*ret = c;
	return 0;
}

int serve_address(const char *text, char host[64], uint16_t *ret_port, struct err *e)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	struct in6_addr in; /* room for both kinds */
	uint64_t port;

	if (!len || parse_u64(colon + 1, 0, 65535, &port) < 0)
		return err_say(e, EINVAL, "'%s' is not HOST:PORT, such as 127.0.0.1:7700", text);
	if (text[0] == '[' && text[len - 1] == ']' && len > 2) {
		text++;
		len -= 2;
	}
	if (len >= 64)
		return err_say(e, EINVAL, "the host in '%s' is too long", text);
	memcpy(host, text, len);
	host[len] = '\0';
	/* A name would be looked up; an address says what is meant. */
	if (str_eq(host, "localhost"))
		str_copy(host, 64, "127.0.0.1");
	if (inet_pton(AF_INET, host, &in) != 1 && inet_pton(AF_INET6, host, &in) != 1)
		return err_say(
			e, EINVAL, "the host in '%s' is no address, such as 127.0.0.1", text);
	*ret_port = (uint16_t)port;
	return 0;
}

void serve_notify(const char *what)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	own_fd int fd = -1;
	size_t len = path ? strlen(path) : 0;

	if (!len || len >= sizeof(to.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(to.sun_path, path, len);
	if (path[0] == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && sendto(fd, what, strlen(what), MSG_NOSIGNAL, (struct sockaddr *)&to,
			       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		return; /* systemd will find out by itself */
}
