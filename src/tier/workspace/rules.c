/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/workspace/rules.c - the one list of what a command in a workspace may touch.
 *
 * Owns:  the list.
 * Rules: Landlock cannot take away below what it gives, so nothing that holds a secret may lie
 * below a path here: hence single entries of /etc, and of /etc/ssl only the public part. Where
 * there are namespaces, the private root is made from this list too.
 */
#include <errno.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/str.h"
#include "tier/workspace/ws.h"

#define RX (LL_READ | LL_EXEC)
#define RW (LL_READ | LL_WRITE)
#define ALL (LL_READ | LL_WRITE | LL_EXEC)
#define TTY (LL_READ | LL_WRITE | LL_IOCTL)

/* clang-format off */
static const struct {
	const char *path;
	unsigned may;
	enum ws_place place;
} list[] = {
	/* programs */
	{ "/usr", RX, WS_BIND }, { "/bin", RX, WS_BIND }, { "/sbin", RX, WS_BIND }, { "/opt", RX, WS_BIND },
	{ "/lib", RX, WS_BIND }, { "/lib32", RX, WS_BIND }, { "/lib64", RX, WS_BIND }, { "/libx32", RX, WS_BIND },

	/* who is who, and where */
	{ "/etc/passwd", LL_READ, WS_BIND }, { "/etc/group", LL_READ, WS_BIND },
	{ "/etc/nsswitch.conf", LL_READ, WS_BIND }, { "/etc/hosts", LL_READ, WS_BIND },
	{ "/etc/hostname", LL_READ, WS_BIND }, { "/etc/host.conf", LL_READ, WS_BIND },
	{ "/etc/resolv.conf", LL_READ, WS_BIND }, { "/etc/gai.conf", LL_READ, WS_BIND },
	{ "/etc/protocols", LL_READ, WS_BIND }, { "/etc/services", LL_READ, WS_BIND },
	{ "/etc/networks", LL_READ, WS_BIND }, { "/etc/rpc", LL_READ, WS_BIND },
	{ "/etc/os-release", LL_READ, WS_BIND }, { "/etc/debian_version", LL_READ, WS_BIND },
	{ "/etc/lsb-release", LL_READ, WS_BIND },

	/* the loader, the shell, the terminal, the language */
	{ "/etc/ld.so.cache", LL_READ, WS_BIND }, { "/etc/ld.so.conf", LL_READ, WS_BIND },
	{ "/etc/ld.so.conf.d", LL_READ, WS_BIND }, { "/etc/ld.so.preload", LL_READ, WS_BIND },
	{ "/etc/alternatives", RX, WS_BIND }, { "/etc/profile", LL_READ, WS_BIND },
	{ "/etc/profile.d", LL_READ, WS_BIND }, { "/etc/bash.bashrc", LL_READ, WS_BIND },
	{ "/etc/shells", LL_READ, WS_BIND }, { "/etc/inputrc", LL_READ, WS_BIND },
	{ "/etc/terminfo", LL_READ, WS_BIND }, { "/etc/locale.alias", LL_READ, WS_BIND },
	{ "/etc/locale.conf", LL_READ, WS_BIND }, { "/etc/default/locale", LL_READ, WS_BIND },
	{ "/etc/localtime", LL_READ, WS_BIND }, { "/etc/timezone", LL_READ, WS_BIND },

	/* certificates; never /etc/ssl/private */
	{ "/etc/ssl/certs", LL_READ, WS_BIND }, { "/etc/ssl/openssl.cnf", LL_READ, WS_BIND },
	{ "/etc/ca-certificates", LL_READ, WS_BIND }, { "/etc/ca-certificates.conf", LL_READ, WS_BIND },
	{ "/etc/pki/tls/certs", LL_READ, WS_BIND },

	/* tools */
	{ "/etc/gitconfig", LL_READ, WS_BIND }, { "/etc/gitattributes", LL_READ, WS_BIND },
	{ "/etc/mime.types", LL_READ, WS_BIND }, { "/etc/magic", LL_READ, WS_BIND },
	{ "/etc/magic.mime", LL_READ, WS_BIND }, { "/etc/python3", LL_READ, WS_BIND },
	{ "/etc/python3.9", LL_READ, WS_BIND }, { "/etc/python3.10", LL_READ, WS_BIND },
	{ "/etc/python3.11", LL_READ, WS_BIND }, { "/etc/python3.12", LL_READ, WS_BIND },
	{ "/etc/python3.13", LL_READ, WS_BIND }, { "/etc/perl", LL_READ, WS_BIND },
	{ "/etc/vim", LL_READ, WS_BIND }, { "/etc/nanorc", LL_READ, WS_BIND },
	{ "/etc/fonts", LL_READ, WS_BIND }, { "/etc/xml", LL_READ, WS_BIND }, { "/etc/sgml", LL_READ, WS_BIND },
	{ "/etc/java-17-openjdk", LL_READ, WS_BIND }, { "/etc/manpath.config", LL_READ, WS_BIND },

	/* the kernel */
	{ "/sys/devices/system/cpu", LL_READ, WS_BIND },
	{ "/proc", LL_READ, WS_PROC },
	{ "/dev/null", RW, WS_DEVICE }, { "/dev/zero", RW, WS_DEVICE }, { "/dev/full", RW, WS_DEVICE },
	{ "/dev/random", RW, WS_DEVICE }, { "/dev/urandom", RW, WS_DEVICE }, { "/dev/tty", TTY, WS_DEVICE },
	{ "/dev/pts", TTY, WS_PTS },
	{ "/dev/shm", ALL, WS_SHM },
};
/* clang-format on */

static int add(struct ws_box *b, const char *path, unsigned may, enum ws_place place,
	unsigned overlay, struct err *e)
{
	if (!path)
		return err_say(e, ENAMETOOLONG, "the workspace's paths are too long");
	if (b->rule_count == WS_RULES_MAX)
		return err_say(e, E2BIG, "more than %d paths for one workspace", WS_RULES_MAX);
	b->rules[b->rule_count++] = (struct ws_rule){ { path, may }, place, overlay };
	return 0;
}

/* Without terminals of its own, those of the user's other windows would be in reach. */
static bool is_shared(const struct ws_box *b, enum ws_place place)
{
	if (b->mode != WORKSPACE_PLAIN)
		return false;
	return place == WS_SHM || (place == WS_PTS && !b->box.plan->tty);
}

static int add_list(struct ws_box *b, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(list); i++)
		if (!is_shared(b, list[i].place))
			r = add(b, list[i].path, list[i].may | LL_IF_EXISTS, list[i].place, 0, e);
	/* In the private root it is a link into pts. */
	if (r == 0 && b->mode == WORKSPACE_PLAIN && b->box.plan->tty)
		r = add(b, "/dev/ptmx", TTY | LL_IF_EXISTS, WS_DEVICE, 0, e);
	return r;
}

int ws_mounts_check(const struct plan *plan, struct err *e)
{
	for (unsigned i = 0; i < plan->mount_count; i++) {
		const struct plan_mount *m = &plan->mounts[i];

		if (!str_eq(m->src, m->dst))
			return err_say(e, EINVAL,
				"--mount %s:%s: the workspace tier shows a path under its own name "
				"only; use --tier container",
				m->src, m->dst);
		if (m->mode == MOUNT_OVERLAY)
			return err_say(e, EINVAL,
				"--mount %s: the workspace tier has ro and rw; for a private view "
				"use --source dir:%s",
				m->src, m->src);
		if (str_eq(m->src, "/"))
			return err_say(e, EINVAL,
				"--mount /: the workspace tier shows parts of the host, not all of "
				"it");
	}
	return 0;
}

static int add_mounts(struct ws_box *b, struct err *e)
{
	const struct plan *plan = b->box.plan;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < plan->mount_count; i++)
		r = add(b, plan->mounts[i].src, plan->mounts[i].mode == MOUNT_RW ? ALL : RX,
			WS_BIND, 0, e);
	return r;
}

/* A repository of its own, and the objects that it borrows. */
static int add_private_git(struct ws_box *b, const struct workspace_source *s, struct err *e)
{
	int r = add(b, s->gitdir, ALL, WS_BIND, 0, e);

	return r < 0 ? r
		     : add(b, ws_text(&b->text, "%s/objects", s->common), LL_READ, WS_BIND, 0, e);
}

static int add_alternates(struct ws_box *b, const struct workspace_source *s, struct err *e)
{
	own_buf struct buf lines;
	int r;

	buf_init(&lines, 64 * 1024);
	r = git_alternates(s->src, s->common, &lines, e);
	for (char *line = lines.data, *next; r == 0 && line && *line; line = next) {
		next = line + strcspn(line, "\n");
		if (*next)
			*next++ = '\0';
		r = add(b, ws_text(&b->text, "%s", line), LL_READ | LL_IF_EXISTS, WS_BIND, 0, e);
	}
	return r;
}

/* In the order in which they are laid over each other: what is only read first. */
int ws_rules_make(struct ws_box *b, struct err *e)
{
	unsigned overlay = 0;
	int r = add_list(b, e);

	for (unsigned i = 0; r == 0 && i < b->rec.count; i++)
		if (b->rec.sources[i].kind == SOURCE_LINK)
			r = add(b, b->rec.sources[i].src, RX, WS_BIND, 0, e);
	if (r == 0)
		r = add_mounts(b, e);
	if (r == 0)
		r = add(b, ws_text(&b->text, "%s/work", b->dir), ALL, WS_BIND, 0, e);
	if (r == 0)
		r = add(b, ws_text(&b->text, "%s/tmp", b->dir), ALL, WS_BIND, 0, e);
	if (r == 0)
		r = add(b, ws_text(&b->text, "%s/home", b->dir), ALL, WS_BIND, 0, e);
	for (unsigned i = 0; r == 0 && i < b->rec.count; i++) {
		const struct workspace_source *s = &b->rec.sources[i];

		if (s->kind == SOURCE_GIT)
			r = add_alternates(b, s, e);
		if (r == 0 && *s->upper)
			r = add(b, s->kind == SOURCE_GIT ? s->common : s->work, ALL, WS_OVERLAY,
				overlay++, e);
		else if (r == 0 && s->kind == SOURCE_GIT)
			r = add_private_git(b, s, e);
	}
	return r;
}
