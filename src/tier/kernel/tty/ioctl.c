/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tty/ioctl.c - what a program asks of a terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "tier/kernel/ns/pid.h"
#include "tier/kernel/tty/tty.h"

#include "tier/kernel/io/iostate.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/file.h"

/* clang-format off */
enum { TERMIOS_BYTES = 36, TERMIOS2_BYTES = 44,
	/* by value: the headers of the two libcs do not all have them */
	CMD_TCGETS2 = (int)0x802c542a, CMD_TCSETS2 = 0x402c542b, CMD_TCSETSW2 = 0x402c542c, CMD_TCSETSF2 = 0x402c542d,
	CMD_GPTPEER = 0x5441, CMD_GPTLCK = (int)0x80045439, CMD_GPKT = (int)0x80045438, CMD_GEXCL = (int)0x80045440,
	CMD_SIG = 0x40045436, CBAUD_MASK = 0010017 };
/* clang-format on */

static int change_allowed(struct tty *t, struct task *task, bool master)
{
	return master ? 0 : tty_job_check(t, task, SIGTTOU);
}

static long set_termios(
	struct tty *t, struct task *task, uint64_t arg, unsigned how, bool with_speeds)
{
	struct gtermios new_t = t->t, old = t->t;
	size_t n = with_speeds ? TERMIOS2_BYTES : TERMIOS_BYTES;

	if (guest_read(task, &new_t, GVA(arg), n) < 0)
		return -EFAULT;
	if (how == TCSETSF)
		ldisc_flush_input(t);
	t->t = new_t;
	ldisc_mode_changed(t, &old);
	/* Without IXON nobody could start it again. */
	if (!(t->t.iflag & IXON))
		ldisc_stop(t, false);
	wait_wake(&t->slave_wait, 0); /* VMIN may be different now */
	return 0;
}

/* struct termio: 16-bit flags, 8 characters. */
struct gtermio {
	uint16_t iflag, oflag, cflag, lflag;
	uint8_t line, cc[8], pad;
};

static long get_termio(struct tty *t, struct task *task, uint64_t arg)
{
	struct gtermio o = { .iflag = (uint16_t)t->t.iflag,
		.oflag = (uint16_t)t->t.oflag,
		.cflag = (uint16_t)t->t.cflag,
		.lflag = (uint16_t)t->t.lflag,
		.line = t->t.line };

	memcpy(o.cc, t->t.cc, sizeof(o.cc));
	return guest_write(task, GVA(arg), &o, sizeof(o));
}

static long set_termio(struct tty *t, struct task *task, uint64_t arg, bool flush)
{
	struct gtermios old = t->t;
	struct gtermio o;

	if (guest_read(task, &o, GVA(arg), sizeof(o)) < 0)
		return -EFAULT;
	if (flush)
		ldisc_flush_input(t);
	t->t.iflag = (old.iflag & 0xffff0000) | o.iflag;
	t->t.oflag = (old.oflag & 0xffff0000) | o.oflag;
	t->t.cflag = (old.cflag & 0xffff0000) | o.cflag;
	t->t.lflag = (old.lflag & 0xffff0000) | o.lflag;
	t->t.line = o.line;
	memcpy(t->t.cc, o.cc, sizeof(o.cc));
	ldisc_mode_changed(t, &old);
	return 0;
}

static long set_size(struct tty *t, struct task *task, uint64_t arg)
{
	struct gwinsize s;

	if (guest_read(task, &s, GVA(arg), sizeof(s)) < 0)
		return -EFAULT;
	if (memcmp(&s, &t->size, sizeof(s)) == 0)
		return 0;
	t->size = s;
	tty_signal(t, SIGWINCH);
	return 0;
}

static bool is_controlling(struct tty *t, struct task *task)
{
	return t->session && task->proc->pgrp->session == t->session;
}

static long get_pgrp(struct tty *t, struct task *task, uint64_t arg, bool master)
{
	struct pgrp *g = t->session ? pgrp_find(task->k, t->session->tty_pgrp) : NULL;
	int32_t front = t->session ? t->session->tty_pgrp : 0;

	if (!master && !is_controlling(t, task))
		return -ENOTTY;
	if (pid_ns_of(task))
		front = g ? pgrp_nr(task, g) : 0;
	return guest_write_u32(task, GVA(arg), (uint32_t)front);
}

static long set_pgrp(struct tty *t, struct task *task, uint64_t arg, bool master)
{
	struct pgrp *g;
	int32_t id;
	int r = change_allowed(t, task, master);

	if (r == -EIO)
		return -ENOTTY;
	if (r < 0)
		return r;
	if (!is_controlling(t, task))
		return -ENOTTY;
	if (guest_read(task, &id, GVA(arg), sizeof(id)) < 0)
		return -EFAULT;
	if (id < 0)
		return -EINVAL;
	g = pgrp_at(task, id);
	if (!g)
		return -ESRCH;
	if (g->session != t->session)
		return -EPERM;
	t->session->tty_pgrp = g->id;
	return 0;
}

static long set_controlling(struct tty *t, struct task *task, struct file *f, uint64_t arg)
{
	struct proc *p = task->proc;
	struct session *s = p->pgrp->session;

	if (s->id == p->pid && s == t->session)
		return 0; /* is it already */
	if (s->id != p->pid || s->tty)
		return -EPERM;
	if (t->session) {
		/* Root may take it from another session. */
		if (arg != 1 || !task_capable(task, CAP_SYS_ADMIN))
			return -EPERM;
		tty_clear_session(t);
	}
	if (!file_readable(f) && !task_capable(task, CAP_SYS_ADMIN))
		return -EPERM;
	tty_set_session(t, p);
	return 0;
}

static long give_up_controlling(struct tty *t, struct task *task)
{
	if (!is_controlling(t, task))
		return -ENOTTY;
	tty_disassociate(task->proc);
	return 0;
}

static long flush(struct tty *t, struct task *task, uint64_t arg, bool master)
{
	bool in = arg == TCIFLUSH || arg == TCIOFLUSH, out = arg == TCOFLUSH || arg == TCIOFLUSH;
	uint8_t news = t->packet_news;
	int r = change_allowed(t, task, master);

	if (r < 0)
		return r;
	if (!in && !out)
		return -EINVAL;
	if (master) {
		/* Its input is the slave's output, and what it does itself is no news. */
		if (in)
			ldisc_flush_master(t);
		if (out)
			ldisc_flush_input(t);
		t->packet_news = news;
		return 0;
	}
	if (in)
		ldisc_flush_input(t);
	if (out)
		ldisc_flush_output(t);
	return 0;
}

static long flow(struct tty *t, struct task *task, uint64_t arg, bool master)
{
	int r = change_allowed(t, task, master);

	if (r < 0)
		return r;
	if (arg > TCION)
		return -EINVAL;
	if (arg == TCOOFF || arg == TCOON)
		ldisc_stop(t, arg == TCOOFF);
	return 0;
}

static long set_flag(struct task *task, uint64_t arg, bool *flag)
{
	uint32_t v;

	if (guest_read_u32(task, GVA(arg), &v) < 0)
		return -EFAULT;
	*flag = v != 0;
	return 0;
}

static long open_peer(struct tty *t, struct task *task, unsigned flags)
{
	int err;
	struct file *f = tty_open_peer(t, task, flags, &err);

	return f ? io_install(task, f, flags & O_CLOEXEC) : err;
}

static long master_only(struct tty *t, struct task *task, unsigned cmd, uint64_t arg)
{
	switch (cmd) {
	case TIOCGPTN:
		return guest_write_u32(task, GVA(arg), t->n);
	case TIOCSPTLCK:
		return set_flag(task, arg, &t->locked);
	case CMD_GPTLCK:
		return guest_write_u32(task, GVA(arg), t->locked);
	case TIOCPKT:
		return set_flag(task, arg, &t->packet);
	case CMD_GPKT:
		return guest_write_u32(task, GVA(arg), t->packet);
	case CMD_GPTPEER:
		return open_peer(t, task, (unsigned)arg);
	case CMD_SIG:
		if (arg == 0 || arg > GSIG_MAX)
			return -EINVAL;
		tty_signal(t, (int)arg);
		return 0;
	default:
		return -ENOTTY;
	}
}

static long termios_cmd(struct tty *t, struct task *task, unsigned cmd, uint64_t arg, bool master)
{
	int r;

	switch (cmd) {
	case TCGETS:
		return guest_write(task, GVA(arg), &t->t, TERMIOS_BYTES);
	case (unsigned)CMD_TCGETS2:
		return guest_write(task, GVA(arg), &t->t, TERMIOS2_BYTES);
	case TCGETA:
		return get_termio(t, task, arg);
	default:
		break;
	}
	r = change_allowed(t, task, master);
	if (r < 0)
		return r;
	switch (cmd) {
	case TCSETS:
	case TCSETSW:
	case TCSETSF:
		return set_termios(t, task, arg, cmd, false);
	case CMD_TCSETS2:
	case CMD_TCSETSW2:
		return set_termios(t, task, arg, TCSETS, true);
	case CMD_TCSETSF2:
		return set_termios(t, task, arg, TCSETSF, true);
	case TCSETA:
	case TCSETAW:
	case TCSETAF:
		return set_termio(t, task, arg, cmd == TCSETAF);
	default:
		return -ENOTTY;
	}
}

static bool is_termios_cmd(unsigned cmd)
{
	return (cmd >= TCGETS && cmd <= TCSETAF) || cmd == (unsigned)CMD_TCGETS2 ||
	       cmd == CMD_TCSETS2 || cmd == CMD_TCSETSW2 || cmd == CMD_TCSETSF2;
}

long tty_ioctl(struct file *f, struct task *task, unsigned cmd, uint64_t arg)
{
	bool master;
	struct tty *t = tty_of(f, &master);

	if (!master && t->hung_up)
		return cmd == TIOCSPGRP ? -ENOTTY : -EIO;
	if (is_termios_cmd(cmd))
		return termios_cmd(t, task, cmd, arg, master);
	switch (cmd) {
	case TIOCGWINSZ:
		return guest_write(task, GVA(arg), &t->size, sizeof(t->size));
	case TIOCSWINSZ:
		return set_size(t, task, arg);
	case TIOCGPGRP:
		return get_pgrp(t, task, arg, master);
	case TIOCSPGRP:
		return set_pgrp(t, task, arg, master);
	case TIOCGSID:
		if (!t->session || (!master && !is_controlling(t, task)))
			return -ENOTTY;
		return guest_write_u32(task, GVA(arg), (uint32_t)session_nr(task, t->session));
	case TIOCSCTTY:
		return set_controlling(t, task, f, arg);
	case TIOCNOTTY:
		return master ? -ENOTTY : give_up_controlling(t, task);
	case TCFLSH:
		return flush(t, task, arg, master);
	case TCXONC:
		return flow(t, task, arg, master);
	case TCSBRK:
	case TCSBRKP:
	case TIOCSBRK:
	case TIOCCBRK:
		return 0; /* a line break goes nowhere; draining: the bytes are with the master */
	case FIONREAD:
		return guest_write_u32(task, GVA(arg), master ? t->out_len : ldisc_available(t));
	case TIOCOUTQ:
		return guest_write_u32(task, GVA(arg), master ? 0 : t->out_len);
	case TIOCGETD:
		return guest_write_u32(task, GVA(arg), 0);
	case TIOCSETD: {
		uint32_t d;

		if (guest_read_u32(task, GVA(arg), &d) < 0)
			return -EFAULT;
		return d == 0 ? 0 : -EINVAL;
	}
	case TIOCEXCL:
		t->excl = true;
		return 0;
	case TIOCNXCL:
		t->excl = false;
		return 0;
	case (unsigned)CMD_GEXCL:
		return guest_write_u32(task, GVA(arg), t->excl);
	case TIOCSTI:
		return -EIO; /* as Linux answers since it was found to be a hole */
	default:
		return master ? master_only(t, task, cmd, arg) : -ENOTTY;
	}
}
