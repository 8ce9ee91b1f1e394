/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_ABI_LANDLOCK_H
#define WARD_ABI_LANDLOCK_H

#include <stdint.h>

/*
 * Landlock's rights and rule set, with the ABI version that brought each. The headers of Debian 12
 * stop at version 2, so the numbers are kept here under names of our own.
 */
#define WARD_LL_FS_EXECUTE (1ULL << 0)
#define WARD_LL_FS_WRITE_FILE (1ULL << 1)
#define WARD_LL_FS_READ_FILE (1ULL << 2)
#define WARD_LL_FS_READ_DIR (1ULL << 3)
#define WARD_LL_FS_REMOVE_DIR (1ULL << 4)
#define WARD_LL_FS_REMOVE_FILE (1ULL << 5)
#define WARD_LL_FS_MAKE_CHAR (1ULL << 6)
#define WARD_LL_FS_MAKE_DIR (1ULL << 7)
#define WARD_LL_FS_MAKE_REG (1ULL << 8)
#define WARD_LL_FS_MAKE_SOCK (1ULL << 9)
#define WARD_LL_FS_MAKE_FIFO (1ULL << 10)
#define WARD_LL_FS_MAKE_BLOCK (1ULL << 11)
#define WARD_LL_FS_MAKE_SYM (1ULL << 12)
#define WARD_LL_FS_REFER (1ULL << 13)     /* 2: rename and link between folders */
#define WARD_LL_FS_TRUNCATE (1ULL << 14)  /* 3 */
#define WARD_LL_FS_IOCTL_DEV (1ULL << 15) /* 5 */

#define WARD_LL_NET_BIND_TCP (1ULL << 0)    /* 4 */
#define WARD_LL_NET_CONNECT_TCP (1ULL << 1) /* 4 */

#define WARD_LL_SCOPE_ABSTRACT (1ULL << 0) /* 6: abstract unix sockets of others */
#define WARD_LL_SCOPE_SIGNAL (1ULL << 1)   /* 6: signals to others */

/* Fields that a kernel does not know may follow as long as they are zero. */
struct ward_landlock_ruleset {
	uint64_t fs;     /* 1 */
	uint64_t net;    /* 4 */
	uint64_t scoped; /* 6 */
};

#endif
