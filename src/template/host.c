/* SPDX-License-Identifier: Apache-2.0 */
/*
 * template/host.c - the `host` template's skeleton and device nodes.
 *
 * Owns:  <state_dir>/templates/.host/ and <state_dir>/dev.
 * Rules: what is copied from /etc is a list, and of it only what everybody may read. A skeleton is
 *        made under another name and renamed, so it is whole or not there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/ckd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/sha256.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "template/host.h"

/* Part of the skeleton's name: raise it when what is below changes. */
#define SKELETON_VERSION "1"

/* What programs look up in /etc and may be shown: no passwords, no keys, no service's settings. */
static const char *const etc_entries[] = {
	"alternatives", "bash.bashrc", "bash_completion.d", "ca-certificates", "ca-certificates.conf",
	"debian_version", "default/locale", "ethertypes", "fonts", "gai.conf", "groff", "group", "host.conf",
	"inputrc", "java-*", "ld-musl-*", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias",
	"locale.conf", "localtime", "magic", "magic.mime", "mailcap", "mime.types", "mke2fs.conf",
	"networks", "nsswitch.conf", "os-release", "passwd", "perl", "profile", "profile.d", "protocols",
	"python3*", "rpc", "services", "shells", "skel", "ssl/certs", "ssl/openssl.cnf", "terminfo",
	"timezone", "vim", "xattr.conf",
};

static const struct {
	const char *path;
	mode_t mode;
} dirs[] = {
	{ "usr", 0755 }, { "opt", 0755 }, { "etc", 0755 }, { "etc/default", 0755 }, { "etc/ssl", 0755 },
	{ "proc", 0555 }, { "sys", 0555 }, { "dev", 0755 }, { "run", 0755 }, { "tmp", 01777 },
	{ "home", 0755 }, { "root", 0700 }, { "mnt", 0755 }, { "media", 0755 }, { "srv", 0755 },
	{ "var", 0755 }, { "var/tmp", 01777 }, { "var/lib", 0755 }, { "var/log", 0755 },
	{ "var/cache", 0755 }, { "var/spool", 0755 },
};

static const struct {
	const char *path, *text;
} files[] = {
	{ "etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n" },
	{ "etc/hostname", "ward\n" },
};

/* Whatever changes one of these makes another skeleton. A folder changes with its entries. */
static const char *const watched[] = { "/etc", "/etc/passwd", "/etc/group", "/etc/ld.so.cache",
	"/etc/alternatives", "/etc/ssl/certs", "/" };

static void signature(char ret[17])
{
	char hex[SHA256_HEX + 1];
	struct sha256 s;
	uint8_t sum[SHA256_BYTES];

	sha256_init(&s);
	sha256_add(&s, SKELETON_VERSION, sizeof(SKELETON_VERSION));
	for (size_t i = 0; i < ARRAY_LEN(watched); i++) {
		struct stat st = { 0 };
		int64_t stamp[4] = { 0 };

		if (stat(watched[i], &st) == 0) {
			stamp[0] = st.st_mtim.tv_sec;
			stamp[1] = st.st_mtim.tv_nsec;
			stamp[2] = (int64_t)st.st_ino;
			/* The top folder's time changes with every mount point; its links do not. */
			if (str_eq(watched[i], "/"))
				stamp[0] = stamp[1] = 0;
		}
		sha256_add(&s, stamp, sizeof(stamp));
	}
	sha256_end(&s, sum);
	for (unsigned i = 0; i < 8; i++)
		snprintf(hex + 2 * i, 3, "%02x", sum[i]);
	memcpy(ret, hex, 17);
}

static bool may_show(const struct stat *st)
{
	return S_ISLNK(st->st_mode) || S_ISDIR(st->st_mode) || (S_ISREG(st->st_mode) && (st->st_mode & S_IROTH));
}

static int copy_link(const char *from, const char *to)
{
	char target[WARD_PATH_MAX];
	ssize_t n = readlink(from, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return host_symlinkat(target, AT_FDCWD, to);
}

static int copy_entry(const char *name, const char *root, struct err *e)
{
	char from[WARD_PATH_MAX], to[WARD_PATH_MAX];
	struct stat st;
	int r = str_fmt(from, sizeof(from), "/etc/%s", name);

	if (r == 0)
		r = str_fmt(to, sizeof(to), "%s/etc/%s", root, name);
	if (r < 0)
		return err_say(e, -r, "the path of /etc/%s is too long", name);
	if (lstat(from, &st) < 0)
		return errno == ENOENT || errno == EACCES ? 0 : err_set(e, errno, "looking at %s", from);
	if (!may_show(&st))
		return 0;
	if (S_ISDIR(st.st_mode))
		return tree_copy(from, to, e);
	if (S_ISREG(st.st_mode))
		return tree_copy_file(AT_FDCWD, from, AT_FDCWD, to, e);
	r = copy_link(from, to);
	return r < 0 ? err_set(e, -r, "copying the link %s", from) : 0;
}

static int copy_pattern(const char *pattern, const char *root, struct err *e)
{
	DIR *d = opendir("/etc");
	struct dirent *entry;
	int r = 0;

	if (!d)
		return err_set(e, errno, "reading /etc");
	while (r == 0 && (entry = readdir(d)))
		if (fnmatch(pattern, entry->d_name, FNM_PERIOD) == 0)
			r = copy_entry(entry->d_name, root, e);
	closedir(d);
	return r;
}

/* /bin, /lib64 and friends are links on most hosts; where they are folders they become mounts. */
static int copy_top_links(const char *root, struct err *e)
{
	static const char *const names[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		char from[16], to[WARD_PATH_MAX];
		struct stat st;
		int r;

		if (str_fmt(from, sizeof(from), "/%s", names[i]) < 0 || str_fmt(to, sizeof(to), "%s/%s", root, names[i]) < 0)
			return err_say(e, ENAMETOOLONG, "the state directory's path is too long");
		if (lstat(from, &st) < 0)
			continue; /* this host has none */
		r = S_ISLNK(st.st_mode) ? copy_link(from, to) : host_mkdirat(AT_FDCWD, to, 0755);
		if (r < 0)
			return err_set(e, -r, "making %s", to);
	}
	return 0;
}

static int put_file(int root, const char *path, const char *text)
{
	own_fd int fd = host_openat(root, path, O_WRONLY | O_CREAT | O_EXCL, 0644);

	return fd < 0 ? fd : host_write_all(fd, text, strlen(text));
}

static int fill(const char *root, struct err *e)
{
	own_fd int fd = host_open(root, O_RDONLY | O_DIRECTORY, 0);
	int r = fd < 0 ? fd : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(dirs); i++) {
		r = host_mkdirat(fd, dirs[i].path, 0755);
		if (r == 0 && fchmodat(fd, dirs[i].path, dirs[i].mode, 0) < 0)
			r = -errno;
	}
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(files); i++)
		r = put_file(fd, files[i].path, files[i].text);
	if (r == 0)
		r = host_symlinkat("/run", fd, "var/run");
	if (r == 0)
		r = host_symlinkat("/proc/self/mounts", fd, "etc/mtab");
	if (r < 0)
		return err_set(e, -r, "filling %s", root);
	r = copy_top_links(root, e);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(etc_entries); i++)
		r = strchr(etc_entries[i], '*') ? copy_pattern(etc_entries[i], root, e) :
						  copy_entry(etc_entries[i], root, e);
	return r;
}

/* Made under a name of its own, then renamed; whoever comes second throws its own away. */
static int build(const char *parent, const char *path, int (*make)(const char *, struct err *), struct err *e)
{
	char temp[WARD_PATH_MAX], id[ID_LEN + 1];
	int r = tree_make(parent, 0700, e);
	mode_t old_mask;

	if (r < 0)
		return r;
	r = id_make(id);
	if (r == 0)
		r = str_fmt(temp, sizeof(temp), "%s/.new-%s", parent, id);
	if (r == 0)
		r = host_mkdirat(AT_FDCWD, temp, 0755);
	if (r < 0)
		return err_set(e, -r, "making a folder in %s", parent);
	old_mask = umask(022);
	r = chmod(temp, 0755) < 0 ? err_set(e, errno, "opening %s", temp) : make(temp, e);
	umask(old_mask);
	if (r == 0) {
		r = host_renameat(AT_FDCWD, temp, AT_FDCWD, path);
		if (r == -EEXIST || r == -ENOTEMPTY)
			r = tree_remove(temp, e);
		else if (r < 0)
			err_set(e, -r, "putting %s in place", path);
	}
	if (r < 0)
		tree_remove(temp, NULL);
	return r;
}

static int fill_dev(const char *root, struct err *e)
{
	static const struct {
		const char *name;
		unsigned major, minor;
	} nodes[] = { { "null", 1, 3 }, { "zero", 1, 5 }, { "full", 1, 7 }, { "random", 1, 8 },
		{ "urandom", 1, 9 }, { "tty", 5, 0 } };
	static const struct {
		const char *name, *target;
	} links[] = { { "fd", "/proc/self/fd" }, { "stdin", "/proc/self/fd/0" }, { "stdout", "/proc/self/fd/1" },
		{ "stderr", "/proc/self/fd/2" }, { "ptmx", "pts/ptmx" } };
	static const char *const points[] = { "pts", "shm", "mqueue" };
	own_fd int fd = host_open(root, O_RDONLY | O_DIRECTORY, 0);
	int r = fd < 0 ? fd : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(nodes); i++) {
		r = host_mknodat(fd, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor));
		if (r == 0 && fchmodat(fd, nodes[i].name, 0666, 0) < 0)
			r = -errno;
	}
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(links); i++)
		r = host_symlinkat(links[i].target, fd, links[i].name);
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(points); i++)
		r = host_mkdirat(fd, points[i], 0755);
	return r < 0 ? err_set(e, -r, "making device nodes in %s", root) : 0;
}

static int ensure_dev(const char *state_dir, struct err *e)
{
	char path[WARD_PATH_MAX];
	int r = str_fmt(path, sizeof(path), "%s/dev", state_dir);

	if (r < 0)
		return err_say(e, -r, "the state directory's path is too long");
	if (geteuid() != 0 || access(path, F_OK) == 0)
		return 0;
	r = build(state_dir, path, fill_dev, e);
	/* A root that may not make device nodes binds the host's, like an ordinary user. */
	return r == -EPERM ? 0 : r;
}

int template_host_skeleton(const char *state_dir, char ret[WARD_PATH_MAX], struct err *e)
{
	char parent[WARD_PATH_MAX], name[17];
	int r = str_fmt(parent, sizeof(parent), "%s/templates/.host", state_dir);

	signature(name);
	if (r == 0)
		r = str_fmt(ret, WARD_PATH_MAX, "%s/%s", parent, name);
	if (r < 0)
		return err_say(e, -r, "the state directory's path is too long");
	r = ensure_dev(state_dir, e);
	if (r < 0 || access(ret, F_OK) == 0)
		return r;
	return build(parent, ret, fill, e);
}

int template_host_sweep(const char *state_dir, struct err *e)
{
	char parent[WARD_PATH_MAX], path[WARD_PATH_MAX], name[17];
	struct dirent *entry;
	DIR *d;
	int r = str_fmt(parent, sizeof(parent), "%s/templates/.host", state_dir);

	if (r < 0)
		return err_say(e, -r, "the state directory's path is too long");
	d = opendir(parent);
	if (!d)
		return errno == ENOENT ? 0 : err_set(e, errno, "reading %s", parent);
	signature(name);
	while (r == 0 && (entry = readdir(d))) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") || str_eq(entry->d_name, name))
			continue;
		r = str_fmt(path, sizeof(path), "%s/%s", parent, entry->d_name);
		r = r < 0 ? err_say(e, -r, "a path in %s is too long", parent) : tree_remove(path, e);
	}
	closedir(d);
	return r;
}
