/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/serial.c - the console: a 16550A.
 *
 * Owns:  its registers and at most SERIAL_INPUT_MAX bytes of input.
 * Rules: nothing here waits. A driver that enables the transmitter's interrupt gets one at once and
 *        after each byte, or its terminal stalls; the guest chooses how much it prints, so whoever
 *        takes the bytes must limit them.
 */
#include "tier/vm/serial.h"

/* clang-format off */
enum { DATA, IER, IIR, LCR, MCR, LSR, MSR, SCR };
enum {
	IER_DATA = 0x01, IER_THR = 0x02, IER_MASK = 0x0f,
	IIR_NONE = 0x01, IIR_THR = 0x02, IIR_DATA = 0x04, IIR_FIFO = 0xc0,
	LCR_DLAB = 0x80, FCR_ENABLE = 0x01, FCR_CLEAR_RX = 0x02, MCR_LOOP = 0x10, MCR_MASK = 0x1f,
	LSR_DATA = 0x01, LSR_IDLE = 0x60,
	MSR_UP = 0xb0, /* carrier, ready and clear to send */
};
/* clang-format on */

void serial_init(
	struct serial *s, void (*out)(void *arg, uint8_t byte), void (*raise)(void *arg), void *arg)
{
	*s = (struct serial){ .out = out, .raise = raise, .arg = arg, .divisor = { 12, 0 } };
}

static bool has_dlab(const struct serial *s)
{
	return s->lcr & LCR_DLAB;
}

/* What the highest pending interrupt is. */
static uint8_t pending(const struct serial *s)
{
	if ((s->ier & IER_DATA) && s->in_len)
		return IIR_DATA;
	if ((s->ier & IER_THR) && s->thr_empty)
		return IIR_THR;
	return IIR_NONE;
}

static void update(struct serial *s)
{
	if (pending(s) != IIR_NONE)
		s->raise(s->arg);
}

static uint8_t take_input(struct serial *s)
{
	uint8_t v;

	if (!s->in_len)
		return 0;
	v = s->in[s->in_at];
	s->in_at = (s->in_at + 1) % SERIAL_INPUT_MAX;
	s->in_len--;
	update(s);
	return v;
}

/* In loopback the modem's outputs come back as its inputs: how drivers find out what this is. */
static uint8_t modem(const struct serial *s)
{
	uint8_t v = 0;

	if (!(s->mcr & MCR_LOOP))
		return MSR_UP;
	v |= s->mcr & 0x02 ? 0x10 : 0; /* RTS as CTS */
	v |= s->mcr & 0x01 ? 0x20 : 0; /* DTR as DSR */
	v |= s->mcr & 0x04 ? 0x40 : 0; /* OUT1 as RI */
	v |= s->mcr & 0x08 ? 0x80 : 0; /* OUT2 as DCD */
	return v;
}

uint8_t serial_read(struct serial *s, unsigned reg)
{
	uint8_t v;

	switch (reg) {
	case DATA:
		return has_dlab(s) ? s->divisor[0] : take_input(s);
	case IER:
		return has_dlab(s) ? s->divisor[1] : s->ier;
	case IIR:
		v = pending(s);
		if (v == IIR_THR)
			s->thr_empty = false; /* reading it is its acknowledgement */
		return (uint8_t)(v | (s->fcr & FCR_ENABLE ? IIR_FIFO : 0));
	case LCR:
		return s->lcr;
	case MCR:
		return s->mcr;
	case LSR:
		return (uint8_t)(LSR_IDLE | (s->in_len ? LSR_DATA : 0));
	case MSR:
		return modem(s);
	case SCR:
		return s->scr;
	default:
		return 0;
	}
}

static void write_data(struct serial *s, uint8_t v)
{
	if (s->mcr & MCR_LOOP)
		serial_input(s, &v, 1);
	else
		s->out(s->arg, v);
	s->thr_empty = true;
	update(s);
}

static void write_fifo(struct serial *s, uint8_t v)
{
	s->fcr = v & FCR_ENABLE;
	if (v & FCR_CLEAR_RX)
		s->in_len = 0;
}

void serial_write(struct serial *s, unsigned reg, uint8_t v)
{
	switch (reg) {
	case DATA:
		if (has_dlab(s))
			s->divisor[0] = v;
		else
			write_data(s, v);
		break;
	case IER:
		if (has_dlab(s)) {
			s->divisor[1] = v;
			break;
		}
		s->ier = v & IER_MASK;
		if (v & IER_THR)
			s->thr_empty = true;
		update(s);
		break;
	case IIR:
		write_fifo(s, v);
		break;
	case LCR:
		s->lcr = v;
		break;
	case MCR:
		s->mcr = v & MCR_MASK;
		break;
	case SCR:
		s->scr = v;
		break;
	default:
		break;
	}
}

size_t serial_input(struct serial *s, const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t n = 0;

	while (n < len && s->in_len < SERIAL_INPUT_MAX) {
		s->in[(s->in_at + s->in_len) % SERIAL_INPUT_MAX] = p[n++];
		s->in_len++;
	}
	if (n)
		update(s);
	return n;
}
