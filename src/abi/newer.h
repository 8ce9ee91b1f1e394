/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_ABI_NEWER_H
#define WARD_ABI_NEWER_H

#include <stdint.h>

/*
 * Numbers and layouts of the kernel that the headers of Debian 12 or of musl do not have. The
 * values are Linux's; the names carry WARD_ so that a newer header cannot clash.
 */
#define WARD_FSOPEN_CLOEXEC 1u
#define WARD_FSMOUNT_CLOEXEC 1u
#define WARD_FSCONFIG_SET_FLAG 0u
#define WARD_FSCONFIG_SET_STRING 1u
#define WARD_FSCONFIG_SET_FD 5u
#define WARD_FSCONFIG_CMD_CREATE 6u
#define WARD_OPEN_TREE_CLONE 1u
#define WARD_OPEN_TREE_CLOEXEC 02000000u
#define WARD_AT_EMPTY_PATH 0x1000u
#define WARD_AT_RECURSIVE 0x8000u
#define WARD_MOVE_MOUNT_F_EMPTY_PATH 0x4u
#define WARD_MOVE_MOUNT_T_EMPTY_PATH 0x40u
#define WARD_MOUNT_ATTR_SIZE 32u

#define WARD_MOUNT_ATTR_RDONLY 0x1u
#define WARD_MOUNT_ATTR_NOSUID 0x2u
#define WARD_MOUNT_ATTR_NODEV 0x4u
#define WARD_MOUNT_ATTR_NOEXEC 0x8u
#define WARD_MOUNT_ATTR_RELATIME 0x0u
#define WARD_MOUNT_ATTR_NOATIME 0x10u
#define WARD_MOUNT_ATTR_IDMAP 0x100000u

/* struct mount_attr under a name of our own: some headers have it, some do not. */
struct ward_mount_attr {
	uint64_t attr_set, attr_clr, propagation, userns_fd;
};

#define WARD_SYS_fchmodat2 452 /* Linux 6.6 */
#define WARD_SYS_landlock_create_ruleset 444
#define WARD_SYS_landlock_add_rule 445
#define WARD_SYS_landlock_restrict_self 446

#define WARD_CLONE_NEWTIME 0x80u

#endif
