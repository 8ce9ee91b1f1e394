/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/treewalk_test.c - a tree of processes, saved, built again and saved again: the
 * same.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/syscall.h>

#include "tier/kernel/fake.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/treewalk.h"
#include "tier/kernel/walk.h"

static struct fake *busy_sandbox(void)
{
	struct fake *g = fake_create();
	struct task *a = fake_fork(g->task), *b = fake_fork(a), *zombie = fake_fork(a);
	union gsiginfo info = { .signo = SIGRTMIN + 3, .code = SI_QUEUE };

	fake_thread(b);
	proc_set_sid(a->proc);
	proc_set_pgrp(b->proc, b->proc->pid);
	assert_int_equal(fake_call(b, SYS_setresuid, 5, 6, 7), 0);
	b->sighand->act[SIGUSR1 - 1] = (struct gsigaction){ 0x1000, 4, 5, 6 };
	signal_set_mask(b, GSIG_BIT(SIGRTMIN + 3) | GSIG_BIT(SIGUSR2));
	signal_send_task(b, SIGRTMIN + 3, &info);
	signal_send_task(b, SIGRTMIN + 3, &info);
	signal_send_task(b, SIGUSR2, NULL);
	proc_exit(zombie->proc, 3 << 8);
	return g;
}

static void comes_back_the_same(void **state)
{
	struct fake *g = busy_sandbox();
	struct kernel *k = calloc(1, sizeof(*k));
	struct walk a, b, l;

	assert_int_equal(walk_save_begin(&a), 0);
	assert_int_equal(tasks_walk(&g->k, &a), 0);
	assert_int_equal(kernel_init(k), 0);
	k->engine = g->k.engine;
	assert_int_equal(walk_load_begin(&l, a.buf, a.len), 0);
	assert_int_equal(tasks_walk(k, &l), 0);
	assert_int_equal(l.at, l.len);
	assert_int_equal(k->task_count, g->k.task_count);
	assert_int_equal(k->init->pid, 1);
	assert_non_null(proc_find(k, 3));
	assert_int_equal(proc_find(k, 3)->pgrp->id, 3);
	assert_int_equal(walk_save_begin(&b), 0);
	assert_int_equal(tasks_walk(k, &b), 0);
	assert_int_equal(a.len, b.len);
	assert_memory_equal(a.buf, b.buf, a.len);
	walk_done(&a);
	walk_done(&b);
	walk_done(&l);
	procs_done(k);
	kernel_done(k);
	free(k);
	fake_destroy(g);
}

static void cut_or_changed_is_refused(void **state)
{
	struct fake *g = busy_sandbox();
	struct walk a, l;

	assert_int_equal(walk_save_begin(&a), 0);
	assert_int_equal(tasks_walk(&g->k, &a), 0);
	for (size_t cut = 0; cut < a.len; cut += 7) {
		struct kernel *k = calloc(1, sizeof(*k));

		assert_int_equal(kernel_init(k), 0);
		k->engine = g->k.engine;
		assert_int_equal(walk_load_begin(&l, a.buf, cut), 0);
		assert_true(tasks_walk(k, &l) < 0);
		walk_done(&l);
		kernel_done(k);
		free(k);
	}
	walk_done(&a);
	fake_destroy(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back_the_same),
		cmocka_unit_test(cut_or_changed_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
