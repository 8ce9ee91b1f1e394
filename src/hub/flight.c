/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/flight.c - reads the end records that supervisors leave.
 *
 * Owns:  the way from their JSON to a struct.
 * Rules: a record is believed no more than the supervisor: bounded, checked, printable.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <jansson.h>

#include "base/own.h"
#include "hub/flight.h"

static void take_text(const json_t *o, const char *key, char *out, size_t cap)
{
	const char *text = json_string_value(json_object_get(o, key));

	snprintf(out, cap, "%s", text ? text : "");
	for (char *p = out; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
}

static uint64_t take_number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);

	return json_is_integer(v) && json_integer_value(v) >= 0 ? (uint64_t)json_integer_value(v)
								: UINT64_MAX;
}

static int digit(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+'             ? 62
	       : c == '/'             ? 63
				      : -1;
}

/* What is not base64 ends it: the rest is left out. */
static int take_output(const json_t *o, struct flight_record *ret)
{
	const char *text = json_string_value(json_object_get(o, "output_base64"));
	size_t len = text ? strlen(text) : 0;
	uint32_t bits = 0;
	int have = 0, d;

	if (!len)
		return 0;
	ret->output = malloc(len / 4 * 3 + 3);
	if (!ret->output)
		return -ENOMEM;
	for (; *text && (d = digit(*text)) >= 0; text++) {
		bits = bits << 6 | (uint32_t)d;
		have += 6;
		if (have < 8)
			continue;
		have -= 8;
		ret->output[ret->output_len++] = (uint8_t)(bits >> have);
	}
	return 0;
}

static void take_curve(const json_t *o, struct flight_record *ret)
{
	const json_t *curve = json_object_get(o, "curve");
	size_t count = json_array_size(curve);

	if (count > FLIGHT_SAMPLES)
		count = FLIGHT_SAMPLES;
	for (size_t i = 0; i < count; i++) {
		const json_t *s = json_array_get(curve, i);
		struct hub_sample *to = &ret->samples[ret->sample_count];
		uint64_t at = take_number(s, "at_us");

		if (at > INT64_MAX)
			continue;
		*to = (struct hub_sample){
			.at_us = (int64_t)at,
			.cpu_us = take_number(s, "cpu_us"),
			.cpu_milli = UINT64_MAX,
			.mem_used = take_number(s, "mem_used"),
			.mem_cache = take_number(s, "mem_cache"),
			.mem_total = UINT64_MAX,
			.disk_used = take_number(s, "disk_used"),
			.disk_total = UINT64_MAX,
			.pids = take_number(s, "pids"),
			.net_in = take_number(s, "net_in"),
			.net_out = take_number(s, "net_out"),
		};
		if (i && to->cpu_us != UINT64_MAX && to[-1].cpu_us <= to->cpu_us &&
			to->at_us > to[-1].at_us && ret->sample_count)
			to->cpu_milli = (to->cpu_us - to[-1].cpu_us) * 1000 /
					(uint64_t)(to->at_us - to[-1].at_us);
		ret->sample_count++;
	}
}

static int take_all(json_t *o, struct flight_record *ret, struct err *e)
{
	uint64_t ended = take_number(o, "ended_us");

	take_text(o, "cause", ret->cause, sizeof(ret->cause));
	take_text(o, "detail", ret->detail, sizeof(ret->detail));
	take_text(o, "step", ret->step, sizeof(ret->step));
	take_text(o, "tier", ret->tier, sizeof(ret->tier));
	take_text(o, "why", ret->why, sizeof(ret->why));
	if (!ret->cause[0] || ended > INT64_MAX)
		return err_say(e, EBADMSG, "an end record without cause or time");
	ret->ended_us = (int64_t)ended;
	ret->status = (int)json_integer_value(json_object_get(o, "exit_status"));
	take_curve(o, ret);
	if (take_output(o, ret) < 0)
		return err_set(e, ENOMEM, "reading an end record");
	json_object_del(o, "output_base64");
	json_object_del(o, "curve");
	ret->report = json_dumps(o, JSON_COMPACT | JSON_ENSURE_ASCII);
	return ret->report ? 0 : err_set(e, ENOMEM, "reading an end record");
}

int flight_parse(const char *text, size_t len, struct flight_record *ret, struct err *e)
{
	json_error_t at;
	json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &at);
	int r;

	ret->report = NULL;
	ret->output = NULL;
	ret->output_len = 0;
	ret->sample_count = 0;
	if (!json_is_object(o)) {
		json_decref(o);
		return err_say(e, EBADMSG, "an end record is not a JSON object");
	}
	r = take_all(o, ret, e);
	json_decref(o);
	if (r < 0)
		flight_done(ret);
	return r;
}

int flight_load(const char *path, struct flight_record *ret, struct err *e)
{
	own_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	own_mem char *text = NULL;
	struct stat st;
	size_t len = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_set(e, errno, "opening the end record '%s'", path);
	if (!S_ISREG(st.st_mode) || st.st_size > FLIGHT_BYTES_MAX)
		return err_say(e, EBADMSG, "the end record '%s' is not a file of its size", path);
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return err_set(e, ENOMEM, "reading the end record '%s'", path);
	while (len < (size_t)st.st_size) {
		ssize_t n = read(fd, text + len, (size_t)st.st_size - len);

		if (n <= 0)
			break;
		len += (size_t)n;
	}
	return flight_parse(text, len, ret, e);
}

void flight_done(struct flight_record *r)
{
	free(r->report);
	free(r->output);
	r->report = NULL;
	r->output = NULL;
}
