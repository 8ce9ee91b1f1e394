/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_WIRE_ZIP_H
#define WARD_WIRE_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * gzip, both ways, as a stream. Output goes to @put in pieces of up to 64 KiB; a negative errno
 * from it ends the stream and comes out of zip_feed().
 */
struct zip;

typedef int (*zip_put)(void *ctx, const void *data, size_t len);

/* @max: bytes that may come out, -EMSGSIZE past that: the caller decides what a bomb is. */
int zip_inflate_create(uint64_t max, zip_put put, void *ctx, struct zip **ret);
/* @level 1..9 */
int zip_deflate_create(int level, zip_put put, void *ctx, struct zip **ret);
void zip_destroy(struct zip *z);
/* 0; -EPROTO: not gzip, or broken; -EMSGSIZE; -ENOMEM; or what @put said. */
int zip_feed(struct zip *z, const void *data, size_t len);
/* Deflate: puts out what is held, so that the peer can read all that was fed. */
int zip_flush(struct zip *z);
/* The end. Inflate: -EPROTO when the input stopped in the middle. Deflate: puts the rest out. */
int zip_finish(struct zip *z);

#endif
