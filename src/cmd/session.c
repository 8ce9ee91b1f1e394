/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/session.c - the streams of one command of a sandbox, here.
 *
 * Owns:  the terminal's mode while the command runs, and two requests: its output, and our stdin.
 * Rules: whatever happens, the terminal is as it was. Signals that ask us to end go to the command
 *        first; a second one ends us, and the command goes on.
 */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/exec.h"
#include "front/limits.h"
#include "front/rest/stream.h"
#include "wire/envelope.h"

enum { MESSAGE_MAX = 1 << 20, POLL_MS = 1000, STATUS_TIME = 124 /* as of `ward run` */ };

struct run {
	struct session *s;
	CURLM *multi;
	struct client_easy out, in;
	struct envelope_reader reader;
	struct buf error; /* the body of an answer that is no success */
	long pid;
	int status;     /* to exit with; -1: not known yet */
	bool in_paused; /* nothing on our stdin */
	bool in_open;
	unsigned asked; /* to end */
	int signals;
	struct termios before;
	bool raw;
	struct err err;
};

/* --- Output ----------------------------------------------------------------------------------- */

static int write_all(int fd, const char *data, size_t len)
{
	while (len) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = { .fd = fd, .events = POLLOUT };

			poll(&p, 1, POLL_MS);
			continue;
		}
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int on_event(struct run *r, const char *text, size_t len)
{
	own_jin struct jin *doc = NULL;
	const struct jin *exit = NULL;
	const char *error = NULL, *step = "";
	int64_t n = 0;
	bool signaled = false, timed_out = false;

	if (jin_parse(text, len, MESSAGE_MAX, &doc, &r->err) < 0)
		return -EPROTO;
	if (jin_i64(doc, "pid", 0, INT32_MAX, &n, NULL) > 0)
		r->pid = (long)n;
	if (jin_obj(doc, "exit", &exit, NULL) > 0) {
		jin_i64(exit, "code", 0, 255, &n, NULL);
		jin_bool(exit, "signaled", &signaled, NULL);
		jin_bool(exit, "timed_out", &timed_out, NULL);
		r->status = timed_out ? STATUS_TIME : signaled ? 128 + (int)n : (int)n;
		if (timed_out)
			fprintf(stderr, "ward: the command was killed: the time of its --timeout "
					"was over\n");
	}
	if (jin_str(doc, "error", &error, NULL) > 0) {
		jin_str(doc, "step", &step, NULL);
		jin_i64(doc, "status", 0, 255, &n, NULL);
		r->status = (int)n;
		fprintf(stderr, "ward exec: %s: %s\n", step, error);
	}
	return 0;
}

static size_t on_output(char *data, size_t size, size_t count, void *ctx)
{
	struct run *r = ctx;
	const void *at = data;
	size_t left = size * count, len;
	const char *msg;
	uint8_t kind;
	long code = 0;
	int got;

	curl_easy_getinfo(r->out.curl, CURLINFO_RESPONSE_CODE, &code);
	if (code != 200) {
		buf_add(&r->error, data, left);
		return r->error.bad ? 0 : size * count;
	}
	while ((got = envelope_read(&r->reader, &at, &left, &kind, &msg, &len)) > 0) {
		int w = kind == REST_EVENT ? on_event(r, msg, len)
					   : write_all(kind == REST_STDERR ? 2 : 1, msg, len);

		if (w == -EPIPE)
			r->status = 141; /* nobody reads us: as if by SIGPIPE */
		if (w < 0)
			return 0;
	}
	return got < 0 ? 0 : size * count;
}

/* --- Input ------------------------------------------------------------------------------------ */

static size_t on_input(char *out, size_t size, size_t count, void *ctx)
{
	struct run *r = ctx;
	struct pollfd p = { .fd = 0, .events = POLLIN };
	ssize_t n;

	if (poll(&p, 1, 0) <= 0) {
		r->in_paused = true;
		return CURL_READFUNC_PAUSE;
	}
	n = read(0, out, size * count);
	return n < 0 ? 0 : (size_t)n;
}

static size_t drop(char *data, size_t size, size_t count, void *ctx)
{
	return size * count;
}

static int open_input(struct run *r)
{
	char path[200], rest[64];
	int e = str_fmt(rest, sizeof(rest), "/stdin/%ld?close=1", r->pid);

	if (e == 0)
		e = client_path(path, sizeof(path), r->s->id, rest, &r->err);
	if (e == 0)
		e = client_easy(r->s->client, "POST", path,
			"Content-Type: application/octet-stream", &r->in, &r->err);
	if (e < 0)
		return e;
	curl_easy_setopt(r->in.curl, CURLOPT_UPLOAD, 1L);
	curl_easy_setopt(r->in.curl, CURLOPT_READFUNCTION, on_input);
	curl_easy_setopt(r->in.curl, CURLOPT_READDATA, r);
	curl_easy_setopt(r->in.curl, CURLOPT_WRITEFUNCTION, drop);
	r->in_open = curl_multi_add_handle(r->multi, r->in.curl) == CURLM_OK;
	return 0;
}

/* --- Signals and the terminal ----------------------------------------------------------------- */

static void tell(struct run *r, const char *what, const struct buf *body)
{
	char path[200], rest[64];

	if (r->pid && str_fmt(rest, sizeof(rest), "/%s/%ld", what, r->pid) == 0 &&
		client_path(path, sizeof(path), r->s->id, rest, NULL) == 0)
		client_call(r->s->client, "POST", path, body, NULL, NULL);
}

static void send_size(struct run *r)
{
	own_buf struct buf b = { 0 };
	struct winsize w;

	if (!r->s->tty || ioctl(1, TIOCGWINSZ, &w) < 0)
		return;
	buf_init(&b, 128);
	json_open(&b, NULL);
	json_u64(&b, "rows", w.ws_row);
	json_u64(&b, "cols", w.ws_col);
	json_close(&b);
	tell(r, "resize", &b);
}

static void on_signal(struct run *r)
{
	struct signalfd_siginfo info;
	own_buf struct buf b = { 0 };

	if (read(r->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGWINCH) {
		send_size(r);
		return;
	}
	if (r->asked++ || !r->pid) {
		r->status = 128 + (int)info.ssi_signo;
		return;
	}
	buf_init(&b, 128);
	json_open(&b, NULL);
	json_u64(&b, "signal", info.ssi_signo);
	json_bool(&b, "group", true);
	json_close(&b);
	tell(r, "signal", &b);
}

static int take_signals(struct run *r)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGWINCH);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return err_set(&r->err, errno, "blocking signals");
	signal(SIGPIPE, SIG_IGN);
	r->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return r->signals < 0 ? err_set(&r->err, errno, "listening for signals") : 0;
}

static void make_raw(struct run *r)
{
	struct termios t;

	if (!r->s->tty || !isatty(0) || tcgetattr(0, &r->before) < 0)
		return;
	t = r->before;
	cfmakeraw(&t);
	r->raw = tcsetattr(0, TCSADRAIN, &t) == 0;
}

/* --- Turns ------------------------------------------------------------------------------------ */

/* True when the request for the output is over. */
static bool is_over(struct run *r)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(r->multi, &left)))
		if (m->msg == CURLMSG_DONE && m->easy_handle == r->out.curl) {
			if (m->data.result != CURLE_OK && r->status < 0)
				err_say(&r->err, EIO, "the daemon hung up: %s",
					curl_easy_strerror(m->data.result));
			return true;
		}
	return false;
}

static int turn(struct run *r)
{
	struct curl_waitfd fds[2] = { { .fd = r->signals, .events = CURL_WAIT_POLLIN },
		{ .fd = 0, .events = CURL_WAIT_POLLIN } };
	int running = 0;

	curl_multi_perform(r->multi, &running);
	if (is_over(r) || r->status >= 0)
		return 1;
	if (r->pid && r->s->interactive && !r->in_open) {
		send_size(r);
		if (open_input(r) < 0)
			return -EIO;
		return 0;
	}
	curl_multi_poll(r->multi, fds, r->in_paused ? 2 : 1, POLL_MS, NULL);
	if (fds[0].revents)
		on_signal(r);
	if (r->in_paused && fds[1].revents) {
		r->in_paused = false;
		curl_easy_pause(r->in.curl, CURLPAUSE_CONT);
	}
	return r->status >= 0;
}

static int begin(struct run *r)
{
	struct session *s = r->s;
	int e = client_easy(s->client, s->body ? "POST" : "GET", s->path,
		s->body ? "Content-Type: application/json" : NULL, &r->out, &r->err);

	if (e < 0)
		return e;
	if (s->body) {
		curl_easy_setopt(
			r->out.curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)s->body->len);
		curl_easy_setopt(r->out.curl, CURLOPT_POSTFIELDS, s->body->data);
	}
	curl_easy_setopt(r->out.curl, CURLOPT_WRITEFUNCTION, on_output);
	curl_easy_setopt(r->out.curl, CURLOPT_WRITEDATA, r);
	r->multi = curl_multi_init();
	if (!r->multi || curl_multi_add_handle(r->multi, r->out.curl) != CURLM_OK)
		return err_set(&r->err, ENOMEM, "starting libcurl");
	return take_signals(r);
}

static int result(struct run *r, int e)
{
	long code = 0;

	if (r->status >= 0)
		return r->status;
	if (r->out.curl)
		curl_easy_getinfo(r->out.curl, CURLINFO_RESPONSE_CODE, &code);
	if (code && code != 200)
		return client_error(code, r->error.data, r->error.len, &r->err);
	if (r->err.code)
		return -r->err.code;
	if (e == 1 && r->pid)
		return 0; /* logs that were not followed */
	return err_say(&r->err, EIO, "the daemon did not say how it ended");
}

int session_run(struct session *s, struct err *e)
{
	struct run r = { .s = s, .status = -1, .signals = -1 };
	int n = 0;

	envelope_reader_init(&r.reader, MESSAGE_MAX);
	buf_init(&r.error, FRONT_JSON_MAX);
	n = begin(&r);
	if (n == 0)
		make_raw(&r);
	while (n == 0)
		n = turn(&r);
	if (r.raw)
		tcsetattr(0, TCSADRAIN, &r.before);
	n = result(&r, n);
	if (r.multi) {
		curl_multi_remove_handle(r.multi, r.out.curl);
		if (r.in_open)
			curl_multi_remove_handle(r.multi, r.in.curl);
		curl_multi_cleanup(r.multi);
	}
	client_easy_free(&r.out);
	client_easy_free(&r.in);
	envelope_reader_done(&r.reader);
	buf_done(&r.error);
	if (r.signals >= 0)
		close(r.signals);
	if (n < 0)
		*e = r.err;
	return n;
}
