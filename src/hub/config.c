/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/config.c - what the keys of ward.toml mean.
 *
 * Owns:  the table of keys, with what each accepts; the defaults.
 * Rules: a key that is not in the table is an error, so that a slip of the pen does not open
 *        anything. Nothing outside the file is looked at here; serve checks paths when it uses
 * them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/ckd.h"
#include "base/own.h"
#include "base/byterate.h"
#include "base/parse.h"
#include "base/str.h"
#include "hub/config.h"
#include "hub/limits.h"
#include "hub/toml.h"

enum kind {
	K_TEXT,   /* char * */
	K_PATH,   /* char *, absolute */
	K_BOOL,   /* bool */
	K_COUNT,  /* int64_t */
	K_PIDS,   /* uint32_t */
	K_SIZE,   /* uint64_t, bytes */
	K_BYTES,  /* int64_t, bytes */
	K_CPUS,   /* uint32_t, thousandths */
	K_CPUS64, /* int64_t, thousandths */
	K_TIME,   /* int64_t, ms */
	K_RATE,   /* int64_t, per 1000 s */
	K_SPEED,  /* uint64_t[2]: bytes and requests a second */
	K_TIME64, /* uint64_t, ms */
	K_TIER,   /* enum wall */
	K_NET,    /* int */
	K_LOG,    /* char *, one of the levels */
	K_MANY,   /* bool: "one" or "many" */
	K_LISTEN, /* struct config_list of addresses */
	K_PATHS,  /* struct config_list of absolute paths */
};

struct key {
	const char *table, *key;
	enum kind kind;
	size_t at;
	uint64_t min, max;
};

#define AT(f) offsetof(struct config, f)
#define DAY_MS (24ull * 3600 * 1000)

static const struct key keys[] = {
	/* clang-format off */
	{ "serve", "listen", K_LISTEN, AT(listen), 0, 0 },
	{ "serve", "domain", K_TEXT, AT(domain), 1, 200 },
	{ "serve", "tls_cert", K_PATH, AT(tls_cert), 0, 0 },
	{ "serve", "tls_key", K_PATH, AT(tls_key), 0, 0 },
	{ "serve", "log", K_LOG, AT(log), 0, 0 },
	{ "serve", "grace", K_TIME, AT(grace_ms), 0, 3600 * 1000 },
	{ "serve", "tenants", K_MANY, AT(tenants_many), 0, 0 },
	{ "serve", "sandboxes", K_COUNT, AT(boxes_max), 1, 4096 },

	{ "sandbox", "template", K_TEXT, AT(template), 1, TEMPLATE_NAME_MAX },
	{ "sandbox", "timeout_max", K_TIME, AT(timeout_max_ms), 1000, 3650 * DAY_MS },
	{ "sandbox", "allow_no_timeout", K_BOOL, AT(allow_no_timeout), 0, 0 },

	{ "quota", "sandboxes", K_COUNT, AT(quota_sandboxes), 0, 1 << 20 },
	{ "quota", "memory", K_BYTES, AT(quota_memory), 0, 1ull << 50 },
	{ "quota", "cpus", K_CPUS64, AT(quota_cpu_milli), 0, 1000000000 },
	{ "quota", "creates", K_RATE, AT(quota_creates_micro), 0, 0 },
	{ "quota", "snapshots", K_COUNT, AT(quota_snapshots), 0, 1 << 20 },
	{ "quota", "snapshot_disk", K_BYTES, AT(quota_snapshot_disk), 0, 1ull << 60 },

	{ "mounts", "roots", K_PATHS, AT(roots), 0, 0 },
	{ "mounts", "writable_roots", K_PATHS, AT(roots_rw), 0, 0 },

	{ "keep", "count", K_COUNT, AT(keep_count), 0, 1000000 },
	{ "keep", "age", K_TIME, AT(keep_age_ms), 0, 3650 * DAY_MS },

	{ "snapshot", "prefetch", K_BOOL, AT(snapshot_prefetch), 0, 0 },

	{ "pool", "idle", K_TIME, AT(pool_idle_ms), 1000, 3650 * DAY_MS },
	{ "pool", "empty", K_COUNT, AT(pool_empty), 0, HUB_EMPTY_MAX },
	/* clang-format on */
};

#undef AT
#define AT(f) offsetof(struct config_sandbox, f)

/* In [sandbox] and in [template.NAME]. */
static const struct key sandbox_keys[] = {
	/* clang-format off */
	{ NULL, "tier", K_TIER, AT(tier), 0, 0 },
	{ NULL, "accept_risk", K_TEXT, AT(accept_risk), 1, 300 },
	{ NULL, "memory", K_SIZE, AT(limits.memory_bytes), 1 << 20, 1ull << 50 },
	{ NULL, "disk", K_SIZE, AT(limits.disk_bytes), 1 << 20, 1ull << 50 },
	{ NULL, "cpus", K_CPUS, AT(limits.cpu_milli), 10, 1000000 },
	{ NULL, "pids", K_PIDS, AT(limits.pids), 4, 4194304 },
	{ NULL, "io_rate", K_SPEED, AT(limits.io_rate), 0, 0 },
	{ NULL, "boot_timeout", K_TIME64, AT(limits.boot_ms), 1000, 3600 * 1000 },
	{ NULL, "net", K_NET, AT(net), 0, 0 },
	{ NULL, "timeout", K_TIME, AT(timeout_ms), 1000, 3650 * DAY_MS },
	{ NULL, "user", K_TEXT, AT(user), 1, 200 },
	{ NULL, "workdir", K_PATH, AT(workdir), 0, 0 },
	/* clang-format on */
};

static int wrong(const struct toml_entry *en, struct err *e, const char *accepted)
{
	return err_say(e, EINVAL, "'%s' accepts %s", en->key, accepted);
}

static int put_text(char **at, const char *text, struct err *e)
{
	char *copy = strdup(text);

	if (!copy)
		return err_set(e, ENOMEM, "reading the configuration");
	free(*at);
	*at = copy;
	return 0;
}

static bool is_path(const char *text)
{
	return text[0] == '/' && !strstr(text, "/../") && !strstr(text, "/./") &&
	       strlen(text) < WARD_PATH_MAX;
}

int parse_rate(const char *text, int64_t *ret_micro)
{
	static const struct {
		const char *unit;
		uint64_t seconds;
	} units[] = { { "/s", 1 }, { "/m", 60 }, { "/h", 3600 } };
	char number[32];
	size_t len = strcspn(text, "/");
	uint64_t milli;

	if (len >= sizeof(number))
		return -EINVAL;
	memcpy(number, text, len);
	number[len] = '\0';
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		if (!str_eq(text + len, units[i].unit))
			continue;
		if (parse_milli(number, 0, 1000000000, &milli) < 0)
			return -EINVAL;
		*ret_micro = (int64_t)(milli * 1000 / units[i].seconds);
		return 0;
	}
	return -EINVAL;
}

static int put_list(struct config_list *l, const struct toml_entry *en, bool paths, struct err *e)
{
	const char *one[1] = { en->value.text };
	bool single = en->value.kind == TOML_STRING;
	const char *const *items = single ? one : en->value.items;
	unsigned count = single ? 1 : en->value.count;
	unsigned max = paths ? CONFIG_ROOTS_MAX : CONFIG_LISTEN_MAX;

	if (en->value.kind != TOML_STRING && en->value.kind != TOML_ARRAY)
		return wrong(en, e, paths ? "absolute paths" : "addresses as HOST:PORT");
	if (count > max)
		return err_say(e, E2BIG, "'%s' has more than %u items", en->key, max);
	for (unsigned i = 0; i < l->count; i++)
		free(l->items[i]);
	memset(l, 0, sizeof(*l));
	for (unsigned i = 0; i < count; i++) {
		int r = 0;

		if (paths && !is_path(items[i]))
			return wrong(en, e, "absolute paths, without '..'");
		if (!paths && !strrchr(items[i], ':'))
			return wrong(en, e, "addresses as HOST:PORT");
		r = put_text(&l->items[l->count], items[i], e);
		if (r < 0)
			return r;
		l->count++;
	}
	return 0;
}

static int put_word(const struct key *k, const struct toml_entry *en, void *at, struct err *e)
{
	static const char *const nets[] = {
		[NET_NONE] = "none", [NET_LOOPBACK] = "loopback", [NET_HOST] = "host"
	};
	static const char *const levels[] = { "debug", "info", "warn", "error" };
	const char *text = en->value.text;

	if (k->kind == K_TIER)
		return wall_parse(text, at) < 0 || *(enum wall *)at == WALL_NONE
			       ? wrong(en, e, "the name of a tier: 'ward doctor' lists them")
			       : 0;
	if (k->kind == K_MANY) {
		*(bool *)at = str_eq(text, "many");
		return str_eq(text, "many") || str_eq(text, "one")
			       ? 0
			       : wrong(en, e, "\"one\" or \"many\"");
	}
	if (k->kind == K_NET) {
		for (size_t i = 0; i < ARRAY_LEN(nets); i++) {
			if (str_eq(text, nets[i])) {
				*(int *)at = (int)i;
				return 0;
			}
		}
		return wrong(en, e, "\"none\", \"loopback\" or \"host\"");
	}
	for (size_t i = 0; i < ARRAY_LEN(levels); i++)
		if (str_eq(text, levels[i]))
			return put_text(at, text, e);
	return wrong(en, e, "\"debug\", \"info\", \"warn\" or \"error\"");
}

static int put_amount(const struct key *k, const struct toml_entry *en, void *at, struct err *e)
{
	char digits[32];
	const char *text = en->value.text;
	uint64_t v = 0;
	int64_t rate = 0;
	int r;

	/* 2 and "2" are the same: a number is read by the reader that its kind has. */
	if (en->value.kind == TOML_NUMBER) {
		str_fmt(digits, sizeof(digits), "%lld", (long long)en->value.number);
		text = digits;
	}
	switch (k->kind) {
	case K_SIZE:
	case K_BYTES:
		r = parse_size(text, k->min, k->max, &v);
		*(uint64_t *)at = v;
		return r < 0 ? wrong(en, e, "a size such as \"512M\", within its bounds") : 0;
	case K_CPUS:
	case K_CPUS64:
		r = parse_milli(text, k->min, k->max, &v);
		if (k->kind == K_CPUS)
			*(uint32_t *)at = (uint32_t)v;
		else
			*(int64_t *)at = (int64_t)v;
		return r < 0 ? wrong(en, e, "a number of CPUs such as 2 or \"0.5\"") : 0;
	case K_TIME:
	case K_TIME64:
		r = parse_duration(text, k->min, k->max, &v);
		if (k->kind == K_TIME)
			*(int64_t *)at = (int64_t)v;
		else
			*(uint64_t *)at = v;
		return r < 0 ? wrong(en, e,
				       "a time such as \"90s\", \"5m\" or \"24h\", within "
				       "its bounds")
			     : 0;
	case K_SPEED:
		r = parse_byte_rate(text, at);
		return r < 0 ? wrong(en, e,
				       "bytes, or bytes and requests, a second, such as "
				       "\"10M\" or \"10M:500\" (at least 64K:10)")
			     : 0;
	case K_RATE:
		r = parse_rate(text, &rate);
		*(int64_t *)at = rate;
		return r < 0 ? wrong(en, e, "a rate such as \"10/s\" or \"30/m\"") : 0;
	default:
		r = parse_u64(text, k->min, k->max, &v);
		if (k->kind == K_PIDS)
			*(uint32_t *)at = (uint32_t)v;
		else
			*(int64_t *)at = (int64_t)v;
		return r < 0 ? err_say(e, EINVAL, "'%s' accepts a number from %llu to %llu",
				       en->key, (unsigned long long)k->min,
				       (unsigned long long)k->max)
			     : 0;
	}
}

static int put(const struct key *k, const struct toml_entry *en, void *base, struct err *e)
{
	void *at = (char *)base + k->at;
	bool text = en->value.kind == TOML_STRING;

	switch (k->kind) {
	case K_BOOL:
		*(bool *)at = en->value.truth;
		return en->value.kind == TOML_BOOL ? 0 : wrong(en, e, "true or false");
	case K_LISTEN:
	case K_PATHS:
		return put_list(at, en, k->kind == K_PATHS, e);
	case K_TEXT:
		if (!text || strlen(en->value.text) < k->min || strlen(en->value.text) > k->max)
			return err_say(e, EINVAL, "'%s' accepts a string of %llu to %llu bytes",
				en->key, (unsigned long long)k->min, (unsigned long long)k->max);
		return put_text(at, en->value.text, e);
	case K_PATH:
		return text && is_path(en->value.text) ? put_text(at, en->value.text, e)
						       : wrong(en, e, "an absolute path");
	case K_TIER:
	case K_NET:
	case K_LOG:
	case K_MANY:
		return text ? put_word(k, en, at, e) : wrong(en, e, "a string");
	default:
		if (!text && en->value.kind != TOML_NUMBER)
			return wrong(en, e, "a string or a number");
		return put_amount(k, en, at, e);
	}
}

static struct config_template *template_at(struct config *c, const char *name, struct err *e)
{
	struct config_template *t;

	for (unsigned i = 0; i < c->template_count; i++)
		if (str_eq(c->templates[i].name, name))
			return &c->templates[i];
	if (c->template_count == CONFIG_TEMPLATES_MAX) {
		err_say(e, E2BIG, "more than %d templates", CONFIG_TEMPLATES_MAX);
		return NULL;
	}
	t = &c->templates[c->template_count];
	*t = (struct config_template){ .says = { .net = -1, .timeout_ms = -1 } };
	if (put_text(&t->name, name, e) < 0)
		return NULL;
	c->template_count++;
	return t;
}

static int put_alias(struct config *c, const struct toml_entry *en, struct err *e)
{
	struct config_alias *a = NULL;
	int r;

	if (en->value.kind != TOML_STRING || !en->value.text[0] ||
		strlen(en->value.text) > TEMPLATE_NAME_MAX)
		return wrong(en, e, "the name of a template");
	for (unsigned i = 0; i < c->alias_count; i++)
		if (str_eq(c->aliases[i].from, en->key))
			return put_text(&c->aliases[i].to, en->value.text, e);
	if (c->alias_count == CONFIG_ALIASES_MAX)
		return err_say(e, E2BIG, "more than %d aliases", CONFIG_ALIASES_MAX);
	a = &c->aliases[c->alias_count];
	r = put_text(&a->from, en->key, e);
	if (r == 0)
		r = put_text(&a->to, en->value.text, e);
	if (r == 0)
		c->alias_count++;
	return r;
}

static int put_sandbox(
	struct config_sandbox *s, const struct toml_entry *en, const char *where, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(sandbox_keys); i++)
		if (str_eq(sandbox_keys[i].key, en->key))
			return put(&sandbox_keys[i], en, s, e);
	return err_say(
		e, EINVAL, "'%s' is not a key of [%s]; ward.toml(5) lists them", en->key, where);
}

static int each(void *arg, const struct toml_entry *en, struct err *e)
{
	struct config *c = arg;
	struct config_template *t;
	bool known = false;

	if (str_eq(en->table, "template") && en->name[0]) {
		t = template_at(c, en->name, e);
		return t ? put_sandbox(&t->says, en, "template.NAME", e) : -EINVAL;
	}
	if (en->name[0])
		return err_say(
			e, EINVAL, "[%s.%s]: only [template.NAME] has a name", en->table, en->name);
	if (str_eq(en->table, "alias"))
		return put_alias(c, en, e);
	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		if (!str_eq(keys[i].table, en->table))
			continue;
		known = true;
		if (str_eq(keys[i].key, en->key))
			return put(&keys[i], en, c, e);
	}
	if (str_eq(en->table, "sandbox"))
		return put_sandbox(&c->sandbox, en, "sandbox", e);
	if (known)
		return err_say(e, EINVAL, "'%s' is not a key of [%s]; ward.toml(5) lists them",
			en->key, en->table);
	return en->table[0] ? err_say(e, EINVAL, "there is no table [%s]; ward.toml(5) lists them",
				      en->table)
			    : err_say(e, EINVAL, "'%s' stands before the first table", en->key);
}

static int check(const struct config *c, struct err *e)
{
	if (!c->tls_cert != !c->tls_key)
		return err_say(e, EINVAL, "tls_cert and tls_key come together");
	if (c->sandbox.timeout_ms > c->timeout_max_ms)
		return err_say(e, EINVAL, "[sandbox] timeout is above timeout_max");
	for (unsigned i = 0; i < c->template_count; i++)
		if (c->templates[i].says.timeout_ms > c->timeout_max_ms)
			return err_say(e, EINVAL, "[template.%s] timeout is above timeout_max",
				c->templates[i].name);
	return 0;
}

int config_defaults(struct config **ret, struct err *e)
{
	static const char *const aliases[] = { "base", "code-interpreter-v1", "mcp-gateway" };
	struct config *c = calloc(1, sizeof(*c));
	int r = 0;

	if (!c)
		return err_set(e, ENOMEM, "reading the configuration");
	c->grace_ms = 10 * 1000;
	c->timeout_max_ms = DAY_MS;
	c->sandbox = (struct config_sandbox){ .net = NET_LOOPBACK, .timeout_ms = 300 * 1000 };
	c->boxes_max = 2000;
	c->quota_snapshots = 64;
	c->quota_snapshot_disk = 64ll << 30;
	c->keep_count = 1000;
	c->keep_age_ms = 7 * DAY_MS;
	c->pool_idle_ms = 600 * 1000;
	c->pool_empty = 8;
	c->snapshot_prefetch = true;
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(aliases); i++) {
		struct toml_entry en = { .key = aliases[i],
			.value = { .kind = TOML_STRING, .text = "host" } };

		r = put_alias(c, &en, e);
	}
	if (r == 0)
		r = put_text(&c->template, "base", e);
	if (r == 0)
		r = put_text(&c->log, "info", e);
	if (r < 0) {
		config_destroy(c);
		return r;
	}
	*ret = c;
	return 0;
}

int config_read(const char *file, const char *text, size_t len, struct config **ret, struct err *e)
{
	struct config *c = NULL;
	int r = config_defaults(&c, e);

	if (r < 0)
		return r;
	r = toml_read(file, text, len, each, c, e);
	if (r == 0) {
		r = check(c, e);
		if (r < 0)
			err_wrap(e, r, "%s", file);
	}
	if (r < 0) {
		config_destroy(c);
		return r;
	}
	*ret = c;
	return 0;
}

static int read_file(const char *file, struct buf *out, struct err *e)
{
	own_fd int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat st;
	char piece[8192];
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "opening '%s'", file);
	if (!S_ISREG(st.st_mode))
		return err_say(e, EINVAL, "'%s' is not a file", file);
	if ((st.st_uid != geteuid() && st.st_uid != 0) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return err_say(e, EPERM,
			"'%s' can be changed by others: it must belong to root or the caller, and "
			"be writable by nobody else",
			file);
	while ((n = read(fd, piece, sizeof(piece))) > 0)
		buf_add(out, piece, (size_t)n);
	if (n < 0)
		return err_set(e, errno, "reading '%s'", file);
	return out->bad ? err_say(e, E2BIG, "'%s' has more than %d bytes", file, TOML_BYTES_MAX)
			: 0;
}

int config_load(const char *file, struct config **ret, struct err *e)
{
	own_buf struct buf b;
	int r;

	buf_init(&b, TOML_BYTES_MAX + 1);
	r = read_file(file, &b, e);
	return r < 0 ? r : config_read(file, b.data ? b.data : "", b.len, ret, e);
}

static void sandbox_done(struct config_sandbox *s)
{
	free(s->accept_risk);
	free(s->user);
	free(s->workdir);
}

static void list_done(struct config_list *l)
{
	for (unsigned i = 0; i < l->count; i++)
		free(l->items[i]);
}

void config_destroy(struct config *c)
{
	if (!c)
		return;
	list_done(&c->listen);
	list_done(&c->roots);
	list_done(&c->roots_rw);
	free(c->domain);
	free(c->tls_cert);
	free(c->tls_key);
	free(c->log);
	free(c->template);
	sandbox_done(&c->sandbox);
	for (unsigned i = 0; i < c->template_count; i++) {
		free(c->templates[i].name);
		sandbox_done(&c->templates[i].says);
	}
	for (unsigned i = 0; i < c->alias_count; i++) {
		free(c->aliases[i].from);
		free(c->aliases[i].to);
	}
	free(c);
}

const char *config_alias(const struct config *c, const char *name)
{
	for (unsigned i = 0; i < c->alias_count; i++)
		if (str_eq(c->aliases[i].from, name))
			return c->aliases[i].to;
	return name;
}

void config_for(const struct config *c, const char *template, struct config_sandbox *ret,
	const char **ret_by)
{
	const struct config_sandbox *t = NULL;

	*ret = c->sandbox;
	*ret_by = ret->tier != WALL_NONE ? "ward.toml [sandbox] tier" : "";
	for (unsigned i = 0; i < c->template_count; i++)
		if (str_eq(c->templates[i].name, template))
			t = &c->templates[i].says;
	if (!t)
		return;
	if (t->tier != WALL_NONE) {
		ret->tier = t->tier;
		ret->accept_risk = t->accept_risk;
		*ret_by = "ward.toml [template] tier";
	}
	if (t->limits.memory_bytes)
		ret->limits.memory_bytes = t->limits.memory_bytes;
	if (t->limits.disk_bytes)
		ret->limits.disk_bytes = t->limits.disk_bytes;
	if (t->limits.cpu_milli)
		ret->limits.cpu_milli = t->limits.cpu_milli;
	if (t->limits.pids)
		ret->limits.pids = t->limits.pids;
	if (t->limits.io_rate[0])
		memcpy(ret->limits.io_rate, t->limits.io_rate, sizeof(ret->limits.io_rate));
	if (t->limits.boot_ms)
		ret->limits.boot_ms = t->limits.boot_ms;
	if (t->net >= 0)
		ret->net = t->net;
	if (t->timeout_ms >= 0)
		ret->timeout_ms = t->timeout_ms;
	if (t->user)
		ret->user = t->user;
	if (t->workdir)
		ret->workdir = t->workdir;
}
