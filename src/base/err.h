/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARD_BASE_ERR_H
#define WARD_BASE_ERR_H

/*
 * One error type, owned by the caller. Nothing on the heap, so nothing leaks when a second error
 * lands on a first. Both functions return a negative errno, so that failing is one line; @e may be
 * NULL.
 */
struct err {
	int code;      /* an errno value; 0 means none */
	char msg[376]; /* one line: what failed, on which thing, and what to do */
};

/* Sets @e to "<fmt>: <strerror(code)>"; returns -code. */
int err_set(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Sets @e to "<fmt>" alone, for errors that did not come from the kernel; returns -code. */
int err_say(struct err *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* Puts "<fmt>: " before the message that @e has already; returns @r. */
int err_wrap(struct err *e, int r, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* The analyzer does not look into err.c, where it would see that an error is never 0. */
#ifdef __clang_analyzer__
#define err_set(...) ((void)(err_set)(__VA_ARGS__), -1)
#define err_say(...) ((void)(err_say)(__VA_ARGS__), -1)
#define err_wrap(e, r, ...) ((void)(err_wrap)(e, r, __VA_ARGS__), -1)
#endif

#endif
