/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jail/landlock.c - file-system rights that only ever shrink.
 *
 * Owns:  the table of which right belongs to which word, and which ABI brought it.
 * Rules: runs between clone and exec: no allocation, no logging. Needs no privilege.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "abi/landlock.h"
#include "base/ckd.h"
#include "base/own.h"
#include "host/host.h"
#include "jail/landlock.h"

/* clang-format off */
static const struct {
	uint64_t right;
	int abi;       /* the version that brought it */
	unsigned word; /* LL_*; 0: never given */
	bool file;     /* means something on a single file */
} rights[] = {
	{ WARD_LL_FS_EXECUTE,     1, LL_EXEC,  true },
	{ WARD_LL_FS_WRITE_FILE,  1, LL_WRITE, true },
	{ WARD_LL_FS_READ_FILE,   1, LL_READ,  true },
	{ WARD_LL_FS_READ_DIR,    1, LL_READ,  false },
	{ WARD_LL_FS_REMOVE_DIR,  1, LL_WRITE, false },
	{ WARD_LL_FS_REMOVE_FILE, 1, LL_WRITE, false },
	{ WARD_LL_FS_MAKE_CHAR,   1, 0,        false },
	{ WARD_LL_FS_MAKE_DIR,    1, LL_WRITE, false },
	{ WARD_LL_FS_MAKE_REG,    1, LL_WRITE, false },
	{ WARD_LL_FS_MAKE_SOCK,   1, LL_WRITE, false },
	{ WARD_LL_FS_MAKE_FIFO,   1, LL_WRITE, false },
	{ WARD_LL_FS_MAKE_BLOCK,  1, 0,        false },
	{ WARD_LL_FS_MAKE_SYM,    1, LL_WRITE, false },
	{ WARD_LL_FS_REFER,       2, LL_WRITE, false },
	{ WARD_LL_FS_TRUNCATE,    3, LL_WRITE, true },
	{ WARD_LL_FS_IOCTL_DEV,   5, LL_IOCTL, true },
};
/* clang-format on */

enum { ABI_NET = 4, ABI_SCOPE = 6 };

int landlock_abi(void)
{
	return host_landlock_abi();
}

unsigned landlock_keeps(int abi, unsigned flags)
{
	if (abi < ABI_NET)
		flags &= ~(unsigned)LL_NO_TCP;
	if (abi < ABI_SCOPE)
		flags &= ~(unsigned)(LL_SCOPE_ABSTRACT | LL_SCOPE_SIGNAL);
	return flags;
}

/* All rights that @abi knows and that @words stand for. */
static uint64_t rights_for(int abi, unsigned words, bool is_dir)
{
	uint64_t all = 0;

	for (size_t i = 0; i < ARRAY_LEN(rights); i++)
		if (rights[i].abi <= abi && (rights[i].word & words) && (is_dir || rights[i].file))
			all |= rights[i].right;
	return all;
}

static uint64_t rights_handled(int abi)
{
	uint64_t all = 0;

	for (size_t i = 0; i < ARRAY_LEN(rights); i++)
		if (rights[i].abi <= abi)
			all |= rights[i].right;
	return all;
}

static int add_rule(int ruleset, int abi, const struct landlock_rule *rule, struct err *e)
{
	own_fd int fd = host_open(rule->path, O_PATH, 0);
	struct stat st;
	uint64_t access;
	int r;

	if (fd == -ENOENT && (rule->may & LL_IF_EXISTS))
		return 0;
	if (fd < 0)
		return err_set(e, -fd, "Landlock: opening '%s'", rule->path);
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "Landlock: looking at '%s'", rule->path);
	access = rights_for(abi, rule->may, S_ISDIR(st.st_mode));
	if (!access) /* the kernel refuses an empty rule; it would give nothing anyway */
		return 0;
	r = host_landlock_add_path(ruleset, fd, access);
	return r < 0 ? err_set(e, -r, "Landlock: adding '%s'", rule->path) : 0;
}

static int make_ruleset(int abi, unsigned flags)
{
	struct ward_landlock_ruleset set = { .fs = rights_handled(abi) };

	flags = landlock_keeps(abi, flags);
	if (flags & LL_NO_TCP)
		set.net = WARD_LL_NET_BIND_TCP | WARD_LL_NET_CONNECT_TCP;
	if (flags & LL_SCOPE_ABSTRACT)
		set.scoped |= WARD_LL_SCOPE_ABSTRACT;
	if (flags & LL_SCOPE_SIGNAL)
		set.scoped |= WARD_LL_SCOPE_SIGNAL;
	return host_landlock_create(&set, sizeof(set));
}

int landlock_confine(
	const struct landlock_rule *rules, unsigned count, unsigned flags, struct err *e)
{
	int abi = landlock_abi();
	own_fd int ruleset = -1;
	int r;

	if (abi == -EOPNOTSUPP)
		return err_say(e, EOPNOTSUPP,
			"Landlock is switched off on this host: boot with 'landlock' in the lsm= "
			"option");
	if (abi < 0)
		return err_set(e, -abi,
			"this kernel has no Landlock (Linux 5.13 or later, "
			"CONFIG_SECURITY_LANDLOCK)");
	ruleset = make_ruleset(abi, flags);
	if (ruleset < 0)
		return err_set(e, -ruleset, "Landlock: making the rule set");
	for (unsigned i = 0; i < count; i++) {
		r = add_rule(ruleset, abi, &rules[i], e);
		if (r < 0)
			return r;
	}
	r = host_landlock_restrict(ruleset);
	if (r < 0)
		return err_set(e, -r, "Landlock: entering the rule set");
	return 0;
}
