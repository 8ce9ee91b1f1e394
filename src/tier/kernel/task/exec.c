/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/task/exec.c - execve: what the new image is made of.
 *
 * Owns:  struct exec.
 * Rules: nothing is unmapped: the task moves into a blank host process, which maps the image, and
 * the old one is killed. The file's bytes are untrusted: every number is checked before use.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <linux/prctl.h>
#include <linux/securebits.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "tier/kernel/ns/user.h"
#include "tier/kernel/task/exec.h"
#include "tier/kernel/fs/mapnames.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/task/trace.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/place.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/file.h"
#include "tier/kernel/vfs/vfs.h"

enum { PAGE = 4096, PHDRS_MAX = 64, SCRIPTS_MAX = 4, HEAD_BYTES = 256, LOADS_MAX = 16 };
enum { POPULATE_MAX = 2 << 20 };
#define PAGE_DOWN(x) ((x) & ~(uint64_t)(PAGE - 1))
#define PAGE_UP(x) PAGE_DOWN((x) + PAGE - 1)

/* Where things go: see shim.h for what lies below. Each is spread over 512 GB. */
#define PIE_BASE 0x555555554000ULL
#define STACK_BASE 0x7d8000000000ULL
#define INTERP_BASE 0x7e0000000000ULL
#define SPREAD_PAGES ((1ULL << 27) - (1 << 16))
#define USER_END 0x7ffffffff000ULL

int words_add(struct words *w, const char *s, size_t len)
{
	size_t cap = w->cap ? w->cap : 1024;
	char *p;

	if (len + 1 > GUEST_ARG_BYTES_MAX - w->len)
		return -E2BIG;
	while (cap - w->len < len + 1)
		cap *= 2;
	if (cap != w->cap) {
		p = realloc(w->bytes, cap);
		if (!p)
			return -ENOMEM;
		w->bytes = p;
		w->cap = cap;
	}
	memcpy(w->bytes + w->len, s, len);
	w->bytes[w->len + len] = '\0';
	w->len += len + 1;
	w->count++;
	return 0;
}

void words_done(struct words *w)
{
	free(w->bytes);
	memset(w, 0, sizeof(*w));
}

/* "#! interpreter [argument]": argv becomes interpreter, argument, path, the rest. */
static int take_script(struct exec *x, char *line, const char *path, char *next, size_t cap)
{
	char *end = strchr(line, '\n'), *word, *arg;
	struct words argv = { 0 };
	size_t skip;
	int r;

	if (end)
		*end = '\0';
	for (end = line + strlen(line); end > line && (end[-1] == ' ' || end[-1] == '\t'); end--)
		end[-1] = '\0';
	for (word = line + 2; *word == ' ' || *word == '\t'; word++)
		;
	if (!*word)
		return -ENOEXEC;
	arg = word + strcspn(word, " \t");
	if (*arg)
		*arg++ = '\0';
	while (*arg == ' ' || *arg == '\t')
		arg++;
	r = str_copy(next, cap, word);
	if (r == 0)
		r = words_add(&argv, word, strlen(word));
	if (r == 0 && *arg)
		r = words_add(&argv, arg, strlen(arg));
	if (r == 0)
		r = words_add(&argv, path, strlen(path));
	skip = x->argv.count ? strlen(x->argv.bytes) + 1 : 0;
	for (unsigned i = 1; r == 0 && i < x->argv.count; i++) {
		size_t len = strlen(x->argv.bytes + skip);

		r = words_add(&argv, x->argv.bytes + skip, len);
		skip += len + 1;
	}
	if (r < 0) {
		words_done(&argv);
		return r;
	}
	words_done(&x->argv);
	x->argv = argv;
	return 0;
}

int exec_name(struct exec *x, const char *path, const char *file)
{
	const char *slash = strrchr(file, '/');
	const char *name = slash ? slash + 1 : file;
	size_t n = strnlen(name, sizeof(x->comm) - 1);

	memset(x->comm, 0, sizeof(x->comm));
	memcpy(x->comm, name, n);
	free(x->path);
	x->path = strdup(path);
	return x->path ? 0 : -ENOMEM;
}

struct image {
	Elf64_Ehdr h;
	Elf64_Phdr ph[PHDRS_MAX];
};

enum { STACK_BYTES = 16 << 10, DRAWS = 8 };

struct exec_desk {
	struct peek peek;
	char one[GUEST_ARG_ONE_MAX];
	char head[PAGE]; /* of the file that is looked at: mostly all that there is to read */
	size_t head_len;
	struct image exe, interp;
	struct exec *looked; /* whose these two are; NULL: nobody's */
	struct words spare;  /* room for an environment */
	uint8_t stack[STACK_BYTES];
	uint64_t random[DRAWS];
	unsigned draws; /* that are left */
	struct exec_plan plan;
};

struct exec_desk *exec_desk(struct kernel *k)
{
	if (!k->desk) {
		k->desk = malloc(sizeof(*k->desk));
		if (k->desk) {
			k->desk->looked = NULL;
			k->desk->spare = (struct words){ 0 };
			k->desk->draws = 0;
		}
	}
	return k->desk;
}

void exec_desk_done(struct kernel *k)
{
	if (k->desk)
		words_done(&k->desk->spare);
	free(k->desk);
	k->desk = NULL;
}

struct exec *exec_create(struct kernel *k)
{
	struct exec *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->k = k;
	if (k->desk && k->desk->spare.bytes) {
		x->envp = k->desk->spare;
		k->desk->spare = (struct words){ 0 };
	}
	return x;
}

void exec_done(void *p)
{
	struct exec *x = p;
	struct exec_desk *d = x->k->desk;

	file_unref(x->file);
	file_unref(x->interp);
	words_done(&x->argv);
	if (d && d->looked == x)
		d->looked = NULL;
	if (d && !d->spare.bytes && x->envp.cap <= STACK_BYTES) {
		d->spare = (struct words){ .bytes = x->envp.bytes, .cap = x->envp.cap };
		x->envp = (struct words){ 0 };
	}
	words_done(&x->envp);
	free(x->path);
	free(x);
}

/* One call of the host for all that is drawn in an execve; no number is given out twice. */
static bool draw(struct exec_desk *d, uint64_t *ret)
{
	if (!d->draws) {
		if (getrandom(d->random, sizeof(d->random), 0) != sizeof(d->random))
			return false;
		d->draws = DRAWS;
	}
	d->draws--;
	*ret = d->random[d->draws];
	d->random[d->draws] = 0;
	return true;
}

static int take_words(struct task *t, struct exec_desk *d, gva_t list, struct words *w)
{
	int r = 0;

	for (uint64_t i = 0; r == 0 && !gva_null(list); i++) {
		uint64_t p;
		ssize_t n;

		r = peek_read(t, &d->peek, &p, gva_add(list, i * 8), sizeof(p));
		if (r < 0 || !p)
			break;
		n = peek_string(t, &d->peek, GVA(p), d->one, sizeof(d->one));
		r = n == -ENAMETOOLONG ? -E2BIG : n < 0 ? (int)n : words_add(w, d->one, (size_t)n);
	}
	return r;
}

int exec_words(struct task *t, gva_t argv, gva_t envp, struct exec *x)
{
	struct exec_desk *d = exec_desk(t->k);
	int r;

	if (!d)
		return -ENOMEM;
	for (unsigned i = 0; i < PEEK_PAGES; i++)
		d->peek.pages[i].at = 0;
	r = take_words(t, d, argv, &x->argv);
	if (r == 0 && !x->argv.count)
		r = words_add(&x->argv, "", 0);
	return r < 0 ? r : take_words(t, d, envp, &x->envp);
}

/* @len bytes at @at of the file whose first bytes are on the desk. All of it, or no image: but what
 * the disk says is not to be taken for that. */
static int read_part(struct exec_desk *d, struct file *f, void *buf, size_t len, uint64_t at)
{
	ssize_t n;

	if (at <= d->head_len && len <= d->head_len - at) {
		memcpy(buf, d->head + at, len);
		return 0;
	}
	n = at > INT64_MAX - len ? 0 : file_kread(f, buf, len, (int64_t)at);
	return n < 0 ? (int)n : (size_t)n == len ? 0 : -ENOEXEC;
}

static int read_head(struct exec_desk *d, struct file *f)
{
	ssize_t n = file_kread(f, d->head, sizeof(d->head), 0);

	d->head_len = n < 0 ? 0 : (size_t)n;
	return n < 0 ? (int)n : 0;
}

static int read_image(struct exec_desk *d, struct file *f, struct image *im)
{
	const Elf64_Ehdr *h = &im->h;
	int r = read_part(d, f, &im->h, sizeof(im->h), 0);

	if (r < 0)
		return r;
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_ident[EI_CLASS] != ELFCLASS64 ||
		h->e_machine != EM_X86_64 || (h->e_type != ET_EXEC && h->e_type != ET_DYN) ||
		h->e_phentsize != sizeof(Elf64_Phdr) || !h->e_phnum || h->e_phnum > PHDRS_MAX)
		return -ENOEXEC;
	return read_part(d, f, im->ph, h->e_phnum * sizeof(Elf64_Phdr), h->e_phoff);
}

static int open_interp(struct task *t, struct exec *x, struct exec_desk *d)
{
	const struct image *im = &d->exe;

	for (unsigned i = 0; i < im->h.e_phnum; i++) {
		const Elf64_Phdr *p = &im->ph[i];
		char path[GUEST_PATH_MAX];
		int r;

		if (p->p_type != PT_INTERP)
			continue;
		if (p->p_filesz < 2 || p->p_filesz > sizeof(path))
			return -ENOEXEC;
		r = read_part(d, x->file, path, p->p_filesz, p->p_offset);
		if (r < 0)
			return r;
		if (path[p->p_filesz - 1])
			return -ENOEXEC;
		return vfs_open_exec(t, AT_FDCWD, path, 0, &x->interp);
	}
	return 0;
}

static int read_interp(struct exec *x, struct exec_desk *d)
{
	int r = x->interp ? read_head(d, x->interp) : 0;

	if (r == 0 && x->interp && d->head_len < sizeof(Elf64_Ehdr))
		r = -EIO;
	if (r == 0 && x->interp) {
		r = read_image(d, x->interp, &d->interp);
		if (r == -ENOEXEC || (r == 0 && d->interp.h.e_type != ET_DYN))
			r = -ELIBBAD;
	}
	if (r == 0)
		d->looked = x;
	return r;
}

int exec_look(struct task *t, struct exec *x, int dirfd, const char *path)
{
	char head[HEAD_BYTES + 1], next[GUEST_PATH_MAX], now[GUEST_PATH_MAX];
	struct exec_desk *d = exec_desk(t->k);
	size_t n;
	int r = d ? str_copy(now, sizeof(now), path) : -ENOMEM;

	if (r < 0)
		return r;
	d->looked = NULL;
	if (!path[0])
		r = str_fmt(now, sizeof(now), "/dev/fd/%d", dirfd);
	if (r == 0)
		r = exec_name(x, now, path);
	for (unsigned i = 0;; i++) {
		if (i)
			r = vfs_open_exec(t, AT_FDCWD, now, 0, &x->file);
		if (r == 0)
			r = read_head(d, x->file);
		if (r < 0)
			return r;
		n = d->head_len < HEAD_BYTES ? d->head_len : HEAD_BYTES;
		memcpy(head, d->head, n);
		head[n] = '\0';
		if (n < 2 || memcmp(head, "#!", 2))
			break;
		if (i == SCRIPTS_MAX)
			return -ELOOP;
		r = take_script(x, head, now, next, sizeof(next));
		if (r < 0)
			return r;
		memcpy(now, next, sizeof(now));
		file_unref(x->file);
		x->file = NULL;
	}
	r = read_image(d, x->file, &d->exe);
	if (r == 0)
		r = open_interp(t, x, d);
	return r < 0 ? r : read_interp(x, d);
}

/* Somebody else was at the desk while it waited, or nobody has looked yet: the first program. */
static int look_again(struct exec *x, struct exec_desk *d)
{
	int r;

	if (d->looked == x)
		return 0;
	d->looked = NULL;
	r = read_head(d, x->file);
	if (r == 0)
		r = read_image(d, x->file, &d->exe);
	return r < 0 ? r : read_interp(x, d);
}

/* Steps */

static int step(struct exec_plan *p, int64_t nr, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
	uint64_t e, uint64_t f)
{
	if (p->step_count == STEPS_MAX)
		return -ENOEXEC;
	p->steps[p->step_count++] = (struct shim_step){ nr, { a, b, c, d, e, f } };
	return 0;
}

struct loaded {
	uint64_t base, entry, phdr, start, end, code_end;
	bool exec_stack;
};

static unsigned prot_of(const Elf64_Phdr *p)
{
	return (p->p_flags & PF_R ? PROT_READ : 0) | (p->p_flags & PF_W ? PROT_WRITE : 0) |
	       (p->p_flags & PF_X ? PROT_EXEC : 0);
}

static int load_segment(struct exec_plan *plan, const Elf64_Phdr *p, uint64_t base, int fd)
{
	uint64_t at = base + p->p_vaddr, start = PAGE_DOWN(at), file_end = at + p->p_filesz;
	uint64_t end = PAGE_UP(at + p->p_memsz), mapped = start;
	unsigned prot = prot_of(p), flags = MAP_PRIVATE | MAP_FIXED_NOREPLACE;
	int r = 0;

	if (p->p_filesz) {
		mapped = PAGE_UP(file_end);
		/* Data is written to sooner or later: all of it at once, not fault by fault. */
		if (plan->populate && (prot & PROT_WRITE) && mapped - start <= POPULATE_MAX)
			flags |= MAP_POPULATE;
		r = step(plan, SYS_mmap, start, mapped - start, prot, flags, (uint64_t)fd,
			PAGE_DOWN(p->p_offset));
		if (r == 0 && p->p_memsz > p->p_filesz && file_end < mapped && (prot & PROT_WRITE))
			r = step(plan, STEP_ZERO, file_end, mapped - file_end, 0, 0, 0, 0);
	}
	if (r == 0 && end > mapped)
		r = step(plan, SYS_mmap, mapped, end - mapped, prot,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, ~0ULL, 0);
	return r;
}

static bool segment_ok(const Elf64_Phdr *p)
{
	uint64_t end;

	return p->p_filesz <= p->p_memsz && !ckd_add(&end, p->p_vaddr, p->p_memsz) &&
	       end < USER_END && !ckd_add(&end, p->p_offset, p->p_filesz) && end < INT64_MAX &&
	       p->p_vaddr % PAGE == p->p_offset % PAGE;
}

static int load(
	struct exec_plan *plan, const struct image *im, uint64_t base, int fd, struct loaded *ret)
{
	unsigned loads = 0;
	int r;

	memset(ret, 0, sizeof(*ret));
	ret->start = UINT64_MAX;
	ret->base = base;
	ret->entry = base + im->h.e_entry;
	ret->exec_stack = true;
	for (unsigned i = 0; i < im->h.e_phnum; i++) {
		const Elf64_Phdr *p = &im->ph[i];
		uint64_t at = base + p->p_vaddr;

		if (p->p_type == PT_GNU_STACK)
			ret->exec_stack = p->p_flags & PF_X;
		if (p->p_type == PT_PHDR && !ret->phdr)
			ret->phdr = at;
		if (p->p_type != PT_LOAD || !p->p_memsz)
			continue;
		if (!segment_ok(p) || ++loads > LOADS_MAX || at + p->p_memsz >= USER_END)
			return -ENOEXEC;
		r = load_segment(plan, p, base, fd);
		if (r < 0)
			return r;
		if (!ret->phdr && im->h.e_phoff >= p->p_offset &&
			im->h.e_phoff < p->p_offset + p->p_filesz)
			ret->phdr = at + (im->h.e_phoff - p->p_offset);
		if (at < ret->start)
			ret->start = at;
		if (at + p->p_memsz > ret->end)
			ret->end = at + p->p_memsz;
		if (p->p_flags & PF_X)
			ret->code_end = at + p->p_filesz;
	}
	return loads ? 0 : -ENOEXEC;
}

/* The loader's code, which is changed before it runs. */
static void look_ahead(
	struct task *t, struct exec *x, struct exec_desk *d, struct mm *mm, uint64_t base)
{
	for (unsigned i = 0; i < d->interp.h.e_phnum; i++)
		if (d->interp.ph[i].p_type == PT_LOAD && (d->interp.ph[i].p_flags & PF_X)) {
			place_ahead(t, mm, x->interp, &d->interp.ph[i], base, &d->plan.ahead);
			return;
		}
}

/* The stack: strings, random bytes, auxv, envp, argv, argc. */

struct stack {
	uint8_t *bytes;
	size_t cap;
	uint64_t top; /* guest address of the end */
	uint64_t at;  /* guest address of the lowest byte in use */
};

static void *stack_push(struct stack *s, const void *p, size_t len)
{
	uint8_t *to;

	s->at -= len;
	to = s->bytes + s->cap - (s->top - s->at);
	memcpy(to, p, len);
	return to;
}

static void push_u64(struct stack *s, uint64_t v)
{
	stack_push(s, &v, sizeof(v));
}

static void push_pointers(struct stack *s, const struct words *w, uint64_t strings)
{
	uint8_t *to; /* aligned for the guest, not for us */
	size_t off = 0;

	s->at -= (w->count + 1) * 8;
	to = s->bytes + s->cap - (s->top - s->at);
	for (unsigned i = 0; i < w->count; i++) {
		uint64_t at = strings + off;

		memcpy(to + i * sizeof(at), &at, sizeof(at));
		off += strlen(w->bytes + off) + 1;
	}
	memset(to + w->count * sizeof(uint64_t), 0, sizeof(uint64_t));
}

struct auxv {
	uint64_t type, value;
};

static void build_stack(struct task *t, struct exec *x, struct exec_plan *plan, struct stack *s,
	const struct image *im, const struct loaded *exe, const struct loaded *interp, bool secure,
	struct mm *mm)
{
	struct engine *e = engine_of(t->k);
	const struct cred *c = t->cred;
	uint64_t random[2] = { 0 }, random_at, name_at, platform_at;
	size_t aux_len;

	if (!draw(t->k->desk, &random[0]) || !draw(t->k->desk, &random[1]))
		random[0] = (uint64_t)kernel_now(t->k);
	push_u64(s, 0);
	stack_push(s, x->path, strlen(x->path) + 1);
	name_at = s->at;
	if (x->envp.len)
		stack_push(s, x->envp.bytes, x->envp.len);
	mm->env_start = s->at;
	mm->env_end = s->at + x->envp.len;
	if (x->argv.len)
		stack_push(s, x->argv.bytes, x->argv.len);
	mm->arg_start = s->at;
	mm->arg_end = s->at + x->argv.len;
	stack_push(s, "x86_64", 7);
	platform_at = s->at;
	s->at &= ~15ULL;
	stack_push(s, random, 16);
	random_at = s->at;
	struct auxv aux[] = {
		{ AT_SYSINFO_EHDR, e->vdso },
		{ AT_HWCAP, e->hwcap },
		{ AT_PAGESZ, PAGE },
		{ AT_CLKTCK, e->clktck },
		{ AT_PHDR, exe->phdr },
		{ AT_PHENT, sizeof(Elf64_Phdr) },
		{ AT_PHNUM, im->h.e_phnum },
		{ AT_BASE, interp ? interp->base : 0 },
		{ AT_FLAGS, 0 },
		{ AT_ENTRY, exe->entry },
		{ AT_UID, uid_out(t, c->uid) },
		{ AT_EUID, uid_out(t, c->euid) },
		{ AT_GID, gid_out(t, c->gid) },
		{ AT_EGID, gid_out(t, c->egid) },
		{ AT_SECURE, secure },
		{ AT_RANDOM, random_at },
		{ AT_HWCAP2, e->hwcap2 },
		{ AT_EXECFN, name_at },
		{ AT_PLATFORM, platform_at },
		{ 51 /* AT_MINSIGSTKSZ */, e->minsigstksz },
		{ AT_NULL, 0 },
	};
	aux_len = sizeof(aux);
	/* What follows must end 16-aligned at argc. */
	if ((s->at - aux_len - (x->argv.count + x->envp.count + 3) * 8) % 16)
		s->at -= 8;
	stack_push(s, aux, aux_len);
	mm->auxv_at = s->at;
	mm->auxv_len = aux_len;
	push_pointers(s, &x->envp, mm->env_start);
	push_pointers(s, &x->argv, mm->arg_start);
	push_u64(s, x->argv.count);
	plan->sp = s->at;
	plan->stack = s->bytes + s->cap - (s->top - s->at);
	plan->stack_len = s->top - s->at;
}

static uint64_t spread(struct exec_desk *d, uint64_t pages)
{
	uint64_t v;

	return draw(d, &v) ? v % pages * PAGE : 0;
}

static uint64_t stack_size(struct proc *p)
{
	uint64_t n = p->limits[RLIMIT_STACK].rlim_cur;

	if (n > (64 << 20))
		n = 64 << 20;
	return n < (256 << 10) ? 256 << 10 : PAGE_UP(n);
}

/* set-user-ID and set-group-ID, and what becomes of capabilities. */
static int new_cred(struct task *t, struct file *f, bool *ret_secure)
{
	struct cred *c = cred_copy(t->cred);
	struct kstat st;
	int r = vfs_fstat(f, &st);

	*ret_secure = false;
	if (!c)
		return -ENOMEM;
	if (r == 0 && !t->no_new_privs && !trace_keeps_rights(t) &&
		!(f->path.mnt && (f->path.mnt->flags & MS_NOSUID)) &&
		id_shown(c->user, ID_UID, st.uid) != ID_NONE &&
		id_shown(c->user, ID_GID, st.gid) != ID_NONE) {
		if (st.mode & S_ISUID)
			c->euid = st.uid;
		if ((st.mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP))
			c->egid = st.gid;
	}
	*ret_secure = c->euid != c->uid || c->egid != c->gid;
	c->suid = c->fsuid = c->euid;
	c->sgid = c->fsgid = c->egid;
	if (cred_is_root(c, c->euid) || cred_is_root(c, c->uid)) {
		c->cap_permitted = c->cap_inheritable | c->cap_bounding;
		c->cap_effective = cred_is_root(c, c->euid) ? c->cap_permitted : 0;
	} else {
		c->cap_permitted = c->cap_effective = c->cap_ambient;
	}
	if (*ret_secure)
		c->cap_ambient = 0;
	c->securebits &= ~(uint32_t)SECBIT_KEEP_CAPS;
	cred_unref(t->cred);
	t->cred = c;
	return 0;
}

static int source_of(struct file *f, int *ret_fd)
{
	struct map_source src;
	int r = f->ops->mmap ? f->ops->mmap(f, PROT_READ | PROT_EXEC, MAP_PRIVATE, &src) : -ENOEXEC;

	if (r < 0)
		return r;
	if (src.offset)
		return -ENOEXEC;
	*ret_fd = copy_fd(src.fd);
	return *ret_fd < 0 ? -ENOMEM : 0;
}

/* A program that wants the addresses of the table has them; then nothing is answered in place. */
static int place_image(struct exec_plan *p, struct mm *mm, const struct loaded *exe)
{
	if (exe->start >= PLACE_BASE + PLACE_SIZE || exe->end <= PLACE_BASE)
		return 0;
	if (p->step_count == STEPS_MAX)
		return -ENOEXEC;
	mm->place_off = true;
	memmove(p->steps + 1, p->steps, p->step_count++ * sizeof(p->steps[0]));
	p->steps[0] = (struct shim_step){ SYS_munmap, { PLACE_BASE, PLACE_SIZE } };
	return 0;
}

static int lay_out(struct task *t, struct exec *x, struct exec_desk *d, struct mm *mm,
	struct stack *s, bool secure)
{
	struct exec_plan *p = &d->plan;
	struct loaded exe, interp = { 0 };
	uint64_t base, brk;
	int r = look_again(x, d);

	if (r < 0)
		return r;
	map_name_note(x->file);
	if (x->interp)
		map_name_note(x->interp);
	base = d->exe.h.e_type == ET_DYN ? PIE_BASE + spread(d, 1 << 27) : 0;
	r = load(p, &d->exe, base, 0, &exe);
	if (r == 0 && x->interp)
		r = load(p, &d->interp, INTERP_BASE + spread(d, SPREAD_PAGES), 1, &interp);
	if (r < 0)
		return r;
	p->entry = x->interp ? interp.entry : exe.entry;
	p->stack_size = stack_size(t->proc);
	p->stack_base = STACK_BASE + spread(d, SPREAD_PAGES);
	s->top = p->stack_base + p->stack_size - PAGE - (spread(d, 256) >> 8 & ~15ULL);
	s->at = s->top;
	mm->stack_top = s->top;
	build_stack(t, x, p, s, &d->exe, &exe, x->interp ? &interp : NULL, secure, mm);
	if (p->stack_len > p->stack_size / 4 * 3)
		return -E2BIG;
	r = place_image(p, mm, &exe);
	if (r < 0)
		return r;
	if (x->interp)
		look_ahead(t, x, d, mm, interp.base);
	brk = PAGE_UP(exe.end);
	if (!mm->place_off && brk < PLACE_BASE) /* so that it can grow */
		brk = PLACE_BASE + PLACE_SIZE;
	brk += spread(d, 1 << 13);
	mm->brk_start = brk;
	r = step(p, SYS_mmap, p->stack_base, p->stack_size,
		PROT_READ | PROT_WRITE | (exe.exec_stack ? PROT_EXEC : 0),
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE | MAP_NORESERVE | MAP_STACK,
		~0ULL, 0);
	/* struct prctl_mm_map: code, data, brk, stack, arguments, environment, auxv, exe_fd */
	const uint64_t map[14] = { exe.start, exe.code_end > exe.start ? exe.code_end : exe.end,
		exe.start, exe.end, brk, brk, p->sp, mm->arg_start, mm->arg_end, mm->env_start,
		mm->env_end, 0, 0xffffffff00000000ULL };

	memcpy(p->mm_map, map, sizeof(map));
	return r;
}

static void remember(struct task *t, struct exec *x)
{
	struct proc *p = t->proc;

	memcpy(t->comm, x->comm, sizeof(t->comm));
	free(p->cmdline);
	p->cmdline = take_ptr(&x->argv.bytes);
	p->cmdline_len = x->argv.len;
	memset(&x->argv, 0, sizeof(x->argv));
}

static struct mm *new_mm(struct task *t, struct exec *x)
{
	struct mm *mm = calloc(1, sizeof(*mm));
	char path[GUEST_PATH_MAX];

	if (!mm)
		return NULL;
	mm->refs = 1;
	mm->ops = &host_mm_ops;
	mm->dumpable = true;
	mm->exe = file_ref(x->file);
	if (x->file->path.dentry && path_show(x->file->path, t->fs->root, path, sizeof(path)) > 0)
		mm->exe_path = strdup(path);
	else
		mm->exe_path = strdup(x->path);
	return mm;
}

int exec_go(struct task *t, struct exec *x)
{
	struct exec_desk *d = exec_desk(t->k);
	struct mm *mm = new_mm(t, x);
	struct stack s = { 0 };
	struct cred *old = cred_ref(t->cred);
	bool secure = false, planned = false;
	int r = d && mm ? new_cred(t, x->file, &secure) : -ENOMEM;

	if (r == 0) {
		memset(&d->plan, 0, offsetof(struct exec_plan, ahead.sites));
		d->plan.fds[0] = d->plan.fds[1] = -1;
		d->plan.populate = t->k->fast != FAST_OFF;
		planned = true;
		s.cap = x->argv.len + x->envp.len + (x->argv.count + x->envp.count) * 8 +
			strlen(x->path) + 1024;
		s.bytes = s.cap <= sizeof(d->stack) ? d->stack : malloc(s.cap);
		r = s.bytes ? lay_out(t, x, d, mm, &s, secure) : -ENOMEM;
	}
	if (r == 0)
		r = source_of(x->file, &d->plan.fds[0]);
	if (r == 0 && x->interp)
		r = source_of(x->interp, &d->plan.fds[1]);
	if (r == 0)
		r = engine_exec(t, &d->plan, mm);
	if (r == 0) {
		remember(t, x);
		files_close_exec(t);
		if (secure)
			t->pdeath_signal = 0; /* not for who has more rights than its parent */
		cred_unref(old);
	} else {
		for (int i = 0; planned && i < 2; i++)
			if (d->plan.fds[i] >= 0)
				close(d->plan.fds[i]);
		mm_unref(mm);
		cred_unref(t->cred);
		t->cred = old;
	}
	if (d && s.bytes != d->stack)
		free(s.bytes);
	return r;
}
