/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_HUB_H
#define WARD_HUB_HUB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/limits.h"
#include "hub/fail.h"
#include "hub/limits.h"
#include "plan/plan.h"
#include "plan/wall.h"
#include "policy/traits.h"

/*
 * The daemon's heart: every sandbox of this state directory, what may happen to it, and who may say
 * so. Fronts translate to these verbs and hold no logic of their own.
 *
 * Rules for callers, for every function here:
 * - Loop thread only.
 * - Strings and structs that are passed in are copied before the verb returns.
 * - A verb with a callback calls it exactly once, on the loop thread, and never before the verb
 *   itself has returned. What the callback is given is good until it returns.
 * - A verb returns a handle; hub_forget() on it means "nobody waits any more": the callback is not
 *   called, the verb goes on. The handle is gone once the callback has been called. Never NULL:
 *   failures come through the callback.
 * - A sandbox of another tenant and a sandbox that does not exist give the same answer.
 */
struct hub;
struct hub_call;
struct snap_from;
struct loop;
struct link;

/* --- Who asks ------------------------------------------------------------------------------- */

enum { HUB_TENANT_MAX = 64, HUB_KEY_ID_MAX = 16, HUB_TRACE_MAX = 64 };

struct hub_caller {
	char tenant[HUB_TENANT_MAX + 1]; /* "default"; never empty */
	char key_id[HUB_KEY_ID_MAX + 1]; /* public prefix of the key; "": not by key */
	char trace[HUB_TRACE_MAX + 1];   /* trace id of the request; "": none */
	/* Through the unix socket as root or ward's own user: may see all tenants (tenant is then
	 * the one it acts for), name tiers, set pools. */
	bool is_operator;
	/* A request of the sandbox plane, whose token the front has checked against the sandbox: no
	 * tenant is looked at. Only for hub_link(), hub_find() and hub_metrics(). */
	bool is_plane;
};

/* The key of a request, as it came. 0 with @ret filled (trace left alone), or UNAUTHENTICATED. The
 * key's own text is nowhere in @ret or @f. A revoked key stops working at the next call. */
int hub_authenticate(struct hub *hub, const char *key, struct hub_caller *ret, struct hub_fail *f);

/* The operator, acting for @tenant (NULL or "": "default"). INVALID for a name that is none. */
int hub_operator(const char *tenant, struct hub_caller *ret, struct hub_fail *f);

/* "00-<32 hex>-<16 hex>-<2 hex>": the trace id into @caller; leaves it empty for anything else. */
void hub_caller_trace(struct hub_caller *caller, const char *traceparent);

/* --- A sandbox as fronts see it --------------------------------------------------------------- */

enum hub_state {
	HUB_CREATING,
	HUB_READY, /* in a pool, nobody's yet; never shown to a tenant */
	HUB_RUNNING,
	HUB_PAUSING,
	HUB_PAUSED,
	HUB_RESUMING,
	HUB_STOPPING,
	HUB_STOPPED,
	HUB_FAILED,
	HUB_STATES,
};
const char *hub_state_name(enum hub_state s); /* "running" */

enum hub_on_timeout { HUB_TIMEOUT_KILL, HUB_TIMEOUT_PAUSE };

struct hub_pair {
	const char *key, *value;
};

/* What may go out and come in. Until there is a gateway a sandbox has a loopback of its own and no
 * way out, unless ward.toml gives its template the host's network; see docs/design/hub.md. */
struct hub_network {
	bool deny_internet; /* allow_internet_access: false */
	bool private_ports; /* allowPublicTraffic: false; a traffic token is minted */
	const char *const *allow_out, *const *deny_out; /* NULL-terminated, or NULL */
	/* maskRequestHost: what servers inside see as Host; "${PORT}" is the port. NULL: nothing.
	 */
	const char *mask_host;
};

/* All of it is borrowed: good until the callback returns, or for hub_find() until the next loop
 * turn. Texts are never NULL unless said. */
struct hub_box {
	const char *id;             /* [a-z0-9]+ */
	const char *tenant;         /* "" in a pool */
	const char *template_asked; /* as the request named it: "base" */
	const char *template_used;  /* after [alias]: "host" */
	enum hub_state state;
	const char *reason; /* why it is in this state, one line */
	enum wall tier;     /* WALL_NONE until decided */
	const char *tier_why;
	const char *warning; /* "": none */
	bool from_pool;

	int64_t created_us, started_us; /* since 1970; started_us is what lists order by */
	int64_t state_us;               /* when it came into this state */
	/* When its time is over; 0: never. While paused: when it was paused. */
	int64_t end_us;
	enum hub_on_timeout on_timeout;
	bool auto_resume;

	struct plan_limits limits; /* in force, defaults filled */
	uint64_t cpu_count;        /* for people: limits.cpu_milli rounded up, else the host's */
	const struct hub_pair *metadata, *env;
	unsigned metadata_count, env_count;
	const char *user, *workdir; /* NULL: the template's own */
	struct hub_network network;

	const char *envd_token;    /* NULL: none was minted */
	const char *traffic_token; /* NULL: none was minted */
};

/* The answer of every verb on one sandbox. @fail is NULL on success and @box is not; when it
 * failed @box is NULL. @changed: resume and connect: it was paused; kill: it was alive. */
typedef void hub_box_fn(
	void *arg, const struct hub_fail *fail, const struct hub_box *box, bool changed);

void hub_forget(struct hub_call *call); /* NULL is fine */

/* --- Verbs ------------------------------------------------------------------------------------ */

struct hub_mount {
	const char *src, *dst; /* src: a host path below a root listed in ward.toml */
	enum mount_mode mode;
};

enum { HUB_TIMEOUT_DEFAULT = -1, HUB_TIMEOUT_NONE = 0 };

struct hub_create {
	const char *template; /* as asked for; NULL: ward.toml's default */
	int64_t timeout_ms;   /* or HUB_TIMEOUT_*; NONE only where ward.toml allows it */
	enum hub_on_timeout on_timeout;
	bool auto_resume;
	const struct hub_pair *metadata, *env;
	unsigned metadata_count, env_count;
	struct plan_limits limits; /* 0: the template's or the default */
	const struct hub_mount *mounts;
	unsigned mount_count;
	const char *user, *workdir; /* NULL: the template's */
	struct hub_network network;
	bool secure;                  /* mint envd_token */
	enum wall tier;               /* WALL_NONE: policy, or what ward.toml says */
	const char *accept_risk;      /* operator only */
	struct traits traits;         /* beside "generated code", which is always so */
	bool no_pool;                 /* a cold start, also when a warm one is there */
	const struct snap_from *from; /* inside the hub only; NULL */
	/*
	 * NULL, or called once when the sandbox takes commands, with the verb's @arg: before the
	 * answer, perhaps before the verb returns, and not at all when the create fails. What it
	 * sends on @link goes out together with what binds a warm sandbox, so that the first
	 * command costs no way of its own.
	 */
	void (*begin)(void *arg, const struct hub_box *box, struct link *link);
};

/* Takes a warm sandbox when the pool has one, else starts a new one; answers when commands can run.
 * One that is forgotten before it has answered is ended: nobody knows its id. */
struct hub_call *hub_create(struct hub *hub, const struct hub_caller *who,
	const struct hub_create *req, hub_box_fn *fn, void *arg);

/* A live one, in whatever state; needs no callback: 0, or NOT_FOUND (also for one that has ended:
 * see hub_why()). */
int hub_find(struct hub *hub, const struct hub_caller *who, const char *id, struct hub_box *ret,
	struct hub_fail *f);

/* Every live sandbox, for requests that name none (signed URLs). Stops when @each returns true. */
bool hub_each_live(struct hub *hub, bool (*each)(void *arg, const struct hub_box *box), void *arg);

struct hub_list {
	unsigned states; /* 1 << HUB_...; 0: running and paused (with those on the way there) */
	const char *template;            /* NULL: any; matches as asked and as used */
	const struct hub_pair *metadata; /* all must be equal */
	unsigned metadata_count;
	int64_t started_after_us; /* 0: any */
	bool ascending;           /* by start; default: newest first */
	unsigned limit;           /* 0: HUB_LIST_MAX */
	const char *token;        /* from the page before; NULL or "": the first */
	bool all_tenants;         /* operator only */
};

enum { HUB_TOKEN_MAX = 64 };

/* Calls @each in order. @ret_token is "" after the last page. INVALID for a token that is none. */
int hub_list(struct hub *hub, const struct hub_caller *who, const struct hub_list *q,
	void (*each)(void *arg, const struct hub_box *box), void *arg,
	char ret_token[HUB_TOKEN_MAX + 1], struct hub_fail *f);
/* Running ones of the caller's tenant (of all: operator), for X-Total-Running. */
unsigned hub_count_running(struct hub *hub, const struct hub_caller *who);

/* Ends it, from any state. NOT_FOUND for one that has ended. Answers when it is gone. */
struct hub_call *hub_kill(
	struct hub *hub, const struct hub_caller *who, const char *id, hub_box_fn *fn, void *arg);
/* CONFLICT when paused already, UNSUPPORTED when the tier cannot. */
struct hub_call *hub_pause(
	struct hub *hub, const struct hub_caller *who, const char *id, hub_box_fn *fn, void *arg);
/* @timeout_ms as in create. CONFLICT when it is not paused. */
struct hub_call *hub_resume(struct hub *hub, const struct hub_caller *who, const char *id,
	int64_t timeout_ms, hub_box_fn *fn, void *arg);
/* Running: the end moves to the later of its own and now + timeout. Paused: resume. Answers with
 * @changed true when it was resumed. */
struct hub_call *hub_connect(struct hub *hub, const struct hub_caller *who, const char *id,
	int64_t timeout_ms, hub_box_fn *fn, void *arg);
/* Absolute from now; may shorten; 0 or less ends it now. NOT_RUNNING when paused. */
struct hub_call *hub_set_timeout(struct hub *hub, const struct hub_caller *who, const char *id,
	int64_t timeout_ms, hub_box_fn *fn, void *arg);
/* Extends only: what `refreshes` does. */
struct hub_call *hub_extend(struct hub *hub, const struct hub_caller *who, const char *id,
	int64_t timeout_ms, hub_box_fn *fn, void *arg);
/* 0 in a field: leave it. TOO_MANY when the tenant's sums do not allow it. */
struct hub_call *hub_set_limits(struct hub *hub, const struct hub_caller *who, const char *id,
	const struct plan_limits *limits, hub_box_fn *fn, void *arg);
/* Replaces all of it, but for private_ports. UNSUPPORTED for what cannot be enforced here. */
struct hub_call *hub_set_network(struct hub *hub, const struct hub_caller *who, const char *id,
	const struct hub_network *net, hub_box_fn *fn, void *arg);

struct hub_snap {                       /* borrowed, as struct hub_box; texts are never NULL */
	const char *id, *tenant, *name; /* name: "" for none */
	const char *sandbox;            /* of which it was taken */
	const char *template_used;
	enum wall tier;
	uint64_t bytes;        /* on disk */
	uint64_t memory_bytes; /* the limit of what goes on from it */
	int64_t created_us;
};
typedef void hub_snap_fn(void *arg, const struct hub_fail *fail, const struct hub_snap *snap);
/*
 * Writes the sandbox down, running or paused; it goes on. UNSUPPORTED where its tier cannot,
 * CONFLICT while it is being started, paused or resumed, TOO_MANY past the tenant's quota. @name
 * (NULL: none) may be one that exists: the newest is meant. A create whose template is the id or
 * the name of a snapshot (with or without ":default") goes on from it: with its tier and limits,
 * and with its environment unless the request has one.
 */
struct hub_call *hub_snapshot(struct hub *hub, const struct hub_caller *who, const char *id,
	const char *name, hub_snap_fn *fn, void *arg);
struct hub_snaps {
	const char *sandbox, *name; /* NULL: any */
	bool all_tenants;           /* operator only */
};
/* Newest first. */
int hub_snapshots(struct hub *hub, const struct hub_caller *who, const struct hub_snaps *q,
	void (*each)(void *arg, const struct hub_snap *snap), void *arg, struct hub_fail *f);
/* By id or name. What goes on from it is not touched. */
int hub_snapshot_remove(
	struct hub *hub, const struct hub_caller *who, const char *word, struct hub_fail *f);

struct hub_forked { /* exactly one of the two */
	const struct hub_fail *fail;
	const struct hub_box *box;
};
typedef void hub_fork_fn(
	void *arg, const struct hub_fail *fail, const struct hub_forked *list, unsigned count);
/* @count copies of a sandbox as it is now, which goes on: through memory, not through the disk.
 * Each is an ordinary sandbox with its own id and tokens, and counts as one; @timeout_ms as in
 * create. Fails as a whole as hub_snapshot() does. */
struct hub_call *hub_fork(struct hub *hub, const struct hub_caller *who, const char *id,
	unsigned count, int64_t timeout_ms, hub_fork_fn *fn, void *arg);

/*
 * The live connection to the sandbox's supervisor, for process, file and port calls (sup/link.h).
 * A paused sandbox with auto_resume is resumed first; without: NOT_RUNNING. One that is just being
 * paused or resumed is waited for. @link is borrowed: calls opened on it are told when it dies; do
 * not keep it past the callback, ask again.
 */
typedef void hub_link_fn(void *arg, const struct hub_fail *fail, struct link *link);
struct hub_call *hub_link(
	struct hub *hub, const struct hub_caller *who, const char *id, hub_link_fn *fn, void *arg);
/* The same without waiting, for the common case: NULL when it is not running right now. */
struct link *hub_link_now(struct hub *hub, const struct hub_caller *who, const char *id);

/* --- What happened ---------------------------------------------------------------------------- */

struct hub_sample {
	int64_t at_us;
	uint64_t cpu_us;    /* used since the start; UINT64_MAX in any of these: not known */
	uint64_t cpu_milli; /* used per second since the sample before, in thousandths of a CPU */
	uint64_t mem_used, mem_cache, mem_total, disk_used, disk_total, pids, net_in, net_out;
};

/* The curve between two moments (0: no bound), oldest first, the newest one measured now. */
typedef void hub_metrics_fn(void *arg, const struct hub_fail *fail, const struct hub_box *box,
	const struct hub_sample *samples, unsigned count);
struct hub_call *hub_metrics(struct hub *hub, const struct hub_caller *who, const char *id,
	int64_t from_us, int64_t to_us, hub_metrics_fn *fn, void *arg);

struct hub_step { /* one row of the journal */
	int64_t at_us;
	enum hub_state from, to;
	const char *reason;
};

/* How it ended: what its supervisor left behind, or what the daemon saw when there is nothing. */
struct hub_end {
	const char *cause;  /* "killed-by-operator", "time-limit", ...: sup/end.h */
	const char *detail; /* one line */
	const char *step;   /* setup-failed only; "" */
	int status;
	int64_t at_us;
	const char *report; /* JSON object with usage, denials, last events; "" when unknown */
	const char *output; /* the last bytes that its commands wrote; any bytes */
	size_t output_len;
	const struct hub_sample *samples;
	unsigned sample_count;
};

struct hub_story {
	struct hub_box box;
	const struct hub_step *steps;
	unsigned step_count;
	const struct hub_end *end; /* NULL: it has not ended */
};

/* Everything that is known about one sandbox, alive or gone. */
int hub_why(struct hub *hub, const struct hub_caller *who, const char *id,
	void (*tell)(void *arg, const struct hub_story *story), void *arg, struct hub_fail *f);

struct hub_event {
	uint64_t seq; /* 1, 2, 3... since this daemon started */
	int64_t at_us;
	const char *kind; /* "sandbox.running", "sandbox.limits", "pool.ready", "daemon.started" */
	const char *id, *tenant, *reason, *trace; /* "" where there is none */
};

struct hub_events;
/*
 * A subscription. @wake is called (on the loop thread, once per burst) when there is something to
 * take; it must not block. @since: the last number that was seen, 0: from now on, 1: all there are.
 * A tenant sees its own, an operator all. NULL when there are HUB_SUBSCRIBERS_MAX already,
 * or HUB_SUBSCRIBERS_EACH of this tenant.
 */
struct hub_events *hub_events_open(struct hub *hub, const struct hub_caller *who, uint64_t since,
	void (*wake)(void *arg), void *arg);
/* 1: @ret is filled, good until the next call here. 0: nothing now. */
int hub_events_next(struct hub_events *s, struct hub_event *ret);
uint64_t hub_events_lost(const struct hub_events *s); /* fell out of the ring before it was taken */
void hub_events_close(struct hub_events *s);

/* The caller's own lines of the audit log (an operator's: all), newest @limit, oldest first. */
typedef void hub_audit_fn(
	void *arg, const struct hub_fail *fail, const char *const *lines, unsigned count);
struct hub_call *hub_audit(struct hub *hub, const struct hub_caller *who, uint64_t after_seq,
	unsigned limit, hub_audit_fn *fn, void *arg);

/* Something a front wants on the record: "file.read", "port.open". @members as for audit_append. */
void hub_audit_note(struct hub *hub, const struct hub_caller *who, const char *event,
	const char *id, const struct buf *members);

/* --- Pools, templates, the daemon itself ------------------------------------------------------ */

struct hub_pool {
	const char *template;
	unsigned min, max;
	const char *warm_up; /* a command for /bin/sh -c, run before a sandbox is ready; "" */
	unsigned ready, starting;
	uint64_t hits, misses, made, shrunk;
	int64_t oldest_us, newest_us; /* when they became ready; 0: none */
	const char *trouble;          /* why the last one could not be made; "" */
};

/* Operator only. @max 0 removes the pool. Persistent. */
int hub_pool_set(struct hub *hub, const struct hub_caller *who, const char *template, unsigned min,
	unsigned max, const char *warm_up, struct hub_fail *f);
void hub_pool_list(
	struct hub *hub, void (*each)(void *arg, const struct hub_pool *pool), void *arg);

/* What waits, made ahead and empty, for a request that wants a sandbox of this tier. */
struct hub_empty {
	enum wall tier;
	unsigned max, target, ready, starting;
	uint64_t hits, misses, made, lost;
	const char *trouble; /* why the last one could not be made; "" */
};
void hub_empty_list(
	struct hub *hub, void (*each)(void *arg, const struct hub_empty *empty), void *arg);

struct hub_template {
	const char *name;   /* what a request may say */
	const char *means;  /* after [alias]; the same as name otherwise */
	enum wall tier;     /* from ward.toml; WALL_NONE: policy decides */
	int64_t created_us; /* 0: not known */
	/* What a sandbox of it gets that asks for nothing. */
	uint64_t cpu_count, memory_bytes, disk_bytes;
};

void hub_templates(struct hub *hub, const struct hub_caller *who,
	void (*each)(void *arg, const struct hub_template *t), void *arg);
/* What a name (NULL: that of who asks for none) means after [alias], with its existence checked;
 * NOT_FOUND. */
int hub_template_find(struct hub *hub, const struct hub_caller *who, const char *name,
	char ret_means[TEMPLATE_NAME_MAX + 1], struct hub_fail *f);

/* Prometheus text. @who: whose numbers, beside those of the whole daemon; NULL or the operator:
 * every tenant's. */
void hub_metrics_text(struct hub *hub, const struct hub_caller *who, struct buf *out);
/* For fronts' own numbers in the same text: called with the buffer each time. */
void hub_metrics_add(struct hub *hub, void (*add)(void *arg, struct buf *out), void *arg);

/* A line of the daemon's log: "ts=... lvl=info at=front.request box=... trace=... <fmt>". @fmt
 * gives key=value words; a text that may hold anything goes last, as msg="...". */
enum hub_level { HUB_DEBUG, HUB_INFO, HUB_WARN, HUB_ERROR };
void hub_log(struct hub *hub, enum hub_level level, const char *at, const struct hub_caller *who,
	const char *id, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
bool hub_logs(const struct hub *hub, enum hub_level level);

/* May requests be served: reconciliation is over, not stopping. */
bool hub_is_ready(const struct hub *hub);
/* The domain that goes into answers: ward.toml, or "localhost:<port>" of the first listener. */
const char *hub_domain(const struct hub *hub);
struct loop *hub_loop(struct hub *hub);
const char *hub_state_dir(const struct hub *hub);

/* --- For whoever runs the daemon -------------------------------------------------------------- */

struct config;

struct hub_options {
	struct loop *loop;
	struct config *config; /* taken, also when hub_open() fails */
	const char *state_dir; /* absolute */
	const char *ward;      /* path of the lean executable */
	enum wall tier;        /* over everything in ward.toml; WALL_NONE: not said */
	const char *tier_by;   /* who said so, for the audit: "ward serve --tier" */
	/* For tests: called at every moment at which a crash could hurt. May be NULL. */
	void (*point)(void *arg, const char *what);
	void *point_arg;
};

/*
 * Opens the database, takes the state directory for this daemon alone (-EBUSY when another has it),
 * and begins to look for the sandboxes that a former daemon left; hub_is_ready() says when that is
 * over.
 */
int hub_open(const struct hub_options *options, struct hub **ret, struct err *e);
/* Lets go of everything; sandboxes go on. Calls under way are forgotten. NULL is fine. */
void hub_close(struct hub *hub);
/* A new ward.toml. Takes @config. What lives keeps what it has. */
void hub_reload(struct hub *hub, struct config *config);
const struct config *hub_config(const struct hub *hub);
/* From now on every create is BUSY; with @sandboxes, all of them are ended. @done when that is
 * over (at the latest after HUB_ANSWER_MS). */
void hub_stop(struct hub *hub, bool sandboxes, void (*done)(void *arg), void *arg);
/* What goes into answers when ward.toml names no domain. */
void hub_set_domain(struct hub *hub, const char *domain);

#endif
