/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template/shelf_test.c - records and layers on disk, and the sweep that `ward gc` does.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/str.h"
#include "template/record.h"
#include "template/shelf.h"
#include "template/template.h"
#include "host/tree.h"

#define A "sha256-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "sha256-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "sha256-cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

struct world {
	char dir[64];
	struct shelf shelf;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	assert_int_equal(str_copy(w->dir, sizeof(w->dir), "/tmp/ward-shelf-test-XXXXXX"), 0);
	assert_non_null(mkdtemp(w->dir));
	assert_int_equal(shelf_open(w->dir, true, &w->shelf, NULL), 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	shelf_done(&w->shelf);
	assert_int_equal(tree_remove(w->dir, NULL), 0);
	free(w);
	return 0;
}

static void add_layer(struct world *w, const char *name)
{
	char path[128];

	assert_int_equal(mkdirat(w->shelf.layers, name, 0700), 0);
	assert_int_equal(str_fmt(path, sizeof(path), "%s/fs", name), 0);
	assert_int_equal(mkdirat(w->shelf.layers, path, 0700), 0);
}

static bool has(const struct world *w, const char *name)
{
	return faccessat(w->shelf.layers, name, F_OK, 0) == 0;
}

static void put(struct world *w, const char *name, const char *low, const char *high)
{
	struct record *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	*r = (struct record){ .by_root = geteuid() == 0,
		.source = "",
		.digest = "",
		.created = "",
		.stamp = "",
		.workdir = "",
		.user = "",
		.layers = { high, low },
		.layer_count = low ? 2 : 1 };
	assert_int_equal(shelf_lock(&w->shelf, NULL), 0);
	assert_int_equal(shelf_put(&w->shelf, name, r, NULL), 0);
	shelf_unlock(&w->shelf);
	free(r);
}

static int count_one(const char *name, void *data)
{
	unsigned *count = data;

	assert_true(str_eq(name, "one") || str_eq(name, "localhost:1/two:x"));
	(*count)++;
	return 0;
}

static void unused_layers_go(void **state)
{
	struct world *w = *state;
	struct sweep_count n;
	unsigned names = 0;

	add_layer(w, A);
	add_layer(w, B);
	add_layer(w, C);
	put(w, "one", A, B);
	put(w, "localhost:1/two:x", NULL, B);
	assert_int_equal(shelf_each(&w->shelf, count_one, &names, NULL), 0);
	assert_int_equal(names, 2);
	assert_int_equal(image_sweep(w->dir, &n, NULL), 0);
	assert_int_equal(n.layers, 1);
	assert_true(has(w, A) && has(w, B) && !has(w, C));
	assert_int_equal(shelf_remove(&w->shelf, "one", NULL), 0);
	assert_int_equal(shelf_remove(&w->shelf, "one", NULL), -ENOENT);
	assert_int_equal(image_sweep(w->dir, &n, NULL), 0);
	assert_true(!has(w, A) && has(w, B));
}

static void held_templates_stay(void **state)
{
	struct world *w = *state;
	struct template t;

	add_layer(w, A);
	add_layer(w, B);
	put(w, "one", NULL, A);
	assert_int_equal(template_resolve(w->dir, "one", &t, NULL), 0);
	assert_int_equal(shelf_check_removable(&w->shelf, "one", NULL), -EBUSY);
	put(w, "one", NULL, B); /* a new import under the same name */
	assert_int_equal(image_sweep(w->dir, NULL, NULL), 0);
	assert_true(has(w, A) && has(w, B));
	template_done(&t);
	assert_int_equal(image_sweep(w->dir, NULL, NULL), 0);
	assert_true(!has(w, A) && has(w, B));
	assert_int_equal(template_resolve(w->dir, "one", &t, NULL), 0);
	template_done(&t);
}

static void work_lives_as_long_as_its_lock(void **state)
{
	struct world *w = *state;
	char name[ID_LEN + 6];
	struct sweep_count n;
	int work = -1;

	add_layer(w, A);
	add_layer(w, B);
	assert_int_equal(shelf_work_begin(&w->shelf, name, &work, NULL), 0);
	assert_int_equal(shelf_pin(&w->shelf, work, A, NULL), 0);
	assert_int_equal(image_sweep(w->dir, &n, NULL), 0);
	assert_int_equal(n.works, 0);
	assert_true(has(w, name) && has(w, A) && !has(w, B));
	close(work); /* as when it is killed */
	assert_int_equal(image_sweep(w->dir, &n, NULL), 0);
	assert_int_equal(n.works, 1);
	assert_true(!has(w, name) && !has(w, A));
}

static void a_broken_record_keeps_all_layers(void **state)
{
	struct world *w = *state;
	struct err e = { 0 };
	int fd;

	add_layer(w, A);
	assert_int_equal(mkdirat(w->shelf.templates, "bad", 0700), 0);
	fd = openat(w->shelf.templates, "bad/template", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(image_sweep(w->dir, NULL, &e), -EBADMSG);
	assert_non_null(strstr(e.msg, "'bad'"));
	assert_true(has(w, A));
	assert_int_equal(shelf_remove(&w->shelf, "bad", NULL), 0);
	assert_int_equal(image_sweep(w->dir, NULL, NULL), 0);
	assert_false(has(w, A));
}

static void rests_of_the_killed_go(void **state)
{
	struct world *w = *state;
	struct sweep_count n;
	int fd;

	assert_int_equal(mkdirat(w->shelf.templates, "empty", 0700), 0);
	assert_int_equal(mkdirat(w->shelf.templates, "half", 0700), 0);
	fd = openat(w->shelf.templates, "half/.new-abc", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(mkdirat(w->shelf.layers, ".trash-x", 0000), 0);
	assert_int_equal(mkdirat(w->shelf.templates, ".host", 0700), 0);
	assert_int_equal(mkdirat(w->shelf.templates, ".host/etc", 0700), 0);
	assert_int_equal(image_sweep(w->dir, &n, NULL), 0);
	assert_int_equal(n.records, 1);
	assert_true(faccessat(w->shelf.templates, "empty", F_OK, 0) < 0);
	assert_true(faccessat(w->shelf.templates, "half", F_OK, 0) < 0);
	assert_false(has(w, ".trash-x"));
	assert_int_equal(
		faccessat(w->shelf.templates, ".host/etc", F_OK, 0), 0); /* not the shelf's */
}

static void no_state_is_nothing_to_sweep(void **state)
{
	struct sweep_count n = { 9, 9, 9 };

	(void)state;
	assert_int_equal(image_sweep("/nonexistent/ward", &n, NULL), 0);
	assert_int_equal(n.works + n.layers + n.records, 0);
}

static void trees_are_removed_without_following(void **state)
{
	struct world *w = *state;
	char path[128], outside[128];
	struct stat st;

	assert_int_equal(str_fmt(path, sizeof(path), "%s/tree", w->dir), 0);
	assert_int_equal(str_fmt(outside, sizeof(outside), "%s/outside", w->dir), 0);
	assert_int_equal(mkdir(outside, 0700), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(chdir(path), 0);
	assert_int_equal(mkdir("closed", 0700), 0);
	assert_int_equal(mkdir("closed/inner", 0700), 0);
	assert_int_equal(symlink(outside, "closed/link"), 0);
	assert_int_equal(chmod("closed", 0), 0);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(tree_remove(path, NULL), 0);
	assert_int_equal(tree_remove(path, NULL), 0); /* not there is fine */
	assert_true(lstat(path, &st) < 0);
	assert_int_equal(lstat(outside, &st), 0);
}

#define with_world(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		with_world(unused_layers_go),
		with_world(held_templates_stay),
		with_world(work_lives_as_long_as_its_lock),
		with_world(a_broken_record_keeps_all_layers),
		with_world(rests_of_the_killed_go),
		cmocka_unit_test(no_state_is_nothing_to_sweep),
		with_world(trees_are_removed_without_following),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
