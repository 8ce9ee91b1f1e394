/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_CGROUP_IMPL_H
#define WARD_TIER_CGROUP_IMPL_H

#include "tier/cgroup.h"

/* What cgroup.c and cgroup_live.c share. */
enum { CPU_PERIOD_US = 100000 };

int cgroup_put(const struct cgroup *cg, int part, const char *file, uint64_t value, struct err *e);
/* The same for a file that some kernels do not have. */
int cgroup_put_if_there(
	const struct cgroup *cg, int part, const char *file, uint64_t value, struct err *e);
/* Those of the two that are not 0. */
int cgroup_limit_cpu(const struct cgroup *cg, const struct plan_limits *l, struct err *e);
/* The number after @key in a file of "key number" lines; UINT64_MAX when there is none. */
uint64_t cgroup_keyed(int dir, const char *file, const char *key);
uint64_t cgroup_number(int dir, const char *file);

#endif
