/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_LIMITS_H
#define WARD_WIRE_LIMITS_H

/* What a peer may make the HTTP server hold, and for how long. */
enum {
	/* A request's head, HTTP/1.1 and HTTP/2 alike */
	WIRE_HEAD_MAX = 32 * 1024,  /* bytes: request line and headers, with their line ends */
	WIRE_TARGET_MAX = 8 * 1024, /* bytes of the request target */
	WIRE_HEADERS_MAX = 100,     /* headers of one request */
	WIRE_METHOD_MAX = 24,       /* bytes of a method */
	WIRE_HOST_MAX = 255,        /* bytes of Host, with its port */
	WIRE_BLANK_LINES_MAX = 2,   /* before a request line (RFC 9112, 2.2) */
	/* Chunked bodies */
	WIRE_CHUNK_LINE_MAX = 256,       /* bytes of a chunk's size and extensions */
	WIRE_CHUNK_SIZE_DIGITS = 15,     /* hex digits of a chunk's size */
	WIRE_TRAILER_MAX = 4 * 1024,     /* bytes of trailers, which are read and dropped */
	WIRE_CHUNK_OVERHEAD_MAX = 65536, /* bytes of chunk lines ahead of the data they announce */
	/* A reply */
	WIRE_REPLY_HEAD_MAX = 32 * 1024, /* bytes of its headers */
	WIRE_REPLY_HEADERS_MAX = 100,
	WIRE_REPLY_HIGH = 256 * 1024, /* queued bytes from which a writer is told to wait */
	WIRE_REPLY_LOW = 64 * 1024,   /* and below which it is told to go on */
	WIRE_REPLY_MAX = 32 << 20,    /* and past which the connection is cut */
	WIRE_QUEUED_MAX = 128 << 20,  /* of all replies together; past that, each */
	WIRE_QUEUED_EACH = 16 * 1024, /* may queue this much */
	/* wire_hold(): bodies that are collected, large replies, what handlers keep */
	WIRE_HOLD_MAX = 128 << 20,  /* bytes of all requests together; past that, each */
	WIRE_HOLD_EACH = 16 * 1024, /* may still hold this much */
	WIRE_HOLD_TRIM = 16 << 20,  /* after so much was held, memory is given back to the host */
	/* Connections */
	WIRE_CONNS_MAX = 8192,       /* of one server at one time */
	WIRE_ACCEPTS_PER_TURN = 64,  /* of one listener, before others get their turn */
	WIRE_READ_BYTES = 64 * 1024, /* at once; also what a paused connection holds at most */
	WIRE_TURN_BYTES = 1 << 20,   /* that one connection moves before others get their turn */
	WIRE_PIPELINE_PER_TURN = 16, /* requests of one connection, likewise */
	WIRE_REQUESTS_PER_CONN = 1000000, /* then it is asked to connect anew */
	WIRE_DISCARD_MAX = 256 * 1024,    /* of a body, dropped unread to keep its connection */
	WIRE_LINGER_BYTES = 256 << 20,    /* read and dropped behind the last reply */
	WIRE_REQ_ARENA_MAX = 256 * 1024,  /* wire_req_alloc() of one request, all together */
	/* Times, in milliseconds */
	WIRE_HEAD_MS = 15 * 1000,  /* from the first byte of a head (or a connect) to its end */
	WIRE_IDLE_MS = 75 * 1000,  /* a connection between two requests */
	WIRE_BODY_MS = 60 * 1000,  /* without a byte of a body that is waited for */
	WIRE_WRITE_MS = 60 * 1000, /* without the peer taking a byte that is queued */
	WIRE_LINGER_MS = 2 * 1000, /* for a peer to read the last reply before its socket closes, */
	WIRE_LINGER_ALL_MS = 15 * 1000, /* or, for one that is still sending, this much */
	WIRE_ACCEPT_RETRY_MS = 100,     /* after accept() failed for want of descriptors */
	/* HTTP/2 */
	WIRE_H2_STREAMS_MAX = 1024,      /* of one connection at one time */
	WIRE_H2_HELD_MAX = 4 << 20,      /* unread body bytes of one connection */
	WIRE_H2_HEADS_MAX = 4 << 20,     /* bytes of the heads of one connection's live streams, */
	WIRE_H2_HEADS_SUM = 64 << 20,    /* and of all connections'; past that, each */
	WIRE_H2_HEADS_EACH = 64 * 1024,  /* may have this much */
	WIRE_H2_QUEUED_MAX = 8 << 20,    /* of replies of one connection; past that, each stream */
	WIRE_H2_QUEUED_EACH = 16 * 1024, /* may queue this much */
	WIRE_H2_WINDOW_FIRST =
		16 * 1024,             /* body bytes of a stream whose body nobody asked for yet */
	WIRE_H2_WINDOW_BODY = 1 << 20, /* and of one that is being read */
	WIRE_H2_WINDOW_CONN = 8 << 20, /* and of a whole connection */
	WIRE_H2_RESETS_BURST = 1000,   /* streams that a peer may open and cancel, */
	WIRE_H2_RESETS_PER_S = 100,    /* and how fast the allowance comes back */
	WIRE_H2_FRAMES_BURST = 5000,   /* frames that carry no data, */
	WIRE_H2_FRAMES_PER_S = 2000,   /* and how fast the allowance comes back */
	WIRE_H2_ACKS_MAX = 200,        /* answers to PING and SETTINGS that are queued */
	WIRE_H2_SETTINGS_MAX = 32,     /* entries of one SETTINGS frame */
	/* Helpers */
	WIRE_QUERY_PAIRS_MAX = 256,       /* pairs of one query */
	WIRE_BOUNDARY_MAX = 70,           /* RFC 2046, 5.1.1 */
	WIRE_PART_HEAD_MAX = 8 * 1024,    /* headers of one part of a form */
	WIRE_PART_NAME_MAX = 4 * 1024,    /* its name, and its filename */
	WIRE_PARTS_MAX = 1024,            /* parts of one form */
	WIRE_ENVELOPE_MAX = 64 << 20,     /* the largest limit that may be set for one envelope */
	WIRE_PROXY_HELD_MAX = 256 * 1024, /* bytes for the far side that its stream did not take */
	WIRE_PROXY_HEAD_MS = 300 * 1000,  /* until the far side must have begun its answer */
};

#endif
