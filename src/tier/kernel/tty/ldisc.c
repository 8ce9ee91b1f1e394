/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tty/ldisc.c - the line discipline: editing, echo, signals, and what a newline becomes.
 *
 * Owns:  the input ring and the output buffer of a tty.
 * Rules: in line mode a reader sees only what lies before tty.canon; the line being edited lies
 *        between canon and head. An end of file is a mark in the ring, not a byte for the reader.
 */
#include <ctype.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>

#include "tier/kernel/tty/tty.h"

#include "tier/kernel/kernel.h"

#define CC(t, i) ((t)->t.cc[i])
#define LFLAG(t, f) ((t)->t.lflag & (f))
#define IFLAG(t, f) ((t)->t.iflag & (f))
#define OFLAG(t, f) ((t)->t.oflag & (f))

enum {
	DISABLED = 0,
	TAB = 8,
	OUT_FIRST = 4096,
	OUT_SLACK = 512, /* echo may use this much more */
	TIOCPKT_FLUSHREAD_ = 1,
	TIOCPKT_FLUSHWRITE_ = 2,
	TIOCPKT_STOP_ = 4,
	TIOCPKT_START_ = 8
};

void ldisc_init(struct tty *t)
{
	static const uint8_t cc[19] = { [VINTR] = 3,
		[VQUIT] = 28,
		[VERASE] = 127,
		[VKILL] = 21,
		[VEOF] = 4,
		[VTIME] = 0,
		[VMIN] = 1,
		[VSTART] = 17,
		[VSTOP] = 19,
		[VSUSP] = 26,
		[VREPRINT] = 18,
		[VDISCARD] = 15,
		[VWERASE] = 23,
		[VLNEXT] = 22 };

	t->t = (struct gtermios){ .iflag = ICRNL | IXON,
		.oflag = OPOST | ONLCR,
		.cflag = B38400 | CS8 | CREAD,
		.lflag = ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
		.ispeed = 38400,
		.ospeed = 38400 };
	memcpy(t->t.cc, cc, sizeof(cc));
}

/* Output */

static bool out_grow(struct tty *t, size_t n)
{
	uint32_t cap = t->out_cap ? t->out_cap : OUT_FIRST;
	uint8_t *p;

	while (cap < t->out_len + n)
		cap *= 2;
	if (cap == t->out_cap)
		return true;
	p = malloc(cap);
	if (!p)
		return false;
	for (uint32_t i = 0; i < t->out_len; i++)
		p[i] = t->out[(t->out_at + i) % t->out_cap];
	free(t->out);
	t->out = p;
	t->out_cap = cap;
	t->out_at = 0;
	return true;
}

bool out_add(struct tty *t, const uint8_t *p, size_t n)
{
	if (t->out_len + n > TTY_OUTPUT_MAX + OUT_SLACK || !out_grow(t, n))
		return false;
	for (size_t i = 0; i < n; i++)
		t->out[(t->out_at + t->out_len + i) % t->out_cap] = p[i];
	t->out_len += (uint32_t)n;
	return true;
}

size_t out_take(struct tty *t, uint8_t *p, size_t n)
{
	if (n > t->out_len)
		n = t->out_len;
	for (size_t i = 0; i < n; i++)
		p[i] = t->out[(t->out_at + i) % t->out_cap];
	t->out_at = t->out_cap ? (uint32_t)((t->out_at + n) % t->out_cap) : 0;
	t->out_len -= (uint32_t)n;
	return n;
}

static void put(struct tty *t, uint8_t c)
{
	out_add(t, &c, 1); /* a full buffer loses echo, as a slow terminal does */
}

static void put_tab(struct tty *t)
{
	unsigned n = TAB - t->column % TAB;

	t->column += n;
	if (OFLAG(t, TABDLY) == XTABS)
		out_add(t, (const uint8_t *)"        ", n);
	else
		put(t, '\t');
}

/* One byte with output processing. */
static void output_char(struct tty *t, uint8_t c)
{
	if (!OFLAG(t, OPOST)) {
		put(t, c);
		return;
	}
	switch (c) {
	case '\n':
		if (OFLAG(t, ONLRET))
			t->column = 0;
		if (OFLAG(t, ONLCR)) {
			t->column = 0;
			out_add(t, (const uint8_t *)"\r\n", 2);
			return;
		}
		break;
	case '\r':
		if (OFLAG(t, ONOCR) && t->column == 0)
			return;
		if (OFLAG(t, OCRNL)) {
			c = '\n';
			if (OFLAG(t, ONLRET))
				t->column = 0;
		} else {
			t->column = 0;
		}
		break;
	case '\t':
		put_tab(t);
		return;
	case '\b':
		if (t->column > 0)
			t->column--;
		break;
	default:
		if (OFLAG(t, OLCUC))
			c = (uint8_t)toupper(c);
		if (!iscntrl(c) && !(IFLAG(t, IUTF8) && (c & 0xc0) == 0x80))
			t->column++;
	}
	put(t, c);
}

size_t ldisc_output(struct tty *t, const uint8_t *p, size_t n)
{
	size_t done = 0;

	while (done < n && t->out_len + TAB < TTY_OUTPUT_MAX)
		output_char(t, p[done++]);
	if (done)
		wait_wake(&t->master_wait, POLLIN | POLLRDNORM);
	return done;
}

/* Echo */

static void echo(struct tty *t, uint8_t c)
{
	if (LFLAG(t, ECHOCTL) && iscntrl(c) && c != '\t' && c != '\n') {
		put(t, '^');
		put(t, c ^ 0x40);
		t->column += 2;
		return;
	}
	output_char(t, c);
}

static bool is_control(const struct tty *t, uint8_t c)
{
	return LFLAG(t, ECHOCTL) && iscntrl(c) && c != '\t' && c != '\n';
}

static uint8_t at(const struct tty *t, uint32_t n)
{
	return t->in[n % TTY_INPUT_MAX];
}

/* How wide the line being edited is up to, not including, @end. */
static uint32_t width_to(const struct tty *t, uint32_t end)
{
	uint32_t col = t->line_start;

	for (uint32_t i = t->canon; i != end; i++) {
		uint8_t c = at(t, i);

		if (c == '\t')
			col += TAB - col % TAB;
		else if (is_control(t, c))
			col += 2;
		else if (!iscntrl(c) && !(IFLAG(t, IUTF8) && (c & 0xc0) == 0x80))
			col++;
	}
	return col;
}

static void rub_out(struct tty *t, uint32_t cols)
{
	while (cols-- > 0) {
		out_add(t, (const uint8_t *)"\b \b", 3);
		if (t->column > 0)
			t->column--;
	}
}

static bool goes_on(const struct tty *t, uint8_t c)
{
	return IFLAG(t, IUTF8) && (c & 0xc0) == 0x80;
}

/* Takes the last character off the line, and off the screen; false: there is no whole one. */
static bool erase_one(struct tty *t, bool show)
{
	uint32_t end = t->head, start = end, before, after;
	uint8_t c = 0;

	while (start != t->canon && (start == end || goes_on(t, c)))
		c = at(t, --start);
	if (start == end || goes_on(t, c))
		return false;
	t->head = start;
	if (!show)
		return true;
	if (c == '\t') {
		after = width_to(t, end);
		before = width_to(t, t->head);
		for (; after > before; after--)
			put(t, '\b');
		t->column = before;
		return true;
	}
	rub_out(t, is_control(t, c) ? 2 : iscntrl(c) ? 0 : 1);
	return true;
}

static void erase_word(struct tty *t, bool show)
{
	bool word = false;

	while (t->head != t->canon) {
		uint8_t c = at(t, t->head - 1);

		if (isalnum(c) || c == '_' || c >= 0x80)
			word = true;
		else if (word)
			break;
		if (!erase_one(t, show))
			break;
	}
}

static void erase(struct tty *t, uint8_t c)
{
	bool show = LFLAG(t, ECHO) && LFLAG(t, ECHOE);

	if (t->head == t->canon)
		return;
	if (c == CC(t, VERASE)) {
		if (LFLAG(t, ECHO) && !LFLAG(t, ECHOE))
			echo(t, c);
		erase_one(t, show);
	} else if (c == CC(t, VWERASE)) {
		erase_word(t, show);
	} else if (show && LFLAG(t, ECHOK) && LFLAG(t, ECHOKE)) {
		while (erase_one(t, true))
			;
	} else {
		t->head = t->canon;
		if (LFLAG(t, ECHO)) {
			echo(t, c);
			if (LFLAG(t, ECHOK))
				output_char(t, '\n');
		}
	}
}

/* Input */

static uint32_t used(const struct tty *t)
{
	return t->head - t->tail;
}

static bool ring_room(const struct tty *t)
{
	/* A line that grew too long is cut, not waited for: nobody could end it otherwise. */
	return used(t) < TTY_INPUT_MAX - 1 || (LFLAG(t, ICANON) && t->canon == t->tail);
}

bool ldisc_room(const struct tty *t)
{
	return t->ahead_len < TTY_AHEAD_MAX;
}

static void store(struct tty *t, uint8_t c, uint8_t flag)
{
	t->in[t->head % TTY_INPUT_MAX] = c;
	t->flag[t->head % TTY_INPUT_MAX] = flag;
	t->head++;
}

static void store_char(struct tty *t, uint8_t c)
{
	if (used(t) >= TTY_INPUT_MAX - 1) {
		if (IFLAG(t, IMAXBEL))
			put(t, '\a');
		return;
	}
	if (LFLAG(t, ICANON) && t->head == t->canon && !LFLAG(t, ECHO))
		t->line_start = t->column;
	store(t, c, 0);
}

static void end_line(struct tty *t, uint8_t c, uint8_t flag)
{
	if (used(t) >= TTY_INPUT_MAX)
		t->head--; /* always room for the end */
	store(t, c, flag);
	t->canon = t->head;
	t->line_start = t->column;
	wait_wake(&t->slave_wait, POLLIN | POLLRDNORM);
}

void ldisc_stop(struct tty *t, bool stop)
{
	if (t->stopped == stop)
		return;
	t->stopped = stop;
	if (t->packet) {
		t->packet_news = (uint8_t)((t->packet_news & ~(TIOCPKT_STOP_ | TIOCPKT_START_)) |
					   (stop ? TIOCPKT_STOP_ : TIOCPKT_START_));
		wait_wake(&t->master_wait, POLLIN | POLLPRI);
	}
	if (!stop) {
		wait_wake(&t->slave_wait, POLLOUT | POLLWRNORM);
		wait_wake(&t->master_wait, POLLIN | POLLRDNORM);
	}
}

/* What was typed ahead is not there yet, and stays. */
static void drop_input(struct tty *t)
{
	t->head = t->canon = t->tail = 0;
	t->lnext = false;
	if (t->packet)
		t->packet_news |= TIOCPKT_FLUSHREAD_;
	wait_wake(&t->master_wait, POLLOUT | POLLWRNORM);
}

void ldisc_flush_input(struct tty *t)
{
	t->ahead_len = 0;
	drop_input(t);
}

void ldisc_flush_master(struct tty *t)
{
	t->out_len = t->echo_from = 0;
	wait_wake(&t->slave_wait, POLLOUT | POLLWRNORM);
}

/* What the slave has written is with the master already: there is nothing in between to drop. */
void ldisc_flush_output(struct tty *t)
{
	if (t->packet)
		t->packet_news |= TIOCPKT_FLUSHWRITE_;
	wait_wake(&t->slave_wait, POLLOUT | POLLWRNORM);
}

static int signal_of(const struct tty *t, uint8_t c)
{
	if (!LFLAG(t, ISIG) || c == DISABLED)
		return 0;
	return c == CC(t, VINTR)   ? SIGINT
	       : c == CC(t, VQUIT) ? SIGQUIT
	       : c == CC(t, VSUSP) ? SIGTSTP
				   : 0;
}

static void input_signal(struct tty *t, uint8_t c, int sig)
{
	if (!LFLAG(t, NOFLSH)) {
		drop_input(t);
		/* Echo of the same write has not left yet. */
		if (t->out_len > t->echo_from)
			t->out_len = t->echo_from;
		if (sig != SIGTSTP)
			ldisc_flush_output(t);
	}
	if (IFLAG(t, IXON))
		ldisc_stop(t, false);
	if (LFLAG(t, ECHO))
		echo(t, c);
	tty_signal(t, sig);
}

static void reprint(struct tty *t, uint8_t c)
{
	echo(t, c);
	output_char(t, '\n');
	for (uint32_t i = t->canon; i != t->head; i++)
		echo(t, at(t, i));
}

/* The characters that edit or end a line: true when @c was one. */
static bool input_line(struct tty *t, uint8_t c)
{
	if (c != DISABLED) {
		if (c == CC(t, VERASE) || c == CC(t, VKILL) ||
			(c == CC(t, VWERASE) && LFLAG(t, IEXTEN))) {
			erase(t, c);
			return true;
		}
		if (c == CC(t, VLNEXT) && LFLAG(t, IEXTEN)) {
			t->lnext = true;
			if (LFLAG(t, ECHO) && LFLAG(t, ECHOCTL))
				out_add(t, (const uint8_t *)"^\b", 2);
			return true;
		}
		if (c == CC(t, VREPRINT) && LFLAG(t, ECHO) && LFLAG(t, IEXTEN)) {
			reprint(t, c);
			return true;
		}
	}
	if (c == '\n') {
		if (LFLAG(t, ECHO) || LFLAG(t, ECHONL))
			output_char(t, '\n');
		end_line(t, c, IN_LINE_END);
		return true;
	}
	if (c == DISABLED)
		return false;
	if (c == CC(t, VEOF)) {
		end_line(t, 0, IN_EOF);
		return true;
	}
	if (c == CC(t, VEOL) || (c == CC(t, VEOL2) && LFLAG(t, IEXTEN))) {
		if (LFLAG(t, ECHO))
			echo(t, c);
		end_line(t, c, IN_LINE_END);
		return true;
	}
	return false;
}

static void input_plain(struct tty *t, uint8_t c)
{
	if (LFLAG(t, ECHO)) {
		if (t->head == t->canon && LFLAG(t, ICANON))
			t->line_start = t->column;
		if (c == '\n')
			output_char(t, c);
		else
			echo(t, c);
	}
	if (IFLAG(t, PARMRK) && c == 0xff)
		store_char(t, c);
	store_char(t, c);
}

static void input_char(struct tty *t, uint8_t c)
{
	int sig;

	if (IFLAG(t, ISTRIP))
		c &= 0x7f;
	if (IFLAG(t, IUCLC) && LFLAG(t, IEXTEN))
		c = (uint8_t)tolower(c);
	if (t->lnext) {
		t->lnext = false;
		input_plain(t, c);
		return;
	}
	if (IFLAG(t, IXON) && c != DISABLED) {
		if (c == CC(t, VSTOP)) {
			ldisc_stop(t, CC(t, VSTOP) != CC(t, VSTART) || !t->stopped);
			return;
		}
		if (c == CC(t, VSTART) || (t->stopped && IFLAG(t, IXANY) && !signal_of(t, c))) {
			ldisc_stop(t, false);
			if (c == CC(t, VSTART))
				return;
		}
	}
	sig = signal_of(t, c);
	if (sig) {
		input_signal(t, c, sig);
		return;
	}
	if (c == '\r') {
		if (IFLAG(t, IGNCR))
			return;
		if (IFLAG(t, ICRNL))
			c = '\n';
	} else if (c == '\n' && IFLAG(t, INLCR)) {
		c = '\r';
	}
	if (LFLAG(t, ICANON) && input_line(t, c))
		return;
	input_plain(t, c);
}

static size_t input_now(struct tty *t, const uint8_t *p, size_t n)
{
	size_t done = 0;

	t->echo_from = t->out_len;
	while (done < n && ring_room(t))
		input_char(t, p[done++]);
	if (done == 0)
		return 0;
	if (!LFLAG(t, ICANON) && used(t))
		wait_wake(&t->slave_wait, POLLIN | POLLRDNORM);
	if (t->out_len)
		wait_wake(&t->master_wait, POLLIN | POLLRDNORM);
	return done;
}

size_t ahead_add(struct tty *t, const uint8_t *p, size_t n)
{
	uint8_t *more;

	if (n > TTY_AHEAD_MAX - t->ahead_len)
		n = TTY_AHEAD_MAX - t->ahead_len;
	more = n ? realloc(t->ahead, t->ahead_len + n) : NULL;
	if (!more)
		return 0;
	memcpy(more + t->ahead_len, p, n);
	t->ahead = more;
	t->ahead_len += (uint32_t)n;
	return n;
}

/* There may be room now for what was typed ahead. */
static void catch_up(struct tty *t)
{
	bool was_full = !ldisc_room(t);
	size_t n;

	if (!t->ahead_len)
		return;
	n = input_now(t, t->ahead, t->ahead_len);
	t->ahead_len -= (uint32_t)n;
	memmove(t->ahead, t->ahead + n, t->ahead_len);
	if (was_full && ldisc_room(t))
		wait_wake(&t->master_wait, POLLOUT | POLLWRNORM);
}

size_t ldisc_input(struct tty *t, const uint8_t *p, size_t n)
{
	size_t done = t->ahead_len ? 0 : input_now(t, p, n);

	return done + ahead_add(t, p + done, n - done);
}

uint32_t ldisc_available(const struct tty *t)
{
	uint32_t n = 0;

	if (!LFLAG(t, ICANON))
		return used(t);
	for (uint32_t i = t->tail; i != t->canon; i++)
		n += !(t->flag[i % TTY_INPUT_MAX] & IN_EOF);
	return n;
}

bool ldisc_readable(const struct tty *t, unsigned min)
{
	return LFLAG(t, ICANON) ? t->canon != t->tail : used(t) >= (min ? min : 1);
}

size_t ldisc_read(struct tty *t, uint8_t *p, size_t n, bool *ret_eof)
{
	uint32_t end = LFLAG(t, ICANON) ? t->canon : t->head;
	size_t done = 0;

	*ret_eof = false;
	while (t->tail != end) {
		uint8_t flag = t->flag[t->tail % TTY_INPUT_MAX];

		if ((flag & IN_EOF) && LFLAG(t, ICANON)) {
			/* Behind bytes of the same line it only ends the read. */
			*ret_eof = done == 0;
			t->tail++;
			break;
		}
		if (done == n)
			break;
		p[done++] = t->in[t->tail % TTY_INPUT_MAX];
		t->tail++;
		if ((flag & IN_LINE_END) && LFLAG(t, ICANON))
			break;
	}
	catch_up(t);
	return done;
}

void ldisc_mode_changed(struct tty *t, const struct gtermios *old)
{
	if (!((old->lflag ^ t->t.lflag) & ICANON))
		return;
	/* Into lines: what lies there counts as one. Out of them: everything can be read. */
	t->canon = t->head;
	if (LFLAG(t, ICANON) && t->head != t->tail)
		t->flag[(t->head - 1) % TTY_INPUT_MAX] |= IN_LINE_END;
	t->lnext = false;
	if (used(t))
		wait_wake(&t->slave_wait, POLLIN | POLLRDNORM);
}
