/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_proto.c - the frame reader and every decoder of the agent protocol.
 *
 * Input: the first byte is the size of the pieces in which the rest is fed, 0 for all at once; the
 * rest is what an agent, or a client, might have sent.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/event.h"
#include "proto/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads every byte, so that a bound that is wrong by one is seen. */
static void touch(const void *p, size_t len)
{
	const volatile uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		(void)b[i];
}

static void touch_text(const char *s)
{
	if (s)
		touch(s, strlen(s) + 1);
}

static void check_event(const struct frame *f)
{
	struct proto_event ev;

	if (proto_event_read(&ev, f) < 0)
		return;
	touch(ev.data, ev.data_len);
	touch_text(ev.name);
	touch_text(ev.file.name);
	touch_text(ev.file.link);
	touch_text(ev.process.name);
	touch(ev.process.cmdline, ev.process.cmdline_len);
	touch_text(ev.failed.text);
	if (ev.type == PROTO_EXIT && (ev.exit.code < 0 || ev.exit.code > 255))
		abort();
	if ((ev.type == PROTO_ERROR || ev.type == PROTO_START_FAILED) && ev.failed.code < 1)
		abort();
	for (const char *p = ev.failed.text; *p; p++)
		if (*p < ' ' || *p > '~')
			abort();
	if (ev.name && (strstr(ev.name, "../") == ev.name || ev.name[0] == '/'))
		abort();
}

/* A message that was read can be written again, and comes out the same. */
static void check_fields(const struct frame *f)
{
	static uint8_t copy[FRAME_HEAD + FRAME_PAYLOAD_MAX];
	struct fields fs;
	struct field field;
	struct msg m;
	int r;

	msg_begin(&m, copy, sizeof(copy), (enum proto_type)f->type, f->flags, f->stream);
	fields_init(&fs, f->data, f->len);
	while ((r = fields_next(&fs, &field)) > 0) {
		touch(field.data, field.len);
		touch_text(field.text);
		msg_bytes(&m, (enum proto_tag)field.tag, field.data, field.len);
	}
	if (r < 0)
		return;
	if (msg_end(&m) != (int)(FRAME_HEAD + f->len) ||
		(f->len && memcmp(copy + FRAME_HEAD, f->data, f->len) != 0))
		abort();
}

static void check_values(const struct frame *f)
{
	struct values v;
	uint16_t tag;

	if (values_read(&v, f->data, f->len, 0, UINT64_MAX, &tag) < 0)
		return;
	for (unsigned i = 0; i < TAG_MAX; i++)
		if (values_has(&v, (enum proto_tag)i))
			touch(v.text[i], v.len[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct frame_reader *r = malloc(sizeof(*r));
	size_t piece = size ? data[0] : 0, at = 1;

	if (!r)
		return 0;
	frame_reader_init(r);
	while (at < size) {
		size_t cap, n = piece && piece < size - at ? piece : size - at;
		uint8_t *to = frame_space(r, &cap);
		struct frame f;
		int got;

		if (!cap)
			abort(); /* it promised room once it had no frame left */
		n = n < cap ? n : cap;
		memcpy(to, data + at, n);
		frame_fed(r, n);
		at += n;
		while ((got = frame_next(r, &f)) > 0) {
			check_event(&f);
			check_fields(&f);
			check_values(&f);
		}
		if (got < 0)
			break;
	}
	free(r);
	return 0;
}
