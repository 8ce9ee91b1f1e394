/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/answers.c - what is known by path, for the whole sandbox, and how long it holds.
 *
 * Owns:  struct answers: the table that guests read, the ages, the views.
 * Rules: under the kernel lock; guests read meanwhile. A directory is still until a name in it
 *        changes. What was found by walking through still directories alone is as old as AGE_STILL,
 *        which moves when one of them stops being so; everything else as old as AGE_NAMES, which
 *        moves with every name.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>

#include "tier/kernel/kernel.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/vfs/dentry.h"
#include "tier/kernel/vfs/vfs.h"

enum { VIEWS_MAX = 8, ANSWERS_FIRST = 64, SHARED_BYTES = PLACE_SHARED_END - PLACE_AGE };

struct answers {
	struct place_answer *table;
	unsigned used;  /* slots of it that were ever written */
	uint32_t epoch; /* views of another one are nobody's */
	unsigned view_count;
	struct cred *views[VIEWS_MAX]; /* references: so nobody changes them */
	uint8_t data[PLACE_DATA_MAX];  /* of the call that is being answered */
	uint8_t *text;
	struct loader *loader;
};

/* Ours is writable; from then on nobody can map it so: SEAL, SHRINK, GROW, FUTURE_WRITE. */
static uint64_t *map_shared(int fd)
{
	void *ours = MAP_FAILED, *theirs;

	if (ftruncate(fd, SHARED_BYTES) == 0)
		ours = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ours == MAP_FAILED)
		return NULL;
	theirs = fcntl(fd, F_ADD_SEALS, 1 | 2 | 4 | 16) < 0
			 ? MAP_FAILED
			 : mmap((void *)PLACE_AGE, SHARED_BYTES, PROT_READ,
				   MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (theirs == (void *)PLACE_AGE)
		return ours;
	if (theirs != MAP_FAILED) /* a host that does not know the flag */
		munmap(theirs, SHARED_BYTES);
	munmap(ours, SHARED_BYTES);
	return NULL;
}

bool answers_begin(struct kernel *k)
{
	struct answers *s = calloc(1, sizeof(*s));
	uint64_t first;
	int fd = s ? (int)syscall(SYS_memfd_create, "answers", 3 /* CLOEXEC, ALLOW_SEALING */) : -1;

	k->age = fd >= 0 ? map_shared(fd) : NULL;
	if (fd >= 0)
		close(fd);
	if (!k->age) {
		free(s);
		return false;
	}
	s->table = (void *)((char *)k->age + (PLACE_ANSWERS_AT - PLACE_AGE));
	/* What a memory brings along from another kernel is as old as nothing here. */
	if (getrandom(&first, sizeof(first), 0) != sizeof(first))
		first = (uint64_t)(uintptr_t)s;
	for (int i = 0; i < AGE_PROC + 2 * AGE_PROCS; i++)
		k->age[i] = first >> 2 | 1; /* and what was never written, 0, too */
	s->epoch = (uint32_t)(first >> 8);
	k->age[AGE_MASK] = ANSWERS_FIRST - 1; /* few pages for who asks little */
	k->answers = s;
	return true;
}

/*
 * A call that is not here changes anything: a new one does until somebody has thought about it.
 * vfs/dentry.c tells of names and vfs/attr.c of directories whose mode or owner changes.
 */
enum answers_effect answers_effect(int64_t nr)
{
	switch (nr) {
	case SYS_read:
	case SYS_write:
	case SYS_open:
	case SYS_close:
	case SYS_stat:
	case SYS_fstat:
	case SYS_lstat:
	case SYS_poll:
	case SYS_lseek:
	case SYS_mmap:
	case SYS_rt_sigaction:
	case SYS_rt_sigprocmask:
	case SYS_ioctl:
	case SYS_pread64:
	case SYS_pwrite64:
	case SYS_readv:
	case SYS_writev:
	case SYS_access:
	case SYS_pipe:
	case SYS_select:
	case SYS_dup:
	case SYS_dup2:
	case SYS_nanosleep:
	case SYS_getpid:
	case SYS_wait4:
	case SYS_uname:
	case SYS_fcntl:
	case SYS_flock:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_ftruncate:
	case SYS_getdents:
	case SYS_getcwd:
	case SYS_rename:
	case SYS_mkdir:
	case SYS_rmdir:
	case SYS_creat:
	case SYS_link:
	case SYS_unlink:
	case SYS_symlink:
	case SYS_readlink:
	case SYS_chmod:
	case SYS_fchmod:
	case SYS_chown:
	case SYS_fchown:
	case SYS_lchown:
	case SYS_umask:
	case SYS_gettimeofday:
	case SYS_getrlimit:
	case SYS_getrusage:
	case SYS_sysinfo:
	case SYS_times:
	case SYS_getuid:
	case SYS_getgid:
	case SYS_geteuid:
	case SYS_getegid:
	case SYS_getppid:
	case SYS_getpgrp:
	case SYS_statfs:
	case SYS_fstatfs:
	case SYS_gettid:
	case SYS_futex:
	case SYS_fadvise64:
	case SYS_clock_gettime:
	case SYS_clock_nanosleep:
	case SYS_epoll_wait:
	case SYS_epoll_ctl:
	case SYS_getdents64:
	case SYS_openat:
	case SYS_mkdirat:
	case SYS_fchownat:
	case SYS_newfstatat:
	case SYS_unlinkat:
	case SYS_renameat:
	case SYS_linkat:
	case SYS_symlinkat:
	case SYS_readlinkat:
	case SYS_fchmodat:
	case SYS_faccessat:
	case SYS_pselect6:
	case SYS_ppoll:
	case SYS_utimensat:
	case SYS_epoll_pwait:
	case SYS_dup3:
	case SYS_pipe2:
	case SYS_prlimit64:
	case SYS_renameat2:
	case SYS_getrandom:
	case SYS_statx:
	case SYS_set_tid_address:
	case SYS_close_range:
	case SYS_openat2:
	case SYS_faccessat2:
		return EFFECT_NONE;
	case SYS_clone:
	case SYS_fork:
	case SYS_vfork:
	case SYS_execve:
	case SYS_exit:
	case SYS_exit_group:
	case SYS_kill:
	case SYS_tgkill:
	case SYS_chdir:
	case SYS_fchdir:
	case SYS_setpgid:
	case SYS_setsid:
	case SYS_waitid:
	case SYS_clone3:
	case SYS_execveat:
		return EFFECT_WHO;
	case SYS_setuid:
	case SYS_setgid:
	case SYS_setreuid:
	case SYS_setregid:
	case SYS_setgroups:
	case SYS_setresuid:
	case SYS_setresgid:
	case SYS_setfsuid:
	case SYS_setfsgid:
		return EFFECT_CRED;
	default:
		return nr >= SHIM_CALL_FIRST && nr < SHIM_CALL_END ? EFFECT_WHO : EFFECT_ALL;
	}
}

static void older(struct kernel *k, int age)
{
	if (k->age)
		__atomic_store_n(&k->age[age], k->age[age] + 1, __ATOMIC_RELEASE);
}

void answers_who(struct kernel *k)
{
	older(k, AGE_WHO);
}

void answers_signals(struct kernel *k)
{
	older(k, AGE_SIGNALS);
}

void answers_files(struct kernel *k)
{
	older(k, AGE_FILES);
}

void answers_proc(struct kernel *k, unsigned age)
{
	older(k, (int)age);
}

/* Does the call leave what stat says of every file as it is? vfs/attr.c tells of access times. */
static bool keeps_files(const struct call *c)
{
	switch (c->nr) {
	case SYS_open:
		return !(c->args[1] & (O_CREAT | O_TRUNC));
	case SYS_openat:
		return !(c->args[2] & (O_CREAT | O_TRUNC));
	case SYS_read:
	case SYS_close:
	case SYS_stat:
	case SYS_fstat:
	case SYS_lstat:
	case SYS_poll:
	case SYS_lseek:
	case SYS_mmap:
	case SYS_rt_sigaction:
	case SYS_rt_sigprocmask:
	case SYS_pread64:
	case SYS_readv:
	case SYS_access:
	case SYS_getpid:
	case SYS_fcntl:
	case SYS_flock:
	case SYS_fsync:
	case SYS_fdatasync:
	case SYS_getdents64:
	case SYS_getcwd:
	case SYS_readlink:
	case SYS_geteuid:
	case SYS_gettid:
	case SYS_newfstatat:
	case SYS_getrandom:
		return true;
	default:
		return false;
	}
}

void answers_all(struct kernel *k)
{
	struct answers *s = k->answers;

	for (int i = 0; i < AGE_COUNT; i++)
		older(k, i);
	if (!s)
		return;
	s->epoch++;
	while (s->view_count)
		cred_unref(s->views[--s->view_count]);
}

void answers_names(struct dentry *dir)
{
	struct kernel *k = dir ? dir->sb->k : NULL;

	if (!k || !k->age || !k->init || !dir->inode) /* nobody has asked before the first */
		return;
	if (!dir->inode->names_change)
		older(k, AGE_STILL);
	dir->inode->names_change = true;
	older(k, AGE_NAMES);
}

void answers_walked(struct task *t, const struct dentry *dir)
{
	if (dir->inode->names_change)
		t->call.restless = true;
	if (dir->sb->flags & SB_NO_CACHE)
		t->call.unsteady = true;
}

static bool same_cred(const struct cred *a, const struct cred *b)
{
	return a == b ||
	       (a->user == b->user && a->uid == b->uid && a->fsuid == b->fsuid &&
		       a->gid == b->gid && a->fsgid == b->fsgid &&
		       a->cap_effective == b->cap_effective &&
		       a->cap_permitted == b->cap_permitted && a->group_count == b->group_count &&
		       memcmp(a->groups, b->groups, a->group_count * sizeof(a->groups[0])) == 0);
}

uint32_t answers_view(struct task *t)
{
	struct answers *s = t->k->answers;
	struct mount *top = t->k->vfs ? t->k->vfs->mounts : NULL;
	unsigned i = 0;

	if (!s || !top || t->fs->root.mnt != top || t->fs->root.dentry != top->root)
		return 0;
	while (i < s->view_count && !same_cred(s->views[i], t->cred))
		i++;
	if (i == VIEWS_MAX)
		return 0;
	if (i == s->view_count)
		s->views[s->view_count++] = cred_ref(t->cred);
	return s->epoch * VIEWS_MAX + i + 1;
}

void answers_called(struct task *t, enum answers_effect effect, const struct cred *before)
{
	if (effect == EFFECT_ALL || (effect == EFFECT_CRED && !same_cred(before, t->cred)))
		answers_all(t->k);
	else if (effect != EFFECT_NONE)
		answers_who(t->k);
	if (!keeps_files(&t->call))
		answers_files(t->k);
}

bool answers_fixed(struct task *t, struct path p)
{
	/* What the host gave read-only is so in every copy of the mount. */
	return t->k->answers && !t->call.unsteady && (p.mnt->locked & MOUNT_READ_ONLY) &&
	       !(p.dentry->sb->flags & SB_NO_CACHE);
}

void answers_keep(struct task *t, const void *data, size_t len)
{
	if (!t->k->answers || len > PLACE_DATA_MAX)
		return;
	memcpy(t->k->answers->data, data, len);
	t->call.data_len = (uint16_t)len;
}

const uint8_t *answers_kept(const struct task *t)
{
	return t->k->answers->data;
}

uint8_t *answers_text(struct kernel *k)
{
	if (!k->answers->text)
		k->answers->text = malloc(PLACE_TEXT);
	return k->answers->text;
}

struct loader **answers_loader(struct kernel *k)
{
	return &k->answers->loader;
}

void answers_take_back(struct kernel *k)
{
	for (int i = 0; i < 2 * AGE_PROCS; i++)
		older(k, AGE_PROC + i);
}

bool answer_make(struct place_answer *a, uint32_t nr, uint32_t arg, const char *path, int64_t value)
{
	uint32_t hash = PLACE_HASH_START_ ^ nr ^ arg;
	size_t len = 0;

	memset(a, 0, sizeof(*a));
	for (; path[len]; len++) {
		if (len + 1 >= sizeof(a->path))
			return false;
		a->path[len] = path[len];
		hash = (hash ^ (uint8_t)path[len]) * PLACE_HASH_TIMES_;
	}
	a->nr = nr;
	a->arg = arg;
	a->hash = hash;
	a->len = (uint32_t)len;
	a->value = value;
	return path[0] == '/';
}

/* Where @a lies or will: in its place, or beside it when another that still holds is there. */
static struct place_answer *slot_of(struct kernel *k, const struct place_answer *a)
{
	uint64_t at = a->hash >> 21 & k->age[AGE_MASK];
	struct place_answer *first = &k->answers->table[at], *second = &k->answers->table[at ^ 1];

	if (first->hash == a->hash || first->age != k->age[first->age_at / sizeof(k->age[0])])
		return first;
	if (second->hash == a->hash || second->age != k->age[second->age_at / sizeof(k->age[0])])
		return second;
	return first;
}

bool answers_put(struct task *t, struct place_answer *a, uint32_t view)
{
	struct answers *s = t->k->answers;
	struct place_answer *at = slot_of(t->k, a);
	unsigned age = t->call.restless ? AGE_NAMES : AGE_STILL;
	uint32_t stamp = at->stamp;

	a->age = t->k->age[age];
	a->age_at = (uint16_t)(age * sizeof(t->k->age[0]));
	a->view = view;
	a->stamp = stamp;
	if (t->call.fixed && t->call.data_len) {
		a->data_len = t->call.data_len;
		memcpy(a->data, s->data, a->data_len);
	}
	if (memcmp(at, a, sizeof(*a)) == 0)
		return true;
	s->used += !at->len;
	/* What lies elsewhere in a larger table is asked for once more. */
	if (s->used * 2 > t->k->age[AGE_MASK] && t->k->age[AGE_MASK] < PLACE_ANSWERS - 1)
		t->k->age[AGE_MASK] = t->k->age[AGE_MASK] * 2 + 1;
	a->stamp = stamp + 1;
	__atomic_store_n(&at->stamp, stamp + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	memcpy(at, a, sizeof(*a));
	__atomic_store_n(&at->stamp, stamp + 2, __ATOMIC_RELEASE);
	return false;
}
