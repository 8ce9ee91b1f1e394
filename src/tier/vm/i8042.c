/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/i8042.c - just enough keyboard controller.
 *
 * Owns:  its registers and a few bytes for the guest to read.
 * Rules: every command that has an answer gets one at once: a driver that waits for one polls ten
 *        thousand times. "Input buffer full" is never set, or `reboot=k` spins.
 */
#include <string.h>

#include "tier/vm/i8042.h"

/* clang-format off */
enum {
	STATUS_OUTPUT = 0x01, STATUS_UNLOCKED = 0x10,
	CONTROL_INTERRUPT = 0x01,
	CMD_READ_CONTROL = 0x20, CMD_WRITE_CONTROL = 0x60, CMD_TEST = 0xaa, CMD_TEST_PORT = 0xab,
	CMD_READ_OUTPUT = 0xd0, CMD_WRITE_OUTPUT = 0xd1, CMD_RESET = 0xfe,
	TEST_PASSED = 0x55, PORT_PASSED = 0x00, KEYBOARD_ACK = 0xfa,
};
/* clang-format on */

void i8042_init(struct i8042 *k, void (*raise)(void *arg), void *arg)
{
	*k = (struct i8042){ .raise = raise, .arg = arg };
}

static void answer(struct i8042 *k, uint8_t v)
{
	if (k->len == I8042_QUEUE)
		return;
	k->queue[(k->at + k->len++) % I8042_QUEUE] = v;
	if (k->control & CONTROL_INTERRUPT)
		k->raise(k->arg);
}

uint8_t i8042_read(struct i8042 *k, unsigned port)
{
	uint8_t v;

	if (port == I8042_STATUS)
		return (uint8_t)(STATUS_UNLOCKED | (k->len ? STATUS_OUTPUT : 0));
	if (!k->len)
		return 0;
	v = k->queue[k->at];
	k->at = (k->at + 1) % I8042_QUEUE;
	k->len--;
	if (k->len && (k->control & CONTROL_INTERRUPT))
		k->raise(k->arg);
	return v;
}

static bool command(struct i8042 *k, uint8_t v)
{
	switch (v) {
	case CMD_READ_CONTROL:
		answer(k, k->control);
		break;
	case CMD_READ_OUTPUT:
		answer(k, k->output_port);
		break;
	case CMD_TEST:
		answer(k, TEST_PASSED);
		break;
	case CMD_TEST_PORT:
		answer(k, PORT_PASSED);
		break;
	case CMD_WRITE_CONTROL:
	case CMD_WRITE_OUTPUT:
		k->command = v;
		break;
	case CMD_RESET:
		return true;
	default:
		break;
	}
	return false;
}

bool i8042_write(struct i8042 *k, unsigned port, uint8_t v)
{
	if (port == I8042_STATUS)
		return command(k, v);
	if (k->command == CMD_WRITE_CONTROL)
		k->control = v;
	else if (k->command == CMD_WRITE_OUTPUT)
		k->output_port = v;
	else
		answer(k, KEYBOARD_ACK); /* for the keyboard itself, which agrees to everything */
	k->command = 0;
	return false;
}

bool i8042_press(struct i8042 *k)
{
	static const uint8_t keys[] = { 0x14, 0x11, 0xe0, 0x71 }; /* Ctrl, Alt, Del */

	if (k->len)
		return false;
	for (unsigned i = 0; i < sizeof(keys); i++)
		answer(k, keys[i]);
	return true;
}
