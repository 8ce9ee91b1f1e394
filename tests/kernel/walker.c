/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/kernel/walker.c - a kernel process that walks its own sandbox when it is told to.
 *
 * Linked with all of ward into kernel_walker, which tests/e2e/test_kernel_walk.py runs; in ward
 * itself there is nobody to be told. WARD_WALKER names a folder with two FIFOs, "order" and
 * "answer", and a file, "stream". After a line in "order" every guest process is stopped, the
 * sandbox is walked, built again in a second kernel beside the first, walked there and compared;
 * then the guests go on. The answer is one line: "same BYTES TEXTS", or what was wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/box.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/walk/files.h"
#include "tier/kernel/walk/sandbox.h"
#include "tier/kernel/walk/walker.h"

enum { LOOK_NS = 2000000, LOOKS_MAX = 30000, TEXT_MAX = 1 << 16 };

struct walker {
	struct watch watch; /* first: the orders */
	struct ktimer timer;
	struct kernel *k;
	struct kbox views; /* copies, for second kernels */
	int answer, stream, looks;
	char says[512];
};

static void say(struct walker *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct walker *w, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(w->says, sizeof(w->says) - 1, fmt, ap);
	va_end(ap);
	if (n < 0 || n > (int)sizeof(w->says) - 2)
		n = (int)sizeof(w->says) - 2;
	w->says[n] = '\n';
	host_write(w->answer, w->says, (size_t)n + 1);
}

/* A kernel without guests: whoever is in a call waits for ever. */

static void of_task(struct task *t)
{
}

static void of_proc(struct proc *p)
{
}

static const struct engine_ops nobody = {
	.finish = of_task, .kick = of_task, .kill = of_proc, .leave = of_task, .release = of_task
};

static void copy_views(int *to, const int *from, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		to[i] = copy_fd(from[i]);
}

static struct kernel *second_kernel(struct walker *w, struct err *e)
{
	struct kernel *k = calloc(1, sizeof(*k));
	struct kbox b = w->views;

	if (!k || kernel_init(k) < 0) {
		free(k);
		(void)err_set(e, ENOMEM, "making a second kernel");
		return NULL;
	}
	k->engine = &nobody;
	k->no_loopback = w->k->no_loopback;
	k->memory_limit = w->k->memory_limit;
	b.upper = -1;
	copy_views(b.lowers, w->views.lowers, b.lower_count);
	copy_views(b.binds, w->views.binds, b.bind_count);
	copy_views(b.mounts, w->views.mounts, b.mount_count);
	if (kbox_tree(&b, k, e) == 0)
		return k;
	free(k);
	return NULL;
}

/* Is anything left of it? */
static bool end_kernel(struct kernel *k)
{
	bool clean;

	procs_done(k);
	vfs_done(k);
	kernel_done(k);
	clean = !k->file_count && !k->sig_queued && !k->heap_len && !k->aio_events;
	free(k);
	return clean;
}

/* What guests can read about it: told by other code than walks. */

static ssize_t text_of(struct kernel *k, const char *path, char *text)
{
	struct file *f;
	ssize_t n;
	int r = vfs_open(k->init->tasks, AT_FDCWD, path, O_RDONLY, 0, &f);

	if (r < 0)
		return r;
	n = file_kread(f, text, TEXT_MAX - 1, 0);
	file_unref(f);
	text[n > 0 ? n : 0] = '\0';
	return n;
}

/* The host's part of what a text says is another's in the second kernel, which has no guests; and
 * a table has as much room as it needs. */
static bool is_hosts(const char *line)
{
	static const char *const words[] = { "Vm", "Rss", "State:", "FDSize:" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strncmp(line, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

/* The first line that differs, in *a and *b, both cut there; NULL: none. */
static char *line_apart(char **a, char **b)
{
	while (**a || **b) {
		size_t n = strcspn(*a, "\n"), m = strcspn(*b, "\n");

		if (!is_hosts(*a) && (n != m || memcmp(*a, *b, n) != 0)) {
			(*a)[n] = (*b)[m] = '\0';
			return *a;
		}
		*a += n + ((*a)[n] != '\0');
		*b += m + ((*b)[m] != '\0');
	}
	return NULL;
}

struct texts {
	struct walker *w;
	struct kernel *other;
	char *a, *b;
	unsigned count;
	bool apart;
};

static void compare_text(struct texts *c, const char *path)
{
	char *a = c->a, *b = c->b;
	ssize_t n, m;

	if (c->apart)
		return;
	n = text_of(c->w->k, path, a);
	m = text_of(c->other, path, b);
	c->count++;
	if ((n < 0 || m < 0) && n != m) {
		c->apart = true;
		say(c->w, "wrong: %s is %zd bytes here and %zd there", path, n, m);
	} else if (n > 0 && line_apart(&a, &b)) {
		c->apart = true;
		say(c->w, "wrong: %s says '%s' here and '%s' there", path, a, b);
	}
}

static void compare_proc(struct texts *c, struct proc *p)
{
	static const char *const files[] = { "status", "limits", "cmdline", "comm", "cgroup",
		"mountinfo", "oom_score_adj", "timers", "environ", "auxv" };
	char path[64];

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "/proc/%d/%s", p->pid, files[i]);
		compare_text(c, path);
	}
	for (struct task *t = p->tasks; t; t = t->next) {
		if (t->state == TASK_DEAD)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/status", p->pid, t->tid);
		compare_text(c, path);
		for (unsigned fd = 0; t->files && fd < t->files->cap; fd++) {
			const struct file *f = t->files->slots[fd].file;

			if (!f || t != p->tasks || file_is_lost(f))
				continue;
			snprintf(path, sizeof(path), "/proc/%d/fdinfo/%u", p->pid, fd);
			compare_text(c, path);
		}
	}
}

static int compare_texts(struct walker *w, struct kernel *other)
{
	static const char *const files[] = { "locks", "net/unix", "net/tcp", "net/udp", "net/tcp6",
		"net/netlink", "sysvipc/shm", "sysvipc/sem", "sysvipc/msg", "mounts",
		"sys/kernel/hostname", "sys/kernel/random/boot_id" };
	struct texts c = { .w = w, .other = other };
	char path[64];

	c.a = malloc(TEXT_MAX);
	c.b = malloc(TEXT_MAX);
	if (!c.a || !c.b) {
		c.apart = true;
		say(w, "wrong: no memory for texts");
	}
	for (size_t i = 0; !c.apart && i < sizeof(files) / sizeof(files[0]); i++) {
		snprintf(path, sizeof(path), "/proc/%s", files[i]);
		compare_text(&c, path);
	}
	for (struct proc *p = w->k->procs; p && !c.apart; p = p->next)
		compare_proc(&c, p);
	free(c.a);
	free(c.b);
	return c.apart ? -1 : (int)c.count;
}

/* The last one, and behind it, if it is another, what the second kernel made of it. */
static bool keep_stream(struct walker *w, const unsigned char *a, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = host_write(w->stream, a + done, len - done);

		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

static bool same(struct walker *w, struct kernel *k, int64_t now, const unsigned char *a,
	size_t len, const char *when)
{
	struct err e = { 0 };
	unsigned char *b;
	size_t b_len, at;

	if (sandbox_walk(k, now, &b, &b_len, &e) < 0) {
		say(w, "wrong: %s: %s", when, e.msg);
		return false;
	}
	for (at = 66; at < len && at < b_len && a[at] == b[at]; at++)
		; /* behind the head */
	if (len != b_len || memcmp(a, b, len) != 0) {
		say(w, "wrong: %s: %zu bytes and %zu, apart at %zu", when, len, b_len, at);
		keep_stream(w, b, b_len);
		free(b);
		return false;
	}
	free(b);
	return true;
}

/* Can it go on waiting? What ward handed in is no more there, and nobody can be run. */
static bool can_wait(const struct call *c)
{
	return c->nr != SYS_execve && c->nr != SYS_execveat && !(c->held && file_is_lost(c->held));
}

/* Everybody goes on waiting for what they waited for. */
static bool enter_again(struct walker *w, struct kernel *k, bool *ret_late)
{
	for (struct proc *p = k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next)
			if (t->call.active && can_wait(&t->call))
				wait_rouse(t);
	kernel_run_ready(k);
	for (struct proc *p = k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next) {
			const struct task *was = task_find(w->k, t->tid);

			if (!was || !was->call.active || t->call.active)
				continue;
			if (was->call.deadline && was->call.deadline <= kernel_now(k)) {
				*ret_late = true;
				continue;
			}
			say(w, "wrong: call %d of task %d does not wait any more: %ld",
				(int)t->call.nr, t->tid, t->call.ret);
			return false;
		}
	return true;
}

static void compare(struct walker *w, const unsigned char *a, size_t len, int64_t now)
{
	struct err e = { 0 };
	struct kernel *k = second_kernel(w, &e);
	bool fine, late = false;
	int texts = -1;

	if (!k) {
		say(w, "wrong: %s", e.msg);
		return;
	}
	fine = sandbox_rebuild(k, now, a, len, &e) == 0;
	if (!fine)
		say(w, "wrong: %s", e.msg);
	fine = fine && same(w, k, now, a, len, "built again");
	fine = fine && enter_again(w, k, &late);
	/* A time-out that has come meanwhile is none of the walk's. */
	fine = fine && (late || same(w, k, now, a, len, "calls entered again"));
	if (fine)
		texts = compare_texts(w, k);
	fine = fine && texts >= 0;
	if (fine)
		sandbox_resume(k);
	if (!end_kernel(k) && fine) {
		fine = false;
		say(w, "wrong: something is left of the second kernel");
	}
	if (fine)
		say(w, "same %zu %d", len, texts);
}

/* False: somebody is just coming or going. */
static bool walk(struct walker *w)
{
	int64_t now = kernel_now(w->k);
	struct err e = { 0 };
	unsigned char *a;
	size_t len;

	if (sandbox_walk(w->k, now, &a, &len, &e) < 0) {
		if (e.code == EBUSY)
			return false;
		say(w, "wrong: %s", e.msg);
		return true;
	}
	if (lseek(w->stream, 0, SEEK_SET) < 0 || ftruncate(w->stream, 0) < 0 ||
		!keep_stream(w, a, len))
		say(w, "wrong: writing the stream: %s", strerror(errno));
	else
		compare(w, a, len, now);
	free(a);
	return true;
}

/* All stand still: nobody runs a guest's code, and nobody is being born. */

static void signal_all(struct kernel *k, int sig)
{
	for (struct proc *p = k->procs; p; p = p->next)
		if (p->host)
			syscall(SYS_pidfd_send_signal, p->host->watch.fd, sig, NULL, 0);
}

static bool stands(struct task *t)
{
	char path[40], text[256], *at;
	ssize_t n;

	if (!t->host || t->host->in_call)
		return true;
	if (str_fmt(path, sizeof(path), "%d/stat", (int)t->host->tid) < 0)
		return false;
	n = host_get(t->k->host_proc, path, text, sizeof(text));
	at = n > 0 ? strrchr(text, ')') : NULL;
	return at && at[1] == ' ' && at[2] == 'T';
}

static bool all_stand(struct kernel *k)
{
	for (struct proc *p = k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next)
			if (t->state != TASK_DEAD && !stands(t))
				return false;
	return true;
}

static void on_look(struct kernel *k, struct ktimer *timer)
{
	struct walker *w = (struct walker *)((char *)timer - offsetof(struct walker, timer));
	bool stand, done;

	kernel_run_ready(k); /* whom this section has woken before us */
	stand = all_stand(k);
	done = stand && walk(w);
	if (!done && ++w->looks > LOOKS_MAX) {
		say(w, "wrong: the sandbox does not stand still");
		done = true;
	}
	/* Who is being born is let go on: the rest of it is its own to do. */
	signal_all(k, done || stand ? SIGCONT : SIGSTOP);
	if (!done)
		ktimer_set(k, timer, kernel_now(k) + LOOK_NS);
}

static void on_order(struct kernel *k, struct watch *watch, unsigned events)
{
	struct walker *w = (struct walker *)watch;
	char line[64];

	if (host_read(watch->fd, line, sizeof(line)) <= 0)
		return;
	w->looks = 0;
	signal_all(k, SIGSTOP);
	ktimer_set(k, &w->timer, kernel_now(k) + LOOK_NS);
}

static int open_in(const char *folder, const char *name, int flags, struct err *e)
{
	char path[256];
	int fd = str_fmt(path, sizeof(path), "%s/%s", folder, name);

	if (fd == 0)
		fd = host_open(path, flags | O_CLOEXEC, 0);
	return fd < 0 ? err_set(e, -fd, "opening %s in %s", name, folder) : fd;
}

int walker_open(struct walker **ret, struct err *e)
{
	const char *folder = getenv("WARD_WALKER");
	struct walker *w = folder ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return folder ? err_set(e, ENOMEM, "making the walker") : 0;
	w->watch.fd = open_in(folder, "order", O_RDWR | O_NONBLOCK, e);
	w->answer = w->watch.fd < 0 ? -1 : open_in(folder, "answer", O_RDWR | O_NONBLOCK, e);
	w->stream = w->answer < 0 ? -1 : open_in(folder, "stream", O_RDWR, e);
	if (w->stream < 0)
		return -1; /* which ends the process */
	*ret = w;
	return 0;
}

int walker_start(struct walker *w, struct kernel *k, const struct kbox *b, struct err *e)
{
	int r;

	if (!w)
		return 0;
	w->k = k;
	w->views = *b;
	w->timer.fn = on_look;
	w->watch.fn = on_order;
	w->watch.events = EPOLLIN;
	copy_views(w->views.lowers, b->lowers, b->lower_count);
	copy_views(w->views.binds, b->binds, b->bind_count);
	copy_views(w->views.mounts, b->mounts, b->mount_count);
	r = watch_add(k, &w->watch);
	return r < 0 ? err_set(e, -r, "watching for orders to walk") : 0;
}
