/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/place_later.c - which processes get a log of calls that are made later.
 *
 * Owns:  nothing.
 * Rules: under the kernel lock. Who makes such calls again and again from sites that are changed; a
 *        log is dear, and there are few.
 */
#include <fcntl.h>
#include <sys/syscall.h>

#include "base/ckd.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/trap/later.h"
#include "tier/kernel/trap/place_impl.h"

enum { HOT_LATER = 16, LOG_AFTER = 24 };

/* Has the same been read before? Then it is kept for the next time. */
static void read_seen(struct task *t)
{
	struct place *p = t->mm->place;
	const uint64_t *a = t->call.args;
	uint32_t fd = (uint32_t)a[0], len = (uint32_t)a[2];
	int64_t at = (int64_t)a[3];

	if (a[2] > LATER_READ_MAX)
		return;
	for (unsigned i = 0; i < ARRAY_LEN(p->reads); i++) {
		if (p->reads[i].fd == fd && p->reads[i].len == len && p->reads[i].at == at) {
			later_keep_read(p->later, (int)fd, len, at, t->call.ret);
			return;
		}
	}
	p->reads[p->next_read].fd = fd;
	p->reads[p->next_read].len = len;
	p->reads[p->next_read].at = at;
	p->next_read = (p->next_read + 1) % ARRAY_LEN(p->reads);
}

static bool is_lock(const struct call *c)
{
	return (uint32_t)c->args[1] == F_SETLK || (uint32_t)c->args[1] == F_SETLKW;
}

/* Could the call have been made later? Then the next one may be. */
void place_later_seen(struct task *t, uint64_t ip, int kind)
{
	static const uint16_t needs[] = { [PLACE_LOCK] = LATER_LOCK,
		[PLACE_PREAD] = LATER_READ,
		[PLACE_PWRITE] = LATER_WRITE,
		[PLACE_SYNC] = LATER_SYNC };
	struct call *c = &t->call;
	uint32_t fd = (uint32_t)c->args[0];
	struct place *p;

	if (t->k->fast > FAST_LATER || !place_owns_files(t) || c->ret < 0 || fd >= LATER_FDS ||
		(kind == PLACE_LOCK && !is_lock(c)) || !(later_may(t, (int)fd) & needs[kind]) ||
		place_changed_site(t, ip, true, HOT_LATER) < 0)
		return;
	p = t->mm->place;
	if (p->later) {
		if (kind == PLACE_PREAD)
			read_seen(t);
	} else if ((kind == PLACE_LOCK || kind == PLACE_PWRITE) && ++p->later_wanted >= LOG_AFTER) {
		p->later = later_begin(t);
		p->later_wanted = 0;
	}
}
