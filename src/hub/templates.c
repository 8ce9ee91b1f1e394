/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/templates.c - which templates a request may name.
 *
 * Owns:  the rule: what ward.toml's [alias] says, `host`, and what `ward template ls` lists.
 * Rules: a request never names a path of the host, nor makes the daemon fetch an image.
 */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "hub/hub_impl.h"
#include "template/record.h"
#include "template/ref.h"
#include "template/shelf.h"

static bool is_on_shelf(const struct hub *hub, const char *name)
{
	char path[WARD_PATH_MAX], file[TEMPLATE_NAME_MAX + 1];

	return record_file_name(name, file) == 0 &&
	       str_fmt(path, sizeof(path), "%s/templates/%s/template", hub->state_dir, file) == 0 &&
	       access(path, F_OK) == 0;
}

/* In the order in which --template looks: its own name, then an image's. */
static bool find_on_shelf(const struct hub *hub, const char *name, char out[TEMPLATE_NAME_MAX + 1])
{
	struct ref ref;

	if (template_name_is_valid(name) && is_on_shelf(hub, name))
		return str_copy(out, TEMPLATE_NAME_MAX + 1, name) == 0;
	return ref_parse(name, &ref, NULL) == 0 && ref_text(&ref, out) == 0 &&
	       is_on_shelf(hub, out);
}

/* By this very name. */
static bool find_named(const struct hub *hub, const char *name, char out[TEMPLATE_NAME_MAX + 1])
{
	const char *means = config_alias(hub->config, name);

	/* An alias is the operator's own word: a directory, too. */
	if ((means != name || str_eq(name, "host")) &&
		str_copy(out, TEMPLATE_NAME_MAX + 1, means) == 0)
		return true;
	return strlen(name) <= TEMPLATE_NAME_MAX && find_on_shelf(hub, name, out);
}

/* "NAME:default": the one tag that every template has. */
static bool cut_tag(const char *name, char out[TEMPLATE_NAME_MAX + 1])
{
	static const char tag[] = ":default";
	size_t n = strlen(name);

	return n >= sizeof(tag) && str_eq(name + n - (sizeof(tag) - 1), tag) &&
	       str_fmt(out, TEMPLATE_NAME_MAX + 1, "%.*s", (int)(n - (sizeof(tag) - 1)), name) == 0;
}

int hub_template_find(struct hub *hub, const struct hub_caller *who, const char *name,
	char ret_means[TEMPLATE_NAME_MAX + 1], struct hub_fail *f)
{
	char shown[128], cut[TEMPLATE_NAME_MAX + 1];

	(void)who; /* templates are the operator's, and everybody's to use */
	if (!name)
		name = hub->config->template;
	if (find_named(hub, name, ret_means) ||
		(cut_tag(name, cut) && find_named(hub, cut, ret_means)))
		return 0;
	return hub_fail(f, HUB_NOT_FOUND, "there is no template '%s'",
		str_show(shown, sizeof(shown), name));
}

struct listing {
	struct hub *hub;
	void (*each)(void *arg, const struct hub_template *t);
	void *arg;
};

static void put(struct listing *l, const char *name, const char *means, int64_t created_us)
{
	struct hub_template t = { .name = name, .means = means, .created_us = created_us };
	struct config_sandbox says;
	struct quota_use use;
	const char *by;

	config_for(l->hub->config, means, &says, &by);
	t.tier = l->hub->tier != WALL_NONE ? l->hub->tier : says.tier;
	tenant_want(l->hub, &says.limits, &use);
	t.memory_bytes = (uint64_t)use.memory_bytes;
	t.disk_bytes = says.limits.disk_bytes ? says.limits.disk_bytes : t.memory_bytes / 2;
	t.cpu_count = (uint64_t)(use.cpu_milli + 999) / 1000;
	l->each(l->arg, &t);
}

static int put_record(const char *name, void *data)
{
	struct listing *l = data;
	own_record struct record *rec = NULL;
	int64_t created = 0;

	if (template_record_load(l->hub->state_dir, name, &rec, NULL, NULL) == 0 && rec->created &&
		clock_parse(rec->created, &created) < 0)
		created = 0;
	if (rec)
		put(l, name, name, created);
	return 0;
}

void hub_templates(struct hub *hub, const struct hub_caller *who,
	void (*each)(void *arg, const struct hub_template *t), void *arg)
{
	struct listing l = { hub, each, arg };
	struct err e = { 0 };
	struct shelf shelf;

	(void)who;
	put(&l, "host", "host", 0);
	for (unsigned i = 0; i < hub->config->alias_count; i++)
		put(&l, hub->config->aliases[i].from, hub->config->aliases[i].to, 0);
	if (shelf_open(hub->state_dir, false, &shelf, &e) < 0)
		return;
	if (shelf_each(&shelf, put_record, &l, &e) < 0)
		hub_log(hub, HUB_WARN, "template.list", who, "", "msg=\"%s\"", e.msg);
	shelf_done(&shelf);
}
