/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/hub_test.c - the parts of the hub that need no sandbox: states, quotas, keys, ward.toml,
 * mounts.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "host/tree.h"
#include "hub/config.h"
#include "hub/flight.h"
#include "hub/hub_impl.h"
#include "hub/key.h"
#include "hub/lifecycle.h"
#include "hub/mounts.h"
#include "hub/network.h"
#include "hub/pairs.h"
#include "hub/quota.h"
#include "hub/toml.h"

static void states(void **state)
{
	static const struct {
		enum hub_state from, to;
		bool allowed;
	} cases[] = {
		{ HUB_CREATING, HUB_RUNNING, true },
		{ HUB_CREATING, HUB_READY, true },
		{ HUB_CREATING, HUB_PAUSED, false },
		{ HUB_CREATING, HUB_STOPPING, true },
		{ HUB_READY, HUB_RUNNING, true },
		{ HUB_READY, HUB_PAUSING, false },
		{ HUB_RUNNING, HUB_PAUSING, true },
		{ HUB_RUNNING, HUB_PAUSED, true },
		{ HUB_RUNNING, HUB_RESUMING, false },
		{ HUB_RUNNING, HUB_RUNNING, false },
		{ HUB_RUNNING, HUB_READY, false },
		{ HUB_PAUSING, HUB_RUNNING, true },
		{ HUB_PAUSING, HUB_RESUMING, false },
		{ HUB_PAUSED, HUB_RESUMING, true },
		{ HUB_PAUSED, HUB_RUNNING, false },
		{ HUB_RESUMING, HUB_PAUSED, true },
		{ HUB_STOPPING, HUB_STOPPED, true },
		{ HUB_STOPPING, HUB_RUNNING, false },
		{ HUB_STOPPED, HUB_FAILED, false },
		{ HUB_STOPPED, HUB_RUNNING, false },
		{ HUB_FAILED, HUB_CREATING, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		if (lifecycle_allows(cases[i].from, cases[i].to) != cases[i].allowed)
			fail_msg("%s -> %s", hub_state_name(cases[i].from),
				hub_state_name(cases[i].to));
	/* Every state that lives can end, and nothing follows an end. */
	for (int s = 0; s < HUB_STATES; s++) {
		enum hub_state st = (enum hub_state)s;

		assert_int_equal(lifecycle_allows(st, HUB_FAILED), lifecycle_is_live(st));
		for (int to = 0; to < HUB_STATES && !lifecycle_is_live(st); to++)
			assert_false(lifecycle_allows(st, (enum hub_state)to));
	}
	assert_int_equal(lifecycle_live_states() & lifecycle_ended_states(), 0);
	assert_false(lifecycle_is_state(-1));
	assert_false(lifecycle_is_state(HUB_STATES));
}

static void codes(void **state)
{
	struct hub_fail f;
	struct err e = { 0 };

	assert_int_equal(hub_fail(&f, HUB_TOO_MANY, "x"), -EDQUOT);
	assert_int_equal(f.retry_after_s, 1);
	assert_int_equal(hub_code_http(f.code), 429);
	assert_int_equal(hub_code_plane_http(HUB_NOT_FOUND), 502);
	for (int c = 1; c < HUB_CODES; c++) {
		assert_true(hub_fail(&f, (enum hub_code)c, "x") < 0);
		assert_in_range(hub_code_http((enum hub_code)c), 400, 599);
		/* There and back: an errno that a code gives means that code. */
		e.code = -hub_fail(&f, (enum hub_code)c, "x");
		hub_fail_err(&f, &e);
		assert_int_equal(f.code, c);
	}
	e.code = EXDEV;
	hub_fail_err(&f, &e);
	assert_int_equal(f.code, HUB_INTERNAL);
	e.code = EMFILE; /* it passes */
	hub_fail_err(&f, &e);
	assert_int_equal(f.code, HUB_BUSY);
}

static void quotas(void **state)
{
	static const struct {
		const char *name;
		struct quota_limits max;
		struct quota_use use, more;
		int want;
	} cases[] = {
		{ "no limit", { 0, 0, 0, 0 }, { 1000, 1, 1 }, { 1, 1, 1 }, 0 },
		{ "up to it", { 2, 0, 0, 0 }, { 1, 0, 0 }, { 1, 0, 0 }, 0 },
		{ "past it", { 2, 0, 0, 0 }, { 2, 0, 0 }, { 1, 0, 0 }, -EDQUOT },
		{ "none at all", { -1, 0, 0, 0 }, { 0, 0, 0 }, { 1, 0, 0 }, -EDQUOT },
		{ "memory", { 0, 100, 0, 0 }, { 0, 60, 0 }, { 1, 50, 0 }, -EDQUOT },
		{ "memory fits", { 0, 100, 0, 0 }, { 0, 60, 0 }, { 1, 40, 0 }, 0 },
		{ "memory wraps", { 0, 100, 0, 0 }, { 0, 60, 0 }, { 1, INT64_MAX, 0 }, -EDQUOT },
		{ "less is always right", { 0, 10, 0, 0 }, { 0, 60, 0 }, { 0, -5, 0 }, 0 },
		{ "cpus", { 0, 0, 2000, 0 }, { 0, 0, 1500 }, { 1, 0, 501 }, -EDQUOT },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct hub_fail f = { 0 };
		int r = quota_check("t", &cases[i].max, &cases[i].use, &cases[i].more, &f);

		if (r != cases[i].want)
			fail_msg("%s: %d", cases[i].name, r);
		assert_int_equal(f.code, r ? HUB_TOO_MANY : 0);
	}
}

/* Two seconds' worth at once, then as many as come back. */
static void bucket(void **state)
{
	struct quota_bucket b = { 0 };
	struct hub_fail f = { 0 };
	int64_t rate = 0;

	assert_int_equal(parse_rate("5/s", &rate), 0);
	for (int i = 0; i < 10; i++)
		assert_int_equal(quota_take("t", &b, rate, 1000, &f), 0);
	assert_int_equal(quota_take("t", &b, rate, 1000, &f), -EDQUOT);
	assert_int_equal(f.retry_after_s, 1);
	assert_int_equal(quota_take("t", &b, rate, 1199, &f), -EDQUOT);
	assert_int_equal(quota_take("t", &b, rate, 1200, &f), 0);
	assert_int_equal(quota_take("t", &b, rate, 1200, &f), -EDQUOT);
	for (int i = 0; i < 10; i++) /* a long rest fills it, and no more than that */
		assert_int_equal(quota_take("t", &b, rate, 100000000, &f), 0);
	assert_int_equal(quota_take("t", &b, rate, 100000000, &f), -EDQUOT);

	b = (struct quota_bucket){ 0 };
	assert_int_equal(parse_rate("1/h", &rate), 0);
	assert_int_equal(quota_take("t", &b, rate, 1, &f), 0);
	assert_int_equal(quota_take("t", &b, rate, 2, &f), -EDQUOT);
	assert_in_range(f.retry_after_s, 3590, 3620);
	assert_int_equal(quota_take("t", &b, 0, 2, &f), 0);
	assert_int_equal(quota_take("t", &b, -1, 2, &f), -EDQUOT);
}

static void keys(void **state)
{
	static const char *const bad[] = { "", "e2b_", "e2b_12",
		"E2B_0123456789012345678901234567890123456789",
		"e2b_012345678901234567890123456789012345678",
		"e2b_01234567890123456789012345678901234567890",
		"e2b_0123456789012345678901234567890123456789 ",
		"e2b_012345678901234567890123456789012345678A",
		"0123456789012345678901234567890123456789" };
	char a[KEY_TEXT + 1], b[KEY_TEXT + 1], id[KEY_ID_LEN + 1];
	uint8_t ha[SHA256_BYTES], hb[SHA256_BYTES];

	assert_int_equal(key_make(a), 0);
	assert_int_equal(key_make(b), 0);
	assert_string_not_equal(a, b);
	assert_true(key_parse(a, id));
	assert_memory_equal(id, a + 4, KEY_ID_LEN);
	key_hash(a, ha);
	key_hash(b, hb);
	assert_true(key_hash_eq(ha, ha));
	assert_false(key_hash_eq(ha, hb));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (key_parse(bad[i], id))
			fail_msg("'%s' is no key", bad[i]);
	assert_true(tenant_is_valid("acme-1.x_y"));
	assert_false(tenant_is_valid(""));
	assert_false(tenant_is_valid("-a"));
	assert_false(tenant_is_valid("A"));
	assert_false(tenant_is_valid("a\"b"));
	assert_false(tenant_is_valid("a/b"));
	assert_true(key_name_is_valid("CI"));
}

static void traces(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{ "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			"4bf92f3577b34da6a3ce929d0e0e4736" },
		{ "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
			"4bf92f3577b34da6a3ce929d0e0e4736" },
		{ "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "" },
		{ "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "" },
		{ "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01", "" },
		{ "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "" },
		{ "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x", "" },
		{ "00-4bf92f3577b34da6a3ce929d0e0e4736", "" },
		{ "nonsense", "" },
		{ "", "" },
	};
	struct hub_caller who = { .trace = "old" };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		hub_caller_trace(&who, cases[i].text);
		assert_string_equal(who.trace, cases[i].want);
	}
	hub_caller_trace(&who, NULL);
	assert_string_equal(who.trace, "");
}

static void pair_lists(void **state)
{
	static const struct hub_pair list[] = { { "a", "1" }, { "", "" }, { "b", "x y" } };
	struct pairs p, q;

	assert_int_equal(pairs_make(&p, list, 3, 3, 100), 0);
	assert_int_equal(pairs_read(&q, pairs_blob(&p)), 0);
	assert_int_equal(q.count, 3);
	assert_string_equal(pairs_get(&q, "b"), "x y");
	assert_null(pairs_get(&q, "c"));
	assert_true(pairs_have(&q, list, 3));
	assert_false(pairs_have(&q, &(struct hub_pair){ "a", "2" }, 1));
	pairs_done(&p);
	pairs_done(&q);
	assert_int_equal(pairs_make(&p, list, 3, 2, 100), -E2BIG);
	assert_int_equal(pairs_make(&p, list, 3, 3, 5), -E2BIG);
	assert_int_equal(pairs_read(&p, (struct db_blob){ "a\0b", 3 }), -EBADMSG);
	assert_int_equal(pairs_read(&p, (struct db_blob){ "a", 2 }), -EBADMSG); /* half a pair */
	assert_int_equal(pairs_read(&p, (struct db_blob){ 0 }), 0);
}

static void networks(void **state)
{
	static const char *const out[] = { "a.test", "10.0.0.0/8", NULL }, *const in[] = {
		"0.0.0.0/0", NULL
	};
	struct hub_network from = {
		.deny_internet = true, .allow_out = out, .deny_out = in, .mask_host = "x:${PORT}"
	};
	struct network n;

	assert_int_equal(network_make(&n, &from), 0);
	assert_true(n.view.deny_internet);
	assert_false(n.view.private_ports);
	assert_string_equal(n.view.allow_out[1], "10.0.0.0/8");
	assert_null(n.view.allow_out[2]);
	assert_string_equal(n.view.deny_out[0], "0.0.0.0/0");
	assert_string_equal(n.view.mask_host, "x:${PORT}");
	network_done(&n);
	assert_int_equal(network_make(&n, &(struct hub_network){ 0 }), 0);
	assert_null(n.view.allow_out);
	network_done(&n);
}

static int count_entries(void *arg, const struct toml_entry *en, struct err *e)
{
	++*(int *)arg;
	return str_eq(en->key, "bad") ? err_say(e, EINVAL, "bad") : 0;
}

static void toml_words(void **state)
{
	static const struct {
		const char *text;
		int want; /* entries, or -EINVAL */
		const char *says;
	} cases[] = {
		{ "", 0, NULL },
		{ "# only this", 0, NULL },
		{ "a = 1\r\n[t]\r\nb = 'x' # c\r\n", 2, NULL },
		{ "[t]\n a=\"\\u00e9\\t\\\"\"\n[t.\"x:1\"]\na=[]\nb=[\"x\", # y\n 'z',\n]\n", 3,
			NULL },
		{ "a = -1_000\nb = true\nc = false", 3, NULL },
		{ "a = 1\na = 2", -EINVAL, "f:2: 'a' is there twice" },
		{ "[t]\n[t]", -EINVAL, "twice" },
		{ "a", -EINVAL, "f:1" },
		{ "a = ", -EINVAL, "a value is" },
		{ "a = b", -EINVAL, "a value is" },
		{ "a = 1.5", -EINVAL, "whole decimal" },
		{ "a = 0x1", -EINVAL, "whole decimal" },
		{ "a = 01", -EINVAL, "whole decimal" },
		{ "a = 1__0", -EINVAL, "between digits" },
		{ "a = 99999999999999999999", -EINVAL, "too large" },
		{ "a = \"x", -EINVAL, "closing" },
		{ "a = \"\\q\"", -EINVAL, "backslash" },
		{ "a = \"\\u0000\"", -EINVAL, "not a character" },
		{ "a = \"\\ud800\"", -EINVAL, "not a character" },
		{ "a = \"\"\"x\"\"\"", -EINVAL, "several lines" },
		{ "a = {b = 1}", -EINVAL, "a value is" },
		{ "a.b = 1", -EINVAL, "dotted" },
		{ "[[t]]", -EINVAL, "arrays of tables" },
		{ "[t.u.v]", -EINVAL, "[name.name]" },
		{ "a = 1 b = 2", -EINVAL, "line should end" },
		{ "a = [1]", -EINVAL, "strings only" },
		{ "a = ['x' 'y']", -EINVAL, "commas" },
		{ "a = \"\xff\"", -EINVAL, "UTF-8" },
		{ "# \x01", -EINVAL, "control" },
		{ "a = 'x\ty'\n\n\nbad = 1", -EINVAL, "f:4: bad" },
		{ "a = 1\rb = 2", -EINVAL, "line should end" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };
		int count = 0;
		int r = toml_read(
			"f", cases[i].text, strlen(cases[i].text), count_entries, &count, &e);

		if (cases[i].want < 0 ? r != cases[i].want || !strstr(e.msg, cases[i].says)
				      : (r != 0 || count != cases[i].want))
			fail_msg("'%s': %d, %d entries, '%s'", cases[i].text, r, count, e.msg);
	}
}

static void config_words(void **state)
{
	static const struct {
		const char *text, *says; /* NULL: good */
	} cases[] = {
		{ "[serve]\nlisten = \"0.0.0.0:80\"\nlog = \"warn\"\ngrace = 5\n", NULL },
		{ "[sandbox]\nmemory = \"512M\"\ncpus = 2\npids = 100\ntimeout = \"10m\"\n", NULL },
		{ "[template.\"a:1\"]\ntier = \"container\"\ncpus = \"0.5\"\nnet = \"none\"\n",
			NULL },
		{ "[alias]\nbase = \"alpine\"\n\"x/y:z\" = \"host\"\n", NULL },
		{ "[quota]\ncreates = \"10/s\"\nsandboxes = 0\n[keep]\ncount = 5\nage = \"24h\"\n",
			NULL },
		{ "[mounts]\nroots = [\"/srv\"]\nwritable_roots = \"/var/tmp/x\"\n", NULL },
		{ "listen = 1", "before the first table" },
		{ "[serv]\nx = 1", "no table [serv]" },
		{ "[serve]\nlisen = 1", "not a key of [serve]" },
		{ "[sandbox]\nmemry = 1", "not a key of [sandbox]" },
		{ "[template.x]\nlisten = 1", "not a key of [template.NAME]" },
		{ "[alias.x]\na = \"b\"", "only [template.NAME]" },
		{ "[sandbox]\ntier = \"castle\"", "name of a tier" },
		{ "[sandbox]\ntier = \"none\"", "name of a tier" },
		{ "[sandbox]\nmemory = \"12Q\"", "a size" },
		{ "[sandbox]\nmemory = 5", "a size" },
		{ "[sandbox]\ntimeout = \"forever\"", "a time" },
		{ "[sandbox]\ntimeout = \"48h\"", "above timeout_max" },
		{ "[sandbox]\ncpus = true", "a string or a number" },
		{ "[sandbox]\nio_rate = \"10M:5\"", "64K:10" },
		{ "[sandbox]\nio_rate = \"10M\"\nboot_timeout = \"30s\"", NULL },
		{ "[sandbox]\nboot_timeout = \"0s\"", "a time" },
		{ "[sandbox]\nnet = \"all\"", "\"none\"" },
		{ "[sandbox]\nworkdir = \"relative\"", "absolute" },
		{ "[serve]\nlisten = 7700", "HOST:PORT" },
		{ "[serve]\nlisten = [\"7700\"]", "HOST:PORT" },
		{ "[serve]\ntls_cert = \"/x\"", "come together" },
		{ "[serve]\nlog = \"loud\"", "debug" },
		{ "[mounts]\nroots = [\"/a/../b\"]", "absolute" },
		{ "[quota]\ncreates = \"10\"", "a rate" },
		{ "[quota]\nsandboxes = -1", "a number from" },
		{ "[keep]\ncount = \"many\"", "a number from" },
		{ "[serve]\ntenants = \"some\"", "\"one\"" },
		{ "[alias]\nbase = \"\"", "a template" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct config *c = NULL;
		struct err e = { 0 };
		int r = config_read("w", cases[i].text, strlen(cases[i].text), &c, &e);

		if (cases[i].says ? r >= 0 || !strstr(e.msg, cases[i].says) : r != 0)
			fail_msg("'%s': %d '%s'", cases[i].text, r, e.msg);
		config_destroy(c);
	}
}

static void config_meaning(void **state)
{
	static const char text[] =
		"[sandbox]\nmemory = \"1G\"\ntier = \"vm\"\n"
		"io_rate = \"10M:500\"\nboot_timeout = \"1m\"\n"
		"[template.small]\nmemory = \"64M\"\ntier = \"container\"\nio_rate = \"1M\"\n"
		"[alias]\nbase = \"small\"\n";
	struct config_sandbox says;
	struct config *c = NULL;
	const char *by;

	assert_int_equal(config_read("w", text, strlen(text), &c, NULL), 0);
	assert_string_equal(config_alias(c, "base"), "small");
	assert_string_equal(config_alias(c, "mcp-gateway"), "host");
	assert_string_equal(config_alias(c, "other"), "other");
	config_for(c, "small", &says, &by);
	assert_int_equal(says.limits.memory_bytes, 64 << 20);
	assert_int_equal(says.limits.io_rate[0], 1 << 20);
	assert_int_equal(says.limits.io_rate[1], 0);
	assert_int_equal(says.limits.boot_ms, 60000);
	assert_int_equal(says.tier, WALL_CONTAINER);
	assert_string_equal(by, "ward.toml [template] tier");
	assert_int_equal(says.timeout_ms, 300000);
	config_for(c, "other", &says, &by);
	assert_int_equal(says.tier, WALL_VM);
	assert_int_equal(says.limits.io_rate[1], 500);
	assert_string_equal(by, "ward.toml [sandbox] tier");
	config_destroy(c);
}

/* A file that others may write says nothing about what the operator wants. */
static void config_file(void **state)
{
	char path[] = "/tmp/ward-toml-XXXXXX";
	int fd = mkstemp(path);
	struct config *c = NULL;
	struct err e = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "[keep]\ncount = 3\n", 17), 17);
	assert_int_equal(config_load(path, &c, &e), 0);
	assert_int_equal(c->keep_count, 3);
	config_destroy(c);
	assert_int_equal(fchmod(fd, 0666), 0);
	assert_int_equal(config_load(path, &c, &e), -EPERM);
	close(fd);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(config_load(path, &c, &e), -ENOENT);
	assert_int_equal(config_load("/tmp", &c, &e), -EINVAL);
}

static void mounts(void **state)
{
	char dir[] = "/tmp/ward-mounts-XXXXXX", text[512], path[WARD_PATH_MAX], src[256];
	static const struct {
		const char *src;
		enum mount_mode mode;
		int want;
	} cases[] = {
		{ "/ro", MOUNT_RO, 0 },
		{ "/ro/in", MOUNT_OVERLAY, 0 },
		{ "/ro", MOUNT_RW, -EPERM },
		{ "/rw", MOUNT_RW, 0 },
		{ "/rw", MOUNT_RO, 0 },
		{ "/ro/out", MOUNT_RO, -EPERM },
		{ "/ro/back", MOUNT_RO, 0 },
		{ "/ro/loop", MOUNT_RO, -EPERM },
		{ "/rox", MOUNT_RO, -EPERM },
		{ "/ro/none", MOUNT_RO, -EPERM },
		{ "/state", MOUNT_RO, -EPERM },
		{ "/ro/../ro", MOUNT_RO, -EINVAL },
		{ "/ro/.", MOUNT_RO, -EINVAL },
		{ "//ro", MOUNT_RO, -EINVAL },
		{ "", MOUNT_RO, -EPERM },
	};
	struct config *c = NULL;
	int fd;

	assert_non_null(mkdtemp(dir));
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(
			mkdirat(fd, ((const char *[]){ "ro", "rw", "rox", "state", "ro/in" })[i],
				0755),
			0);
	assert_int_equal(symlinkat("../state", fd, "ro/out"), 0);
	assert_int_equal(symlinkat("../rw", fd, "ro/back"), 0);
	assert_int_equal(symlinkat("loop", fd, "ro/loop"), 0);
	str_fmt(text, sizeof(text),
		"[mounts]\nroots = [\"%s/ro\", \"%s/gone\"]\nwritable_roots = [\"%s/rw\"]\n", dir,
		dir, dir);
	assert_int_equal(config_read("w", text, strlen(text), &c, NULL), 0);
	str_fmt(path, sizeof(path), "%s/state", dir);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct hub_mount m = { src, "/mnt", cases[i].mode };
		char real[WARD_PATH_MAX];
		struct hub_fail f;

		str_fmt(src, sizeof(src), "%s%s", dir, cases[i].src);
		if (mount_check(c, path, &m, real, &f) != cases[i].want)
			fail_msg("'%s': %s", cases[i].src, f.msg);
	}
	config_destroy(c);
	close(fd);
	fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(rm_tree(fd, strrchr(dir, '/') + 1, NULL), 0);
	close(fd);
}

static void end_records(void **state)
{
	static const char good[] = "{\"version\":1,\"cause\":\"time-limit\",\"detail\":"
				   "\"a\\u0007b\",\"exit_status\":124,"
				   "\"ended_us\":7,\"output_base64\":\"aGkAIQ==\",\"curve\":[{\"at_"
				   "us\":1,\"cpu_us\":null},"
				   "{\"at_us\":1000001,\"cpu_us\":5},{\"at_us\":2000001,\"cpu_us\":"
				   "500005},{\"at_us\":-1}]}";
	static const char *const bad[] = { "", "[]", "{}", "{\"cause\":\"x\"}",
		"{\"cause\":\"x\",\"ended_us\":-4}",
		"{\"cause\":\"x\",\"cause\":\"y\",\"ended_us\":1}", "{\"cause\":7,\"ended_us\":1}",
		"{\"cause\":\"x\",\"ended_us\":1} more" };
	struct flight_record *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	assert_int_equal(flight_parse(good, strlen(good), r, NULL), 0);
	assert_string_equal(r->cause, "time-limit");
	assert_string_equal(r->detail, "a?b");
	assert_int_equal(r->output_len, 4);
	assert_memory_equal(r->output, "hi\0!", 4);
	assert_int_equal(r->sample_count, 3);
	assert_true(r->samples[0].cpu_us == UINT64_MAX);
	assert_int_equal(r->samples[2].cpu_milli, 500);
	assert_null(strstr(r->report, "base64"));
	flight_done(r);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = { 0 };

		if (flight_parse(bad[i], strlen(bad[i]), r, &e) != -EBADMSG)
			fail_msg("'%s' was taken", bad[i]);
	}
	free(r);
}

static void network_rules(void **state)
{
	static const struct {
		const char *rule;
		bool out, deny; /* may be allowed; may be denied */
	} cases[] = {
		{ "1.2.3.4", true, true },
		{ "10.0.0.0/8", true, true },
		{ "0.0.0.0/0", true, true },
		{ "2001:db8::/32", true, true },
		{ "::1", true, true },
		{ "example.com", true, false },
		{ "*.example.com", true, false },
		{ "localhost", true, false },
		{ "", false, false },
		{ "10.0.0.0/33", false, false },
		{ "10.0.0.0/", false, false },
		{ "10.0.0/8", false, false },
		{ "1.2.3", false, false },
		{ "300.1.1.1", false, false },
		{ "::1/129", false, false },
		{ "a..b", false, false },
		{ "-a.com", false, false },
		{ "*", false, false },
		{ "*.*.com", false, false },
		{ "http://example.com", false, false },
		{ "example.com:443", false, false },
		{ "a b", false, false },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *list[] = { "10.0.0.1", cases[i].rule, NULL };
		struct hub_network out = { .allow_out = list }, deny = { .deny_out = list };
		struct hub_fail f = { 0 };

		if ((network_check(&out, &f) == 0) != cases[i].out ||
			(network_check(&deny, &f) == 0) != cases[i].deny)
			fail_msg("rule '%s'", cases[i].rule);
	}
}

static void network_masks(void **state)
{
	static const struct {
		const char *mask;
		bool good;
	} cases[] = {
		{ "localhost", true },
		{ "localhost:${PORT}", true },
		{ "${PORT}.x-1.test:8080", true },
		{ "[::1]:${PORT}", true },
		{ "", false },
		{ "a b", false },
		{ "a\r\nX: y", false },
		{ "a/b", false },
		{ "a@b", false },
		{ "${HOST}", false },
		{ "x${PORT", false },
	};
	char long_mask[300];

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct hub_network net = { .mask_host = cases[i].mask };

		if ((network_check(&net, NULL) == 0) != cases[i].good)
			fail_msg("mask '%s'", cases[i].mask);
	}
	memset(long_mask, 'a', sizeof(long_mask) - 1);
	long_mask[sizeof(long_mask) - 1] = '\0';
	assert_int_equal(
		network_check(&(struct hub_network){ .mask_host = long_mask }, NULL), -EINVAL);
}

static void load_lines(void **state)
{
	static const struct {
		const char *line;
		unsigned want;
	} cases[] = {
		{ "0.00 0.01 0.05 1/123 4567\n", 1 },
		{ "12.34 0.01 0.05 17/123 4567\n", 17 },
		{ "0.00 0.01 0.05 99999999999999/1 1\n", 99999 },
		{ "0.00 0.01 0.05 x/1", 0 },
		{ "0.00 0.01", 0 },
		{ "", 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(hurry_running(cases[i].line), cases[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states),
		cmocka_unit_test(codes),
		cmocka_unit_test(network_rules),
		cmocka_unit_test(network_masks),
		cmocka_unit_test(quotas),
		cmocka_unit_test(bucket),
		cmocka_unit_test(keys),
		cmocka_unit_test(traces),
		cmocka_unit_test(pair_lists),
		cmocka_unit_test(networks),
		cmocka_unit_test(toml_words),
		cmocka_unit_test(config_words),
		cmocka_unit_test(config_meaning),
		cmocka_unit_test(config_file),
		cmocka_unit_test(mounts),
		cmocka_unit_test(end_records),
		cmocka_unit_test(load_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
