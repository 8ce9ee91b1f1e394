/* SPDX-License-Identifier: Apache-2.0 */
/* Network namespaces: a loopback that begins down, ports and abstract names of one's own. */
#include "io.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_in at(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return a;
}

static int tcp(void)
{
	return need_fd("socket", socket(AF_INET, SOCK_STREAM, 0));
}

static int listens(int port)
{
	struct sockaddr_in a = at(port);
	int fd = tcp();

	say("bind", bind(fd, (struct sockaddr *)&a, sizeof(a)));
	say("listen", listen(fd, 1));
	return fd;
}

static void connects(int port)
{
	struct sockaddr_in a = at(port);
	int fd = tcp();

	say("connect", connect(fd, (struct sockaddr *)&a, sizeof(a)));
	close(fd);
}

static void lo(bool up)
{
	struct ifreq r = { .ifr_name = "lo" };
	int fd = need_fd("socket", socket(AF_INET, SOCK_DGRAM, 0));

	say("flags", ioctl(fd, SIOCGIFFLAGS, &r));
	say_is("was up", r.ifr_flags & IFF_UP);
	say("mtu", ioctl(fd, SIOCGIFMTU, &r));
	printf("  %d\n", r.ifr_mtu);
	r.ifr_mtu = 1500;
	say("smaller", ioctl(fd, SIOCSIFMTU, &r));
	r.ifr_mtu = -1;
	say("wrong", ioctl(fd, SIOCSIFMTU, &r));
	r.ifr_flags = up ? IFF_UP : 0;
	say("set", ioctl(fd, SIOCSIFFLAGS, &r));
	close(fd);
}

static int abstract(const char *name, bool bound)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
	int fd = need_fd("unix", socket(AF_UNIX, SOCK_STREAM, 0));

	memcpy(a.sun_path + 1, name, strlen(name));
	if (!bound) {
		say("meet", connect(fd, (struct sockaddr *)&a, len));
		return fd;
	}
	say("name", bind(fd, (struct sockaddr *)&a, len));
	say("listen", listen(fd, 1));
	return fd;
}

static void inside(void)
{
	need("net", unshare(CLONE_NEWNET));
	connects(42424);
	lo(true);
	connects(42424);
	listens(42424);
	connects(42424);
	abstract("ward-ns-net", false);
	abstract("ward-ns-net", true);
	lo(false);
}

CASE(apart)
{
	int st, fd = listens(42424), name = abstract("ward-ns-net", true);
	pid_t p;

	fflush(stdout);
	p = fork();
	if (!p) {
		inside();
		fflush(stdout);
		_exit(0);
	}
	waitpid(p, &st, 0);
	connects(42424);
	close(fd);
	close(name);
}

static void of_user(void)
{
	struct sockaddr_in a = at(80);

	say("net", unshare(CLONE_NEWNET));
	need("user and net", unshare(CLONE_NEWUSER | CLONE_NEWNET));
	lo(true);
	say("a low port", bind(tcp(), (struct sockaddr *)&a, sizeof(a)));
}

CASE(of_a_user)
{
	as_user(1000, 1000, of_user);
}
