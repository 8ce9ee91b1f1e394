/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_BANNED_H
#define WARD_BASE_BANNED_H

/* Functions that cannot be used safely do not compile. Included into every file by the build. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC poison strcpy strcat strncpy strncat sprintf vsprintf strtok gets atoi atol atof

#endif
