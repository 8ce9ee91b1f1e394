/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/jin.c - JSON that comes in.
 *
 * Owns:  the only use of jansson's reader in the fronts.
 * Rules: the depth is checked before the parser runs, since the parser recurses. A duplicate key is
 *        refused: two readers of one document must not see two meanings.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "front/jin.h"
#include "front/limits.h"

static const json_t *in(const struct jin *v)
{
	return (const json_t *)v;
}

static const struct jin *out(const json_t *v)
{
	return (const struct jin *)v;
}

/* Values are counted too: "[],[],[]" costs the parser fifty times its size. */
static int check_shape(const char *text, size_t len, struct err *e)
{
	unsigned depth = 0, values = 0;
	bool quoted = false;

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (quoted) {
			if (c == '\\')
				i++;
			else if (c == '"')
				quoted = false;
		} else if (c == '"') {
			quoted = true;
		} else if (c == '{' || c == '[') {
			values++;
			if (++depth > FRONT_JSON_DEPTH)
				return err_say(e, EINVAL, "the JSON is nested more than %d deep",
					FRONT_JSON_DEPTH);
		} else if ((c == '}' || c == ']') && depth) {
			depth--;
		} else if (c == ',' && ++values > FRONT_JSON_VALUES) {
			return err_say(
				e, EINVAL, "the JSON has more than %d values", FRONT_JSON_VALUES);
		}
	}
	return 0;
}

int jin_parse(const char *text, size_t len, size_t max, struct jin **ret, struct err *e)
{
	json_error_t at;
	char shown[100];
	json_t *doc;
	int r;

	if (len > max)
		return err_say(e, EFBIG, "the body has more than %zu bytes", max);
	r = check_shape(text, len, e);
	if (r < 0)
		return r;
	doc = len ? json_loadb(text, len, JSON_REJECT_DUPLICATES, &at) : json_object();
	if (!doc && !len)
		return err_set(e, ENOMEM, "reading JSON");
	if (!doc && json_error_code(&at) == json_error_null_character)
		return err_say(e, EINVAL,
			"line %d, column %d: a text with a NUL (\\u0000) in it is not accepted",
			at.line, at.column);
	if (!doc)
		return err_say(e, EINVAL, "the body is not JSON: line %d, column %d: %s", at.line,
			at.column, str_show(shown, sizeof(shown), at.text));
	if (!json_is_object(doc)) {
		json_decref(doc);
		return err_say(e, EINVAL, "the body must be a JSON object");
	}
	*ret = (struct jin *)doc;
	return 0;
}

void jin_destroy(struct jin *doc)
{
	json_decref((json_t *)doc);
}

static const json_t *get(const struct jin *o, const char *key)
{
	const json_t *v = o ? json_object_get(in(o), key) : NULL;

	return json_is_null(v) ? NULL : v;
}

static int wrong(struct err *e, const char *key, const char *what)
{
	return err_say(e, EINVAL, "field '%s' must be %s", key, what);
}

int jin_str(const struct jin *o, const char *key, const char **ret, struct err *e)
{
	const json_t *v = get(o, key);

	if (!v)
		return 0;
	if (!json_is_string(v))
		return wrong(e, key, "a string");
	*ret = json_string_value(v);
	return 1;
}

/* Clients in languages without integers send 60.0, and int64 comes as a string in proto JSON. */
static int whole(const json_t *v, int64_t *ret)
{
	if (json_is_integer(v)) {
		*ret = json_integer_value(v);
		return 0;
	}
	if (json_is_real(v)) {
		double d = json_real_value(v);

		if (d < -9e15 || d > 9e15 || (double)(int64_t)d != d)
			return -EINVAL;
		*ret = (int64_t)d;
		return 0;
	}
	if (json_is_string(v)) {
		const char *s = json_string_value(v);
		char *end;

		errno = 0;
		*ret = strtoll(s, &end, 10);
		return errno || end == s || *end || s[strspn(s, "-0123456789")] ? -EINVAL : 0;
	}
	return -EINVAL;
}

int jin_i64(
	const struct jin *o, const char *key, int64_t min, int64_t max, int64_t *ret, struct err *e)
{
	const json_t *v = get(o, key);
	int64_t n;

	if (!v)
		return 0;
	if (whole(v, &n) < 0)
		return wrong(e, key, "a whole number");
	if (n < min || n > max)
		return err_say(e, EINVAL, "field '%s' must be between %lld and %lld", key,
			(long long)min, (long long)max);
	*ret = n;
	return 1;
}

int jin_bool(const struct jin *o, const char *key, bool *ret, struct err *e)
{
	const json_t *v = get(o, key);

	if (!v)
		return 0;
	if (!json_is_boolean(v))
		return wrong(e, key, "true or false");
	*ret = json_is_true(v);
	return 1;
}

int jin_obj(const struct jin *o, const char *key, const struct jin **ret, struct err *e)
{
	const json_t *v = get(o, key);

	if (!v)
		return 0;
	if (!json_is_object(v))
		return wrong(e, key, "an object");
	*ret = out(v);
	return 1;
}

int jin_list(const struct jin *o, const char *key, const struct jin **ret, struct err *e)
{
	const json_t *v = get(o, key);

	if (!v)
		return 0;
	if (!json_is_array(v))
		return wrong(e, key, "a list");
	*ret = out(v);
	return 1;
}

static int needed(int r, const char *key, struct err *e)
{
	return r == 0 ? err_say(e, EINVAL, "field '%s' is missing", key) : r;
}

int jin_need_str(const struct jin *o, const char *key, const char **ret, struct err *e)
{
	return needed(jin_str(o, key, ret, e), key, e);
}

int jin_need_obj(const struct jin *o, const char *key, const struct jin **ret, struct err *e)
{
	return needed(jin_obj(o, key, ret, e), key, e);
}

bool jin_has(const struct jin *o, const char *key)
{
	return o && json_object_get(in(o), key);
}

int jin_each_str(const struct jin *o, const char *key, size_t max,
	int (*each)(void *arg, const char *name, const char *value, struct err *e), void *arg,
	struct err *e)
{
	const struct jin *map = NULL;
	const char *name;
	json_t *v;
	int r = jin_obj(o, key, &map, e);

	if (r <= 0)
		return r;
	if (json_object_size(in(map)) > max)
		return err_say(e, EINVAL, "field '%s' has more than %zu entries", key, max);
	json_object_foreach ((json_t *)map, name, v) {
		char shown[60];

		if (!json_is_string(v))
			return err_say(e, EINVAL, "field '%s.%s' must be a string", key,
				str_show(shown, sizeof(shown), name));
		r = each(arg, name, json_string_value(v), e);
		if (r < 0)
			return r;
	}
	return 1;
}

size_t jin_len(const struct jin *list)
{
	return list ? json_array_size(in(list)) : 0;
}

int jin_str_at(const struct jin *list, const char *key, size_t i, const char **ret, struct err *e)
{
	const json_t *v = json_array_get(in(list), i);

	if (!json_is_string(v))
		return err_say(e, EINVAL, "field '%s[%zu]' must be a string", key, i);
	*ret = json_string_value(v);
	return 1;
}

int jin_obj_at(
	const struct jin *list, const char *key, size_t i, const struct jin **ret, struct err *e)
{
	const json_t *v = json_array_get(in(list), i);

	if (!json_is_object(v))
		return err_say(e, EINVAL, "field '%s[%zu]' must be an object", key, i);
	*ret = out(v);
	return 1;
}

char *jin_dump(const struct jin *v)
{
	return json_dumps(in(v), JSON_COMPACT | JSON_ENCODE_ANY);
}
