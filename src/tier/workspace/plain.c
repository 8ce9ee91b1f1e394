/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/plain.c - kills a sandbox that has no pid namespace.
 *
 * Owns:  nothing.
 * Rules: its agent is the subreaper, so that every process inside stays below it as long as it
 *        exists. It goes last, and is stopped meanwhile so that it cannot wait for its children.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sched.h>

#include "base/parse.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/workspace/ws.h"

enum { CHILDREN_TEXT = 64 * 1024 };

static bool is_zombie(pid_t pid)
{
	char path[64], text[512], *end;

	if (str_fmt(path, sizeof(path), "/proc/%d/stat", (int)pid) < 0 ||
		host_get(AT_FDCWD, path, text, sizeof(text)) < 0)
		return true; /* gone */
	end = strrchr(text, ')');
	return !end || end[1] != ' ' || end[2] == 'Z' || end[2] == 'X';
}

static unsigned signal_below(pid_t pid, int sig, char *text);

/* The children of one thread; how many that are still running got the signal. */
static unsigned signal_children(const char *list, int sig, char *text)
{
	unsigned count = 0;
	char *save = NULL;

	if (host_get(AT_FDCWD, list, text, CHILDREN_TEXT) <= 0)
		return 0;
	for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		uint64_t child;

		if (parse_u64(word, 1, INT32_MAX, &child) < 0 || is_zombie((pid_t)child))
			continue;
		host_kill((pid_t)child, sig);
		count++;
		count += signal_below((pid_t)child, sig, NULL);
	}
	return count;
}

/* @text: room for a list, or NULL to bring one's own. */
static unsigned signal_below(pid_t pid, int sig, char *text)
{
	char path[64];
	unsigned count = 0;
	char *mine = text ? text : malloc(CHILDREN_TEXT);
	struct dirent *de;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = mine ? opendir(path) : NULL;
	while (d && (de = readdir(d))) {
		char list[352];

		if (de->d_name[0] == '.' || str_fmt(list, sizeof(list), "/proc/%d/task/%s/children",
						    (int)pid, de->d_name) < 0)
			continue;
		count += signal_children(list, sig, mine);
	}
	if (d)
		closedir(d);
	if (mine != text)
		free(mine);
	return count;
}

void ws_kill_tree(pid_t pid)
{
	host_kill(pid, SIGSTOP);
	/* Until a look around finds nobody: whoever forks while we look is found by the next one.
	 */
	while (signal_below(pid, SIGKILL, NULL) > 0)
		sched_yield();
	host_kill(pid, SIGKILL);
}
