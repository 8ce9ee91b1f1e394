/* SPDX-License-Identifier: Apache-2.0 */
/* fallocate, copy_file_range, sendfile, memfd_create and its seals, sync, advice. */
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>

#include "guest.h"

CASE(allocate)
{
	struct stat st;
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600)), p[2];

	say("grow", fallocate(fd, 0, 0, 10000));
	say_stat("f");
	need("fstat", fstat(fd, &st));
	say_is("has blocks", st.st_blocks >= 16);
	say("keep the size", fallocate(fd, FALLOC_FL_KEEP_SIZE, 10000, 10000));
	say_stat("f");
	say("negative", fallocate(fd, 0, -1, 10));
	say("nothing", fallocate(fd, 0, 0, 0));
	say("negative length", fallocate(fd, 0, 0, -5));
	say("read-only", fallocate(open("f", O_RDONLY), 0, 0, 10));
	say("bad fd", fallocate(-1, 0, 0, 10));
	need("pipe", pipe(p));
	say("pipe", fallocate(p[1], 0, 0, 10));
	say("directory", fallocate(open(".", O_RDONLY), 0, 0, 10));
	say("too far", fallocate(fd, 0, 0x7fffffffffffff00, 0x1000));
	say("punch without keep size", fallocate(fd, FALLOC_FL_PUNCH_HOLE, 0, 10));
}

CASE(holes)
{
	char buf[8];
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600));

	for (int i = 0; i < 4096; i++)
		need("write", write(fd, "abcd", 4));
	say("punch", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096));
	need("pread", pread(fd, buf, 8, 4094));
	say_bytes("its edge", buf, 8);
	need("pread", pread(fd, buf, 8, 8190));
	say_bytes("its other edge", buf, 8);
	say_n("found by SEEK_HOLE", lseek(fd, 0, SEEK_HOLE));
	say_n("and SEEK_DATA", lseek(fd, 4096, SEEK_DATA));
	say("zero range", fallocate(fd, FALLOC_FL_ZERO_RANGE, 0, 100));
	need("pread", pread(fd, buf, 8, 96));
	say_bytes("zeroes", buf, 8);
	say("zero range past the end", fallocate(fd, FALLOC_FL_ZERO_RANGE, 16000, 1000));
	say_stat("f");
}

CASE(copy_range)
{
	loff_t in = 2, out = 1;
	int a, b;

	put("a", "0123456789");
	put("b", "abcdefghij");
	a = need_fd("a", open("a", O_RDWR));
	b = need_fd("b", open("b", O_RDWR));
	say_n("with offsets", copy_file_range(a, &in, b, &out, 3, 0));
	say_n("in", in);
	say_n("out", out);
	cat("b");
	say_n("without", copy_file_range(a, NULL, b, NULL, 100, 0));
	cat("b");
	say_n("at the end", copy_file_range(a, NULL, b, NULL, 100, 0));
	say("flags", copy_file_range(a, NULL, b, NULL, 1, 1));
	say("read-only out", copy_file_range(a, NULL, open("b", O_RDONLY), NULL, 1, 0));
	say("append", copy_file_range(a, NULL, open("b", O_WRONLY | O_APPEND), NULL, 1, 0));
	say("directory", copy_file_range(open(".", O_RDONLY), NULL, b, NULL, 1, 0));
	in = 0;
	out = 2;
	say("onto itself", copy_file_range(a, &in, a, &out, 5, 0));
	in = -1;
	say("negative", copy_file_range(a, &in, b, NULL, 1, 0) < 0 ? 0 : -1);
	say("bad fd", copy_file_range(-1, NULL, b, NULL, 1, 0));
}

CASE(send)
{
	char buf[32];
	off_t off = 3;
	int a, b, p[2];

	put("a", "0123456789");
	a = need_fd("a", open("a", O_RDONLY));
	b = need_fd("b", open("b", O_RDWR | O_CREAT, 0600));
	need("pipe", pipe(p));
	say_n("file to file", sendfile(b, a, NULL, 4));
	cat("b");
	say_n("offset moved", lseek(a, 0, SEEK_CUR));
	say_n("with an offset", sendfile(b, a, &off, 100));
	say_n("which moved", off);
	say_n("and the file's did not", lseek(a, 0, SEEK_CUR));
	say_n("file to pipe", sendfile(p[1], a, NULL, 100));
	say_n("came out", read(p[0], buf, sizeof(buf)));
	say_n("at the end", sendfile(b, a, NULL, 5));
	say("pipe to file", sendfile(b, p[0], NULL, 1));
	say("bad in", sendfile(b, -1, NULL, 1));
	say("bad out", sendfile(-1, a, NULL, 1));
	say("out is read-only", sendfile(a, a, NULL, 1));
	off = -1;
	say("negative", sendfile(b, a, &off, 1));
	say("bad address", sendfile(b, a, BAD_PTR, 1));
}

CASE(memory_file)
{
	char buf[16], path[64];
	int fd = (int)syscall(SYS_memfd_create, "some name", 3);
	void *p;

	need("memfd_create", fd);
	need("a size", ftruncate(fd, 4096));
	/* Read-only and private: the host's descriptor for it is not the one that writes. */
	{
		char *m = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

		say_is("mapped", m != MAP_FAILED);
		say("write", pwrite(fd, "hello", 5, 0));
		say_is("seen", m != MAP_FAILED && memcmp(m, "hello", 5) == 0);
		munmap(m, 4096);
	}
	need("no size", ftruncate(fd, 0));
	say_n("write", write(fd, "contents", 8));
	say_n("read", pread(fd, buf, 16, 0));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	need("readlink", readlink(path, buf, 6));
	say_bytes("its name", buf, 6);
	say_n("seals", fcntl(fd, F_GET_SEALS));
	say("truncate", ftruncate(fd, 4096));
	p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	say_is("maps", p != MAP_FAILED);
	memcpy(p, "CONT", 4);
	need("pread", pread(fd, buf, 8, 0));
	say_bytes("written through the mapping", buf, 8);
	say("seal while mapped", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	munmap(p, 4096);
	say("seal", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW));
	say_n("seals", fcntl(fd, F_GET_SEALS));
	say("write", write(fd, "x", 1));
	say("shrink", ftruncate(fd, 1));
	say("grow", ftruncate(fd, 10000));
	say_is("map to write",
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED);
	say_is("map to read", mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) != MAP_FAILED);
	say("the last seal", fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL));
	say("no more", fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
	fd = (int)syscall(SYS_memfd_create, "x", 0);
	say_n("not sealable", fcntl(fd, F_GET_SEALS));
	say("is not", fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	say("bad flags", syscall(SYS_memfd_create, "x", 0x100));
	say("bad name", syscall(SYS_memfd_create, BAD_PTR, 0));
	say("long name", syscall(SYS_memfd_create, long_name(), 0));
}

CASE(sync_and_advice)
{
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600)), p[2];

	need("pipe", pipe(p));
	say("fsync", fsync(fd));
	say("fdatasync", fdatasync(fd));
	say("fsync of a directory", fsync(open(".", O_RDONLY)));
	say("fsync of a pipe", fsync(p[0]));
	say("fsync of a bad one", fsync(-1));
	say("syncfs", syncfs(fd));
	say("syncfs of a bad one", syncfs(-1));
	say("advice", posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL) == 0 ? 0 : -1);
	say_n("bad advice", posix_fadvise(fd, 0, 0, 99) == EINVAL);
	say_n("advice for a pipe", posix_fadvise(p[0], 0, 0, 0) == ESPIPE);
	say("readahead", readahead(fd, 0, 100));
	say("readahead of a pipe", readahead(p[0], 0, 100));
	say("range", sync_file_range(fd, 0, 0, 2));
	say("range, bad flags", sync_file_range(fd, 0, 0, 99));
}

static volatile int too_large;

static void on_xfsz(int sig)
{
	too_large++;
}

CASE(a_limit_of_size)
{
	struct rlimit l = { 1000, RLIM_INFINITY };
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600));

	signal(SIGXFSZ, on_xfsz);
	need("setrlimit", setrlimit(RLIMIT_FSIZE, &l));
	say_n("write across it", pwrite(fd, "ab", 2, 999));
	say("write at it", pwrite(fd, "a", 1, 1000));
	say("truncate", ftruncate(fd, 1001));
	say("fallocate", fallocate(fd, 0, 500, 501));
	say("fallocate, inside", fallocate(fd, 0, 500, 500));
	say_n("signals", too_large);
}
