/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_PROTO_KEEPER_H
#define WARD_PROTO_KEEPER_H

#include <stdint.h>

/*
 * What the host and the agent of a machine say to each other on the keeper's connection, beside the
 * channel: that everything inside must stand still, and, in a copy, who it is from now on. Messages
 * of the host are struct keeper_ask, those of the agent struct keeper_answer; numbers as the
 * machine has them.
 */
enum {
	KEEPER_PORT = 1025, /* of the host */
	KEEPER_SEED_BYTES = 64,
	KEEPER_NAME_MAX = 64,
	KEEPER_ID_HEX = 32,
};

enum keeper_op {
	KEEPER_HOLD = 1,  /* stop everybody; the answer is one of the last three */
	KEEPER_GO = 2,    /* let them go on; no answer */
	KEEPER_RENEW = 3, /* the first word to a copy; no answer: it calls on the channel's port */
	KEEPER_HELD = 4,
	KEEPER_CANNOT = 5, /* its kernel has no way to */
	KEEPER_BUSY = 6,   /* somebody did not come to rest; all run */
};

struct keeper_ask {
	uint32_t op, number;
	/* KEEPER_RENEW; else zeros. Texts end in a NUL; "": leave it. */
	uint64_t now_ns; /* since 1970 */
	uint8_t seed[KEEPER_SEED_BYTES];
	char machine_id[KEEPER_ID_HEX + 8];
	char boot_id[KEEPER_ID_HEX + 8];
	char hostname[KEEPER_NAME_MAX + 8];
};

struct keeper_answer {
	uint32_t op, number; /* of the question */
};

#endif
