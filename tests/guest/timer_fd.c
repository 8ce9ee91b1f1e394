/* SPDX-License-Identifier: Apache-2.0 */
/* timerfd: arming, reading, intervals, errors. */
#include "io.h"

#include <sys/timerfd.h>

CASE(errors)
{
	struct itimerspec it = { { 0, 0 }, { 0, 1 } };
	uint64_t v;
	int p[2];

	R(timerfd_create(99, 0));
	R(timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0));
	R(timerfd_create(CLOCK_MONOTONIC, 0x11));
	OK(timerfd_create(CLOCK_BOOTTIME, 0));
	int t = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	B(t >= 0);
	R(read(t, &v, 8));
	R(read(t, &v, 7));
	R(write(t, &v, 8));
	NEED(pipe(p));
	R(timerfd_settime(p[0], 0, &it, NULL));
	R(timerfd_settime(999, 0, &it, NULL));
	R(timerfd_settime(t, 0x10, &it, NULL));
	R(timerfd_settime(t, 0, BADP, NULL));
	it.it_value.tv_nsec = 1000000000;
	R(timerfd_settime(t, 0, &it, NULL));
	it.it_value.tv_nsec = -1;
	R(timerfd_settime(t, 0, &it, NULL));
	R(timerfd_gettime(p[0], &it));
	R(timerfd_gettime(t, BADP));
	R(timerfd_gettime(999, &it));
	it = (struct itimerspec){ { 0, 0 }, { 5, 0 } };
	R(timerfd_settime(t, 0, &it, BADP));
}

CASE(once)
{
	struct itimerspec it = { { 0, 0 }, { 0, 30000000 } }, old;
	uint64_t v = 0;
	int t = timerfd_create(CLOCK_MONOTONIC, 0);

	R(timerfd_settime(t, 0, &it, NULL));
	io_show_poll("armed", t);
	R(timerfd_gettime(t, &old));
	B(old.it_value.tv_sec == 0 && old.it_value.tv_nsec > 0 && old.it_value.tv_nsec <= 30000000);
	B(old.it_interval.tv_sec == 0 && old.it_interval.tv_nsec == 0);
	R(read(t, &v, 8));
	printf("%llu\n", (unsigned long long)v);
	R(timerfd_gettime(t, &old));
	B(old.it_value.tv_sec == 0 && old.it_value.tv_nsec == 0);
	fcntl(t, F_SETFL, O_NONBLOCK);
	R(read(t, &v, 8));
	R(timerfd_settime(t, 0, &it, NULL));
	struct pollfd f = { t, POLLIN, 0 };
	R(poll(&f, 1, 2000));
	/* setting again forgets what was not read */
	R(timerfd_settime(t, 0, &it, NULL));
	R(read(t, &v, 8));
	it.it_value.tv_nsec = 0;
	R(timerfd_settime(t, 0, &it, &old));
	B(old.it_value.tv_nsec > 0);
}

CASE(interval)
{
	struct itimerspec it = { { 0, 10000000 }, { 0, 10000000 } };
	uint64_t v = 0;
	int t = timerfd_create(CLOCK_MONOTONIC, 0);

	R(timerfd_settime(t, 0, &it, NULL));
	io_nap(65);
	R(read(t, &v, 8));
	B(v >= 5);
	R(timerfd_gettime(t, &it));
	B(it.it_interval.tv_nsec == 10000000 && it.it_value.tv_nsec <= 10000000);
	R(read(t, &v, 8));
	B(v >= 1);
}

CASE(absolute)
{
	struct itimerspec it;
	uint64_t v;
	int t = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK);

	memset(&it, 0, sizeof(it));
	it.it_value.tv_sec = 1; /* long ago */
	R(timerfd_settime(t, TFD_TIMER_ABSTIME, &it, NULL));
	R(read(t, &v, 8));
	printf("%llu\n", (unsigned long long)v);
	clock_gettime(CLOCK_REALTIME, &it.it_value);
	it.it_value.tv_sec += 100;
	R(timerfd_settime(t, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &it, NULL));
	R(read(t, &v, 8));
	R(timerfd_gettime(t, &it));
	B(it.it_value.tv_sec <= 100 && it.it_value.tv_sec > 90);
}
