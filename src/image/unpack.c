/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/unpack.c - one layer, from a tar to a folder that overlayfs can use.
 *
 * Owns:  the folder while it is being filled.
 * Rules: hostile input, run with the rights of the caller, often root. Devices are refused: a 0/0
 *        one would be a whiteout in disguise. Modes and times of folders are set at the end, from
 *        the leaves up, so that a folder without write permission can still be filled by its owner.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/str.h"
#include "host/host.h"
#include "image/progress.h"
#include "image/unpack_impl.h"

void budget_init(struct budget *b, uint64_t bytes_max)
{
	b->bytes_max = b->tar_bytes = b->file_bytes = bytes_max;
	b->entries = IMAGE_ENTRIES_MAX;
}

static int check_ids(const struct unpack *u, struct archive_entry *m, struct err *e)
{
	int64_t uid = archive_entry_uid(m), gid = archive_entry_gid(m);

	if (uid >= 0 && uid < SANDBOX_IDS && gid >= 0 && gid < SANDBOX_IDS)
		return 0;
	if (!u->by_root)
		return 0; /* everything becomes the caller's anyway */
	return err_say(e, ERANGE, "its owner %lld:%lld is beyond the ids of a sandbox, 0 to %d",
		(long long)uid, (long long)gid, SANDBOX_IDS - 1);
}

static int put_by_type(struct unpack *u, struct item *it, struct err *e)
{
	if (archive_entry_hardlink(it->meta))
		return place_hard_link(u, it, e);
	switch (archive_entry_filetype(it->meta)) {
	case AE_IFREG:
		return place_file(u, it, e);
	case AE_IFLNK:
		return place_link(u, it, e);
	case AE_IFIFO:
		return place_fifo(u, it, e);
	case AE_IFDIR:
		return place_folder(u, it, e);
	case AE_IFCHR:
	case AE_IFBLK:
		return err_say(e, EPERM, "it is a device; an image may not bring any");
	default:
		return err_say(e, EINVAL, "it is neither a file, a folder, a link nor a fifo");
	}
}

static int put_entry(struct unpack *u, struct archive_entry *meta, const char *raw, struct err *e)
{
	struct item it = { .meta = meta };
	int r = entry_name_parse(raw, &it.name, e);

	if (r == 0 && !it.name.base[0] && archive_entry_filetype(meta) != AE_IFDIR)
		r = err_say(e, EINVAL, "it would take the place of the root");
	if (r == 0 && it.name.kind != NAME_PLAIN &&
		(archive_entry_filetype(meta) != AE_IFREG || archive_entry_hardlink(meta)))
		r = err_say(e, EINVAL, "a deletion mark must be a plain file");
	if (r == 0)
		r = check_ids(u, meta, e);
	if (r == 0)
		r = unpack_parent(u, it.name.parent, &it.dir, e);
	if (r < 0)
		return r;
	return it.name.kind == NAME_PLAIN ? put_by_type(u, &it, e) : place_whiteout(u, &it, e);
}

static int put_all(struct unpack *u, struct err *e)
{
	struct archive_entry *meta;
	char shown[128];
	const char *raw;
	int r, n;

	while ((n = tap_next(&u->tap, &meta, e)) > 0) {
		raw = archive_entry_pathname(meta);
		if (!u->budget->entries--) {
			u->budget->entries = 0;
			return err_say(
				e, EFBIG, "the image has more than %d entries", IMAGE_ENTRIES_MAX);
		}
		u->info.entries++;
		if (u->progress)
			progress_at(u->progress, (uint64_t)lseek(u->blob, 0, SEEK_CUR));
		r = raw ? put_entry(u, meta, raw, e)
			: err_say(e, EINVAL, "its name is no UTF-8 text");
		if (r < 0)
			return err_wrap(e, r, "entry '%s'",
				str_show(shown, sizeof(shown), raw ? raw : "?"));
	}
	if (n < 0 && n != -EINTR) /* it has no name that could be shown */
		err_wrap(e, n, "entry number %llu", (unsigned long long)u->info.entries + 1);
	return n;
}

/* Names in pax headers are UTF-8; outside of such a locale libarchive cannot hand them out. */
static locale_t enter_utf8(locale_t *ret_old, struct err *e)
{
	locale_t l = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);

	if (l)
		*ret_old = uselocale(l);
	else
		err_say(e, ENOENT, "the locale C.UTF-8 is missing; Debian has it in libc-bin");
	return l;
}

static int unpack_run(struct unpack *u, struct err *e)
{
	int r = tap_open(&u->tap, u->blob, u->budget->tar_bytes, e);

	if (r < 0)
		return r;
	r = put_all(u, e);
	if (r == 0)
		r = tap_end(&u->tap, u->info.diff_id, e);
	if (r == 0)
		r = folders_apply(&u->folders, u->root, e);
	u->budget->tar_bytes -=
		u->tap.total < u->budget->tar_bytes ? u->tap.total : u->budget->tar_bytes;
	tap_done(&u->tap);
	return r;
}

int unpack_layer(int blob, int dir, bool by_root, struct budget *b, struct progress *p,
	struct layer_info *ret, struct err *e)
{
	struct unpack *u = calloc(1, sizeof(*u));
	locale_t utf8, old;
	int r;

	if (!u)
		return err_set(e, ENOMEM, "unpacking");
	u->root = dir;
	u->by_root = by_root;
	u->budget = b;
	u->progress = p;
	u->blob = blob;
	u->parent_fd = -1;
	utf8 = enter_utf8(&old, e);
	r = utf8 ? unpack_run(u, e) : -ENOENT;
	if (r == 0)
		*ret = u->info;
	if (utf8) {
		uselocale(old);
		freelocale(utf8);
	}
	if (u->parent_fd >= 0)
		host_close(u->parent_fd);
	folders_done(&u->folders);
	free(u);
	return r;
}
