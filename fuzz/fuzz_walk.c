/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/fuzz_walk.c - a kernel-tier sandbox built from bytes that somebody has changed.
 *
 * Input: a first byte, then edits of a stream that a busy sandbox gave, six bytes each: where
 * (three), what to do, and with which value (two); or, after a first byte of 0xff, a stream's
 * sections as they are. The sum is made right again: every check behind it must hold by itself.
 * What could be built is used a little; then nothing may be left of it.
 *
 * WARD_WALK_STREAM names the stream of a real sandbox, as tests/kernel/walker.c leaves it, and
 * WARD_WALK_LAYER the folder that was its template: then the edits are of that one.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/ckd.h"
#include "base/sha256.h"
#include "tier/kernel/fake.h"
#include "tier/kernel/mm/image.h"
#include "tier/kernel/task/proc.h"
#include "tier/kernel/vfs/fdtable.h"
#include "tier/kernel/vfs/vfs.h"
#include "tier/kernel/walk/busy.h"
#include "tier/kernel/walk/sandbox.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* As walk/sandbox.h has it, with the two bytes of its mark before it. */
enum { AT_BYTES = 18, AT_TAKEN = 26, AT_SUM = 34, HEAD = 66, SECTION = 16 };
enum { EDITS_MAX = 64, USED_MAX = 64, RAW = 0xff, PAGES_KEPT = 2 };

/* What all is made from. */
struct base {
	uint8_t *stream;
	size_t len;
	const struct engine_ops *engine;
	bool real;
};

static int64_t taken(const uint8_t *stream)
{
	int64_t ns;

	memcpy(&ns, stream + AT_TAKEN, sizeof(ns));
	return ns;
}

static void add_files(struct kernel *k)
{
	const char *layer = getenv("WARD_WALK_LAYER");
	int fd = layer ? open(layer, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct vfs_setup setup = { .layers = &fd, .layer_count = layer != NULL };
	struct err e = { 0 };

	if ((layer && fd < 0) || vfs_init(k, &setup, &e) < 0)
		abort();
}

static struct kernel *new_kernel(const struct engine_ops *engine)
{
	struct kernel *k = calloc(1, sizeof(*k));

	if (!k || kernel_init(k) < 0)
		abort();
	k->engine = engine;
	add_files(k);
	return k;
}

static void end_kernel(struct kernel *k)
{
	procs_done(k);
	vfs_done(k);
	kernel_done(k);
	if (k->file_count || k->sig_queued || k->heap_len)
		abort();
	free(k);
}

static void busy_stream(struct base *b)
{
	struct fake *g = fake_create();
	struct err e = { 0 };
	struct busy busy;

	add_files(&g->k);
	g->task->fs = vfs_first_ctx(&g->k);
	b->engine = g->k.engine;
	if (!b->real) {
		busy_make(&busy, g);
		if (sandbox_walk(&g->k, 1, &b->stream, &b->len, &e) < 0)
			abort();
	}
	procs_done(&g->k);
	vfs_done(&g->k);
	kernel_done(&g->k);
	free(g);
}

static void read_stream(struct base *b, const char *path)
{
	FILE *f = fopen(path, "re");
	long len;

	if (!f || fseek(f, 0, SEEK_END) < 0 || (len = ftell(f)) < HEAD || fseek(f, 0, SEEK_SET) < 0)
		abort();
	b->len = (size_t)len;
	b->stream = malloc(b->len);
	if (!b->stream || fread(b->stream, 1, b->len, f) != b->len)
		abort();
	fclose(f);
}

/* All but a few pages of each memory left out: they would be most of what is changed. */
static void make_smaller(struct base *b)
{
	struct kernel *k = new_kernel(b->engine);
	struct err e = { 0 };
	uint8_t *all = b->stream;

	if (sandbox_rebuild(k, taken(all), all, b->len, &e) < 0) {
		fprintf(stderr, "fuzz_walk: %s\n", e.msg);
		abort();
	}
	for (struct proc *p = k->procs; p; p = p->next)
		for (struct task *t = p->tasks; t; t = t->next)
			while (t->mm && t->mm->image && t->mm->image->page_count > PAGES_KEPT)
				free(t->mm->image->pages[--t->mm->image->page_count].bytes);
	if (sandbox_walk(k, taken(all), &b->stream, &b->len, &e) < 0)
		abort();
	free(all);
	end_kernel(k);
}

/* Made once. */
static const struct base *base_stream(void)
{
	static struct base b;
	const char *path = getenv("WARD_WALK_STREAM");

	if (b.stream)
		return &b;
	b.real = path != NULL;
	busy_stream(&b);
	if (path) {
		read_stream(&b, path);
		make_smaller(&b);
	}
	return &b;
}

static void seal(uint8_t *stream, size_t len)
{
	uint64_t bytes = len - HEAD;
	struct sha256 sum;

	memcpy(stream + AT_BYTES, &bytes, sizeof(bytes));
	sha256_init(&sum);
	sha256_add(&sum, stream + HEAD, bytes);
	sha256_end(&sum, stream + AT_SUM);
}

/* In a real one every section is met as often, whatever its size. */
static size_t place(const uint8_t *stream, size_t len, const uint8_t *e, bool real)
{
	size_t where = (size_t)e[0] | (size_t)e[1] << 8 | (size_t)e[2] << 16, at = HEAD;
	uint64_t bytes = 0;

	if (!real)
		return HEAD + where % (len - HEAD);
	for (unsigned n = where % 16; at + SECTION < len; n--) {
		memcpy(&bytes, stream + at + SECTION - sizeof(bytes), sizeof(bytes));
		if (n == 0 || bytes >= len - at - SECTION)
			break;
		at += SECTION + bytes;
	}
	bytes = bytes < len - at ? bytes + SECTION : len - at;
	return at + (where / 16) % (bytes ? bytes : 1);
}

static size_t edit(uint8_t *stream, size_t len, const uint8_t *e, bool real)
{
	size_t at = place(stream, len, e, real);
	size_t from = HEAD + ((size_t)e[4] | (size_t)e[5] << 8) * 3 % (len - HEAD), n;

	switch (e[3] % 6) {
	case 0:
		stream[at] = e[4];
		break;
	case 1:
		stream[at] = (uint8_t)(stream[at] + 1 + e[4] % 4);
		break;
	case 2: /* a number of four bytes */
		for (n = 0; n < 4 && at + n < len; n++)
			stream[at + n] = n < 2 ? e[4 + n] : e[5] & 0x80 ? 0xff : 0;
		break;
	case 3: /* some of it, from elsewhere */
		for (n = 0; n < 16 && at + n < len && from + n < len; n++)
			stream[at + n] = stream[from + n];
		break;
	case 4:
		stream[at] ^= (uint8_t)(1 << e[4] % 8);
		break;
	default: /* rarely: most cuts end the same way */
		if (e[4] < 16)
			return at > HEAD ? at : len;
	}
	return len;
}

/* A little of what a guest would do. */
static void use(struct kernel *k)
{
	static const uint16_t calls[] = { SYS_poll, SYS_fstat, SYS_read, SYS_lseek, SYS_write,
		SYS_getdents64, SYS_fcntl };
	unsigned used = 0;

	kernel_lock(k);
	sandbox_resume(k);
	kernel_unlock(k);
	for (struct proc *p = k->procs; p; p = p->next) {
		struct task *t = p->tasks;

		for (unsigned fd = 0; t->files && fd < t->files->cap && used < USED_MAX; fd++) {
			struct pollfd pfd = { (int)fd, POLLIN | POLLOUT, 0 };

			if (!t->files->slots[fd].file || t->call.active || t->state == TASK_DEAD)
				continue;
			guest_write(t, GVA(FAKE_START), &pfd, sizeof(pfd));
			fake_call(t, calls[used % ARRAY_LEN(calls)],
				used % ARRAY_LEN(calls) ? fd : FAKE_START,
				used % ARRAY_LEN(calls) ? FAKE_START + 4096 : 1,
				used % ARRAY_LEN(calls) ? 512 : 0);
			used++;
		}
	}
}

static void rebuild(const struct base *b, const uint8_t *stream, size_t len)
{
	struct kernel *k = new_kernel(b->engine);
	unsigned char *again;
	struct err e = { 0 };
	size_t again_len;

	if (sandbox_rebuild(k, taken(b->stream), stream, len, &e) == 0) {
		if (sandbox_walk(k, taken(b->stream), &again, &again_len, &e) == 0)
			free(again);
		use(k);
	}
	end_kernel(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct base *b = base_stream();
	size_t len = b->len;
	uint8_t *stream;

	if (size < 1)
		return 0;
	if (data[0] == RAW) {
		stream = malloc(HEAD + size - 1);
		if (!stream)
			return 0;
		memcpy(stream, b->stream, HEAD);
		memcpy(stream + HEAD, data + 1, size - 1);
		len = HEAD + size - 1;
	} else {
		stream = malloc(len);
		if (!stream)
			return 0;
		memcpy(stream, b->stream, len);
		for (size_t i = 0; i < EDITS_MAX && 1 + (i + 1) * 6 <= size; i++)
			len = edit(stream, len, data + 1 + i * 6, b->real);
	}
	seal(stream, len);
	rebuild(b, stream, len);
	free(stream);
	return 0;
}
