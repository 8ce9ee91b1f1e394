/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IO_TIMERS_H
#define WARD_TIER_KERNEL_IO_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The timers of a process: setitimer's three and those of timer_create. They hang on proc->
 * posix_timers and proc->itimer_real.
 */
struct proc;
struct task;

/* execve: timer_create's timers go, setitimer's stay. */
void timers_execed(struct proc *p);
/* The process is over: all go. Safe twice. */
void timers_done(struct proc *p);
/* A signal of timer @id was taken off the queue: counts what was missed, arms it again. Called by
 * signal_take()'s users through timers_deliver() when code is SI_TIMER; sets the overrun. */
union gsiginfo;
void timers_deliver(struct proc *p, union gsiginfo *info);

/* RLIMIT_CPU of the process is new: 0 or -ENOMEM. */
int timers_cpu_limit(struct proc *p);

/* All of them, armed again when they are loaded. */
struct walk;
void timers_walk(struct proc *p, struct walk *w);

/* CPU time of a process, and of one thread of it, ns. */
int64_t proc_cpu_ns(struct proc *p);
int64_t task_cpu_ns(struct task *t);

#endif
