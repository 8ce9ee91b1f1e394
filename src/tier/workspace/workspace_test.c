/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/workspace_test.c - shell scripts in real workspaces, with a small stand-in for the
 * agent. All of it runs three times: as the caller, as an ordinary user, and where the host gives
 * no namespaces.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <cmocka.h>

#include "agent/agent.h"
#include "base/ckd.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "tier/tier_impl.h"
#include "tier/workspace/workspace.h"

enum { OUT_MAX = 8192, NOBODY = 65534 };

enum variant { HERE, USER, PLAIN, VARIANTS };
static const char *const variant_names[] = { "as the caller", "as an ordinary user",
	"without namespaces" };
static enum variant variant;

static char top[64]; /* repo/, dir/, secret, outside/, state/ */

/* The stand-in: one script comes, its output goes back, its exit status ends the process. */
int agent_run(const struct agent_config *config)
{
	char script[4096];
	ssize_t n = recv(config->channel, script, sizeof(script) - 1, 0);
	int status = 1 << 8;
	pid_t pid;

	if (n <= 0 || (config->not_init && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0))
		return 1;
	script[n] = '\0';
	pid = fork();
	if (pid == 0) {
		dup2(config->channel, 1);
		dup2(config->channel, 2);
		execl("/bin/sh", "sh", "-c", script, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void put(const char *name, const char *text)
{
	char path[256];
	int fd;

	str_fmt(path, sizeof(path), "%s/%s", top, name);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
}

/* Runs @script on the host, in the test's folder; what it printed, in @out. */
static int shell(const char *script, char *out, size_t cap)
{
	char line[2048];
	size_t n = 0;
	FILE *f;

	str_fmt(line, sizeof(line), "cd %s && { %s\n} 2>&1", top, script);
	f = popen(line, "r");
	assert_non_null(f);
	n = fread(out, 1, cap - 1, f);
	out[n] = '\0';
	return pclose(f);
}

static void make_plan(struct plan *p, const char *id)
{
	static char state[80];
	static const char *const env[] = { "PATH=/usr/bin:/bin", NULL };

	str_fmt(state, sizeof(state), "%s/state", top);
	memset(p, 0, sizeof(*p));
	str_copy(p->id, sizeof(p->id), id);
	p->state_dir = state;
	p->wall = WALL_WORKSPACE;
	p->env = env;
	p->net = NET_NONE;
}

static void add_source(struct plan *p, enum source_kind kind, const char *name, const char *ref)
{
	static char paths[SOURCES_MAX][128];
	struct plan_source *s = &p->sources[p->source_count];

	str_fmt(paths[p->source_count], sizeof(paths[0]), "%s/%s", top, name);
	*s = (struct plan_source){ kind, paths[p->source_count], ref, name };
	p->source_count++;
}

/* Starts, runs, ends; the exit status, with what was printed in @out. */
static int run(struct plan *p, const char *script, char *out)
{
	struct trail trail = { 0 }, child;
	struct err e = { 0 };
	struct box *box = NULL;
	struct usage usage;
	char text[4096];
	size_t have = 0, at = 0;
	int status = -1, r;
	ssize_t n;

	out[0] = '\0';
	r = box_prepare(p, &trail, &box, &e);
	if (r == 0)
		r = box_start(box, &trail, &e);
	if (r < 0) {
		str_copy(out, OUT_MAX, e.msg);
		box_stop(box);
		return r;
	}
	r = box_ready(box, &e);
	if (r < 0) {
		box_trail(box, &child);
		str_fmt(out, OUT_MAX, "%s: %s",
			child.failed ? step_name((enum step)(child.failed - 1)) : "?", child.msg);
		box_stop(box);
		return r;
	}
	box_close_notify(box); /* nobody answers here, so the kernel refuses by itself */
	for (const char *const *env = box_env(box); *env; env++) {
		/* NAME=VALUE, with the value quoted: it holds no quote in these tests. */
		size_t eq = strcspn(*env, "=");

		at += (size_t)snprintf(text + at, sizeof(text) - at, "export %.*s='%s'\n", (int)eq,
			*env, *env + eq + 1);
	}
	str_fmt(text + at, sizeof(text) - at, "%s", script);
	assert_true(send(box_fds(box)->channel, text, strlen(text), 0) > 0);
	while ((n = recv(box_fds(box)->channel, out + have, OUT_MAX - 1 - have, 0)) > 0)
		have += (size_t)n;
	out[have] = '\0';
	poll(&(struct pollfd){ .fd = box_fds(box)->pidfd, .events = POLLIN }, 1, -1);
	box_measure(box, &usage);
	assert_int_equal(box_reap(box, &status, &usage), 0);
	assert_true(WIFEXITED(status));
	assert_true(usage.cpu_us != UINT64_MAX);
	if (p->keep)
		assert_int_equal(box_keep(box, &e), 0);
	box_stop(box);
	return WEXITSTATUS(status);
}

static void nothing_is_left(void)
{
	char out[OUT_MAX];

	shell("find state -mindepth 1 ! -name boxes; ls repo/.git | grep -i ward; ls "
	      "repo/.git/worktrees 2>/dev/null",
		out, sizeof(out));
	assert_string_equal(out, "");
}

static int set_up(void **state)
{
	char out[OUT_MAX];

	(void)state;
	str_copy(top, sizeof(top), "/tmp/workspace-test-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	shell("mkdir repo dir dir/sub outside state && cd repo && git init -q -b main . && "
	      "git config user.name Ann && git config user.email ann@example.org && echo one > a "
	      "&& "
	      "git add a && git commit -q -m one && git tag v1 && echo two > a && git commit -q -a "
	      "-m two",
		out, sizeof(out));
	assert_string_equal(out, "");
	put("secret", "secret\n");
	put("outside/file", "outside\n");
	put("dir/a", "one\n");
	put("dir/b", "two\n");
	put("dir/sub/c", "three\n");
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return tree_remove(top, NULL);
}

/* clang-format off */
static const struct {
	const char *name, *script, *want;
	bool not_plain; /* what Landlock alone does not know */
} tries[] = {
	{ "write in the workspace", "echo hi > f && cat f", "hi\n", false },
	{ "make, move, remove", "mkdir -p a/b && echo x > a/b/c && mv a/b/c d && rm -r a && ls", "d\n", false },
	{ "execute in the workspace", "printf '#!/bin/sh\\necho ran\\n' > x && chmod +x x && ./x", "ran\n", false },
	{ "TMPDIR", "f=$(mktemp) && echo t > $f && cat $f", "t\n", false },
	{ "a secret beside", "cat TOP/secret 2>/dev/null || echo no", "no\n", false },
	{ "write beside", "(echo x > TOP/outside/new) 2>/dev/null || echo no", "no\n", false },
	{ "overwrite beside", "(echo x > TOP/outside/file) 2>/dev/null || echo no", "no\n", false },
	{ "remove beside", "rm TOP/outside/file 2>/dev/null || echo no", "no\n", false },
	{ "see beside", "stat TOP/secret >/dev/null 2>&1 || echo no", "no\n", true },
	{ "chmod beside", "chmod 777 TOP/outside 2>/dev/null || echo no", "no\n", true },
	{ "chown of the host's", "chown 1:1 /usr/bin/env 2>/dev/null || echo no", "no\n", false },
	{ "the record", "cat ../workspace 2>/dev/null || echo no", "no\n", false },
	{ "shadow", "cat /etc/shadow 2>/dev/null || echo no", "no\n", false },
	{ "private keys", "ls /etc/ssl/private /etc/ssh 2>/dev/null || echo no", "no\n", false },
	{ "users and libraries", "id -un >/dev/null && ldd /bin/sh >/dev/null && echo yes", "yes\n", false },
	{ "write to /proc", "(echo x > /proc/self/comm) 2>/dev/null || echo no", "no\n", false },
	{ "ward's environment", "cat /proc/1/environ 2>/dev/null | grep -c WARD_TEST_SECRET", "0\n", false },
	{ "the agent's environment", "cat /proc/$PPID/environ 2>/dev/null | grep -c WARD_TEST_SECRET", "0\n", false },
	{ "other processes", "ls /proc | grep -c '^[0-9]*$' | (read n; [ $n -lt 8 ] && echo few)", "few\n", true },
	{ "devices", "echo x > /dev/null && head -c 1 /dev/zero | wc -c", "1\n", false },
	{ "chmod of a device", "chmod 666 /dev/null 2>/dev/null || echo no", "no\n", true },
	{ "TCP", "bash -c 'echo > /dev/tcp/127.0.0.1/22' 2>/dev/null || echo no", "no\n", false },
	{ "UDP", "python3 -c 'import socket\ntry:\n s=socket.socket(2,2); s.sendto(b\"x\",(\"127.0.0.1\",9))\n"
		 "except OSError: print(\"no\")'", "no\n", false },
	{ "a signal to the parent of all", "kill -0 PARENT 2>/dev/null || echo no", "no\n", false },
	{ "mount", "mount -t tmpfs none . 2>/dev/null || echo no", "no\n", false },
	{ "a user namespace", "unshare -U true 2>/dev/null || echo no", "no\n", false },
	{ "shared memory", "echo x > /dev/shm/x && cat /dev/shm/x", "x\n", true },
	{ "no terminal of the user's", "ls /dev/pts | grep -v ptmx | wc -l", "0\n", true },
};
/* clang-format on */

/* Puts what only the test knows into a script. */
static void fill_in(const char *script, char *ret, size_t cap)
{
	size_t n = 0;

	for (const char *p = script; *p && n + 64 < cap;) {
		if (str_after(p, "TOP/")) {
			n += (size_t)snprintf(ret + n, cap - n, "%s/", top);
			p += 4;
		} else if (str_after(p, "PARENT")) {
			n += (size_t)snprintf(ret + n, cap - n, "%d", (int)getpid());
			p += 6;
		} else {
			ret[n++] = *p++;
		}
	}
	ret[n] = '\0';
}

static void a_command_is_confined(void **state)
{
	char out[OUT_MAX], script[2048];
	struct plan p;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(tries); i++) {
		if (variant == PLAIN && tries[i].not_plain)
			continue;
		make_plan(&p, "aaaaaaaaaaaa");
		fill_in(tries[i].script, script, sizeof(script));
		run(&p, script, out);
		if (!str_eq(out, tries[i].want))
			fail_msg("%s: got '%s', wanted '%s'", tries[i].name, out, tries[i].want);
		nothing_is_left();
	}
	shell("cat outside/file; ls outside; stat -c %a outside", out, sizeof(out));
	assert_string_equal(out, "outside\nfile\n755\n");
}

static void git_works_inside(void **state)
{
	char out[OUT_MAX], before[OUT_MAX], after[OUT_MAX];
	struct plan p;

	(void)state;
	shell("cd repo && git for-each-ref && git log --oneline && find . -type f | sort | xargs "
	      "md5sum",
		before, sizeof(before));
	make_plan(&p, "aaaaaaaaaaaa");
	add_source(&p, SOURCE_GIT, "repo", "v1");
	assert_int_equal(run(&p,
				 "cat a && git status --porcelain && git log --oneline | wc -l && "
				 "echo new > b && "
				 "git add b && git commit -q -m inside && git log --format=%an%n%s "
				 "-1 && git branch | wc -l && "
				 "git status --porcelain && git stash list && git show main:a",
				 out),
		0);
	assert_string_equal(out, "one\n1\nAnn\ninside\n2\ntwo\n");
	nothing_is_left();
	/* Nothing of the repository changes, whatever the command does to it. */
	make_plan(&p, "aaaaaaaaaaaa");
	add_source(&p, SOURCE_GIT, "repo", NULL);
	assert_int_equal(
		run(&p,
			"git checkout -q -b topic && echo x > c && git add c && git commit -q -m c "
			"&& "
			"git update-ref -d refs/heads/main && git gc -q && git config a.b c && "
			"rm -rf $(git rev-parse --git-common-dir)/objects repo/.git 2>/dev/null; "
			"echo done",
			out),
		0);
	assert_string_equal(out, "done\n");
	nothing_is_left();
	shell("cd repo && git for-each-ref && git log --oneline && find . -type f | sort | xargs "
	      "md5sum",
		after, sizeof(after));
	assert_string_equal(after, before);
	shell("cd repo && git status --porcelain && git fsck --no-dangling 2>&1 | grep -v "
	      "dangling; git log --oneline | "
	      "wc -l",
		out, sizeof(out));
	assert_string_equal(out, "2\n");
}

static void folders_are_private(void **state)
{
	static const enum source_kind kinds[] = { SOURCE_DIR, SOURCE_COPY };
	char out[OUT_MAX];
	struct plan p;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		make_plan(&p, "aaaaaaaaaaaa");
		add_source(&p, kinds[i], "dir", NULL);
		assert_int_equal(run(&p,
					 "cat a && echo changed > a && rm -r sub && echo new > d "
					 "&& ls && cat a",
					 out),
			0);
		assert_string_equal(out, "one\na\nb\nd\nchanged\n");
		nothing_is_left();
		shell("cd dir && ls && cat a sub/c", out, sizeof(out));
		assert_string_equal(out, "a\nb\nsub\none\nthree\n");
	}
	make_plan(&p, "aaaaaaaaaaaa");
	add_source(&p, SOURCE_LINK, "dir", NULL);
	run(&p, "cat a; (echo x > a) 2>/dev/null || echo no; (echo x > n) 2>/dev/null || echo no",
		out);
	assert_string_equal(out, "one\nno\nno\n");
	nothing_is_left();
}

static void several_sources_and_mounts(void **state)
{
	char out[OUT_MAX], script[2048], outside[80];
	struct plan p;

	(void)state;
	str_fmt(outside, sizeof(outside), "%s/outside", top);
	make_plan(&p, "aaaaaaaaaaaa");
	add_source(&p, SOURCE_GIT, "repo", NULL);
	add_source(&p, SOURCE_DIR, "dir", NULL);
	p.mounts[0] = (struct plan_mount){ outside, outside, MOUNT_RO };
	p.mount_count = 1;
	run(&p, "ls; cat repo/a dir/a $OLDPWD/x 2>/dev/null", out);
	assert_string_equal(out, "dir\nrepo\ntwo\none\n");
	fill_in("cat TOP/outside/file; (echo x > TOP/outside/n) 2>/dev/null || echo no", script,
		sizeof(script));
	run(&p, script, out);
	assert_string_equal(out, "outside\nno\n");
	p.mounts[0].mode = MOUNT_RW;
	fill_in("echo x > TOP/outside/n && cat TOP/outside/n", script, sizeof(script));
	run(&p, script, out);
	assert_string_equal(out, "x\n");
	p.workdir = "dir/sub";
	run(&p, "pwd | sed 's,.*/work/,,'; cat c", out);
	assert_string_equal(out, "dir/sub\nthree\n");
	shell("rm outside/n", out, sizeof(out));
	nothing_is_left();
}

static void a_kept_workspace_has_a_record(void **state)
{
	struct workspace_record *rec = NULL;
	char out[OUT_MAX];
	struct err e = { 0 };
	struct plan p;

	(void)state;
	make_plan(&p, "kkkkkkkkkkkk");
	p.keep = true;
	add_source(&p, SOURCE_GIT, "repo", NULL);
	add_source(&p, SOURCE_DIR, "dir", NULL);
	assert_int_equal(run(&p, "echo kept > repo/new; echo kept > dir/new; rm dir/b", out), 0);
	if (workspace_read(p.state_dir, p.id, &rec, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(rec->count, 2);
	assert_int_equal(rec->mode, variant == PLAIN ? WORKSPACE_PLAIN
				    : geteuid()      ? WORKSPACE_USER
						     : WORKSPACE_ROOT);
	assert_int_equal(*rec->sources[0].upper != '\0', variant != PLAIN);
	assert_int_equal(*rec->sources[1].upper != '\0', variant != PLAIN);
	assert_string_equal(rec->sources[0].name, "repo");
	assert_true(git_oid_is_valid(rec->sources[0].base));
	assert_string_equal(rec->sources[1].src, p.sources[1].src);
	shell("cat state/boxes/*/work/repo/new; ls state/boxes/*; git -C repo worktree list | wc "
	      "-l",
		out, sizeof(out));
	assert_non_null(strstr(out, "kept\n"));
	assert_non_null(strstr(out, variant == PLAIN ? "base\ngit\nupper\nwork\nworkspace\n1\n"
						     : "base\ngit\nupper\nwork\nworkspace\n2\n"));
	assert_int_equal(git_worktree_remove(rec->sources[0].src, rec->sources[0].work, &e), 0);
	free(rec);
	shell("rm -rf state/boxes/*", out, sizeof(out));
	assert_int_equal(workspace_read(p.state_dir, p.id, &rec, &e), -ENOENT);
}

static void bad_plans_leave_nothing(void **state)
{
	char out[OUT_MAX], outside[80];
	struct plan p;

	(void)state;
	str_fmt(outside, sizeof(outside), "%s/outside", top);
	make_plan(&p, "bbbbbbbbbbbb");
	add_source(&p, SOURCE_DIR, "dir", NULL);
	add_source(&p, SOURCE_GIT, "repo", "no-such-branch");
	assert_true(run(&p, "true", out) < 0);
	assert_non_null(strstr(out, "no-such-branch"));
	nothing_is_left();

	make_plan(&p, "bbbbbbbbbbbb");
	add_source(&p, SOURCE_GIT, "dir", NULL);
	assert_true(run(&p, "true", out) < 0);
	assert_non_null(strstr(out, "not the top of a git repository"));
	nothing_is_left();

	make_plan(&p, "bbbbbbbbbbbb");
	p.mounts[0] = (struct plan_mount){ outside, "/mnt", MOUNT_RO };
	p.mount_count = 1;
	assert_int_equal(run(&p, "true", out), -EINVAL);
	assert_non_null(strstr(out, "--mount"));

	make_plan(&p, "bbbbbbbbbbbb");
	p.workdir = "nowhere";
	assert_int_equal(run(&p, "true", out), -ENOTCONN);
	assert_non_null(strstr(out, "workspace: entering the working folder"));
	nothing_is_left();
}

/* Kills a sandbox with processes that try to get away. */
static void killing_takes_everybody(void **state)
{
	struct trail trail = { 0 };
	struct err e = { 0 };
	struct usage usage;
	struct box *box = NULL;
	char out[OUT_MAX], script[256], one;
	struct plan p;
	int status;

	(void)state;
	/* A nap that only this test takes: others may run beside it. */
	str_fmt(script, sizeof(script),
		"for i in 1 2 3 4; do setsid sh -c '(sleep 4242%d &) ; sleep 4242%d' & done; echo; "
		"wait",
		(int)getpid(), (int)getpid());
	make_plan(&p, "cccccccccccc");
	assert_int_equal(box_prepare(&p, &trail, &box, &e), 0);
	assert_int_equal(box_start(box, &trail, &e), 0);
	assert_int_equal(box_ready(box, &e), 0);
	assert_true(send(box_fds(box)->channel, script, strlen(script), 0) > 0);
	assert_int_equal(recv(box_fds(box)->channel, &one, 1, 0), 1);
	usleep(100 * 1000);
	box_kill(box);
	box_measure(box, &usage);
	assert_int_equal(box_reap(box, &status, &usage), 0);
	assert_true(WIFSIGNALED(status));
	box_stop(box);
	str_fmt(script, sizeof(script),
		"cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep [4]242%d'; "
		"true",
		(int)getpid());
	shell(script, out, sizeof(out));
	assert_string_equal(out, "");
	nothing_is_left();
}

/* From here on this process and its children get no namespaces. */
static void refuse_namespaces(void)
{
	static const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_unshare, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog prog = { ARRAY_LEN(code), (struct sock_filter *)code };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (host_seccomp(0, &prog) < 0)
		abort();
}

static int run_variant(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_is_confined),
		cmocka_unit_test(git_works_inside),
		cmocka_unit_test(folders_are_private),
		cmocka_unit_test(several_sources_and_mounts),
		cmocka_unit_test(a_kept_workspace_has_a_record),
		cmocka_unit_test(bad_plans_leave_nothing),
		cmocka_unit_test(killing_takes_everybody),
	};

	print_message("--- %s\n", variant_names[variant]);
	if (variant != HERE && geteuid() == 0 &&
		host_setids(NOBODY, NOBODY, (const gid_t[]){ NOBODY }, 1) < 0)
		return 1;
	/* A change of ids closes our own /proc files, as no ordinary start of ward has them. */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	if (variant == PLAIN)
		refuse_namespaces();
	return cmocka_run_group_tests(tests, set_up, tear_down);
}

int main(void)
{
	int failed = 0, status;

	setenv("WARD_TEST_SECRET", "x", 1);
	setenv("HOME", "/nonexistent", 1);
	for (int i = HERE; i < VARIANTS; i++) {
		pid_t pid = fork();

		variant = (enum variant)i;
		if (pid == 0)
			exit(run_variant() != 0);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			failed = 1;
	}
	return failed;
}
