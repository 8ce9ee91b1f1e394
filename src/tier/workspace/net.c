/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/net.c - no network, or the loopback alone.
 *
 * Owns:  the filter for hosts that give no network namespace.
 * Rules: runs in the first process. The namespace itself comes with its clone.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <net/if.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/ckd.h"
#include "base/own.h"
#include "host/host.h"
#include "tier/workspace/ws.h"

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#else
#error "add this machine's number for the filter"
#endif

/* Sockets other than unix ones do not come into being; a call of another architecture ends it. */
static int no_sockets(void)
{
	static const struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
	};
	const struct sock_fprog prog = { ARRAY_LEN(code), (struct sock_filter *)code };

	return host_seccomp(0, &prog);
}

static int loopback_up(void)
{
	own_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };

	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &ifr) < 0)
		return -errno;
	return 0;
}

int ws_net(const struct ws_box *b, struct err *e)
{
	int r = 0;

	if (b->box.plan->net == NET_LOOPBACK)
		r = loopback_up();
	else if (b->box.plan->net == NET_NONE && b->mode == WORKSPACE_PLAIN)
		r = no_sockets();
	return r < 0 ? err_set(e, -r, "closing the network") : 0;
}
