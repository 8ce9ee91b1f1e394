/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory: private and shared mappings and what they share with reads and writes. */
#include <pthread.h>
#include <sys/mman.h>

#include "guest.h"

static char *map(int fd, int prot, int flags)
{
	void *p = mmap(NULL, 4096, prot, flags, fd, 0);

	if (p == MAP_FAILED)
		need("mmap", -1);
	return p;
}

CASE(shared)
{
	char buf[16], *p, *q;
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600));

	need("write", write(fd, "hello world", 11));
	p = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	q = map(fd, PROT_READ, MAP_SHARED);
	say_bytes("reads", p, 11);
	memcpy(p, "HELLO", 5);
	say_bytes("the other mapping", q, 11);
	need("pread", pread(fd, buf, 11, 0));
	say_bytes("read", buf, 11);
	need("pwrite", pwrite(fd, "WORLD", 5, 6));
	say_bytes("written through the descriptor", p, 11);
	say("msync", msync(p, 4096, MS_SYNC));
	close(fd);
	p[0] = 'J';
	cat("f");
	say("unmap", munmap(p, 4096));
	say_is("behind the end are zeroes", q[11] == 0 && q[4095] == 0);
}

CASE(private)
{
	char *p;
	int fd;

	put("f", "original");
	fd = need_fd("f", open("f", O_RDONLY));
	p = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	memcpy(p, "changed!", 8);
	say_bytes("mine", p, 8);
	cat("f");
}

CASE(shared_between_processes)
{
	char *p;
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600));

	need("ftruncate", ftruncate(fd, 4096));
	p = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	if (fork() == 0) {
		int again = open("f", O_RDWR);
		char *q = map(again, PROT_READ | PROT_WRITE, MAP_SHARED);

		q[1] = 'c';
		p[2] = 'd';
		_exit(0);
	}
	wait(NULL);
	say_bytes("what the child wrote", p, 4);
}

CASE(rights)
{
	int r, w, n;

	put("f", "x");
	r = need_fd("r", open("f", O_RDONLY));
	w = need_fd("w", open("f", O_WRONLY));
	n = need_fd("n", open("f", O_PATH));
	say_is("shared writable of a read-only one",
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, r, 0) != MAP_FAILED);
	say("is", mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, r, 0) == MAP_FAILED ? -1 : 0);
	say("of a write-only one",
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, w, 0) == MAP_FAILED ? -1 : 0);
	say("of an O_PATH one",
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, n, 0) == MAP_FAILED ? -1 : 0);
	say("of a closed one",
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 99, 0) == MAP_FAILED ? -1 : 0);
	say("of a directory",
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, open(".", O_RDONLY), 0) == MAP_FAILED ? -1
											       : 0);
	say("odd offset", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, r, 1) == MAP_FAILED ? -1 : 0);
	say("no length", mmap(NULL, 0, PROT_READ, MAP_PRIVATE, r, 0) == MAP_FAILED ? -1 : 0);
	say("neither private nor shared",
		mmap(NULL, 4096, PROT_READ, 0, r, 0) == MAP_FAILED ? -1 : 0);
}

CASE(of_an_unlinked_file)
{
	char *p;
	int fd;

	put("f", "still here");
	fd = need_fd("f", open("f", O_RDWR));
	need("unlink", unlink("f"));
	p = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	close(fd);
	p[0] = 'S';
	say_bytes("mapped", p, 10);
}

CASE(of_a_system_file)
{
	int fd = need_fd("/etc/passwd", open("/etc/passwd", O_RDONLY));
	char *p = map(fd, PROT_READ, MAP_PRIVATE), buf[16];

	need("read", read(fd, buf, 16));
	say_is("the same as read", memcmp(p, buf, 16) == 0);
	p = map(need_fd("zero", open("/dev/zero", O_RDWR)), PROT_READ | PROT_WRITE, MAP_PRIVATE);
	say_is("zeroes", p[0] == 0 && p[4095] == 0);
	p[5] = 1;
	say_n("and memory", p[5]);
}

static void bus(int sig)
{
	(void)sig;
	printf("  SIGBUS\n");
	fflush(stdout);
	_exit(0);
}

CASE(behind_the_end)
{
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600));
	volatile char *p;

	need("ftruncate", ftruncate(fd, 8192));
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p[4096] = 1;
	need("ftruncate", ftruncate(fd, 100));
	signal(SIGBUS, bus);
	fflush(stdout);
	say_n("a page that is gone", p[4096]);
}

/* What was opened for reading stays so, also when a writer has the same file at the same number. */
CASE(reading_only)
{
	int rw, ro;
	char *p;

	put("f", "hello");
	rw = need_fd("f", open("f", O_RDWR));
	ro = need_fd("f", open("f", O_RDONLY));
	p = map(ro, PROT_READ, MAP_SHARED);
	say("mprotect", mprotect(p, 4096, PROT_READ | PROT_WRITE));
	p = map(ro, PROT_READ, MAP_PRIVATE);
	say("private", mprotect(p, 4096, PROT_READ | PROT_WRITE));
	p[0] = 'J';
	p = map(rw, PROT_READ, MAP_SHARED);
	say("of a writer", mprotect(p, 4096, PROT_READ | PROT_WRITE));
	p[0] = 'H';
	need("dup2", dup2(ro, rw));
	p = map(rw, PROT_READ, MAP_SHARED);
	say("after dup2", mprotect(p, 4096, PROT_READ | PROT_WRITE));
	cat("f");
}

CASE(mapping_is_access)
{
	struct timespec old[2] = { { .tv_sec = 1 }, { .tv_sec = 2 } };
	struct stat st;
	int fd;

	put("f", "hello");
	fd = need_fd("f", open("f", O_RDONLY));
	need("utimes", utimensat(AT_FDCWD, "f", old, 0));
	say_bytes("reads", map(fd, PROT_READ, MAP_PRIVATE), 5);
	need("stat", stat("f", &st));
	say_is("accessed", st.st_atim.tv_sec > 2);
	say_is("not changed", st.st_mtim.tv_sec == 2);
}

CASE(flags_that_are_none)
{
	int fd = need_fd("f", open("f", O_RDWR | O_CREAT, 0600));

	need("ftruncate", ftruncate(fd, 4096));
	say("every flag", mmap(NULL, 4096, PROT_READ, ~0, fd, 0) == MAP_FAILED ? -1 : 0);
	say("no type", mmap(NULL, 4096, PROT_READ, 0, fd, 0) == MAP_FAILED ? -1 : 0);
}

enum { THREADS = 4, ROUNDS = 400 };

struct reader {
	pthread_t id;
	char name[2];
	int wrong_bytes, unmapped, unclosed;
};

static void *map_again_and_again(void *arg)
{
	struct reader *r = arg;

	for (int i = 0; i < ROUNDS; i++) {
		int fd = need_fd(r->name, open(r->name, O_RDONLY));
		char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

		r->unmapped += p == MAP_FAILED;
		r->wrong_bytes += p != MAP_FAILED && p[0] != r->name[0];
		r->unclosed += close(fd) < 0;
		if (p != MAP_FAILED)
			munmap(p, 4096);
	}
	return NULL;
}

/* A number that one thread gave back is another's at once, and so is what is mapped by it. */
CASE(numbers_change_hands)
{
	struct reader all[THREADS] = { 0 };
	int wrong = 0, unmapped = 0, unclosed = 0;

	for (int i = 0; i < THREADS; i++) {
		all[i].name[0] = (char)('a' + i);
		put(all[i].name, all[i].name);
		need("thread", -pthread_create(&all[i].id, NULL, map_again_and_again, &all[i]));
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(all[i].id, NULL);
		wrong += all[i].wrong_bytes;
		unmapped += all[i].unmapped;
		unclosed += all[i].unclosed;
	}
	say_n("wrong bytes", wrong);
	say_n("not mapped", unmapped);
	say_n("not closed", unclosed);
}

/* So many names have been asked for since that nobody could remember them all. */
CASE(a_name_long_ago)
{
	int fd = need_fd("f", open("/usr/bin/env", O_RDONLY)), seen = 0;
	char line[4400];
	FILE *maps;
	char *m;

	m = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	say_is("mapped", m != MAP_FAILED);
	for (int i = 0; i < 20000; i++) {
		snprintf(line, sizeof(line), "no-such-name-%d", i);
		access(line, F_OK);
	}
	maps = fopen("/proc/self/maps", "r");
	while (maps && fgets(line, sizeof(line), maps))
		seen += strstr(line, "/usr/bin/env\n") != NULL;
	say_n("lines", seen);
	if (maps)
		fclose(maps);
}
