/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/audit_line.c - the texts of the audit log: lines, head, file names.
 *
 * Owns:  the format; docs/AUDIT.md describes it.
 * Rules: pure but for the reader; a text is accepted only if we could have written it.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "host/host.h"
#include "store/audit_impl.h"

static const char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
_Static_assert(sizeof(zeros) == SHA256_HEX + 1, "as long as a hash");

/* Takes @text off the front of *@p; false when it does not stand there. */
static bool eat(const char **p, const char *end, const char *text)
{
	size_t n = strlen(text);

	if ((size_t)(end - *p) < n || memcmp(*p, text, n) != 0)
		return false;
	*p += n;
	return true;
}

static bool eat_set(
	const char **p, const char *end, const char *set, size_t min, size_t max, char *out)
{
	size_t n = 0;

	while (*p + n < end && n <= max && (*p)[n] && strchr(set, (*p)[n]))
		n++;
	if (n < min || n > max)
		return false;
	memcpy(out, *p, n);
	out[n] = '\0';
	*p += n;
	return true;
}

static bool eat_num(const char **p, const char *end, uint64_t *ret)
{
	char digits[21];

	return eat_set(p, end, "0123456789", 1, 20, digits) && (digits[0] != '0' || !digits[1]) &&
	       parse_u64(digits, 0, UINT64_MAX, ret) == 0;
}

enum { WIDE = 20 }; /* digits of any number, with zeros in front */

#define EVENT_SET "abcdefghijklmnopqrstuvwxyz0123456789.-_"

bool audit_line_parse(const char *text, size_t len, struct audit_line *ret)
{
	const char *p = text, *end = text + len;

	if (len > AUDIT_LINE_MAX || !eat(&p, end, "{\"seq\":") || !eat_num(&p, end, &ret->seq) ||
		!eat(&p, end, ",\"ts\":\"") ||
		!eat_set(&p, end, "0123456789-T:.Z", CLOCK_TEXT - 1, CLOCK_TEXT - 1, ret->ts) ||
		!eat(&p, end, "\",\"prev\":\"") ||
		!eat_set(&p, end, "0123456789abcdef", SHA256_HEX, SHA256_HEX, ret->prev) ||
		!eat(&p, end, "\",\"event\":\"") ||
		!eat_set(&p, end, EVENT_SET, 1, AUDIT_EVENT_MAX - 1, ret->event) ||
		!eat(&p, end, "\"") || p == end || (*p != ',' && *p != '}') || end[-1] != '}')
		return false;
	ret->members_at = (size_t)(p - text);
	return true;
}

bool audit_repaired_parse(
	const char *members, size_t len, uint64_t *ret_removed, bool *ret_headless)
{
	const char *p = members, *end = members + len;
	uint64_t headless;

	if (!eat(&p, end, ",\"removed\":") || !eat_num(&p, end, ret_removed) ||
		!eat(&p, end, ",\"headless\":") || !eat_num(&p, end, &headless))
		return false;
	*ret_headless = headless != 0;
	return true;
}

void audit_repair_init(struct audit_repair *r)
{
	*r = (struct audit_repair){ 0 };
	memcpy(r->torn_hash, zeros, sizeof(zeros));
}

void audit_head_init(struct audit_head *h)
{
	*h = (struct audit_head){ .first = 1 };
	memcpy(h->tip.hash, zeros, sizeof(zeros));
	memcpy(h->next_hash, zeros, sizeof(zeros));
	audit_repair_init(&h->owed);
}

bool audit_repair_is_none(const struct audit_repair *r)
{
	return !r->torn_bytes && !r->removed && !r->added && !r->headless;
}

static char *put_text(char *p, const char *text)
{
	size_t n = strlen(text);

	memcpy(p, text, n);
	return p + n;
}

static char *put_wide(char *p, const char *label, uint64_t v)
{
	p = put_text(p, label);
	for (unsigned i = WIDE; i--; v /= 10)
		p[i] = (char)('0' + v % 10);
	return p + WIDE;
}

static char *put_hash(char *p, const char hash[SHA256_HEX + 1])
{
	p = put_text(p, " hash=");
	memcpy(p, hash, SHA256_HEX);
	return p + SHA256_HEX;
}

/* By hand: this is written twice for every line, and printf takes longer than the system calls. */
void audit_head_format(const struct audit_head *h, char out[AUDIT_HEAD_BYTES + 1])
{
	char *p = put_wide(out, "ward-audit 1 first=", h->first);

	p = put_wide(p, "\nseq=", h->tip.seq);
	p = put_wide(p, " size=", h->tip.size);
	p = put_hash(p, h->tip.hash);
	p = put_wide(p, "\nnext size=", h->next_size);
	p = put_hash(p, h->next_hash);
	p = put_wide(p, "\nowed torn=", h->owed.torn_bytes);
	p = put_hash(p, h->owed.torn_hash);
	p = put_wide(p, " removed=", h->owed.removed);
	p = put_wide(p, " added=", h->owed.added);
	p = put_text(p, h->owed.headless ? " headless=1\n" : " headless=0\n");
	*p = '\0';
	assert(p - out == AUDIT_HEAD_BYTES);
}

static bool eat_wide(const char **p, const char *end, const char *label, uint64_t *ret)
{
	char digits[WIDE + 1];

	return eat(p, end, label) && eat_set(p, end, "0123456789", WIDE, WIDE, digits) &&
	       parse_u64(digits, 0, UINT64_MAX, ret) == 0;
}

static bool eat_hash(const char **p, const char *end, char out[SHA256_HEX + 1])
{
	return eat(p, end, " hash=") &&
	       eat_set(p, end, "0123456789abcdef", SHA256_HEX, SHA256_HEX, out);
}

bool audit_head_parse(const char *text, size_t len, struct audit_head *ret)
{
	const char *p = text, *end = text + len;
	struct audit_head h;
	char flag[2];

	if (len != AUDIT_HEAD_BYTES || !eat_wide(&p, end, "ward-audit 1 first=", &h.first) ||
		!eat_wide(&p, end, "\nseq=", &h.tip.seq) ||
		!eat_wide(&p, end, " size=", &h.tip.size) || !eat_hash(&p, end, h.tip.hash) ||
		!eat_wide(&p, end, "\nnext size=", &h.next_size) ||
		!eat_hash(&p, end, h.next_hash) ||
		!eat_wide(&p, end, "\nowed torn=", &h.owed.torn_bytes) ||
		!eat_hash(&p, end, h.owed.torn_hash) ||
		!eat_wide(&p, end, " removed=", &h.owed.removed) ||
		!eat_wide(&p, end, " added=", &h.owed.added) || !eat(&p, end, " headless=") ||
		!eat_set(&p, end, "01", 1, 1, flag) || !eat(&p, end, "\n") || p != end)
		return false;
	h.owed.headless = flag[0] == '1';
	*ret = h;
	return true;
}

void audit_rotated_name(char out[AUDIT_NAME], uint64_t first)
{
	*put_wide(out, "audit/log-", first) = '\0';
}

int audit_rotated_next(int state_fd, uint64_t after, uint64_t *ret_first)
{
	_Alignas(struct host_dirent) char room[4096];
	own_fd int fd = host_openat(state_fd, "audit", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	uint64_t best = UINT64_MAX;
	ssize_t n;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	while ((n = host_getdents(fd, room, sizeof(room))) > 0) {
		for (ssize_t at = 0; at < n;) {
			const struct host_dirent *d = (const void *)(room + at);
			const char *digits = str_after(d->d_name, "log-");
			uint64_t v;

			at += d->d_reclen;
			if (digits && strlen(digits) == WIDE &&
				parse_u64(digits, 0, UINT64_MAX - 1, &v) == 0 && v > after &&
				v < best)
				best = v;
		}
	}
	if (n < 0)
		return (int)n;
	*ret_first = best;
	return best != UINT64_MAX;
}

int audit_reader_init(struct audit_reader *r, int fd, uint64_t from, uint64_t to)
{
	*r = (struct audit_reader){ .fd = fd, .at = from, .end = to };
	r->room = malloc(AUDIT_LINE_MAX + 2);
	return r->room ? 0 : -ENOMEM;
}

void audit_reader_done(struct audit_reader *r)
{
	free(r->room);
	r->room = NULL;
}

/* Moves the rest to the front and reads on; 0 when nothing more came. */
static ssize_t refill(struct audit_reader *r)
{
	size_t want = AUDIT_LINE_MAX + 1 - (r->have - r->used);
	ssize_t n;

	memmove(r->room, r->room + r->used, r->have - r->used);
	r->have -= r->used;
	r->used = 0;
	if (want > r->end - r->at)
		want = (size_t)(r->end - r->at);
	if (want == 0)
		return 0;
	n = host_pread(r->fd, r->room + r->have, want, (off_t)r->at);
	if (n > 0) {
		r->have += (size_t)n;
		r->at += (uint64_t)n;
	}
	return n;
}

int audit_reader_next(struct audit_reader *r)
{
	size_t looked = 0;

	for (;;) {
		char *from = r->room + r->used, *nl;
		ssize_t n;

		nl = memchr(from + looked, '\n', r->have - r->used - looked);
		if (nl || r->have - r->used > AUDIT_LINE_MAX) {
			r->text = from;
			r->len = nl ? (size_t)(nl - from) : r->have - r->used;
			r->start = r->at - (r->have - r->used);
			r->whole = nl != NULL;
			r->used += r->len + (nl ? 1 : 0);
			return 1;
		}
		looked = r->have - r->used;
		n = refill(r);
		if (n < 0 && n != -EINTR)
			return (int)n;
		if (n == 0)
			break;
	}
	if (r->have == r->used)
		return 0;
	r->text = r->room + r->used;
	r->len = r->have - r->used;
	r->start = r->at - r->len;
	r->whole = false;
	r->used = r->have;
	return 1;
}
