/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_DOWNLOAD_H
#define WARD_FRONT_E2B_DOWNLOAD_H

struct call;

/* Sends the file at @path, as call->user means it; answers everything. @path is copied. */
void download_start(struct call *c, const char *path);

#endif
