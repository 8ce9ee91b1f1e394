/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/serve_adopt.c - processes that a copy has from its original.
 *
 * Owns:  nothing; a process is serve_proc.c's from the moment that it is in the list.
 * Rules: one ADOPT at a time, until the agent says that there is no more. What the agent tells of a
 *        process is its own word: printable, cut, and only ever shown.
 */
#include <stdlib.h>
#include <string.h>

#include "sup/serve_impl.h"

void proc_adopt(struct serve *s)
{
	struct proto_request q = { .type = PROTO_ADOPT, .window = SUP_PROC_WINDOW };
	struct proc *p;

	q.stream = agent_number(s);
	if (!q.stream || s->running >= SUP_PROCS_MAX)
		return;
	p = calloc(1, sizeof(*p));
	if (!p)
		return;
	p->inherited = true;
	proc_add(s, p);
	if (proto_send_request(&s->conn, &q, NULL) < 0) {
		proc_free(s, p);
		return;
	}
	s->streams[q.stream] = (struct agent_stream){ .kind = AGENT_PROC, .proc = p };
	p->agent_stream = q.stream;
}

/* Its arguments as START would have given them. */
static void keep_cmdline(struct proc *p, const struct proto_process *from)
{
	uint8_t buf[FRAME_HEAD + SUP_CONFIG_MAX];
	struct msg m;

	msg_begin(&m, buf, sizeof(buf), PROTO_START, 0, 1);
	for (size_t at = 0; at < from->cmdline_len;) {
		size_t before = m.len, n = strlen(from->cmdline + at);
		char text[AGENT_CMDLINE_MAX];

		ctl_line(text, sizeof(text), from->cmdline + at);
		msg_text(&m, TAG_ARG, text);
		if (m.over) {
			m.len = before;
			break;
		}
		at += n + 1;
	}
	if (m.len == FRAME_HEAD)
		msg_text(&m, TAG_ARG, "?");
	p->config = malloc(m.len - FRAME_HEAD);
	if (!p->config)
		return;
	p->config_len = (uint32_t)(m.len - FRAME_HEAD);
	memcpy(p->config, m.buf + FRAME_HEAD, p->config_len);
}

void proc_adopted(struct serve *s, struct proc *p, const struct proto_event *ev)
{
	p->pty = ev->flags & OPENED_PTY;
	p->stdin_open = ev->flags & OPENED_STDIN;
	keep_cmdline(p, &ev->process);
	flight_note(&s->flight, "inherited", "pid %u", p->pid);
	proc_adopt(s);
}
