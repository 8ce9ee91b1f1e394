/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/proc_pid.c - what procfs says about a process and its threads.
 *
 * Owns:  nothing.
 * Rules: a task may be a zombie: then it has no files, no place and no memory. Every show function
 *        must bear that.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/kernel/io/fanotify.h"
#include "tier/kernel/io/inotify.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/task/seccomp.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/ops.h"
#include "tier/kernel/vfs/pidfd.h"
#include "tier/kernel/vfs/propagate.h"

enum { HZ = 100, PAGE = 4096, STRING_MAX = 128 << 10 };

static bool is_zombie(const struct task *t)
{
	return t->state == TASK_DEAD || t->proc->state == PROC_ZOMBIE;
}

static char state_of(const struct task *t)
{
	if (is_zombie(t))
		return 'Z';
	if (t->trace && t->trace->stopped)
		return 't';
	if (t->proc->stop_signal)
		return 'T';
	if (t->call.active && t->call.blocked)
		return 'S';
	return proc_host_sleeps(t) ? 'S' : 'R';
}

static const char *state_word(char s)
{
	if (s == 't')
		return "tracing stop";
	return s == 'Z' ? "zombie" : s == 'T' ? "stopped" : s == 'S' ? "sleeping" : "running";
}

static struct proc_memory memory_of(const struct proc_ctx *c)
{
	struct proc_memory m = { 0 };

	if (!is_zombie(c->t) && c->t->mm)
		proc_host_memory(c->t, &m);
	return m;
}

/* Numbers as this /proc has them; 0: none. */
static int32_t number_of(const struct proc_ctx *c, const struct task *t)
{
	return pid_shown(c->view, t->tid, t->nums);
}

static int32_t leader_of(const struct proc_ctx *c, const struct proc *p)
{
	return p ? pid_shown(c->view, p->pid, p->tasks->nums) : 0;
}

static int32_t group_of(const struct proc_ctx *c, const struct pgrp *g)
{
	return g ? pid_shown(c->view, g->id, g->nums) : 0;
}

static int32_t session_of(const struct proc_ctx *c, const struct session *s)
{
	return s ? pid_shown(c->view, s->id, s->nums) : 0;
}

static int32_t front_of(const struct proc_ctx *c, const struct session *s)
{
	if (!s)
		return -1;
	return c->view ? group_of(c, pgrp_find(c->k, s->tty_pgrp)) : s->tty_pgrp;
}

/* From here down to the level that it is in itself. */
static void show_levels(const struct proc_ctx *c, struct buf *out, const char *name, int32_t id,
	const struct pid_nums *nums)
{
	uint32_t level = nums ? nums->ns->level : 0, from = c->view ? c->view->level : 0;

	buf_add_fmt(out, "%s:\t%d", name, pid_shown(c->view, id, nums));
	for (uint32_t i = from; i < level; i++)
		buf_add_fmt(out, "\t%d", nums->nr[i]);
	buf_add_str(out, "\n");
}

static unsigned thread_count(const struct proc *p)
{
	return p->task_count ? p->task_count : 1;
}

static gsigset_t handlers(const struct task *t, bool ignored)
{
	gsigset_t set = 0;

	for (int n = 1; t->sighand && n <= GSIG_MAX; n++) {
		uint64_t h = t->sighand->act[n - 1].handler;

		if (ignored ? h == GSIG_IGN : h != GSIG_IGN && h != GSIG_DFL)
			set |= GSIG_BIT(n);
	}
	return set;
}

static void show_status_memory(const struct proc_ctx *c, struct buf *out)
{
	struct proc_memory m = memory_of(c);

	buf_add_fmt(out,
		"VmPeak:\t%8llu kB\nVmSize:\t%8llu kB\nVmLck:\t%8llu kB\nVmPin:\t       0 kB\n"
		"VmHWM:\t%8llu kB\nVmRSS:\t%8llu kB\nRssAnon:\t%8llu kB\nRssFile:\t%8llu kB\n"
		"RssShmem:\t       0 kB\nVmData:\t%8llu kB\nVmStk:\t     132 kB\nVmExe:\t%8llu kB\n"
		"VmLib:\t       0 kB\nVmPTE:\t      64 kB\nVmSwap:\t       0 kB\nHugetlbPages:\t   "
		"    0 kB\n",
		(unsigned long long)m.size * 4, (unsigned long long)m.size * 4,
		(unsigned long long)proc_host_locked(c->t) / 1024,
		(unsigned long long)m.resident * 4, (unsigned long long)m.resident * 4,
		(unsigned long long)(m.resident - (m.shared < m.resident ? m.shared : m.resident)) *
			4,
		(unsigned long long)m.shared * 4, (unsigned long long)m.data * 4,
		(unsigned long long)m.text * 4);
}

/* An id as the reader knows it. */
static uint32_t shown(const struct proc_ctx *c, enum id_kind kind, uint32_t id)
{
	if (!c->reader)
		return id;
	return kind == ID_UID ? uid_out(c->reader, id) : gid_out(c->reader, id);
}

static void show_status(const struct proc_ctx *c, struct buf *out)
{
	const struct task *t = c->t;
	const struct cred *cr = t->cred;
	char s = state_of(t);

	buf_add_fmt(out,
		"Name:\t%s\nUmask:\t%04o\nState:\t%c (%s)\nTgid:\t%d\nNgid:\t0\nPid:\t%d\n",
		t->comm, t->fs ? t->fs->umask : 0, s, state_word(s), leader_of(c, t->proc),
		number_of(c, t));
	buf_add_fmt(out, "PPid:\t%d\nTracerPid:\t%d\nUid:\t%u\t%u\t%u\t%u\nGid:\t%u\t%u\t%u\t%u\n",
		leader_of(c, t->proc->parent), t->trace ? leader_of(c, t->trace->tracer) : 0,
		shown(c, ID_UID, cr->uid), shown(c, ID_UID, cr->euid), shown(c, ID_UID, cr->suid),
		shown(c, ID_UID, cr->fsuid), shown(c, ID_GID, cr->gid), shown(c, ID_GID, cr->egid),
		shown(c, ID_GID, cr->sgid), shown(c, ID_GID, cr->fsgid));
	buf_add_fmt(out, "FDSize:\t%u\nGroups:\t", t->files ? t->files->cap : 0);
	for (unsigned i = 0; i < cr->group_count; i++)
		buf_add_fmt(out, "%s%u", i ? " " : "", shown(c, ID_GID, cr->groups[i]));
	buf_add_str(out, " \n");
	show_levels(c, out, "NStgid", t->proc->pid, t->proc->tasks->nums);
	show_levels(c, out, "NSpid", t->tid, t->nums);
	if (t->proc->pgrp) {
		const struct pgrp *g = t->proc->pgrp;

		show_levels(c, out, "NSpgid", g->id, g->nums);
		show_levels(c, out, "NSsid", g->session->id, g->session->nums);
	}
	if (s != 'Z')
		show_status_memory(c, out);
	buf_add_fmt(out,
		"Threads:\t%u\nSigQ:\t%u/"
		"%u\nSigPnd:\t%016llx\nShdPnd:\t%016llx\nSigBlk:\t%016llx\n",
		thread_count(t->proc), c->k->sig_queued, GUEST_SIGQUEUE_MAX,
		(unsigned long long)t->pending.set, (unsigned long long)t->proc->pending.set,
		(unsigned long long)t->mask);
	buf_add_fmt(out, "SigIgn:\t%016llx\nSigCgt:\t%016llx\n",
		(unsigned long long)handlers(t, true), (unsigned long long)handlers(t, false));
	buf_add_fmt(out,
		"CapInh:\t%016llx\nCapPrm:\t%016llx\nCapEff:\t%016llx\nCapBnd:\t%016llx\nCapAmb:\t%"
		"016llx\n",
		(unsigned long long)cr->cap_inheritable, (unsigned long long)cr->cap_permitted,
		(unsigned long long)cr->cap_effective, (unsigned long long)cr->cap_bounding,
		(unsigned long long)cr->cap_ambient);
	buf_add_fmt(out, "NoNewPrivs:\t%d\nSeccomp:\t%d\nSeccomp_filters:\t%u\n", t->no_new_privs,
		t->seccomp_strict ? 1
		: t->filters      ? 2
				  : 0,
		seccomp_count(t->filters));
	buf_add_fmt(out,
		"Cpus_allowed:\t%llx\nCpus_allowed_list:\t0-%u\nMems_allowed:\t1\n"
		"Mems_allowed_list:\t0\nvoluntary_ctxt_switches:\t0\nnonvoluntary_ctxt_switches:"
		"\t0\n",
		c->k->cpus >= 64 ? ~0ULL : (1ULL << c->k->cpus) - 1, c->k->cpus - 1);
}

static void times_of(const struct proc_ctx *c, bool whole, uint64_t *user, uint64_t *sys)
{
	proc_host_times(c->t, whole, user, sys);
}

static long long ticks(const struct timeval *tv)
{
	return (long long)tv->tv_sec * HZ + tv->tv_usec / (1000000 / HZ);
}

static void show_one_stat(const struct proc_ctx *c, struct buf *out, bool whole)
{
	const struct task *t = c->t;
	const struct proc *p = t->proc;
	const struct session *s = p->pgrp ? p->pgrp->session : NULL;
	struct proc_memory m = memory_of(c);
	uint64_t user, sys;

	times_of(c, whole, &user, &sys);
	buf_add_fmt(out, "%d (%s) %c %d %d %d %d %d 4194304 0 0 0 0 ", number_of(c, t), t->comm,
		state_of(t), leader_of(c, p->parent), group_of(c, p->pgrp), session_of(c, s),
		s && s->tty ? 34816 : 0, front_of(c, s));
	buf_add_fmt(out, "%llu %llu %lld %lld 20 %d %u 0 ",
		(unsigned long long)(user / (1000000000 / HZ)),
		(unsigned long long)(sys / (1000000000 / HZ)), ticks(&p->children_usage.ru_utime),
		ticks(&p->children_usage.ru_stime), t->nice, thread_count(p));
	buf_add_fmt(out, "%lld %llu %llu %llu ",
		(long long)((t->start_ns - c->k->boot_ns) / (1000000000 / HZ)),
		(unsigned long long)m.size * PAGE, (unsigned long long)m.resident,
		(unsigned long long)p->limits[RLIMIT_RSS].rlim_cur);
	buf_add_fmt(out,
		"1 1 %llu 0 0 %llu %llu %llu %llu 0 0 0 %d 0 0 0 0 0 0 0 0 %llu %llu %llu %llu "
		"%llu %d\n",
		(unsigned long long)(t->mm ? t->mm->stack_top : 0),
		(unsigned long long)t->pending.set, (unsigned long long)t->mask,
		(unsigned long long)handlers(t, true), (unsigned long long)handlers(t, false),
		t->exit_signal, (unsigned long long)(t->mm ? t->mm->brk_start : 0),
		(unsigned long long)(t->mm ? t->mm->arg_start : 0),
		(unsigned long long)(t->mm ? t->mm->arg_end : 0),
		(unsigned long long)(t->mm ? t->mm->env_start : 0),
		(unsigned long long)(t->mm ? t->mm->env_end : 0), p->wait_status);
}

static void show_stat(const struct proc_ctx *c, struct buf *out)
{
	show_one_stat(c, out, true);
}

static void show_thread_stat(const struct proc_ctx *c, struct buf *out)
{
	show_one_stat(c, out, false);
}

static void show_statm(const struct proc_ctx *c, struct buf *out)
{
	struct proc_memory m = memory_of(c);

	buf_add_fmt(out, "%llu %llu %llu %llu 0 %llu 0\n", (unsigned long long)m.size,
		(unsigned long long)m.resident, (unsigned long long)m.shared,
		(unsigned long long)m.text, (unsigned long long)m.data);
}

static void show_maps(const struct proc_ctx *c, struct buf *out)
{
	if (!is_zombie(c->t) && c->t->mm)
		proc_host_maps(c->t, out);
}

static void show_smaps(const struct proc_ctx *c, struct buf *out)
{
	if (!is_zombie(c->t) && c->t->mm)
		proc_host_smaps(c->t, out);
}

static void show_comm(const struct proc_ctx *c, struct buf *out)
{
	buf_add_fmt(out, "%s\n", c->t->comm);
}

static int write_comm(const struct proc_ctx *c, char *text)
{
	size_t n = strcspn(text, "\n");

	if (!c->reader || c->reader->proc != c->t->proc)
		return -EINVAL;
	if (n > sizeof(c->t->comm) - 1)
		n = sizeof(c->t->comm) - 1;
	memset(c->t->comm, 0, sizeof(c->t->comm));
	memcpy(c->t->comm, text, n);
	return 0;
}

/* Out of the process's own memory, which it may have changed. */
static void show_range(const struct proc_ctx *c, struct buf *out, uint64_t from, uint64_t to)
{
	char piece[4096];

	if (is_zombie(c->t) || !c->t->mm || to <= from)
		return;
	if (to - from > STRING_MAX)
		to = from + STRING_MAX;
	while (from < to) {
		size_t want = to - from < sizeof(piece) ? (size_t)(to - from) : sizeof(piece);
		ssize_t n = guest_read_some(c->t, piece, GVA(from), want);

		if (n <= 0)
			return;
		buf_add(out, piece, (size_t)n);
		from += (uint64_t)n;
	}
}

static void show_cmdline(const struct proc_ctx *c, struct buf *out)
{
	const struct mm *mm = c->t->mm;

	if (is_zombie(c->t))
		return;
	if (mm && mm->arg_end > mm->arg_start)
		show_range(c, out, mm->arg_start, mm->arg_end);
	else if (c->t->proc->cmdline)
		buf_add(out, c->t->proc->cmdline, c->t->proc->cmdline_len);
}

static void show_environ(const struct proc_ctx *c, struct buf *out)
{
	if (c->t->mm)
		show_range(c, out, c->t->mm->env_start, c->t->mm->env_end);
}

static void show_auxv(const struct proc_ctx *c, struct buf *out)
{
	const struct mm *mm = c->t->mm;

	if (mm)
		show_range(c, out, mm->auxv_at, mm->auxv_at + mm->auxv_len);
}

static void show_limits(const struct proc_ctx *c, struct buf *out)
{
	static const struct {
		const char *name, *unit;
		int what;
	} rows[] = {
		{ "Max cpu time", "seconds", RLIMIT_CPU },
		{ "Max file size", "bytes", RLIMIT_FSIZE },
		{ "Max data size", "bytes", RLIMIT_DATA },
		{ "Max stack size", "bytes", RLIMIT_STACK },
		{ "Max core file size", "bytes", RLIMIT_CORE },
		{ "Max resident set", "bytes", RLIMIT_RSS },
		{ "Max processes", "processes", RLIMIT_NPROC },
		{ "Max open files", "files", RLIMIT_NOFILE },
		{ "Max locked memory", "bytes", RLIMIT_MEMLOCK },
		{ "Max address space", "bytes", RLIMIT_AS },
		{ "Max file locks", "locks", RLIMIT_LOCKS },
		{ "Max pending signals", "signals", RLIMIT_SIGPENDING },
		{ "Max msgqueue size", "bytes", RLIMIT_MSGQUEUE },
		{ "Max nice priority", "", RLIMIT_NICE },
		{ "Max realtime priority", "", RLIMIT_RTPRIO },
		{ "Max realtime timeout", "us", RLIMIT_RTTIME },
	};

	buf_add_fmt(out, "%-26s%-21s%-21s%-10s\n", "Limit", "Soft Limit", "Hard Limit", "Units");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct rlimit *l = &c->t->proc->limits[rows[i].what];
		char soft[24] = "unlimited", hard[24] = "unlimited";

		if (l->rlim_cur != RLIM_INFINITY)
			str_fmt(soft, sizeof(soft), "%llu", (unsigned long long)l->rlim_cur);
		if (l->rlim_max != RLIM_INFINITY)
			str_fmt(hard, sizeof(hard), "%llu", (unsigned long long)l->rlim_max);
		buf_add_fmt(out, "%-26s%-21s%-21s%-10s\n", rows[i].name, soft, hard, rows[i].unit);
	}
}

static struct path root_of(const struct proc_ctx *c)
{
	const struct task *t = c->t && c->t->fs ? c->t : c->reader;

	return t && t->fs ? t->fs->root : (struct path){ c->k->root_mount, c->k->root_mount->root };
}

static void mount_words(const struct mount *m, bool whole_ro, struct buf *out)
{
	buf_add_str(out, whole_ro ? "ro" : "rw");
	if (m->flags & MOUNT_NO_SUID)
		buf_add_str(out, ",nosuid");
	if (m->flags & MOUNT_NO_DEV)
		buf_add_str(out, ",nodev");
	if (m->flags & MOUNT_NO_EXEC)
		buf_add_str(out, ",noexec");
	if (m->flags & MOUNT_NO_ATIME)
		buf_add_str(out, ",noatime");
	if (m->flags & MOUNT_NO_DIRATIME)
		buf_add_str(out, ",nodiratime");
	if (!(m->flags & (MOUNT_NO_ATIME | MOUNT_STRICT_ATIME)))
		buf_add_str(out, ",relatime");
	if (m->flags & MOUNT_NO_FOLLOW)
		buf_add_str(out, ",nosymfollow");
}

static bool mount_path(const struct proc_ctx *c, struct mount *m, char *buf, size_t cap)
{
	ssize_t n = path_show((struct path){ m, m->root }, root_of(c), buf, cap);

	return n > 0 && buf[0] == '/';
}

void proc_show_mounts(const struct proc_ctx *c, struct buf *out)
{
	char at[GUEST_PATH_MAX];

	for (struct mount *m = c->k->vfs->mounts; m; m = m->next) {
		if (!mount_path(c, m, at, sizeof(at)))
			continue;
		buf_add_fmt(out, "%s %s %s ", m->source, at, m->sb->ops->name);
		mount_words(m, (m->flags & MOUNT_READ_ONLY) || (m->sb->flags & SB_READ_ONLY), out);
		buf_add_str(out, " 0 0\n");
	}
}

static void mount_kind(const struct proc_ctx *c, const struct mount *m, struct buf *out)
{
	uint32_t from = m->master ? mount_hears_from(m, root_of(c)) : 0;

	if (m->group)
		buf_add_fmt(out, " shared:%u", m->group);
	if (m->master)
		buf_add_fmt(out, " master:%u", m->master);
	if (from && from != m->master)
		buf_add_fmt(out, " propagate_from:%u", from);
	if (m->unbindable)
		buf_add_str(out, " unbindable");
}

static void show_mountinfo(const struct proc_ctx *c, struct buf *out)
{
	char at[GUEST_PATH_MAX], root[GUEST_PATH_MAX];

	for (struct mount *m = c->k->vfs->mounts; m; m = m->next) {
		if (!mount_path(c, m, at, sizeof(at)) || mount_root_show(m, root, sizeof(root)) < 0)
			continue;
		buf_add_fmt(out, "%u %u 0:%llu %s %s ", m->id, m->parent ? m->parent->id : m->id,
			(unsigned long long)m->sb->dev, root, at);
		mount_words(m, m->flags & MOUNT_READ_ONLY, out);
		mount_kind(c, m, out);
		buf_add_fmt(out, " - %s %s %s\n", m->sb->ops->name, m->source,
			(m->kept ? m->flags & MOUNT_READ_ONLY : m->sb->flags & SB_READ_ONLY)
				? "ro"
				: "rw");
	}
}

static void show_oom_adj(const struct proc_ctx *c, struct buf *out)
{
	buf_add_fmt(out, "%d\n", c->t->proc->oom_score_adj);
}

static int write_oom_adj(const struct proc_ctx *c, char *text)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (end == text || (*end && *end != '\n') || v < -1000 || v > 1000)
		return -EINVAL;
	if (v < c->t->proc->oom_score_adj && c->reader &&
		!task_capable(c->reader, CAP_SYS_RESOURCE))
		return -EACCES;
	c->t->proc->oom_score_adj = (int)v;
	return 0;
}

static void show_personality(const struct proc_ctx *c, struct buf *out)
{
	buf_add_fmt(out, "%08llx\n", (unsigned long long)c->t->proc->personality);
}

static void show_slack(const struct proc_ctx *c, struct buf *out)
{
	buf_add_fmt(out, "%llu\n", (unsigned long long)c->t->timer_slack_ns);
}

static int write_slack(const struct proc_ctx *c, char *text)
{
	char *end;
	unsigned long long v = strtoull(text, &end, 10);

	if (end == text || (*end && *end != '\n'))
		return -EINVAL;
	if (c->reader && c->reader->proc != c->t->proc &&
		!task_capable_in(c->reader, c->t->cred->user, CAP_SYS_NICE))
		return -EPERM;
	c->t->timer_slack_ns = v ? v : c->t->timer_slack_default_ns;
	return 0;
}

static void show_io(const struct proc_ctx *c, struct buf *out)
{
	buf_add_str(out, "rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: 0\nwrite_bytes: 0\n"
			 "cancelled_write_bytes: 0\n");
}

static void show_children(const struct proc_ctx *c, struct buf *out)
{
	for (const struct proc *p = c->k->procs; p; p = p->next)
		if (p->parent == c->t->proc && p->maker == c->t->tid && leader_of(c, p))
			buf_add_fmt(out, "%d ", leader_of(c, p));
}

static struct file *file_of(const struct proc_ctx *c)
{
	place_sync(c->t);
	return c->t->files ? fd_get_path(c->t, c->fd) : NULL;
}

static void show_fdinfo(const struct proc_ctx *c, struct buf *out)
{
	struct file *f = file_of(c);

	if (!f)
		return;
	buf_add_fmt(out, "pos:\t%lld\nflags:\t0%o\nmnt_id:\t%u\nino:\t%llu\n", (long long)f->pos,
		f->flags | (c->t->files->slots[c->fd].cloexec ? (unsigned)O_CLOEXEC : 0),
		f->path.mnt ? f->path.mnt->id : 0, (unsigned long long)f->inode->ino);
	inotify_show_watches(f, out);
	fanotify_show_marks(f, out);
	pidfd_show_who(f, c->reader, out);
}

/* Links */

static ssize_t show_path(const struct proc_ctx *c, struct path p, char *buf, size_t cap)
{
	struct path root = c->reader && c->reader->fs ? c->reader->fs->root : root_of(c);

	return path_show(p, root, buf, cap);
}

static ssize_t link_cwd(const struct proc_ctx *c, char *buf, size_t cap)
{
	return c->t->fs ? show_path(c, c->t->fs->cwd, buf, cap) : -ENOENT;
}

static ssize_t link_root(const struct proc_ctx *c, char *buf, size_t cap)
{
	return c->t->fs ? show_path(c, c->t->fs->root, buf, cap) : -ENOENT;
}

static struct file *exe_of(const struct proc_ctx *c)
{
	return !is_zombie(c->t) && c->t->mm ? c->t->mm->exe : NULL;
}

static ssize_t link_exe(const struct proc_ctx *c, char *buf, size_t cap)
{
	struct file *exe = exe_of(c);

	return exe && exe->path.dentry ? show_path(c, exe->path, buf, cap) : -ENOENT;
}

static int follow_cwd(const struct proc_ctx *c, struct path *ret)
{
	if (!c->t->fs)
		return -ENOENT;
	*ret = path_ref(c->t->fs->cwd);
	return 0;
}

static int follow_root(const struct proc_ctx *c, struct path *ret)
{
	if (!c->t->fs)
		return -ENOENT;
	*ret = path_ref(c->t->fs->root);
	return 0;
}

static int follow_exe(const struct proc_ctx *c, struct path *ret)
{
	struct file *exe = exe_of(c);

	if (!exe || !exe->path.dentry)
		return -ENOENT;
	*ret = path_ref(exe->path);
	return 0;
}

static ssize_t link_fd(const struct proc_ctx *c, char *buf, size_t cap)
{
	struct file *f = file_of(c);
	int r;

	if (!f)
		return -ENOENT;
	if (f->path.dentry && f->path.dentry->sb == c->k->vfs->memfds) {
		r = str_fmt(buf, cap, "/%s (deleted)", f->path.dentry->name);
		return r < 0 ? r : (ssize_t)strlen(buf);
	}
	if (f->path.dentry)
		return show_path(c, f->path, buf, cap);
	if (f->ops->show)
		r = f->ops->show(f, buf, cap);
	else
		r = str_fmt(buf, cap, "anon_inode:[%s]", f->ops->name ? f->ops->name : "file");
	return r < 0 ? r : (ssize_t)strlen(buf);
}

static int follow_fd(const struct proc_ctx *c, struct path *ret)
{
	struct file *f = file_of(c);

	if (!f)
		return -ENOENT;
	if (!f->path.dentry)
		return anon_path(c->k, f->inode, f->ops->name ? f->ops->name : "anon", ret);
	*ret = path_ref(f->path);
	return 0;
}

#define REG(n, m, ...)                                                                             \
	{                                                                                          \
		.name = n, .mode = S_IFREG | (m), __VA_ARGS__                                      \
	}
#define LINK(n, l, f)                                                                              \
	{                                                                                          \
		.name = n, .mode = S_IFLNK | 0777, .link = l, .follow = f                          \
	}
#define MAP(n) REG(#n, 0644, .show = proc_show_##n, .write = proc_write_##n, .once = true)
#define DIR_OF(n, k, p)                                                                            \
	{                                                                                          \
		.name = n, .mode = S_IFDIR | 0555, .kind = k, .private = p                         \
	}

#define COMMON                                                                                     \
	REG("status", 0444, .show = show_status), REG("statm", 0444, .show = show_statm),          \
		REG("maps", 0444, .show = show_maps, .private = true, .maps = true),               \
		REG("smaps", 0444, .show = show_smaps, .private = true),                           \
		REG("cmdline", 0444, .show = show_cmdline),                                        \
		REG("environ", 0400, .show = show_environ, .private = true),                       \
		REG("auxv", 0400, .show = show_auxv, .private = true),                             \
		REG("mem", 0600, .private = true, .memory = true),                                 \
		REG("pagemap", 0400, .private = true, .pagemap = true),                            \
		REG("comm", 0644, .show = show_comm, .write = write_comm),                         \
		REG("limits", 0444, .show = show_limits),                                          \
		REG("mounts", 0444, .show = proc_show_mounts, .mounts = true),                     \
		REG("mountinfo", 0444, .show = show_mountinfo, .mounts = true),                    \
		REG("cgroup", 0444, .text = "0::/\n"),                                             \
		REG("oom_score_adj", 0644, .show = show_oom_adj, .write = write_oom_adj),          \
		REG("oom_score", 0444, .text = "0\n"),                                             \
		REG("io", 0400, .show = show_io, .private = true),                                 \
		REG("wchan", 0444, .text = "0"), REG("loginuid", 0644, .text = "4294967295"),      \
		REG("sessionid", 0444, .text = "4294967295"), MAP(setgroups), MAP(uid_map),        \
		MAP(gid_map), MAP(projid_map), REG("coredump_filter", 0644, .text = "00000033\n"), \
		REG("personality", 0400, .show = show_personality, .private = true),               \
		REG("timerslack_ns", 0666, .show = show_slack, .write = write_slack),              \
		REG("schedstat", 0444, .text = "0 0 0\n"), REG("clear_refs", 0200),                \
		LINK("cwd", link_cwd, follow_cwd), LINK("root", link_root, follow_root),           \
		LINK("exe", link_exe, follow_exe), DIR_OF("fd", PROC_FDS, true),                   \
		DIR_OF("fdinfo", PROC_FDINFOS, true),                                              \
	{                                                                                          \
		.name = "ns", .mode = S_IFDIR | 0511, .entries = proc_ns_entries,                  \
		.count = PROC_NS_COUNT                                                             \
	}

static const struct proc_entry pid_entries[] = {
	COMMON,
	REG("stat", 0444, .show = show_stat),
	DIR_OF("task", PROC_TASKS, false),
};
static const struct proc_entry tid_entries[] = {
	COMMON,
	REG("stat", 0444, .show = show_thread_stat),
	REG("children", 0444, .show = show_children),
};

const struct proc_entry proc_pid_entry = {
	.name = "", .mode = S_IFDIR | 0555, .entries = pid_entries, .count = ARRAY_LEN(pid_entries)
};
const struct proc_entry proc_tid_entry = {
	.name = "", .mode = S_IFDIR | 0555, .entries = tid_entries, .count = ARRAY_LEN(tid_entries)
};
const struct proc_entry proc_fd_link = LINK("", link_fd, follow_fd);
const struct proc_entry proc_fdinfo_file = REG("", 0400, .show = show_fdinfo, .private = true);
