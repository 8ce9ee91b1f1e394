/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/interp.c - the code interpreter of a sandbox: port 49999.
 *
 * Owns:  the interpreters, one per sandbox that was asked for one, and their contexts.
 * Rules: errors are plain text, which is what its clients read. Nothing of it needs a server
 * inside: small drivers run there, and the state is theirs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "front/b64.h"
#include "front/e2b/handlers.h"
#include "front/e2b/interp_impl.h"
#include "front/front_impl.h"
#include "front/limits.h"
#include "template/account.h"
#include "wire/text.h"

/* A request until its interpreter is known. */
struct asked {
	struct jin *doc;
	void (*go)(struct call *c, struct interp *in, struct link *l);
	struct interp *in;
	struct context *x;
	struct cell *cell;
};

static void interp_destroy(struct interp *in, bool kill)
{
	struct interp **at = &in->front->interps;

	while (*at != in)
		at = &(*at)->next;
	*at = in->next;
	while (in->contexts)
		context_destroy(in->contexts, kill);
	free(in->user);
	free(in);
}

void interps_done(struct front *f)
{
	while (f->interps)
		interp_destroy(f->interps, false);
}

void interp_lost(struct context *x)
{
	struct interp *in = x->interp;

	context_destroy(x, false);
	in->searched = false; /* if the sandbox lives on, so do its drivers */
	if (!in->contexts)
		interp_destroy(in, false);
}

static struct interp *interp_of(struct call *c)
{
	struct interp *in = c->front->interps;

	while (in && !str_eq(in->box, c->id))
		in = in->next;
	if (in)
		return in;
	in = calloc(1, sizeof(*in));
	if (in && c->user)
		in->user = strdup(c->user);
	if (!in || (c->user && !in->user)) {
		free(in);
		return NULL;
	}
	in->front = c->front;
	memcpy(in->box, c->id, sizeof(in->box));
	in->next = c->front->interps;
	c->front->interps = in;
	return in;
}

/* --- Finding what an earlier daemon started --------------------------------------------------- */

static void on_process(void *arg, struct link_call *l, const struct link_process *p)
{
	struct call *c = arg;
	struct interp *in = interp_of(c);

	if (in && !in->searched)
		context_adopt(in, link_of(l), p);
}

static void on_searched(void *arg, struct link_call *l, const struct link_done *d)
{
	struct call *c = arg;
	struct asked *a = c->state;
	struct interp *in = interp_of(c);
	struct link *link = link_of(l);

	call_link_over(c, l);
	if (!in) {
		call_fail_memory(c);
		return;
	}
	in->searched = true;
	a->go(c, in, link);
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	call_link_over(arg, l);
	call_fail_link(arg, f);
}

static void go_search(struct call *c, struct link *l)
{
	static const struct link_handler handler = {
		.process = on_process, .done = on_searched, .failed = on_failed
	};
	struct asked *a = c->state;
	struct interp *in = interp_of(c);
	struct err e = { 0 };

	if (!in)
		call_fail_memory(c);
	else if (in->searched)
		a->go(c, in, l);
	else
		call_failed(c, link_processes(l, &handler, c, &c->links[0], &e), &e);
}

static void asked_ended(struct call *c)
{
	struct asked *a = c->state;

	jin_destroy(a->doc);
	if (a->cell)
		cell_leave(a->x, a->cell);
}

static void on_drained(struct call *c)
{
	struct asked *a = c->state;

	if (a->cell && a->cell->owed && a->x->process) {
		link_credit(a->x->process, a->cell->owed);
		a->cell->owed = 0;
	}
}

static struct asked *ask(
	struct call *c, void (*go)(struct call *c, struct interp *in, struct link *l))
{
	struct asked *a = call_alloc(c, sizeof(*a));

	if (!a)
		return NULL;
	a->go = go;
	c->state = a;
	c->on_ended = asked_ended;
	c->on_drained = on_drained;
	return a;
}

/* --- Contexts --------------------------------------------------------------------------------- */

static struct context *find(struct interp *in, const char *id)
{
	struct context *x = in->contexts;

	while (x && !str_eq(x->id, id))
		x = x->next;
	return x;
}

static unsigned count(const struct interp *in)
{
	unsigned n = 0;

	for (const struct context *x = in->contexts; x; x = x->next)
		n++;
	return n;
}

static struct context *make(struct call *c, struct interp *in, const char *asked, const char *cwd)
{
	const char *language = interp_language(asked);
	struct context *x = NULL;
	char shown[60];

	if (!language)
		call_fail(c, 400, "the language '%s' is not here: python, javascript and bash are",
			str_show(shown, sizeof(shown), asked));
	else if (count(in) >= FRONT_CONTEXTS_MAX)
		call_fail(c, 429, "the sandbox has %d contexts already", FRONT_CONTEXTS_MAX);
	else if (cwd && strlen(cwd) >= INTERP_CWD)
		call_fail(c, 400, "the directory's name is too long");
	else {
		x = context_create(in, language, cwd);
		if (!x)
			call_fail_memory(c);
	}
	return x;
}

/* The context that is meant when none is named: the first of its language. */
static struct context *by_language(struct call *c, struct interp *in, const char *asked)
{
	const char *language = interp_language(asked);
	struct context *x = in->contexts;

	while (x && !(x->is_default && language && str_eq(x->language, language)))
		x = x->next;
	if (x)
		return x;
	x = make(c, in, asked, NULL);
	if (x)
		x->is_default = true;
	return x;
}

static void put_context(struct buf *b, const struct context *x)
{
	json_open(b, NULL);
	json_str(b, "id", x->id);
	json_str(b, "language", x->language);
	json_str(b, "cwd", x->cwd[0] ? x->cwd : ACCOUNT_HOME);
	json_close(b);
}

static void go_create(struct call *c, struct interp *in, struct link *l)
{
	struct asked *a = c->state;
	const char *language = "python", *cwd = NULL;
	struct context *x;
	struct err e = { 0 };
	own_buf struct buf b = { 0 };
	int r = jin_str(a->doc, "language", &language, &e);

	buf_init(&b, 8192);
	if (r >= 0)
		r = jin_str(a->doc, "cwd", &cwd, &e);
	if (call_failed(c, r, &e))
		return;
	x = make(c, in, language, cwd);
	if (!x)
		return;
	put_context(&b, x);
	call_json(c, 200, &b);
}

void interp_create(struct call *c)
{
	struct asked *a = ask(c, go_create);

	if (a && call_parse(c, &a->doc))
		call_with_link(c, go_search);
}

static void go_list(struct call *c, struct interp *in, struct link *l)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_JSON_MAX);
	json_array(&b, NULL);
	for (const struct context *x = in->contexts; x; x = x->next)
		put_context(&b, x);
	json_array_end(&b);
	call_json(c, 200, &b);
}

void interp_list(struct call *c)
{
	if (ask(c, go_list))
		call_with_link(c, go_search);
}

static struct context *named(struct call *c, struct interp *in)
{
	struct context *x = find(in, c->args[0]);

	if (!x)
		call_fail(
			c, 404, "Context %s not found", str_show((char[64]){ 0 }, 64, c->args[0]));
	return x;
}

static void answer(struct call *c)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, 16);
	buf_add_str(&b, "{}");
	call_json(c, 200, &b);
}

static void go_restart(struct call *c, struct interp *in, struct link *l)
{
	struct context *x = named(c, in);

	if (!x)
		return;
	context_restart(x);
	answer(c);
}

void interp_restart(struct call *c)
{
	if (ask(c, go_restart))
		call_with_link(c, go_search);
}

static void go_remove(struct call *c, struct interp *in, struct link *l)
{
	struct context *x = named(c, in);

	if (!x)
		return;
	context_destroy(x, true);
	answer(c);
}

void interp_remove(struct call *c)
{
	if (ask(c, go_remove))
		call_with_link(c, go_search);
}

void interp_health(struct call *c)
{
	if (call_box_runs(c))
		wire_reply(c->q, 200, "application/json", "\"OK\"", 4);
}

/* --- Execution -------------------------------------------------------------------------------- */

/* A value in single quotes, for a shell. */
static void add_quoted(struct buf *b, const char *value)
{
	buf_add(b, "'", 1);
	for (; *value; value++)
		if (*value == '\'')
			buf_add_str(b, "'\\''");
		else
			buf_add(b, value, 1);
	buf_add(b, "'", 1);
}

static bool is_variable(const char *name)
{
	size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

	return n && !name[n] && !(name[0] >= '0' && name[0] <= '9');
}

/* A shell has no JSON: the code with its variables set, and the code that takes them away again. */
static void add_shell(struct buf *line, const char *code, const struct dict *env)
{
	own_buf struct buf before = { 0 }, after = { 0 };

	buf_init(&before, 2 * FRONT_CELL_MAX);
	buf_init(&after, FRONT_CELL_MAX);
	for (size_t i = 0; i < env->count; i++) {
		if (!is_variable(env->names[i]))
			continue;
		buf_add_fmt(&before, "export %s=", env->names[i]);
		add_quoted(&before, env->values[i]);
		buf_add(&before, "\n", 1);
		buf_add_fmt(&after, "unset %s\n", env->names[i]);
	}
	buf_add_str(&before, code);
	if (before.len)
		b64_add(line, before.data, before.len);
	buf_add(line, " ", 1);
	if (after.len)
		b64_add(line, after.data, after.len);
}

static void add_request(struct buf *line, const char *code, const struct dict *env)
{
	buf_add_str(line, "{\"code\":");
	interp_add_text(line, code, strlen(code));
	buf_add_str(line, ",\"env\":{");
	for (size_t i = 0; i < env->count; i++) {
		if (i)
			buf_add(line, ",", 1);
		interp_add_text(line, env->names[i], strlen(env->names[i]));
		buf_add(line, ":", 1);
		interp_add_text(line, env->values[i], strlen(env->values[i]));
	}
	buf_add_str(line, "}}");
}

static struct context *choose(struct call *c, struct interp *in, const struct jin *doc)
{
	const char *id = NULL, *language = NULL;
	struct err e = { 0 };
	struct context *x;
	int r = jin_str(doc, "context_id", &id, &e);

	if (r >= 0)
		r = jin_str(doc, "language", &language, &e);
	if (call_failed(c, r, &e))
		return NULL;
	if (id && language) {
		call_fail(c, 400, "context_id and language cannot be given together");
		return NULL;
	}
	if (!id)
		return by_language(c, in, language ? language : "python");
	x = find(in, id);
	if (!x)
		call_fail(c, 404, "Context %s not found", str_show((char[64]){ 0 }, 64, id));
	return x;
}

static void go_execute(struct call *c, struct interp *in, struct link *l)
{
	struct asked *a = c->state;
	own_dict struct dict env = { 0 };
	const char *code = NULL;
	struct err e = { 0 };
	struct buf line;
	int r = jin_need_str(a->doc, "code", &code, &e);

	if (r >= 0)
		r = jin_each_str(a->doc, "env_vars", FRONT_PAIRS_MAX, dict_add_each, &env, &e);
	if (call_failed(c, r, &e))
		return;
	a->x = choose(c, in, a->doc);
	if (!a->x)
		return;
	buf_init(&line, 8 * (size_t)FRONT_CELL_MAX);
	if (str_eq(a->x->language, "bash"))
		add_shell(&line, code, &env);
	else
		add_request(&line, code, &env);
	buf_add(&line, "\n", 1);
	jin_destroy(a->doc); /* all of it is in the line */
	a->doc = NULL;
	wire_release(c->q);
	if (line.bad || !wire_hold(c->q, line.len)) {
		if (line.bad)
			call_fail_memory(c);
		else
			call_fail_busy(c);
		buf_done(&line);
		return;
	}
	r = context_add(a->x, c, line.data, line.len, &a->cell);
	if (r == -EAGAIN)
		call_fail(c, 429, "%d executions wait for this context already",
			FRONT_CELL_QUEUE_MAX);
	else if (r < 0)
		call_fail_memory(c);
	else
		context_go(a->x, l);
}

/* Code is run on the word of whoever has the sandbox's token, like any other command. */
static bool has_token(struct call *c)
{
	const char *given = wire_header(c->q, "X-Access-Token");
	struct hub_box box;

	if (hub_find(c->front->hub, &c->who, c->id, &box, NULL) == 0 &&
		(!box.envd_token || (given && secret_eq(given, box.envd_token))))
		return true;
	call_fail(c, 401, "the sandbox's access token is missing or wrong");
	return false;
}

static void on_whole(void *ctx, struct wire_req *q, const char *data, size_t len, int r)
{
	struct call *c = ctx;
	struct asked *a = c->state;

	if (r < 0) {
		call_fail_body(c, r, FRONT_CELL_MAX);
		return;
	}
	c->body = data;
	c->body_len = len;
	if (call_parse(c, &a->doc))
		call_with_link(c, go_search);
}

void interp_execute(struct call *c)
{
	int r;

	if (!has_token(c) || !ask(c, go_execute))
		return;
	r = wire_body_whole(c->q, FRONT_CELL_MAX, on_whole);
	if (r < 0)
		call_fail_body(c, r, FRONT_CELL_MAX);
}
