/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_ID_H
#define WARD_BASE_ID_H

#include <stdbool.h>

#include "base/limits.h"

/* A sandbox id: ID_LEN characters out of a-z and 2-7, 60 random bits. */
int id_make(char id[ID_LEN + 1]);
bool id_is_valid(const char *text);

#endif
