/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_main.c - the first process of a virtual machine: makes a root file system, then is the
 * agent.
 *
 * Owns:  the guest: it is /init of the initramfs that ward makes.
 * Rules: everything in the machine belongs to the sandbox, so nothing here guards anything; a step
 *        that fails is written to the console, and the machine is switched off. What it is told
 *        comes from the kernel's command line: ward.disk=BYTES, ward.host=NAME, ward.net=WHAT,
 *        ward.trial=1.
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
#include "base/str.h"

enum { AGENT_PORT = 1024, CONNECT_TRIES = 100, CONNECT_WAIT_US = 10000, WORD_MAX = 256 };

static void power_off(void) __attribute__((noreturn));
static void power_off(void)
{
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

static int connect_host(void)
{
	struct sockaddr_vm a = {
		.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = AGENT_PORT
	};

	for (unsigned i = 0; i < CONNECT_TRIES; i++) {
		int s = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (s >= 0 && connect(s, (struct sockaddr *)&a, sizeof(a)) == 0)
			return s;
		if (s >= 0)
			close(s);
		usleep(CONNECT_WAIT_US);
	}
	fail("connecting to the host");
}

int main(void)
{
	char trial[WORD_MAX];

	if (getpid() != 1) {
		fputs("ward-init: this is the first process of a virtual machine, not a command\n",
			stderr);
		return 125;
	}
	must_mount("dev", "/dev", "devtmpfs", 0, "mode=0755");
	must_mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	must_mount("sys", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	load_modules();
	told("ward.trial", trial);
	if (trial[0]) { /* that we got here is all that was asked */
		connect_host();
		power_off();
	}
	make_root();
	make_devices();
	enter_root();
	set_identity();
	set_network();
	agent_run(&(struct agent_config){ .channel = connect_host() });
	power_off();
}
