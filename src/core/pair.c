/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/pair.c - a folder before and after, as git sees it.
 *
 * Owns:  the throw-away repository.
 * Rules: contents go through one `git fast-import`, as bytes: no file of the workspace is named to
 *        git as a path of its own, so none can be a setting, an attribute or a link for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <linux/openat2.h>

#include "base/own.h"
#include "base/str.h"
#include "core/pair.h"
#include "git/git.h"
#include "host/host.h"
#include "host/tree.h"

/* As fast-import reads it: in quotes, with what would end them escaped. */
static void put_path(FILE *f, const char *path)
{
	fputc('"', f);
	for (; *path; path++) {
		if (*path == '"' || *path == '\\')
			fputc('\\', f);
		if (*path == '\n')
			fputs("\\n", f);
		else
			fputc(*path, f);
	}
	fputc('"', f);
}

static int put_bytes(FILE *f, int fd, size_t size)
{
	char chunk[1 << 15];

	fprintf(f, "data %zu\n", size);
	while (size) {
		ssize_t n = host_read(fd, chunk, size < sizeof(chunk) ? size : sizeof(chunk));

		if (n <= 0)
			return n < 0 ? (int)n : -ESTALE; /* it got shorter under our hands */
		fwrite(chunk, 1, (size_t)n, f);
		size -= (size_t)n;
	}
	fputc('\n', f);
	return 0;
}

static int put_file(FILE *f, int dir, const char *path, mode_t mode)
{
	own_fd int fd = host_openat2(dir, path,
		S_ISLNK(mode) ? O_PATH | O_NOFOLLOW : O_RDONLY | O_NONBLOCK | O_NOFOLLOW, 0,
		RESOLVE_BENEATH | (S_ISLNK(mode) ? 0 : RESOLVE_NO_SYMLINKS));
	char target[WARD_PATH_MAX];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fd < 0 ? fd : -errno;
	fprintf(f, "M %s inline ", S_ISLNK(mode) ? "120000" : mode & 0111 ? "100755" : "100644");
	put_path(f, path);
	fputc('\n', f);
	if (!S_ISLNK(mode))
		return put_bytes(f, fd, (size_t)st.st_size);
	n = readlinkat(fd, "", target, sizeof(target));
	if (n < 0)
		return -errno;
	fprintf(f, "data %zd\n", n);
	fwrite(target, 1, (size_t)n, f);
	fputc('\n', f);
	return 0;
}

/* One commit: of each change the side that was before, or after. */
static int put_commit(FILE *f, const struct changes *c, const char *root, bool after)
{
	own_fd int dir = host_open(root, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
	int r = dir < 0 ? dir : 0;

	fprintf(f, "commit %s\ncommitter ward <> 0 +0000\ndata 0\n\n",
		after ? PAIR_AFTER : PAIR_BEFORE);
	for (size_t i = 0; r == 0 && i < c->count; i++) {
		const struct change *ch = &c->list[i];
		mode_t mode = after || ch->kind == CHANGE_DELETED ? ch->mode : ch->old_mode;

		if (ch->kind != (after ? CHANGE_DELETED : CHANGE_ADDED) && change_has_text(mode))
			r = put_file(f, dir, ch->path, mode);
	}
	return r;
}

static int import(
	struct pair *p, const struct workspace_source *s, const struct changes *c, struct err *e)
{
	static const char *const args[] = { "fast-import", "--quiet", NULL };
	struct git_call call = { .args = args, .env = p->env };
	struct git_proc proc;
	void (*old)(int);
	int pipes[2], r, done;
	FILE *f;

	if (pipe2(pipes, O_CLOEXEC) < 0)
		return err_set(e, errno, "making a pipe to git");
	call.in = pipes[0];
	r = git_start(&call, &proc, e);
	close(pipes[0]);
	if (r < 0) {
		close(pipes[1]);
		return r;
	}
	old = signal(SIGPIPE, SIG_IGN); /* git says better why it stopped reading */
	f = fdopen(pipes[1], "w");
	r = f ? put_commit(f, c, s->src, false) : -ENOMEM;
	if (r == 0)
		r = put_commit(f, c, s->work, true);
	if (f && fclose(f) != 0 && r == 0)
		r = -errno;
	signal(SIGPIPE, old);
	done = git_finish(&proc, &call, e);
	if (done < 0)
		return done;
	return r < 0 ? err_set(e, -r, "reading the changes of '%s'", s->src) : 0;
}

int pair_open(struct pair *p, const struct workspace_source *s, const struct changes *c,
	const char *dir, struct err *e)
{
	const char *args[] = { "init", "--quiet", "--bare", p->scratch, NULL };
	struct git_call call = { .args = args };
	int r = str_fmt(p->scratch, sizeof(p->scratch), "%s/look-XXXXXX", dir);

	if (r == 0 && !mkdtemp(p->scratch))
		r = -errno;
	if (r < 0) {
		p->scratch[0] = '\0';
		return err_set(e, -r, "making a scratch folder in '%s'", dir);
	}
	r = str_fmt(p->git_dir, sizeof(p->git_dir), "GIT_DIR=%s", p->scratch);
	p->env[0] = p->git_dir;
	p->env[1] = NULL;
	if (r == 0)
		r = git_run(&call, e);
	return r < 0 ? r : import(p, s, c, e);
}

void pair_close(struct pair *p)
{
	if (*p->scratch)
		tree_remove(p->scratch, NULL);
	*p->scratch = '\0';
}
