/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/machine_test.c - guests of a few instructions on whatever /dev/kvm there is.
 *
 * They run on a paravirtual KVM too, on which no Linux boots. Without any /dev/kvm this test says
 * so and counts as skipped, with the reason.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <linux/kvm.h>
#include <cmocka.h>

#include "base/ckd.h"
#include "tier/vm/machine.h"
#include "tier/vm/tiny.h"
#include "tier/vm/virtio/block.h"
#include "tier/vm/virtio/rng.h"

enum { MEM = 16 << 20, SKIPPED = 77 };

static int kvm = -1;

struct output {
	char text[64];
	unsigned len;
};

static void collect(void *arg, uint8_t byte)
{
	struct output *o = arg;

	if (o->len < sizeof(o->text) - 1)
		o->text[o->len++] = (char)byte;
}

static void make(struct machine *m, struct output *o, unsigned cpus)
{
	struct machine_config c = {
		.kvm = kvm, .memory_bytes = MEM, .cpus = cpus, .console = collect, .arg = o
	};
	struct err e = { 0 };

	if (machine_create(m, &c, &e) < 0)
		fail_msg("%s", e.msg);
}

static void load_way(struct machine *m, const uint8_t *code, size_t len, bool pvh)
{
	int fd = kernel_of_way(code, len, pvh);
	struct boot_request q = { .kernel = fd, .initrd = -1, .cmdline = "" };
	struct err e = { 0 };

	if (machine_boot(m, &q, &e) < 0)
		fail_msg("%s", e.msg);
	close(fd);
}

static void load(struct machine *m, const uint8_t *code, size_t len)
{
	load_way(m, code, len, true);
}

static void says_hello(void **state)
{
	/* mov dx,0x3f8; "hi" to it; mov al,0xfe; out 0x64,al; jmp . */
	static const uint8_t code[] = { 0x66, 0xba, 0xf8, 0x03, 0xb0, 'h', 0xee, 0xb0, 'i', 0xee,
		0xb0, 0xfe, 0xe6, 0x64, 0xeb, 0xfe };
	struct output o = { .len = 0 };
	struct machine m;
	struct err e = { 0 };

	(void)state;
	make(&m, &o, 1);
	load(&m, code, sizeof(code));
	assert_int_equal(machine_run(&m, &e), 0);
	assert_int_equal(m.end, MACHINE_OFF);
	assert_string_equal(o.text, "hi");
	assert_int_equal(m.exits.port_out, 3);
	assert_int_equal(m.exits.port_in, 0);
	machine_done(&m);
}

/* The other way into a kernel: in long mode, with a page table and the zero page in rsi. */
static void in_64_bits(void **state)
{
	/* mov rax,0x1234567800000000; shr rax,32; cmp eax,0x12345678; jne .; cmp word
	 * [rsi+0x1fe],0xaa55; jne .; mov dx,0x3f8; mov al,'L'; out dx,al; mov al,0xfe; out
	 * 0x64,al; jmp . */
	static const uint8_t code[] = { 0x48, 0xb8, 0x00, 0x00, 0x00, 0x00, 0x78, 0x56, 0x34, 0x12,
		0x48, 0xc1, 0xe8, 0x20, 0x3d, 0x78, 0x56, 0x34, 0x12, 0x75, 0xfe, 0x66, 0x81, 0xbe,
		0xfe, 0x01, 0x00, 0x00, 0x55, 0xaa, 0x75, 0xfe, 0x66, 0xba, 0xf8, 0x03, 0xb0, 'L',
		0xee, 0xb0, 0xfe, 0xe6, 0x64, 0xeb, 0xfe };
	struct output o = { .len = 0 };
	struct machine m;
	struct err e = { 0 };

	(void)state;
	make(&m, &o, 1);
	load_way(&m, code, sizeof(code), false);
	assert_int_equal(machine_run(&m, &e), 0);
	assert_int_equal(m.end, MACHINE_OFF);
	assert_string_equal(o.text, "L");
	machine_done(&m);
}

/* KVM takes the masked table and runs with it. What the guest sees is not asked here: a paravirtual
 * KVM shows it the real CPU. */
static void portable_cpu(void **state)
{
	/* mov al,0xfe; out 0x64,al; jmp . */
	static const uint8_t code[] = { 0xb0, 0xfe, 0xe6, 0x64, 0xeb, 0xfe };
	enum { L7_EBX_SHA = 1 << 29, L7_EBX_AVX512F = 1 << 16 };
	struct machine_config c = {
		.kvm = kvm, .memory_bytes = MEM, .cpus = 2, .cpu = CPU_PORTABLE
	};
	struct machine m;
	struct err e = { 0 };

	(void)state;
	if (machine_create(&m, &c, &e) < 0)
		fail_msg("%s", e.msg);
	for (unsigned i = 0; i < m.cpuid->nent; i++)
		if (m.cpuid->entries[i].function == 7)
			assert_int_equal(
				m.cpuid->entries[i].ebx & (L7_EBX_SHA | L7_EBX_AVX512F), 0);
	load(&m, code, sizeof(code));
	assert_int_equal(machine_run(&m, &e), 0);
	assert_int_equal(m.end, MACHINE_OFF);
	machine_done(&m);
}

/* The guest finds a device by its registers, and one more window that is empty. */
static void finds_a_device(void **state)
{
	/* mov dx,0x3f8; mov eax,[0xc0001000]; out dx,al; mov eax,[0xc0001008]; add al,'0';
	 * out dx,al; mov eax,[0xc0002000]; cmp eax,-1; jne .; mov al,0xfe; out 0x64,al; jmp . */
	static const uint8_t code[] = { 0x66, 0xba, 0xf8, 0x03, 0xa1, 0x00, 0x10, 0x00, 0xc0, 0xee,
		0xa1, 0x08, 0x10, 0x00, 0xc0, 0x04, '0', 0xee, 0xa1, 0x00, 0x20, 0x00, 0xc0, 0x83,
		0xf8, 0xff, 0x75, 0xfe, 0xb0, 0xfe, 0xe6, 0x64, 0xeb, 0xfe };
	struct rng *rng = calloc(1, sizeof(*rng));
	struct output o = { .len = 0 };
	struct machine m;
	struct err e = { 0 };

	(void)state;
	assert_non_null(rng);
	make(&m, &o, 1);
	rng_init(rng, &m.mem, machine_raise, machine_place(&m, 0));
	assert_int_equal(machine_attach(&m, &rng->dev, &e), 0);
	load(&m, code, sizeof(code));
	assert_int_equal(machine_run(&m, &e), 0);
	assert_string_equal(o.text, "v4"); /* "virt", and a device that gives randomness */
	assert_int_equal(m.exits.mmio_read, 3);
	machine_done(&m);
	free(rng);
}

static void crashes(void **state)
{
	/* mov dx,0x3f8; out dx,al; lidt of an empty table; int3: a fault in a fault in a fault */
	static const uint8_t code[] = { 0x66, 0xba, 0xf8, 0x03, 0xee, 0x0f, 0x01, 0x1d, 0x00, 0x60,
		0x00, 0x00, 0xcc };
	struct output o = { .len = 0 };
	struct machine m;
	struct err e = { 0 };

	(void)state;
	make(&m, &o, 1);
	load(&m, code, sizeof(code));
	gmem_fill(&m.mem, GPA(0x6000), 0, 64);
	assert_int_equal(machine_run(&m, &e), 0);
	assert_int_equal(m.end, MACHINE_CRASHED);
	/* How KVM calls it differs; where the guest was seen last does not. */
	assert_non_null(strstr(m.why, " after it wrote to port 0x3f8 ("));
	machine_done(&m);
}

struct pauser {
	struct machine *m;
	int result;
	uint64_t before, after;
};

static void *pause_and_look(void *arg)
{
	struct pauser *p = arg;
	struct err e = { 0 };
	uint32_t first = 0, again = 0;

	while (first < 1000) /* it counts at 2 MiB */
		gmem_read(&p->m->mem, GPA(0x200000), &first, 4);
	p->result = machine_pause(p->m, &e);
	gmem_read(&p->m->mem, GPA(0x200000), &first, 4);
	usleep(20000);
	gmem_read(&p->m->mem, GPA(0x200000), &again, 4);
	if (p->result == 0 && first != again)
		p->result = -EBUSY; /* it went on */
	machine_resume(p->m);
	while (again == first)
		gmem_read(&p->m->mem, GPA(0x200000), &again, 4);
	machine_stop(p->m);
	return NULL;
}

/* A guest that never leaves by itself is stopped, stands still, goes on, and is ended. */
static void pauses(void **state)
{
	/* inc dword [0x200000]; jmp back */
	static const uint8_t code[] = { 0xff, 0x05, 0x00, 0x00, 0x20, 0x00, 0xeb, 0xf8 };
	struct output o = { .len = 0 };
	struct machine m;
	struct pauser p = { .m = &m };
	struct err e = { 0 };
	pthread_t t;

	(void)state;
	make(&m, &o, 2);
	load(&m, code, sizeof(code));
	assert_int_equal(pthread_create(&t, NULL, pause_and_look, &p), 0);
	assert_int_equal(machine_run(&m, &e), 0);
	pthread_join(t, NULL);
	assert_int_equal(p.result, 0);
	assert_int_equal(m.end, MACHINE_OFF);
	machine_done(&m);
}

/* --- Guests with bad intentions --------------------------------------------------------------- */

enum {
	LIST = 0x200000, /* what the guest does, in steps of three words */
	DEVICE = 0xc0001000,
	STATUS = DEVICE + 0x70,
	RING = 0x300000, /* descriptors; then 0x1000 further what is available, and what is used */
	AVAIL = RING + 0x1000,
	USED = RING + 0x2000,
	DATA = 0x400000,
	RING_SIZE = 8,
	STEPS_MAX = 64,
	FLAG_NEXT = 1 << 0, /* of a descriptor, in the upper word of its last half */
	FLAG_WRITE = 1 << 1,
	FLAG_INDIRECT = 1 << 2,
};

struct script {
	uint32_t step[STEPS_MAX][3]; /* 0: end, 1: write, 2: wait for a bit; where; what */
	unsigned len;
};

static void add_step(struct script *s, uint32_t kind, uint32_t at, uint32_t what)
{
	assert_true(s->len < STEPS_MAX - 1);
	s->step[s->len][0] = kind;
	s->step[s->len][1] = at;
	s->step[s->len++][2] = what;
}

static void poke(struct script *s, uint32_t at, uint32_t what)
{
	add_step(s, 1, at, what);
}

static void describe(
	struct script *s, unsigned i, uint64_t at, uint32_t len, uint32_t flags, uint32_t next)
{
	poke(s, RING + 16 * i, (uint32_t)at);
	poke(s, RING + 16 * i + 4, (uint32_t)(at >> 32));
	poke(s, RING + 16 * i + 8, len);
	poke(s, RING + 16 * i + 12, flags | next << 16);
}

static void set_ring(struct script *s, uint32_t size, uint32_t at)
{
	poke(s, DEVICE + 0x38, size);
	poke(s, DEVICE + 0x80, at);
	poke(s, DEVICE + 0x90, at + 0x1000);
	poke(s, DEVICE + 0xa0, at + 0x2000);
	poke(s, DEVICE + 0x44, 1);
}

/* The steps of a device's life, as a good driver takes them. */
static void bring_up(struct script *s)
{
	poke(s, STATUS, 1);
	poke(s, STATUS, 3);
	poke(s, DEVICE + 0x24, 1);
	poke(s, DEVICE + 0x20, 1);
	poke(s, STATUS, 11);
	set_ring(s, RING_SIZE, RING);
	poke(s, STATUS, 15);
}

static void run_script(struct machine *m, const struct script *s)
{
	/* mov esi,LIST; again: lodsd; mov ecx,eax; lodsd; mov edi,eax; lodsd; test ecx,ecx; jz end;
	 * cmp ecx,1; jne wait; mov [edi],eax; jmp again; wait: mov edx,[edi]; test edx,eax; jz
	 * wait; jmp again; end: mov al,0xfe; out 0x64,al; jmp . */
	static const uint8_t code[] = { 0xbe, 0x00, 0x00, 0x20, 0x00, 0xad, 0x89, 0xc1, 0xad, 0x89,
		0xc7, 0xad, 0x85, 0xc9, 0x74, 0x11, 0x83, 0xf9, 0x01, 0x75, 0x04, 0x89, 0x07, 0xeb,
		0xec, 0x8b, 0x17, 0x85, 0xc2, 0x74, 0xfa, 0xeb, 0xe4, 0xb0, 0xfe, 0xe6, 0x64, 0xeb,
		0xfe };
	struct err e = { 0 };

	load(m, code, sizeof(code));
	assert_true(gmem_write(&m->mem, GPA(LIST), s->step, sizeof(s->step)));
	assert_int_equal(machine_run(m, &e), 0);
	assert_int_equal(m->end, MACHINE_OFF);
}

struct victim {
	struct machine m;
	struct output o;
	struct disk disk;
	struct block block;
};

static struct victim *victim_make_of(uint64_t memory)
{
	struct machine_config c = { .kvm = kvm, .memory_bytes = memory, .cpus = 1 };
	struct victim *v = calloc(1, sizeof(*v));
	int fd = memfd_create("disk", MFD_CLOEXEC);
	struct err e = { 0 };

	assert_true(v && fd >= 0);
	assert_int_equal(ftruncate(fd, 65536), 0);
	assert_int_equal(pwrite(fd, "disk", 4, 0), 4);
	c.console = collect;
	c.arg = &v->o;
	if (machine_create(&v->m, &c, &e) < 0)
		fail_msg("%s", e.msg);
	assert_int_equal(disk_open(&v->disk, fd, -1, false, &e), 0);
	block_init(&v->block, &v->disk, "disk", true, &v->m.mem, machine_raise,
		machine_place(&v->m, 0));
	assert_int_equal(machine_attach(&v->m, &v->block.dev, &e), 0);
	return v;
}

static struct victim *victim_make(void)
{
	return victim_make_of(MEM);
}

static void victim_free(struct victim *v)
{
	char start[4];

	/* Whatever was tried, nothing was written. */
	assert_int_equal(pread(v->disk.base, start, 4, 0), 4);
	assert_memory_equal(start, "disk", 4);
	machine_done(&v->m);
	disk_close(&v->disk);
	free(v);
}

/* A request to read the first sector, as three descriptors; the head says so with zeros. */
static void good_request(struct script *s)
{
	describe(s, 0, DATA, 16, FLAG_NEXT, 1);
	describe(s, 1, DATA + 0x1000, 512, FLAG_NEXT | FLAG_WRITE, 2);
	describe(s, 2, DATA + 0x2000, 1, FLAG_WRITE, 0);
}

/* Only now, when all is written: the device may look at its ring unasked. */
static void go(struct script *s, uint32_t requests)
{
	poke(s, AVAIL, requests << 16);
	poke(s, DEVICE + 0x50, 0);
}

/* The guest writes its rings itself, and waits until the device has answered or has stopped. */
static void hostile_guests(void **state)
{
	static const struct {
		const char *name;
		uint64_t at;
		uint32_t len, flags, next;
	} second[] = {
		{ "a loop", DATA, 0, FLAG_NEXT, 0 },
		{ "an address in the gap", 0xd0000000, 512, FLAG_WRITE, 0 },
		{ "an address beyond memory", MEM, 512, FLAG_WRITE, 0 },
		{ "across the end of memory", MEM - 256, 512, FLAG_WRITE, 0 },
		{ "an address that wraps", UINT64_MAX - 100, 512, FLAG_WRITE, 0 },
		{ "the device's own registers", DEVICE, 512, FLAG_WRITE, 0 },
		{ "an endless length", DATA, UINT32_MAX, FLAG_WRITE, 0 },
		{ "a table of more", DATA, 512, FLAG_INDIRECT, 0 },
		{ "a next beyond the queue", DATA, 512, FLAG_NEXT, 0xffff },
		{ "no room for the status", DATA, 512, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(second); i++) {
		struct victim *v = victim_make();
		struct script s = { .len = 0 };
		uint32_t used = 1;

		bring_up(&s);
		good_request(&s);
		describe(&s, 1, second[i].at, second[i].len, second[i].flags, second[i].next);
		go(&s, 1);
		add_step(&s, 2, STATUS, VDEV_NEEDS_RESET);
		run_script(&v->m, &s);
		assert_true(gmem_read(&v->m.mem, GPA(USED), &used, sizeof(used)));
		if (!v->block.dev.complaint || used != 0)
			fail_msg("%s: used %#x", second[i].name, used);
		victim_free(v);
	}
}

/* More requests than the queue holds; a head beyond it; a ring that is not there at all. */
static void hostile_rings(void **state)
{
	enum { MANY, HEAD, NO_RING, ODD_SIZE, CASES };

	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct victim *v = victim_make();
		struct script s = { .len = 0 };

		if (i == NO_RING || i == ODD_SIZE) {
			poke(&s, STATUS, 1);
			poke(&s, STATUS, 3);
			poke(&s, DEVICE + 0x24, 1);
			poke(&s, DEVICE + 0x20, 1);
			poke(&s, STATUS, 11);
			set_ring(&s, i == ODD_SIZE ? 7 : 8, i == NO_RING ? 0xfffff000 : RING);
			poke(&s, STATUS, 15);
		} else {
			bring_up(&s);
			good_request(&s);
			if (i == HEAD)
				poke(&s, AVAIL + 4, RING_SIZE);
		}
		go(&s, i == MANY ? 0x7fff : 1);
		add_step(&s, 2, STATUS, VDEV_NEEDS_RESET);
		run_script(&v->m, &s);
		assert_non_null(v->block.dev.complaint);
		victim_free(v);
	}
}

/* A request, and the end right behind it, without waiting for the answer: it is answered. */
static void last_words(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		struct victim *v = victim_make();
		struct script s = { .len = 0 };

		bring_up(&s);
		good_request(&s);
		go(&s, 1);
		run_script(&v->m, &s);
		assert_int_equal(v->block.requests, 1);
		victim_free(v);
	}
}

/* Registers that change after DRIVER_OK change nothing; and after a reset the device is whole. */
static void changed_too_late(void **state)
{
	struct victim *v = victim_make();
	struct script s = { .len = 0 };
	char sector[4];

	(void)state;
	bring_up(&s);
	set_ring(&s, 256, MEM - 0x1000);
	poke(&s, DEVICE + 0x44, 0);
	good_request(&s);
	go(&s, 1);
	add_step(&s, 2, USED, 0xffffu << 16);
	run_script(&v->m, &s);
	assert_true(gmem_read(&v->m.mem, GPA(DATA + 0x1000), sector, sizeof(sector)));
	assert_memory_equal(sector, "disk", 4);
	assert_int_equal(v->block.dev.queues[0].size, RING_SIZE);
	victim_free(v);
}

/* More than 3 GiB are two pieces: a disk reads into the second, and not across both. */
static void above_the_gap(void **state)
{
	static const struct {
		uint64_t at;
		uint32_t bit; /* of the status, to wait for; 0: for the answer */
	} cases[] = { { GMEM_GAP_END + 0x1000, 0 }, { GMEM_GAP_START - 256, VDEV_NEEDS_RESET },
		{ GMEM_GAP_END + MEM - 256, VDEV_NEEDS_RESET } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct victim *v = victim_make_of(GMEM_GAP_START + MEM);
		struct script s = { .len = 0 };
		char sector[4];

		bring_up(&s);
		good_request(&s);
		describe(&s, 1, cases[i].at, 512, FLAG_NEXT | FLAG_WRITE, 2);
		go(&s, 1);
		if (cases[i].bit)
			add_step(&s, 2, STATUS, cases[i].bit);
		else
			add_step(&s, 2, USED, 0xffffu << 16);
		run_script(&v->m, &s);
		if (!cases[i].bit) {
			assert_true(gmem_read(&v->m.mem, GPA(cases[i].at), sector, sizeof(sector)));
			assert_memory_equal(sector, "disk", 4);
		}
		victim_free(v);
	}
}

static void refuses(void **state)
{
	static const struct {
		uint64_t memory;
		unsigned cpus;
	} cases[] = { { MEM, 0 }, { MEM, 33 }, { 0, 1 }, { MEM + 1, 1 }, { UINT64_MAX, 1 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct machine_config c = {
			.kvm = kvm, .memory_bytes = cases[i].memory, .cpus = cases[i].cpus
		};
		struct machine m;
		struct err e = { 0 };

		assert_true(machine_create(&m, &c, &e) < 0);
		assert_true(e.msg[0] != '\0');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_hello),
		cmocka_unit_test(in_64_bits),
		cmocka_unit_test(portable_cpu),
		cmocka_unit_test(finds_a_device),
		cmocka_unit_test(crashes),
		cmocka_unit_test(pauses),
		cmocka_unit_test(hostile_guests),
		cmocka_unit_test(hostile_rings),
		cmocka_unit_test(changed_too_late),
		cmocka_unit_test(last_words),
		cmocka_unit_test(above_the_gap),
		cmocka_unit_test(refuses),
	};

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0) {
		printf("skipped: /dev/kvm: %s\n", strerror(errno));
		return SKIPPED;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
