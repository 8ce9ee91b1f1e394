/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store/audit_test.c - the chain: every kind of tampering is found, every torn end repaired.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>
#include <sys/resource.h>

#include "base/ckd.h"
#include "base/json.h"
#include "store/audit_impl.h"
#include "store/testdir.h"

enum { LINES = 6, FILE_MAX = 64 * 1024 };

/* A file of audit/, in memory. */
struct file {
	size_t len;
	char data[FILE_MAX];
};

static void load(int state_fd, const char *path, struct file *f)
{
	int fd = openat(state_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	assert_true(fd >= 0);
	n = read(fd, f->data, sizeof(f->data));
	assert_true(n >= 0 && (size_t)n < sizeof(f->data));
	f->len = (size_t)n;
	close(fd);
}

static void save(int state_fd, const char *path, const struct file *f)
{
	int fd = openat(state_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, f->data, f->len), (ssize_t)f->len);
	close(fd);
}

/* The offset at which line @n (from 0) starts. */
static size_t line_at(const struct file *f, unsigned n)
{
	size_t at = 0;

	while (n--)
		at = (size_t)((const char *)memchr(f->data + at, '\n', f->len - at) - f->data) + 1;
	return at;
}

static void append_rotating(int state_fd, const char *event, unsigned n, uint64_t rotate)
{
	own_buf struct buf members;
	struct err e = { 0 };

	buf_init(&members, 4096);
	json_u64(&members, "n", n);
	json_str(&members, "text", "some \"text\"\nwith lines");
	if (audit_append_rotating(state_fd, event, &members, rotate, &e) < 0)
		fail_msg("%s", e.msg);
}

static void append(int state_fd, unsigned n)
{
	append_rotating(state_fd, "test.line", n, AUDIT_ROTATE_BYTES);
}

static struct audit_report verify(int state_fd)
{
	struct audit_report rep;
	struct err e = { 0 };

	if (audit_verify(state_fd, &rep, &e) < 0)
		fail_msg("%s", e.msg);
	return rep;
}

static void assert_ok(int state_fd, uint64_t lines)
{
	struct audit_report rep = verify(state_fd);

	if (rep.state != AUDIT_OK)
		fail_msg("%s line %u: %s", rep.file, (unsigned)rep.line, rep.why);
	assert_int_equal(rep.lines, lines);
}

static void fill(int state_fd)
{
	for (unsigned i = 0; i < LINES; i++)
		append(state_fd, i);
}

static void chain(void **state)
{
	static const char zeros[] =
		"\"prev\":\"0000000000000000000000000000000000000000000000000000000000000000\"";
	static struct file log;
	const struct testdir *t = *state;
	struct audit_line line;
	char hash[SHA256_HEX + 1];
	struct stat st;

	assert_ok(t->fd, 0);
	fill(t->fd);
	assert_ok(t->fd, LINES);
	assert_int_equal(audit_append(t->fd, "bare", NULL, NULL), 0);
	assert_ok(t->fd, LINES + 1);
	load(t->fd, "audit/log", &log);
	assert_non_null(memmem(log.data, line_at(&log, 1), zeros, sizeof(zeros) - 1));
	for (unsigned i = 0; i + 1 < LINES; i++) {
		size_t a = line_at(&log, i), b = line_at(&log, i + 1), c = line_at(&log, i + 2);

		sha256_hex(log.data + a, b - a - 1, hash);
		assert_true(audit_line_parse(log.data + b, c - b - 1, &line));
		assert_string_equal(line.prev, hash);
		assert_int_equal(line.seq, i + 2);
		assert_string_equal(line.event, "test.line");
	}
	assert_int_equal(fstatat(t->fd, "audit/log", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(audit_sync(t->fd), 0);
}

static void refused_input(void **state)
{
	const struct testdir *t = *state;
	own_buf struct buf big;

	buf_init(&big, 1 << 20);
	assert_int_equal(audit_append(t->fd, "", NULL, NULL), -EINVAL);
	assert_int_equal(audit_append(t->fd, "With Blank", NULL, NULL), -EINVAL);
	assert_int_equal(audit_append(t->fd, "quo\"te", NULL, NULL), -EINVAL);
	assert_int_equal(audit_append(t->fd, "audit.repaired", NULL, NULL), -EINVAL);
	buf_add_str(&big, "\"a\":\n1");
	assert_int_equal(audit_append(t->fd, "x", &big, NULL), -EINVAL);
	buf_cut(&big, 0);
	for (unsigned i = 0; i < AUDIT_LINE_MAX / 64; i++)
		buf_add_str(&big,
			"\"a234567890123456789012345678901234567890123456789012345678\":\"\",");
	assert_int_equal(audit_append(t->fd, "x", &big, NULL), -E2BIG);
	assert_ok(t->fd, 0);
	append(t->fd, 1);
	assert_ok(t->fd, 1);
}

/* What a hand can do to the log. Each gets the log as it was; @line is the first bad one. */
static void edit_first(struct file *f)
{
	f->data[line_at(f, 1) - 6] ^= 1;
}

static void edit_middle(struct file *f)
{
	f->data[line_at(f, 3) - 6] ^= 1;
}

static void edit_last(struct file *f)
{
	f->data[f->len - 6] ^= 1;
}

static void edit_prev(struct file *f)
{
	char *p = memmem(f->data + line_at(f, 3), 200, "\"prev\":\"", 8);

	p[8] = p[8] == 'a' ? 'b' : 'a';
}

static void edit_seq(struct file *f)
{
	f->data[line_at(f, 3) + 7] = '9';
}

static void cut_out(struct file *f, unsigned first, unsigned count)
{
	size_t a = line_at(f, first), b = line_at(f, first + count);

	memmove(f->data + a, f->data + b, f->len - b);
	f->len -= b - a;
}

static void remove_first(struct file *f)
{
	cut_out(f, 0, 1);
}

static void remove_middle(struct file *f)
{
	cut_out(f, 2, 2);
}

static void remove_last(struct file *f)
{
	cut_out(f, LINES - 1, 1);
}

static void remove_last_three(struct file *f)
{
	cut_out(f, LINES - 3, 3);
}

static void remove_all(struct file *f)
{
	f->len = 0;
}

static void swap_two(struct file *f)
{
	static struct file old;
	size_t a = line_at(f, 2), b = line_at(f, 3), c = line_at(f, 4);

	old = *f;
	memcpy(f->data + a, old.data + b, c - b);
	memcpy(f->data + a + (c - b), old.data + a, b - a);
}

static void put_in(struct file *f, unsigned before, const char *text, size_t len)
{
	size_t a = line_at(f, before);

	memmove(f->data + a + len, f->data + a, f->len - a);
	memcpy(f->data + a, text, len);
	f->len += len;
}

static void repeat_line(struct file *f)
{
	static struct file old;

	old = *f;
	put_in(f, 3, old.data + line_at(&old, 2), line_at(&old, 3) - line_at(&old, 2));
}

static void repeat_last(struct file *f)
{
	static struct file old;

	old = *f;
	put_in(f, LINES, old.data + line_at(&old, LINES - 1), old.len - line_at(&old, LINES - 1));
}

static void put_in_noise(struct file *f)
{
	put_in(f, 3, "hello\n", 6);
}

static void put_in_empty(struct file *f)
{
	put_in(f, 3, "\n", 1);
}

static void blank_the_end(struct file *f)
{
	memset(f->data + line_at(f, LINES - 2), 0, f->len - line_at(f, LINES - 2));
}

static void tampering(void **state)
{
	static const struct {
		const char *name;
		void (*do_it)(struct file *f);
		uint64_t line; /* 0: the file as a whole */
	} cases[] = {
		{ "edit the first line", edit_first, 1 },
		{ "edit a line", edit_middle, 3 },
		{ "edit the last line", edit_last, LINES },
		{ "edit a hash", edit_prev, 4 },
		{ "edit a number", edit_seq, 4 },
		{ "remove the first line", remove_first, 1 },
		{ "remove lines", remove_middle, 3 },
		{ "remove the last line", remove_last, 0 },
		{ "remove the last lines", remove_last_three, 0 },
		{ "remove all", remove_all, 0 },
		{ "swap lines", swap_two, 3 },
		{ "repeat a line", repeat_line, 4 },
		{ "repeat the last line", repeat_last, LINES + 1 },
		{ "put in noise", put_in_noise, 4 },
		{ "put in an empty line", put_in_empty, 4 },
		{ "blank the end", blank_the_end, 0 },
	};
	static struct file log, bad, head;
	const struct testdir *t = *state;

	fill(t->fd);
	load(t->fd, "audit/log", &log);
	load(t->fd, "audit/head", &head);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct audit_report rep;

		bad = log;
		cases[i].do_it(&bad);
		save(t->fd, "audit/log", &bad);
		save(t->fd, "audit/head", &head);
		rep = verify(t->fd);
		if (rep.state != AUDIT_BROKEN || rep.line != cases[i].line)
			fail_msg("%s: state %d, line %u: %s", cases[i].name, (int)rep.state,
				(unsigned)rep.line, rep.why);
		/* What is appended afterwards does not cover it up. */
		append(t->fd, 77);
		append(t->fd, 78);
		rep = verify(t->fd);
		if (cases[i].do_it != repeat_last && rep.state != AUDIT_BROKEN)
			fail_msg("%s: not found any more after an append", cases[i].name);
		/* A last line that does not belong is set aside, and the log says so. */
		if (cases[i].do_it == repeat_last && (rep.state != AUDIT_OK || rep.repairs != 1))
			fail_msg("%s: %s", cases[i].name, rep.why);
	}
}

/* Every single byte of the log, changed: found, whatever it is. */
static void every_byte(void **state)
{
	static struct file log, bad;
	const struct testdir *t = *state;

	append(t->fd, 1);
	append(t->fd, 2);
	append(t->fd, 3);
	load(t->fd, "audit/log", &log);
	for (size_t i = 0; i < log.len; i++) {
		struct audit_report rep;

		bad = log;
		bad.data[i] ^= 4;
		save(t->fd, "audit/log", &bad);
		rep = verify(t->fd);
		if (rep.state == AUDIT_OK)
			fail_msg("byte %zu", i);
	}
}

static void heads(void **state)
{
	static struct file log, head, bad;
	const struct testdir *t = *state;

	fill(t->fd);
	load(t->fd, "audit/log", &log);
	load(t->fd, "audit/head", &head);
	assert_int_equal(head.len, AUDIT_HEAD_BYTES);

	/* Gone, damaged, of another moment: found, and still after the next append. */
	for (unsigned i = 0; i < 5; i++) {
		bad = head;
		if (i == 1)
			bad.len = 0;
		if (i == 2)
			bad.len -= 1;
		if (i == 3)
			bad.data[3] ^= 1;
		if (i == 4)
			bad.data[bad.len++] = 'x';
		save(t->fd, "audit/log", &log);
		save(t->fd, "audit/head", &bad);
		if (i == 0)
			assert_int_equal(unlinkat(t->fd, "audit/head", 0), 0);
		assert_int_equal(verify(t->fd).state, AUDIT_BROKEN);
		append(t->fd, 1);
		assert_int_equal(verify(t->fd).state, AUDIT_BROKEN);
		assert_int_equal(
			verify(t->fd).lines, LINES + 1); /* the repair is where it breaks */
	}
}

/* A line with a right hash that the head does not know of. */
static void forged_end(void **state)
{
	static struct file head;
	const struct testdir *t = *state;
	struct audit_report rep;

	fill(t->fd);
	load(t->fd, "audit/head", &head);
	append(t->fd, 66);
	save(t->fd, "audit/head", &head);
	assert_int_equal(verify(t->fd).state, AUDIT_BROKEN);
	append(t->fd, 67);
	rep = verify(t->fd);
	assert_int_equal(rep.state, AUDIT_OK);
	assert_int_equal(rep.repairs, 1); /* it stays in the log that this was so */
	assert_int_equal(rep.lines, LINES + 3);
}

static unsigned count_torn(int state_fd, struct file *last)
{
	DIR *d = fdopendir(openat(state_fd, "audit", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	char path[300];
	unsigned n = 0;

	assert_non_null(d);
	for (struct dirent *i; (i = readdir(d));) {
		if (!str_after(i->d_name, "torn-"))
			continue;
		n++;
		assert_int_equal(str_fmt(path, sizeof(path), "audit/%s", i->d_name), 0);
		load(state_fd, path, last);
		assert_int_equal(unlinkat(state_fd, path, 0), 0);
	}
	closedir(d);
	return n;
}

/* The log cut at every place of its last two lines. */
static void cut_everywhere(void **state)
{
	static struct file log, head, cut, after, torn;
	const struct testdir *t = *state;
	size_t last, before;

	fill(t->fd);
	load(t->fd, "audit/log", &log);
	load(t->fd, "audit/head", &head);
	before = line_at(&log, LINES - 2);
	last = line_at(&log, LINES - 1);
	for (size_t at = before; at < log.len; at++) {
		struct audit_report rep;
		bool is_torn = at > last;
		unsigned whole = at >= last ? LINES - 1 : LINES - 2;
		size_t torn_bytes = at - (at >= last ? last : before);

		cut = log;
		cut.len = at;
		save(t->fd, "audit/log", &cut);
		save(t->fd, "audit/head", &head);
		rep = verify(t->fd);
		assert_int_equal(rep.state, is_torn ? AUDIT_TORN : AUDIT_BROKEN);
		assert_int_equal(rep.torn_bytes, torn_bytes);
		assert_int_equal(rep.lines, whole);

		append(t->fd, 99);
		rep = verify(t->fd);
		assert_int_equal(rep.state, is_torn ? AUDIT_OK : AUDIT_BROKEN);
		assert_int_equal(rep.repairs, 1);
		load(t->fd, "audit/log", &after);
		assert_memory_equal(after.data, log.data, line_at(&log, whole));
		assert_int_equal(
			line_at(&after, whole + 2), after.len); /* repaired, and the new one */
		/* Nothing is lost: what was torn off lies beside the log. */
		assert_int_equal(count_torn(t->fd, &torn), torn_bytes > 0);
		if (torn_bytes)
			assert_memory_equal(torn.data, log.data + line_at(&log, whole), torn_bytes);
	}
}

/* A ward that died while it wrote the last line: the head has announced that line. */
static void died_while_writing(void **state)
{
	static struct file log, head, cut, torn;
	const struct testdir *t = *state;
	struct audit_head h;
	size_t last;

	fill(t->fd);
	load(t->fd, "audit/log", &log);
	load(t->fd, "audit/head", &head);
	last = line_at(&log, LINES - 1);
	assert_true(audit_head_parse(head.data, head.len, &h));
	h.next_size = h.tip.size;
	memcpy(h.next_hash, h.tip.hash, sizeof(h.next_hash));
	h.tip.size = last;
	h.tip.seq--;
	sha256_hex(log.data + line_at(&log, LINES - 2), last - 1 - line_at(&log, LINES - 2),
		h.tip.hash);
	audit_head_format(&h, head.data);
	for (size_t at = last; at <= log.len; at++) {
		bool is_torn = at > last && at < log.len;
		struct audit_report rep;

		cut = log;
		cut.len = at;
		save(t->fd, "audit/log", &cut);
		save(t->fd, "audit/head", &head);
		rep = verify(t->fd);
		assert_int_equal(rep.state, is_torn ? AUDIT_TORN : AUDIT_OK);
		append(t->fd, 99);
		rep = verify(t->fd);
		assert_int_equal(rep.state, AUDIT_OK);
		assert_int_equal(rep.repairs, is_torn);
		assert_int_equal(rep.lines, LINES - (at < log.len) + is_torn + 1);
		assert_int_equal(count_torn(t->fd, &torn), is_torn);
	}
}

static void rotation(void **state)
{
	enum { N = 40 };
	static struct file log, head;
	const struct testdir *t = *state;
	uint64_t first = 0, second;
	char name[AUDIT_NAME], next[AUDIT_NAME];

	for (unsigned i = 0; i < N; i++)
		append_rotating(t->fd, "test.line", i, 1500);
	assert_ok(t->fd, N);
	assert_int_equal(audit_rotated_next(t->fd, 0, &first), 1);
	assert_int_equal(first, 1);
	assert_int_equal(audit_rotated_next(t->fd, first, &second), 1);
	assert_true(second > 2 && second < N);

	/* A log that was set aside is part of the chain: edited, or gone. */
	audit_rotated_name(name, second);
	load(t->fd, name, &log);
	log.data[log.len - 6] ^= 1;
	save(t->fd, name, &log);
	assert_int_equal(verify(t->fd).state, AUDIT_BROKEN);
	assert_string_equal(verify(t->fd).file, name);
	log.data[log.len - 6] ^= 1;
	save(t->fd, name, &log);
	assert_ok(t->fd, N);
	audit_rotated_name(next, 900);
	assert_int_equal(renameat(t->fd, name, t->fd, next), 0);
	assert_int_equal(verify(t->fd).state, AUDIT_BROKEN);
	assert_int_equal(renameat(t->fd, next, t->fd, name), 0);
	assert_ok(t->fd, N);

	/* Died between setting the log aside and telling the head; with and without the new file.
	 */
	for (unsigned i = 0; i < 2; i++) {
		struct audit_head h;

		load(t->fd, "audit/head", &head);
		assert_true(audit_head_parse(head.data, head.len, &h));
		audit_rotated_name(name, h.first);
		assert_int_equal(renameat(t->fd, "audit/log", t->fd, name), 0);
		if (i)
			close(openat(t->fd, "audit/log", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
		assert_ok(t->fd, N + i);
		append(t->fd, i);
		assert_ok(t->fd, N + i + 1);
	}
	assert_int_equal(verify(t->fd).repairs, 0);

	/* The head is lost right after that: the chain goes on, and says so. */
	load(t->fd, "audit/head", &head);
	assert_int_equal(unlinkat(t->fd, "audit/head", 0), 0);
	append(t->fd, 5);
	assert_int_equal(verify(t->fd).state, AUDIT_BROKEN);
	assert_int_equal(verify(t->fd).lines, N + 3);
}

/* Many writers at once, rotating all the time: no line lost, none mixed. */
static void at_once(void **state)
{
	enum { WRITERS = 20, EACH = 25 };
	const struct testdir *t = *state;
	pid_t pids[WRITERS];

	for (unsigned w = 0; w < WRITERS; w++) {
		pids[w] = fork();
		if (pids[w] == 0) {
			for (unsigned i = 0; i < EACH; i++)
				append_rotating(t->fd, "test.line", w, 8192);
			_exit(0);
		}
	}
	for (unsigned w = 0; w < WRITERS; w++)
		assert_true(child_ok(pids[w]));
	assert_ok(t->fd, WRITERS * EACH);
	assert_int_equal(verify(t->fd).repairs, 0);
}

/* Writers that are killed at any moment: the chain holds, and all that was confirmed is there. */
static void killed_at_once(void **state)
{
	enum { WRITERS = 40 };
	const struct testdir *t = *state;
	uint64_t confirmed = 0;
	struct audit_report rep;
	int out[2];
	char c;

	assert_int_equal(pipe(out), 0);
	for (unsigned w = 0; w < WRITERS; w++) {
		pid_t pid = fork();

		if (pid == 0) {
			for (unsigned i = 0;; i++) {
				append_rotating(t->fd, "test.line", i, 8192);
				if (write(out[1], "x", 1) != 1)
					_exit(1);
			}
		}
		nanosleep(&(struct timespec){ .tv_nsec = 500000 + 97000 * (w % 11) }, NULL);
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		rep = verify(t->fd);
		if (rep.state != AUDIT_OK)
			fail_msg("after %u: %s line %u: %s", w, rep.file, (unsigned)rep.line,
				rep.why);
	}
	close(out[1]);
	while (read(out[0], &c, 1) == 1)
		confirmed++;
	close(out[0]);
	rep = verify(t->fd);
	assert_true(rep.lines >= confirmed && rep.lines <= confirmed + WRITERS);
}

static void full_disk(void **state)
{
	const struct testdir *t = *state;
	struct rlimit was, tight;
	struct stat st;
	struct err e = { 0 };
	pid_t pid;

	fill(t->fd);
	assert_int_equal(fstatat(t->fd, "audit/log", &st, 0), 0);
	pid = fork();
	if (pid == 0) {
		/* A limit on the file's size writes half a line, as a full disk does. */
		signal(SIGXFSZ, SIG_IGN);
		getrlimit(RLIMIT_FSIZE, &was);
		tight = (struct rlimit){ (rlim_t)st.st_size + 50, was.rlim_max };
		if (setrlimit(RLIMIT_FSIZE, &tight) < 0)
			_exit(1);
		_exit(audit_append(t->fd, "x", NULL, &e) == -ENOSPC ? 0 : 2);
	}
	assert_true(child_ok(pid));
	assert_ok(t->fd, LINES);
	append(t->fd, 1);
	assert_ok(t->fd, LINES + 1);
	assert_int_equal(verify(t->fd).repairs, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, testdir_setup, testdir_teardown)
	const struct CMUnitTest tests[] = {
		T(chain),
		T(refused_input),
		T(tampering),
		T(every_byte),
		T(heads),
		T(forged_end),
		T(cut_everywhere),
		T(died_while_writing),
		T(rotation),
		T(at_once),
		T(killed_at_once),
		T(full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
