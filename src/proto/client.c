/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/client.c - what the host sends to an agent.
 *
 * Owns:  the queue of bytes that the channel did not take yet.
 * Rules: never waits. One frame is one sendmsg, so that descriptors arrive with their START. What
 *        comes back is read in event.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/ckd.h"
#include "proto/client.h"
#include "proto/msg.h"

enum {
	FIELD_HEAD = 6,
	SMALL = FRAME_HEAD + 64, /* a message of numbers alone */
	REQUEST = FRAME_HEAD + 3 * WARD_PATH_MAX + META_BYTES_MAX + 256, /* texts, numbers */
	QUEUE_STEP = 64 * 1024,
	FDS_OF_START = 3,
};

void proto_conn_init(struct proto_conn *c, int fd)
{
	c->fd = fd;
	c->broken = c->deaf = c->takes_fds = false;
	c->fd_count = 0;
	c->out = NULL;
	c->out_at = c->out_len = c->out_cap = 0;
	frame_reader_init(&c->in);
}

void proto_conn_done(struct proto_conn *c)
{
	while (c->fd_count)
		close(c->fds[--c->fd_count]);
	free(c->out);
	c->out = NULL;
	c->out_at = c->out_len = c->out_cap = 0;
}

/* Puts the descriptors into @msg; @room lives as long as it. */
union start_fds {
	struct cmsghdr head;
	char room[CMSG_SPACE(FDS_OF_START * sizeof(int))];
};

static void attach_fds(struct msghdr *msg, union start_fds *control, const int *fds, unsigned count)
{
	struct cmsghdr *c;

	if (!count)
		return;
	memset(control, 0, sizeof(*control));
	msg->msg_control = control;
	msg->msg_controllen = CMSG_SPACE(count * sizeof(int));
	c = CMSG_FIRSTHDR(msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(c), fds, count * sizeof(int));
}

/* Bytes sent, 0 when the channel takes none now, or a negative errno. */
static ssize_t send_now(
	struct proto_conn *c, struct iovec *iov, size_t iov_count, const int *fds, unsigned count)
{
	struct msghdr msg = { .msg_iov = iov };
	union start_fds control;
	ssize_t n;

	msg.msg_iovlen = iov_count; /* its type differs between C libraries */
	attach_fds(&msg, &control, fds, count);
	do
		n = sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return 0;
	return n < 0 ? -errno : n;
}

static int queue_add(struct proto_conn *c, const void *data, size_t len)
{
	if (c->out_at) {
		memmove(c->out, c->out + c->out_at, c->out_len - c->out_at);
		c->out_len -= c->out_at;
		c->out_at = 0;
	}
	if (c->out_cap - c->out_len < len) {
		size_t cap = (c->out_len + len + QUEUE_STEP - 1) / QUEUE_STEP * QUEUE_STEP;
		uint8_t *p = realloc(c->out, cap);

		if (!p)
			return -ENOMEM;
		c->out = p;
		c->out_cap = cap;
	}
	memcpy(c->out + c->out_len, data, len);
	c->out_len += len;
	return 0;
}

static int deaf(struct proto_conn *c, int r, struct err *e)
{
	c->deaf = true;
	if (r == -ECONNRESET)
		r = -EPIPE;
	return err_set(e, -r, "sending to the sandbox's agent");
}

int proto_conn_flush(struct proto_conn *c, struct err *e)
{
	while (c->out_at < c->out_len) {
		struct iovec iov = { c->out + c->out_at, c->out_len - c->out_at };
		ssize_t n = send_now(c, &iov, 1, NULL, 0);

		if (n < 0)
			return deaf(c, (int)n, e);
		if (n == 0)
			return 0;
		c->out_at += (size_t)n;
	}
	c->out_at = c->out_len = 0;
	return 0;
}

/* Sends or queues one frame, in two parts; all of it or, with an error, no more is sent. */
static int send_frame(struct proto_conn *c, const void *head, size_t head_len, const void *data,
	size_t len, const int *fds, unsigned fd_count, struct err *e)
{
	struct iovec iov[2] = { { (void *)head, head_len }, { (void *)data, len } };
	size_t waiting = c->out_len - c->out_at, done = 0;
	ssize_t n;
	int r;

	if (c->deaf || c->broken)
		return err_set(e, EPIPE, "sending to the sandbox's agent");
	if (waiting + head_len + len > PROTO_QUEUE_MAX)
		return err_say(e, ENOBUFS, "the sandbox's agent does not read its channel");
	if (fd_count && waiting)
		return err_say(e, EBUSY, "descriptors must be sent before anything waits");
	if (!waiting) {
		n = send_now(c, iov, len ? 2 : 1, fds, fd_count);
		if (n < 0)
			return deaf(c, (int)n, e);
		if (n == 0 && fd_count)
			return err_set(e, EAGAIN, "sending descriptors to the sandbox's agent");
		done = (size_t)n;
	}
	r = done < head_len ? queue_add(c, (const uint8_t *)head + done, head_len - done) : 0;
	done = done < head_len ? 0 : done - head_len;
	if (r == 0 && len > done)
		r = queue_add(c, (const uint8_t *)data + done, len - done);
	return r < 0 ? deaf(c, r, e) : 0;
}

static int send_msg(struct proto_conn *c, struct msg *m, struct err *e)
{
	int n = msg_end(m);

	if (n < 0)
		return err_say(e, E2BIG, "a message to the sandbox's agent is too long");
	return send_frame(c, m->buf, (size_t)n, NULL, 0, NULL, 0, e);
}

/* The bytes that the strings take as fields; @count and @plain grow by what they are. */
static size_t strings_size(const char *const *list, size_t *count, size_t *plain)
{
	size_t total = 0;

	for (; list && *list; list++) {
		size_t n = strlen(*list) + 1;

		total += FIELD_HEAD + n;
		*plain += n;
		*count += 1;
	}
	return total;
}

static int start_size(const struct proto_start *s, size_t *ret_size, struct err *e)
{
	size_t count = 0, plain = 0, size;

	size = strings_size(s->argv, &count, &plain);
	if (!count)
		return err_say(e, EINVAL, "no command to start");
	size += strings_size(s->env, &count, &plain);
	if (plain > ARGS_BYTES_MAX || count > START_STRINGS_MAX)
		return err_say(e, E2BIG,
			"arguments and environment are %zu bytes in %zu strings; "
			"at most %d in %d are possible",
			plain, count, ARGS_BYTES_MAX, START_STRINGS_MAX);
	if ((s->cwd && strlen(s->cwd) >= WARD_PATH_MAX) ||
		(s->user && strlen(s->user) >= WARD_PATH_MAX))
		return err_set(e, ENAMETOOLONG, "working directory or user");
	size += s->cwd ? FIELD_HEAD + strlen(s->cwd) + 1 : 0;
	size += s->user ? FIELD_HEAD + strlen(s->user) + 1 : 0;
	*ret_size = size + 3 * (FIELD_HEAD + 4); /* rows, cols, window */
	return 0;
}

static void start_write(struct msg *m, const struct proto_start *s)
{
	for (const char *const *p = s->argv; *p; p++)
		msg_text(m, TAG_ARG, *p);
	for (const char *const *p = s->env; p && *p; p++)
		msg_text(m, TAG_ENV, *p);
	if (s->cwd)
		msg_text(m, TAG_CWD, s->cwd);
	if (s->user)
		msg_text(m, TAG_USER, s->user);
	if (s->rows)
		msg_u32(m, TAG_ROWS, s->rows);
	if (s->cols)
		msg_u32(m, TAG_COLS, s->cols);
	if (s->window)
		msg_u32(m, TAG_WINDOW, s->window);
}

/* A START that is longer than one frame: the same fields, cut anywhere. */
static int send_start_parts(struct proto_conn *c, const struct proto_start *s,
	const uint8_t *fields, size_t len, const int *fds, unsigned fd_count, struct err *e)
{
	for (size_t at = 0; at < len;) {
		size_t n = len - at < FRAME_PAYLOAD_MAX ? len - at : FRAME_PAYLOAD_MAX;
		uint16_t more = at + n < len ? START_MORE : 0;
		uint8_t head[FRAME_HEAD];
		int r;

		frame_put_head(head, (uint32_t)n, PROTO_START, s->flags | more, s->stream);
		r = send_frame(c, head, sizeof(head), fields + at, n, fds, fd_count, e);
		if (r < 0)
			return r;
		fd_count = 0;
		at += n;
	}
	return 0;
}

int proto_send_start(struct proto_conn *c, const struct proto_start *s, const int *fds,
	unsigned fd_count, struct err *e)
{
	uint8_t small[FRAME_HEAD + 4096], *buf = small;
	struct msg m;
	size_t size = 0;
	int r;

	r = start_size(s, &size, e);
	if (r < 0)
		return r;
	if (fd_count != ((s->flags & START_STDIO_FDS) ? FDS_OF_START : 0))
		return err_say(e, EINVAL, "a START has three descriptors or none");
	if (FRAME_HEAD + size > sizeof(small))
		buf = malloc(FRAME_HEAD + size);
	if (!buf)
		return err_set(e, ENOMEM, "%zu bytes for arguments", size);
	msg_begin(&m, buf, FRAME_HEAD + size, PROTO_START, s->flags, s->stream);
	start_write(&m, s);
	r = msg_end(&m);
	if (r > 0)
		r = send_frame(c, buf, (size_t)r, NULL, 0, fds, fd_count, e);
	else
		r = send_start_parts(c, s, buf + FRAME_HEAD, m.len - FRAME_HEAD, fds, fd_count, e);
	if (buf != small)
		free(buf);
	return r;
}

/* A message with one or two numbers. */
static int send_numbers(struct proto_conn *c, enum proto_type type, uint16_t flags, uint32_t stream,
	enum proto_tag tag, uint32_t v, enum proto_tag tag2, uint32_t v2, struct err *e)
{
	uint8_t buf[SMALL];
	struct msg m;

	msg_begin(&m, buf, sizeof(buf), type, flags, stream);
	if (tag)
		msg_u32(&m, tag, v);
	if (tag2)
		msg_u32(&m, tag2, v2);
	return send_msg(c, &m, e);
}

int proto_send_signal(struct proto_conn *c, uint32_t stream, int sig, bool group, struct err *e)
{
	return send_numbers(c, PROTO_SIGNAL, group ? SIGNAL_GROUP : 0, stream, TAG_SIGNAL,
		(uint32_t)sig, 0, 0, e);
}

int proto_send_resize(
	struct proto_conn *c, uint32_t stream, unsigned rows, unsigned cols, struct err *e)
{
	return send_numbers(c, PROTO_RESIZE, 0, stream, TAG_ROWS, rows, TAG_COLS, cols, e);
}

int proto_send_data(
	struct proto_conn *c, uint32_t stream, const void *data, size_t len, struct err *e)
{
	const uint8_t *p = data;

	while (len) {
		size_t n = len < FRAME_PAYLOAD_MAX ? len : FRAME_PAYLOAD_MAX;
		uint8_t head[FRAME_HEAD];
		int r;

		frame_put_head(head, (uint32_t)n, PROTO_DATA, 0, stream);
		r = send_frame(c, head, sizeof(head), p, n, NULL, 0, e);
		if (r < 0)
			return r;
		p += n;
		len -= n;
	}
	return 0;
}

int proto_send_end(struct proto_conn *c, uint32_t stream, struct err *e)
{
	return send_numbers(c, PROTO_END, 0, stream, 0, 0, 0, 0, e);
}

int proto_send_close(struct proto_conn *c, uint32_t stream, bool of_stderr, struct err *e)
{
	return send_numbers(c, PROTO_END, of_stderr ? DATA_ERR : END_OUT, stream, 0, 0, 0, 0, e);
}

int proto_send_credit(
	struct proto_conn *c, uint32_t stream, bool of_stderr, uint32_t bytes, struct err *e)
{
	uint8_t buf[SMALL];
	struct msg m;

	if (!bytes)
		return 0;
	msg_begin(&m, buf, sizeof(buf), PROTO_CREDIT, of_stderr ? DATA_ERR : 0, stream);
	msg_u64(&m, TAG_BYTES, bytes);
	return send_msg(c, &m, e);
}

int proto_send_cancel(struct proto_conn *c, uint32_t stream, struct err *e)
{
	return send_numbers(c, PROTO_CANCEL, 0, stream, 0, 0, 0, 0, e);
}

int proto_send_hello(struct proto_conn *c, struct err *e)
{
	return send_numbers(c, PROTO_HELLO, 0, 0, TAG_VERSION, PROTO_VERSION, 0, 0, e);
}

int proto_send_shutdown(struct proto_conn *c, uint32_t grace_ms, struct err *e)
{
	return send_numbers(c, PROTO_SHUTDOWN, 0, 0, TAG_GRACE_MS, grace_ms, 0, 0, e);
}

int proto_put_request(struct msg *m, const struct proto_request *q, struct err *e)
{
	const struct {
		enum proto_tag tag;
		const char *text;
	} texts[] = { { TAG_PATH, q->path }, { TAG_TO, q->to }, { TAG_USER, q->user } };
	const struct {
		enum proto_tag tag;
		uint32_t v;
		bool always;
	} numbers[] = { { TAG_MODE, q->mode, q->has_mode }, { TAG_DEPTH, q->depth, false },
		{ TAG_PORT, q->port, false }, { TAG_WINDOW, q->window, false } };

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		if (texts[i].text && strlen(texts[i].text) >= WARD_PATH_MAX)
			return err_set(e, ENAMETOOLONG, "'%.40s...'", texts[i].text);
		if (texts[i].text)
			msg_text(m, texts[i].tag, texts[i].text);
	}
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		if (numbers[i].v || numbers[i].always)
			msg_u32(m, numbers[i].tag, numbers[i].v);
	if (q->offset)
		msg_u64(m, TAG_OFFSET, q->offset);
	if (q->length)
		msg_u64(m, TAG_LENGTH, q->length);
	if (q->meta_len > META_BYTES_MAX)
		return err_say(e, E2BIG, "attributes are more than %d bytes", META_BYTES_MAX);
	if (q->has_meta)
		msg_bytes(m, TAG_META, q->meta, q->meta_len);
	return m->over ? err_say(e, E2BIG, "the request is too long") : 0;
}

int proto_send_request(struct proto_conn *c, const struct proto_request *q, struct err *e)
{
	uint8_t buf[REQUEST];
	struct msg m;
	int r;

	msg_begin(&m, buf, sizeof(buf), q->type, q->flags, q->stream);
	r = proto_put_request(&m, q, e);
	return r < 0 ? r : send_msg(c, &m, e);
}

int proto_send_raw(struct proto_conn *c, uint16_t type, uint16_t flags, uint32_t stream,
	const void *data, size_t len, struct err *e)
{
	uint8_t head[FRAME_HEAD];

	frame_put_head(head, (uint32_t)len, type, flags, stream);
	return send_frame(c, head, sizeof(head), data, len, NULL, 0, e);
}
