/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_files.c - the file calls of the kernel tier with any arguments, from a fake guest.
 *
 * Input: groups of bytes, each a call: which one, then its arguments, each chosen from descriptors,
 * paths, buffers, small and wild numbers. The kernel must neither crash nor hang, and at the end
 * nothing may be left in its tables.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/ckd.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/vfs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CALLS_MAX = 200 };

static const uint16_t calls[] = { SYS_read, SYS_write, SYS_open, SYS_close, SYS_stat, SYS_fstat,
	SYS_lstat, SYS_lseek, SYS_pread64, SYS_pwrite64, SYS_readv, SYS_writev, SYS_access, SYS_dup,
	SYS_dup2, SYS_sendfile, SYS_fcntl, SYS_flock, SYS_truncate, SYS_ftruncate, SYS_getdents,
	SYS_getcwd, SYS_chdir, SYS_fchdir, SYS_rename, SYS_mkdir, SYS_rmdir, SYS_creat, SYS_link,
	SYS_unlink, SYS_symlink, SYS_readlink, SYS_chmod, SYS_fchmod, SYS_chown, SYS_fchown,
	SYS_lchown, SYS_umask, SYS_utime, SYS_mknod, SYS_statfs, SYS_fstatfs, SYS_chroot,
	SYS_setxattr, SYS_getxattr, SYS_listxattr, SYS_removexattr, SYS_fsetxattr, SYS_getdents64,
	SYS_utimes, SYS_openat, SYS_mkdirat, SYS_mknodat, SYS_fchownat, SYS_newfstatat,
	SYS_unlinkat, SYS_renameat, SYS_linkat, SYS_symlinkat, SYS_readlinkat, SYS_fchmodat,
	SYS_faccessat, SYS_utimensat, SYS_fallocate, SYS_dup3, SYS_preadv, SYS_pwritev,
	SYS_renameat2, SYS_memfd_create, SYS_copy_file_range, SYS_preadv2, SYS_pwritev2, SYS_statx,
	SYS_close_range, SYS_openat2, SYS_faccessat2, SYS_ioctl, SYS_fsync, SYS_pipe2 };

static const char *const paths[] = { "a", "b", "a/b", "a/b/c", "..", ".", "/", "", "a/", "b/../a",
	"/proc/self/fd/0", "/proc/self/fd", "/proc/self", "/proc/self/cwd/a", "/proc/self/exe",
	"/proc/1/status", "/proc/sys/kernel/hostname", "/proc/self/comm", "/proc/mounts",
	"/proc/self/task/1/stat", "/proc/self/maps", "/dev/null", "/dev/zero", "/dev/full",
	"/dev/urandom", "/dev/ptmx", "/dev/tty", "/dev/pts/0", "/sys/devices/system/cpu/online",
	"/dev/shm/x", "/tmp/f", "/proc/self/root/proc/self/root/a", "user.a", "trusted.b" };

struct input {
	const uint8_t *at, *end;
};

static unsigned byte(struct input *in)
{
	return in->at < in->end ? *in->at++ : 0;
}

static uint64_t argument(struct input *in, gva_t texts, gva_t buf)
{
	static const uint64_t wild[] = { 0, 1, (uint64_t)-1, INT64_MAX, (uint64_t)INT64_MIN,
		1ULL << 32, 0x7fffffff, 0x80000000, 4096, 65536, 0x7ffffffff000, 8, 1ULL << 40,
		(uint64_t)-100 };
	unsigned kind = byte(in), n = byte(in);

	switch (kind % 8) {
	case 0:
	case 1:
		return texts.v + (uint64_t)(n % ARRAY_LEN(paths)) * 64;
	case 2:
		return buf.v + n * 16;
	case 3:
		return wild[n % ARRAY_LEN(wild)];
	case 4:
		return (uint64_t)AT_FDCWD;
	case 5:
		return n | (uint64_t)byte(in) << 8 | (uint64_t)byte(in) << 16;
	default:
		return n % 8; /* a descriptor, most likely */
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct vfs_setup setup = { 0 };
	struct fake *g = fake_create();
	struct err e = { 0 };
	gva_t texts, buf;

	if (vfs_init(&g->k, &setup, &e) < 0)
		abort();
	g->task->fs = vfs_first_ctx(&g->k);
	g->task->proc->limits[RLIMIT_FSIZE].rlim_cur = 1 << 20; /* the fuzzer has little memory */
	texts = fake_alloc(g, 64 * ARRAY_LEN(paths));
	buf = fake_alloc(g, 65536);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		memcpy(fake_ptr(g, (gva_t){ texts.v + i * 64 }), paths[i], strlen(paths[i]) + 1);
	for (unsigned n = 0; n < CALLS_MAX && in.at < in.end; n++) {
		uint16_t nr = calls[byte(&in) % ARRAY_LEN(calls)];
		uint64_t a[6];

		for (unsigned i = 0; i < 6; i++)
			a[i] = argument(&in, texts, buf);
		/* What the guest's memory holds is its own business too. */
		((uint8_t *)fake_ptr(g, buf))[byte(&in) * 16 + byte(&in) % 16] = (uint8_t)byte(&in);
		if (fake_call_(g->task, nr, a) == SYS_BLOCK) {
			call_drop(g->task);
			g->task->call.active = false;
		}
	}
	procs_done(&g->k);
	vfs_done(&g->k);
	kernel_done(&g->k);
	free(g);
	return 0;
}
