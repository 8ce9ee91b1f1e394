/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_CKD_H
#define WARD_BASE_CKD_H

/* The C23 names over the builtins: true means that the result did not fit. */
#define ckd_add(r, a, b) __builtin_add_overflow((a), (b), (r))
#define ckd_sub(r, a, b) __builtin_sub_overflow((a), (b), (r))
#define ckd_mul(r, a, b) __builtin_mul_overflow((a), (b), (r))

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
