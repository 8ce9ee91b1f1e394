/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/request_test.c - what is encoded is decoded; what is neither is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "sup/request.h"

static const char *const some_env[] = { "A=1", "B=", "C=x=y", NULL };

static struct sup_request full(void)
{
	return (struct sup_request){
		.id = "abcdefghij27",
		.traits = { .code = CODE_GENERATED, .tenants = TENANTS_MANY, .gpu = 1 },
		.asked = WALL_CONTAINER,
		.asked_by = "ward serve --tier",
		.accept_risk = "because",
		.caller = "tenant a",
		.trace = "0af7651916cd43dd8448eb211c80319c",
		.template_spec = "alpine:3",
		.limits = { .memory_bytes = 1 << 30,
			.disk_bytes = 1 << 29,
			.output_bytes = 77,
			.pids = 100,
			.cpu_milli = 500,
			.cpu_weight = 50,
			.memory_asked = true,
			.cpus_asked = true },
		.mounts = { { "/srv/data", "/data", MOUNT_RO }, { "/tmp", "/t", MOUNT_OVERLAY } },
		.mount_count = 2,
		.net = NET_LOOPBACK,
		.upper = UPPER_TMPFS,
		.env = some_env,
		.user = "user",
		.workdir = "/home/user",
		.hostname = "box",
		.deadline_ms = 1234567890123,
		.deadline_action = SUP_PAUSE,
	};
}

static void test_there_and_back(void **state)
{
	struct sup_request q = full();
	struct sup_order o;
	struct err e = { 0 };
	int fd;

	(void)state;
	assert_int_equal(sup_request_encode(&q, &fd, &e), 0);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(fd, "x", 1), -1);
	assert_int_equal(ftruncate(fd, 0), -1);
	assert_int_equal(sup_request_decode(fd, &o, &e), 0);
	close(fd);
	assert_string_equal(o.q.id, q.id);
	assert_null(o.q.from);
	assert_memory_equal(&o.q.traits, &q.traits, sizeof(q.traits));
	assert_memory_equal(&o.q.limits, &q.limits, sizeof(q.limits));
	assert_int_equal(o.q.asked, q.asked);
	assert_string_equal(o.q.asked_by, q.asked_by);
	assert_string_equal(o.q.accept_risk, q.accept_risk);
	assert_string_equal(o.q.caller, q.caller);
	assert_string_equal(o.q.trace, q.trace);
	assert_string_equal(o.q.template_spec, q.template_spec);
	assert_int_equal(o.q.mount_count, 2);
	assert_string_equal(o.q.mounts[1].src, "/tmp");
	assert_string_equal(o.q.mounts[1].dst, "/t");
	assert_int_equal(o.q.mounts[1].mode, MOUNT_OVERLAY);
	assert_int_equal(o.q.net, q.net);
	assert_int_equal(o.q.upper, q.upper);
	for (unsigned i = 0; some_env[i]; i++)
		assert_string_equal(o.q.env[i], some_env[i]);
	assert_null(o.q.env[3]);
	assert_string_equal(o.q.user, q.user);
	assert_string_equal(o.q.workdir, q.workdir);
	assert_string_equal(o.q.hostname, q.hostname);
	assert_int_equal(o.q.deadline_ms, q.deadline_ms);
	assert_int_equal(o.q.deadline_action, q.deadline_action);
	sup_order_done(&o);
}

static void test_nothing_said(void **state)
{
	struct sup_request q = { .id = "abcdefghij27" };
	struct sup_order o;
	struct err e = { 0 };
	int fd;

	(void)state;
	assert_int_equal(sup_request_encode(&q, &fd, &e), 0);
	assert_int_equal(sup_request_decode(fd, &o, &e), 0);
	close(fd);
	assert_null(o.q.template_spec);
	assert_null(o.q.user);
	assert_null(o.q.env[0]);
	assert_int_equal(o.q.mount_count, 0);
	sup_order_done(&o);
}

typedef void change_fn(struct sup_request *q);

static const char *const bad_env[] = { "A=1", "=x", NULL };
static const char *const no_value[] = { "A", NULL };

static void bad_id(struct sup_request *q)
{
	q->id[3] = '/';
}
static void bad_tier(struct sup_request *q)
{
	q->asked = WALL_COUNT;
}
static void bad_trait(struct sup_request *q)
{
	q->traits.gpu = 2;
}
static void bad_code(struct sup_request *q)
{
	q->traits.code = 9;
}
static void bad_caller(struct sup_request *q)
{
	q->caller = "two\nlines";
}
static void bad_mount(struct sup_request *q)
{
	q->mounts[0].dst = "/proc/x";
}
static void dots(struct sup_request *q)
{
	q->mounts[0].src = "/srv/../etc";
}
static void relative(struct sup_request *q)
{
	q->workdir = "home";
}
static void set_bad_env(struct sup_request *q)
{
	q->env = bad_env;
}
static void set_no_value(struct sup_request *q)
{
	q->env = no_value;
}
static void little_memory(struct sup_request *q)
{
	q->limits.memory_bytes = 1000;
}
static void one_pid(struct sup_request *q)
{
	q->limits.pids = 1;
}
static void no_action(struct sup_request *q)
{
	q->deadline_action = 0;
}
static void bad_net(struct sup_request *q)
{
	q->net = 9;
}
static void long_name(struct sup_request *q)
{
	q->hostname = "0123456789012345678901234567890123456789012345678901234567890123456789";
}

static void test_refused(void **state)
{
	static change_fn *const changes[] = { bad_id, bad_tier, bad_trait, bad_code, bad_caller,
		bad_mount, dots, relative, set_bad_env, set_no_value, little_memory, one_pid,
		no_action, bad_net, long_name };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
		struct sup_request q = full();
		struct err e = { 0 };
		int fd = -1;

		changes[i](&q);
		assert_int_equal(sup_request_encode(&q, &fd, &e), -EINVAL);
		assert_int_equal(fd, -1);
		assert_true(e.msg[0]);
	}
}

/* Every prefix, and every byte changed: refused, or a request that could be encoded again. */
static void test_damaged(void **state)
{
	struct sup_request q = full();
	uint8_t buf[4096], copy[4096];
	struct err e = { 0 };
	ssize_t len;
	int fd;

	(void)state;
	assert_int_equal(sup_request_encode(&q, &fd, &e), 0);
	len = pread(fd, buf, sizeof(buf), 0);
	close(fd);
	assert_true(len > 100 && len < (ssize_t)sizeof(buf));
	for (ssize_t i = 0; i < len; i++) {
		struct sup_order o;

		if (sup_request_read(buf, (size_t)i, &o, &e) == 0)
			sup_order_done(&o);
		for (unsigned bit = 0; bit < 8; bit++) {
			memcpy(copy, buf, (size_t)len);
			copy[i] ^= (uint8_t)(1u << bit);
			if (sup_request_read(copy, (size_t)len, &o, &e) < 0)
				continue;
			assert_int_equal(sup_request_encode(&o.q, &fd, &e), 0);
			close(fd);
			sup_order_done(&o);
		}
	}
}

static void test_not_a_memfd(void **state)
{
	struct sup_order o;
	struct err e = { 0 };
	int p[2];

	(void)state;
	assert_int_equal(pipe(p), 0);
	assert_int_equal(sup_request_decode(p[0], &o, &e), -EPROTO);
	assert_int_equal(sup_request_decode(-1, &o, &e), -EPROTO);
	close(p[0]);
	close(p[1]);
}

static void test_from_a_snapshot(void **state)
{
	const struct snap from = { 40, 41, 42 };
	struct sup_request q = full();
	struct sup_order o;
	struct err e = { 0 };
	int fd;

	(void)state;
	q.from = &from;
	assert_int_equal(sup_request_encode(&q, &fd, &e), 0);
	assert_int_equal(sup_request_decode(fd, &o, &e), 0);
	close(fd);
	assert_non_null(o.q.from);
	assert_int_equal(o.q.from->state, SUP_FD_FROM);
	assert_int_equal(o.q.from->disk, SUP_FD_FROM + 2);
	sup_order_done(&o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_from_a_snapshot),
		cmocka_unit_test(test_nothing_said),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_not_a_memfd),
	};

	return cmocka_run_group_tests_name("request", tests, NULL, NULL);
}
