/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/order.c - what a monitor is told, and how it gets there when it was made before.
 *
 * Owns:  nothing; descriptors are whose order it is.
 * Rules: one message, with the descriptors that are there in the order of enum order_fd. A monitor
 *        believes ward, and nobody else has the other end; still, a message of another size or with
 *        other descriptors than it says is the end of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/vm/boot/boot.h"
#include "tier/vm/control.h"
#include "tier/vm/vm.h"

static unsigned cpus_of(const struct plan *plan)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	unsigned n = (plan->limits.cpu_milli + 999) / 1000;

	if (!n)
		n = online < 1 ? 1 : online > VM_CPUS_MAX ? VM_CPUS_MAX : (unsigned)online;
	return n < BOOT_CPUS_MAX ? n : BOOT_CPUS_MAX;
}

static int fill_line(const struct plan *plan, char line[VM_LINE_MAX], struct err *e)
{
	int r = str_fmt(line, VM_LINE_MAX,
		"console=ttyS0 quiet loglevel=1 panic=-1 reboot=k tsc=reliable i8042.noaux "
		"i8042.nomux i8042.dumbkbd random.trust_cpu=on ward.disk=%llu ward.pids=%u "
		"ward.host=%s",
		(unsigned long long)plan->limits.disk_bytes, plan->limits.pids, plan->hostname);
	size_t len = strlen(line);

	if (r == 0 && plan->tap)
		r = str_fmt(line + len, VM_LINE_MAX - len, " ward.net=%s",
			plan->tap_addr ? plan->tap_addr : "up");
	return r < 0 ? err_say(e, -r, "the guest's command line is too long") : 0;
}

int order_fill(struct vmbox *v, struct err *e)
{
	const struct plan *plan = v->box.plan;
	struct order *o = &v->order;

	memcpy(o->id, plan->id, sizeof(o->id));
	memcpy(o->io_rate, plan->limits.io_rate, sizeof(o->io_rate));
	memcpy(o->net_rate, plan->limits.net_rate, sizeof(o->net_rate));
	o->boot_ms = plan->limits.boot_ms;
	if (v->state) {
		o->memory_bytes = v->from.memory_bytes;
		o->cpus = v->from.cpus;
		o->state_bytes = v->from.body_bytes;
		o->touched = v->touched.count;
		return 0;
	}
	o->memory_bytes = plan->limits.memory_bytes / GMEM_PAGE * GMEM_PAGE;
	o->cpus = cpus_of(plan);
	return fill_line(plan, o->line, e);
}

void order_close(struct order *o)
{
	for (unsigned i = 0; i < ORDER_FDS; i++)
		if (o->fds[i] >= 0)
			close(take_fd(&o->fds[i]));
}

static int put(int fd, const void *data, size_t len, uint64_t to, struct err *e)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = host_pwrite(fd, (const uint8_t *)data + at, len - at, (off_t)(to + at));

		if (n <= 0)
			return err_set(
				e, n < 0 ? (int)-n : EIO, "writing the machine's state down");
		at += (size_t)n;
	}
	return 0;
}

static int get(int fd, void *data, size_t len, uint64_t from, struct err *e)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = host_pread(fd, (uint8_t *)data + at, len - at, (off_t)(from + at));

		if (n <= 0)
			return err_set(e, n < 0 ? (int)-n : ENODATA, "reading the machine's state");
		at += (size_t)n;
	}
	return 0;
}

/* What it goes on from, as a file that is sealed by nobody: both ends are ward's. */
static int put_state(const struct vmbox *v, int *ret, struct err *e)
{
	own_fd int fd = memfd_create("state", MFD_CLOEXEC);
	const struct order *o = &v->order;
	int r;

	if (fd < 0)
		return err_set(e, errno, "a memory file for the machine's state");
	r = put(fd, v->state, o->state_bytes, 0, e);
	if (r == 0)
		r = put(fd, v->touched.runs, o->touched * sizeof(v->touched.runs[0]),
			o->state_bytes, e);
	if (r == 0)
		*ret = take_fd(&fd);
	return r;
}

int order_send(const struct vmbox *v, struct err *e)
{
	struct order o = v->order;
	int fds[ORDER_FDS];
	own_fd int body = -1;
	unsigned count = 0;
	ssize_t n;
	int r = o.state_bytes ? put_state(v, &body, e) : 0;

	if (r < 0)
		return r;
	o.fds[ORDER_STATE] = body;
	for (unsigned i = 0; i < ORDER_FDS; i++)
		if (o.fds[i] >= 0)
			fds[count++] = o.fds[i];
	n = host_send_fds(v->control, &o, sizeof(o), fds, count);
	return n < 0 ? err_set(e, (int)-n, "giving the waiting monitor its order") : 0;
}

static int get_state(const struct order *o, void **ret, struct touched *ret_touched, struct err *e)
{
	int fd = o->fds[ORDER_STATE], r;
	own_mem uint8_t *state = NULL;

	if (!o->state_bytes)
		return 0;
	if (o->state_bytes > CONTROL_STATE_MAX || o->touched > TOUCHED_RUNS_MAX || fd < 0)
		return err_say(e, EPROTO, "an order without the state that it speaks of");
	state = malloc(o->state_bytes);
	if (!state)
		return err_set(e, ENOMEM, "the machine's state");
	r = get(fd, state, o->state_bytes, 0, e);
	if (r == 0)
		r = get(fd, ret_touched->runs, o->touched * sizeof(ret_touched->runs[0]),
			o->state_bytes, e);
	if (r < 0)
		return r;
	ret_touched->count = o->touched;
	*ret = take_ptr(&state);
	return 0;
}

int order_receive(int control, struct order *ret, void **ret_state, struct touched *ret_touched,
	struct err *e)
{
	int fds[ORDER_FDS], r;
	unsigned count = 0, at = 0;
	ssize_t n;

	do
		n = host_recv_fds(control, ret, sizeof(*ret), fds, ORDER_FDS, &count);
	while (n == -EINTR);
	if (n == 0 || n == -ECONNRESET)
		return -ENOTCONN;
	if (n < 0)
		return err_set(e, (int)-n, "waiting for an order");
	if (n != (ssize_t)sizeof(*ret))
		return err_say(e, EPROTO, "an order of another size");
	/* The numbers are the sender's; which of them there are is what counts. */
	for (unsigned i = 0; i < ORDER_FDS; i++)
		if (ret->fds[i] >= 0)
			ret->fds[i] = at < count ? fds[at++] : -1;
	if (at != count)
		return err_say(e, EPROTO, "an order with other descriptors than it says");
	*ret_state = NULL;
	r = get_state(ret, ret_state, ret_touched, e);
	if (ret->fds[ORDER_STATE] >= 0)
		close(take_fd(&ret->fds[ORDER_STATE]));
	return r;
}
