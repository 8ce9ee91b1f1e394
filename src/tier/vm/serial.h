/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_SERIAL_H
#define WARD_TIER_VM_SERIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SERIAL_PORT = 0x3f8,
	SERIAL_PORTS = 8,
	SERIAL_GSI = 4,
	SERIAL_INPUT_MAX = 64, /* what the guest has not read yet; more is dropped */
};

/* A 16550A, as much as Linux needs of one. */
struct serial {
	uint8_t ier, iir, lcr, mcr, scr, fcr;
	uint8_t divisor[2];
	bool thr_empty; /* an interrupt for it is due */
	uint8_t in[SERIAL_INPUT_MAX];
	unsigned in_at, in_len;
	/* A byte that the guest wrote; must not block. */
	void (*out)(void *arg, uint8_t byte);
	void (*raise)(void *arg);
	void *arg;
};

void serial_init(struct serial *s, void (*out)(void *arg, uint8_t byte), void (*raise)(void *arg),
	void *arg);
uint8_t serial_read(struct serial *s, unsigned reg);
void serial_write(struct serial *s, unsigned reg, uint8_t v);
/* Bytes for the guest; how many were taken. */
size_t serial_input(struct serial *s, const void *data, size_t len);

#endif
