/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/hub.c - the hub itself: opened, kept in order, closed.
 *
 * Owns:  the state directory (one daemon at a time), the database, and the chores: forgetting what
 *        is old, emptying the database's log, sweeping.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/own.h"
#include "base/str.h"
#include "core/sweep.h"
#include "hub/hub_impl.h"
#include "store/audit.h"
#include "store/state.h"

enum {
	CHORES_MS = 1000,
	PRUNE_MS = 60 * 1000,
	PRUNE_AT_ONCE = 200,
	LOG_BYTES_MAX = 4 << 20,
	JOURNAL_KEPT = 200000
};

int64_t boot_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void read_boot_id(char *out, size_t cap)
{
	own_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, out, cap - 1) : 0;

	out[n > 0 ? n : 0] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

/* --- chores --- */

struct sweep_work {
	int state_fd;
	struct hub *hub;
};

static void sweep_work(void *arg)
{
	core_sweep(((struct sweep_work *)arg)->state_fd, 0, NULL);
}

static void sweep_done(void *arg, bool wanted)
{
	struct sweep_work *w = arg;

	if (!wanted)
		return;
	w->hub->sweeping = false;
	w->hub->sweep_job = NULL;
	w->hub->n.swept++;
	if (w->hub->sweep_again)
		hub_sweep(w->hub);
	hub_check_stopped(w->hub);
}

/* One at a time: two threads of one process do not see each other's record locks. */
void hub_sweep(struct hub *hub)
{
	struct sweep_work w = { hub->state_fd, hub };
	struct err e = { 0 };

	hub->sweep_again = hub->sweeping;
	if (hub->sweeping)
		return;
	hub->sweeping = true;
	if (loop_work(hub->loop, &w, sizeof(w), sweep_work, sweep_done, &hub->sweep_job, &e) < 0) {
		hub->sweeping = false;
		hub_log(hub, HUB_ERROR, "sweep", NULL, "", "msg=\"%s\"", e.msg);
	}
}

struct checkpoint_work {
	char state_dir[WARD_PATH_MAX];
	struct hub *hub;
	struct err e;
};

static void checkpoint_work(void *arg)
{
	struct checkpoint_work *w = arg;

	db_checkpoint(w->state_dir, &w->e);
}

static void checkpoint_done(void *arg, bool wanted)
{
	struct checkpoint_work *w = arg;

	if (!wanted)
		return;
	w->hub->checkpointing = false;
	w->hub->checkpoint_job = NULL;
	if (w->e.code)
		hub_log(w->hub, HUB_WARN, "db.checkpoint", NULL, "", "msg=\"%s\"", w->e.msg);
}

static void checkpoint(struct hub *hub)
{
	struct checkpoint_work w = { .hub = hub };

	if (hub->checkpointing || !db_wants_checkpoint(hub->db))
		return;
	str_copy(w.state_dir, sizeof(w.state_dir), hub->state_dir);
	hub->checkpointing = loop_work(hub->loop, &w, sizeof(w), checkpoint_work, checkpoint_done,
				     &hub->checkpoint_job, NULL) == 0;
}

static void prune(struct hub *hub)
{
	const struct config *c = hub->config;
	uint64_t now = loop_now_ms(hub->loop);
	struct err e = { 0 };
	int r;

	if (hub->pruned_ms && now - hub->pruned_ms < PRUNE_MS)
		return;
	r = db_prune(hub->db, lifecycle_ended_states(), clock_now_us() - c->keep_age_ms * 1000,
		(unsigned)c->keep_count, PRUNE_AT_ONCE, &e);
	if (r >= 0 && db_trim_journal(hub->db, JOURNAL_KEPT, &e) < 0)
		r = -EIO;
	if (r < 0)
		hub_log(hub, HUB_WARN, "db.prune", NULL, "", "msg=\"%s\"", e.msg);
	/* When there was more than one bite, the next follows soon. */
	if (r < PRUNE_AT_ONCE)
		hub->pruned_ms = now;
}

struct audit_work {
	struct hub *hub;
	int state_fd;
	int r;
};

static void audit_work(void *arg)
{
	struct audit_work *w = arg;

	w->r = audit_sync(w->state_fd);
}

static void audit_done(void *arg, bool wanted)
{
	struct audit_work *w = arg;

	if (!wanted)
		return;
	w->hub->audit_job = NULL;
	if (w->r < 0)
		hub_log(w->hub, HUB_WARN, "audit.sync", NULL, "", "msg=\"%s\"", strerror(-w->r));
}

/* Lines are written at once and seen to the disk here: nobody waits, and a loss of power costs what
 * was written in the last CHORES_MS. */
static void sync_audit(struct hub *hub)
{
	struct audit_work w = { .hub = hub, .state_fd = hub->state_fd };

	if (!hub->audit_lines || hub->audit_job)
		return;
	hub->audit_lines = 0;
	loop_work(hub->loop, &w, sizeof(w), audit_work, audit_done, &hub->audit_job, NULL);
}

/* What the kernel says it reads from a file: too much for each create. */
static void count_cpus(struct hub *hub)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	hub->cpus = online > 0 ? (unsigned)online : 1;
	hurry_count(hub);
}

static void on_chores(void *ctx)
{
	struct hub *hub = ctx;

	count_cpus(hub);
	if (db_changed(hub->db))
		tenant_refresh(hub);
	pool_save(hub);
	checkpoint(hub);
	sync_audit(hub);
	prune(hub);
	loop_timer_set(hub->loop, &hub->chores, CHORES_MS, on_chores, hub);
}

/* --- opening --- */

/* A record lock: a child that was forked and has not come to its exec does not hold it. */
static int take_lock(struct hub *hub, struct err *e)
{
	struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	hub->lock_fd = openat(
		hub->state_fd, "serve.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (hub->lock_fd < 0)
		return err_set(e, errno, "opening 'serve.lock' in '%s'", hub->state_dir);
	if (fcntl(hub->lock_fd, F_SETLK, &whole) == 0)
		return 0;
	if (errno != EAGAIN && errno != EACCES)
		return err_set(e, errno, "locking 'serve.lock' in '%s'", hub->state_dir);
	return err_say(e, EBUSY,
		"another 'ward serve' runs on '%s'; stop it first, or choose another --state-dir",
		hub->state_dir);
}

/* What supervisors say on their standard error; they outlive our own. */
static int open_log(struct hub *hub, struct err *e)
{
	struct stat st;

	if (mkdirat(hub->state_fd, "run", 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "making 'run' in '%s'", hub->state_dir);
	if (fstatat(hub->state_fd, "run/sup.log", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		st.st_size > LOG_BYTES_MAX)
		renameat(hub->state_fd, "run/sup.log", hub->state_fd, "run/sup.log.old");
	hub->log_fd = openat(hub->state_fd, "run/sup.log",
		O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	return hub->log_fd < 0 ? err_set(e, errno, "opening 'run/sup.log' in '%s'", hub->state_dir)
			       : 0;
}

static enum hub_level level_of(const struct config *c)
{
	static const char *const names[] = { "debug", "info", "warn", "error" };

	for (int i = HUB_DEBUG; i <= HUB_ERROR; i++)
		if (str_eq(names[i], c->log))
			return (enum hub_level)i;
	return HUB_INFO;
}

static int open_parts(struct hub *hub, const struct hub_options *o, struct err *e)
{
	int r = str_copy(hub->state_dir, sizeof(hub->state_dir), o->state_dir);

	if (r == 0)
		r = str_copy(hub->ward, sizeof(hub->ward), o->ward);
	if (r == 0 && o->tier_by)
		r = text_set(&hub->tier_by, o->tier_by);
	if (r < 0)
		return err_set(e, -r, "opening '%s'", o->state_dir);
	r = state_open(hub->state_dir, &hub->state_fd, e);
	if (r == 0)
		r = state_fill(hub->state_fd, e);
	if (r == 0)
		r = take_lock(hub, e);
	if (r == 0)
		r = open_log(hub, e);
	if (r == 0)
		r = db_open(hub->state_dir, DB_DAEMON, &hub->db, e);
	if (r < 0)
		return r;
	hub->bucket_count = HUB_BOXES_MAX;
	hub->buckets = calloc(hub->bucket_count, sizeof(struct sandbox *));
	if (!hub->buckets || events_init(hub) < 0)
		return err_set(e, ENOMEM, "opening the hub");
	read_boot_id(hub->boot_id, sizeof(hub->boot_id));
	return 0;
}

int hub_open(const struct hub_options *o, struct hub **ret, struct err *e)
{
	struct hub *hub = calloc(1, sizeof(*hub));
	int r;

	if (!hub) {
		config_destroy(o->config);
		return err_set(e, ENOMEM, "opening the hub");
	}
	hub->loop = o->loop;
	hub->config = o->config;
	hub->log_level = level_of(o->config);
	hub->tier = o->tier;
	hub->point = o->point;
	hub->point_arg = o->point_arg;
	hub->state_fd = hub->lock_fd = hub->log_fd = -1;
	hub->load_fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC); /* -1: hurry_may() says no */
	count_cpus(hub);
	r = open_parts(hub, o, e);
	if (r == 0) {
		db_changed(hub->db);
		tenant_refresh(hub);
		r = found_begin(hub, e);
	}
	if (r < 0) {
		hub_close(hub);
		return r;
	}
	on_chores(hub);
	curve_tick(hub);
	*ret = hub;
	return 0;
}

static void cancel_all(struct hub *hub)
{
	loop_timer_cancel(&hub->chores);
	loop_timer_cancel(&hub->found_timer);
	loop_timer_cancel(&hub->sampler);
	loop_timer_cancel(&hub->pools_timer);
	loop_timer_cancel(&hub->stop_timer);
	loop_later_cancel(&hub->pools_later);
	loop_later_cancel(&hub->tell);
	if (hub->sweep_job)
		loop_job_forget(hub->sweep_job);
	if (hub->checkpoint_job)
		loop_job_forget(hub->checkpoint_job);
	if (hub->audit_job)
		loop_job_forget(hub->audit_job);
}

void hub_close(struct hub *hub)
{
	if (!hub)
		return;
	cancel_all(hub);
	hub->stopped = NULL;
	if (hub->buckets) {
		calls_forget_all(hub);
		while (hub->first) {
			loop_later_cancel(&hub->first->wake);
			registry_remove(hub->first);
		}
	}
	found_done(hub);
	empty_done(hub);
	live_forget_children(hub);
	tenants_done(hub);
	if (hub->db)
		pool_save(hub);
	pool_done(hub);
	events_done(hub);
	db_close(hub->db);
	config_destroy(hub->config);
	free(hub->buckets);
	free(hub->tier_by);
	free(hub->domain);
	if (hub->load_fd >= 0)
		close(hub->load_fd);
	if (hub->log_fd >= 0)
		close(hub->log_fd);
	if (hub->lock_fd >= 0)
		close(hub->lock_fd);
	if (hub->state_fd >= 0)
		close(hub->state_fd);
	free(hub);
}

void hub_reload(struct hub *hub, struct config *config)
{
	config_destroy(hub->config);
	hub->config = config;
	hub->log_level = level_of(config);
	tenant_refresh(hub);
	hub_log(hub, HUB_INFO, "daemon.reload", NULL, "", "templates=%u aliases=%u",
		config->template_count, config->alias_count);
}

/* --- stopping --- */

void hub_check_stopped(struct hub *hub)
{
	void (*fn)(void *arg) = hub->stopped;

	if (!fn || hub->sweeping || (hub->stop_all && hub->count))
		return;
	hub->stopped = NULL;
	loop_timer_cancel(&hub->stop_timer);
	fn(hub->stopped_arg);
}

static void on_stop_timer(void *ctx)
{
	struct hub *hub = ctx;
	void (*fn)(void *arg) = hub->stopped;

	hub->stopped = NULL;
	if (fn)
		fn(hub->stopped_arg);
}

void hub_stop(struct hub *hub, bool sandboxes, void (*done)(void *arg), void *arg)
{
	hub->stopping = true;
	hub->stopped = done;
	hub->stopped_arg = arg;
	hub->stop_all = sandboxes;
	for (struct sandbox *sb = hub->first; sandboxes && sb; sb = sb->next) {
		if (!lifecycle_allows(sb->state, HUB_STOPPING))
			continue;
		sandbox_move(sb, HUB_STOPPING, NULL, "the daemon was told to stop");
		live_stop(sb, "the daemon was told to stop");
	}
	loop_timer_set(hub->loop, &hub->stop_timer,
		(sandboxes && hub->count) || hub->sweeping ? HUB_ANSWER_MS + 2000 : 0,
		on_stop_timer, hub);
}

/* --- small things --- */

bool hub_is_ready(const struct hub *hub)
{
	return hub->ready && !hub->stopping;
}

const char *hub_domain(const struct hub *hub)
{
	if (hub->config->domain)
		return hub->config->domain;
	return hub->domain ? hub->domain : "localhost";
}

void hub_set_domain(struct hub *hub, const char *domain)
{
	text_set(&hub->domain, domain);
}

struct loop *hub_loop(struct hub *hub)
{
	return hub->loop;
}

const char *hub_state_dir(const struct hub *hub)
{
	return hub->state_dir;
}

const struct config *hub_config(const struct hub *hub)
{
	return hub->config;
}
