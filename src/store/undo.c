/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/undo.c - takes down what a record names.
 *
 * Owns:  the kinds of things, and which paths each may name.
 * Rules: idempotent: "already gone" is success. A path is checked every time it is read back, and
 *        what lies below the state directory is reached through its descriptor, without symlinks.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <linux/openat2.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "store/trash.h"
#include "store/undo.h"

enum { STACKED_MOUNTS_MAX = 16 };

struct undo_job {
	int state_fd;
	const char *id;
	const struct sweep_hooks *hooks;
};

static const char *const names[UNDO_KINDS] = {
	[UNDO_CGROUP] = "cgroup",
	[UNDO_MOUNT] = "mount",
	[UNDO_LOOP] = "loop",
	[UNDO_WORKTREE] = "worktree",
	[UNDO_TREE] = "tree",
	[UNDO_KEPT] = "kept",
};

const char *undo_name(enum undo_kind kind)
{
	return names[kind];
}

static bool path_is_clean(const char *path)
{
	if (!path || path[0] != '/')
		return false;
	for (const char *p = path; *p;) {
		size_t n = strcspn(++p, "/");

		if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		p += n;
	}
	return true;
}

static bool cgroup_is_ours(const char *path, const char *id)
{
	return str_after(path, "/sys/fs/cgroup/") && strstr(strrchr(path, '/'), id);
}

/* What can be told from the text alone. */
static int check_text(const struct undo *u, const char *id, struct err *e)
{
	bool ok = true;

	if (u->kind >= UNDO_KINDS)
		return err_say(e, EINVAL, "kind %d of undo does not exist", (int)u->kind);
	if (u->kind != UNDO_KEPT)
		ok = path_is_clean(u->path);
	if (ok && u->kind == UNDO_WORKTREE)
		ok = path_is_clean(u->path2);
	if (ok && u->kind == UNDO_CGROUP)
		ok = cgroup_is_ours(u->path, id);
	if (!ok)
		return err_say(e, EINVAL,
			"undo of %s '%s' is refused: the path is not one of sandbox %s",
			names[u->kind], u->path ? u->path : "", id);
	return 0;
}

int undo_write(
	struct record *r, const char *id, const struct undo *items, unsigned count, struct err *e)
{
	if (count > UNDO_MAX)
		return err_say(e, E2BIG, "more than %d things to undo for one sandbox", UNDO_MAX);
	for (unsigned i = 0; i < count; i++) {
		const struct undo *u = &items[i];
		const char *words[3];
		size_t n = 0;
		int rc = check_text(u, id, e);

		if (rc < 0)
			return rc;
		words[n++] = names[u->kind];
		if (u->kind != UNDO_KEPT)
			words[n++] = u->path;
		if (u->kind == UNDO_WORKTREE)
			words[n++] = u->path2;
		record_add_words(r, "undo", words, n);
	}
	return 0;
}

/*
 * The part of @path after the state directory. The directory is found by comparing what each
 * leading part of @path is, not its text: it may have been named through a symlink.
 */
static int below_state(int state_fd, const char *path, const char **ret_rest, struct err *e)
{
	char lead[WARD_PATH_MAX];
	struct stat state, st;
	int r = host_fstat(state_fd, &state);

	if (r < 0)
		return err_set(e, -r, "looking at the state directory");
	r = str_copy(lead, sizeof(lead), path);
	if (r < 0)
		return err_set(e, -r, "'%s'", path);
	for (char *p = strchr(lead + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (host_fstatat(AT_FDCWD, lead, &st, 0) == 0 && st.st_dev == state.st_dev &&
			st.st_ino == state.st_ino) {
			*ret_rest = path + (p - lead) + 1;
			return 0;
		}
		*p = '/';
	}
	return err_say(e, EINVAL, "'%s' is not below the state directory", path);
}

static int undo_mount(const struct undo_job *job, const struct undo *u, struct err *e)
{
	const char *rest;
	int r = below_state(job->state_fd, u->path, &rest, e);

	if (r < 0)
		return r;
	for (unsigned i = 0; i < STACKED_MOUNTS_MAX; i++) {
		own_fd int fd = host_openat2(job->state_fd, rest, O_PATH | O_NOFOLLOW, 0,
			RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
		char self[32];

		if (fd == -ENOENT || fd == -ENOTDIR)
			return 0;
		if (fd < 0)
			return err_set(e, -fd, "opening mount '%s'", u->path);
		r = str_fmt(self, sizeof(self), "/proc/self/fd/%d", fd);
		if (r == 0)
			r = host_umount(self, MNT_DETACH);
		if (r == -EINVAL)
			return 0; /* not a mount point (any more) */
		if (r < 0)
			return err_set(e, -r, "unmounting '%s'", u->path);
	}
	return err_say(e, EBUSY, "unmounting '%s': more than %d mounts on top of each other",
		u->path, STACKED_MOUNTS_MAX);
}

static int undo_loop(const struct undo_job *job, const struct undo *u, struct err *e)
{
	char self[32], full[WARD_PATH_MAX];
	const char *rest;
	ssize_t n;
	int r = below_state(job->state_fd, u->path, &rest, e);

	if (r < 0)
		return r;
	/* The kernel names a backing file by its resolved path. */
	r = str_fmt(self, sizeof(self), "/proc/self/fd/%d", job->state_fd);
	n = r < 0 ? -1 : readlink(self, full, sizeof(full) - 1);
	if (n < 0)
		return err_set(e, errno, "finding the path of the state directory");
	r = str_fmt(full + n, sizeof(full) - (size_t)n, "/%s", rest);
	if (r < 0)
		return err_set(e, -r, "'%s'", u->path);
	return loop_detach(full, e);
}

static int undo_worktree(const struct undo_job *job, const struct undo *u, struct err *e)
{
	own_fd int fd = -1;
	const char *rest;
	int r = below_state(job->state_fd, u->path2, &rest, e);

	if (r < 0)
		return r;
	/* What the hook gets is a path: none that leads somewhere else through a symlink. Its end
	 * may be one, put there by the sandbox: the hook removes the link. */
	fd = host_openat2(
		job->state_fd, rest, O_PATH | O_NOFOLLOW, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (fd < 0 && fd != -ENOENT)
		return err_set(e, -fd, "opening worktree '%s'", u->path2);
	if (!job->hooks || !job->hooks->worktree_remove)
		return err_say(e, ENOTSUP, "worktree '%s' is left for 'ward gc'", u->path2);
	return job->hooks->worktree_remove(u->path, u->path2, e);
}

/* Never slots/, audit/ or trash/ themselves, nor boxes/ as a whole. */
static bool tree_is_allowed(const char *rest)
{
	static const char *const homes[] = { "boxes/", "templates/", "layers/" };

	for (size_t i = 0; i < ARRAY_LEN(homes); i++)
		if (str_after(rest, homes[i]))
			return true;
	return false;
}

static int undo_tree(const struct undo_job *job, const struct undo *u, struct err *e)
{
	const char *rest;
	int r = below_state(job->state_fd, u->path, &rest, e);

	if (r < 0)
		return r;
	if (!tree_is_allowed(rest))
		return err_say(
			e, EINVAL, "tree '%s' is not below boxes, templates or layers", u->path);
	return tree_discard(job->state_fd, rest, e);
}

static int undo_one(const struct undo_job *job, const struct undo *u, struct err *e)
{
	int r = check_text(u, job->id, e);

	if (r < 0)
		return r;
	switch (u->kind) {
	case UNDO_CGROUP:
		return cgroup_remove(u->path, e);
	case UNDO_MOUNT:
		return undo_mount(job, u, e);
	case UNDO_LOOP:
		return undo_loop(job, u, e);
	case UNDO_WORKTREE:
		return undo_worktree(job, u, e);
	case UNDO_TREE:
		return undo_tree(job, u, e);
	case UNDO_KEPT:
	case UNDO_KINDS:
		break;
	}
	return 0;
}

/* The room for the strings of one item that was read back. */
struct undo_text {
	struct undo u;
	char kind[16], path[WARD_PATH_MAX], path2[WARD_PATH_MAX];
};

static int parse(const struct record_line *line, struct undo_text *ret, struct err *e)
{
	int r;

	ret->u = (struct undo){ .kind = UNDO_KINDS };
	ret->kind[0] = ret->path[0] = ret->path2[0] = '\0';
	r = record_word(line, 0, ret->kind, sizeof(ret->kind));
	for (unsigned k = 0; r == 0 && k < UNDO_KINDS; k++)
		if (str_eq(ret->kind, names[k]))
			ret->u.kind = (enum undo_kind)k;
	if (r < 0 || ret->u.kind == UNDO_KINDS)
		return err_say(
			e, EINVAL, "the record names a kind of thing that this ward does not know");
	if (ret->u.kind != UNDO_KEPT) {
		r = record_word(line, 1, ret->path, sizeof(ret->path));
		ret->u.path = ret->path;
	}
	if (r == 0 && ret->u.kind == UNDO_WORKTREE) {
		r = record_word(line, 2, ret->path2, sizeof(ret->path2));
		ret->u.path2 = ret->path2;
	}
	return r < 0 ? err_set(e, -r, "reading undo of kind %s", ret->kind) : 0;
}

bool undo_is_kept(const struct record *r)
{
	struct record_line line;
	char word[16];

	for (size_t at = 0; record_next(r, &at, &line);)
		if (record_key_is(&line, "undo") &&
			record_word(&line, 0, word, sizeof(word)) == 0 &&
			str_eq(word, names[UNDO_KEPT]))
			return true;
	return false;
}

static void tell_removed(const struct undo_job *job, const struct undo *u)
{
	const struct sweep_hooks *h = job->hooks;

	if (h && h->removed)
		h->removed(h->arg, names[u->kind], u->path2 ? u->path2 : u->path);
}

/* All lines of one kind; mounts newest first, since a later one may lie inside an earlier one. */
static int undo_kind(
	const struct undo_job *job, const struct record *rec, enum undo_kind kind, struct err *e)
{
	struct record_line lines[UNDO_MAX], line;
	struct undo_text t;
	struct err mine = { 0 };
	unsigned n = 0;
	int first = 0, r;

	for (size_t at = 0; record_next(rec, &at, &line);) {
		if (!record_key_is(&line, "undo"))
			continue;
		if (n == UNDO_MAX)
			return err_say(e, E2BIG, "the record names more than %d things", UNDO_MAX);
		lines[n++] = line;
	}
	while (n--) {
		r = parse(&lines[n], &t, &mine);
		if (r == 0 && t.u.kind != kind)
			continue;
		if (r < 0 && kind != UNDO_CGROUP)
			continue; /* counted in the first round */
		if (r == 0)
			r = undo_one(job, &t.u, &mine);
		if (r == 0)
			tell_removed(job, &t.u);
		if (r < 0 && first == 0) {
			first = r;
			if (e)
				*e = mine;
		}
	}
	return first;
}

/* Before the first process is killed, none in any of the cgroups may fork any more. */
static void choke_all(const struct undo_job *job, const struct record *rec)
{
	struct record_line line;
	struct undo_text t;

	for (size_t at = 0; record_next(rec, &at, &line);)
		if (record_key_is(&line, "undo") && parse(&line, &t, NULL) == 0 &&
			t.u.kind == UNDO_CGROUP && check_text(&t.u, job->id, NULL) == 0)
			cgroup_choke(t.u.path);
}

int undo_do(int state_fd, const char *id, const struct record *r, bool keep,
	const struct sweep_hooks *hooks, struct err *e)
{
	const struct undo_job job = { .state_fd = state_fd, .id = id, .hooks = hooks };
	int first = 0;

	choke_all(&job, r);
	for (unsigned k = 0; k < UNDO_KEPT; k++) {
		int rc;

		if (keep && (k == UNDO_WORKTREE || k == UNDO_TREE))
			continue;
		rc = undo_kind(&job, r, (enum undo_kind)k, first ? NULL : e);
		if (rc < 0 && first == 0)
			first = rc;
		/* While a process of it may live, nothing that it could still write to is removed.
		 */
		if (rc < 0 && k == UNDO_CGROUP)
			return first;
	}
	return first;
}
