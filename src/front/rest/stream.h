/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_REST_STREAM_H
#define WARD_FRONT_REST_STREAM_H

/* The stream of a command: messages of one byte of kind, four of length (big-endian), the bytes. */
#define REST_STREAM_TYPE "application/vnd.ward.stream"

enum {
	REST_EVENT = 0, /* JSON: {"pid"}, {"exit"} or {"error"} */
	REST_STDOUT = 1,
	REST_STDERR = 2,
};

#endif
