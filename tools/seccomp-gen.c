/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seccomp-gen - turns src/jail/calls.def into ready-made filter programs.
 *
 * Owns:  the shape of the filter: system call numbers sorted, neighbours with the same answer
 *        merged into ranges, found by binary search. The kernel runs a new filter once for every
 *        call number to fill its always-allow bitmap, so a shallow program is quick to load:
 *        a linear chain of the same policy takes four times as long.
 * Rules: runs at build time; names become numbers through libseccomp, for the native machine.
 *
 * Prints two programs, filter_record (denied calls go to the listener) and filter_errno (they fail
 * with EPERM), and the names of the calls that can be denied.
 */
#include <errno.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <seccomp.h>

enum answer {
	ABSENT,
	ALLOW,
	DENY,
	CHECK_clone,
	CHECK_unshare,
	CHECK_socket,
	CHECK_socketpair,
	CHECK_ioctl,
	CHECK_personality
};

struct call {
	const char *name;
	int nr;
	enum answer answer;
};

static struct call calls[] = {
#define ALLOW(name) { #name, 0, ALLOW },
#define DENY(name) { #name, 0, DENY },
#define ABSENT(name) { #name, 0, ABSENT },
#define CHECK(name) { #name, 0, CHECK_##name },
#include "jail/calls.def"
#undef ALLOW
#undef DENY
#undef ABSENT
#undef CHECK
};

enum { CALLS = sizeof(calls) / sizeof(calls[0]), NR_MAX = 1024, PROG_MAX = 1024 };

/* Numbers that Debian 12's libseccomp does not know yet; the same on every machine. */
static const struct {
	const char *name;
	int nr;
} newer[] = {
	{ "cachestat", 451 },
	{ "fchmodat2", 452 },
	{ "map_shadow_stack", 453 },
	{ "futex_wake", 454 },
	{ "futex_wait", 455 },
	{ "futex_requeue", 456 },
	{ "mseal", 462 },
};

static int number(const char *name)
{
	int nr = seccomp_syscall_resolve_name(name);

	for (size_t i = 0; nr < 0 && i < sizeof(newer) / sizeof(newer[0]); i++)
		if (strcmp(name, newer[i].name) == 0)
			nr = newer[i].nr;
	return nr;
}

struct range {
	int first, last;
	enum answer answer;
};

struct prog {
	struct sock_filter code[PROG_MAX];
	unsigned len;
};

static unsigned emit(struct prog *p, unsigned short code, unsigned jt, unsigned jf, unsigned k)
{
	if (p->len >= PROG_MAX || jt > 255 || jf > 255) {
		fputs("seccomp-gen: the program is too long for its jumps\n", stderr);
		exit(1);
	}
	p->code[p->len] = (struct sock_filter){ code, (unsigned char)jt, (unsigned char)jf, k };
	return p->len++;
}

static void give(struct prog *p, unsigned value)
{
	emit(p, BPF_RET | BPF_K, 0, 0, value);
}

static void load(struct prog *p, size_t offset)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)offset);
}

static size_t arg(unsigned i)
{
	return offsetof(struct seccomp_data, args) + 8 * i; /* the low half, little-endian */
}

static unsigned denied(int record)
{
	return record ? SECCOMP_RET_USER_NOTIF : SECCOMP_RET_ERRNO | EPERM;
}

/* flags & any new namespace: denied */
static void check_namespaces(struct prog *p, int record)
{
	/* time, mount, cgroup, uts, ipc, user, pid, net */
	const unsigned any = 0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 |
			     0x20000000 | 0x40000000;

	load(p, arg(0));
	emit(p, BPF_JMP | BPF_JSET | BPF_K, 0, 1, any);
	give(p, denied(record));
	give(p, SECCOMP_RET_ALLOW);
}

/* clone's low byte is the exit signal, so a time namespace cannot be asked for with it. */
static void check_clone(struct prog *p, int record)
{
	const unsigned any =
		0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000;

	load(p, arg(0));
	emit(p, BPF_JMP | BPF_JSET | BPF_K, 0, 1, any);
	give(p, denied(record));
	give(p, SECCOMP_RET_ALLOW);
}

/* unix, inet, inet6 (not raw, not packet), and netlink's route protocol */
static void check_socket(struct prog *p, int record)
{
	load(p, arg(0));
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 9, 0, 1 /* AF_UNIX */);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 4, 0, 2 /* AF_INET */);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 3, 0, 10 /* AF_INET6 */);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 7, 16 /* AF_NETLINK */);
	load(p, arg(2));
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 4, 5, 0 /* NETLINK_ROUTE */);
	load(p, arg(1));
	emit(p, BPF_ALU | BPF_AND | BPF_K, 0, 0, 0xf);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 1 /* SOCK_STREAM */);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 2 /* SOCK_DGRAM */);
	give(p, SECCOMP_RET_ALLOW);
	give(p, denied(record));
}

static void check_socketpair(struct prog *p, int record)
{
	load(p, arg(0));
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 1 /* AF_UNIX */);
	give(p, SECCOMP_RET_ALLOW);
	give(p, denied(record));
}

/* No typing into a terminal that may be the operator's: TIOCSTI, TIOCLINUX, TIOCCONS. */
static void check_ioctl(struct prog *p, int record)
{
	load(p, arg(1));
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 3, 0, 0x5412);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 0x541c);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0x541d);
	give(p, SECCOMP_RET_ALLOW);
	give(p, denied(record));
}

/* Asking, plain Linux, and no address randomisation (debuggers) are fine; other kernels' are not.
 */
static void check_personality(struct prog *p, int record)
{
	load(p, arg(0));
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 2, 0, 0xffffffff);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0);
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0x40000);
	give(p, SECCOMP_RET_ALLOW);
	give(p, denied(record));
}

static void leaf(struct prog *p, enum answer a, int record)
{
	switch (a) {
	case ALLOW:
		give(p, SECCOMP_RET_ALLOW);
		break;
	case DENY:
		give(p, denied(record));
		break;
	case ABSENT:
		give(p, SECCOMP_RET_ERRNO | ENOSYS);
		break;
	case CHECK_clone:
		check_clone(p, record);
		break;
	case CHECK_unshare:
		check_namespaces(p, record);
		break;
	case CHECK_socket:
		check_socket(p, record);
		break;
	case CHECK_socketpair:
		check_socketpair(p, record);
		break;
	case CHECK_ioctl:
		check_ioctl(p, record);
		break;
	case CHECK_personality:
		check_personality(p, record);
		break;
	}
}

static unsigned measure(const struct range *r, unsigned count, int record);

/* nr is in the accumulator: below @middle goes on right here, the rest jumps over that. */
static void search(struct prog *p, const struct range *r, unsigned count, int record)
{
	unsigned half = count / 2, size, jump;

	if (count == 1) {
		leaf(p, r->answer, record);
		return;
	}
	size = measure(r, half, record);
	/* A conditional jump reaches 255; beyond that, a long one (32 bits) over the lower half. */
	if (size <= 255) {
		emit(p, BPF_JMP | BPF_JGE | BPF_K, size, 0, (unsigned)r[half].first);
	} else {
		emit(p, BPF_JMP | BPF_JGE | BPF_K, 0, 1, (unsigned)r[half].first);
		jump = emit(p, BPF_JMP | BPF_JA, 0, 0, 0);
		p->code[jump].k = size;
	}
	search(p, r, half, record);
	search(p, r + half, count - half, record);
}

/* How many instructions search() makes of them. */
static unsigned measure(const struct range *r, unsigned count, int record)
{
	struct prog *scratch = calloc(1, sizeof(*scratch));
	unsigned len;

	if (!scratch)
		exit(1);
	search(scratch, r, count, record);
	len = scratch->len;
	free(scratch);
	return len;
}

static bool is_jump(const struct sock_filter *c)
{
	return BPF_CLASS(c->code) == BPF_JMP;
}

static bool is_return(const struct sock_filter *c)
{
	return BPF_CLASS(c->code) == BPF_RET;
}

/* Where instruction @at goes on to: @side 0 or 1; the same for both but after a condition. */
static unsigned next_of(const struct prog *p, unsigned at, int side)
{
	const struct sock_filter *c = &p->code[at];

	if (!is_jump(c))
		return at + 1;
	if (BPF_OP(c->code) == BPF_JA)
		return at + 1 + c->k;
	return at + 1 + (side ? c->jf : c->jt);
}

/* The answer at the end of @p that equals the one at @at; made when it is not there yet. */
static unsigned shared_return(struct prog *p, unsigned body, unsigned at)
{
	for (unsigned i = body; i < p->len; i++)
		if (p->code[i].k == p->code[at].k)
			return i;
	return emit(p, BPF_RET | BPF_K, 0, 0, p->code[at].k);
}

/*
 * One return for each answer, at the end, instead of one in each leaf: the kernel compiles every
 * instruction when the filter is loaded, and that happens at every start.
 */
static void share_returns(struct prog *p)
{
	unsigned body = p->len, target[PROG_MAX][2], place[PROG_MAX], len = 0;
	bool used[PROG_MAX] = { true };

	for (unsigned i = 0; i < body; i++) {
		for (int side = 0; side < 2 && !is_return(&p->code[i]); side++) {
			unsigned to = next_of(p, i, side);

			if (is_jump(&p->code[i]) && is_return(&p->code[to]))
				to = shared_return(p, body, to);
			target[i][side] = to;
			used[to] |= used[i];
		}
	}
	for (unsigned i = 0; i < p->len; i++) {
		place[i] = len;
		len += used[i];
	}
	for (unsigned i = 0; i < p->len; i++) {
		struct sock_filter c = p->code[i];

		if (!used[i])
			continue;
		if (is_jump(&c)) {
			unsigned jt = place[target[i][0]] - place[i] - 1,
				 jf = place[target[i][1]] - place[i] - 1;

			if (BPF_OP(c.code) != BPF_JA && (jt > 255 || jf > 255)) {
				fputs("seccomp-gen: a shared answer is out of reach\n", stderr);
				exit(1);
			}
			c = BPF_OP(c.code) == BPF_JA
				    ? (struct sock_filter){ c.code, 0, 0, jt }
				    : (struct sock_filter){ c.code, (unsigned char)jt,
					      (unsigned char)jf, c.k };
		}
		p->code[place[i]] = c;
	}
	p->len = len;
}

static void build(struct prog *p, const struct range *r, unsigned count, int record)
{
	load(p, offsetof(struct seccomp_data, arch));
	emit(p, BPF_JMP | BPF_JEQ | BPF_K, 1, 0, seccomp_arch_native());
	give(p, SECCOMP_RET_ERRNO | ENOSYS); /* 32-bit calls: another table, another policy */
	load(p, offsetof(struct seccomp_data, nr));
	/* x32 numbers lie above NR_MAX, in the last range, which is ABSENT. */
	search(p, r, count, record);
	share_returns(p);
}

static unsigned make_ranges(struct range *r)
{
	enum answer by_nr[NR_MAX + 1];
	unsigned count = 0;

	for (int i = 0; i <= NR_MAX; i++)
		by_nr[i] = ABSENT;
	for (int i = 0; i < CALLS; i++) {
		calls[i].nr = number(calls[i].name);
		if (calls[i].nr >= NR_MAX) {
			fprintf(stderr, "seccomp-gen: %s has number %d\n", calls[i].name,
				calls[i].nr);
			exit(1);
		}
		if (calls[i].nr >= 0)
			by_nr[calls[i].nr] = calls[i].answer;
	}
	for (int i = 0; i <= NR_MAX; i++) {
		if (count && r[count - 1].answer == by_nr[i])
			r[count - 1].last = i;
		else
			r[count++] = (struct range){ i, i, by_nr[i] };
	}
	return count;
}

static void print(const char *name, const struct prog *p)
{
	printf("static const struct sock_filter %s[%u] = {\n", name, p->len);
	for (unsigned i = 0; i < p->len; i++)
		printf("\t{ 0x%02x, %u, %u, 0x%08x },\n", p->code[i].code, p->code[i].jt,
			p->code[i].jf, p->code[i].k);
	printf("};\n");
}

int main(void)
{
	static struct range ranges[NR_MAX + 1];
	static struct prog record, plain;
	unsigned count = make_ranges(ranges), allowed = 0;

	build(&record, ranges, count, 1);
	build(&plain, ranges, count, 0);
	printf("/* Made by seccomp-gen from calls.def: %u ranges. */\n", count);
	print("filter_record", &record);
	print("filter_errno", &plain);
	printf("static const struct {\n\tint nr;\n\tconst char *name;\n} call_names[] = {\n");
	for (int i = 0; i < CALLS; i++) {
		if (calls[i].nr >= 0 && calls[i].answer != ALLOW && calls[i].answer != ABSENT)
			printf("\t{ %d, \"%s\" },\n", calls[i].nr, calls[i].name);
		allowed += calls[i].nr >= 0 && calls[i].answer != DENY && calls[i].answer != ABSENT;
	}
	printf("};\nenum { CALLS_ALLOWED = %u };\n", allowed);
	return 0;
}
