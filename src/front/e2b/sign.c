/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/sign.c - signed addresses of files.
 *
 * Owns:  the text that is signed.
 * Rules: pure.
 */
#include <stddef.h>
#include <string.h>

#include "base/buf.h"
#include "base/sha256.h"
#include "front/b64.h"
#include "front/e2b/sign.h"

static void add(struct sha256 *h, const char *text)
{
	sha256_add(h, text, strlen(text));
}

void sign_make(const struct sign *s, const char *token, char out[SIGN_TEXT])
{
	const char *parts[] = { s->path, ":", s->op, ":", s->user, ":", token,
		s->expires ? ":" : "", s->expires ? s->expires : "" };
	uint8_t digest[SHA256_BYTES];
	struct sha256 h;
	own_buf struct buf text = { 0 };

	sha256_init(&h);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		add(&h, parts[i]);
	sha256_end(&h, digest);
	buf_init(&text, 64);
	b64_add(&text, digest, sizeof(digest));
	memset(out, 0, SIGN_TEXT);
	if (text.bad)
		return; /* out of memory: the empty text matches nothing */
	memcpy(out, "v1_", 3);
	memcpy(out + 3, text.data, SIGN_TEXT - 4); /* 43 of 44: the padding stays behind */
}

bool sign_matches(const struct sign *s, const char *token, const char *given)
{
	char want[SIGN_TEXT];
	unsigned char differs = 0;

	sign_make(s, token, want);
	if (!want[0] || strlen(given) != SIGN_TEXT - 1)
		return false;
	for (size_t i = 0; i < SIGN_TEXT - 1; i++)
		differs |= (unsigned char)(want[i] ^ given[i]);
	return differs == 0;
}
