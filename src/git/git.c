/* SPDX-License-Identifier: Apache-2.0 */
/*
 * git/git.c - runs git.
 *
 * Owns:  the settings under which ward runs git.
 * Rules: output goes to memory files and is read afterwards, so that no pipe can fill up.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "git/git.h"
#include "host/host.h"

enum { GIT_ARGS_MAX = 64, GIT_ERRORS_MAX = 4096 };

/* What a repository, or a checkout with somebody else's files in it, could make git run. */
static const char *const settings[] = {
	"core.hooksPath=/dev/null",
	"core.fsmonitor=false",
	"core.pager=cat",
	"gc.auto=0",
	"maintenance.auto=false",
	"commit.gpgSign=false",
	"submodule.recurse=false",
	"advice.detachedHead=false",
	"worktree.useRelativePaths=false",
};

static const char *const environment[] = {
	"LC_ALL=C",
	"GIT_TERMINAL_PROMPT=0",
	"GIT_OPTIONAL_LOCKS=0",
};

extern char **environ;

/* Adds all of @from, NULL-terminated, that @skip does not hold. */
static size_t add_all(const char **to, size_t n, const char *const *from, bool clean)
{
	for (; from && *from; from++)
		if (!clean || !(str_after(*from, "GIT_") || str_after(*from, "LC_") ||
				      str_after(*from, "LANG")))
			to[n++] = *from;
	return n;
}

static const char **make_env(const struct git_call *call)
{
	const char *const *host = (const char *const *)environ;
	size_t n = 0, room = ARRAY_LEN(environment) + 1;
	const char **env;

	for (size_t i = 0; host && host[i]; i++)
		room++;
	for (size_t i = 0; call->env && call->env[i]; i++)
		room++;
	env = calloc(room, sizeof(*env));
	if (!env)
		return NULL;
	n = add_all(env, n, host, true);
	for (size_t i = 0; i < ARRAY_LEN(environment); i++)
		env[n++] = environment[i];
	add_all(env, n, call->env, false);
	return env;
}

static int make_args(const struct git_call *call, const char *argv[GIT_ARGS_MAX])
{
	size_t n = 0;

	argv[n++] = "git";
	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		argv[n++] = "-c";
		argv[n++] = settings[i];
	}
	for (const char *const *a = call->args; *a; a++) {
		if (n >= GIT_ARGS_MAX - 1)
			return -E2BIG;
		argv[n++] = *a;
	}
	argv[n] = NULL;
	return 0;
}

/* In the child. Says what went wrong on the descriptor that becomes stderr. */
static _Noreturn void become_git(
	const struct git_call *call, const struct git_proc *p, const char **argv, const char **env)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int out = call->text ? p->text : call->out > 0 ? call->out : null;
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (null >= 0 && (!call->dir || chdir(call->dir) == 0) &&
		dup2(call->in > 0 ? call->in : null, 0) >= 0 && dup2(out, 1) >= 0 &&
		dup2(p->errors, 2) >= 0)
		execvpe("git", (char *const *)argv, (char *const *)env);
	_exit(errno == ENOENT ? 127 : 126);
}

int git_start(const struct git_call *call, struct git_proc *ret, struct err *e)
{
	const char *argv[GIT_ARGS_MAX];
	own_mem const char **env = make_env(call);
	struct git_proc p;

	*ret = (struct git_proc){ 0, -1, -1 };
	if (!env || make_args(call, argv) < 0)
		return err_set(e, ENOMEM, "preparing git %s", call->args[0]);
	p.text = memfd_create("git-out", MFD_CLOEXEC);
	p.errors = memfd_create("git-err", MFD_CLOEXEC);
	if (p.text >= 0 && p.errors >= 0) {
		p.pid = fork();
		if (p.pid == 0)
			become_git(call, &p, argv, env);
		if (p.pid > 0) {
			*ret = p;
			return 0;
		}
	}
	err_set(e, errno, "starting git %s", call->args[0]);
	if (p.text >= 0)
		close(p.text);
	if (p.errors >= 0)
		close(p.errors);
	return -EIO;
}

static bool is_lock_trouble(const char *text)
{
	return strstr(text, ".lock': File exists") || strstr(text, "cannot lock ref");
}

/* Makes one line out of what git said: the first that says why. */
static int explain(const char *text, const struct git_call *call, struct err *e)
{
	const char *at = strstr(text, "fatal: "), *hint = "";
	size_t n;

	if (!at)
		at = strstr(text, "error: ");
	at = at ? at + strlen("fatal: ") : text;
	if (!*at)
		at = "failed without a word";
	n = strcspn(at, "\n");
	if (strstr(text, "dubious ownership"))
		hint = "; run ward as its owner, or trust it: git config --global --add "
		       "safe.directory PATH";
	return err_say(e, is_lock_trouble(text) ? EAGAIN : EIO, "git %s: %.*s%s", call->args[0],
		(int)n, n ? at : "failed without a word", hint);
}

static int read_text(int fd, struct buf *b)
{
	char chunk[4096];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, chunk, sizeof(chunk), at)) > 0) {
		buf_add(b, chunk, (size_t)n);
		at += n;
	}
	return n < 0 ? -errno : b->bad ? -E2BIG : 0;
}

int git_finish(struct git_proc *p, const struct git_call *call, struct err *e)
{
	own_fd int text = take_fd(&p->text), errors = take_fd(&p->errors);
	char said[GIT_ERRORS_MAX];
	int status, r;
	ssize_t n;

	if (p->pid <= 0)
		return -ECHILD;
	while ((r = waitpid(p->pid, &status, 0)) < 0 && errno == EINTR)
		;
	p->pid = 0;
	if (r < 0)
		return err_set(e, errno, "waiting for git %s", call->args[0]);
	n = pread(errors, said, sizeof(said) - 1, 0);
	said[n > 0 ? n : 0] = '\0';
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127 && !*said)
		return err_say(e, ENOENT, "there is no git on this host: apt install git");
	if (WIFSIGNALED(status))
		return err_say(
			e, EIO, "git %s was ended by signal %d", call->args[0], WTERMSIG(status));
	if (WEXITSTATUS(status) != 0)
		return explain(said, call, e);
	r = call->text ? read_text(text, call->text) : 0;
	return r < 0 ? err_set(e, -r, "reading what git %s printed", call->args[0]) : 0;
}

int git_run(const struct git_call *call, struct err *e)
{
	struct git_proc p;
	int r = git_start(call, &p, e);

	return r < 0 ? r : git_finish(&p, call, e);
}
