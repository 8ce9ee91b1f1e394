/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_FRONT_E2B_INTERP_H
#define WARD_FRONT_E2B_INTERP_H

struct front;

/* Forgets every code interpreter; their processes stay, and the next daemon finds them. */
void interps_done(struct front *f);

#endif
