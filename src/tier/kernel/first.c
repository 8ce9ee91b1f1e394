/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/first.c - the first process becomes the kernel process, and shuts itself in.
 *
 * Owns:  struct kernel, from here to the end of the sandbox.
 * Rules: every step that fails ends it, with the trail saying which. When it is done there is no
 * path of the host in sight, no capability over the host, no network, and only the calls of
 * jail.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/capability.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "abi/newer.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "jail/caps.h"
#include "tier/kernel/box.h"
#include "tier/kernel/jail.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/pid1.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/hostfile.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/walk/walker.h"
#include "tier/views.h"

/* Ward is static, and so its own agent. A build with the system's libc, for sanitizers, is not. */
#ifdef WARD_AGENT_STATIC
#define AGENT_PROGRAM WARD_AGENT_STATIC
#else
#define AGENT_PROGRAM "/proc/self/exe"
#endif

#define CAP_BIT(cap) (1ULL << (cap))

/* A start takes 36 descriptors; the rest is for what runs. */
enum { CHANNEL_FD = 3, TABLE_FDS = 1024, FDS_LEAST = 64 };

static int new_namespaces(struct err *e)
{
	/* That of the network takes longer than all others: the zygote makes it, beside us. */
	int r = host_unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS);

	return r < 0 ? err_set(e, -r, "making the kernel process's namespaces") : 0;
}

static int put_own_map(const char *file, unsigned id, struct err *e)
{
	char text[32];
	int r;

	snprintf(text, sizeof(text), "0 %u 1", id);
	r = host_put(AT_FDCWD, file, text);
	return r < 0 ? err_set(e, -r, "writing '%s' to %s", text, file) : 0;
}

static int write_own_ids(const struct plan *plan, struct err *e)
{
	int r = host_put(AT_FDCWD, "/proc/self/setgroups", "deny");

	if (r < 0)
		return err_set(e, -r, "writing to /proc/self/setgroups");
	r = put_own_map("/proc/self/uid_map", plan->caller_uid, e);
	return r < 0 ? r : put_own_map("/proc/self/gid_map", plan->caller_gid, e);
}

/* They are made while the root is: ward's last message before the frames. */
static int enter_cgroups(struct kbox *b, int channel, struct err *e)
{
	int r = b->rooted || b->cg.kind == CGROUP_V1 ? cgroup_receive(&b->cg, channel, e) : 0;

	return r < 0 ? r : cgroup_settle(&b->cg, e);
}

static int become_root_inside(const struct kbox *b, struct err *e)
{
	gid_t none[1] = { 0 };
	int r = host_setids(0, 0, b->rooted ? none : NULL, 0);

	return r < 0 ? err_set(e, -r, "becoming root inside") : 0;
}

/* Our own pid namespace's proc, attached to nothing: what the host knows of guests' memory. */
static int open_proc(struct err *e)
{
	own_fd int fs = host_fsopen("proc");
	int fd = fs < 0 ? fs
			: host_fsmount(fs, WARD_MOUNT_ATTR_NOSUID | WARD_MOUNT_ATTR_NODEV |
						   WARD_MOUNT_ATTR_NOEXEC);

	return fd < 0 ? err_set(e, -fd, "mounting proc for the kernel process") : fd;
}

/* An empty root: nothing has a name any more. */
static int empty_root(struct err *e)
{
	int r = host_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);

	if (r == 0)
		r = host_mount("none", "/proc", "tmpfs",
			MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
			"size=4k,nr_inodes=2,mode=0555");
	if (r == 0)
		r = host_chdir("/proc");
	if (r == 0)
		r = host_pivot_root(".", ".");
	if (r == 0)
		r = host_umount(".", MNT_DETACH);
	if (r == 0)
		r = host_chdir("/");
	return r < 0 ? err_set(e, -r, "leaving the host's root") : 0;
}

struct boot {
	struct kbox *b;
	struct kernel *k;
	int channel, exe, proc;
	struct walker *walker; /* the test program's; NULL in ward */
};

/* An ordinary user's: from names of the host, while they are in sight. */
static int make_own_views(struct boot *boot, struct trail *t, struct err *e)
{
	struct kbox *b = boot->b;
	int r;

	trail_begin(t, STEP_HANDOVER);
	r = write_own_ids(b->box.plan, e);
	if (r == 0)
		r = become_root_inside(b, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_ROOT);
	r = kbox_views(b, -2, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_ATTACH);
	return enter_cgroups(b, boot->channel, e);
}

static int take_views(struct boot *boot, struct trail *t, struct err *e)
{
	int r;

	trail_begin(t, STEP_HANDOVER);
	r = kbox_receive(boot->b, boot->channel, e);
	return r < 0 ? r : become_root_inside(boot->b, e);
}

static int make_world(struct boot *boot, struct trail *t, struct err *e)
{
	struct kbox *b = boot->b;
	int r;

	/* As who ward is: it may lie where nobody else gets to. */
	boot->exe = host_open(AGENT_PROGRAM, O_RDONLY, 0);
	if (boot->exe < 0)
		return err_set(e, -boot->exe, "opening ward's own program");
	r = walker_open ? walker_open(&boot->walker, e) : 0;
	if (r == 0)
		r = new_namespaces(e);
	if (r == 0 && !b->rooted)
		r = make_own_views(boot, t, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_PROC);
	boot->proc = open_proc(e);
	if (boot->proc < 0)
		return boot->proc;
	r = engine_look(boot->k, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_PIVOT);
	r = empty_root(e);
	/* Only now: ward makes them meanwhile. */
	if (r == 0 && b->rooted)
		r = take_views(boot, t, e);
	if (r < 0)
		return r;
	host_move_mount(boot->proc, b->upper, ""); /* as the views do: handover.c */
	return 0;
}

static int set_limits(const struct kbox *b, struct err *e)
{
	static const struct {
		int what;
		rlim_t want;
		const char *name;
	} limits[] = {
		{ RLIMIT_CORE, 0, "core" },
		{ RLIMIT_NOFILE, GUEST_FDS_MAX, "nofile" },
		{ RLIMIT_MEMLOCK, 0, "memlock" },
		{ RLIMIT_MSGQUEUE, 0, "msgqueue" },
	};
	struct rlimit old;
	int r;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		rlim_t n = limits[i].want;

		if (getrlimit(limits[i].what, &old) < 0)
			return err_set(e, errno, "reading the %s limit", limits[i].name);
		if (n > old.rlim_max)
			n = old.rlim_max;
		if (limits[i].what == RLIMIT_NOFILE && n < FDS_LEAST)
			return err_say(e, EMFILE,
				"%u files may be open at once, and the kernel tier needs %d: raise "
				"the limit (ulimit -Hn)",
				(unsigned)n, FDS_LEAST);
		r = host_setrlimit(limits[i].what, &(struct rlimit){ n, n });
		if (r < 0)
			return err_set(e, -r, "setting the %s limit", limits[i].name);
	}
	if (!b->cg.pids_limited && b->box.plan->limits.pids && !b->rooted) {
		rlim_t n = b->box.plan->limits.pids + 64; /* ours: one thread per guest process */

		r = host_setrlimit(RLIMIT_NPROC, &(struct rlimit){ n, n });
		if (r < 0)
			return err_set(e, -r, "setting the process limit");
	}
	return 0;
}

/*
 * Files whose owner is a guest's user are not the kernel process's own, and whoever may read them
 * inside is for vfs/perm.c to say. A capability of its user namespace counts for those files alone
 * whose owner and group that namespace has: through an id-mapped view the template's and mounts',
 * never the host's own (adr/0016). So where there is nothing but the host's own, it has none. The
 * zygote gives it up before there is a guest.
 */
static uint64_t file_caps(const struct kbox *b)
{
	const struct plan *plan = b->box.plan; /* what its root is made of is not known here */
	uint64_t caps = CAP_BIT(CAP_DAC_READ_SEARCH);

	if (b->bind_count && !b->mount_count)
		return 0;

	for (unsigned i = 0; i < plan->mount_count; i++)
		if (plan->mounts[i].mode == MOUNT_RW)
			caps |= CAP_BIT(CAP_DAC_OVERRIDE) | CAP_BIT(CAP_FOWNER) |
				CAP_BIT(CAP_FSETID) | CAP_BIT(CAP_CHOWN);
	return caps;
}

/* What no process that is forked from here can ever have again. */
static int bound_caps(struct err *e)
{
	int r = host_prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);

	return r < 0 ? err_set(e, -r, "giving up new privileges") : jail_bound(0, e);
}

/* What it keeps; and one to enter the network with, which has no effect till then. */
static int drop_caps(const struct kbox *b, struct err *e)
{
	uint64_t caps = file_caps(b);
	int r = host_capset(caps, caps | CAP_BIT(CAP_SYS_ADMIN), 0);

	if (r == 0)
		r = host_prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	return r < 0 ? err_set(e, -r, "dropping capabilities") : 0;
}

static int join_network(const struct kbox *b, struct kernel *k, struct err *e)
{
	uint64_t caps = file_caps(b), all = caps | CAP_BIT(CAP_SYS_ADMIN);
	int r = host_capset(all, all, 0);

	if (r < 0)
		return err_set(e, -r, "taking a capability back");
	r = engine_join(k, e);
	if (r < 0)
		return r;
	r = host_capset(caps, caps, 0);
	return r < 0 ? err_set(e, -r, "dropping capabilities") : 0;
}

int kbox_tree(struct kbox *b, struct kernel *k, struct err *e)
{
	const struct plan *plan = b->box.plan;
	struct vfs_bind binds[KBOX_BINDS_MAX + MOUNTS_MAX];
	char names[KBOX_BINDS_MAX][16];
	struct vfs_setup setup = {
		.layers = b->lowers, .layer_count = b->lower_count, .binds = binds
	};
	unsigned n = 0;

	for (unsigned i = 0; bind_name(i) && n < b->bind_count; i++) {
		if (!(b->bind_bits & 1u << i))
			continue;
		if (str_fmt(names[n], sizeof(names[n]), "/%s", bind_name(i)) < 0)
			return err_say(e, ENAMETOOLONG, "a folder of the host template");
		binds[n] = (struct vfs_bind){ .fd = b->binds[n],
			.src = "host",
			.dst = names[n],
			.read_only = true,
			.host_owned = b->rooted };
		n++;
	}
	for (unsigned i = 0; i < b->mount_count; i++, n++)
		binds[n] = (struct vfs_bind){ .fd = b->mounts[i],
			.src = plan->mounts[i].src,
			.dst = plan->mounts[i].dst,
			.read_only = plan->mounts[i].mode == MOUNT_RO,
			.ids = b->rooted,
			.overlay = plan->mounts[i].mode == MOUNT_OVERLAY };
	setup.bind_count = n;
	k->store = b->upper;
	return vfs_init(k, &setup, e);
}

static int first_files(struct task *t, int channel)
{
	for (int i = 0; i < 3; i++) {
		struct file *f;
		int r = vfs_open(t, AT_FDCWD, "/dev/null", O_RDWR, 0, &f);

		if (r == 0)
			r = fd_install(t, f, false, 0);
		if (r < 0)
			return r;
	}
	struct file *f = channel_create(t->k, channel);

	return f ? fd_install(t, f, false, 0) : -ENOMEM;
}

static int first_task(struct boot *boot, struct err *e)
{
	struct kernel *k = boot->k;
	struct mm *mm = calloc(1, sizeof(*mm));
	struct task *t;
	int r;

	if (!mm)
		return err_set(e, ENOMEM, "making the first task");
	mm->refs = 1;
	mm->ops = &host_mm_ops;
	t = proc_first(k, mm);
	if (!t)
		return err_set(e, ENOMEM, "making the first task");
	t->fs = vfs_first_ctx(k);
	r = t->fs ? first_files(t, boot->channel) : -ENOMEM;
	return r < 0 ? err_set(e, -r, "opening the first files") : 0;
}

/*
 * The host makes a process's table of descriptors longer when it is full, and where threads share
 * it waits for a grace period first: 8 ms in the middle of a program's start. Alone there is nobody
 * to wait for. A limit that is lower only means that it happens later.
 */
static void grow_table(int fd)
{
	own_fd int far = fcntl(fd, F_DUPFD_CLOEXEC, TABLE_FDS - 1);

	(void)far;
}

static int start_kernel(struct boot *boot, struct err *e)
{
	struct kbox *b = boot->b;
	struct kernel *k = boot->k;
	int r;

	k->report = b->report;
	k->no_loopback = b->box.plan->net == NET_NONE;
	r = kernel_init(k);
	if (r < 0)
		return err_set(e, -r, "making the kernel's tables");
	str_copy(k->hostname, sizeof(k->hostname), b->box.plan->hostname);
	k->memory_limit = b->box.plan->limits.memory_bytes;
	k->host_proc = boot->proc;
	/* Guests are forked from here: they must be ours to read, which a change of ids undid. */
	r = host_prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	return r < 0 ? err_set(e, -r, "becoming readable") : engine_start(k, e);
}

static int lock_down(struct boot *boot, struct trail *t, struct err *e)
{
	struct kbox *b = boot->b;
	struct kernel *k = boot->k;
	int r;

	trail_begin(t, STEP_RLIMITS);
	r = set_limits(b, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_CAPS);
	r = bound_caps(e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_AGENT);
	r = start_kernel(boot, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_ATTACH);
	if (b->rooted)
		r = enter_cgroups(b, boot->channel, e);
	if (r == 0)
		r = engine_go(k, &b->cg, e);
	if (r < 0)
		return r;
	grow_table(boot->channel);
	trail_begin(t, STEP_CAPS);
	r = drop_caps(b, e);
	if (r == 0 && walker_start)
		r = walker_start(boot->walker, k, b, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_MOUNTS);
	r = kbox_tree(b, k, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_AGENT);
	r = box_send_ready(boot->channel, -1, b->rooted ? -1 : b->upper, e);
	if (r == 0)
		r = first_task(boot, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_UNSHARE);
	r = join_network(b, k, e);
	if (r < 0)
		return r;
	trail_begin(t, STEP_SECCOMP);
	return kernel_jail(e);
}

static enum kernel_fast fast_of(const char *s)
{
	return !s                   ? FAST_CARRY
	       : str_eq(s, "off")   ? FAST_OFF
	       : str_eq(s, "place") ? FAST_PLACE
	       : str_eq(s, "lend")  ? FAST_LEND
	       : str_eq(s, "later") ? FAST_LATER
				    : FAST_CARRY;
}

/* Nothing of ward's is left open but the channel; 0 to 2 lead nowhere. (A sanitizer is heard.) */
static int only_channel(struct boot *boot, int channel, struct err *e)
{
	int null, r;

	if (dup2(channel, CHANNEL_FD) != CHANNEL_FD)
		return err_set(e, errno, "keeping the agent's channel");
	null = open("/dev/null", O_RDWR); /* only now: it must not have the channel's number */
	if (null < 0)
		return err_set(e, errno, "opening /dev/null");
	for (int i = 0; i < (SANITIZED ? 2 : 3); i++)
		dup2(null, i);
	r = host_close_from(CHANNEL_FD + 1);
	if (r < 0)
		return err_set(e, -r, "closing what is ward's own");
	fcntl(CHANNEL_FD, F_SETFD, FD_CLOEXEC);
	boot->channel = CHANNEL_FD;
	return 0;
}

void kbox_first(struct box *box, int channel)
{
	struct kbox *b = kbox_of(box);
	struct trail *t = (struct trail *)b->box.shared;
	struct boot boot = { .b = b, .channel = channel, .exe = -1, .proc = -1 };
	struct pid1 pid1;
	struct err e = { 0 };
	int r;

	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	/* The keys of ward's terminal are ward's business: guests are in no group that they reach.
	 */
	setsid();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a limit of the caller's is an error, not everybody's end */
	signal(SIGCHLD, SIG_IGN);
	umask(0);
	trail_begin(t, STEP_UNSHARE);
	r = only_channel(&boot, channel, &e);
	boot.k = calloc(1, sizeof(*boot.k));
	if (boot.k)
		boot.k->fast = fast_of(getenv("WARD_KERNEL_FAST"));
	if (r == 0)
		r = boot.k ? make_world(&boot, t, &e) : err_set(&e, ENOMEM, "making the kernel");
	if (r == 0)
		r = lock_down(&boot, t, &e);
	if (r < 0) {
		e.code = e.code ? e.code : -r;
		trail_fail(t, &e);
		_exit(125);
	}
	box_forget_arguments(b->box.plan);
	pid1 = (struct pid1){ .k = boot.k,
		.trail = t,
		.exe = boot.exe,
		.channel = boot.channel,
		.alone = boot.walker != NULL };
	kernel_lock(boot.k);
	pid1_begin(&pid1);
	trap_thread(engine_of(boot.k)); /* if there is none then either, that is said then */
	engine_end(boot.k);
	engine_loop(boot.k);
}
