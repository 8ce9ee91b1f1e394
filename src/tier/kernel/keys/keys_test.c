/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/buf.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/keys/key.h"

enum { RING_THREAD = -1, RING_PROCESS = -2, RING_SESSION = -3, RING_USER_SESSION = -5 };

static int setup(void **state)
{
	*state = fake_create();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	fake_destroy(*state);
	return 0;
}

static long add(struct fake *g, const char *type, const char *desc, const char *text, int32_t ring)
{
	size_t len = text ? strlen(text) : 0;
	gva_t p = fake_put(g, text ? text : "", len + 1);

	return fake_call(g->task, SYS_add_key, fake_str(g, type).v, fake_str(g, desc).v, p.v, len,
		(uint64_t)(int64_t)ring);
}

#define ctl(g, ...) fake_call((g)->task, SYS_keyctl, __VA_ARGS__)
#define RING(n) ((uint64_t)(int64_t)(n))

static long request(struct fake *g, const char *type, const char *desc, bool make, int32_t ring)
{
	return fake_call(g->task, SYS_request_key, fake_str(g, type).v, fake_str(g, desc).v,
		make ? fake_str(g, "please").v : 0, RING(ring));
}

static void test_one_key(void **state)
{
	struct fake *g = *state;
	gva_t buf = fake_alloc(g, 64);
	long key = add(g, "user", "name", "secret", RING_SESSION);

	assert_true(key > 0);
	assert_int_equal(ctl(g, KEYCTL_READ, (uint64_t)key, buf.v, 64), 6);
	assert_memory_equal(fake_ptr(g, buf), "secret", 6);
	assert_int_equal(add(g, "user", "name", "other", RING_SESSION), key);
	assert_int_equal(ctl(g, KEYCTL_READ, (uint64_t)key, 0, 0), 5);
	assert_int_equal(ctl(g, KEYCTL_DESCRIBE, (uint64_t)key, buf.v, 64), 23);
	assert_string_equal(fake_ptr(g, buf), "user;0;0;3f010000;name");
	assert_int_equal(request(g, "user", "name", false, 0), key);
	assert_int_equal(ctl(g, KEYCTL_UNLINK, (uint64_t)key, RING(RING_SESSION)), 0);
	assert_int_equal(ctl(g, KEYCTL_READ, (uint64_t)key, 0, 0), -ENOKEY);
	assert_int_equal(add(g, "logon", "a:b", "x", RING_THREAD) > 0, 1);
	assert_int_equal(add(g, "logon", "ab", "x", RING_THREAD), -EINVAL);
	assert_int_equal(add(g, "keyring", "r", "x", RING_THREAD), -EINVAL);
	assert_int_equal(add(g, "keyring", ".r", NULL, RING_THREAD), -EPERM);
	assert_int_equal(add(g, "rabbit", "r", "x", RING_THREAD), -ENODEV);
	assert_int_equal(add(g, ".user", "r", "x", RING_THREAD), -EPERM);
}

static void test_states(void **state)
{
	struct fake *g = *state;
	long a = add(g, "user", "a", "1", RING_PROCESS), b = add(g, "user", "b", "2", RING_PROCESS);
	long none;
	gva_t buf = fake_alloc(g, 64);

	assert_int_equal(ctl(g, KEYCTL_REVOKE, (uint64_t)a), 0);
	assert_int_equal(ctl(g, KEYCTL_READ, (uint64_t)a, 0, 0), -EKEYREVOKED);
	assert_int_equal(request(g, "user", "a", false, 0), -EKEYREVOKED);
	assert_true(add(g, "user", "a", "3", RING_PROCESS) != a);
	assert_int_equal(ctl(g, KEYCTL_INVALIDATE, (uint64_t)b), 0);
	assert_int_equal(ctl(g, KEYCTL_READ, (uint64_t)b, 0, 0), -ENOKEY);
	assert_int_equal(ctl(g, KEYCTL_CLEAR, RING(RING_PROCESS)), 0);
	/* What nobody makes is remembered as such. */
	assert_int_equal(request(g, "user", "none", true, RING_PROCESS), -ENOKEY);
	assert_int_equal(ctl(g, KEYCTL_READ, RING(RING_PROCESS), buf.v, 64), 4);
	none = *(int32_t *)fake_ptr(g, buf);
	assert_int_equal(ctl(g, KEYCTL_READ, (uint64_t)none, 0, 0), -ENOKEY);
	assert_int_equal(request(g, "user", "none", false, 0), -ENOKEY);
	assert_int_equal(request(g, "keyring", "r", true, 0), -EPERM);
}

static void test_rings(void **state)
{
	struct fake *g = *state;
	long top = add(g, "keyring", "top", NULL, RING_SESSION);
	long in = add(g, "keyring", "in", NULL, (int32_t)top);
	long key = add(g, "user", "deep", "x", (int32_t)in);
	uint64_t used = g->used;
	char name[16];
	long at = top, next;

	assert_true(top > 0 && in > 0 && key > 0);
	assert_int_equal(request(g, "user", "deep", false, 0), key);
	assert_int_equal(ctl(g, KEYCTL_SEARCH, (uint64_t)top, fake_str(g, "user").v,
				 fake_str(g, "deep").v, 0),
		key);
	assert_int_equal(ctl(g, KEYCTL_LINK, (uint64_t)top, (uint64_t)in), -EDEADLK);
	assert_int_equal(ctl(g, KEYCTL_LINK, (uint64_t)key, (uint64_t)key), -ENOTDIR);
	assert_int_equal(
		ctl(g, KEYCTL_MOVE, (uint64_t)key, (uint64_t)in, (uint64_t)top, KEYCTL_MOVE_EXCL),
		0);
	assert_int_equal(ctl(g, KEYCTL_UNLINK, (uint64_t)key, (uint64_t)in), -ENOENT);
	assert_int_equal(ctl(g, KEYCTL_RESTRICT_KEYRING, (uint64_t)in, 0, 0), 0);
	assert_int_equal(add(g, "user", "late", "x", (int32_t)in), -EPERM);
	/* A chain as long as one likes is freed without a stack as long. */
	for (int i = 0; i < 2000; i++) {
		(void)snprintf(name, sizeof(name), "c%d", i);
		next = add(g, "keyring", name, NULL, RING_THREAD);
		assert_true(next > 0);
		assert_int_equal(ctl(g, KEYCTL_LINK, (uint64_t)next, (uint64_t)at), 0);
		at = next;
		g->used = used;
	}
	assert_int_equal(ctl(g, KEYCTL_CLEAR, RING(RING_THREAD)), 0);
	assert_int_equal(ctl(g, KEYCTL_CLEAR, (uint64_t)top), 0);
	assert_true(g->k.keys->count < 10);
}

static void test_rights(void **state)
{
	struct fake *g = *state;
	struct task *other = fake_fork(g->task);
	long key = add(g, "user", "mine", "x", RING_THREAD);
	gva_t text = fake_str(g, "a");

	other->cred = cred_copy(g->task->cred);
	cred_unref(g->task->cred);
	other->cred->uid = other->cred->euid = other->cred->fsuid = 7;
	other->cred->cap_effective = 0;
	assert_int_equal(fake_call(other, SYS_keyctl, KEYCTL_READ, (uint64_t)key, 0, 0), -EACCES);
	assert_int_equal(fake_call(other, SYS_keyctl, KEYCTL_SETPERM, (uint64_t)key, 0), -EACCES);
	assert_int_equal(ctl(g, KEYCTL_SETPERM, (uint64_t)key, 0x3f010002), 0);
	assert_int_equal(fake_call(other, SYS_keyctl, KEYCTL_READ, (uint64_t)key, 0, 0), 1);
	assert_int_equal(ctl(g, KEYCTL_SETPERM, (uint64_t)key, 0x80000000u), -EINVAL);
	/* Its own 200, and no more. */
	for (int i = 0; i < 300; i++) {
		char name[16];
		long r;

		(void)snprintf(name, sizeof(name), "k%d", i);
		r = fake_call(other, SYS_add_key, fake_str(g, "user").v, fake_str(g, name).v,
			text.v, 1, RING(RING_THREAD));
		assert_int_equal(r > 0 ? 0 : r, i < 199 ? 0 : -EDQUOT);
	}
}

static void test_hard_limit(void **state)
{
	struct fake *g = *state;
	gva_t payload = fake_alloc(g, KEY_PAYLOAD_MAX), type = fake_str(g, "big_key");
	unsigned made = 0;

	for (int i = 0; i < 64; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "b%d", i);
		made += fake_call(g->task, SYS_add_key, type.v, fake_str(g, name).v, payload.v,
				KEY_PAYLOAD_MAX, RING(RING_THREAD)) > 0;
	}
	assert_true(made >= 30 && made <= 33);
	assert_int_equal(keys_knob(&g->k, KNOB_MAXKEYS, -1), 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_one_key, setup, teardown),
		cmocka_unit_test_setup_teardown(test_states, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rights, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hard_limit, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
