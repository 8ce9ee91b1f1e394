/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_HUB_KEY_H
#define WARD_HUB_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sha256.h"

/*
 * A key is "e2b_" and 40 hex digits: 160 random bits. The first KEY_ID_LEN of the digits are public
 * and name it in lists and logs; what is stored is the SHA-256 of the whole text. A hash without
 * salt and stretching is enough here: nobody guesses 128 bits.
 */
enum { KEY_HEX = 40, KEY_TEXT = 4 + KEY_HEX, KEY_ID_LEN = 8 };

/* 0 or a negative errno. */
int key_make(char ret[KEY_TEXT + 1]);
/* Has it the form of a key? Its id then is in @ret_id. */
bool key_parse(const char *text, char ret_id[KEY_ID_LEN + 1]);
void key_hash(const char *text, uint8_t ret[SHA256_BYTES]);
/* In the same time whatever differs. */
bool key_hash_eq(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES]);

/* Other random words: tokens. @len hex digits. */
int token_make(char *ret, unsigned len);

/* [a-z0-9] and inside it also "-", "_" and "."; at most HUB_TENANT_MAX. */
bool tenant_is_valid(const char *name);
/* The same letters and upper-case ones, for names of keys. */
bool key_name_is_valid(const char *name);

#endif
