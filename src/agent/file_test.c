/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/file_test.c - files, directories, watches and ports.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "agent/rig.h"
#include "base/ckd.h"
#include "base/str.h"

enum { ID = 7 };

static struct rig rig;
static char dir[64];

static int begin(void **state)
{
	(void)state;
	str_copy(dir, sizeof(dir), "/tmp/ward-file-test-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int finish(void **state)
{
	(void)state;
	return rmdir(dir); /* every test removes what it made, through the agent */
}

static const char *in_dir(const char *name)
{
	static char paths[4][256];
	static unsigned turn;
	char *p = paths[turn++ % 4];

	assert_int_equal(str_fmt(p, sizeof(paths[0]), "%s/%s", dir, name), 0);
	return p;
}

static void ask(enum proto_type type, uint16_t flags, const char *path, const char *to)
{
	const struct proto_request q = {
		.type = type, .stream = ID, .flags = flags, .path = path, .to = to
	};

	assert_int_equal(proto_send_request(&rig.c, &q, NULL), 0);
}

static void expect_ok(enum proto_type type, uint16_t flags, const char *path, const char *to)
{
	struct proto_event ev;

	ask(type, flags, path, to);
	rig_expect(&rig, &ev, PROTO_OK, ID);
}

static void expect_error(
	enum proto_type type, uint16_t flags, const char *path, const char *to, int code)
{
	struct proto_event ev;

	ask(type, flags, path, to);
	rig_expect(&rig, &ev, PROTO_ERROR, ID);
	if (ev.failed.code != code)
		fail_msg("'%s': errno %d, not %d: %s", path, ev.failed.code, code, ev.failed.text);
	assert_false(ev.failed.soft);
}

/* Writes @len bytes of @fill; what the file is then, by the agent's word. */
static void write_file(const struct proto_request *q, int fill, size_t len)
{
	static uint8_t block[10000];
	struct proto_event ev;
	struct flow flow;
	size_t sent = 0;

	memset(block, fill, sizeof(block));
	flow_init(&flow, FLOW_WINDOW);
	assert_int_equal(proto_send_request(&rig.c, q, NULL), 0);
	rig_expect(&rig, &ev, PROTO_OPENED, ID);
	while (sent < len) {
		uint32_t n = len - sent < sizeof(block) ? (uint32_t)(len - sent) : sizeof(block);

		if (n > flow.credit) {
			rig_expect(&rig, &ev, PROTO_CREDIT, ID);
			assert_int_equal(flow_add(&flow, ev.bytes), 0);
			continue;
		}
		assert_int_equal(flow_take(&flow, n), 0);
		assert_int_equal(proto_send_data(&rig.c, ID, block, n, NULL), 0);
		sent += n;
	}
	assert_int_equal(proto_send_end(&rig.c, ID, NULL), 0);
	do
		rig_next(&rig, &ev);
	while (ev.type == PROTO_CREDIT);
	assert_int_equal(ev.type, PROTO_OK);
	assert_int_equal(ev.bytes, len);
}

/* Reads it all; each byte must be @fill. */
static size_t read_file(const struct proto_request *q, int fill)
{
	struct proto_event ev;
	struct flow flow;
	size_t total = 0;

	flow_init(&flow, q->window ? q->window : FLOW_WINDOW);
	assert_int_equal(proto_send_request(&rig.c, q, NULL), 0);
	rig_expect(&rig, &ev, PROTO_OPENED, ID);
	assert_true(ev.has_file);
	assert_int_equal(ev.file.kind, FILE_REGULAR);
	for (;;) {
		rig_next(&rig, &ev);
		if (ev.type == PROTO_OK)
			return total;
		assert_int_equal(ev.type, PROTO_DATA);
		assert_int_equal(flow_take(&flow, ev.data_len), 0);
		for (uint32_t i = 0; i < ev.data_len; i++)
			if (ev.data[i] != fill)
				fail_msg("byte %zu is %d", total + i, ev.data[i]);
		total += ev.data_len;
		assert_int_equal(
			proto_send_credit(&rig.c, ID, false, flow_give(&flow, ev.data_len), NULL),
			0);
	}
}

static void write_and_read(void **state)
{
	const char *path = in_dir("a/b/c");
	struct proto_event ev;
	struct stat st;

	(void)state;
	rig_start(&rig);
	expect_error(PROTO_WRITE, 0, path, NULL, ENOENT);
	write_file(&(struct proto_request){ .type = PROTO_WRITE,
			   .stream = ID,
			   .flags = FILE_PARENTS,
			   .path = path,
			   .mode = 0600 },
		'x', 5000000);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 5000000);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(
		read_file(&(struct proto_request){ .type = PROTO_READ, .stream = ID, .path = path },
			'x'),
		5000000);
	assert_int_equal(read_file(&(struct proto_request){ .type = PROTO_READ,
					   .stream = ID,
					   .path = path,
					   .window = 100,
					   .offset = 4990000 },
				 'x'),
		10000);
	assert_int_equal(
		read_file(
			&(struct proto_request){
				.type = PROTO_READ, .stream = ID, .path = path, .length = 777 },
			'x'),
		777);
	assert_int_equal(
		read_file(
			&(struct proto_request){
				.type = PROTO_READ, .stream = ID, .path = path, .offset = 1 << 30 },
			'x'),
		0);
	expect_error(PROTO_WRITE, FILE_NEW, path, NULL, EEXIST);
	write_file(
		&(struct proto_request){
			.type = PROTO_WRITE, .stream = ID, .flags = FILE_APPEND, .path = path },
		'x', 1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 5000001);
	write_file(
		&(struct proto_request){ .type = PROTO_WRITE, .stream = ID, .path = path }, 'y', 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 0);
	/* Given up in the middle. */
	ask(PROTO_WRITE, 0, path, NULL);
	rig_expect(&rig, &ev, PROTO_OPENED, ID);
	assert_int_equal(proto_send_cancel(&rig.c, ID, NULL), 0);
	rig_expect(&rig, &ev, PROTO_OK, ID);
	expect_ok(PROTO_REMOVE, FILE_RECURSIVE, in_dir("a"), NULL);
	assert_int_equal(rig_end(&rig), 0);
}

/* A file of no end, and a client that does not read: nothing grows, the rest goes on. */
static void endless_read(void **state)
{
	const char *path = in_dir("sparse");
	struct proto_event ev;
	size_t total = 0;

	(void)state;
	rig_start(&rig);
	write_file(
		&(struct proto_request){ .type = PROTO_WRITE, .stream = ID, .path = path }, 0, 1);
	assert_int_equal(truncate(path, 1LL << 40), 0);
	ask(PROTO_READ, 0, path, NULL);
	rig_expect(&rig, &ev, PROTO_OPENED, ID);
	assert_int_equal(ev.file.size, 1LL << 40);
	while (total < FLOW_WINDOW) {
		rig_expect(&rig, &ev, PROTO_DATA, ID);
		total += ev.data_len;
	}
	assert_int_equal(total, FLOW_WINDOW);
	assert_true(rig_quiet(&rig, 50));
	/* Credit for a gigabyte, and still no reading: the agent must stop at what the channel
	 * takes. */
	assert_int_equal(proto_send_credit(&rig.c, ID, false, 1 << 30, NULL), 0);
	usleep(100000);
	assert_int_equal(proto_send_cancel(&rig.c, ID, NULL), 0);
	for (total = 0;; total += ev.data_len) {
		rig_next(&rig, &ev);
		if (ev.type == PROTO_OK)
			break;
		assert_int_equal(ev.type, PROTO_DATA);
	}
	assert_true(total < 8 << 20);
	expect_ok(PROTO_REMOVE, 0, path, NULL);
	assert_int_equal(rig_end(&rig), 0);
}

static void errors(void **state)
{
	static char long_path[5000];
	const struct {
		enum proto_type type;
		uint16_t flags;
		const char *path, *to;
		int code;
	} cases[] = {
		{ PROTO_READ, 0, "/no/such", NULL, ENOENT },
		{ PROTO_READ, 0, "/tmp", NULL, EISDIR },
		{ PROTO_READ, 0, "/dev/zero", NULL, EINVAL },
		{ PROTO_WRITE, 0, "/dev/null", NULL, EINVAL },
		{ PROTO_WRITE, 0, "/tmp", NULL, EISDIR },
		{ PROTO_WRITE, FILE_PARENTS, "/dev/null/x/y", NULL, ENOTDIR },
		{ PROTO_STAT, 0, "/no/such", NULL, ENOENT },
		{ PROTO_STAT, 0, "", NULL, ENOENT },
		{ PROTO_LIST, 0, "/no/such", NULL, ENOENT },
		{ PROTO_LIST, 0, "/dev/null", NULL, ENOTDIR },
		{ PROTO_MKDIR, 0, "/tmp", NULL, EEXIST },
		{ PROTO_MKDIR, 0, "/no/such", NULL, ENOENT },
		{ PROTO_MKDIR, FILE_PARENTS, "/dev/null", NULL, ENOTDIR },
		{ PROTO_REMOVE, 0, "/no/such", NULL, ENOENT },
		{ PROTO_RENAME, 0, "/no/such", "/tmp/x", ENOENT },
		{ PROTO_WATCH, 0, "/no/such", NULL, ENOENT },
		{ PROTO_WATCH, 0, "/dev/null", NULL, ENOTDIR },
		{ PROTO_DIAL, 0, "/no/such", NULL, ENOENT },
		{ PROTO_DIAL, 0, "", NULL, EINVAL },
	};
	struct proto_event ev;

	(void)state;
	rig_start(&rig);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		expect_error(
			cases[i].type, cases[i].flags, cases[i].path, cases[i].to, cases[i].code);
	memset(long_path, 'a', sizeof(long_path) - 1);
	assert_int_equal(
		proto_send_request(&rig.c,
			&(struct proto_request){ .type = PROTO_STAT, .path = long_path }, NULL),
		-ENAMETOOLONG);
	/* A fifo makes nobody wait. */
	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	expect_error(PROTO_READ, 0, in_dir("fifo"), NULL, EINVAL);
	expect_error(PROTO_WRITE, 0, in_dir("fifo"), NULL, ENXIO);
	expect_ok(PROTO_REMOVE, 0, in_dir("fifo"), NULL);
	/* Windows that no entry would fit through. */
	assert_int_equal(
		proto_send_request(&rig.c,
			&(struct proto_request){
				.type = PROTO_LIST, .stream = ID, .path = "/", .window = 100 },
			NULL),
		0);
	rig_expect(&rig, &ev, PROTO_ERROR, ID);
	assert_int_equal(ev.failed.code, EINVAL);
	assert_int_equal(
		proto_send_request(&rig.c,
			&(struct proto_request){ .type = PROTO_DIAL, .stream = ID, .port = 70000 },
			NULL),
		0);
	rig_expect(&rig, &ev, PROTO_ERROR, ID);
	assert_int_equal(ev.failed.code, EINVAL);
	assert_int_equal(rig_end(&rig), 0);
}

static void stat_and_rename(void **state)
{
	const char *link = in_dir("link");
	struct proto_event ev;
	struct stat st;

	(void)state;
	rig_start(&rig);
	assert_int_equal(symlink("target/of link", link), 0);
	ask(PROTO_STAT, FILE_NOFOLLOW, link, NULL);
	rig_expect(&rig, &ev, PROTO_OK, ID);
	assert_true(ev.has_file);
	assert_int_equal(ev.file.kind, FILE_SYMLINK);
	assert_string_equal(ev.file.link, "target/of link");
	expect_error(PROTO_STAT, 0, link, NULL, ENOENT);
	expect_ok(PROTO_RENAME, 0, link, in_dir("other"));
	assert_int_equal(lstat(link, &st), -1);
	expect_ok(PROTO_REMOVE, 0, in_dir("other"), NULL);
	ask(PROTO_STAT, 0, "/dev/null", NULL);
	rig_expect(&rig, &ev, PROTO_OK, ID);
	assert_int_equal(ev.file.kind, FILE_CHAR_DEVICE);
	assert_int_equal(ev.file.mode, 0666);
	assert_int_equal(rig_end(&rig), 0);
}

static void owners(void **state)
{
	const char *sub = in_dir("own/sub");
	struct proto_event ev;
	struct stat st;

	(void)state;
	if (geteuid() != 0)
		skip(); /* only root gives things away */
	rig_start(&rig);
	assert_int_equal(proto_send_request(&rig.c,
				 &(struct proto_request){ .type = PROTO_MKDIR,
					 .stream = ID,
					 .flags = FILE_PARENTS,
					 .path = sub,
					 .user = "daemon:bin",
					 .mode = 0750 },
				 NULL),
		0);
	rig_expect(&rig, &ev, PROTO_OK, ID);
	ask(PROTO_STAT, 0, sub, NULL);
	rig_expect(&rig, &ev, PROTO_OK, ID);
	assert_int_equal(ev.file.kind, FILE_DIRECTORY);
	assert_int_equal(ev.file.uid, 1);
	assert_int_equal(ev.file.gid, 2);
	assert_int_equal(ev.file.mode, 0750);
	assert_int_equal(stat(in_dir("own"), &st), 0);
	assert_int_equal(st.st_uid, 1); /* those above that were missing, too */
	assert_int_equal(proto_send_request(&rig.c,
				 &(struct proto_request){ .type = PROTO_MKDIR,
					 .stream = ID,
					 .path = sub,
					 .user = "nobody-there" },
				 NULL),
		0);
	rig_expect(&rig, &ev, PROTO_ERROR, ID);
	expect_ok(PROTO_REMOVE, FILE_RECURSIVE, in_dir("own"), NULL);
	assert_int_equal(rig_end(&rig), 0);
}

/* 3000 files in 30 directories: more than one window, so that credit is needed. */
static void list_and_remove_a_tree(void **state)
{
	struct proto_event ev;
	struct flow flow;
	unsigned files = 0, dirs = 0, links = 0;

	(void)state;
	rig_start(&rig);
	for (unsigned i = 0; i < 3000; i++) {
		char name[64];
		int fd;

		if (i == 0)
			assert_int_equal(mkdir(in_dir("tree"), 0755), 0);
		assert_int_equal(str_fmt(name, sizeof(name), "tree/d%u", i % 30), 0);
		if (i < 30)
			assert_int_equal(mkdir(in_dir(name), 0755), 0);
		assert_int_equal(str_fmt(name, sizeof(name), "tree/d%u/file-%u", i % 30, i), 0);
		fd = open(in_dir(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
		assert_true(fd >= 0);
		close(fd);
	}
	/* A way out that must not be taken. */
	assert_int_equal(symlink("/usr", in_dir("tree/out")), 0);
	assert_int_equal(proto_send_request(&rig.c,
				 &(struct proto_request){ .type = PROTO_LIST,
					 .stream = ID,
					 .path = in_dir("tree"),
					 .depth = 5,
					 .window = ENTRY_WINDOW_MIN },
				 NULL),
		0);
	flow_init(&flow, ENTRY_WINDOW_MIN);
	for (;;) {
		uint32_t size;

		rig_next(&rig, &ev);
		if (ev.type == PROTO_OK)
			break;
		assert_int_equal(ev.type, PROTO_ENTRY);
		files += ev.file.kind == FILE_REGULAR;
		dirs += ev.file.kind == FILE_DIRECTORY;
		links += ev.file.kind == FILE_SYMLINK && str_eq(ev.file.link, "/usr");
		assert_null(strstr(ev.file.name, "out/"));
		size = ev.cost;
		assert_true(size > 0);
		assert_int_equal(flow_take(&flow, size), 0);
		proto_send_credit(&rig.c, ID, false, flow_give(&flow, size), NULL);
	}
	assert_int_equal(files, 3000);
	assert_int_equal(dirs, 30);
	assert_int_equal(links, 1);
	expect_error(PROTO_REMOVE, 0, in_dir("tree"), NULL, ENOTEMPTY);
	expect_ok(PROTO_REMOVE, FILE_RECURSIVE, in_dir("tree"), NULL);
	assert_int_equal(access(in_dir("tree"), F_OK), -1);
	assert_int_equal(access("/usr/bin", F_OK), 0);
	assert_int_equal(rig_end(&rig), 0);
}

static void too_deep_a_tree(void **state)
{
	struct said said;
	char script[256];

	(void)state;
	rig_start(&rig);
	assert_int_equal(mkdir(in_dir("deep"), 0755), 0);
	assert_int_equal(
		str_fmt(script, sizeof(script),
			"cd %s; i=0; while [ $i -lt 200 ]; do mkdir d; cd d; i=$((i+1)); done",
			in_dir("deep")),
		0);
	rig_shell(&rig, script, &said);
	assert_int_equal(said.exit.code, 0);
	expect_error(PROTO_REMOVE, FILE_RECURSIVE, in_dir("deep"), NULL, ELOOP);
	assert_int_equal(str_fmt(script, sizeof(script), "rm -r %s", in_dir("deep")), 0);
	rig_shell(&rig, script, &said);
	assert_int_equal(said.exit.code, 0);
	assert_int_equal(rig_end(&rig), 0);
}

/* Waits for one event; others may come before it. */
static void expect_event(enum file_change change, const char *name)
{
	struct proto_event ev;

	do {
		rig_expect(&rig, &ev, PROTO_EVENT, ID);
		proto_send_credit(&rig.c, ID, false, ev.cost, NULL);
	} while (ev.change != change || !str_eq(ev.name, name));
}

static void make_file(const char *name)
{
	int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "x", 1), 1);
	close(fd);
}

static void watch(void **state)
{
	struct proto_event ev;

	(void)state;
	rig_start(&rig);
	ask(PROTO_WATCH, 0, dir, NULL);
	rig_expect(&rig, &ev, PROTO_OPENED, ID);
	make_file("f");
	expect_event(CHANGE_CREATED, "f");
	expect_event(CHANGE_WRITTEN, "f");
	assert_int_equal(chmod(in_dir("f"), 0600), 0);
	expect_event(CHANGE_ATTRIBUTES, "f");
	assert_int_equal(rename(in_dir("f"), in_dir("g")), 0);
	expect_event(CHANGE_MOVED_AWAY, "f");
	expect_event(CHANGE_CREATED, "g");
	assert_int_equal(unlink(in_dir("g")), 0);
	expect_event(CHANGE_REMOVED, "g");
	/* Not recursive: a new directory is named, what is in it is not. */
	assert_int_equal(mkdir(in_dir("d"), 0755), 0);
	expect_event(CHANGE_CREATED, "d");
	make_file("d/f");
	assert_true(rig_quiet(&rig, 50));
	assert_int_equal(proto_send_cancel(&rig.c, ID, NULL), 0);
	rig_expect(&rig, &ev, PROTO_OK, ID);
	expect_ok(PROTO_REMOVE, FILE_RECURSIVE, in_dir("d"), NULL);
	assert_int_equal(rig_end(&rig), 0);
}

static void watch_a_tree(void **state)
{
	struct proto_event ev;

	(void)state;
	rig_start(&rig);
	assert_int_equal(mkdir(in_dir("t"), 0755) | mkdir(in_dir("t/a"), 0755) |
				 mkdir(in_dir("t/a/b"), 0755),
		0);
	ask(PROTO_WATCH, FILE_RECURSIVE, in_dir("t"), NULL);
	rig_expect(&rig, &ev, PROTO_OPENED, ID);
	make_file("t/a/b/deep");
	expect_event(CHANGE_CREATED, "a/b/deep");
	/* Made in one go: whether seen by event or by looking, all are told. */
	assert_int_equal(mkdir(in_dir("t/n"), 0755) | mkdir(in_dir("t/n/m"), 0755), 0);
	make_file("t/n/m/o");
	expect_event(CHANGE_CREATED, "n");
	expect_event(CHANGE_CREATED, "n/m");
	expect_event(CHANGE_CREATED, "n/m/o");
	/* Moved: known by its new name from now on, and by no other. */
	assert_int_equal(rename(in_dir("t/a"), in_dir("t/z")), 0);
	expect_event(CHANGE_MOVED_AWAY, "a");
	expect_event(CHANGE_CREATED, "z");
	expect_event(CHANGE_CREATED, "z/b/deep");
	make_file("t/z/b/new");
	expect_event(CHANGE_CREATED, "z/b/new");
	assert_int_equal(proto_send_cancel(&rig.c, ID, NULL), 0);
	do
		rig_next(&rig, &ev);
	while (ev.type == PROTO_EVENT);
	assert_int_equal(ev.type, PROTO_OK);
	expect_ok(PROTO_REMOVE, FILE_RECURSIVE, in_dir("t"), NULL);
	assert_int_equal(rig_end(&rig), 0);
}

static void watch_survives_removal(void **state)
{
	struct proto_event ev;
	struct said said;
	char script[256];

	(void)state;
	rig_start(&rig);
	assert_int_equal(mkdir(in_dir("t"), 0755), 0);
	ask(PROTO_WATCH, FILE_RECURSIVE, in_dir("t"), NULL);
	rig_expect(&rig, &ev, PROTO_OPENED, ID);
	assert_int_equal(rmdir(in_dir("t")), 0);
	expect_event(CHANGE_REMOVED, "");
	assert_int_equal(proto_send_cancel(&rig.c, ID, NULL), 0);
	do
		rig_next(&rig, &ev);
	while (ev.type == PROTO_EVENT);
	assert_int_equal(ev.type, PROTO_OK);
	/* More directories than a watch holds: an end, said. */
	assert_int_equal(mkdir(in_dir("t"), 0755), 0);
	assert_int_equal(str_fmt(script, sizeof(script), "cd %s && mkdir $(seq 1 %d)", in_dir("t"),
				 AGENT_WATCH_DIRS_MAX),
		0);
	rig_shell(&rig, script, &said);
	assert_int_equal(said.exit.code, 0);
	expect_error(PROTO_WATCH, FILE_RECURSIVE, in_dir("t"), NULL, ENOSPC);
	expect_ok(PROTO_REMOVE, FILE_RECURSIVE, in_dir("t"), NULL);
	assert_int_equal(rig_end(&rig), 0);
}

/* Without credit events wait in the kernel; when it drops some, that is said. */
static void watch_of_a_flood(void **state)
{
	struct proto_event ev;
	char names[2][WARD_PATH_MAX];
	bool lost = false;
	int fd;

	(void)state;
	rig_start(&rig);
	ask(PROTO_WATCH, FILE_RECURSIVE, dir, NULL);
	rig_expect(&rig, &ev, PROTO_OPENED, ID);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(str_fmt(names[i], sizeof(names[i]), "%s/%u", dir, i), 0);
	fd = open(names[0], O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	/* Two changes each: more than the kernel keeps and the window takes. */
	for (unsigned i = 0; i < 10000; i++)
		assert_int_equal(rename(names[i % 2], names[(i + 1) % 2]), 0);
	assert_int_equal(unlink(names[0]), 0);
	while (!lost) {
		proto_send_credit(&rig.c, ID, false, 4096, NULL);
		rig_expect(&rig, &ev, PROTO_EVENT, ID);
		lost = ev.change == CHANGE_LOST;
	}
	assert_int_equal(proto_send_cancel(&rig.c, ID, NULL), 0);
	do
		rig_next(&rig, &ev);
	while (ev.type == PROTO_EVENT);
	assert_int_equal(ev.type, PROTO_OK);
	assert_int_equal(rig_end(&rig), 0);
}

static int listen_on(int family, const char *path, uint16_t *ret_port)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in v4 = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr *to = family == AF_INET    ? (void *)&v4
			      : family == AF_INET6 ? (void *)&v6
						   : (void *)&un;
	socklen_t len = family == AF_INET    ? sizeof(v4)
			: family == AF_INET6 ? sizeof(v6)
					     : sizeof(un);
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	if (path)
		assert_int_equal(str_copy(un.sun_path, sizeof(un.sun_path), path), 0);
	assert_int_equal(bind(fd, to, len), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(getsockname(fd, to, &len), 0);
	*ret_port = ntohs(family == AF_INET ? v4.sin_port : v6.sin6_port);
	return fd;
}

static void dial(void **state)
{
	static const int families[] = { AF_INET, AF_INET6, AF_UNIX };
	const char *path = in_dir("sock");

	(void)state;
	rig_start(&rig);
	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		bool local = families[i] == AF_UNIX;
		struct proto_event ev;
		uint16_t port;
		int server = listen_on(families[i], local ? path : NULL, &port), conn;
		const struct proto_request q = { .type = PROTO_DIAL,
			.stream = ID,
			.path = local ? path : NULL,
			.port = local ? 0 : port,
			.flags = families[i] == AF_INET6 ? DIAL_V6 : 0 };
		char buf[16];

		assert_int_equal(proto_send_request(&rig.c, &q, NULL), 0);
		/* Before it stands: kept, and sent then. */
		assert_int_equal(proto_send_data(&rig.c, ID, "hello", 5, NULL), 0);
		rig_expect(&rig, &ev, PROTO_OPENED, ID);
		conn = accept(server, NULL, NULL);
		assert_true(conn >= 0);
		assert_int_equal(recv(conn, buf, 5, MSG_WAITALL), 5);
		assert_memory_equal(buf, "hello", 5);
		assert_int_equal(write(conn, "HELLO", 5), 5);
		rig_expect(&rig, &ev, PROTO_DATA, ID);
		assert_int_equal(ev.data_len, 5);
		assert_memory_equal(ev.data, "HELLO", 5);
		/* Each way ends by itself. */
		assert_int_equal(proto_send_end(&rig.c, ID, NULL), 0);
		assert_int_equal(read(conn, buf, sizeof(buf)), 0);
		assert_int_equal(write(conn, "last", 4), 4);
		close(conn);
		rig_expect(&rig, &ev, PROTO_DATA, ID);
		rig_expect(&rig, &ev, PROTO_END, ID);
		rig_expect(&rig, &ev, PROTO_OK, ID);
		close(server);
	}
	expect_ok(PROTO_REMOVE, 0, path, NULL);
	assert_int_equal(rig_end(&rig), 0);
}

/* A server that does not read, and one that is not there. */
static void dial_slow_and_gone(void **state)
{
	static const uint8_t block[8192];
	struct proto_event ev;
	uint16_t port;
	struct proto_request q = { .type = PROTO_DIAL, .stream = ID };
	int server, conn;
	size_t sent = 0, got = 0;
	struct flow flow;
	char buf[65536];

	(void)state;
	rig_start(&rig); /* first, so that it has no copy of the server's socket */
	server = listen_on(AF_INET, NULL, &port);
	q.port = port;
	assert_int_equal(proto_send_request(&rig.c, &q, NULL), 0);
	rig_expect(&rig, &ev, PROTO_OPENED, ID);
	conn = accept(server, NULL, NULL);
	assert_true(conn >= 0);
	flow_init(&flow, FLOW_WINDOW);
	/* Until the kernel's buffers and the window are full. */
	for (;;) {
		while (flow.credit >= sizeof(block)) {
			assert_int_equal(flow_take(&flow, sizeof(block)), 0);
			assert_int_equal(
				proto_send_data(&rig.c, ID, block, sizeof(block), NULL), 0);
			sent += sizeof(block);
		}
		if (rig_quiet(&rig, 200))
			break;
		/* rig_quiet() has taken the CREDIT that came; it was at least half a window. */
		assert_int_equal(flow_add(&flow, FLOW_WINDOW / 2), 0);
	}
	assert_int_equal(proto_send_end(&rig.c, ID, NULL), 0);
	while (got < sent) {
		ssize_t n = read(conn, buf, sizeof(buf));

		assert_true(n > 0);
		got += (size_t)n;
	}
	assert_int_equal(read(conn, buf, sizeof(buf)), 0);
	/* A reset is an error. */
	assert_int_equal(setsockopt(conn, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 },
				 sizeof(struct linger)),
		0);
	close(conn);
	do
		rig_next(&rig, &ev);
	while (ev.type == PROTO_CREDIT);
	assert_int_equal(ev.type, PROTO_ERROR);
	assert_int_equal(ev.failed.code, ECONNRESET);
	close(server);
	assert_int_equal(proto_send_request(&rig.c, &q, NULL), 0);
	rig_expect(&rig, &ev, PROTO_ERROR, ID);
	assert_int_equal(ev.failed.code, ECONNREFUSED);
	assert_int_equal(rig_end(&rig), 0);
}

static void too_many_of_a_kind(void **state)
{
	struct proto_event ev;

	(void)state;
	rig_start(&rig);
	for (uint32_t i = 1; i <= AGENT_WATCHES_MAX + 1; i++) {
		assert_int_equal(proto_send_request(&rig.c,
					 &(struct proto_request){
						 .type = PROTO_WATCH, .stream = i, .path = dir },
					 NULL),
			0);
		rig_next(&rig, &ev);
		assert_int_equal(ev.type, i <= AGENT_WATCHES_MAX ? PROTO_OPENED : PROTO_ERROR);
	}
	assert_int_equal(ev.failed.code, EAGAIN);
	assert_int_equal(proto_send_cancel(&rig.c, 3, NULL), 0);
	rig_expect(&rig, &ev, PROTO_OK, 3);
	assert_int_equal(
		proto_send_request(&rig.c,
			&(struct proto_request){ .type = PROTO_WATCH, .stream = 99, .path = dir },
			NULL),
		0);
	rig_expect(&rig, &ev, PROTO_OPENED, 99);
	assert_int_equal(rig_end(&rig), 0);
}

/* Who asks for more room has it at once, up to a limit; and as much comes back as before. */
static void write_with_a_window(void **state)
{
	static const struct {
		uint32_t asked, given;
	} cases[] = { { FLOW_WINDOW, 0 }, { 256 * 1024, 192 * 1024 }, { 1 << 30, 448 * 1024 } };
	char path[WARD_PATH_MAX];

	(void)state;
	rig_start(&rig);
	assert_int_equal(str_fmt(path, sizeof(path), "%s/wide", dir), 0);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct proto_request q = {
			.type = PROTO_WRITE, .stream = ID, .path = path, .window = cases[i].asked
		};
		struct proto_event ev;

		assert_int_equal(proto_send_request(&rig.c, &q, NULL), 0);
		rig_expect(&rig, &ev, PROTO_OPENED, ID);
		if (cases[i].given) {
			rig_expect(&rig, &ev, PROTO_CREDIT, ID);
			assert_int_equal(ev.bytes, cases[i].given);
		}
		assert_int_equal(proto_send_end(&rig.c, ID, NULL), 0);
		rig_expect(&rig, &ev, PROTO_OK, ID);
		write_file(&q, 'w', 1000000);
	}
	expect_ok(PROTO_REMOVE, 0, path, NULL);
	assert_int_equal(rig_end(&rig), 0);
}

int main(void)
{
#define FILE_TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, finish)
	const struct CMUnitTest tests[] = {
		FILE_TEST(write_and_read),
		FILE_TEST(write_with_a_window),
		FILE_TEST(endless_read),
		FILE_TEST(errors),
		FILE_TEST(stat_and_rename),
		FILE_TEST(owners),
		FILE_TEST(list_and_remove_a_tree),
		FILE_TEST(too_deep_a_tree),
		FILE_TEST(watch),
		FILE_TEST(watch_a_tree),
		FILE_TEST(watch_survives_removal),
		FILE_TEST(watch_of_a_flood),
		FILE_TEST(dial),
		FILE_TEST(dial_slow_and_gone),
		FILE_TEST(too_many_of_a_kind),
	};

	return rig_main("file", tests, ARRAY_LEN(tests));
}
