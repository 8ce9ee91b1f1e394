/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TESTS_KERNEL_BUSY_H
#define WARD_TESTS_KERNEL_BUSY_H

#include <fcntl.h>
#include <mqueue.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define must(what) must_(what, #what, __FILE__, __LINE__)
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

void must_(bool is, const char *what, const char *file, int line);

enum { BIG = 200000, LONG_S = 3600, KEY = 0x77, PORT = 4711 };

/* What the processes share: who is about to wait, who may go on. */
struct shared {
	uint32_t about[64];
	uint32_t word, spin;
	int32_t grandchild;
};
extern struct shared *shared;
/* What the first process has and children wait for. */
extern int pipes[64][2], fifo_end, event, listener, full_listener, pair[2], msgs, sems, locked,
	flocked, master, slave;
extern mqd_t queue;
extern pid_t waiting[64];

struct message {
	long type;
	char text[8];
};

void put(int fd, const char *s);
bool reads(int fd, const char *s);
int un_socket(const char *name, bool listens, int backlog);
void send_fd(int sock, int fd);
int recv_fd(int sock);
struct flock range(short type);
char state_of(pid_t pid); /* R, S, T or Z */

/* A child in every call that one can wait in; and each of them ends as it should. */
void start_waits(void);
void end_waits(void);

#endif
