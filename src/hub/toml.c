/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/toml.c - reads the subset of TOML that ward.toml is written in.
 *
 * Owns:  the grammar. What the keys mean is config.c's.
 * Rules: refuses what it does not know; never guesses. All memory is in one struct, bounded.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/str.h"
#include "hub/toml.h"

enum { NAME_MAX_ = 256 };

struct reader {
	const char *file, *p, *end;
	unsigned line;
	char table[NAME_MAX_], name[NAME_MAX_], key[NAME_MAX_];
	char text[TOML_TEXT_MAX];
	char item_text[TOML_TEXT_MAX * 4];
	const char *items[TOML_ITEMS_MAX];
	/* What was there: each once. */
	char *seen[TOML_KEYS_MAX];
	unsigned seen_count;
	struct err *e;
};

const char *toml_kind_name(enum toml_kind k)
{
	static const char *const names[] = {
		[TOML_STRING] = "a string",
		[TOML_NUMBER] = "a whole number",
		[TOML_BOOL] = "true or false",
		[TOML_ARRAY] = "an array of strings",
	};

	return names[k];
}

#define SAY(r, ...) err_wrap_line(r, err_say((r)->e, EINVAL, __VA_ARGS__))

static int err_wrap_line(struct reader *r, int code)
{
	return err_wrap(r->e, code, "%s:%u", r->file, r->line);
}

static int peek(const struct reader *r)
{
	return r->p < r->end ? (unsigned char)*r->p : -1;
}

static void skip_blanks(struct reader *r)
{
	while (peek(r) == ' ' || peek(r) == '\t')
		r->p++;
}

static bool at_crlf(const struct reader *r)
{
	return r->p + 1 < r->end && r->p[0] == '\r' && r->p[1] == '\n';
}

/* A comment holds no control characters: they could hide what follows from whoever looks. */
static int skip_comment(struct reader *r)
{
	if (peek(r) != '#')
		return 0;
	for (; r->p < r->end && *r->p != '\n' && !at_crlf(r); r->p++)
		if (((unsigned char)*r->p < 0x20 && *r->p != '\t') || *r->p == 0x7f)
			return SAY(r, "a control character in a comment");
	return 0;
}

/* Blanks, a comment, and the end of the line or of the file. */
static int end_line(struct reader *r)
{
	int k;

	skip_blanks(r);
	k = skip_comment(r);
	if (k < 0)
		return k;
	if (at_crlf(r))
		r->p++;
	if (r->p == r->end)
		return 0;
	if (peek(r) != '\n')
		return SAY(r, "something follows where the line should end");
	r->p++;
	r->line++;
	return 0;
}

static bool is_bare(int c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-';
}

static int put_utf8(struct reader *r, uint32_t c, char *out, size_t cap, size_t *len)
{
	char b[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t heads[] = { 0, 0, 0xc0, 0xe0, 0xf0 };

	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		return SAY(r, "\\u%04x is not a character that a string can hold", (unsigned)c);
	for (size_t i = n; i-- > 1; c >>= 6)
		b[i] = (char)(0x80 | (c & 0x3f));
	b[0] = (char)(heads[n] | c);
	if (*len + n >= cap)
		return SAY(r, "a string is longer than %zu bytes", cap - 1);
	memcpy(out + *len, b, n);
	*len += n;
	return 0;
}

static int read_hex(struct reader *r, int digits, uint32_t *ret)
{
	uint32_t v = 0;

	for (int i = 0; i < digits; i++, r->p++) {
		int c = peek(r);
		int d = c >= '0' && c <= '9'   ? c - '0'
			: c >= 'a' && c <= 'f' ? c - 'a' + 10
			: c >= 'A' && c <= 'F' ? c - 'A' + 10
					       : -1;

		if (d < 0)
			return SAY(r, "\\u and \\U are followed by 4 and 8 hex digits");
		v = v << 4 | (uint32_t)d;
	}
	*ret = v;
	return 0;
}

/* After the backslash. */
static int read_escape(struct reader *r, char *out, size_t cap, size_t *len)
{
	static const char from[] = "btnfr\"\\", to[] = "\b\t\n\f\r\"\\";
	int c = peek(r), k;
	const char *at = c > 0 ? strchr(from, c) : NULL;
	uint32_t v = 0;

	r->p++;
	if (at)
		return put_utf8(r, (uint8_t)to[at - from], out, cap, len);
	if (c != 'u' && c != 'U')
		return SAY(r, "a backslash in \"...\" is followed by one of b t n f r \" \\ u U");
	k = read_hex(r, c == 'u' ? 4 : 8, &v);
	return k < 0 ? k : put_utf8(r, v, out, cap, len);
}

/* At the opening quote, of either kind. */
static int read_string(struct reader *r, char *out, size_t cap)
{
	int quote = peek(r), k;
	size_t len = 0;

	r->p++;
	for (;;) {
		int c = peek(r);

		if (c < 0 || c == '\n')
			return SAY(r, "a string has no closing %c on its line", quote);
		r->p++;
		if (c == quote)
			break;
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return SAY(r, "a control character in a string");
		if (c == '\\' && quote == '"') {
			k = read_escape(r, out, cap, &len);
			if (k < 0)
				return k;
			continue;
		}
		if (len + 1 >= cap)
			return SAY(r, "a string is longer than %zu bytes", cap - 1);
		out[len++] = (char)c;
	}
	out[len] = '\0';
	if (len == 0 && peek(r) == quote)
		return SAY(r, "strings over several lines are not accepted");
	return 0;
}

/* A bare or quoted name. */
static int read_name(struct reader *r, char *out)
{
	size_t len = 0;
	int k;

	skip_blanks(r);
	if (peek(r) == '"' || peek(r) == '\'') {
		k = read_string(r, out, NAME_MAX_);
		if (k < 0)
			return k;
		return *out ? 0 : SAY(r, "a name is empty");
	}
	for (; is_bare(peek(r)); r->p++) {
		if (len + 1 >= NAME_MAX_)
			return SAY(r, "a name is longer than %d bytes", NAME_MAX_ - 1);
		out[len++] = *r->p;
	}
	out[len] = '\0';
	return len ? 0 : SAY(r, "a name is expected here");
}

/* "what" is unique: a table, or a key in its table. */
static int mark_seen(struct reader *r, const char *key)
{
	char mark[3 * NAME_MAX_ + 4];

	str_fmt(mark, sizeof(mark), "%s\1%s\1%s", r->table, r->name, key);
	for (unsigned i = 0; i < r->seen_count; i++)
		if (str_eq(r->seen[i], mark))
			return *key ? SAY(r, "'%s' is there twice", key)
				    : SAY(r, "the table [%s%s%s] is there twice", r->table,
					      *r->name ? "." : "", r->name);
	if (r->seen_count == TOML_KEYS_MAX)
		return SAY(r, "more than %d keys", TOML_KEYS_MAX);
	r->seen[r->seen_count] = strdup(mark);
	if (!r->seen[r->seen_count])
		return err_set(r->e, ENOMEM, "reading '%s'", r->file);
	r->seen_count++;
	return 0;
}

static int read_table(struct reader *r)
{
	int k;

	r->p++;
	if (peek(r) == '[')
		return SAY(r, "arrays of tables ([[...]]) are not accepted");
	k = read_name(r, r->table);
	if (k < 0)
		return k;
	skip_blanks(r);
	r->name[0] = '\0';
	if (peek(r) == '.') {
		r->p++;
		k = read_name(r, r->name);
		if (k < 0)
			return k;
		skip_blanks(r);
	}
	if (peek(r) != ']')
		return SAY(r, "a table is [name] or [name.name]");
	r->p++;
	return mark_seen(r, "");
}

static int read_number(struct reader *r, int64_t *ret)
{
	bool minus = peek(r) == '-';
	int64_t v = 0;
	const char *first;

	if (peek(r) == '-' || peek(r) == '+')
		r->p++;
	first = r->p;
	for (; (peek(r) >= '0' && peek(r) <= '9') || peek(r) == '_'; r->p++) {
		if (*r->p == '_') {
			if (r->p == first || r->p[-1] == '_' || r->p + 1 == r->end ||
				r->p[1] < '0' || r->p[1] > '9')
				return SAY(r, "'_' stands between digits");
			continue;
		}
		if (ckd_mul(&v, v, 10) || ckd_add(&v, v, *r->p - '0'))
			return SAY(r, "a number is too large");
	}
	if (r->p == first || (*first == '0' && r->p - first > 1) || is_bare(peek(r)) ||
		peek(r) == '.' || peek(r) == ':')
		return SAY(r, "only whole decimal numbers are accepted; anything else is written "
			      "as a string");
	*ret = minus ? -v : v;
	return 0;
}

/* Between the items of an array: blanks, line ends, comments. */
static int skip_array_space(struct reader *r)
{
	for (;;) {
		int k;

		skip_blanks(r);
		k = skip_comment(r);
		if (k < 0)
			return k;
		if (at_crlf(r))
			r->p++;
		if (peek(r) != '\n')
			return 0;
		r->p++;
		r->line++;
	}
}

static int read_array(struct reader *r, struct toml_value *v)
{
	size_t used = 0;
	int k;

	r->p++;
	v->items = r->items;
	for (v->count = 0;; v->count++) {
		char *room = r->item_text + used;

		k = skip_array_space(r);
		if (k < 0)
			return k;
		if (peek(r) == ']')
			break;
		if (peek(r) != '"' && peek(r) != '\'')
			return SAY(r, "an array holds strings only");
		if (v->count == TOML_ITEMS_MAX)
			return SAY(r, "an array has more than %d items", TOML_ITEMS_MAX);
		k = read_string(r, room, sizeof(r->item_text) - used);
		if (k < 0)
			return k;
		r->items[v->count] = room;
		used += strlen(room) + 1;
		k = skip_array_space(r);
		if (k < 0)
			return k;
		if (peek(r) == ',')
			r->p++;
		else if (peek(r) != ']')
			return SAY(r, "items of an array are separated by commas");
	}
	r->p++;
	return 0;
}

static bool take_word(struct reader *r, const char *word)
{
	size_t n = strlen(word);

	if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0 ||
		(r->p + n < r->end && is_bare((unsigned char)r->p[n])))
		return false;
	r->p += n;
	return true;
}

static int read_value(struct reader *r, struct toml_value *v)
{
	int c = peek(r);

	if (c == '"' || c == '\'') {
		v->kind = TOML_STRING;
		v->text = r->text;
		return read_string(r, r->text, sizeof(r->text));
	}
	if (c == '[') {
		v->kind = TOML_ARRAY;
		return read_array(r, v);
	}
	v->kind = TOML_BOOL;
	v->truth = true;
	if (take_word(r, "true"))
		return 0;
	v->truth = false;
	if (take_word(r, "false"))
		return 0;
	v->kind = TOML_NUMBER;
	if ((c >= '0' && c <= '9') || c == '-' || c == '+')
		return read_number(r, &v->number);
	return SAY(r, "a value is a string, a whole number, true, false or an array of strings");
}

static int read_key(struct reader *r,
	int (*each)(void *arg, const struct toml_entry *entry, struct err *e), void *arg)
{
	struct toml_entry entry = { .table = r->table, .name = r->name, .key = r->key };
	int k = read_name(r, r->key);

	if (k < 0)
		return k;
	skip_blanks(r);
	if (peek(r) != '=')
		return SAY(r, "'%s' is followed by '=' and a value; dotted keys are not accepted",
			r->key);
	r->p++;
	skip_blanks(r);
	k = mark_seen(r, r->key);
	entry.line = r->line;
	if (k == 0)
		k = read_value(r, &entry.value);
	if (k < 0)
		return k;
	k = each(arg, &entry, r->e);
	return k < 0 ? err_wrap(r->e, k, "%s:%u", r->file, entry.line) : 0;
}

static int read_all(struct reader *r,
	int (*each)(void *arg, const struct toml_entry *entry, struct err *e), void *arg)
{
	while (r->p < r->end) {
		int k = 0;

		skip_blanks(r);
		if (peek(r) == '[')
			k = read_table(r);
		else if (peek(r) >= 0 && peek(r) != '#' && peek(r) != '\n' && !at_crlf(r))
			k = read_key(r, each, arg);
		if (k == 0)
			k = end_line(r);
		if (k < 0)
			return k;
	}
	return 0;
}

/* The length of the UTF-8 character at @p, 0 when there is none. */
static size_t utf8_len(const unsigned char *p, size_t left)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (n == 0 || n > left || p[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
		(p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static int check_utf8(struct reader *r)
{
	for (const char *p = r->p; p < r->end;) {
		size_t n = utf8_len((const unsigned char *)p, (size_t)(r->end - p));

		if (!n)
			return err_say(r->e, EINVAL, "'%s' is not UTF-8 (byte %zu)", r->file,
				(size_t)(p - r->p));
		p += n;
	}
	return 0;
}

int toml_read(const char *file, const char *text, size_t len,
	int (*each)(void *arg, const struct toml_entry *entry, struct err *e), void *arg,
	struct err *e)
{
	struct err none;
	struct reader *r;
	int k;

	if (len > TOML_BYTES_MAX)
		return err_say(e, E2BIG, "'%s' has more than %d bytes", file, TOML_BYTES_MAX);
	r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(e, ENOMEM, "reading '%s'", file);
	r->file = file;
	r->p = text;
	r->end = text + len;
	r->line = 1;
	r->e = e ? e : &none;
	k = check_utf8(r);
	if (k == 0)
		k = read_all(r, each, arg);
	for (unsigned i = 0; i < r->seen_count; i++)
		free(r->seen[i]);
	free(r);
	return k;
}
