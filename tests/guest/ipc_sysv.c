/* SPDX-License-Identifier: Apache-2.0 */
/* System V shared memory, semaphores and messages. */
#include "io.h"

#include <pthread.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

union sem_arg {
	int val;
	struct semid_ds *buf;
	unsigned short *array;
};

CASE(shm)
{
	int id = shmget(IPC_PRIVATE, 5000, IPC_CREAT | 0600);
	struct shmid_ds ds;

	B(id >= 0);
	char *p = shmat(id, NULL, 0);
	B(p != (void *)-1);
	p[4999] = 7;
	memset(p, 'x', 10);
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		p[0] = 'y';
		_exit(0);
	}
	io_reap(c);
	printf("%c\n", p[0]);
	R(shmctl(id, IPC_STAT, &ds));
	printf("size %ld nattch %ld mode %o\n", (long)ds.shm_segsz, (long)ds.shm_nattch,
		ds.shm_perm.mode & 0777);
	B(ds.shm_cpid == getpid() && ds.shm_lpid == c);
	char *q = shmat(id, NULL, SHM_RDONLY);
	B(q != (void *)-1 && q != p);
	printf("%c\n", q[0]);
	R(shmdt(q));
	R(shmdt(q));
	R(shmctl(id, IPC_RMID, NULL));
	p[1] = 'z';
	R(shmctl(id, IPC_STAT, &ds));
	R(shmdt(p));
	R(shmctl(id, IPC_STAT, &ds));
	B(shmat(id, NULL, 0) == (void *)-1);
}

CASE(shm_read_only)
{
	int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
	char *p = shmat(id, NULL, SHM_RDONLY);

	R(mprotect(p, 4096, PROT_READ | PROT_WRITE));
	R(shmdt(p));
	p = shmat(id, NULL, 0);
	R(mprotect(p, 4096, PROT_READ));
	R(mprotect(p, 4096, PROT_READ | PROT_WRITE));
	p[0] = 1;
	R(shmdt(p));
	R(shmctl(id, IPC_RMID, NULL));
}

enum { SHM_THREADS = 6, SHM_TURNS = 150, SHM_BIG = 1 << 30, SHM_MANY = 1100 };

static void *own_segment(void *arg)
{
	long me = (long)arg, wrong = 0;
	int id = shmget(IPC_PRIVATE, sizeof(long), IPC_CREAT | 0600);

	for (int i = 0; i < SHM_TURNS; i++) {
		long *p = shmat(id, NULL, 0);

		if (p == (void *)-1) {
			wrong++;
			continue;
		}
		if (i == 0)
			*p = me;
		wrong += *p != me;
		wrong += shmdt(p) != 0;
	}
	wrong += shmctl(id, IPC_RMID, NULL) != 0;
	return (void *)wrong;
}

/* Each thread finds its own segment, whatever the others attach meanwhile. */
CASE(shm_threads)
{
	pthread_t thread[SHM_THREADS];
	long all = 0;

	for (long i = 0; i < SHM_THREADS; i++)
		B(pthread_create(&thread[i], NULL, own_segment, (void *)(i + 1)) == 0);
	for (int i = 0; i < SHM_THREADS; i++) {
		void *wrong;

		pthread_join(thread[i], &wrong);
		all += (long)wrong;
	}
	printf("%ld wrong\n", all);
}

/* More in all than there are addresses, one after the other. */
CASE(shm_again_and_again)
{
	int id = shmget(IPC_PRIVATE, SHM_BIG, IPC_CREAT | 0600),
	    stays = shmget(IPC_PRIVATE, 4096, 0600);
	char *kept = shmat(stays, NULL, 0);
	long wrong = 0;

	kept[0] = 'k';
	for (int i = 0; i < SHM_MANY; i++) {
		char *p = shmat(id, NULL, 0);

		wrong += p == (void *)-1 || shmdt(p) != 0;
	}
	printf("%ld wrong, %c\n", wrong, kept[0]);
	R(shmctl(id, IPC_RMID, NULL));
	R(shmctl(stays, IPC_RMID, NULL));
}

CASE(shm_errors)
{
	R(shmget(IPC_PRIVATE, 0, IPC_CREAT | 0600));
	R(shmget(0x5ead1234, 100, 0));
	int id = shmget(0x5ead1234, 100, IPC_CREAT | IPC_EXCL | 0600);
	B(id >= 0);
	R(shmget(0x5ead1234, 100, IPC_CREAT | IPC_EXCL | 0600));
	B(shmget(0x5ead1234, 50, 0) == id);
	R(shmget(0x5ead1234, 200000, 0));
	B(shmat(id, (void *)1, 0) == (void *)-1 && errno == EINVAL);
	R(shmctl(id, 99, NULL));
	R(shmctl(-1, IPC_STAT, NULL));
	R(shmctl(id, IPC_STAT, BADP));
	R(shmdt(NULL));
	R(shmctl(id, IPC_RMID, NULL));
	R(shmctl(id, IPC_RMID, NULL));
}

CASE(sem)
{
	int id = semget(IPC_PRIVATE, 3, IPC_CREAT | 0600);
	unsigned short v[3] = { 1, 2, 3 };
	union sem_arg a = { .array = v };

	B(id >= 0);
	R(semctl(id, 0, SETALL, a));
	R(semctl(id, 1, GETVAL));
	a.val = 9;
	R(semctl(id, 1, SETVAL, a));
	a.array = v;
	R(semctl(id, 0, GETALL, a));
	printf("%d %d %d\n", v[0], v[1], v[2]);
	struct sembuf two[2] = { { 0, -1, IPC_NOWAIT }, { 2, -4, IPC_NOWAIT } };
	R(semop(id, two, 2)); /* all or nothing */
	R(semctl(id, 0, GETVAL));
	two[1].sem_op = -3;
	R(semop(id, two, 2));
	R(semctl(id, 2, GETVAL));
	struct sembuf z = { 2, 0, 0 };
	R(semop(id, &z, 1));
	B(semctl(id, 2, GETPID) == getpid());
	struct sembuf bad = { 3, 1, 0 };
	R(semop(id, &bad, 1));
	R(semop(id, &z, 0));
	R(semop(id, BADP, 1));
	R(semop(-1, &z, 1));
	R(semctl(id, 5, GETVAL));
	a.val = 40000;
	R(semctl(id, 0, SETVAL, a));
	bad = (struct sembuf){ 0, 32767, 0 };
	R(semop(id, &bad, 1));
	R(semop(id, &bad, 1));
	struct semid_ds ds;
	a.buf = &ds;
	R(semctl(id, 0, IPC_STAT, a));
	printf("nsems %ld mode %o\n", (long)ds.sem_nsems, ds.sem_perm.mode & 0777);
	R(semctl(id, 0, IPC_RMID));
	R(semctl(id, 0, GETVAL));
	R(semget(IPC_PRIVATE, 0, 0600));
	R(semget(IPC_PRIVATE, -1, 0600));
	R(semget(0x5ead4321, 1, 0));
}

CASE(sem_waits)
{
	int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
	struct sembuf down = { 0, -1, 0 };
	struct timespec ts = { 0, 30000000 };

	R(semtimedop(id, &down, 1, &ts));
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		struct sembuf up = { 0, 1, 0 };
		io_nap(30);
		semop(id, &up, 1);
		_exit(0);
	}
	R(semop(id, &down, 1));
	io_reap(c);
	io_on(SIGUSR1, SA_RESTART);
	c = io_kick(SIGUSR1, 30);
	R(semop(id, &down, 1));
	io_reap(c);
	fflush(stdout);
	c = fork();
	if (c == 0) {
		io_nap(50);
		semctl(id, 0, IPC_RMID);
		_exit(0);
	}
	R(semop(id, &down, 1));
	io_reap(c);
	ts.tv_nsec = -1;
	id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
	R(semtimedop(id, &down, 1, &ts));
	semctl(id, 0, IPC_RMID);
}

CASE(sem_undo)
{
	int id = semget(IPC_PRIVATE, 1, IPC_CREAT | 0600);
	union sem_arg a = { .val = 3 };

	R(semctl(id, 0, SETVAL, a));
	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		struct sembuf d = { 0, -2, SEM_UNDO };
		semop(id, &d, 1);
		_exit(semctl(id, 0, GETVAL));
	}
	R(io_reap(c));
	R(semctl(id, 0, GETVAL));
	R(semctl(id, 0, GETNCNT));
	R(semctl(id, 0, GETZCNT));
	R(semctl(id, 0, IPC_RMID));
}

struct msg {
	long type;
	char text[64];
};

CASE(messages)
{
	int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
	struct msg m = { 1, "one" };

	B(id >= 0);
	R(msgsnd(id, &m, 4, 0));
	m = (struct msg){ 3, "three" };
	R(msgsnd(id, &m, 6, 0));
	m = (struct msg){ 2, "two" };
	R(msgsnd(id, &m, 4, 0));
	R(msgrcv(id, &m, 64, 3, 0));
	printf("%ld %s\n", m.type, m.text);
	R(msgrcv(id, &m, 64, -2, 0));
	printf("%ld %s\n", m.type, m.text);
	R(msgrcv(id, &m, 64, 77, IPC_NOWAIT));
	R(msgrcv(id, &m, 1, 0, 0));
	R(msgrcv(id, &m, 1, 0, MSG_NOERROR));
	R(msgrcv(id, &m, 64, 0, IPC_NOWAIT));
	m.type = 0;
	R(msgsnd(id, &m, 4, 0));
	m.type = 1;
	R(msgsnd(id, &m, (size_t)-1, 0));
	R(msgsnd(id, &m, 9000, 0));
	R(msgsnd(-1, &m, 1, 0));
	R(msgsnd(id, BADP, 1, 0));
	struct msqid_ds ds;
	R(msgctl(id, IPC_STAT, &ds));
	printf("qnum %ld qbytes %ld\n", (long)ds.msg_qnum, (long)ds.msg_qbytes);
	static struct {
		long type;
		char text[8192];
	} big = { 1, "" };
	R(msgsnd(id, &big, 8192, 0));
	R(msgsnd(id, &big, 8192, 0));
	R(msgsnd(id, &big, 1, IPC_NOWAIT));
	R(msgctl(id, IPC_RMID, NULL));
	R(msgsnd(id, &m, 1, 0));
	R(msgget(0x5ead7777, 0));
	R(msgctl(id, 99, NULL));
}

CASE(message_waits)
{
	int id = msgget(IPC_PRIVATE, IPC_CREAT | 0600);
	struct msg m = { 5, "late" };

	fflush(stdout);
	pid_t c = fork();
	if (c == 0) {
		io_nap(30);
		msgsnd(id, &m, 5, 0);
		_exit(0);
	}
	R(msgrcv(id, &m, 64, 5, 0));
	io_reap(c);
	io_on(SIGUSR1, SA_RESTART);
	c = io_kick(SIGUSR1, 30);
	R(msgrcv(id, &m, 64, 5, 0));
	io_reap(c);
	fflush(stdout);
	c = fork();
	if (c == 0) {
		io_nap(30);
		msgctl(id, IPC_RMID, NULL);
		_exit(0);
	}
	R(msgrcv(id, &m, 64, 5, 0));
	io_reap(c);
}

/* Is there a line for @id in the list of its kind? */
static int listed(const char *kind, int id)
{
	char path[64], line[512];
	int found = 0, key, one;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/sysvipc/%s", kind);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%d %d", &key, &one) == 2 && one == id)
			found++;
	if (f)
		fclose(f);
	return found;
}

CASE(lists_and_numbers)
{
	int m = msgget(IPC_PRIVATE, 0600), s = semget(IPC_PRIVATE, 2, 0600);
	int h = shmget(IPC_PRIVATE, 4096, 0600);
	struct msqid_ds md;
	struct semid_ds sd;
	struct shmid_ds hd;

	R(listed("msg", m));
	R(listed("sem", s));
	R(listed("shm", h));
	B(msgctl(m, 13 /* MSG_STAT_ANY */, &md) == m);
	B(semctl(s, 0, 20 /* SEM_STAT_ANY */, &sd) == s);
	B(shmctl(h, 15 /* SHM_STAT_ANY */, &hd) == h);
	msgctl(m, IPC_RMID, NULL);
	semctl(s, 0, IPC_RMID);
	shmctl(h, IPC_RMID, NULL);
	R(listed("msg", m) + listed("sem", s) + listed("shm", h));
}
