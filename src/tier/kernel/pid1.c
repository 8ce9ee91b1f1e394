/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/pid1.c - the guest's pid 1, and a command that runs before it.
 *
 * Owns:  struct pid1.
 * Rules: what a command sees of itself, of pid 1 and of its end is the same either way. START is
 *        only looked at until the command is there: whatever is not as simple as can be, and
 *        whatever fails, is left to the agent, which says why. Pid 1 is closed to everybody inside
 *        and deaf to their signals, so nobody misses more of it than its memory.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "agent/spawn.h"
#include "base/own.h"
#include "base/str.h"
#include "proto/fds.h"
#include "proto/msg.h"
#include "tier/kernel/pid1.h"
#include "tier/kernel/task/exec.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/hostfile.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/tier_impl.h"

enum { AGENT_FD = 3, EXIT_BYTES = 256 };

static int add_number(struct words *w, uint32_t n)
{
	char text[12];
	int len = snprintf(text, sizeof(text), "%u", n);

	return words_add(w, text, (size_t)len);
}

static int agent_words(const struct pid1 *p, struct words *w)
{
	int r = words_add(w, "ward-agent", 10);

	if (r == 0)
		r = add_number(w, AGENT_FD);
	if (r == 0)
		r = words_add(w, "fresh", 5);
	if (r == 0 && p->command)
		r = add_number(w, p->stream);
	if (r == 0 && p->command)
		r = add_number(w, (uint32_t)p->command->pid);
	return r;
}

/* Who it is stands in the books before it runs. */
static void name_agent(struct pid1 *p)
{
	struct proc *init = p->k->init;
	struct words w = { 0 };

	str_copy(init->tasks->comm, sizeof(init->tasks->comm), "ward-agent");
	if (agent_words(p, &w) < 0) {
		words_done(&w);
		return;
	}
	free(init->cmdline);
	init->cmdline = w.bytes;
	init->cmdline_len = w.len;
}

/* From here on it is the agent's to hear of its end. */
static void hand_over(struct pid1 *p)
{
	wait_remove(&p->ended);
	ktimer_clear(p->k, &p->later);
	p->command = NULL;
}

/* Pid 1 of the guest is the agent: ward's own program under another name. */
static int agent_start(struct pid1 *p)
{
	struct kernel *k = p->k;
	struct exec *x = exec_create(k);
	int r = x ? agent_words(p, &x->argv) : -ENOMEM;
	int fd = r == 0 ? copy_fd(p->exe) : -1;

	if (r == 0) {
		r = exec_name(x, "/ward-agent", "/ward-agent");
		x->file = fd < 0 ? NULL : hostfile_create(k, fd, O_RDONLY);
		r = r == 0 && x->file ? exec_go(k->init->tasks, x) : -ENOMEM;
	}
	if (x)
		exec_done(x);
	if (r < 0)
		return r;
	close(take_fd(&p->exe));
	k->init->tasks->sighand->act[SIGCHLD - 1].handler = GSIG_DFL;
	if (p->command)
		hand_over(p);
	return 0;
}

static void wait_for_blank(struct pid1 *p)
{
	if (!p->blank.q)
		wait_add(&engine_of(p->k)->blank_queue, &p->blank);
}

static void wake_later(struct pid1 *p)
{
	ktimer_set(p->k, &p->later, kernel_now(p->k) + REFILL_MS * 1000000LL);
}

/* The agent is wanted. When it cannot be had now, it is tried again. */
static void agent_wake(struct pid1 *p)
{
	struct engine *e = engine_of(p->k);

	if (!p->command)
		return;
	if (p->asked.fd >= 0) { /* the guest's own file watches it from now on */
		watch_remove(p->k, &p->asked);
		p->asked.fd = -1;
	}
	if (engine_has_blank(p->k)) {
		if (agent_start(p) < 0)
			wake_later(p);
		return;
	}
	if (!e->blank_asked)
		blank_ask(e);
	wait_for_blank(p);
}

static void on_asked(struct kernel *k, struct watch *w, unsigned events)
{
	agent_wake((struct pid1 *)((char *)w - offsetof(struct pid1, asked)));
}

static void on_later(struct kernel *k, struct ktimer *timer)
{
	agent_wake((struct pid1 *)((char *)timer - offsetof(struct pid1, later)));
}

/* As the agent says it: then it ends, and everybody with it. */
static void on_ended(struct wait_entry *entry, unsigned events)
{
	struct pid1 *p = (struct pid1 *)((char *)entry - offsetof(struct pid1, ended));
	const struct proc *c = p->command;
	uint8_t bytes[EXIT_BYTES];
	struct msg m;
	int len;

	if (c->state != PROC_ZOMBIE)
		return; /* an execve */
	wait_remove(entry);
	msg_begin(&m, bytes, sizeof(bytes), PROTO_EXIT, 0, p->stream);
	msg_exit(&m, c->wait_status, &c->own_usage);
	len = msg_end(&m);
	p->k->over = true;
	p->k->over_status = send(p->channel, bytes, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL) == len
				    ? 0
				    : 1 << 8;
}

__attribute__((noreturn)) static void give_up(struct pid1 *p, int r)
{
	struct err e = { 0 };

	err_set(&e, -r, "%s the first process inside%s",
		engine_of(p->k)->fail ? "making" : "starting",
		engine_of(p->k)->fail ? " (see ulimit -v and -u)" : "");
	trail_fail(p->trail, &e);
	_exit(125);
}

/* What ward wants to have run. */
struct order {
	struct frame_reader in;
	size_t len; /* of its frame */
	uint32_t stream;
	const char *name, *path; /* in the frame */
	struct exec *x;
};

static int read_words(struct order *o, const struct frame *f)
{
	struct fields fs;
	struct field field;
	int r;

	fields_init(&fs, f->data, f->len);
	while ((r = fields_next(&fs, &field)) == 1) {
		const char *path = field.tag == TAG_ENV ? str_after(field.text, "PATH=") : NULL;

		if (field.tag != TAG_ARG && field.tag != TAG_ENV)
			return -EOPNOTSUPP;
		if (path && !o->path)
			o->path = path;
		if (field.tag == TAG_ARG && !o->name)
			o->name = field.text;
		r = words_add(field.tag == TAG_ARG ? &o->x->argv : &o->x->envp, field.text,
			field.len - 1);
		if (r < 0)
			return r;
	}
	return r < 0 || (o->name && *o->name) ? r : -EINVAL;
}

/* Only a look: who cannot do it leaves it where it is. */
static int peek_start(struct pid1 *p, struct order *o)
{
	struct frame f;
	ssize_t n;
	size_t cap;
	void *at;

	frame_reader_init(&o->in);
	at = frame_space(&o->in, &cap);
	n = recv(p->channel, at, cap, MSG_PEEK | MSG_DONTWAIT);
	if (n <= 0)
		return -EAGAIN;
	frame_fed(&o->in, (size_t)n);
	if (frame_next(&o->in, &f) != 1 || f.type != PROTO_START || !f.stream ||
		f.flags != (START_STDIO_FDS | START_LAST))
		return -EOPNOTSUPP;
	o->len = FRAME_HEAD + f.len;
	o->stream = f.stream;
	return read_words(o, &f);
}

/* As the agent looks for it, which tries again and says what it found when this finds nothing. */
static int find_program(struct task *t, struct order *o)
{
	const char *dir = o->path ? o->path : SPAWN_PATH;
	char file[WARD_PATH_MAX];
	int r = -ENOENT;

	if (strchr(o->name, '/')) {
		r = str_copy(file, sizeof(file), o->name);
		if (r == 0)
			r = vfs_open_exec(t, AT_FDCWD, file, 0, &o->x->file);
	} else {
		while ((r == -ENOENT || r == -ENOTDIR) &&
			str_search(&dir, o->name, file, sizeof(file)))
			r = vfs_open_exec(t, AT_FDCWD, file, 0, &o->x->file);
	}
	return r < 0 ? r : exec_look(t, o->x, AT_FDCWD, file);
}

/* A child of pid 1 as it is right before its execve. */
static struct task *make_task(struct kernel *k)
{
	uint32_t limit = k->report->pids_limit;
	struct files *files = files_create();
	struct task *t = NULL;
	int r;

	if (files && (!limit || k->task_count < limit))
		t = task_clone(k->init->tasks, 0, &r);
	if (t && proc_set_sid(t->proc) < 0) {
		task_abandon(t);
		t = NULL;
	}
	if (!t) {
		files_unref(NULL, files);
		return NULL;
	}
	t->exit_signal = SIGCHLD;
	files_unref(NULL, t->files);
	t->files = files;
	return t;
}

/* START is taken from the channel now, with the three descriptors that came with it. */
static int take_stdio(struct pid1 *p, struct order *o, struct task *t)
{
	int fds[3], r = 0;
	unsigned count = 0;
	struct fd_queue q = { fds, &count, 3 };
	ssize_t n = fds_receive(p->channel, o->in.buf, o->len, &q);

	if (n != (ssize_t)o->len || count != 3)
		r = n < 0 ? (int)n : -EPROTO;
	for (unsigned i = 0; i < count; i++) {
		struct file *f = hostfile_passed(p->k, fds[i]);

		if (r == 0)
			r = f ? fd_install(t, f, false, 0) : -ENOMEM;
		if (r < 0)
			file_unref(f);
		r = r < 0 ? r : 0;
	}
	return r;
}

static void order_destroy(struct order *o)
{
	if (o && o->x)
		exec_done(o->x);
	free(o);
}

/* What there is to run, if it is that simple; before there is a process for it. */
static void look_ahead(struct pid1 *p)
{
	struct order *o = p->alone ? NULL : malloc(sizeof(*o));

	if (!o)
		return;
	o->name = o->path = NULL;
	o->x = exec_create(p->k);
	if (o->x && peek_start(p, o) == 0 && find_program(p->k->init->tasks, o) == 0)
		p->order = o;
	else
		order_destroy(o);
}

/* 0, or why the agent has to. */
static int command_start(struct pid1 *p)
{
	struct kernel *k = p->k;
	struct order *o = p->order;
	struct task *t = o ? make_task(k) : NULL;
	int r;

	if (!t)
		return o ? -ENOMEM : -ENOENT;
	r = exec_go(t, o->x);
	if (r < 0) {
		task_abandon(t);
		k->last_tid--; /* the agent's first child has the same number */
		return r;
	}
	r = take_stdio(p, o, t);
	if (r < 0) /* START is gone: nobody else can begin */
		give_up(p, r);
	p->command = t->proc;
	p->stream = o->stream;
	return 0;
}

/* Orphans go as they come, as with the agent. */
static void stand_in(struct pid1 *p)
{
	struct kernel *k = p->k;

	name_agent(p);
	k->init->tasks->sighand->act[SIGCHLD - 1].handler = GSIG_IGN;
	wait_add(&p->command->exit_queue, &p->ended);
	p->asked =
		(struct watch){ .fd = p->channel, .events = EPOLLIN | EPOLLRDHUP, .fn = on_asked };
	if (watch_add(k, &p->asked) < 0)
		p->asked.fd = -1;
	wake_later(p);
}

/* There is a blank, or there will be none. */
static void on_blank(struct wait_entry *entry, unsigned events)
{
	struct pid1 *p = (struct pid1 *)((char *)entry - offsetof(struct pid1, blank));
	struct engine *e = engine_of(p->k);
	int r = e->fail;

	if (!engine_has_blank(p->k) && !r)
		return;
	wait_remove(entry);
	if (p->command) {
		if (r < 0 || agent_start(p) < 0)
			wake_later(p);
		return;
	}
	if (!p->order)
		look_ahead(p); /* it may have come since */
	if (r == 0 && command_start(p) == 0)
		stand_in(p);
	else if (r == 0)
		r = agent_start(p);
	if (r < 0)
		give_up(p, r);
	order_destroy(p->order);
	p->order = NULL;
	trail_begin(p->trail, STEP_KERNEL);
}

void pid1_begin(struct pid1 *p)
{
	p->blank.fn = on_blank;
	p->ended.fn = on_ended;
	p->later.fn = on_later;
	p->asked.fd = -1;
	wait_for_blank(p);
	look_ahead(p);
}
