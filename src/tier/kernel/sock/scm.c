/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sock/scm.c - control messages: descriptors and credentials beside the bytes.
 */
#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>

#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sock/msg.h"

#include "base/own.h"
#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"

/* struct cmsghdr as the guest has it. */
struct gcmsg {
	uint64_t len;
	int32_t level, type;
};

enum { SCM_RIGHTS_ = 1, SCM_CREDENTIALS_ = 2, CMSG_HEAD = sizeof(struct gcmsg) };

static uint64_t aligned(uint64_t n)
{
	return (n + 7) & ~7ULL;
}

static int add_files(struct task *task, struct scm *scm, const uint8_t *data, size_t len)
{
	size_t n = len / sizeof(int32_t);
	struct file **p;

	if (n == 0)
		return 0;
	if (n + scm->count > SCM_FDS_MAX)
		return -EINVAL;
	p = realloc(scm->files, (scm->count + n) * sizeof(struct file *));
	if (!p)
		return -ENOMEM;
	scm->files = p;
	for (size_t i = 0; i < n; i++) {
		struct file *f;
		int32_t fd;

		memcpy(&fd, data + i * sizeof(fd), sizeof(fd));
		f = fd_get_path(task, fd);
		if (!f)
			return -EBADF;
		scm->files[scm->count++] = file_ref(f);
	}
	return 0;
}

static int set_cred(struct task *task, struct scm *scm, const uint8_t *data, size_t len)
{
	const struct ns *owner = ns_of(task, NS_PID);
	const struct cred *c = task->cred;
	struct gucred u;

	if (len != sizeof(u))
		return -EINVAL;
	memcpy(&u, data, sizeof(u));
	u.uid = uid_in(task, u.uid);
	u.gid = gid_in(task, u.gid);
	if (u.uid == ID_NONE || u.gid == ID_NONE)
		return -EINVAL;
	if (u.pid != proc_nr(task, task->proc) &&
		!task_capable_in(task, owner ? owner->owner : NULL, CAP_SYS_ADMIN))
		return -EPERM;
	if (!proc_at(task, u.pid))
		return -ESRCH;
	u.pid = proc_at(task, u.pid)->pid;
	if (u.uid != c->uid && u.uid != c->euid && u.uid != c->suid &&
		!task_capable_own(task, CAP_SETUID))
		return -EPERM;
	if (u.gid != c->gid && u.gid != c->egid && u.gid != c->sgid &&
		!task_capable_own(task, CAP_SETGID))
		return -EPERM;
	scm->cred = u;
	scm->has_cred = true;
	return 0;
}

int scm_parse(struct task *task, const struct sock *s, gva_t control, uint64_t len, struct scm *ret)
{
	own_mem uint8_t *data = NULL;
	uint64_t at = 0;
	int r = 0;

	if (len > SOCK_CONTROL_MAX)
		return -ENOBUFS;
	if (len < CMSG_HEAD)
		return 0;
	data = malloc(len);
	if (!data)
		return -ENOBUFS;
	if (guest_read(task, data, control, len) < 0)
		return -EFAULT;
	while (r == 0 && at + CMSG_HEAD <= len) {
		struct gcmsg h;

		memcpy(&h, data + at, sizeof(h));
		if (h.len < CMSG_HEAD || h.len > len - at)
			return -EINVAL;
		if (h.level == SOL_SOCKET) {
			if (h.type == SCM_RIGHTS_)
				r = add_files(task, ret, data + at + CMSG_HEAD, h.len - CMSG_HEAD);
			else if (h.type == SCM_CREDENTIALS_)
				r = set_cred(task, ret, data + at + CMSG_HEAD, h.len - CMSG_HEAD);
			else
				r = -EINVAL;
		} else {
			r = ip_ctl_parse(s, h.level, h.type, data + at + CMSG_HEAD,
				h.len - CMSG_HEAD, &ret->ip);
		}
		at += aligned(h.len);
	}
	return r;
}

long scm_put(struct task *task, gva_t at, uint64_t room, int level, int type, const void *data,
	size_t len, uint64_t *used, unsigned *flags)
{
	struct gcmsg h = { .len = CMSG_HEAD + len, .level = level, .type = type };

	if (room < CMSG_HEAD) {
		*flags |= MSG_CTRUNC;
		return 0;
	}
	if (h.len > room) {
		*flags |= MSG_CTRUNC;
		h.len = room;
	}
	if (guest_write(task, at, &h, sizeof(h)) < 0 ||
		guest_write(task, gva_add(at, CMSG_HEAD), data, h.len - CMSG_HEAD) < 0)
		return -EFAULT;
	*used = aligned(h.len) < room ? aligned(h.len) : room;
	return 0;
}

/* Installs as many files as there is room for; the rest is closed. */
static long give_files(struct task *task, struct scm *scm, gva_t at, uint64_t room, bool cloexec,
	uint64_t *used, unsigned *flags)
{
	int32_t fds[SCM_FDS_MAX];
	uint64_t fit = room > CMSG_HEAD ? (room - CMSG_HEAD) / sizeof(int32_t) : 0;
	unsigned n = 0;
	long r = 0;

	while (n < scm->count && n < fit) {
		int fd = fd_install(task, scm->files[n], cloexec, 0);

		if (fd < 0)
			break;
		fds[n++] = fd;
	}
	if (n < scm->count)
		*flags |= MSG_CTRUNC;
	if (n > 0)
		r = scm_put(task, at, room, SOL_SOCKET, SCM_RIGHTS_, fds, n * sizeof(fds[0]), used,
			flags);
	if (r < 0) {
		for (unsigned i = 0; i < n; i++)
			fd_close(task, fds[i]);
	}
	/* Those that have a descriptor now belong to the table. */
	memmove(scm->files, scm->files + n, (scm->count - n) * sizeof(struct file *));
	scm->count -= n;
	return r;
}

long scm_give(struct task *task, struct sock *s, struct scm *scm, gva_t control, uint64_t room,
	bool cloexec, uint64_t *ret_len, unsigned *flags)
{
	uint64_t at = 0, used = 0;
	long r = 0;

	r = ip_ctl_give(task, s, &scm->ip, control, room, &at, flags);
	if (r == 0 && s->passcred && s->family == AF_UNIX) {
		struct gucred c = gucred_out(task, &scm->cred);

		r = scm_put(task, gva_add(control, at), room - at, SOL_SOCKET, SCM_CREDENTIALS_, &c,
			sizeof(c), &used, flags);
		at += used;
	}
	if (r == 0 && scm->count) {
		used = 0;
		r = give_files(task, scm, gva_add(control, at), room - at, cloexec, &used, flags);
		at += used;
	}
	*ret_len = at;
	scm_drop(task->k, scm);
	return r;
}
