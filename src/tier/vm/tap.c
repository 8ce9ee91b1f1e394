/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/tap.c - the host's end of a guest's network card: a tap that the operator made.
 *
 * Owns:  nothing; opens it.
 * Rules: ward makes no interface, gives no address and changes no route of the host. A tap that is
 *        not there is refused, although asking for it would make it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <linux/if_tun.h>

#include "base/own.h"
#include "base/sha256.h"
#include "base/str.h"
#include "host/host.h"
#include "tier/vm/virtio/net.h"
#include "tier/vm/vm.h"

int tap_open(const char *name, int *ret_fd, struct err *e)
{
	own_fd int fd = -1;
	struct ifreq q = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
	int head = NET_HEAD_BYTES;

	if (str_copy(q.ifr_name, sizeof(q.ifr_name), name) < 0)
		return err_say(e, EINVAL, "--tap '%s': a name of at most 15 letters", name);
	fd = host_open("/dev/net/tun", O_RDWR | O_NONBLOCK, 0);
	if (fd < 0)
		return err_set(e, -fd, "opening /dev/net/tun for --tap %s", name);
	if (ioctl(fd, TUNSETIFF, &q) < 0)
		return err_set(e, errno, "--tap %s: using it (another may have it)", name);
	/* One that was not there exists now, until the descriptor is closed. */
	if (ioctl(fd, TUNGETIFF, &q) < 0 || !(q.ifr_flags & IFF_PERSIST))
		return err_say(e, ENODEV,
			"--tap %s: there is no such tap: make it with 'ip tuntap add dev %s mode "
			"tap'",
			name, name);
	if (ioctl(fd, TUNSETVNETHDRSZ, &head) < 0 || ioctl(fd, TUNSETOFFLOAD, 0ul) < 0)
		return err_set(e, errno, "--tap %s: setting it up", name);
	*ret_fd = take_fd(&fd);
	return 0;
}

void tap_mac(const char *id, uint8_t ret[NET_MAC_BYTES])
{
	uint8_t digest[SHA256_BYTES];
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, id, strlen(id));
	sha256_end(&h, digest);
	memcpy(ret, digest, NET_MAC_BYTES);
	ret[0] = (uint8_t)((ret[0] & 0xfc) | 2); /* one machine's, and nobody registered it */
}
