/* SPDX-License-Identifier: Apache-2.0 */
/* read, write, their positioned and vectored forms, lseek. */
#include <limits.h>
#include <sys/uio.h>

#include "guest.h"

CASE(plain)
{
	char buf[32];
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0644));

	say_n("write", write(fd, "hello world", 11));
	say_n("at the end", read(fd, buf, sizeof(buf)));
	say_n("seek", lseek(fd, 6, SEEK_SET));
	say_n("read", read(fd, buf, 3));
	say_bytes("got", buf, 3);
	say_n("read the rest", read(fd, buf, sizeof(buf)));
	say_n("pread", pread(fd, buf, 5, 0));
	say_bytes("got", buf, 5);
	say_n("pread past the end", pread(fd, buf, 5, 1000));
	say_n("offset", lseek(fd, 0, SEEK_CUR));
	say_n("zero bytes", write(fd, "", 0));
	say_n("zero bytes from nowhere", write(fd, BAD_PTR, 0));
	say_n("read zero bytes to nowhere", read(fd, BAD_PTR, 0));
}

CASE(errors)
{
	char buf[8];
	int fd, dir = need_fd(".", open(".", O_RDONLY));

	put("f", "0123456789");
	fd = need_fd("f", open("f", O_RDONLY));
	say("read to a bad address", read(fd, BAD_PTR, 4));
	say_n("which left the offset", lseek(fd, 0, SEEK_CUR));
	say("write to a read-only one", write(fd, "x", 1));
	say("pwrite at a negative offset", pwrite(fd, "x", 1, -1));
	say("pread at a negative offset", pread(fd, buf, 1, -1));
	close(fd);
	fd = need_fd("f", open("f", O_WRONLY));
	say("read of a write-only one", read(fd, buf, 1));
	say("write from a bad address", write(fd, BAD_PTR, 4));
	say("closed", read(999, buf, 1));
	say("closed, write", write(-1, buf, 1));
	say("directory", read(dir, buf, 1));
	say("directory, pread", pread(dir, buf, 1, 0));
	say("directory, write", write(dir, buf, 1));
	say_stat("f");
}

CASE(holes)
{
	char buf[16];
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0644));

	say_n("write far away", pwrite(fd, "end", 3, 100000));
	say_stat("f");
	memset(buf, 'x', sizeof(buf));
	say_n("read the hole", pread(fd, buf, 8, 5000));
	say_bytes("got", buf, 8);
	say_n("SEEK_DATA", lseek(fd, 0, SEEK_DATA) > 0);
	say_n("SEEK_HOLE", lseek(fd, 0, SEEK_HOLE));
	say_n("SEEK_HOLE at the end", lseek(fd, 100001, SEEK_HOLE));
	say("SEEK_DATA past the end", lseek(fd, 100003, SEEK_DATA));
	say("SEEK_HOLE past the end", lseek(fd, 200000, SEEK_HOLE));
	say("SEEK_DATA negative", lseek(fd, -1, SEEK_DATA));
}

CASE(seek)
{
	int fd;

	put("f", "0123456789");
	fd = need_fd("f", open("f", O_RDWR));
	say_n("end", lseek(fd, 0, SEEK_END));
	say_n("past the end", lseek(fd, 50, SEEK_END));
	say_n("back", lseek(fd, -5, SEEK_CUR));
	say("before the start", lseek(fd, -1, SEEK_SET));
	say("far before the start", lseek(fd, -100, SEEK_CUR));
	say_n("unchanged", lseek(fd, 0, SEEK_CUR));
	say("bad whence", lseek(fd, 0, 9));
	say("bad descriptor", lseek(-1, 0, SEEK_SET));
	say_n("largest", lseek(fd, LLONG_MAX, SEEK_SET) > 0 || errno == EINVAL);
	say("past the largest", lseek(fd, LLONG_MAX, SEEK_END));
}

CASE(vectors)
{
	char a[4], b[8];
	struct iovec out[] = { { (void *)"ab", 2 }, { NULL, 0 }, { (void *)"cdef", 4 } };
	struct iovec in[] = { { a, 3 }, { b, sizeof(b) } };
	struct iovec bad[] = { { (void *)"xy", 2 }, { BAD_PTR, 4 } };
	struct iovec huge[] = { { a, SSIZE_MAX }, { b, SSIZE_MAX } };
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0644));

	say_n("writev", writev(fd, out, 3));
	say_n("preadv", preadv(fd, in, 2, 1));
	say_bytes("first", a, 3);
	say_bytes("second", b, 2);
	say_n("pwritev", pwritev(fd, out, 1, 10));
	say_n("no vectors", writev(fd, out, 0));
	say("negative count", writev(fd, out, -1));
	say("too many", writev(fd, out, 1025));
	say("bad array", writev(fd, BAD_PTR, 2));
	say("sum too large", readv(fd, huge, 2));
	say("preadv negative offset", preadv(fd, in, 2, -1));
	say("bad descriptor", readv(-1, in, 2));
	need("seek", lseek(fd, 0, SEEK_SET));
	say_n("readv", readv(fd, in, 2));
	say_n("second part bad", writev(fd, bad, 2) > 0 || errno == EFAULT);
	say_n("preadv2, at the offset", syscall(SYS_preadv2, fd, in, 1, -1, -1, 0) >= 0);
	say("preadv2, unknown flag", syscall(SYS_preadv2, fd, in, 1, 0, 0, 0x10000));
	say_n("pwritev2 append", syscall(SYS_pwritev2, fd, out, 1, 0, 0, 0x10));
}

CASE(shared_offset)
{
	char buf[4] = "";
	int fd, copy, other;

	put("f", "abcdefgh");
	fd = need_fd("f", open("f", O_RDONLY));
	copy = need_fd("dup", dup(fd));
	other = need_fd("f", open("f", O_RDONLY));
	need("read", read(fd, buf, 2));
	say_n("a dup shares it", lseek(copy, 0, SEEK_CUR));
	say_n("another open does not", lseek(other, 0, SEEK_CUR));
	if (fork() == 0) {
		need("read", read(fd, buf, 3));
		_exit(0);
	}
	wait(NULL);
	say_n("a child shares it", lseek(fd, 0, SEEK_CUR));
}

CASE(large)
{
	size_t n = 3 << 20, bad = 0;
	unsigned char *a = malloc(n), *b = malloc(n);
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0644));

	for (size_t i = 0; i < n; i++)
		a[i] = (unsigned char)(i * 7 + (i >> 9));
	say_n("write 3 MiB", write(fd, a, n));
	say_n("read it back", pread(fd, b, n, 0));
	for (size_t i = 0; i < n; i++)
		bad += a[i] != b[i];
	say_n("bytes that differ", (long)bad);
	say_n("read from an odd place", pread(fd, b, n, 12345));
	say_is("which is right", memcmp(b, a + 12345, n - 12345) == 0);
}

CASE(file_size_limit)
{
	put("f", "abc");
	say("ftruncate beyond all limits", truncate("f", LLONG_MAX) == 0       ? 0
					   : errno == EFBIG || errno == EINVAL ? 0
									       : -1);
	say_is("size is sane", access("f", R_OK) == 0);
}

/* A position that no number could hold. */
CASE(behind_the_end_of_all)
{
	const off_t far = INT64_MAX - 1;
	char b[8] = "1234567";
	int fd;

	put("f", "text");
	fd = need_fd("f", open("f", O_RDWR));
	say("read", pread(fd, b, 8, far));
	say("write", pwrite(fd, b, 8, far));
	say_n("nothing", pread(fd, b, 1, far));
	cat("f");
}
