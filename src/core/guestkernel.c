/* SPDX-License-Identifier: Apache-2.0 */
/*
 * core/guestkernel.c - keeps the kernels that guests run.
 *
 * Owns:  kernels/ below the state directory.
 * Rules: a kernel is put together in a folder of its own and renamed when it is whole and has been
 *        tried; the link to the default is replaced in one step.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/own.h"
#include "base/sha256.h"
#include "base/str.h"
#include "core/guestkernel.h"
#include "core/kernelbuild.h"
#include "core/kernelwork.h"
#include "host/host.h"
#include "host/tree.h"
#include "tier/vm/vm.h"

enum {
	CHUNK = 64 * 1024,
	DEP_BYTES_MAX = 4 << 20,
	MODULES_MAX = 64,
	SETUP_VERSION_AT = 0x20e, /* of a bzImage: where its own name is, less 0x200 */
	SETUP_MAGIC_AT = 0x202,
};
#define KERNEL_BYTES_MAX (512ll << 20)

/* What a guest of ours needs, if it is not built in. */
static const char *const needed[] = { "virtio_mmio", "virtio_blk", "virtio-rng",
	"vmw_vsock_virtio_transport", "overlay", "ext4", "virtio_net", "virtio_balloon" };

struct work {
	const struct guest_kernel_request *q;
	struct kernel_work new;   /* being put together */
	struct kernel_work fetch; /* where a package was unpacked */
	char file[WARD_PATH_MAX], modules[WARD_PATH_MAX];
	char version[128]; /* of one that we built */
	bool no_acpi;
	char loaded[MODULES_MAX][64];
	unsigned loaded_count;
	FILE *list;
};

static void tell(const struct work *w, const char *what)
{
	if (w->q->progress)
		w->q->progress(w->q->arg, what);
}

static int too_long(struct err *e)
{
	return err_say(e, ENAMETOOLONG, "the state directory's path is too long");
}

/* Runs @script with /bin/sh; its arguments are $1, $2. */
static int shell(const char *script, const char *a, const char *b, struct err *e)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, 0);
		dup2(null, 1);
		dup2(null, 2);
		execl("/bin/sh", "sh", "-c", script, "sh", a, b, (char *)NULL);
		_exit(127);
	}
	if (pid < 0)
		return err_set(e, errno, "forking");
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_set(e, errno, "waiting");
	return WIFEXITED(status) ? WEXITSTATUS(status) : -EINTR;
}

/* Debian's kernel for clouds, unpacked and never installed. */
static int fetch_package(struct work *w, struct err *e)
{
	static const char script[] =
		"set -e; cd \"$1\"; p=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: "
		"linux-image/ {print $2; exit}'); [ -n \"$p\" ]; apt-get download \"$p\"; "
		"dpkg-deb -x *.deb x; mv x/boot/vmlinuz-* vmlinuz; ln -s x/lib/modules/* modules";
	int r;

	tell(w, "fetching Debian's kernel for clouds");
	r = kernel_work_begin(&w->fetch, w->q->state_dir, "fetch", e);
	if (r < 0)
		return r;
	r = shell(script, w->fetch.path, "", e);
	if (r != 0)
		return err_say(e, EIO,
			"the package linux-image-cloud-amd64 could not be fetched with apt-get: "
			"give a kernel's FILE instead");
	if (str_fmt(w->file, sizeof(w->file), "%s/vmlinuz", w->fetch.path) < 0 ||
		str_fmt(w->modules, sizeof(w->modules), "%s/modules", w->fetch.path) < 0)
		return too_long(e);
	return 0;
}

static int build_it(struct work *w, struct err *e)
{
	char log[WARD_PATH_MAX], path[WARD_PATH_MAX];
	struct kernel_build b = { .dir = w->fetch.path,
		.log = log,
		.config = w->q->config,
		.jobs = w->q->jobs,
		.progress = w->q->progress,
		.counted = w->q->counted,
		.arg = w->q->arg };
	ssize_t n;
	int r;

	r = kernel_work_begin(&w->fetch, w->q->state_dir, "build", e);
	if (r < 0)
		return r;
	if (str_fmt(log, sizeof(log), "%s/kernels/build.log", w->q->state_dir) < 0 ||
		str_fmt(path, sizeof(path), "%s/version", w->fetch.path) < 0 ||
		str_fmt(w->file, sizeof(w->file), "%s/vmlinux", w->fetch.path) < 0)
		return too_long(e);
	r = kernel_build(&b, e);
	if (r < 0)
		return r;
	w->no_acpi = !kernel_has_acpi(&b);
	n = host_get(AT_FDCWD, path, w->version, sizeof(w->version) - 1);
	w->version[n > 0 ? n : 0] = '\0';
	w->version[strcspn(w->version, "\n")] = '\0';
	return 0;
}

static int copy_file(const char *from, const char *to, struct sha256 *sum, struct err *e)
{
	own_fd int in = host_open(from, O_RDONLY, 0), out = -1;
	own_mem char *data = malloc(CHUNK);
	struct stat st;
	ssize_t n;

	if (in < 0)
		return err_set(e, -in, "opening %s", from);
	if (!data)
		return err_set(e, ENOMEM, "copying %s", from);
	if (fstat(in, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > KERNEL_BYTES_MAX)
		return err_say(e, EINVAL, "%s is not a kernel: a file of at most %lld MiB", from,
			KERNEL_BYTES_MAX >> 20);
	out = host_open(to, O_WRONLY | O_CREAT | O_EXCL, 0644);
	if (out < 0)
		return err_set(e, -out, "making %s", to);
	while ((n = read(in, data, CHUNK)) > 0) {
		int r = host_write_all(out, data, (size_t)n);

		if (r < 0)
			return err_set(e, -r, "writing %s", to);
		if (sum)
			sha256_add(sum, data, (size_t)n);
	}
	return n < 0 ? err_set(e, errno, "reading %s", from) : 0;
}

/* The last part of @path, without ".ko" and what may follow it. */
static void module_name(const char *path, char ret[64])
{
	size_t n;

	/* Of a line of modules.dep: its first word alone. */
	for (n = 0; path[n] && path[n] != ':'; n++)
		if (path[n] == '/') {
			path += n + 1;
			n = (size_t)-1;
		}
	n = strcspn(path, ".:");
	n = n < 63 ? n : 63;
	memcpy(ret, path, n);
	ret[n] = '\0';
}

static int add_module(struct work *w, const char *path, struct err *e)
{
	char from[WARD_PATH_MAX], to[WARD_PATH_MAX], name[64];
	int r;

	module_name(path, name);
	for (unsigned i = 0; i < w->loaded_count; i++)
		if (str_eq(w->loaded[i], name))
			return 0;
	if (w->loaded_count == MODULES_MAX)
		return err_say(e, E2BIG, "more than %d modules", MODULES_MAX);
	if (strlen(path) < 3 || !str_eq(path + strlen(path) - 3, ".ko"))
		return err_say(e, EOPNOTSUPP, "module %s is compressed: unpack it first", path);
	if (str_fmt(from, sizeof(from), "%s/%s", w->modules, path) < 0 ||
		str_fmt(to, sizeof(to), "%s/modules/%s.ko", w->new.path, name) < 0)
		return too_long(e);
	r = copy_file(from, to, NULL, e);
	if (r < 0)
		return r;
	str_copy(w->loaded[w->loaded_count++], sizeof(w->loaded[0]), name);
	fprintf(w->list, "%s.ko\n", name);
	return 0;
}

/* A line of modules.dep: "kernel/a/b.ko: kernel/c.ko kernel/d.ko", what is needed last first. */
static int add_with_needs(struct work *w, char *line, struct err *e)
{
	char *needs[MODULES_MAX], *rest = line, *path = strsep(&rest, ":"), *word;
	unsigned n = 0;
	int r = 0;

	while (rest && (word = strsep(&rest, " ")) != NULL)
		if (*word && n < MODULES_MAX)
			needs[n++] = word;
	while (r == 0 && n > 0)
		r = add_module(w, needs[--n], e);
	return r < 0 ? r : add_module(w, path, e);
}

static int add_modules(struct work *w, struct err *e)
{
	char path[WARD_PATH_MAX], name[64];
	own_mem char *text = malloc(DEP_BYTES_MAX);
	ssize_t n;
	int r = 0;

	if (!w->modules[0])
		return 0;
	tell(w, "collecting its modules");
	if (str_fmt(path, sizeof(path), "%s/modules", w->new.path) < 0)
		return too_long(e);
	r = tree_make(path, 0700, e);
	if (r < 0)
		return r;
	if (str_fmt(path, sizeof(path), "%s/modules/list", w->new.path) < 0 || !text)
		return too_long(e);
	w->list = fopen(path, "we");
	if (!w->list)
		return err_set(e, errno, "making %s", path);
	/* A package that was only unpacked has no modules.dep: depmod makes it. */
	if (str_fmt(path, sizeof(path), "%s/modules.dep", w->modules) < 0)
		return too_long(e);
	if (access(path, R_OK) < 0)
		shell("d=$(readlink -f \"$1\"); v=$(basename \"$d\"); b=${d%/lib/modules/*}; "
		      "exec /sbin/depmod -b \"$b\" \"$v\"",
			w->modules, "", e);
	n = host_get(AT_FDCWD, path, text, DEP_BYTES_MAX - 1);
	if (n < 0)
		return err_set(e, (int)-n, "reading %s (made by depmod, package kmod)", path);
	text[n] = '\0';
	for (unsigned i = 0; r == 0 && i < sizeof(needed) / sizeof(needed[0]); i++) {
		/* Each line is looked at on a copy, because taking it apart spoils it. */
		for (char *line = text; r == 0 && *line;) {
			size_t len = strcspn(line, "\n");
			char copy[4096];

			if (len < sizeof(copy)) {
				memcpy(copy, line, len);
				copy[len] = '\0';
				module_name(copy, name);
				if (str_eq(name, needed[i]))
					r = add_with_needs(w, copy, e);
			}
			line += len + (line[len] == '\n');
		}
	}
	if (fclose(w->list) != 0 && r == 0)
		r = err_set(e, errno, "writing the list of modules");
	w->list = NULL;
	return r;
}

static int put_text(const struct work *w, const char *name, const char *text, struct err *e)
{
	char path[WARD_PATH_MAX];
	FILE *f;

	if (str_fmt(path, sizeof(path), "%s/%s", w->new.path, name) < 0)
		return too_long(e);
	f = fopen(path, "we");
	if (!f || fputs(text, f) < 0 || fclose(f) != 0)
		return err_set(e, errno, "writing %s", path);
	return 0;
}

/* A bzImage has its name in its header. */
static void read_version(const char *path, char ret[128])
{
	own_fd int fd = host_open(path, O_RDONLY, 0);
	unsigned char head[0x210];
	unsigned at;
	ssize_t n;

	ret[0] = '\0';
	if (fd < 0 || pread(fd, head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
		memcmp(head + SETUP_MAGIC_AT, "HdrS", 4) != 0)
		return;
	at = head[SETUP_VERSION_AT] | (unsigned)head[SETUP_VERSION_AT + 1] << 8;
	n = pread(fd, ret, 127, (off_t)at + 0x200);
	ret[n > 0 ? n : 0] = '\0';
	ret[strcspn(ret, " \n")] = '\0';
	for (char *p = ret; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
}

/* What the last trial said, for whoever asks why there is no vm tier; NULL: it went well. */
static void note_trial(const struct work *w, const char *text)
{
	char path[WARD_PATH_MAX];
	own_fd int fd = -1;

	if (str_fmt(path, sizeof(path), "%s/kernels/" KERNEL_REFUSED, w->q->state_dir) < 0)
		return;
	if (!text) {
		unlink(path);
		return;
	}
	fd = host_open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
	if (fd >= 0)
		host_pwrite(fd, text, strlen(text), 0); /* a help, no more */
}

static int try_it(const struct work *w, struct err *e)
{
	own_fd int kvm = -1;
	int r;

	if (w->q->untested)
		return 0;
	tell(w, "booting it once");
	kvm = host_open("/dev/kvm", O_RDWR, 0);
	if (kvm < 0)
		return err_set(e, -kvm,
			"opening /dev/kvm to try the kernel (--untested takes it without)");
	r = vm_trial(w->new.path, kvm, w->q->timeout_ms, e);
	note_trial(w, r < 0 ? e->msg : NULL);
	return r;
}

/* Renames it to what it is, and makes it the default. */
static int install(struct work *w, const char *id, struct err *e)
{
	char final[WARD_PATH_MAX], link[WARD_PATH_MAX], next[WARD_PATH_MAX];
	const char *top = w->q->state_dir;

	if (str_fmt(final, sizeof(final), "%s/kernels/%s", top, id) < 0 ||
		str_fmt(link, sizeof(link), "%s/kernels/default", top) < 0 ||
		str_fmt(next, sizeof(next), "%s/kernels/.default.%d", top, (int)getpid()) < 0)
		return too_long(e);
	if (rename(w->new.path, final) < 0) {
		if (errno != EEXIST && errno != ENOTEMPTY)
			return err_set(e, errno, "naming %s", final);
		/* The same kernel again: the new one has its present template and modules. */
		if (tree_remove(final, e) < 0)
			return -e->code;
		if (rename(w->new.path, final) < 0)
			return err_set(e, errno, "naming %s", final);
	}
	unlink(next);
	if (symlink(id, next) < 0 || rename(next, link) < 0)
		return err_set(e, errno, "making %s the default", id);
	return 0;
}

static int make_it(struct work *w, char ret_id[GUEST_KERNEL_ID + 1], struct err *e)
{
	char path[WARD_PATH_MAX], hex[SHA256_HEX + 1], version[128];
	struct sha256 sum;
	int r;

	r = kernel_work_begin(&w->new, w->q->state_dir, "new", e);
	if (r < 0)
		return r;
	if (str_fmt(path, sizeof(path), "%s/kernel", w->new.path) < 0)
		return too_long(e);
	sha256_init(&sum);
	r = copy_file(w->file, path, &sum, e);
	if (r == 0)
		r = add_modules(w, e);
	if (r == 0 && (w->q->no_xsave || w->no_acpi))
		r = put_text(w, "cpu",
			!w->no_acpi      ? "no-xsave\n"
			: w->q->no_xsave ? "no-xsave\nno-acpi\n"
					 : "no-acpi\n",
			e);
	read_version(path, version);
	if (r == 0)
		r = put_text(w, "version", w->version[0] ? w->version : version, e);
	if (r == 0)
		r = try_it(w, e);
	if (r < 0)
		return r;
	sha256_end_hex(&sum, hex);
	memcpy(ret_id, hex, GUEST_KERNEL_ID);
	ret_id[GUEST_KERNEL_ID] = '\0';
	return install(w, ret_id, e);
}

int guest_kernel_use(
	const struct guest_kernel_request *q, char ret_id[GUEST_KERNEL_ID + 1], struct err *e)
{
	struct work *w = calloc(1, sizeof(*w));
	struct err later = { 0 };
	int r = 0;

	if (!w)
		return err_set(e, ENOMEM, "starting");
	w->q = q;
	w->no_acpi = q->no_acpi;
	w->new.lock = w->fetch.lock = -1;
	kernel_work_sweep(q->state_dir, NULL, NULL, &later); /* what stays is tried again */
	if (q->file) {
		str_copy(w->file, sizeof(w->file), q->file);
		str_copy(w->modules, sizeof(w->modules), q->modules ? q->modules : "");
	} else if (q->config) {
		r = build_it(w, e);
	} else {
		r = fetch_package(w, e);
	}
	if (r == 0)
		r = make_it(w, ret_id, e);
	if (w->list)
		fclose(w->list);
	kernel_work_end(&w->new);
	kernel_work_end(&w->fetch);
	free(w);
	return r;
}

static bool is_id(const char *name)
{
	return strlen(name) == GUEST_KERNEL_ID &&
	       strspn(name, "0123456789abcdef") == GUEST_KERNEL_ID;
}

int guest_kernel_each(const char *state_dir, void (*each)(void *arg, const struct guest_kernel *k),
	void *arg, struct err *e)
{
	char path[WARD_PATH_MAX], target[64] = "";
	struct dirent *entry;
	ssize_t n;
	DIR *d;

	if (str_fmt(path, sizeof(path), "%s/kernels/default", state_dir) < 0)
		return too_long(e);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	path[strlen(path) - strlen("/default")] = '\0';
	d = opendir(path);
	if (!d)
		return errno == ENOENT ? 0 : err_set(e, errno, "reading %s", path);
	while ((entry = readdir(d)) != NULL) {
		struct guest_kernel k = { 0 };
		char file[WARD_PATH_MAX];

		if (!is_id(entry->d_name))
			continue;
		str_copy(k.id, sizeof(k.id), entry->d_name);
		k.is_default = str_eq(target, k.id);
		if (str_fmt(file, sizeof(file), "%s/%s/version", path, k.id) == 0) {
			n = host_get(AT_FDCWD, file, k.version, sizeof(k.version) - 1);
			k.version[n > 0 ? n : 0] = '\0';
		}
		each(arg, &k);
	}
	closedir(d);
	return 0;
}

int guest_kernel_remove(const char *state_dir, const char *id, struct err *e)
{
	char path[WARD_PATH_MAX], target[64] = "";
	ssize_t n;

	if (!is_id(id))
		return err_say(
			e, EINVAL, "'%s' is no kernel's id: 'ward kernel ls' lists them", id);
	if (str_fmt(path, sizeof(path), "%s/kernels/default", state_dir) < 0)
		return too_long(e);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	if (str_eq(target, id))
		return err_say(e, EBUSY, "%s is the default: 'ward kernel use' another first", id);
	if (str_fmt(path, sizeof(path), "%s/kernels/%s", state_dir, id) < 0)
		return too_long(e);
	if (access(path, F_OK) < 0)
		return err_say(e, ENOENT, "there is no kernel %s: 'ward kernel ls' lists them", id);
	return tree_remove(path, e);
}
