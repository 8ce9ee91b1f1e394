/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/tier.c - the vm tier: a machine of its own, on KVM, behind a jailed monitor.
 *
 * Owns:  the life of a struct vmbox, from ward's side.
 * Rules: everything that has a name on the host is opened here; the monitor gets descriptors.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <linux/sched.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/first.h"
#include "tier/vm/gmem.h"
#include "tier/vm/vm.h"

static struct vmbox *vm_of(struct box *box)
{
	return (struct vmbox *)box;
}

static void close_if(int fd)
{
	if (fd >= 0)
		close(fd);
}

static int open_kvm(int *ret, struct err *e)
{
	int fd = host_open("/dev/kvm", O_RDWR, 0);

	if (fd < 0)
		return err_set(e, -fd,
			"opening /dev/kvm (the vm tier needs hardware virtualization and the right "
			"to use it)");
	*ret = fd;
	return 0;
}

static int vm_probe(struct err *e)
{
	own_fd int kvm = -1;

	return open_kvm(&kvm, e);
}

static int vm_ready(const char *state_dir, struct err *e)
{
	char dir[WARD_PATH_MAX];
	own_fd int kernel = -1;

	if (access("/dev/kvm", R_OK | W_OK) < 0)
		return err_set(e, errno, "/dev/kvm");
	return kernel_default(state_dir, dir, &kernel, e);
}

static int vm_prove(const char *state_dir, unsigned timeout_ms, struct err *e)
{
	char dir[WARD_PATH_MAX];
	own_fd int kvm = -1;
	int r = kernel_dir(state_dir, dir, e);

	if (r == 0)
		r = open_kvm(&kvm, e);
	if (r == 0)
		r = vm_trial(dir, kvm, timeout_ms, e);
	return r < 0 ? err_wrap(e, r, "the default guest kernel") : 0;
}

/* A guest reaches none of them; what its monitor may still ask for is the filter's list. */
static void vm_calls(unsigned *ret_guest, unsigned *ret_own)
{
	*ret_guest = 0;
	*ret_own = filter_calls();
}

static void vm_stop(struct box *box);

static int open_kernel(struct vmbox *v, struct err *e)
{
	struct order *o = &v->order;
	int r = kernel_default(v->box.plan->state_dir, v->kernel_dir, &o->fds[ORDER_KERNEL], e);

	if (r == 0)
		r = kernel_cpu_template(v->kernel_dir, &o->plain_fpu, &o->acpi, e);
	return r;
}

/* For reading, whatever the caller's own may do. */
static int open_memory(struct vmbox *v, struct err *e)
{
	char path[64];
	int fd = str_fmt(path, sizeof(path), "/proc/self/fd/%d", v->box.plan->from->memory);

	if (fd == 0)
		fd = host_open(path, O_RDONLY, 0);
	if (fd < 0)
		return err_set(e, -fd, "opening the snapshot's memory for reading");
	v->order.fds[ORDER_MEMORY] = fd;
	return 0;
}

/* A copy has the memory and the CPUs of what it goes on from. */
static int read_snapshot(struct vmbox *v, struct err *e)
{
	const struct plan_limits *limits = &v->box.plan->limits;
	int r = snapfile_read(v->box.plan->from, &v->from, &v->state, e);

	if (r < 0)
		return r;
	if (limits->memory_asked &&
		limits->memory_bytes / GMEM_PAGE * GMEM_PAGE != v->from.memory_bytes)
		return err_say(e, EINVAL,
			"the snapshot has %llu MiB of memory, and a copy cannot have another size",
			(unsigned long long)(v->from.memory_bytes >> 20));
	v->outer.limits.memory_bytes = v->from.memory_bytes + VM_MONITOR_MEMORY;
	/* Who gave us a file that we may write wants it noted there. */
	if (!touched_read(v->box.plan->from->state, &v->from, &v->touched))
		v->order.notes_touched =
			(fcntl(v->box.plan->from->state, F_GETFL) & O_ACCMODE) == O_RDWR;
	return open_memory(v, e);
}

static struct vmbox *vm_new(const struct plan *plan)
{
	struct vmbox *v = calloc(1, sizeof(*v));

	if (!v)
		return NULL;
	box_init(&v->box, &tier_vm, plan);
	cgroup_init(&v->cg);
	v->box.bytes_only = true;
	v->waits = plan->waits;
	v->kvm = v->vsock.fd = v->control = v->keeper = v->control_end = v->keeper_end = -1;
	memset(v->order.fds, -1, sizeof(v->order.fds));
	return v;
}

/* What its first process needs, and what it will make. */
static int plan_process(struct vmbox *v, struct err *e)
{
	int r = cgroup_plan(&v->cg, &v->outer, e);

	/* There is nobody yet to ask whether it may do without. */
	if (r == 0 && v->waits && v->cg.kind == CGROUP_NONE)
		r = err_say(e, EOPNOTSUPP, "a machine made ahead needs a cgroup");
	if (r == 0)
		r = open_kvm(&v->kvm, e);
	if (r == 0)
		first_list_cgroups(&v->box, &v->cg);
	return r;
}

/* What the plan says of the machine itself. */
static int plan_machine(struct vmbox *v, struct err *e)
{
	const struct plan *plan = v->box.plan;
	int r = plan->from ? 0 : open_kernel(v, e);

	if (r == 0 && plan->cpu_template &&
		cpu_template_find(plan->cpu_template, &v->order.cpu) < 0)
		r = err_say(e, EINVAL, "there is no CPU template '%s'", plan->cpu_template);
	return r;
}

static int vm_prepare(
	const struct plan *plan, struct trail *trail, struct box **ret_box, struct err *e)
{
	struct vmbox *v = plan->ahead ? vm_of(plan->ahead) : vm_new(plan);
	int r = 0;

	if (!v)
		return err_set(e, ENOMEM, "preparing the sandbox");
	v->box.plan = plan;
	v->outer = *plan;
	v->outer.limits.memory_bytes +=
		plan->limits.memory_bytes || plan->waits ? VM_MONITOR_MEMORY : 0;
	v->outer.limits.pids = VM_MONITOR_TASKS + 32;
	trail_begin(trail, STEP_CGROUP);
	if (plan->keep)
		r = err_say(e, EOPNOTSUPP,
			"--keep is not supported by the vm tier: what a machine wrote ends with "
			"it; use "
			"--tier container");
	if (r == 0 && plan->from)
		r = read_snapshot(v, e);
	if (r == 0 && !plan->ahead)
		r = plan_process(v, e);
	if (r == 0 && !plan->waits)
		r = plan_machine(v, e);
	if (r < 0) {
		vm_stop(&v->box);
		return r;
	}
	*ret_box = &v->box;
	return 0;
}

static int clone_monitor(struct vmbox *v, struct err *e)
{
	int control[2] = { -1, -1 }, keeper[2] = { -1, -1 }, room = VM_CONTROL_ROOM;
	int r = host_socketpair(SOCK_STREAM, keeper);

	if (r == 0)
		r = host_socketpair(SOCK_SEQPACKET, control);
	v->keeper = keeper[0];
	v->control = control[0];
	v->keeper_end = keeper[1];
	v->control_end = control[1];
	/* A snapshot is many messages: so that the two need not take turns for each. Who may not
	 * have that much room gets what there is. */
	if (r == 0 && setsockopt(control[1], SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)) < 0)
		setsockopt(control[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
	if (r < 0)
		r = err_set(e, -r, "making the monitor's sockets");
	else
		r = first_clone(
			&v->box, &v->cg, CLONE_NEWPID, monitor_main, "starting the monitor", e);
	close_if(take_fd(&v->keeper_end));
	close_if(take_fd(&v->control_end));
	return r;
}

/* The wall around it: its cgroup, with what it may use from now on. */
static int vm_limit(struct vmbox *v, struct trail *trail, struct err *e)
{
	int r;

	trail_begin(trail, STEP_CGROUP);
	if (v->box.plan->ahead)
		return cgroup_set_limits(&v->cg, &v->outer.limits, e);
	r = cgroup_make(&v->cg, &v->outer, e);
	if (r == 0)
		v->box.fds.oom = take_fd(&v->cg.oom);
	return r;
}

/* Opens what the machine is made of. */
static int vm_gather(struct vmbox *v, struct err *e)
{
	const struct plan *plan = v->box.plan;
	int *fds = v->order.fds, r;

	if (v->state && (plan->mount_count || plan->tap))
		return err_say(e, EOPNOTSUPP,
			"what goes on from a snapshot takes no --mount and no --tap");
	if (v->state) {
		memcpy(v->image, v->from.image, sizeof(v->image));
		r = rootfs_reopen(plan->state_dir, v->image, &fds[ORDER_ROOT], e);
	} else {
		r = rootfs_open(plan, v->image, &fds[ORDER_ROOT], e);
		if (r == 0)
			r = mounts_open(plan, fds + ORDER_MOUNTS, e);
		if (r == 0)
			r = initramfs_make(v->kernel_dir, plan, &fds[ORDER_INITRD], e);
	}
	if (r == 0 && plan->tap)
		r = tap_open(plan->tap, &fds[ORDER_TAP], e);
	if (r == 0 && plan->vsock)
		r = hostsock_open(plan->vsock, &v->vsock, e);
	fds[ORDER_VSOCK] = take_fd(&v->vsock.fd);
	return r < 0 ? r : order_fill(v, e);
}

static int vm_start(struct box *box, struct trail *trail, struct err *e)
{
	struct vmbox *v = vm_of(box);
	int r = mounts_check(box->plan, e);

	if (r == 0)
		r = vm_limit(v, trail, e);
	if (r == 0 && !box->plan->waits) {
		trail_begin(trail, STEP_TREE);
		r = vm_gather(v, e);
	}
	if (r < 0)
		return r;
	trail_begin(trail, STEP_CLONE);
	r = box->plan->ahead ? order_send(v, e) : clone_monitor(v, e);
	if (r < 0 || box->plan->waits)
		return r;
	v->waits = false;
	return v->state ? steer_renew(v, e) : 0;
}

static void vm_kill(struct box *box)
{
	first_kill(box, NULL);
}

static void vm_measure(struct box *box, struct usage *usage)
{
	cgroup_usage(&vm_of(box)->cg, box->plan->report, usage);
}

static void vm_stop(struct box *box)
{
	struct vmbox *v = vm_of(box);

	vm_kill(box);
	first_reap(box);
	if (!cgroup_drop(&v->cg))
		box_left(box);
	close_if(v->kvm);
	close_if(v->control);
	close_if(v->keeper);
	free(v->state);
	order_close(&v->order);
	hostsock_remove(box->plan->vsock, &v->vsock);
	box_done(box);
	free(v);
}

static int vm_pause(struct box *box, void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	return steer_pause(vm_of(box), meanwhile, arg, e);
}

static int vm_resume(struct box *box, struct err *e)
{
	return steer_resume(vm_of(box), e);
}

static int vm_snapshot(struct box *box, const struct snap *into, unsigned flags,
	void (*meanwhile)(void *arg), void *arg, struct err *e)
{
	return steer_snapshot(vm_of(box), into, flags, meanwhile, arg, e);
}

static int vm_set_limits(struct box *box, const struct plan_limits *limits, struct err *e)
{
	struct vmbox *v = vm_of(box);
	struct plan_limits outer = *limits;
	uint64_t now = v->outer.limits.memory_bytes;
	int r = 0;

	if (limits->pids)
		return err_say(e, EOPNOTSUPP,
			"a running machine's process limit cannot change; its memory and cpus can");
	if (limits->memory_bytes > v->order.memory_bytes)
		return err_say(e, EOPNOTSUPP,
			"the machine has %llu MiB of memory, and cannot get more while it runs",
			(unsigned long long)v->order.memory_bytes >> 20);
	outer.memory_bytes += limits->memory_bytes ? VM_MONITOR_MEMORY : 0;
	/* Less: the guest gives it up before the wall moves. More: the other way round. */
	if (outer.memory_bytes && outer.memory_bytes < now)
		r = steer_memory(v, limits->memory_bytes, e);
	if (r == 0)
		r = cgroup_set_limits(&v->cg, &outer, e);
	if (r == 0 && outer.memory_bytes > now)
		r = steer_memory(v, limits->memory_bytes, e);
	if (r == 0 && outer.memory_bytes)
		v->outer.limits.memory_bytes = outer.memory_bytes;
	return r;
}

static void vm_usage_now(struct box *box, struct usage_now *usage)
{
	struct vmbox *v = vm_of(box);
	struct err ignored = { 0 };

	/* The first time that somebody looks, when it has long been ready. A hint, no more. */
	if (v->order.notes_touched)
		steer_note_touched(v, &ignored);
	v->order.notes_touched = false;
	cgroup_usage_now(&v->cg, usage);
}

const struct tier_ops tier_vm = {
	.name = "vm",
	.what = "a virtual machine on KVM, behind a jailed monitor",
	.wall = WALL_VM,
	.waits = true,
	.probe = vm_probe,
	.ready = vm_ready,
	.prove = vm_prove,
	.calls = vm_calls,
	.prepare = vm_prepare,
	.start = vm_start,
	.kill = vm_kill,
	.measure = vm_measure,
	.pause = vm_pause,
	.resume = vm_resume,
	.snapshot = vm_snapshot,
	.set_limits = vm_set_limits,
	.usage_now = vm_usage_now,
	.stop = vm_stop,
};
