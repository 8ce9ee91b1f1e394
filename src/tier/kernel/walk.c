/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk.c - the words that walks are made of.
 *
 * Owns:  a walk's buffer when saving.
 * Rules: a buffer that is loaded is untrusted, even if we wrote it: every length is checked. Each
 *        value carries a hash of its name, so that two versions that disagree say so.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "host/host.h"
#include "tier/kernel/walk.h"

struct walk_ids {
	struct ids {
		void **of;
		uint32_t count, cap;
		uint32_t *hash; /* numbers by pointer, open addressing; twice @cap */
	} kind[WALK_KINDS];
};

struct walk_kept {
	struct {
		void *p;
		void (*drop)(void *p);
	} * all;
	uint32_t count, cap;
};

enum { WALK_FIRST = 4096, IDS_FIRST = 64, PAGE = 4096 };

void walk_fail(struct walk *w, int err)
{
	if (!w->err)
		w->err = err;
}

static bool room(struct walk *w, size_t len)
{
	unsigned char *buf;
	size_t cap = w->cap ? w->cap : WALK_FIRST;

	if (w->err)
		return false;
	while (cap - w->len < len)
		cap *= 2;
	if (cap == w->cap)
		return true;
	buf = realloc(w->buf, cap);
	if (!buf) {
		w->err = -ENOMEM;
		return false;
	}
	w->buf = buf;
	w->cap = cap;
	return true;
}

static void raw(struct walk *w, void *p, size_t len)
{
	if (!len)
		return;
	if (w->mode == WALK_SAVE) {
		if (!room(w, len))
			return;
		memcpy(w->buf + w->len, p, len);
		w->len += len;
		return;
	}
	if (w->err || w->len - w->at < len) {
		walk_fail(w, -EBADMSG);
		memset(p, 0, len);
		return;
	}
	memcpy(p, w->buf + w->at, len);
	w->at += len;
}

static void tag(struct walk *w, const char *name)
{
	const char *full = name;
	uint16_t h = 7, seen;

	for (; *name; name++)
		h = (uint16_t)(h * 31 + (unsigned char)*name);
	seen = h;
	if (!w->err)
		w->wrong = full;
	raw(w, &seen, sizeof(seen));
	if (seen != h)
		walk_fail(w, -EBADMSG);
}

void walk_bytes(struct walk *w, const char *name, void *p, size_t len)
{
	tag(w, name);
	raw(w, p, len);
}

void walk_u8(struct walk *w, const char *name, uint8_t *v)
{
	walk_bytes(w, name, v, sizeof(*v));
}

void walk_u32(struct walk *w, const char *name, uint32_t *v)
{
	walk_bytes(w, name, v, sizeof(*v));
}

void walk_i32(struct walk *w, const char *name, int32_t *v)
{
	walk_bytes(w, name, v, sizeof(*v));
}

void walk_u64(struct walk *w, const char *name, uint64_t *v)
{
	walk_bytes(w, name, v, sizeof(*v));
}

void walk_i64(struct walk *w, const char *name, int64_t *v)
{
	walk_bytes(w, name, v, sizeof(*v));
}

void walk_bool(struct walk *w, const char *name, bool *v)
{
	uint8_t b = *v;

	walk_u8(w, name, &b);
	*v = b != 0;
}

void walk_count(struct walk *w, const char *name, uint32_t *n, uint32_t max)
{
	walk_u32(w, name, n);
	if (w->mode == WALK_LOAD && (w->err || *n > max)) {
		walk_fail(w, -EBADMSG);
		*n = 0;
	}
}

void walk_list(struct walk *w, const char *name, uint32_t *n, uint32_t max)
{
	walk_count(w, name, n, max);
	if (w->mode == WALK_LOAD && *n > w->len - w->at) {
		walk_fail(w, -EBADMSG);
		*n = 0;
	}
}

void walk_time(struct walk *w, const char *name, int64_t *ns)
{
	walk_i64(w, name, ns);
	if (w->mode == WALK_LOAD && (*ns < 0 || (*ns && ckd_add(ns, *ns, w->shift)))) {
		walk_fail(w, -EBADMSG);
		*ns = 0;
	}
	if (*ns < 0)
		*ns = 1;
}

void walk_past(struct walk *w, const char *name, int64_t *ns)
{
	const int64_t most = INT64_MAX / 4; /* 73 years: differences of two do not overflow */

	walk_i64(w, name, ns);
	if (w->mode == WALK_LOAD && (ckd_add(ns, *ns, w->shift) || *ns < -most || *ns > most)) {
		walk_fail(w, -EBADMSG);
		*ns = 0;
	}
}

void walk_blob(struct walk *w, const char *name, void **p, size_t *len, size_t max)
{
	uint64_t n = *len;

	walk_u64(w, name, &n);
	if (w->mode == WALK_LOAD) {
		*p = NULL;
		*len = 0;
		if (w->err || n > max || n > w->len - w->at) {
			walk_fail(w, -EBADMSG);
			return;
		}
		*p = n ? malloc(n) : NULL;
		if (n && !*p) {
			w->err = -ENOMEM;
			return;
		}
		*len = n;
	}
	raw(w, *p, n);
}

void walk_str(struct walk *w, const char *name, char **s)
{
	size_t len = w->mode == WALK_SAVE && *s ? strlen(*s) + 1 : 0;
	void *p = *s;

	walk_blob(w, name, &p, &len, 1 << 20);
	if (w->mode == WALK_LOAD) {
		*s = p;
		/* One string, to its end. */
		if (len && memchr(*s, '\0', len) != *s + len - 1) {
			walk_fail(w, -EBADMSG);
			(*s)[len - 1] = '\0';
		}
	}
}

static uint32_t *slot_of(const struct ids *ids, const void *p)
{
	uint32_t mask = ids->cap * 2 - 1;
	uint32_t at = (uint32_t)(((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15ULL >> 32) & mask;

	while (ids->hash[at] && ids->of[ids->hash[at] - 1] != p)
		at = (at + 1) & mask;
	return &ids->hash[at];
}

static int ids_room(struct ids *ids)
{
	uint32_t cap = ids->cap ? ids->cap * 2 : IDS_FIRST;
	uint32_t *hash;
	void **of;

	if (ids->count < ids->cap)
		return 0;
	of = realloc(ids->of, cap * sizeof(*of));
	if (of)
		ids->of = of;
	hash = of ? calloc(cap * 2, sizeof(*hash)) : NULL;
	if (!hash)
		return -ENOMEM;
	free(ids->hash);
	ids->hash = hash;
	ids->cap = cap;
	for (uint32_t i = 0; i < ids->count; i++)
		*slot_of(ids, ids->of[i]) = i + 1;
	return 0;
}

uint32_t walk_number(struct walk *w, enum walk_kind kind, void *p)
{
	struct ids *ids = &w->ids->kind[kind];
	uint32_t *slot = ids->cap ? slot_of(ids, p) : NULL;

	if (slot && *slot)
		return *slot;
	if (ids_room(ids) < 0) {
		walk_fail(w, -ENOMEM);
		return 0;
	}
	ids->of[ids->count] = p;
	*slot_of(ids, p) = ++ids->count;
	return ids->count;
}

uint32_t walk_count_of(const struct walk *w, enum walk_kind kind)
{
	return w->ids->kind[kind].count;
}

void *walk_get(const struct walk *w, enum walk_kind kind, uint32_t number)
{
	const struct ids *ids = &w->ids->kind[kind];

	return number && number <= ids->count ? ids->of[number - 1] : NULL;
}

bool walk_knows(const struct walk *w, enum walk_kind kind, const void *p)
{
	const struct ids *ids = &w->ids->kind[kind];

	return ids->cap && *slot_of(ids, p);
}

void walk_ref(struct walk *w, const char *name, enum walk_kind kind, void **ref)
{
	const struct ids *ids = &w->ids->kind[kind];
	uint32_t n = 0;

	if (w->mode == WALK_SAVE && *ref) {
		n = ids->cap ? *slot_of(ids, *ref) : 0;
		if (!n) {
			if (!w->err)
				w->wrong = name;
			walk_fail(w, -ENOLINK); /* somebody was not walked */
		}
	}
	walk_u32(w, name, &n);
	if (w->mode == WALK_SAVE)
		return;
	*ref = w->err ? NULL : walk_get(w, kind, n);
	if (n && !*ref)
		walk_fail(w, -EBADMSG);
}

void walk_need(struct walk *w, const char *name, enum walk_kind kind, void **ref)
{
	walk_ref(w, name, kind, ref);
	if (!*ref)
		walk_fail(w, -EBADMSG);
}

void walk_keep(struct walk *w, void *p, void (*drop)(void *p))
{
	struct walk_kept *k = w->kept;

	if (k->count == k->cap) {
		uint32_t cap = k->cap ? k->cap * 2 : IDS_FIRST;
		void *all = realloc(k->all, cap * sizeof(k->all[0]));

		if (!all) {
			walk_fail(w, -ENOMEM);
			drop(p);
			return;
		}
		k->all = all;
		k->cap = cap;
	}
	k->all[k->count].p = p;
	k->all[k->count++].drop = drop;
}

static bool is_zero(const unsigned char *p, size_t len)
{
	return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

static void sparse_save(struct walk *w, int fd, uint64_t len)
{
	unsigned char page[PAGE];
	uint64_t end = UINT64_MAX;
	off_t at = 0;

	while (!w->err && (uint64_t)at < len) {
		off_t data = lseek(fd, at, SEEK_DATA);
		uint64_t from;
		size_t want;
		ssize_t n;

		if (data < 0 && errno == ENXIO)
			break; /* nothing but a hole */
		from = (uint64_t)(data < 0 ? at : data) & ~(uint64_t)(PAGE - 1);
		if (from >= len)
			break;
		want = len - from < PAGE ? (size_t)(len - from) : PAGE;
		n = host_pread(fd, page, want, (int64_t)from);
		if (n < 0) {
			walk_fail(w, (int)n);
			return;
		}
		memset(page + n, 0, sizeof(page) - (size_t)n);
		if (!is_zero(page, sizeof(page))) {
			walk_u64(w, "from", &from);
			walk_bytes(w, "page", page, sizeof(page));
		}
		at = (off_t)(from + PAGE);
	}
	walk_u64(w, "from", &end);
}

void walk_sparse(struct walk *w, const char *name, int fd, uint64_t len)
{
	unsigned char page[PAGE];
	uint64_t from = 0;

	walk_u64(w, name, &len);
	if (w->mode == WALK_SAVE) {
		sparse_save(w, fd, len);
		return;
	}
	if (!w->err && (len > INT64_MAX || ftruncate(fd, (off_t)len) < 0))
		walk_fail(w, len > INT64_MAX ? -EBADMSG : -errno);
	while (!w->err) {
		walk_u64(w, "from", &from);
		if (w->err || from == UINT64_MAX)
			return;
		walk_bytes(w, "page", page, sizeof(page));
		if (from % PAGE || from >= len)
			walk_fail(w, -EBADMSG);
		if (!w->err) {
			size_t n = len - from < PAGE ? (size_t)(len - from) : PAGE;
			ssize_t r = host_pwrite(fd, page, n, (int64_t)from);

			if (r < (ssize_t)n)
				walk_fail(w, r < 0 ? (int)r : -ENOSPC);
		}
	}
}

static int begin(struct walk *w, enum walk_mode mode)
{
	memset(w, 0, sizeof(*w));
	w->mode = mode;
	w->ids = calloc(1, sizeof(*w->ids));
	w->kept = calloc(1, sizeof(*w->kept));
	if (w->ids && w->kept)
		return 0;
	walk_done(w);
	return -ENOMEM;
}

int walk_save_begin(struct walk *w)
{
	return begin(w, WALK_SAVE);
}

int walk_load_begin(struct walk *w, const void *buf, size_t len)
{
	int r = begin(w, WALK_LOAD);

	w->buf = (unsigned char *)(uintptr_t)buf;
	w->len = len;
	return r;
}

void walk_done(struct walk *w)
{
	while (w->kept && w->kept->count) {
		uint32_t i = --w->kept->count;

		w->kept->all[i].drop(w->kept->all[i].p);
	}
	if (w->kept)
		free(w->kept->all);
	free(w->kept);
	for (int i = 0; w->ids && i < WALK_KINDS; i++) {
		free(w->ids->kind[i].of);
		free(w->ids->kind[i].hash);
	}
	free(w->ids);
	if (w->mode == WALK_SAVE)
		free(w->buf);
	memset(w, 0, sizeof(*w));
}
