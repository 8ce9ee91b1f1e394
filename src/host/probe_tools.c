/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/probe_tools.c - programs, libraries and files that some features use.
 *
 * Owns:  nothing that outlives the probe's child.
 * Rules: only git is started, for its version; the others are looked for.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "host/host.h"
#include "host/probe_impl.h"

bool probe_find_program(const char *name, char *path, size_t cap)
{
	const char *dirs = getenv("PATH");

	if (!dirs || !*dirs)
		dirs = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	for (const char *p = dirs; *p; p += strcspn(p, ":"), p += *p == ':') {
		int n = (int)strcspn(p, ":");

		/* An empty or relative entry means the working directory: not where tools come
		 * from. */
		if (*p == '/' && str_fmt(path, cap, "%.*s/%s", n, p, name) == 0 &&
			access(path, X_OK) == 0)
			return true;
	}
	*path = '\0';
	return false;
}

/* The first line that `path --version` prints. */
static int first_line(const char *path, char *line, size_t cap)
{
	int ends[2];
	ssize_t n;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		execl(path, path, "--version", (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	n = pid < 0 ? -errno : host_read(ends[0], line, cap - 1);
	close(ends[0]);
	if (n <= 0)
		return n < 0 ? (int)n : -ENODATA;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return 0;
}

void probe_git(struct probe_result *r)
{
	char path[WARD_PATH_MAX], line[64];
	int err;

	if (!probe_find_program("git", path, sizeof(path))) {
		probe_say(r, PROBE_NO, "no git in PATH");
		return;
	}
	err = first_line(path, line, sizeof(line));
	if (err < 0) {
		probe_say(r, PROBE_NO, "%.100s does not run: %s", path, strerror(-err));
		return;
	}
	probe_fact(r, "path", "%.130s", path);
	probe_fact(r, "version", "%s", line);
	probe_say(r, PROBE_YES, "%s", line);
}

/* How many ids @file (name:first:count) gives to @user or @uid, the largest range. */
static uint64_t ids_given(const char *file, const char *user, uid_t uid)
{
	own_file FILE *f = fopen(file, "re");
	uint64_t best = 0;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		char *first = strchr(line, ':'), *count = first ? strchr(first + 1, ':') : NULL;
		uint64_t n, id;

		if (!count)
			continue;
		*first = '\0';
		count++;
		count[strcspn(count, "\n")] = '\0';
		if (!(user && str_eq(line, user)) &&
			!(parse_u64(line, 0, UINT32_MAX, &id) == 0 && id == uid))
			continue;
		if (parse_u64(count, 1, UINT32_MAX, &n) == 0 && n > best)
			best = n;
	}
	return best;
}

void probe_subids(struct probe_result *r)
{
	char path[WARD_PATH_MAX];
	bool tools = probe_find_program("newuidmap", path, sizeof(path)) &&
		     probe_find_program("newgidmap", path, sizeof(path));
	const struct passwd *pw = getpwuid(getuid());
	uint64_t uids = ids_given("/etc/subuid", pw ? pw->pw_name : NULL, getuid());
	uint64_t gids = ids_given("/etc/subgid", pw ? pw->pw_name : NULL, getuid());

	probe_fact(r, "tools", "%s", tools ? "yes" : "no");
	probe_fact(r, "subuids", "%llu", (unsigned long long)uids);
	probe_fact(r, "subgids", "%llu", (unsigned long long)gids);
	if (!tools) {
		probe_say(r, PROBE_NO, "no newuidmap and newgidmap in PATH");
	} else if (getuid() == 0) {
		probe_say(r, PROBE_YES,
			"newuidmap and newgidmap are there; root itself needs no range");
	} else if (!uids || !gids) {
		probe_say(r, PROBE_NO,
			"newuidmap is there, but /etc/sub%cid has no range for this user",
			uids ? 'g' : 'u');
		probe_hint(r,
			"usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %.32s",
			pw ? pw->pw_name : "USER");
	} else {
		probe_say(r, PROBE_YES, "%llu user ids and %llu group ids for this user",
			(unsigned long long)uids, (unsigned long long)gids);
	}
}

void probe_libnode(struct probe_result *r)
{
	static const char *const places[] = { "/usr/lib/x86_64-linux-gnu",
		"/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib" };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		DIR *dir = opendir(places[i]);
		struct dirent *d;

		while (dir && (d = readdir(dir))) {
			if (!str_after(d->d_name, "libnode.so"))
				continue;
			probe_fact(r, "path", "%s/%.64s", places[i], d->d_name);
			probe_say(r, PROBE_YES, "%s/%.64s", places[i], d->d_name);
			closedir(dir);
			return;
		}
		if (dir)
			closedir(dir);
	}
	probe_say(r, PROBE_NO, "no libnode.so in the library folders");
}
