/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proto/msg.c - fields in and out of a payload.
 *
 * Owns:  the table of what kind of value each tag has.
 * Rules: no allocation. A reader trusts no length and no value; what it hands out points into the
 *        payload it was given.
 */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/ckd.h"
#include "proto/le.h"
#include "proto/msg.h"

enum { FIELD_HEAD = 6 };
enum kind { NO_SUCH_TAG, U32, U64, TEXT, BYTES };

static const uint8_t kinds[TAG_END] = {
#define TAG(id, number, kind) [number] = kind,
#include "proto/tags.def"
#undef TAG
};

void msg_begin(
	struct msg *m, void *buf, size_t cap, enum proto_type type, uint16_t flags, uint32_t stream)
{
	*m = (struct msg){
		.buf = buf,
		.cap = cap,
		.len = FRAME_HEAD,
		.over = cap < FRAME_HEAD,
		.type = (uint16_t)type,
		.flags = flags,
		.stream = stream,
	};
}

void msg_bytes(struct msg *m, enum proto_tag tag, const void *data, size_t len)
{
	if (m->over || len > m->cap || m->cap - m->len < FIELD_HEAD + len) {
		m->over = true;
		return;
	}
	le_put16(m->buf + m->len, (uint16_t)tag);
	le_put32(m->buf + m->len + 2, (uint32_t)len);
	if (len)
		memcpy(m->buf + m->len + FIELD_HEAD, data, len);
	m->len += FIELD_HEAD + len;
}

void msg_u32(struct msg *m, enum proto_tag tag, uint32_t v)
{
	uint8_t b[4];

	le_put32(b, v);
	msg_bytes(m, tag, b, sizeof(b));
}

void msg_u64(struct msg *m, enum proto_tag tag, uint64_t v)
{
	uint8_t b[8];

	le_put64(b, v);
	msg_bytes(m, tag, b, sizeof(b));
}

void msg_text(struct msg *m, enum proto_tag tag, const char *text)
{
	msg_bytes(m, tag, text, strlen(text) + 1);
}

int msg_end(struct msg *m)
{
	if (m->over || m->len - FRAME_HEAD > FRAME_PAYLOAD_MAX)
		return -EMSGSIZE;
	frame_put_head(m->buf, (uint32_t)(m->len - FRAME_HEAD), m->type, m->flags, m->stream);
	return (int)m->len;
}

static uint64_t micros(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * 1000000u + (uint64_t)t->tv_usec;
}

void msg_exit(struct msg *m, int status, const struct rusage *used)
{
	if (WIFSIGNALED(status))
		msg_u32(m, TAG_SIGNAL, (uint32_t)WTERMSIG(status));
	else
		msg_u32(m, TAG_CODE, (uint32_t)WEXITSTATUS(status));
	msg_u64(m, TAG_USER_US, micros(&used->ru_utime));
	msg_u64(m, TAG_SYSTEM_US, micros(&used->ru_stime));
	msg_u64(m, TAG_PEAK_KB, (uint64_t)used->ru_maxrss);
}

void fields_init(struct fields *fs, const void *data, size_t len)
{
	fs->at = data;
	fs->end = fs->at + len;
}

static int field_check(struct field *f)
{
	switch (f->tag < TAG_END ? kinds[f->tag] : NO_SUCH_TAG) {
	case U32:
		if (f->len != 4)
			return -EPROTO;
		f->num = le_get32(f->data);
		return 1;
	case U64:
		if (f->len != 8)
			return -EPROTO;
		f->num = le_get64(f->data);
		return 1;
	case TEXT:
		if (!f->len || memchr(f->data, '\0', f->len) != f->data + f->len - 1)
			return -EPROTO;
		f->text = (const char *)f->data;
		return 1;
	case BYTES:
		return 1;
	default:
		return -EOPNOTSUPP;
	}
}

int fields_next(struct fields *fs, struct field *ret)
{
	size_t have = (size_t)(fs->end - fs->at);

	if (!have)
		return 0;
	if (have < FIELD_HEAD)
		return -EPROTO;
	*ret = (struct field){
		.tag = le_get16(fs->at),
		.len = le_get32(fs->at + 2),
		.data = fs->at + FIELD_HEAD,
	};
	if (ret->len > have - FIELD_HEAD)
		return -EPROTO;
	fs->at += FIELD_HEAD + ret->len;
	return field_check(ret);
}

int values_read(struct values *v, const void *data, size_t len, uint64_t needed, uint64_t allowed,
	uint16_t *ret_tag)
{
	struct fields fs;
	struct field f = { 0 };
	int r, bad = 0;

	v->has = 0;
	fields_init(&fs, data, len);
	while ((r = fields_next(&fs, &f)) != 0) {
		uint64_t bit = f.tag < TAG_MAX ? (uint64_t)1 << f.tag : 0;

		if (r == -EPROTO)
			return r;
		if (r == -EOPNOTSUPP || !(bit & (allowed | needed)) || (bit & v->has)) {
			/* Read on: a payload that is broken further on must end the channel. */
			if (!bad)
				*ret_tag = f.tag;
			bad = -EOPNOTSUPP;
			continue;
		}
		v->has |= bit;
		v->num[f.tag] = f.num;
		v->text[f.tag] = f.text ? f.text : (const char *)f.data;
		v->len[f.tag] = f.len;
	}
	if (bad)
		return bad;
	return (v->has & needed) == needed ? 0 : -EINVAL;
}
