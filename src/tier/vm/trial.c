/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/trial.c - does this kernel really come up on this host's KVM?
 *
 * Owns:  one small machine, gone when the answer is there.
 * Rules: a /dev/kvm proves nothing: on some of them no Linux boots. The guest's init must have
 *        called us before the time is over. What is tried is nobody's friend yet: the monitor
 *        around it has the walls of a sandbox's, but for the cgroup.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <linux/sched.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/vm/console.h"
#include "tier/vm/machine.h"
#include "tier/vm/virtio/vsock.h"
#include "tier/vm/vm.h"

enum { TRIAL_MEMORY_MIB = 256 };
/* The ids of sandboxes begin where these end. */
#define TRIAL_ID 0x6fffffffu

/* What is booted; open while it lasts. */
struct question {
	int kvm, kernel, initrd;
	bool plain_fpu, acpi;
};

struct trial {
	struct machine machine;
	struct vsock vsock;
	bool called;
	struct console console;
};

static void on_console(void *arg, uint8_t byte)
{
	console_byte(&((struct trial *)arg)->console, byte);
}

static int on_dial(void *arg, uint32_t port)
{
	struct trial *t = arg;

	if (port == VM_AGENT_PORT) {
		t->called = true;
		machine_stop(&t->machine);
	}
	return -ECONNREFUSED;
}

static int guard_cpu(void *arg, struct err *e)
{
	(void)arg;
	return filter_load(FILTER_CPU, e);
}

/* Memory, a vsock, the kernel; then nothing that it was made of is open any more. */
static int fill(struct trial *t, const struct question *q, struct err *e)
{
	struct machine_config c = { .memory_bytes = (uint64_t)TRIAL_MEMORY_MIB << 20,
		.cpus = 1,
		.plain_fpu = q->plain_fpu };
	struct boot_request b = {
		.kernel = q->kernel,
		.initrd = q->initrd,
		.acpi = q->acpi,
		.serial = true,
		.cmdline =
			"console=ttyS0 quiet loglevel=1 panic=-1 reboot=k tsc=reliable ward.trial=1"
	};
	int r = machine_fill(&t->machine, &c, e);

	if (r < 0)
		return r;
	vsock_init(&t->vsock, VM_CID, &t->machine.events, on_dial, t, &t->machine.mem,
		machine_raise, machine_place(&t->machine, 0));
	r = machine_attach(&t->machine, &t->vsock.dev, e);
	if (r == 0)
		r = machine_boot(&t->machine, &b, e);
	close(q->kvm);
	close(q->kernel);
	close(q->initrd);
	for (int i = 0; i < 3; i++)
		close(i);
	return r;
}

/* What a sandbox's monitor does not have either. */
static void forget_environment(void)
{
	for (char **p = environ; p && *p; p++)
		memset(*p, 0, strlen(*p));
}

/* In a child, which is jailed like a monitor: 0 when the guest called. */
static int boot(const struct question *q, int answer, struct err *e)
{
	int keep[] = { q->kvm, q->kernel, q->initrd, answer };
	struct trial *t = calloc(1, sizeof(*t)); /* the child's end frees it */
	struct machine_config c = {
		.kvm = q->kvm, .cpus = 1, .console = on_console, .guard = guard_cpu, .arg = t
	};
	struct trail trail = { 0 };
	int r = t ? vmjail_keep_only(keep, ARRAY_LEN(keep), e)
		  : err_set(e, ENOMEM, "a trial machine");

	if (r == 0)
		r = machine_open(&t->machine, &c, e);
	forget_environment();
	if (r == 0)
		r = vmjail_enter(&trail, TRIAL_ID, e);
	if (r == 0)
		r = fill(t, q, e);
	if (r == 0)
		r = machine_arm(&t->machine, e);
	if (r == 0)
		r = filter_load(FILTER_DEVICES, e);
	if (r == 0)
		r = machine_run(&t->machine, e);
	if (r == 0 && !t->called)
		r = err_say(e, EIO, "the guest ended before it came up: %s; its last words: %s",
			t->machine.why, console_words(&t->console));
	return r;
}

/* What the child said: it ran a guest, and is not to be trusted with a terminal. */
static int believe(struct err *e)
{
	e->msg[sizeof(e->msg) - 1] = '\0';
	for (char *p = e->msg; *p; p++)
		*p = *p < ' ' || *p > '~' ? '?' : *p;
	return e->code >= 0 && e->code < 4096 ? -e->code : -EIO;
}

/* In a process of its own, which is ended whatever it does. */
static int ask(const struct question *q, unsigned timeout_ms, struct err *e)
{
	struct clone_args args = { .flags = CLONE_NEWPID, .exit_signal = SIGCHLD };
	int pipe[2], status = 0, r = host_pipe(pipe);
	struct pollfd wait;
	pid_t pid;

	if (r < 0)
		return err_set(e, -r, "a pipe for the trial");
	pid = host_clone3(&args);
	if (pid == 0) {
		struct err said = { 0 };

		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		boot(q, pipe[1], &said);
		if (write(pipe[1], &said, sizeof(said)) != (ssize_t)sizeof(said))
			_exit(1);
		_exit(0);
	}
	close(pipe[1]);
	wait = (struct pollfd){ .fd = pipe[0], .events = POLLIN };
	if (pid < 0)
		r = err_set(e, -pid, "making a process for the trial (the vm tier needs root)");
	else if (poll(&wait, 1, (int)timeout_ms) <= 0)
		r = err_say(e, ETIMEDOUT,
			"the guest did not come up within %u s on this host's KVM",
			timeout_ms / 1000);
	else if (read(pipe[0], e, sizeof(*e)) != (ssize_t)sizeof(*e))
		r = err_say(e, EIO, "the trial machine crashed");
	else
		r = believe(e);
	close(pipe[0]);
	if (pid > 0) {
		kill(pid, SIGKILL);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	return r;
}

int vm_trial(const char *dir, int kvm, unsigned timeout_ms, struct err *e)
{
	own_fd int kernel = -1, initrd = -1;
	struct question q = { .kvm = kvm };
	int r = kernel_open(dir, &kernel, e);

	if (r == 0)
		r = kernel_cpu_template(dir, &q.plain_fpu, &q.acpi, e);
	if (r == 0)
		r = initramfs_make(dir, NULL, &initrd, e);
	if (r < 0)
		return r;
	q.kernel = kernel;
	q.initrd = initrd;
	return ask(&q, timeout_ms, e);
}
