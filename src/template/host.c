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
#include <time.h>
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
#include "template/account.h"
#include "template/host.h"

/* Part of the skeleton's name: raise it when what is below changes. */
#define SKELETON_VERSION "3"

enum { ETC_DEPTH_MAX = 8, ABANDONED_S = 3600 };

/* What programs look up in /etc and may be shown: no passwords, no keys, no service's settings. */
static const char *const etc_entries[] = {
	"alternatives",
	"bash.bashrc",
	"bash_completion.d",
	"ca-certificates",
	"ca-certificates.conf",
	"debian_version",
	"default/locale",
	"ethertypes",
	"fonts",
	"gai.conf",
	"groff",
	"group",
	"host.conf",
	"inputrc",
	"java-*",
	"ld-musl-*",
	"ld.so.cache",
	"ld.so.conf",
	"ld.so.conf.d",
	"locale.alias",
	"locale.conf",
	"localtime",
	"magic",
	"magic.mime",
	"mailcap",
	"mime.types",
	"mke2fs.conf",
	"networks",
	"nsswitch.conf",
	"os-release",
	"passwd",
	"perl",
	"profile",
	"profile.d",
	"protocols",
	"python3*",
	"rpc",
	"services",
	"shells",
	"skel",
	"ssl/certs",
	"ssl/openssl.cnf",
	"terminfo",
	"timezone",
	"vim",
	"xattr.conf",
};

static const struct {
	const char *path;
	mode_t mode;
} dirs[] = {
	{ "usr", 0755 },
	{ "opt", 0755 },
	{ "etc", 0755 },
	{ "etc/default", 0755 },
	{ "etc/ssl", 0755 },
	{ "proc", 0555 },
	{ "sys", 0555 },
	{ "dev", 0755 },
	{ "run", 0755 },
	{ "tmp", 01777 },
	{ "home", 0755 },
	{ "root", 0700 },
	{ "mnt", 0755 },
	{ "media", 0755 },
	{ "srv", 0755 },
	{ "var", 0755 },
	{ "var/tmp", 01777 },
	{ "var/lib", 0755 },
	{ "var/log", 0755 },
	{ "var/cache", 0755 },
	{ "var/spool", 0755 },
};

static const struct {
	const char *path, *text;
} files[] = {
	{ "etc/hosts", "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n" },
	{ "etc/hostname", "ward\n" },
};

static void add_stamp(struct sha256 *s, int dir, const char *path)
{
	int64_t stamp[3] = { 0 };
	struct stat st;

	if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0) {
		stamp[0] = st.st_mtim.tv_sec;
		stamp[1] = st.st_mtim.tv_nsec;
		stamp[2] = (int64_t)st.st_ino;
	}
	sha256_add(s, stamp, sizeof(stamp));
}

/* A change of /etc, or of anything in it that is shown, makes another skeleton. A folder changes
 * with its entries; a change deep inside one waits for the next change further up. */
static int signature(char ret[17], struct err *e)
{
	own_fd int etc = host_open("/etc", O_PATH | O_DIRECTORY, 0);
	char hex[SHA256_HEX + 1];
	struct sha256 s;

	if (etc < 0)
		return err_set(e, -etc, "opening /etc for the host template");
	sha256_init(&s);
	sha256_add(&s, SKELETON_VERSION, sizeof(SKELETON_VERSION));
	add_stamp(&s, etc, "");
	for (size_t i = 0; i < ARRAY_LEN(etc_entries); i++)
		if (!strchr(etc_entries[i], '*'))
			add_stamp(&s, etc, etc_entries[i]);
	sha256_end_hex(&s, hex);
	memcpy(ret, hex, 16);
	ret[16] = '\0';
	return 0;
}

static int copy_entry(int from, const char *name, int to, unsigned depth, struct err *e);

static int copy_link(int from, const char *name, int to)
{
	char target[WARD_PATH_MAX];
	ssize_t n = readlinkat(from, name, target, sizeof(target) - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	return host_symlinkat(target, to, name);
}

static int copy_file(int from, const char *name, const struct stat *st, int to, struct err *e)
{
	int r = tree_copy_file(from, name, to, name, e);

	if (r == 0 && geteuid() == 0)
		r = host_fchownat(to, name, 0, 0, AT_SYMLINK_NOFOLLOW);
	if (r == 0 && fchmodat(to, name, st->st_mode & 0111 ? 0755 : 0644, 0) < 0)
		r = -errno;
	return r < 0 && !e->code ? err_set(e, -r, "copying %s from /etc", name) : r;
}

static int copy_folder(int from, const char *name, int to, unsigned depth, struct err *e)
{
	own_fd int source = host_openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	int r = source < 0 ? source : host_mkdirat(to, name, 0755);
	own_fd int target =
		r < 0 ? r : host_openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	struct dirent *entry;
	DIR *d;

	if (target < 0)
		return err_set(e, -target, "copying the folder %s from /etc", name);
	d = fdopendir(dup(source));
	if (!d)
		return err_set(e, errno, "reading the folder %s in /etc", name);
	while (r == 0 && (entry = readdir(d)))
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			r = copy_entry(source, entry->d_name, target, depth + 1, e);
	closedir(d);
	return r;
}

/* Only what everybody may read, at every level; only files, folders and links. */
static int copy_entry(int from, const char *name, int to, unsigned depth, struct err *e)
{
	struct stat st;
	int r;

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || errno == EACCES
			       ? 0
			       : err_set(e, errno, "looking at %s in /etc", name);
	if (S_ISREG(st.st_mode))
		return st.st_mode & S_IROTH ? copy_file(from, name, &st, to, e) : 0;
	if (S_ISDIR(st.st_mode)) {
		bool open_to_all = (st.st_mode & (S_IROTH | S_IXOTH)) == (S_IROTH | S_IXOTH);

		return open_to_all && depth < ETC_DEPTH_MAX ? copy_folder(from, name, to, depth, e)
							    : 0;
	}
	if (!S_ISLNK(st.st_mode))
		return 0;
	r = copy_link(from, name, to);
	return r < 0 ? err_set(e, -r, "copying the link %s from /etc", name) : 0;
}

/* One listed entry, which may lie one folder down; that folder is there already. */
static int copy_listed(int etc, const char *path, int to, struct err *e)
{
	const char *slash = strchr(path, '/');
	own_fd int from_dir = -1;
	own_fd int to_dir = -1;
	char dir[64];

	if (!slash)
		return copy_entry(etc, path, to, 0, e);
	if (str_fmt(dir, sizeof(dir), "%.*s", (int)(slash - path), path) < 0)
		return err_say(e, ENAMETOOLONG, "/etc/%s", path);
	from_dir = host_openat(etc, dir, O_RDONLY | O_DIRECTORY, 0);
	to_dir = host_openat(to, dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	if (from_dir == -ENOENT)
		return 0;
	if (from_dir < 0 || to_dir < 0)
		return err_set(e, from_dir < 0 ? -from_dir : -to_dir, "opening /etc/%s", dir);
	return copy_entry(from_dir, slash + 1, to_dir, 0, e);
}

static int copy_matching(int etc, const char *pattern, int to, struct err *e)
{
	DIR *d = opendir("/etc");
	struct dirent *entry;
	int r = 0;

	if (!d)
		return err_set(e, errno, "reading /etc");
	while (r == 0 && (entry = readdir(d)))
		if (fnmatch(pattern, entry->d_name, FNM_PERIOD) == 0)
			r = copy_entry(etc, entry->d_name, to, 0, e);
	closedir(d);
	return r;
}

static int copy_etc(int root, struct err *e)
{
	own_fd int from = host_open("/etc", O_RDONLY | O_DIRECTORY, 0);
	own_fd int to = host_openat(root, "etc", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
	int r = 0;

	if (from < 0 || to < 0)
		return err_set(e, from < 0 ? -from : -to, "opening /etc");
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(etc_entries); i++)
		r = strchr(etc_entries[i], '*') ? copy_matching(from, etc_entries[i], to, e)
						: copy_listed(from, etc_entries[i], to, e);
	return r;
}

/* /bin, /lib64 and friends are links on most hosts; where they are folders they become mounts. */
static int copy_top_links(int root, struct err *e)
{
	static const char *const names[] = { "bin", "sbin", "lib", "lib32", "lib64", "libx32" };
	own_fd int top = host_open("/", O_RDONLY | O_DIRECTORY, 0);

	if (top < 0)
		return err_set(e, -top, "opening /");
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct stat st;
		int r;

		if (fstatat(top, names[i], &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue; /* this host has none */
		r = S_ISLNK(st.st_mode) ? copy_link(top, names[i], root)
					: host_mkdirat(root, names[i], 0755);
		if (r < 0)
			return err_set(e, -r, "making /%s of the host template", names[i]);
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
	r = copy_top_links(fd, e);
	if (r == 0)
		r = copy_etc(fd, e);
	return r < 0 ? r : account_add(fd, e);
}

/* Made under a name of its own, then renamed; whoever comes second throws its own away. */
static int build(const char *parent, const char *path, int (*make)(const char *, struct err *),
	struct err *e)
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
	} links[] = { { "fd", "/proc/self/fd" }, { "stdin", "/proc/self/fd/0" },
		{ "stdout", "/proc/self/fd/1" }, { "stderr", "/proc/self/fd/2" },
		{ "ptmx", "pts/ptmx" } };
	static const char *const points[] = { "pts", "shm", "mqueue" };
	own_fd int fd = host_open(root, O_RDONLY | O_DIRECTORY, 0);
	int r = fd < 0 ? fd : 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(nodes); i++) {
		r = host_mknodat(
			fd, nodes[i].name, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor));
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
	int r = signature(name, e);

	if (r < 0)
		return r;
	r = str_fmt(parent, sizeof(parent), "%s/templates/.host", state_dir);
	if (r == 0)
		r = str_fmt(ret, WARD_PATH_MAX, "%s/%s", parent, name);
	if (r < 0)
		return err_say(e, -r, "the state directory's path is too long");
	r = ensure_dev(state_dir, e);
	if (r < 0 || access(ret, F_OK) == 0)
		return r;
	return build(parent, ret, fill, e);
}

static bool is_abandoned(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       time(NULL) - st.st_mtim.tv_sec > ABANDONED_S;
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
	r = signature(name, e);
	while (r == 0 && (entry = readdir(d))) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") ||
			str_eq(entry->d_name, name))
			continue;
		/* One that is being filled right now has another ward's attention. */
		if (str_after(entry->d_name, ".new-") && !is_abandoned(dirfd(d), entry->d_name))
			continue;
		r = str_fmt(path, sizeof(path), "%s/%s", parent, entry->d_name);
		r = r < 0 ? err_say(e, -r, "a path in %s is too long", parent)
			  : tree_remove(path, e);
	}
	closedir(d);
	return r;
}
