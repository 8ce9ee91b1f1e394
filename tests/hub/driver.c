/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/hub/driver.c - the hub without a front: verbs as lines on standard input, answers as JSON
 * lines on standard output. Can kill itself at the n-th moment at which a crash could hurt, or
 * ("hold N", 0: not any more) stop there once, say so, and go on with SIGCONT.
 *
 *	driver STATE WARD [--tier TIER] [--crash N | --count] [--config FILE]
 *
 * A line is a number, a verb and words: "7 create meta.k=v timeout=60000". Answers carry the
 * number; several lines may be under way.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "hub/config.h"
#include "hub/hub.h"
#include "loop/loop.h"
#include "sup/link.h"

enum { LINE_MAX_ = 65536, WORDS_MAX = 256 };

struct ask;

struct driver {
	struct loop *loop;
	struct hub *hub;
	struct loop_fd in;
	struct loop_timer wait_ready;
	char line[LINE_MAX_];
	size_t len;
	unsigned long crash, hold, points;
	bool count;
	struct ask *timed;
	struct hub_events *events;
};

/* When the hub was at its points, for "first". */
struct stamp {
	const char *what;
	uint64_t ns;
};
enum { STAMPS_MAX = 16 };

struct ask {
	struct driver *d;
	long number;
	struct hub_caller who;
	char *text; /* exec: what it wrote */
	size_t len;
	char id[64], argv2[4096]; /* id: of the sandbox that was made for the command */
	bool detach, from_pool, failed;
	uint64_t began_ns, created_ns, opened_ns;
	struct stamp stamps[STAMPS_MAX];
	unsigned stamp_count;
	uint32_t pid;
};

static void put(struct buf *b)
{
	buf_add_str(b, "\n");
	if (write(1, b->data, b->len) < 0)
		exit(3);
	buf_done(b);
}

static void answer(const struct ask *a, struct buf *b)
{
	buf_init(b, SIZE_MAX);
	json_open(b, NULL);
	json_i64(b, "n", a->number);
	json_u64(b, "us", (clock_ns() - a->began_ns) / 1000);
}

static void put_fail(const struct ask *a, const struct hub_fail *f)
{
	struct buf b;

	answer(a, &b);
	json_str(&b, "fail", hub_code_name(f->code));
	json_i64(&b, "http", hub_code_http(f->code));
	json_u64(&b, "retry_after", f->retry_after_s);
	json_str(&b, "msg", f->msg);
	json_close(&b);
	put(&b);
}

static void add_box(struct buf *b, const struct hub_box *box)
{
	json_str(b, "id", box->id);
	json_str(b, "state", hub_state_name(box->state));
	json_str(b, "reason", box->reason);
	json_str(b, "tenant", box->tenant);
	json_str(b, "template", box->template_asked);
	json_str(b, "tier", wall_name(box->tier));
	json_str(b, "warning", box->warning);
	json_i64(b, "started_us", box->started_us);
	json_i64(b, "end_us", box->end_us);
	json_bool(b, "from_pool", box->from_pool);
	json_u64(b, "memory", box->limits.memory_bytes);
	json_u64(b, "pids", box->limits.pids);
	json_str(b, "token", box->envd_token);
	json_str(b, "traffic", box->traffic_token);
	json_open(b, "metadata");
	for (unsigned i = 0; i < box->metadata_count; i++)
		json_str(b, box->metadata[i].key, box->metadata[i].value);
	json_close(b);
	json_open(b, "env");
	for (unsigned i = 0; i < box->env_count; i++)
		json_str(b, box->env[i].key, box->env[i].value);
	json_close(b);
}

static void on_box(void *arg, const struct hub_fail *f, const struct hub_box *box, bool changed)
{
	struct ask *a = arg;
	struct buf b;

	if (f) {
		put_fail(a, f);
	} else {
		answer(a, &b);
		add_box(&b, box);
		json_bool(&b, "changed", changed);
		json_close(&b);
		put(&b);
	}
	free(a->text);
	free(a);
}

static const char *word(char **words, const char *key)
{
	for (; *words; words++) {
		const char *rest = str_after(*words, key);

		if (rest && *rest == '=')
			return rest + 1;
	}
	return NULL;
}

static int64_t number(char **words, const char *key, int64_t otherwise)
{
	const char *text = word(words, key);

	return text ? strtoll(text, NULL, 10) : otherwise;
}

static unsigned pairs_of(char **words, const char *prefix, struct hub_pair *out)
{
	unsigned n = 0;

	for (; *words; words++) {
		char *rest = (char *)str_after(*words, prefix);
		char *eq = rest ? strchr(rest, '=') : NULL;

		if (!eq)
			continue;
		*eq = '\0';
		out[n++] = (struct hub_pair){ rest, eq + 1 };
	}
	return n;
}

static void create(struct ask *a, char **w, hub_box_fn *fn,
	void (*begin)(void *arg, const struct hub_box *box, struct link *link))
{
	struct hub_pair meta[WORDS_MAX], env[WORDS_MAX];
	struct hub_mount mounts[2];
	struct hub_create req = {
		.template = word(w, "template"),
		.timeout_ms = number(w, "timeout", HUB_TIMEOUT_DEFAULT),
		.on_timeout = word(w, "on") ? HUB_TIMEOUT_PAUSE : HUB_TIMEOUT_KILL,
		.auto_resume = word(w, "auto") != NULL,
		.metadata = meta,
		.env = env,
		.secure = word(w, "secure") != NULL,
		.no_pool = word(w, "cold") != NULL,
		.network.private_ports = word(w, "private") != NULL,
		.mounts = mounts,
		.begin = begin,
	};

	req.limits.memory_bytes = (uint64_t)number(w, "memory", 0);
	req.limits.pids = (uint32_t)number(w, "pids", 0);
	if (word(w, "mount")) {
		mounts[0] = (struct hub_mount){ word(w, "mount"), "/mnt",
			word(w, "rw") ? MOUNT_RW : MOUNT_RO };
		req.mount_count = 1;
	}
	if (word(w, "tier"))
		wall_parse(word(w, "tier"), &req.tier);
	req.metadata_count = pairs_of(w, "meta.", meta);
	req.env_count = pairs_of(w, "env.", env);
	if (word(w, "forget")) {
		hub_forget(hub_create(a->d->hub, &a->who, &req, fn, a));
		free(a);
		return;
	}
	hub_create(a->d->hub, &a->who, &req, fn, a);
}

static void do_create(struct ask *a, char **w)
{
	create(a, w, on_box, NULL);
}

static void put_row(void *arg, const struct hub_box *box)
{
	json_open(arg, NULL);
	add_box(arg, box);
	json_close(arg);
}

static void do_list(struct ask *a, char **w)
{
	struct hub_pair meta[WORDS_MAX];
	struct hub_list q = {
		.limit = (unsigned)number(w, "limit", 0),
		.token = word(w, "token"),
		.ascending = word(w, "asc") != NULL,
		.all_tenants = word(w, "all") != NULL,
		.metadata = meta,
		.states = (unsigned)number(w, "states", 0),
	};
	char token[HUB_TOKEN_MAX + 1];
	struct hub_fail f;
	struct buf b;

	q.metadata_count = pairs_of(w, "meta.", meta);
	answer(a, &b);
	json_array(&b, "list");
	if (hub_list(a->d->hub, &a->who, &q, put_row, &b, token, &f) < 0) {
		buf_done(&b);
		put_fail(a, &f);
	} else {
		json_array_end(&b);
		json_str(&b, "token", token);
		json_close(&b);
		put(&b);
	}
	free(a);
}

static void tell_story(void *arg, const struct hub_story *s)
{
	struct ask *a = arg;
	struct buf b;

	answer(a, &b);
	add_box(&b, &s->box);
	json_array(&b, "steps");
	for (unsigned i = 0; i < s->step_count; i++)
		json_str(&b, NULL, hub_state_name(s->steps[i].to));
	json_array_end(&b);
	if (s->end) {
		json_str(&b, "cause", s->end->cause);
		json_str(&b, "detail", s->end->detail);
		json_strn(&b, "output", s->end->output, s->end->output_len);
		json_u64(&b, "samples", s->end->sample_count);
	}
	json_close(&b);
	put(&b);
}

static void do_why(struct ask *a, char **w)
{
	struct hub_fail f;

	if (hub_why(a->d->hub, &a->who, w[0], tell_story, a, &f) < 0)
		put_fail(a, &f);
	free(a);
}

static void on_opened(void *arg, struct link_call *c, const struct link_opened *o)
{
	struct ask *a = arg;
	struct buf b;

	a->opened_ns = clock_ns();
	a->pid = o->pid;
	if (!a->detach)
		return;
	answer(a, &b);
	json_u64(&b, "pid", o->pid);
	json_close(&b);
	put(&b);
}

static void on_data(void *arg, struct link_call *c, const void *data, size_t len, bool of_stderr)
{
	struct ask *a = arg;

	a->text = realloc(a->text, a->len + len + 1);
	if (!a->text)
		exit(3);
	memcpy(a->text + a->len, data, len);
	a->len += len;
	link_credit(c, len);
}

static void on_done(void *arg, struct link_call *c, const struct link_done *d)
{
	struct ask *a = arg;
	struct buf b;

	answer(a, &b);
	json_i64(&b, "exit", d->exit.signaled ? -d->exit.code : d->exit.code);
	json_strn(&b, "out", a->text ? a->text : "", a->len);
	json_u64(&b, "pid", a->pid);
	json_u64(&b, "opened_us", (a->opened_ns - a->began_ns) / 1000);
	if (a->id[0]) {
		json_str(&b, "id", a->id);
		json_bool(&b, "from_pool", a->from_pool);
		json_u64(&b, "created_us", (a->created_ns - a->began_ns) / 1000);
		json_open(&b, "steps_us");
		for (unsigned i = 0; i < a->stamp_count; i++)
			json_u64(&b, a->stamps[i].what, (a->stamps[i].ns - a->began_ns) / 1000);
		json_close(&b);
	}
	json_close(&b);
	put(&b);
	free(a->text);
	free(a);
}

static void on_failed(void *arg, struct link_call *c, const struct link_failed *fl)
{
	struct ask *a = arg;
	struct hub_fail f;

	hub_fail(&f, HUB_INTERNAL, "%d %s", fl->code, fl->text);
	put_fail(a, &f);
	free(a->text);
	free(a);
}

static const struct link_handler process = {
	.opened = on_opened, .data = on_data, .done = on_done, .failed = on_failed
};

static int start(struct ask *a, struct link *link, struct err *e)
{
	const char *argv[] = { "/bin/sh", "-c", a->argv2, NULL };
	struct link_start s = { .flags = START_NULL_STDIN, .argv = argv };

	return link_start(link, &s, &process, a, NULL, e);
}

static void on_link(void *arg, const struct hub_fail *f, struct link *link)
{
	struct ask *a = arg;
	struct link_who who = { .pid = a->pid };
	struct hub_fail later;
	struct err e = { 0 };
	int r;

	if (f) {
		put_fail(a, f);
		free(a);
		return;
	}
	r = a->pid ? link_attach(link, &who, 0, 0, &process, a, NULL, &e) : start(a, link, &e);
	if (r < 0) {
		hub_fail_err(&later, &e);
		put_fail(a, &later);
		free(a);
	}
}

static void do_exec(struct ask *a, char **w)
{
	size_t at = 0;

	for (char **p = w + 1; *p; p++)
		at += (size_t)snprintf(a->argv2 + at, sizeof(a->argv2) - at, "%s ", *p);
	hub_link(a->d->hub, &a->who, w[0], on_link, a);
}

static void on_first(void *arg, const struct hub_fail *f, const struct hub_box *box, bool changed)
{
	struct ask *a = arg;

	a->created_ns = clock_ns();
	a->d->timed = NULL;
	if (f || a->failed)
		on_box(arg, f, box, changed);
}

static void on_begin(void *arg, const struct hub_box *box, struct link *link)
{
	struct ask *a = arg;

	a->from_pool = box->from_pool;
	str_copy(a->id, sizeof(a->id), box->id);
	a->failed = start(a, link, NULL) < 0;
}

/* Create and the first command in it, with nobody outside to wait for in between. */
static void do_first(struct ask *a, char **w)
{
	const char *run = word(w, "run");

	str_copy(a->argv2, sizeof(a->argv2), run ? run : "true");
	for (char *p = a->argv2; *p; p++)
		*p = *p == '+' ? ' ' : *p;
	a->d->timed = a;
	create(a, w, on_first, on_begin);
}

static void do_start(struct ask *a, char **w)
{
	a->detach = true;
	do_exec(a, w);
}

static void do_attach(struct ask *a, char **w)
{
	a->pid = (uint32_t)strtoul(w[1], NULL, 10);
	hub_link(a->d->hub, &a->who, w[0], on_link, a);
}

static void put_snap(void *arg, const struct hub_snap *snap)
{
	struct buf *b = arg;

	json_open(b, NULL);
	json_str(b, "id", snap->id);
	json_str(b, "name", snap->name);
	json_str(b, "tenant", snap->tenant);
	json_str(b, "sandbox", snap->sandbox);
	json_u64(b, "bytes", snap->bytes);
	json_close(b);
}

static void on_snap(void *arg, const struct hub_fail *fail, const struct hub_snap *snap)
{
	struct ask *a = arg;
	struct buf b;

	if (fail) {
		put_fail(a, fail);
	} else {
		answer(a, &b);
		json_str(&b, "id", snap->id);
		json_u64(&b, "bytes", snap->bytes);
		json_close(&b);
		put(&b);
	}
	free(a);
}

static void on_forked(
	void *arg, const struct hub_fail *fail, const struct hub_forked *list, unsigned count)
{
	struct ask *a = arg;
	struct buf b;

	if (fail) {
		put_fail(a, fail);
	} else {
		answer(a, &b);
		json_array(&b, "forks");
		for (unsigned i = 0; i < count; i++)
			json_str(&b, NULL, list[i].box ? list[i].box->id : list[i].fail->msg);
		json_array_end(&b);
		json_close(&b);
		put(&b);
	}
	free(a);
}

static void do_snapshots(struct ask *a, char **w)
{
	struct hub_snaps q = { .name = word(w, "name"), .all_tenants = word(w, "all") != NULL };
	struct hub_fail f;
	struct buf b;

	answer(a, &b);
	json_array(&b, "list");
	if (hub_snapshots(a->d->hub, &a->who, &q, put_snap, &b, &f) < 0) {
		put_fail(a, &f);
	} else {
		json_array_end(&b);
		json_close(&b);
		put(&b);
	}
	free(a);
}

static void do_unsnap(struct ask *a, char **w)
{
	struct hub_fail f;
	struct buf b;

	if (hub_snapshot_remove(a->d->hub, &a->who, w[0], &f) < 0) {
		put_fail(a, &f);
	} else {
		answer(a, &b);
		json_close(&b);
		put(&b);
	}
	free(a);
}

static void do_verb(struct ask *a, const char *verb, char **w)
{
	struct hub *hub = a->d->hub;
	int64_t ms = number(w, "timeout", HUB_TIMEOUT_DEFAULT);
	struct plan_limits limits = { .memory_bytes = (uint64_t)number(w, "memory", 0),
		.pids = (uint32_t)number(w, "pids", 0) };

	if (str_eq(verb, "kill"))
		hub_kill(hub, &a->who, w[0], on_box, a);
	else if (str_eq(verb, "pause"))
		hub_pause(hub, &a->who, w[0], on_box, a);
	else if (str_eq(verb, "resume"))
		hub_resume(hub, &a->who, w[0], ms, on_box, a);
	else if (str_eq(verb, "connect"))
		hub_connect(hub, &a->who, w[0], ms, on_box, a);
	else if (str_eq(verb, "timeout"))
		hub_set_timeout(hub, &a->who, w[0], ms, on_box, a);
	else if (str_eq(verb, "limits"))
		hub_set_limits(hub, &a->who, w[0], &limits, on_box, a);
	else if (str_eq(verb, "fork"))
		hub_fork(hub, &a->who, w[0], (unsigned)number(w, "count", 1), ms, on_forked, a);
	else if (str_eq(verb, "snapshot"))
		hub_snapshot(hub, &a->who, w[0], word(w, "name"), on_snap, a);
	else
		exit(4);
}

static void do_get(struct ask *a, char **w)
{
	struct hub_box box;
	struct hub_fail f;

	if (hub_find(a->d->hub, &a->who, w[0], &box, &f) == 0) {
		on_box(a, NULL, &box, false);
		return;
	}
	put_fail(a, &f);
	free(a);
}

static void on_metrics(void *arg, const struct hub_fail *f, const struct hub_box *box,
	const struct hub_sample *samples, unsigned count)
{
	struct ask *a = arg;
	struct buf b;

	if (f) {
		put_fail(a, f);
	} else {
		answer(a, &b);
		json_u64(&b, "count", count);
		if (count) {
			json_u64(&b, "mem", samples[count - 1].mem_used);
			json_u64(&b, "pids", samples[count - 1].pids);
		}
		json_close(&b);
		put(&b);
	}
	free(a);
}

static void do_metrics(struct ask *a, char **w)
{
	hub_metrics(a->d->hub, &a->who, w[0], 0, 0, on_metrics, a);
}

static void do_text(struct ask *a, char **w)
{
	struct buf b, text;

	buf_init(&text, SIZE_MAX);
	hub_metrics_text(a->d->hub, NULL, &text);
	answer(a, &b);
	json_strn(&b, "text", text.data, text.len);
	json_close(&b);
	put(&b);
	buf_done(&text);
	free(a);
}

static void on_audit(void *arg, const struct hub_fail *f, const char *const *lines, unsigned count)
{
	struct ask *a = arg;
	struct buf b;

	if (f) {
		put_fail(a, f);
	} else {
		answer(a, &b);
		json_array(&b, "lines");
		for (unsigned i = 0; i < count; i++)
			json_str(&b, NULL, lines[i]);
		json_array_end(&b);
		json_close(&b);
		put(&b);
	}
	free(a);
}

static void do_audit(struct ask *a, char **w)
{
	hub_audit(a->d->hub, &a->who, 0, (unsigned)number(w, "limit", 0), on_audit, a);
}

static void do_pool(struct ask *a, char **w)
{
	struct hub_fail f;
	struct buf b;
	const char *warm = word(w, "warm");
	char text[512] = "";

	for (const char *p = warm; p && *p; p++)
		text[p - warm] = *p == '+' ? ' ' : *p;
	if (hub_pool_set(a->d->hub, &a->who, w[0], (unsigned)number(w, "min", 0),
		    (unsigned)number(w, "max", 0), text, &f) < 0) {
		put_fail(a, &f);
	} else {
		answer(a, &b);
		json_close(&b);
		put(&b);
	}
	free(a);
}

static void put_pool(void *arg, const struct hub_pool *p)
{
	struct buf *b = arg;

	json_open(b, NULL);
	json_str(b, "template", p->template);
	json_u64(b, "ready", p->ready);
	json_u64(b, "starting", p->starting);
	json_u64(b, "hits", p->hits);
	json_u64(b, "misses", p->misses);
	json_u64(b, "made", p->made);
	json_u64(b, "shrunk", p->shrunk);
	json_str(b, "trouble", p->trouble);
	json_close(b);
}

static void put_empty(void *arg, const struct hub_empty *m)
{
	struct buf *b = arg;

	json_open(b, NULL);
	json_str(b, "tier", wall_name(m->tier));
	json_u64(b, "target", m->target);
	json_u64(b, "ready", m->ready);
	json_u64(b, "starting", m->starting);
	json_u64(b, "hits", m->hits);
	json_u64(b, "misses", m->misses);
	json_u64(b, "lost", m->lost);
	json_str(b, "trouble", m->trouble);
	json_close(b);
}

static void do_pools(struct ask *a, char **w)
{
	struct buf b;

	answer(a, &b);
	json_array(&b, "pools");
	hub_pool_list(a->d->hub, put_pool, &b);
	json_array_end(&b);
	json_array(&b, "empty");
	hub_empty_list(a->d->hub, put_empty, &b);
	json_array_end(&b);
	json_close(&b);
	put(&b);
	free(a);
}

static void on_events(void *arg)
{
	struct driver *d = arg;
	struct hub_event ev;
	struct buf b;

	while (hub_events_next(d->events, &ev) > 0) {
		buf_init(&b, SIZE_MAX);
		json_open(&b, NULL);
		json_str(&b, "event", ev.kind);
		json_str(&b, "id", ev.id);
		json_str(&b, "tenant", ev.tenant);
		json_close(&b);
		put(&b);
	}
}

static void do_events(struct ask *a, char **w)
{
	a->d->events = hub_events_open(a->d->hub, &a->who, 0, on_events, a->d);
	free(a);
}

static void do_auth(struct ask *a, char **w)
{
	struct hub_caller who = { 0 };
	struct hub_fail f;
	struct buf b;

	if (hub_authenticate(a->d->hub, w[0] ? w[0] : "", &who, &f) < 0) {
		put_fail(a, &f);
	} else {
		answer(a, &b);
		json_str(&b, "tenant", who.tenant);
		json_str(&b, "key", who.key_id);
		json_close(&b);
		put(&b);
	}
	free(a);
}

static void do_hold(struct ask *a, char **w)
{
	unsigned long n = w[0] ? strtoul(w[0], NULL, 10) : 0;
	struct buf b;

	a->d->hold = n ? a->d->points + n : 0;
	answer(a, &b);
	json_close(&b);
	put(&b);
	free(a);
}

static void on_stopped(void *arg)
{
	loop_stop(((struct driver *)arg)->loop);
}

static void do_line(struct driver *d, char *line)
{
	static const struct {
		const char *verb;
		void (*fn)(struct ask *a, char **w);
	} verbs[] = { { "create", do_create }, { "list", do_list }, { "why", do_why },
		{ "first", do_first }, { "exec", do_exec }, { "start", do_start },
		{ "attach", do_attach }, { "get", do_get }, { "metrics", do_metrics },
		{ "text", do_text }, { "audit", do_audit }, { "pool", do_pool },
		{ "pools", do_pools }, { "events", do_events }, { "auth", do_auth },
		{ "hold", do_hold }, { "snapshots", do_snapshots }, { "unsnap", do_unsnap } };
	char *words[WORDS_MAX + 1] = { NULL }, *save = NULL;
	struct ask *a = calloc(1, sizeof(*a));
	unsigned n = 0;
	struct hub_fail f;

	for (char *p = strtok_r(line, " ", &save); p && n < WORDS_MAX;
		p = strtok_r(NULL, " ", &save))
		words[n++] = p;
	if (!a || n < 2)
		exit(4);
	a->d = d;
	a->number = strtol(words[0], NULL, 10);
	a->began_ns = clock_ns();
	if (hub_operator(word(words, "tenant"), &a->who, &f) < 0)
		exit(4);
	a->who.is_operator = !word(words, "as-tenant");
	if (str_eq(words[1], "quit")) {
		free(a);
		hub_stop(d->hub, words[2] != NULL, on_stopped, d);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(verbs); i++) {
		if (str_eq(verbs[i].verb, words[1])) {
			verbs[i].fn(a, words + 2);
			return;
		}
	}
	do_verb(a, words[1], words + 2);
}

static void on_in(void *ctx, uint32_t events)
{
	struct driver *d = ctx;
	ssize_t n = read(0, d->line + d->len, sizeof(d->line) - 1 - d->len);
	char *end, *at = d->line;

	if (n <= 0) {
		loop_stop(d->loop);
		return;
	}
	d->len += (size_t)n;
	d->line[d->len] = '\0';
	while ((end = strchr(at, '\n'))) {
		*end = '\0';
		do_line(d, at);
		at = end + 1;
	}
	d->len -= (size_t)(at - d->line);
	memmove(d->line, at, d->len + 1);
}

static void on_point(void *arg, const char *what)
{
	struct driver *d = arg;

	d->points++;
	if (d->timed && d->timed->stamp_count < STAMPS_MAX)
		d->timed->stamps[d->timed->stamp_count++] = (struct stamp){ what, clock_ns() };
	if (d->count)
		fprintf(stderr, "point %lu %s\n", d->points, what);
	if (d->crash && d->points == d->crash)
		kill(getpid(), SIGKILL);
	if (d->hold && d->points == d->hold) {
		char text[80];
		int n = snprintf(text, sizeof(text), "{\"held\":\"%s\"}\n", what);

		if (write(1, text, (size_t)n) < 0)
			exit(3);
		raise(SIGSTOP);
	}
}

static void say_ready(void *ctx)
{
	struct driver *d = ctx;

	if (!hub_is_ready(d->hub)) {
		loop_timer_set(d->loop, &d->wait_ready, 2, say_ready, d);
		return;
	}
	if (write(1, "{\"ready\":true}\n", 15) < 0)
		exit(3);
}

int main(int argc, char **argv)
{
	static struct driver d;
	struct hub_options o = { .point = on_point, .point_arg = &d };
	struct err e = { 0 };
	const char *file = NULL;

	o.state_dir = argv[1];
	o.ward = argv[2];
	for (int i = 3; i < argc; i++) {
		if (str_eq(argv[i], "--tier") && wall_parse(argv[++i], &o.tier) == 0)
			o.tier_by = "driver --tier";
		else if (str_eq(argv[i], "--crash"))
			d.crash = strtoul(argv[++i], NULL, 10);
		else if (str_eq(argv[i], "--count"))
			d.count = true;
		else if (str_eq(argv[i], "--config"))
			file = argv[++i];
		else
			return 4;
	}
	host_short_turns(); /* as `ward serve` */
	if ((file ? config_load(file, &o.config, &e) : config_defaults(&o.config, &e)) < 0 ||
		loop_create(&d.loop, &e) < 0) {
		fprintf(stderr, "driver: %s\n", e.msg);
		return 1;
	}
	o.loop = d.loop;
	if (hub_open(&o, &d.hub, &e) < 0 ||
		loop_fd_add(d.loop, &d.in, 0, EPOLLIN, on_in, &d, &e) < 0) {
		fprintf(stderr, "driver: %s\n", e.msg);
		return 1;
	}
	say_ready(&d);
	if (loop_run(d.loop, &e) < 0)
		fprintf(stderr, "driver: %s\n", e.msg);
	hub_events_close(d.events);
	hub_close(d.hub);
	loop_destroy(d.loop);
	return 0;
}
