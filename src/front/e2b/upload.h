/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_UPLOAD_H
#define WARD_FRONT_E2B_UPLOAD_H

struct call;

/* Stores the body at @path (good until the end of the request; NULL: where its parts say). */
void upload_start(struct call *c, const char *path);

#endif
