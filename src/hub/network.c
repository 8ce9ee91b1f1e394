/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hub/network.c - what a rule about the network may look like.
 *
 * Owns:  the grammar: an address, a range of them (CIDR), and for what is allowed also the name of
 *        a host, or "*.name" for all below it. And a mask for Host, which becomes a line of a
 *        request: nothing in it may end that line.
 */
#include <arpa/inet.h>
#include <string.h>

#include "base/parse.h"
#include "base/str.h"
#include "hub/network.h"

enum { HOST_BYTES = 253, PART_BYTES = 63 };

static bool is_range(const char *text)
{
	char addr[INET6_ADDRSTRLEN];
	uint8_t bytes[sizeof(struct in6_addr)];
	size_t n = strcspn(text, "/");
	uint64_t bits;
	bool v4;

	if (n >= sizeof(addr))
		return false;
	memcpy(addr, text, n);
	addr[n] = '\0';
	v4 = inet_pton(AF_INET, addr, bytes) == 1;
	if (!v4 && inet_pton(AF_INET6, addr, bytes) != 1)
		return false;
	return !text[n] || parse_u64(text + n + 1, 0, v4 ? 32 : 128, &bits) == 0;
}

static bool is_name(const char *text)
{
	bool letter = false;

	if (strlen(text) > HOST_BYTES)
		return false;
	if (text[0] == '*' && text[1] == '.')
		text += 2;
	for (;;) {
		size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					"0123456789-_");

		if (!n || n > PART_BYTES || text[0] == '-' || text[n - 1] == '-')
			return false;
		letter = strspn(text, "0123456789") < n;
		if (!text[n])
			return letter; /* 1.2.3 is a slip, and no name */
		if (text[n] != '.')
			return false;
		text += n + 1;
	}
}

static int check(const char *const *list, const char *what, bool names, struct hub_fail *f)
{
	char shown[80];

	for (; list && *list; list++)
		if (!is_range(*list) && !(names && is_name(*list)))
			return hub_fail(f, HUB_INVALID,
				"'%s' in %s is neither an address nor a "
				"range such as 10.0.0.0/8%s",
				str_show(shown, sizeof(shown), *list), what,
				names ? " nor a host such as *.example.com" : "");
	return 0;
}

static bool is_mask(const char *text)
{
	size_t n = strlen(text);

	if (!n || n > HOST_BYTES)
		return false;
	while (*text) {
		const char *after = str_after(text, "${PORT}");

		n = after ? (size_t)(after - text)
			  : strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					 "0123456789-_.:[]");
		if (!n)
			return false;
		text += n;
	}
	return true;
}

int network_check(const struct hub_network *net, struct hub_fail *f)
{
	int r = check(net->allow_out, "allowOut", true, f);

	if (r == 0)
		r = check(net->deny_out, "denyOut", false, f);
	if (r == 0 && net->mask_host && !is_mask(net->mask_host))
		r = hub_fail(f, HUB_INVALID,
			"maskRequestHost is no host name such as localhost:${PORT}");
	return r;
}
