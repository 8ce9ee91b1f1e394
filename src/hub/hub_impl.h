/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_HUB_IMPL_H
#define WARD_HUB_HUB_IMPL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "db/db.h"
#include "hub/config.h"
#include "hub/hub.h"
#include "hub/lifecycle.h"
#include "hub/pairs.h"
#include "hub/quota.h"
#include "loop/loop.h"
#include "sup/link.h"

/*
 * What the files of hub/ share. Who owns what:
 *   hub.c       the hub itself, its timers and chores
 *   box.c       one sandbox in memory: made, freed, shown, moved from state to state
 *   registry.c  all of them, by id and in the order of their start
 *   live.c      the supervisor's side of a sandbox: spawn, link, what it tells
 *   create.c    verb create            verbs.c    the other verbs
 *   call.c      verbs under way        tenant.c   tenants, quotas, keys
 *   pool.c      warm sandboxes         found.c    after a restart
 *   ended.c     end records            events.c   the ring of events
 *   curve.c     samples, metrics       record.c   audit lines and the log
 *   snap.c      snapshots and forks    empty.c    supervisors that wait for a request
 */
struct sandbox;
struct pool;
struct empty;

struct tenant {
	struct tenant *next;
	char name[HUB_TENANT_MAX + 1];
	struct quota_limits max;
	bool known; /* max is what the database says now */
	struct quota_use use;
	struct quota_bucket bucket;
};

/* What a call on a sandbox waits for. */
enum call_wait {
	WAIT_RUNNING, /* create, resume, connect */
	WAIT_PAUSED,
	WAIT_GONE,
	WAIT_LINK,    /* running; resumes a paused one that may */
	WAIT_CONNECT, /* running; resumes what is paused, whoever did that */
	WAIT_ANSWER,  /* of the supervisor, to one link call */
};

enum call_kind { CALL_BOX, CALL_LINK, CALL_METRICS, CALL_AUDIT, CALL_SNAP, CALL_FORK };

struct snap_job; /* snap.c */

struct hub_call {
	struct hub_call *prev, *next; /* in the list it waits in; see call.c */
	struct call_list *list;
	struct hub *hub;
	enum call_kind kind;
	enum call_wait wait;
	union {
		hub_box_fn *box;
		hub_link_fn *link;
		hub_metrics_fn *metrics;
		hub_audit_fn *audit;
		hub_snap_fn *snap;
		hub_fork_fn *fork;
	} fn; /* NULL: forgotten */
	void *arg;
	struct sandbox *sb;      /* held; may be NULL */
	struct link_call *asked; /* WAIT_ANSWER: of the supervisor; NULL: answered */
	bool changed, failed;
	bool is_create; /* nobody knows the id until this call has told it */
	void (*begin)(void *arg, const struct hub_box *box, struct link *link); /* NULL: done */
	struct hub_fail fail;
	int64_t from_us, to_us; /* CALL_METRICS */
	int64_t timeout_ms;     /* hub_connect(): from the resume on; 0: not one */
	struct loop_job *job;   /* CALL_AUDIT, CALL_SNAP */
	int64_t begun_ns;
	/* WAIT_ANSWER: what to write down when the supervisor has said yes. */
	void (*agreed)(struct hub_call *call, const struct link_done *done);
	struct plan_limits limits;
	struct snap_job *snap; /* CALL_SNAP, CALL_FORK: owned */
};

struct call_list {
	struct hub_call *first, *last;
};

enum { TOKEN_HEX = 40 };

struct sandbox {
	struct hub *hub;
	struct sandbox *by_id;       /* next in its bucket */
	struct sandbox *prev, *next; /* by start, oldest first */
	unsigned holds;              /* calls that point here; it is freed when there are none */

	char id[ID_LEN + 1];
	enum hub_state state;
	char reason[HUB_REASON_MAX + 1];
	int64_t state_us;
	struct tenant *tenant; /* NULL in a pool */
	struct pool *pool;     /* while it is ready or on its way there */
	char *template_asked, *template_used;
	enum wall tier;
	char *tier_why, *warning, *tier_by;

	int64_t created_us, started_us;
	int64_t deadline_us; /* 0: none */
	int64_t timeout_ms;  /* as last asked for; 0: none */
	enum hub_on_timeout on_timeout;

	struct plan_limits limits;
	struct quota_use counted; /* what the tenant is charged for */
	struct pairs metadata, env;
	char *user, *workdir;
	struct network network;
	char envd_token[TOKEN_HEX + 1], traffic_token[TOKEN_HEX + 1];
	char trace[HUB_TRACE_MAX + 1];

	struct link *link;
	struct loop_fd watch;
	pid_t sup_pid;        /* 0: not known */
	struct link_call *op; /* pause or resume under way */
	unsigned reconnects, busy_calls;
	struct loop_timer patience; /* until the supervisor must have done what it was told */
	struct loop_later wake;
	struct call_list waiting;
	/* What else is written with the next step, in the same transaction. */
	db_also_fn *also;
	const struct db_end *end; /* the same; NULL when it is in the database */
	struct hub_fail trouble;  /* why the last move did not come about */
	struct loop_timer late;   /* a while after the deadline: the supervisor should have acted */

	struct hub_sample *samples; /* a ring of HUB_SAMPLES_KEPT; NULL before the first */
	unsigned sample_at, sample_count;
	uint64_t begun_ns; /* when the create was asked for */

	bool listed; /* in the registry */
	bool pool_ready, warming;
	bool from_pool;
	bool auto_resume;
	bool other_boot;
	bool found; /* of a former daemon, and has not said how it is */
	bool sampling;
	bool awaited; /* the loop does not sleep until its supervisor says something */
};

struct pool {
	struct hub *hub;
	char *name;     /* as it was set, and as the database knows it */
	char *template; /* after [alias] */
	unsigned min, max, target;
	char *warm_up;
	unsigned ready, starting;
	uint64_t hits, misses, made, shrunk;
	struct db_pool unsaved; /* of these, what the database does not have yet */
	bool is_unsaved;
	char trouble[HUB_REASON_MAX + 1];
	uint64_t used_ms;  /* last claim */
	uint64_t retry_ms; /* not before, after trouble */
	unsigned failures; /* in a row */
	bool listed;       /* seen in the database at the last look */
};

/* Supervisors of one tier that wait for a request. */
struct empties {
	struct empty *first, *last;
	bool can; /* a supervisor of this tier has said so */
	unsigned target, ready, starting;
	uint64_t hits, misses, made, lost;
	uint64_t used_ms;  /* last request that could have had one */
	uint64_t retry_ms; /* not before, after trouble */
	unsigned failures; /* in a row */
	char trouble[HUB_REASON_MAX + 1];
};

struct event_slot {
	uint64_t seq;
	int64_t at_us;
	const char *kind;
	char id[ID_LEN + 1], tenant[HUB_TENANT_MAX + 1], trace[HUB_TRACE_MAX + 1];
	char reason[HUB_REASON_MAX + 1];
};

enum { CREATE_BUCKETS = 12 };

struct counters {
	uint64_t created, create_failed, refused, killed, ended, failed, paused, resumed;
	uint64_t warm, cold, found, lost, swept, keys_refused, db_errors;
	uint64_t create_hist[CREATE_BUCKETS + 1], create_us_sum, create_count;
};

struct key_slot; /* tenant.c */
struct reaper;   /* live.c */
struct orphan;   /* found.c */

struct metrics_part {
	void (*add)(void *arg, struct buf *out);
	void *arg;
};
enum { METRICS_PARTS_MAX = 8 };

struct hub {
	struct loop *loop;
	struct config *config;
	char state_dir[WARD_PATH_MAX], ward[WARD_PATH_MAX];
	int state_fd, lock_fd, log_fd;
	int64_t last_start_us;
	struct db *db;
	enum wall tier;
	char *tier_by;
	char *domain;
	char boot_id[64];
	enum hub_level log_level;
	void (*point)(void *arg, const char *what);
	void *point_arg;

	struct sandbox **buckets;
	unsigned bucket_count, count;
	struct sandbox *first, *last;
	struct reaper *reapers;
	struct orphan *orphans;
	unsigned stray_looks;
	unsigned cpus;     /* of the host, as of the last chores */
	unsigned own_cpus; /* those of them that the daemon may run on */
	int load_fd;       /* /proc/loadavg */
	unsigned spare_at; /* where to look for room for a spare first */
	unsigned creating; /* asked for by somebody and not up yet */

	struct tenant *tenants;
	struct key_slot *keys;
	struct pool pools[HUB_POOLS_MAX];
	unsigned pool_count;
	struct empties empties[WALL_COUNT];

	struct call_list done;    /* answered, to be told */
	struct call_list working; /* wait for a worker */
	struct loop_later tell;
	unsigned calls;

	struct event_slot *events;       /* HUB_EVENTS_KEPT */
	uint64_t event_first, event_seq; /* the one before the first, and the last */
	struct hub_events *subscribers;

	struct counters n;
	struct metrics_part parts[METRICS_PARTS_MAX];
	unsigned part_count;

	unsigned finding; /* sandboxes of a former daemon that have not answered */
	struct loop_timer chores, found_timer, stray_timer, sampler, pools_timer, stop_timer;
	struct loop_timer empty_timer;
	struct loop_later pools_later;
	struct sandbox *sample_next;
	uint64_t pruned_ms;
	struct loop_job *sweep_job, *checkpoint_job, *audit_job;
	unsigned audit_lines; /* written, and perhaps not on the disk yet */
	void (*stopped)(void *arg);
	void *stopped_arg;
	uint64_t refilled_ms; /* a pool began one */
	uint64_t created_ms;  /* a create was answered */
	uint64_t refused_ms;  /* last audit line about a refused key */

	bool tenants_many;
	bool ready, stopping, stop_all, found_all;
	bool sweeping, sweep_again, checkpointing;
};

/* A moment at which a crash could hurt; tests cut here. */
static inline void hub_point(struct hub *hub, const char *what)
{
	if (hub->point)
		hub->point(hub->point_arg, what);
}

/* --- call.c --- */
struct hub_call *call_new(struct hub *hub, enum call_kind kind, struct sandbox *sb, void *arg);
void call_wait(struct hub_call *c, enum call_wait wait); /* in sb->waiting */
/* Answered: told at the end of this turn. @f NULL: success. */
void call_begin(struct hub_call *c); /* once; the sandbox takes commands */
/* hurry.c */
unsigned hurry_running(const char *line); /* of /proc/loadavg; 0: it cannot be told */
void hurry_count(struct hub *hub);
bool hurry_may(const struct hub *hub); /* nobody waits for a CPU now */

void call_done(struct hub_call *c, const struct hub_fail *f, bool changed);
void call_list_add(struct call_list *l, struct hub_call *c);
void call_list_remove(struct hub_call *c);
void calls_forget_all(struct hub *hub);

/* --- box.c --- */
struct sandbox *sandbox_new(struct hub *hub, const char *id);
void sandbox_hold(struct sandbox *sb);
void sandbox_release(struct sandbox *sb);
int sandbox_from_row(struct hub *hub, const struct db_box *row, struct sandbox **ret);
void sandbox_row(const struct sandbox *sb, struct db_box *ret);
void sandbox_view(const struct sandbox *sb, struct hub_box *ret);
/* Writes the step down, then takes it. Ends and what has happened already are taken even when they
 * cannot be written; anything else is then not done: negative, with @f filled. */
int sandbox_move(struct sandbox *sb, enum hub_state to, struct hub_fail *f, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The two halves of it, where something in between is in a hurry: written and taken; then told. */
int sandbox_step(struct sandbox *sb, enum hub_state to, struct hub_fail *f, const char *text);
void sandbox_stepped(struct sandbox *sb, enum hub_state from);
void sandbox_set_deadline(struct sandbox *sb, uint64_t left_ms); /* in memory; 0: none */
void sandbox_wake(struct sandbox *sb);     /* look at the waiting calls, at the end of this turn */
int text_set(char **at, const char *text); /* a copy; NULL stays NULL */

/* --- registry.c --- */
struct sandbox *registry_find(struct hub *hub, const char *id); /* also one that has just ended */
void registry_add(struct sandbox *sb);
void registry_remove(struct sandbox *sb);
void registry_to_end(struct sandbox *sb); /* started anew: the youngest */
/* The sandbox that @who may see under this name, or NULL with @f filled. */
struct sandbox *registry_see(
	struct hub *hub, const struct hub_caller *who, const char *id, struct hub_fail *f);

/* --- live.c --- */
/* @empty, which is taken: it is already there; NULL: one is started. */
int live_spawn(
	struct sandbox *sb, const struct sup_request *q, struct empty *empty, struct hub_fail *f);
/* A child of ours that must be reaped, whatever becomes of its sandbox; takes @pidfd. */
void live_reap(struct hub *hub, pid_t pid, int pidfd);
/* Calls its supervisor, again and again while that is busy. */
int live_call(struct sandbox *sb);
/* To the supervisor, the step being written already. @grace_ms 0: at once. */
void live_stop(struct sandbox *sb, const char *cause);
int live_pause(struct sandbox *sb, struct hub_fail *f);
int live_resume(struct sandbox *sb, int64_t timeout_ms, struct hub_fail *f);
void live_detach(struct sandbox *sb); /* no link any more */
void live_forget_children(struct hub *hub);
void live_give_up(struct sandbox *sb);               /* it did not answer after a restart */
void live_patience(struct sandbox *sb, unsigned ms); /* 0: no hurry */
void live_follow(struct sandbox *sb, const struct link_status *s);
/* The supervisor is gone, or never came. */
void live_lost(struct sandbox *sb, const char *why);

/* --- ended.c --- */
/* Its end record into the database, if there is one; else what the daemon saw. Then stopped or
 * failed, and out of the registry. */
void ended_finish(struct sandbox *sb, const char *cause, const char *detail);
/* Reads the record of a sandbox that has no live object. True when there was one. */
bool ended_import(struct hub *hub, const char *id);

/* --- create.c --- */
void create_answer(struct sandbox *sb); /* it runs: numbers, audit */
int create_cold_pool(struct pool *pool, struct hub_fail *f);
int timeout_check(
	struct hub *hub, int64_t asked, int64_t default_ms, int64_t *ret_ms, struct hub_fail *f);

/* --- snap.c --- */
/* What a new sandbox goes on from. */
struct snap_from {
	struct snap files;
	bool owned; /* the files are closed, and the texts freed, by snap_from_done() */
	char used[TEMPLATE_NAME_MAX + 1];
	enum wall tier;
	struct plan_limits limits;
	struct pairs env;
	char *user, *workdir;
};
/* The tenant's own snapshot of that name; NOT_FOUND. */
int snap_open(struct hub *hub, const struct hub_caller *who, const char *text,
	struct snap_from *ret, struct hub_fail *f);
void snap_from_done(struct snap_from *from);
void snap_job_free(struct snap_job *job);
void snap_tell(struct hub_call *call);
void fork_tell(struct hub_call *call);
void snaps_found(struct hub *hub); /* what was half made or half removed goes */

/* --- pool.c --- */
/* One that was made in @mold (want.h), which it has as its metadata. */
#define POOL_MOLD "mold"
struct sandbox *pool_find_ready(struct hub *hub, const char *template, const char *mold);
struct pool *pool_find(struct hub *hub, const char *template);
void pool_load(struct hub *hub);
void pool_began(struct sandbox *sb);   /* it runs: warm it up */
void pool_lost(struct sandbox *sb);    /* one of the pool is going or gone */
void pool_claimed(struct sandbox *sb); /* taken out, by somebody */
void pool_missed(struct hub *hub, const char *template);
void pool_tend(struct hub *hub); /* refill and shrink, soon */
void pool_save(struct hub *hub); /* what was counted, into the database */
void pool_done(struct hub *hub);

/* --- empty.c --- */
/* One that is ready, the caller's from now on; NULL: none, and the next time there may be one. */
struct empty *empty_take(struct hub *hub, enum wall tier);
const char *empty_id(const struct empty *m); /* what its sandbox is called */
/* Takes @m. As sup_spawn(). */
int empty_ask(struct empty *m, const struct sup_request *q, const struct link_hooks *hooks,
	struct link **ret, pid_t *ret_pid, struct err *e);
void empty_drop(struct empty *m);                  /* NULL is fine */
void empty_learn(struct hub *hub, enum wall tier); /* it can be made ahead */
void empty_tend(struct hub *hub);                  /* somebody was answered: make what is missing */
void empty_done(struct hub *hub);

/* --- found.c --- */
int found_begin(struct hub *hub, struct err *e);
void found_answered(struct sandbox *sb, const struct link_status *s);
void found_one_less(struct hub *hub);
void found_done(struct hub *hub);

/* --- tenant.c --- */
struct tenant *tenant_get(struct hub *hub, const char *name); /* NULL: out of memory */
void tenant_limits(struct hub *hub, struct tenant *t);        /* as the database says */
void tenant_charge(struct sandbox *sb); /* what it holds now, in place of what was counted */
void tenant_release(struct sandbox *sb);
void tenant_want(const struct hub *hub, const struct plan_limits *l, struct quota_use *ret);
void tenant_refresh(struct hub *hub); /* the database was changed by another */
void tenants_done(struct hub *hub);

/* --- events.c --- */
int events_init(struct hub *hub);
void events_done(struct hub *hub);
void event_put(struct hub *hub, const char *kind, const struct sandbox *sb, const char *reason);

/* --- curve.c --- */
void curve_add(struct sandbox *sb, const struct link_usage *u);
void curve_tick(struct hub *hub);

/* --- record.c --- */
/* An audit line "<event>" with id, tenant, key, trace and @members. */
void record_audit(struct hub *hub, const struct hub_caller *who, const char *event,
	const struct sandbox *sb, const struct buf *members);
/* One printable line, without quotes that would end a value. */
const char *record_text(char *out, size_t cap, const char *text);

/* --- hub.c --- */
void hub_sweep(struct hub *hub); /* what dead supervisors left, on a worker */
int64_t boot_us(void);
void hub_check_stopped(struct hub *hub);

#endif
