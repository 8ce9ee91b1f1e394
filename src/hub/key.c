/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/key.c - the form of keys and tokens.
 *
 * Owns:  how they are made, recognized and compared.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/str.h"
#include "hub/hub.h"
#include "hub/key.h"

static const char prefix[] = "e2b_";

int token_make(char *ret, unsigned len)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t bytes[64];

	if (len > sizeof(bytes))
		return -EINVAL;
	if (getrandom(bytes, len, 0) != (ssize_t)len)
		return -EIO;
	for (unsigned i = 0; i < len; i++)
		ret[i] = digits[bytes[i] & 15];
	ret[len] = '\0';
	return 0;
}

int key_make(char ret[KEY_TEXT + 1])
{
	memcpy(ret, prefix, sizeof(prefix));
	return token_make(ret + sizeof(prefix) - 1, KEY_HEX);
}

bool key_parse(const char *text, char ret_id[KEY_ID_LEN + 1])
{
	const char *hex = str_after(text, prefix);

	if (!hex || strnlen(hex, KEY_HEX + 1) != KEY_HEX ||
		strspn(hex, "0123456789abcdef") != KEY_HEX)
		return false;
	memcpy(ret_id, hex, KEY_ID_LEN);
	ret_id[KEY_ID_LEN] = '\0';
	return true;
}

void key_hash(const char *text, uint8_t ret[SHA256_BYTES])
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, text, strlen(text));
	sha256_end(&s, ret);
}

bool key_hash_eq(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES])
{
	unsigned diff = 0;

	for (int i = 0; i < SHA256_BYTES; i++)
		diff |= a[i] ^ b[i];
	return diff == 0;
}

static bool is_name(const char *name, bool upper)
{
	size_t len = strlen(name);

	if (len == 0 || len > HUB_TENANT_MAX)
		return false;
	for (size_t i = 0; i < len; i++) {
		char c = name[i];

		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
			(upper && c >= 'A' && c <= 'Z'))
			continue;
		if ((c == '-' || c == '_' || c == '.') && i > 0)
			continue;
		return false;
	}
	return true;
}

bool tenant_is_valid(const char *name)
{
	return is_name(name, false);
}

bool key_name_is_valid(const char *name)
{
	return is_name(name, true);
}
