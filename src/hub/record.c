/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/record.c - the daemon's log and its lines in the audit log.
 *
 * Owns:  the form of both.
 * Rules: a line is one line, whatever a caller or a guest wrote; no key, token or value of a
 *        variable is ever in it.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "hub/hub_impl.h"
#include "store/audit.h"

enum { LOG_LINE_MAX = 1200 };

const char *record_text(char *out, size_t cap, const char *text)
{
	size_t n = 0;

	for (; text[n] && n + 1 < cap; n++) {
		unsigned char c = (unsigned char)text[n];

		out[n] = c < 0x20 || c == 0x7f ? '?' : (char)c;
	}
	out[n] = '\0';
	return out;
}

bool hub_logs(const struct hub *hub, enum hub_level level)
{
	return level >= hub->log_level;
}

/* Quotes inside msg="..." would end it early for whoever parses the line. */
static void tidy(char *text)
{
	char *msg = strstr(text, "msg=\"");
	size_t len;

	for (char *p = text; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = '?';
	if (!msg)
		return;
	msg += strlen("msg=\"");
	len = strlen(msg);
	for (size_t i = 0; i + 1 < len; i++)
		if (msg[i] == '"')
			msg[i] = '\'';
}

void hub_log(struct hub *hub, enum hub_level level, const char *at, const struct hub_caller *who,
	const char *id, const char *fmt, ...)
{
	static const char *const names[] = { "debug", "info", "warn", "error" };
	char line[LOG_LINE_MAX + 256], text[LOG_LINE_MAX], ts[CLOCK_TEXT];
	va_list ap;
	int n;

	if (!hub_logs(hub, level))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	tidy(text);
	clock_text(ts);
	n = snprintf(line, sizeof(line), "ts=%s lvl=%s at=%s%s%s%s%s%s%s%s%s %s\n", ts,
		names[level], at, id && *id ? " box=" : "", id && *id ? id : "",
		who ? " tenant=" : "", who ? who->tenant : "", who && who->key_id[0] ? " key=" : "",
		who && who->key_id[0] ? who->key_id : "", who && who->trace[0] ? " trace=" : "",
		who && who->trace[0] ? who->trace : "", text);
	if (n > 0 && write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* nobody reads the log: nothing to be done about it */
}

void record_audit(struct hub *hub, const struct hub_caller *who, const char *event,
	const struct sandbox *sb, const struct buf *members)
{
	struct err e = { 0 };
	struct buf b;

	buf_init(&b, AUDIT_LINE_MAX - 1024);
	if (sb)
		json_str(&b, "id", sb->id);
	if (sb && sb->tenant)
		json_str(&b, "tenant", sb->tenant->name);
	else if (who)
		json_str(&b, "tenant", who->tenant);
	if (who) {
		json_str(&b, "by",
			who->is_operator ? "operator"
			: who->is_plane  ? "sandbox-plane"
					 : "key");
		json_str(&b, "key", who->key_id[0] ? who->key_id : NULL);
		json_str(&b, "trace", who->trace[0] ? who->trace : NULL);
	}
	if (members && members->len) {
		if (b.len)
			buf_add_str(&b, ",");
		buf_add(&b, members->data, members->len);
	}
	if (b.bad || audit_append(hub->state_fd, event, &b, &e) < 0)
		hub_log(hub, HUB_ERROR, "audit.append", who, sb ? sb->id : "",
			"event=%s msg=\"%s\"", event, b.bad ? "the line is too long" : e.msg);
	hub->audit_lines++;
	buf_done(&b);
}

void hub_audit_note(struct hub *hub, const struct hub_caller *who, const char *event,
	const char *id, const struct buf *members)
{
	struct sandbox *sb = id && *id ? registry_see(hub, who, id, NULL) : NULL;

	record_audit(hub, who, event, sb, members);
}
