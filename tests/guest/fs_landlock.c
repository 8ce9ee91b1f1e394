/* SPDX-License-Identifier: Apache-2.0 */
/* Rights that a program gives up: what is refused afterwards, to whom, and what is not. */
#include "guest.h"

#include <arpa/inet.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

/* linux/landlock.h of older systems has not got all of it. */
enum { CREATE_RULESET = 444, ADD_RULE, RESTRICT_SELF };
enum { RULE_PATH = 1, RULE_PORT = 2 };
enum {
	EXECUTE = 1,
	WRITE_FILE = 2,
	READ_FILE = 4,
	READ_DIR = 8,
	REMOVE_DIR = 16,
	REMOVE_FILE = 32,
	MAKE_DIR = 128,
	MAKE_REG = 256,
	MAKE_SYM = 4096,
	REFER = 8192,
	TRUNCATE = 16384,
	IOCTL_DEV = 32768,
	ALL = 65535,
};
enum { BIND_TCP = 1, CONNECT_TCP = 2, SCOPE_ABSTRACT = 1, SCOPE_SIGNAL = 2 };

struct attr {
	uint64_t fs, net, scoped;
};
struct path_rule {
	uint64_t allowed;
	int32_t fd;
} __attribute__((packed));
struct port_rule {
	uint64_t allowed, port;
};

static int ruleset(uint64_t fs, uint64_t net, uint64_t scoped)
{
	struct attr a = { fs, net, scoped };

	return need_fd("ruleset", (int)syscall(CREATE_RULESET, &a, sizeof(a), 0));
}

static int allow(int set, const char *path, uint64_t what)
{
	struct path_rule r = { what, open(path, O_PATH | O_CLOEXEC) };
	int e = (int)syscall(ADD_RULE, set, RULE_PATH, &r, 0);

	close(r.fd);
	return e;
}

static int obey(int set)
{
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(RESTRICT_SELF, set, 0);
}

static void try_open(const char *what, const char *path, int flags)
{
	int fd = open(path, flags, 0644);

	say(what, fd < 0 ? -1 : 0);
	if (fd >= 0)
		close(fd);
}

static void two_dirs(void)
{
	need("in", mkdir("in", 0755));
	need("out", mkdir("out", 0755));
	put("in/f", "inside");
	put("out/f", "outside");
}

CASE(files)
{
	int set;

	two_dirs();
	set = ruleset(ALL & ~TRUNCATE, 0, 0);
	say("rule", allow(set, "in", READ_FILE | READ_DIR | MAKE_REG | WRITE_FILE | REMOVE_FILE));
	try_open("before", "out/f", O_RDONLY);
	say("obey", obey(set));
	try_open("read inside", "in/f", O_RDONLY);
	try_open("read outside", "out/f", O_RDONLY);
	try_open("list inside", "in", O_RDONLY | O_DIRECTORY);
	try_open("list outside", "out", O_RDONLY | O_DIRECTORY);
	try_open("only a path", "out/f", O_PATH);
	try_open("make inside", "in/new", O_CREAT | O_WRONLY);
	try_open("make outside", "out/new", O_CREAT | O_WRONLY);
	try_open("cut inside", "in/new", O_WRONLY | O_TRUNC);
	say("mkdir inside", mkdir("in/d", 0755));
	say("symlink inside", symlink("f", "in/l"));
	say("mkdir outside", mkdir("out/d", 0755));
	say("unlink inside", unlink("in/new"));
	say("unlink outside", unlink("out/f"));
	say("rmdir", rmdir("out"));
	say("stat outside", access("out/f", R_OK));
	say("chmod outside", chmod("out/f", 0600));
	say("chdir outside", chdir("out"));
	try_open("by another way", "../in/f", O_RDONLY);
	try_open("through a link of /proc", "/proc/self/cwd/f", O_RDONLY);
}

CASE(one_file)
{
	int set;

	two_dirs();
	set = ruleset(READ_FILE | READ_DIR, 0, 0);
	say("a file", allow(set, "in/f", READ_FILE));
	say("a file is no directory", allow(set, "in/f", READ_DIR));
	say("obey", obey(set));
	try_open("it", "in/f", O_RDONLY);
	try_open("its directory", "in", O_RDONLY);
	try_open("another", "out/f", O_RDONLY);
	try_open("writing was not given up", "out/f", O_WRONLY);
}

CASE(cutting_files)
{
	int set, before, after;

	two_dirs();
	before = need_fd("before", open("out/f", O_RDWR));
	set = ruleset(TRUNCATE, 0, 0);
	say("rule", allow(set, "in", TRUNCATE));
	say("obey", obey(set));
	after = need_fd("after", open("out/f", O_RDWR));
	say("truncate inside", truncate("in/f", 1));
	say("truncate outside", truncate("out/f", 1));
	say("opened before", ftruncate(before, 2));
	say("opened after", ftruncate(after, 1));
	try_open("O_TRUNC", "out/f", O_WRONLY | O_TRUNC);
	cat("out/f");
}

CASE(moving)
{
	int set;

	two_dirs();
	need("third", mkdir("third", 0755));
	set = ruleset(ALL, 0, 0);
	say("in", allow(set, "in", ALL));
	say("out", allow(set, "out", ALL & ~(EXECUTE | REFER)));
	say("third", allow(set, "third", ALL & ~EXECUTE));
	say("obey", obey(set));
	say("in the same place", rename("in/f", "in/g"));
	say("to where less is allowed", rename("in/g", "third/g"));
	say("back, to where more is", rename("third/g", "in/g"));
	say("without the right", rename("out/f", "third/f"));
	say("into it", rename("third/g", "out/g"));
	say("a second name", link("third/g", "third/h"));
	say("a second name elsewhere", link("third/g", "in/h"));
	say("to no place of ours", rename("third/g", "g"));
}

CASE(layers)
{
	int one, two;

	two_dirs();
	one = ruleset(READ_FILE, 0, 0);
	allow(one, "in", READ_FILE);
	allow(one, "out", READ_FILE);
	two = ruleset(READ_FILE, 0, 0);
	allow(two, "out", READ_FILE);
	say("first", obey(one));
	try_open("in", "in/f", O_RDONLY);
	say("second", obey(two));
	try_open("in", "in/f", O_RDONLY);
	try_open("out", "out/f", O_RDONLY);
	say("a rule that comes late", allow(two, "in", READ_FILE));
	try_open("in", "in/f", O_RDONLY);
	for (int i = 0; i < 16; i++)
		obey(two);
	say("too many", obey(two));
}

CASE(known_answers)
{
	int set, n = 0;

	two_dirs();
	for (int i = 0; i < 2000; i++) {
		int fd = open("out/f", O_RDONLY);
		char c;

		n += fd >= 0 && read(fd, &c, 1) == 1;
		close(fd);
	}
	say_n("read", n);
	set = ruleset(READ_FILE, 0, 0);
	say("obey", obey(set));
	try_open("read", "out/f", O_RDONLY);
}

CASE(children)
{
	int set, st;
	pid_t p;

	two_dirs();
	set = ruleset(ALL, 0, 0);
	fflush(stdout);
	p = fork();
	if (!p) {
		char exe[] = "/proc/self/exe", *argv[] = { exe, NULL };

		obey(set);
		if (!fork()) {
			try_open("its child", "in/f", O_RDONLY);
			say("runs", execv(argv[0], argv));
			fflush(stdout);
			_exit(0);
		}
		wait(NULL);
		_exit(3);
	}
	need("wait", waitpid(p, &st, 0));
	say_n("left with", WEXITSTATUS(st));
	try_open("we ourselves", "in/f", O_RDONLY);
}

static long tcp(bool bind_it, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int s = need_fd("socket", socket(AF_INET, SOCK_STREAM, 0));
	long r = bind_it ? bind(s, (struct sockaddr *)&a, sizeof(a))
			 : connect(s, (struct sockaddr *)&a, sizeof(a));

	close(s);
	return r;
}

CASE(ports)
{
	struct port_rule ok = { CONNECT_TCP, 9 }, far = { BIND_TCP, 65536 }, none = { 0, 9 };
	int set = ruleset(0, BIND_TCP | CONNECT_TCP, 0);

	say("rule", syscall(ADD_RULE, set, RULE_PORT, &ok, 0));
	say("no such port", syscall(ADD_RULE, set, RULE_PORT, &far, 0));
	say("nothing", syscall(ADD_RULE, set, RULE_PORT, &none, 0));
	say("obey", obey(set));
	say("bind", tcp(true, 0));
	say("connect", tcp(false, 10));
	say("connect where it may", tcp(false, 9));
}

/* A socket, and the abstract name that @of gives away. */
static int abstract(pid_t of, struct sockaddr_un *a, socklen_t *len)
{
	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	*len = offsetof(struct sockaddr_un, sun_path) + 1 +
	       (socklen_t)snprintf(a->sun_path + 1, 60, "ward-landlock-%d", of);
	return need_fd("socket", socket(AF_UNIX, SOCK_STREAM, 0));
}

static void scoped_child(pid_t parent)
{
	struct sockaddr_un a;
	socklen_t len;
	int s = abstract(parent, &a, &len);

	say("obey", obey(ruleset(0, 0, SCOPE_ABSTRACT | SCOPE_SIGNAL)));
	say("a name from outside", connect(s, (struct sockaddr *)&a, len));
	say("a signal outwards", kill(parent, 0));
	say("a signal to itself", kill(getpid(), 0));
	fflush(stdout);
}

CASE(scopes)
{
	struct sockaddr_un a;
	socklen_t len;
	int s = abstract(getpid(), &a, &len);
	pid_t me = getpid(), p;

	need("name", bind(s, (struct sockaddr *)&a, len));
	need("listen", listen(s, 1));
	fflush(stdout);
	p = fork();
	if (!p) {
		scoped_child(me);
		_exit(0);
	}
	need("wait", waitpid(p, NULL, 0));
}

CASE(errors)
{
	struct attr a = { READ_FILE, 0, 0 }, unknown = { (uint64_t)1 << 63, 0, 0 }, none = { 0 };
	struct path_rule bad = { READ_FILE, -1 }, empty = { 0, 0 }, more = { WRITE_FILE, 0 };
	char big[8192] = { 0 };
	int set = ruleset(READ_FILE, 0, 0), p[2];

	say_is("there is a version", syscall(CREATE_RULESET, NULL, 0, 1) > 0);
	say("version with an attribute", syscall(CREATE_RULESET, &a, sizeof(a), 1));
	say("too small", syscall(CREATE_RULESET, &a, 7, 0));
	say("too big", syscall(CREATE_RULESET, big, sizeof(big), 0));
	big[0] = READ_FILE;
	big[4000] = 1;
	say("something behind it", syscall(CREATE_RULESET, big, 4096, 0));
	say("unknown right", syscall(CREATE_RULESET, &unknown, sizeof(unknown), 0));
	say("no right", syscall(CREATE_RULESET, &none, sizeof(none), 0));
	say("bad pointer", syscall(CREATE_RULESET, BAD_PTR, sizeof(a), 0));
	say("flags of a rule", syscall(ADD_RULE, set, RULE_PATH, &bad, 1));
	say("kind of a rule", syscall(ADD_RULE, set, 99, &bad, 0));
	say("no descriptor", syscall(ADD_RULE, set, RULE_PATH, &bad, 0));
	say("empty rule", syscall(ADD_RULE, set, RULE_PATH, &empty, 0));
	say("more than is handled", syscall(ADD_RULE, set, RULE_PATH, &more, 0));
	say("bad rule", syscall(ADD_RULE, set, RULE_PATH, BAD_PTR, 0));
	need("pipe", pipe(p));
	bad.fd = p[0];
	say("a pipe is nowhere", syscall(ADD_RULE, set, RULE_PATH, &bad, 0));
	bad.fd = set;
	say("nor is a ruleset", syscall(ADD_RULE, set, RULE_PATH, &bad, 0));
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	say("no ruleset", syscall(RESTRICT_SELF, p[0], 0));
	say("closed", syscall(RESTRICT_SELF, 999, 0));
	say("unknown flags", syscall(RESTRICT_SELF, set, 1u << 31));
	say("close on exec", fcntl(set, F_GETFD));
}

static void without_rights(void)
{
	int set = ruleset(READ_FILE, 0, 0);

	say("a user", syscall(RESTRICT_SELF, set, 0));
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	say("who gives up more", syscall(RESTRICT_SELF, set, 0));
}

CASE(users)
{
	as_user(1234, 1234, without_rights);
}

CASE(devices)
{
	int set = ruleset(IOCTL_DEV, 0, 0), before, after, n;

	before = need_fd("before", open("/dev/null", O_RDWR));
	say("obey", obey(set));
	after = need_fd("after", open("/dev/null", O_RDWR));
	say("before", ioctl(before, FIONREAD, &n));
	say("after", ioctl(after, FIONREAD, &n));
	n = 1;
	say("about the descriptor", ioctl(after, FIONBIO, &n));
}

CASE(mounts)
{
	int set = ruleset(READ_FILE, 0, 0);

	need("obey", obey(set));
	say("mount", mount("none", ".", "tmpfs", 0, NULL));
}
