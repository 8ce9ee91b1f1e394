/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/probe.c - the list of probes, and the child that each one runs in.
 *
 * Owns:  the list; a probe's child and the page it answers on, while the probe runs.
 * Rules: the answer is trusted as little as the child: it is cut to size before anyone reads it.
 *        Whatever the child has started is in its process group, and ends with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "host/probe.h"
#include "host/probe_impl.h"

/* clang-format off */
static const struct probe probes[] = {
	{ "kernel", "everything", probe_kernel,
		"run Linux 5.13 or newer; Debian 12 has 6.1" },
	{ "namespaces", "the container and kernel tiers", probe_namespaces,
		"boot a kernel with CONFIG_NAMESPACES and all kinds of them" },
	{ "userns", "the container and kernel tiers", probe_userns,
		"boot a kernel with CONFIG_USER_NS; inside another container, allow it nested ones" },
	{ "userns-user", "ordinary users of ward", probe_userns_user,
		"sysctl -w kernel.unprivileged_userns_clone=1, or run ward as root" },
	{ "subids", "more than one id inside, for ordinary users", probe_subids,
		"apt install uidmap, then usermod --add-subuids 100000-165535 --add-subgids "
		"100000-165535 USER" },
	{ "cgroup", "memory, process and CPU limits", probe_cgroup,
		"mount cgroup2 at /sys/fs/cgroup, or have systemd delegate a cgroup to the user" },
	{ "overlay-root", "private root file systems, as root", probe_overlay_root,
		"modprobe overlay" },
	{ "overlay-user", "private root file systems, for ordinary users", probe_overlay_user,
		"run Linux 5.11 or newer with user namespaces allowed" },
	{ "idmap", "a private range of host ids per sandbox", probe_idmap,
		"run Linux 5.12 or newer, with /usr on a file system that can be idmapped" },
	{ "landlock", "the workspace tier, and a second ring of the container tier", probe_landlock,
		"boot with landlock in the lsm= list, on a kernel with CONFIG_SECURITY_LANDLOCK" },
	{ "seccomp-notify", "the kernel tier, and for naming what was denied", probe_seccomp,
		"run Linux 5.5 or newer with CONFIG_SECCOMP_FILTER" },
	{ "kvm", "the vm tier", probe_kvm,
		"turn virtualization on in the firmware, or nested virtualization in the host" },
	{ "userfaultfd", "restoring memory lazily", probe_userfaultfd,
		"boot a kernel with CONFIG_USERFAULTFD" },
	{ "io_uring", "faster file and network work", probe_io_uring,
		"sysctl -w kernel.io_uring_disabled=0, on a kernel with CONFIG_IO_URING" },
	{ "loop", "disk limits on file systems without quotas", probe_loop,
		"modprobe loop" },
	{ "git", "workspaces from git repositories", probe_git,
		"apt install git" },
	{ "libnode", "the js and wasm tiers", probe_libnode,
		"apt install libnode108" },
};

static const char *const state_names[] = {
	[PROBE_UNKNOWN] = "unknown",
	[PROBE_YES] = "yes",
	[PROBE_PARTLY] = "partly",
	[PROBE_NO] = "no",
};
/* clang-format on */

const struct probe *probe_list(unsigned *ret_count)
{
	*ret_count = ARRAY_LEN(probes);
	return probes;
}

const char *probe_state_name(enum probe_state s)
{
	return state_names[s];
}

void probe_say(struct probe_result *r, enum probe_state s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->found, sizeof(r->found), fmt, ap);
	va_end(ap);
	r->state = s;
}

void probe_hint(struct probe_result *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->hint, sizeof(r->hint), fmt, ap);
	va_end(ap);
}

void probe_fact(struct probe_result *r, const char *key, const char *fmt, ...)
{
	unsigned i = r->fact_count;
	va_list ap;

	if (i == PROBE_FACTS_MAX)
		return;
	snprintf(r->facts[i].key, sizeof(r->facts[i].key), "%s", key);
	va_start(ap, fmt);
	vsnprintf(r->facts[i].value, sizeof(r->facts[i].value), fmt, ap);
	va_end(ap);
	r->fact_count++;
}

static void child_main(void (*run)(struct probe_result *, const void *), const void *arg,
	pid_t parent, struct probe_result *shared)
{
	int null;

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	/* A probe answers on its page only; what a tool it starts has to say is not for the user.
	 */
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
	}
	run(shared, arg);
	_exit(0);
}

/* Waits until every copy of the pipe's other end is closed; false when the time is up. */
static bool wait_closed(int fd, uint32_t timeout_ms)
{
	uint64_t end = clock_ns() + (uint64_t)timeout_ms * 1000000u, now;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while ((now = clock_ns()) < end)
		if (poll(&p, 1, (int)((end - now) / 1000000u) + 1) > 0)
			return true;
	return false;
}

/* The child may have died in the middle of a write, or gone wild: make every string a string. */
static void tame(struct probe_result *r)
{
	if ((unsigned)r->state >= ARRAY_LEN(state_names))
		r->state = PROBE_UNKNOWN;
	if (r->fact_count > PROBE_FACTS_MAX)
		r->fact_count = 0;
	r->found[sizeof(r->found) - 1] = '\0';
	r->hint[sizeof(r->hint) - 1] = '\0';
	for (unsigned i = 0; i < PROBE_FACTS_MAX; i++) {
		r->facts[i].key[sizeof(r->facts[i].key) - 1] = '\0';
		r->facts[i].value[sizeof(r->facts[i].value) - 1] = '\0';
	}
}

static void finish(struct probe_result *r, int status, bool in_time, uint32_t timeout_ms)
{
	tame(r);
	if (!in_time)
		probe_say(r, PROBE_UNKNOWN, "the probe did not end within %u ms", timeout_ms);
	else if (WIFSIGNALED(status))
		probe_say(r, PROBE_UNKNOWN, "the probe died of signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status) || !r->found[0])
		probe_say(r, PROBE_UNKNOWN, "the probe ended without an answer");
}

int probe_isolated(void (*run)(struct probe_result *, const void *), const void *arg,
	uint32_t timeout_ms, struct probe_result *ret)
{
	pid_t parent = getpid(), pid;
	struct probe_result *shared;
	int ends[2], status = 0;
	bool in_time;

	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -errno;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		munmap(shared, sizeof(*shared));
		return -errno;
	}
	pid = fork();
	if (pid == 0)
		child_main(run, arg, parent, shared);
	close(ends[1]);
	if (pid < 0) {
		status = errno;
		close(ends[0]);
		munmap(shared, sizeof(*shared));
		return -status;
	}
	setpgid(pid, pid); /* also here: the group must exist before it is killed */
	in_time = wait_closed(ends[0], timeout_ms);
	/* Not a zombie's number yet, since only the wait below gives it back. */
	kill(-pid, SIGKILL);
	if (!in_time)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	close(ends[0]);
	*ret = *shared;
	munmap(shared, sizeof(*shared));
	finish(ret, status, in_time, timeout_ms);
	return 0;
}

static void run_row(struct probe_result *r, const void *arg)
{
	const struct probe *p = arg;

	p->run(r);
}

int probe_run(const struct probe *p, struct probe_result *ret)
{
	int r = probe_isolated(run_row, p, PROBE_TIMEOUT_MS, ret);

	if (r < 0)
		return r;
	if (ret->state == PROBE_YES)
		ret->hint[0] = '\0';
	else if (!ret->hint[0])
		str_copy(ret->hint, sizeof(ret->hint), p->hint);
	return 0;
}
