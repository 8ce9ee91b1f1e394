/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/tty.c - the operator's terminal.
 *
 * Owns:  its mode while raw.
 * Rules: whatever happens, tty_restore() puts it back; ward has no other way out of its loop.
 */
#include <sys/ioctl.h>
#include <unistd.h>

#include "sup/tty.h"

void tty_raw(struct tty *t, int fd)
{
	struct termios raw;

	*t = (struct tty){ .fd = fd };
	if (tcgetattr(fd, &t->before) < 0)
		return;
	raw = t->before;
	cfmakeraw(&raw);
	t->raw = tcsetattr(fd, TCSADRAIN, &raw) == 0;
}

void tty_restore(struct tty *t)
{
	if (t->raw)
		tcsetattr(t->fd, TCSADRAIN, &t->before);
	t->raw = false;
}

void tty_size(int fd, unsigned short *ret_rows, unsigned short *ret_cols)
{
	struct winsize w;

	*ret_rows = *ret_cols = 0;
	if (ioctl(fd, TIOCGWINSZ, &w) == 0) {
		*ret_rows = w.ws_row;
		*ret_cols = w.ws_col;
	}
}
