/* SPDX-License-Identifier: Apache-2.0 */
/* procfs and /dev, as programs read them. */
#include <dirent.h>
#include <pthread.h>

#include "guest.h"

static char text[65536];

static const char *slurp(const char *path)
{
	int fd = open(path, O_RDONLY);
	size_t len = 0;
	ssize_t n;

	text[0] = '\0';
	if (fd < 0)
		return text;
	while (len < sizeof(text) - 1 && (n = read(fd, text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(fd);
	return text;
}

/* The number behind @key in @path. */
static long field(const char *path, const char *key)
{
	const char *at = strstr(slurp(path), key);

	return at ? strtol(at + strlen(key), NULL, 10) : -1;
}

CASE(status)
{
	char name[] = "Name:\tfs_proc";

	say_is("pid", field("/proc/self/status", "\nPid:") == getpid());
	say_is("tgid", field("/proc/self/status", "\nTgid:") == getpid());
	say_is("parent", field("/proc/self/status", "\nPPid:") == getppid());
	say_n("uid", field("/proc/self/status", "\nUid:"));
	say_n("threads", field("/proc/self/status", "\nThreads:"));
	say_is("memory", field("/proc/self/status", "\nVmRSS:") > 0 &&
				 field("/proc/self/status", "\nVmSize:") > 0);
	say_is("name", strncmp(slurp("/proc/self/status"), name, sizeof(name) - 1) == 0);
	say_is("umask", field("/proc/self/status", "\nUmask:") == 22);
}

static long links_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? -1 : (long)st.st_nlink;
}

static void *count_from_thread(void *at)
{
	struct stat st;

	say_n("two threads", links_of("/proc/self/task"));
	say_n("of the open directory", fstat(*(int *)at, &st) < 0 ? -1 : (long)st.st_nlink);
	return NULL;
}

/* A browser's way to know that it is alone before it shuts itself in. */
CASE(threads_are_links)
{
	int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY);
	pthread_t thread;

	say_n("alone", links_of("/proc/self/task"));
	need("thread", -pthread_create(&thread, NULL, count_from_thread, &fd));
	pthread_join(thread, NULL);
	say_is("numbers", links_of("/proc") > 3);
	say_n("descriptors", links_of("/proc/self/fd"));
	close(fd);
}

CASE(stat)
{
	int pid = 0, ppid = 0, pgrp = 0, session = 0;
	char comm[32], state = 0;

	say_n("fields", sscanf(slurp("/proc/self/stat"), "%d (%31[^)]) %c %d %d %d", &pid, comm,
				&state, &ppid, &pgrp, &session));
	say_is("pid", pid == getpid());
	say_is("parent", ppid == getppid());
	say_is("group", pgrp == getpgrp());
	say_is("session", session == getsid(0));
	printf("  state: %c\n", state);
	say_is("statm", strtol(slurp("/proc/self/statm"), NULL, 10) > 0);
}

CASE(words)
{
	char buf[256];
	ssize_t n;

	say_is("cmdline", strstr(slurp("/proc/self/cmdline"), "fs_proc") != NULL);
	setenv("X", "1", 1);
	say_is("environ", strstr(slurp("/proc/self/environ"), "GUEST_TMP=") != NULL ||
				  memmem(text, sizeof(text), "GUEST_TMP=", 10) != NULL);
	n = readlink("/proc/self/exe", buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = '\0';
	say_is("exe", strstr(buf, "/fs_proc") != NULL);
	say("comm", open("/proc/self/comm", O_WRONLY) < 0 ? -1 : 0);
	need("write", write(3, "another", 7));
	say_str("comm", slurp("/proc/self/comm"));
	n = readlink("/proc/self", buf, sizeof(buf) - 1);
	buf[n > 0 ? n : 0] = '\0';
	say_is("self", strtol(buf, NULL, 10) == getpid());
	say_is("mounts", strstr(slurp("/proc/self/mounts"), " / ") != NULL);
	say_is("mountinfo", strstr(slurp("/proc/self/mountinfo"), " /proc ") != NULL);
	say_is("limits", strstr(slurp("/proc/self/limits"), "Max open files") != NULL);
	say_is("cgroup", strstr(slurp("/proc/self/cgroup"), "/") != NULL);
}

CASE(maps)
{
	unsigned long here = (unsigned long)&errno_name, from, to, stack = (unsigned long)&here;
	bool code = false, on_stack = false;
	char perms[8];
	char *s, *save;

	slurp("/proc/self/maps");
	for (s = strtok_r(text, "\n", &save); s; s = strtok_r(NULL, "\n", &save)) {
		if (sscanf(s, "%lx-%lx %7s", &from, &to, perms) != 3)
			continue;
		if (here >= from && here < to)
			code = strcmp(perms, "r-xp") == 0 && strstr(s, "fs_proc");
		if (stack >= from && stack < to)
			on_stack = strstr(s, "[stack]") != NULL;
	}
	say_is("the program", code);
	say_is("the stack", on_stack);
}

CASE(machine)
{
	say_is("meminfo", field("/proc/meminfo", "MemTotal:") > 1000 &&
				  field("/proc/meminfo", "MemAvailable:") >= 0);
	say_is("cpuinfo", strstr(slurp("/proc/cpuinfo"), "processor") != NULL);
	say_is("uptime", strtod(slurp("/proc/uptime"), NULL) >= 0 && text[0]);
	say_is("loadavg", strchr(slurp("/proc/loadavg"), '/') != NULL);
	say_is("stat", strncmp(slurp("/proc/stat"), "cpu ", 4) == 0);
	say_is("version", strncmp(slurp("/proc/version"), "Linux version ", 14) == 0);
	say_is("filesystems", strstr(slurp("/proc/filesystems"), "proc") != NULL);
	say_str("ostype", slurp("/proc/sys/kernel/ostype"));
	say_is("pid_max", strtol(slurp("/proc/sys/kernel/pid_max"), NULL, 10) >= 32768);
	say_n("a boot id", (long)strlen(slurp("/proc/sys/kernel/random/boot_id")));
	say_is("somaxconn", strtol(slurp("/proc/sys/net/core/somaxconn"), NULL, 10) > 0);
	say_is("cpus online", slurp("/sys/devices/system/cpu/online")[0] == '0');
	say("write what cannot be", open("/proc/nothing", O_WRONLY | O_CREAT, 0600) < 0 ? 0 : -1);
	say("unlink", unlink("/proc/version") < 0 ? 0 : -1);
	say("mkdir", mkdir("/proc/x", 0700) < 0 ? 0 : -1);
}

static bool listed(const char *dir, const char *name)
{
	struct dirent *de;
	bool found = false;
	DIR *d = opendir(dir);

	while (d && (de = readdir(d)))
		found = found || strcmp(de->d_name, name) == 0;
	if (d)
		closedir(d);
	return found;
}

CASE(listings)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	say_is("oneself", listed("/proc", pid));
	say_is("self", listed("/proc", "self"));
	say_is("the thread", listed("/proc/self/task", pid));
	need("dup2", dup2(0, 77));
	say_is("a descriptor", listed("/proc/self/fd", "77"));
	say_is("its info", listed("/proc/self/fdinfo", "77"));
	close(77);
	say_is("is gone", listed("/proc/self/fd", "77"));
	say_is("null", listed("/dev", "null"));
	say("a pid of nobody", access("/proc/4194305", F_OK));
	say("its file", open("/proc/4194305/stat", O_RDONLY));
	say_n("pos in fdinfo", (need("f", open("f", O_RDWR | O_CREAT, 0600)),
				       need("lseek", lseek(3, 123, SEEK_SET)),
				       field("/proc/self/fdinfo/3", "pos:")));
}

CASE(of_a_dead_child)
{
	char path[64];
	int fd;
	pid_t pid = fork();

	if (pid == 0)
		_exit(3);
	usleep(50000);
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	say_is("a zombie", strstr(slurp(path), ") Z ") != NULL);
	fd = need_fd("stat", open(path, O_RDONLY));
	wait(NULL);
	say("gone", access(path, F_OK));
	say("read of an old descriptor", read(fd, text, 100));
}

static void look(void)
{
	char path[64], buf[64];

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)getppid());
	say("environ of root's", open(path, O_RDONLY));
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)getppid());
	say("descriptors of root's", open(path, O_RDONLY));
	snprintf(path, sizeof(path), "/proc/%d/cwd", (int)getppid());
	say("cwd of root's", readlink(path, buf, sizeof(buf)));
	snprintf(path, sizeof(path), "/proc/%d/status", (int)getppid());
	say("status of root's", open(path, O_RDONLY) < 0 ? -1 : 0);
}

CASE(another_user)
{
	as_user(1000, 1000, look);
}

CASE(devices)
{
	char buf[64];
	int null = need_fd("null", open("/dev/null", O_RDWR)),
	    zero = need_fd("zero", open("/dev/zero", O_RDWR));
	int full = need_fd("full", open("/dev/full", O_RDWR)),
	    rnd = need_fd("urandom", open("/dev/urandom", O_RDONLY));

	say_n("null reads", read(null, buf, 10));
	say_n("null writes", write(null, buf, 10));
	say_n("zero reads", read(zero, buf, 10));
	say_is("zeroes", buf[0] == 0 && buf[9] == 0);
	say("full writes", write(full, buf, 1));
	say_n("full reads", read(full, buf, 5));
	say_n("random reads", read(rnd, buf, 64));
	say_n("seek on null", lseek(null, 100, SEEK_SET));
	say("truncate null", ftruncate(null, 0));
	say("O_TRUNC", open("/dev/null", O_WRONLY | O_TRUNC) < 0 ? -1 : 0);
	say("fsync", fsync(null));
	say("mkdir over it", mkdir("/dev/null", 0700));
	say("below it", open("/dev/null/x", O_RDONLY));
	say_is("shared memory", access("/dev/shm", W_OK) == 0);
	say("stdin's link", access("/dev/stdin", F_OK));
}

static void try_knob(const char *name, const char *value)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/proc/sys/kernel/%s", name);
	fd = need_fd(path, open(path, O_WRONLY));
	say(value, write(fd, value, strlen(value)) < 0 ? -1 : 0);
	close(fd);
}

/* Only what Linux refuses: the real ones are the host's. */
CASE(impossible_knobs)
{
	try_knob("sched_rt_period_us", "0");
	try_knob("sched_rt_period_us", "-1");
	try_knob("sched_rt_runtime_us", "-2");
	try_knob("sched_rt_runtime_us", "2147483647");
	try_knob("sched_rt_runtime_us", "many");
}
