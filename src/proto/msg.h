/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PROTO_MSG_H
#define WARD_PROTO_MSG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"
#include "proto/proto.h"

/*
 * Writes one frame of fields into the caller's buffer. What does not fit is not written and marks
 * the message, so that a writer checks once, at the end.
 */
struct msg {
	uint8_t *buf;
	size_t cap, len;
	bool over;
	uint16_t type, flags;
	uint32_t stream;
};

void msg_begin(struct msg *m, void *buf, size_t cap, enum proto_type type, uint16_t flags,
	uint32_t stream);
void msg_u32(struct msg *m, enum proto_tag tag, uint32_t v);
void msg_u64(struct msg *m, enum proto_tag tag, uint64_t v);
void msg_text(struct msg *m, enum proto_tag tag, const char *text);
void msg_bytes(struct msg *m, enum proto_tag tag, const void *data, size_t len);
/* What EXIT says of a process: a status and a usage as wait4() gives them. */
struct rusage;
void msg_exit(struct msg *m, int status, const struct rusage *used);
/* Puts the head; the frame's whole length, or -EMSGSIZE. */
int msg_end(struct msg *m);

/* One field, of a kind that its tag demands. */
struct field {
	uint16_t tag;
	uint32_t len; /* TEXT: with its NUL */
	const uint8_t *data;
	uint64_t num;     /* U32, U64 */
	const char *text; /* TEXT: @data, checked to end in its only NUL */
};

struct fields {
	const uint8_t *at, *end;
};

void fields_init(struct fields *fs, const void *data, size_t len);
/*
 * 1: @ret is the next field. 0: the end. -EPROTO: not a list of fields, or a known tag with a value
 * of the wrong form. -EOPNOTSUPP: a tag that this version does not know (reading can go on).
 */
int fields_next(struct fields *fs, struct field *ret);

#define TAG_BIT(id) ((uint64_t)1 << TAG_##id)

/* The fields of a message in which no tag comes twice, by tag. */
struct values {
	uint64_t has; /* TAG_BIT()s */
	uint64_t num[TAG_MAX];
	const char *text[TAG_MAX];
	uint32_t len[TAG_MAX]; /* BYTES; text[] is then not NUL-terminated */
};

/*
 * Reads a whole payload. 0; -EPROTO as above; -EOPNOTSUPP: a tag that is unknown, not in @allowed
 * or there twice: @ret_tag says which; -EINVAL: one of @needed is missing.
 */
int values_read(struct values *v, const void *data, size_t len, uint64_t needed, uint64_t allowed,
	uint16_t *ret_tag);

static inline bool values_has(const struct values *v, enum proto_tag tag)
{
	return v->has >> tag & 1;
}

static inline uint64_t values_num(const struct values *v, enum proto_tag tag, uint64_t absent)
{
	return values_has(v, tag) ? v->num[tag] : absent;
}

static inline const char *values_text(const struct values *v, enum proto_tag tag)
{
	return values_has(v, tag) ? v->text[tag] : NULL;
}

#endif
