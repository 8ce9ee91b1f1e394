/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/control.c - the monitor's ear for ward.
 *
 * Owns:  the socket to ward.
 * Rules: in the device thread, under the machine's lock, so while a request is served no device
 *        does anything; with every CPU halted, memory and state are of one moment. Guest memory is
 *        only read. A request that makes no sense now is refused; a socket that is over is not
 *        looked at any more: ward is gone, and we with it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/own.h"
#include "base/str.h"
#include "tier/vm/control.h"
#include "tier/vm/virtio/balloon.h"
#include "tier/vm/vwalk.h"

/* An entry of pagemap. */
#define PAGE_PRESENT (1ull << 63)
#define PAGE_SWAPPED (1ull << 62)
#define PAGE_OF_FILE (1ull << 61)

enum {
	PART_PAGES = CONTROL_PART_MAX / GMEM_PAGE,
	MAP_ENTRIES = 4096,
	RUNS_MAX = 16384, /* each is a mapping of its own; a process has 65530 */
};

/* --- Messages --------------------------------------------------------------------------------- */

static int send_part(struct control *c, enum control_op op, uint64_t at, void *data, size_t len)
{
	struct control_msg head = { .op = op, .at = at, .len = (uint32_t)len };
	struct iovec iov[2] = { { &head, sizeof(head) }, { data, len } };
	struct msghdr msg = { .msg_iov = iov };
	ssize_t n;

	msg.msg_iovlen = len ? 2 : 1;
	do
		n = sendmsg(c->fd, &msg, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : 0;
}

static void finish(struct control *c, int r, const struct err *e)
{
	struct control_msg head = { .op = CONTROL_DONE, .code = -r, .at = c->given };
	struct iovec iov = { &head, sizeof(head) };
	struct msghdr msg = { .msg_iov = &iov };

	msg.msg_iovlen = 1;
	if (r < 0 && e)
		str_copy(head.text, sizeof(head.text), e->msg);
	while (sendmsg(c->fd, &msg, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

/* 1: a message, with at most one descriptor; 0: none now; negative: over. */
static int receive(struct control *c, bool wait, struct control_msg *ret, int *ret_fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { ret, sizeof(*ret) };
	struct msghdr msg = { .msg_iov = &iov, .msg_control = &control };
	const struct cmsghdr *h;
	ssize_t n;

	msg.msg_iovlen = 1;
	msg.msg_controllen = sizeof(control);
	*ret_fd = -1;
	do
		n = recvmsg(c->fd, &msg, MSG_CMSG_CLOEXEC | (wait ? 0 : MSG_DONTWAIT));
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return 0;
	if (n <= 0)
		return -EPIPE;
	h = CMSG_FIRSTHDR(&msg);
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS &&
		h->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(h), sizeof(int));
	return n == (ssize_t)sizeof(*ret) ? 1 : -EPROTO;
}

/* --- Which pages ------------------------------------------------------------------------------ */

enum choice {
	CHOOSE_ALL,   /* all that are not zeros */
	CHOOSE_DIRTY, /* those in the bitmap, zeros too */
	CHOOSE_OWN,   /* those that no file holds */
};

struct run {
	unsigned region;
	uint64_t first, count; /* pages */
};

struct gather {
	struct control *c;
	enum choice choice;
	const struct gmem_region *region;
	unsigned region_number;
	uint64_t first, count; /* the run being gathered, to be sent */
	struct run *runs;      /* CHOOSE_OWN: what was chosen */
	unsigned run_count;
	uint64_t data, hole; /* of the file under a copy: bytes [data, hole) are there */
	uint64_t entries[MAP_ENTRIES];
};

static bool is_zero(const uint8_t *page)
{
	const uint64_t *p = (const uint64_t *)(const void *)page;

	for (unsigned i = 0; i < GMEM_PAGE / sizeof(*p); i += 8)
		if (p[i] | p[i + 1] | p[i + 2] | p[i + 3] | p[i + 4] | p[i + 5] | p[i + 6] |
			p[i + 7])
			return false;
	return true;
}

/* What the kernel says of @count pages from @first on; without it, that all are there. */
static void read_entries(struct gather *g, uint64_t first, uint64_t count)
{
	uint64_t at = ((uint64_t)(uintptr_t)g->region->host / GMEM_PAGE + first) * 8;
	ssize_t n = g->c->pagemap < 0 ? -1 : pread(g->c->pagemap, g->entries, count * 8, (off_t)at);

	for (uint64_t i = n < 0 ? 0 : (uint64_t)n / 8; i < count; i++)
		g->entries[i] = PAGE_PRESENT;
}

/*
 * Page @n of memory is not here: is it in the file under it? To look at a page that is nowhere
 * would make one, in a memory file for good. Pages are asked for in order.
 */
static bool is_in_file(struct gather *g, uint64_t n)
{
	const struct control *c = g->c;
	off_t at = (off_t)(n * GMEM_PAGE), found;

	if (c->machine->mem.kind != GMEM_COPY)
		return false;
	if (c->patched && (c->patched[n / 64] >> (n % 64) & 1))
		return true;
	if (c->file < 0)
		return c->copied; /* it cannot be asked: look */
	if ((uint64_t)at >= g->hole) {
		found = lseek(c->file, at, SEEK_DATA);
		g->data = found < 0 && errno == ENXIO ? UINT64_MAX
			  : found < 0                 ? (uint64_t)at
						      : (uint64_t)found;
		found = g->data == UINT64_MAX ? -1 : lseek(c->file, (off_t)g->data, SEEK_HOLE);
		g->hole = found < 0 ? UINT64_MAX : (uint64_t)found;
	}
	return (uint64_t)at + GMEM_PAGE > g->data;
}

/* Is page @i of the region chosen? Its entry is @entry. */
static bool is_chosen(struct gather *g, uint64_t i, uint64_t entry)
{
	const struct gmem *mem = &g->c->machine->mem;
	uint64_t n = g->region->offset / GMEM_PAGE + i;
	bool here = entry & (PAGE_PRESENT | PAGE_SWAPPED);

	switch (g->choice) {
	case CHOOSE_DIRTY:
		return mem->dirty[n / 64] >> (n % 64) & 1;
	case CHOOSE_OWN:
		return (entry & PAGE_SWAPPED) ||
		       ((entry & PAGE_PRESENT) && !(entry & PAGE_OF_FILE));
	case CHOOSE_ALL:
		return (here || is_in_file(g, n)) && !is_zero(g->region->host + i * GMEM_PAGE);
	}
	return false;
}

static int flush(struct gather *g)
{
	int r = 0;

	if (g->count)
		r = send_part(g->c, CONTROL_PAGES, g->region->offset + g->first * GMEM_PAGE,
			g->region->host + g->first * GMEM_PAGE, g->count * GMEM_PAGE);
	g->count = 0;
	return r;
}

/* Adds a page to what is chosen for eviction; false: there are too many pieces. */
static bool note_run(struct gather *g, uint64_t page)
{
	struct run *last = g->run_count ? &g->runs[g->run_count - 1] : NULL;

	if (last && last->region == g->region_number && last->first + last->count == page) {
		last->count++;
		return true;
	}
	if (g->run_count == RUNS_MAX)
		return false;
	g->runs[g->run_count++] = (struct run){ g->region_number, page, 1 };
	return true;
}

static int take_page(struct gather *g, uint64_t page)
{
	int r = 0;

	if (g->choice == CHOOSE_OWN) {
		if (!note_run(g, page))
			return 0; /* it stays where it is */
		if (is_zero(g->region->host + page * GMEM_PAGE))
			return flush(g); /* a hole of the file */
	}
	if (g->count && (g->first + g->count != page || g->count == PART_PAGES))
		r = flush(g);
	if (!g->count)
		g->first = page;
	g->count++;
	return r;
}

static int send_region(struct gather *g)
{
	uint64_t pages = g->region->size / GMEM_PAGE;
	int r = 0;

	for (uint64_t at = 0; r == 0 && at < pages; at += MAP_ENTRIES) {
		uint64_t n = pages - at < MAP_ENTRIES ? pages - at : MAP_ENTRIES;

		if (g->choice != CHOOSE_DIRTY)
			read_entries(g, at, n);
		for (uint64_t i = 0; r == 0 && i < n; i++)
			if (is_chosen(g, at + i, g->entries[i]))
				r = take_page(g, at + i);
	}
	return r < 0 ? r : flush(g);
}

static int send_memory(struct gather *g, struct err *e)
{
	const struct gmem *mem = &g->c->machine->mem;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < mem->count; i++) {
		g->region = &mem->regions[i];
		g->region_number = i;
		r = send_region(g);
	}
	return r < 0 ? err_set(e, -r, "sending the machine's memory") : 0;
}

/* --- Requests --------------------------------------------------------------------------------- */

static int send_state(struct control *c, struct err *e)
{
	struct vwalk w;
	int r;

	vwalk_save(&w);
	r = machine_save(c->machine, &w, e);
	for (size_t at = 0; r == 0 && at < w.len; at += CONTROL_PART_MAX) {
		size_t n = w.len - at < CONTROL_PART_MAX ? w.len - at : CONTROL_PART_MAX;

		r = send_part(c, CONTROL_STATE, at, w.data + at, n);
		if (r < 0)
			err_set(e, -r, "sending the machine's state");
	}
	vwalk_done(&w);
	return r;
}

static int save(struct control *c, uint32_t flags, struct err *e)
{
	struct machine *m = c->machine;
	bool diff = (flags & CONTROL_DIFF) && m->logs_dirty;
	struct gather *g = calloc(1, sizeof(*g));
	int r = g ? 0 : err_set(e, ENOMEM, "writing a machine down");

	if (r == 0 && m->logs_dirty)
		r = machine_collect_dirty(m, e);
	else if (r == 0 && (flags & CONTROL_BASE))
		r = machine_log_dirty(m, e);
	if (r == 0)
		r = send_state(c, e);
	if (r == 0) {
		g->c = c;
		g->choice = diff ? CHOOSE_DIRTY : CHOOSE_ALL;
		r = send_memory(g, e);
	}
	free(g);
	return r;
}

static void saved(struct control *c)
{
	struct gmem *mem = &c->machine->mem;

	if (mem->dirty)
		memset(mem->dirty, 0, (mem->bytes / GMEM_PAGE + 63) / 64 * sizeof(*mem->dirty));
}

/* The pages that were sent are in @file now: from there they come back when they are touched. */
static int map_runs(struct control *c, const struct gather *g, int file, struct err *e)
{
	struct gmem *mem = &c->machine->mem;

	if (!c->patched)
		c->patched = calloc((mem->bytes / GMEM_PAGE + 63) / 64, sizeof(*c->patched));
	if (!c->patched)
		return err_set(e, ENOMEM, "a map of what was given back");
	/* From now on a page that is given back must not show the file's. */
	mem->kind = GMEM_COPY;
	for (unsigned i = 0; i < g->run_count; i++) {
		const struct run *r = &g->runs[i];
		const struct gmem_region *region = &mem->regions[r->region];

		if (mmap(region->host + r->first * GMEM_PAGE, r->count * GMEM_PAGE,
			    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, file,
			    (off_t)(region->offset + r->first * GMEM_PAGE)) == MAP_FAILED)
			return err_set(e, errno, "giving memory back");
		for (uint64_t k = 0; k < r->count; k++) {
			uint64_t n = region->offset / GMEM_PAGE + r->first + k;

			c->patched[n / 64] |= 1ull << (n % 64);
		}
	}
	return 0;
}

static int evict(struct control *c, struct err *e)
{
	struct gather *g = calloc(1, sizeof(*g));
	struct control_msg answer;
	own_fd int file = -1;
	int r = 0;

	if (g)
		g->runs = calloc(RUNS_MAX, sizeof(*g->runs));
	if (!g || !g->runs || c->pagemap < 0 || c->machine->mem.kind == GMEM_SHARED) {
		if (g)
			free(g->runs);
		free(g);
		return err_say(e, EOPNOTSUPP, "this machine's memory cannot be given back");
	}
	g->c = c;
	g->choice = CHOOSE_OWN;
	r = send_memory(g, e);
	if (r == 0)
		finish(c, 0, e);
	/* Nothing may be written between the sending and the mapping: so wait here. */
	if (r == 0 && (receive(c, true, &answer, &file) != 1 || answer.op != CONTROL_MAP))
		r = err_say(e, EPROTO, "ward went away while memory was given back");
	else if (r == 0 && file >= 0)
		r = map_runs(c, g, file, e);
	free(g->runs);
	free(g);
	return r;
}

void control_note_touched(struct control *c)
{
	struct gather *g = calloc(1, sizeof(*g));
	struct touched *t = calloc(1, sizeof(*t));

	for (unsigned k = 0; g && t && c->pagemap >= 0 && k < c->machine->mem.count; k++) {
		uint64_t pages = c->machine->mem.regions[k].size / GMEM_PAGE, n;

		g->c = c;
		g->region = &c->machine->mem.regions[k];
		for (uint64_t at = 0; at < pages; at += n) {
			n = pages - at < MAP_ENTRIES ? pages - at : MAP_ENTRIES;
			read_entries(g, at, n);
			for (uint64_t i = 0; i < n; i++)
				if (g->entries[i] & PAGE_PRESENT)
					touched_add(t, g->region->offset / GMEM_PAGE + at + i,
						!(g->entries[i] & PAGE_OF_FILE));
		}
	}
	free(g);
	free(c->touched);
	c->touched = t;
}

static int send_touched(struct control *c, struct err *e)
{
	const struct touched *t = c->touched;
	int r;

	if (!t || !t->count)
		return err_say(e, ENODATA, "nobody noted what the machine touched");
	r = send_part(c, CONTROL_RUNS, 0, c->touched->runs, t->count * sizeof(t->runs[0]));
	free(c->touched);
	c->touched = NULL;
	return r < 0 ? err_set(e, -r, "sending what the machine touched") : 0;
}

/* A wish; how far it is fulfilled is told with every answer. */
static int ask_balloon(struct control *c, uint64_t bytes, struct err *e)
{
	if (!c->balloon || !vdev_is_active(&c->balloon->dev))
		return err_say(e, EOPNOTSUPP, "the guest has no driver for its balloon");
	if (bytes > c->machine->mem.bytes)
		return err_say(e, EINVAL, "the guest does not have so much memory");
	if (c->balloon->target != bytes / BALLOON_PAGE)
		balloon_ask(c->balloon, bytes);
	c->given = (uint64_t)c->balloon->actual * BALLOON_PAGE;
	return 0;
}

static int need_halted(const struct control *c, struct err *e)
{
	return c->halted ? 0 : err_say(e, EBUSY, "the machine runs");
}

static void serve(struct control *c, const struct control_msg *q)
{
	struct err e = { 0 };
	int r = 0;

	c->given = 0;
	switch (q->op) {
	case CONTROL_HALT:
		r = machine_halt(c->machine, &e);
		c->halted = r == 0;
		if (r < 0 && c->machine->end == MACHINE_RUNS)
			machine_go_on(c->machine);
		break;
	case CONTROL_GO:
		c->halted = false;
		machine_go_on(c->machine);
		break;
	case CONTROL_SAVE:
		r = need_halted(c, &e);
		if (r == 0)
			r = save(c, q->flags, &e);
		break;
	case CONTROL_SAVED:
		saved(c);
		break;
	case CONTROL_BALLOON:
		r = ask_balloon(c, q->at, &e);
		break;
	case CONTROL_TOUCHED:
		r = send_touched(c, &e);
		break;
	case CONTROL_EVICT:
		r = need_halted(c, &e);
		if (r == 0)
			r = evict(c, &e);
		break;
	default:
		r = err_say(&e, EINVAL, "request %u makes no sense", q->op);
		break;
	}
	finish(c, r, &e);
}

static void on_ward(void *arg, uint32_t events)
{
	struct control *c = arg;
	struct control_msg q;
	own_fd int fd = -1;
	int r = receive(c, false, &q, &fd);

	(void)events;
	if (r > 0)
		serve(c, &q);
	else if (r < 0)
		watches_remove(&c->machine->events, &c->watch);
}

void control_open(struct control *c)
{
	*c = (struct control){ .fd = -1,
		.file = -1,
		.pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC),
		.watch = { .fd = -1, .fn = on_ward, .arg = c } };
}

int control_init(struct control *c, struct machine *m, int fd, int memory, struct err *e)
{
	c->machine = m;
	c->fd = fd;
	c->file = memory;
	c->copied = m->mem.kind == GMEM_COPY;
	return watches_add(&m->events, &c->watch, fd, EPOLLIN, e);
}

void control_done(struct control *c)
{
	watches_remove(&c->machine->events, &c->watch);
	close(c->fd);
	if (c->pagemap >= 0)
		close(c->pagemap);
	if (c->file >= 0)
		close(c->file);
	free(c->patched);
	free(c->touched);
	c->patched = NULL;
	c->touched = NULL;
	c->fd = c->pagemap = c->file = -1;
}
