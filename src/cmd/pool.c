/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cmd/pool.c - `ward pool`: sandboxes that are ready before anyone asks.
 *
 * Owns:  the words on the screen. A daemon that runs is asked, and looks whether there is such a
 *        template; else what is set goes into the database, and the next daemon starts with it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/str.h"
#include "cmd/client.h"
#include "cmd/common.h"
#include "cmd/listing.h"
#include "db/db.h"
#include "hub/hub.h"
#include "store/state.h"

static int read_count(const char *name, const char *value, int64_t *ret, struct err *e)
{
	uint64_t v;

	if (parse_u64(value, 0, HUB_POOL_SIZE_MAX, &v) < 0)
		return err_say(e, EINVAL, "set: %s accepts a number from 0 to %d, not '%s'", name,
			HUB_POOL_SIZE_MAX, value);
	*ret = (int64_t)v;
	return 0;
}

static int ask(struct client *c, const struct db_pool *pool, struct err *e)
{
	own_buf struct buf path = { 0 }, body = { 0 };

	buf_init(&path, 4096);
	buf_init(&body, 1 << 16);
	buf_add_str(&path, "/ward/v1/pools/");
	client_escape(&path, pool->template);
	json_open(&body, NULL);
	json_i64(&body, "min", pool->min);
	json_i64(&body, "max", pool->max);
	json_str(&body, "warm_up", pool->warm_up);
	json_close(&body);
	if (path.bad || body.bad)
		return err_set(e, ENOMEM, "asking the daemon");
	return client_call(c, "PUT", path.data, &body, NULL, e);
}

static int put(const char *state_dir, const struct db_pool *pool, struct err *e)
{
	own_fd int state = -1;
	struct db *db = NULL;
	int r = state_open(state_dir, &state, e);

	if (r == 0)
		r = db_open(state_dir, DB_TOOL, &db, e);
	if (r == 0)
		r = db_pool_put(db, pool, e);
	db_close(db);
	return r;
}

static int pool_set(int argc, char **argv, const struct globals *g)
{
	struct db_pool pool = { .min = -1, .max = -1, .warm_up = "" };
	struct client *c = NULL;
	struct err e = { 0 };
	const char *value;
	int r;

	for (int i = 1; i < argc; i++) {
		if ((r = cmd_value(argv, &i, "--min", &value, &e)) != 0) {
			r = r < 0 ? r : read_count("--min", value, &pool.min, &e);
		} else if ((r = cmd_value(argv, &i, "--max", &value, &e)) != 0) {
			r = r < 0 ? r : read_count("--max", value, &pool.max, &e);
		} else if ((r = cmd_value(argv, &i, "--warm-up", &value, &e)) != 0) {
			pool.warm_up = value;
		} else if (argv[i][0] == '-' || pool.template) {
			return cmd_usage("pool",
				"set: '%s' is not accepted: TEMPLATE, --min, --max and --warm-up",
				argv[i]);
		} else {
			pool.template = argv[i];
		}
		if (r < 0)
			return cmd_fail("pool", &e);
	}
	if (!pool.template || pool.min < 0)
		return cmd_usage(
			"pool", "set: name a template and give --min N; see 'ward help pool'");
	if (pool.max < 0)
		pool.max = pool.min;
	if (pool.max < 1 || pool.min > pool.max)
		return cmd_usage("pool", "set: --max must be at least 1 and not below --min; 'ward "
					 "pool rm' removes a "
					 "pool");
	if (strlen(pool.template) > TEMPLATE_NAME_MAX || strlen(pool.warm_up) > HUB_WARM_UP_MAX)
		return cmd_usage(
			"pool", "set: the template's name or the warm-up command is too long");
	r = client_open(g, NULL, &c, &e);
	if (r == 0)
		r = ask(c, &pool, &e);
	if (r == -ENOTCONN)
		r = put(g->state_dir, &pool, &e);
	client_close(c);
	return r < 0 ? cmd_fail("pool", &e) : 0;
}

static int pool_rm(int argc, char **argv, const struct globals *g)
{
	struct err e = { 0 };
	struct db *db = NULL;
	int r;

	if (argc != 2 || argv[1][0] == '-')
		return cmd_usage("pool", "rm: name one template");
	r = db_open(g->state_dir, DB_LOOK, &db, &e);
	if (r == -ENOENT)
		err_say(&e, ENOENT, "rm: there is no pool of '%s'", argv[1]);
	if (r == 0)
		r = db_pool_delete(db, argv[1], &e);
	db_close(db);
	return r < 0 ? cmd_fail("pool", &e) : 0;
}

struct ages {
	const char *template;
	unsigned ready;
	int64_t oldest_us, newest_us;
};

/* A pool sandbox remembers under which name its pool was set. */
static int count_ready(void *arg, const struct db_box *box)
{
	struct ages *a = arg;

	if (!str_eq(box->template_asked, a->template))
		return 0;
	a->ready++;
	if (!a->oldest_us || box->state_us < a->oldest_us)
		a->oldest_us = box->state_us;
	if (box->state_us > a->newest_us)
		a->newest_us = box->state_us;
	return 0;
}

static int64_t age_s(int64_t since_us)
{
	return since_us ? (clock_now_us() - since_us) / 1000000 : 0;
}

static void add_json(struct listing *l, const struct db_pool *p, const struct ages *a)
{
	json_open(&l->out, NULL);
	json_str(&l->out, "template", p->template);
	json_i64(&l->out, "min", p->min);
	json_i64(&l->out, "max", p->max);
	json_str(&l->out, "warm_up", p->warm_up);
	json_u64(&l->out, "ready", a->ready);
	json_i64(&l->out, "hits", p->hits);
	json_i64(&l->out, "misses", p->misses);
	json_i64(&l->out, "made", p->made);
	json_i64(&l->out, "shrunk", p->shrunk);
	json_i64(&l->out, "oldest_s", age_s(a->oldest_us));
	json_i64(&l->out, "newest_s", age_s(a->newest_us));
	json_str(&l->out, "trouble", p->trouble[0] ? p->trouble : NULL);
	json_close(&l->out);
}

static int list_one(void *arg, const struct db_pool *p)
{
	struct listing *l = arg;
	struct ages a = { .template = p->template };
	struct db_range ready = { .states = 1u << HUB_READY };
	char shown[300];
	struct err e = { 0 };
	int r = db_box_each(l->db, &ready, count_ready, &a, &e);

	if (r < 0)
		return r;
	if (l->json) {
		add_json(l, p, &a);
		return 0;
	}
	buf_add_fmt(&l->out,
		"%-32s %5" PRId64 " %5" PRId64 " %5u %8" PRId64 " %8" PRId64 " %7" PRId64
		"s %7" PRId64 "s  %s\n",
		p->template, p->min, p->max, a.ready, p->hits, p->misses, age_s(a.oldest_us),
		age_s(a.newest_us),
		p->trouble[0] ? str_show(shown, sizeof(shown), p->trouble) : "-");
	return 0;
}

static int each_pool(struct listing *l, struct err *e)
{
	return db_pool_each(l->db, list_one, l, e);
}

static int pool_ls(int argc, char **argv, const struct globals *g)
{
	static const struct listing_of pools = {
		.command = "pool",
		.what = "pools",
		.head = "TEMPLATE                         "
			"  MIN   MAX READY     HITS   MISSES   OLDEST   NEWEST  TROUBLE",
		.each = each_pool,
	};

	return listing_show(&pools, argc, argv, g);
}

int cmd_pool(int argc, char **argv, const struct globals *g)
{
	static const struct cmd_verb verbs[] = { { "set", pool_set }, { "rm", pool_rm },
		{ "ls", pool_ls } };

	return cmd_verbs("pool", verbs, ARRAY_LEN(verbs), argc, argv, g);
}
