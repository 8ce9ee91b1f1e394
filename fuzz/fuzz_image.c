/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_image.c - the layer unpacker, and the parsers of what images and registries say.
 *
 * Owns:  a folder in $TMPDIR, /dev/shm or /tmp, removed at the end.
 * Rules: the first byte of the input says what the rest is for. After each layer the folders around
 *        the one that it was unpacked into must be as they were.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/auth.h"
#include "image/manifest.h"
#include "image/names.h"
#include "image/unpack.h"
#include "template/record.h"
#include "template/ref.h"
#include "host/tree.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Three folders deep, so that a way out by "..", if there were one, ends in a place we look at. */
static char top[64];

static void remove_top(void)
{
	tree_remove(top, NULL);
}

static void make_top(void)
{
	const char *tmp = getenv("TMPDIR");
	char path[128];

	if (str_fmt(top, sizeof(top), "%s/ward-fuzz-XXXXXX",
		    tmp                             ? tmp
		    : access("/dev/shm", W_OK) == 0 ? "/dev/shm"
						    : "/tmp") < 0 ||
		!mkdtemp(top))
		abort();
	atexit(remove_top);
	if (str_fmt(path, sizeof(path), "%s/a", top) < 0 || mkdir(path, 0700) < 0 ||
		str_fmt(path, sizeof(path), "%s/a/b", top) < 0 || mkdir(path, 0700) < 0)
		abort();
}

/* Aborts unless @path holds exactly @only. */
static void must_hold(const char *path, const char *only)
{
	DIR *list = opendir(path);
	struct dirent *d;

	if (!list)
		abort();
	while ((d = readdir(list)))
		if (!str_eq(d->d_name, ".") && !str_eq(d->d_name, "..") && !str_eq(d->d_name, only))
			abort();
	closedir(list);
}

static void fuzz_layer(const uint8_t *data, size_t size)
{
	own_fd int blob = memfd_create("layer", MFD_CLOEXEC), dir = -1;
	struct layer_info info;
	struct budget budget;
	char path[128];

	if (!top[0])
		make_top();
	if (blob < 0 || host_write_all(blob, data, size) < 0 || lseek(blob, 0, SEEK_SET) < 0 ||
		str_fmt(path, sizeof(path), "%s/a/b/fs", top) < 0 || mkdir(path, 0755) < 0)
		abort();
	dir = host_open(path, O_RDONLY | O_DIRECTORY, 0);
	if (dir < 0)
		abort();
	budget_init(&budget, 1 << 20);
	budget.entries = 2000;
	unpack_layer(blob, dir, geteuid() == 0, &budget, NULL, &info, NULL);
	must_hold(top, "a");
	path[strlen(path) - 3] = '\0';
	must_hold(path, "fs");
	path[strlen(path) - 2] = '\0';
	must_hold(path, "b");
	if (tree_remove(str_fmt(path, sizeof(path), "%s/a/b/fs", top) < 0 ? "" : path, NULL) < 0)
		abort();
}

/* A tar whose headers get the checksum that they need: without it most changes die at once. */
static void fuzz_summed(const uint8_t *data, size_t size)
{
	enum { BLOCK = 512, AT_SUM = 148, AT_MAGIC = 257 };
	own_mem uint8_t *copy = malloc(size + 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	for (size_t at = 0; at + BLOCK <= size; at += BLOCK) {
		uint8_t *h = copy + at;
		unsigned sum = 8 * ' ';

		if (memcmp(h + AT_MAGIC, "ustar", 5) != 0)
			continue;
		for (size_t i = 0; i < BLOCK; i++)
			sum += i >= AT_SUM && i < AT_SUM + 8 ? 0 : h[i];
		for (int i = 5; i >= 0; i--, sum /= 8)
			h[AT_SUM + i] = (uint8_t)('0' + sum % 8);
		h[AT_SUM + 6] = 0;
		h[AT_SUM + 7] = ' ';
	}
	fuzz_layer(copy, size);
}

static void fuzz_reference(const uint8_t *data, size_t size)
{
	char text[512], again[TEMPLATE_NAME_MAX + 1], file[TEMPLATE_NAME_MAX + 1];
	struct ref a, b;

	if (size >= sizeof(text))
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	if (ref_parse(text, &a, NULL) < 0)
		return;
	/* One spelling for one meaning, and a file name that can be turned back. */
	if (ref_text(&a, again) < 0 || ref_parse(again, &b, NULL) < 0 ||
		memcmp(&a, &b, sizeof(a)) != 0 || record_file_name(again, file) < 0 ||
		strchr(file, '/') || file[0] == '.')
		abort();
	record_file_name_back(file);
	if (!str_eq(file, again))
		abort();
}

static void fuzz_name(const uint8_t *data, size_t size)
{
	own_mem char *text = strndup((const char *)data, size);
	struct entry_name n;

	raw_header_check((const char *)data, size, NULL);
	if (!text || entry_name_parse(text, &n, NULL) < 0)
		return;
	if (n.parent[0] == '/' || strchr(n.base, '/') || str_eq(n.base, "..") ||
		str_eq(n.base, ".") || str_after(n.parent, "../") || strstr(n.parent, "/../"))
		abort();
}

static const struct platform here = { "linux", "amd64" };

static void fuzz_document(const struct buf *text)
{
	struct manifest *m = calloc(1, sizeof(*m));
	struct descriptor child;
	enum document kind;

	if (!m)
		abort();
	document_parse(text, &here, NULL, &kind, m, &child, NULL);
	document_parse(text, &here, "", &kind, m, &child, NULL);
	document_parse(text, &here, "v1", &kind, m, &child, NULL);
	docker_manifest_parse(text, "", m, NULL);
	free(m);
}

static void fuzz_config(const struct buf *text)
{
	struct record *r = calloc(1, sizeof(*r));
	struct config *c = calloc(1, sizeof(*c));
	char token[256];

	if (!r || !c)
		abort();
	config_parse(text, &here, 1, c, r, NULL);
	config_done(c);
	token_parse(text, token, sizeof(token), NULL);
	free(c);
	free(r);
}

static void fuzz_record(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	struct record *r = calloc(1, sizeof(*r));
	struct buf b;

	if (!text || !r)
		abort();
	if (record_parse(text, r, NULL) == 0) {
		if (record_format(r, &b, NULL) == 0) {
			struct record *again = calloc(1, sizeof(*again));

			if (!again || record_parse(strdup(b.data), again, NULL) < 0)
				abort();
			record_destroy(again);
		}
		buf_done(&b);
		record_done(r);
	}
	free(r);
}

static void fuzz_challenge(const uint8_t *data, size_t size)
{
	own_mem char *text = strndup((const char *)data, size);
	struct challenge c;

	if (text)
		challenge_parse(text, &c, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	own_buf struct buf text;

	buf_init(&text, SIZE_MAX);
	if (size < 1)
		return 0;
	buf_add(&text, data + 1, size - 1);
	switch (data[0]) {
	case 'l':
		fuzz_layer(data + 1, size - 1);
		break;
	case 's':
		fuzz_summed(data + 1, size - 1);
		break;
	case 'r':
		fuzz_reference(data + 1, size - 1);
		break;
	case 'n':
		fuzz_name(data + 1, size - 1);
		break;
	case 'd':
		fuzz_document(&text);
		break;
	case 'c':
		fuzz_config(&text);
		break;
	case 't':
		fuzz_record(data + 1, size - 1);
		break;
	case 'w':
		fuzz_challenge(data + 1, size - 1);
		break;
	default:
		break;
	}
	return 0;
}
