/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/trap/place_text.c - how a call site becomes a jump, and a site again.
 *
 * Owns:  the sites of the loader, found once.
 * Rules: under the kernel lock. Text is changed in a copy of its page that is this process's alone;
 *        what is behind the syscall stays where it is.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <emmintrin.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/ckd.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/shim/blob.h"
#include "tier/kernel/trap/answers.h"
#include "tier/kernel/trap/engine.h"
#include "tier/kernel/trap/later.h"
#include "tier/kernel/trap/place_impl.h"
#include "tier/kernel/vfs/file.h"

enum { PAGE = 4096, TEXT_MAX = 1 << 20 };

bool place_is_site(const uint8_t b[SITE_BYTES], uint32_t nr)
{
	uint8_t want[SITE_BYTES] = { 0xb8, 0, 0, 0, 0, 0x0f, 0x05 };

	memcpy(want + 1, &nr, sizeof(nr));
	return memcmp(b, want, sizeof(want)) == 0;
}

bool place_is_cwd(const uint8_t b[CWD_BYTES])
{
	/* mov $SYS_openat,%eax; mov %rdi,%rsi; mov $AT_FDCWD,%edi; syscall */
	static const uint8_t want[CWD_BYTES] = { 0xb8, 1, 1, 0, 0, 0x48, 0x89, 0xfe, 0xbf, 0x9c,
		0xff, 0xff, 0xff, 0x0f, 0x05 };

	return memcmp(b, want, sizeof(want)) == 0;
}

/* ff 24 25 and the slot's address, of which the site has the upper half already. */
void place_jump(unsigned site, uint8_t ret[5])
{
	uint32_t slot = PLACE_BASE + site * 8;

	ret[0] = 0xff;
	ret[1] = 0x24;
	ret[2] = 0x25;
	ret[3] = (uint8_t)slot;
	ret[4] = (uint8_t)(slot >> 8);
}

/* Is @at in text that is nobody else's, of which only we can change a copy? */
static bool is_plain_text(struct kernel *k, pid_t pid, uint64_t at)
{
	struct {
		uint64_t size, query_flags, query_addr, start, end, flags, page_size, offset, inode;
		uint32_t major, minor, name_size, build_id_size;
		uint64_t name, build_id;
	} q = { .size = sizeof(q), .query_addr = at };
	char path[32];
	int fd, r;

	if (k->host_proc < 0 || str_fmt(path, sizeof(path), "%d/maps", (int)pid) < 0)
		return false;
	fd = host_openat(k->host_proc, path, O_RDONLY | O_CLOEXEC, 0);
	if (fd < 0)
		return false;
	r = ioctl(fd, PROCMAP_QUERY_, &q);
	close(fd);
	/* 1 readable, 2 writable, 4 executable, 8 shared */
	return r == 0 && (q.flags & 15) == 5 && q.inode && q.start <= at &&
	       at + SITE_BYTES <= q.end;
}

/*
 * "xor %eax, %eax; syscall", which is how libc says read, has no room for a jump. But code is
 * aligned: where 7 bytes or more that do nothing stand right before it, or behind the ret that
 * follows it, the jump goes there, and a short one to it over the xor. The syscall stays. Who runs
 * into what stood before it was on the way to the call anyway.
 */
bool place_short(const uint8_t b[SHORT_BYTES], struct place_short *ret)
{
	static const uint8_t nops[][10] = { { 0x66, 0x2e, 0x0f, 0x1f, 0x84 },
		{ 0x66, 0x0f, 0x1f, 0x84 }, { 0x0f, 0x1f, 0x84 }, { 0x0f, 0x1f, 0x80 } };
	static const uint8_t call[] = { 0x31, 0xc0, 0x0f, 0x05 };
	static const uint8_t tail[] = { 0x48, 0x3d, 0x00, 0xf0, 0xff, 0xff, 0x77 };
	const uint8_t *at = b + SHORT_AT, *behind = at + sizeof(call) + sizeof(tail) + 2;
	bool returns = memcmp(at + sizeof(call), tail, sizeof(tail)) == 0 && behind[-1] == 0xc3;

	if (memcmp(at, call, sizeof(call)) || (at[-1] & 0xf0) == 0x40) /* another register */
		return false;
	for (unsigned i = 0; i < ARRAY_LEN(nops); i++) {
		unsigned len = 10 - i;

		/* With a prefix more before it the jump would have that. */
		if (memcmp(at - len, nops[i], len) == 0 && at[-(int)len - 1] != 0x66 &&
			at[-(int)len - 1] != 0x2e)
			*ret = (struct place_short){ -(int)len, len };
		else if (returns && memcmp(behind, nops[i], len) == 0)
			*ret = (struct place_short){ (int)(behind - at), len };
		else
			continue;
		return true;
	}
	return false;
}

/* Code that makes any call: @before bytes up to the end of its syscall, of which @over are jumped
 * over, and what must stand behind. */
static const struct {
	uint8_t before, over, len;
	uint8_t code[ANY_BYTES + 1];
} any_shapes[ANY_SHAPES] = {
	/* mov %r9,%r8; mov 8(%rsp),%r9 */
	[ANY_GLIBC] = { 10, 5, 10, { 0x4d, 0x89, 0xc8, 0x4c, 0x8b, 0x4c, 0x24, 8, 0x0f, 5 } },
	/* mov %rdi,%rax; mov %r8,%r10; mov %rsi,%rdi; mov %r9,%r8; mov %rdx,%rsi;
	 * mov 8(%rsp),%r9; mov %rcx,%rdx */
	[ANY_MUSL_CP] = { 25, 8, 26,
		{ 0x48, 0x89, 0xf8, 0x4d, 0x89, 0xc2, 0x48, 0x89, 0xf7, 0x4d, 0x89, 0xc8, 0x48,
			0x89, 0xd6, 0x4c, 0x8b, 0x4c, 0x24, 8, 0x48, 0x89, 0xca, 0x0f, 5, 0xc3 } },
	/* mov 8(%rdx),%rdi; movl $8,(%rsp); mov 16(%rdx),%rsi; mov 24(%rdx),%rdx */
	[ANY_MUSL] = { 21, 8, 21,
		{ 0x48, 0x8b, 0x7a, 8, 0xc7, 4, 0x24, 8, 0, 0, 0, 0x48, 0x8b, 0x72, 0x10, 0x48,
			0x8b, 0x52, 0x18, 0x0f, 5 } },
};

int place_any(const uint8_t *ip)
{
	for (int i = 0; i < ANY_SHAPES; i++)
		if (memcmp(ip - any_shapes[i].before, any_shapes[i].code, any_shapes[i].len) == 0)
			return i;
	return -1;
}

static unsigned lay_any(unsigned i, const uint8_t *ip, int *ret_from, uint8_t ret[SHORT_BYTES])
{
	static const uint8_t nop[] = { 0x0f, 0x1f, 0x00 };
	int shape = place_any(ip);
	unsigned over;

	if (shape < 0)
		return 0;
	over = any_shapes[shape].over;
	*ret_from = -(int)over - 2;
	memcpy(ret, nop, sizeof(nop));
	place_jump(i, ret + over - 5);
	return over;
}

/*
 * What is written over the site whose syscall ends at @ip, which has SHORT_AT + 4 bytes before it
 * and the rest of SHORT_BYTES behind it where @nr is 0, ANY_BYTES and one where it is SITE_ANY. How
 * many bytes, from @ret_from on, counted from @ip; 0: it is no site.
 */
static unsigned lay_jump(
	unsigned i, uint32_t nr, const uint8_t *ip, int *ret_from, uint8_t ret[SHORT_BYTES])
{
	const uint8_t *all = ip - SHORT_AT - 4;
	uint8_t now[SHORT_BYTES];
	struct place_short s;
	unsigned from, to;

	if (nr == SITE_ANY)
		return lay_any(i, ip, ret_from, ret);
	if (nr) {
		if (!place_is_site(ip - SITE_BYTES, nr) &&
			(nr != SYS_openat || !place_is_cwd(ip - CWD_BYTES)))
			return 0;
		*ret_from = -SITE_BYTES;
		place_jump(i, ret);
		return SITE_BYTES - 2;
	}
	if (!place_short(all, &s))
		return 0;
	memcpy(now, all, sizeof(now));
	place_jump(i, now + SHORT_AT + s.pad);
	now[SHORT_AT + s.pad + 5] = PLACE_BASE >> 16 & 0xff;
	now[SHORT_AT + s.pad + 6] = PLACE_BASE >> 24;
	now[SHORT_AT] = 0xeb;
	now[SHORT_AT + 1] = (uint8_t)(s.pad - 2);
	from = s.pad < 0 ? (unsigned)(SHORT_AT + s.pad) : SHORT_AT;
	to = s.pad < 0 ? SHORT_AT + 2 : (unsigned)(SHORT_AT + s.pad + SITE_BYTES);
	*ret_from = (int)from - SHORT_AT - 4;
	memcpy(ret, now + from, to - from);
	return to - from;
}

/*
 * Which call the syscall that ends at @ip makes, if it can be told and is one that asks; -1: not.
 * What comes before the mov may be the start of a longer instruction that ends in the same bytes:
 * a prefix, or one with a displacement and a number.
 */
static int64_t number_of(const uint8_t *ip)
{
	static const int wanted[] = { SYS_openat, SYS_newfstatat, SYS_mmap, SYS_close, SYS_access,
		SYS_lseek, SYS_readlink, SYS_getdents64, SYS_rt_sigaction, SYS_write, SYS_pread64 };
	const uint8_t *mov = ip - SITE_BYTES;

	if (ip[-4] == 0x31 && ip[-3] == 0xc0)
		return SYS_read;
	if (place_is_cwd(ip - CWD_BYTES))
		return SYS_openat;
	for (int i = -3; i < 0; i++)
		if (mov[i] == 0xc7 || mov[i] == 0x81 || mov[i] == 0x69 || mov[i] == 0xf7)
			return -1;
	if ((mov[-1] & 0xf0) == 0x40)
		return -1;
	for (unsigned i = 0; i < ARRAY_LEN(wanted); i++)
		if (place_is_site(mov, (uint32_t)wanted[i]))
			return wanted[i];
	return -1;
}

/* The next "0f 05" at or behind @at; @len: none. */
static size_t next_syscall(const uint8_t *text, size_t at, size_t len)
{
	const __m128i first = _mm_set1_epi8(0x0f), second = _mm_set1_epi8(0x05);

	for (; at + 17 <= len; at += 16) {
		__m128i a = _mm_loadu_si128((const void *)(text + at));
		__m128i b = _mm_loadu_si128((const void *)(text + at + 1));
		unsigned hit = (unsigned)_mm_movemask_epi8(
			_mm_and_si128(_mm_cmpeq_epi8(a, first), _mm_cmpeq_epi8(b, second)));

		if (hit)
			return at + (unsigned)__builtin_ctz(hit);
	}
	for (; at + 2 <= len; at++)
		if (text[at] == 0x0f && text[at + 1] == 0x05)
			return at;
	return len;
}

/* The sites in a page, and which call each makes. */
struct found {
	unsigned count;
	struct {
		uint32_t behind; /* the syscall, in the page */
		uint32_t nr;
	} sites[PLACE_AHEAD_MAX];
};

static void find_sites(const uint8_t page[PAGE], struct found *ret)
{
	uint8_t jump[SHORT_BYTES];

	ret->count = 0;
	for (size_t at = SHORT_AT + 2; (at = next_syscall(page, at, PAGE)) < PAGE - SHORT_BYTES;
		at++) {
		int64_t nr = number_of(page + at + 2);
		int from;

		if (nr < 0 || ret->count == PLACE_AHEAD_MAX ||
			!lay_jump(0, (uint32_t)nr, page + at + 2, &from, jump))
			continue;
		ret->sites[ret->count].behind = (uint32_t)at + 2;
		ret->sites[ret->count++].nr = (uint32_t)nr;
	}
}

/* Site @i of @p in @page, which lies at @base; false: not beside those that are changed already. */
static bool change_one(struct place *p, unsigned i, uint64_t base, uint8_t page[PAGE],
	uint32_t behind, uint32_t nr, struct place_site *ret)
{
	uint8_t jump[SHORT_BYTES];
	int kind = place_kind(nr), from;
	unsigned len = lay_jump(i, nr, page + behind, &from, jump);

	if (!len)
		return false;
	if (kind == PLACE_OPEN && !place_is_site(page + behind - SITE_BYTES, nr))
		kind = PLACE_OPEN_CWD;
	p->sites[i].ip = base + behind;
	p->sites[i].nr = (uint16_t)nr;
	p->sites[i].state = SITE_CHANGED;
	p->sites[i].at = base + behind + (uint64_t)(int64_t)from;
	p->sites[i].len = (uint8_t)len;
	memcpy(p->sites[i].was, page + behind + from, len);
	memcpy(page + behind + from, jump, len);
	*ret = (struct place_site){ .ret = base + behind, .nr = nr, .kind = (uint32_t)kind };
	if (kind == PLACE_AT_ARG || (kind >= PLACE_FSTAT && kind < PLACE_MADE))
		p->asks |= 1u << kind;
	return true;
}

/* Is it changed, or never will be? One that was only counted makes way. */
static bool is_known(struct place *p, uint64_t ip)
{
	for (unsigned i = 0; i < p->count; i++) {
		if (p->sites[i].ip != ip)
			continue;
		if (p->sites[i].state != SITE_COUNTED)
			return true;
		p->sites[i].ip = 0;
	}
	return false;
}

/* Others in the same page that ask too, since the page is copied anyway. */
static bool change_others(struct task *t, uint64_t base, uint8_t page[PAGE])
{
	struct place_site made[PLACE_AHEAD_MAX];
	struct place *p = t->mm->place;
	unsigned first = p->count, n = 0;
	struct found f;

	find_sites(page, &f);
	for (unsigned i = 0; i < f.count && first + n < PLACE_SITES; i++) {
		if (is_known(p, base + f.sites[i].behind))
			continue;
		n += change_one(
			p, first + n, base, page, f.sites[i].behind, f.sites[i].nr, &made[n]);
	}
	p->count += n;
	return !n || t->mm->ops->write(t->mm, PLACE_SITES_AT + first * sizeof(made[0]), made,
			     n * sizeof(made[0])) == (ssize_t)(n * sizeof(made[0]));
}

static bool write_page(struct task *t, uint64_t base, const uint8_t *was, const uint8_t *page)
{
	size_t from = 0, to = PAGE;

	while (from < to && was[from] == page[from])
		from++;
	while (to > from && was[to - 1] == page[to - 1])
		to--;
	return host_poke(t, base + from, page + from, to - from);
}

/* The site that makes call @nr, or any. */
static bool change_asked(struct place *p, unsigned i, uint64_t base, uint8_t page[PAGE],
	uint32_t behind, uint32_t nr, struct place_site *ret)
{
	bool has_room = nr == SYS_openat ? behind >= CWD_BYTES
			: nr             ? behind >= SITE_BYTES
					 : behind >= SHORT_AT + 4 && behind <= PAGE - SHORT_BYTES;

	if (has_room && change_one(p, i, base, page, behind, nr, ret))
		return true;
	return behind >= ANY_BYTES && behind < PAGE &&
	       change_one(p, i, base, page, behind, SITE_ANY, ret);
}

/* What the jump of site @i, which makes any call, looks for; @shape: its code. */
static bool put_any(struct task *t, unsigned i, int shape, const struct place_site *site)
{
	uint64_t stub = ((const struct shim_head *)shim_blob)->any[shape];
	struct place *p = t->mm->place;

	if (p->any >> shape & 1) /* there is room for one */
		return false;
	p->any |= (uint8_t)(1u << shape);
	return t->mm->ops->write(t->mm, PLACE_ANY_AT + (unsigned)shape * sizeof(*site), site,
		       sizeof(*site)) == sizeof(*site) &&
	       t->mm->ops->write(t->mm, PLACE_BASE + i * sizeof(stub), &stub, sizeof(stub)) ==
		       sizeof(stub);
}

static bool put_site(struct task *t, unsigned i, const struct place_site *site)
{
	return t->mm->ops->write(t->mm, PLACE_SITES_AT + i * sizeof(*site), site, sizeof(*site)) ==
	       sizeof(*site);
}

bool place_change(struct task *t, unsigned i, uint64_t ip, uint32_t nr)
{
	uint64_t base = (ip - 1) & ~(uint64_t)(PAGE - 1);
	uint32_t behind = (uint32_t)(ip - base);
	uint8_t was[PAGE], page[PAGE];
	struct place *p = t->mm->place;
	struct place_site site;
	unsigned count = p->count;

	if (behind < SITE_BYTES || guest_read(t, was, GVA(base), sizeof(was)) < 0)
		return false;
	memcpy(page, was, sizeof(page));
	/* First all that the jumps will look for, then the jumps. */
	if (change_asked(p, i, base, page, behind, nr, &site) &&
		is_plain_text(t->k, t->mm->host_pid, ip - SITE_BYTES) &&
		(p->sites[i].nr == SITE_ANY ? put_any(t, i, place_any(was + behind), &site)
					    : put_site(t, i, &site)) &&
		(t->k->fast > FAST_LEND || change_others(t, base, page)) &&
		write_page(t, base, was, page))
		return true;
	p->count = count;
	return false;
}

int place_undo(struct task *t)
{
	struct place *p = t->mm->place;

	place_take_back(t);
	carry_drop(t->mm);
	t->mm->place_off = true;
	later_end(t);
	for (unsigned i = 0; p && i < p->count; i++)
		if (p->sites[i].state == SITE_CHANGED &&
			!host_poke(t, p->sites[i].at, p->sites[i].was, p->sites[i].len))
			return -ENOMEM;
	return 0;
}

void place_clean(const struct mm *mm, uint64_t at, uint8_t page[PAGE])
{
	const struct place *p = mm->place;

	for (unsigned i = 0; p && i < p->count; i++) {
		uint8_t now[SHORT_BYTES], jump[SHORT_BYTES];
		uint64_t off = p->sites[i].at - at;
		unsigned len = p->sites[i].len;
		int from;

		if (p->sites[i].state != SITE_CHANGED || off > PAGE - len)
			continue;
		memcpy(now, page + off, len);
		memcpy(page + off, p->sites[i].was, len);
		/* Something else stands there by now: it stays. */
		if (lay_jump(i, p->sites[i].nr, page + (p->sites[i].ip - at), &from, jump) != len ||
			memcmp(now, jump, len) != 0)
			memcpy(page + off, now, len);
	}
}

/*
 * The loader: whatever is linked with libraries begins there, with the same few calls, and its
 * sites lie close together. They are looked for once, in the page that has most of them; from then
 * on a new image has them changed before it runs.
 */
struct loader {
	const struct inode *inode;
	uint64_t ino;
	int64_t size, mtime;
	uint64_t page; /* in the file */
	struct found found;
	uint8_t bytes[PAGE];
};

/* @text lies at @off in the file, a multiple of PAGE. */
static void find_best(struct loader *l, const uint8_t *text, size_t len, uint64_t off)
{
	struct found f;

	for (size_t at = 0; (at = next_syscall(text, at, len)) < len;) {
		size_t page = at & ~(size_t)(PAGE - 1);

		find_sites(text + page, &f);
		if (f.count > l->found.count) {
			l->page = off + page;
			l->found = f;
			memcpy(l->bytes, text + page, PAGE);
		}
		at = page + PAGE;
	}
}

static void look(struct loader *l, struct file *f, const Elf64_Phdr *text)
{
	uint64_t off = text->p_offset & ~(uint64_t)(PAGE - 1);
	/* Whole pages, of which the host has all bytes. */
	size_t len = (text->p_filesz + (text->p_offset - off)) & ~(size_t)(PAGE - 1);
	struct map_source src;
	uint8_t *p;

	if (!len || len > TEXT_MAX || off + len > (uint64_t)f->inode->size ||
		f->ops->mmap(f, PROT_READ, MAP_PRIVATE, &src) < 0)
		return;
	p = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_POPULATE, src.fd,
		src.offset + (int64_t)off);
	if (p == MAP_FAILED)
		return;
	find_best(l, p, len, off);
	munmap(p, len);
}

static struct loader *loader_of(struct task *t, struct file *f, const Elf64_Phdr *text)
{
	struct loader **at = answers_loader(t->k), *l = *at;
	const struct inode *i = f->inode;

	if (!l)
		l = *at = calloc(1, sizeof(*l));
	if (!l || (l->inode == i && l->ino == i->ino && l->size == i->size && l->mtime == i->mtime))
		return l;
	*l = (struct loader){ .inode = i, .ino = i->ino, .size = i->size, .mtime = i->mtime };
	look(l, f, text);
	return l;
}

void place_ahead(struct task *t, struct mm *mm, struct file *f, const Elf64_Phdr *text,
	uint64_t base, struct place_ahead *ret)
{
	struct loader *l;
	struct place *p;

	ret->count = 0;
	if (t->k->fast > FAST_LEND || !t->k->age || mm->place_off || t->filters ||
		t->seccomp_strict || t->trace || !f->path.dentry || !f->ops->mmap ||
		!answers_fixed(t, f->path))
		return;
	l = loader_of(t, f, text);
	p = l && l->found.count ? calloc(1, sizeof(*p)) : NULL;
	if (!p)
		return;
	ret->page = base + text->p_vaddr - text->p_offset + l->page;
	memcpy(ret->bytes, l->bytes, PAGE);
	for (unsigned i = 0; i < l->found.count; i++)
		ret->count += change_one(p, ret->count, ret->page, ret->bytes,
			l->found.sites[i].behind, l->found.sites[i].nr, &ret->sites[ret->count]);
	p->count = p->ahead = ret->count;
	p->view = ret->view = answers_view(t);
	mm->place = p;
}
