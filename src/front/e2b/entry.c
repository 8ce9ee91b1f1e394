/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/entry.c - a file as the filesystem service describes it.
 *
 * Owns:  the shape of EntryInfo.
 * Rules: pure.
 */
#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>

#include "base/json.h"
#include "base/str.h"
#include "front/e2b/entry.h"
#include "front/e2b/pairs.h"
#include "front/e2b/path.h"

/* The letters that Go gives to kinds, since that is what clients were written against. */
static const struct {
	const char *letters, *type;
} kinds[] = {
	[0] = { "?", "FILE_TYPE_UNSPECIFIED" },
	[FILE_REGULAR] = { "", "FILE_TYPE_FILE" },
	[FILE_DIRECTORY] = { "d", "FILE_TYPE_DIRECTORY" },
	[FILE_SYMLINK] = { "L", "FILE_TYPE_SYMLINK" },
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

	if (!gmtime_r(&s, &tm) || !strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm) ||
		tm.tm_year > 9999 - 1900)
		str_copy(day, sizeof(day), "1970-01-01T00:00:00");
	str_fmt(out, ENTRY_TIME, "%s.%09" PRIu64 "Z", day, ns % 1000000000u);
}

void entry_json(struct buf *b, const char *key, const struct entry *t, const struct accounts *a)
{
	char text[64], when[ENTRY_TIME], permissions[ENTRY_PERMISSIONS];

	json_open(b, key);
	json_str(b, "name", path_base(t->path));
	json_str(b, "type", entry_type(t->kind));
	json_str(b, "path", t->path);
	str_fmt(text, sizeof(text), "%" PRIu64, t->size);
	json_str(b, "size", text);
	json_u64(b, "mode", t->mode & 0777);
	entry_permissions(t->kind, t->mode, permissions);
	json_str(b, "permissions", permissions);
	json_str(b, "owner", accounts_user(a, t->uid, text));
	json_str(b, "group", accounts_group(a, t->gid, text));
	entry_time(t->mtime_ns, when);
	json_str(b, "modifiedTime", when);
	if (t->link)
		json_str(b, "symlinkTarget", t->link);
	if (t->attributes && t->attributes->count) {
		json_open(b, "metadata");
		for (size_t i = 0; i < t->attributes->count; i++)
			json_str(b, t->attributes->names[i], t->attributes->values[i]);
		json_close(b);
	}
	json_close(b);
}
