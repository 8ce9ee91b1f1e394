/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_STORE_TESTDIR_H
#define WARD_STORE_TESTDIR_H

/* A state directory of its own for each unit test of this folder. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/limits.h"
#include "base/str.h"
#include "store/state.h"
#include "host/tree.h"
#include "store/trash.h"

struct testdir {
	char root[64];  /* of the test: "<root>/state" is the state directory */
	char path[128]; /* of the state directory */
	int fd;
};

static int testdir_setup(void **state)
{
	struct testdir *t = calloc(1, sizeof(*t));
	struct err e = { 0 };

	assert_non_null(t);
	assert_int_equal(str_copy(t->root, sizeof(t->root), "/tmp/ward-store-XXXXXX"), 0);
	assert_non_null(mkdtemp(t->root));
	assert_int_equal(str_fmt(t->path, sizeof(t->path), "%s/state", t->root), 0);
	if (state_open(t->path, &t->fd, &e) < 0)
		fail_msg("%s", e.msg);
	*state = t;
	return 0;
}

static int testdir_teardown(void **state)
{
	struct testdir *t = *state;
	struct err e = { 0 };
	int fd;

	close(t->fd);
	fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (rm_tree(fd, strrchr(t->root, '/') + 1, &e) < 0)
		fail_msg("%s", e.msg);
	close(fd);
	free(t);
	return 0;
}

/* Ends a child that only reports failure, and says whether it was well. */
static inline int child_ok(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status)
		print_message("child ended with wait status 0x%x\n", status);
	return status == 0;
}

#endif
