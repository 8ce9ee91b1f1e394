/* SPDX-License-Identifier: Apache-2.0 */
/* Users, groups, capabilities, sessions, limits, prctl, names. */
#include "io.h"

#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/utsname.h>

static void users(void)
{
	uid_t r, e, s;

	getresuid(&r, &e, &s);
	printf("uid %d %d %d\n", r, e, s);
}

static int status_of_child(int (*fn)(void))
{
	int st;
	pid_t p;

	fflush(stdout);
	p = fork();
	if (!p) {
		int r = fn();

		fflush(stdout);
		_exit(r);
	}
	waitpid(p, &st, 0);
	return WEXITSTATUS(st);
}

static int set_ids(void)
{
	users();
	R(setreuid(1000, 1001));
	users();
	R(setuid(0));
	R(setresuid(-1, 1000, -1));
	users();
	R(setreuid(1001, -1));
	users();
	R(setuid(0));
	R(setuid(-1));
	return 0;
}

CASE(user_ids)
{
	status_of_child(set_ids);
}

static int root_and_back(void)
{
	R(seteuid(1000));
	users();
	R(setuid(5));
	R(seteuid(0));
	users();
	R(setuid(7));
	users();
	R(seteuid(0));
	return 0;
}

CASE(effective_and_back)
{
	status_of_child(root_and_back);
}

static int set_groups(void)
{
	gid_t list[4] = { 10, 20, 30 }, got[4] = { 0 };

	R(setgroups(3, list));
	R(getgroups(0, NULL));
	R(getgroups(1, got));
	R(getgroups(4, got));
	printf("%d %d %d\n", got[0], got[1], got[2]);
	R(setgroups(1 << 17, list));
	R(setgid(44));
	R(setuid(1000));
	R(setgroups(0, list));
	R(setgid(0));
	printf("%d %d\n", getgid(), getegid());
	return 0;
}

CASE(groups)
{
	status_of_child(set_groups);
}

static int caps(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	R(syscall(SYS_capget, &h, d));
	printf("chown %d\n", !!(d[0].effective & 1));
	R(setresuid(1000, 1000, 1000));
	R(syscall(SYS_capget, &h, d));
	printf("%x %x\n", d[0].effective, d[0].permitted);
	d[0].effective = 1;
	R(syscall(SYS_capset, &h, d));
	h.version = 99;
	R(syscall(SYS_capget, &h, d));
	printf("%x\n", h.version);
	R(syscall(SYS_capget, BADP, d));
	return 0;
}

CASE(capabilities)
{
	status_of_child(caps);
}

static int keep_caps(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct d[2];

	R(prctl(PR_GET_KEEPCAPS));
	R(prctl(PR_SET_KEEPCAPS, 1));
	R(setresuid(1000, 1000, 1000));
	syscall(SYS_capget, &h, d);
	printf("%d %d\n", d[0].effective == 0, (d[0].permitted & 1) != 0);
	return 0;
}

CASE(keeps_capabilities)
{
	status_of_child(keep_caps);
}

static int sessions(void)
{
	pid_t me = getpid();

	R(setpgid(0, 0));
	B(getpgrp() == me);
	R(setsid());
	R(setpgid(0, 999999));
	R(setpgid(-1, 0) < 0 ? -1 : 0);
	R(getpgid(999999));
	R(getsid(999999));
	return 0;
}

static int new_session(void)
{
	pid_t me = getpid();

	B(setsid() == me);
	B(getsid(0) == me && getpgrp() == me);
	R(setsid());
	R(setpgid(0, 0));
	return 0;
}

CASE(process_groups)
{
	status_of_child(sessions);
	status_of_child(new_session);
}

CASE(group_of_a_child)
{
	int p[2], st;
	char c;
	pid_t child;

	NEED(pipe(p));
	child = fork();
	if (!child) {
		close(p[1]);
		if (read(p[0], &c, 1) != 0)
			_exit(1);
		execl("/bin/sleep", "sleep", "5", NULL);
		_exit(1);
	}
	R(setpgid(child, child));
	B(getpgid(child) == child);
	close(p[0]);
	close(p[1]);
	usleep(150000);
	R(setpgid(child, getpgrp())); /* after exec */
	kill(child, SIGKILL);
	waitpid(child, &st, 0);
}

static int limits(void)
{
	struct rlimit r, n = { 50, 60 };

	R(getrlimit(99, &r));
	R(setrlimit(RLIMIT_NOFILE, &n));
	R(getrlimit(RLIMIT_NOFILE, &r));
	printf("%d %d\n", (int)r.rlim_cur, (int)r.rlim_max);
	n.rlim_cur = 70;
	R(setrlimit(RLIMIT_NOFILE, &n));
	R(setrlimit(RLIMIT_NOFILE, BADP));
	R(setresuid(1000, 1000, 1000));
	n = (struct rlimit){ 60, 61 };
	R(setrlimit(RLIMIT_NOFILE, &n));
	n = (struct rlimit){ 5, 60 };
	R(setrlimit(RLIMIT_NOFILE, &n));
	R(dup2(0, 5));
	R(dup2(0, 4));
	R(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &r));
	R(syscall(SYS_prlimit64, 999999, RLIMIT_NOFILE, NULL, &r));
	return 0;
}

CASE(resource_limits)
{
	status_of_child(limits);
}

CASE(names)
{
	struct utsname u;
	char name[17] = "";

	R(uname(&u));
	printf("%s %s\n", u.sysname, u.machine);
	R(uname(BADP));
	R(prctl(PR_SET_NAME, "a-name-that-is-longer"));
	R(prctl(PR_GET_NAME, name));
	printf("%s\n", name);
	R(prctl(PR_SET_NAME, BADP));
}

CASE(prctl_options)
{
	int v = -1;

	R(prctl(PR_GET_DUMPABLE));
	R(prctl(PR_SET_DUMPABLE, 0));
	R(prctl(PR_GET_DUMPABLE));
	R(prctl(PR_SET_DUMPABLE, 5));
	R(prctl(PR_SET_PDEATHSIG, 99));
	R(prctl(PR_SET_PDEATHSIG, SIGTERM));
	R(prctl(PR_GET_PDEATHSIG, &v));
	printf("%d\n", v);
	R(prctl(PR_GET_CHILD_SUBREAPER, &v));
	R(prctl(PR_CAPBSET_READ, 999));
	R(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	R(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	R(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	R(prctl(0x7fff));
}

CASE(scheduling)
{
	struct sched_param p = { 0 };
	cpu_set_t set;

	R(sched_getscheduler(0));
	R(sched_getscheduler(-1));
	R(sched_getscheduler(999999));
	R(sched_setscheduler(0, SCHED_OTHER, &p));
	p.sched_priority = 5;
	R(sched_setscheduler(0, SCHED_OTHER, &p));
	R(sched_get_priority_max(SCHED_FIFO));
	R(sched_get_priority_min(SCHED_FIFO));
	R(sched_get_priority_max(99));
	R(sched_yield());
	CPU_ZERO(&set);
	R(sched_setaffinity(0, sizeof(set), &set));
	B(sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0);
	R(getpriority(PRIO_PROCESS, 0));
	R(setpriority(PRIO_PROCESS, 0, 5));
	R(getpriority(PRIO_PROCESS, 0));
	R(setpriority(99, 0, 5));
	R(getpriority(PRIO_PROCESS, 999999));
}

CASE(personality_is_remembered)
{
	R(personality(0xffffffff));
	R(personality(0x0040000));
	printf("%x\n", personality(0xffffffff));
}

CASE(priorities)
{
	struct sched_param p = { 0 };
	char attr[64] = { 0 };

	B(getpriority(PRIO_PGRP, 0) == getpriority(PRIO_PROCESS, 0));
	R(getpriority(PRIO_PGRP, 999999));
	R(getpriority(PRIO_USER, 4242424));
	R(setpriority(PRIO_PGRP, 999999, 3));
	R(setpriority(PRIO_USER, 4242424, 3));
	R(setpriority(PRIO_PROCESS, 999999, 3));
	R(syscall(SYS_sched_setparam, 0, NULL));
	R(syscall(SYS_sched_getparam, 0, NULL));
	R(syscall(SYS_sched_getparam, 999999, &p));
	R(syscall(SYS_sched_setscheduler, 0, -1, &p));
	R(syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, &p));
	R(syscall(SYS_sched_getscheduler, 0));
	R(syscall(SYS_sched_setattr, 0, NULL, 0));
	R(syscall(SYS_sched_setattr, 0, attr, 1));
	R(syscall(SYS_sched_getattr, 0, NULL, 48, 0));
	R(syscall(SYS_sched_getattr, 0, attr, 47, 0));
	R(syscall(SYS_sched_getattr, 0, attr, 48, 0));
	attr[0] = 3;
	R(syscall(SYS_sched_setattr, 0, attr, 0));
	R(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6));
	R(syscall(SYS_ioprio_get, 1, 0) == (2 << 13 | 6));
	R(syscall(SYS_ioprio_set, 1, 0, 1));
	R(syscall(SYS_ioprio_set, 9, 0, 2 << 13));
	R(syscall(SYS_ioprio_get, 1, 999999));
}

/* The processor of a thread that chose one. */
CASE(processors)
{
	cpu_set_t all, one;
	unsigned cpu = 0;
	int last = -1;

	NEED(sched_getaffinity(0, sizeof(all), &all));
	for (int i = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &all))
			last = i;
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	R(sched_setaffinity(0, sizeof(one), &one));
	R(sched_getaffinity(0, sizeof(all), &all) == 0 && CPU_EQUAL(&all, &one));
	R(syscall(SYS_getcpu, &cpu, NULL, NULL));
	B((int)cpu == last);
}

static void as_nobody(void)
{
	cpu_set_t set;

	sched_getaffinity(0, sizeof(set), &set);
	R(setpriority(PRIO_PROCESS, getppid(), 10));
	R(setpriority(PRIO_PROCESS, 0, -5));
	R(sched_setaffinity(getppid(), sizeof(set), &set));
	R(setpriority(PRIO_PROCESS, 0, 3));
}

CASE(priorities_of_others)
{
	as_user(65534, 65534, as_nobody);
}

static int slack_of_a_child(void)
{
	R(prctl(PR_GET_TIMERSLACK));
	R(prctl(PR_SET_TIMERSLACK, 0));
	R(prctl(PR_GET_TIMERSLACK));
	return 0;
}

CASE(more_prctl_options)
{
	R(prctl(PR_SET_TIMERSLACK, 70000));
	R(prctl(PR_GET_TIMERSLACK));
	status_of_child(slack_of_a_child);
	cat("/proc/self/timerslack_ns");
	R(prctl(PR_SET_TIMERSLACK, 0));
	R(prctl(PR_GET_TIMERSLACK) == 70000);
	R(prctl(PR_GET_NO_NEW_PRIVS, 1, 0, 0, 0));
	R(prctl(PR_SET_THP_DISABLE, 1, 1, 0, 0));
	R(prctl(PR_GET_THP_DISABLE, 1, 0, 0, 0));
	R(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0));
	R(prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0));
	R(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 1, 0, 0));
	R(prctl(PR_CAP_AMBIENT, 99, 0, 0, 0));
}

static int own_tables(void)
{
	int fd = dup(0);

	R(syscall(SYS_unshare, 0x400 /* CLONE_FILES */));
	R(syscall(SYS_unshare, 0x200 /* CLONE_FS */));
	R(syscall(SYS_unshare, 0x40000 /* CLONE_SYSVSEM */));
	R(syscall(SYS_unshare, 1));
	R(fcntl(fd, F_GETFD));
	return 0;
}

CASE(own_tables)
{
	status_of_child(own_tables);
}

static int other_files(void)
{
	put("secret", "x");
	chmod("secret", 0600);
	R(syscall(SYS_setfsuid, 1000));
	OK(open("secret", O_RDONLY));
	R(syscall(SYS_setfsuid, 0));
	OK(open("secret", O_RDONLY));
	return 0;
}

CASE(fsuid_and_capabilities)
{
	status_of_child(other_files);
}

static void keeps(void)
{
	need("keep", prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0));
	say_n("kept", prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0));
	fflush(stdout);
	execl("/proc/self/exe", "x", "after_exec", NULL);
}

/* Capabilities are kept across a change of ids, and not across an exec as well. */
CASE(keep_capabilities)
{
	in_child(keeps);
}

CASE(after_exec)
{
	say_n("kept", prctl(PR_GET_KEEPCAPS, 0, 0, 0, 0));
}
