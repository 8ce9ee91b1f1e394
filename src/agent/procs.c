/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/procs.c - PROCS: the processes of the sandbox.
 *
 * Owns:  the walk over /proc of one stream.
 * Rules: a process that ends while it is looked at is left out. An agent that is not PID 1 shares
 *        /proc with strangers, and lists its own descendants only.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/stat.h>

#include "agent/procfs.h"
#include "agent/state.h"
#include "base/str.h"

enum { PROCS_PER_TURN = 32, ANCESTORS_MAX = 256 };

struct listing {
	struct procfs fs;
	pid_t held; /* read, and not sent for want of credit */
};

static void procs_done(struct stream *s)
{
	procfs_close(&s->listing->fs);
	room_free(s->listing, sizeof(*s->listing));
}

static bool is_ours(struct agent *a, struct procfs *fs, pid_t pid)
{
	struct procfs_stat st;

	if (pid == a->standby.pid)
		return false; /* nobody's yet */
	if (!a->not_init || pid == a->pid)
		return true;
	for (unsigned i = 0; i < ANCESTORS_MAX && procfs_stat(fs, pid, &st) == 0 && st.ppid > 0;
		i++) {
		if (st.ppid == a->pid)
			return true;
		pid = st.ppid;
	}
	return false;
}

static uint32_t stream_of(const struct agent *a, pid_t pid)
{
	for (unsigned i = 0; i < a->top; i++)
		if (stream_is_process(&a->streams[i]) && a->streams[i].proc.pid == pid &&
			!a->streams[i].proc.exited)
			return a->streams[i].id;
	return 0;
}

/* False: no credit for it. */
static bool send_process(struct agent *a, struct stream *s, pid_t pid)
{
	struct procfs *fs = &s->listing->fs;
	char path[16], cmdline[AGENT_CMDLINE_MAX];
	struct procfs_stat ps;
	struct stat st;
	struct msg m;

	if (str_fmt(path, sizeof(path), "%d", (int)pid) < 0 || procfs_stat(fs, pid, &ps) < 0 ||
		fstatat(fs->dir.fd, path, &st, 0) < 0 || !is_ours(a, fs, pid))
		return true;
	out_begin(a, &m, PROTO_ENTRY, 0, s->id);
	msg_u32(&m, TAG_PID, (uint32_t)pid);
	msg_u32(&m, TAG_PPID, (uint32_t)ps.ppid);
	msg_u32(&m, TAG_UID, st.st_uid);
	msg_u32(&m, TAG_STATE, (uint32_t)ps.state);
	msg_text(&m, TAG_NAME, ps.name);
	msg_bytes(&m, TAG_CMDLINE, cmdline,
		(size_t)procfs_cmdline(fs, pid, cmdline, sizeof(cmdline)));
	if (stream_of(a, pid))
		msg_u32(&m, TAG_STREAM, stream_of(a, pid));
	if (flow_take(&s->out[0].flow, (uint32_t)(m.len - FRAME_HEAD)) < 0)
		return false;
	out_end(a, &m);
	return true;
}

static bool procs_work(struct agent *a, struct stream *s)
{
	struct listing *l = s->listing;

	for (unsigned i = 0; i < PROCS_PER_TURN; i++) {
		if (!out_ready(a))
			return false;
		if (!l->held)
			l->held = procfs_next(&l->fs);
		if (!l->held) {
			stream_finish(a, s, NULL);
			return false;
		}
		if (!send_process(a, s, l->held))
			return false;
		l->held = 0;
	}
	return true;
}

static const struct stream_ops procs_ops = {
	.kind = STREAM_FILE,
	.cancels = true,
	.work = procs_work,
	.done = procs_done,
};

int request_procs(struct agent *a, const struct request *q, struct err *e)
{
	uint64_t window = values_num(q->v, TAG_WINDOW, FLOW_WINDOW);
	struct listing *l;
	struct stream *s;
	int r;

	if (window < ENTRY_WINDOW_MIN)
		return err_say(e, EINVAL, "a list needs a window of %d bytes", ENTRY_WINDOW_MIN);
	l = room_take(sizeof(*l));
	if (!l)
		return err_set(e, ENOMEM, "listing processes");
	r = procfs_open(&l->fs);
	if (r < 0) {
		room_free(l, sizeof(*l));
		return err_set(e, -r, "opening /proc");
	}
	s = stream_open(a, q->id, &procs_ops, (uint32_t)window, e);
	if (!s) {
		procfs_close(&l->fs);
		room_free(l, sizeof(*l));
		return -EAGAIN;
	}
	s->listing = l;
	return 0;
}
