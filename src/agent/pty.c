/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/pty.c - a new terminal.
 *
 * Owns:  nothing.
 * Rules: the other end is asked for through the master, not by a path that something inside could
 *        have put there.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>
#include <sys/ioctl.h>

#include "agent/process.h"
#include "base/own.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

int pty_open(struct pty *p, unsigned rows, unsigned cols)
{
	struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols };
	own_fd int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	own_fd int slave = -1, copy = -1;
	int unlock = 0;

	if (master < 0)
		return -errno;
	if (ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	if ((rows || cols) && ioctl(master, TIOCSWINSZ, &size) < 0)
		return -errno;
	copy = fcntl(master, F_DUPFD_CLOEXEC, 3);
	if (copy < 0)
		return -errno;
	p->master = take_fd(&master);
	p->master_in = take_fd(&copy);
	p->slave = take_fd(&slave);
	return 0;
}
