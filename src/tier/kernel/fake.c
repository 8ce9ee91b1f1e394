/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fake.c - a guest made of a buffer, for unit tests.
 *
 * Owns:  struct fake.
 * Rules: one host thread; the kernel lock is held inside fake_call only.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tier/kernel/fake.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/fdtable.h"

static ssize_t clip(struct mm *mm, uint64_t at, size_t len)
{
	uint64_t off = at - mm->fake_start;

	if (at < mm->fake_start || off >= mm->fake_len)
		return -EFAULT;
	return (ssize_t)(len < mm->fake_len - off ? len : mm->fake_len - off);
}

static ssize_t fake_read(struct mm *mm, void *dst, uint64_t src, size_t len)
{
	ssize_t n = clip(mm, src, len);

	if (n > 0)
		memcpy(dst, mm->fake_base + (src - mm->fake_start), (size_t)n);
	return n;
}

static ssize_t fake_write(struct mm *mm, uint64_t dst, const void *src, size_t len)
{
	ssize_t n = clip(mm, dst, len);

	if (n > 0)
		memcpy(mm->fake_base + (dst - mm->fake_start), src, (size_t)n);
	return n;
}

static const struct mm_ops fake_mm_ops = { .read = fake_read, .write = fake_write };

static void fake_finish(struct task *t)
{
}

static void fake_kick(struct task *t)
{
}

static void fake_kill(struct proc *p)
{
}

static void fake_release(struct task *t)
{
}

static const struct engine_ops fake_engine = { .finish = fake_finish,
	.kick = fake_kick,
	.kill = fake_kill,
	.leave = fake_finish,
	.release = fake_release };

struct fake *fake_create(void)
{
	struct fake *g = calloc(1, sizeof(*g));
	struct mm *mm = calloc(1, sizeof(*mm));

	assert(g && mm && kernel_init(&g->k) == 0);
	g->k.engine = &fake_engine;
	mm->refs = 1;
	mm->ops = &fake_mm_ops;
	mm->fake_base = calloc(1, FAKE_BYTES);
	mm->fake_start = FAKE_START;
	mm->fake_len = FAKE_BYTES;
	g->task = proc_first(&g->k, mm);
	assert(mm->fake_base && g->task);
	return g;
}

void fake_destroy(struct fake *g)
{
	procs_done(&g->k);
	kernel_done(&g->k);
	free(g);
}

struct task *fake_thread(struct task *t)
{
	int err;
	struct task *n = task_clone(
		t, CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, &err);

	assert(n);
	return n;
}

struct task *fake_fork(struct task *t)
{
	/* One buffer for all: a fake's memory is not copied. */
	int err;
	struct task *n = task_clone(t, CLONE_VM, &err);

	assert(n);
	return n;
}

gva_t fake_alloc(struct fake *g, size_t len)
{
	uint64_t at = FAKE_START + g->used;

	g->used += (len + 15) & ~(uint64_t)15;
	assert(g->used <= FAKE_BYTES);
	return GVA(at);
}

void *fake_ptr(struct fake *g, gva_t at)
{
	return g->task->mm->fake_base + (at.v - FAKE_START);
}

gva_t fake_put(struct fake *g, const void *p, size_t len)
{
	gva_t at = fake_alloc(g, len);

	memcpy(fake_ptr(g, at), p, len);
	return at;
}

gva_t fake_str(struct fake *g, const char *s)
{
	return fake_put(g, s, strlen(s) + 1);
}

long fake_call_(struct task *t, int64_t nr, const uint64_t args[6])
{
	long r;

	assert(!t->call.active);
	kernel_lock(t->k);
	r = call_begin(t, nr, args) ? t->call.ret : SYS_BLOCK;
	kernel_run_ready(t->k);
	kernel_unlock(t->k);
	return r;
}

bool fake_over(struct task *t, long *ret)
{
	if (t->call.active)
		return false;
	*ret = t->call.ret;
	return true;
}

void fake_sleep(struct fake *g, unsigned ms)
{
	int64_t now = kernel_now(&g->k), until = now + (int64_t)ms * 1000000;
	struct timespec ts;

	if (g->k.heap_len && g->k.heap[0]->when < until)
		until = g->k.heap[0]->when;
	if (until > now) {
		ts = (struct timespec){ (until - now) / 1000000000, (until - now) % 1000000000 };
		nanosleep(&ts, NULL);
	}
	kernel_lock(&g->k);
	ktimer_run(&g->k, kernel_now(&g->k));
	kernel_run_ready(&g->k);
	kernel_unlock(&g->k);
}
