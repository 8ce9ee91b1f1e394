/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/vm/vm_vsock.c - both ends of a stream into a guest, for the rig.
 *
 *	vm-vsock listen PORT        inside: answers one caller in capitals, until it ends
 *	vm-vsock connect PATH PORT  outside: says CONNECT, then its input; prints what comes back
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <linux/vm_sockets.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int inside(unsigned port)
{
	struct sockaddr_vm a = {
		.svm_family = AF_VSOCK, .svm_port = port, .svm_cid = VMADDR_CID_ANY
	};
	int door = socket(AF_VSOCK, SOCK_STREAM, 0), fd;
	char text[4096];
	ssize_t n;

	if (door < 0 || bind(door, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(door, 1) < 0)
		fail("listen");
	puts("listening");
	fflush(stdout);
	fd = accept(door, NULL, NULL);
	if (fd < 0)
		fail("accept");
	while ((n = read(fd, text, sizeof(text))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			text[i] = (char)toupper((unsigned char)text[i]);
		if (write(fd, text, (size_t)n) != n)
			fail("write");
	}
	return 0;
}

/* What comes back, to stdout, up to the end or (@line) the end of a line. */
static void show(int fd, int line)
{
	char byte;

	while (read(fd, &byte, 1) == 1) {
		putchar(byte);
		if (line && byte == '\n')
			break;
	}
}

static int outside(const char *path, const char *port)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	char text[4096];
	ssize_t n;

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		fail("connect");
	dprintf(fd, "CONNECT %s\n", port);
	show(fd, 1);
	while ((n = read(0, text, sizeof(text))) > 0)
		if (write(fd, text, (size_t)n) != n)
			fail("write");
	shutdown(fd, SHUT_WR);
	show(fd, 0);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "listen") == 0)
		return inside((unsigned)strtoul(argv[2], NULL, 10));
	if (argc == 4 && strcmp(argv[1], "connect") == 0)
		return outside(argv[2], argv[3]);
	return 2;
}
