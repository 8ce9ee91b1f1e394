/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire/zip.c - gzip as a stream.
 *
 * Owns:  zlib's state.
 */
#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#include "wire/zip.h"

enum { PIECE = 64 * 1024, GZIP_WINDOW = 15 + 16 /* zlib's way to say gzip */, FEED_MAX = 1 << 30 };

struct zip {
	z_stream z;
	bool inflates;
	bool ended; /* inflate: between members, so the input may stop here */
	uint64_t left;
	zip_put put;
	void *ctx;
	int failed;
	unsigned char piece[PIECE];
};

static struct zip *zip_new(zip_put put, void *ctx)
{
	struct zip *z = malloc(sizeof(*z));

	if (!z)
		return NULL;
	z->z = (z_stream){ 0 };
	z->ended = false;
	z->left = UINT64_MAX;
	z->put = put;
	z->ctx = ctx;
	z->failed = 0;
	return z;
}

int zip_inflate_create(uint64_t max, zip_put put, void *ctx, struct zip **ret)
{
	struct zip *z = zip_new(put, ctx);

	if (!z || inflateInit2(&z->z, GZIP_WINDOW) != Z_OK) {
		free(z);
		return -ENOMEM;
	}
	z->inflates = true;
	z->left = max;
	*ret = z;
	return 0;
}

int zip_deflate_create(int level, zip_put put, void *ctx, struct zip **ret)
{
	struct zip *z = zip_new(put, ctx);

	if (!z || deflateInit2(&z->z, level, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) !=
			  Z_OK) {
		free(z);
		return -ENOMEM;
	}
	z->inflates = false;
	*ret = z;
	return 0;
}

void zip_destroy(struct zip *z)
{
	if (!z)
		return;
	if (z->inflates)
		inflateEnd(&z->z);
	else
		deflateEnd(&z->z);
	free(z);
}

static int put_piece(struct zip *z)
{
	size_t n = PIECE - z->z.avail_out;

	if (n > z->left)
		return -EMSGSIZE;
	z->left -= n;
	return n ? z->put(z->ctx, z->piece, n) : 0;
}

static void room(struct zip *z)
{
	z->z.next_out = z->piece;
	z->z.avail_out = PIECE;
}

static int inflate_input(struct zip *z)
{
	int r;

	do {
		int code;

		/* Members may follow each other (RFC 1952, 2.2). */
		if (z->ended && z->z.avail_in) {
			if (inflateReset(&z->z) != Z_OK)
				return -EPROTO;
			z->ended = false;
		}
		room(z);
		code = inflate(&z->z, Z_NO_FLUSH);
		if (code == Z_MEM_ERROR)
			return -ENOMEM;
		if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
			return -EPROTO;
		z->ended = code == Z_STREAM_END;
		r = put_piece(z);
	} while (r == 0 && (z->z.avail_in || (!z->z.avail_out && !z->ended)));
	return r;
}

static int deflate_input(struct zip *z, int flush)
{
	int r;

	do {
		int code;

		room(z);
		code = deflate(&z->z, flush);
		if (code == Z_STREAM_ERROR)
			return -EPROTO;
		r = put_piece(z);
	} while (r == 0 && !z->z.avail_out);
	return r;
}

int zip_feed(struct zip *z, const void *data, size_t len)
{
	if (z->failed || !len)
		return z->failed;
	if (len > FEED_MAX)
		return -EMSGSIZE;
	z->z.next_in = (unsigned char *)data;
	z->z.avail_in = (unsigned)len;
	z->failed = z->inflates ? inflate_input(z) : deflate_input(z, Z_NO_FLUSH);
	return z->failed;
}

int zip_flush(struct zip *z)
{
	if (!z->failed && !z->inflates)
		z->failed = deflate_input(z, Z_SYNC_FLUSH);
	return z->failed;
}

int zip_finish(struct zip *z)
{
	if (z->failed)
		return z->failed;
	if (z->inflates)
		return z->ended ? 0 : -EPROTO;
	z->failed = deflate_input(z, Z_FINISH);
	return z->failed;
}
