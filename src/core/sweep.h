/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_CORE_SWEEP_H
#define WARD_CORE_SWEEP_H

struct slot;
struct sweep_hooks;

/* What a sweep of this build calls in the layers beside the store; whom it tells is left empty. */
void core_hooks_init(struct sweep_hooks *h);

/* Sweeps up to @max slots of wards that are gone, quietly; @own is left alone. */
void core_sweep(int state_fd, unsigned max, const struct slot *own);

#endif
