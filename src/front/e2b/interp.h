/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_INTERP_H
#define WARD_FRONT_E2B_INTERP_H

struct front;

/* Forgets every code interpreter. */
void interps_done(struct front *f);

#endif
