/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_TTY_TTY_H
#define WARD_TIER_KERNEL_TTY_TTY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "tier/kernel/io/iolimits.h"
#include "tier/kernel/task/wait.h"

/*
 * Pseudo-terminals. One struct tty is both ends:
 *
 *	master write -> ldisc input  -> in[]  -> slave read     (echo goes into out)
 *	slave write  -> ldisc output -> out   -> master read
 *
 * Sessions, foreground groups and the signals of job control hang on the slave side.
 */
struct kernel;
struct task;
struct proc;
struct file;
struct inode;
struct session;
struct walk;

/* struct termios as TCGETS2 has it; TCGETS leaves the speeds out. */
struct gtermios {
	uint32_t iflag, oflag, cflag, lflag;
	uint8_t line, cc[19];
	uint32_t ispeed, ospeed;
};

struct gwinsize {
	uint16_t row, col, xpixel, ypixel;
};

struct tty {
	unsigned refs; /* open files, and the session */
	struct kernel *k;
	uint32_t n;
	struct gtermios t;
	struct gwinsize size;
	struct session *session; /* whose controlling terminal it is; reference */

	uint32_t masters, slaves; /* open files of each end */
	bool slave_seen;          /* was ever open: then its absence is a hang-up */
	bool locked, hung_up, excl;
	bool packet;
	uint8_t packet_news; /* TIOCPKT_* for the master */

	/* Input, after the line discipline. A counter each; the place is counter % TTY_INPUT_MAX.
	 */
	uint32_t head, canon, tail; /* written to, complete lines up to, read from */
	uint8_t in[TTY_INPUT_MAX], flag[TTY_INPUT_MAX];
	/* Before it: what the master wrote while there was no room. */
	uint8_t *ahead;
	uint32_t ahead_len;
	bool lnext, stopped;
	uint32_t column, line_start; /* of the cursor; where the line being edited began */

	/* Output towards the master. */
	uint8_t *out;
	uint32_t out_cap, out_at, out_len;
	uint32_t echo_from; /* out_len when the present input began */

	struct wait_queue slave_wait, master_wait;
	struct tty *next;
};

enum { IN_LINE_END = 1, IN_EOF = 2 };

struct tty_state {
	struct tty *all;
	uint32_t count;
};

/* ttywalk.c: all terminals, numbered; and an end of one, which is counted there. */
void ttys_walk(struct kernel *k, struct walk *w);
void tty_file_walk(struct file *f, struct walk *w);

/* tty.c */
struct tty_state *tty_state(struct kernel *k); /* NULL: no memory */
void tty_done(struct kernel *k);
/* inode_ops.open of /dev/tty, /dev/console, /dev/ptmx and /dev/pts/N, by inode->rdev. */
int tty_open(struct inode *i, struct file *f, struct task *t);
/* The session's leader is gone: its terminal hangs up. From the end of a process. */
void tty_leader_gone(struct proc *leader);
struct tty *tty_ref(struct tty *t);
void tty_unref(struct tty *t);
void tty_hangup(struct tty *t);
/* Signals to the foreground group. */
void tty_signal(struct tty *t, int sig);
/* May @task read, write or change this terminal now? 0; -EIO; or -ERESTARTSYS with @sig sent. */
int tty_job_check(struct tty *t, struct task *task, int sig);
struct file *tty_open_peer(struct tty *t, struct task *task, unsigned flags, int *ret_err);
struct tty *tty_of(const struct file *f, bool *ret_master); /* NULL: not a terminal */
bool tty_set_session(struct tty *t, struct proc *leader);
void tty_clear_session(struct tty *t);
/* vhangup(2), TIOCNOTTY */
void tty_disassociate(struct proc *p);

/* ldisc.c */
void ldisc_init(struct tty *t);
/* Bytes from the master: how many were taken. */
size_t ldisc_input(struct tty *t, const uint8_t *p, size_t n);
/* Bytes from the slave: how many were taken (all, or as many as there is room for). */
size_t ldisc_output(struct tty *t, const uint8_t *p, size_t n);
/* Can a slave read anything? @min: how many bytes make it so in raw mode. */
bool ldisc_readable(const struct tty *t, unsigned min);
uint32_t ldisc_available(const struct tty *t);
/* Copies one read's worth; *ret_eof: it was an end of file. */
size_t ldisc_read(struct tty *t, uint8_t *p, size_t n, bool *ret_eof);
bool ldisc_room(const struct tty *t); /* for more from the master */
void ldisc_flush_input(struct tty *t);
void ldisc_flush_output(struct tty *t);
void ldisc_flush_master(struct tty *t); /* what it has not read */
void ldisc_stop(struct tty *t, bool stop);
/* The mode changed between lines and raw. */
void ldisc_mode_changed(struct tty *t, const struct gtermios *old);
bool out_add(struct tty *t, const uint8_t *p, size_t n);
size_t ahead_add(struct tty *t, const uint8_t *p, size_t n); /* how many there was room for */
size_t out_take(struct tty *t, uint8_t *p, size_t n);

/* ttyio.c, ioctl.c */
extern const struct file_ops tty_master_ops, tty_slave_ops;
long tty_ioctl(struct file *f, struct task *task, unsigned cmd, uint64_t arg);

#endif
