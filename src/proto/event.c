/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/event.c - what the host believes of what an agent says.
 *
 * Owns:  the table of which fields each message of an agent may have.
 * Rules: the agent is hostile: a frame that no honest agent sends is -EPROTO, never a guess. No
 *        text leaves here with a control character or an unbounded length.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/ckd.h"
#include "base/str.h"
#include "proto/event.h"
#include "proto/fds.h"
#include "proto/msg.h"

enum { ERRNO_MAX = 4095, SIGNAL_MAX = 64 };

#define FILE_TAGS                                                                                  \
	(TAG_BIT(KIND) | TAG_BIT(MODE) | TAG_BIT(SIZE) | TAG_BIT(UID) | TAG_BIT(GID) |             \
		TAG_BIT(MTIME_NS))
/* What FILE_FULL and FILE_HOME add. */
#define FULL_TAGS (TAG_BIT(LINK) | TAG_BIT(PATH) | TAG_BIT(OWNER) | TAG_BIT(GROUP) | TAG_BIT(META))
#define PROCESS_TAGS (TAG_BIT(PID) | TAG_BIT(PPID) | TAG_BIT(STATE) | TAG_BIT(UID) | TAG_BIT(NAME))

/* A relative path that stays below the directory it is relative to. */
static bool name_is_safe(const char *name)
{
	if (*name == '/' || strlen(name) >= WARD_PATH_MAX)
		return false;
	for (const char *p = name; p; p = strchr(p, '/')) {
		p += *p == '/';
		if (p[0] == '.' && p[1] == '.' && (!p[2] || p[2] == '/'))
			return false;
	}
	return true;
}

static void copy_text(char out[PROTO_TEXT], const char *text)
{
	size_t n = 0;

	for (; text && *text && n < PROTO_TEXT - 1; text++)
		out[n++] = *text >= ' ' && *text <= '~' ? *text : '?';
	out[n] = '\0';
}

static int read_failed(struct proto_event *ev, const struct values *v, const struct frame *f)
{
	uint64_t code = values_num(v, TAG_ERRNO, 0), step = values_num(v, TAG_STEP, 0);

	if (code < 1 || code > ERRNO_MAX)
		return -EPROTO;
	if (f->type == PROTO_START_FAILED && (step < START_STEP_SETUP || step > START_STEP_EXEC))
		return -EPROTO;
	ev->failed.code = (int)code;
	ev->failed.step = (enum start_step)step;
	ev->failed.soft = f->type == PROTO_ERROR && (f->flags & ERROR_SOFT);
	copy_text(ev->failed.text, values_text(v, TAG_TEXT));
	return 0;
}

static int read_exit(struct proto_event *ev, const struct values *v, const struct frame *f)
{
	uint64_t code = values_num(v, TAG_CODE, 0), sig = values_num(v, TAG_SIGNAL, 0);

	(void)f;
	if (values_has(v, TAG_CODE) == values_has(v, TAG_SIGNAL))
		return -EPROTO;
	if (code > 255 || sig > SIGNAL_MAX || (values_has(v, TAG_SIGNAL) && !sig))
		return -EPROTO;
	ev->exit = (struct proto_exit){
		.signaled = values_has(v, TAG_SIGNAL),
		.code = (int)(code | sig),
		.user_us = values_num(v, TAG_USER_US, 0),
		.system_us = values_num(v, TAG_SYSTEM_US, 0),
		.peak_kb = values_num(v, TAG_PEAK_KB, 0),
		.oom_kills = values_num(v, TAG_OOM_KILLS, 0),
		.pids_refused = values_num(v, TAG_PIDS_REFUSED, 0),
	};
	return 0;
}

/* "name=value" strings, each ending in NUL. */
static bool meta_is_sound(const char *meta, uint32_t len)
{
	if (len > META_BYTES_MAX || (len && meta[len - 1]))
		return false;
	for (uint32_t at = 0; at < len; at += (uint32_t)strlen(meta + at) + 1)
		if (!strchr(meta + at, '=') || meta[at] == '=')
			return false;
	return true;
}

static int read_full(struct proto_file *f, const struct values *v)
{
	const char *path = values_text(v, TAG_PATH);

	if (path && (*path != '/' || strlen(path) >= WARD_PATH_MAX))
		return -EPROTO;
	f->path = path;
	f->owner = values_text(v, TAG_OWNER);
	f->group = values_text(v, TAG_GROUP);
	f->meta = values_text(v, TAG_META);
	f->meta_len = f->meta ? v->len[TAG_META] : 0;
	return meta_is_sound(f->meta, f->meta_len) ? 0 : -EPROTO;
}

static int read_file(struct proto_event *ev, const struct values *v)
{
	const char *name = values_text(v, TAG_NAME);

	if ((v->has & FILE_TAGS) != FILE_TAGS)
		return -EPROTO;
	if (v->num[TAG_KIND] < FILE_REGULAR || v->num[TAG_KIND] > FILE_BLOCK_DEVICE ||
		v->num[TAG_MODE] > 07777)
		return -EPROTO;
	if (name && (!*name || !name_is_safe(name)))
		return -EPROTO;
	ev->has_file = true;
	ev->file = (struct proto_file){
		.kind = (enum file_kind)v->num[TAG_KIND],
		.mode = (uint32_t)v->num[TAG_MODE],
		.uid = (uint32_t)v->num[TAG_UID],
		.gid = (uint32_t)v->num[TAG_GID],
		.size = v->num[TAG_SIZE],
		.mtime_ns = v->num[TAG_MTIME_NS],
		.name = name,
		.link = values_text(v, TAG_LINK),
	};
	return read_full(&ev->file, v);
}

/* Arguments, each ending in NUL. */
static int read_cmdline(struct proto_process *p, const struct values *v)
{
	p->cmdline = values_text(v, TAG_CMDLINE);
	p->cmdline_len = values_has(v, TAG_CMDLINE) ? v->len[TAG_CMDLINE] : 0;
	return p->cmdline_len && p->cmdline[p->cmdline_len - 1] ? -EPROTO : 0;
}

static int read_process(struct proto_event *ev, const struct values *v)
{
	uint64_t state = values_num(v, TAG_STATE, 0);

	if ((v->has & PROCESS_TAGS) != PROCESS_TAGS || !v->num[TAG_PID])
		return -EPROTO;
	if (state < 'A' || state > 'z')
		return -EPROTO;
	ev->has_process = true;
	ev->process = (struct proto_process){
		.pid = (uint32_t)v->num[TAG_PID],
		.ppid = (uint32_t)v->num[TAG_PPID],
		.uid = (uint32_t)v->num[TAG_UID],
		.stream = (uint32_t)values_num(v, TAG_STREAM, 0),
		.state = (char)state,
		.name = v->text[TAG_NAME],
	};
	return read_cmdline(&ev->process, v);
}

static int read_entry(struct proto_event *ev, const struct values *v, const struct frame *f)
{
	(void)f;
	return values_has(v, TAG_PID) ? read_process(ev, v) : read_file(ev, v);
}

static int read_opened(struct proto_event *ev, const struct values *v, const struct frame *f)
{
	ev->has_fd = f->type == PROTO_OPENED && (f->flags & OPENED_FD);
	ev->pid = (uint32_t)values_num(v, TAG_PID, 0);
	ev->bytes = values_num(v, TAG_BYTES, 0);
	if (f->type == PROTO_OPENED && read_cmdline(&ev->process, v) < 0)
		return -EPROTO;
	return values_has(v, TAG_KIND) ? read_file(ev, v) : read_full(&ev->file, v);
}

static int read_event(struct proto_event *ev, const struct values *v, const struct frame *f)
{
	(void)f;
	if (v->num[TAG_CHANGE] < CHANGE_CREATED || v->num[TAG_CHANGE] > CHANGE_LOST ||
		!name_is_safe(v->text[TAG_NAME]))
		return -EPROTO;
	ev->change = (enum file_change)v->num[TAG_CHANGE];
	if (values_has(v, TAG_KIND) && *v->text[TAG_NAME] && read_file(ev, v) < 0)
		return -EPROTO;
	ev->name = v->text[TAG_NAME];
	return 0;
}

static int read_hello(struct proto_event *ev, const struct values *v, const struct frame *f)
{
	(void)f;
	ev->version = (uint32_t)v->num[TAG_VERSION];
	return ev->version ? 0 : -EPROTO;
}

static int read_credit(struct proto_event *ev, const struct values *v, const struct frame *f)
{
	(void)f;
	ev->bytes = v->num[TAG_BYTES];
	return ev->bytes && ev->bytes <= FLOW_CREDIT_MAX ? 0 : -EPROTO;
}

/* clang-format off */
static const struct {
	uint16_t type, flags;
	uint64_t needed, allowed;
	int (*read)(struct proto_event *ev, const struct values *v, const struct frame *f);
} kinds[] = {
	{ PROTO_HELLO, 0, TAG_BIT(VERSION), 0, read_hello },
	{ PROTO_OK, 0, 0, FILE_TAGS | FULL_TAGS | TAG_BIT(BYTES), read_opened },
	{ PROTO_ERROR, ERROR_SOFT, TAG_BIT(ERRNO), TAG_BIT(TEXT), read_failed },
	{ PROTO_OPENED, OPENED_FD | OPENED_PTY | OPENED_STDIN, 0, FILE_TAGS | FULL_TAGS | TAG_BIT(PID) |
		TAG_BIT(CMDLINE), read_opened },
	{ PROTO_END, DATA_ERR, 0, 0, NULL },
	{ PROTO_CREDIT, 0, TAG_BIT(BYTES), 0, read_credit },
	{ PROTO_ENTRY, 0, TAG_BIT(NAME), FILE_TAGS | FULL_TAGS | PROCESS_TAGS | TAG_BIT(STREAM) |
		TAG_BIT(CMDLINE), read_entry },
	{ PROTO_START_FAILED, 0, TAG_BIT(ERRNO) | TAG_BIT(STEP), TAG_BIT(TEXT), read_failed },
	{ PROTO_EXIT, 0, 0, TAG_BIT(CODE) | TAG_BIT(SIGNAL) | TAG_BIT(USER_US) | TAG_BIT(SYSTEM_US) |
		TAG_BIT(PEAK_KB) | TAG_BIT(OOM_KILLS) | TAG_BIT(PIDS_REFUSED), read_exit },
	{ PROTO_EVENT, 0, TAG_BIT(CHANGE) | TAG_BIT(NAME), FILE_TAGS | FULL_TAGS, read_event },
};
/* clang-format on */

static int read_data(struct proto_event *ev, const struct frame *f)
{
	if ((f->flags & ~DATA_ERR) || !f->len || !f->stream)
		return -EPROTO;
	ev->of_stderr = f->flags & DATA_ERR;
	ev->data = f->data;
	ev->data_len = ev->cost = f->len;
	return 0;
}

int proto_event_read(struct proto_event *ev, const struct frame *f)
{
	struct values v;
	uint16_t tag;

	*ev = (struct proto_event){ .type = (enum proto_type)f->type,
		.stream = f->stream,
		.flags = f->flags,
		.raw = f->data,
		.raw_len = f->len };
	if (f->type == PROTO_DATA)
		return read_data(ev, f);
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		if (kinds[i].type != f->type)
			continue;
		/* Stream 0 is the channel's own: HELLO, and errors that concern no stream. */
		if (!f->stream && f->type != PROTO_HELLO && f->type != PROTO_ERROR)
			return -EPROTO;
		if ((f->flags & ~kinds[i].flags) ||
			values_read(&v, f->data, f->len, kinds[i].needed, kinds[i].allowed, &tag) <
				0)
			return -EPROTO;
		if (f->type == PROTO_ENTRY || f->type == PROTO_EVENT)
			ev->cost = f->len;
		ev->of_stderr = f->type == PROTO_END && (f->flags & DATA_ERR);
		return kinds[i].read ? kinds[i].read(ev, &v, f) : 0;
	}
	return -EPROTO;
}

static int broke_protocol(struct proto_conn *c, struct err *e)
{
	c->broken = true;
	return err_say(e, EPROTO,
		"the sandbox's agent broke the protocol; nothing it says can be trusted");
}

static struct fd_queue queue_of(struct proto_conn *c)
{
	return (struct fd_queue){ c->fds, &c->fd_count, PROTO_FDS_MAX };
}

static ssize_t receive_plain(int fd, void *to, size_t cap)
{
	ssize_t n;

	do
		n = recv(fd, to, cap, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

/* Plain recv, unless asked otherwise: descriptors that an agent sends along are dropped by the
 * kernel then. */
static int receive_more(struct proto_conn *c, struct err *e)
{
	struct fd_queue q = queue_of(c);
	size_t cap;
	void *to = frame_space(&c->in, &cap);
	ssize_t n = c->takes_fds ? fds_receive(c->fd, to, cap, &q) : receive_plain(c->fd, to, cap);

	if (n == -EAGAIN)
		return 0;
	if (n == 0 || n == -ECONNRESET)
		return err_say(e, ENOTCONN, "the sandbox's agent has closed its channel");
	if (n == -EPROTO)
		return broke_protocol(c, e);
	if (n < 0)
		return err_set(e, (int)-n, "receiving from the sandbox's agent");
	frame_fed(&c->in, (size_t)n);
	return 1;
}

int proto_conn_take_fd(struct proto_conn *c)
{
	struct fd_queue q = queue_of(c);

	return fds_next(&q);
}

int proto_conn_receive(struct proto_conn *c, struct proto_event *ret, struct err *e)
{
	for (;;) {
		struct frame f;
		int r = c->broken ? -EPROTO : frame_next(&c->in, &f);

		if (r > 0)
			return proto_event_read(ret, &f) < 0 ? broke_protocol(c, e) : 1;
		if (r < 0)
			return broke_protocol(c, e);
		r = receive_more(c, e);
		if (r <= 0)
			return r;
	}
}

int proto_failed_status(const struct proto_failed *f)
{
	if (f->step != START_STEP_EXEC)
		return 125;
	return f->code == ENOENT || f->code == ENOTDIR ? 127 : 126;
}
