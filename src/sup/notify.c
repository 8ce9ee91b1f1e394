/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/notify.c - what the system call filter denied.
 *
 * Owns:  nothing.
 * Rules: the numbers come from hostile code and are only ever printed. A flood is cut off.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <linux/seccomp.h>

#include "base/str.h"
#include "jail/seccomp.h"
#include "sup/notify.h"

enum { NOTIFY_MAX = 512 };

static void note(struct sighting *seen, const char *what)
{
	struct denial *d;

	for (unsigned i = 0; i < seen->denial_count; i++) {
		if (str_eq(seen->denials[i].what, what)) {
			seen->denials[i].count++;
			return;
		}
	}
	if (seen->denial_count == DENIALS_MAX)
		return;
	d = &seen->denials[seen->denial_count++];
	d->count = 1;
	if (str_copy(d->what, sizeof(d->what), what) < 0)
		d->count = 0;
}

static void describe(const struct seccomp_data *data, char *out, size_t cap)
{
	const char *name = jail_call_name(data->nr);

	if (!name)
		snprintf(out, cap, "call %d", data->nr);
	else if (str_eq(name, "socket"))
		snprintf(out, cap, "socket family %d type %d", (int)data->args[0],
			(int)(data->args[1] & 0xf));
	else if (str_eq(name, "socketpair"))
		snprintf(out, cap, "socketpair family %d", (int)data->args[0]);
	else if (str_eq(name, "ioctl"))
		snprintf(out, cap, "ioctl 0x%x", (unsigned)data->args[1]);
	else if (str_eq(name, "clone") || str_eq(name, "unshare"))
		snprintf(out, cap, "%s of a namespace", name);
	else
		snprintf(out, cap, "%s", name);
}

static unsigned total(const struct sighting *seen)
{
	unsigned n = 0;

	for (unsigned i = 0; i < seen->denial_count; i++)
		n += seen->denials[i].count;
	return n;
}

bool notify_answer(int fd, struct sighting *seen)
{
	struct seccomp_notif request;
	struct seccomp_notif_resp reply;
	char what[40];

	/* The kernel insists on zeroed memory. */
	memset(&request, 0, sizeof(request));
	if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
		return errno == EINTR ||
		       errno == ENOENT; /* ENOENT: the caller was killed meanwhile */
	describe(&request.data, what, sizeof(what));
	note(seen, what);
	memset(&reply, 0, sizeof(reply));
	reply.id = request.id;
	reply.error = -EPERM;
	if (ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &reply) < 0 && errno != ENOENT)
		return false;
	return total(seen) < NOTIFY_MAX;
}
