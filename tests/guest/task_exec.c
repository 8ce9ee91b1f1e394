/* SPDX-License-Identifier: Apache-2.0 */
/* execve and execveat: what is run, what it gets, and what fails. */
#include "io.h"

#include <elf.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>

static char self[4096];

static int run(char *const argv[], char *const envp[])
{
	int st = -1;
	pid_t p;

	fflush(stdout);
	p = fork();
	if (!p) {
		execve(argv[0], argv, envp);
		_exit(errno);
	}
	waitpid(p, &st, 0);
	return WIFEXITED(st) ? WEXITSTATUS(st) : 1000 + WTERMSIG(st);
}

#define RUN(...) run((char *const[]){ __VA_ARGS__, NULL }, (char *const[]){ NULL })
#define S(s) ((char *)(s))

CASE(errors)
{
	char *none[] = { NULL };

	put("plain", "hello");
	put("empty", "");
	chmod("empty", 0755);
	mkdir("dir", 0755);
	R(execve("nothing", none, none));
	R(execve("", none, none));
	R(execve("plain", none, none));
	chmod("plain", 0755);
	R(execve("plain", none, none));
	R(execve("empty", none, none));
	R(execve("dir", none, none));
	R(execve("plain/x", none, none));
	R(execve(BADP, none, none));
	R(execve(long_path(), none, none));
	R(symlink("loop", "loop"));
	R(execve("loop", none, none));
}

CASE(arguments_and_environment)
{
	char *argv[] = { S("/bin/sh"), S("-c"), S("echo \"$0 $1 $2\"; echo $V"), S("zero"),
		S("one"), S("t w o"), NULL };
	char *envp[] = { S("V=value"), S("PATH=/usr/bin:/bin"), NULL };

	printf("%d\n", run(argv, envp));
}

/* A program of nothing but the name of its interpreter, which stands at @at. */
static void put_program(const char *path, const char *interp, size_t at)
{
	struct {
		Elf64_Ehdr h;
		Elf64_Phdr p;
	} e = { .h = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
			.e_type = ET_DYN,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_phoff = sizeof(e.h),
			.e_ehsize = sizeof(e.h),
			.e_phentsize = sizeof(e.p),
			.e_phnum = 1 },
		.p = { .p_type = PT_INTERP, .p_offset = at, .p_filesz = strlen(interp) + 1 } };
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0755);

	B(write(fd, &e, sizeof(e)) == sizeof(e));
	B(pwrite(fd, interp, strlen(interp) + 1, (off_t)at) > 0);
	close(fd);
}

CASE(interpreters)
{
	static const size_t places[] = { sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr), 5000 };
	char *none[] = { NULL }, junk[5000] = "no program";
	int fd;

	for (size_t i = 0; i < 2; i++) {
		put_program("prog", "ip", places[i]);
		unlink("ip");
		R(execve("prog", none, none));
		put("ip", "short");
		R(execve("prog", none, none));
		chmod("ip", 0755);
		R(execve("prog", none, none));
		fd = open("ip", O_WRONLY);
		B(write(fd, junk, sizeof(junk)) == sizeof(junk));
		close(fd);
		R(execve("prog", none, none));
	}
	put_program("prog", "", places[0]);
	R(execve("prog", none, none));
}

CASE(scripts)
{
	put("s1", "#!/bin/sh\necho script $0 $1 $#\nexit 9\n");
	put("s2", "#! /bin/sh -e \nfalse\necho not reached\n");
	put("s3", "#!./s1 arg\n");
	put("s4", "#!/nothing/here\n");
	put("s5", "#!\n");
	for (int i = 1; i <= 5; i++) {
		char name[8];

		snprintf(name, sizeof(name), "./s%d", i);
		chmod(name, 0755);
		printf("%s %d\n", name, RUN(name, S("a")));
	}
}

CASE(script_loops)
{
	put("l", "#!./l\n");
	chmod("l", 0755);
	printf("%d\n", RUN(S("./l")) == ELOOP);
}

CASE(close_on_exec)
{
	int keep = open("/dev/null", O_RDONLY), gone = open("/dev/null", O_RDONLY | O_CLOEXEC);
	char text[64];

	dup2(keep, 20);
	fcntl(dup2(gone, 21), F_SETFD, FD_CLOEXEC);
	snprintf(text, sizeof(text),
		"test -e /proc/self/fd/20; a=$?; test -e /proc/self/fd/21; exit $a$?");
	printf("%d\n", RUN(S("/bin/sh"), S("-c"), text));
}

CASE(signals_across)
{
	signal(SIGUSR1, SIG_IGN);
	signal(SIGUSR2, exit);
	printf("%d\n", RUN(S("/bin/sh"), S("-c"), S("kill -USR1 $$; kill -USR2 $$; exit 3")));
}

CASE(long_arguments)
{
	char *big = malloc(120000);
	char *argv[] = { S("/bin/sh"), S("-c"), S("echo ${#1}"), S("x"), big, NULL },
	     *envp[] = { NULL };

	memset(big, 'a', 119999);
	big[119999] = '\0';
	printf("%d\n", run(argv, envp));
	big = malloc(200000);
	memset(big, 'a', 199999);
	big[199999] = '\0';
	argv[4] = big;
	R(execve(argv[0], argv, envp));
}

CASE(many_arguments)
{
	char **argv = calloc(5003, sizeof(*argv)), *envp[] = { NULL };

	argv[0] = S("/bin/sh");
	argv[1] = S("-c");
	argv[2] = S("echo $#");
	for (int i = 3; i < 5002; i++)
		argv[i] = S("word");
	printf("%d\n", run(argv, envp));
}

CASE(fexecve_of_a_program)
{
	int fd = open("/bin/true", O_RDONLY | O_CLOEXEC), st;
	char *argv[] = { S("true"), NULL }, *envp[] = { NULL };
	pid_t p = fork();

	if (!p) {
		syscall(SYS_execveat, fd, "", argv, envp, AT_EMPTY_PATH);
		_exit(99);
	}
	waitpid(p, &st, 0);
	printf("%d\n", WEXITSTATUS(st));
	R(syscall(SYS_execveat, fd, "", argv, envp, 0));
	R(syscall(SYS_execveat, 99, "", argv, envp, AT_EMPTY_PATH));
	R(syscall(SYS_execveat, AT_FDCWD, "/bin/true", argv, envp, 0x4000));
}

CASE(spawn)
{
	extern char **environ;
	char *argv[] = { S("true"), NULL };
	pid_t p;
	int st, r;

	r = posix_spawn(&p, "/bin/true", NULL, NULL, argv, environ);
	printf("%d\n", r);
	waitpid(p, &st, 0);
	printf("%d\n", WEXITSTATUS(st));
	printf("%d\n", posix_spawn(&p, "/nothing", NULL, NULL, argv, environ) == ENOENT);
}

static void *exec_here(void *arg)
{
	char *argv[] = { S("/bin/sh"), S("-c"), S("exit 42"), NULL }, *envp[] = { NULL };

	execve(argv[0], argv, envp);
	return NULL;
}

CASE(exec_from_a_thread)
{
	int st;
	pid_t p = fork();

	if (!p) {
		pthread_t t;

		pthread_create(&t, NULL, exec_here, NULL);
		for (;;)
			pause();
	}
	waitpid(p, &st, 0);
	printf("%d\n", WEXITSTATUS(st));
}

CASE(pid_stays)
{
	char text[64];
	pid_t p = fork();
	int st;

	if (!p) {
		snprintf(text, sizeof(text), "test $$ = %d", getpid());
		execl("/bin/sh", "sh", "-c", text, NULL);
	}
	waitpid(p, &st, 0);
	printf("%d\n", WEXITSTATUS(st));
}

/* Wherever the signal finds it: before, during or after. */
CASE(signal_on_the_way)
{
	int other = 0;

	for (long i = 0; i < 60; i++) {
		const struct timespec t = { 0, i * 20000 };
		pid_t p = fork();
		int st;

		if (!p) {
			execl("/bin/sleep", "sleep", "1000", NULL);
			_exit(99);
		}
		nanosleep(&t, NULL);
		kill(p, SIGTERM);
		waitpid(p, &st, 0);
		other += !WIFSIGNALED(st) || WTERMSIG(st) != SIGTERM;
	}
	printf("ended by something else: %d\n", other);
}

CASE(exe_link)
{
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	B(n > 0 && self[0] == '/');
	printf("%d\n", RUN(S("/bin/sh"), S("-c"), S("test \"$(readlink /proc/self/exe)\" != ''")));
}

CASE(nobody_may_not)
{
	put("p", "#!/bin/sh\nexit 0\n");
	chmod("p", 0700);
	pid_t p = fork();
	int st;

	if (!p) {
		if (setgid(1000) < 0 || setuid(1000) < 0)
			_exit(98);
		execl("./p", "p", NULL);
		_exit(errno == EACCES ? 13 : 99);
	}
	waitpid(p, &st, 0);
	printf("%d\n", WEXITSTATUS(st));
}

static void run_memory(const char *what, const char *bytes, size_t len)
{
	int fd, st = -1;
	pid_t p;

	NEED(fd = memfd_create(what, 0));
	NEED(write(fd, bytes, len));
	fflush(stdout);
	p = fork();
	if (!p) {
		fexecve(fd, (char *[]){ S(what), S("memory"), NULL }, (char *[]){ NULL });
		_exit(errno);
	}
	waitpid(p, &st, 0);
	printf("%s: %d\n", what, WIFEXITED(st) ? WEXITSTATUS(st) : -1);
	close(fd);
}

/* Who wrote it has it open still. */
CASE(out_of_memory_files)
{
	static char program[8 << 20];
	static const char script[] = "#!/bin/sh\necho \"a script, $1\"\nexit 7\n";
	ssize_t n;
	int fd;

	NEED(fd = open("/bin/true", O_RDONLY));
	NEED(n = read(fd, program, sizeof(program)));
	run_memory("a program", program, (size_t)n);
	run_memory("a script", script, sizeof(script) - 1);
}
