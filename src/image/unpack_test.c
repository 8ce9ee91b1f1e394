/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/unpack_test.c - the budgets of a layer, and what is left of one that went over.
 */
#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/str.h"
#include "image/folders.h"
#include "image/unpack.h"
#include "host/tree.h"

struct world {
	char dir[64];
	int fs;
};

static int set_up(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	assert_int_equal(str_copy(w->dir, sizeof(w->dir), "/tmp/ward-unpack-test-XXXXXX"), 0);
	assert_non_null(mkdtemp(w->dir));
	w->fs = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(w->fs >= 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	close(w->fs);
	assert_int_equal(tree_remove(w->dir, NULL), 0);
	free(w);
	return 0;
}

/* @count files of @size bytes each, as a tar in memory. */
static int make_tar(unsigned count, size_t size)
{
	int fd = memfd_create("tar", MFD_CLOEXEC);
	struct archive *a = archive_write_new();
	char *data = calloc(1, size + 1), name[32];

	assert_true(fd >= 0 && a && data);
	assert_int_equal(archive_write_set_format_ustar(a), ARCHIVE_OK);
	assert_int_equal(archive_write_open_fd(a, fd), ARCHIVE_OK);
	for (unsigned i = 0; i < count; i++) {
		struct archive_entry *e = archive_entry_new();

		assert_int_equal(str_fmt(name, sizeof(name), "f%u", i), 0);
		archive_entry_set_pathname(e, name);
		archive_entry_set_mode(e, S_IFREG | 0644);
		archive_entry_set_size(e, (la_int64_t)size);
		assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
		assert_int_equal(archive_write_data(a, data, size), size);
		archive_entry_free(e);
	}
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
	free(data);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

static void budgets_hold(void **state)
{
	struct world *w = *state;
	struct layer_info info;
	struct budget b;
	struct err e = { 0 };
	int tar = make_tar(3, 1000);

	budget_init(&b, 1 << 20);
	b.entries = 2;
	assert_int_equal(unpack_layer(tar, w->fs, false, &b, NULL, &info, &e), -EFBIG);
	assert_non_null(strstr(e.msg, "entries"));
	budget_init(&b, 2500); /* the tar itself is larger */
	assert_int_equal(lseek(tar, 0, SEEK_SET), 0);
	assert_int_equal(unpack_layer(tar, w->fs, false, &b, NULL, &info, &e), -EFBIG);
	budget_init(&b, 1 << 20);
	b.file_bytes = 2999;
	assert_int_equal(lseek(tar, 0, SEEK_SET), 0);
	assert_int_equal(unpack_layer(tar, w->fs, false, &b, NULL, &info, &e), -EFBIG);
	assert_non_null(strstr(e.msg, "'f2'"));
	close(tar);
}

static void budgets_are_shared_by_layers(void **state)
{
	struct world *w = *state;
	struct layer_info info;
	struct budget b;
	int tar = make_tar(3, 1000);

	budget_init(&b, 1 << 20);
	b.entries = 5;
	assert_int_equal(unpack_layer(tar, w->fs, false, &b, NULL, &info, NULL), 0);
	assert_int_equal(info.entries, 3);
	assert_int_equal(info.bytes, 3000);
	assert_int_equal(b.entries, 2);
	assert_int_equal(b.file_bytes, (1 << 20) - 3000);
	assert_true(b.tar_bytes < (1 << 20) - 3000);
	assert_int_equal(lseek(tar, 0, SEEK_SET), 0);
	assert_int_equal(unpack_layer(tar, w->fs, false, &b, NULL, &info, NULL), -EFBIG);
	close(tar);
}

static void lists_of_folders_end(void **state)
{
	struct folders f = { 0 };
	char path[4096];
	int r = 0;

	(void)state;
	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	for (unsigned i = 0; r == 0 && i < 1000000; i++)
		r = folders_add(&f, path, 0755, NULL, NULL);
	assert_int_equal(r, -EFBIG);
	assert_true(f.bytes < 70u << 20);
	folders_done(&f);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(budgets_hold, set_up, tear_down),
		cmocka_unit_test_setup_teardown(budgets_are_shared_by_layers, set_up, tear_down),
		cmocka_unit_test(lists_of_folders_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
