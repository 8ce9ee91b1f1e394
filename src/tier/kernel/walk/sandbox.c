/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/walk/sandbox.c - all of a sandbox in one walk.
 *
 * Owns:  the order in which everything is walked, and the stream's head.
 * Rules: an object has its number before anybody points at it. The sum tells a broken stream from a
 *        whole one, not a good one from a bad one: every field is checked as if there were none.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/sha256.h"
#include "tier/kernel/fs/knobs.h"
#include "tier/kernel/fs/loop.h"
#include "tier/kernel/io/iostate.h"
#include "tier/kernel/ipc/ipc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/keys/key.h"
#include "tier/kernel/ns/ns.h"
#include "tier/kernel/sock/sock.h"
#include "tier/kernel/task/treewalk.h"
#include "tier/kernel/trap/later.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/tty/tty.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/walk.h"
#include "tier/kernel/walk/domains.h"
#include "tier/kernel/walk/files.h"
#include "tier/kernel/walk/memory.h"
#include "tier/kernel/walk/names.h"
#include "tier/kernel/walk/sandbox.h"
#include "tier/kernel/walk/survey.h"

enum { STREAM_VERSION = 5 };
static const char stream_magic[8] = "WARDKRN";

struct head {
	char magic[8];
	uint32_t version, sections;
	uint64_t bytes;
	int64_t taken_ns;
	uint8_t sum[SHA256_BYTES];
};

static void kernel_walk(struct kernel *k, struct walk *w)
{
	struct io_state *io = io_state(k);

	if (!io) {
		walk_fail(w, -ENOMEM);
		return;
	}
	walk_bytes(w, "hostname", k->hostname, sizeof(k->hostname));
	walk_bytes(w, "domainname", k->domainname, sizeof(k->domainname));
	k->hostname[sizeof(k->hostname) - 1] = k->domainname[sizeof(k->domainname) - 1] = '\0';
	walk_bytes(w, "boot_id", k->boot_id, sizeof(k->boot_id));
	walk_past(w, "boot_ns", &k->boot_ns);
	walk_bool(w, "over", &k->over);
	walk_i32(w, "over_status", &k->over_status);
	walk_u32(w, "inotify_cookie", &io->inotify_cookie);
	knobs_walk(k, w);
}

static void tasks_section(struct kernel *k, struct walk *w)
{
	tasks_walk(k, w);
}

/* What the sections before have counted up is as it was. */
static void last_walk(struct kernel *k, struct walk *w)
{
	walk_u64(w, "last_anon_ino", &k->last_anon_ino);
}

static const struct {
	const char *name;
	void (*walk)(struct kernel *k, struct walk *w);
} sections[] = {
	{ "kernel", kernel_walk },
	{ "namespaces", namespaces_walk },
	{ "tasks", tasks_section },
	{ "keys", keys_walk },
	{ "names", names_walk },
	{ "domains", domains_walk },
	{ "sockets", socks_walk },
	{ "terminals", ttys_walk },
	{ "ipc", ipc_walk },
	{ "files", files_make_walk },
	{ "behind files", files_fill_walk },
	{ "loop devices", loops_walk },
	{ "memory", memories_walk },
	{ "tables", tables_walk },
	{ "connections", socks_link_walk },
	{ "queues", mq_link_walk },
	{ "watches", files_watch_walk },
	{ "locks", files_lock_walk },
	{ "last", last_walk },
};

static void section_save(struct kernel *k, struct walk *w, uint32_t n)
{
	uint64_t bytes = 0;
	size_t start;

	walk_u32(w, "section", &n);
	walk_u64(w, "bytes", &bytes);
	start = w->len;
	sections[n].walk(k, w);
	if (w->err)
		return;
	bytes = w->len - start;
	memcpy(w->buf + start - sizeof(bytes), &bytes, sizeof(bytes));
}

static void section_load(struct kernel *k, struct walk *w, uint32_t n)
{
	uint32_t number = 0;
	uint64_t bytes = 0;
	size_t start;

	walk_u32(w, "section", &number);
	walk_u64(w, "bytes", &bytes);
	start = w->at;
	if (number != n || bytes > w->len - w->at)
		walk_fail(w, -EBADMSG);
	if (!w->err)
		sections[n].walk(k, w);
	if (!w->err && w->at - start != bytes)
		walk_fail(w, -EBADMSG);
}

static int save_all(struct kernel *k, struct walk *w, struct err *e)
{
	for (uint32_t n = 0; n < ARRAY_LEN(sections); n++) {
		section_save(k, w, n);
		if (w->err)
			return err_set(e, -w->err, "walking the sandbox's %s, at '%s'",
				sections[n].name, w->wrong ? w->wrong : "the start");
	}
	return 0;
}

static int save_with_head(
	struct kernel *k, struct walk *w, int64_t now, struct survey *s, struct err *e)
{
	struct head h = {
		.version = STREAM_VERSION, .sections = ARRAY_LEN(sections), .taken_ns = now
	};
	struct sha256 sum;
	size_t body;
	int r = survey_make(s, k, w);

	if (r < 0)
		return err_set(e, -r, "looking for what the sandbox has open");
	w->contents = true;
	w->wanted = &s->wanted;
	walk_bytes(w, "head", &h, sizeof(h));
	body = w->len;
	r = save_all(k, w, e);
	if (r < 0)
		return r;
	memcpy(h.magic, stream_magic, sizeof(h.magic));
	h.bytes = w->len - body;
	sha256_init(&sum);
	sha256_add(&sum, w->buf + body, h.bytes);
	sha256_end(&sum, h.sum);
	memcpy(w->buf + body - sizeof(h), &h, sizeof(h));
	return 0;
}

/* What guests have read, closed and set in place, and nobody has heard of yet. */
static void catch_up(struct kernel *k)
{
	for (struct proc *p = k->procs; p; p = p->next) {
		for (struct task *t = p->tasks; t; t = t->next) {
			if (t->state == TASK_DEAD)
				continue;
			place_sync(t);
			place_signals_sync(t);
		}
	}
}

int sandbox_walk(struct kernel *k, int64_t now, unsigned char **ret, size_t *ret_len, struct err *e)
{
	struct survey s = { .inode_cap = 0 };
	struct walk w;
	int r = walk_save_begin(&w);

	if (r < 0)
		return err_set(e, -r, "walking the sandbox");
	later_run(k, NULL);
	catch_up(k);
	r = save_with_head(k, &w, now, &s, e);
	if (r == 0) {
		*ret = w.buf;
		*ret_len = w.len;
		w.buf = NULL;
	}
	survey_done(&s);
	walk_done(&w);
	return r;
}

static int head_check(struct walk *w, int64_t now, struct err *e)
{
	uint8_t sum[SHA256_BYTES];
	struct sha256 s;
	struct head h;

	walk_bytes(w, "head", &h, sizeof(h));
	if (w->err || memcmp(h.magic, stream_magic, sizeof(h.magic)) != 0)
		return err_set(e, EBADMSG, "this is not a walked sandbox");
	if (h.version != STREAM_VERSION || h.sections != ARRAY_LEN(sections))
		return err_set(e, EPROTO,
			"a sandbox walked by another ward (version %u, ours is %u)", h.version,
			STREAM_VERSION);
	if (h.bytes != w->len - w->at)
		return err_set(e, EBADMSG, "a walked sandbox that is cut short");
	sha256_init(&s);
	sha256_add(&s, w->buf + w->at, h.bytes);
	sha256_end(&s, sum);
	if (memcmp(sum, h.sum, sizeof(sum)) != 0)
		return err_set(e, EBADMSG, "a walked sandbox whose sum is not that of its bytes");
	if (h.taken_ns < 0 || now < 0 || ckd_sub(&w->shift, now, h.taken_ns))
		return err_set(e, EBADMSG, "a sandbox walked at no time");
	return 0;
}

int sandbox_rebuild(
	struct kernel *k, int64_t now, const unsigned char *buf, size_t len, struct err *e)
{
	struct walk w;
	int r;

	if (k->procs || !k->vfs)
		return err_set(e, EINVAL, "rebuilding a sandbox needs a kernel that has none");
	r = walk_load_begin(&w, buf, len);
	if (r < 0)
		return err_set(e, -r, "rebuilding a sandbox");
	r = head_check(&w, now, e);
	w.contents = true;
	for (uint32_t n = 0; n < ARRAY_LEN(sections) && r == 0; n++) {
		section_load(k, &w, n);
		if (w.err)
			r = err_set(e, -w.err, "rebuilding the sandbox's %s, at '%s'",
				sections[n].name, w.wrong ? w.wrong : "the start");
	}
	if (r == 0 && w.at != w.len)
		r = err_set(e, EBADMSG, "a walked sandbox with something behind its end");
	walk_done(&w);
	return r;
}

void sandbox_resume(struct kernel *k)
{
	for (struct proc *p = k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next)
			if (t->call.active && t->call.blocked)
				wait_rouse(t);
	kernel_run_ready(k);
}
