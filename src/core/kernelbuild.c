/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/kernelbuild.c - builds a guest kernel from Debian's source package.
 *
 * Owns:  nothing: the caller gives a folder and removes it, with all that was built in it.
 * Rules: everything that can be missing is named before the first minute is spent. What the build
 *        says goes to a file, and only its steps are counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/ckd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/str.h"
#include "core/kernelbuild.h"
#include "host/host.h"

static const struct {
	const char *name, *text;
} configs[] = {
#include "core/kernel_configs.def"
};

/* Files that one build of each compiles: what the display counts towards. */
static const struct {
	const char *name;
	unsigned steps;
} sizes[] = { { "full", 1326 }, { "ci", 936 } };

static const struct {
	const char *path, *package;
} tools[] = {
	{ "/usr/bin/make", "make" },
	{ "/usr/bin/gcc", "gcc" },
	{ "/usr/bin/ld", "binutils" },
	{ "/usr/bin/flex", "flex" },
	{ "/usr/bin/bison", "bison" },
	{ "/usr/bin/bc", "bc" },
	{ "/usr/bin/xz", "xz-utils" },
	{ "/usr/bin/tar", "tar" },
	{ "/usr/include/gelf.h", "libelf-dev" },
};

static int check_tools(struct err *e)
{
	char missing[128] = "";
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(tools); i++)
		if (access(tools[i].path, F_OK) < 0)
			n += (size_t)snprintf(
				missing + n, sizeof(missing) - n, " %s", tools[i].package);
	if (missing[0])
		return err_say(e, ENOENT,
			"building a kernel needs these Debian packages: apt-get install%s",
			missing);
	return 0;
}

static void tell(const struct kernel_build *b, const char *what)
{
	if (b->progress)
		b->progress(b->arg, what);
}

/* The words of a configuration: one of ours, or a file's. */
static int put_config(const struct kernel_build *b, struct err *e)
{
	char path[WARD_PATH_MAX], name[64];
	own_fd int out = -1, in = -1;
	int r = str_fmt(path, sizeof(path), "%s/obj", b->dir);

	if (r == 0)
		r = mkdir(path, 0700) < 0 ? -errno : 0;
	if (r == 0)
		r = str_fmt(path, sizeof(path), "%s/obj/.config", b->dir);
	if (r < 0)
		return err_set(e, -r, "making %s/obj", b->dir);
	out = host_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (out < 0)
		return err_set(e, -out, "making %s", path);
	for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
		if (str_fmt(name, sizeof(name), "%s.config", b->config) < 0 ||
			!str_eq(name, configs[i].name))
			continue;
		r = host_write_all(out, configs[i].text, strlen(configs[i].text));
		return r < 0 ? err_set(e, -r, "writing %s", path) : 0;
	}
	in = host_open(b->config, O_RDONLY, 0);
	if (in < 0)
		return err_set(e, -in, "--config: accepted are full, ci, or a file; opening '%s'",
			b->config);
	for (;;) {
		char text[4096];
		ssize_t n = read(in, text, sizeof(text));

		if (n == 0)
			return 0;
		r = n < 0 ? -errno : host_write_all(out, text, (size_t)n);
		if (r < 0)
			return err_set(e, -r, "copying %s", b->config);
	}
}

/* Starts @script with /bin/sh in the folder; what it prints comes out of *@ret_out. */
static pid_t begin(const struct kernel_build *b, const char *script, int *ret_out, struct err *e)
{
	char jobs[16];
	int pipe[2], r = host_pipe(pipe);
	pid_t pid;

	if (r < 0)
		return err_set(e, -r, "a pipe for the build");
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_RDONLY);

		dup2(null, 0);
		dup2(pipe[1], 1);
		dup2(pipe[1], 2);
		str_fmt(jobs, sizeof(jobs), "-j%u", b->jobs);
		if (chdir(b->dir) == 0)
			execl("/bin/sh", "sh", "-ec", script, "sh", jobs, (char *)NULL);
		_exit(127);
	}
	close(pipe[1]);
	if (pid < 0) {
		close(pipe[0]);
		return err_set(e, errno, "forking");
	}
	*ret_out = pipe[0];
	return pid;
}

static void count(const struct kernel_build *b, const char *line, unsigned *steps)
{
	unsigned total = 0;

	if (strncmp(line, "  CC  ", 6) != 0)
		return;
	++*steps;
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		if (str_eq(sizes[i].name, b->config))
			total = sizes[i].steps;
	if (b->counted)
		b->counted(b->arg, *steps, total);
}

static int run(const struct kernel_build *b, const char *script, const char *what, struct err *e)
{
	char line[1024];
	int out = -1, status;
	unsigned steps = 0;
	pid_t pid = begin(b, script, &out, e);
	FILE *log, *said;

	if (pid < 0)
		return (int)pid;
	log = fopen(b->log, "ae");
	said = fdopen(out, "r");
	while (said && fgets(line, sizeof(line), said)) {
		if (log)
			fputs(line, log);
		count(b, line, &steps);
	}
	if (said)
		fclose(said);
	else
		close(out);
	if (log)
		fclose(log);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "waiting for the build");
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return err_say(e, EIO, "%s failed: see the end of %s", what, b->log);
	return 0;
}

int kernel_build(const struct kernel_build *b, struct err *e)
{
	static const char unpack[] =
		"t=/usr/src/linux-source-6.1.tar.xz; if [ ! -e $t ]; then apt-get download "
		"linux-source-6.1; dpkg-deb -x linux-source-6.1_*.deb x; t=x$t; fi; mkdir src; "
		"tar -xf $t -C src --strip-components=1";
	static const char make[] =
		"make -C src O=../obj olddefconfig; make -C src O=../obj \"$1\" vmlinux; "
		"strip -o vmlinux obj/vmlinux; cp obj/include/config/kernel.release version";
	int r = put_config(b, e);

	if (r == 0)
		r = check_tools(e);
	if (r < 0)
		return r;
	if (unlink(b->log) < 0 && errno != ENOENT)
		return err_set(e, errno, "removing %s", b->log);
	tell(b, "unpacking Debian's linux-source-6.1");
	r = run(b, unpack, "getting the package linux-source-6.1 with apt-get", e);
	if (r < 0)
		return r;
	tell(b, "compiling");
	return run(b, make, "building the kernel", e);
}

bool kernel_has_acpi(const struct kernel_build *b)
{
	char path[WARD_PATH_MAX], line[256];
	bool found = false;
	FILE *f;

	if (str_fmt(path, sizeof(path), "%s/obj/.config", b->dir) < 0)
		return false;
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		found |= str_eq(line, "CONFIG_ACPI=y\n");
	if (f)
		fclose(f);
	return found;
}
