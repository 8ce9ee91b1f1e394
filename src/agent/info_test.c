/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/info_test.c - what an API over files needs: passed files, homes, owners, attributes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "agent/rig.h"
#include "base/ckd.h"
#include "base/str.h"

enum { ID = 7 };

static struct rig rig;
static char dir[64];

static int begin(void **state)
{
	(void)state;
	str_copy(dir, sizeof(dir), "/tmp/ward-info-test-XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	rig_start(&rig);
	rig.c.takes_fds = true;
	return 0;
}

static int finish(void **state)
{
	struct proto_request q = {
		.type = PROTO_REMOVE, .stream = ID, .flags = FILE_RECURSIVE, .path = dir
	};
	struct proto_event ev;

	(void)state;
	assert_int_equal(proto_send_request(&rig.c, &q, NULL), 0);
	rig_expect(&rig, &ev, PROTO_OK, ID);
	return rig_end(&rig);
}

static const char *in_dir(const char *name)
{
	static char paths[4][256];
	static unsigned turn;
	char *p = paths[turn++ % 4];

	assert_int_equal(str_fmt(p, sizeof(paths[0]), "%s/%s", dir, name), 0);
	return p;
}

static void send_request(struct proto_request q)
{
	q.stream = ID;
	assert_int_equal(proto_send_request(&rig.c, &q, NULL), 0);
}

/* OPENED with a file, and OK; the file. */
static int passed(struct proto_request q, struct proto_event *ev)
{
	struct proto_event ok;
	int fd;

	q.flags |= FILE_PASS_FD;
	send_request(q);
	rig_expect(&rig, ev, PROTO_OPENED, ID);
	assert_true(ev->has_fd);
	assert_int_equal(ev->file.kind, FILE_REGULAR);
	fd = proto_conn_take_fd(&rig.c);
	assert_true(fd >= 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	rig_expect(&rig, &ok, PROTO_OK, ID);
	return fd;
}

static void expect_error(struct proto_request q, int code)
{
	struct proto_event ev;

	send_request(q);
	rig_expect(&rig, &ev, PROTO_ERROR, ID);
	if (ev.failed.code != code)
		fail_msg(
			"'%s': errno %d, not %d: %s", q.path, ev.failed.code, code, ev.failed.text);
	assert_int_equal(proto_conn_take_fd(&rig.c), -1);
}

static void files_are_passed(void **state)
{
	const struct proto_request to = {
		.type = PROTO_WRITE, .path = in_dir("a/b"), .flags = FILE_PARENTS, .mode = 0640
	};
	const struct proto_request from = { .type = PROTO_READ, .path = to.path, .offset = 2 };
	struct proto_event ev;
	char buf[16];
	struct stat st;
	int fd = passed(to, &ev);

	(void)state;
	assert_int_equal(write(fd, "hello", 5), 5);
	close(fd);
	assert_int_equal(stat(to.path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	fd = passed(from, &ev);
	assert_int_equal(ev.file.size, 5);
	assert_int_equal(read(fd, buf, sizeof(buf)), 3);
	assert_int_equal(write(fd, "x", 1), -1);
	close(fd);
}

/* More at one time than may be on their way: all come, or are refused, and none is mixed up. */
static void many_files(void **state)
{
	enum { COUNT = 60 };
	unsigned came = 0, refused = 0;

	(void)state;
	for (unsigned i = 0; i < COUNT; i++) {
		char name[16];
		const char *path;
		FILE *f;

		snprintf(name, sizeof(name), "f%u", i);
		path = in_dir(name);
		f = fopen(path, "w");
		assert_non_null(f);
		fprintf(f, "%u", i);
		fclose(f);
		assert_int_equal(proto_send_request(&rig.c,
					 &(struct proto_request){ .type = PROTO_READ,
						 .stream = 100 + i,
						 .flags = FILE_PASS_FD,
						 .path = path },
					 NULL),
			0);
		/* Within what the receiver keeps. */
		if (i % 8 != 7)
			continue;
		for (unsigned k = 0; k < 8; k++) {
			struct proto_event ev;
			char buf[16] = "";
			int fd;

			rig_next(&rig, &ev);
			if (ev.type == PROTO_ERROR) {
				assert_int_equal(ev.failed.code, EAGAIN);
				refused++;
				continue;
			}
			assert_int_equal(ev.type, PROTO_OPENED);
			fd = proto_conn_take_fd(&rig.c);
			assert_true(read(fd, buf, sizeof(buf) - 1) > 0);
			assert_int_equal(strtoul(buf, NULL, 10), ev.stream - 100);
			close(fd);
			rig_next(&rig, &ev);
			assert_int_equal(ev.type, PROTO_OK);
			came++;
		}
	}
	assert_int_equal(came + refused, COUNT / 8 * 8);
	assert_true(came >= COUNT / 8 * 8 / 2);
	for (unsigned i = COUNT / 8 * 8; i < COUNT; i++) {
		struct proto_event ev;

		rig_expect(&rig, &ev, PROTO_OPENED, 100 + i);
		close(proto_conn_take_fd(&rig.c));
		rig_expect(&rig, &ev, PROTO_OK, 100 + i);
	}
}

static void only_files_are_passed(void **state)
{
	static const struct {
		const char *path;
		int code;
	} cases[] = { { "/dev/null", EINVAL }, { "/tmp", EISDIR }, { "/no/such/file", ENOENT } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		expect_error(
			(struct proto_request){
				.type = PROTO_READ, .flags = FILE_PASS_FD, .path = cases[i].path },
			cases[i].code);
}

static void paths_from_home(void **state)
{
	static const struct {
		const char *path, *want;
		int code;
	} cases[] = {
		{ "", "/", 0 },
		{ "~", "/", 0 },
		{ "~/", "/", 0 },
		{ "tmp", "/tmp", 0 },
		{ "~/tmp/.", "/tmp", 0 },
		{ "/tmp//../tmp/./", "/tmp", 0 },
		{ "../../..", "/", 0 },
		{ "/..//tmp", "/tmp", 0 },
		{ "~root", NULL, EINVAL },
		{ "~x/y", NULL, EINVAL },
		{ "no/such", NULL, ENOENT },
	};
	/* A number without an entry has the home "/". */
	struct proto_request q = { .type = PROTO_STAT, .flags = FILE_HOME, .user = "54321" };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct proto_event ev;

		q.path = cases[i].path;
		if (cases[i].code) {
			expect_error(q, cases[i].code);
			continue;
		}
		send_request(q);
		rig_expect(&rig, &ev, PROTO_OK, ID);
		assert_string_equal(ev.file.path, cases[i].want);
	}
	q.path = "tmp";
	q.user = "no-such-user";
	expect_error(q, ENOKEY);
	q.user = NULL;
	expect_error(q, EINVAL);
}

static void full_entries(void **state)
{
	struct proto_event ev;
	unsigned seen = 0;

	(void)state;
	assert_int_equal(mkdir(in_dir("d"), 0755), 0);
	assert_int_equal(symlink("d", in_dir("link")), 0);
	assert_int_equal(symlink("nowhere", in_dir("broken")), 0);
	send_request((struct proto_request){
		.type = PROTO_LIST, .flags = FILE_FULL | FILE_HOME, .path = dir, .user = "0" });
	for (;;) {
		rig_next(&rig, &ev);
		if (ev.type == PROTO_OK)
			break;
		assert_int_equal(ev.type, PROTO_ENTRY);
		if (str_eq(ev.file.name, "d")) {
			assert_null(ev.file.link);
			assert_int_equal(ev.file.kind, FILE_DIRECTORY);
		} else if (str_eq(ev.file.name, "link")) {
			assert_string_equal(ev.file.link, in_dir("d"));
			assert_int_equal(ev.file.kind, FILE_DIRECTORY);
		} else {
			assert_string_equal(ev.file.link, "nowhere");
			assert_int_equal(ev.file.kind, FILE_SYMLINK);
		}
		if (geteuid() == 0)
			assert_string_equal(ev.file.owner, "root");
		seen++;
	}
	assert_int_equal(seen, 3);
	assert_string_equal(ev.file.path, dir);
}

static void made_and_moved(void **state)
{
	struct proto_event ev;

	(void)state;
	send_request((struct proto_request){ .type = PROTO_MKDIR,
		.flags = FILE_PARENTS | FILE_NEW | FILE_FULL,
		.path = in_dir("x/y") });
	rig_expect(&rig, &ev, PROTO_OK, ID);
	assert_true(ev.has_file);
	assert_int_equal(ev.file.kind, FILE_DIRECTORY);
	expect_error((struct proto_request){ .type = PROTO_MKDIR,
			     .flags = FILE_PARENTS | FILE_NEW,
			     .path = in_dir("x/y") },
		EEXIST);
	close(open(in_dir("f"), O_CREAT | O_WRONLY, 0600));
	expect_error(
		(struct proto_request){
			.type = PROTO_MKDIR, .flags = FILE_NEW, .path = in_dir("f") },
		ENOTDIR);
	send_request((struct proto_request){ .type = PROTO_RENAME,
		.flags = FILE_PARENTS | FILE_FULL,
		.path = in_dir("f"),
		.to = in_dir("p/q/g") });
	rig_expect(&rig, &ev, PROTO_OK, ID);
	assert_int_equal(ev.file.kind, FILE_REGULAR);
	expect_error((struct proto_request){ .type = PROTO_RENAME,
			     .flags = FILE_PARENTS,
			     .path = in_dir("none"),
			     .to = in_dir("r/s") },
		ENOENT);
	assert_int_equal(access(in_dir("r"), F_OK), -1);
}

static void starts_at_home(void **state)
{
	static const char *const argv[] = { "/bin/pwd", NULL };
	struct proto_start start = {
		.stream = ID, .flags = START_HOME | START_NULL_STDIN, .argv = argv, .user = "54321"
	};
	struct proto_event ev;
	struct said said;

	(void)state;
	if (geteuid() == 0) {
		assert_int_equal(proto_send_start(&rig.c, &start, NULL, 0, NULL), 0);
		rig_collect(&rig, ID, &said);
		assert_memory_equal(said.out, "/\n", 2);
		start.cwd = "~/usr/.";
		assert_int_equal(proto_send_start(&rig.c, &start, NULL, 0, NULL), 0);
		rig_collect(&rig, ID, &said);
		assert_memory_equal(said.out, "/usr\n", 5);
		start.cwd = "~root";
		assert_int_equal(proto_send_start(&rig.c, &start, NULL, 0, NULL), 0);
		rig_expect(&rig, &ev, PROTO_START_FAILED, ID);
		assert_int_equal(ev.failed.step, START_STEP_CWD);
		assert_int_equal(ev.failed.code, EINVAL);
	}
	start.user = start.cwd = NULL;
	assert_int_equal(proto_send_start(&rig.c, &start, NULL, 0, NULL), 0);
	rig_expect(&rig, &ev, PROTO_ERROR, ID);
	assert_int_equal(ev.failed.code, EINVAL);
}

int main(void)
{
#define INFO_TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, finish)
	const struct CMUnitTest tests[] = {
		INFO_TEST(files_are_passed),
		INFO_TEST(many_files),
		INFO_TEST(only_files_are_passed),
		INFO_TEST(paths_from_home),
		INFO_TEST(full_entries),
		INFO_TEST(made_and_moved),
		INFO_TEST(starts_at_home),
	};

	return rig_main("info", tests, ARRAY_LEN(tests));
}
