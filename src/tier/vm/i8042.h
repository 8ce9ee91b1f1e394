/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_I8042_H
#define WARD_TIER_VM_I8042_H

#include <stdbool.h>
#include <stdint.h>

enum { I8042_DATA = 0x60, I8042_STATUS = 0x64, I8042_GSI = 1, I8042_QUEUE = 16 };

/* The keyboard controller: how a guest resets itself, and how it is asked to (Ctrl-Alt-Del). */
struct i8042 {
	uint8_t control, output_port;
	uint8_t command; /* waits for its data byte; 0: none */
	uint8_t queue[I8042_QUEUE];
	unsigned at, len;
	void (*raise)(void *arg);
	void *arg;
};

void i8042_init(struct i8042 *k, void (*raise)(void *arg), void *arg);
uint8_t i8042_read(struct i8042 *k, unsigned port);
/* True: the guest wants to be switched off. */
bool i8042_write(struct i8042 *k, unsigned port, uint8_t v);
/* Presses Ctrl-Alt-Del. False: the guest has not read the keys before. */
bool i8042_press(struct i8042 *k);

#endif
