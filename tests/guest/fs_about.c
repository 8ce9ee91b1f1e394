/* SPDX-License-Identifier: Apache-2.0 */
/* procfs: what it tells of other processes, of those that are gone, and of time. */
#include "io.h"

#include <sys/sysinfo.h>

static char text[65536];

static const char *slurp(const char *path)
{
	int fd = open(path, O_RDONLY);
	ssize_t n, all = 0;

	while (fd >= 0 && (n = read(fd, text + all, sizeof(text) - 1 - (size_t)all)) > 0)
		all += n;
	text[all] = '\0';
	if (fd >= 0)
		close(fd);
	return fd < 0 ? NULL : text;
}

/* A child that waits until its pipe is closed. */
static pid_t child(int *ret_end)
{
	char c;
	int p[2];
	pid_t pid;

	NEED(pipe(p));
	NEED(pid = fork());
	if (pid == 0) {
		close(p[1]);
		read(p[0], &c, 1);
		_exit(0);
	}
	close(p[0]);
	*ret_end = p[1];
	return pid;
}

CASE(children)
{
	char path[64], want[64];
	int first, second;
	pid_t a, b;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	printf("none: '%s'\n", slurp(path));
	a = child(&first);
	b = child(&second);
	slurp(path);
	snprintf(want, sizeof(want), "%d %d ", (int)a, (int)b);
	B(strcmp(text, want) == 0);
	close(first);
	close(second);
	NEED(waitpid(b, NULL, 0));
	snprintf(want, sizeof(want), "%d ", (int)a);
	slurp(path);
	B(strcmp(text, want) == 0);
	NEED(waitpid(a, NULL, 0));
	printf("none: '%s'\n", slurp(path));
	R(open("/proc/self/children", O_RDONLY));
}

/* Who holds the directory of a process that is gone is told so. */
CASE(of_nobody)
{
	char path[64], b[64];
	int end, dir, map, status;
	pid_t pid = child(&end);

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	NEED(dir = open(path, O_RDONLY | O_DIRECTORY));
	NEED(map = openat(dir, "uid_map", O_RDONLY));
	NEED(status = openat(dir, "status", O_RDONLY));
	B(readlinkat(dir, "exe", b, sizeof(b)) > 0);
	close(end);
	NEED(waitpid(pid, NULL, 0));
	R(readlinkat(dir, "exe", b, sizeof(b)));
	R(readlinkat(dir, "ns/pid", b, sizeof(b)));
	R(openat(dir, "status", O_RDONLY));
	R(openat(dir, "nothing", O_RDONLY));
	R(faccessat(dir, "stat", F_OK, 0));
	R(read(status, b, sizeof(b)));
	R(read(map, b, 1));
	R(open(path, O_RDONLY));
}

static long long spent(void)
{
	long long user = -1, nice = -1, sys = -1;

	slurp("/proc/stat");
	return sscanf(text, "cpu %lld %lld %lld", &user, &nice, &sys) == 3 ? user + nice + sys : -1;
}

/* As top and the like work out how busy a machine is. */
CASE(time_spent)
{
	struct timespec t = { 0, 0 };
	long long before = spent(), user, nice, sys, idle;
	unsigned cpus = 0;

	while (t.tv_sec * 10 + t.tv_nsec / 100000000 < 2)
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	B(spent() > before);
	B(sscanf(slurp("/proc/stat"), "cpu %lld %lld %lld %lld", &user, &nice, &sys, &idle) == 4);
	B(idle >= 0);
	for (char *at = text; (at = strstr(at, "\ncpu")); at++)
		cpus++;
	B(cpus == sysconf(_SC_NPROCESSORS_ONLN) || cpus == sysconf(_SC_NPROCESSORS_CONF));
	B(strstr(text, "\nbtime ") && strstr(text, "\nprocs_running ") && strstr(text, "\nctxt "));
}

CASE(shared_memory)
{
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char from[32], *line;

	NEED(p == MAP_FAILED ? -1 : 0);
	snprintf(from, sizeof(from), "%lx-", (unsigned long)p);
	slurp("/proc/self/maps");
	line = strstr(text, from);
	if (line)
		line[strcspn(line, "\n")] = '\0';
	B(line && strstr(line, " rw-s "));
	B(line && strstr(line, " /dev/zero (deleted)"));
}

/* A number that is somebody else's by now is not whom an old descriptor is about. */
CASE(read_again)
{
	char b[256];
	int fd;

	NEED(fd = open("/proc/self/stat", O_RDONLY));
	B(read(fd, b, sizeof(b)) > 10);
	R(read(fd, b + 10, 0));
	NEED(lseek(fd, 0, SEEK_SET));
	B(read(fd, b, sizeof(b)) > 10);
	B(pread(fd, b, 4, 0) == 4);
}

/* What is made while it is read has no end. */
CASE(no_end)
{
	int fd;

	NEED(fd = open("/proc/meminfo", O_RDONLY));
	R(lseek(fd, 0, SEEK_END));
	R(lseek(fd, 5, SEEK_SET));
	R(lseek(fd, 5, SEEK_CUR));
	R(lseek(fd, -20, SEEK_CUR));
	R(lseek(fd, 0, SEEK_DATA));
}

static long long available(void)
{
	const char *at = strstr(slurp("/proc/meminfo"), "MemAvailable:");

	return at ? strtoll(at + 13, NULL, 10) : -1;
}

/* What is in use is not free. */
CASE(memory_left)
{
	struct sysinfo si;
	long long before = available(), after;
	size_t n = 64 << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(p == MAP_FAILED ? -1 : 0);
	memset(p, 1, n);
	after = available();
	B(before > 0 && after > 0);
	R(sysinfo(&si));
	B(si.freeram < si.totalram);
}
