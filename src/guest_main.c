/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_main.c - the first process of a virtual machine: makes a root file system, then is the
 * agent.
 *
 * Owns:  the guest: it is /init of the initramfs that ward makes.
 * Rules: everything in the machine belongs to the sandbox, so nothing here guards anything; a step
 *        that fails is written to the console, and the machine is switched off. What it is told
 *        comes from the kernel's command line: ward.disk=BYTES, ward.pids=N, ward.host=NAME,
 *        ward.net=WHAT, ward.trial=1.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/vm_sockets.h>
#include <arpa/inet.h>
#include <net/if.h>
#include <net/route.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "agent/agent.h"
#include "base/limits.h"
#include "base/str.h"
#include "proto/keeper.h"

enum {
	AGENT_PORT = 1024,
	CONNECT_TRIES = 100,
	LINGER_S = 10,
	CONNECT_WAIT_US = 10000,
	WORD_MAX = 256,
	MOUNTS = 8,
	MOUNT_LIST_MAX = 64 * 1024
};

/* Files of the cgroup of everything here. */
struct events {
	int memory, pids;
};

static void power_off(void) __attribute__((noreturn));
static void power_off(void)
{
	/* What was said last may still be on its way: see dial(). */
	syscall(SYS_close_range, 3, ~0U, 0);
	sync();
	reboot(RB_AUTOBOOT); /* the monitor takes a reset for the end */
	for (;;)
		pause();
}

static void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
static void fail(const char *fmt, ...)
{
	char text[256];
	int saved = errno, console = open("/dev/console", O_WRONLY);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	dprintf(console < 0 ? 2 : console, "ward-init: %s: %s\n", text, strerror(saved));
	power_off();
}

static void must_mount(const char *what, const char *where, const char *type, unsigned long flags,
	const char *options)
{
	if (mkdir(where, 0755) < 0 && errno != EEXIST && errno != EROFS)
		fail("making %s", where);
	if (mount(what, where, type, flags, options) < 0)
		fail("mounting %s at %s", what, where);
}

/* The value of @name on the kernel's command line; "": it is not there. */
static void told(const char *name, char ret[WORD_MAX])
{
	char line[2048], *word, *rest = line;
	int fd = open("/proc/cmdline", O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line) - 1);

	ret[0] = '\0';
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return;
	line[n] = '\0';
	while ((word = strsep(&rest, " \n")) != NULL) {
		size_t len = strlen(name);

		if (strncmp(word, name, len) == 0 && word[len] == '=')
			str_copy(ret, WORD_MAX, word + len + 1);
	}
}

/* A kernel of a distribution has its drivers in modules; /modules/list names them in order. */
static void load_modules(void)
{
	FILE *list = fopen("/modules/list", "r");
	char name[128], path[160];

	while (list && fgets(name, sizeof(name), list)) {
		int fd;

		name[strcspn(name, "\n")] = '\0';
		if (str_fmt(path, sizeof(path), "/modules/%s", name) < 0)
			fail("a module's name is too long");
		fd = open(path, O_RDONLY);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
			fail("loading %s", path);
		close(fd);
	}
	if (list)
		fclose(list);
}

/* The template's image below, what the sandbox writes above. */
static void make_root(void)
{
	char disk[WORD_MAX], options[WORD_MAX + 32];

	must_mount("/dev/vda", "/lower", "ext4", MS_RDONLY | MS_NOATIME, NULL);
	told("ward.disk", disk);
	if (str_fmt(options, sizeof(options), "mode=0755,size=%s", disk[0] ? disk : "50%") < 0)
		fail("ward.disk is too long");
	must_mount("upper", "/over", "tmpfs", 0, options);
	if (mkdir("/over/up", 0755) < 0 || mkdir("/over/work", 0700) < 0)
		fail("making the upper layer");
	must_mount("root", "/root", "overlay", 0,
		"lowerdir=/lower,upperdir=/over/up,workdir=/over/work");
}

/* --- --mount --------------------------------------------------------------------------------- */

struct mounts {
	/* For each a mode, a kind and a path, all ending in NUL: written by ward. Two more end the
	 * last one, whatever is there. */
	char list[MOUNT_LIST_MAX];
	const char *dst[MOUNTS];
	int tree[MOUNTS]; /* what goes there, open */
	unsigned count;
};

/* The disk that the host calls @id. */
static void find_disk(const char *id, char ret[32])
{
	char path[64], said[32];

	for (char c = 'b'; c <= 'z'; c++) {
		ssize_t n;
		int fd;

		str_fmt(path, sizeof(path), "/sys/block/vd%c/serial", c);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, said, sizeof(said) - 1);
		if (fd >= 0)
			close(fd);
		said[n > 0 ? n : 0] = '\0';
		said[strcspn(said, "\n")] = '\0';
		if (str_eq(said, id)) {
			str_fmt(ret, 32, "/dev/vd%c", c);
			return;
		}
	}
	errno = ENODEV;
	fail("looking for the disk %s", id);
}

/* The tree of mount @i, outside the root: the image, or an overlay over it. */
static int open_tree_of(unsigned i, bool overlay, const char *kind)
{
	char disk[32], id[16], image[16], top[32], path[48], options[160];
	int fd;

	str_fmt(id, sizeof(id), "mount%u", i);
	str_fmt(image, sizeof(image), "/m/%u", i);
	str_copy(top, sizeof(top), image);
	find_disk(id, disk);
	must_mount(disk, image, "ext4", MS_RDONLY | MS_NOATIME | MS_NOSUID | MS_NODEV, NULL);
	if (overlay) {
		char up[32], work[32];

		str_fmt(up, sizeof(up), "/over/up%u", i);
		str_fmt(work, sizeof(work), "/over/work%u", i);
		str_fmt(top, sizeof(top), "/o/%u", i);
		if (mkdir(up, 0755) < 0 || mkdir(work, 0700) < 0)
			fail("making the upper layer of a mount");
		str_fmt(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s", image, up,
			work);
		must_mount("mount", top, "overlay", MS_NOSUID | MS_NODEV, options);
	}
	if (str_fmt(path, sizeof(path), "%s/%s", top, kind) < 0)
		fail("a bad list of mounts");
	fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		fail("opening %s", path);
	return fd;
}

static void open_mounts(struct mounts *m)
{
	int fd = open("/mounts", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, m->list, sizeof(m->list) - 3);

	m->count = 0;
	if (fd >= 0)
		close(fd);
	if (n < 0)
		fail("reading the list of mounts");
	memset(m->list + n, 0, 3);
	for (char *at = m->list; at < m->list + n && m->count < MOUNTS; m->count++) {
		bool overlay = str_eq(at, "overlay");
		const char *kind = at + strlen(at) + 1;

		m->dst[m->count] = kind + strlen(kind) + 1;
		m->tree[m->count] = open_tree_of(m->count, overlay, kind);
		at = (char *)m->dst[m->count] + strlen(m->dst[m->count]) + 1;
	}
}

/* All folders above @path, and what @tree can be mounted on. */
static void make_target(const char *path, int tree)
{
	char part[WARD_PATH_MAX];
	struct stat st;
	int fd;

	if (str_copy(part, sizeof(part), path) < 0 || fstat(tree, &st) < 0)
		fail("%s", path);
	for (char *p = part + 1; *p; p++)
		if (*p == '/') {
			*p = '\0';
			if (mkdir(part, 0755) < 0 && errno != EEXIST)
				fail("making %s", part);
			*p = '/';
		}
	if (S_ISDIR(st.st_mode)) {
		if (mkdir(part, 0755) < 0 && errno != EEXIST)
			fail("making %s", part);
		return;
	}
	fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0)
		fail("making %s", part);
	close(fd);
}

/* In the root. */
static void place_mounts(const struct mounts *m)
{
	char from[32];

	for (unsigned i = 0; i < m->count; i++) {
		make_target(m->dst[i], m->tree[i]);
		str_fmt(from, sizeof(from), "/proc/self/fd/%d", m->tree[i]);
		if (mount(from, m->dst[i], NULL, MS_BIND, NULL) < 0)
			fail("mounting %s", m->dst[i]);
		close(m->tree[i]);
	}
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail("writing '%s' to %s (the kernel needs the memory and pids controllers)", text,
			path);
	close(fd);
}

/*
 * What counts the processes and says who was killed for memory. It stays below the root of the
 * sandbox, out of sight. The kernel never kills process 1, and here all others at once.
 */
static void make_cgroup(struct events *ret)
{
	char pids[WORD_MAX];

	must_mount("cgroup", "/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	put("/cgroup/cgroup.subtree_control", "+memory +pids");
	if (mkdir("/cgroup/box", 0755) < 0)
		fail("making a cgroup");
	told("ward.pids", pids);
	put("/cgroup/box/pids.max", pids[0] && !str_eq(pids, "0") ? pids : "max");
	put("/cgroup/box/memory.oom.group", "1");
	put("/cgroup/box/cgroup.procs", "0");
	ret->memory = open("/cgroup/box/memory.events", O_RDONLY | O_CLOEXEC);
	ret->pids = open("/cgroup/box/pids.events", O_RDONLY | O_CLOEXEC);
	if (ret->memory < 0 || ret->pids < 0)
		fail("opening the cgroup's events");
}

/* The number after @key, at the beginning of a line. */
static uint64_t keyed(int fd, const char *key)
{
	char text[512], *line, *rest = text;
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	if (n < 0)
		return 0;
	text[n] = '\0';
	while ((line = strsep(&rest, "\n")) != NULL) {
		size_t len = strlen(key);

		if (strncmp(line, key, len) == 0 && line[len] == ' ')
			return strtoull(line + len + 1, NULL, 10);
	}
	return 0;
}

static void tell_limits(void *arg, uint64_t *ret_oom_kills, uint64_t *ret_pids_refused)
{
	const struct events *events = arg;

	*ret_oom_kills = keyed(events->memory, "oom_kill");
	*ret_pids_refused = keyed(events->pids, "max");
}

static void make_devices(void)
{
	static const struct {
		const char *link, *to;
	} links[] = { { "/dev/fd", "/proc/self/fd" }, { "/dev/stdin", "/proc/self/fd/0" },
		{ "/dev/stdout", "/proc/self/fd/1" }, { "/dev/stderr", "/proc/self/fd/2" } };

	must_mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=0620,gid=5");
	must_mount("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
	for (unsigned i = 0; i < sizeof(links) / sizeof(links[0]); i++)
		if (symlink(links[i].to, links[i].link) < 0 && errno != EEXIST)
			fail("linking %s", links[i].link);
}

static void enter_root(void)
{
	static const char *const moved[] = { "/dev", "/proc", "/sys" };
	char to[32];

	for (unsigned i = 0; i < sizeof(moved) / sizeof(moved[0]); i++) {
		str_fmt(to, sizeof(to), "/root%s", moved[i]);
		if (mkdir(to, 0755) < 0 && errno != EEXIST)
			fail("making %s", to);
		if (mount(moved[i], to, NULL, MS_MOVE, NULL) < 0)
			fail("moving %s", moved[i]);
	}
	if (chdir("/root") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
		chdir("/") < 0)
		fail("entering the root file system");
}

static void set_identity(void)
{
	char name[WORD_MAX];
	struct ifreq lo = { .ifr_name = "lo" };
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	told("ward.host", name);
	if (name[0] && sethostname(name, strlen(name)) < 0)
		fail("setting the host's name");
	if (s >= 0 && ioctl(s, SIOCGIFFLAGS, &lo) == 0) {
		lo.ifr_flags |= IFF_UP;
		if (ioctl(s, SIOCSIFFLAGS, &lo) < 0)
			fail("switching the loopback on");
	}
	if (s >= 0)
		close(s);
}

static void set_address(int s, unsigned long what, struct ifreq *card, struct in_addr a)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = a };

	memcpy(&card->ifr_addr, &in, sizeof(in));
	if (ioctl(s, what, card) < 0)
		fail("setting an address of the network card");
}

static void set_gateway(int s, struct in_addr a)
{
	struct sockaddr_in in = { .sin_family = AF_INET }, via = { .sin_family = AF_INET };
	struct rtentry route = { .rt_flags = RTF_UP | RTF_GATEWAY };

	via.sin_addr = a;
	memcpy(&route.rt_dst, &in, sizeof(in));
	memcpy(&route.rt_genmask, &in, sizeof(in));
	memcpy(&route.rt_gateway, &via, sizeof(via));
	if (ioctl(s, SIOCADDRT, &route) < 0)
		fail("setting the gateway");
}

/* ward.net=up, or the card's address: A.B.C.D/N[,GATEWAY]. Not there: no card. */
static void set_network(void)
{
	struct ifreq card = { .ifr_name = "eth0" };
	struct in_addr a = { 0 }, mask = { 0 }, gateway = { 0 };
	char text[WORD_MAX], *rest = text, *addr, *bits = NULL;
	int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), notify;
	short flags;

	told("ward.net", text);
	if (!text[0]) {
		close(s);
		return;
	}
	addr = strsep(&rest, "/");
	if (rest) {
		bits = strsep(&rest, ",");
		mask.s_addr = htonl(UINT32_MAX << (32 - strtoul(bits, NULL, 10)));
		if (inet_pton(AF_INET, addr, &a) != 1 ||
			(rest && inet_pton(AF_INET, rest, &gateway) != 1))
			fail("reading ward.net");
	}
	if (s < 0 || ioctl(s, SIOCGIFFLAGS, &card) < 0)
		fail("finding the network card eth0 (the kernel needs virtio_net)");
	flags = card.ifr_flags;
	if (bits) {
		set_address(s, SIOCSIFADDR, &card, a);
		set_address(s, SIOCSIFNETMASK, &card, mask);
	}
	/* It says aloud who has the address now: the host may remember the sandbox before it. */
	notify = open("/proc/sys/net/ipv4/conf/eth0/arp_notify", O_WRONLY | O_CLOEXEC);
	if (notify < 0 || write(notify, "1", 1) != 1)
		fail("setting arp_notify");
	close(notify);
	card.ifr_flags = (short)(flags | IFF_UP);
	if (ioctl(s, SIOCSIFFLAGS, &card) < 0)
		fail("switching the network card on");
	if (gateway.s_addr)
		set_gateway(s, gateway);
	close(s);
}

/* Port @port of the host, 0: the agent's; -1: nobody is there. */
static int dial(unsigned port)
{
	struct sockaddr_vm a = { .svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_HOST,
		.svm_port = port ? port : AGENT_PORT };
	/* close() returns when the host has everything, and has said so. */
	struct linger linger = { .l_onoff = 1, .l_linger = LINGER_S };

	for (unsigned i = 0; i < CONNECT_TRIES; i++) {
		int s = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (s >= 0 && connect(s, (struct sockaddr *)&a, sizeof(a)) == 0) {
			setsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
			return s;
		}
		if (s >= 0)
			close(s);
		usleep(CONNECT_WAIT_US);
	}
	return -1;
}

static int connect_host(void)
{
	int s = dial(0);

	if (s < 0)
		fail("connecting to the host");
	return s;
}

static int open_at(const char *path, int flags)
{
	return open(path, flags | O_CLOEXEC);
}

/*
 * Everything but this process can be made to stand still: all begin in one cgroup, and it too until
 * it has to leave.
 */
static void make_keeper(struct keeper *k)
{
	*k = (struct keeper){ .link = -1, .dial = dial };
	k->room = open_at("/over", O_RDONLY | O_DIRECTORY);
	k->outside = open_at("/cgroup/cgroup.procs", O_WRONLY);
	k->inside = open_at("/cgroup/box/cgroup.procs", O_WRONLY);
	k->events = open_at("/cgroup/box/cgroup.events", O_RDONLY);
	k->freeze = open_at("/cgroup/box/cgroup.freeze", O_RDWR);
	if (k->room < 0 || k->outside < 0 || k->inside < 0 || k->events < 0 || k->freeze < 0)
		fail("opening the sandbox's cgroup");
}

int main(void)
{
	char trial[WORD_MAX];
	struct events events;
	struct mounts mounts;
	struct keeper keeper;

	if (getpid() != 1) {
		fputs("ward-init: this is the first process of a virtual machine, not a command\n",
			stderr);
		return 125;
	}
	must_mount("dev", "/dev", "devtmpfs", 0, "mode=0755");
	must_mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	must_mount("sys", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	load_modules();
	make_cgroup(&events);
	told("ward.trial", trial);
	if (trial[0]) { /* that we got here is all that was asked */
		connect_host();
		power_off();
	}
	make_root();
	open_mounts(&mounts);
	make_keeper(&keeper);
	make_devices();
	enter_root();
	place_mounts(&mounts);
	set_identity();
	set_network();
	keeper.link = dial(KEEPER_PORT);
	if (keeper.link < 0)
		fail("connecting to the host's keeper");
	agent_run(&(struct agent_config){ .channel = connect_host(),
		.keeper = &keeper,
		.limits = tell_limits,
		.arg = &events });
	power_off();
}
