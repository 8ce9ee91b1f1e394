/* SPDX-License-Identifier: Apache-2.0 */
/* inotify: descriptors, watches, what each change says. */
#include "io.h"

#include <limits.h>
#include <sys/inotify.h>

static int in;
static char dir[] = "/tmp/inoXXXXXX";

static void setup(void)
{
	if (!mkdtemp(dir) || chdir(dir) < 0)
		_exit(9);
	in = inotify_init1(IN_NONBLOCK);
	NEED(in);
}

static void fill(const char *name, const char *text)
{
	int f = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (text)
		write(f, text, strlen(text));
	close(f);
}

static void drain(void)
{
	static char buf[65536] __attribute__((aligned(8)));
	unsigned cookie = 0;
	ssize_t n = read(in, buf, sizeof(buf));

	if (n < 0) {
		printf(" none: %s\n", io_errname(errno));
		return;
	}
	for (char *p = buf; p < buf + n;) {
		struct inotify_event *e = (struct inotify_event *)p;
		if (e->cookie && !cookie)
			cookie = e->cookie;
		printf(" wd %d mask %x len %u cookie %s name '%s'\n", e->wd, e->mask, e->len,
			!e->cookie            ? "0"
			: e->cookie == cookie ? "same"
					      : "other",
			e->len ? e->name : "");
		p += sizeof(*e) + e->len;
	}
}

static void clean(void)
{
	char cmd[PATH_MAX + 20];

	(void)cmd;
	unlink("a");
	unlink("b");
	unlink("d/x");
	rmdir("d");
	chdir("/");
	rmdir(dir);
}

CASE(errors)
{
	int p[2];

	R(inotify_init1(0x1234));
	setup();
	R(inotify_add_watch(in, "nothing", IN_MODIFY));
	R(inotify_add_watch(in, ".", 0));
	R(inotify_add_watch(999, ".", IN_MODIFY));
	NEED(pipe(p));
	R(inotify_add_watch(p[0], ".", IN_MODIFY));
	R(inotify_add_watch(in, BADP, IN_MODIFY));
	R(inotify_rm_watch(in, 5));
	R(inotify_rm_watch(p[0], 1));
	R(inotify_rm_watch(999, 1));
	fill("a", "x");
	R(inotify_add_watch(in, "a", IN_MODIFY | IN_ONLYDIR));
	R(inotify_add_watch(in, ".", IN_MODIFY | IN_MASK_ADD | IN_MASK_CREATE));
	R(inotify_add_watch(in, ".", IN_MODIFY));
	R(inotify_add_watch(in, ".", IN_MODIFY | IN_MASK_CREATE));
	char c[4];
	R(read(in, c, 4));
	io_show_poll("in", in);
	R(write(in, c, 4));
	clean();
}

CASE(in_directory)
{
	setup();
	R(inotify_add_watch(in, ".", IN_ALL_EVENTS));
	fill("a", "hello");
	drain();
	int n = 0;
	fill("a", NULL);
	io_show_poll("in", in);
	R(ioctl(in, FIONREAD, &n));
	printf("bytes %d\n", n);
	drain();
	R(rename("a", "b"));
	drain();
	R(chmod("b", 0600));
	R(link("b", "a"));
	R(unlink("b"));
	drain();
	R(mkdir("d", 0755));
	R(rename("a", "d/x"));
	drain();
	char c;
	int f = open("d/x", O_RDONLY);
	read(f, &c, 1);
	close(f);
	drain();
	R(unlink("d/x"));
	R(rmdir("d"));
	drain();
	R(symlink("x", "a"));
	drain();
	clean();
}

CASE(on_file)
{
	setup();
	fill("a", "x");
	R(inotify_add_watch(in, "a", IN_ALL_EVENTS));
	fill("a", "yy");
	drain();
	int f = open("a", O_RDWR);
	char c;
	read(f, &c, 1);
	pwrite(f, "z", 1, 0);
	ftruncate(f, 0);
	fchmod(f, 0600);
	close(f);
	drain();
	R(rename("a", "b"));
	drain();
	f = open("b", O_RDONLY);
	drain();
	R(unlink("b"));
	drain();
	close(f);
	drain();
	R(inotify_rm_watch(in, 1));
	clean();
}

CASE(merge_same)
{
	setup();
	fill("a", "x");
	R(inotify_add_watch(in, "a", IN_MODIFY));
	int f = open("a", O_WRONLY);
	for (int i = 0; i < 5; i++)
		write(f, "x", 1);
	drain();
	clean();
}

CASE(masks)
{
	setup();
	fill("a", "x");
	R(inotify_add_watch(in, "a", IN_MODIFY));
	R(inotify_add_watch(in, "a", IN_OPEN | IN_MASK_ADD));
	fill("a", "y");
	drain();
	R(inotify_add_watch(in, "a", IN_CLOSE_WRITE));
	fill("a", "y");
	drain();
	R(inotify_add_watch(in, "a", IN_OPEN | IN_ONESHOT));
	fill("a", "y");
	fill("a", "y");
	drain();
	R(inotify_add_watch(in, ".", IN_CREATE));
	R(inotify_add_watch(in, "a", IN_MODIFY));
	R(inotify_rm_watch(in, 2));
	drain();
	clean();
}

CASE(self_delete)
{
	setup();
	R(mkdir("d", 0755));
	R(inotify_add_watch(in, "d", IN_ALL_EVENTS | IN_EXCL_UNLINK));
	fill("d/x", "1");
	R(unlink("d/x"));
	R(rmdir("d"));
	drain();
	clean();
}

CASE(moved_directory)
{
	setup();
	R(mkdir("d", 0755));
	R(inotify_add_watch(in, ".", IN_MOVE));
	R(inotify_add_watch(in, "d", IN_MOVE_SELF));
	R(rename("d", "e"));
	drain();
	R(rename("e", "d"));
	drain();
	clean();
}

CASE(small_buffer)
{
	char buf[sizeof(struct inotify_event) + 16];

	setup();
	R(inotify_add_watch(in, ".", IN_CREATE));
	fill("a", NULL);
	fill("b", NULL);
	R(read(in, buf, 20));
	R(read(in, buf, sizeof(buf)));
	R(read(in, buf, sizeof(buf)));
	R(read(in, buf, sizeof(buf)));
	clean();
}

CASE(blocks)
{
	char buf[256];

	setup();
	fcntl(in, F_SETFL, 0);
	R(inotify_add_watch(in, ".", IN_CREATE));
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		io_nap(30);
		fill("a", NULL);
		_exit(0);
	}
	R(read(in, buf, sizeof(buf)));
	io_reap(c);
	clean();
}

CASE(signals_of_a_directory)
{
	siginfo_t info = { 0 };
	struct timespec soon = { 20, 0 }, now = { 0, 0 };
	sigset_t set;
	int d;

	NEED(mkdir("d", 0755));
	NEED(mkdir("e", 0755));
	NEED(d = open("d", O_RDONLY));
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	sigaddset(&set, SIGIO);
	NEED(sigprocmask(SIG_BLOCK, &set, NULL));
	put("f", "");
	R(fcntl(open("f", O_RDONLY), F_NOTIFY, DN_CREATE));
	R(fcntl(d, F_SETSIG, SIGRTMIN + 3));
	R(fcntl(d, F_NOTIFY, DN_CREATE | DN_MODIFY));
	put("d/one", "1"); /* one signal, and it is over */
	B(sigtimedwait(&set, &info, &soon) == SIGRTMIN + 3);
	B(info.si_fd == d && info.si_code == POLL_MSG);
	put("d/two", "2");
	R(sigtimedwait(&set, &info, &now));
	R(fcntl(d, F_NOTIFY, DN_RENAME | DN_DELETE | DN_MULTISHOT));
	NEED(rename("d/one", "d/uno"));
	B(sigtimedwait(&set, &info, &soon) == SIGRTMIN + 3);
	NEED(unlink("d/two"));
	B(sigtimedwait(&set, &info, &soon) == SIGRTMIN + 3);
	B(sigtimedwait(&set, &info, &now) == SIGRTMIN + 3); /* a rename is two */
	R(fcntl(d, F_NOTIFY, 0));
	NEED(unlink("d/uno"));
	R(sigtimedwait(&set, &info, &now));
}

static void writes_unlinked(uint32_t mask)
{
	char line[256] = "", path[64], b[512];
	unsigned shown = 0;
	int n, fd, info;

	NEED(n = inotify_init1(IN_NONBLOCK));
	put("f", "1");
	NEED(inotify_add_watch(n, ".", mask));
	NEED(fd = open("f", O_RDWR));
	NEED(unlink("f"));
	R(write(fd, "2", 1));
	R(read(n, b, sizeof(b)) > 0);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", n);
	NEED(info = open(path, O_RDONLY));
	NEED(read(info, line, sizeof(line) - 1));
	B(strstr(line, "inotify wd:1 ") != NULL);
	B(strstr(line, "mask:") && sscanf(strstr(line, "mask:"), "mask:%x", &shown) == 1 &&
		shown == mask);
}

CASE(a_name_that_is_gone)
{
	writes_unlinked(IN_MODIFY);
	writes_unlinked(IN_MODIFY | IN_EXCL_UNLINK);
}
