/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_KEYS_KEY_H
#define WARD_TIER_KERNEL_KEYS_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Keys and keyrings (add_key, request_key, keyctl). All under the kernel lock. A key lives as long
 * as a ring links it, or a thread, a process or a user has it as its own ring. A pointer that is
 * handed out is borrowed, and good until the call is over.
 */
struct kernel;
struct task;
struct proc;
struct walk;
struct buf;

enum {
	KEYS_MAX = 16384,      /* of the sandbox, whoever they belong to */
	KEY_LINKS_MAX = 65536, /* the same */
	KEY_BYTES_MAX = 32 << 20,
	KEY_TYPE_MAX = 32,   /* with the NUL */
	KEY_DESC_MAX = 4096, /* the same */
	KEY_PAYLOAD_MAX = (1 << 20) - 1,
	KEY_USER_PAYLOAD_MAX = 32767,
	KEY_UPDATE_MAX = 4096, /* of KEYCTL_UPDATE */
	KEY_LINK_BYTES = 4,    /* what a link costs its ring's owner */
	KEY_BIG_BYTES = 16,    /* and a big key: its payload is not counted */
	KEY_DEPTH_MAX = 6,     /* rings in rings that are searched */
	KEY_NEGATIVE_S = 60,   /* what nobody could make is remembered that long */
};

/* What is needed of a key; the four bytes of its permissions are these, for four kinds of callers.
 */
enum {
	KEY_VIEW = 1,
	KEY_READ = 2,
	KEY_WRITE = 4,
	KEY_SEARCH = 8,
	KEY_LINK = 16,
	KEY_SETATTR = 32,
	KEY_ALL = 63,
};
#define KEY_POS(need) ((uint32_t)(need) << 24)
#define KEY_USR(need) ((uint32_t)(need) << 16)
#define KEY_GRP(need) ((uint32_t)(need) << 8)
#define KEY_PERM_BITS 0x3f3f3f3fu

enum key_type { KEY_TYPE_USER, KEY_TYPE_LOGON, KEY_TYPE_BIG, KEY_TYPE_RING, KEY_TYPES };
extern const char *const key_type_names[KEY_TYPES];

struct key {
	int32_t serial;
	uint32_t type;
	unsigned refs;
	uint32_t uid, gid, perm;
	char *desc;
	void *data; /* payload; a ring has links */
	size_t len;
	struct key **links;
	uint32_t link_count, link_cap;
	int32_t reject; /* negative key: the errno, as it is reported; 0: a good one */
	bool revoked, invalid, restricted, uid_ring;
	bool counted;    /* against its owner's quota */
	uint32_t quota;  /* bytes */
	int64_t expires; /* monotonic; 0: never */
	uint64_t mark;   /* the search that was here last, and how deep */
	unsigned mark_depth;
	struct key *next;      /* in the hash */
	struct key *dead_next; /* about to be freed */
};

struct key_user {
	uint32_t uid;
	uint32_t keys, counted_keys, counted_bytes;
	struct key *ring, *session; /* references */
	struct key_user *next;
};

enum { KEY_HASH = 256 };
struct key_state {
	struct key *hash[KEY_HASH];
	struct key_user *users;
	uint32_t count, links;
	uint64_t bytes; /* of payloads and descriptions */
	uint64_t search;
	struct key *dead;
	bool burying;
	/* /proc/sys/kernel/keys */
	uint32_t maxkeys, maxbytes, root_maxkeys, root_maxbytes;
};

struct key_state *key_state(struct kernel *k); /* NULL: no memory */
void keys_done(struct kernel *k);
void keys_walk(struct kernel *k, struct walk *w);

/* key.c: one key. */
struct key_new {
	enum key_type type;
	const char *desc;
	uint32_t uid, gid, perm;
	bool counted, overrun; /* against the quota; which may be overrun */
};
int key_create(struct kernel *k, const struct key_new *n, struct key **ret); /* one reference */
int key_set_payload(struct kernel *k, struct key *key, const void *data, size_t len);
struct key *key_find(struct kernel *k, int32_t serial);
struct key *key_ref(struct key *key);
void key_unref(struct kernel *k, struct key *key); /* NULL is fine */
void keys_bury(struct kernel *k);                  /* frees those that nobody has */
/* @bytes more (or fewer) of @key's owner; -EDQUOT. */
int key_charge(struct kernel *k, struct key *key, int64_t bytes);
int key_give(struct kernel *k, struct key *key, uint32_t uid);
int key_validate(struct kernel *k, const struct key *key);
void key_expire_in(struct kernel *k, struct key *key, uint64_t seconds);
/* Which type; -ENODEV. */
int key_type_of(const char *name);
struct key_user *key_user(struct kernel *k, uint32_t uid); /* found, or made: NULL no memory */
void key_user_tidy(struct kernel *k, struct key_user *u);
/* Into the tables as it is: a walk's. */
void key_insert(struct key_state *s, struct key *key);

/* ring.c: what a ring links. */
struct key *ring_find(const struct key *ring, uint32_t type, const char *desc);
int ring_link(struct kernel *k, struct key *ring, struct key *key);
int ring_unlink(struct kernel *k, struct key *ring, struct key *key); /* -ENOENT */
void ring_clear(struct kernel *k, struct key *ring);
/* Takes a key that is no longer good off all rings. */
void rings_drop(struct kernel *k, struct key *key);
/* The same for all that have expired or were revoked. */
void rings_collect(struct kernel *k);

/* search.c: whose rings, and what they lead to. */
struct key_match {
	int32_t serial; /* by number; or 0: */
	uint32_t type;
	const char *desc;
	bool skip_expired;
};
struct key_at {
	struct key *key;
	bool possessed;
};
bool key_may(struct task *t, struct key_at at, unsigned need);
/* In @ring and the rings in it: 0, -EAGAIN (nothing), or what was in the way. */
int key_search(struct task *t, struct key_at ring, const struct key_match *m, struct key_at *ret);
/* In the task's own rings. */
int key_search_task(struct task *t, const struct key_match *m, struct key_at *ret);
/* A number as keyctl(2) takes them, KEY_SPEC_* too; @need of it. */
enum { LOOKUP_CREATE = 1, LOOKUP_PARTIAL = 2, LOOKUP_ANY_STATE = 4 };
int key_lookup(struct task *t, int32_t id, unsigned flags, unsigned need, struct key_at *ret);
int key_user_rings(struct task *t, struct key_user **ret);
/* Joins a session ring; @name NULL: a new one without a name. Its number. */
long key_join_session(struct task *t, const char *name);
/* The task's or the process's own, made when it is not there. */
int key_own_ring(struct task *t, struct key **at, const char *name);

/* The life of tasks and processes. */
void keys_task_born(struct task *child, const struct task *from);
void keys_task_gone(struct task *t);
void keys_proc_gone(struct proc *p);
void keys_execed(struct task *t);

/* /proc/keys, /proc/key-users, and one number of /proc/sys/kernel/keys (@set >= 0: from now on). */
void keys_show(struct task *reader, struct kernel *k, struct buf *out);
void keys_show_users(struct kernel *k, struct buf *out);
enum key_knob { KNOB_MAXKEYS, KNOB_MAXBYTES, KNOB_ROOT_MAXKEYS, KNOB_ROOT_MAXBYTES };
uint32_t keys_knob(struct kernel *k, enum key_knob which, int64_t set);

#endif
