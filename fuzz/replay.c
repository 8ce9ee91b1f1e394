/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz/replay.c - runs a fuzz target over the files of a folder, without the fuzzer.
 *
 * `replay FOLDER`: so that a corpus is also a plain test.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	struct stat st;
	uint8_t *data;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	/* Exactly as long as the file, so that the sanitizer sees a read past its end. */
	data = malloc(st.st_size ? (size_t)st.st_size : 1);
	if (!data || read(fd, data, (size_t)st.st_size) != st.st_size)
		return -1;
	LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
	free(data);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
	unsigned count = 0;

	if (!d) {
		fputs("usage: replay FOLDER\n", stderr);
		return 2;
	}
	for (struct dirent *e; (e = readdir(d)) != NULL;) {
		if (e->d_name[0] == '.')
			continue;
		if (replay(dirfd(d), e->d_name) < 0) {
			fprintf(stderr, "replay: cannot read %s/%s\n", argv[1], e->d_name);
			return 2;
		}
		count++;
	}
	closedir(d);
	printf("%u inputs\n", count);
	return count ? 0 : 1;
}
