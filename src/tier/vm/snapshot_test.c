/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/snapshot_test.c - machines written down and read back: fields in plain memory, then a
 * guest of a few instructions that goes on twice from where it was.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "proto/keeper.h"
#include "tier/vm/control.h"
#include "tier/vm/machine.h"
#include "tier/vm/tiny.h"
#include "tier/vm/virtio/block.h"
#include "tier/vm/virtio/rng.h"
#include "tier/vm/virtio/vsock.h"
#include "tier/vm/vm.h"
#include "tier/vm/walks.h"

enum { MEM = 16 << 20, DISK = 1 << 20, RINGS = 0x10000, SIZE = 16, COUNTER = 0x200000 };

/* --- Plain memory ----------------------------------------------------------------------------- */

struct bench {
	struct gmem mem;
	struct watches events;
	struct disk disk;
	struct block block;
	struct rng rng;
	struct vsock vsock;
	struct serial serial;
	struct i8042 keyboard;
	struct saved_machine kvm;
	struct saved_cpu cpus[2];
	struct walked all;
};

static void nothing(void *arg)
{
	(void)arg;
}

static void no_byte(void *arg, uint8_t byte)
{
	(void)arg;
	(void)byte;
}

static int refuse(void *arg, uint32_t port)
{
	(void)arg;
	(void)port;
	return -ECONNREFUSED;
}

static struct bench *bench_make(void)
{
	struct bench *b = calloc(1, sizeof(*b));
	int fd = memfd_create("disk", MFD_CLOEXEC);
	struct err e;

	assert_non_null(b);
	assert_int_equal(ftruncate(fd, DISK), 0);
	assert_int_equal(gmem_create(&b->mem, MEM, GMEM_ANON, &e), 0);
	assert_int_equal(watches_init(&b->events, &e), 0);
	assert_int_equal(disk_open(&b->disk, fd, -1, true, &e), 0);
	block_init(&b->block, &b->disk, "root", false, &b->mem, nothing, NULL);
	rng_init(&b->rng, &b->mem, nothing, NULL);
	vsock_init(&b->vsock, 3, &b->events, refuse, NULL, &b->mem, nothing, NULL);
	serial_init(&b->serial, no_byte, nothing, NULL);
	i8042_init(&b->keyboard, nothing, NULL);
	b->kvm = (struct saved_machine){ .memory_bytes = MEM, .cpu_count = 2, .cpus = b->cpus };
	for (unsigned i = 0; i < SAVED_CHIPS; i++)
		b->kvm.chips[i].chip_id = i;
	b->all = (struct walked){ .kvm = &b->kvm,
		.serial = &b->serial,
		.keyboard = &b->keyboard,
		.devices = { &b->block.dev, &b->rng.dev, &b->vsock.dev },
		.device_count = 3 };
	return b;
}

static void bench_done(struct bench *b)
{
	vsock_done(&b->vsock);
	watches_done(&b->events);
	disk_close(&b->disk);
	gmem_done(&b->mem);
	free(b);
}

static void wr(struct vdev *d, unsigned off, uint32_t v)
{
	vdev_write(d, off, &v, sizeof(v));
}

static void bring_up(struct vdev *d)
{
	wr(d, 0x70, 1);
	wr(d, 0x70, 3);
	wr(d, 0x24, 1);
	wr(d, 0x20, 1);
	wr(d, 0x70, 11);
	for (unsigned q = 0; q < d->ops->queues; q++) {
		wr(d, 0x30, q);
		wr(d, 0x38, SIZE);
		wr(d, 0x80, RINGS + 0x3000 * q);
		wr(d, 0x90, RINGS + 0x3000 * q + 0x1000);
		wr(d, 0xa0, RINGS + 0x3000 * q + 0x2000);
		wr(d, 0x44, 1);
	}
	wr(d, 0x70, 15);
	assert_true(vdev_is_active(d));
}

/* A machine in the middle of its life. */
static void live(struct bench *b)
{
	bring_up(&b->block.dev);
	bring_up(&b->vsock.dev);
	wr(&b->rng.dev, 0x70, 1); /* this one has only just been found */
	b->block.dev.queues[0].next_avail = 7;
	b->block.dev.queues[0].next_used = 0xfffe;
	b->block.dev.interrupts = VDEV_INT_RING;
	serial_write(&b->serial, 7, 0x5a);
	serial_input(&b->serial, "abc", 3);
	i8042_write(&b->keyboard, 0x60, 1);
	for (unsigned i = 0; i < 2; i++) {
		struct saved_cpu *c = &b->cpus[i];

		c->regs.rip = 0x1000 + i;
		c->xsave_bytes = 4096;
		c->xsave[4095] = (uint8_t)(9 + i);
		c->cpuid_count = 3;
		c->cpuid[2].eax = 0x1234;
		c->msr_count = 2;
		c->msrs[1] = (struct kvm_msr_entry){ .index = 0x10, .data = 99 };
	}
	b->kvm.clock_ns = 12345;
}

static int reload(const void *data, size_t len, struct bench **ret)
{
	struct bench *b = bench_make();
	struct vwalk w;
	int r;

	vwalk_load(&w, data, len);
	machine_walk(&b->all, &w);
	r = vwalk_end(&w);
	if (ret)
		*ret = b;
	else
		bench_done(b);
	return r;
}

static void round_trip(void **state)
{
	struct bench *a = bench_make(), *b;
	struct vwalk first, second;

	(void)state;
	live(a);
	vwalk_save(&first);
	machine_walk(&a->all, &first);
	assert_int_equal(vwalk_end(&first), 0);
	assert_int_equal(reload(first.data, first.len, &b), 0);
	assert_int_equal(b->cpus[1].regs.rip, 0x1001);
	assert_int_equal(b->cpus[1].xsave[4095], 10);
	assert_int_equal(b->cpus[0].msrs[1].data, 99);
	assert_true(vdev_is_active(&b->block.dev));
	assert_true(b->block.dev.queues[0].active);
	assert_true(b->block.dev.queues[0].desc_at != NULL);
	assert_int_equal(b->block.dev.queues[0].next_used, 0xfffe);
	assert_int_equal(b->rng.dev.status, 1);
	assert_int_equal(b->serial.scr, 0x5a);
	assert_int_equal(serial_read(&b->serial, 0), 'a');
	serial_input(&b->serial, "x", 1);
	b->serial.in_at = a->serial.in_at; /* as it was */
	b->serial.in_len = a->serial.in_len;
	memcpy(b->serial.in, a->serial.in, sizeof(b->serial.in));
	/* There is no second list: what was read is written again, byte by byte. */
	vwalk_save(&second);
	machine_walk(&b->all, &second);
	assert_int_equal(second.len, first.len);
	assert_memory_equal(second.data, first.data, first.len);
	vwalk_done(&first);
	vwalk_done(&second);
	bench_done(a);
	bench_done(b);
}

static void hostile(void **state)
{
	struct bench *a = bench_make();
	struct vwalk w;
	uint8_t *copy;

	(void)state;
	live(a);
	vwalk_save(&w);
	machine_walk(&a->all, &w);
	/* Cut anywhere, or longer: refused. */
	for (size_t n = 0; n < w.len; n += n < w.len - 600 ? 997 : 1)
		assert_int_equal(reload(w.data, n, NULL), -EINVAL);
	copy = calloc(1, w.len + 1);
	assert_non_null(copy);
	memcpy(copy, w.data, w.len);
	assert_int_equal(reload(copy, w.len + 1, NULL), -EINVAL);
	/* Whatever is in it, no device ends up with a ring outside memory. */
	for (size_t at = w.len - 500; at < w.len; at++) {
		struct bench *b;

		copy[at] ^= 0xff;
		if (reload(copy, w.len, &b) < 0)
			for (unsigned i = 0; i < b->all.device_count; i++)
				(void)vdev_is_active(b->all.devices[i]);
		for (unsigned i = 0; i < b->all.device_count; i++)
			for (unsigned q = 0; vdev_is_active(b->all.devices[i]) &&
					     q < b->all.devices[i]->ops->queues;
				q++)
				b->all.devices[i]->ops->kick(b->all.devices[i], q);
		bench_done(b);
		copy[at] ^= 0xff;
	}
	free(copy);
	/* Another machine's: of another size, with another disk. */
	a->kvm.memory_bytes = 2ull * MEM;
	vwalk_done(&w);
	vwalk_save(&w);
	machine_walk(&a->all, &w);
	assert_int_equal(reload(w.data, w.len, NULL), -EINVAL);
	vwalk_done(&w);
	a->kvm.memory_bytes = MEM;
	a->disk.bytes = DISK / 2;
	vwalk_save(&w);
	machine_walk(&a->all, &w);
	assert_int_equal(reload(w.data, w.len, NULL), -EINVAL);
	vwalk_done(&w);
	bench_done(a);
}

/* --- KVM -------------------------------------------------------------------------------------- */

static int kvm = -1;

static bool no_kvm(void)
{
	if (kvm < 0)
		printf("skipped: /dev/kvm cannot be opened here, and a guest needs it\n");
	return kvm < 0;
}

struct taken {
	struct machine *m;
	struct vwalk state;
	int memory;
	uint32_t counter;
	int result;
	struct err e;
	unsigned dirty;
};

static uint32_t counter_of(struct machine *m)
{
	uint32_t v = 0;

	gmem_read(&m->mem, GPA(COUNTER), &v, sizeof(v));
	return v;
}

static unsigned dirty_pages(struct machine *m)
{
	unsigned n = 0;

	for (uint64_t i = 0; i < m->mem.bytes / GMEM_PAGE / 64; i++)
		n += (unsigned)__builtin_popcountll(m->mem.dirty[i]);
	return n;
}

/* Waits until it counts, writes it down, lets it go on; then looks which pages it writes. */
static void *take(void *arg)
{
	struct taken *t = arg;
	struct machine *m = t->m;

	while (counter_of(m) < 1000)
		usleep(1000);
	t->result = machine_pause(m, &t->e);
	vwalk_save(&t->state);
	if (t->result == 0)
		t->result = machine_save(m, &t->state, &t->e);
	t->counter = counter_of(m);
	if (write(t->memory, m->mem.regions[0].host, MEM) != MEM)
		t->result = -EIO;
	if (t->result == 0)
		t->result = machine_log_dirty(m, &t->e);
	machine_resume(m);
	while (counter_of(m) == t->counter)
		usleep(1000);
	if (t->result == 0)
		t->result = machine_pause(m, &t->e);
	if (t->result == 0)
		t->result = machine_collect_dirty(m, &t->e);
	t->dirty = t->result == 0 ? dirty_pages(m) : 0;
	machine_stop(m);
	return NULL;
}

static void *let_count(void *arg)
{
	struct taken *t = arg;

	while (counter_of(t->m) == t->counter)
		usleep(1000);
	machine_stop(t->m);
	return NULL;
}

static void goes_on(const struct taken *t)
{
	struct machine_config c = { .kvm = kvm,
		.memory_bytes = MEM,
		.memory_kind = GMEM_COPY,
		.memory_file = t->memory,
		.cpus = 1 };
	struct rng *rng = calloc(1, sizeof(*rng));
	struct machine m;
	struct taken again = { .m = &m, .counter = t->counter };
	uint8_t id[2][BOOT_GENID_BYTES];
	struct err e = { 0 };
	pthread_t thread;

	assert_non_null(rng);
	if (machine_create(&m, &c, &e) < 0)
		fail_msg("%s", e.msg);
	rng_init(rng, &m.mem, machine_raise, machine_place(&m, 0));
	assert_int_equal(machine_attach(&m, &rng->dev, &e), 0);
	gmem_read(&m.mem, GPA(BOOT_GENID), id[0], sizeof(id[0]));
	if (machine_load(&m, t->state.data, t->state.len, &e) < 0)
		fail_msg("%s", e.msg);
	gmem_read(&m.mem, GPA(BOOT_GENID), id[1], sizeof(id[1]));
	assert_memory_not_equal(id[0], id[1], sizeof(id[0]));
	assert_int_equal(counter_of(&m), t->counter);
	assert_int_equal(pthread_create(&thread, NULL, let_count, &again), 0);
	assert_int_equal(machine_run(&m, &e), 0);
	pthread_join(thread, NULL);
	assert_int_equal(m.end, MACHINE_OFF);
	/* The count is in a register: it went on from there, and did not begin anew. */
	assert_true(counter_of(&m) > t->counter);
	machine_done(&m);
	free(rng);
}

static void two_from_one(void **state)
{
	/* inc eax; mov [0x200000],eax; jmp back */
	static const uint8_t code[] = { 0x40, 0xa3, 0x00, 0x00, 0x20, 0x00, 0xeb, 0xf8 };
	int fd = kernel_of(code, sizeof(code));
	struct boot_request q = { .kernel = fd, .initrd = -1, .cmdline = "" };
	struct machine_config c = { .kvm = kvm, .memory_bytes = MEM, .cpus = 1 };
	struct rng *rng = calloc(1, sizeof(*rng));
	struct machine m;
	struct taken t = { .m = &m, .memory = memfd_create("memory", MFD_CLOEXEC) };
	struct err e = { 0 };
	uint32_t before;
	pthread_t thread;

	(void)state;
	if (no_kvm()) {
		free(rng);
		close(fd);
		skip();
	}
	assert_non_null(rng);
	if (machine_create(&m, &c, &e) < 0)
		fail_msg("%s", e.msg);
	rng_init(rng, &m.mem, machine_raise, machine_place(&m, 0));
	assert_int_equal(machine_attach(&m, &rng->dev, &e), 0);
	if (machine_boot(&m, &q, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(pthread_create(&thread, NULL, take, &t), 0);
	assert_int_equal(machine_run(&m, &e), 0);
	pthread_join(thread, NULL);
	if (t.result < 0)
		fail_msg("%s", t.e.msg);
	/* It writes one page; its tables may be written by the CPU. */
	assert_true(t.dirty >= 1 && t.dirty < 16);
	machine_done(&m);
	assert_int_equal(pread(t.memory, &before, sizeof(before), COUNTER), sizeof(before));
	goes_on(&t);
	goes_on(&t);
	/* Neither wrote to the file. */
	assert_int_equal(before, t.counter);
	assert_int_equal(pread(t.memory, &before, sizeof(before), COUNTER), sizeof(before));
	assert_int_equal(before, t.counter);
	vwalk_done(&t.state);
	close(t.memory);
	close(fd);
	free(rng);
}

/* --- Ward's side, and the monitor's, in one process ------------------------------------------- */

/* Says that everything stands still, whenever it is asked. */
static void *agent(void *arg)
{
	int fd = *(int *)arg;
	struct keeper_ask ask;

	while (recv(fd, &ask, sizeof(ask), MSG_WAITALL) == (ssize_t)sizeof(ask)) {
		struct keeper_answer said = { .op = KEEPER_HELD, .number = ask.number };

		if (ask.op == KEEPER_HOLD && send(fd, &said, sizeof(said), 0) < 0)
			break;
	}
	return NULL;
}

static void *serve(void *arg)
{
	struct err e = { 0 };

	machine_run(arg, &e);
	return NULL;
}

static void wait_count(struct machine *m, uint32_t more)
{
	uint32_t from = counter_of(m);

	while (counter_of(m) - from < more)
		usleep(1000);
}

static uint32_t in_file(int fd, off_t at)
{
	uint32_t v = 0;

	assert_int_equal(pread(fd, &v, sizeof(v), at), sizeof(v));
	return v;
}

static struct snap files_make(void)
{
	return (struct snap){ memfd_create("state", MFD_CLOEXEC),
		memfd_create("memory", MFD_CLOEXEC), -1 };
}

static void files_done(struct snap *s)
{
	close(s->state);
	close(s->memory);
}

/* A copy goes on from the files, and they stay as they are. */
static void copy_goes_on(const struct snap *files)
{
	struct taken t = { .memory = files->memory };
	struct snap_head head;
	struct err e = { 0 };
	void *body = NULL;

	if (snapfile_read(files, &head, &body, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(head.memory_bytes, MEM);
	assert_int_equal(head.cpus, 1);
	t.counter = in_file(files->memory, COUNTER);
	t.state = (struct vwalk){ .data = body, .len = head.body_bytes };
	goes_on(&t);
	assert_int_equal(in_file(files->memory, COUNTER), t.counter);
	free(body);
}

static void steered(void **state)
{
	/* inc eax; mov [0x200000],eax; jmp back */
	static const uint8_t code[] = { 0x40, 0xa3, 0x00, 0x00, 0x20, 0x00, 0xeb, 0xf8 };
	char dir[] = "/tmp/vm-snapshot-XXXXXX";
	struct plan plan = { .state_dir = dir, .limits.memory_bytes = MEM };
	struct vmbox v = { .box.plan = &plan, .image = "0123456789abcdef0123456789abcdef" };
	struct machine_config c = { .kvm = kvm, .memory_bytes = MEM, .cpus = 1 };
	struct rng *rng = calloc(1, sizeof(*rng));
	struct snap files = files_make(), more = files_make();
	struct control control;
	struct machine m;
	int ends[2], keeper[2], fd;
	pthread_t machine, answers;
	struct boot_request q = { .initrd = -1, .cmdline = "" };
	struct err e = { 0 };
	uint32_t first;
	bool gives_back;

	(void)state;
	if (no_kvm()) {
		free(rng);
		files_done(&files);
		files_done(&more);
		skip();
	}
	assert_non_null(rng);
	assert_non_null(mkdtemp(dir));
	fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	gives_back = fd >= 0; /* not every file system has files without a name */
	if (gives_back)
		close(fd);
	fd = q.kernel = kernel_of(code, sizeof(code));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, keeper), 0);
	cgroup_init(&v.cg);
	v.control = ends[0];
	v.keeper = keeper[0];
	v.box.fds.pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (machine_create(&m, &c, &e) < 0)
		fail_msg("%s", e.msg);
	rng_init(rng, &m.mem, machine_raise, machine_place(&m, 0));
	assert_int_equal(machine_attach(&m, &rng->dev, &e), 0);
	control_open(&control);
	assert_int_equal(control_init(&control, &m, ends[1], -1, &e), 0);
	if (machine_boot(&m, &q, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(pthread_create(&machine, NULL, serve, &m), 0);
	assert_int_equal(pthread_create(&answers, NULL, agent, &keeper[1]), 0);
	wait_count(&m, 1000);

	/* What has disks or an address of its own is refused, and nothing happens to it. */
	plan.mount_count = 1;
	assert_int_equal(steer_snapshot(&v, &files, 0, NULL, NULL, &e), -EOPNOTSUPP);
	plan.mount_count = 0;
	plan.tap = "tap0";
	assert_int_equal(steer_snapshot(&v, &files, 0, NULL, NULL, &e), -EOPNOTSUPP);
	plan.tap = NULL;
	e = (struct err){ 0 };
	/* Whole; it runs on, and the file is of one moment. */
	if (steer_snapshot(&v, &files, 0, NULL, NULL, &e) < 0)
		fail_msg("%s", e.msg);
	wait_count(&m, 1000);
	copy_goes_on(&files);

	/* Paused: it stands still, its memory is in a file, and nothing has a name. */
	if (steer_pause(&v, NULL, NULL, &e) < 0)
		fail_msg("%s", e.msg);
	first = counter_of(&m);
	if (gives_back)
		assert_int_equal(m.mem.kind, GMEM_COPY);
	assert_int_equal(rmdir(dir), 0);
	if (steer_snapshot(&v, &files, 0, NULL, NULL, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(in_file(files.memory, COUNTER), first);
	assert_int_equal(counter_of(&m), first);
	if (steer_resume(&v, &e) < 0)
		fail_msg("%s", e.msg);
	wait_count(&m, 1000);
	copy_goes_on(&files);

	/* Differences: the second is written over the first, and holds few pages. */
	if (steer_snapshot(&v, &files, SNAP_DIFF, NULL, NULL, &e) < 0)
		fail_msg("%s", e.msg);
	first = in_file(files.memory, COUNTER);
	wait_count(&m, 1000);
	assert_int_equal(steer_snapshot(&v, &more, SNAP_DIFF | SNAP_STAY, NULL, NULL, &e), 0);
	assert_true(v.paused);
	assert_true(in_file(more.memory, COUNTER) > first);
	assert_int_equal(in_file(files.memory, COUNTER), first);
	assert_true(lseek(more.memory, 0x100000, SEEK_DATA) > 0x100000); /* not the code */
	assert_int_equal(steer_resume(&v, &e), 0);

	/* A file that cannot be written: told, and the machine runs on. */
	close(more.memory);
	more.memory = open("/dev/full", O_RDWR | O_CLOEXEC);
	assert_true(steer_snapshot(&v, &more, 0, NULL, NULL, &e) < 0);
	assert_true(e.msg[0] != '\0');
	wait_count(&m, 1000);
	machine_stop(&m);
	pthread_join(machine, NULL);
	/* It is over: whoever asks is told. */
	control_done(&control);
	assert_true(steer_snapshot(&v, &files, 0, NULL, NULL, &e) < 0);
	close(keeper[0]);
	pthread_join(answers, NULL);
	close(keeper[1]);
	close(ends[0]);
	close(v.box.fds.pidfd);
	machine_done(&m);
	close(fd);
	free(rng);
	files_done(&files);
	files_done(&more);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip),
		cmocka_unit_test(hostile),
		cmocka_unit_test(two_from_one),
		cmocka_unit_test(steered),
	};

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
