/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_TIER_KERNEL_IO_IOLIMITS_H
#define WARD_TIER_KERNEL_IO_IOLIMITS_H

/* What one sandbox may make the kernel process hold in pipes, events, sockets, terminals and ipc.
 */
enum {
	PIPE_PAGE = 4096,          /* one slot; also PIPE_BUF */
	PIPE_SLOTS = 16,           /* of a new pipe: 64 KB */
	PIPE_SLOTS_LOW = 2,        /* of a new pipe once the sandbox holds PIPE_PAGES_SOFT */
	PIPE_BYTES_MAX = 1 << 20,  /* the largest F_SETPIPE_SZ */
	PIPE_PAGES_SOFT = 16384,   /* slots of all pipes: more and new ones are small */
	PIPE_PAGES_HARD = 65536,   /* more and there are no new ones */
	EPOLL_ITEMS_MAX = 262144,  /* watched files of all epolls */
	EPOLL_DEPTH_MAX = 4,       /* epolls inside epolls, below the outermost */
	INOTIFY_QUEUE_MAX = 16384, /* events of one descriptor; then IN_Q_OVERFLOW */
	INOTIFY_INSTANCES_MAX = 1024,
	INOTIFY_WATCHES_MAX = 65536,
	FANOTIFY_QUEUE_MAX = 16384,  /* events of one descriptor; then FAN_Q_OVERFLOW */
	FANOTIFY_EVENTS_MAX = 98304, /* of all, also of those without a limit of their own */
	FANOTIFY_GROUPS_MAX = 128,
	FANOTIFY_MARKS_MAX = 65536,
	POSIX_TIMERS_MAX = 4096,   /* of one process */
	AIO_EVENTS_MAX = 65536,    /* promised to all contexts of io_setup, as aio-max-nr */
	SOCK_BUF_DEFAULT = 212992, /* SO_SNDBUF and SO_RCVBUF, as Linux reports them */
	SOCK_BUF_MIN = 4608,
	SOCK_BUF_RCV_MIN = 2304,
	SOCK_BUF_FORCED = 1 << 20, /* the same for SO_SNDBUFFORCE and SO_RCVBUFFORCE */
	SOCK_BUF_MAX = 425984,
	SOCK_OVERHEAD = 256,      /* counted with each datagram beside its bytes */
	SOCK_BACKLOG_MAX = 4096,  /* somaxconn */
	SOCK_DGRAM_QUEUE = 10,    /* unix datagrams waiting, as max_dgram_qlen */
	SOCKETS_MAX = 65536,      /* of the sandbox */
	SCM_FDS_MAX = 253,        /* descriptors in one message */
	SCM_INFLIGHT_MAX = 16384, /* descriptors in all messages of the sandbox */
	SCM_DEPTH_MAX = 4,        /* sockets inside messages inside sockets */
	SOCK_CONTROL_MAX = 20480, /* control bytes of one sendmsg, as optmem_max */
	SOCK_MMSG_MAX = 1024,     /* messages of one sendmmsg or recvmmsg */
	PTYS_MAX = 4096,
	TTY_INPUT_MAX = 4096,   /* bytes of input a terminal keeps */
	TTY_AHEAD_MAX = 8192,   /* bytes that the master wrote and that have no room there yet */
	TTY_OUTPUT_MAX = 65536, /* bytes of output that the master has not read */
	SHM_SEGMENTS_MAX = 4096,
	SHM_ATTACHED_MAX = 16384,
	SEM_SETS_MAX = 32000,
	SEM_PER_SET_MAX = 32000,
	SEM_TOTAL_MAX = 1 << 20,
	SEM_OPS_MAX = 500,
	SEM_VALUE_MAX = 32767,
	MSG_QUEUES_MAX = 32000,
	MSG_BYTES_MAX = 8192,    /* one message */
	MSG_QUEUE_BYTES = 16384, /* all of one queue */
	MQ_QUEUES_MAX = 256,
	MQ_MESSAGES_MAX = 10, /* default and, without CAP_SYS_RESOURCE, largest mq_maxmsg */
	MQ_BYTES_MAX = 8192,  /* the same for mq_msgsize */
	MQ_HARD_MESSAGES = 65536,
	MQ_HARD_BYTES = 1 << 20,
	MQ_TOTAL_BYTES = 64 << 20, /* room promised by all queues together */
	MQ_PRIO_MAX_ = 32768,
};

#endif
