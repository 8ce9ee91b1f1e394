/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/vm/vm_snap.c - snapshots at the level of the tier table, for the rig.
 *
 *	vm-snap STATE-DIR TEMPLATE-DIR COPIES [CPUS]
 *
 * Boots one machine, writes it down, makes copies, and asks each who it is; gives it less memory;
 * what copies touch first; pauses and resumes; differences; damaged files; a monitor that is killed
 * meanwhile. With one copy, or with more than one CPU, only the copies. With none: how long starts
 * and copies take until their agent is ready, one at a time, in a machine where nothing else runs.
 * Prints what it finds and costs; the last line is "vm-snap: ok", or says what is wrong.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "proto/client.h"
#include "tier/tier.h"

enum { COPIES_MAX = 16, PATIENCE_MS = 60000, OUT = 4096, TICKER = 5, TIMES = 3 };

static const char *state_dir, *template_dir;
static unsigned cpus = 1;

static void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
static void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	printf("vm-snap: ");
	vprintf(fmt, ap);
	printf("\n");
	va_end(ap);
	exit(1);
}

static void must(int r, const struct err *e, const char *what)
{
	if (r < 0)
		die("%s: %s", what, e->msg);
}

static unsigned ms_since(uint64_t start)
{
	return (unsigned)((clock_ns() - start) / 1000000);
}

/* --- A sandbox -------------------------------------------------------------------------------- */

struct sandbox {
	struct plan plan;
	struct box *box;
	struct proto_conn *c;
	uint32_t streams;
	unsigned ticks; /* lines of the ticker */
	char out[OUT];
	size_t len;
};

static struct sandbox *prepare(const struct snap *from, int *ret, struct err *e)
{
	static const char *const none[] = { NULL };
	struct sandbox *s = calloc(1, sizeof(*s));
	struct trail trail;

	if (!s || id_make(s->plan.id) < 0)
		die("no memory");
	memset(&trail, 0, sizeof(trail));
	s->plan.state_dir = state_dir;
	s->plan.wall = WALL_VM;
	s->plan.root = (struct plan_root){
		.kind = ROOT_DIR, .name = "dir", .layers = { template_dir }, .layer_count = 1
	};
	s->plan.net = NET_NONE;
	s->plan.limits.memory_bytes = 192ull << 20;
	s->plan.limits.cpu_milli = 1000 * cpus;
	s->plan.argv = s->plan.env = none;
	s->plan.hostname = s->plan.id;
	s->plan.live = true;
	s->plan.from = from;
	s->streams = 100;
	*ret = box_prepare(&s->plan, &trail, &s->box, e);
	if (*ret == 0)
		*ret = box_start(s->box, &trail, e);
	return s;
}

static void stop(struct sandbox *s)
{
	if (s->c)
		proto_conn_done(s->c);
	free(s->c);
	if (s->box && !box_stop(s->box))
		die("something is left");
	free(s);
}

static struct sandbox *start(const struct snap *from)
{
	uint64_t begun = clock_ns();
	struct err e = { 0 };
	struct sandbox *s;
	int r;

	s = prepare(from, &r, &e);
	must(r, &e, from ? "a copy" : "a machine");
	while ((r = box_ready(s->box, &e)) == -EAGAIN) {
		struct pollfd p[2] = { { .fd = box_fds(s->box)->channel, .events = POLLIN },
			{ .fd = box_fds(s->box)->pidfd, .events = POLLIN } };

		if (poll(p, 2, PATIENCE_MS) <= 0)
			die("the agent does not call");
		if (p[1].revents && !p[0].revents)
			break;
	}
	if (r < 0) {
		struct trail t;

		box_trail(s->box, &t);
		die("the machine ended: %s", t.msg);
	}
	s->c = calloc(1, sizeof(*s->c));
	proto_conn_init(s->c, box_fds(s->box)->channel);
	if (!from)
		printf("boot_ms=%u\n", ms_since(begun));
	return s;
}

/* The next event; the ticker's lines are counted on the way. False: none came in time. */
static bool next(struct sandbox *s, struct proto_event *ev, unsigned ms)
{
	uint64_t until = clock_ns() + ms * 1000000ull;
	struct err e = { 0 };

	for (;;) {
		struct pollfd p = { .fd = s->c->fd, .events = POLLIN };
		int n;

		if (proto_conn_wants_write(s->c))
			proto_conn_flush(s->c, NULL);
		n = proto_conn_receive(s->c, ev, &e);
		if (n < 0)
			die("the channel: %d %s", n, e.msg);
		if (n > 0 && ev->type == PROTO_DATA) {
			proto_send_credit(s->c, ev->stream, ev->of_stderr, ev->data_len, NULL);
			for (uint32_t i = 0; ev->stream == TICKER && i < ev->data_len; i++)
				s->ticks += ev->data[i] == '\n';
		}
		if (n > 0 && ev->stream != TICKER)
			return true;
		if (n == 0 && clock_ns() > until)
			return false;
		if (n == 0)
			poll(&p, 1, 50);
	}
}

/* Runs a script; what it printed is in s->out. */
static void run(struct sandbox *s, const char *script)
{
	const char *argv[] = { "sh", "-c", script, NULL };
	static const char *const env[] = { "PATH=/bin:/usr/bin", NULL };
	struct proto_start q = {
		.stream = ++s->streams, .flags = START_NULL_STDIN, .argv = argv, .env = env
	};
	struct proto_event ev;
	struct err e = { 0 };

	must(proto_send_start(s->c, &q, NULL, 0, &e), &e, "START");
	s->len = 0;
	for (;;) {
		if (!next(s, &ev, PATIENCE_MS))
			die("'%s' does not end", script);
		if (ev.type == PROTO_DATA)
			for (uint32_t i = 0; i < ev.data_len && s->len < OUT - 1; i++)
				s->out[s->len++] = (char)ev.data[i];
		if (ev.type == PROTO_START_FAILED || ev.type == PROTO_ERROR)
			die("'%s': %s", script, ev.failed.text);
		if (ev.type == PROTO_EXIT)
			break;
	}
	s->out[s->len] = '\0';
	if (ev.exit.code || ev.exit.signaled)
		die("'%s' ended with %d: %s", script, ev.exit.code, s->out);
}

static void start_ticker(struct sandbox *s)
{
	const char *argv[] = { "sh", "-c",
		"n=0; while :; do n=$((n+1)); echo $n > /count; echo $n; sleep 0.1; done", NULL };
	static const char *const env[] = { "PATH=/bin:/usr/bin", NULL };
	struct proto_start q = {
		.stream = TICKER, .flags = START_NULL_STDIN, .argv = argv, .env = env
	};
	struct err e = { 0 };

	must(proto_send_start(s->c, &q, NULL, 0, &e), &e, "START");
}

static void wait_ticks(struct sandbox *s, unsigned more, const char *when)
{
	unsigned want = s->ticks + more;
	uint64_t until = clock_ns() + PATIENCE_MS * 1000000ull;
	struct proto_event ev;

	while (s->ticks < want) {
		next(s, &ev, 50);
		if (clock_ns() > until)
			die("the ticker stands still %s", when);
	}
}

/* --- Files of a snapshot ---------------------------------------------------------------------- */

static struct snap files_make(void)
{
	struct snap s = { memfd_create("state", MFD_CLOEXEC), memfd_create("memory", MFD_CLOEXEC),
		memfd_create("disk", MFD_CLOEXEC) };

	if (s.state < 0 || s.memory < 0 || s.disk < 0)
		die("memory files: %s", strerror(errno));
	return s;
}

static void files_done(struct snap *s)
{
	close(s->state);
	close(s->memory);
	close(s->disk);
}

static unsigned kib_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) < 0 ? 0 : (unsigned)(st.st_blocks / 2);
}

static unsigned long field_kib(pid_t pid, const char *name)
{
	char path[64], line[256];
	unsigned long sum = 0;
	FILE *f;

	str_fmt(path, sizeof(path), "/proc/%d/smaps_rollup", (int)pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, name, strlen(name)) == 0)
			sum += strtoul(strchr(line, ':') + 1, NULL, 10);
	if (f)
		fclose(f);
	return sum;
}

/* Page faults of a process so far, those that needed no disk; without its name, which may have
 * anything in it. */
static unsigned long faults_of(pid_t pid)
{
	char path[64], text[512];
	unsigned long n = 0;
	FILE *f;

	str_fmt(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (f && fgets(text, sizeof(text), f) && strrchr(text, ')'))
		sscanf(strrchr(text, ')'), ") %*c %*d %*d %*d %*d %*d %*u %lu", &n);
	if (f)
		fclose(f);
	return n;
}

/* The same snapshot, with nothing behind its state and nobody who may write there. */
static struct snap without_notes(const struct snap *files)
{
	struct snap plain = { -1, dup(files->memory), dup(files->disk) };
	int fd = memfd_create("state", MFD_CLOEXEC);
	static uint8_t data[8 << 20];
	ssize_t n = pread(files->state, data, sizeof(data), 0);
	char path[64];

	str_fmt(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (n <= 0 || pwrite(fd, data, (size_t)n, 0) != n ||
		(plain.state = open(path, O_RDONLY | O_CLOEXEC)) < 0)
		die("copying a state");
	close(fd);
	return plain;
}

/* --- What is tried ---------------------------------------------------------------------------- */

static const char who[] = "cat /proc/sys/kernel/random/uuid /proc/sys/kernel/random/boot_id "
			  "/etc/machine-id; hostname; busybox od -An -tx8 -N8 /dev/urandom";

enum { NAMES = 5 };

struct identity {
	char name[NAMES][64];
};

static struct identity ask(struct sandbox *s)
{
	struct identity ret;
	char *line, *rest = s->out;

	run(s, who);
	for (unsigned i = 0; i < NAMES; i++) {
		line = strsep(&rest, "\n");
		if (!line || !*line || str_copy(ret.name[i], sizeof(ret.name[i]), line) < 0)
			die("no line %u of who it is", i);
	}
	return ret;
}

static void all_differ(const struct identity *ids, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		for (unsigned k = i + 1; k < count; k++)
			for (unsigned n = 0; n < NAMES; n++)
				if (str_eq(ids[i].name[n], ids[k].name[n]))
					die("two machines have the same '%s'", ids[i].name[n]);
}

static void check_clock(struct sandbox *s)
{
	long there, here = (long)time(NULL);

	run(s, "busybox date +%s");
	there = strtol(s->out, NULL, 10);
	if (there < here - 60 || there > here + 60)
		die("its clock says %ld instead of %ld", there, here);
}

/* The first copy notes what it touched, behind the state; others go on from that just as well. */
static void notes(const struct snap *files, unsigned rounds)
{
	struct snap plain = without_notes(files);
	struct sandbox *s = start(files);
	struct usage_now unused;
	struct stat before, after;

	fstat(files->state, &before);
	box_usage_now(s->box, &unused);
	fstat(files->state, &after);
	stop(s);
	if (after.st_size <= before.st_size)
		die("nothing was noted of what a copy touched");
	for (unsigned i = 0; i < rounds; i++)
		for (unsigned noted = 0; noted < 2; noted++) {
			uint64_t begun = clock_ns();

			s = start(noted ? files : &plain);
			printf("noted=%u copy_ms=%u faults=%lu\n", noted, ms_since(begun),
				faults_of(box_pid(s->box)));
			run(s, "echo alive");
			stop(s);
		}
	files_done(&plain);
	printf("notes ok\n");
}

static void copies(struct sandbox *first, unsigned count)
{
	struct snap files = files_make();
	struct sandbox *all[COPIES_MAX];
	struct identity ids[COPIES_MAX + 1];
	uint64_t begun = clock_ns();
	struct err e = { 0 };

	must(box_snapshot(first->box, &files, 0, NULL, NULL, &e), &e, "snapshot");
	printf("snapshot_ms=%u memory_kib=%u state_kib=%u\n", ms_since(begun), kib_of(files.memory),
		kib_of(files.state));
	wait_ticks(first, 3, "after a snapshot");
	ids[0] = ask(first);
	if (count > 1)
		notes(&files, 3);
	for (unsigned i = 0; i < count; i++) {
		begun = clock_ns();
		all[i] = start(&files);
		printf("copy_ms=%u pid=%d private_kib=%lu pss_kib=%lu\n", ms_since(begun),
			(int)box_pid(all[i]->box), field_kib(box_pid(all[i]->box), "Private_"),
			field_kib(box_pid(all[i]->box), "Pss:"));
	}
	for (unsigned i = 0; i < count; i++) {
		ids[i + 1] = ask(all[i]);
		if (!str_eq(ids[i + 1].name[3], all[i]->plan.id))
			die("a copy's name is %s", ids[i + 1].name[3]);
		check_clock(all[i]);
		/* What ran in the original runs on here, with nobody to print to. */
		run(all[i], "a=$(cat /count); i=0; while [ \"$(cat /count)\" = \"$a\" ]; do "
			    "sleep 0.05; i=$((i+1)); [ $i -lt 400 ]; done; echo mine > /own");
	}
	all_differ(ids, count + 1);
	for (unsigned i = 0; i < count; i++)
		stop(all[i]);
	run(first, "[ ! -e /own ]");
	for (unsigned i = 0; i < count; i++) /* one after the other */
		stop(start(&files));
	/* A copy can be written down, and copied, too. */
	all[0] = start(&files);
	run(all[0], "echo second > /generation");
	files_done(&files);
	files = files_make();
	must(box_snapshot(all[0]->box, &files, 0, NULL, NULL, &e), &e, "snapshot of a copy");
	stop(all[0]);
	all[0] = start(&files);
	run(all[0], "cat /generation");
	if (!str_eq(all[0]->out, "second\n"))
		die("a copy of a copy lacks what its parent wrote");
	ids[1] = ask(all[0]);
	all_differ(ids, 2);
	stop(all[0]);
	files_done(&files);
	printf("copies ok\n");
}

static unsigned long total_kib(struct sandbox *s)
{
	run(s, "busybox awk '/^MemTotal/ { print $2 }' /proc/meminfo");
	return strtoul(s->out, NULL, 10);
}

/* Less memory while it runs, and all of it again; more than it was made with is refused. */
static void shrinks(struct sandbox *s)
{
	struct plan_limits l = { .memory_bytes = 184ull << 20 };
	unsigned long before = total_kib(s), after;
	struct err e = { 0 };

	must(box_set_limits(s->box, &l, &e), &e, "less memory");
	after = total_kib(s);
	printf("total_kib=%lu before=%lu\n", after, before);
	if (after > before - (6 << 10))
		die("the guest has %lu KiB of %lu, and should have 8 MiB less", after, before);
	l.memory_bytes = 192ull << 20;
	must(box_set_limits(s->box, &l, &e), &e, "all of it again");
	l.memory_bytes = 193ull << 20;
	if (box_set_limits(s->box, &l, &e) != -EOPNOTSUPP)
		die("more than it has");
	for (unsigned i = 0; total_kib(s) < before - 1024; i++) {
		if (i > 100)
			die("the guest does not take it back");
		poll(NULL, 0, 100);
	}
	printf("shrinks ok\n");
}

static void pauses(struct sandbox *s)
{
	unsigned long before = field_kib(box_pid(s->box), "Private_");
	struct proto_event ev;
	struct err e = { 0 };
	unsigned at;

	must(box_pause(s->box, NULL, NULL, &e), &e, "pause");
	while (next(s, &ev, 200)) /* what was on its way */
		;
	at = s->ticks;
	next(s, &ev, 500);
	if (s->ticks != at)
		die("it ticks while it is paused");
	printf("paused_private_kib=%lu before=%lu\n", field_kib(box_pid(s->box), "Private_"),
		before);
	if (field_kib(box_pid(s->box), "Private_") > before / 4)
		die("a pause gives nothing back");
	must(box_resume(s->box, &e), &e, "resume");
	wait_ticks(s, 3, "after a pause");
	run(s, "echo alive");
	/* Again, written down as it stands, and gone on with. */
	must(box_pause(s->box, NULL, NULL, &e), &e, "pause");
	{
		struct snap files = files_make();
		struct sandbox *copy;

		must(box_snapshot(s->box, &files, 0, NULL, NULL, &e), &e,
			"snapshot of a paused one");
		must(box_resume(s->box, &e), &e, "resume");
		copy = start(&files);
		run(copy, "echo alive");
		stop(copy);
		files_done(&files);
	}
	wait_ticks(s, 3, "after another pause");
	printf("pauses ok\n");
}

static void differences(struct sandbox *s)
{
	struct snap files = files_make();
	uint64_t begun = clock_ns();
	struct sandbox *copy;
	unsigned full_ms;
	struct err e = { 0 };

	must(box_snapshot(s->box, &files, SNAP_DIFF, NULL, NULL, &e), &e, "the first difference");
	full_ms = ms_since(begun);
	run(s, "dd if=/dev/urandom of=/big bs=1k count=512 2>/dev/null; busybox md5sum < /big");
	begun = clock_ns();
	must(box_snapshot(s->box, &files, SNAP_DIFF | SNAP_STAY, NULL, NULL, &e), &e,
		"a difference");
	printf("whole_ms=%u difference_ms=%u\n", full_ms, ms_since(begun));
	copy = start(&files);
	run(copy, "busybox md5sum < /big");
	if (!str_eq(copy->out, s->out))
		die("a difference does not add up: %s", copy->out);
	stop(copy);
	must(box_resume(s->box, &e), &e, "resume");
	wait_ticks(s, 3, "after a difference");
	files_done(&files);
	printf("differences ok\n");
}

static void refuses(const struct snap *from, const char *what)
{
	struct err e = { 0 };
	struct sandbox *s;
	int r;

	s = prepare(from, &r, &e);
	if (r == 0)
		die("%s is taken", what);
	stop(s);
}

static void damaged(struct sandbox *s)
{
	struct snap files = files_make();
	struct err e = { 0 };
	char byte;

	must(box_snapshot(s->box, &files, 0, NULL, NULL, &e), &e, "snapshot");
	for (off_t at = 0; at < 400; at += 57) {
		if (pread(files.state, &byte, 1, at) != 1)
			die("reading the state");
		byte ^= 1;
		if (pwrite(files.state, &byte, 1, at) != 1)
			die("changing the state");
		refuses(&files, "a damaged state");
		byte ^= 1;
		if (pwrite(files.state, &byte, 1, at) != 1)
			die("changing the state");
	}
	if (ftruncate(files.memory, 4096) < 0)
		die("cutting the memory");
	refuses(&files, "a cut memory");
	files_done(&files);
	printf("damaged ok\n");
}

struct killer {
	struct sandbox *s;
	unsigned left;
};

static void kill_later(void *arg)
{
	struct killer *k = arg;

	if (k->left && --k->left == 0)
		kill(box_pid(k->s->box), SIGKILL);
}

/* The monitor dies in the middle: the caller is told, at once, and nothing is left. */
static void killed(struct sandbox *s)
{
	struct snap files = files_make();
	static const unsigned when[] = { 1, 30, 300 };
	struct err e = { 0 };

	must(box_snapshot(s->box, &files, 0, NULL, NULL, &e), &e, "snapshot");
	for (unsigned i = 0; i < sizeof(when) / sizeof(when[0]); i++) {
		struct snap into = files_make();
		struct killer k = { .s = start(&files), .left = when[i] };

		if (box_snapshot(k.s->box, &into, 0, kill_later, &k, &e) == 0)
			die("a killed machine was written down");
		stop(k.s);
		files_done(&into);
	}
	files_done(&files);
	printf("killed ok\n");
}

/* When its first process began a step, for the last time. */
static uint64_t begun_ns(const struct trail *t, enum step step)
{
	uint64_t ret = 0;

	for (uint32_t i = 0; i < t->count; i++)
		if (t->marks[i].step == step)
			ret = t->marks[i].start_ns;
	return ret;
}

/* Until the guest's first instruction is the host's work, from there to its call the guest's. */
static void tell_copy(const struct snap *files)
{
	uint64_t begun = clock_ns(), ready;
	struct sandbox *s = start(files);
	struct usage_now unused;
	struct trail t;

	ready = clock_ns();
	box_trail(s->box, &t);
	printf("copy_ms=%u host_ms=%u guest_ms=%u faults=%lu\n",
		(unsigned)((ready - begun) / 1000000),
		(unsigned)((begun_ns(&t, STEP_AGENT) - begun) / 1000000),
		(unsigned)((begun_ns(&t, STEP_RUN) - begun_ns(&t, STEP_AGENT)) / 1000000),
		faults_of(box_pid(s->box)));
	box_usage_now(s->box, &unused); /* the first one notes what it touched */
	stop(s);
}

/* In turns: what the machine around them has to do then is the same for both. */
static void times(void)
{
	struct snap files = files_make();
	struct sandbox *s = start(NULL);
	struct err e = { 0 };

	must(box_snapshot(s->box, &files, 0, NULL, NULL, &e), &e, "snapshot");
	stop(s);
	for (unsigned i = 0; i < TIMES; i++) {
		stop(start(NULL));
		for (unsigned k = 0; k < 2; k++)
			tell_copy(&files);
	}
	files_done(&files);
	printf("vm-snap: ok\n");
}

int main(int argc, char **argv)
{
	struct sandbox *s;
	unsigned count;

	if (argc != 4 && argc != 5)
		return 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	state_dir = argv[1];
	template_dir = argv[2];
	count = (unsigned)strtoul(argv[3], NULL, 10);
	if (argc == 5)
		cpus = (unsigned)strtoul(argv[4], NULL, 10);
	if (count > COPIES_MAX || !cpus || cpus > 8)
		return 1;
	if (!count) {
		times();
		return 0;
	}
	s = start(NULL);
	run(s, "echo 0123456789abcdef0123456789abcdef > /etc/machine-id");
	start_ticker(s);
	wait_ticks(s, 2, "at first");
	if (count > 1)
		shrinks(s);
	copies(s, count);
	if (cpus == 1 && count > 1) {
		pauses(s);
		differences(s);
		damaged(s);
		killed(s);
	}
	wait_ticks(s, 2, "in the end");
	stop(s);
	printf("vm-snap: ok\n");
	return 0;
}
