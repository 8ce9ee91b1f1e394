/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/escape/kernel.c - calls that reach the whole machine, and ways around the filter.
 *
 * Owns:  nothing.
 * Rules: what would harm natively has arguments that are refused after the permission check.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "escape.h"

/* A call with plain numbers, that natively fails after the permission check: n is its number. */
static int call0(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return outcome(syscall(a->n, 0, 0, 0, 0, 0, 0));
}

static int call_with_path(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return outcome(syscall(a->n, a->path, O_NONBLOCK, 0, 0, 0));
}

static int finit(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(syscall(SYS_finit_module, -1, "", 0));
}

static int kexec(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(syscall(SYS_kexec_load, 0, 0, NULL, ~0UL)); /* flags that do not exist */
}

static int kexec_file(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(syscall(SYS_kexec_file_load, -1, -1, 0, "", ~0UL));
}

static int set_clock(const struct facts *f, const struct attempt *a)
{
	struct timezone same;

	(void)f;
	(void)a;
	if (syscall(SYS_gettimeofday, NULL, &same) < 0)
		return -errno;
	return outcome(syscall(SYS_settimeofday, NULL, &same)); /* nothing changes */
}

static int set_host_name(const struct facts *f, const struct attempt *a)
{
	struct utsname u;

	(void)f;
	if (uname(&u) < 0)
		return -errno;
	if (a->n)
		return outcome(syscall(SYS_setdomainname, u.domainname, strlen(u.domainname)));
	return outcome(sethostname(u.nodename, strlen(u.nodename)));
}

static int add_key(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	/* The process keyring: gone with this process. */
	return outcome(syscall(SYS_add_key, "user", "ward-escape", "x", 1, -2));
}

static int request_key(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(syscall(SYS_request_key, "user", "ward-escape-none", NULL, 0));
}

static int keyctl(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(syscall(SYS_keyctl, 0 /* get keyring id */, -3 /* session */, 0, 0, 0));
}

static int bpf_map(const struct facts *f, const struct attempt *a)
{
	union bpf_attr attr;

	(void)f;
	(void)a;
	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = attr.value_size = 4;
	attr.max_entries = 1;
	return outcome(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)));
}

static int perf(const struct facts *f, const struct attempt *a)
{
	struct perf_event_attr attr = { .type = PERF_TYPE_SOFTWARE, .size = sizeof(attr) };

	(void)f;
	(void)a;
	attr.config = PERF_COUNT_SW_TASK_CLOCK;
	return outcome(syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0));
}

static int io_uring(const struct facts *f, const struct attempt *a)
{
	char params[128] = { 0 };

	(void)f;
	(void)a;
	return outcome(syscall(425, 1, params));
}

static int user_fault(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return outcome(syscall(SYS_userfaultfd, O_CLOEXEC | a->n));
}

static int fanotify(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(syscall(SYS_fanotify_init, 0, O_RDONLY));
}

static int kernel_log(const struct facts *f, const struct attempt *a)
{
	char text[64];

	(void)f;
	return outcome(syscall(SYS_syslog, a->n, text, sizeof(text)));
}

static int io_ports(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return a->n ? outcome(syscall(SYS_ioperm, 0x80, 1, 1)) : outcome(syscall(SYS_iopl, 3));
}

static int set_personality(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return outcome(personality((unsigned long)a->n));
}

static int quota(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	/* Q_QUOTAON for users, on no device. */
	return outcome(syscall(SYS_quotactl, 0x80000200, "/nowhere", 0, "/nowhere"));
}

static int dump_to_kernel(const struct facts *f, const struct attempt *a)
{
	(void)f;
	(void)a;
	return outcome(prctl(PR_SET_MM, PR_SET_MM_ARG_START, 0, 0, 0));
}

static int inject_input(const struct facts *f, const struct attempt *a)
{
	char c = 'x';
	int fd = open("/dev/tty", O_RDWR | O_CLOEXEC);

	(void)f;
	(void)a;
	if (fd < 0)
		return -errno;
	return outcome(ioctl(fd, TIOCSTI, &c));
}

/* A call of the x32 kind: the same table in another numbering, that filters tend to forget. */
static int by_x32(const struct facts *f, const struct attempt *a)
{
	(void)f;
	return outcome(syscall(0x40000000 | a->n, 0x04000000 /* new uts namespace */, 0, 0));
}

/* A 32-bit call out of 64-bit code: other numbers altogether. */
static int by_int80(const struct facts *f, const struct attempt *a)
{
	long result = a->n;

	(void)f;
	__asm__ volatile("int $0x80"
			 : "+a"(result)
			 : "b"(0x04000000), "c"(0), "d"(0), "S"(0), "D"(0)
			 : "memory", "r8", "r9", "r10", "r11");
	return (int)result >= 0 ? 0 : (int)result;
}

/* A 32-bit segment would do the same without int 0x80: modify_ldt makes one. */
static int local_segment(const struct facts *f, const struct attempt *a)
{
	char entry[16] = { 0 };
	/* A wrong size: EINVAL, later. The kernel cuts this call's result to 32 bits. */
	int r = (int)syscall(SYS_modify_ldt, 1, entry, 7);

	(void)f;
	(void)a;

	return r == -1 ? -errno : r;
}

/* clang-format off */
const struct attempt kernel_attempts[] = {
	{ "init-module", call0, NULL, SYS_init_module, "ENOEXEC EFAULT EINVAL ENOSYS", DENY, DENY, false },
	{ "finit-module", finit, NULL, 0, "EBADF ENOSYS", DENY, DENY, false },
	{ "delete-module", call_with_path, "ward-escape-none", SYS_delete_module, "ENOENT ENOSYS", DENY, DENY, false },
	{ "kexec-load", kexec, NULL, 0, "EINVAL ENOSYS", DENY, DENY, false },
	{ "kexec-file-load", kexec_file, NULL, 0, "EINVAL ENOSYS EBADF", DENY, DENY, false },
	{ "reboot", call0, NULL, SYS_reboot, "EINVAL", DENY, DENY, false }, /* without the magic numbers */
	{ "swapon", call_with_path, "/nowhere", SYS_swapon, "ENOENT ENOSYS EINVAL", DENY, DENY, false },
	{ "swapoff", call_with_path, "/nowhere", SYS_swapoff, "ENOENT ENOSYS", DENY, DENY, false },
	{ "acct", call_with_path, "/nowhere", SYS_acct, "ENOENT ENOSYS", DENY, DENY, false },
	{ "set-clock", set_clock, NULL, 0, "ok", DENY, DENY, false },
	{ "set-host-name", set_host_name, NULL, 0, "ok", DENY, DENY, false },
	{ "set-domain-name", set_host_name, NULL, 1, "ok", DENY, DENY, false },
	{ "vhangup", call0, NULL, SYS_vhangup, "-", DENY, DENY, false },
	{ "add-key", add_key, NULL, 0, "ok ENOSYS EDQUOT", DENY, DENY, false },
	{ "request-key", request_key, NULL, 0, "ENOKEY ENOSYS", DENY, DENY, false },
	{ "keyctl", keyctl, NULL, 0, "ok ENOKEY ENOSYS", DENY, DENY, false },
	{ "bpf", bpf_map, NULL, 0, "ok ENOSYS", DENY, DENY, false },
	{ "perf-event-open", perf, NULL, 0, "ok ENOSYS", DENY, DENY, false },
	{ "io-uring", io_uring, NULL, 0, "ok ENOSYS EPERM", DENY, DENY, false },
	{ "userfaultfd", user_fault, NULL, 0, "ok ENOSYS", DENY, DENY, false },
	{ "userfaultfd-user-mode", user_fault, NULL, 1, "ok ENOSYS", DENY, DENY, false },
	{ "fanotify", fanotify, NULL, 0, "ok ENOSYS", DENY, DENY, false },
	{ "kernel-log-read", kernel_log, NULL, 3, "ok", DENY, DENY, false },
	{ "kernel-log-size", kernel_log, NULL, 10, "ok", DENY, DENY, false },
	{ "iopl", io_ports, NULL, 0, "ok ENOSYS EPERM", DENY, DENY, false },
	{ "ioperm", io_ports, NULL, 1, "ok ENOSYS EPERM ENOMEM", DENY, DENY, false },
	{ "personality-read-implies-exec", set_personality, NULL, READ_IMPLIES_EXEC, "ok", DENY, DENY, false },
	{ "quotactl", quota, NULL, 0, "ENOENT ENODEV ENOTBLK ENOSYS EINVAL", DENY, DENY, false },
	{ "prctl-set-mm", dump_to_kernel, NULL, 0, "-", "EPERM EINVAL ENOSYS EACCES", "EPERM EINVAL ENOSYS EACCES", false },
	{ "tiocsti-dev-tty", inject_input, NULL, 0, "-", "ENXIO ENOENT EPERM EIO EACCES ENOTTY", "ENXIO ENOENT EPERM EIO EACCES ENOTTY", false },
	{ "x32-unshare", by_x32, NULL, SYS_unshare, "ok ENOSYS", DENY " SIGSYS", DENY " SIGSYS", false },
	{ "x32-getpid", by_x32, NULL, SYS_getpid, "ok ENOSYS", DENY " SIGSYS", DENY " SIGSYS", false },
	{ "int80-unshare", by_int80, NULL, 310, "ok ENOSYS SIGSegmentation fault", DENY " SIGSYS", DENY " SIGSYS", false },
	{ "int80-getpid", by_int80, NULL, 20, "ok ENOSYS SIGSegmentation fault", DENY " SIGSYS", DENY " SIGSYS", false },
	{ "modify-ldt", local_segment, NULL, 0, "EINVAL ENOSYS", DENY, DENY, false },
	{ 0 },
};
/* clang-format on */
