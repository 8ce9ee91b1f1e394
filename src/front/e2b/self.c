/* SPDX-License-Identifier: Apache-2.0 */
/*
 * front/e2b/self.c - what a sandbox is told about itself.
 *
 * Owns:  the names of the variables and files.
 * Rules: a sandbox in which they cannot be written is still a sandbox: failures are not answered.
 */
#include <string.h>

#include "base/err.h"
#include "base/str.h"
#include "front/e2b/self.h"
#include "front/front_impl.h"
#include "sup/link.h"

static const char *const names[SELF_VARS] = { "E2B_SANDBOX", "E2B_SANDBOX_ID", "E2B_TEMPLATE_ID" };

bool self_owns(const char *name)
{
	for (unsigned i = 0; i < SELF_VARS; i++)
		if (str_eq(names[i], name))
			return true;
	return false;
}

void self_vars(struct self *s, const char *id, const char *template)
{
	const char *values[SELF_VARS] = { "true", id, template };

	for (unsigned i = 0; i < SELF_VARS; i++)
		str_fmt(s->vars[i], SELF_TEXT, "%s=%s", names[i], values[i]);
}

static void put(struct link *l, const char *name, const char *value)
{
	static const struct link_handler nobody = { 0 };
	struct link_call *call = NULL;
	struct proto_request q = {
		.type = PROTO_WRITE, .flags = FILE_PARENTS, .mode = 0644, .user = "0"
	};
	char path[64];

	if (str_fmt(path, sizeof(path), "/run/e2b/.%s", name) < 0)
		return;
	q.path = path;
	if (link_request(l, &q, &nobody, NULL, &call, NULL) < 0)
		return;
	link_send(call, value, strlen(value));
	link_send_end(call);
}

void self_write(struct front *f, const struct hub_caller *who, const struct hub_box *box)
{
	const char *values[SELF_VARS] = { "true", box->id, box->template_asked };
	struct link *l = hub_link_now(f->hub, who, box->id);

	for (unsigned i = 0; l && i < SELF_VARS; i++)
		put(l, names[i], values[i]);
}
