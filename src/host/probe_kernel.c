/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/probe_kernel.c - what the kernel has by itself: its age, Landlock, seccomp, userfaultfd,
 * io_uring.
 *
 * Owns:  nothing that outlives the probe's child.
 * Rules: each is used once for real, with nothing in it that could do harm.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>

#include "base/ckd.h"
#include "base/own.h"
#include "host/host.h"
#include "host/probe_impl.h"

enum { KERNEL_MAJOR = 5, KERNEL_MINOR = 13 }; /* Landlock; all else that ward needs is older */

void probe_kernel(struct probe_result *r)
{
	unsigned major = 0, minor = 0;
	struct utsname u;

	if (uname(&u) < 0 || sscanf(u.release, "%u.%u", &major, &minor) != 2) {
		probe_say(r, PROBE_UNKNOWN, "uname gave no version");
		return;
	}
	probe_fact(r, "release", "%.100s", u.release);
	probe_fact(r, "machine", "%.32s", u.machine);
	if (major > KERNEL_MAJOR || (major == KERNEL_MAJOR && minor >= KERNEL_MINOR))
		probe_say(r, PROBE_YES, "Linux %.64s on %.32s", u.release, u.machine);
	else
		probe_say(r, PROBE_PARTLY, "Linux %.64s on %.32s, older than 5.13", u.release,
			u.machine);
}

void probe_landlock(struct probe_result *r)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = LANDLOCK_ACCESS_FS_WRITE_FILE };
	int abi = host_landlock_abi(), err, fd;
	own_fd int ruleset = -1;

	if (abi < 0) {
		probe_say(r, PROBE_NO, "%s",
			abi == -EOPNOTSUPP ? "in this kernel, but not switched on at boot"
					   : strerror(-abi));
		return;
	}
	probe_fact(r, "abi", "%d", abi);
	ruleset = host_landlock_create(&attr, sizeof(attr.handled_access_fs));
	err = ruleset < 0 ? ruleset : host_prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (err >= 0)
		err = host_landlock_restrict(ruleset);
	fd = host_open("/dev/null", O_WRONLY, 0);
	if (fd >= 0)
		close(fd);
	if (err < 0)
		probe_say(r, PROBE_NO, "ABI %d, but no process may restrict itself: %s", abi,
			strerror(-err));
	else if (fd != -EACCES)
		probe_say(r, PROBE_NO, "ABI %d, but a forbidden write was let through", abi);
	else
		probe_say(r, PROBE_YES, "ABI %d; a forbidden write was refused", abi);
}

void probe_seccomp(struct probe_result *r)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
	struct sock_fprog prog = { .len = ARRAY_LEN(code), .filter = code };
	unsigned action = SECCOMP_RET_USER_NOTIF;
	struct seccomp_notif_sizes sizes = { 0 };
	int err;

	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0 ||
		syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes) < 0) {
		probe_say(r, PROBE_NO, "notifications are not known here: %s", strerror(errno));
		return;
	}
	err = host_prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (err == 0)
		err = host_seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER, &prog);
	if (err < 0)
		probe_say(r, PROBE_NO, "loading a filter with a listener: %s", strerror(-err));
	else
		probe_say(r, PROBE_YES, "loaded a filter with a listener");
	if (err >= 0)
		close(err);
	probe_fact(r, "notif_bytes", "%u", sizes.seccomp_notif);
}

/* Faults in user mode only are for everyone; those in the kernel's copies need a privilege. */
void probe_userfaultfd(struct probe_result *r)
{
	struct uffdio_api api = { .api = UFFD_API };
	own_fd int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	bool all = fd >= 0;

	if (!all)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (fd < 0) {
		probe_say(r, PROBE_NO, "%s", strerror(errno));
		return;
	}
	if (ioctl(fd, UFFDIO_API, &api) < 0) {
		probe_say(r, PROBE_NO, "its API is not ours: %s", strerror(errno));
		return;
	}
	probe_fact(r, "kernel_faults", "%s", all ? "yes" : "no");
	probe_fact(r, "features", "%#llx", (unsigned long long)api.features);
	if (all) {
		probe_say(r, PROBE_YES, "for faults in user mode and in the kernel");
		return;
	}
	probe_say(r, PROBE_PARTLY, "for faults in user mode only");
	probe_hint(r, "sysctl -w vm.unprivileged_userfaultfd=1, or run ward as root");
}

void probe_io_uring(struct probe_result *r)
{
	long disabled = probe_number("/proc/sys/kernel/io_uring_disabled");
	struct io_uring_params params = { 0 };
	own_fd int fd = (int)syscall(SYS_io_uring_setup, 2, &params);

	if (disabled >= 0)
		probe_fact(r, "io_uring_disabled", "%ld", disabled);
	if (fd >= 0) {
		probe_fact(r, "features", "%#x", params.features);
		probe_say(r, PROBE_YES, "a ring was set up");
		return;
	}
	probe_say(r, PROBE_NO, "%s", strerror(errno));
	if (errno == EPERM && disabled == 1)
		probe_hint(
			r, "sysctl -w kernel.io_uring_disabled=0, or join kernel.io_uring_group");
}
