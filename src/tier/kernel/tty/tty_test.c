/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tty/tty_test.c - the line discipline as tables, and terminals with sessions.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <termios.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/tty/tty.h"
#include "tier/kernel/vfs/file.h"

static struct fake *g;
static struct task *me;
static struct file *master, *slave;
static struct tty *tty;

static struct file *open_dev(struct task *t, unsigned maj, unsigned min, unsigned flags, int *err)
{
	struct inode *i = inode_anon(&g->k, S_IFCHR | 0666);
	struct file *f;

	i->rdev = makedev(maj, min);
	f = file_create(&g->k, &tty_slave_ops, flags, i, NULL);
	*err = tty_open(i, f, t);
	if (*err < 0) {
		f->ops = NULL;
		file_unref(f);
		return NULL;
	}
	return f;
}

static int begin(void **state)
{
	int e;

	g = fake_create();
	me = g->task;
	master = open_dev(me, 5, 2, O_RDWR, &e);
	assert_non_null(master);
	assert_null(open_dev(me, 136, 0, O_RDWR, &e));
	assert_int_equal(e, -EIO); /* locked */
	tty = master->priv;
	tty->locked = false;
	slave = open_dev(me, 136, 0, O_RDWR | O_NOCTTY, &e);
	assert_non_null(slave);
	return 0;
}

static int end(void **state)
{
	file_unref(slave);
	file_unref(master);
	fake_destroy(g);
	return 0;
}

static ssize_t give(struct file *f, const char *s, size_t n)
{
	int64_t pos = 0;
	struct uio io;

	uio_kernel(&io, (void *)(uintptr_t)s, n);
	return f->ops->write(f, &io, &pos);
}

static ssize_t take(struct file *f, char *buf, size_t cap)
{
	int64_t pos = 0;
	struct uio io;

	uio_kernel(&io, buf, cap);
	return f->ops->read(f, &io, &pos);
}

static void lines_and_echo(void **state)
{
	static const struct {
		const char *name, *in, *line, *echo;
		unsigned iflag, oflag, lflag; /* switched */
	} cases[] = {
		{ "plain", "abc\n", "abc\n", "abc\r\n", 0, 0, 0 },
		{ "return is newline", "abc\r", "abc\n", "abc\r\n", 0, 0, 0 },
		{ "return stays", "abc\r\n", "abc\r\n", "abc^M\r\n", ICRNL, 0, 0 },
		{ "no echo", "abc\n", "abc\n", "", 0, 0, ECHO },
		{ "only the newline", "abc\n", "abc\n", "\r\n", 0, 0, ECHO | ECHONL },
		{ "raw output", "abc\n", "abc\n", "abc\n", 0, OPOST, 0 },
		{ "erase", "abx\177c\n", "abc\n", "abx\b \bc\r\n", 0, 0, 0 },
		{ "erase at the start", "\177\177a\n", "a\n", "a\r\n", 0, 0, 0 },
		{ "erase a control", "a\002\177b\n", "ab\n", "a^B\b \b\b \bb\r\n", 0, 0, 0 },
		{ "word", "one two\027x\n", "one x\n", "one two\b \b\b \b\b \bx\r\n", 0, 0, 0 },
		{ "kill", "one\025x\n", "x\n", "one\b \b\b \b\b \bx\r\n", 0, 0, 0 },
		{ "kill without ECHOKE", "one\025x\n", "x\n", "one^U\r\nx\r\n", 0, 0, ECHOKE },
		{ "literal next", "\026\003\n", "\003\n", "^\b^C\r\n", 0, 0, 0 },
		{ "end of file in a line", "abc\004", "abc", "abc", 0, 0, 0 },
		{ "strip", "\341\n", "a\n", "a\r\n", ISTRIP, 0, 0 },
		{ "ignored return", "a\rb\n", "ab\n", "ab\r\n", IGNCR, 0, 0 },
		{ "tab erased", "a\t\177b\n", "ab\n", "a\t\b\b\b\b\b\b\bb\r\n", 0, 0, 0 },
		{ "utf-8 erased", "\303\251\177a\n", "a\n", "\303\251\b \ba\r\n", IUTF8, 0, 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char line[256] = "", out[256] = "";
		ssize_t n;

		ldisc_init(tty);
		tty->column = 0;
		tty->t.iflag ^= cases[i].iflag;
		tty->t.oflag ^= cases[i].oflag;
		tty->t.lflag ^= cases[i].lflag;
		assert_int_equal(
			give(master, cases[i].in, strlen(cases[i].in)), strlen(cases[i].in));
		n = take(slave, line, sizeof(line) - 1);
		if (n != (ssize_t)strlen(cases[i].line) || strcmp(line, cases[i].line) != 0)
			fail_msg("%s: line '%s' (%zd)", cases[i].name, line, n);
		n = take(master, out, sizeof(out) - 1);
		if (n < 0)
			n = 0;
		if (strcmp(out, cases[i].echo) != 0)
			fail_msg("%s: echo '%s'", cases[i].name, out);
	}
}

static void one_line_at_a_time(void **state)
{
	char b[16];

	give(master, "one\ntwo\n", 8);
	assert_int_equal(take(slave, b, 2), 2);
	assert_int_equal(take(slave, b, 16), 2);
	assert_int_equal(take(slave, b, 16), 4);
	assert_int_equal(take(slave, b, 16), -EAGAIN);
	give(master, "part", 4);
	assert_int_equal(take(slave, b, 16), -EAGAIN);
	give(master, "\004", 1);
	assert_int_equal(take(slave, b, 16), 4);
	give(master, "\004", 1);
	assert_int_equal(take(slave, b, 16), 0);
	assert_int_equal(take(slave, b, 16), -EAGAIN);
}

static void too_long_a_line_is_cut(void **state)
{
	static char big[10000], in[10000];

	memset(big, 'x', sizeof(big));
	tty->t.lflag &= ~(unsigned)ECHO;
	assert_int_equal(give(master, big, sizeof(big)), sizeof(big));
	assert_int_equal(give(master, "\n", 1), 1);
	assert_int_equal(take(slave, in, sizeof(in)), 4096);
	assert_int_equal(in[4095], '\n');
	/* Raw: the writer waits. */
	tty->t.lflag &= ~(unsigned)ICANON;
	assert_int_equal(give(master, big, sizeof(big)), sizeof(big));
	assert_int_equal(give(master, big, sizeof(big)), 4095 + TTY_AHEAD_MAX - (int)sizeof(big));
	assert_int_equal(give(master, big, 1), -EAGAIN);
	assert_int_equal(take(slave, in, 100), 100);
	assert_int_equal(give(master, big, sizeof(big)), 100);
}

static void flow_control(void **state)
{
	char b[16];

	give(master, "\023", 1);
	assert_int_equal(give(slave, "x", 1), -EAGAIN);
	assert_false(slave->ops->poll(slave, NULL) & POLLOUT);
	give(master, "\021", 1);
	assert_int_equal(give(slave, "x\n", 2), 2);
	assert_int_equal(take(master, b, 16), 3);
}

static void the_keyboard_signals(void **state)
{
	struct task *child = fake_fork(me);
	int e;
	struct file *f;

	assert_int_equal(proc_set_sid(child->proc), child->proc->pid);
	f = open_dev(child, 136, 0, O_RDWR, &e);
	assert_non_null(f);
	assert_ptr_equal(child->proc->pgrp->session->tty, tty);
	child->sighand->act[SIGINT - 1].handler = 0x1000;
	give(master, "typed\003", 6);
	assert_true(signal_set(child) & GSIG_BIT(SIGINT));
	assert_false(ldisc_readable(tty, 1)); /* flushed */
	file_unref(f);
}

static void background_groups_stop(void **state)
{
	struct task *leader = fake_fork(me), *bg;
	int e;
	struct file *f;

	proc_set_sid(leader->proc);
	f = open_dev(leader, 136, 0, O_RDWR, &e);
	bg = fake_fork(leader);
	assert_int_equal(proc_set_pgrp(bg->proc, bg->proc->pid), 0);
	assert_int_equal(tty_job_check(tty, leader, SIGTTIN), 0);
	bg->sighand->act[SIGTTIN - 1].handler = GSIG_IGN;
	assert_int_equal(tty_job_check(tty, bg, SIGTTIN), -EIO);
	bg->sighand->act[SIGTTIN - 1].handler = 0x1000;
	assert_int_equal(tty_job_check(tty, bg, SIGTTIN), -ERESTARTSYS);
	assert_true(signal_set(bg) & GSIG_BIT(SIGTTIN));
	/* The leader goes, and leaves the line to whoever has it. */
	leader->sighand->act[SIGHUP - 1].handler = 0x1000;
	proc_exit(leader->proc, 0);
	assert_false(tty->hung_up);
	assert_null(tty->session);
	file_unref(f);
}

static void master_goes(void **state)
{
	char b[4];

	file_ref(slave);
	file_unref(master);
	assert_int_equal(take(slave, b, 4), 0);
	assert_int_equal(give(slave, "x", 1), -EIO);
	assert_true(slave->ops->poll(slave, NULL) & POLLHUP);
	file_unref(slave);
	int e;
	master = open_dev(me, 5, 2, O_RDWR, &e);
	assert_non_null(master);
}

static void slave_goes(void **state)
{
	char b[8];
	int e;

	give(slave, "bye", 3);
	file_unref(slave);
	assert_int_equal(take(master, b, 8), 3);
	assert_int_equal(take(master, b, 8), -EIO);
	assert_true(master->ops->poll(master, NULL) & POLLHUP);
	slave = open_dev(me, 136, 0, O_RDWR | O_NOCTTY, &e);
	assert_non_null(slave);
	assert_int_equal(take(master, b, 8), -EAGAIN);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, begin, end)
	const struct CMUnitTest tests[] = {
		T(lines_and_echo),
		T(one_line_at_a_time),
		T(too_long_a_line_is_cut),
		T(flow_control),
		T(the_keyboard_signals),
		T(background_groups_stop),
		T(master_goes),
		T(slave_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
