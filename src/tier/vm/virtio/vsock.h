/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_VM_VIRTIO_VSOCK_H
#define WARD_TIER_VM_VIRTIO_VSOCK_H

#include "tier/vm/watches.h"
#include "tier/vm/virtio/device.h"

/*
 * Streams between the guest and this host, without the host kernel's vsock: each is a connection of
 * the guest on one side and a unix stream socket on the other.
 */
enum {
	VSOCK_HOST_CID = 2,
	VSOCK_CONNS_MAX = 256,
	VSOCK_BUFFER = 64 * 1024, /* bytes of the guest that the host has not taken yet, each */
	VSOCK_RESETS_MAX = 256,
	VSOCK_LINE_MAX = 32,            /* "CONNECT <port>\n" */
	VSOCK_HALF_OPEN_MS = 10 * 1000, /* to say where to; and for the guest to answer */
};

enum vsock_state {
	VSOCK_FREE,
	VSOCK_ASKED, /* by the host; the guest has not answered */
	VSOCK_OPEN,
	VSOCK_GREETING, /* a client of the host side has not said yet where to */
};

struct vsock;

struct vsock_conn {
	struct vsock *owner;
	enum vsock_state state;
	uint32_t host_port, guest_port;
	struct watch watch;
	int fd; /* ours */
	bool wants_read;
	bool host_ended;                  /* the host side has no more to say */
	bool guest_ended;                 /* nor has the guest */
	bool tell_response, tell_request; /* due, before any data */
	bool tell_credit, tell_shutdown, told_shutdown;
	uint32_t peer_alloc, peer_taken; /* the guest's: its room, and what it has taken of ours */
	uint32_t sent, taken;            /* ours: bytes sent to it, and of it that went on */
	uint32_t told_taken;             /* what it was told of the last one */
	uint8_t *buffer;                 /* VSOCK_BUFFER, while something waits for the host */
	uint32_t at, len;
	uint64_t since_ns;         /* GREETING, ASKED */
	char line[VSOCK_LINE_MAX]; /* GREETING */
	unsigned line_len;
};

struct vsock_reset {
	uint32_t host_port, guest_port;
};

struct vsock {
	struct vdev dev; /* first */
	uint64_t cid;
	struct watches *events;
	/* The guest wants port @port of the host: a connected stream socket, which is ours then, or
	 * a negative errno. */
	int (*dial)(void *arg, uint32_t port);
	void *dial_arg;
	int listener; /* clients that want a port of the guest; -1: none. Ours. */
	struct watch listener_watch;
	int timer; /* with a listener: for those who are half open. Ours. */
	struct watch timer_watch;
	bool timer_runs;
	uint32_t next_host_port;
	struct vsock_conn conns[VSOCK_CONNS_MAX];
	unsigned next_turn; /* where the next round of sending begins */
	struct vsock_reset resets[VSOCK_RESETS_MAX];
	unsigned reset_at, reset_count;
	struct vchain chain;
};

void vsock_init(struct vsock *s, uint64_t cid, struct watches *events,
	int (*dial)(void *arg, uint32_t port), void *arg, struct gmem *mem,
	void (*raise)(void *arg), void *raise_arg);
/* Takes @fd, a listening unix stream socket, also when it fails: a client says "CONNECT <port>\n",
 * reads "OK <port>\n", and is connected to that port of the guest. */
int vsock_listen(struct vsock *s, int fd, struct err *e);
/* Ends every connection and tells the guest that the transport was reset (after a copy). */
void vsock_drop_all(struct vsock *s, bool tell);
void vsock_done(struct vsock *s);

#endif
