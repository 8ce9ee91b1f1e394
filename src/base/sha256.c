/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/sha256.c - SHA-256 for the lean programs.
 *
 * Owns:  nothing.
 * Rules: hashes public data only (audit lines, names); makes no constant-time promise.
 */
#include <string.h>

#include "base/sha256.h"

// clang-format off
static const uint32_t k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
// clang-format on

static uint32_t ror(uint32_t v, unsigned n)
{
	return v >> n | v << (32 - n);
}

/*
 * One round. The eight working words keep their places and the names move instead, so that they
 * stay in registers: shifting them through an array made a block ten times slower.
 */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                           \
	do {                                                                                       \
		uint32_t t_ = (h) + (ror(e, 6) ^ ror(e, 11) ^ ror(e, 25)) +                        \
			      ((g) ^ ((e) & ((f) ^ (g)))) + k[i] + w[i];                           \
		(d) += t_;                                                                         \
		(h) = t_ + (ror(a, 2) ^ ror(a, 13) ^ ror(a, 22)) +                                 \
		      (((a) & (b)) | ((c) & ((a) | (b))));                                         \
	} while (0)

static void compress(uint32_t state[8], const uint8_t *p)
{
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
	uint32_t e = state[4], f = state[5], g = state[6], h = state[7], w[64];

	for (unsigned i = 0; i < 16; i++, p += 4)
		w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	for (unsigned i = 16; i < 64; i++) {
		uint32_t x = w[i - 15], y = w[i - 2];

		w[i] = w[i - 16] + (ror(x, 7) ^ ror(x, 18) ^ x >> 3) + w[i - 7] +
		       (ror(y, 17) ^ ror(y, 19) ^ y >> 10);
	}
	for (unsigned i = 0; i < 64; i += 8) {
		ROUND(a, b, c, d, e, f, g, h, i);
		ROUND(h, a, b, c, d, e, f, g, i + 1);
		ROUND(g, h, a, b, c, d, e, f, i + 2);
		ROUND(f, g, h, a, b, c, d, e, i + 3);
		ROUND(e, f, g, h, a, b, c, d, i + 4);
		ROUND(d, e, f, g, h, a, b, c, i + 5);
		ROUND(c, d, e, f, g, h, a, b, i + 6);
		ROUND(b, c, d, e, f, g, h, a, i + 7);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
	state[5] += f;
	state[6] += g;
	state[7] += h;
}

void sha256_init(struct sha256 *s)
{
	static const uint32_t start[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
		0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	memcpy(s->h, start, sizeof(start));
	s->total = 0;
}

void sha256_add(struct sha256 *s, const void *data, size_t len)
{
	const uint8_t *p = data;
	size_t have = s->total % 64;

	s->total += len;
	while (len) {
		size_t n = 64 - have < len ? 64 - have : len;

		if (have == 0 && len >= 64) {
			compress(s->h, p);
			n = 64;
		} else {
			memcpy(s->block + have, p, n);
			have += n;
			if (have == 64) {
				compress(s->h, s->block);
				have = 0;
			}
		}
		p += n;
		len -= n;
	}
}

void sha256_end(struct sha256 *s, uint8_t out[SHA256_BYTES])
{
	static const uint8_t pad[64] = { 0x80 };
	uint64_t bits = s->total * 8;
	size_t have = s->total % 64;
	uint8_t tail[8];

	for (unsigned i = 0; i < 8; i++)
		tail[i] = (uint8_t)(bits >> (56 - 8 * i));
	sha256_add(s, pad, have < 56 ? 56 - have : 120 - have);
	sha256_add(s, tail, sizeof(tail));
	for (unsigned i = 0; i < SHA256_BYTES; i++)
		out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256_end_hex(struct sha256 *s, char out[SHA256_HEX + 1])
{
	static const char digit[] = "0123456789abcdef";
	uint8_t sum[SHA256_BYTES];

	sha256_end(s, sum);
	for (unsigned i = 0; i < SHA256_BYTES; i++) {
		out[2 * i] = digit[sum[i] >> 4];
		out[2 * i + 1] = digit[sum[i] & 15];
	}
	out[SHA256_HEX] = '\0';
}

void sha256_hex(const void *data, size_t len, char out[SHA256_HEX + 1])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, data, len);
	sha256_end_hex(&s, out);
}
