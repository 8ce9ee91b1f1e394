/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/kernel/shim/stubs.c - calls that are answered where they are made.
 *
 * Owns:  struct place_state.
 * Rules: as in inside.h. shim.h says how a site comes here.
 */
#include "tier/kernel/shim/inside.h"

/*
 * Answers in place: shim.h says how a site comes here. rcx is the site's offset. What is needed of
 * other registers is kept in PLACE_STATE, which one at a time can use: a signal handler of the
 * guest that comes here meanwhile, and every thread of a process that has several, is sent to the
 * syscall. A flag is kept in al and ah; mov, lea and jmp leave them alone.
 */
_Static_assert(sizeof(struct place_site) == 32 && sizeof(struct place_answer) == 352 &&
		       offsetof(struct place_answer, path) == 48 &&
		       offsetof(struct place_answer, data) == 208 &&
		       offsetof(struct place_signals, known) == 2048 &&
		       offsetof(struct place_signals, age) == 2112 &&
		       sizeof(struct place_fd) == 216 && offsetof(struct place_fd, stat) == 72 &&
		       offsetof(struct place_fd, pos) == 40 && PLACE_FDS == 64 &&
		       offsetof(struct place_fd, text_at) == 56 &&
		       offsetof(struct place_fd, closed) == 64,
	"as the stubs have it");
_Static_assert(offsetof(struct place_state, view) == PLACE_VIEW - PLACE_STATE &&
		       offsetof(struct place_state, read_pos) == 64 &&
		       offsetof(struct place_state, rsp) == 80 &&
		       offsetof(struct place_state, r10) == 120 &&
		       offsetof(struct place_state, head) == 160 &&
		       offsetof(struct place_state, carry) == 192 &&
		       offsetof(struct place_state, ret) == 200 &&
		       offsetof(struct place_carry, outs) == 168 && PLACE_OPEN == 5 &&
		       PLACE_DENTS == 13 && PLACE_OPEN_CWD == 20 &&
		       sizeof(struct place_value) == 32 && offsetof(struct place_value, age) == 8 &&
		       offsetof(struct place_value, value) == 16,
	"as the stubs have it");
_Static_assert(
	PLACE_SITES_AT + PLACE_SITES * sizeof(struct place_site) <= PLACE_STATE &&
		PLACE_STATE + sizeof(struct place_state) <= PLACE_ANY_AT &&
		PLACE_ANY_AT + ANY_SHAPES * sizeof(struct place_site) <= PLACE_VALUES_AT &&
		PLACE_VALUES_AT + PLACE_VALUES * sizeof(struct place_value) <= PLACE_SIGNALS_AT &&
		PLACE_SIGNALS_AT + sizeof(struct place_signals) <= PLACE_FDS_AT &&
		PLACE_FDS_AT + PLACE_FDS * sizeof(struct place_fd) <= PLACE_TEXT_AT &&
		PLACE_TEXT_AT + PLACE_TEXT <= PLACE_AGE && PLACE_STACK_AT == PLACE_SHARED_END &&
		sizeof(struct place_log) == PLACE_LOG_SIZE &&
		PLACE_LOG_AT + PLACE_LOG_SIZE == PLACE_CARRY_AT &&
		sizeof(struct place_carry) == PLACE_CARRY_SIZE &&
		PLACE_CARRY_AT + PLACE_CARRY_SIZE == PLACE_BASE + PLACE_SIZE &&
		(AGE_PROC + 2 * AGE_PROCS) * 8 <= 4096 && AGE_MASK == 7 &&
		PLACE_ANSWERS_AT + PLACE_ANSWERS * sizeof(struct place_answer) == PLACE_SHARED_END,
	"one behind the other");
/* What C may change, and what a call that begins again needs. */
#define KEEP_REGISTERS                                                                             \
	"	mov %rsp, STATE+80\n"                                                                    \
	"	mov %rbx, STATE+88\n"                                                                    \
	"	mov %rbp, STATE+96\n"                                                                    \
	"	mov %r8, STATE+104\n"                                                                    \
	"	mov %r9, STATE+112\n"                                                                    \
	"	mov %r10, STATE+120\n"                                                                   \
	"	mov %r12, STATE+128\n"                                                                   \
	"	mov %r13, STATE+136\n"                                                                   \
	"	mov %r14, STATE+144\n"                                                                   \
	"	mov %r15, STATE+152\n"
#define BRING_REGISTERS                                                                            \
	"	mov STATE+80, %rsp\n"                                                                    \
	"	mov STATE+104, %r8\n"                                                                    \
	"	mov STATE+112, %r9\n"                                                                    \
	"	mov STATE+120, %r10\n"
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
/* clang-format off */
__asm__(".set SITES, " TEXT(PLACE_SITES_AT) "\n"
	".set STATE, " TEXT(PLACE_STATE) "\n"
	".set ANSWERS, " TEXT(PLACE_ANSWERS_AT) "\n"
	".set SIGNALS, " TEXT(PLACE_SIGNALS_AT) "\n"
	".set FDS, " TEXT(PLACE_FDS_AT) "\n"
	".set AGE, " TEXT(PLACE_AGE) "\n"
	".set LOG, " TEXT(PLACE_LOG_AT) "\n"
	".set CARRY, " TEXT(PLACE_CARRY_AT) "\n"
	".set ANY, " TEXT(PLACE_ANY_AT) "\n"
	".set VALUES, " TEXT(PLACE_VALUES_AT) "\n"
	".set HASH_START, " TEXT(PLACE_HASH_START_) "\n"
	".set HASH_TIMES, " TEXT(PLACE_HASH_TIMES_) "\n");
/* clang-format on */
__asm__(".text\n"
	".globl place_stubs, place_touch, place_touched, place_give_up\n"
	".globl place_carry, place_carried, place_carry_done\n"
	".globl place_any_glibc, place_any_musl_cp, place_any_musl\n"
	".balign 16\n"
	".set site, 0\n"
	"place_stubs:\n"
	".rept 64\n"
	".balign 16\n"
	"	mov $site, %ecx\n"
	"	jmp place_enter\n"
	".set site, site + 32\n"
	".endr\n"
	".balign 16\n"
	"place_enter:\n"
	"	seto %al\n"
	"	lahf\n"
	"	cmpl $0, SITES+12(%rcx)\n"
	"	jne 1f\n"
	"	mov SITES+16(%rcx), %r11\n"
	"	cmp AGE, %r11\n"
	"	jne place_call\n"
	"	mov SITES(%rcx), %r11\n"
	"	add $0x7f, %al\n"
	"	sahf\n"
	"	mov SITES+24(%rcx), %rax\n"
	"	jmp *%r11\n"
	/* STATE: busy, threads (two words); then rdi, rsi, rdx, flags, site; stamp, view, hash
	   (words); the position that a read began at, and where it stands, or 0 */
	"1:	mov SITES+12(%rcx), %r11d\n"
	"	cmp $20, %r11d\n"
	"	jne 2f\n"
	"	mov $-100, %edi\n" /* AT_FDCWD */
	"	mov $5, %r11d\n"
	"2:	cmpq $0, STATE\n"
	"	jne place_call\n"
	"	movl $1, STATE\n"
	"	mov %rdi, STATE+8\n"
	"	mov %rsi, STATE+16\n"
	"	mov %rdx, STATE+24\n"
	"	mov %rax, STATE+32\n"
	"	mov %rcx, STATE+40\n"
	"	mov %r11d, %eax\n"
	"place_kind:\n"
	"	cmp $13, %eax\n"
	"	ja place_later\n"
	"	cmp $6, %eax\n"
	"	je place_signal\n"
	"	ja place_fd\n"
	"	mov %rdx, %rcx\n"
	"	mov %rdi, %r11\n" /* path */
	"	xor %edx, %edx\n" /* what else counts */
	"	cmp $2, %eax\n"
	"	jb 3f\n"
	"	cmove %esi, %edx\n"
	"	je 3f\n"
	"	cmp $-100, %edi\n" /* AT_FDCWD */
	"	jne place_fd\n"
	"	mov %rsi, %r11\n"
	"	cmp $4, %eax\n"
	"	cmove %r10d, %edx\n"
	"	cmova %ecx, %edx\n"
	"3:	mov STATE+40, %rcx\n"
	"	mov SITES+8(%rcx), %eax\n" /* nr */
	"	xor %edx, %eax\n"
	"	xor $HASH_START, %eax\n"
	"	xor %esi, %esi\n"
	"place_touch:\n"
	"4:	movzbl (%r11,%rsi), %ecx\n"
	"	test %ecx, %ecx\n"
	"	jz 5f\n"
	"	xor %ecx, %eax\n"
	"	imul $HASH_TIMES, %eax, %eax\n"
	"	inc %esi\n"
	"	cmp $160, %esi\n"
	"	jb 4b\n"
	"	jmp place_give_up\n"
	"5:	mov STATE+40, %rcx\n"
	"	mov SITES+8(%rcx), %ecx\n" /* nr */
	"	mov %eax, %edi\n"
	"	shr $21, %edi\n"
	"	and AGE+56, %edi\n"
	"	imul $352, %edi, %edi\n"
	"	cmp %eax, ANSWERS+16(%rdi)\n"
	"	je 2f\n"
	"	mov %eax, %edi\n"
	"	shr $21, %edi\n"
	"	and AGE+56, %edi\n"
	"	xor $1, %edi\n"
	"	imul $352, %edi, %edi\n"
	"2:	add $ANSWERS, %edi\n"
	"	mov %eax, STATE+56\n"
	"	mov 40(%rdi), %eax\n" /* its stamp, before anything that is used */
	"	mov %eax, STATE+48\n"
	"	test $1, %al\n"
	"	jnz place_give_up\n"
	"	mov STATE+56, %eax\n"
	"	cmp %eax, 16(%rdi)\n"
	"	jne place_give_up\n"
	"	cmp %ecx, 8(%rdi)\n"
	"	jne place_give_up\n"
	"	cmp %edx, 12(%rdi)\n"
	"	jne place_give_up\n"
	"	cmp %esi, 20(%rdi)\n"
	"	jne place_give_up\n"
	"	mov STATE+52, %eax\n"
	"	cmp %eax, 32(%rdi)\n"
	"	jne place_give_up\n"
	"	movzwl 36(%rdi), %ecx\n"
	"	and $24, %ecx\n"
	"	mov AGE(%rcx), %rax\n"
	"	cmp %rax, (%rdi)\n"
	"	jne place_give_up\n"
	"6:	test %esi, %esi\n"
	"	jz 7f\n"
	"	dec %esi\n"
	"	movzbl (%r11,%rsi), %eax\n"
	"	cmp %al, 48(%rdi,%rsi)\n"
	"	je 6b\n"
	"	jmp place_give_up\n"
	/* What was found goes to the second argument, or the third after a directory. */
	"7:	mov %rdi, %r11\n"
	"	movzwl 38(%rdi), %ecx\n"
	"	shr $3, %ecx\n"
	"	mov STATE+40, %rdx\n"
	"	cmpl $3, SITES+12(%rdx)\n"
	"	mov STATE+16, %rdi\n"
	"	jb 8f\n"
	"	mov STATE+24, %rdi\n"
	"8:	lea 208(%r11), %rsi\n"
	"	rep movsq\n"
	"	mov 24(%r11), %rcx\n"
	"	mov 40(%r11), %eax\n"
	"	cmp %eax, STATE+48\n"
	"	jne place_give_up\n"
	"9:	mov STATE+40, %r11\n"
	"	mov SITES(%r11), %r11\n"
	"	mov STATE+8, %rdi\n"
	"	mov STATE+16, %rsi\n"
	"	mov STATE+24, %rdx\n"
	"	mov STATE+32, %rax\n"
	"	movl $0, STATE\n"
	"	add $0x7f, %al\n"
	"	sahf\n"
	"	mov %rcx, %rax\n"
	"	jmp *%r11\n"
	/* (signal, new, old, size): who asks is answered here, who sets in C. */
	"place_signal:\n"
	"	test %rsi, %rsi\n"
	"	jnz place_later\n"
	"	cmp $8, %r10\n"
	"	jne place_give_up\n"
	"	lea -1(%rdi), %eax\n"
	"	cmp $64, %eax\n"
	"	jae place_give_up\n"
	"	mov AGE+24, %r11\n"
	"	cmp %r11, SIGNALS+2112\n"
	"	jne place_give_up\n"
	"	cmpb $0, SIGNALS+2048(%rax)\n"
	"	je place_give_up\n"
	"	xor %ecx, %ecx\n"
	"	test %rdx, %rdx\n"
	"	jz 9b\n"
	"	shl $5, %eax\n"
	"	lea SIGNALS(%rax), %rsi\n"
	"	mov %rdx, %rdi\n"
	"	mov $4, %ecx\n"
	"	rep movsq\n"
	"	jmp 9b\n"
	/* By descriptor: stat, by its own call or with no path; TCGETS of no terminal; where it is.
	 */
	"place_fd:\n"
	"	cmp $12, %eax\n"
	"	je place_mmap\n"
	"	cmp $11, %eax\n"
	"	je place_close\n"
	"	cmp $64, %edi\n"
	"	jae place_give_up\n"
	"	imul $216, %edi, %r11d\n"
	"	mov FDS+24(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS(%r11)\n"
	"	jne place_give_up\n"
	"	cmp $9, %eax\n"
	"	ja place_lent\n"
	"	je 3f\n"
	"	cmp $8, %eax\n"
	"	jb 4f\n"
	"	testb $2, FDS+36(%r11)\n"
	"	jz place_give_up\n"
	"	cmp $0x5401, %esi\n"
	"	jne place_give_up\n"
	"	mov $-25, %rcx\n" /* ENOTTY */
	"	jmp 9b\n"
	"3:	testb $4, FDS+36(%r11)\n"
	"	jz place_give_up\n"
	"	mov FDS+32(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS+16(%r11)\n"
	"	jne place_give_up\n"
	"	mov STATE+24, %rcx\n"
	"	cmp $1, %ecx\n" /* SEEK_CUR */
	"	jne 10f\n"
	"	test %rsi, %rsi\n"
	"	jnz place_give_up\n"
	"	mov FDS+40(%r11), %rcx\n"
	"	jmp 9b\n"
	"10:	test %ecx, %ecx\n" /* SEEK_SET */
	"	jnz place_give_up\n"
	"	testb $136, FDS+36(%r11)\n" /* only where the kernel process asks for it */
	"	jz place_give_up\n"
	"	test %rsi, %rsi\n"
	"	js place_give_up\n"
	"	mov %rsi, FDS+40(%r11)\n"
	"	mov %rsi, %rcx\n"
	"	jmp 9b\n"
	"4:	testb $1, FDS+36(%r11)\n"
	"	jz place_give_up\n"
	"	mov FDS+28(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS+8(%r11)\n"
	"	jne place_give_up\n"
	"	cmp $7, %eax\n"
	"	je 5f\n"
	"	cmp $4, %eax\n"
	"	jne place_give_up\n"
	"	cmp $0x1000, %r10\n" /* AT_EMPTY_PATH */
	"	jne place_give_up\n"
	"	cmpb $0, (%rsi)\n"
	"	jne place_give_up\n"
	"	mov STATE+24, %rsi\n"
	"5:	mov %rsi, %rdi\n"
	"	lea FDS+72(%r11), %rsi\n"
	"	mov $18, %ecx\n"
	"	rep movsq\n"
	"	jmp 9b\n"
	/* What is as old as positions. */
	"place_lent:\n"
	"	mov FDS+32(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS+16(%r11)\n"
	"	jne place_give_up\n"
	"	cmp $11, %eax\n"
	"	ja 8f\n"
	/* read: as much as there is, if it is here. A handler that comes meanwhile finds the
	   position where it will be. */
	"	testb $8, FDS+36(%r11)\n"
	"	jz place_later\n"
	"	mov STATE+24, %rdx\n"
	"	test %rdx, %rdx\n"
	"	jle place_give_up\n"
	"	mov FDS+40(%r11), %rcx\n"
	"	mov FDS+48(%r11), %rax\n"
	"	sub %rcx, %rax\n"
	"	jb place_give_up\n"
	"	cmp %rdx, %rax\n"
	"	cmova %rdx, %rax\n"
	"	lea (%rcx,%rax), %rdi\n"
	"	mov FDS+60(%r11), %edx\n"
	"	cmp %rdx, %rdi\n"
	"	ja 11f\n"
	"	mov FDS+56(%r11), %edx\n"
	"	add %rcx, %rdx\n"
	"	mov %rcx, STATE+64\n"
	"	add $FDS+40, %r11d\n"
	"	mov %r11, STATE+72\n"
	"	mov %rdi, (%r11)\n"
	"	mov %rsi, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	mov %rax, %rcx\n"
	"	rep movsb\n"
	"	mov %rax, %rcx\n"
	"	movq $0, STATE+72\n"
	"	jmp 9b\n"
	"11:	mov $10, %eax\n" /* the host may have it */
	"	jmp place_later\n"
	/* close: what is lent, where the host's copy goes here; or later. */
	"place_close:\n"
	"	cmp $64, %edi\n"
	"	jae place_give_up\n"
	"	imul $216, %edi, %r11d\n"
	"	mov FDS+24(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS(%r11)\n"
	"	jne place_later\n"
	"	mov FDS+32(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS+16(%r11)\n"
	"	jne place_later\n"
	"	testb $16, FDS+36(%r11)\n"
	"	jz place_later\n"
	"	movl $1, FDS+64(%r11)\n"
	"	movq $0, FDS(%r11)\n"
	"	testb $32, FDS+36(%r11)\n"
	"	jz 7f\n"
	"	mov %edi, %esi\n"
	"	xor %edx, %edx\n"
	"	mov $436, %eax\n" /* close_range */
	"	syscall\n"
	"7:	xor %ecx, %ecx\n"
	"	jmp 9b\n"
	/* getdents64 */
	"8:	testb $64, FDS+36(%r11)\n"
	"	jnz 7b\n"
	"	jmp place_give_up\n"
	/* mmap, private, of what the host has at that number, not where we are. */
	"place_mmap:\n"
	"	cmp $64, %r8d\n"
	"	jae place_give_up\n"
	"	test $~0x812, %r10d\n"
	"	jnz place_give_up\n"
	"	mov %rdi, %rcx\n"
	"	shr $32, %rcx\n"
	"	jnz 1f\n"
	"	test %rdi, %rdi\n"
	"	jnz place_give_up\n"
	"1:	imul $216, %r8d, %r11d\n"
	"	mov FDS+24(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS(%r11)\n"
	"	jne place_give_up\n"
	"	mov FDS+32(%r11), %ecx\n"
	"	and $0xff8, %ecx\n"
	"	mov AGE(%rcx), %rcx\n"
	"	cmp %rcx, FDS+16(%r11)\n"
	"	jne place_give_up\n"
	"	testb $32, FDS+36(%r11)\n"
	"	jz place_give_up\n"
	"	mov $9, %eax\n"
	"	syscall\n"
	"	mov %rax, %rcx\n"
	"	jmp 9b\n"
	/* By place_prepare(), with a stack of its own: then the log has it, or nothing has
	   happened. */
	"place_later:\n" KEEP_REGISTERS "	mov %eax, %edi\n"
	"	mov $LOG, %esp\n"
	"	call place_prepare\n" BRING_REGISTERS "	mov %rax, %rcx\n"
	"	cmp $-8192, %rax\n"
	"	je place_give_up\n"
	"	movq $0, STATE+72\n"
	"	mov STATE+168, %r11\n"
	"	test %r11, %r11\n"
	"	jz 9b\n"
	"	mov STATE+160, %rax\n"
	"	lock cmpxchg %r11, LOG\n"
	"	jne place_give_up\n"
	"	jmp 9b\n"
	"place_touched:\n"
	"place_give_up:\n"
	"	mov STATE+72, %rcx\n"
	"	test %ecx, %ecx\n"
	"	jz 1f\n"
	"	mov STATE+64, %rax\n"
	"	mov %rax, (%rcx)\n"
	"	movq $0, STATE+72\n"
	"1:	cmpl $0, STATE+192\n"
	"	jne place_keep\n"
	"place_plain:\n"
	"	mov STATE+8, %rdi\n"
	"	mov STATE+16, %rsi\n"
	"	mov STATE+24, %rdx\n"
	"	mov STATE+32, %rax\n"
	"	mov STATE+40, %rcx\n"
	"	mov SITES(%rcx), %r11\n"
	"	mov SITES+8(%rcx), %ecx\n" /* a handler that comes behind this may change it */
	"	movl $0, STATE\n"
	"	jmp 2f\n"
	"place_call:\n"
	"	mov SITES(%rcx), %r11\n"
	"	mov SITES+8(%rcx), %ecx\n"
	"2:	lea -2(%r11), %r11\n"
	"	add $0x7f, %al\n"
	"	sahf\n"
	"	mov %ecx, %eax\n"
	"	jmp *%r11\n"
	/* The call is made here, and what it reads and writes goes with it. Whatever interrupts
	   that before the call makes it begin again at its site, as a plain one; behind it, what
	   came is copied by the handler. */
	"place_keep:\n" KEEP_REGISTERS "place_carry:\n"
	"	mov $LOG, %esp\n"
	"	call carry_out\n" BRING_REGISTERS "	test %eax, %eax\n"
	"	jz place_plain\n"
	"	mov STATE+8, %rdi\n"
	"	mov STATE+16, %rsi\n"
	"	mov STATE+24, %rdx\n"
	"	mov STATE+40, %rcx\n"
	"	mov SITES+8(%rcx), %eax\n"
	"	syscall\n"
	"place_carried:\n"
	"	mov %rax, STATE+200\n"
	"	movl $1, STATE+196\n"
	"	cmpl $0, CARRY+168\n"
	"	je 1f\n"
	"	mov $LOG, %esp\n"
	"	call carry_back\n" BRING_REGISTERS "1:	mov STATE+200, %rcx\n"
	"	movl $0, STATE+196\n"
	"place_carry_done:\n"
	"	jmp 9b\n");

/*
 * A site that makes any call: its number is in eax, and is kept in r11. What a process is told of
 * itself is looked up by it, with no state, so that every thread gets it. For the others the site
 * gets that number and its kind, once STATE is this call's.
 */
#define ANY_STUB(name, shape, before, args)                                                        \
	name ":\n" before "	mov %eax, %r11d\n"                                                     \
	     "	seto %al\n"                                                                         \
	     "	lahf\n" args "	mov %r11d, %ecx\n"                                                  \
	     "	and $15, %ecx\n"                                                                    \
	     "	shl $5, %ecx\n"                                                                     \
	     "	cmp %r11d, VALUES(%rcx)\n"                                                          \
	     "	jne 1f\n"                                                                           \
	     "	mov VALUES+8(%rcx), %r11\n"                                                         \
	     "	cmp AGE, %r11\n"                                                                    \
	     "	mov VALUES(%rcx), %r11d\n"                                                          \
	     "	jne 1f\n"                                                                           \
	     "	mov VALUES+16(%rcx), %rcx\n"                                                        \
	     "	add $0x7f, %al\n"                                                                   \
	     "	sahf\n"                                                                             \
	     "	mov %rcx, %rax\n"                                                                   \
	     "	jmp *ANY+32*" shape "\n"                                                           \
	     "1:	mov $ANY-SITES+32*" shape ", %ecx\n"                                       \
	     "	jmp place_any\n"

extern const uint8_t place_kinds[268];
const uint8_t place_kinds[] = {
	[SYS_read] = PLACE_READ,
	[SYS_write] = PLACE_MADE,
	[SYS_open] = PLACE_PATH_ARG,
	[SYS_close] = PLACE_CLOSE,
	[SYS_stat] = PLACE_PATH,
	[SYS_fstat] = PLACE_FSTAT,
	[SYS_lstat] = PLACE_PATH,
	[SYS_lseek] = PLACE_LSEEK,
	[SYS_rt_sigaction] = PLACE_SIGNAL,
	[SYS_ioctl] = PLACE_IOCTL,
	[SYS_pread64] = PLACE_PREAD,
	[SYS_pwrite64] = PLACE_PWRITE,
	[SYS_access] = PLACE_PATH_ARG,
	[SYS_fcntl] = PLACE_LOCK,
	[SYS_fsync] = PLACE_SYNC,
	[SYS_fdatasync] = PLACE_SYNC,
	[SYS_readlink] = PLACE_PATH,
	[SYS_getdents64] = PLACE_DENTS,
	[SYS_clock_gettime] = PLACE_CLOCK,
	[SYS_openat] = PLACE_OPEN,
	[SYS_newfstatat] = PLACE_AT_ARG,
	[SYS_readlinkat] = PLACE_AT,
};
_Static_assert(sizeof(place_kinds) == 268 && ANY_GLIBC == 0 && ANY_MUSL_CP == 1 && ANY_MUSL == 2 &&
		       PLACE_VALUES == 16,
	"as the stubs have it");
/* clang-format off */
__asm__(".text\n"
	ANY_STUB("place_any_glibc", "0", "", "	mov 8(%rsp), %r9\n")
	ANY_STUB("place_any_musl_cp", "1", "	mov %rcx, %rdx\n", "	mov 8(%rsp), %r9\n")
	ANY_STUB("place_any_musl", "2", "", "	mov 16(%rdx), %rsi\n	mov 24(%rdx), %rdx\n")
	"place_any:\n"
	"	cmp $268, %r11d\n"
	"	jae 1f\n"
	"	cmpb $0, place_kinds(%r11)\n"
	"	je 1f\n"
	"	cmpq $0, STATE\n"
	"	jne 1f\n"
	"	movl $1, STATE\n"
	"	mov %rdi, STATE+8\n"
	"	mov %rsi, STATE+16\n"
	"	mov %rdx, STATE+24\n"
	"	mov %rax, STATE+32\n"
	"	mov %rcx, STATE+40\n"
	"	mov %r11d, SITES+8(%rcx)\n"
	"	movzbl place_kinds(%r11), %eax\n"
	"	mov %eax, SITES+12(%rcx)\n"
	"	jmp place_kind\n"
	"1:	mov SITES(%rcx), %rcx\n"
	"	lea -2(%rcx), %rcx\n"
	"	add $0x7f, %al\n"
	"	sahf\n"
	"	mov %r11d, %eax\n"
	"	jmp *%rcx\n");
/* clang-format on */
