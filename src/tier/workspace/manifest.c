/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/manifest.c - what a folder held when a workspace was made from it.
 *
 * Owns:  the file's form: "MODE SIZE MTIME PATH", each ended by a NUL, since a path may hold
 * anything else. Rules: other file systems mounted below are left out, as the workspace leaves them
 * out.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/workspace/manifest.h"

struct walk {
	FILE *out;
	dev_t dev;
	char path[WARD_PATH_MAX];
};

static int64_t mtime_ns(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

static int walk(struct walk *w, int dir, size_t len);

static int walk_entry(struct walk *w, int dir, const char *name, size_t len)
{
	size_t more = strlen(name);
	struct stat st;
	int fd;

	if (len + more + 2 > sizeof(w->path))
		return -ENAMETOOLONG;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (st.st_dev != w->dev)
		return 0;
	memcpy(w->path + len, name, more + 1);
	fprintf(w->out, "%" PRIo32 " %" PRIu64 " %" PRId64 " %s%c", (uint32_t)st.st_mode,
		(uint64_t)st.st_size, mtime_ns(&st), w->path, '\0');
	if (!S_ISDIR(st.st_mode))
		return 0;
	fd = host_openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0)
		return fd;
	w->path[len + more] = '/';
	return walk(w, fd, len + more + 1);
}

/* Takes @dir, whose own path is the first @len bytes. */
static int walk(struct walk *w, int dir, size_t len)
{
	DIR *d = fdopendir(dir);
	struct dirent *de;
	int r = 0;

	if (!d) {
		close(dir);
		return -ENOMEM;
	}
	while (r == 0 && (errno = 0, de = readdir(d)))
		if (!str_eq(de->d_name, ".") && !str_eq(de->d_name, ".."))
			r = walk_entry(w, dirfd(d), de->d_name, len);
	if (r == 0 && errno)
		r = -errno;
	closedir(d);
	return r;
}

int manifest_write(const char *dir, const char *file, struct err *e)
{
	struct walk w = { 0 };
	own_file FILE *out = file ? fopen(file, "wxe") : NULL;
	struct stat st;
	int fd, r;

	if (!out)
		return err_set(e, file ? errno : ENAMETOOLONG, "noting what '%s' holds", dir);
	fd = host_open(dir, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = fd < 0 ? fd : -errno;
	} else {
		w.out = out;
		w.dev = st.st_dev;
		r = walk(&w, take_fd(&fd), 0);
	}
	if (fd >= 0)
		close(fd);
	if (r == 0 && (fflush(out) != 0 || ferror(out)))
		r = -EIO;
	return r < 0 ? err_set(e, -r, "noting what '%s' holds", dir) : 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(
		((const struct manifest_entry *)a)->path, ((const struct manifest_entry *)b)->path);
}

/* "100644 5 17000 a/b": numbers that were written by us, checked all the same. */
static bool read_entry(char *text, struct manifest_entry *ret)
{
	char *at, *end;

	ret->mode = (uint32_t)strtoul(text, &at, 8);
	if (*at != ' ')
		return false;
	ret->size = strtoull(at + 1, &end, 10);
	if (end == at + 1 || *end != ' ')
		return false;
	ret->mtime_ns = strtoll(end + 1, &at, 10);
	if (at == end + 1 || *at != ' ' || !at[1] || at[1] == '/')
		return false;
	ret->path = at + 1;
	return true;
}

static int read_all(const char *file, char **ret, size_t *ret_len)
{
	own_fd int fd = host_open(file, O_RDONLY, 0);
	own_mem char *text = NULL;
	size_t have = 0;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	while (have < (size_t)st.st_size &&
		(n = host_read(fd, text + have, (size_t)st.st_size - have)) != 0) {
		if (n < 0 && n != -EINTR)
			return (int)n;
		have += n > 0 ? (size_t)n : 0;
	}
	text[have] = '\0';
	*ret = take_ptr(&text);
	*ret_len = have;
	return 0;
}

int manifest_read(const char *file, struct manifest *ret, struct err *e)
{
	struct manifest m = { 0 };
	size_t len = 0, lines = 0;
	int r = read_all(file, &m.text, &len);

	if (r < 0)
		return err_set(e, -r, "reading what the source held, '%s'", file);
	for (size_t i = 0; i < len; i++)
		lines += m.text[i] == '\0';
	m.entries = calloc(lines + 1, sizeof(*m.entries)); /* one more: a file cut short */
	if (!m.entries)
		r = -ENOMEM;
	for (char *p = m.text; r == 0 && p < m.text + len; p += strlen(p) + 1)
		if (!read_entry(p, &m.entries[m.count++]) || m.count > lines)
			r = -EINVAL;
	if (r < 0) {
		manifest_done(&m);
		return err_set(e, -r, "'%s' is not a list of files", file);
	}
	qsort(m.entries, m.count, sizeof(*m.entries), by_path);
	*ret = m;
	return 0;
}

void manifest_done(struct manifest *m)
{
	free(m->entries);
	free(m->text);
	*m = (struct manifest){ 0 };
}

const struct manifest_entry *manifest_find(const struct manifest *m, const char *path)
{
	struct manifest_entry key = { .path = path };

	return m->count ? bsearch(&key, m->entries, m->count, sizeof(key), by_path) : NULL;
}

bool manifest_same(const struct manifest_entry *entry, const struct stat *st)
{
	if (S_ISDIR(entry->mode) && S_ISDIR(st->st_mode))
		return true;
	/* Copies lose their set-id bits. */
	return ((entry->mode ^ st->st_mode) & (S_IFMT | 01777)) == 0 &&
	       entry->size == (uint64_t)st->st_size && entry->mtime_ns == mtime_ns(st);
}
