/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sup/request.c - the request for a sandbox, to bytes and back.
 *
 * Owns:  the order and meaning of its fields.
 * Rules: both ways pass the same checks, so that what was encoded can be decoded, and a decoder
 *        that is given anything else says which field. Decoding works on a private copy: the memfd
 *        is sealed, but only its maker knows that.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/id.h"
#include "base/own.h"
#include "base/str.h"
#include "host/host.h"
#include "plan/paths.h"
#include "proto/le.h"
#include "sup/ctl.h"
#include "sup/request.h"

enum {
	REQUEST_VERSION = 1,
	FIELD_HEAD = 6,
	LINE_MAX_BYTES = 512, /* of texts that end up in the audit log */
	HOSTNAME_MAX = 64,
	USER_MAX = 160,
};

/* What limits.xxx_asked are on the wire. */
enum { ASKED_MEMORY = 1, ASKED_DISK = 2, ASKED_PIDS = 4, ASKED_CPUS = 8 };

static bool is_line(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return false;
	return true;
}

static int check_text(const char *what, const char *s, size_t max, struct err *e)
{
	if (!s)
		return 0;
	if (!*s || strlen(s) > max)
		return err_say(e, EINVAL, "%s must have 1 to %zu bytes", what, max);
	return is_line(s) ? 0 : err_say(e, EINVAL, "%s has control characters", what);
}

static int check_mounts(const struct sup_request *q, struct err *e)
{
	if (q->mount_count > MOUNTS_MAX)
		return err_say(e, E2BIG, "more than %d mounts", MOUNTS_MAX);
	for (unsigned i = 0; i < q->mount_count; i++) {
		const struct plan_mount *m = &q->mounts[i];

		if (!m->src || !m->dst || !path_is_clean(m->src) || !path_is_clean(m->dst) ||
			path_is_reserved(m->dst) || m->mode > MOUNT_OVERLAY)
			return err_say(e, EINVAL,
				"mount %u: source and target must be absolute paths without '.' "
				"and '..', the target none of /, /proc, /dev and /sys",
				i + 1);
	}
	return 0;
}

static int check_env(const char *const *env, struct err *e)
{
	unsigned n = 0;

	for (; env && env[n]; n++) {
		size_t name = strcspn(env[n], "=");

		if (!name || !env[n][name] || n == ENV_VARS_MAX)
			return err_say(e, n == ENV_VARS_MAX ? E2BIG : EINVAL,
				"environment: at most %d variables, each NAME=VALUE", ENV_VARS_MAX);
	}
	return 0;
}

int sup_limits_check(const struct plan_limits *l, struct err *e)
{
	const uint64_t most = 1ull << 50;

	if (l->memory_bytes > most || (l->memory_bytes && l->memory_bytes < 1 << 20) ||
		l->disk_bytes > most || l->output_bytes > most)
		return err_say(e, EINVAL, "a limit of memory is 1M or more, of bytes at most 1P");
	if ((l->pids && l->pids < 2) || l->pids > 4194304 || l->cpu_milli > 1024 * 1000 ||
		(l->cpu_milli && l->cpu_milli < 10) || l->cpu_weight > 10000)
		return err_say(e, EINVAL,
			"limits: 2 to 4194304 processes, 0.01 to 1024 CPUs, a weight up to 10000");
	return 0;
}

static bool traits_are_known(const struct traits *t)
{
	for (int i = 0; i < TRAIT_COUNT; i++) {
		const struct trait_option *o = trait_option((enum trait)i);
		uint8_t v = trait_get(t, (enum trait)i);

		if (v && (o->accepts ? v >= TRAIT_VALUES_MAX || !o->values[v] : v > 1))
			return false;
	}
	return true;
}

static int check(const struct sup_request *q, struct err *e)
{
	const struct {
		const char *what, *text;
		size_t max;
	} texts[] = {
		{ "asked-by", q->asked_by, LINE_MAX_BYTES },
		{ "the accepted risk", q->accept_risk, LINE_MAX_BYTES },
		{ "caller", q->caller, LINE_MAX_BYTES },
		{ "trace", q->trace, LINE_MAX_BYTES },
		{ "template", q->template_spec, WARD_PATH_MAX - 1 },
		{ "user", q->user, USER_MAX },
		{ "hostname", q->hostname, HOSTNAME_MAX },
	};
	int r = 0;

	if (!id_is_valid(q->id))
		return err_say(e, EINVAL, "the id is not one of id_make()");
	for (size_t i = 0; r == 0 && i < ARRAY_LEN(texts); i++)
		r = check_text(texts[i].what, texts[i].text, texts[i].max, e);
	if (r == 0 && q->workdir && !path_is_clean(q->workdir))
		r = err_say(e, EINVAL, "workdir must be absolute, without '.' and '..'");
	if (r == 0 && (q->asked >= WALL_COUNT || !traits_are_known(&q->traits)))
		r = err_say(e, EINVAL, "a tier or trait that does not exist");
	if (r == 0 &&
		(q->net > NET_HOST || q->upper > UPPER_DISK || q->deadline_action > SUP_PAUSE ||
			(q->deadline_ms && !q->deadline_action)))
		r = err_say(e, EINVAL, "network, upper or deadline");
	if (r == 0)
		r = sup_limits_check(&q->limits, e);
	if (r == 0)
		r = check_mounts(q, e);
	return r < 0 ? r : check_env(q->env, e);
}

/* --- To bytes --------------------------------------------------------------------------------- */

static size_t size_of(const struct sup_request *q)
{
	size_t n = 4096; /* the numbers, and the texts that are short by check() */

	for (const char *const *p = q->env; p && *p; p++)
		n += FIELD_HEAD + strlen(*p) + 1;
	for (unsigned i = 0; i < q->mount_count; i++)
		n += FIELD_HEAD + strlen(q->mounts[i].src) + strlen(q->mounts[i].dst) + 3;
	n += q->workdir ? strlen(q->workdir) : 0;
	n += q->template_spec ? strlen(q->template_spec) : 0;
	return n;
}

static void put_text(struct msg *m, enum proto_tag tag, const char *text)
{
	if (text)
		msg_text(m, tag, text);
}

static void put_limits(struct msg *m, const struct plan_limits *l)
{
	msg_u64(m, TAG_MEMORY, l->memory_bytes);
	msg_u64(m, TAG_DISK, l->disk_bytes);
	msg_u64(m, TAG_OUTPUT, l->output_bytes);
	msg_u32(m, TAG_PIDS, l->pids);
	msg_u32(m, TAG_CPU_MILLI, l->cpu_milli);
	msg_u32(m, TAG_CPU_WEIGHT, l->cpu_weight);
	msg_u64(m, TAG_IO_BYTES, l->io_rate[0]);
	msg_u64(m, TAG_IO_OPS, l->io_rate[1]);
	msg_u64(m, TAG_BOOT_MS, l->boot_ms);
	msg_u32(m, TAG_ASKED,
		(l->memory_asked ? ASKED_MEMORY : 0) | (l->disk_asked ? ASKED_DISK : 0) |
			(l->pids_asked ? ASKED_PIDS : 0) | (l->cpus_asked ? ASKED_CPUS : 0));
}

/* "<mode><src>\0<dst>\0". */
static int put_mount(struct msg *m, const struct plan_mount *mount)
{
	size_t src = strlen(mount->src) + 1, dst = strlen(mount->dst) + 1;
	own_mem char *text = malloc(1 + src + dst);

	if (!text)
		return -ENOMEM;
	text[0] = (char)mount->mode;
	memcpy(text + 1, mount->src, src);
	memcpy(text + 1 + src, mount->dst, dst);
	msg_bytes(m, TAG_MOUNT, text, 1 + src + dst);
	return 0;
}

static int put_all(struct msg *m, const struct sup_request *q)
{
	uint8_t traits[TRAIT_COUNT];
	int r = 0;

	for (int i = 0; i < TRAIT_COUNT; i++)
		traits[i] = trait_get(&q->traits, (enum trait)i);
	msg_u32(m, TAG_VERSION, REQUEST_VERSION);
	msg_text(m, TAG_BOX, q->id);
	msg_bytes(m, TAG_TRAITS, traits, sizeof(traits));
	msg_u32(m, TAG_TIER, q->asked);
	put_text(m, TAG_ASKED_BY, q->asked_by);
	put_text(m, TAG_RISK, q->accept_risk);
	put_text(m, TAG_CALLER, q->caller);
	put_text(m, TAG_TRACE, q->trace);
	put_text(m, TAG_TEMPLATE, q->template_spec);
	put_limits(m, &q->limits);
	for (unsigned i = 0; r == 0 && i < q->mount_count; i++)
		r = put_mount(m, &q->mounts[i]);
	msg_u32(m, TAG_NET, q->net);
	msg_u32(m, TAG_UPPER, q->upper);
	if (q->from)
		msg_u32(m, TAG_FROM, 1);
	for (const char *const *p = q->env; p && *p; p++)
		msg_text(m, TAG_ENV, *p);
	put_text(m, TAG_USER, q->user);
	put_text(m, TAG_CWD, q->workdir);
	put_text(m, TAG_HOSTNAME, q->hostname);
	msg_u64(m, TAG_TIMEOUT_MS, q->deadline_ms);
	msg_u32(m, TAG_ACTION, q->deadline_action);
	return r;
}

static int to_memfd(const void *data, size_t len, int *ret, struct err *e)
{
	own_fd int fd = memfd_create("ward-request", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r;

	if (fd < 0)
		return err_set(e, errno, "memfd for the request");
	r = host_write_all(fd, data, len);
	if (r < 0)
		return err_set(e, -r, "writing the request");
	if (lseek(fd, 0, SEEK_SET) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) <
			0)
		return err_set(e, errno, "sealing the request");
	*ret = take_fd(&fd);
	return 0;
}

int sup_request_encode(const struct sup_request *q, int *ret_memfd, struct err *e)
{
	own_mem uint8_t *buf = NULL;
	struct msg m;
	size_t size;
	int r = check(q, e);

	if (r < 0)
		return r;
	size = FRAME_HEAD + size_of(q);
	if (size > SUP_REQUEST_MAX)
		return err_say(
			e, E2BIG, "the request has %zu bytes, more than %d", size, SUP_REQUEST_MAX);
	buf = malloc(size);
	if (!buf)
		return err_set(e, ENOMEM, "a request of %zu bytes", size);
	/* The fields alone: no frame is this long, and none is needed. */
	msg_begin(&m, buf, size, PROTO_START, 0, 0);
	if (put_all(&m, q) < 0 || m.over)
		return err_set(e, ENOMEM, "encoding the request");
	return to_memfd(buf + FRAME_HEAD, m.len - FRAME_HEAD, ret_memfd, e);
}

/* --- And back --------------------------------------------------------------------------------- */

static int read_mount(struct sup_request *q, const struct field *f)
{
	const char *text = (const char *)f->data, *src = text + 1, *end = text + f->len, *dst;
	struct plan_mount *m = &q->mounts[q->mount_count];

	if (q->mount_count == MOUNTS_MAX || f->len < 5 || end[-1])
		return -EINVAL;
	dst = memchr(src, '\0', (size_t)(end - src));
	if (!dst || ++dst >= end || memchr(dst, '\0', (size_t)(end - dst)) != end - 1)
		return -EINVAL;
	*m = (struct plan_mount){ src, dst, (enum mount_mode)(uint8_t)text[0] };
	q->mount_count++;
	return 0;
}

static int read_traits(struct traits *t, const struct field *f)
{
	uint8_t *const places[TRAIT_COUNT] = {
		[TRAIT_CODE] = &t->code,
		[TRAIT_TENANTS] = &t->tenants,
		[TRAIT_DATA] = &t->data,
		[TRAIT_LOAD] = &t->load,
		[TRAIT_GPU] = &t->gpu,
		[TRAIT_KUBERNETES] = &t->kubernetes,
		[TRAIT_FAST_START] = &t->fast_start,
		[TRAIT_COMPLIANCE] = &t->compliance,
		[TRAIT_BROWSER] = &t->browser,
	};

	if (f->len != TRAIT_COUNT)
		return -EINVAL;
	for (int i = 0; i < TRAIT_COUNT; i++)
		*places[i] = f->data[i];
	return 0;
}

/* The lists; everything that comes once is read from struct ctl_fields. */
static int read_lists(struct sup_order *o, const uint8_t *data, size_t len, struct err *e)
{
	unsigned env = 0;
	struct fields fs;
	struct field f;

	fields_init(&fs, data, len);
	while (fields_next(&fs, &f) > 0) {
		if (f.tag == TAG_ENV && env == ENV_VARS_MAX)
			return err_say(e, E2BIG, "more than %d variables", ENV_VARS_MAX);
		if (f.tag == TAG_ENV)
			o->env[env++] = f.text;
		else if (f.tag == TAG_MOUNT && read_mount(&o->q, &f) < 0)
			return err_say(e, EINVAL, "mount %u is malformed", o->q.mount_count + 1);
		else if (f.tag == TAG_TRAITS && read_traits(&o->q.traits, &f) < 0)
			return err_say(e, EINVAL, "the traits are malformed");
	}
	o->env[env] = NULL;
	o->q.env = o->env;
	return 0;
}

static void read_limits(struct plan_limits *l, const struct ctl_fields *v)
{
	uint64_t asked = ctl_num(v, TAG_ASKED, 0);

	*l = (struct plan_limits){
		.memory_bytes = ctl_num(v, TAG_MEMORY, 0),
		.disk_bytes = ctl_num(v, TAG_DISK, 0),
		.output_bytes = ctl_num(v, TAG_OUTPUT, 0),
		.pids = (uint32_t)ctl_num(v, TAG_PIDS, 0),
		.cpu_milli = (uint32_t)ctl_num(v, TAG_CPU_MILLI, 0),
		.cpu_weight = (uint32_t)ctl_num(v, TAG_CPU_WEIGHT, 0),
		.io_rate = { ctl_num(v, TAG_IO_BYTES, 0), ctl_num(v, TAG_IO_OPS, 0) },
		.boot_ms = ctl_num(v, TAG_BOOT_MS, 0),
		.memory_asked = asked & ASKED_MEMORY,
		.disk_asked = asked & ASKED_DISK,
		.pids_asked = asked & ASKED_PIDS,
		.cpus_asked = asked & ASKED_CPUS,
	};
}

static bool in_range(const struct ctl_fields *v)
{
	return ctl_num(v, TAG_TIER, 0) < WALL_COUNT && ctl_num(v, TAG_NET, 0) <= NET_HOST &&
	       ctl_num(v, TAG_UPPER, 0) <= UPPER_DISK && ctl_num(v, TAG_ACTION, 0) <= SUP_PAUSE &&
	       ctl_num(v, TAG_FROM, 0) <= 1;
}

static int fill(struct sup_order *o, const uint8_t *data, size_t len, struct err *e)
{
	struct sup_request *q = &o->q;
	struct ctl_fields v;
	int r = ctl_fields_read(&v, data, len);

	if (r < 0)
		return err_say(e, EPROTO, "this is not a request for a sandbox");
	if (ctl_num(&v, TAG_VERSION, 0) != REQUEST_VERSION)
		return err_say(e, EPROTO, "the request is of another version of ward");
	if (!ctl_has(&v, TAG_BOX) || str_copy(q->id, sizeof(q->id), v.text[TAG_BOX]) < 0 ||
		!in_range(&v))
		return err_say(e, EINVAL, "the request's id, tier, network or deadline");
	q->asked = (enum wall)ctl_num(&v, TAG_TIER, 0);
	q->asked_by = ctl_text(&v, TAG_ASKED_BY);
	q->accept_risk = ctl_text(&v, TAG_RISK);
	q->caller = ctl_text(&v, TAG_CALLER);
	q->trace = ctl_text(&v, TAG_TRACE);
	q->template_spec = ctl_text(&v, TAG_TEMPLATE);
	read_limits(&q->limits, &v);
	q->net = (enum net_mode)ctl_num(&v, TAG_NET, 0);
	q->upper = (enum upper_kind)ctl_num(&v, TAG_UPPER, 0);
	if (ctl_num(&v, TAG_FROM, 0)) {
		o->from = (struct snap){ SUP_FD_FROM, SUP_FD_FROM + 1, SUP_FD_FROM + 2 };
		q->from = &o->from;
	}
	q->user = ctl_text(&v, TAG_USER);
	q->workdir = ctl_text(&v, TAG_CWD);
	q->hostname = ctl_text(&v, TAG_HOSTNAME);
	q->deadline_ms = ctl_num(&v, TAG_TIMEOUT_MS, 0);
	q->deadline_action = (enum sup_action)ctl_num(&v, TAG_ACTION, 0);
	r = read_lists(o, data, len, e);
	return r < 0 ? r : check(q, e);
}

/* Takes @room. */
static int read_room(void *room, size_t len, struct sup_order *ret, struct err *e)
{
	int r;

	*ret = (struct sup_order){ .room = room };
	r = fill(ret, room, len, e);
	if (r < 0)
		sup_order_done(ret);
	return r;
}

int sup_request_read(const void *data, size_t len, struct sup_order *ret, struct err *e)
{
	void *room;

	if (len > SUP_REQUEST_MAX)
		return err_say(e, EPROTO, "a request has at most %d bytes", SUP_REQUEST_MAX);
	room = malloc(len + 1);
	if (!room)
		return err_set(e, ENOMEM, "a request of %zu bytes", len);
	if (len)
		memcpy(room, data, len);
	return read_room(room, len, ret, e);
}

int sup_request_decode(int fd, struct sup_order *ret, struct err *e)
{
	struct stat st;
	uint8_t *room;
	size_t len = 0;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > SUP_REQUEST_MAX)
		return err_say(e, EPROTO, "descriptor %d holds no request", fd);
	room = malloc((size_t)st.st_size + 1);
	if (!room)
		return err_set(e, ENOMEM, "a request of %lld bytes", (long long)st.st_size);
	while (len < (size_t)st.st_size) {
		ssize_t n = host_pread(fd, room + len, (size_t)st.st_size - len, (off_t)len);

		if (n <= 0) {
			free(room);
			return err_set(e, n < 0 ? (int)-n : EIO, "reading the request");
		}
		len += (size_t)n;
	}
	return read_room(room, len, ret, e);
}

void sup_order_done(struct sup_order *o)
{
	free(o->room);
	o->room = NULL;
}
