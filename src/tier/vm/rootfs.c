/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/rootfs.c - a template as an ext4 image that guests read and none writes.
 *
 * Owns:  images/ below the state directory.
 * Rules: an image is made under a name of its own and renamed when it is whole, so a half-made one
 *        is never found. Its name says what it was made of; one that is there is never changed.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/sha256.h"
#include "base/str.h"
#include "host/host.h"
#include "host/tree.h"
#include "tier/vm/vm.h"

enum { KEY_BYTES = ROOTFS_KEY_BYTES / 2, STATUS_TOO_LARGE = 3, STATUS_MAX = 125 };
#define IMAGE_KIB_MAX (64ull << 20) /* 64 GiB of files */

/* The host's own folders that are part of its template. */
static const char *const host_dirs[] = { "usr", "opt", "bin", "sbin", "lib", "lib32", "lib64",
	"libx32" };

static void add_stat(struct sha256 *h, const char *path)
{
	struct stat st;
	uint64_t v[4] = { 0 };

	if (lstat(path, &st) == 0) {
		v[0] = (uint64_t)st.st_mtim.tv_sec;
		v[1] = (uint64_t)st.st_mtim.tv_nsec;
		v[2] = (uint64_t)st.st_size;
		v[3] = (uint64_t)st.st_ino;
	}
	sha256_add(h, path, strlen(path) + 1);
	sha256_add(h, v, sizeof(v));
}

/* What it is made of. The host changes when its packages do. */
static void make_key(const struct plan_root *root, char ret[2 * KEY_BYTES + 1])
{
	static const char *const signs[] = { "/var/lib/dpkg/status", "/usr", "/usr/bin", "/usr/lib",
		"/usr/local/bin", "/opt", "/etc/passwd" };
	char digest[SHA256_HEX + 1];
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, &root->kind, sizeof(root->kind));
	for (unsigned i = 0; i < root->layer_count; i++)
		add_stat(&h, root->layers[i]);
	for (unsigned i = 0; root->kind == ROOT_HOST && i < sizeof(signs) / sizeof(signs[0]); i++)
		add_stat(&h, signs[i]);
	sha256_end_hex(&h, digest);
	memcpy(ret, digest, 2 * KEY_BYTES);
	ret[2 * KEY_BYTES] = '\0';
}

/* In the child, with mounts of its own: all layers, and the host's folders, at @at. */
static int assemble(const void *arg, const char *at)
{
	const struct plan_root *root = &((const struct plan *)arg)->root;
	own_buf struct buf lowers;
	char to[WARD_PATH_MAX], from[64];

	buf_init(&lowers, 64 * 1024);
	buf_add_str(&lowers, "lowerdir=");
	for (unsigned i = 0; i < root->layer_count; i++)
		buf_add_fmt(&lowers, "%s%s", i ? ":" : "", root->layers[i]);
	if (lowers.bad)
		return -ENOMEM;
	if (root->layer_count == 1) {
		if (mount(root->layers[0], at, NULL, MS_BIND, NULL) < 0)
			return -errno;
	} else if (mount("overlay", at, "overlay", MS_RDONLY, lowers.data) < 0) {
		return -errno;
	}
	for (unsigned i = 0;
		root->kind == ROOT_HOST && i < sizeof(host_dirs) / sizeof(host_dirs[0]); i++) {
		struct stat st;

		if (str_fmt(from, sizeof(from), "/%s", host_dirs[i]) < 0 ||
			str_fmt(to, sizeof(to), "%s/%s", at, host_dirs[i]) < 0)
			return -ENAMETOOLONG;
		if (lstat(from, &st) < 0 || !S_ISDIR(st.st_mode) || lstat(to, &st) < 0 ||
			!S_ISDIR(st.st_mode))
			continue;
		if (mount(from, to, NULL, MS_BIND, NULL) < 0)
			return -errno;
	}
	return 0;
}

/* In the child: how many bytes an image of @at needs, by the tools that everybody trusts. */
static void exec_make(const char *at, const char *image)
{
	static const char script[] =
		"set -e; at=$1; image=$2; most=$3; set -- \"$at\"; "
		"for d in usr opt bin sbin lib lib32 lib64 libx32 dir file; do "
		"if [ -e \"$at/$d\" ] && [ ! -L \"$at/$d\" ]; then set -- \"$@\" \"$at/$d\"; "
		"fi; done; kb=$(du -xsk --apparent-size \"$@\" | awk '{s+=$1} END {print s}'); "
		"[ \"$kb\" -le \"$most\" ] || exit 3; n=$(find \"$at\" | wc -l); "
		"truncate -s $(( (kb * 5 / 4 + n * 2 + 65536) * 1024 )) \"$image\"; "
		"exec mkfs.ext4 -q -F -m 0 -O ^has_journal,^resize_inode -N $(( n + n / 8 + 4096 "
		")) "
		"-E lazy_itable_init=0 -d \"$at\" \"$image\"";

	char most[24];

	str_fmt(most, sizeof(most), "%llu", (unsigned long long)IMAGE_KIB_MAX);
	execl("/bin/sh", "sh", "-c", script, "sh", at, image, most, (char *)NULL);
	_exit(STATUS_MAX);
}

int image_make(const struct plan *plan, const char *image, image_fill_fn *fill, const void *arg,
	const char *what, struct err *e)
{
	char at[WARD_PATH_MAX];
	pid_t pid;
	int status, r = str_fmt(at, sizeof(at), "%s/images/.%d", plan->state_dir, (int)getpid());

	if (r < 0)
		return err_say(e, -r, "the state directory's path is too long");
	if (mkdir(at, 0700) < 0 && errno != EEXIST)
		return err_set(e, errno, "making %s", at);
	pid = fork();
	if (pid == 0) {
		if (unshare(CLONE_NEWNS) < 0 ||
			mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 || fill(arg, at) < 0)
			_exit(1);
		exec_make(at, image);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			pid = -1;
	rmdir(at);
	if (pid < 0)
		return err_set(e, errno, "starting mkfs.ext4");
	if (WIFEXITED(status) && WEXITSTATUS(status) == STATUS_TOO_LARGE)
		return err_say(e, EFBIG, "an image of %s would have more than %llu GiB", what,
			(unsigned long long)IMAGE_KIB_MAX >> 20);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return err_say(
			e, EIO, "making an image of %s failed (mkfs.ext4 is in e2fsprogs)", what);
	return 0;
}

int rootfs_reopen(const char *state_dir, const char *key, int *ret_fd, struct err *e)
{
	char path[WARD_PATH_MAX];
	int fd;

	if (strlen(key) != 2 * KEY_BYTES || strspn(key, "0123456789abcdef") != 2 * KEY_BYTES)
		return err_say(e, EINVAL, "the snapshot names no image");
	if (str_fmt(path, sizeof(path), "%s/images/%s.ext4", state_dir, key) < 0)
		return err_say(e, ENAMETOOLONG, "the state directory's path is too long");
	fd = host_open(path, O_RDONLY, 0);
	if (fd < 0)
		return err_set(e, -fd, "opening the snapshot's image %s", path);
	*ret_fd = fd;
	return 0;
}

int rootfs_open(const struct plan *plan, char key[ROOTFS_KEY_BYTES + 1], int *ret_fd, struct err *e)
{
	char dir[WARD_PATH_MAX], path[WARD_PATH_MAX], part[WARD_PATH_MAX];
	char what[WARD_PATH_MAX];
	int fd, r;

	make_key(&plan->root, key);
	if (str_fmt(dir, sizeof(dir), "%s/images", plan->state_dir) < 0 ||
		str_fmt(path, sizeof(path), "%s/%s.ext4", dir, key) < 0 ||
		str_fmt(part, sizeof(part), "%s/%s.%d", dir, key, (int)getpid()) < 0)
		return err_say(e, ENAMETOOLONG, "the state directory's path is too long");
	fd = host_open(path, O_RDONLY, 0);
	if (fd == -ENOENT) {
		r = tree_make(dir, 0700, e);
		if (r == 0 && str_fmt(what, sizeof(what), "template '%s'", plan->root.name) < 0)
			r = err_say(e, ENAMETOOLONG, "the template's name is too long");
		if (r == 0)
			r = image_make(plan, part, assemble, plan, what, e);
		if (r == 0 && rename(part, path) < 0)
			r = err_set(e, errno, "naming the image %s", path);
		if (r < 0) {
			unlink(part);
			return r;
		}
		fd = host_open(path, O_RDONLY, 0);
	}
	if (fd < 0)
		return err_set(e, -fd, "opening the image %s", path);
	*ret_fd = fd;
	return 0;
}
