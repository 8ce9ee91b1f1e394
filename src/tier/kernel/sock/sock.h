/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_SOCK_SOCK_H
#define WARD_TIER_KERNEL_SOCK_SOCK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "tier/kernel/mm/copy.h"
#include "tier/kernel/task/wait.h"
#include "tier/kernel/vfs/inode.h"

/*
 * Sockets, entirely in memory: unix, and inet and inet6 over a loopback that exists only inside the
 * sandbox. Nothing here knows a host socket.
 *
 *	file --priv--> sock --peer--> sock          what is sent lies in the receiver's rx queue
 *	                |-- acceptq --> sock ...     connected, not yet accepted (no file)
 *	                '-- rx --> skb ...           bytes or messages, with descriptors on the way
 *
 * A sock lives by references: its file, its peer, an accept queue, an skb's owner. All under the
 * kernel lock.
 */
struct buf;
struct kernel;
struct task;
struct file;
struct walk;
struct sock;
struct sock_state;
struct ns;

/* A socket address as it came, or as it goes. */
struct saddr {
	uint16_t len; /* 0: none */
	union {
		sa_family_t family;
		struct sockaddr_un un;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
		uint8_t raw[128];
	};
};

struct gucred {
	int32_t pid;
	uint32_t uid, gid;
};

enum { IP_TOS_SAID = 1, IP_TTL_SAID = 2, IP_SOURCE_SAID = 4 };

/* How a datagram came here: sock/ipctl.c. */
struct ip_ctl {
	uint8_t tos, ttl;
	uint8_t said; /* IP_*_SAID: by the sender, with this message */
	struct in6_addr source, to;
	int64_t stamp_ns; /* 0: nobody had asked when it came */
};

/* What travels beside the bytes: files, and who sent them. */
struct scm {
	struct file **files; /* one reference each */
	unsigned count;
	struct gucred cred;
	bool has_cred; /* given with SCM_CREDENTIALS, or to be shown */
	struct ip_ctl ip;
};

struct skb {
	struct skb *next;
	uint32_t off, len, cap; /* @len bytes from @off on */
	struct scm scm;
	struct sock *owner; /* reference: whose send buffer it counts against; NULL: none */
	struct saddr src;
	uint8_t data[];
};

struct msg_out {
	unsigned flags;          /* MSG_* */
	const struct saddr *to;  /* NULL: none */
	struct scm *scm;         /* taken over when it was sent */
	struct wait_queue *wait; /* set with -EAGAIN: where room will be announced, beside poll */
};

struct msg_in {
	unsigned flags, out_flags;
	struct saddr from;
	struct scm scm; /* the receiver's now */
};

struct sock_ops {
	int (*bind)(struct sock *s, struct task *t, const struct saddr *a);
	/* May block (SYS_BLOCK). */
	long (*connect)(struct sock *s, struct task *t, const struct saddr *a, bool no_wait);
	int (*listen)(struct sock *s, struct task *t, int backlog);
	/* One reference; -EAGAIN: nobody there. */
	int (*accept)(struct sock *s, struct sock **ret);
	ssize_t (*send)(struct sock *s, struct task *t, struct uio *io, struct msg_out *m);
	ssize_t (*recv)(struct sock *s, struct task *t, struct uio *io, struct msg_in *m);
	int (*shutdown)(struct sock *s, int how);
	unsigned (*poll)(struct sock *s, struct poll_reg *reg);
	int (*name)(struct sock *s, struct saddr *ret, bool peer);
	void (*close)(struct sock *s); /* the file is gone */
};

enum sock_conn { SOCK_UNCONNECTED, SOCK_CONNECTING, SOCK_CONNECTED };
enum sock_urg { URG_NONE, URG_HERE, URG_TAKEN };
enum { SHUT_RCV_BIT = 1, SHUT_SEND_BIT = 2, SHUT_BOTH_BITS = 3 };
enum { SOCK_OPTS_MAX = 24, SOCK_GROUPS_MAX = 20 };

struct sock {
	unsigned refs;
	struct kernel *k;
	struct ns *net; /* reference: where it was made; NULL: the first */
	const struct sock_ops *ops;
	struct file *file; /* no reference; NULL: not accepted yet, or closed */
	int32_t family, type, protocol;
	uint32_t conn; /* enum sock_conn */
	bool listening, closed, fin_seen;
	bool conn_new, conn_failed; /* the next connect(2) tells how the last one ended */
	bool auto_port;             /* the port was chosen by us, for a connect */
	uint32_t shut;              /* SHUT_*_BIT */
	int32_t err;                /* SO_ERROR, positive */

	struct skb *rx, *rx_last;
	uint32_t rx_count;
	uint64_t rx_bytes;
	uint32_t wmem; /* bytes of ours that nobody has received */
	uint32_t sndbuf, rcvbuf;
	struct skb *cork;         /* what MSG_MORE said to hold back; UDP's port is in src */
	struct ktimer held_timer; /* TCP: for how long */
	/* TCP's urgent byte: where it stands in the stream of bytes, whether it was taken. */
	uint64_t rx_seq, urg_seq;
	uint32_t urg; /* enum sock_urg */
	uint8_t urg_byte;
	struct wait_queue wait;
	struct wait_queue space; /* senders to a full datagram queue */

	struct sock *peer; /* reference */
	struct sock *acceptq, *acceptq_last, *accept_next;
	uint32_t accept_count, backlog;
	struct sock *pending, *pend_next; /* connecting to a full queue; listener's references */
	struct sock *listener;            /* no reference: while in its queue or pending list */

	struct saddr local, remote; /* unix names; inet: always sockaddr_in6 form inside */
	struct inode *inode;        /* bound to a path: reference */
	struct sock *hash_next;     /* of names or ports */
	bool hashed;

	struct landlock *landlock; /* of who made it: reference, or NULL */
	struct gucred cred, peercred;
	bool has_peercred;
	bool passcred, reuseaddr, reuseport, broadcast, v6only, linger_on, timestamp;
	int32_t linger_s;
	int64_t rcvtimeo, sndtimeo; /* ns; 0: none */
	uint32_t bind_uid;
	struct sock_opt {
		uint16_t level, name;
		int32_t value;
	} opts[SOCK_OPTS_MAX];
	uint32_t opt_count;
	struct in6_addr *groups; /* sock/group.c: SOCK_GROUPS_MAX of them, or NULL */
	uint32_t group_count;

	void *host;   /* the channel to ward only: trap/hostfile.c */
	bool channel; /* it was that, where it was walked: whoever goes on gives it another */

	/* descriptors on the way: sock/gc.c */
	uint32_t inflight;
	int32_t gc_left;
	bool gc_candidate;
	struct sock *gc_next;
	uint32_t gc_closing; /* descriptors that are being closed: references about to go */
	struct sock *all_next, *all_prev;
};

enum { NAME_BUCKETS = 256 };
struct sock_state {
	struct sock *all;
	uint32_t count, inflight, inflight_socks;
	uint64_t bytes;                                     /* in all rx queues */
	struct sock *names[NAME_BUCKETS];                   /* abstract unix */
	struct sock *tcp[NAME_BUCKETS], *udp[NAME_BUCKETS]; /* by local port: bound, connecting */
	struct sock *udplite[NAME_BUCKETS];
	struct sock *est[NAME_BUCKETS]; /* TCP connections that a listener made */
	uint32_t next_port, next_auto;
	struct file **dying; /* files of dropped messages, closed one by one, never in recursion */
	uint32_t dying_count, dying_cap;
	bool reaping;
	struct sock *gc_work; /* while it looks: reached, to be followed */
	uint32_t gc_closes;   /* since it last looked */
	struct ktimer gc_timer;
	struct skb *spare_big, *spare_small; /* see skb_create_chunk() */
	uint32_t spare_bigs, spare_smalls;
};

/* sock.c */
struct sock_state *sock_state(struct kernel *k); /* NULL: no memory */
void sock_done(struct kernel *k);
/* One reference; NULL with *ret_err. */
struct sock *sock_create(struct kernel *k, int family, int type, int protocol, int *ret_err);
struct sock *sock_ref(struct sock *s);
void sock_unref(struct sock *s);
/* An open file for @s: takes the reference on success only. */
struct file *sock_file(struct sock *s, unsigned flags);
struct sock *sock_of(const struct file *f); /* NULL: not a socket */
/* sock/group.c: multicast. Is it an address of a group; an option of theirs; and set it. */
bool group_is(const struct in6_addr *a);
bool group_knows(const struct sock *s, int level, int name);
long group_setopt(struct sock *s, struct task *t, int level, int name, gva_t val, int32_t len);
/* Has anybody in @s' network joined @a? Does @s hear what is sent to it? */
bool group_is_joined(const struct sock *s, const struct in6_addr *a);
bool group_hears(const struct sock *s, const struct in6_addr *a);
void groups_walk(struct sock *s, struct walk *w);
/* The option of sock/opts.c' table, checked against its range. */
int sock_opt_set(struct sock *s, int level, int name, int value);

/* sock/show.c: what /proc/net says to @reader; and TCP's state as Linux numbers them. */
void socks_show_inet(const struct task *reader, int family, int type, struct buf *out);
void socks_show_unix(const struct task *reader, struct buf *out);
void socks_show_counts(const struct task *reader, struct buf *out);
unsigned sock_tcp_state(const struct sock *s);
/* A netlink socket (0, -ENOTSOCK or -EINVAL) gets @len bytes from the kernel (mq_notify). */
int netlink_is(const struct file *f);
void netlink_tell(struct file *f, const void *data, size_t len);
int sock_take_error(struct sock *s); /* -errno and cleared, or 0 */
void sock_set_peercred(struct sock *s, const struct gucred *c);
struct gucred gucred_of(const struct task *t);
/* As @t knows them. */
struct gucred gucred_out(const struct task *t, const struct gucred *c);
/* EPIPE, with its signal unless MSG_NOSIGNAL. */
int sock_broken(struct task *t, unsigned flags);
unsigned sock_poll_common(struct sock *s);
/* -EINTR or -ERESTARTSYS and friends of a wait on a socket, with SO_*TIMEO's rules. */
long sock_wait_result(struct sock *s, long r, int64_t timeo);

extern const struct file_ops socket_ops;

/* sockwalk.c: all sockets, numbered, with their own fields; then, when there are files, what they
 * have to do with each other. */
void socks_walk(struct kernel *k, struct walk *w);
void socks_link_walk(struct kernel *k, struct walk *w);
void inet_rehash(struct sock *s, bool established);
void abstract_rehash(struct sock *s);
bool inet_is_established(const struct sock *s);

/* skb.c */
enum { SKB_SMALL = 4096 - sizeof(struct skb), SKB_BIG = 65536 - sizeof(struct skb) };
struct skb *skb_create(size_t cap);
struct skb *skb_create_chunk(struct kernel *k, size_t want); /* SKB_SMALL or SKB_BIG bytes */
void skb_cache_done(struct sock_state *st);
void skb_free(struct kernel *k, struct skb *b);
void sock_queue(struct sock *to, struct skb *b);
struct skb *sock_dequeue(struct sock *s); /* NULL: empty */
void sock_purge(struct sock *s);
void scm_drop(struct kernel *k, struct scm *scm);
/* Takes references on the files; -ETOOMANYREFS. For messages that are queued. */
int scm_send(struct kernel *k, struct scm *scm);
void scm_recv(struct kernel *k, struct scm *scm); /* they are not on the way any more */
/* Gives a message's companions to the receiver: moved, or copied for MSG_PEEK. 1: there were files;
 * -ENOMEM. */
int scm_take(struct sock *s, struct skb *b, struct msg_in *m);
ssize_t dgram_recv(struct sock *s, struct task *t, struct uio *io, struct msg_in *m);

/* stream.c: what unix streams and TCP share */
ssize_t stream_send(struct sock *s, struct task *t, struct uio *io, struct msg_out *m);
ssize_t stream_recv(struct sock *s, struct task *t, struct uio *io, struct msg_in *m);
bool stream_writable(const struct sock *s);
uint64_t stream_limit(const struct sock *s);
void sock_connect_pair(struct sock *a, struct sock *b); /* takes nothing; references made */
void sock_disconnect(struct sock *s, bool reset);
int stream_shutdown(struct sock *s, int how);
unsigned stream_poll(struct sock *s, struct poll_reg *reg);
int queue_accept(struct sock *s, struct sock **ret);
void queue_embryo(struct sock *listener, struct sock *embryo); /* takes the reference */
void listener_close(struct sock *s);

/* unix.c, gc.c, inet.c, udp.c, netlink.c, opts.c, ifreq.c */
extern const struct sock_ops unix_stream_ops, unix_dgram_ops, unix_seqpacket_ops;
extern const struct sock_ops tcp_ops, udp_ops, netlink_ops;
int unix_pair(struct kernel *k, struct sock *a, struct sock *b);
void unix_gc(struct kernel *k);      /* now, whatever it takes */
void unix_gc_soon(struct kernel *k); /* something was closed */
void inet_unhash(struct sock *s);
struct sock *inet_lookup(const struct sock *asker, const struct in6_addr *addr, uint16_t port,
	const struct in6_addr *from, uint16_t from_port, bool listeners);
/* The next of all that would do (NULL: the first); NULL: there are no more. */
struct sock *inet_next(const struct sock *asker, struct sock *after, const struct in6_addr *addr,
	uint16_t port, const struct in6_addr *from, uint16_t from_port);
/* Any form of an address as in6 (v4 mapped): 0, -EAFNOSUPPORT, -EINVAL. */
int inet_addr_in(const struct sock *s, const struct saddr *a, struct in6_addr *ret, uint16_t *port);
void inet_addr_out(
	const struct sock *s, const struct in6_addr *addr, uint16_t port, struct saddr *ret);
bool inet_addr_is_ours(const struct in6_addr *a);
bool inet_addr_any(const struct in6_addr *a);
int inet_autobind(struct sock *s, struct task *t);
int inet_bind(struct sock *s, struct task *t, const struct saddr *a);
int inet_name(struct sock *s, struct saddr *ret, bool peer);
/* The address a packet to @to comes from. */
struct in6_addr inet_source(const struct sock *s, const struct in6_addr *to);

void udp_push(struct sock *s); /* what was held back goes */
/* held.c: TCP's way to hold bytes back. */
void tcp_push(struct sock *s);
int tcp_hold_on(struct sock *s); /* cork is set: from now on its time runs. 0 or -ENOMEM */
ssize_t tcp_send(struct sock *s, struct task *t, struct uio *io, struct msg_out *m);
/* @n bytes of @io into @to's queue, whatever its limits: bytes, or a negative errno. */
ssize_t stream_put(struct sock *to, struct uio *io, size_t n, struct scm *scm);
/* Urgent data of TCP: sock/urgent.c. */
void urgent_sent(struct sock *to, uint8_t byte); /* it is the last one in the queue now */
ssize_t urgent_recv(struct sock *s, struct uio *io, struct msg_in *m);
/* Bytes that a read may take before it must stop at the mark. */
uint64_t urgent_before(const struct sock *s);
/* The read is at the mark: is its byte out of the stream, to be left out? */
bool urgent_skips(const struct sock *s);
void urgent_passed(struct sock *s);
/* What an option of the table has, or would have at first. */
int sock_opt(const struct sock *s, int level, int name);
long sock_setopt(struct sock *s, struct task *t, int level, int name, gva_t val, int32_t len);
long sock_getopt(struct sock *s, struct task *t, int level, int name, gva_t val, gva_t len);
long sock_ioctl_if(struct sock *s, struct task *t, unsigned cmd, uint64_t arg);

#endif
