/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/run.c - `ward run`: words into a request.
 *
 * Owns:  the option table.
 * Rules: every value is checked here, with one line that names the option and what it accepts;
 *        nothing is made before all of them are good. Decides nothing.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/own.h"
#include "base/byterate.h"
#include "base/parse.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "core/run.h"
#include "plan/paths.h"
#include "plan/source.h"
#include "tier/vm/cputemplate.h"

/* A request, and the memory that its strings need. */
struct run_words {
	struct run_request req;
	const char *json_path;
	char mount_text[MOUNTS_MAX][2][WARD_PATH_MAX];
	char source_text[SOURCES_MAX][WARD_PATH_MAX * 2];
	bool help;
};

typedef int option_fn(struct run_words *w, const char *value, struct err *e);

static const uint64_t size_max = 1ull << 50;

static int bad_value(const char *option, const char *value, const char *accepts, struct err *e)
{
	return err_say(e, EINVAL, "--%s '%.80s' is not accepted: give %s", option, value, accepts);
}

static int set_tier(struct run_words *w, const char *value, struct err *e)
{
	if (str_eq(value, "auto")) {
		w->req.asked = WALL_NONE;
		return 0;
	}
	if (wall_parse(value, &w->req.asked) < 0)
		return bad_value(
			"tier", value, "auto, workspace, container, kernel, vm, js or wasm", e);
	return 0;
}

static int set_memory(struct run_words *w, const char *value, struct err *e)
{
	w->req.limits.memory_asked = true;
	if (parse_size(value, 1 << 20, size_max, &w->req.limits.memory_bytes) < 0)
		return bad_value("memory", value, "a size of 1M or more, such as 512M or 2G", e);
	return 0;
}

static int set_disk(struct run_words *w, const char *value, struct err *e)
{
	w->req.limits.disk_asked = true;
	if (parse_size(value, 64 << 10, size_max, &w->req.limits.disk_bytes) < 0)
		return bad_value("disk", value, "a size of 64K or more, such as 512M or 2G", e);
	return 0;
}

static int set_io_rate(struct run_words *w, const char *value, struct err *e)
{
	if (parse_byte_rate(value, w->req.limits.io_rate) < 0)
		return bad_value("io-rate", value,
			"BYTES or BYTES:REQUESTS a second, such as 10M or 10M:500 (at least "
			"64K:10)",
			e);
	return 0;
}

static int set_net_rate(struct run_words *w, const char *value, struct err *e)
{
	if (parse_byte_rate(value, w->req.limits.net_rate) < 0)
		return bad_value("net-rate", value,
			"BYTES or BYTES:FRAMES a second, such as 10M or 10M:5000 (at least "
			"64K:10)",
			e);
	return 0;
}

static int set_boot_timeout(struct run_words *w, const char *value, struct err *e)
{
	if (parse_duration(value, 1000, 3600 * 1000, &w->req.limits.boot_ms) < 0)
		return bad_value("boot-timeout", value, "a time from 1s to 1h, such as 30s", e);
	return 0;
}

static int set_output(struct run_words *w, const char *value, struct err *e)
{
	if (parse_size(value, 1, size_max, &w->req.limits.output_bytes) < 0)
		return bad_value("output-limit", value, "a size, such as 64K or 10M", e);
	return 0;
}

static int set_cpus(struct run_words *w, const char *value, struct err *e)
{
	uint64_t milli;

	w->req.limits.cpus_asked = true;
	if (parse_milli(value, 10, 1024 * 1000, &milli) < 0)
		return bad_value("cpus", value, "a number from 0.01 to 1024, such as 0.5 or 2", e);
	w->req.limits.cpu_milli = (uint32_t)milli;
	return 0;
}

static int set_weight(struct run_words *w, const char *value, struct err *e)
{
	uint64_t weight;

	w->req.limits.cpus_asked = true;
	if (parse_u64(value, 1, 10000, &weight) < 0)
		return bad_value("cpu-weight", value, "a number from 1 to 10000 (100 is usual)", e);
	w->req.limits.cpu_weight = (uint32_t)weight;
	return 0;
}

static int set_pids(struct run_words *w, const char *value, struct err *e)
{
	uint64_t pids;

	w->req.limits.pids_asked = true;
	if (parse_u64(value, 2, 4194304, &pids) < 0)
		return bad_value(
			"pids", value, "a number from 2 to 4194304 (the agent is one of them)", e);
	w->req.limits.pids = (uint32_t)pids;
	return 0;
}

static int set_timeout(struct run_words *w, const char *value, struct err *e)
{
	if (parse_duration(value, 1, 1000ull * 86400 * 365, &w->req.limits.timeout_ms) < 0)
		return bad_value("timeout", value, "a time such as 500ms, 30s, 5m or 2h", e);
	return 0;
}

static int add_env(struct run_words *w, const char *value, struct err *e)
{
	size_t name = strcspn(value, "=");

	if (!value[name] || name == 0 || isdigit((unsigned char)value[0]))
		return bad_value("env", value,
			"NAME=VALUE, where NAME is not empty and starts with no digit", e);
	if (w->req.env_count == ENV_VARS_MAX)
		return err_say(e, E2BIG, "--env is given more than %d times", ENV_VARS_MAX);
	w->req.env[w->req.env_count++] = value;
	return 0;
}

/* A relative one is for the workspace tier: from the workspace. */
static int set_workdir(struct run_words *w, const char *value, struct err *e)
{
	char rooted[WARD_PATH_MAX];

	if (!*value ||
		str_fmt(rooted, sizeof(rooted), "%s%s", value[0] == '/' ? "" : "/", value) < 0 ||
		!path_is_clean(rooted))
		return bad_value("workdir", value,
			"an absolute path inside the sandbox, without '.' and '..'", e);
	w->req.workdir = value;
	return 0;
}

static int split_mount(const char *value, char *src, char *dst, enum mount_mode *ret_mode)
{
	static const struct {
		const char *name;
		enum mount_mode mode;
	} modes[] = { { ":ro", MOUNT_RO }, { ":rw", MOUNT_RW }, { ":overlay", MOUNT_OVERLAY } };
	size_t len = strlen(value);
	char text[2 * WARD_PATH_MAX];
	char *colon;

	if (str_copy(text, sizeof(text), value) < 0)
		return -EINVAL;
	*ret_mode = MOUNT_RO;
	for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
		size_t n = strlen(modes[i].name);

		if (len > n && str_eq(text + len - n, modes[i].name)) {
			*ret_mode = modes[i].mode;
			text[len - n] = '\0';
			break;
		}
	}
	colon = strchr(text, ':');
	if (!colon || strchr(colon + 1, ':'))
		return -EINVAL;
	*colon = '\0';
	if (!text[0] || !colon[1] || str_copy(src, WARD_PATH_MAX, text) < 0)
		return -EINVAL;
	return str_copy(dst, WARD_PATH_MAX, colon + 1);
}

static int add_mount(struct run_words *w, const char *value, struct err *e)
{
	static const char accepts[] = "SRC:DST, SRC:DST:ro, SRC:DST:rw or SRC:DST:overlay";
	unsigned n = w->req.mount_count;
	char given[WARD_PATH_MAX], *src, *dst;
	struct plan_mount *m;
	struct stat st;

	if (n == MOUNTS_MAX)
		return err_say(e, E2BIG, "--mount is given more than %d times", MOUNTS_MAX);
	m = &w->req.mounts[n];
	src = w->mount_text[n][0];
	dst = w->mount_text[n][1];
	if (split_mount(value, given, dst, &m->mode) < 0)
		return bad_value("mount", value, accepts, e);
	if (!realpath(given, src))
		return err_set(e, errno, "--mount %s: its source", value);
	if (!path_is_clean(dst) || path_is_reserved(dst))
		return err_say(e, EINVAL,
			"--mount %s: its target must be an absolute path without '.' and '..', and "
			"not /, /proc, "
			"/dev or /sys",
			value);
	if (stat(src, &st) < 0 || !(S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)))
		return err_say(
			e, EINVAL, "--mount %s: its source must be a directory or a file", value);
	if (m->mode == MOUNT_OVERLAY && !S_ISDIR(st.st_mode))
		return err_say(e, EINVAL, "--mount %s: an overlay needs a directory", value);
	m->src = src;
	m->dst = dst;
	w->req.mount_count++;
	return 0;
}

static int add_source(struct run_words *w, const char *value, struct err *e)
{
	unsigned n = w->req.source_count;
	int r;

	if (n == SOURCES_MAX)
		return err_say(e, E2BIG, "--source is given more than %d times", SOURCES_MAX);
	r = plan_source_parse(
		value, &w->req.sources[n], w->source_text[n], sizeof(w->source_text[n]), e);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < n; i++)
		if (str_eq(w->req.sources[i].name, w->req.sources[n].name))
			return err_say(e, EEXIST,
				"--source %s: another source is named '%s' already; add =NAME",
				value, w->req.sources[n].name);
	w->req.source_count++;
	return 0;
}

static int set_user(struct run_words *w, const char *value, struct err *e)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
	size_t n = strspn(value, letters);
	const char *group = value[n] == ':' ? value + n + 1 : NULL;
	uint64_t id;

	if (n == 0 || n > 64 || (value[n] && !group) ||
		(group && (!*group || group[strspn(group, letters)])))
		return bad_value("user", value, "ID, ID:GROUP, NAME or NAME:GROUP", e);
	if (value[strspn(value, "0123456789:")] == '\0' && isdigit((unsigned char)value[0])) {
		char first[80];

		snprintf(first, sizeof(first), "%.*s", (int)n, value);
		if (parse_u64(first, 0, SANDBOX_IDS - 1, &id) < 0)
			return bad_value("user", value, "an id from 0 to 65535", e);
	}
	w->req.user = value;
	return 0;
}

static int set_net(struct run_words *w, const char *value, struct err *e)
{
	if (str_eq(value, "none"))
		w->req.net = NET_NONE;
	else if (str_eq(value, "loopback"))
		w->req.net = NET_LOOPBACK;
	else if (str_eq(value, "host"))
		w->req.net = NET_HOST;
	else
		return bad_value("net", value, "none, loopback or host", e);
	return 0;
}

static int set_tap(struct run_words *w, const char *value, struct err *e)
{
	size_t n = strlen(value);

	if (n == 0 || n >= IFNAMSIZ || value[strcspn(value, "/ \t%:")])
		return bad_value("tap", value, "the name of a tap that is there", e);
	w->req.tap = value;
	return 0;
}

/* It goes to the guest as it is, so it is checked here. */
static int set_vsock(struct run_words *w, const char *value, struct err *e)
{
	if (value[0] != '/' || strlen(value) > VSOCK_PATH_MAX)
		return bad_value("vsock", value, "an absolute path of at most 107 bytes", e);
	w->req.vsock = value;
	return 0;
}

static bool is_tap_addr(const char *value)
{
	char text[64], *rest = text, *addr, *bits;
	struct in_addr a, gateway;
	uint64_t prefix;
	uint32_t mask;

	if (str_copy(text, sizeof(text), value) < 0)
		return false;
	addr = strsep(&rest, "/");
	bits = rest ? strsep(&rest, ",") : NULL;
	if (!bits || inet_pton(AF_INET, addr, &a) != 1 || parse_u64(bits, 1, 31, &prefix) < 0)
		return false;
	mask = htonl(UINT32_MAX << (32 - prefix));
	/* A gateway elsewhere could not be reached. */
	return !rest ||
	       (inet_pton(AF_INET, rest, &gateway) == 1 &&
		       (gateway.s_addr & mask) == (a.s_addr & mask) && gateway.s_addr != a.s_addr);
}

static int set_tap_addr(struct run_words *w, const char *value, struct err *e)
{
	if (!is_tap_addr(value))
		return bad_value("tap-addr", value,
			"A.B.C.D/N or A.B.C.D/N,GATEWAY, the gateway in the same network", e);
	w->req.tap_addr = value;
	return 0;
}

static int set_cpu_template(struct run_words *w, const char *value, struct err *e)
{
	enum cpu_template unused;

	if (cpu_template_find(value, &unused) < 0)
		return bad_value("cpu-template", value, "host or portable", e);
	w->req.cpu_template = value;
	return 0;
}

static int set_upper(struct run_words *w, const char *value, struct err *e)
{
	if (str_eq(value, "tmpfs"))
		w->req.upper = UPPER_TMPFS;
	else if (str_eq(value, "disk"))
		w->req.upper = UPPER_DISK;
	else if (str_eq(value, "auto"))
		w->req.upper = UPPER_AUTO;
	else
		return bad_value("upper", value, "auto, tmpfs or disk", e);
	return 0;
}

static int set_template(struct run_words *w, const char *value, struct err *e)
{
	if (!*value)
		return bad_value("template", value,
			"host, a directory, a template's name or an image reference", e);
	w->req.template_spec = value;
	return 0;
}

static int set_risk(struct run_words *w, const char *value, struct err *e)
{
	if (!value[strspn(value, " \t")])
		return bad_value("accept-risk", value, "the reason, in words", e);
	w->req.accept_risk = value;
	return 0;
}

static int set_json(struct run_words *w, const char *value, struct err *e)
{
	if (!*value)
		return bad_value("json", value, "a file, or - for standard output", e);
	w->json_path = value;
	return 0;
}

static int set_tty(struct run_words *w, const char *value, struct err *e)
{
	(void)value;
	(void)e;
	w->req.tty = true;
	return 0;
}

static int set_keep(struct run_words *w, const char *value, struct err *e)
{
	(void)value;
	(void)e;
	w->req.keep = true;
	return 0;
}

static int set_quiet(struct run_words *w, const char *value, struct err *e)
{
	(void)value;
	(void)e;
	w->req.quiet = true;
	return 0;
}

static int set_help(struct run_words *w, const char *value, struct err *e)
{
	(void)value;
	(void)e;
	w->help = true;
	return 0;
}

static const struct {
	const char *name;
	char letter; /* 0: none */
	bool flag;
	option_fn *set;
} options[] = {
	{ "tier", 0, false, set_tier },
	{ "accept-risk", 0, false, set_risk },
	{ "template", 0, false, set_template },
	{ "memory", 0, false, set_memory },
	{ "cpus", 0, false, set_cpus },
	{ "cpu-weight", 0, false, set_weight },
	{ "pids", 0, false, set_pids },
	{ "disk", 0, false, set_disk },
	{ "io-rate", 0, false, set_io_rate },
	{ "net-rate", 0, false, set_net_rate },
	{ "boot-timeout", 0, false, set_boot_timeout },
	{ "cpu-template", 0, false, set_cpu_template },
	{ "upper", 0, false, set_upper },
	{ "timeout", 0, false, set_timeout },
	{ "output-limit", 0, false, set_output },
	{ "env", 'e', false, add_env },
	{ "workdir", 'w', false, set_workdir },
	{ "mount", 'v', false, add_mount },
	{ "source", 0, false, add_source },
	{ "user", 'u', false, set_user },
	{ "net", 0, false, set_net },
	{ "tap", 0, false, set_tap },
	{ "tap-addr", 0, false, set_tap_addr },
	{ "vsock", 0, false, set_vsock },
	{ "json", 0, false, set_json },
	{ "tty", 't', true, set_tty },
	{ "keep", 0, true, set_keep },
	{ "quiet", 'q', true, set_quiet },
	{ "help", 'h', true, set_help },
};

static int find_option(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (str_eq(options[i].name, name))
			return (int)i;
	return -ENOENT;
}

static int find_letter(const char *word)
{
	for (size_t i = 0; i < ARRAY_LEN(options); i++)
		if (options[i].letter && word[1] == options[i].letter && !word[2])
			return (int)i;
	return -ENOENT;
}

/* One option; how many words after it were used, or a negative errno. */
static int read_option(struct run_words *w, const char *word, const char *next, struct err *e)
{
	bool is_long = word[1] == '-';
	const char *equals = is_long ? strchr(word, '=') : NULL;
	char name[32];
	int at, r;

	if (str_fmt(name, sizeof(name), "%.*s",
		    (int)(equals ? equals - word - 2 : (long)strlen(word) - 2), word + 2) < 0)
		name[0] = '\0';
	at = is_long ? find_option(name) : find_letter(word);
	if (at >= 0) {
		if (options[at].flag && equals)
			return err_say(e, EINVAL, "--%s takes no value", options[at].name);
		if (!options[at].flag && !equals && !next)
			return err_say(e, EINVAL, "--%s needs a value; see 'ward help run'",
				options[at].name);
		r = options[at].set(w, equals ? equals + 1 : next, e);
		return r < 0 ? r : !options[at].flag && !equals;
	}
	r = is_long && name[0] ? traits_option(&w->req.traits, name, equals ? equals + 1 : next, e)
			       : -ENOENT;
	if (r == 0 && equals)
		return err_say(e, EINVAL, "--%s takes no value", name);
	if (r >= 0)
		return equals ? 0 : r;
	if (r != -ENOENT)
		return r;
	return err_say(e, EINVAL, "'%.64s' is not an option; 'ward help run' lists them", word);
}

/* Options up to "--" or the first word that is none; the index of the command. */
static int read_words(struct run_words *w, int argc, char **argv, struct err *e)
{
	int i = 1;

	while (i < argc && argv[i][0] == '-' && argv[i][1]) {
		int r;

		if (str_eq(argv[i], "--"))
			return i + 1;
		r = read_option(w, argv[i], i + 1 < argc ? argv[i + 1] : NULL, e);
		if (r < 0)
			return r;
		i += 1 + r;
	}
	return i;
}

static int open_json(struct run_words *w, struct err *e)
{
	if (!w->json_path)
		return 0;
	if (str_eq(w->json_path, "-"))
		w->req.json_fd = dup(1);
	else
		w->req.json_fd = open(w->json_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (w->req.json_fd < 0)
		return err_set(e, errno, "--json %s", w->json_path);
	return 0;
}

int cmd_run(int argc, char **argv, const struct globals *g)
{
	own_mem struct run_words *w = calloc(1, sizeof(*w));
	struct err e = { 0 };
	int at, status;

	if (!w)
		return cmd_usage("run", "out of memory");
	w->req.json_fd = -1;
	w->req.state_dir = g->state_dir;
	at = read_words(w, argc, argv, &e);
	if (at < 0)
		return cmd_fail("run", &e);
	if (w->help) {
		fputs(cmd_help_text("run"), stdout);
		return 0;
	}
	w->req.argv = (const char *const *)argv + at;
	if (at >= argc && !w->req.template_spec)
		return cmd_usage("run", "no command: ward run [options] [--] COMMAND [ARG...]; see "
					"'ward help run'");
	if (w->req.tap_addr && !w->req.tap)
		return cmd_usage("run", "--tap-addr needs --tap, the card that has the address");
	if (w->req.limits.net_rate[0] && !w->req.tap)
		return cmd_usage("run", "--net-rate needs --tap, the card that has the rate");
	w->req.args = g->args;
	w->req.args_len = g->args_len;
	if (open_json(w, &e) < 0)
		return cmd_fail("run", &e);
	status = core_run(&w->req, &e);
	if (e.code)
		cmd_fail("run", &e);
	if (w->req.json_fd >= 0)
		close(w->req.json_fd);
	return status;
}
