/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/trial.c - does this kernel really come up on this host's KVM?
 *
 * Owns:  one small machine, gone when the answer is there.
 * Rules: a /dev/kvm proves nothing: on some of them no Linux boots. The guest's init must have
 * called us before the time is over.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/vm/console.h"
#include "tier/vm/machine.h"
#include "tier/vm/virtio/vsock.h"
#include "tier/vm/vm.h"

enum { TRIAL_MEMORY_MIB = 256 };

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

/* In a child: 0 when the guest called. */
static int boot(const struct question *q, struct err *e)
{
	struct trial *t = calloc(1, sizeof(*t)); /* the child's end frees it */
	struct machine_config c = { .kvm = q->kvm,
		.memory_bytes = (uint64_t)TRIAL_MEMORY_MIB << 20,
		.cpus = 1,
		.plain_fpu = q->plain_fpu,
		.console = on_console,
		.arg = t };
	struct boot_request b = {
		.kernel = q->kernel,
		.initrd = q->initrd,
		.acpi = q->acpi,
		.serial = true,
		.cmdline =
			"console=ttyS0 quiet loglevel=1 panic=-1 reboot=k tsc=reliable ward.trial=1"
	};
	int r = t ? machine_create(&t->machine, &c, e) : err_set(e, ENOMEM, "a trial machine");

	if (r < 0)
		return r;
	vsock_init(&t->vsock, VM_CID, &t->machine.events, on_dial, t, &t->machine.mem,
		machine_raise, machine_place(&t->machine, 0));
	r = machine_attach(&t->machine, &t->vsock.dev, e);
	if (r == 0)
		r = machine_boot(&t->machine, &b, e);
	if (r == 0)
		r = machine_run(&t->machine, e);
	if (r == 0 && !t->called)
		r = err_say(e, EIO, "the guest ended before it came up: %s; its last words: %s",
			t->machine.why, console_words(&t->console));
	return r;
}

/* In a process of its own, which is ended whatever it does. */
static int ask(const struct question *q, unsigned timeout_ms, struct err *e)
{
	int pipe[2], status = 0, r = host_pipe(pipe);
	struct pollfd wait;
	pid_t pid;

	if (r < 0)
		return err_set(e, -r, "a pipe for the trial");
	pid = fork();
	if (pid == 0) {
		struct err said = { 0 };

		prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
		boot(q, &said);
		if (write(pipe[1], &said, sizeof(said)) != (ssize_t)sizeof(said))
			_exit(1);
		_exit(0);
	}
	close(pipe[1]);
	wait = (struct pollfd){ .fd = pipe[0], .events = POLLIN };
	if (pid < 0)
		r = err_set(e, errno, "forking for the trial");
	else if (poll(&wait, 1, (int)timeout_ms) <= 0)
		r = err_say(e, ETIMEDOUT,
			"the guest did not come up within %u s on this host's KVM",
			timeout_ms / 1000);
	else if (read(pipe[0], e, sizeof(*e)) != (ssize_t)sizeof(*e))
		r = err_say(e, EIO, "the trial machine crashed");
	else
		r = -e->code;
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
