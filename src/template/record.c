/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template/record.c - what is written down about one template.
 *
 * Owns:  the text form of a record, and the spelling of names as file names.
 * Rules: a record was written by ward, but disks and people change files: every line is checked,
 *        an unknown key is an error, and a layer's name cannot leave the folder of layers.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "template/record.h"
#include "template/ref.h"

bool template_name_is_valid(const char *name)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-");

	if (!n || name[n] || n > TEMPLATE_NAME_MAX)
		return false;
	return !strchr("._-", name[0]) && !str_eq(name, "host");
}

/* The left ones do not occur in a name's file, the right ones not in a reference. */
static const char spelling[][2] = { { '/', '+' }, { ':', '=' }, { '@', ',' } };

int record_file_name(const char *name, char out[TEMPLATE_NAME_MAX + 1])
{
	int r = str_copy(out, TEMPLATE_NAME_MAX + 1, name);

	for (char *p = out; r == 0 && *p; p++)
		for (size_t i = 0; i < ARRAY_LEN(spelling); i++)
			if (*p == spelling[i][0])
				*p = spelling[i][1];
	return r;
}

void record_file_name_back(char *name)
{
	for (char *p = name; *p; p++)
		for (size_t i = 0; i < ARRAY_LEN(spelling); i++)
			if (*p == spelling[i][1])
				*p = spelling[i][0];
}

/* Values are one line each: a backslash and a newline are written as \\ and \n. */
static void add_line(struct buf *b, const char *key, const char *value)
{
	buf_add_fmt(b, "%s=", key);
	for (const char *p = value; *p; p++) {
		if (*p == '\n')
			buf_add_str(b, "\\n");
		else if (*p == '\\')
			buf_add_str(b, "\\\\");
		else
			buf_add(b, p, 1);
	}
	buf_add_str(b, "\n");
}

static bool unescape(char *value)
{
	char *to = value;

	for (const char *p = value; *p; p++) {
		if (*p != '\\') {
			*to++ = *p;
			continue;
		}
		p++;
		if (*p != '\\' && *p != 'n')
			return false;
		*to++ = *p == 'n' ? '\n' : '\\';
	}
	*to = '\0';
	return true;
}

static bool layer_is_valid(const struct record *r, const char *name)
{
	const char *hex = str_after(name, "sha256-");

	if (name[0] == '/')
		return true;
	return r->kind == RECORD_LAYERS && hex && strlen(hex) == 64 &&
	       strspn(hex, "0123456789abcdef") == 64;
}

static int add_to(const char **list, unsigned *count, unsigned max, const char *value)
{
	if (*count >= max)
		return -E2BIG;
	list[(*count)++] = value;
	return 0;
}

static int set_kind(struct record *r, const char *value)
{
	if (str_eq(value, "layers"))
		r->kind = RECORD_LAYERS;
	else if (str_eq(value, "dir"))
		r->kind = RECORD_DIR;
	else
		return -EINVAL;
	return 0;
}

static int set_owner(struct record *r, const char *value)
{
	r->by_root = str_eq(value, "root");
	return r->by_root || str_eq(value, "user") ? 0 : -EINVAL;
}

static int set_key(struct record *r, const char *key, const char *value)
{
	if (str_eq(key, "kind"))
		return set_kind(r, value);
	if (str_eq(key, "owner"))
		return set_owner(r, value);
	if (str_eq(key, "layer"))
		return layer_is_valid(r, value)
			       ? add_to(r->layers, &r->layer_count, LAYERS_MAX, value)
			       : -EINVAL;
	if (str_eq(key, "env"))
		return strchr(value, '=') ? add_to(r->env, &r->env_count, ENV_VARS_MAX, value)
					  : -EINVAL;
	if (str_eq(key, "cmd"))
		return add_to(r->cmd, &r->cmd_count, TEMPLATE_ARGS_MAX, value);

	struct {
		const char *key, **to;
	} words[] = {
		{ "source", &r->source },
		{ "digest", &r->digest },
		{ "created", &r->created },
		{ "stamp", &r->stamp },
		{ "workdir", &r->workdir },
		{ "user", &r->user },
	};
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (str_eq(key, words[i].key)) {
			*words[i].to = value;
			return 0;
		}
	}
	return -EINVAL;
}

int record_parse(char *text, struct record *ret, struct err *e)
{
	struct record *r = ret;
	unsigned line = 0;
	char *next, *eq;

	memset(r, 0, sizeof(*r));
	r->text_ = text;
	r->source = r->digest = r->created = r->stamp = r->workdir = r->user = "";
	for (char *p = text; *p; p = next) {
		line++;
		next = strchr(p, '\n');
		eq = strchr(p, '=');
		if (!next || !eq || eq > next)
			goto bad;
		*next++ = '\0';
		*eq++ = '\0';
		/* The kind comes first: what a layer may be depends on it. */
		if ((line == 1) != str_eq(p, "kind") || !unescape(eq) || set_key(r, p, eq) < 0)
			goto bad;
	}
	if (!r->layer_count || (r->kind == RECORD_DIR && r->layer_count != 1))
		goto bad;
	return 0;
bad:
	record_done(ret);
	return err_say(
		e, EBADMSG, "line %u of its record makes no sense to this version of ward", line);
}

int record_format(const struct record *r, struct buf *b, struct err *e)
{
	buf_init(b, TEMPLATE_RECORD_MAX);
	add_line(b, "kind", r->kind == RECORD_DIR ? "dir" : "layers");
	add_line(b, "owner", r->by_root ? "root" : "user");
	add_line(b, "source", r->source);
	add_line(b, "digest", r->digest);
	add_line(b, "created", r->created);
	add_line(b, "stamp", r->stamp);
	add_line(b, "workdir", r->workdir);
	add_line(b, "user", r->user);
	for (unsigned i = 0; i < r->layer_count; i++)
		add_line(b, "layer", r->layers[i]);
	for (unsigned i = 0; i < r->env_count; i++)
		add_line(b, "env", r->env[i]);
	for (unsigned i = 0; i < r->cmd_count; i++)
		add_line(b, "cmd", r->cmd[i]);
	if (b->bad)
		return err_say(e, E2BIG, "the record of a template has at most %d bytes",
			TEMPLATE_RECORD_MAX);
	return 0;
}

void record_done(struct record *r)
{
	free(r->text_);
	memset(r, 0, sizeof(*r));
}

void record_destroy(struct record *r)
{
	if (!r)
		return;
	record_done(r);
	free(r);
}

static int read_text(int fd, char **ret, struct err *e)
{
	struct stat st;
	own_mem char *text = NULL;
	size_t len = 0;
	ssize_t n;

	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "its record");
	if (!S_ISREG(st.st_mode) || st.st_size > TEMPLATE_RECORD_MAX)
		return err_say(e, EBADMSG, "its record is not a file of at most %d bytes",
			TEMPLATE_RECORD_MAX);
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return err_set(e, ENOMEM, "its record");
	while (len < (size_t)st.st_size &&
		(n = host_read(fd, text + len, (size_t)st.st_size - len)) != 0) {
		if (n < 0 && n != -EINTR)
			return err_set(e, (int)-n, "reading its record");
		if (n > 0)
			len += (size_t)n;
	}
	text[len] = '\0';
	if (strlen(text) != len)
		return err_say(e, EBADMSG, "its record holds a NUL byte");
	*ret = take_ptr(&text);
	return 0;
}

int record_read(int fd, struct record **ret, struct err *e)
{
	own_record struct record *r = calloc(1, sizeof(*r));
	char *text = NULL;
	int n;

	if (!r)
		return err_set(e, ENOMEM, "its record");
	n = read_text(fd, &text, e);
	if (n == 0)
		n = record_parse(text, r, e);
	if (n < 0)
		return n;
	*ret = take_ptr(&r);
	return 0;
}

int template_record_load(
	const char *state_dir, const char *name, struct record **ret, int *ret_fd, struct err *e)
{
	char path[WARD_PATH_MAX], file[TEMPLATE_NAME_MAX + 1];
	own_fd int fd = -1;
	int r;

	if (record_file_name(name, file) < 0 ||
		str_fmt(path, sizeof(path), "%s/templates/%s/template", state_dir, file) < 0)
		return err_say(
			e, ENAMETOOLONG, "template '%s': the path of its record is too long", name);
	fd = host_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd == -ENOENT || fd == -ENOTDIR)
		return -ENOENT;
	if (fd < 0)
		return err_set(e, -fd, "template '%s': opening %s", name, path);
	r = record_read(fd, ret, e);
	if (r < 0)
		return err_wrap(e, r, "template '%s'", name);
	if (ret_fd)
		*ret_fd = take_fd(&fd);
	return 0;
}
