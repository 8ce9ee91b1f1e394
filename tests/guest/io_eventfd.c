/* SPDX-License-Identifier: Apache-2.0 */
/* eventfd: counter, semaphore mode, limits, poll. */
#include "io.h"

#include <sys/eventfd.h>

CASE(errors)
{
	uint64_t v = 0;

	R(eventfd(0, 0x7f000));
	int e = eventfd(0, EFD_NONBLOCK);
	B(e >= 0);
	R(read(e, &v, 7));
	R(read(e, &v, 8));
	R(write(e, &v, 7));
	v = UINT64_MAX;
	R(write(e, &v, 8));
	R(write(e, BADP, 8));
	v = 1;
	R(write(e, &v, 8));
	R(read(e, BADP, 8));
	R(lseek(e, 0, SEEK_SET));
	R(pread(e, &v, 8, 0));
}

CASE(counting)
{
	uint64_t v = 5;
	char big[16];
	int e = eventfd(3, EFD_NONBLOCK);

	io_show_poll("3", e);
	R(write(e, &v, 8));
	R(read(e, big, 16));
	memcpy(&v, big, 8);
	printf("%llu\n", (unsigned long long)v);
	io_show_poll("0", e);
	v = UINT64_MAX - 1;
	R(write(e, &v, 8));
	io_show_poll("max", e);
	v = 1;
	R(write(e, &v, 8));
	v = 0;
	R(write(e, &v, 8));
	R(read(e, &v, 8));
	B(v == UINT64_MAX - 1);
}

CASE(semaphore)
{
	uint64_t v = 0;
	int e = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK);

	R(read(e, &v, 8));
	printf("%llu\n", (unsigned long long)v);
	R(read(e, &v, 8));
	R(read(e, &v, 8));
}

CASE(blocks)
{
	uint64_t v = 7;
	int e = eventfd(0, 0);

	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		io_nap(30);
		write(e, &v, 8);
		_exit(0);
	}
	v = 0;
	R(read(e, &v, 8));
	printf("%llu\n", (unsigned long long)v);
	io_reap(c);
	v = UINT64_MAX - 1;
	R(write(e, &v, 8));
	fflush(stdout);
	c = fork();
	if (c == 0) {
		io_nap(30);
		read(e, &v, 8);
		_exit(0);
	}
	v = 9;
	R(write(e, &v, 8));
	io_reap(c);
	v = 0;
	R(read(e, &v, 8));
	printf("%llu\n", (unsigned long long)v);
	io_on(SIGUSR1, 0);
	c = io_kick(SIGUSR1, 30);
	R(read(e, &v, 8));
	io_reap(c);
}
