/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/proc_config.c - /proc/config.gz: what this kernel has, in Linux' words.
 *
 * Owns:  nothing.
 * Rules: an option is here when the calls behind it work. A program that wants to know whether
 *        something is missing on purpose looks here; test suites do.
 */
#include <stdint.h>
#include <string.h>

#include "base/ckd.h"
#include "tier/kernel/fs/proc.h"

/* clang-format off */
static const char *const has[] = {
	"64BIT", "X86_64", "SMP", "MMU", "MULTIUSER", "SYSVIPC", "SYSVIPC_SYSCTL", "POSIX_MQUEUE",
	"POSIX_TIMERS", "HIGH_RES_TIMERS", "FUTEX", "EPOLL", "SIGNALFD", "TIMERFD", "EVENTFD", "AIO",
	"SHMEM", "ADVISE_SYSCALLS", "MEMBARRIER", "RSEQ", "KCMP", "SECCOMP", "SECCOMP_FILTER", "KEYS",
	"BIG_KEYS", "CROSS_MEMORY_ATTACH", "FILE_LOCKING", "DNOTIFY", "INOTIFY_USER", "FANOTIFY", "FHANDLE",
	"TMPFS", "TMPFS_XATTR", "PROC_FS", "PROC_SYSCTL", "SYSFS", "DEVTMPFS", "UNIX98_PTYS",
	"OVERLAY_FS", "BLK_DEV_LOOP", "NET", "UNIX", "INET", "IPV6", "CHECKPOINT_RESTORE",
	"SECURITY", "SECURITY_LANDLOCK", "BINFMT_ELF", "BINFMT_SCRIPT", "IKCONFIG", "IKCONFIG_PROC",
};
static const char *const lacks[] = {
	"NAMESPACES", "CGROUPS", "SWAP", "MODULES", "NUMA", "HUGETLBFS", "USERFAULTFD", "IO_URING",
	"PERF_EVENTS", "BPF_SYSCALL", "BSD_PROCESS_ACCT", "QUOTA", "PREEMPT_RT", "KVM",
};
/* clang-format on */

static void put_u32(struct buf *out, uint32_t v)
{
	uint8_t b[4] = { (uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24) };

	buf_add(out, b, sizeof(b));
}

static uint32_t crc32_of(const char *p, size_t n)
{
	uint32_t crc = 0xffffffffu;

	while (n--) {
		crc ^= (uint8_t)*p++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

/* A gzip file of one block that is not compressed. */
void proc_show_config(const struct proc_ctx *c, struct buf *out)
{
	static const uint8_t head[] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1 /* last, stored */ };
	own_buf struct buf text;

	buf_init(&text, UINT16_MAX);
	for (size_t i = 0; i < ARRAY_LEN(has); i++)
		buf_add_fmt(&text, "CONFIG_%s=y\n", has[i]);
	for (size_t i = 0; i < ARRAY_LEN(lacks); i++)
		buf_add_fmt(&text, "# CONFIG_%s is not set\n", lacks[i]);
	if (text.bad)
		return;
	buf_add(out, head, sizeof(head));
	put_u32(out, (uint32_t)text.len | (uint32_t)~text.len << 16);
	buf_add(out, text.data, text.len);
	put_u32(out, crc32_of(text.data, text.len));
	put_u32(out, (uint32_t)text.len);
}
