/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/kernel/perm.c - what several users may do with the files of a folder, as text.
 *
 * Runs inside, in whichever tier: tests/e2e/test_kernel_perm.py compares what it prints. Every line
 * is a user, what was tried and how it ended. Names of the folder's entries say what they are:
 * "f..." is a file, "d..." a folder that has a file "in".
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { ENTRIES_MAX = 256 };

static const struct user {
	const char *name;
	uid_t uid;
	gid_t gid, other;
} users[] = {
	{ "root", 0, 0, 0 },
	{ "owner", 999, 999, 999 },
	{ "member", 1000, 1000, 42 },
};

static const char *who;

static void said(const char *what, const char *name, int r)
{
	printf("%s %s %s: %s\n", who, what, name, r < 0 ? strerror(errno) : "ok");
}

static void show(const char *what, const char *name)
{
	struct stat st;

	if (lstat(name, &st) < 0)
		said(what, name, -1);
	else
		printf("%s %s %s: %o %u:%u\n", who, what, name, st.st_mode, st.st_uid, st.st_gid);
}

static void try_open(const char *what, const char *name, int flags)
{
	int fd = open(name, flags | O_CLOEXEC, 0640), r = fd;
	char c = 'x';

	if (fd >= 0 && (flags & O_ACCMODE) == O_RDONLY)
		r = (int)read(fd, &c, 1);
	else if (fd >= 0)
		r = (int)write(fd, &c, 1);
	said(what, name, r);
	if (fd >= 0)
		close(fd);
}

static void try_attributes(const char *name)
{
	const struct timespec ts[2] = { { 1000, 0 }, { 2000, 0 } };
	struct stat st;

	if (stat(name, &st) < 0) {
		said("stat", name, -1);
		return;
	}
	said("chmod", name, chmod(name, st.st_mode & 0777));
	said("utimes", name, utimensat(AT_FDCWD, name, ts, 0));
	said("chgrp", name, chown(name, (uid_t)-1, st.st_gid == 42 ? 43 : 42));
	said("chown", name, chown(name, 999, (gid_t)-1));
	show("is", name);
}

static void try_file(const char *name)
{
	try_open("read", name, O_RDONLY);
	said("execute", name, access(name, X_OK));
	try_open("write", name, O_WRONLY | O_APPEND);
	said("truncate", name, truncate(name, 1));
	said("link", name, link(name, "linked"));
	said("unlink", name, unlink("linked"));
	try_attributes(name);
}

static void list(const char *name)
{
	DIR *d = opendir(name);
	int n = 0;

	said("list", name, d ? 0 : -1);
	if (!d)
		return;
	while (readdir(d))
		n++;
	closedir(d);
	printf("%s entries %s: %d\n", who, name, n);
}

/* Ways to talk that have a name. */
static void try_nodes(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "socket" };
	int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0), fd;
	char word[4] = "";

	said("mkfifo", "fifo", mkfifo("fifo", 0640));
	said("chmod", "fifo", chmod("fifo", 0620));
	show("made", "fifo");
	fd = open("fifo", O_RDWR | O_NONBLOCK);
	said("fifo", "fifo", fd < 0 || write(fd, "abc", 3) < 0 ? -1 : (int)read(fd, word, 3));
	close(fd);
	said("unlink", "fifo", unlink("fifo"));
	said("bind", "socket", bind(s, (const struct sockaddr *)&a, sizeof(a)));
	said("chmod", "socket", chmod("socket", 0770));
	show("made", "socket");
	if (listen(s, 1) == 0)
		said("connect", "socket", connect(c, (const struct sockaddr *)&a, sizeof(a)));
	said("unlink", "socket", unlink("socket"));
	close(s);
	close(c);
}

static void try_dir(const char *name)
{
	int r;

	list(name);
	r = chdir(name);
	said("enter", name, r);
	if (r < 0) {
		try_attributes(name);
		return;
	}
	try_file("in");
	try_nodes();
	try_open("make", "new", O_RDWR | O_CREAT | O_EXCL);
	show("made", "new");
	said("mkdir", name, mkdir("sub", 0751));
	show("made", "sub");
	said("symlink", name, symlink("nowhere", "link"));
	show("made", "link");
	said("rename", name, rename("new", "sub/new"));
	said("unlink", name, unlink("sub/new"));
	said("rmdir", name, rmdir("sub"));
	said("unlink", name, unlink("link"));
	/* One stays, for who looks from outside. */
	try_open("keep", who, O_RDWR | O_CREAT);
	if (chdir("..") < 0)
		exit(1);
	try_attributes(name);
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void try_all(const struct user *u, const char *dir)
{
	char *names[ENTRIES_MAX];
	unsigned count = 0;
	struct dirent *e;
	DIR *d;

	who = u->name;
	if (chdir(dir) < 0 || !(d = opendir("."))) {
		perror(dir);
		exit(1);
	}
	if (u->uid != 0 && (setgroups(1, &u->other) < 0 || setresgid(u->gid, u->gid, u->gid) < 0 ||
				   setresuid(u->uid, u->uid, u->uid) < 0)) {
		said("become", "it", -1);
		return;
	}
	umask(022);
	while ((e = readdir(d)) && count < ENTRIES_MAX)
		if (e->d_name[0] != '.' && !(names[count++] = strdup(e->d_name)))
			exit(1);
	closedir(d);
	qsort(names, count, sizeof(names[0]), compare);
	for (unsigned i = 0; i < count; i++) {
		show("found", names[i]);
		if (names[i][0] == 'f')
			try_file(names[i]);
		else
			try_dir(names[i]);
		free(names[i]);
	}
}

int main(int argc, char **argv)
{
	/* "/perm FOLDER all", or "root" where there is no other id. */
	size_t count = sizeof(users) / sizeof(users[0]);

	if (argc != 3)
		return 2;
	if (strcmp(argv[2], "root") == 0)
		count = 1;
	for (size_t i = 0; i < count; i++) {
		int status;
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0) {
			try_all(&users[i], argv[1]);
			exit(0);
		}
		if (waitpid(pid, &status, 0) != pid || status != 0)
			return 1;
	}
	return 0;
}
