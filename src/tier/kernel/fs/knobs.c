/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/fs/knobs.c - values of /proc/sys that are kept for whoever reads them again.
 *
 * Owns:  kernel.knobs: a value per entry that was written, so never more than there are entries.
 * Rules: where a number stood, a number is written. An entry's number in a walk is its place in the
 *        table, counted through all directories.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"
#include "tier/kernel/fs/knobs.h"
#include "tier/kernel/fs/proc.h"
#include "tier/kernel/kernel.h"
#include "tier/kernel/walk.h"

enum { KNOB_TEXT_MAX = 128, KNOBS_MAX = 4096 };

struct knob {
	struct knob *next;
	const struct proc_entry *entry;
	char text[KNOB_TEXT_MAX]; /* with a newline */
};

static struct knob *find(const struct kernel *k, const struct proc_entry *e)
{
	struct knob *at = k->knobs;

	while (at && at->entry != e)
		at = at->next;
	return at;
}

const char *knob_text(const struct kernel *k, const struct proc_entry *e)
{
	const struct knob *at = find(k, e);

	return at ? at->text : e->text;
}

uint64_t knob_value(const struct kernel *k, const char *path)
{
	const struct proc_entry *list = proc_machine;
	unsigned count = proc_machine_count;

	for (;;) {
		size_t len = strcspn(path, "/");
		unsigned i = 0;

		while (i < count &&
			(strncmp(list[i].name, path, len) != 0 || list[i].name[len] != '\0'))
			i++;
		if (i == count)
			return 0;
		if (!path[len])
			return list[i].text ? strtoull(knob_text(k, &list[i]), NULL, 0) : 0;
		path += len + 1;
		count = list[i].count;
		list = list[i].entries;
	}
}

/* Numbers with blanks between them, and nothing else? */
static bool all_numbers(const char *s)
{
	unsigned n = 0;

	for (;;) {
		char *end;

		s += strspn(s, " \t\n");
		if (!*s)
			return n > 0;
		errno = 0;
		strtoll(s, &end, 0);
		if (end == s || errno || !strchr(" \t\n", *end))
			return false;
		s = end;
		n++;
	}
}

int knob_write(struct kernel *k, const struct proc_entry *e, const char *text)
{
	size_t len = strcspn(text, "\n");
	struct knob *at = find(k, e), **last = &k->knobs;

	if (len + 2 > KNOB_TEXT_MAX || (all_numbers(e->text) && !all_numbers(text)))
		return -EINVAL;
	if (!at) {
		at = calloc(1, sizeof(*at));
		if (!at)
			return -ENOMEM;
		at->entry = e;
		while (*last)
			last = &(*last)->next;
		*last = at;
	}
	str_fmt(at->text, sizeof(at->text), "%.*s\n", (int)len, text);
	return 0;
}

/* The entry at place @*n, or the place of @e: whichever comes first. */
static const struct proc_entry *count_to(
	const struct proc_entry *list, unsigned count, const struct proc_entry *e, uint32_t *n)
{
	for (unsigned i = 0; i < count; i++) {
		const struct proc_entry *found = NULL;

		if (&list[i] == e || (!e && *n == 0))
			return &list[i];
		*n += e ? 1 : (uint32_t)-1;
		if (S_ISDIR(list[i].mode) && list[i].entries)
			found = count_to(list[i].entries, list[i].count, e, n);
		if (found)
			return found;
	}
	return NULL;
}

void knobs_walk(struct kernel *k, struct walk *w)
{
	struct knob *at = k->knobs;
	uint32_t n = 0;

	for (struct knob *x = at; x; x = x->next)
		n++;
	walk_list(w, "knobs", &n, KNOBS_MAX);
	for (; n > 0 && !w->err; n--) {
		char text[KNOB_TEXT_MAX] = "";
		const struct proc_entry *e;
		uint32_t place = 0;

		if (w->mode == WALK_SAVE) {
			count_to(proc_machine, proc_machine_count, at->entry, &place);
			memcpy(text, at->text, sizeof(text));
			at = at->next;
		}
		walk_u32(w, "place", &place);
		walk_bytes(w, "text", text, sizeof(text));
		if (w->mode == WALK_SAVE || w->err)
			continue;
		text[sizeof(text) - 1] = '\0';
		e = place < KNOBS_MAX ? count_to(proc_machine, proc_machine_count, NULL, &place)
				      : NULL;
		if (!e || !e->text || !(e->mode & 0222) || knob_write(k, e, text) < 0)
			walk_fail(w, -EBADMSG);
	}
}

void knobs_done(struct kernel *k)
{
	while (k->knobs) {
		struct knob *at = k->knobs;

		k->knobs = at->next;
		free(at);
	}
}
