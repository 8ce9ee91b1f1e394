/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_ESCAPE_ESCAPE_H
#define WARD_ESCAPE_ESCAPE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What the test knows of the host and tells the program inside: key=value arguments. */
struct facts {
	const char *secret;   /* a host file that holds SECRET_TEXT */
	const char *handle;   /* "type:hex": the file handle of that file */
	const char *marker;   /* an argument of a host process, to find it by */
	const char *abstract; /* a listening abstract unix socket of the host */
	const char *socket;   /* a listening unix socket of the host, by path */
	pid_t victim;         /* that host process */
	pid_t init;           /* whose memory and descriptors are tried; 1 inside */
	uint16_t tcp4, tcp6;  /* ports that the host listens on, on its loopback */
	bool native;          /* outside of any sandbox, to see that the attempts are real */
};

#define SECRET_TEXT "only the host may read this"
#define TOKEN_NAME "WARD_ESCAPE_TOKEN"

/*
 * One attempt: 0 when it got through, a negative errno when it was refused. Runs in a process of
 * its own. The three columns are the accepted results, by name: natively as root, in a container,
 * in a workspace. "ok" is success; "-" makes no promise, and the row is not run there.
 */
struct attempt {
	const char *name;
	int (*run)(const struct facts *f, const struct attempt *a);
	const char *path;
	long n;
	const char *native, *container, *workspace;
	bool own_mounts; /* natively: in a mount namespace of its own, so that the host keeps its
			    mounts */
};

extern const struct attempt file_attempts[], process_attempts[], mount_attempts[], net_attempts[],
	kernel_attempts[], namespace_attempts[];

/* What a filter or a missing capability answers. */
#define DENY "EPERM EACCES ENOSYS"

/* Is it the host's file behind this descriptor? Closes it. 0, or -ENOENT. */
int secret_behind(int fd);
/* -errno of a failed call, or 0. */
int outcome(long result);

#endif
