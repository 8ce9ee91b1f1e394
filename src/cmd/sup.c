/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/sup.c - `ward sup`: the supervisor of one sandbox. Started by the daemon, not by people.
 *
 * Owns:  nothing.
 * Rules: the request comes at descriptor 3, the first connection at 4; what else was open is
 *        closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "base/id.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "core/supervise.h"
#include "sup/serve.h"

int cmd_sup(int argc, char **argv, const struct globals *g)
{
	struct supervise in = {
		.state_dir = g->state_dir,
		.request_fd = SUP_FD_REQUEST,
		.link_fd = SUP_FD_LINK,
		.args = g->args,
		.args_len = g->args_len,
	};
	struct err e = { 0 };
	int status;

	if (argc == 2 && (str_eq(argv[1], "--help") || str_eq(argv[1], "-h"))) {
		fputs(cmd_help_text("sup"), stdout);
		return 0;
	}
	if (argc == 4 && str_eq(argv[1], "--ahead")) {
		if (wall_parse(argv[2], &in.ahead) < 0)
			return cmd_usage("sup", "there is no tier '%s'", argv[2]);
		argv += 2;
		argc -= 2;
	}
	if (argc != 2 || !id_is_valid(argv[1]))
		return cmd_usage("sup", "it is started by 'ward serve', with the id of a sandbox");
	if (fcntl(SUP_FD_REQUEST, F_SETFD, FD_CLOEXEC) < 0)
		return cmd_usage("sup",
			"there is no request at descriptor %d: 'ward serve' starts "
			"this command",
			SUP_FD_REQUEST);
	/* One that waits gets it with its request. */
	if (in.ahead == WALL_NONE && fcntl(SUP_FD_LINK, F_SETFD, FD_CLOEXEC) < 0)
		in.link_fd = -1;
	/* Whether the three after it are meant is for the request to say. */
	syscall(SYS_close_range, SUP_FD_FROM + 3, ~0U, 0);
	in.id = argv[1];
	/* Its folder may be unmounted or removed; nothing here is relative to it. */
	if (chdir("/") < 0)
		return cmd_usage("sup", "entering /");
	status = core_supervise(&in, &e);
	if (e.code)
		cmd_fail("sup", &e);
	return status;
}
