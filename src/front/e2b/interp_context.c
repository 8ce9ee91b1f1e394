/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/interp_context.c - one context of the code interpreter: a driver and its cells.
 *
 * Owns:  the driver's process, and the cells that wait for it.
 * Rules: one cell at a time. A cell whose client has left is interrupted, and killed with its
 * driver when it does not stop; the next cell starts a new one. A driver that dies ends its cell
 * with an error, never with silence.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "front/e2b/interp_impl.h"
#include "front/e2b/self.h"
#include "front/front_impl.h"
#include "front/limits.h"

enum { BEAT_MS = 5000, GIVE_UP_MS = 3000 };

static const struct {
	const char *name, *text;
} drivers[] = {
#include "front/drivers.def"
};

static const struct {
	const char *asked, *name;
	const char *command[4]; /* before the driver's text, which the token follows */
	const char *zero;       /* what stands for $0, where the program wants it */
} languages[] = {
	{ "python", "python", { "python3", "-c" }, NULL },
	{ "python3", "python", { "python3", "-c" }, NULL },
	{ "javascript", "javascript", { "node", "-e" }, NULL },
	{ "js", "javascript", { "node", "-e" }, NULL },
	{ "bash", "bash", { "bash", "-c" }, "bash" },
	{ "sh", "bash", { "bash", "-c" }, "bash" },
};

const char *interp_language(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(languages); i++)
		if (str_eq(languages[i].asked, name))
			return languages[i].name;
	return NULL;
}

static int make_token(char out[INTERP_TOKEN + 1])
{
	uint8_t bytes[INTERP_TOKEN / 2];

	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes))
		return -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++)
		str_fmt(out + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

struct context *context_create(struct interp *in, const char *language, const char *cwd)
{
	struct context *x = calloc(1, sizeof(*x));

	if (!x || id_make(x->id) < 0 || make_token(x->token) < 0 ||
		str_copy(x->language, sizeof(x->language), language) < 0 ||
		str_copy(x->cwd, sizeof(x->cwd), cwd ? cwd : "") < 0) {
		free(x);
		return NULL;
	}
	interp_reader_init(&x->out, x->token);
	interp_reader_init(&x->err, x->token);
	x->interp = in;
	x->next = in->contexts;
	in->contexts = x;
	return x;
}

static struct loop *loop_of(const struct context *x)
{
	return x->interp->front->loop;
}

/* --- To the client ---------------------------------------------------------------------------- */

static void on_beat(void *ctx);

static void beat_later(struct context *x)
{
	loop_timer_set(loop_of(x), &x->beat, BEAT_MS, on_beat, x);
}

/* One line of the answer, which has @cost of the driver's output in it. */
static void send_line(struct context *x, const struct buf *b, uint64_t cost)
{
	struct cell *cell = x->cells;
	int r;

	if (!cell || !x->running || !cell->call || b->bad) {
		if (cost && x->process)
			link_credit(x->process, cost);
		return;
	}
	beat_later(x);
	r = wire_reply_write(cell->call->q, b->data, b->len);
	if (r > 0)
		cell->owed += cost;
	else if (cost && x->process)
		link_credit(x->process, cost);
}

static void send_word(struct context *x, const char *line)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, 4096);
	buf_add_fmt(&b, "%s\n", line);
	send_line(x, &b, 0);
}

static void on_beat(void *ctx)
{
	send_word(ctx, "{\"type\":\"keepalive\"}");
}

static void send_text(struct context *x, const char *type, const char *text, size_t len)
{
	char when[CLOCK_TEXT];
	own_buf struct buf b = { 0 };

	clock_text(when);
	buf_init(&b, 16 << 20);
	buf_add_fmt(&b, "{\"type\":\"%s\",\"text\":", type);
	interp_add_text(&b, text, len);
	buf_add_fmt(&b, ",\"timestamp\":\"%s\"}\n", when);
	send_line(x, &b, 0);
}

static void send_error(struct context *x, const char *name, const char *value)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, 8192);
	buf_add_str(&b, "{\"type\":\"error\",\"name\":");
	interp_add_text(&b, name, strlen(name));
	buf_add_str(&b, ",\"value\":");
	interp_add_text(&b, value, strlen(value));
	buf_add_str(&b, ",\"traceback\":");
	interp_add_text(&b, value, strlen(value));
	buf_add_str(&b, "}\n");
	send_line(x, &b, 0);
}

/* --- Cells ------------------------------------------------------------------------------------ */

static void cell_destroy(struct cell *cell)
{
	if (cell->back)
		*cell->back = NULL;
	free(cell->input);
	free(cell);
}

int context_add(struct context *x, struct call *c, char *input, size_t len, struct cell **back)
{
	struct cell **at = &x->cells, *cell = calloc(1, sizeof(*cell));

	if (!cell || x->waiting >= FRONT_CELL_QUEUE_MAX) {
		int r = cell ? -EAGAIN : -ENOMEM;

		free(cell);
		free(input);
		return r;
	}
	cell->call = c;
	cell->input = input;
	cell->input_len = len;
	while (*at)
		at = &(*at)->next;
	*at = cell;
	x->waiting++;
	cell->back = back;
	*back = cell;
	return 0;
}

/* Takes the first cell out, with its answer complete. */
static void finish_cell(struct context *x)
{
	struct cell *cell = x->cells;
	char line[96];

	if (!cell)
		return;
	if (x->running && str_fmt(line, sizeof(line),
				  "{\"type\":\"number_of_executions\",\"execution_count\":%llu}",
				  (unsigned long long)x->count) == 0)
		send_word(x, line);
	send_word(x, "{\"type\":\"end_of_execution\"}");
	loop_timer_cancel(&x->beat);
	loop_timer_cancel(&x->give_up);
	if (cell->call)
		wire_reply_end(cell->call->q);
	if (cell->owed && x->process)
		link_credit(x->process, cell->owed);
	link_drop(x->feeding);
	x->feeding = NULL;
	x->cells = cell->next;
	x->waiting--;
	x->running = false;
	cell_destroy(cell);
}

/* Nothing that waits here can be run. */
static void fail_cells(struct context *x, unsigned status, const char *why)
{
	while (x->cells) {
		struct cell *cell = x->cells;

		if (cell->call && !wire_reply_started(cell->call->q))
			call_fail(cell->call, status, "%s", why);
		else if (cell->call) {
			send_error(x, "InterpreterError", why);
			wire_reply_end(cell->call->q);
		}
		x->cells = cell->next;
		cell_destroy(cell);
	}
	x->waiting = 0;
	x->running = false;
	loop_timer_cancel(&x->beat);
	loop_timer_cancel(&x->give_up);
}

/* What a driver makes us keep is counted over all of them: a line that does not end costs memory.
 */
static void count_kept(struct context *x)
{
	struct front *f = x->interp->front;

	if (!x->out.kept.len && !x->out.in_line && x->out.kept.cap > FRONT_CHUNK)
		interp_reader_reset(&x->out);
	if (!x->err.kept.len && !x->err.in_line && x->err.kept.cap > FRONT_CHUNK)
		interp_reader_reset(&x->err);
	f->lines -= x->kept;
	x->kept = x->out.kept.cap + x->err.kept.cap;
	f->lines += x->kept;
}

static void forget_process(struct context *x)
{
	link_drop(x->feeding);
	link_drop(x->process);
	x->feeding = x->process = NULL;
	x->pid = 0;
	x->restarting = false;
	interp_reader_reset(&x->out);
	interp_reader_reset(&x->err);
	count_kept(x);
}

static void signal_driver(struct context *x, int sig)
{
	static const struct link_handler nobody = { 0 };
	struct link_who who = { .pid = x->pid };

	if (x->process && x->pid)
		link_signal(link_of(x->process), &who, sig, true, &nobody, NULL, NULL, NULL);
}

void context_destroy(struct context *x, bool kill)
{
	struct context **at = &x->interp->contexts;

	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	if (kill)
		signal_driver(x, SIGKILL);
	fail_cells(x, 404, "the context was removed");
	forget_process(x);
	interp_reader_done(&x->out);
	interp_reader_done(&x->err);
	free(x);
}

void context_restart(struct context *x)
{
	if (x->process) {
		x->restarting = true;
		signal_driver(x, SIGKILL);
	}
	x->count = 0;
}

static void on_give_up(void *ctx)
{
	context_restart(ctx);
}

void cell_leave(struct context *x, struct cell *cell)
{
	struct cell **at = &x->cells;

	cell->call = NULL;
	cell->back = NULL;
	if (cell == x->cells && x->running) {
		if (cell->owed && x->process)
			link_credit(x->process, cell->owed);
		cell->owed = 0;
		signal_driver(x, SIGINT);
		loop_timer_set(loop_of(x), &x->give_up, GIVE_UP_MS, on_give_up, x);
		return;
	}
	while (*at && *at != cell)
		at = &(*at)->next;
	if (*at) {
		*at = cell->next;
		x->waiting--;
		cell_destroy(cell);
	}
}

/* --- The driver's output ---------------------------------------------------------------------- */

static void out_text(void *ctx, const char *text, size_t len)
{
	send_text(ctx, "stdout", text, len);
}

static void err_text(void *ctx, const char *text, size_t len)
{
	send_text(ctx, "stderr", text, len);
}

static void out_line(void *ctx, const char *line, size_t len)
{
	own_buf struct buf b = { 0 };

	buf_init(&b, FRONT_LINE_MAX + 2);
	buf_add(&b, line, len);
	buf_add(&b, "\n", 1);
	send_line(ctx, &b, 0);
}

static void cell_over(struct context *x)
{
	struct link *l = x->process ? link_of(x->process) : NULL;

	if (!x->running || !x->cells || !x->cells->ended_out || !x->cells->ended_err)
		return;
	finish_cell(x);
	if (l)
		context_go(x, l);
}

static void out_end(void *ctx)
{
	struct context *x = ctx;

	if (x->running && x->cells)
		x->cells->ended_out = true;
}

static void err_end(void *ctx)
{
	struct context *x = ctx;

	if (x->running && x->cells)
		x->cells->ended_err = true;
}

static const struct interp_events out_events = { out_text, out_line, out_end };
static const struct interp_events err_events = { err_text, out_line, err_end };

static void on_data(void *arg, struct link_call *l, const void *data, size_t len, bool of_stderr)
{
	struct context *x = arg;
	struct cell *cell = x->cells;
	int r;

	if (x->restarting) {
		link_credit(l, len); /* its end is on the way, nobody wants the rest */
		return;
	}
	r = interp_read(
		of_stderr ? &x->err : &x->out, data, len, of_stderr ? &err_events : &out_events, x);
	count_kept(x);
	if (x->interp->front->lines > FRONT_LINES_MAX)
		r = -EMSGSIZE;
	if (r < 0) {
		send_error(
			x, "OutputTooLong", "one result has more bytes than the interpreter keeps");
		if (cell)
			cell->told = true;
		interp_reader_reset(of_stderr ? &x->err : &x->out);
		count_kept(x);
		context_restart(x);
	}
	/* A client that reads slowly holds its own driver back, and nothing else. */
	if (x->running && cell && cell->call && wire_reply_queued(cell->call->q) > FRONT_OUT_HIGH)
		cell->owed += len;
	else
		link_credit(l, len);
	cell_over(x);
}

static void on_gone(struct context *x, const char *why, struct link *l)
{
	bool wanted = x->restarting;

	interp_read_end(&x->out, &out_events, x);
	interp_read_end(&x->err, &err_events, x);
	if (x->running) {
		if (!x->cells->told)
			send_error(x, wanted ? "KeyboardInterrupt" : "InterpreterError",
				wanted ? "the context was restarted" : why);
		finish_cell(x);
	}
	forget_process(x);
	if (x->cells && l)
		context_go(x, l);
}

static void on_done(void *arg, struct link_call *l, const struct link_done *d)
{
	struct context *x = arg;
	char why[96];

	x->process = NULL;
	str_fmt(why, sizeof(why), "the interpreter ended with %s %d",
		d->exit.signaled ? "signal" : "status", d->exit.code);
	on_gone(x, why, link_of(l));
}

static void on_failed(void *arg, struct link_call *l, const struct link_failed *f)
{
	struct context *x = arg;
	char why[128];

	x->process = NULL;
	if (f->code == ENOTCONN) {
		interp_lost(x);
		return;
	}
	if (f->step == START_STEP_EXEC)
		str_fmt(why, sizeof(why), "the sandbox has no interpreter for %s", x->language);
	else
		str_fmt(why, sizeof(why), "the interpreter could not be started: %s",
			strerror(f->code));
	fail_cells(x, f->step == START_STEP_EXEC ? 400 : 500, why);
	forget_process(x);
}

/* --- Sending cells ---------------------------------------------------------------------------- */

static void on_room(void *arg, struct link_call *l)
{
	struct context *x = arg;
	struct cell *cell = x->cells;
	ssize_t n = 1;

	if (!cell)
		return;
	while (cell->input_at < cell->input_len && n > 0) {
		n = link_send(l, cell->input + cell->input_at, cell->input_len - cell->input_at);
		if (n > 0)
			cell->input_at += (size_t)n;
	}
	if (cell->input_at == cell->input_len) {
		cell->input_at++;
		link_send_end(l);
	}
}

static void fed(void *arg, struct link_call *l, const struct link_done *d)
{
	((struct context *)arg)->feeding = NULL;
}

static void not_fed(void *arg, struct link_call *l, const struct link_failed *f)
{
	struct context *x = arg;

	x->feeding = NULL;
	if (f->code != ENOTCONN)
		context_restart(x); /* it does not read: the end of its process ends the cell */
}

static void send_cell(struct context *x, struct link *l)
{
	static const struct link_handler handler = {
		.room = on_room, .done = fed, .failed = not_fed
	};
	struct link_who who = { .pid = x->pid };
	struct cell *cell = x->cells;

	x->running = true;
	x->count++;
	if (cell->call) {
		wire_reply_header(cell->call->q, "Content-Type", "application/x-ndjson");
		wire_reply_header(cell->call->q, "Access-Control-Allow-Origin", "*");
		wire_reply_start(cell->call->q, 200, -1);
	}
	beat_later(x);
	if (link_input(l, &who, 0, &handler, x, &x->feeding, NULL) < 0)
		context_restart(x);
	else
		on_room(x, x->feeding);
}

static void on_opened(void *arg, struct link_call *l, const struct link_opened *o)
{
	struct context *x = arg;

	x->pid = o->pid;
	context_go(x, link_of(l));
}

static const struct link_handler process_handler = {
	.opened = on_opened, .data = on_data, .done = on_done, .failed = on_failed
};

static const char *driver_text(const char *language)
{
	for (size_t i = 0; i < ARRAY_LEN(drivers); i++)
		if (str_eq(drivers[i].name, language))
			return drivers[i].text;
	return "";
}

static int start_driver(struct context *x, struct link *l)
{
	char tag[LABEL_MAX];
	const char *argv[8];
	struct self self;
	const char *env[SELF_VARS + 4];
	struct hub_caller plane = { .is_plane = true };
	struct hub_box box;
	size_t n = 0, k = 0, i = 0;

	while (!str_eq(languages[i].name, x->language))
		i++;
	for (const char *const *p = languages[i].command; *p; p++)
		argv[n++] = *p;
	argv[n++] = driver_text(x->language);
	if (languages[i].zero)
		argv[n++] = languages[i].zero;
	argv[n++] = x->token;
	argv[n] = NULL;
	env[k++] = "MPLBACKEND=Agg";
	env[k++] = "PYTHONIOENCODING=utf-8";
	if (hub_find(x->interp->front->hub, &plane, x->interp->box, &box, NULL) == 0) {
		self_vars(&self, box.id, box.template_asked);
		for (size_t v = 0; v < SELF_VARS; v++)
			env[k++] = self.vars[v];
	}
	env[k] = NULL;
	if (str_fmt(tag, sizeof(tag), INTERP_TAG "%s:%s:%s", x->id, x->language, x->token) < 0)
		return -EINVAL;
	return link_start(l,
		&(struct link_start){ .argv = argv,
			.env = env,
			.cwd = x->cwd[0] ? x->cwd : NULL,
			.user = x->interp->user,
			.tag = tag },
		&process_handler, x, &x->process, NULL);
}

void context_go(struct context *x, struct link *l)
{
	if (!x->cells || x->running)
		return;
	if (x->process && x->pid && !x->restarting)
		send_cell(x, l);
	else if (!x->process && start_driver(x, l) < 0)
		fail_cells(x, 500, "the interpreter could not be started");
}

void context_adopt(struct interp *in, struct link *l, const struct link_process *p)
{
	struct link_who who = { .pid = p->pid };
	char id[ID_LEN + 1], language[INTERP_LANGUAGE], token[INTERP_TOKEN + 1];
	const char *tag = p->tag ? str_after(p->tag, INTERP_TAG) : NULL;
	struct context *x;

	if (!tag || p->exited ||
		sscanf(tag, "%12[a-z0-9]:%15[a-z]:%32[0-9a-f]", id, language, token) != 3 ||
		!interp_language(language))
		return;
	x = context_create(in, interp_language(language), p->cwd);
	if (!x)
		return;
	memcpy(x->id, id, sizeof(id));
	memcpy(x->token, token, sizeof(token));
	interp_reader_done(&x->out);
	interp_reader_done(&x->err);
	interp_reader_init(&x->out, x->token);
	interp_reader_init(&x->err, x->token);
	x->is_default = !p->cwd;
	if (link_attach(l, &who, 0, 0, &process_handler, x, &x->process, NULL) < 0)
		context_destroy(x, false);
}
