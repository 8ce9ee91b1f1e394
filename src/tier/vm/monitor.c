/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/monitor.c - the first process of a vm sandbox: a jailed monitor around one machine.
 *
 * Owns:  the machine and its devices.
 * Rules: a copy of ward's memory, like the container's first process: every step that fails ends
 *        it, and the trail says which. When the first guest instruction runs it has no name of any
 *        file, no network, no privilege, and descriptors of nothing but the machine and its
 * channel.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "proto/keeper.h"
#include "tier/fds.h"
#include "tier/vm/console.h"
#include "tier/vm/control.h"
#include "tier/vm/machine.h"
#include "tier/vm/virtio/balloon.h"
#include "tier/vm/virtio/block.h"
#include "tier/vm/virtio/net.h"
#include "tier/vm/virtio/rng.h"
#include "tier/vm/virtio/vsock.h"
#include "tier/vm/vm.h"

struct monitor {
	struct vmbox *v;
	struct order order;     /* what machine this is to be */
	void *state;            /* what it goes on from; NULL: it boots */
	struct touched touched; /* and what of it is needed first, if known */
	struct trail *trail;
	struct machine machine;
	struct disk disk, mount_disks[VM_MOUNTS_MAX];
	struct block block, mount_blocks[VM_MOUNTS_MAX];
	struct rng rng;
	struct vsock vsock;
	struct balloon balloon;
	struct net net;
	int channel; /* -1: the agent has it */
	int keeper;  /* the same */
	struct control control;
	bool ready, late;
	struct watch boot_watch; /* on a timer: the guest should have come up by then */
	struct console console;
};

static void fail(struct monitor *m, int r, struct err *e) __attribute__((noreturn));
static void fail(struct monitor *m, int r, struct err *e)
{
	e->code = e->code ? e->code : -r;
	trail_fail(m->trail, e);
	_exit(125);
}

static void must(struct monitor *m, int r, struct err *e)
{
	if (r < 0)
		fail(m, r, e);
}

/* --- What the guest reaches --------------------------------------------------------------------
 */

static void on_console(void *arg, uint8_t byte)
{
	console_byte(&((struct monitor *)arg)->console, byte);
}

static int guard_cpu(void *arg, struct err *e)
{
	(void)arg;
	return filter_load(FILTER_CPU, e);
}

/* The agent calls, once on each of two ports. Nothing else of the host has one. */
static int on_dial(void *arg, uint32_t port)
{
	struct monitor *m = arg;
	struct err e = { 0 };

	if (port == KEEPER_PORT && m->keeper >= 0)
		return take_fd(&m->keeper);
	if (port != VM_AGENT_PORT || m->channel < 0)
		return -ECONNREFUSED;
	trail_begin(m->trail, STEP_RUN); /* whoever hears of it may look */
	if (box_send_ready(m->channel, -1, -1, &e) < 0)
		return -ECONNREFUSED;
	m->ready = true;
	if (m->order.notes_touched)
		control_note_touched(&m->control);
	return take_fd(&m->channel);
}

static uint64_t boot_ms(const struct monitor *m)
{
	return m->order.boot_ms ? m->order.boot_ms : VM_BOOT_MS;
}

/* A kernel that hangs, or one that is not a kernel at all, would stay for ever. */
static void on_boot_over(void *arg, uint32_t events)
{
	struct monitor *m = arg;

	(void)events;
	watches_change(&m->machine.events, &m->boot_watch, 0);
	if (m->ready)
		return;
	m->late = true;
	machine_stop(&m->machine);
}

/* Before the filter, behind which nothing can be made. */
static void limit_boot(struct monitor *m)
{
	uint64_t ms = boot_ms(m);
	struct itimerspec once = { .it_value = { .tv_sec = (time_t)(ms / 1000),
					   .tv_nsec = (long)(ms % 1000) * 1000000 } };
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	struct err e = { 0 };

	if (fd < 0 || timerfd_settime(fd, 0, &once, NULL) < 0)
		must(m, err_set(&e, errno, "a timer for the guest's start"), &e);
	m->boot_watch = (struct watch){ .fd = -1, .fn = on_boot_over, .arg = m };
	must(m, watches_add(&m->machine.events, &m->boot_watch, fd, EPOLLIN, &e), &e);
}

static void add_device(struct monitor *m, struct vdev *dev)
{
	struct err e = { 0 };

	must(m, machine_attach(&m->machine, dev, &e), &e);
}

static struct machine_device *next_place(struct monitor *m)
{
	return machine_place(&m->machine, m->machine.device_count);
}

static void limit_disk(struct monitor *m, struct block *b)
{
	const struct order *o = &m->order;
	struct err e = { 0 };

	if (o->io_rate[0])
		must(m, block_limit(b, o->io_rate[0], o->io_rate[1], &m->machine.events, &e), &e);
}

/* After the root, so that theirs are the later names; ward-init goes by the ids. */
static void add_mounts(struct monitor *m)
{
	const int *fds = m->order.fds + ORDER_MOUNTS;
	struct err e = { 0 };
	char id[BLOCK_ID_BYTES];

	for (unsigned i = 0; i < VM_MOUNTS_MAX && fds[i] >= 0; i++) {
		must(m, disk_open(&m->mount_disks[i], fds[i], -1, true, &e), &e);
		must(m, str_fmt(id, sizeof(id), "mount%u", i), &e);
		block_init(&m->mount_blocks[i], &m->mount_disks[i], id, false, &m->machine.mem,
			machine_raise, next_place(m));
		limit_disk(m, &m->mount_blocks[i]);
		add_device(m, &m->mount_blocks[i].dev);
	}
}

static void add_card(struct monitor *m)
{
	const struct order *o = &m->order;
	uint8_t mac[NET_MAC_BYTES];
	struct err e = { 0 };

	tap_mac(o->id, mac);
	must(m,
		net_init(&m->net, o->fds[ORDER_TAP], mac, &m->machine.events, &m->machine.mem,
			machine_raise, next_place(m), &e),
		&e);
	if (o->net_rate[0])
		must(m, net_limit(&m->net, o->net_rate[0], o->net_rate[1], &e), &e);
	add_device(m, &m->net.dev);
}

/* What no order changes: a machine without memory, with what every machine has: one CPU, and places
 * for the devices of make_machine(): root, rng, vsock, balloon. */
static void open_machine(struct monitor *m)
{
	static const unsigned queues[] = { 1, 1, 3, 3 };
	struct machine_config c = {
		.kvm = m->v->kvm, .cpus = 1, .console = on_console, .guard = guard_cpu, .arg = m
	};
	struct err e = { 0 };

	must(m, machine_open(&m->machine, &c, &e), &e);
	for (unsigned i = 0; i < ARRAY_LEN(queues); i++)
		must(m, machine_reserve(&m->machine, queues[i], &e), &e);
	control_open(&m->control);
}

static void make_machine(struct monitor *m)
{
	const struct order *o = &m->order;
	struct machine_config c = { .memory_bytes = o->memory_bytes,
		.memory_kind = m->state ? GMEM_COPY : GMEM_ANON,
		.memory_file = o->fds[ORDER_MEMORY],
		.cpus = o->cpus,
		.cpu = o->cpu,
		.plain_fpu = o->plain_fpu };
	struct gmem *mem = &m->machine.mem;
	struct err e = { 0 };

	must(m, machine_fill(&m->machine, &c, &e), &e);
	must(m, disk_open(&m->disk, o->fds[ORDER_ROOT], -1, true, &e), &e);
	block_init(&m->block, &m->disk, "root", false, mem, machine_raise, next_place(m));
	limit_disk(m, &m->block);
	add_device(m, &m->block.dev);
	rng_init(&m->rng, mem, machine_raise, next_place(m));
	must(m, rng_limit(&m->rng, RNG_BYTES_S, RNG_OPS_S, &m->machine.events, &e), &e);
	add_device(m, &m->rng.dev);
	vsock_init(&m->vsock, VM_CID, &m->machine.events, on_dial, m, mem, machine_raise,
		next_place(m));
	if (o->fds[ORDER_VSOCK] >= 0)
		must(m, vsock_listen(&m->vsock, o->fds[ORDER_VSOCK], &e), &e);
	add_device(m, &m->vsock.dev);
	balloon_init(&m->balloon, mem, machine_raise, next_place(m));
	add_device(m, &m->balloon.dev);
	add_mounts(m);
	if (o->fds[ORDER_TAP] >= 0)
		add_card(m);
	limit_boot(m);
}

static void load_guest(struct monitor *m)
{
	struct boot_request q = { .kernel = m->order.fds[ORDER_KERNEL],
		.initrd = m->order.fds[ORDER_INITRD],
		.cmdline = m->order.line,
		.acpi = m->order.acpi,
		.serial = true };
	struct err e = { 0 };

	must(m, machine_boot(&m->machine, &q, &e), &e);
}

/* On v2 it was born inside. */
static int enter_cgroups(const struct vmbox *v, struct err *e)
{
	int tasks[CGROUP_PARTS];
	unsigned n = 0;

	for (int i = 0; i < CGROUP_PARTS; i++)
		if (v->cg.kind == CGROUP_V1 && v->cg.tasks[i] >= 0)
			tasks[n++] = v->cg.tasks[i];
	return cgroup_enter(tasks, n, e);
}

static void close_if(int *fd)
{
	if (*fd >= 0)
		close(take_fd(fd));
}

/* --- The jail --------------------------------------------------------------------------------- */

/* What it does not need any more. The file under a copy's memory is control.c's. */
static void close_rest(struct monitor *m)
{
	struct order *o = &m->order;

	close_if(&m->v->kvm);
	close_if(&o->fds[ORDER_KERNEL]);
	close_if(&o->fds[ORDER_INITRD]);
	for (int i = 0; i < 3; i++)
		close(i);
}

static void lock_down(struct monitor *m)
{
	struct err e = { 0 };

	for (unsigned i = 0; i < CGROUP_PARTS; i++)
		close_if(&m->v->cg.tasks[i]);
	must(m, vmjail_enter(m->trail, m->v->box.plan->id_base, &e), &e);
}

/* Jailed already: what the state says is as hostile as the guest that it was. */
static void load_state(struct monitor *m)
{
	struct err e = { 0 };

	touched_fetch(&m->touched, &m->machine.mem);
	must(m, machine_load(&m->machine, m->state, m->order.state_bytes, &e), &e);
	free(m->state);
	/* The other ends of its connections are another machine's. */
	vsock_drop_all(&m->vsock, true);
}

/* A clone has all that ward had open; of that it keeps what a machine is made of. */
static void keep_only(const struct vmbox *v, int channel, struct monitor *m)
{
	int keep[4 + ORDER_FDS + CGROUP_PARTS] = { channel, v->keeper_end, v->control_end, v->kvm };
	unsigned n = 4;
	struct err e = { 0 };

	fds_add(keep, &n, v->order.fds, ORDER_FDS);
	fds_add(keep, &n, v->cg.tasks, CGROUP_PARTS);
	must(m, vmjail_keep_only(keep, n, &e), &e);
}

/* Somebody else's log is none of its business while it waits, which may be long. */
static void forget_stdio(struct monitor *m)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct err e = { 0 };

	for (int i = 0; null >= 0 && i < 3; i++)
		if (dup2(null, i) < 0)
			must(m, err_set(&e, errno, "letting go of stdio"), &e);
	if (null < 0)
		must(m, err_set(&e, errno, "opening /dev/null"), &e);
	close(null);
}

/* Jailed, with a machine that has nothing in it. The first CPU's thread is there and locked up. */
static void wait_for_order(struct monitor *m)
{
	static const char waits[] = { BOX_WAITS };
	struct err e = { 0 };
	int r;

	must(m, machine_arm(&m->machine, &e), &e);
	trail_begin(m->trail, STEP_HANDOVER);
	if (send(m->channel, waits, sizeof(waits), MSG_NOSIGNAL) != (ssize_t)sizeof(waits))
		_exit(0);
	r = order_receive(m->v->control_end, &m->order, &m->state, &m->touched, &e);
	if (r == -ENOTCONN)
		_exit(0); /* ward has gone, or does not need it */
	must(m, r, &e);
}

/* The guest is over, and nobody asked for that. The console's words are the guest's own. */
static void tell_end(struct monitor *m) __attribute__((noreturn));
static void tell_end(struct monitor *m)
{
	const char *how =
		m->ready ? "the guest ended by itself" : "the guest ended before its agent came up";
	struct err e = { 0 };

	if (m->late)
		err_say(&e, ETIMEDOUT,
			"the guest did not come up within %llu s (--boot-timeout); console: %s",
			(unsigned long long)boot_ms(m) / 1000, console_words(&m->console));
	else
		err_say(&e, EIO, "%s: %s; console: %s", how, m->machine.why,
			console_words(&m->console));
	fail(m, -EIO, &e);
}

void monitor_main(struct box *box, int channel)
{
	struct vmbox *v = (struct vmbox *)box;
	struct monitor *m = calloc(1, sizeof(*m));
	struct err e = { 0 };

	if (!m)
		_exit(125); /* nothing was begun; the trail says nothing */
	m->v = v;
	m->trail = (struct trail *)v->box.shared;
	m->order = v->order;
	m->state = v->state;
	m->touched = v->touched;
	m->channel = channel;
	m->keeper = v->keeper_end;
	keep_only(v, channel, m);
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	trail_begin(m->trail, STEP_ATTACH);
	must(m, enter_cgroups(v, &e), &e);
	if (v->waits)
		forget_stdio(m);
	trail_begin(m->trail, STEP_MACHINE);
	open_machine(m);
	box_forget_arguments(v->box.plan);
	lock_down(m);
	if (v->waits)
		wait_for_order(m);
	trail_begin(m->trail, STEP_MACHINE);
	make_machine(m);
	must(m,
		control_init(
			&m->control, &m->machine, v->control_end, m->order.fds[ORDER_MEMORY], &e),
		&e);
	m->control.balloon = &m->balloon;
	if (m->state)
		load_state(m);
	else
		load_guest(m);
	close_rest(m);
	trail_begin(m->trail, STEP_SECCOMP);
	must(m, machine_arm(&m->machine, &e), &e);
	must(m, filter_load(FILTER_DEVICES, &e), &e);
	trail_begin(m->trail, STEP_AGENT);
	must(m, machine_run(&m->machine, &e), &e);
	tell_end(m);
}
