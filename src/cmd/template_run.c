/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/template_run.c - `ward template build --run`: commands whose changes become layers.
 *
 * Owns:  a template of its own for as long as the build takes, and one kept sandbox at a time.
 * Rules: a command runs as any other would, in a sandbox of the container tier that `ward run`
 *        makes, so nothing of it touches the host, and the audit log knows of it. Whatever fails,
 *        sandbox and template are removed again.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <jansson.h>

#include "base/id.h"
#include "base/own.h"
#include "base/str.h"
#include "cmd/common.h"
#include "cmd/template.h"
#include "core/list.h"
#include "host/host.h"
#include "image/image.h"
#include "image/stop.h"
#include "store/state.h"
#include "template/shelf.h"

struct runs {
	const struct globals *g;
	const struct build_runs *o;
	char template[ID_LEN + 8]; /* "build-ID": where the layers are collected */
	char box[ID_LEN + 1];      /* the kept sandbox; "": none */
	struct shelf shelf;
	char work[ID_LEN + 6];
	int work_fd;
};

/* Runs it with stdout on stderr: stdout is for what --json asked for. Its wait status, or -errno.
 */
static int spawn_ward(const char *path, const char *const *argv)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none;
	int status, r;
	pid_t pid;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, 2, 1);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none); /* Ctrl-C is blocked here, and reaches it */
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	r = posix_spawn(&pid, path, &files, &attr, (char *const *)argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	if (r != 0)
		return -r;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return status;
}

/* Which sandbox was kept, from the report. */
static int read_report(struct runs *b, int fd, struct err *e)
{
	json_t *report;
	const char *id;
	int r = -ENOENT;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, errno, "reading the command's report");
	report = json_loadfd(fd, JSON_DISABLE_EOF_CHECK, NULL);
	id = json_string_value(json_object_get(report, "id"));
	if (json_is_true(json_object_get(report, "kept")) && id && id_is_valid(id))
		r = str_copy(b->box, sizeof(b->box), id);
	json_decref(report);
	return r;
}

static int run_one(struct runs *b, const char *command, struct err *e)
{
	own_fd int report = memfd_create("report", 0); /* ward run writes to it by name */
	char path[WARD_PATH_MAX], name[32], shown[80];
	const char *argv[24] = { "ward", "--state-dir", b->g->state_dir, "run", "--quiet", "--keep",
		"--tier", "container", "--template", b->template, "--user", "0", "--json", name };
	unsigned n = 14;
	int r, status;

	if (report < 0)
		return err_set(e, errno, "making a file for a report");
	r = cmd_find_ward(path, e);
	if (r < 0)
		return r;
	str_fmt(name, sizeof(name), "/proc/self/fd/%d", report);
	if (b->o->net)
		argv[n++] = "--net", argv[n++] = b->o->net;
	if (b->o->disk)
		argv[n++] = "--disk", argv[n++] = b->o->disk;
	argv[n++] = "--";
	argv[n++] = "/bin/sh";
	argv[n++] = "-c";
	argv[n++] = command;
	status = spawn_ward(path, argv);
	str_show(shown, sizeof(shown), command);
	if (status < 0)
		return err_set(e, -status, "starting '%s'", path);
	r = read_report(b, report, NULL);
	if (stop_check(e) < 0)
		return -EINTR;
	if (status != 0)
		return err_say(e, EIO, "--run '%s' ended with status %d", shown,
			WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return r < 0 ? err_say(e, EIO, "--run '%s' left no sandbox to keep", shown) : 0;
}

static void drop_box(struct runs *b)
{
	own_fd int state = -1;

	if (b->box[0] && state_open(b->g->state_dir, &state, NULL) == 0)
		box_remove(state, b->box, NULL, NULL);
	b->box[0] = '\0';
}

/* A name that a sweep knows to be ours, as long as we live. */
static int begin(struct runs *b, struct err *e)
{
	char id[ID_LEN + 1];
	int r = id_make(id);

	if (r < 0)
		return err_set(e, -r, "making a name");
	str_fmt(b->template, sizeof(b->template), "build-%s", id);
	r = shelf_open(b->g->state_dir, true, &b->shelf, e);
	if (r < 0)
		return r;
	r = shelf_work_begin(&b->shelf, b->work, &b->work_fd, e);
	return r < 0 ? r : shelf_work_owns(b->work_fd, b->template, e);
}

static void end(struct runs *b)
{
	if (b->work_fd >= 0 && shelf_lock(&b->shelf, NULL) == 0) {
		shelf_remove(&b->shelf, b->template, NULL);
		shelf_unlock(&b->shelf);
	}
	shelf_work_end(&b->shelf, b->work, &b->work_fd);
	shelf_sweep(&b->shelf, NULL, NULL);
	shelf_done(&b->shelf);
}

/* One command, and what it changed as a layer on top; the last one gives the template its name. */
static int add_run(struct runs *b, const char *command, const char *name, uint64_t max_bytes,
	struct import_result *ret, struct err *e)
{
	struct build_options o = { .from = b->template, .max_bytes = max_bytes };
	char upper[WARD_PATH_MAX];
	int r = run_one(b, command, e);

	if (r == 0 &&
		str_fmt(upper, sizeof(upper), "%s/boxes/%s/upper", b->g->state_dir, b->box) < 0)
		r = err_say(e, ENAMETOOLONG, "the state directory's path is too long");
	o.upper = upper;
	if (r == 0)
		r = image_build(b->g->state_dir, name, &o, ret, e);
	drop_box(b);
	return r;
}

static int run_all(struct runs *b, const char *name, const struct build_options *o,
	struct import_result *ret, struct err *e)
{
	struct import_result one = { 0 };
	int r = image_build(b->g->state_dir, b->template, o, ret, e);

	for (unsigned i = 0; r == 0 && i < b->o->count; i++) {
		bool last = i + 1 == b->o->count;

		r = add_run(b, b->o->commands[i], last ? name : b->template, o->max_bytes, &one, e);
		one.new_layers += ret->new_layers;
		*ret = one;
	}
	return r;
}

int template_build_runs(const struct globals *g, const char *name, const struct build_options *o,
	const struct build_runs *runs, struct import_result *ret, struct err *e)
{
	struct runs b = { .g = g, .o = runs, .shelf = { -1, -1, -1, -1 }, .work_fd = -1 };
	int r;

	if (geteuid() != 0)
		return err_say(e, EPERM,
			"--run needs root: an ordinary user's sandbox has one owner for all files");
	r = begin(&b, e);
	if (r == 0)
		r = run_all(&b, name, o, ret, e);
	if (b.shelf.layers >= 0)
		end(&b);
	return r;
}
