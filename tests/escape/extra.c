/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/escape/extra.c - what does not fit one attempt: file handles, privileges, exhaustion,
 * terminals.
 *
 * Owns:  nothing.
 * Rules: prints one line per result, in the form of the attempts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "extra.h"

static int report(const char *name, int failed)
{
	if (failed)
		printf("%s: refused %s\n", name,
			errno == ENOSPC   ? "ENOSPC"
			: errno == EDQUOT ? "EDQUOT"
			: errno == EMFILE ? "EMFILE"
			: errno == EIO    ? "EIO"
			: errno == EPERM  ? "EPERM"
			: errno == ENOTTY ? "ENOTTY"
			: errno == ENXIO  ? "ENXIO"
			: errno == EACCES ? "EACCES"
					  : strerror(errno));
	else
		printf("%s: ALLOWED\n", name);
	return 0;
}

/* handle PATH: the file handle of a file, as "type:hex". */
static int print_handle(char **args)
{
	char buf[sizeof(struct file_handle) + MAX_HANDLE_SZ];
	struct file_handle *h = (struct file_handle *)buf;
	int mount_id;

	h->handle_bytes = MAX_HANDLE_SZ;
	if (name_to_handle_at(AT_FDCWD, args[0], h, &mount_id, 0) < 0) {
		perror("escape: name_to_handle_at");
		return 1;
	}
	printf("%d:", h->handle_type);
	for (unsigned i = 0; i < h->handle_bytes; i++)
		printf("%02x", h->f_handle[i]);
	putchar('\n');
	return 0;
}

/* privileges: who this process is by now; the file may have the setuid bit or capabilities. */
static int print_privileges(char **args)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");

	(void)args;
	printf("euid %d egid %d\n", (int)geteuid(), (int)getegid());
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "CapEff:", 7) == 0 || strncmp(line, "CapPrm:", 7) == 0)
			fputs(line, stdout);
	if (f)
		fclose(f);
	return f ? 0 : 1;
}

/* inodes DIRECTORY COUNT: empty files until somebody says no. */
static int use_up_inodes(char **args)
{
	long max = strtol(args[1], NULL, 10);

	if (chdir(args[0]) < 0)
		return report("inodes", 1);
	for (long i = 0; i < max; i++) {
		char name[32];
		int fd;

		snprintf(name, sizeof(name), "inode-%ld", i);
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			return report("inodes", 1);
		close(fd);
	}
	return report("inodes", 0);
}

/* descriptors COUNT: the same with open files; the limit must be this process's own. */
static int use_up_descriptors(char **args)
{
	long max = strtol(args[0], NULL, 10);

	for (long i = 0; i < max; i++)
		if (open("/dev/null", O_RDONLY) < 0)
			return report("descriptors", 1);
	return report("descriptors", 0);
}

/* fill DIRECTORY MEGABYTES: files of a memory file system are memory. */
static int fill(char **args)
{
	static char block[1 << 20];
	long max = strtol(args[1], NULL, 10);
	char path[4096];
	int fd;

	memset(block, 'w', sizeof(block));
	snprintf(path, sizeof(path), "%s/fill", args[0]);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return report("fill", 1);
	for (long i = 0; i < max; i++)
		if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			return report("fill", 1);
	return report("fill", 0);
}

/* terminal: types on the terminal that it was given, as if the user had. */
static int type_on_terminal(char **args)
{
	(void)args;
	for (int fd = 0; fd < 3; fd++) {
		char name[32], c = 'w', paste[2] = { 3, 0 };

		snprintf(name, sizeof(name), "tiocsti-%d", fd);
		report(name, ioctl(fd, TIOCSTI, &c) < 0);
		snprintf(name, sizeof(name), "tioclinux-%d", fd);
		report(name, ioctl(fd, TIOCLINUX, paste) < 0);
	}
	return 0;
}

const struct extra extras[] = {
	{ "handle", 1, print_handle },
	{ "privileges", 0, print_privileges },
	{ "inodes", 2, use_up_inodes },
	{ "descriptors", 1, use_up_descriptors },
	{ "fill", 2, fill },
	{ "terminal", 0, type_on_terminal },
	{ NULL, 0, NULL },
};
