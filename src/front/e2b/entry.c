/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/entry.c - a file as the filesystem service describes it.
 *
 * Owns:  the shape of EntryInfo.
 * Rules: pure. Names and targets come from inside the sandbox: they are bytes, and what is not
 *        UTF-8 in them is replaced by the JSON writer.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/json.h"
#include "base/str.h"
#include "front/e2b/entry.h"

/* The letters that Go gives to kinds, since that is what clients were written against. */
static const struct {
	const char *letters, *type;
} kinds[] = {
	[0] = { "?", "FILE_TYPE_UNSPECIFIED" },
	[FILE_REGULAR] = { "", "FILE_TYPE_FILE" },
	[FILE_DIRECTORY] = { "d", "FILE_TYPE_DIRECTORY" },
	[FILE_SYMLINK] = { "L", "FILE_TYPE_UNSPECIFIED" },
	[FILE_FIFO] = { "p", "FILE_TYPE_UNSPECIFIED" },
	[FILE_SOCKET] = { "S", "FILE_TYPE_UNSPECIFIED" },
	[FILE_CHAR_DEVICE] = { "Dc", "FILE_TYPE_UNSPECIFIED" },
	[FILE_BLOCK_DEVICE] = { "D", "FILE_TYPE_UNSPECIFIED" },
};

static unsigned known(enum file_kind kind)
{
	return (unsigned)kind < sizeof(kinds) / sizeof(kinds[0]) ? (unsigned)kind : 0;
}

void entry_permissions(enum file_kind kind, uint32_t mode, char out[ENTRY_PERMISSIONS])
{
	static const char rwx[] = "rwxrwxrwx";
	char front[8], back[10];

	str_fmt(front, sizeof(front), "%s%s%s%s", kinds[known(kind)].letters,
		mode & S_ISUID ? "u" : "", mode & S_ISGID ? "g" : "", mode & S_ISVTX ? "t" : "");
	for (unsigned i = 0; i < 9; i++)
		back[i] = mode & (0400u >> i) ? rwx[i] : '-';
	back[9] = '\0';
	str_fmt(out, ENTRY_PERMISSIONS, "%s%s", front[0] ? front : "-", back);
}

const char *entry_type(enum file_kind kind)
{
	return kinds[known(kind)].type;
}

void entry_time(uint64_t ns, char out[ENTRY_TIME])
{
	time_t s = (time_t)(ns / 1000000000u);
	char day[24];
	struct tm tm;

	if (!gmtime_r(&s, &tm) || tm.tm_year > 9999 - 1900 ||
		!strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm))
		str_copy(day, sizeof(day), "1970-01-01T00:00:00");
	str_fmt(out, ENTRY_TIME, "%s.%09" PRIu64 "Z", day, ns % 1000000000u);
}

const char *entry_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* The name, or the number when nobody has it. */
static void put_owner(struct buf *b, const char *key, const char *name, uint32_t id)
{
	char text[16];

	str_fmt(text, sizeof(text), "%u", id);
	json_str(b, key, name && *name ? name : text);
}

void entry_metadata(struct buf *b, const char *meta, uint32_t len)
{
	const char *end;

	if (!meta || !len)
		return;
	end = meta + len;
	json_open(b, "metadata");
	for (const char *p = meta; p < end; p += strlen(p) + 1) {
		const char *equals = strchr(p, '=');
		char name[256];

		if (equals && str_fmt(name, sizeof(name), "%.*s", (int)(equals - p), p) == 0)
			json_str(b, name, equals + 1);
	}
	json_close(b);
}

void entry_json(struct buf *b, const char *key, const char *path, const struct proto_file *f)
{
	char text[32], when[ENTRY_TIME], permissions[ENTRY_PERMISSIONS];

	json_open(b, key);
	json_str(b, "name", entry_name(path));
	json_str(b, "type", entry_type(f->kind));
	json_str(b, "path", path);
	str_fmt(text, sizeof(text), "%" PRIu64, f->size);
	json_str(b, "size", text);
	json_u64(b, "mode", f->mode & 0777);
	entry_permissions(f->kind, f->mode, permissions);
	json_str(b, "permissions", permissions);
	put_owner(b, "owner", f->owner, f->uid);
	put_owner(b, "group", f->group, f->gid);
	entry_time(f->mtime_ns, when);
	json_str(b, "modifiedTime", when);
	if (f->link)
		json_str(b, "symlinkTarget", f->link);
	entry_metadata(b, f->meta, f->meta_len);
	json_close(b);
}
