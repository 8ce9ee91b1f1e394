/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/probe_test.c - a probe cannot hurt whoever asks, and leaves nothing behind.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "base/str.h"
#include "host/probe.h"
#include "host/probe_impl.h"

static void hangs(struct probe_result *r, const void *arg)
{
	(void)arg;
	probe_say(r, PROBE_YES, "all is well");
	for (;;)
		pause();
}

static void crashes(struct probe_result *r, const void *arg)
{
	(void)arg;
	probe_say(r, PROBE_YES, "all is well");
	abort();
}

static void says_nothing(struct probe_result *r, const void *arg)
{
	(void)r;
	(void)arg;
}

static void goes_wild(struct probe_result *r, const void *arg)
{
	(void)arg;
	memset(r, 0xff, sizeof(*r));
}

/* Ends in time but leaves a process that holds on; @arg is where to note its pid. */
static void leaves_one(struct probe_result *r, const void *arg)
{
	pid_t *note = *(pid_t *const *)arg;

	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	*note = pid;
	probe_say(r, PROBE_YES, "all is well");
}

static void a_bad_probe_costs_its_row(void **state)
{
	static const struct {
		const char *name;
		void (*run)(struct probe_result *r, const void *arg);
		const char *found;
	} cases[] = {
		{ "hangs", hangs, "the probe did not end within 200 ms" },
		{ "crashes", crashes, "the probe died of signal 6" },
		{ "says nothing", says_nothing, "the probe ended without an answer" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct probe_result r;

		assert_int_equal(probe_isolated(cases[i].run, NULL, 200, &r), 0);
		assert_int_equal(r.state, PROBE_UNKNOWN);
		assert_string_equal(r.found, cases[i].found);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
		assert_int_equal(errno, ECHILD);
	}
}

static void a_wild_answer_is_tamed(void **state)
{
	struct probe_result r;

	(void)state;
	assert_int_equal(probe_isolated(goes_wild, NULL, 5000, &r), 0);
	assert_int_equal(r.state, PROBE_UNKNOWN);
	assert_int_equal(r.fact_count, 0);
	assert_true(strnlen(r.found, sizeof(r.found)) < sizeof(r.found));
	assert_true(strnlen(r.hint, sizeof(r.hint)) < sizeof(r.hint));
}

static void what_a_probe_leaves_is_killed(void **state)
{
	pid_t *note = mmap(
		NULL, sizeof(*note), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct probe_result r;

	(void)state;
	assert_ptr_not_equal(note, MAP_FAILED);
	assert_int_equal(probe_isolated(leaves_one, &note, 200, &r), 0);
	assert_true(*note > 0);
	/* It is not our child, so there is no wait for it: gone, or a zombie on its way. */
	for (int i = 0; i < 1000; i++) {
		char path[32], text[256] = "";
		FILE *f;

		assert_int_equal(str_fmt(path, sizeof(path), "/proc/%d/stat", (int)*note), 0);
		f = fopen(path, "re");
		if (!f)
			break;
		if (!fgets(text, sizeof(text), f))
			text[0] = '\0';
		fclose(f);
		if (!text[0] || strstr(text, ") Z ") || strstr(text, ") X "))
			break;
		if (i == 999)
			fail_msg("process %d is still there: %s", (int)*note, text);
		usleep(10000);
	}
	munmap(note, sizeof(*note));
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void read_mounts(char *text, size_t cap)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");

	assert_non_null(f);
	text[fread(text, 1, cap - 1, f)] = '\0';
	fclose(f);
}

static void every_row_answers_and_leaves_nothing(void **state)
{
	static char before[64 * 1024], after[64 * 1024];
	unsigned count, fds = count_fds();
	const struct probe *list = probe_list(&count);

	(void)state;
	read_mounts(before, sizeof(before));
	for (unsigned i = 0; i < count; i++) {
		struct probe_result r;

		assert_int_equal(probe_run(&list[i], &r), 0);
		print_message(
			"  %-14s %-8s %s\n", list[i].name, probe_state_name(r.state), r.found);
		assert_true(r.found[0] && !strchr(r.found, '\n'));
		assert_true((r.hint[0] != '\0') == (r.state != PROBE_YES));
		assert_null(strstr(r.found, "the probe")); /* none may hang, crash or fall silent */
		for (unsigned k = 0; k < i; k++)
			assert_string_not_equal(list[i].name, list[k].name);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	}
	read_mounts(after, sizeof(after));
	assert_string_equal(before, after);
	assert_int_equal(count_fds(), fds);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bad_probe_costs_its_row),
		cmocka_unit_test(a_wild_answer_is_tamed),
		cmocka_unit_test(what_a_probe_leaves_is_killed),
		cmocka_unit_test(every_row_answers_and_leaves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
