/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk/sandbox_test.c - a busy sandbox is walked, built again in a second kernel and
 * walked again: the same bytes, and the same answers.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/mm/image.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/landlock.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/walk/busy.h"
#include "tier/kernel/walk/files.h"
#include "tier/kernel/walk/sandbox.h"

static struct fake *g;
static struct task *me;
static gva_t mem, out;
static char layer[64];

#define CALL(name, ...) fake_call(me, SYS_##name, ##__VA_ARGS__)
#define OK(name, ...) assert_true(CALL(name, ##__VA_ARGS__) >= 0)

static uint64_t text(const char *s)
{
	return fake_str(g, s).v;
}

static void put(const void *p, size_t len)
{
	memcpy(fake_ptr(g, mem), p, len);
}

static int layer_fd(void)
{
	int fd = open(layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void files_of(struct kernel *k)
{
	int fd = layer_fd();
	struct vfs_setup setup = { .layers = &fd, .layer_count = 1 };
	struct err e = { 0 };

	assert_int_equal(vfs_init(k, &setup, &e), 0);
}

/* A layer with two files and a directory, and a sandbox over it. */
static int begin(void **state)
{
	char path[96];
	int fd;

	snprintf(layer, sizeof(layer), "/tmp/ward-walk-XXXXXX");
	assert_non_null(mkdtemp(layer));
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", layer, i ? "below" : "other");
		fd = open(path, O_WRONLY | O_CREAT, 0644);
		assert_int_equal(write(fd, "from below", 10), 10);
		close(fd);
	}
	snprintf(path, sizeof(path), "%s/tmp", layer);
	assert_int_equal(mkdir(path, 0777), 0);
	g = fake_create();
	me = g->task;
	files_of(&g->k);
	me->fs = vfs_first_ctx(&g->k);
	mem = fake_alloc(g, 1 << 16);
	out = fake_alloc(g, 1 << 16);
	return 0;
}

static void stop(struct kernel *k)
{
	procs_done(k);
	vfs_done(k);
	kernel_done(k);
	assert_int_equal(k->file_count, 0);
}

static int end(void **state)
{
	char path[96];

	stop(&g->k);
	free(g);
	snprintf(path, sizeof(path), "%s/below", layer);
	unlink(path);
	snprintf(path, sizeof(path), "%s/other", layer);
	unlink(path);
	snprintf(path, sizeof(path), "%s/tmp", layer);
	rmdir(path);
	return rmdir(layer);
}

static struct busy made;

/* A kernel of its own for what is rebuilt. */
static struct kernel *second_kernel(void)
{
	struct kernel *k = calloc(1, sizeof(*k));

	assert_int_equal(kernel_init(k), 0);
	k->engine = g->k.engine;
	files_of(k);
	return k;
}

static struct kernel *again(const unsigned char *a, size_t len, int64_t now)
{
	struct kernel *k = second_kernel();
	struct err e = { 0 };

	if (sandbox_rebuild(k, now, a, len, &e) < 0)
		fail_msg("%s", e.msg);
	return k;
}

static void expect_same(const unsigned char *a, size_t a_len, struct kernel *k, int64_t now)
{
	unsigned char *b;
	size_t b_len, i;
	struct err e = { 0 };

	if (sandbox_walk(k, now, &b, &b_len, &e) < 0)
		fail_msg("%s", e.msg);
	for (i = 0; i < a_len && i < b_len && (a[i] == b[i] || (i >= 34 && i < 66)); i++)
		;
	if (i < a_len || a_len != b_len)
		fail_msg("%zu and %zu bytes: the first difference is at %zu", a_len, b_len, i);
	free(b);
}

/* The same answers from the second kernel, through its own calls. */

static const char *got(int fd, size_t n)
{
	static char buf[256];
	ssize_t r = CALL(read, (uint64_t)fd, out.v, n);

	memset(buf, 0, sizeof(buf));
	if (r > 0)
		assert_int_equal(guest_read(me, buf, out, (size_t)r), 0);
	return buf;
}

static void files_are_there(void)
{
	assert_string_equal(got(FD_FILE, 100), "world");
	assert_int_equal(CALL(fcntl, FD_FILE, F_GETFL) & O_APPEND, O_APPEND);
	OK(lseek, FD_DELETED, 0, SEEK_SET);
	assert_string_equal(got(FD_DELETED, 100), "hello");
	assert_string_equal(got(FD_BELOW, 100), "from below");
	assert_string_equal(got(FD_HIDDEN, 100), "from below");
	assert_int_equal(CALL(open, text("/other"), O_RDONLY), -ENOENT);
	assert_int_equal(CALL(pread64, FD_MEMFD, out.v, 100, 8190), 11);
	assert_int_equal(CALL(pwrite64, FD_MEMFD, out.v, 1, 9000), -EPERM);
	OK(lseek, FD_TMPFILE, 0, SEEK_SET);
	assert_string_equal(got(FD_TMPFILE, 100), "hel");
	assert_true(CALL(getdents64, FD_DIR, out.v, 1024) > 0);
	assert_int_equal(CALL(read, FD_STALE, out.v, 10), -EINVAL);
	assert_int_equal(CALL(pread64, FD_LOOP, out.v, 7, 4096), 7);
	OK(access, text("/tmp/b/under/in"), 0);
	assert_int_equal(CALL(openat, FD_TREE, text("under"), O_RDONLY) >= 0, 1);
	assert_int_equal(CALL(umask, 0), 027);
	OK(mkdir, text("relative"), 0700);
	OK(access, text("/tmp/dir/relative"), 0);
}

static void streams_are_there(void)
{
	assert_int_equal(CALL(read, FD_PIPE_R, out.v, 9000), 8000);
	assert_string_equal(got(FD_PACKET_R, 100), "one");
	assert_string_equal(got(FD_PACKET_R, 100), "two");
	assert_string_equal(got(FD_FIFO, 100), "onetwo");
	assert_int_equal(CALL(fcntl, FD_FIFO, F_GETPIPE_SZ), 8192);
	assert_string_equal(got(FD_UNIX_B, 5), "bytes");
	assert_string_equal(got(FD_DGRAM_B, 100), "wai");
	assert_string_equal(got(FD_DGRAM_B, 100), "ting");
	assert_string_equal(got(FD_UDP, 100), "req");
	put("uest", 4);
	assert_int_equal(CALL(sendto, FD_UDP, mem.v, 4, 0, 0, 0), 4);
	assert_string_equal(got(FD_UDP, 100), "request");
	assert_string_equal(got(FD_SLAVE, 100), "line\n");
	assert_string_equal(got(FD_MASTER, 6), "line\r\n");
}

static void sockets_are_there(void)
{
	struct msghdr m = { 0 };
	struct iovec iov = { (void *)(uintptr_t)out.v, 16 };
	gva_t control = fake_alloc(g, 64), head;
	struct cmsghdr *c;
	int fds[2];
	long fd;

	m.msg_iov = (struct iovec *)(uintptr_t)fake_put(g, &iov, sizeof(iov)).v;
	m.msg_iovlen = 1;
	m.msg_control = (void *)(uintptr_t)control.v;
	m.msg_controllen = 64;
	head = fake_put(g, &m, sizeof(m));
	assert_int_equal(CALL(recvmsg, FD_UNIX_B, head.v, 0), 3);
	c = fake_ptr(g, control);
	memcpy(fds, CMSG_DATA(c), sizeof(fds));
	assert_string_equal(got(fds[0], 100), "deep");
	/* The one that was ours is the same file still. */
	assert_ptr_equal(fd_get(me, fds[1]), fd_get(me, FD_EVENT));
	fd = CALL(accept4, FD_LISTEN, 0, 0, 0);
	assert_string_equal(got((int)fd, 100), "waiting");
	put("answer", 6);
	assert_int_equal(CALL(write, (uint64_t)fd, mem.v, 6), 6);
	fd = CALL(accept4, FD_TCP_LISTEN, 0, 0, 0);
	assert_string_equal(got((int)fd, 100), "request");
	assert_int_equal(CALL(recvfrom, (uint64_t)fd, out.v, 1, MSG_OOB, 0, 0), 1);
	assert_memory_equal(fake_ptr(g, out), "u", 1);
}

static void events_are_there(void)
{
	struct itimerspec it;
	struct itimerval real;
	char *at_event;
	uint64_t v;

	assert_int_equal(CALL(read, FD_EVENT, out.v, 8), 8);
	memcpy(&v, fake_ptr(g, out), 8);
	assert_int_equal(v, 77);
	OK(timerfd_gettime, FD_TIMER, out.v);
	memcpy(&it, fake_ptr(g, out), sizeof(it));
	assert_in_range(it.it_value.tv_sec, 1, 1000);
	OK(timer_gettime, 0, out.v);
	memcpy(&it, fake_ptr(g, out), sizeof(it));
	assert_in_range(it.it_value.tv_sec, 1, 1000);
	OK(getitimer, ITIMER_REAL, out.v);
	memcpy(&real, fake_ptr(g, out), sizeof(real));
	assert_in_range(real.it_value.tv_sec, 1, 2000);
	assert_int_equal(real.it_interval.tv_sec, 3);
	assert_true(CALL(read, FD_INOTIFY, out.v, 1000) > 0);
	at_event = fake_ptr(g, out);
	assert_string_equal(at_event + sizeof(struct inotify_event), "event");
	/* A new one comes, too. */
	OK(mkdir, text("/tmp/event2"), 0700);
	assert_true(CALL(read, FD_INOTIFY, out.v, 1000) > 0);
	/* What two of fanotify's descriptors had to say, and have to say now. */
	assert_true(CALL(read, FD_FANOTIFY, out.v, 1000) >= 24);
	assert_int_equal(((uint64_t *)fake_ptr(g, out))[1], 0x20);
	assert_true(CALL(read, FD_FANOTIFY_FID, out.v, 1000) > 60);
	assert_int_equal(((uint64_t *)fake_ptr(g, out))[1], 0x20);
	OK(mkdir, text("/tmp/event3"), 0700);
	assert_int_equal(CALL(read, FD_FANOTIFY_FID, out.v, 1000), 68);
	assert_string_equal((char *)fake_ptr(g, out) + 60, "event3");
	OK(kill, 1, SIGUSR1);
}

static void locks_are_there(void)
{
	struct task *other = fake_fork(me);
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0 };

	put(&fl, sizeof(fl));
	assert_int_equal(fake_call(other, SYS_fcntl, FD_FILE, F_GETLK, mem.v), 0);
	memcpy(&fl, fake_ptr(g, mem), sizeof(fl));
	assert_int_equal(fl.l_type, F_WRLCK);
	assert_int_equal(fl.l_start, 2);
	assert_int_equal(fl.l_pid, 1);
	assert_int_equal(CALL(fcntl, FD_LEASE, F_GETLEASE), F_RDLCK);
	proc_exit(other->proc, 0);
}

static void ipc_is_there(void)
{
	struct {
		long type;
		char text[8];
	} m;

	long sem = CALL(semget, 0x1234, 3, 0), msg = CALL(msgget, 0x1234, 0);

	assert_int_equal(CALL(semctl, (uint64_t)sem, 1, 12 /* GETVAL */), 3);
	assert_int_equal(CALL(msgrcv, (uint64_t)msg, out.v, 8, 0, IPC_NOWAIT), 8);
	memcpy(&m, fake_ptr(g, out), sizeof(m));
	assert_string_equal(m.text, "message");
	assert_int_equal(CALL(mq_timedreceive, FD_MQ, out.v, 32, 0, 0), 4);
	assert_memory_equal(fake_ptr(g, out), "high", 4);
}

static void processes_are_there(struct kernel *k)
{
	struct proc *leader = proc_find(k, made.leader_pid),
		    *reader = proc_find(k, made.blocked_pid);
	struct task *thread = task_find(k, made.thread_tid);
	union gsiginfo si;
	long ret;
	int status;

	assert_int_equal(leader->pgrp->session->id, made.leader_pid);
	assert_int_equal(leader->tasks->cred->suid, 7);
	assert_ptr_equal(leader->tasks->files, thread->files);
	assert_ptr_not_equal(leader->tasks->files, me->files);
	assert_int_equal(signal_take(leader->tasks, GSIG_BIT(SIGRTMIN + 3), &si), SIGRTMIN + 3);
	assert_int_equal(si.kill.value, 99);
	/* What waited goes on: "answer" came through the rebuilt connection. */
	assert_true(fake_over(reader->tasks, &ret));
	assert_int_equal(ret, 6);
	assert_int_equal(
		CALL(wait4, (uint64_t)made.zombie_pid, out.v, WNOHANG, 0), made.zombie_pid);
	memcpy(&status, fake_ptr(g, out), sizeof(status));
	assert_int_equal(status, 3 << 8);
}

/* Guest memory of the second kernel is an image: for the checks it becomes a fake's buffer again.
 */
static void use(struct kernel *k)
{
	struct task *first = k->init->tasks;
	struct mm *mm = first->mm;
	uint8_t *base = calloc(1, FAKE_BYTES);

	assert_non_null(base);
	assert_int_equal(mm->ops->read(mm, base, FAKE_START, FAKE_BYTES), FAKE_BYTES);
	assert_memory_equal(base, g->task->mm->fake_base, FAKE_BYTES);
	mm->ops = g->task->mm->ops;
	mm->fake_base = base;
	mm->fake_start = FAKE_START;
	mm->fake_len = FAKE_BYTES;
}

/* Who has left is still apart, with its own ids, names and keys. */
static void namespaces_are_there(struct kernel *k)
{
	struct task *apart = task_find(k, made.apart_pid), *first = task_find(k, made.first_pid);

	assert_int_equal(fake_call(apart, SYS_getuid), 7);
	assert_int_equal(fake_call(me, SYS_getuid), 0);
	assert_string_equal(uts_hostname(apart), "apart");
	assert_string_equal(uts_hostname(me), "walked");
	assert_true(fake_call(apart, SYS_shmget, 0x5150, 4096, 0600) >= 0);
	assert_int_equal(fake_call(me, SYS_shmget, 0x5150, 4096, 0600), -ENOENT);
	assert_false(task_capable_in(apart, NULL, 21));
	assert_true(task_capable_own(apart, 21));
	assert_int_equal(fake_call(first, SYS_getpid), 1);
	assert_int_equal(fake_call(first, SYS_getsid, 0), 1);
	assert_true(pid_is_init(first->proc));
	assert_int_equal(fake_call(first, SYS_kill, 1, SIGKILL), 0);
	assert_int_equal(fake_call(first, SYS_access, text("/tmp/1"), 0), 0);
	assert_int_equal(fake_call(first, SYS_access, text("/tmp/2"), 0), -ENOENT);
	assert_int_equal(fake_call(first, SYS_umount2, text("/tmp"), MNT_DETACH), 0);
	assert_int_equal(k->namespace_count, 8);
	assert_true(apart->fs->root.mnt != me->fs->root.mnt);
	assert_int_equal(fake_call(apart, SYS_access, text("/tmp/file"), 0), -ENOENT);
	assert_int_equal(fake_call(apart, SYS_umount2, text("/proc"), MNT_DETACH), -EINVAL);
	assert_int_equal(fake_call(apart, SYS_umount2, text("/tmp"), 0), 0);
	assert_int_equal(fake_call(apart, SYS_access, text("/tmp/file"), 0), 0);
}

static long opened(struct task *t, const char *path, int flags)
{
	long fd = fake_call(t, SYS_open, text(path), (uint64_t)flags);

	return fd < 0 ? fd : fake_call(t, SYS_close, (uint64_t)fd);
}

static long connected(struct task *t, const char *name)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	size_t len = strlen(name);
	long fd = fake_call(t, SYS_socket, AF_UNIX, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	memcpy(un.sun_path + 1, name, len);
	return fake_call(t, SYS_connect, (uint64_t)fd, fake_put(g, &un, sizeof(un)).v, 3 + len);
}

/* What was given up is, what was not is not; and who shared a domain does. */
static void domains_are_there(struct kernel *k)
{
	struct task *kept = task_find(k, made.kept_pid), *same = task_find(k, made.same_pid),
		    *deeper = task_find(k, made.deeper_pid);
	const struct landlock_rule *rules;
	uint64_t uncut = (uint64_t)made.uncut_fd;

	/* Nobody is asked any more whether a file may be opened. */
	OK(fanotify_mark, FD_FANOTIFY, 0x80 | 0x10 /* flush, mounts */, 0, (uint64_t)AT_FDCWD,
		text("/tmp"));
	assert_null(me->cred->landlock);
	assert_non_null(kept->cred->landlock);
	assert_ptr_equal(kept->cred->landlock, same->cred->landlock);
	assert_ptr_equal(deeper->cred->landlock->below, kept->cred->landlock);
	assert_int_equal(opened(kept, "/tmp/dir", O_RDONLY), 0);
	assert_int_equal(opened(kept, "/tmp/dir/uncut", O_RDWR), 0);
	assert_int_equal(opened(kept, "/tmp/dir/uncut", O_RDWR | O_TRUNC), -EACCES);
	assert_int_equal(fake_call(kept, SYS_ftruncate, uncut, 0), -EACCES);
	assert_int_equal(fake_call(kept, SYS_write, uncut, mem.v, 1), 1);
	assert_int_equal(opened(kept, "/below", O_RDONLY), 0);
	assert_int_equal(opened(kept, "/below", O_RDWR), -EACCES);
	assert_int_equal(opened(kept, "/tmp/file", O_RDONLY), -EACCES);
	assert_int_equal(opened(kept, "/proc/1/status", O_RDONLY), 0);
	assert_int_equal(opened(kept, "/proc/1/stat", O_RDONLY), -EACCES);
	assert_int_equal(opened(deeper, "/tmp/dir", O_RDONLY), 0);
	assert_int_equal(opened(deeper, "/tmp/dir/uncut", O_RDWR), -EACCES);
	assert_int_equal(landlock_port(kept, LANDLOCK_CONNECT, 8080), 0);
	assert_int_equal(landlock_port(kept, LANDLOCK_CONNECT, 8081), -EACCES);
	assert_int_equal(landlock_port(kept, LANDLOCK_BIND, 8080), -EACCES);
	assert_int_equal(fake_call(kept, SYS_kill, 1, 0), -EPERM);
	assert_int_equal(fake_call(deeper, SYS_kill, (uint64_t)made.same_pid, 0), 0);
	assert_int_equal(connected(kept, "same"), 0);
	assert_int_equal(connected(kept, "name"), -EPERM);
	/* The rules about what is gone were left behind, also in the ruleset. */
	assert_int_equal(ruleset_rules(fd_get(me, FD_RULESET), &rules), 4);
	assert_int_equal(k->landlock_rules, 9);
	assert_int_equal(CALL(landlock_restrict_self, FD_RULESET, 0), 0);
	assert_int_equal(opened(me, "/tmp/file", O_RDONLY), -EACCES);
	assert_int_equal(opened(me, "/below", O_RDONLY), 0);
}

static void comes_back_the_same(void **state)
{
	struct fake *old = g, *other;
	struct kernel *k;
	unsigned char *a;
	int64_t now = kernel_now(&g->k);
	struct err e = { 0 };
	size_t len;

	busy_make(&made, g);
	if (sandbox_walk(&g->k, now, &a, &len, &e) < 0)
		fail_msg("%s", e.msg);
	expect_same(a, len, &g->k, now); /* walking changes nothing */
	k = again(a, len, now);
	expect_same(a, len, k, now);
	use(k);
	other = calloc(1, sizeof(*other));
	other->task = me = k->init->tasks;
	other->used = old->used;
	g = other;
	kernel_lock(k);
	sandbox_resume(k);
	kernel_unlock(k);
	assert_true(task_find(k, made.thread_tid)->call.blocked);
	files_are_there();
	streams_are_there();
	sockets_are_there();
	events_are_there();
	locks_are_there();
	ipc_is_there();
	processes_are_there(k);
	namespaces_are_there(k);
	domains_are_there(k);
	free(a);
	stop(k);
	free(k);
	free(other);
	g = old;
	me = g->task;
}

/* What was to happen in a thousand seconds still is, on a clock that is somewhere else. */
static void time_stands_still(void **state)
{
	int64_t now = kernel_now(&g->k), far = 5000000000000;
	unsigned char *a;
	struct kernel *k;
	struct err e = { 0 };
	size_t len;

	busy_make(&made, g);
	assert_int_equal(sandbox_walk(&g->k, now, &a, &len, &e), 0);
	k = again(a, len, now + far);
	assert_int_equal(k->init->itimer_real_when, g->k.init->itimer_real_when + far);
	/* A poll begins again: with the time that it had left. */
	sandbox_resume(k);
	assert_int_equal(task_find(k, made.thread_tid)->call.deadline,
		task_find(&g->k, made.thread_tid)->call.deadline + far);
	free(a);
	stop(k);
	free(k);
}

/* Of a file that is mapped only what differs from it comes along; also what was cleared. */
static void mapped_file(void **state)
{
	const uint64_t at = (uint64_t)1 << 40;
	struct mm_region r = { .from = at, .to = at + 8192, .flags = REGION_READ | REGION_WRITE };
	struct kernel *k, *next;
	char buf[16] = { 0 };
	unsigned char *a;
	struct err e = { 0 };
	struct mm *mm;
	size_t len;

	busy_make(&made, g);
	assert_int_equal(sandbox_walk(&g->k, 1, &a, &len, &e), 0);
	k = again(a, len, 1);
	free(a);
	mm = k->init->tasks->mm;
	for (int i = 0; i < 2; i++) { /* the second is not written to */
		r.backing = calloc(1, sizeof(*r.backing));
		r.backing->refs = 1;
		r.backing->inode = inode_ref(fd_get(k->init->tasks, FD_BELOW)->inode);
		assert_int_equal(mm_image_add_region(mm->image, &r), 0);
		mm_backing_unref(r.backing);
		r.from += 8192;
		r.to += 8192;
	}
	assert_int_equal(mm->ops->write(mm, at, buf, 10), 10);
	assert_int_equal(sandbox_walk(k, 1, &a, &len, &e), 0);
	next = again(a, len, 1);
	expect_same(a, len, next, 1);
	mm = next->init->tasks->mm;
	assert_int_equal(mm->ops->read(mm, buf, at, 10), 10);
	assert_string_equal(buf, "");
	assert_int_equal(mm->ops->read(mm, buf, at + 8192, 10), 10);
	assert_string_equal(buf, "from below");
	free(a);
	stop(k);
	stop(next);
	free(k);
	free(next);
}

/* On a machine whose clock began later than the sandbox: what was is before that, what is due has
 * as much time left as it had. */
static void younger_clock(void **state)
{
	const int64_t hour = 3600 * (int64_t)1000000000;
	int64_t taken = kernel_now(&g->k);
	struct kernel *k, *next;
	struct err e = { 0 };
	unsigned char *a, *b;
	size_t len, b_len;

	busy_make(&made, g);
	g->k.boot_ns = g->k.init->start_ns = taken - hour;
	assert_int_equal(sandbox_walk(&g->k, taken, &a, &len, &e), 0);
	k = again(a, len, hour / 2);
	assert_int_equal(k->boot_ns, -hour / 2);
	assert_int_equal(k->init->start_ns, -hour / 2);
	assert_int_equal(k->init->itimer_real_when - hour / 2, g->k.init->itimer_real_when - taken);
	assert_int_equal(sandbox_walk(k, hour / 2, &b, &b_len, &e), 0);
	next = again(b, b_len, hour / 2);
	expect_same(b, b_len, next, hour / 2);
	for (int i = 0; i < 2; i++) {
		stop(i ? next : k);
		free(i ? next : k);
		free(i ? b : a);
	}
}

/* Every cut and many changes: refused or good, and nothing is left behind. */
static void hostile_is_refused(void **state)
{
	int64_t now = kernel_now(&g->k);
	struct err e = { 0 };
	unsigned char *a;
	size_t len;

	busy_make(&made, g);
	assert_int_equal(sandbox_walk(&g->k, now, &a, &len, &e), 0);
	for (size_t cut = 0; cut < len; cut += len / 50 + 1) {
		struct kernel *k = second_kernel();
		unsigned char *part = malloc(cut + 1);

		memcpy(part, a, cut);
		assert_true(sandbox_rebuild(k, now, part, cut, &e) < 0);
		assert_null(k->procs);
		free(part);
		stop(k);
		free(k);
	}
	for (size_t n = 0; n < 3; n++) { /* the sum notices each of these */
		struct kernel *k = second_kernel();
		size_t where = len / 4 * (n + 1);

		a[where] ^= 0x55;
		assert_int_equal(sandbox_rebuild(k, now, a, len, &e), -EBADMSG);
		a[where] ^= 0x55;
		stop(k);
		free(k);
	}
	free(a);
}

/* Domains that no call could have made. */
static void impossible_domains(void **state)
{
	int64_t now = kernel_now(&g->k);
	struct landlock *d;

	busy_make(&made, g);
	d = task_find(&g->k, made.kept_pid)->cred->landlock;
	assert_null(d->rules[0].inode); /* the port */
	for (unsigned n = 0; n < 9; n++) {
		struct landlock_rule port = d->rules[0];
		uint32_t fs = d->fs, net = d->net, scoped = d->scoped;
		struct landlock_rule file = d->rules[1];
		struct kernel *k = second_kernel();
		struct err e = { 0 };
		unsigned char *a;
		size_t len;

		switch (n) {
		case 0:
			d->fs |= 1 << 16;
			break;
		case 1:
			d->net |= 4;
			break;
		case 2:
			d->scoped |= 4;
			break;
		case 3:
			d->rules[0].port = 65536;
			break;
		case 4:
			d->rules[0].allowed = 0;
			break;
		case 5:
			d->rules[0].allowed = 7;
			break;
		case 6: /* what nobody handles */
			d->rules[1].allowed = LANDLOCK_EXECUTE;
			break;
		case 7: /* about a file and a port */
			d->rules[1].port = 1;
			break;
		default: /* two about the same */
			d->rules[1] = port;
		}
		assert_int_equal(sandbox_walk(&g->k, now, &a, &len, &e), 0);
		assert_int_equal(sandbox_rebuild(k, now, a, len, &e), -EBADMSG);
		assert_int_equal(k->landlock_rules, 0);
		d->fs = fs;
		d->net = net;
		d->scoped = scoped;
		d->rules[0] = port;
		d->rules[1] = file;
		free(a);
		stop(k);
		free(k);
	}
}

/* A rule is about a file, not about whatever has its name when the sandbox is built again. */
static void another_has_the_name(void **state)
{
	int64_t now = kernel_now(&g->k);
	struct landlock_rule *rule;
	struct err e = { 0 };
	unsigned char *a;
	struct kernel *k;
	struct task *kept;
	size_t len;

	busy_make(&made, g);
	rule = task_find(&g->k, made.kept_pid)->cred->landlock->rules;
	while (!rule->name || !S_ISREG(rule->inode->mode))
		rule++;
	rule->inode->ino++;
	assert_int_equal(sandbox_walk(&g->k, now, &a, &len, &e), 0);
	rule->inode->ino--;
	k = again(a, len, now);
	kept = task_find(k, made.kept_pid);
	assert_int_equal(kept->cred->landlock->count, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_null(kept->cred->landlock->rules[i].name);
	free(a);
	stop(k);
	free(k);
}

static void every_kind_has_its_walk(void **state)
{
	for (unsigned i = 0; i < file_kinds(); i++)
		if (!file_kind_walks(i))
			fail_msg("%s is MADE in walk/kinds.def and has no walk", file_kind_name(i));
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
	const struct CMUnitTest tests[] = {
		T(comes_back_the_same),
		T(time_stands_still),
		T(mapped_file),
		T(younger_clock),
		T(hostile_is_refused),
		T(impossible_domains),
		T(another_has_the_name),
		cmocka_unit_test(every_kind_has_its_walk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
