/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/machine.c - a virtual machine, from the first ioctl to the last thread.
 *
 * Owns:  the VM's descriptor, memory, vCPUs and eventfds; the thread of machine_run() serves
 * devices. Rules: one lock for registers, queues and ends. No device waits while it holds it. There
 * is no PIT: the guests that we boot have TSC-deadline timers and kvmclock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <linux/kvm.h>

#include "base/ckd.h"
#include "base/own.h"
#include "tier/vm/machine.h"

enum {
	API_VERSION = 12,
	NOTIFY_OFFSET = 0x50,
	LAST_ROUNDS = 16, /* of events, after the last instruction */
};
#define TSS_AT 0xfffbd000ul

static const struct {
	int cap;
	const char *name;
} needed[] = {
	{ KVM_CAP_IRQCHIP, "IRQCHIP" },
	{ KVM_CAP_IOEVENTFD, "IOEVENTFD" },
	{ KVM_CAP_IRQFD, "IRQFD" },
	{ KVM_CAP_USER_MEMORY, "USER_MEMORY" },
	{ KVM_CAP_SET_TSS_ADDR, "SET_TSS_ADDR" },
	{ KVM_CAP_EXT_CPUID, "EXT_CPUID" },
	{ KVM_CAP_MP_STATE, "MP_STATE" },
	{ KVM_CAP_IMMEDIATE_EXIT, "IMMEDIATE_EXIT" },
};

static int check_kvm(struct machine *m, struct err *e)
{
	int v = ioctl(m->kvm, KVM_GET_API_VERSION, 0);

	if (v != API_VERSION)
		return err_say(e, EOPNOTSUPP, "KVM has API version %d, not %d", v, API_VERSION);
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (ioctl(m->kvm, KVM_CHECK_EXTENSION, (long)needed[i].cap) <= 0)
			return err_say(e, EOPNOTSUPP, "this KVM has no %s", needed[i].name);
	v = ioctl(m->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (v < (int)sizeof(struct kvm_run))
		return err_set(e, v < 0 ? errno : EPROTO, "KVM's size of a CPU");
	m->run_bytes = (size_t)v;
	return 0;
}

static int give_memory(struct machine *m, struct err *e)
{
	for (unsigned i = 0; i < m->mem.count; i++) {
		struct kvm_userspace_memory_region slot = {
			.slot = i,
			.guest_phys_addr = m->mem.regions[i].base,
			.memory_size = m->mem.regions[i].size,
			.userspace_addr = (uint64_t)(uintptr_t)m->mem.regions[i].host,
		};

		if (ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, &slot) < 0)
			return err_set(e, errno, "giving the guest its memory");
	}
	return 0;
}

/* An eventfd that raises @gsi when it is written to. */
static int make_line(struct machine *m, uint32_t gsi, int *ret, struct err *e)
{
	own_fd int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct kvm_irqfd irq = { .fd = (uint32_t)fd, .gsi = gsi };

	if (fd < 0)
		return err_set(e, errno, "an event for interrupt %u", gsi);
	if (ioctl(m->vm, KVM_IRQFD, &irq) < 0)
		return err_set(e, errno, "joining interrupt %u to its event", gsi);
	*ret = take_fd(&fd);
	return 0;
}

static void ring(int fd)
{
	uint64_t one = 1;

	/* Full means that it is rung already. */
	if (fd >= 0 && write(fd, &one, sizeof(one)) < 0 && errno != EAGAIN)
		abort();
}

static void raise_serial(void *arg)
{
	ring(((struct machine *)arg)->serial_line);
}

static void raise_keyboard(void *arg)
{
	ring(((struct machine *)arg)->keyboard_line);
}

static void console_byte(void *arg, uint8_t byte)
{
	struct machine *m = arg;

	if (m->console)
		m->console(m->arg, byte);
}

static void drain(int fd)
{
	uint64_t n;

	while (read(fd, &n, sizeof(n)) < 0 && errno == EINTR)
		;
}

static void on_wakeup(void *arg, uint32_t events)
{
	(void)events;
	drain(((struct machine *)arg)->wakeup); /* machine_run() looks for itself */
}

/* Before anything else: from Linux 6.13 on, KVM knows no MSR that CPUID does not have. */
static int set_cpuids(struct machine *m, const struct machine_config *c, struct err *e)
{
	int r;

	free(m->cpuid);
	m->cpuid = NULL;
	m->cpu = c->cpu;
	m->plain_fpu = c->plain_fpu;
	r = cpuid_read(m->kvm, c->cpu, c->plain_fpu, &m->cpuid, e);
	for (unsigned i = 0; r == 0 && i < m->cpus; i++)
		r = cpuid_set(m->vcpus[i].fd, m->cpuid, i, m->cpus, e);
	return r;
}

static int make_vm(struct machine *m, const struct machine_config *c, struct err *e)
{
	int r = check_kvm(m, e);

	if (r < 0)
		return r;
	m->vm = ioctl(m->kvm, KVM_CREATE_VM, 0);
	if (m->vm < 0)
		return err_set(e, errno, "making a virtual machine");
	if (ioctl(m->vm, KVM_SET_TSS_ADDR, TSS_AT) < 0)
		return err_set(e, errno, "placing the task segment");
	if (ioctl(m->vm, KVM_CREATE_IRQCHIP, 0) < 0)
		return err_set(e, errno, "making interrupt controllers");
	r = machine_traits_read(m, e);
	for (unsigned i = 0; r == 0 && i < m->cpus; i++)
		r = vcpu_create(m, i, e);
	return r < 0 ? r : set_cpuids(m, c, e);
}

static int make_events(struct machine *m, struct err *e)
{
	int r;

	r = watches_init(&m->events, e);
	if (r < 0)
		return r;
	m->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->wakeup < 0)
		return err_set(e, errno, "events for a machine");
	m->wakeup_watch = (struct watch){ .fd = -1, .fn = on_wakeup, .arg = m };
	r = watches_add(&m->events, &m->wakeup_watch, m->wakeup, EPOLLIN, e);
	if (r == 0)
		r = make_line(m, SERIAL_GSI, &m->serial_line, e);
	if (r == 0)
		r = make_line(m, I8042_GSI, &m->keyboard_line, e);
	if (r == 0)
		r = make_line(m, BOOT_GENID_GSI, &m->genid_line, e);
	return r;
}

static int check_cpus(unsigned cpus, struct err *e)
{
	return cpus && cpus <= BOOT_CPUS_MAX
		       ? 0
		       : err_say(e, EINVAL, "a machine of %u CPUs: 1 to %d", cpus, BOOT_CPUS_MAX);
}

int machine_open(struct machine *m, const struct machine_config *c, struct err *e)
{
	int r;

	*m = (struct machine){ .kvm = c->kvm,
		.vm = -1,
		.cpus = c->cpus,
		.serial_line = -1,
		.keyboard_line = -1,
		.genid_line = -1,
		.events.poll = -1,
		.wakeup = -1,
		.mem.fd = -1 };
	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->changed, NULL);
	r = check_cpus(c->cpus, e);
	if (r < 0)
		return r;
	/* All that there can be: a thread that waits knows its CPU by its place. */
	m->vcpus = calloc(BOOT_CPUS_MAX, sizeof(*m->vcpus));
	if (!m->vcpus)
		return err_set(e, ENOMEM, "a machine of %u CPUs", c->cpus);
	for (unsigned i = 0; i < BOOT_CPUS_MAX; i++)
		m->vcpus[i].fd = -1;
	m->console = c->console;
	m->guard = c->guard;
	m->arg = c->arg;
	serial_init(&m->serial, console_byte, raise_serial, m);
	i8042_init(&m->keyboard, raise_keyboard, m);
	r = make_vm(m, c, e);
	if (r == 0)
		r = make_events(m, e);
	if (r < 0)
		machine_done(m);
	return r;
}

static int fill_memory(struct machine *m, const struct machine_config *c, struct err *e)
{
	int r;

	if (c->memory_kind == GMEM_COPY)
		r = gmem_map(&m->mem, c->memory_file, c->memory_bytes, e);
	else
		r = gmem_create(&m->mem, c->memory_bytes, c->memory_kind, e);
	return r < 0 ? r : give_memory(m, e);
}

int machine_fill(struct machine *m, const struct machine_config *c, struct err *e)
{
	unsigned made = m->cpus;
	int r = check_cpus(c->cpus, e);

	if (r == 0 && c->cpus < made)
		r = err_say(e, EINVAL, "a machine made with %u CPUs cannot have %u", made, c->cpus);
	if (r == 0)
		r = fill_memory(m, c, e);
	for (unsigned i = made; r == 0 && i < c->cpus; i++) {
		m->cpus = i + 1; /* machine_done() closes what there is */
		r = vcpu_create(m, i, e);
	}
	/* What every CPU is told depends on how many there are. */
	if (r == 0 && (c->cpus != made || c->cpu != m->cpu || c->plain_fpu != m->plain_fpu))
		r = set_cpuids(m, c, e);
	return r;
}

int machine_create(struct machine *m, const struct machine_config *c, struct err *e)
{
	int r = machine_open(m, c, e);

	if (r < 0)
		return r;
	r = machine_fill(m, c, e);
	if (r < 0)
		machine_done(m);
	return r;
}

struct machine_device *machine_place(struct machine *m, unsigned i)
{
	return &m->devices[i];
}

void machine_raise(void *arg)
{
	ring(((struct machine_device *)arg)->line);
}

static void kick_later(struct vdev *dev, unsigned q)
{
	ring(((struct machine_device *)dev->raise_arg)->kicks[q].fd);
}

static void on_kick(void *arg, uint32_t events)
{
	struct machine_kick *k = arg;
	struct vdev *dev = k->device->dev;

	(void)events;
	drain(k->fd);
	if (dev && vdev_is_active(dev))
		dev->ops->kick(dev, (unsigned)(k - k->device->kicks));
}

/* A notify of the guest becomes an event, without an exit to us. */
static int make_kick(struct machine *m, struct machine_device *d, unsigned q, struct err *e)
{
	struct kvm_ioeventfd io = { .datamatch = q,
		.addr = d->at + NOTIFY_OFFSET,
		.len = 4,
		.flags = KVM_IOEVENTFD_FLAG_DATAMATCH };
	struct machine_kick *k = &d->kicks[q];

	k->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (k->fd < 0)
		return err_set(e, errno, "an event for a queue");
	io.fd = k->fd;
	if (ioctl(m->vm, KVM_IOEVENTFD, &io) < 0)
		return err_set(e, errno, "joining a queue to its event");
	k->watch = (struct watch){ .fd = -1, .fn = on_kick, .arg = k };
	return watches_add(&m->events, &k->watch, k->fd, EPOLLIN, e);
}

static int make_kicks(struct machine *m, struct machine_device *d, unsigned queues, struct err *e)
{
	int r = 0;

	for (; r == 0 && d->queues < queues; d->queues++)
		r = make_kick(m, d, d->queues, e);
	return r;
}

int machine_reserve(struct machine *m, unsigned queues, struct err *e)
{
	struct machine_device *d = &m->devices[m->place_count];
	int r;

	if (m->place_count == BOOT_DEVICES_MAX)
		return err_say(e, ENOSPC, "a machine has at most %d devices", BOOT_DEVICES_MAX);
	*d = (struct machine_device){ .at = BOOT_DEVICES_AT +
					    (uint64_t)m->place_count * VDEV_WINDOW,
		.gsi = BOOT_FIRST_GSI + m->place_count,
		.line = -1 };
	for (unsigned q = 0; q < VDEV_QUEUES_MAX; q++)
		d->kicks[q] = (struct machine_kick){ .device = d, .fd = -1, .watch.fd = -1 };
	m->place_count++; /* machine_done() closes what there is */
	r = make_line(m, d->gsi, &d->line, e);
	return r < 0 ? r : make_kicks(m, d, queues, e);
}

int machine_attach(struct machine *m, struct vdev *dev, struct err *e)
{
	struct machine_device *d = &m->devices[m->device_count];
	int r = m->device_count < m->place_count ? 0 : machine_reserve(m, 0, e);

	if (r == 0)
		r = make_kicks(m, d, dev->ops->queues, e);
	if (r < 0)
		return r;
	d->dev = dev;
	dev->later = kick_later;
	m->device_count++;
	return 0;
}

int machine_boot(struct machine *m, struct boot_request *q, struct err *e)
{
	struct boot_device devices[BOOT_DEVICES_MAX];
	struct boot_cpu cpu;
	int r;

	for (unsigned i = 0; i < m->device_count; i++)
		devices[i] = (struct boot_device){ m->devices[i].at, m->devices[i].gsi };
	q->devices = devices;
	q->device_count = m->device_count;
	q->cpus = m->cpus;
	r = boot_load(&m->mem, q, &cpu, e);
	for (unsigned i = 0; r == 0 && i < m->cpus; i++)
		r = vcpu_set_boot(&m->vcpus[i], &cpu, e);
	q->devices = NULL;
	return r;
}

void machine_stop(struct machine *m)
{
	__atomic_store_n(&m->stop_asked, true, __ATOMIC_SEQ_CST);
	ring(m->wakeup);
}

/* Under the lock: until every vCPU is in @state or has ended, kicking those that are not. */
static void wait_for_cpus(struct machine *m, enum vcpu_state state)
{
	for (unsigned i = 0; i < m->cpus; i++)
		while (m->vcpus[i].has_thread && m->vcpus[i].state != VCPU_ENDED &&
			m->vcpus[i].state != state) {
			vcpu_kick(&m->vcpus[i]);
			pthread_cond_wait(&m->changed, &m->lock);
		}
}

static void end_all(struct machine *m)
{
	m->go = false;
	if (m->end == MACHINE_RUNS)
		m->end = MACHINE_OFF;
	pthread_cond_broadcast(&m->changed);
	wait_for_cpus(m, VCPU_ENDED);
}

/* The lock is held, but for the waiting. */
static int serve(struct machine *m, struct err *e)
{
	int r;

	pthread_mutex_unlock(&m->lock);
	r = watches_wait(&m->events, -1, e);
	pthread_mutex_lock(&m->lock);
	watches_serve(&m->events);
	return r;
}

int machine_arm(struct machine *m, struct err *e)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < m->cpus; i++)
		if (!m->vcpus[i].has_thread)
			r = vcpu_start(&m->vcpus[i], e);
	pthread_mutex_lock(&m->lock);
	for (unsigned i = 0; r == 0 && i < m->cpus; i++)
		while (!m->vcpus[i].guarded)
			pthread_cond_wait(&m->changed, &m->lock);
	if (r == 0 && m->end != MACHINE_RUNS)
		r = err_say(e, EIO, "%s", m->why);
	pthread_mutex_unlock(&m->lock);
	return r;
}

/*
 * Under the lock, no CPU runs any more. What the guest had sent when it switched itself off is
 * still sent on: its last words are how the command ended.
 */
static void serve_rest(struct machine *m)
{
	for (unsigned i = 0; i < LAST_ROUNDS; i++) {
		if (watches_wait(&m->events, 0, NULL) < 0 || m->events.count == 0)
			return;
		watches_serve(&m->events);
	}
}

int machine_run(struct machine *m, struct err *e)
{
	int r = machine_arm(m, e);

	pthread_mutex_lock(&m->lock);
	m->go = r == 0;
	pthread_cond_broadcast(&m->changed);
	while (r == 0 && m->end == MACHINE_RUNS &&
		!__atomic_load_n(&m->stop_asked, __ATOMIC_SEQ_CST))
		r = serve(m, e);
	end_all(m);
	if (r == 0)
		serve_rest(m);
	pthread_mutex_unlock(&m->lock);
	return r;
}

int machine_halt(struct machine *m, struct err *e)
{
	int r = 0;

	m->go = false;
	wait_for_cpus(m, VCPU_PAUSED);
	if (m->end != MACHINE_RUNS)
		r = err_say(e, ESRCH, "the machine is over: %s", m->why);
	/* The guest's watchdog must not count the time; a guest without kvmclock has none. */
	for (unsigned i = 0; r == 0 && i < m->cpus; i++)
		if (ioctl(m->vcpus[i].fd, KVM_KVMCLOCK_CTRL, 0) < 0 && errno != EINVAL)
			r = err_set(e, errno, "stopping the clock of CPU %u", i);
	return r;
}

int machine_pause(struct machine *m, struct err *e)
{
	int r;

	pthread_mutex_lock(&m->lock);
	r = machine_halt(m, e);
	pthread_mutex_unlock(&m->lock);
	return r;
}

void machine_go_on(struct machine *m)
{
	m->go = true;
	pthread_cond_broadcast(&m->changed);
}

void machine_resume(struct machine *m)
{
	pthread_mutex_lock(&m->lock);
	machine_go_on(m);
	pthread_mutex_unlock(&m->lock);
}

static void close_if(int fd)
{
	if (fd >= 0)
		close(fd);
}

void machine_done(struct machine *m)
{
	for (unsigned i = 0; m->vcpus && i < m->cpus; i++)
		vcpu_done(&m->vcpus[i]);
	for (unsigned i = 0; i < m->place_count; i++) {
		close_if(m->devices[i].line);
		for (unsigned q = 0; q < VDEV_QUEUES_MAX; q++)
			close_if(m->devices[i].kicks[q].fd);
	}
	close_if(m->serial_line);
	close_if(m->keyboard_line);
	close_if(m->genid_line);
	watches_done(&m->events);
	close_if(m->wakeup);
	close_if(m->vm);
	gmem_done(&m->mem);
	free(m->cpuid);
	free(m->vcpus);
	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
	*m = (struct machine){ .kvm = -1, .vm = -1, .events.poll = -1, .wakeup = -1, .mem.fd = -1 };
}
