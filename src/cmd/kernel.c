/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/kernel.c - `ward kernel`: which Linux the guests of the vm tier run.
 *
 * Owns:  nothing.
 * Rules: words to a request, and the answer to words.
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/str.h"
#include "cmd/common.h"
#include "core/guestkernel.h"

enum { STATUS_WARD = 125, TRIAL_MS = 60 * 1000, OUT_MAX = 64 * 1024, JOBS_MAX = 256 };

static int complain(const struct err *e)
{
	fprintf(stderr, "ward kernel: %s\n", e->msg);
	return STATUS_WARD;
}

static void show_step(void *arg, const char *what)
{
	(void)arg;
	if (isatty(2))
		fprintf(stderr, "ward kernel: %s...\n", what);
}

static void show_count(void *arg, unsigned done, unsigned total)
{
	(void)arg;
	if (!isatty(2))
		return;
	if (total)
		fprintf(stderr, "\rward kernel: %u of about %u files", done, total);
	else
		fprintf(stderr, "\rward kernel: %u files", done);
	if (done == total)
		fputc('\n', stderr);
}

static int do_build(int argc, char **argv, const struct globals *g)
{
	static const struct option options[] = { { "config", required_argument, NULL, 'c' },
		{ "jobs", required_argument, NULL, 'j' }, { "no-xsave", no_argument, NULL, 'x' },
		{ "untested", no_argument, NULL, 'u' }, { "timeout", required_argument, NULL, 't' },
		{ NULL, 0, NULL, 0 } };
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	struct guest_kernel_request q = { .state_dir = g->state_dir,
		.config = "full",
		.jobs = online < 1 ? 1 : (unsigned)online,
		.timeout_ms = TRIAL_MS,
		.progress = show_step,
		.counted = show_count };
	char id[GUEST_KERNEL_ID + 1];
	uint64_t n;
	struct err e = { 0 };
	int opt;

	optind = 1;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "+", options, NULL)) >= 0) {
		if (opt == 'c')
			q.config = optarg;
		else if (opt == 'x')
			q.no_xsave = true;
		else if (opt == 'u')
			q.untested = true;
		else if (opt == 'j' && parse_u64(optarg, 1, JOBS_MAX, &n) == 0)
			q.jobs = (unsigned)n;
		else if (opt == 't' && parse_duration(optarg, 1000, 3600 * 1000, &n) == 0)
			q.timeout_ms = (unsigned)n;
		else
			return complain((
				err_say(&e, EINVAL,
					"'%s': accepted are --config full|ci|FILE, --jobs 1 to %d, "
					"--no-xsave, --untested, --timeout 1s to 1h",
					argv[optind - 1], JOBS_MAX),
				&e));
	}
	if (argc != optind)
		return complain((err_say(&e, EINVAL, "build takes options only"), &e));
	if (guest_kernel_use(&q, id, &e) < 0)
		return complain(&e);
	printf("%s\n", id);
	return 0;
}

static int do_use(int argc, char **argv, const struct globals *g)
{
	static const struct option options[] = { { "modules", required_argument, NULL, 'm' },
		{ "no-xsave", no_argument, NULL, 'x' }, { "no-acpi", no_argument, NULL, 'a' },
		{ "untested", no_argument, NULL, 'u' }, { "timeout", required_argument, NULL, 't' },
		{ NULL, 0, NULL, 0 } };
	struct guest_kernel_request q = {
		.state_dir = g->state_dir, .timeout_ms = TRIAL_MS, .progress = show_step
	};
	char id[GUEST_KERNEL_ID + 1];
	uint64_t ms;
	struct err e = { 0 };
	int opt;

	optind = 1;
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "+", options, NULL)) >= 0) {
		if (opt == 'm')
			q.modules = optarg;
		else if (opt == 'x')
			q.no_xsave = true;
		else if (opt == 'a')
			q.no_acpi = true;
		else if (opt == 'u')
			q.untested = true;
		else if (opt == 't' && parse_duration(optarg, 1000, 3600 * 1000, &ms) == 0)
			q.timeout_ms = (unsigned)ms;
		else if (opt == 't')
			return complain((
				err_say(&e, EINVAL, "--timeout '%s': accepted is 1s to 1h", optarg),
				&e));
		else
			return complain(
				(err_say(&e, EINVAL,
					 "'%s': accepted are --modules DIR, --no-xsave, --no-acpi, "
					 "--untested, --timeout TIME",
					 argv[optind - 1]),
					&e));
	}
	if (argc - optind != 1)
		return complain((err_say(&e, EINVAL,
					 "use takes one FILE (vmlinux or vmlinuz), or the word "
					 "debian"),
			&e));
	if (!str_eq(argv[optind], "debian"))
		q.file = argv[optind];
	else if (q.modules)
		return complain(
			(err_say(&e, EINVAL, "--modules goes with a FILE, not with debian"), &e));
	if (guest_kernel_use(&q, id, &e) < 0)
		return complain(&e);
	printf("%s\n", id);
	return 0;
}

static void print_line(void *arg, const struct guest_kernel *k)
{
	struct buf *b = arg;

	buf_add_fmt(b, "%s  %-7s  %s\n", k->id, k->is_default ? "default" : "",
		k->version[0] ? k->version : "(vmlinux)");
}

static void print_object(void *arg, const struct guest_kernel *k)
{
	struct buf *b = arg;

	json_open(b, NULL);
	json_str(b, "id", k->id);
	json_str(b, "version", k->version[0] ? k->version : NULL);
	json_bool(b, "default", k->is_default);
	json_close(b);
}

static int do_ls(int argc, char **argv, const struct globals *g)
{
	bool json = argc == 2 && str_eq(argv[1], "--json");
	struct err e = { 0 };
	struct buf b;
	int r;

	if (argc > 1 && !json)
		return complain((err_say(&e, EINVAL, "ls '%s': accepted is --json", argv[1]), &e));
	buf_init(&b, OUT_MAX);
	if (json)
		json_array(&b, NULL);
	r = guest_kernel_each(g->state_dir, json ? print_object : print_line, &b, &e);
	if (json) {
		json_array_end(&b);
		buf_add(&b, "\n", 1);
	}
	if (r == 0 && b.len)
		fwrite(b.data, 1, b.len, stdout);
	buf_done(&b);
	return r < 0 ? complain(&e) : 0;
}

static int do_rm(int argc, char **argv, const struct globals *g)
{
	struct err e = { 0 };

	if (argc < 2)
		return complain((err_say(&e, EINVAL, "rm takes one or more ids"), &e));
	for (int i = 1; i < argc; i++)
		if (guest_kernel_remove(g->state_dir, argv[i], &e) < 0)
			return complain(&e);
	return 0;
}

int cmd_kernel(int argc, char **argv, const struct globals *g)
{
	static const struct {
		const char *name;
		int (*fn)(int argc, char **argv, const struct globals *g);
	} verbs[] = { { "use", do_use }, { "build", do_build }, { "ls", do_ls }, { "rm", do_rm } };
	struct err e = { 0 };

	if (argc > 1 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
		fputs(cmd_help_text("kernel"), stdout);
		return 0;
	}
	for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (str_eq(argv[1], verbs[i].name)) {
			if (argc > 2 && str_eq(argv[2], "--help")) {
				fputs(cmd_help_text("kernel"), stdout);
				return 0;
			}
			return verbs[i].fn(argc - 1, argv + 1, g);
		}
	err_say(&e, EINVAL, "accepted are use, build, ls and rm: 'ward help kernel' explains them");
	return complain(&e);
}
