/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TESTS_GUEST_GUEST_H
#define WARD_TESTS_GUEST_GUEST_H

/*
 * One program per system call or behaviour, a CASE per thing that it must do. What a case prints is
 * compared between bare Linux and each tier, so it must be the same on every host: errno names,
 * booleans and differences, never inode numbers, times or pids.
 *
 * Each case runs in a child of its own, in an empty directory of its own that is the working
 * directory, with umask 022.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CASE(fn)                                                                                   \
	static void case_##fn(void);                                                               \
	__attribute__((constructor)) static void register_##fn(void)                               \
	{                                                                                          \
		guest_case(#fn, case_##fn);                                                        \
	}                                                                                          \
	static void case_##fn(void)

void guest_case(const char *name, void (*run)(void));

/* "EINVAL" for 22; "errno NNN" for one that has no row. */
const char *errno_name(int err);

/* Prints "  what: ok" or "  what: ENAME"; @r is what a libc call returned. Gives @r back. */
long say(const char *what, long r);
/* The same with the value that a successful call returned. */
long say_n(const char *what, long r);
void say_is(const char *what, bool yes);
void say_str(const char *what, const char *s);
/* The first @n bytes, what is not printable as \xHH. */
void say_bytes(const char *what, const void *p, size_t n);
/* type and permissions of @path as lstat sees them: "-rw-r--r-- 5" with the size of regular files
 */
void say_stat(const char *path);

/* A file with these contents; ends the case when that fails. */
void put(const char *path, const char *text);
/* Writes to a file that is there; ends the case when that fails. */
void put_into(const char *path, const char *text);
/* Prints the contents. */
void cat(const char *path);
/* A descriptor, or the end of the case. */
int need_fd(const char *what, int fd);
/* The end of the case unless @r is 0 or more. */
void need(const char *what, long r);

/* An address that no process has mapped. */
void *bad_ptr(void); /* a function, so that no compiler sees through it */
#define BAD_PTR bad_ptr()
/* A name of 300 bytes, and a path of 5000. */
const char *long_name(void);
const char *long_path(void);

/* Into a user namespace of one's own (and what @flags say), where 0 is 0 and nobody else is. */
void need_user_ns(int flags);
/* Into a network of one's own, with lo and nobody else in it. */
void need_own_network(void);

/* Runs @fn in a child, waits, and tells how that ended unless it was well. */
void in_child(void (*fn)(void));

/* In a child: becomes this user (no groups, no capabilities), runs @fn, waits. */
void as_user(unsigned uid, unsigned gid, void (*fn)(void));

#endif
