/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_JAIL_H
#define WARD_TIER_KERNEL_JAIL_H

#include "base/err.h"

/* A sanitizer makes calls of its own, and is not what anyone runs guests with. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* Puts the kernel process behind its own filter, for good. Before its first thread; no_new_privs.
 */
int kernel_jail(struct err *e);
/* How many calls of the host the kernel process can make. */
unsigned kernel_jail_calls(void);

/* Writes the filter; the number of instructions. */
enum { KERNEL_JAIL_MAX = 192 };
struct sock_filter;
unsigned kernel_jail_program(struct sock_filter *out);

#endif
