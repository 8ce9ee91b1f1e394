/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/flight.c - what is remembered of a sandbox when it is gone.
 *
 * Owns:  the names in an end record.
 * Rules: nothing grows. Texts are made printable when they are noted; output is kept as it is and
 *        written in base64, since it may be anything.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "store/spare.h"
#include "sup/flight.h"
#include "sup/link.h"

enum { RECORD_VERSION = 1, RECORD_MAX = 256 * 1024, BASE64_MAX = (SUP_TAIL_BYTES + 2) / 3 * 4 + 1 };

void flight_init(struct flight *f)
{
	f->event_count = f->tail_bytes = 0;
	f->sample_count = 0;
	f->interval_ms = FLIGHT_FIRST_MS;
}

void flight_note(struct flight *f, const char *kind, const char *fmt, ...)
{
	struct flight_event *ev = &f->events[f->event_count++ % SUP_EVENTS_MAX];
	va_list ap;

	ev->at_us = clock_now_us();
	str_copy(ev->kind, sizeof(ev->kind), kind);
	va_start(ap, fmt);
	vsnprintf(ev->text, sizeof(ev->text), fmt, ap);
	va_end(ap);
	for (char *p = ev->text; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
}

void flight_output(struct flight *f, const uint8_t *data, size_t len)
{
	if (len > SUP_TAIL_BYTES) {
		f->tail_bytes += len - SUP_TAIL_BYTES;
		data += len - SUP_TAIL_BYTES;
		len = SUP_TAIL_BYTES;
	}
	while (len) {
		size_t at = (size_t)(f->tail_bytes % SUP_TAIL_BYTES);
		size_t n = len < SUP_TAIL_BYTES - at ? len : SUP_TAIL_BYTES - at;

		memcpy(f->tail + at, data, n);
		f->tail_bytes += n;
		data += n;
		len -= n;
	}
}

void flight_sample(struct flight *f, const struct usage_now *u)
{
	if (f->sample_count == SUP_SAMPLES_MAX) {
		for (unsigned i = 0; i < SUP_SAMPLES_MAX / 2; i++)
			f->samples[i] = f->samples[i * 2];
		f->sample_count = SUP_SAMPLES_MAX / 2;
		f->interval_ms *= 2;
	}
	f->samples[f->sample_count++] = (struct flight_sample){
		.at_us = clock_now_us(),
		.cpu_us = u->cpu_us,
		.mem_used = u->mem_used,
		.mem_cache = u->mem_cache,
		.disk_used = u->disk_used,
		.pids = u->pids,
		.net_in = u->net_in,
		.net_out = u->net_out,
	};
}

static void base64(char *out, const uint8_t *data, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < len; i += 3) {
		uint32_t v = (uint32_t)data[i] << 16;

		v |= i + 1 < len ? (uint32_t)data[i + 1] << 8 : 0;
		v |= i + 2 < len ? data[i + 2] : 0;
		*out++ = digits[v >> 18];
		*out++ = digits[v >> 12 & 63];
		*out++ = i + 1 < len ? digits[v >> 6 & 63] : '=';
		*out++ = i + 2 < len ? digits[v & 63] : '=';
	}
	*out = '\0';
}

static void add_output(const struct flight *f, struct buf *b)
{
	uint8_t tail[SUP_TAIL_BYTES];
	char text[BASE64_MAX];
	size_t len = f->tail_bytes < SUP_TAIL_BYTES ? (size_t)f->tail_bytes : SUP_TAIL_BYTES;
	size_t at = f->tail_bytes < SUP_TAIL_BYTES ? 0 : (size_t)(f->tail_bytes % SUP_TAIL_BYTES);

	memcpy(tail, f->tail + at, len - at);
	memcpy(tail + len - at, f->tail, at);
	base64(text, tail, len);
	json_u64(b, "output_bytes", f->tail_bytes);
	json_str(b, "output_base64", text);
}

static void add_known(struct buf *b, const char *key, uint64_t value)
{
	if (value == UINT64_MAX)
		json_null(b, key);
	else
		json_u64(b, key, value);
}

static void add_events(const struct flight *f, struct buf *b)
{
	uint64_t from = f->event_count > SUP_EVENTS_MAX ? f->event_count - SUP_EVENTS_MAX : 0;

	json_u64(b, "event_count", f->event_count);
	json_array(b, "events");
	for (uint64_t i = from; i < f->event_count; i++) {
		const struct flight_event *ev = &f->events[i % SUP_EVENTS_MAX];

		json_open(b, NULL);
		json_i64(b, "at_us", ev->at_us);
		json_str(b, "kind", ev->kind);
		json_str(b, "text", ev->text);
		json_close(b);
	}
	json_array_end(b);
}

static void add_curve(const struct flight *f, struct buf *b)
{
	json_array(b, "curve");
	for (unsigned i = 0; i < f->sample_count; i++) {
		const struct flight_sample *s = &f->samples[i];

		json_open(b, NULL);
		json_i64(b, "at_us", s->at_us);
		add_known(b, "cpu_us", s->cpu_us);
		add_known(b, "mem_used", s->mem_used);
		add_known(b, "mem_cache", s->mem_cache);
		add_known(b, "disk_used", s->disk_used);
		add_known(b, "pids", s->pids);
		add_known(b, "net_in", s->net_in);
		add_known(b, "net_out", s->net_out);
		json_close(b);
	}
	json_array_end(b);
}

static void add_cause(const struct flight_end *x, struct buf *b)
{
	const struct run_end *end = x->end;

	json_str(b, "cause", end_cause_name(end->cause));
	json_str(b, "detail", end->detail[0] ? end->detail : NULL);
	json_str(b, "step", end->step);
	json_i64(b, "exit_status", end->status);
	json_array(b, "limits_hit");
	for (int i = 0; i < END_CAUSES; i++)
		if (end->limits_hit & 1u << i)
			json_str(b, NULL, end_cause_name((enum end_cause)i));
	json_array_end(b);
	json_array(b, "denials");
	for (unsigned i = 0; i < x->seen->denial_count; i++) {
		json_open(b, NULL);
		json_str(b, "what", x->seen->denials[i].what);
		json_u64(b, "count", x->seen->denials[i].count);
		json_close(b);
	}
	json_array_end(b);
	json_open(b, "usage");
	add_known(b, "cpu_us", end->usage.cpu_us);
	add_known(b, "memory_peak_bytes", end->usage.memory_peak_bytes);
	add_known(b, "pids_peak", end->usage.pids_peak);
	json_u64(b, "pids_refused", end->usage.pids_refused);
	json_u64(b, "oom_kills", end->usage.oom_kills);
	json_close(b);
}

void flight_json(const struct flight *f, const struct flight_end *x, struct buf *out)
{
	char now[CLOCK_TEXT];

	clock_text(now);
	json_open(out, NULL);
	json_u64(out, "version", RECORD_VERSION);
	json_str(out, "id", x->id);
	json_str(out, "tier", x->tier);
	json_str(out, "why", x->why);
	json_str(out, "created", x->created);
	json_str(out, "ended", now);
	json_i64(out, "ended_us", clock_now_us());
	add_cause(x, out);
	json_u64(out, "processes", x->processes);
	add_events(f, out);
	add_output(f, out);
	add_curve(f, out);
	json_close(out);
	buf_add_str(out, "\n");
}

int flight_write(const struct flight *f, const struct flight_end *x, int dir, struct err *e)
{
	char name[ID_LEN + 8], tmp[ID_LEN + 8];
	own_buf struct buf b;
	own_fd int fd = -1;
	int r;

	buf_init(&b, RECORD_MAX);
	flight_json(f, x, &b);
	if (b.bad)
		return err_set(e, ENOMEM, "the end record of %s", x->id);
	r = str_fmt(name, sizeof(name), "%s.end", x->id);
	if (r == 0)
		r = str_fmt(tmp, sizeof(tmp), "%s.tmp", x->id);
	if (r < 0)
		return err_set(e, -r, "the end record of %s", x->id);
	/* A spare has bytes of another one, which go. */
	if (spare_take(dir, SUP_SPARE_RECORD, (unsigned)getpid(), tmp) == 0)
		fd = host_openat(dir, tmp, O_WRONLY | O_NOFOLLOW, 0);
	else
		fd = host_openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
	r = fd < 0 ? fd : host_write_all(fd, b.data, b.len);
	if (r == 0)
		r = host_ftruncate(fd, (off_t)b.len);
	if (r == 0)
		r = host_renameat(dir, tmp, dir, name);
	if (r < 0) {
		host_unlinkat(dir, tmp, 0);
		return err_set(e, -r, "writing the end record of %s", x->id);
	}
	return 0;
}
