/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/empty.c - supervisors that have made what no request changes, and wait for one.
 *
 * Owns:  the empty ones of each tier that can (a supervisor has said so): a process, a socket and
 * an id each. Rules: one is nobody's sandbox: no row, no tenant, nothing inside. It ends when its
 * socket closes, so with us. A request that finds none starts cold and raises the target, up to
 * [pool] empty; each idle time without a request lowers it. One is made at a time, not while
 *        somebody waits for a create.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/id.h"
#include "base/str.h"
#include "hub/hub_impl.h"

enum {
	TEND_MS = 1000,
	PAUSE_MS = 8, /* after a create: its first command comes */
	BACKOFF_MAX_MS = 60 * 1000,
};

struct empty {
	struct hub *hub;
	struct empty *prev, *next; /* oldest first */
	enum wall tier;
	bool ready;
	int sock;
	pid_t pid;
	struct loop_fd watch;
	char id[ID_LEN + 1];
};

static void on_tend(void *ctx);

static void tend_soon(struct hub *hub, unsigned ms)
{
	loop_timer_set(hub->loop, &hub->empty_timer, ms, on_tend, hub);
}

static struct empties *kin(const struct empty *m)
{
	return &m->hub->empties[m->tier];
}

/* Out of the list; the process is told by the end of its socket. */
static void unlink_one(struct empty *m)
{
	struct empties *all = kin(m);

	*(m->prev ? &m->prev->next : &all->first) = m->next;
	*(m->next ? &m->next->prev : &all->last) = m->prev;
	*(m->ready ? &all->ready : &all->starting) -= 1;
	loop_fd_remove(&m->watch);
}

void empty_drop(struct empty *m)
{
	if (!m)
		return;
	close(m->sock);
	free(m);
}

static void trouble(struct hub *hub, struct empties *all, const char *text)
{
	unsigned shift = all->failures < 6 ? all->failures : 6;
	unsigned wait = 1000u << shift;

	all->failures++;
	all->retry_ms = loop_now_ms(hub->loop) + (wait < BACKOFF_MAX_MS ? wait : BACKOFF_MAX_MS);
	record_text(all->trouble, sizeof(all->trouble), text);
	hub_log(hub, HUB_WARN, "empty.trouble", NULL, "", "msg=\"%s\"", all->trouble);
}

/* It says that it is ready, or it has ended. */
static void on_word(void *ctx, uint32_t events)
{
	struct empty *m = ctx;
	struct hub *hub = m->hub;
	struct empties *all = kin(m);
	char word = 0;
	ssize_t n = recv(m->sock, &word, 1, MSG_DONTWAIT);

	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && word == SUP_WAITS && !m->ready) {
		hub_point(hub, "empty-ready");
		m->ready = true;
		all->starting--;
		all->ready++;
		all->made++;
		all->failures = 0;
		all->trouble[0] = '\0';
	} else {
		all->lost++;
		trouble(hub, all, "one that waited, or was to wait, has ended; its log says why");
		unlink_one(m);
		empty_drop(m);
		hub_sweep(hub);
	}
	tend_soon(hub, 0);
}

static int make_one(struct hub *hub, enum wall tier, struct err *e)
{
	struct sup_spawn how = {
		.ward = hub->ward, .state_dir = hub->state_dir, .log_fd = hub->log_fd
	};
	struct empties *all = &hub->empties[tier];
	struct empty *m = calloc(1, sizeof(*m));
	int pidfd = -1, r;

	if (!m || id_make(m->id) < 0) {
		free(m);
		return err_set(e, ENOMEM, "an empty one");
	}
	m->hub = hub;
	m->tier = tier;
	hub_point(hub, "empty-spawn");
	r = sup_spawn_ahead(m->id, tier, &how, &m->sock, &m->pid, &pidfd, e);
	hub_point(hub, "empty-spawned");
	if (r < 0) {
		free(m);
		return r;
	}
	live_reap(hub, m->pid, pidfd);
	r = loop_fd_add(hub->loop, &m->watch, m->sock, EPOLLIN, on_word, m, e);
	if (r < 0) {
		empty_drop(m);
		return r;
	}
	m->prev = all->last;
	*(all->last ? &all->last->next : &all->first) = m;
	all->last = m;
	all->starting++;
	return 0;
}

static void shrink(struct hub *hub, struct empties *all, uint64_t now)
{
	if (all->target && now - all->used_ms > (uint64_t)hub->config->pool_idle_ms) {
		all->target--;
		all->used_ms = now;
	}
	while (all->ready + all->starting > all->target && all->last) {
		struct empty *m = all->last;

		unlink_one(m);
		empty_drop(m);
	}
}

static void on_tend(void *ctx)
{
	struct hub *hub = ctx;
	uint64_t now = loop_now_ms(hub->loop);
	struct err e = { 0 };
	bool any = false;

	for (unsigned w = 0; w < WALL_COUNT; w++) {
		struct empties *all = &hub->empties[w];

		shrink(hub, all, now);
		any |= all->target != 0;
		if (hub->stopping || hub->creating || all->starting || now < all->retry_ms ||
			all->ready >= all->target)
			continue;
		if (make_one(hub, (enum wall)w, &e) < 0)
			trouble(hub, all, e.msg);
	}
	if (any)
		tend_soon(hub, TEND_MS);
}

/* Somebody who is watched has its end in the queue of the loop, perhaps: looked for here. */
static bool is_alive(const struct empty *m)
{
	char word;
	ssize_t n = recv(m->sock, &word, 1, MSG_DONTWAIT | MSG_PEEK);

	return n < 0 && errno == EAGAIN;
}

static void missed(struct hub *hub, struct empties *all)
{
	all->misses++;
	if (all->target < (unsigned)hub->config->pool_empty)
		all->target++;
	tend_soon(hub, 1); /* after whoever is here now was served */
}

struct empty *empty_take(struct hub *hub, enum wall tier)
{
	struct empties *all = &hub->empties[tier];

	if (!all->can)
		return NULL;
	all->used_ms = loop_now_ms(hub->loop);
	for (struct empty *m = all->first; m; m = m->next)
		if (m->ready && is_alive(m)) {
			unlink_one(m);
			all->hits++;
			tend_soon(hub, 1);
			return m;
		}
	missed(hub, all);
	return NULL;
}

void empty_learn(struct hub *hub, enum wall tier)
{
	struct empties *all = &hub->empties[tier];

	if (all->can || tier == WALL_NONE || !hub->config->pool_empty)
		return;
	all->can = true;
	all->used_ms = loop_now_ms(hub->loop);
	missed(hub, all); /* the one that taught us could have had one */
}

void empty_tend(struct hub *hub)
{
	for (unsigned w = 0; w < WALL_COUNT; w++)
		if (hub->empties[w].target > hub->empties[w].ready + hub->empties[w].starting)
			tend_soon(hub, PAUSE_MS);
}

const char *empty_id(const struct empty *m)
{
	return m->id;
}

int empty_ask(struct empty *m, const struct sup_request *q, const struct link_hooks *hooks,
	struct link **ret, pid_t *ret_pid, struct err *e)
{
	int r = sup_ask(m->sock, q, hooks, ret, e);

	if (r == 0)
		*ret_pid = m->pid;
	empty_drop(m);
	return r;
}

void empty_done(struct hub *hub)
{
	loop_timer_cancel(&hub->empty_timer);
	for (unsigned w = 0; w < WALL_COUNT; w++)
		while (hub->empties[w].first) {
			struct empty *m = hub->empties[w].first;

			unlink_one(m);
			empty_drop(m);
		}
}

void hub_empty_list(
	struct hub *hub, void (*each)(void *arg, const struct hub_empty *empty), void *arg)
{
	for (unsigned w = 0; w < WALL_COUNT; w++) {
		const struct empties *all = &hub->empties[w];

		if (all->can)
			each(arg, &(struct hub_empty){ .tier = (enum wall)w,
					  .max = (unsigned)hub->config->pool_empty,
					  .target = all->target,
					  .ready = all->ready,
					  .starting = all->starting,
					  .hits = all->hits,
					  .misses = all->misses,
					  .made = all->made,
					  .lost = all->lost,
					  .trouble = all->trouble });
	}
}
