/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/link_read.c - what a supervisor says, checked, becomes callbacks.
 *
 * Owns:  nothing.
 * Rules: a supervisor that was taken over by its sandbox must not be able to do more to the daemon
 *        than to end the link: every frame is checked against the call it claims to belong to, and
 *        credit is counted. A call is closed after its last callback.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/id.h"
#include "base/own.h"
#include "base/str.h"
#include "proto/event.h"
#include "proto/le.h"
#include "sup/link_impl.h"

enum {
	STATUS_MAX = 255,
	PROCESS_STRINGS_MAX = SUP_CONFIG_MAX / 7 + 4,
	/* FLAGS of an ENTRY of STARTED */
	PROC_PTY = 1,
	PROC_EXITED = 2,
	USAGE_NUMBERS = 11,
};

static bool is_process(const struct link_call *c)
{
	return c->type == PROTO_START || c->type == PROTO_ATTACH;
}

/* --- The link's own --------------------------------------------------------------------------- */

static void read_limits(struct plan_limits *l, const struct ctl_fields *v)
{
	*l = (struct plan_limits){
		.memory_bytes = ctl_num(v, TAG_MEMORY, 0),
		.disk_bytes = ctl_num(v, TAG_DISK, 0),
		.output_bytes = ctl_num(v, TAG_OUTPUT, 0),
		.pids = (uint32_t)ctl_num(v, TAG_PIDS, 0),
		.cpu_milli = (uint32_t)ctl_num(v, TAG_CPU_MILLI, 0),
		.cpu_weight = (uint32_t)ctl_num(v, TAG_CPU_WEIGHT, 0),
	};
}

static int read_status(struct link *l, const struct ctl_fields *v)
{
	uint64_t state = ctl_num(v, TAG_STATE, 0), tier = ctl_num(v, TAG_TIER, 0);
	uint64_t action = ctl_num(v, TAG_ACTION, 0);
	const char *id = ctl_text(v, TAG_BOX);
	struct link_status *s = &l->status;

	if (state < SUP_STARTING || state > SUP_ENDED || tier >= WALL_COUNT || action > SUP_PAUSE ||
		!id || !id_is_valid(id) || ctl_num(v, TAG_PID, 0) > INT32_MAX ||
		ctl_num(v, TAG_SUP_PID, 0) > INT32_MAX)
		return -EPROTO;
	s->state = (enum sup_state)state;
	str_copy(s->id, sizeof(s->id), id);
	s->tier = (enum wall)tier;
	ctl_line(s->why, sizeof(s->why), ctl_text(v, TAG_WHY));
	ctl_line(s->warning, sizeof(s->warning), ctl_text(v, TAG_WARNING));
	ctl_line(s->reason, sizeof(s->reason), ctl_text(v, TAG_REASON));
	s->starts = (uint16_t)ctl_num(v, TAG_STARTS, 0);
	s->tier_waits = ctl_num(v, TAG_WAITS, 0) != 0;
	s->pid = (pid_t)ctl_num(v, TAG_PID, 0);
	s->sup_pid = (pid_t)ctl_num(v, TAG_SUP_PID, 0);
	s->deadline_ms = ctl_num(v, TAG_TIMEOUT_MS, 0);
	s->on_deadline = (enum sup_action)action;
	read_limits(&s->limits, v);
	s->processes = (unsigned)ctl_num(v, TAG_PROCESSES, 0);
	l->has_status = true;
	if (l->hooks.state)
		l->hooks.state(l->hooks.arg, s);
	return 0;
}

static int read_ended(struct link *l, const struct ctl_fields *v)
{
	uint64_t status = ctl_num(v, TAG_CODE, 0);
	struct link_end end;

	if (!ctl_has(v, TAG_CAUSE) || status > STATUS_MAX)
		return -EPROTO;
	ctl_line(end.cause, sizeof(end.cause), ctl_text(v, TAG_CAUSE));
	ctl_line(end.detail, sizeof(end.detail), ctl_text(v, TAG_TEXT));
	ctl_line(end.step, sizeof(end.step), ctl_text(v, TAG_AT_STEP));
	end.status = (int)status;
	l->status.state = SUP_ENDED;
	if (l->hooks.ended)
		l->hooks.ended(l->hooks.arg, &end);
	return 0;
}

static int read_own(struct link *l, const struct frame *f)
{
	struct ctl_fields v;

	if (f->flags || ctl_fields_read(&v, f->data, f->len) < 0)
		return -EPROTO;
	if (f->type == PROTO_STATUS)
		return read_status(l, &v);
	return f->type == PROTO_ENDED ? read_ended(l, &v) : -EPROTO;
}

static bool passes_file(const struct link_call *c)
{
	return c->flags & FILE_PASS_FD && (c->type == PROTO_READ || c->type == PROTO_WRITE);
}

/* --- Final frames ----------------------------------------------------------------------------- */

static bool is_final(const struct frame *f)
{
	return f->type == PROTO_OK || f->type == PROTO_EXIT || f->type == PROTO_START_FAILED ||
	       (f->type == PROTO_ERROR && !(f->flags & ERROR_SOFT));
}

static void finish(struct link_call *c, const struct link_done *d, const struct link_failed *why)
{
	if (!c->dropped && c->h && d && c->h->done)
		c->h->done(c->arg, c, d);
	if (!c->dropped && c->h && why && c->h->failed)
		c->h->failed(c->arg, c, why);
	link_close_call(c);
}

static void fill_failed(struct link_failed *out, const struct proto_event *ev)
{
	*out = (struct link_failed){ .code = ev->failed.code, .step = ev->failed.step };
	str_copy(out->text, sizeof(out->text), ev->failed.text);
}

static int read_usage(struct link_call *c, const struct frame *f)
{
	struct link_done d = { 0 };
	uint64_t *const to[USAGE_NUMBERS] = { &d.usage.cpu_us, &d.usage.mem_used,
		&d.usage.mem_cache, &d.usage.mem_limit, &d.usage.disk_used, &d.usage.disk_total,
		&d.usage.pids, &d.usage.pids_limit, &d.usage.net_in, &d.usage.net_out,
		&d.usage.mem_peak };
	struct ctl_fields v;

	if (ctl_fields_read(&v, f->data, f->len) < 0 || !ctl_has(&v, TAG_NUMBERS) ||
		v.len[TAG_NUMBERS] != USAGE_NUMBERS * 8)
		return -EPROTO;
	for (unsigned i = 0; i < USAGE_NUMBERS; i++)
		*to[i] = le_get64((const uint8_t *)v.text[TAG_NUMBERS] + i * 8);
	finish(c, &d, NULL);
	return 0;
}

static int read_final(struct link_call *c, const struct frame *f, const struct proto_event *ev)
{
	struct link_done d = { 0 };
	struct link_failed why;

	if (f->type == PROTO_ERROR || f->type == PROTO_START_FAILED) {
		if (f->type == PROTO_START_FAILED && c->type != PROTO_START)
			return -EPROTO;
		fill_failed(&why, ev);
		finish(c, NULL, &why);
		return 0;
	}
	/* A process that is attached ends with its exit; OK is the answer to a drop. */
	if ((f->type == PROTO_EXIT) != (is_process(c) && !c->dropped))
		return is_process(c) && c->dropped ? (finish(c, NULL, NULL), 0) : -EPROTO;
	/* Done without the file that it was all about; a dropped call may end before. */
	if (passes_file(c) && !c->has_file && !c->dropped)
		return -EPROTO;
	d.has_exit = f->type == PROTO_EXIT;
	d.timed_out = d.has_exit && (f->flags & EXIT_TIMED_OUT);
	d.exit = ev->exit;
	d.has_file = ev->has_file;
	d.file = ev->file;
	d.bytes = ev->bytes;
	finish(c, &d, NULL);
	return 0;
}

/* --- In the course of a call ------------------------------------------------------------------ */

/* The one descriptor that OPENED_FD promises: a regular file, or the supervisor is not honest. */
static int take_file(struct link *l, int *ret)
{
	own_fd int fd = ctl_take_fd(&l->ctl);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return -EPROTO;
	if (fcntl(fd, F_GETFL) & O_PATH)
		return -EPROTO;
	*ret = take_fd(&fd);
	return 0;
}

static void tell_opened(struct link_call *c, struct link_opened *o)
{
	if (!c->dropped && c->h && c->h->opened)
		c->h->opened(c->arg, c, o);
	else if (o->fd >= 0)
		close(o->fd);
}

/* Of a process: with fields that an agent does not have. */
static int read_opened_process(struct link_call *c, const struct frame *f)
{
	struct link_opened o = { .fd = -1 };
	struct ctl_fields v;

	if (f->flags & ~2 || ctl_fields_read(&v, f->data, f->len) < 0 || !ctl_num(&v, TAG_PID, 0))
		return -EPROTO;
	o.pid = (uint32_t)v.num[TAG_PID];
	o.lost = ctl_num(&v, TAG_LOST, 0);
	o.pty = f->flags & 2;
	tell_opened(c, &o);
	return 0;
}

static int read_opened(struct link_call *c, const struct proto_event *ev)
{
	struct link_opened o = { .fd = -1, .has_file = ev->has_file, .file = ev->file };

	if (ev->has_fd != passes_file(c))
		return -EPROTO;
	if (ev->has_fd && (c->has_file || take_file(c->l, &o.fd) < 0))
		return -EPROTO;
	c->has_file = ev->has_fd;
	tell_opened(c, &o);
	return 0;
}

/* Arguments and variables of one process, in a room of fixed size. */
struct strings {
	const char *list[PROCESS_STRINGS_MAX];
	unsigned count;
};

static const char *const *gather(struct strings *to, const struct frame *f, uint16_t tag)
{
	unsigned first = to->count;
	struct fields fs;
	struct field fld;

	fields_init(&fs, f->data, f->len);
	while (fields_next(&fs, &fld) > 0 && to->count < PROCESS_STRINGS_MAX - 2)
		if (fld.tag == tag)
			to->list[to->count++] = fld.text;
	to->list[to->count++] = NULL;
	return to->list + first;
}

static int read_started(struct link_call *c, const struct frame *f)
{
	struct strings strings = { .count = 0 };
	struct link_process p = { 0 };
	struct ctl_fields v;
	uint64_t flags;

	if (ctl_fields_read(&v, f->data, f->len) < 0 || !ctl_num(&v, TAG_PID, 0))
		return -EPROTO;
	flags = ctl_num(&v, TAG_FLAGS, 0);
	p.pid = (uint32_t)v.num[TAG_PID];
	p.tag = ctl_text(&v, TAG_LABEL);
	p.argv = gather(&strings, f, TAG_ARG);
	p.env = gather(&strings, f, TAG_ENV);
	p.cwd = ctl_text(&v, TAG_CWD);
	p.user = ctl_text(&v, TAG_USER);
	p.pty = flags & PROC_PTY;
	p.exited = flags & PROC_EXITED;
	p.exit = (struct proto_exit){
		.signaled = ctl_has(&v, TAG_SIGNAL),
		.code = (int)(ctl_num(&v, TAG_CODE, 0) | ctl_num(&v, TAG_SIGNAL, 0)),
		.user_us = ctl_num(&v, TAG_USER_US, 0),
		.system_us = ctl_num(&v, TAG_SYSTEM_US, 0),
		.peak_kb = ctl_num(&v, TAG_PEAK_KB, 0),
	};
	if (p.exit.code > STATUS_MAX)
		return -EPROTO;
	p.waiting_bytes = ctl_num(&v, TAG_WAITING, 0);
	p.lost_bytes = ctl_num(&v, TAG_LOST, 0);
	p.attached = (unsigned)ctl_num(&v, TAG_ATTACHED, 0);
	if (!c->dropped && c->h && c->h->process)
		c->h->process(c->arg, c, &p);
	return 0;
}

static int read_data(struct link_call *c, const struct proto_event *ev)
{
	if (!is_process(c) && c->type != PROTO_READ && c->type != PROTO_DIAL)
		return -EPROTO;
	if (!c->dropped && c->h && c->h->data)
		c->h->data(c->arg, c, ev->data, ev->data_len, ev->of_stderr);
	return 0;
}

static int read_entry(struct link_call *c, const struct proto_event *ev)
{
	void (*tell)(void *, struct link_call *, const struct proto_event *);

	if (ev->type == PROTO_ENTRY && !(c->type == PROTO_LIST && ev->has_file) &&
		!(c->type == PROTO_PROCS && ev->has_process))
		return -EPROTO;
	if (ev->type == PROTO_EVENT && c->type != PROTO_WATCH)
		return -EPROTO;
	if (c->dropped || !c->h)
		return 0;
	tell = ev->type == PROTO_ENTRY ? c->h->entry : c->h->event;
	if (tell)
		tell(c->arg, c, ev);
	return 0;
}

static int read_credit(struct link_call *c, const struct proto_event *ev)
{
	bool none = !link_room(c);

	if (!c->out.window || flow_add(&c->out, ev->bytes) < 0)
		return -EPROTO;
	if (none && link_room(c) && !c->dropped && c->h && c->h->room)
		c->h->room(c->arg, c);
	return 0;
}

static int read_course(struct link_call *c, const struct frame *f, const struct proto_event *ev)
{
	struct link_failed soft;

	switch (f->type) {
	case PROTO_OPENED:
		return read_opened(c, ev);
	case PROTO_DATA:
		return read_data(c, ev);
	case PROTO_END:
		if (!is_process(c) && c->type != PROTO_DIAL)
			return -EPROTO;
		if (!c->dropped && c->h && c->h->end)
			c->h->end(c->arg, c, ev->of_stderr);
		return 0;
	case PROTO_ENTRY:
	case PROTO_EVENT:
		return read_entry(c, ev);
	case PROTO_CREDIT:
		return read_credit(c, ev);
	case PROTO_ERROR:
		fill_failed(&soft, ev);
		if (!c->dropped && c->h && c->h->soft)
			c->h->soft(c->arg, c, &soft);
		return 0;
	default:
		return -EPROTO;
	}
}

int link_read(struct link *l, const struct frame *f)
{
	struct link_call *c;
	struct proto_event ev;
	struct frame plain; /* as an agent could have sent it */

	if (!f->stream)
		return read_own(l, f);
	c = f->stream < l->size ? l->calls[f->stream] : NULL;
	if (!c)
		return -EPROTO;
	if (f->type == PROTO_OPENED && is_process(c))
		return read_opened_process(c, f);
	if (f->type == PROTO_ENTRY && c->type == PROTO_STARTED)
		return read_started(c, f);
	if (f->type == PROTO_OK && c->type == PROTO_USAGE)
		return read_usage(c, f);
	plain = *f;
	if (f->type == PROTO_EXIT)
		plain.flags &= (uint16_t)~EXIT_TIMED_OUT;
	if (proto_event_read(&ev, &plain) < 0)
		return -EPROTO;
	if (flow_take(&c->in, ev.cost) < 0)
		return -EPROTO;
	return is_final(f) ? read_final(c, f, &ev) : read_course(c, f, &ev);
}
