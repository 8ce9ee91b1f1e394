/* SPDX-License-Identifier: Apache-2.0 */
/*
 * loop/worker.c - slow work on threads beside the loop.
 *
 * Owns:  the threads, and the jobs from loop_work() until their `done` has returned.
 * Rules: a job is in one place at a time: in @todo, with a worker, in @over. The lock is held only
 * to move it between these. Workers block every signal.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/eventfd.h>

#include "base/ckd.h"
#include "base/own.h"
#include "loop/loop_impl.h"

static void list_put(struct job_list *list, struct loop_job *job)
{
	job->next = NULL;
	*list->tail = job;
	list->tail = &job->next;
}

static struct loop_job *list_take_all(struct job_list *list)
{
	struct loop_job *head = list->head;

	list->head = NULL;
	list->tail = &list->head;
	return head;
}

static struct loop_job *todo_take(struct worker_pool *p)
{
	struct loop_job *job = p->todo.head;

	p->todo.head = job->next;
	if (!p->todo.head)
		p->todo.tail = &p->todo.head;
	p->waiting--;
	return job;
}

static void tell_loop(struct worker_pool *p)
{
	/* Only a full counter fails, and then the loop has been told. */
	if (eventfd_write(p->event, 1) < 0)
		return;
}

/* Until there is work, or not for too long: false. Under the lock. */
static bool wait_for_work(struct worker_pool *p)
{
	struct timespec until;
	int r = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LOOP_WORKER_IDLE_MS / 1000;
	p->idle++;
	while (!p->todo.head && !p->stop && r == 0)
		r = pthread_cond_timedwait(&p->wake, &p->lock, &until);
	p->idle--;
	return p->todo.head && !p->stop;
}

static void *worker_main(void *arg)
{
	struct worker *w = arg;
	struct worker_pool *p = w->loop->pool;

	pthread_mutex_lock(&p->lock);
	while (wait_for_work(p)) {
		struct loop_job *job = todo_take(p);

		pthread_mutex_unlock(&p->lock);
		job->work(job->arg);
		pthread_mutex_lock(&p->lock);
		list_put(&p->over, job);
		tell_loop(p);
	}
	w->ended = true;
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static void deliver(struct loop_job *job, bool wanted)
{
	while (job) {
		struct loop_job *next = job->next;

		job->done(job->arg, wanted && job->wanted);
		free(job);
		job = next;
	}
}

static void pool_work(void *ctx, uint32_t events)
{
	struct worker_pool *p = ctx;
	struct loop_job *over;
	eventfd_t count;

	(void)events;
	if (eventfd_read(p->event, &count) < 0)
		return;
	pthread_mutex_lock(&p->lock);
	over = list_take_all(&p->over);
	pthread_mutex_unlock(&p->lock);
	deliver(over, true);
}

static int pool_init(struct worker_pool *p, struct loop *l, struct err *e)
{
	pthread_condattr_t attr;
	int r;

	p->todo.tail = &p->todo.head;
	p->over.tail = &p->over.head;
	p->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (p->event < 0)
		return err_set(e, errno, "making an eventfd for workers");
	r = loop_fd_add(l, &p->fd, p->event, EPOLLIN, pool_work, p, e);
	if (r < 0) {
		close(p->event);
		return r;
	}
	/* These three cannot fail on Linux with these arguments. */
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->wake, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&p->lock, NULL);
	return 0;
}

static int pool_open(struct loop *l, struct err *e)
{
	own_mem struct worker_pool *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_set(e, ENOMEM, "making workers");
	r = pool_init(p, l, e);
	if (r == 0)
		l->pool = take_ptr(&p);
	return r;
}

static int worker_start(struct worker *w, struct loop *l)
{
	sigset_t all, before;
	int r;

	if (w->made) /* one that has ended before */
		pthread_join(w->thread, NULL);
	*w = (struct worker){ .loop = l };
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&w->thread, NULL, worker_main, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	w->made = r == 0;
	return -r;
}

/* One more thread when all are busy and there may be more. Under the lock. */
static int pool_staff(struct loop *l)
{
	struct worker_pool *p = l->pool;
	unsigned alive = 0;
	struct worker *free_place = NULL;
	int r;

	if (p->idle >= p->waiting)
		return 0;
	for (unsigned i = 0; i < LOOP_WORKERS_MAX; i++) {
		struct worker *w = &p->workers[i];

		if (w->made && !w->ended)
			alive++;
		else if (!free_place)
			free_place = w;
	}
	if (!free_place)
		return 0;
	r = worker_start(free_place, l);
	return alive ? 0 : r; /* with one thread at work, the job will have its turn */
}

int loop_work(struct loop *l, const void *arg, size_t size, void (*work)(void *arg),
	void (*done)(void *arg, bool wanted), struct loop_job **ret_job, struct err *e)
{
	struct loop_job *job;
	size_t total;
	int r = l->pool ? 0 : pool_open(l, e);

	if (r < 0)
		return r;
	if (ckd_add(&total, size, sizeof(*job)))
		return err_set(e, EINVAL, "a job of that size");
	job = calloc(1, total);
	if (!job)
		return err_set(e, ENOMEM, "making a job");
	*job = (struct loop_job){ .loop = l, .work = work, .done = done, .wanted = true };
	if (size)
		memcpy(job->arg, arg, size);

	pthread_mutex_lock(&l->pool->lock);
	l->pool->waiting++;
	r = pool_staff(l);
	if (r < 0)
		l->pool->waiting--;
	else
		list_put(&l->pool->todo, job);
	pthread_cond_signal(&l->pool->wake);
	pthread_mutex_unlock(&l->pool->lock);
	if (r < 0) {
		free(job);
		return err_set(e, -r, "starting a worker thread");
	}
	if (ret_job)
		*ret_job = job;
	return 0;
}

void loop_job_forget(struct loop_job *job)
{
	struct worker_pool *p = job->loop->pool;

	job->wanted = false;
	pthread_mutex_lock(&p->lock);
	for (struct loop_job **at = &p->todo.head; *at; at = &(*at)->next) {
		if (*at != job)
			continue;
		*at = job->next;
		if (!*at)
			p->todo.tail = at;
		p->waiting--;
		list_put(&p->over, job);
		tell_loop(p);
		break;
	}
	pthread_mutex_unlock(&p->lock);
}

void loop_pool_done(struct loop *l)
{
	struct worker_pool *p = l->pool;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < LOOP_WORKERS_MAX; i++)
		if (p->workers[i].made)
			pthread_join(p->workers[i].thread, NULL);
	/* Nobody else is left: no lock from here on. */
	deliver(list_take_all(&p->over), false);
	deliver(list_take_all(&p->todo), false);
	loop_fd_remove(&p->fd);
	close(p->event);
	pthread_cond_destroy(&p->wake);
	pthread_mutex_destroy(&p->lock);
	free(p);
	l->pool = NULL;
}
