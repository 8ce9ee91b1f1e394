/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/renew.c - standing still for a snapshot, and being somebody else after it.
 *
 * Owns:  the keeper's connection, and whether everybody else is frozen.
 * Rules: all processes but this one are in one cgroup, because this one lives there too when it
 *        starts them. To hold, it leaves, freezes the rest, says so, and waits: for the word to go
 *        on, or for the end of the connection, which says that this is a copy. A copy lets nobody
 *        run before it has new randomness, names and time. What the old channel had open is gone;
 *        processes live on, and whoever has the new one can take them over (adopt.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <linux/random.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "agent/agent.h"
#include "agent/state.h"
#include "base/clock.h"
#include "base/str.h"
#include "proto/keeper.h"

enum { FREEZE_MS = 5000, BOOT_ID_TEXT = KEEPER_ID_HEX + 6 };

static bool put(int fd, const char *text)
{
	return pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text);
}

static bool is_frozen(int events)
{
	char text[128];
	ssize_t n = pread(events, text, sizeof(text) - 1, 0);

	if (n < 0)
		return false;
	text[n] = '\0';
	return strstr(text, "frozen 1") != NULL;
}

/* Everybody but us stands still, or nobody does. */
static enum keeper_op freeze(struct agent *a)
{
	const struct keeper *k = a->keeper;
	uint64_t until = clock_ns() + FREEZE_MS * 1000000ull;

	if (k->freeze < 0 || !put(k->outside, "0"))
		return KEEPER_CANNOT;
	a->outside = true;
	if (!put(k->freeze, "1"))
		return KEEPER_CANNOT;
	while (!is_frozen(k->events)) {
		if (clock_ns() > until) {
			put(k->freeze, "0");
			return KEEPER_BUSY;
		}
		nanosleep(&(struct timespec){ .tv_nsec = 500000 }, NULL);
	}
	return KEEPER_HELD;
}

void keeper_enter(struct agent *a)
{
	if (a->outside && put(a->keeper->inside, "0"))
		a->outside = false;
}

/* A whole message; false: the connection is over. */
static bool receive(int fd, struct keeper_ask *ask)
{
	size_t at = 0;

	while (at < sizeof(*ask)) {
		ssize_t n = recv(fd, (uint8_t *)ask + at, sizeof(*ask) - at, 0);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		at += (size_t)n;
	}
	return true;
}

static void answer(struct agent *a, enum keeper_op op, uint32_t number)
{
	struct keeper_answer said = { .op = op, .number = number };

	send(a->keeper->link, &said, sizeof(said), MSG_NOSIGNAL);
}

/* --- A copy ----------------------------------------------------------------------------------- */

static void new_channel(struct agent *a, int fd)
{
	close(a->channel);
	a->channel = fd;
	streams_leave(a);
	frame_reader_init(&a->in);
	room_free(a->parts.mem, START_BYTES_MAX);
	a->parts = (struct parts){ .active = false };
	a->out_at = a->out_len = 0;
	a->passed_count = a->give_count = 0;
	a->closing = a->killed = a->stalled = a->starved = false;
}

static void write_line(int dir, const char *path, int flags, const char *text)
{
	int fd = openat(dir, path, O_WRONLY | O_TRUNC | O_CLOEXEC | flags, 0444);
	char line[KEEPER_ID_HEX + 16];

	if (fd < 0)
		return;
	if (str_fmt(line, sizeof(line), "%s\n", text) == 0 && write(fd, line, strlen(line)) < 0)
		errno = 0; /* no room: it keeps the old one */
	close(fd);
}

/* The kernel's own can only be covered. */
static void renew_boot_id(const struct keeper *k, const char *hex)
{
	static const char real[] = "/proc/sys/kernel/random/boot_id";
	char text[BOOT_ID_TEXT], from[64];
	struct stat covered, ours;
	int fd;

	if (str_fmt(text, sizeof(text), "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12,
		    hex + 16, hex + 20) < 0)
		return;
	write_line(k->room, "boot_id", O_CREAT, text);
	fd = openat(k->room, "boot_id", O_PATH | O_CLOEXEC);
	if (fd < 0)
		return;
	/* A copy of a copy has it covered already, by this very file. */
	if (fstat(fd, &ours) == 0 && stat(real, &covered) == 0 &&
		(ours.st_dev != covered.st_dev || ours.st_ino != covered.st_ino) &&
		str_fmt(from, sizeof(from), "/proc/self/fd/%d", fd) == 0 &&
		mount(from, real, NULL, MS_BIND, NULL) < 0)
		errno = 0; /* then it keeps the original's: docs/design/vm.md says so */
	close(fd);
}

static void renew_randomness(const uint8_t seed[KEEPER_SEED_BYTES])
{
	union {
		struct rand_pool_info head;
		uint8_t room[sizeof(struct rand_pool_info) + KEEPER_SEED_BYTES];
	} pool = { .head = { .entropy_count = 8 * KEEPER_SEED_BYTES,
			   .buf_size = KEEPER_SEED_BYTES } };
	int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	memcpy(pool.room + sizeof(pool.head), seed, KEEPER_SEED_BYTES);
	/* What it knew is still in it: whatever fails here, it is no worse than it was. */
	if (ioctl(fd, RNDADDENTROPY, &pool) == 0)
		ioctl(fd, RNDRESEEDCRNG, 0);
	close(fd);
}

static void renew(struct agent *a, struct keeper_ask *ask)
{
	struct timespec now = { (time_t)(ask->now_ns / 1000000000u),
		(long)(ask->now_ns % 1000000000u) };

	ask->machine_id[KEEPER_ID_HEX] = ask->boot_id[KEEPER_ID_HEX] = '\0';
	ask->hostname[KEEPER_NAME_MAX] = '\0';
	renew_randomness(ask->seed);
	if (ask->now_ns)
		clock_settime(CLOCK_REALTIME, &now);
	if (ask->hostname[0] && sethostname(ask->hostname, strlen(ask->hostname)) < 0)
		errno = 0;
	if (strlen(ask->machine_id) == KEEPER_ID_HEX)
		write_line(AT_FDCWD, "/etc/machine-id", 0, ask->machine_id);
	if (strlen(ask->boot_id) == KEEPER_ID_HEX)
		renew_boot_id(a->keeper, ask->boot_id);
}

/* The machine is another one now: its connections are gone, and nobody else runs yet. */
static void wake_as_copy(struct agent *a)
{
	struct keeper *k = a->keeper;
	struct keeper_ask ask;

	close(k->link);
	k->link = k->dial(KEEPER_PORT);
	if (k->link < 0 || !receive(k->link, &ask) || ask.op != KEEPER_RENEW) {
		a->dead = a->over = true;
		return;
	}
	renew(a, &ask);
	new_channel(a, k->dial(0));
	if (a->channel < 0)
		a->dead = a->over = true;
}

void keeper_serve(struct agent *a)
{
	struct keeper *k = a->keeper;
	struct keeper_ask ask;
	enum keeper_op said;
	bool held;

	if (!receive(k->link, &ask)) {
		close(k->link);
		k->link = -1; /* no snapshot any more; all else goes on */
		return;
	}
	if (ask.op != KEEPER_HOLD)
		return; /* a GO that came too late */
	said = freeze(a);
	answer(a, said, ask.number);
	if (said != KEEPER_HELD)
		return;
	/* Here a copy wakes up. */
	do
		held = receive(k->link, &ask);
	while (held && ask.op != KEEPER_GO);
	if (!held)
		wake_as_copy(a);
	put(k->freeze, "0");
}
