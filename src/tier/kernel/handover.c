/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/handover.c - views of host directories: made, and given to the first process.
 *
 * Owns:  the order of the descriptors in the message.
 * Rules: both ends are the same program, one a copy of the other, so the counts are all that is
 * sent beside the descriptors. A view is attached to nothing: the kernel process reads below its
 *        descriptor, and no path leads there.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "abi/newer.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/fds.h"
#include "tier/kernel/box.h"
#include "tier/upper.h"
#include "tier/views.h"

enum { HANDOVER_MAX = 1 + KBOX_BINDS_MAX + MOUNTS_MAX + LAYERS_MAX };

/* A view is a place, not an open file; of a folder that is enough, a single file must be opened. */
static int open_file(int *fd, bool writable)
{
	char path[64];
	struct stat st;
	int r = host_fstat(*fd, &st);

	if (r < 0 || S_ISDIR(st.st_mode))
		return r;
	r = str_fmt(path, sizeof(path), "/proc/self/fd/%d", *fd);
	if (r == 0)
		r = host_open(path, writable ? O_RDWR : O_RDONLY, 0);
	if (r < 0)
		return r;
	host_close(*fd);
	*fd = r;
	return 0;
}

static int view(
	const char *path, bool recursive, bool writable, int user_ns, int *ret, struct err *e)
{
	uint64_t attrs = writable ? 0 : WARD_MOUNT_ATTR_RDONLY;
	int r = user_ns == -2 ? view_own(path, attrs, ret, e)
			      : view_host(path, recursive ? WARD_AT_RECURSIVE : 0, attrs, user_ns,
					ret, e);

	if (r < 0)
		return r;
	r = open_file(ret, writable);
	return r < 0 ? err_set(e, -r, "opening %s for the sandbox", path) : 0;
}

/*
 * All views hang on one, so that they go with it: closed one by one, each would wait for a grace
 * period of the host's. A host that moves nothing onto what is itself attached to nothing (before
 * Linux 6.15), or a single file, leaves them apart.
 */
static void hang_views(const struct kbox *b)
{
	for (unsigned i = 0; i < b->lower_count; i++)
		host_move_mount(b->lowers[i], b->upper, "");
	for (unsigned i = 0; i < b->bind_count; i++)
		host_move_mount(b->binds[i], b->upper, "");
	for (unsigned i = 0; i < b->mount_count; i++)
		host_move_mount(b->mounts[i], b->upper, "");
}

int kbox_views(struct kbox *b, int user_ns, struct err *e)
{
	const struct plan *plan = b->box.plan;
	int r = upper_mount(plan, &b->upper, e);

	/* The kernel process keeps contents there as the sandbox's root. */
	if (r == 0 && user_ns >= 0) {
		r = host_fchownat(b->upper, "", plan->id_base, plan->id_base, WARD_AT_EMPTY_PATH);
		if (r < 0)
			return err_set(e, -r, "giving the writable file system to the sandbox");
	}
	for (unsigned i = 0; r == 0 && i < plan->root.layer_count; i++) {
		r = view(plan->root.layers[i], false, false, user_ns, &b->lowers[i], e);
		b->lower_count += r == 0;
	}
	for (unsigned i = 0; r == 0 && bind_name(i); i++) {
		char path[16];

		if (!(b->bind_bits & 1u << i))
			continue;
		r = str_fmt(path, sizeof(path), "/%s", bind_name(i));
		/* Not id-mapped, so that closed files of the host stay closed. */
		if (r == 0)
			r = view(path, true, false, user_ns == -2 ? -2 : -1,
				&b->binds[b->bind_count], e);
		b->bind_count += r == 0;
	}
	for (unsigned i = 0; r == 0 && i < plan->mount_count; i++) {
		const struct plan_mount *m = &plan->mounts[i];

		r = view(m->src, m->mode != MOUNT_OVERLAY, m->mode == MOUNT_RW, user_ns,
			&b->mounts[i], e);
		if (r < 0)
			return err_wrap(e, r, "--mount %s:%s", m->src, m->dst);
		b->mount_count++;
	}
	if (r == 0)
		hang_views(b);
	return r;
}

static void close_all(int *fds, unsigned *count)
{
	while (*count)
		host_close(fds[--*count]);
}

void kbox_close_views(struct kbox *b)
{
	close_all(b->lowers, &b->lower_count);
	close_all(b->binds, &b->bind_count);
	close_all(b->mounts, &b->mount_count);
	if (b->upper >= 0)
		host_close(take_fd(&b->upper));
}

struct counts {
	unsigned upper, lowers, binds, mounts, bind_bits;
};

int kbox_send(struct kbox *b, int channel, struct err *e)
{
	struct counts n = {
		.upper = b->upper >= 0,
		.lowers = b->lower_count,
		.binds = b->bind_count,
		.mounts = b->mount_count,
		.bind_bits = b->bind_bits,
	};
	int fds[HANDOVER_MAX];
	unsigned count = 0;
	ssize_t sent;

	fds_add(fds, &count, &b->upper, n.upper);
	fds_add(fds, &count, b->lowers, n.lowers);
	fds_add(fds, &count, b->binds, n.binds);
	fds_add(fds, &count, b->mounts, n.mounts);
	sent = host_send_fds(channel, &n, sizeof(n), fds, count);
	if (sent != sizeof(n))
		return err_set(
			e, sent < 0 ? (int)-sent : EIO, "handing the views to the kernel process");
	return 0;
}

int kbox_receive(struct kbox *b, int channel, struct err *e)
{
	struct counts n;
	int fds[HANDOVER_MAX];
	unsigned count = 0, at = 0;
	ssize_t got = host_recv_fds(channel, &n, sizeof(n), fds, HANDOVER_MAX, &count);

	if (got != sizeof(n))
		return err_set(
			e, got < 0 ? (int)-got : EPIPE, "waiting for ward to hand over the views");
	if (n.upper > 1 || n.lowers > LAYERS_MAX || n.binds > KBOX_BINDS_MAX ||
		n.mounts > MOUNTS_MAX || count != n.upper + n.lowers + n.binds + n.mounts)
		return err_say(
			e, EPROTO, "ward handed over %u descriptors, which does not add up", count);
	fds_take(&b->upper, fds, &at, n.upper);
	fds_take(b->lowers, fds, &at, n.lowers);
	fds_take(b->binds, fds, &at, n.binds);
	fds_take(b->mounts, fds, &at, n.mounts);
	b->lower_count = n.lowers;
	b->bind_count = n.binds;
	b->mount_count = n.mounts;
	b->bind_bits = n.bind_bits;
	return 0;
}
