/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/tier.c - the list of tiers, and the calls that go through a tier's table.
 *
 * Owns:  the list.
 * Rules: no knowledge of any one wall.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/tier_impl.h"

static const struct tier_ops *const tiers[] = {
#define TIER(id) &tier_##id,
#include "tier/tiers.def"
#undef TIER
};

const struct tier_ops *const *tier_list(unsigned *ret_count)
{
	*ret_count = ARRAY_LEN(tiers);
	return tiers;
}

const struct tier_ops *tier_by_wall(enum wall w)
{
	for (size_t i = 0; i < ARRAY_LEN(tiers); i++)
		if (tiers[i]->wall == w)
			return tiers[i];
	return NULL;
}

const char *tier_name(const struct tier_ops *t)
{
	return t->name;
}

const char *tier_what(const struct tier_ops *t)
{
	return t->what;
}

enum wall tier_wall(const struct tier_ops *t)
{
	return t->wall;
}

bool tier_calls(const struct tier_ops *t, unsigned *ret_guest, unsigned *ret_own)
{
	*ret_guest = *ret_own = 0;
	if (!t->calls)
		return false;
	t->calls(ret_guest, ret_own);
	return true;
}

bool tier_waits(const struct tier_ops *t)
{
	return t->waits;
}

int tier_probe(const struct tier_ops *t, struct err *e)
{
	return t->probe(e);
}

int tier_ready(const struct tier_ops *t, const char *state_dir, struct err *e)
{
	return t->ready ? t->ready(state_dir, e) : 0;
}

int tier_prove(const struct tier_ops *t, const char *state_dir, unsigned timeout_ms, struct err *e)
{
	return t->prove ? t->prove(state_dir, timeout_ms, e) : 0;
}

int box_prepare(const struct plan *plan, struct trail *trail, struct box **ret_box, struct err *e)
{
	const struct tier_ops *t = tier_by_wall(plan->wall);

	int r = 0;

	if (!t)
		r = err_say(e, ENOSYS, "this build has no %s tier", wall_name(plan->wall));
	else if (plan->from && !t->snapshot)
		r = err_say(e, EOPNOTSUPP, "the %s tier cannot start from a snapshot", t->name);
	else if ((plan->waits && !t->waits) || (plan->ahead && plan->ahead->ops != t))
		r = err_say(e, EOPNOTSUPP, "the %s tier makes nothing ahead", t->name);
	if (r < 0) {
		box_stop(plan->ahead);
		return r;
	}
	return t->prepare(plan, trail, ret_box, e);
}

const struct undo *box_undo(const struct box *box, unsigned *ret_count)
{
	*ret_count = box->undo_count;
	return box->undo;
}

int box_start(struct box *box, struct trail *trail, struct err *e)
{
	return box->ops->start(box, trail, e);
}

void box_init(struct box *box, const struct tier_ops *ops, const struct plan *plan)
{
	box->ops = ops;
	box->plan = plan;
	box->fds = (struct box_fds){ -1, -1, -1, -1 };
	box->upper = -1;
}

void box_add_undo(struct box *box, enum undo_kind kind, const char *path, const char *path2)
{
	assert(box->undo_count < BOX_UNDO_MAX);
	box->undo[box->undo_count++] = (struct undo){ kind, path, path2 };
}

void *box_share(struct box *box, size_t more, struct err *e)
{
	size_t bytes = sizeof(struct trail) + more;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		err_set(e, errno, "mapping memory to share with the first process");
		return NULL;
	}
	box->shared = (volatile struct trail *)p;
	box->shared_bytes = bytes;
	return p + sizeof(struct trail);
}

int box_send_ready(int channel, int listener, int upper, struct err *e)
{
	char ready[2] = { BOX_READY, (char)((listener >= 0) | (upper >= 0) << 1) };
	int fds[2];
	unsigned count = 0;
	ssize_t n;

	if (listener >= 0)
		fds[count++] = listener;
	if (upper >= 0)
		fds[count++] = upper;
	n = host_send_fds(channel, ready, sizeof(ready), fds, count);
	if (n != sizeof(ready))
		return err_set(e, n < 0 ? (int)-n : EIO, "telling ward that the sandbox is ready");
	return 0;
}

int box_ready(struct box *box, struct err *e)
{
	char ready[2];
	int fds[2] = { -1, -1 };
	unsigned count = 0, want, at = 0;
	ssize_t n = host_recv_fds(box->fds.channel, ready, sizeof(ready), fds, 2, &count);

	if (n == -EAGAIN || n == -EINTR)
		return -EAGAIN;
	if (n == 0 || n == -ECONNRESET)
		return -ENOTCONN;
	if (n < 0)
		return err_set(e, (int)-n, "reading the sandbox's first message");
	want = n == 2 ? (unsigned)((ready[1] & 1) + (ready[1] >> 1 & 1)) : 99;
	if (n != 2 || ready[0] != BOX_READY || count != want) {
		for (unsigned i = 0; i < count; i++)
			close(fds[i]);
		return err_say(e, EPROTO, "the sandbox's first message is malformed");
	}
	if (ready[1] & 1)
		box->fds.notify = fds[at++];
	if (ready[1] & 2)
		box->upper = fds[at];
	return 0;
}

int box_waits(struct box *box, struct err *e)
{
	unsigned none = 0;
	char said;
	ssize_t n = host_recv_fds(box->fds.channel, &said, 1, NULL, 0, &none);

	if (n == -EAGAIN || n == -EINTR)
		return -EAGAIN;
	if (n == 0 || n == -ECONNRESET)
		return -ENOTCONN;
	if (n < 0)
		return err_set(e, (int)-n, "reading the first message of a sandbox made ahead");
	return said == BOX_WAITS ? 0 : err_say(e, EPROTO, "what is made ahead talks nonsense");
}

/* Bytes that the process and all its reaped children wrote; it must still be a zombie. */
static uint64_t written_bytes(pid_t pid)
{
	char path[64], text[512];
	const char *p;

	if (str_fmt(path, sizeof(path), "/proc/%d/io", (int)pid) < 0 ||
		host_get(AT_FDCWD, path, text, sizeof(text)) < 0)
		return UINT64_MAX;
	p = strstr(text, "wchar: ");
	return p ? strtoull(p + 7, NULL, 10) : UINT64_MAX;
}

void box_forget_arguments(const struct plan *plan)
{
	static const char name[] = "ward-agent";

	if (plan->args_len <= sizeof(name))
		return;
	memset(plan->args, 0, plan->args_len);
	memcpy(plan->args, name, sizeof(name));
}

void box_done(struct box *box)
{
	int *fds[] = { &box->fds.pidfd, &box->fds.channel, &box->fds.notify, &box->fds.oom,
		&box->upper };

	for (size_t i = 0; i < ARRAY_LEN(fds); i++)
		if (*fds[i] >= 0)
			close(take_fd(fds[i]));
	if (box->shared)
		munmap((void *)box->shared, box->shared_bytes);
	box->shared = NULL;
}

const struct box_fds *box_fds(const struct box *box)
{
	return &box->fds;
}

bool box_passes_fds(const struct box *box)
{
	return !box->bytes_only;
}

bool box_gives_files(const struct box *box)
{
	return !box->bytes_only && !box->files_stay;
}

const char *box_workdir(const struct box *box)
{
	return box->workdir;
}

const char *const *box_env(const struct box *box)
{
	return box->env;
}

void box_trail(const struct box *box, struct trail *ret_trail)
{
	if (box->shared)
		trail_copy(ret_trail, box->shared);
	else
		*ret_trail = (struct trail){ 0 };
}

void box_close_notify(struct box *box)
{
	if (box->fds.notify >= 0)
		close(take_fd(&box->fds.notify));
}

unsigned box_watch(struct box *box, bool *ret_over)
{
	*ret_over = false;
	return box->ops->watch ? box->ops->watch(box, ret_over) : 0;
}

void box_kill(struct box *box)
{
	box->ops->kill(box);
}

void box_measure(struct box *box, struct usage *ret_usage)
{
	*ret_usage = (struct usage){
		.cpu_us = UINT64_MAX,
		.memory_peak_bytes = UINT64_MAX,
		.written_bytes = UINT64_MAX,
		.pids_peak = UINT64_MAX,
	};
	box->ops->measure(box, ret_usage);
}

int box_reap(struct box *box, int *ret_status, struct usage *usage)
{
	struct rusage ru = { 0 };

	if (!box->pid)
		return -ECHILD;
	if (box->plan->report)
		usage->written_bytes = written_bytes(box->pid);
	while (wait4(box->pid, &box->status, __WALL, &ru) < 0)
		if (errno != EINTR)
			return -errno;
	box->pid = 0;
	if (usage->cpu_us == UINT64_MAX)
		usage->cpu_us = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000 +
				(uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
	if (usage->memory_peak_bytes == UINT64_MAX)
		usage->memory_peak_bytes = (uint64_t)ru.ru_maxrss * 1024;
	*ret_status = box->status;
	return 0;
}

static int unsupported(const struct box *box, const char *what, struct err *e)
{
	return err_say(e, EOPNOTSUPP, "the %s tier cannot %s a sandbox", box->ops->name, what);
}

int box_pause(struct box *box, void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	return box->ops->pause ? box->ops->pause(box, meanwhile, arg, e)
			       : unsupported(box, "pause", e);
}

int box_resume(struct box *box, struct err *e)
{
	return box->ops->resume ? box->ops->resume(box, e) : unsupported(box, "resume", e);
}

int box_snapshot(struct box *box, const struct snap *into, unsigned flags,
	void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	return box->ops->snapshot ? box->ops->snapshot(box, into, flags, meanwhile, arg, e)
				  : unsupported(box, "snapshot", e);
}

int box_set_limits(struct box *box, const struct plan_limits *limits, struct err *e)
{
	return box->ops->set_limits ? box->ops->set_limits(box, limits, e)
				    : unsupported(box, "change the limits of", e);
}

void box_usage_now(struct box *box, struct usage_now *ret)
{
	memset(ret, 0xff, sizeof(*ret));
	ret->oom_kills = ret->pids_refused = 0;
	if (box->ops->usage_now)
		box->ops->usage_now(box, ret);
}

int box_set_hostname(struct box *box, const char *name, struct err *e)
{
	return box->ops->set_hostname ? box->ops->set_hostname(box, name, e)
				      : unsupported(box, "rename", e);
}

pid_t box_pid(const struct box *box)
{
	return box->pid;
}

const char *box_warning(const struct box *box)
{
	return box->warning;
}

int box_keep(struct box *box, struct err *e)
{
	return box->ops->keep ? box->ops->keep(box, e) : 0;
}

void box_discard(struct box *box)
{
	box->discarded = true;
}

/* Reorders the list so that the lasting items come first. */
const struct undo *box_kept(struct box *box, unsigned *ret_count)
{
	unsigned n = 0;

	for (unsigned i = 0; i < box->undo_count; i++) {
		struct undo item = box->undo[i];

		if (item.kind != UNDO_WORKTREE)
			continue;
		box->undo[i] = box->undo[n];
		box->undo[n++] = item;
	}
	*ret_count = n;
	return box->undo;
}

void box_left(struct box *box)
{
	if (box->left)
		*box->left = true;
}

bool box_stop(struct box *box)
{
	bool left = false;

	if (!box)
		return true;
	/* The box itself is gone when we want to know, and so is this pointer. */
	box->left = &left; /* cppcheck-suppress autoVariables */
	box->ops->stop(box);
	return !left;
}
