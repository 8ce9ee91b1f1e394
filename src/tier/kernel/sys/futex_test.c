/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/futex_test.c - locks with an owner: who is next, who was left, who gives up.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "tier/kernel/fake.h"
#include "tier/kernel/task/proc.h"

enum { FIFO = 1 };

struct lock {
	struct fake *g;
	gva_t at;
	uint32_t *word;
};

static struct lock start(void)
{
	struct lock l = { .g = fake_create() };

	l.at = fake_alloc(l.g, 16);
	l.word = fake_ptr(l.g, l.at);
	return l;
}

static long op(const struct lock *l, struct task *t, unsigned what)
{
	return fake_call(t, SYS_futex, l->at.v, what | FUTEX_PRIVATE_FLAG, 0, 0);
}

static bool is_over(struct task *t, long want)
{
	long ret = 1;

	return fake_over(t, &ret) && ret == want;
}

static void by_priority_then_in_turn(void **state)
{
	struct lock l = start();
	struct task *a = fake_thread(l.g->task), *b = fake_thread(a), *c = fake_thread(a);
	struct task *d = fake_thread(a);

	d->sched.policy = FIFO;
	d->sched.prio = 5;
	assert_int_equal(op(&l, a, FUTEX_LOCK_PI), 0);
	assert_int_equal(*l.word, a->tid);
	assert_int_equal(op(&l, a, FUTEX_LOCK_PI), -EDEADLK);
	assert_int_equal(op(&l, b, FUTEX_TRYLOCK_PI), -EAGAIN);
	assert_int_equal(*l.word, a->tid);
	assert_int_equal(op(&l, b, FUTEX_UNLOCK_PI), -EPERM);
	assert_int_equal(op(&l, b, FUTEX_LOCK_PI), SYS_BLOCK);
	assert_int_equal(op(&l, c, FUTEX_LOCK_PI), SYS_BLOCK);
	assert_int_equal(op(&l, d, FUTEX_LOCK_PI), SYS_BLOCK);
	assert_int_equal(*l.word, (uint32_t)a->tid | FUTEX_WAITERS);
	assert_int_equal(op(&l, a, FUTEX_UNLOCK_PI), 0);
	assert_true(is_over(d, 0));
	assert_int_equal(*l.word, (uint32_t)d->tid | FUTEX_WAITERS);
	assert_int_equal(op(&l, d, FUTEX_UNLOCK_PI), 0);
	assert_true(is_over(b, 0));
	assert_int_equal(op(&l, b, FUTEX_UNLOCK_PI), 0);
	assert_true(is_over(c, 0));
	assert_int_equal(*l.word, c->tid);
	assert_int_equal(op(&l, c, FUTEX_UNLOCK_PI), 0);
	assert_int_equal(*l.word, 0);
	fake_destroy(l.g);
}

/* Who ends with it leaves it to the next, who is told. */
static void the_owner_ends(void **state)
{
	struct lock l = start();
	struct task *a = fake_fork(l.g->task), *b = fake_thread(l.g->task);
	uint32_t was = (uint32_t)a->tid;

	*l.word = was;
	assert_int_equal(op(&l, b, FUTEX_LOCK_PI), SYS_BLOCK);
	proc_exit(a->proc, 0);
	kernel_run_ready(&l.g->k);
	assert_true(is_over(b, 0));
	assert_int_equal(*l.word, (uint32_t)b->tid | FUTEX_OWNER_DIED);
	*l.word = 0x3fffff;
	assert_int_equal(op(&l, b, FUTEX_LOCK_PI), -ESRCH);
	fake_destroy(l.g);
}

/* One that stops waiting is not given it; a word that is not there is nobody's. */
static void gives_up(void **state)
{
	struct lock l = start();
	struct task *a = fake_thread(l.g->task), *b = fake_thread(a), *c = fake_thread(a);
	int64_t past[2] = { 1, 0 };

	assert_int_equal(op(&l, a, FUTEX_LOCK_PI), 0);
	assert_int_equal(op(&l, b, FUTEX_LOCK_PI), SYS_BLOCK);
	assert_int_equal(fake_call(c, SYS_futex, l.at.v, FUTEX_LOCK_PI, 0,
				 fake_put(l.g, past, sizeof(past)).v),
		-ETIMEDOUT);
	task_exit(b, 0);
	assert_int_equal(op(&l, a, FUTEX_UNLOCK_PI), 0);
	assert_int_equal(*l.word, 0);
	assert_int_equal(fake_call(a, SYS_futex, 8, FUTEX_LOCK_PI, 0, 0), -EFAULT);
	assert_int_equal(fake_call(a, SYS_futex, l.at.v + 1, FUTEX_LOCK_PI, 0, 0), -EINVAL);
	assert_int_equal(fake_call(a, SYS_futex, l.at.v, FUTEX_WAIT, 0, 0), -ENOSYS);
	fake_destroy(l.g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_priority_then_in_turn),
		cmocka_unit_test(the_owner_ends),
		cmocka_unit_test(gives_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
