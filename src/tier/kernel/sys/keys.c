/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/sys/keys.c - add_key, request_key, keyctl.
 *
 * Owns:  nothing.
 * Rules: nobody is started to make a key that is asked for (Linux runs /sbin/request-key): such a
 *        request ends in a negative key, as where that program is not installed. So nobody ever has
 *        the authority to instantiate one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/keyctl.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "tier/kernel/keys/key.h"
#include "tier/kernel/sys/sys.h"

static int copy_type(struct task *t, gva_t at, char type[KEY_TYPE_MAX])
{
	ssize_t n = guest_copy_string(t, at, type, KEY_TYPE_MAX);

	if (n == -ENAMETOOLONG || n == 0)
		return -EINVAL;
	if (n < 0)
		return (int)n;
	return type[0] == '.' ? -EPERM : 0;
}

/* A heap copy of a description or the like. */
static int copy_words(struct task *t, gva_t at, char **ret)
{
	char *s = malloc(KEY_DESC_MAX);
	ssize_t n;

	if (!s)
		return -ENOMEM;
	n = guest_copy_string(t, at, s, KEY_DESC_MAX);
	if (n < 0) {
		free(s);
		return n == -ENAMETOOLONG ? -EINVAL : (int)n;
	}
	*ret = s;
	return 0;
}

static int copy_payload(struct task *t, gva_t at, uint64_t len, void **ret)
{
	void *p = len ? malloc(len) : NULL;

	if (len && !p)
		return -ENOMEM;
	if (len && guest_read(t, p, at, len) < 0) {
		free(p);
		return -EFAULT;
	}
	*ret = p;
	return 0;
}

static int check_payload(enum key_type type, size_t len)
{
	if (type == KEY_TYPE_RING)
		return len ? -EINVAL : 0;
	if (len == 0 || (type != KEY_TYPE_BIG && len > KEY_USER_PAYLOAD_MAX))
		return -EINVAL;
	return 0;
}

/* A new key of the caller's; one reference. */
static int make_key(struct task *t, enum key_type type, const char *desc, struct key **ret)
{
	unsigned pos = KEY_ALL & ~(type == KEY_TYPE_LOGON ? KEY_READ : 0);
	struct key_new n = { .type = type,
		.desc = desc,
		.uid = t->cred->fsuid,
		.gid = t->cred->fsgid,
		.perm = KEY_POS(pos) | KEY_USR(KEY_VIEW),
		.counted = true };
	const char *colon = strchr(desc, ':');

	if (!desc[0] || (type == KEY_TYPE_LOGON && (!colon || colon == desc)))
		return -EINVAL;
	return key_create(t->k, &n, ret);
}

static long add(struct task *t, int type, const char *desc, const void *data, size_t len,
	struct key_at ring)
{
	struct key *key, *old;
	long r;

	if (type < 0)
		return type;
	if (ring.key->type != KEY_TYPE_RING)
		return -ENOTDIR;
	r = check_payload((enum key_type)type, len);
	if (r < 0)
		return r;
	if (ring.key->restricted)
		return -EPERM;
	old = type == KEY_TYPE_RING ? NULL : ring_find(ring.key, (uint32_t)type, desc);
	if (old && !old->revoked && !old->invalid) {
		if (!key_may(t, (struct key_at){ old, ring.possessed }, KEY_WRITE))
			return -EACCES;
		r = key_set_payload(t->k, old, data, len);
		return r < 0 ? r : old->serial;
	}
	r = make_key(t, (enum key_type)type, desc, &key);
	if (r < 0)
		return r;
	if (type != KEY_TYPE_RING)
		r = key_set_payload(t->k, key, data, len);
	if (r == 0)
		r = ring_link(t->k, ring.key, key);
	if (r == 0)
		r = key->serial;
	key_unref(t->k, key);
	return r;
}

SYSCALL5(add_key, gva_t, utype, gva_t, udesc, gva_t, upayload, uint64_t, len, int32_t, ring)
{
	own_mem char *desc = NULL;
	own_mem void *payload = NULL;
	char type[KEY_TYPE_MAX];
	struct key_at to;
	int r;

	if (len > KEY_PAYLOAD_MAX)
		return -EINVAL;
	r = copy_type(task, utype, type);
	if (r < 0)
		return r;
	r = gva_null(udesc) ? -EINVAL : copy_words(task, udesc, &desc);
	if (r < 0)
		return r;
	if (desc[0] == '.' && strncmp(type, "keyring", 7) == 0)
		return -EPERM;
	r = copy_payload(task, upayload, len, &payload);
	if (r < 0)
		return r;
	r = key_lookup(task, ring, LOOKUP_CREATE, KEY_WRITE, &to);
	return r < 0 ? r : add(task, key_type_of(type), desc, payload, len, to);
}

/* Where a requested key goes when nobody says: the first ring that there is, from here on. */
static int default_ring(struct task *t, struct key_at *ret)
{
	struct key *own[] = { t->keys.thread, t->proc->process_ring, t->keys.session };
	uint32_t to = t->keys.request_to;
	struct key_user *u;
	int r = 0;

	if (to == KEY_REQKEY_DEFL_REQUESTOR_KEYRING || to == KEY_REQKEY_DEFL_DEFAULT)
		to = KEY_REQKEY_DEFL_THREAD_KEYRING;
	*ret = (struct key_at){ .possessed = true };
	for (uint32_t i = to - KEY_REQKEY_DEFL_THREAD_KEYRING; i < ARRAY_LEN(own) && !ret->key; i++)
		ret->key = own[i];
	if (!ret->key) {
		r = key_user_rings(t, &u);
		if (r < 0)
			return r;
		ret->key = to == KEY_REQKEY_DEFL_USER_KEYRING ? u->ring : u->session;
	}
	return key_may(t, *ret, KEY_WRITE) ? 0 : -EACCES;
}

/* It is not there, and nobody can make it: that is remembered for a while. */
static long construct(struct task *t, int type, const char *desc, struct key_at to)
{
	struct key *key;
	long r;

	if (type == KEY_TYPE_RING)
		return -EPERM;
	r = to.key ? 0 : default_ring(t, &to);
	if (r < 0)
		return r;
	if (to.key->type != KEY_TYPE_RING)
		return -ENOTDIR;
	r = make_key(t, (enum key_type)type, desc, &key);
	if (r < 0)
		return r;
	key->reject = ENOKEY;
	key_expire_in(t->k, key, KEY_NEGATIVE_S);
	r = ring_link(t->k, to.key, key);
	key_unref(t->k, key);
	return r < 0 ? r : -ENOKEY;
}

static long request(
	struct task *t, const char *type, const char *desc, bool callout, struct key_at to)
{
	struct key_match m = { .desc = desc, .skip_expired = true };
	struct key_at found;
	int which = key_type_of(type);
	long r;

	if (which < 0)
		return -ENOKEY;
	m.type = (uint32_t)which;
	r = key_state(t->k) ? key_search_task(t, &m, &found) : -ENOMEM;
	if (r == -EAGAIN)
		return callout ? construct(t, which, desc, to) : -ENOKEY;
	if (r < 0)
		return r;
	if (to.key) {
		if (!key_may(t, found, KEY_LINK))
			return -EACCES;
		r = to.key->type == KEY_TYPE_RING ? ring_link(t->k, to.key, found.key) : -ENOTDIR;
	}
	return r < 0 ? r : found.key->serial;
}

SYSCALL4(request_key, gva_t, utype, gva_t, udesc, gva_t, ucallout, int32_t, ring)
{
	own_mem char *desc = NULL;
	own_mem char *callout = NULL;
	char type[KEY_TYPE_MAX];
	struct key_at to = { .key = NULL };
	int r = copy_type(task, utype, type);

	if (r == 0)
		r = copy_words(task, udesc, &desc);
	if (r == 0 && !gva_null(ucallout))
		r = copy_words(task, ucallout, &callout);
	if (r == 0 && ring)
		r = key_lookup(task, ring, LOOKUP_CREATE, KEY_WRITE, &to);
	return r < 0 ? r : request(task, type, desc, callout != NULL, to);
}

/* keyctl: one function for each of its operations. */

static long ctl_get_ring(struct task *t, const uint64_t *a)
{
	struct key_at at;
	int r = key_lookup(t, (int32_t)a[0], a[1] ? LOOKUP_CREATE : 0, KEY_SEARCH, &at);

	return r < 0 ? r : at.key->serial;
}

static long ctl_join(struct task *t, const uint64_t *a)
{
	own_mem char *name = NULL;
	int r = a[0] ? copy_words(t, GVA(a[0]), &name) : 0;

	if (r < 0)
		return r;
	if (name && name[0] == '.')
		return -EPERM;
	return key_join_session(t, name);
}

static long ctl_update(struct task *t, const uint64_t *a)
{
	own_mem void *payload = NULL;
	struct key_at at;
	int r;

	if (a[2] > KEY_UPDATE_MAX)
		return -EINVAL;
	r = copy_payload(t, GVA(a[1]), a[2], &payload);
	if (r == 0)
		r = key_lookup(t, (int32_t)a[0], 0, KEY_WRITE, &at);
	if (r < 0)
		return r;
	if (at.key->type == KEY_TYPE_RING)
		return -EOPNOTSUPP;
	r = check_payload((enum key_type)at.key->type, a[2]);
	return r < 0 ? r : key_set_payload(t->k, at.key, payload, a[2]);
}

static long ctl_revoke(struct task *t, const uint64_t *a)
{
	struct key_at at;
	int r = key_lookup(t, (int32_t)a[0], 0, KEY_WRITE, &at);

	if (r == -EACCES)
		r = key_lookup(t, (int32_t)a[0], 0, KEY_SETATTR, &at);
	if (r < 0)
		return r;
	at.key->revoked = true;
	if (at.key->type == KEY_TYPE_RING)
		ring_clear(t->k, at.key);
	return 0;
}

static long ctl_invalidate(struct task *t, const uint64_t *a)
{
	struct key_at at;
	int r = key_lookup(t, (int32_t)a[0], 0, KEY_SEARCH, &at);

	if (r < 0)
		return r;
	at.key->invalid = true;
	rings_drop(t->k, at.key);
	return 0;
}

static long ctl_chown(struct task *t, const uint64_t *a)
{
	uint32_t uid = (uint32_t)a[1], gid = (uint32_t)a[2];
	struct key_at at;
	int r = 0;

	if (uid == UINT32_MAX && gid == UINT32_MAX)
		return 0;
	r = key_lookup(t, (int32_t)a[0], LOOKUP_CREATE | LOOKUP_PARTIAL, KEY_SETATTR, &at);
	if (r < 0)
		return r;
	if (!task_capable(t, CAP_SYS_ADMIN)) {
		if (uid != UINT32_MAX && at.key->uid != uid)
			return -EACCES;
		if (gid != UINT32_MAX && gid != at.key->gid && !task_in_group(t, gid))
			return -EACCES;
	}
	if (uid != UINT32_MAX && uid != at.key->uid)
		r = key_give(t->k, at.key, uid);
	if (r == 0 && gid != UINT32_MAX)
		at.key->gid = gid;
	return r;
}

static long ctl_setperm(struct task *t, const uint64_t *a)
{
	uint32_t perm = (uint32_t)a[1];
	struct key_at at;
	int r;

	if (perm & ~KEY_PERM_BITS)
		return -EINVAL;
	r = key_lookup(t, (int32_t)a[0], LOOKUP_CREATE | LOOKUP_PARTIAL, KEY_SETATTR, &at);
	if (r < 0)
		return r;
	if (at.key->uid != t->cred->fsuid && !task_capable(t, CAP_SYS_ADMIN))
		return -EACCES;
	at.key->perm = perm;
	return 0;
}

/* The whole of it when it fits; its length in any case. */
static long give_back(struct task *t, uint64_t to, uint64_t cap, const void *p, size_t len)
{
	if (to && len <= cap && guest_write(t, GVA(to), p, len) < 0)
		return -EFAULT;
	return (long)len;
}

static long ctl_describe(struct task *t, const uint64_t *a)
{
	own_mem char *text = NULL;
	struct key_at at;
	size_t cap;
	int r = key_lookup(t, (int32_t)a[0], LOOKUP_PARTIAL, KEY_VIEW, &at);

	if (r < 0)
		return r;
	cap = strlen(at.key->desc) + 64;
	text = malloc(cap);
	if (!text)
		return -ENOMEM;
	r = str_fmt(text, cap, "%s;%d;%d;%08x;%s", key_type_names[at.key->type], (int)at.key->uid,
		at.key->gid == UINT32_MAX ? 65534 : (int)at.key->gid, at.key->perm, at.key->desc);
	return r < 0 ? r : give_back(t, a[1], a[2], text, strlen(text) + 1);
}

static long ctl_security(struct task *t, const uint64_t *a)
{
	struct key_at at;
	int r = key_lookup(t, (int32_t)a[0], LOOKUP_PARTIAL, KEY_VIEW, &at);

	return r < 0 ? r : give_back(t, a[1], a[2], "", 1);
}

static long ctl_clear(struct task *t, const uint64_t *a)
{
	struct key_at at;
	int r = key_lookup(t, (int32_t)a[0], LOOKUP_CREATE, KEY_WRITE, &at);

	if (r < 0)
		return r;
	if (at.key->type != KEY_TYPE_RING)
		return -ENOTDIR;
	ring_clear(t->k, at.key);
	return 0;
}

/* A ring that may be written to. */
static int ring_at(struct task *t, uint64_t id, unsigned flags, struct key_at *ret)
{
	int r = key_lookup(t, (int32_t)id, flags, KEY_WRITE, ret);

	return r == 0 && ret->key->type != KEY_TYPE_RING ? -ENOTDIR : r;
}

static long ctl_link(struct task *t, const uint64_t *a)
{
	struct key_at ring, key;
	int r = key_lookup(t, (int32_t)a[1], LOOKUP_CREATE, KEY_WRITE, &ring);

	if (r == 0)
		r = key_lookup(t, (int32_t)a[0], LOOKUP_CREATE, KEY_LINK, &key);
	if (r == 0 && ring.key->type != KEY_TYPE_RING)
		r = -ENOTDIR;
	return r < 0 ? r : ring_link(t->k, ring.key, key.key);
}

static long ctl_unlink(struct task *t, const uint64_t *a)
{
	struct key_at ring, key;
	int r = key_lookup(t, (int32_t)a[1], 0, KEY_WRITE, &ring);

	if (r == 0)
		r = key_lookup(t, (int32_t)a[0], LOOKUP_PARTIAL | LOOKUP_ANY_STATE, 0, &key);
	if (r == 0 && ring.key->type != KEY_TYPE_RING)
		r = -ENOTDIR;
	return r < 0 ? r : ring_unlink(t->k, ring.key, key.key);
}

static long ctl_move(struct task *t, const uint64_t *a)
{
	struct key_at key, from, to;
	struct key *there;
	int r;

	if (a[3] & ~(uint64_t)KEYCTL_MOVE_EXCL)
		return -EINVAL;
	r = key_lookup(t, (int32_t)a[0], LOOKUP_CREATE, KEY_LINK, &key);
	if (r == 0)
		r = ring_at(t, a[1], 0, &from);
	if (r == 0)
		r = ring_at(t, a[2], LOOKUP_CREATE, &to);
	if (r < 0)
		return r;
	if (ring_find(from.key, key.key->type, key.key->desc) != key.key)
		return -ENOENT;
	if (from.key == to.key)
		return 0;
	there = ring_find(to.key, key.key->type, key.key->desc);
	if (there && (a[3] & KEYCTL_MOVE_EXCL))
		return -EEXIST;
	r = ring_link(t->k, to.key, key.key);
	return r < 0 ? r : ring_unlink(t->k, from.key, key.key);
}

static long ctl_search(struct task *t, const uint64_t *a)
{
	own_mem char *desc = NULL;
	char type[KEY_TYPE_MAX];
	struct key_match m = { .serial = 0 };
	struct key_at ring, to = { .key = NULL }, found;
	int which = 0, r = copy_type(t, GVA(a[1]), type);

	if (r == 0)
		r = copy_words(t, GVA(a[2]), &desc);
	if (r == 0)
		r = key_lookup(t, (int32_t)a[0], 0, KEY_SEARCH, &ring);
	if (r == 0 && a[3])
		r = key_lookup(t, (int32_t)a[3], LOOKUP_CREATE, KEY_WRITE, &to);
	if (r == 0)
		r = which = key_type_of(type);
	if (r < 0)
		return r == -ENODEV ? -ENOKEY : r;
	m.type = (uint32_t)which;
	m.desc = desc;
	r = key_search(t, ring, &m, &found);
	if (r < 0)
		return r == -EAGAIN ? -ENOKEY : r;
	if (to.key) {
		if (!key_may(t, found, KEY_LINK))
			return -EACCES;
		r = to.key->type == KEY_TYPE_RING ? ring_link(t->k, to.key, found.key) : -ENOTDIR;
	}
	return r < 0 ? r : found.key->serial;
}

static long read_ring(struct task *t, const struct key *ring, uint64_t to, uint64_t cap)
{
	uint64_t whole = (uint64_t)ring->link_count * sizeof(int32_t);
	uint32_t n;

	if (cap % sizeof(int32_t))
		return -EINVAL;
	n = to ? (uint32_t)((cap < whole ? cap : whole) / sizeof(int32_t)) : 0;

	for (uint32_t i = 0; i < n; i++)
		if (guest_write_u32(
			    t, GVA(to + i * sizeof(int32_t)), (uint32_t)ring->links[i]->serial) < 0)
			return -EFAULT;
	return (long)whole;
}

static long ctl_read(struct task *t, const uint64_t *a)
{
	struct key_at at;
	int r = key_lookup(t, (int32_t)a[0], LOOKUP_ANY_STATE, 0, &at);

	if (r < 0)
		return -ENOKEY;
	if (at.key->reject)
		return -at.key->reject;
	if (!key_may(t, at, KEY_READ) && !at.possessed)
		return -EACCES;
	if (at.key->type == KEY_TYPE_LOGON)
		return -EOPNOTSUPP;
	r = key_validate(t->k, at.key);
	if (r < 0)
		return r;
	if (at.key->type == KEY_TYPE_RING)
		return read_ring(t, at.key, a[1], a[2]);
	return give_back(t, a[1], a[2], at.key->data, at.key->len);
}

/* Only who was asked to make a key may: nobody is. */
static long ctl_instantiate(struct task *t, const uint64_t *a)
{
	return -EPERM;
}

static long ctl_assume(struct task *t, const uint64_t *a)
{
	int32_t id = (int32_t)a[0];

	return id < 0 ? -EINVAL : id == 0 ? 0 : -ENOKEY;
}

static long ctl_default(struct task *t, const uint64_t *a)
{
	int32_t to = (int32_t)a[0];
	long old = t->keys.request_to;
	int r = 0;

	switch (to) {
	case KEY_REQKEY_DEFL_NO_CHANGE:
		return old;
	case KEY_REQKEY_DEFL_THREAD_KEYRING:
		r = key_own_ring(t, &t->keys.thread, "_tid");
		break;
	case KEY_REQKEY_DEFL_PROCESS_KEYRING:
		r = key_own_ring(t, &t->proc->process_ring, "_pid");
		break;
	case KEY_REQKEY_DEFL_DEFAULT:
	case KEY_REQKEY_DEFL_SESSION_KEYRING:
	case KEY_REQKEY_DEFL_USER_KEYRING:
	case KEY_REQKEY_DEFL_USER_SESSION_KEYRING:
	case KEY_REQKEY_DEFL_REQUESTOR_KEYRING:
		break;
	default:
		return -EINVAL;
	}
	if (r < 0)
		return r;
	t->keys.request_to = (uint32_t)to;
	return old;
}

static long ctl_timeout(struct task *t, const uint64_t *a)
{
	struct key_at at;
	int r = key_lookup(t, (int32_t)a[0], LOOKUP_CREATE | LOOKUP_PARTIAL, KEY_SETATTR, &at);

	if (r < 0)
		return r;
	key_expire_in(t->k, at.key, (uint32_t)a[1]);
	return 0;
}

static long ctl_to_parent(struct task *t, const uint64_t *a)
{
	struct proc *up = t->proc->parent;
	struct task *p = up && up != t->k->init && up->task_count == 1 ? proc_leader(up) : NULL;
	const struct cred *me = t->cred, *it = p ? p->cred : NULL;
	struct key_at mine;
	struct key *old;
	int r = key_lookup(t, KEY_SPEC_SESSION_KEYRING, 0, KEY_LINK, &mine);

	if (r < 0)
		return r;
	if (!p || p->state == TASK_DEAD || it->uid != me->euid || it->euid != me->euid ||
		it->suid != me->euid || it->gid != me->egid || it->egid != me->egid ||
		it->sgid != me->egid || mine.key->uid != me->euid ||
		(p->keys.session && p->keys.session->uid != me->euid))
		return -EPERM;
	old = p->keys.session;
	p->keys.session = key_ref(mine.key);
	key_unref(t->k, old);
	return 0;
}

static long ctl_restrict(struct task *t, const uint64_t *a)
{
	char type[KEY_TYPE_MAX];
	struct key_at at;
	int r = key_lookup(t, (int32_t)a[0], 0, KEY_SETATTR, &at);

	if (r < 0)
		return r;
	if (!a[1] && a[2])
		return -EINVAL;
	if (a[1]) { /* no type that there is knows a rule */
		r = copy_type(t, GVA(a[1]), type);
		return r < 0 ? r : -ENOENT;
	}
	if (at.key->type != KEY_TYPE_RING)
		return -ENOTDIR;
	if (at.key->restricted)
		return -EEXIST;
	at.key->restricted = true;
	return 0;
}

static long ctl_capabilities(struct task *t, const uint64_t *a)
{
	static const uint8_t have[2] = { KEYCTL_CAPS0_CAPABILITIES | KEYCTL_CAPS0_BIG_KEY |
					 KEYCTL_CAPS0_INVALIDATE | KEYCTL_CAPS0_RESTRICT_KEYRING |
					 KEYCTL_CAPS0_MOVE };
	uint8_t zero = 0;

	for (uint64_t i = 0; a[0] && i < a[1] && i < KEY_DESC_MAX; i++)
		if (guest_write(t, GVA(a[0] + i), i < sizeof(have) ? &have[i] : &zero, 1) < 0)
			return -EFAULT;
	return sizeof(have);
}

static long ctl_none(struct task *t, const uint64_t *a)
{
	return -EOPNOTSUPP;
}

static long (*const ops[])(struct task *t, const uint64_t *a) = {
	[KEYCTL_GET_KEYRING_ID] = ctl_get_ring,
	[KEYCTL_JOIN_SESSION_KEYRING] = ctl_join,
	[KEYCTL_UPDATE] = ctl_update,
	[KEYCTL_REVOKE] = ctl_revoke,
	[KEYCTL_CHOWN] = ctl_chown,
	[KEYCTL_SETPERM] = ctl_setperm,
	[KEYCTL_DESCRIBE] = ctl_describe,
	[KEYCTL_CLEAR] = ctl_clear,
	[KEYCTL_LINK] = ctl_link,
	[KEYCTL_UNLINK] = ctl_unlink,
	[KEYCTL_SEARCH] = ctl_search,
	[KEYCTL_READ] = ctl_read,
	[KEYCTL_INSTANTIATE] = ctl_instantiate,
	[KEYCTL_NEGATE] = ctl_instantiate,
	[KEYCTL_SET_REQKEY_KEYRING] = ctl_default,
	[KEYCTL_SET_TIMEOUT] = ctl_timeout,
	[KEYCTL_ASSUME_AUTHORITY] = ctl_assume,
	[KEYCTL_GET_SECURITY] = ctl_security,
	[KEYCTL_SESSION_TO_PARENT] = ctl_to_parent,
	[KEYCTL_REJECT] = ctl_instantiate,
	[KEYCTL_INSTANTIATE_IOV] = ctl_instantiate,
	[KEYCTL_INVALIDATE] = ctl_invalidate,
	[KEYCTL_GET_PERSISTENT] = ctl_none,
	[KEYCTL_DH_COMPUTE] = ctl_none,
	[KEYCTL_PKEY_QUERY] = ctl_none,
	[KEYCTL_PKEY_ENCRYPT] = ctl_none,
	[KEYCTL_PKEY_DECRYPT] = ctl_none,
	[KEYCTL_PKEY_SIGN] = ctl_none,
	[KEYCTL_PKEY_VERIFY] = ctl_none,
	[KEYCTL_RESTRICT_KEYRING] = ctl_restrict,
	[KEYCTL_MOVE] = ctl_move,
	[KEYCTL_CAPABILITIES] = ctl_capabilities,
};

SYSCALL5(keyctl, int, op, uint64_t, a0, uint64_t, a1, uint64_t, a2, uint64_t, a3)
{
	const uint64_t args[] = { a0, a1, a2, a3 };

	if (op < 0 || (unsigned)op >= ARRAY_LEN(ops) || !ops[op])
		return -EOPNOTSUPP;
	return ops[op](task, args);
}
