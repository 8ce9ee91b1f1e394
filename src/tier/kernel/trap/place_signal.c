/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/place_signal.c - what is known in place of what signals do.
 *
 * Owns:  the guest's struct place_signals.
 * Rules: under the kernel lock. What a child of vfork has set there is only what rt_sigaction would
 *        have done without anybody noticing; it is done here before somebody can ask.
 */
#include <stddef.h>
#include <string.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/signal.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/place_impl.h"

enum { HOT_SIGNAL = 2 };

static bool is_lent(const struct task *t)
{
	return t->mm->refs == 2 && t->proc->vfork_waits;
}

bool place_is_alone(const struct task *t)
{
	return !t->mm->place_many && (t->mm->refs == 1 || is_lent(t));
}

/* Who asks for one asks for all. */
void place_signal_seen(struct task *t, uint64_t ip)
{
	struct place_signals s = { .age = t->k->age[AGE_SIGNALS] };
	struct place *p;

	if (t->call.ret < 0 || t->call.args[1] || !place_is_alone(t) ||
		place_changed_site(t, ip, true, HOT_SIGNAL) < 0)
		return;
	_Static_assert(sizeof(s.act) == sizeof(t->sighand->act), "as rt_sigaction gives them");
	memcpy(s.act, t->sighand->act, sizeof(s.act));
	memset(s.known, 1, sizeof(s.known));
	s.may_set = is_lent(t) && t->sighand->refs == 1;
	p = t->mm->place;
	p->signals_age = 0;
	p->signals_of = 0;
	if (t->mm->ops->write(t->mm, PLACE_SIGNALS_AT, &s, sizeof(s)) != sizeof(s))
		return;
	p->signals_age = s.age;
	p->signals_known = ~(uint64_t)0;
	p->signals_told = 0;
	p->signals_of = s.may_set ? t->tid : 0;
}

void place_signal_set(struct task *t, int sig)
{
	struct place *p = t->mm ? t->mm->place : NULL;
	uint64_t bit = (uint64_t)1 << (sig - 1);
	uint8_t no = 0;

	if (!p || !t->k->age || t->mm->place_off)
		return;
	p->signals_told |= bit;
	if (!(p->signals_known & bit) || p->signals_age != t->k->age[AGE_SIGNALS])
		return;
	p->signals_known &= ~bit;
	t->mm->ops->write(t->mm,
		PLACE_SIGNALS_AT + offsetof(struct place_signals, known) + (unsigned)sig - 1, &no,
		sizeof(no));
}

void place_signals_sync(struct task *t)
{
	struct place *p = t->mm ? t->mm->place : NULL;
	struct place_signals s;

	if (!p || !p->signals_of || p->signals_of != t->tid ||
		t->mm->ops->read(t->mm, &s, PLACE_SIGNALS_AT, sizeof(s)) != sizeof(s))
		return;
	for (unsigned i = 0; i < PLACE_SIGNALS; i++) {
		struct gsigaction now, *act = &t->sighand->act[i];

		memcpy(&now, s.act[i], sizeof(now));
		if ((s.set & ~p->signals_told & ~PLACE_SIGNALS_NEVER) >> i & 1 &&
			act->handler == GSIG_DFL && now.handler == GSIG_DFL && !now.mask &&
			now.flags == PLACE_SA_RESTORER)
			*act = now;
	}
}

void place_signals_end(struct task *t)
{
	if (t->mm && t->mm->place)
		t->mm->place->signals_of = 0;
}
