/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HOST_PROBE_IMPL_H
#define WARD_HOST_PROBE_IMPL_H

#include <stddef.h>
#include <sys/types.h>

#include "host/probe.h"

/* For the probes themselves. Everything here runs in a probe's child, which may be changed at will.
 */

/* What was seen; cut when it does not fit. The last call counts. */
void probe_say(struct probe_result *r, enum probe_state s, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* How to get it, when that is more than the row's own hint. */
void probe_hint(struct probe_result *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void probe_fact(struct probe_result *r, const char *key, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Becomes an ordinary user (nobody) when it is root; does nothing otherwise. */
int probe_drop(void);
/* A new user namespace in which the caller is root, with more namespaces in @also (CLONE_NEW*). */
int probe_enter_userns(int also);
/* The number in a one-number file such as a sysctl, or -1 when there is no such file. */
long probe_number(const char *path);
/* Is there an executable @name in PATH? Its path, or an empty string. */
bool probe_find_program(const char *name, char *path, size_t cap);

void probe_kernel(struct probe_result *r);
void probe_namespaces(struct probe_result *r);
void probe_userns(struct probe_result *r);
void probe_userns_user(struct probe_result *r);
void probe_idmap(struct probe_result *r);
void probe_overlay_root(struct probe_result *r);
void probe_overlay_user(struct probe_result *r);
void probe_loop(struct probe_result *r);
void probe_cgroup(struct probe_result *r);
void probe_landlock(struct probe_result *r);
void probe_seccomp(struct probe_result *r);
void probe_userfaultfd(struct probe_result *r);
void probe_io_uring(struct probe_result *r);
void probe_kvm(struct probe_result *r);
void probe_git(struct probe_result *r);
void probe_subids(struct probe_result *r);
void probe_libnode(struct probe_result *r);

#endif
