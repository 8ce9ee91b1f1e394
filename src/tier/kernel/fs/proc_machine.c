/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/proc_machine.c - what procfs says about the machine: the sandbox, not the host.
 *
 * Owns:  nothing.
 * Rules: memory and processors are those of the sandbox's limits. A knob that can be written keeps
 *        its value (fs/knobs.c) and changes nothing, except the names.
 */
#include <cpuid.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/kernel/fs/knobs.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/ipc/ipc.h"
#include "tier/kernel/keys/key.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/ns/ns.h"
#include "tier/kernel/ns/pid.h"
#include "tier/kernel/sock/sock.h"
#include "tier/kernel/sys/usage.h"

enum { HZ = 100, TICK_NS = 1000000000 / HZ };

struct proc_ram proc_ram(struct kernel *k)
{
	struct sysinfo si;
	struct proc_ram m = { 0, 0 };

	if (sysinfo(&si) == 0) {
		m.total = (uint64_t)si.totalram * si.mem_unit;
		m.free = ((uint64_t)si.freeram + si.bufferram) * si.mem_unit;
	}
	if (k->memory_limit && k->memory_limit < m.total) {
		uint64_t used = proc_host_used(k);
		uint64_t left = used < k->memory_limit ? k->memory_limit - used : 0;

		m.total = k->memory_limit;
		if (m.free > left)
			m.free = left;
	}
	return m;
}

static void show_meminfo(const struct proc_ctx *c, struct buf *out)
{
	struct proc_ram m = proc_ram(c->k);
	unsigned long long total = m.total >> 10, avail = m.free >> 10;

	buf_add_fmt(out,
		"MemTotal:       %8llu kB\nMemFree:        %8llu kB\nMemAvailable:   %8llu kB\n",
		total, avail, avail);
	buf_add_str(out, "Buffers:               0 kB\nCached:                0 kB\nSwapCached:    "
			 "        0 kB\n"
			 "Active:                0 kB\nInactive:              0 kB\nActive(anon):  "
			 "        0 kB\n"
			 "Inactive(anon):        0 kB\nActive(file):          0 "
			 "kB\nInactive(file):        0 kB\n"
			 "Unevictable:           0 kB\nMlocked:               0 kB\nSwapTotal:     "
			 "        0 kB\n"
			 "SwapFree:              0 kB\nDirty:                 0 kB\nWriteback:     "
			 "        0 kB\n"
			 "AnonPages:             0 kB\nMapped:                0 kB\nShmem:         "
			 "        0 kB\n"
			 "KReclaimable:          0 kB\nSlab:                  0 kB\nSReclaimable:  "
			 "        0 kB\n"
			 "SUnreclaim:            0 kB\nKernelStack:           0 kB\nPageTables:    "
			 "        0 kB\n");
	buf_add_fmt(out,
		"CommitLimit:    %8llu kB\nCommitted_AS:          0 kB\n"
		"VmallocTotal:   34359738367 kB\nVmallocUsed:           0 kB\nVmallocChunk:        "
		"  0 kB\n"
		"HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0\n"
		"HugePages_Surp:        0\nHugepagesize:       2048 kB\nHugetlb:               0 "
		"kB\n",
		total);
}

/* clang-format off */
static const struct {
	unsigned leaf, reg, bit; /* reg: 0 eax, 1 ebx, 2 ecx, 3 edx */
	const char *name;
} cpu_flags[] = {
	{ 1, 3, 0, "fpu" }, { 1, 3, 4, "tsc" }, { 1, 3, 8, "cx8" }, { 1, 3, 15, "cmov" },
	{ 1, 3, 19, "clflush" }, { 1, 3, 23, "mmx" }, { 1, 3, 24, "fxsr" }, { 1, 3, 25, "sse" },
	{ 1, 3, 26, "sse2" }, { 1, 3, 28, "ht" }, { 1, 2, 0, "pni" }, { 1, 2, 1, "pclmulqdq" },
	{ 1, 2, 9, "ssse3" }, { 1, 2, 12, "fma" }, { 1, 2, 13, "cx16" }, { 1, 2, 19, "sse4_1" },
	{ 1, 2, 20, "sse4_2" }, { 1, 2, 22, "movbe" }, { 1, 2, 23, "popcnt" }, { 1, 2, 25, "aes" },
	{ 1, 2, 26, "xsave" }, { 1, 2, 28, "avx" }, { 1, 2, 29, "f16c" }, { 1, 2, 30, "rdrand" },
	{ 7, 1, 0, "fsgsbase" }, { 7, 1, 3, "bmi1" }, { 7, 1, 5, "avx2" }, { 7, 1, 8, "bmi2" },
	{ 7, 1, 9, "erms" }, { 7, 1, 16, "avx512f" }, { 7, 1, 17, "avx512dq" }, { 7, 1, 18, "rdseed" },
	{ 7, 1, 19, "adx" }, { 7, 1, 28, "avx512cd" }, { 7, 1, 29, "sha_ni" }, { 7, 1, 30, "avx512bw" },
	{ 7, 1, 31, "avx512vl" }, { 7, 2, 1, "avx512vbmi" }, { 7, 2, 9, "vaes" },
	{ 0x80000001, 2, 0, "lahf_lm" }, { 0x80000001, 2, 5, "abm" }, { 0x80000001, 3, 11, "syscall" },
	{ 0x80000001, 3, 20, "nx" }, { 0x80000001, 3, 27, "rdtscp" }, { 0x80000001, 3, 29, "lm" },
};
/* clang-format on */

static void show_flags(struct buf *out)
{
	unsigned regs[4];

	for (size_t i = 0; i < ARRAY_LEN(cpu_flags); i++)
		if (__get_cpuid_count(
			    cpu_flags[i].leaf, 0, &regs[0], &regs[1], &regs[2], &regs[3]) &&
			(regs[cpu_flags[i].reg] >> cpu_flags[i].bit & 1))
			buf_add_fmt(out, " %s", cpu_flags[i].name);
}

static void cpu_words(char vendor[13], char brand[49], unsigned *version)
{
	unsigned a = 0, b = 0, c = 0, d = 0;
	unsigned words[12] = { 0 };

	__get_cpuid(0, &a, &b, &c, &d);
	memcpy(vendor, &b, 4);
	memcpy(vendor + 4, &d, 4);
	memcpy(vendor + 8, &c, 4);
	vendor[12] = '\0';
	for (unsigned i = 0; i < 3; i++)
		__get_cpuid(0x80000002 + i, &words[i * 4], &words[i * 4 + 1], &words[i * 4 + 2],
			&words[i * 4 + 3]);
	memcpy(brand, words, 48);
	brand[48] = '\0';
	*version = 0;
	if (__get_cpuid(1, &a, &b, &c, &d))
		*version = a;
}

static void show_cpuinfo(const struct proc_ctx *c, struct buf *out)
{
	char vendor[13], brand[49];
	unsigned version, family, model;

	cpu_words(vendor, brand, &version);
	family = (version >> 8 & 15) + ((version >> 8 & 15) == 15 ? version >> 20 & 255 : 0);
	model = (version >> 4 & 15) + (version >> 12 & 0xf0);
	for (unsigned i = 0; i < c->k->cpus; i++) {
		buf_add_fmt(out,
			"processor\t: %u\nvendor_id\t: %s\ncpu family\t: %u\nmodel\t\t: %u\nmodel "
			"name\t: %s\n"
			"stepping\t: %u\nmicrocode\t: 0x1\ncpu MHz\t\t: 2000.000\ncache size\t: "
			"16384 KB\n",
			i, vendor, family, model, brand, version & 15);
		buf_add_fmt(out,
			"physical id\t: 0\nsiblings\t: %u\ncore id\t\t: %u\ncpu cores\t: "
			"%u\napicid\t\t: %u\n"
			"initial apicid\t: %u\nfpu\t\t: yes\nfpu_exception\t: yes\ncpuid level\t: "
			"13\nwp\t\t: yes\n"
			"flags\t\t:",
			c->k->cpus, i, c->k->cpus, i, i);
		show_flags(out);
		buf_add_str(out, "\nbugs\t\t:\nbogomips\t: 4000.00\nclflush size\t: "
				 "64\ncache_alignment\t: 64\n"
				 "address sizes\t: 46 bits physical, 48 bits virtual\npower "
				 "management:\n\n");
	}
}

static int64_t up_ns(struct kernel *k)
{
	return kernel_now(k) - k->boot_ns;
}

struct spent {
	long long user, system, idle; /* ticks of all processors */
};

static long long ticks(const struct timeval *a, const struct timeval *b)
{
	return (long long)(a->tv_sec + b->tv_sec) * HZ + (a->tv_usec + b->tv_usec) / (1000000 / HZ);
}

/* Of all that run and of those whom they have waited for. */
static struct spent time_spent(struct kernel *k)
{
	struct spent s = { 0, 0, up_ns(k) / TICK_NS * k->cpus };

	for (struct proc *p = k->procs; p; p = p->next) {
		const struct rusage *gone = &p->children_usage;
		struct rusage own;

		usage_of(p, &own);
		s.user += ticks(&own.ru_utime, &gone->ru_utime);
		s.system += ticks(&own.ru_stime, &gone->ru_stime);
	}
	s.idle -= s.user + s.system;
	if (s.idle < 0)
		s.idle = 0;
	return s;
}

static void show_spent(struct buf *out, const char *name, struct spent s, unsigned parts)
{
	buf_add_fmt(out, "%s %lld 0 %lld %lld 0 0 0 0 0 0\n", name, s.user / parts,
		s.system / parts, s.idle / parts);
}

static void show_uptime(const struct proc_ctx *c, struct buf *out)
{
	long long up = up_ns(c->k) / TICK_NS, idle = time_spent(c->k).idle;

	buf_add_fmt(out, "%lld.%02lld %lld.%02lld\n", up / HZ, up % HZ, idle / HZ, idle % HZ);
}

static void show_stat(const struct proc_ctx *c, struct buf *out)
{
	struct spent spent = time_spent(c->k);
	unsigned running = 0;

	for (const struct proc *p = c->k->procs; p; p = p->next)
		running += p->state == PROC_LIVE && p->tasks && !p->tasks->call.blocked;
	show_spent(out, "cpu ", spent, 1);
	for (unsigned i = 0; i < c->k->cpus; i++) {
		char name[16];

		str_fmt(name, sizeof(name), "cpu%u", i);
		show_spent(out, name, spent, c->k->cpus); /* nobody counts them one by one */
	}
	buf_add_fmt(out,
		"intr 0\nctxt 0\nbtime %lld\nprocesses %d\nprocs_running %u\nprocs_blocked "
		"0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0\n",
		(long long)((kernel_realtime(c->k) - up_ns(c->k)) / 1000000000), c->k->last_tid,
		running);
}

static void show_loadavg(const struct proc_ctx *c, struct buf *out)
{
	unsigned running = 0;

	for (const struct proc *p = c->k->procs; p; p = p->next)
		running += p->state == PROC_LIVE && p->tasks && !p->tasks->call.blocked;
	buf_add_fmt(out, "0.00 0.00 0.00 %u/%u %d\n", running, c->k->task_count, c->k->last_tid);
}

static void show_version(const struct proc_ctx *c, struct buf *out)
{
	buf_add_str(out, "Linux version " GUEST_RELEASE " (ward) " GUEST_VERSION "\n");
}

static void show_hostname(const struct proc_ctx *c, struct buf *out)
{
	const char *name = c->reader ? uts_hostname(c->reader) : "";

	buf_add_fmt(out, "%s\n", name[0] ? name : "ward");
}

static int set_name(char *name, char *text)
{
	text[strcspn(text, "\n")] = '\0';
	return str_copy(name, sizeof(((struct uts_ns *)NULL)->hostname), text) < 0 ? -EINVAL : 0;
}

static int write_hostname(const struct proc_ctx *c, char *text)
{
	return set_name(uts_hostname(c->reader), text);
}

static int write_domain(const struct proc_ctx *c, char *text)
{
	return set_name(uts_domainname(c->reader), text);
}

static void show_domain(const struct proc_ctx *c, struct buf *out)
{
	const char *name = c->reader ? uts_domainname(c->reader) : "";

	buf_add_fmt(out, "%s\n", name[0] ? name : "(none)");
}

static void show_pid_max(const struct proc_ctx *c, struct buf *out)
{
	buf_add_fmt(out, "%u\n", GUEST_TASKS_MAX);
}

static void show_file_nr(const struct proc_ctx *c, struct buf *out)
{
	buf_add_fmt(out, "%u\t0\t%u\n", c->k->file_count, GUEST_FILES_MAX);
}

static void show_file_max(const struct proc_ctx *c, struct buf *out)
{
	buf_add_fmt(out, "%u\n", GUEST_FILES_MAX);
}

static void add_uuid(struct buf *out, const uint8_t id[16])
{
	for (unsigned i = 0; i < 16; i++)
		buf_add_fmt(out, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x", id[i]);
	buf_add_str(out, "\n");
}

static void show_boot_id(const struct proc_ctx *c, struct buf *out)
{
	add_uuid(out, c->k->boot_id);
}

static void show_uuid(const struct proc_ctx *c, struct buf *out)
{
	uint8_t id[16] = { 0 };

	if (getentropy(id, sizeof(id)) < 0)
		return;
	id[6] = (uint8_t)((id[6] & 15) | 0x40);
	id[8] = (uint8_t)((id[8] & 63) | 0x80);
	add_uuid(out, id);
}

static void show_last_pid(const struct proc_ctx *c, struct buf *out)
{
	buf_add_fmt(out, "%d\n", c->k->last_tid);
}

/* 0: this /proc has no number for it. */
static int32_t number_of_reader(const struct proc_ctx *c)
{
	const struct proc *p = c->reader ? c->reader->proc : NULL;

	return p ? pid_shown(c->view, p->pid, p->tasks->nums) : 0;
}

static ssize_t link_self(const struct proc_ctx *c, char *buf, size_t cap)
{
	int r = number_of_reader(c) ? str_fmt(buf, cap, "%d", number_of_reader(c)) : -ENOENT;

	return r < 0 ? r : (ssize_t)strlen(buf);
}

static ssize_t link_thread_self(const struct proc_ctx *c, char *buf, size_t cap)
{
	int r = number_of_reader(c) ? str_fmt(buf, cap, "%d/task/%d", number_of_reader(c),
					      pid_shown(c->view, c->reader->tid, c->reader->nums))
				    : -ENOENT;

	return r < 0 ? r : (ssize_t)strlen(buf);
}

static ssize_t link_mounts(const struct proc_ctx *c, char *buf, size_t cap)
{
	int r = str_fmt(buf, cap, "self/mounts");

	return r < 0 ? r : (ssize_t)strlen(buf);
}

#define REG(n, m, ...)                                                                             \
	{                                                                                          \
		.name = n, .mode = S_IFREG | (m), __VA_ARGS__                                      \
	}
#define TEXT(n, t)                                                                                 \
	{                                                                                          \
		.name = n, .mode = S_IFREG | 0444, .text = t                                       \
	}
#define KNOB(n, t)                                                                                 \
	{                                                                                          \
		.name = n, .mode = S_IFREG | 0644, .text = t                                       \
	}
#define DIR(n, e)                                                                                  \
	{                                                                                          \
		.name = n, .mode = S_IFDIR | 0555, .entries = e, .count = ARRAY_LEN(e)             \
	}

/* System V objects: how many, which number next, and all of them. */

static int64_t number_of(const char *text)
{
	char *end;
	long long v = strtoll(text, &end, 10);

	return end == text || v < 0 || v > INT32_MAX ? -EINVAL : v;
}

static void show_ipc_max(const struct proc_ctx *c, int kind, struct buf *out)
{
	buf_add_fmt(out, "%u\n", ipc_max(c->k, kind, -1));
}

static int write_ipc_max(const struct proc_ctx *c, int kind, const char *text)
{
	int64_t v = number_of(text);

	if (v < 0)
		return -EINVAL;
	ipc_max(c->k, kind, v);
	return 0;
}

static void show_ipc_next(const struct proc_ctx *c, int kind, struct buf *out)
{
	buf_add_fmt(out, "%d\n", c->k->ipc ? c->k->ipc->table[kind].next_id : -1);
}

static int write_ipc_next(const struct proc_ctx *c, int kind, const char *text)
{
	struct ipc_state *s = ipc_state(c->k);
	int64_t v = number_of(text);

	if (v < 0 || !s)
		return v < 0 ? -EINVAL : -ENOMEM;
	s->table[kind].next_id = (int32_t)v;
	return 0;
}

static void show_shmmni(const struct proc_ctx *c, struct buf *out)
{
	show_ipc_max(c, IPC_SHM, out);
}

static int write_shmmni(const struct proc_ctx *c, char *text)
{
	return write_ipc_max(c, IPC_SHM, text);
}

static void show_msgmni(const struct proc_ctx *c, struct buf *out)
{
	show_ipc_max(c, IPC_MSG, out);
}

static int write_msgmni(const struct proc_ctx *c, char *text)
{
	return write_ipc_max(c, IPC_MSG, text);
}

static void show_shm_next(const struct proc_ctx *c, struct buf *out)
{
	show_ipc_next(c, IPC_SHM, out);
}

static int write_shm_next(const struct proc_ctx *c, char *text)
{
	return write_ipc_next(c, IPC_SHM, text);
}

static void show_sem_next(const struct proc_ctx *c, struct buf *out)
{
	show_ipc_next(c, IPC_SEM, out);
}

static int write_sem_next(const struct proc_ctx *c, char *text)
{
	return write_ipc_next(c, IPC_SEM, text);
}

static void show_msg_next(const struct proc_ctx *c, struct buf *out)
{
	show_ipc_next(c, IPC_MSG, out);
}

static int write_msg_next(const struct proc_ctx *c, char *text)
{
	return write_ipc_next(c, IPC_MSG, text);
}

static void show_semmni(const struct proc_ctx *c, struct buf *out)
{
	buf_add_fmt(out, "%d\t%d\t%d\t%u\n", SEM_PER_SET_MAX, SEM_TOTAL_MAX, SEM_OPS_MAX,
		ipc_max(c->k, IPC_SEM, -1));
}

/* Of the four only the last, the number of sets, can be changed. */
static int write_semmni(const struct proc_ctx *c, char *text)
{
	char *at = text;

	for (int i = 0; i < 3; i++)
		strtoll(at, &at, 10);
	return write_ipc_max(c, IPC_SEM, at);
}

static int write_last_pid(const struct proc_ctx *c, char *text)
{
	int64_t v = number_of(text);

	if (v < 0 || v >= GUEST_TASKS_MAX)
		return -EINVAL;
	c->k->last_tid = (int32_t)v;
	return 0;
}

static void show_sysv_msg(const struct proc_ctx *c, struct buf *out)
{
	buf_add_str(out, "       key      msqid perms      cbytes       qnum lspid lrpid   uid   "
			 "gid  cuid  cgid      stime      rtime      ctime\n");
	ipc_show(c->reader, IPC_MSG, out);
}

static void show_sysv_sem(const struct proc_ctx *c, struct buf *out)
{
	buf_add_str(out, "       key      semid perms      nsems   uid   gid  cuid  cgid      "
			 "otime      ctime\n");
	ipc_show(c->reader, IPC_SEM, out);
}

static void show_sysv_shm(const struct proc_ctx *c, struct buf *out)
{
	buf_add_str(out, "       key      shmid perms                  size  cpid  lpid nattch   "
			 "uid   gid  cuid  cgid      atime      dtime      ctime                   "
			 "rss                  swap\n");
	ipc_show(c->reader, IPC_SHM, out);
}

static const struct proc_entry sysvipc_dir[] = {
	REG("msg", 0444, .show = show_sysv_msg),
	REG("sem", 0444, .show = show_sysv_sem),
	REG("shm", 0444, .show = show_sysv_shm),
};
static const struct proc_entry random_dir[] = {
	REG("boot_id", 0444, .show = show_boot_id),
	REG("uuid", 0444, .show = show_uuid),
	TEXT("entropy_avail", "256\n"),
	TEXT("poolsize", "256\n"),
};
static const struct proc_entry pty_dir[] = {
	KNOB("max", "4096\n"),
	TEXT("nr", "0\n"),
};
#define RT_RUNTIME "sys/kernel/sched_rt_runtime_us"
#define RT_PERIOD "sys/kernel/sched_rt_period_us"
#define KEY_KNOB(fn, which)                                                                        \
	static void show_##fn(const struct proc_ctx *c, struct buf *out)                           \
	{                                                                                          \
		buf_add_fmt(out, "%u\n", keys_knob(c->k, which, -1));                              \
	}                                                                                          \
	static int write_##fn(const struct proc_ctx *c, char *text)                                \
	{                                                                                          \
		int64_t v = number_of(text);                                                       \
                                                                                                   \
		if (v < 0)                                                                         \
			return -EINVAL;                                                            \
		keys_knob(c->k, which, v);                                                         \
		return 0;                                                                          \
	}
KEY_KNOB(maxkeys, KNOB_MAXKEYS)
KEY_KNOB(maxbytes, KNOB_MAXBYTES)
KEY_KNOB(root_maxkeys, KNOB_ROOT_MAXKEYS)
KEY_KNOB(root_maxbytes, KNOB_ROOT_MAXBYTES)

static void show_keys(const struct proc_ctx *c, struct buf *out)
{
	if (c->reader)
		keys_show(c->reader, c->k, out);
}

static void show_key_users(const struct proc_ctx *c, struct buf *out)
{
	keys_show_users(c->k, out);
}

static const struct proc_entry keys_dir[] = {
	REG("maxkeys", 0644, .show = show_maxkeys, .write = write_maxkeys),
	REG("maxbytes", 0644, .show = show_maxbytes, .write = write_maxbytes),
	REG("root_maxkeys", 0644, .show = show_root_maxkeys, .write = write_root_maxkeys),
	REG("root_maxbytes", 0644, .show = show_root_maxbytes, .write = write_root_maxbytes),
	KNOB("gc_delay", "300\n"),
};
static const struct proc_entry seccomp_dir[] = {
	TEXT("actions_avail", "kill_process kill_thread trap errno user_notif trace log allow\n"),
};
static int check_rt_period(const struct proc_ctx *c, const char *text)
{
	long long v = strtoll(text, NULL, 0), runtime = (long long)knob_value(c->k, RT_RUNTIME);

	return v < 1 || v > INT32_MAX || v < runtime ? -EINVAL : 0;
}

/* -1: no bound. */
static int check_rt_runtime(const struct proc_ctx *c, const char *text)
{
	long long v = strtoll(text, NULL, 0), period = (long long)knob_value(c->k, RT_PERIOD);

	return v < -1 || v > period ? -EINVAL : 0;
}

static int check_rr_timeslice(const struct proc_ctx *c, const char *text)
{
	return strtoll(text, NULL, 0) <= 0; /* the default, then */
}

static const struct proc_entry sys_kernel[] = {
	TEXT("ostype", "Linux\n"),
	TEXT("osrelease", GUEST_RELEASE "\n"),
	TEXT("version", GUEST_VERSION "\n"),
	REG("hostname", 0644, .show = show_hostname, .write = write_hostname),
	REG("domainname", 0644, .show = show_domain, .write = write_domain),
	REG("pid_max", 0644, .show = show_pid_max),
	REG("ns_last_pid", 0644, .show = show_last_pid, .write = write_last_pid),
	TEXT("cap_last_cap", "40\n"),
	TEXT("ngroups_max", "65536\n"),
	KNOB("threads-max", "32768\n"),
	KNOB("core_pattern", "core\n"),
	KNOB("core_uses_pid", "0\n"),
	KNOB("randomize_va_space", "2\n"),
	KNOB("sched_child_runs_first", "0\n"),
	REG("sched_rt_runtime_us", 0644, .text = "950000\n", .check = check_rt_runtime),
	REG("sched_rt_period_us", 0644, .text = "1000000\n", .check = check_rt_period),
	KNOB("shmmax", "18446744073692774399\n"),
	KNOB("shmall", "18446744073692774399\n"),
	REG("shmmni", 0644, .show = show_shmmni, .write = write_shmmni),
	KNOB("msgmax", "8192\n"),
	KNOB("msgmnb", "16384\n"),
	REG("msgmni", 0644, .show = show_msgmni, .write = write_msgmni),
	REG("sem", 0644, .show = show_semmni, .write = write_semmni),
	REG("shm_next_id", 0644, .show = show_shm_next, .write = write_shm_next),
	REG("sem_next_id", 0644, .show = show_sem_next, .write = write_sem_next),
	REG("msg_next_id", 0644, .show = show_msg_next, .write = write_msg_next),
	REG("sched_rr_timeslice_ms", 0644, .text = "100\n", .check = check_rr_timeslice),
	KNOB("panic", "0\n"),
	KNOB("printk", "4\t4\t1\t7\n"),
	KNOB("dmesg_restrict", "1\n"),
	KNOB("kptr_restrict", "2\n"),
	KNOB("perf_event_paranoid", "4\n"),
	KNOB("perf_event_mlock_kb", "516\n"),
	KNOB("perf_event_max_sample_rate", "100000\n"),
	KNOB("unprivileged_bpf_disabled", "2\n"),
	KNOB("io_uring_disabled", "2\n"),
	TEXT("overflowuid", "65534\n"),
	TEXT("overflowgid", "65534\n"),
	TEXT("tainted", "0\n"),
	TEXT("arch", "x86_64\n"),
	DIR("random", random_dir),
	DIR("pty", pty_dir),
	DIR("keys", keys_dir),
	DIR("seccomp", seccomp_dir),
};
static const struct proc_entry sys_vm[] = {
	KNOB("overcommit_memory", "1\n"),
	KNOB("overcommit_ratio", "50\n"),
	KNOB("overcommit_kbytes", "0\n"),
	KNOB("max_map_count", "65530\n"),
	KNOB("mmap_min_addr", "65536\n"),
	KNOB("swappiness", "60\n"),
	KNOB("nr_hugepages", "0\n"),
	KNOB("dirty_ratio", "20\n"),
	KNOB("dirty_background_ratio", "10\n"),
	KNOB("vfs_cache_pressure", "100\n"),
	KNOB("panic_on_oom", "0\n"),
	KNOB("oom_kill_allocating_task", "0\n"),
	KNOB("unprivileged_userfaultfd", "0\n"),
	{ .name = "drop_caches", .mode = S_IFREG | 0200 },
	{ .name = "compact_memory", .mode = S_IFREG | 0200 },
};
static const struct proc_entry inotify_dir[] = {
	KNOB("max_queued_events", "16384\n"),
	KNOB("max_user_instances", "128\n"),
	KNOB("max_user_watches", "65536\n"),
};
static const struct proc_entry fanotify_dir[] = {
	KNOB("max_queued_events", "16384\n"),
	KNOB("max_user_groups", "128\n"),
	KNOB("max_user_marks", "65536\n"),
};
static const struct proc_entry mqueue_dir[] = {
	KNOB("msg_default", "10\n"),
	KNOB("msg_max", "10\n"),
	KNOB("msgsize_default", "8192\n"),
	KNOB("msgsize_max", "8192\n"),
	KNOB("queues_max", "256\n"),
};
static const struct proc_entry epoll_dir[] = {
	KNOB("max_user_watches", "262144\n"),
};
static const struct proc_entry sys_fs[] = {
	REG("file-max", 0644, .show = show_file_max),
	REG("file-nr", 0444, .show = show_file_nr),
	KNOB("nr_open", "65536\n"), /* GUEST_FDS_MAX */
	KNOB("pipe-max-size", "1048576\n"),
	KNOB("pipe-user-pages-soft", "16384\n"),
	KNOB("pipe-user-pages-hard", "0\n"),
	KNOB("lease-break-time", "45\n"),
	KNOB("leases-enable", "1\n"),
	KNOB("aio-max-nr", "65536\n"),
	TEXT("aio-nr", "0\n"),
	TEXT("protected_hardlinks", "1\n"),
	TEXT("protected_symlinks", "0\n"),
	TEXT("protected_fifos", "0\n"),
	TEXT("protected_regular", "0\n"),
	KNOB("suid_dumpable", "0\n"),
	TEXT("overflowuid", "65534\n"),
	TEXT("overflowgid", "65534\n"),
	DIR("inotify", inotify_dir),
	DIR("fanotify", fanotify_dir),
	DIR("mqueue", mqueue_dir),
	DIR("epoll", epoll_dir),
};
static const struct proc_entry net_core[] = {
	KNOB("somaxconn", "4096\n"),
	KNOB("rmem_default", "212992\n"),
	KNOB("rmem_max", "212992\n"),
	KNOB("wmem_default", "212992\n"),
	KNOB("wmem_max", "212992\n"),
	KNOB("optmem_max", "20480\n"),
	KNOB("netdev_max_backlog", "1000\n"),
};
static const struct proc_entry net_ipv4[] = {
	KNOB("ip_local_port_range", "32768\t60999\n"),
	KNOB("ip_forward", "0\n"),
	KNOB("ip_local_reserved_ports", "\n"),
	KNOB("icmp_echo_ignore_all", "0\n"),
	KNOB("icmp_ratelimit", "1000\n"),
	KNOB("icmp_ratemask", "6168\n"),
	KNOB("ip_unprivileged_port_start", "1024\n"),
	KNOB("tcp_rmem", "4096\t131072\t6291456\n"),
	KNOB("tcp_wmem", "4096\t16384\t4194304\n"),
	KNOB("tcp_mem", "94500\t126000\t189000\n"),
	KNOB("tcp_fin_timeout", "60\n"),
	KNOB("tcp_keepalive_time", "7200\n"),
	KNOB("tcp_keepalive_intvl", "75\n"),
	KNOB("tcp_notsent_lowat", "4294967295\n"),
	KNOB("tcp_probe_interval", "600\n"),
	KNOB("tcp_keepalive_probes", "9\n"),
	KNOB("tcp_max_syn_backlog", "512\n"),
	KNOB("tcp_syncookies", "1\n"),
	KNOB("tcp_tw_reuse", "2\n"),
	KNOB("tcp_timestamps", "1\n"),
	KNOB("tcp_sack", "1\n"),
	KNOB("tcp_fastopen", "1\n"),
	KNOB("tcp_congestion_control", "cubic\n"),
	TEXT("tcp_available_congestion_control", "cubic\n"),
};
static const struct proc_entry net_ipv6_all[] = {
	KNOB("disable_ipv6", "0\n"),
	KNOB("forwarding", "0\n"),
};
static const struct proc_entry net_ipv6_conf[] = {
	DIR("all", net_ipv6_all),
	DIR("default", net_ipv6_all),
	DIR("lo", net_ipv6_all),
};
static const struct proc_entry net_ipv6[] = {
	KNOB("bindv6only", "0\n"),
	DIR("conf", net_ipv6_conf),
};
static const struct proc_entry net_unix[] = {
	KNOB("max_dgram_qlen", "512\n"),
};
static const struct proc_entry sys_net[] = {
	DIR("core", net_core),
	DIR("ipv4", net_ipv4),
	DIR("ipv6", net_ipv6),
	DIR("unix", net_unix),
};
#define NAMESPACES_TEXT "4096\n" /* GUEST_NAMESPACES_MAX */
static const struct proc_entry sys_user[] = {
	KNOB("max_cgroup_namespaces", NAMESPACES_TEXT),
	KNOB("max_ipc_namespaces", NAMESPACES_TEXT),
	KNOB("max_mnt_namespaces", NAMESPACES_TEXT),
	KNOB("max_net_namespaces", NAMESPACES_TEXT),
	KNOB("max_pid_namespaces", NAMESPACES_TEXT),
	KNOB("max_time_namespaces", NAMESPACES_TEXT),
	KNOB("max_user_namespaces", NAMESPACES_TEXT),
	KNOB("max_uts_namespaces", NAMESPACES_TEXT),
};
static const struct proc_entry sys_dir[] = {
	DIR("user", sys_user),
	DIR("kernel", sys_kernel),
	DIR("vm", sys_vm),
	DIR("fs", sys_fs),
	DIR("net", sys_net),
};
#define SOCKET_HEAD                                                                                \
	"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  "      \
	"timeout inode"
#define SHOW_INET(name, family, type)                                                              \
	static void show_##name(const struct proc_ctx *c, struct buf *out)                         \
	{                                                                                          \
		buf_add_fmt(out, "%-*s\n", type == SOCK_STREAM ? 149 : 127, SOCKET_HEAD);          \
		if (c->reader)                                                                     \
			socks_show_inet(c->reader, family, type, out);                             \
	}
SHOW_INET(tcp, AF_INET, SOCK_STREAM)
SHOW_INET(tcp6, AF_INET6, SOCK_STREAM)
SHOW_INET(udp, AF_INET, SOCK_DGRAM)
SHOW_INET(udp6, AF_INET6, SOCK_DGRAM)

static void show_unix(const struct proc_ctx *c, struct buf *out)
{
	buf_add_str(out, "Num       RefCount Protocol Flags    Type St Inode Path\n");
	if (c->reader)
		socks_show_unix(c->reader, out);
}

static void show_sockstat(const struct proc_ctx *c, struct buf *out)
{
	if (c->reader)
		socks_show_counts(c->reader, out);
}

static const struct proc_entry net_dir[] = {
	TEXT("dev", "Inter-|   Receive                                                |  Transmit\n"
		    " face |bytes    packets errs drop fifo frame compressed multicast|bytes    "
		    "packets errs "
		    "drop fifo colls carrier compressed\n"
		    "    lo:       0       0    0    0    0     0          0         0        0    "
		    "   0    0    "
		    "0    0     0       0          0\n"),
	TEXT("route", "Iface\tDestination\tGateway "
		      "\tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"),
	REG("tcp", 0444, .show = show_tcp),
	REG("tcp6", 0444, .show = show_tcp6),
	REG("udp", 0444, .show = show_udp),
	REG("udp6", 0444, .show = show_udp6),
	TEXT("raw", SOCKET_HEAD "\n"),
	REG("unix", 0444, .show = show_unix),
	TEXT("if_inet6", "00000000000000000000000000000001 01 80 10 80       lo\n"),
	TEXT("ipv6_route", ""),
	TEXT("arp",
		"IP address       HW type     Flags       HW address            Mask     Device\n"),
	TEXT("netlink", "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    "
			"Drops    Inode\n"),
	TEXT("packet", "sk       RefCnt Type Proto  Iface R Rmem   User   Inode\n"),
	TEXT("snmp", ""),
	REG("sockstat", 0444, .show = show_sockstat),
};

const struct proc_entry proc_machine[] = {
	{ .name = "self", .mode = S_IFLNK | 0777, .link = link_self },
	{ .name = "thread-self", .mode = S_IFLNK | 0777, .link = link_thread_self },
	{ .name = "mounts", .mode = S_IFLNK | 0777, .link = link_mounts },
	DIR("net", net_dir),
	DIR("sys", sys_dir),
	DIR("sysvipc", sysvipc_dir),
	REG("meminfo", 0444, .show = show_meminfo),
	REG("cpuinfo", 0444, .show = show_cpuinfo),
	REG("stat", 0444, .show = show_stat),
	REG("uptime", 0444, .show = show_uptime),
	REG("loadavg", 0444, .show = show_loadavg),
	REG("version", 0444, .show = show_version),
	TEXT("filesystems", "nodev\tsysfs\nnodev\ttmpfs\nnodev\tproc\nnodev\tdevtmpfs\nnodev\tdevpt"
			    "s\nnodev\tmqueue\n"
			    "nodev\toverlay\n"),
	TEXT("cgroups", "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"),
	TEXT("cmdline", "ward\n"),
	REG("config.gz", 0444, .show = proc_show_config),
	TEXT("devices", "Character devices:\n  1 mem\n  5 /dev/tty\n  5 /dev/ptmx\n136 "
			"pts\n\nBlock devices:\n"),
	TEXT("misc", ""),
	TEXT("modules", ""),
	TEXT("partitions", "major minor  #blocks  name\n\n"),
	TEXT("swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
	TEXT("diskstats", ""),
	TEXT("locks", ""),
	TEXT("interrupts", ""),
	TEXT("vmstat", "nr_free_pages 0\npgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgfault "
		       "0\npgmajfault 0\noom_kill 0\n"),
	TEXT("zoneinfo", ""),
	REG("key-users", 0444, .show = show_key_users),
	REG("keys", 0444, .show = show_keys),
};
const unsigned proc_machine_count = ARRAY_LEN(proc_machine);
