/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail/seccomp.c - loads the filter that the build made.
 *
 * Owns:  the two filter programs.
 * Rules: no allocation: runs between clone and exec.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/ckd.h"
#include "host/host.h"
#include "jail/filter.inc"
#include "jail/seccomp.h"

int jail_seccomp(enum jail_profile profile, int *ret_listener, struct err *e)
{
	struct sock_fprog prog = {
		.len = ret_listener ? ARRAY_LEN(filter_record) : ARRAY_LEN(filter_errno),
		.filter = (struct sock_filter *)(ret_listener ? filter_record : filter_errno),
	};
	int r = host_seccomp(ret_listener ? SECCOMP_FILTER_FLAG_NEW_LISTENER : 0, &prog);

	(void)profile;
	if (r < 0)
		return err_set(e, -r, "loading the system call filter");
	if (ret_listener)
		*ret_listener = r;
	return 0;
}

const char *jail_call_name(int nr)
{
	for (size_t i = 0; i < ARRAY_LEN(call_names); i++)
		if (call_names[i].nr == nr)
			return call_names[i].name;
	return NULL;
}

unsigned jail_calls_allowed(void)
{
	return CALLS_ALLOWED;
}
