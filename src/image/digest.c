/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image/digest.c - digests of blobs.
 *
 * Owns:  nothing.
 * Rules: SHA-256 only; whatever else an image asks for is refused where it is parsed.
 */
#include <errno.h>
#include <unistd.h>
#include <openssl/evp.h>

#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "image/digest.h"
#include "image/stop.h"

int hash_init(struct hash *h, struct err *e)
{
	h->total = 0;
	h->ctx_ = EVP_MD_CTX_new();
	if (!h->ctx_ || EVP_DigestInit_ex(h->ctx_, EVP_sha256(), NULL) != 1) {
		hash_done(h);
		return err_say(e, ENOTSUP, "libcrypto offers no SHA-256 here");
	}
	return 0;
}

void hash_add(struct hash *h, const void *data, size_t len)
{
	EVP_DigestUpdate(h->ctx_, data, len);
	h->total += len;
}

void hash_end(struct hash *h, char out[DIGEST_TEXT])
{
	static const char hex[] = "0123456789abcdef";
	unsigned char raw[EVP_MAX_MD_SIZE] = { 0 };

	EVP_DigestFinal_ex(h->ctx_, raw, NULL);
	memcpy(out, "sha256:", 7);
	for (int i = 0; i < 32; i++) {
		out[7 + 2 * i] = hex[raw[i] >> 4];
		out[8 + 2 * i] = hex[raw[i] & 15];
	}
	out[DIGEST_TEXT - 1] = '\0';
}

void hash_done(struct hash *h)
{
	EVP_MD_CTX_free(h->ctx_);
	h->ctx_ = NULL;
}

int digest_of(const void *data, size_t len, char out[DIGEST_TEXT], struct err *e)
{
	own_hash struct hash h = { 0 };
	int r = hash_init(&h, e);

	if (r < 0)
		return r;
	hash_add(&h, data, len);
	hash_end(&h, out);
	return 0;
}

int digest_compare(const char *want, const char *got, struct err *e)
{
	if (str_eq(want, got))
		return 0;
	return err_say(
		e, EBADMSG, "its digest is %.19s... and not %.19s... as promised", got, want);
}

static int hash_file(int fd, struct hash *h, uint64_t max, struct err *e)
{
	enum { CHUNK = 256 * 1024 };
	own_mem char *chunk = malloc(CHUNK);
	ssize_t n;

	if (!chunk)
		return err_set(e, ENOMEM, "hashing");
	while (h->total <= max && (n = host_read(fd, chunk, CHUNK)) != 0) {
		int r = stop_check(e);

		if (n < 0 && n != -EINTR)
			return err_set(e, (int)-n, "reading it");
		if (r < 0)
			return r;
		if (n > 0)
			hash_add(h, chunk, (size_t)n);
	}
	return 0;
}

int digest_check_file(int fd, const char *digest, uint64_t size, struct err *e)
{
	own_hash struct hash h = { 0 };
	char got[DIGEST_TEXT];
	int r = hash_init(&h, e);

	if (r < 0)
		return r;
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, errno, "reading it");
	r = hash_file(fd, &h, size, e);
	if (r < 0)
		return r;
	if (h.total != size)
		return err_say(e, EBADMSG, "it has %s than the %llu bytes promised",
			h.total > size ? "more" : "fewer", (unsigned long long)size);
	hash_end(&h, got);
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_set(e, errno, "reading it");
	return digest_compare(digest, got, e);
}
