/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy/traits.c - the trait options, once for every command that takes them.
 *
 * Owns:  the table of trait options.
 * Rules: value names are part of the command line and of stored records; never rename one.
 */
#include <errno.h>
#include <stddef.h>

#include "base/str.h"
#include "policy/traits.h"

/* clang-format off */
static const struct trait_option options[TRAIT_COUNT] = {
	[TRAIT_CODE] = { "code",
		{ NULL, "none", "trusted", "generated", "plugin" },
		"none, trusted, generated or plugin",
		"who wrote what runs: nobody (text only), people you trust, a model, or a third "
		"party for an interface of yours" },
	[TRAIT_TENANTS] = { "tenants",
		{ NULL, "one", "many" },
		"one or many",
		"whether tenants who do not trust each other share this host" },
	[TRAIT_DATA] = { "data",
		{ NULL, "public", "sensitive" },
		"public or sensitive",
		"what the run touches: sensitive is finance, health, personal data" },
	[TRAIT_LOAD] = { "load",
		{ NULL, "compute", "io" },
		"compute or io",
		"what the run mostly does; a matter of speed, never of safety" },
	[TRAIT_GPU] = { "gpu", { NULL }, NULL, "the run needs a GPU" },
	[TRAIT_KUBERNETES] = { "kubernetes", { NULL }, NULL, "Kubernetes places the run" },
	[TRAIT_FAST_START] = { "fast-start", { NULL }, NULL, "it must start in less than 10 ms" },
	[TRAIT_COMPLIANCE] = { "compliance", { NULL }, NULL, "somebody audits the isolation" },
	[TRAIT_BROWSER] = { "browser", { NULL }, NULL, "it is the browser-side part of an agent" },
};

static const size_t places[TRAIT_COUNT] = {
	[TRAIT_CODE] = offsetof(struct traits, code),
	[TRAIT_TENANTS] = offsetof(struct traits, tenants),
	[TRAIT_DATA] = offsetof(struct traits, data),
	[TRAIT_LOAD] = offsetof(struct traits, load),
	[TRAIT_GPU] = offsetof(struct traits, gpu),
	[TRAIT_KUBERNETES] = offsetof(struct traits, kubernetes),
	[TRAIT_FAST_START] = offsetof(struct traits, fast_start),
	[TRAIT_COMPLIANCE] = offsetof(struct traits, compliance),
	[TRAIT_BROWSER] = offsetof(struct traits, browser),
};
/* clang-format on */

const struct trait_option *trait_option(enum trait id)
{
	return &options[id];
}

uint8_t trait_get(const struct traits *t, enum trait id)
{
	return ((const uint8_t *)t)[places[id]];
}

static void trait_set(struct traits *t, enum trait id, uint8_t value)
{
	((uint8_t *)t)[places[id]] = value;
}

const char *trait_text(const struct traits *t, enum trait id)
{
	uint8_t v = trait_get(t, id);

	if (!options[id].accepts)
		return v ? "yes" : "no";
	return v && v < TRAIT_VALUES_MAX && options[id].values[v] ? options[id].values[v] : "unset";
}

static int set_value(struct traits *t, enum trait id, const char *value, struct err *e)
{
	const struct trait_option *o = &options[id];

	if (!value)
		return err_say(e, EINVAL, "--%s needs a value: %s", o->name, o->accepts);
	for (uint8_t v = 1; v < TRAIT_VALUES_MAX && o->values[v]; v++) {
		if (!str_eq(value, o->values[v]))
			continue;
		/* The last one winning would let a careless wrapper undo a caution. */
		if (trait_get(t, id) && trait_get(t, id) != v)
			return err_say(e, EINVAL, "--%s is given as %s and as %s: say one", o->name,
				trait_text(t, id), value);
		trait_set(t, id, v);
		return 1;
	}
	return err_say(e, EINVAL, "--%s '%.64s' is not known: give %s", o->name, value, o->accepts);
}

int traits_option(struct traits *t, const char *name, const char *value, struct err *e)
{
	const char *bare = str_after(name, "--");

	if (!bare)
		bare = name;
	for (int i = 0; i < TRAIT_COUNT; i++) {
		enum trait id = (enum trait)i;

		if (!str_eq(bare, options[i].name))
			continue;
		if (options[i].accepts)
			return set_value(t, id, value, e);
		trait_set(t, id, 1);
		return 0;
	}
	return -ENOENT;
}

bool traits_any_set(const struct traits *t)
{
	for (int i = 0; i < TRAIT_COUNT; i++)
		if (trait_get(t, (enum trait)i))
			return true;
	return false;
}

void traits_fill(struct traits *t)
{
	if (t->code == CODE_UNSET)
		t->code = CODE_GENERATED;
	if (t->tenants == TENANTS_UNSET)
		t->tenants = TENANTS_ONE;
	if (t->data == DATA_UNSET)
		t->data = DATA_PUBLIC;
}
