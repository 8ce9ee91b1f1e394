/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/wait_test.c - blocking: woken, timed out, interrupted; timers in order.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/kernel/fake.h"

static void counts_unknown(void **state)
{
	struct fake *g = fake_create();

	assert_int_equal(fake_call(g->task, 9999, 0), -ENOSYS);
	assert_int_equal(fake_call(g->task, 9999, 0), -ENOSYS);
	assert_int_equal(g->k.report->unknown_count, 1);
	assert_int_equal(g->k.report->unknown[0].count, 2);
	fake_destroy(g);
}

static void wakes_who_cares(void **state)
{
	struct fake *g = fake_create();
	struct task *in = fake_thread(g->task), *out = fake_fork(g->task);
	struct wait_queue q = { 0 };

	/* What a blocking call function does, by hand. */
	in->call.active = out->call.active = true;
	assert_int_equal(wait_on(in, &q, POLLIN), 0);
	assert_int_equal(wait_on(out, &q, POLLOUT), 0);
	assert_int_equal(wait_block(in), SYS_BLOCK);
	in->call.blocked = out->call.blocked = true;
	wait_wake(&q, POLLOUT);
	assert_false(in->call.ready);
	assert_true(out->call.ready);
	wait_wake(&q, POLLHUP);
	assert_true(in->call.ready);
	fake_destroy(g);
}

static void a_signal_interrupts(void **state)
{
	struct fake *g = fake_create();
	struct task *t = fake_fork(g->task);

	assert_int_equal(wait_block(t), SYS_BLOCK);
	t->sighand->act[SIGUSR1 - 1].handler = 0x1000;
	assert_int_equal(signal_send_proc(t->proc, SIGUSR1, NULL), 0);
	assert_int_equal(wait_block(t), -ERESTARTSYS);
	signal_set_mask(t, GSIG_BIT(SIGUSR1));
	assert_int_equal(wait_block(t), SYS_BLOCK);
	fake_destroy(g);
}

struct tick {
	struct ktimer timer;
	int id, *log;
	unsigned *at;
};

static void on_tick(struct kernel *k, struct ktimer *timer)
{
	struct tick *t = (struct tick *)timer;

	t->log[(*t->at)++] = t->id;
}

static void timers_run_in_order(void **state)
{
	static const int64_t when[] = { 50, 10, 40, 20, 30, 60 };
	struct fake *g = fake_create();
	struct tick ticks[ARRAY_LEN(when)];
	int log[ARRAY_LEN(when)];
	unsigned at = 0;

	for (int i = 0; i < (int)ARRAY_LEN(when); i++) {
		ticks[i] = (struct tick){ .timer.fn = on_tick, .id = i, .log = log, .at = &at };
		assert_int_equal(ktimer_set(&g->k, &ticks[i].timer, when[i]), 0);
	}
	ktimer_clear(&g->k, &ticks[2].timer);
	assert_int_equal(ktimer_set(&g->k, &ticks[1].timer, 55), 0);
	assert_int_equal(ktimer_run(&g->k, 54), 55);
	assert_int_equal(at, 3);
	assert_int_equal(log[0], 3);
	assert_int_equal(log[1], 4);
	assert_int_equal(log[2], 0);
	assert_int_equal(ktimer_run(&g->k, 100), 0);
	assert_int_equal(at, 5);
	assert_int_equal(log[3], 1);
	fake_destroy(g);
}

static void a_dead_process_tells_its_parent(void **state)
{
	struct fake *g = fake_create();
	struct task *child = fake_fork(g->task), *grand = fake_fork(child);

	proc_exit(child->proc, 3 << 8);
	assert_int_equal(child->proc->state, PROC_ZOMBIE);
	assert_ptr_equal(grand->proc->parent, g->k.init);
	assert_int_equal(g->k.init->children->pid, grand->proc->pid);
	fake_destroy(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_unknown),
		cmocka_unit_test(wakes_who_cares),
		cmocka_unit_test(a_signal_interrupts),
		cmocka_unit_test(timers_run_in_order),
		cmocka_unit_test(a_dead_process_tells_its_parent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
