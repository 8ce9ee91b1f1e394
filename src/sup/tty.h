/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_SUP_TTY_H
#define WARD_SUP_TTY_H

#include <stdbool.h>
#include <termios.h>

/* The operator's terminal while a command inside has one of its own (-t). */
struct tty {
	bool raw;
	int fd;
	struct termios before;
};

/* Raw mode, when @fd is a terminal; otherwise nothing. */
void tty_raw(struct tty *t, int fd);
void tty_restore(struct tty *t);
/* Its size; 0, 0 when it is not a terminal. */
void tty_size(int fd, unsigned short *ret_rows, unsigned short *ret_cols);

#endif
