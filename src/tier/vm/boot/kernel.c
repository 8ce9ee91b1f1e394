/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/boot/kernel.c - reads a kernel: an ELF vmlinux, or a bzImage.
 *
 * Owns:  nothing.
 * Rules: every offset, size and address comes from a file that anyone may have made: each is
 * checked against the file and against guest memory before a byte is moved. Nothing goes below
 *        BOOT_HIGH, where our own tables are.
 */
#include <elf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "tier/vm/boot/boot.h"

enum {
	SEGMENTS_MAX = 64,
	NOTES_BYTES_MAX = 64 * 1024,
	NOTE_PVH = 18, /* XEN_ELFNOTE_PHYS32_ENTRY */
	/* The set-up header of a bzImage. */
	SETUP_AT = 0x1f1,
	SETUP_MAGIC_AT = 0x202,
	SETUP_VERSION_AT = 0x206,
	SETUP_XLOADFLAGS_AT = 0x236,
	SETUP_PREF_AT = 0x258,
	SETUP_INIT_SIZE_AT = 0x260,
	XLF_KERNEL_64 = 1,
	ENTRY64_OFFSET = 0x200,
};

static int read_at(int fd, void *to, size_t len, uint64_t at, struct err *e)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pread(fd, (uint8_t *)to + done, len - done, (off_t)(at + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_set(e, errno, "reading the guest kernel");
		if (n == 0)
			return err_say(e, ENOEXEC, "the guest kernel's file ends too early");
		done += (size_t)n;
	}
	return 0;
}

/* @len bytes of the file from @from, to @to in guest memory. */
static int place(struct gmem *mem, int fd, uint64_t from, uint64_t to, uint64_t len, struct err *e)
{
	struct iovec iov;

	if (len == 0)
		return 0;
	if (!gmem_iov(mem, GPA(to), len, true, &iov))
		return err_say(e, ENOMEM, "the guest kernel does not fit into the guest's memory");
	return read_at(fd, iov.iov_base, len, from, e);
}

/* An ELF note that names the 32-bit entry for a machine without firmware. */
static bool find_pvh(const uint8_t *notes, size_t len, uint64_t *ret_entry)
{
	while (len >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		size_t name, desc, total;
		uint32_t entry;

		memcpy(&n, notes, sizeof(n));
		name = ((size_t)n.n_namesz + 3) & ~(size_t)3;
		desc = ((size_t)n.n_descsz + 3) & ~(size_t)3;
		total = sizeof(n) + name + desc;
		if (total > len)
			return false;
		if (n.n_type == NOTE_PVH && n.n_namesz == 4 &&
			memcmp(notes + sizeof(n), "Xen", 4) == 0 && n.n_descsz >= sizeof(entry)) {
			memcpy(&entry, notes + sizeof(n) + name, sizeof(entry));
			*ret_entry = entry;
			return true;
		}
		notes += total;
		len -= total;
	}
	return false;
}

static int read_notes(
	int fd, const Elf64_Phdr *p, uint64_t file_bytes, struct boot_kernel *k, struct err *e)
{
	uint8_t notes[4096];
	uint64_t end;
	size_t len;
	int r;

	if (ckd_add(&end, p->p_offset, p->p_filesz) || end > file_bytes ||
		p->p_filesz > NOTES_BYTES_MAX)
		return err_say(e, ENOEXEC, "the guest kernel has notes outside its file");
	len = p->p_filesz < sizeof(notes) ? p->p_filesz : sizeof(notes);
	r = read_at(fd, notes, len, p->p_offset, e);
	if (r == 0 && !k->has_pvh)
		k->has_pvh = find_pvh(notes, len, &k->pvh_entry);
	return r;
}

static int load_segment(struct gmem *mem, int fd, const Elf64_Phdr *p, uint64_t file_bytes,
	struct boot_kernel *k, struct err *e)
{
	uint64_t file_end, mem_end;
	int r;

	if (p->p_memsz == 0)
		return 0;
	if (ckd_add(&file_end, p->p_offset, p->p_filesz) || file_end > file_bytes ||
		p->p_filesz > p->p_memsz || ckd_add(&mem_end, p->p_paddr, p->p_memsz))
		return err_say(e, ENOEXEC, "the guest kernel has a segment outside its file");
	if (p->p_paddr < BOOT_HIGH)
		return err_say(e, ENOEXEC, "the guest kernel wants memory below 1 MiB");
	if (!gmem_has(mem, GPA(p->p_paddr), p->p_memsz))
		return err_say(e, ENOMEM, "the guest kernel does not fit into the guest's memory");
	r = place(mem, fd, p->p_offset, p->p_paddr, p->p_filesz, e);
	/* The rest is zero already: memory is fresh. */
	k->low = p->p_paddr < k->low ? p->p_paddr : k->low;
	k->high = mem_end > k->high ? mem_end : k->high;
	return r;
}

static int load_elf(
	struct gmem *mem, int fd, uint64_t file_bytes, struct boot_kernel *k, struct err *e)
{
	Elf64_Phdr p[SEGMENTS_MAX];
	Elf64_Ehdr h;
	int r = read_at(fd, &h, sizeof(h), 0, e);

	if (r < 0)
		return r;
	if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB ||
		h.e_machine != EM_X86_64 || h.e_phentsize != sizeof(p[0]) || h.e_phnum == 0 ||
		h.e_phnum > SEGMENTS_MAX)
		return err_say(e, ENOEXEC, "the guest kernel is not an ELF file for x86-64");
	r = read_at(fd, p, h.e_phnum * sizeof(p[0]), h.e_phoff, e);
	for (unsigned i = 0; i < h.e_phnum && r == 0; i++) {
		if (p[i].p_type == PT_LOAD)
			r = load_segment(mem, fd, &p[i], file_bytes, k, e);
		else if (p[i].p_type == PT_NOTE)
			r = read_notes(fd, &p[i], file_bytes, k, e);
	}
	if (r < 0)
		return r;
	k->entry64 = h.e_entry;
	if (k->high == 0 || h.e_entry < k->low || h.e_entry >= k->high)
		return err_say(e, ENOEXEC, "the guest kernel's entry is outside what it loads");
	if (k->has_pvh && (k->pvh_entry < k->low || k->pvh_entry >= k->high))
		return err_say(e, ENOEXEC, "the guest kernel's PVH entry is outside what it loads");
	return 0;
}

static uint32_t get32(const uint8_t *h, unsigned at)
{
	uint32_t v;

	memcpy(&v, h + at, sizeof(v));
	return v;
}

static uint64_t get64(const uint8_t *h, unsigned at)
{
	uint64_t v;

	memcpy(&v, h + at, sizeof(v));
	return v;
}

static int load_bzimage(
	struct gmem *mem, int fd, uint64_t file_bytes, struct boot_kernel *k, struct err *e)
{
	uint8_t head[1024];
	uint64_t setup_bytes, pref, init;
	unsigned version, header_end;
	int r = file_bytes < sizeof(head)
			? err_say(e, ENOEXEC, "the guest kernel's file is too short")
			: read_at(fd, head, sizeof(head), 0, e);

	if (r < 0)
		return r;
	version = head[SETUP_VERSION_AT] | (unsigned)head[SETUP_VERSION_AT + 1] << 8;
	if (version < 0x20c || !(head[SETUP_XLOADFLAGS_AT] & XLF_KERNEL_64))
		return err_say(e, ENOEXEC,
			"the guest kernel has no 64-bit entry: use one built for x86-64, 3.8 or "
			"later");
	setup_bytes = ((uint64_t)(head[SETUP_AT] ? head[SETUP_AT] : 4) + 1) * 512;
	pref = get64(head, SETUP_PREF_AT);
	init = get32(head, SETUP_INIT_SIZE_AT);
	if (setup_bytes >= file_bytes || pref < BOOT_HIGH || init < file_bytes - setup_bytes)
		return err_say(e, ENOEXEC, "the guest kernel's header makes no sense");
	if (!gmem_has(mem, GPA(pref), init))
		return err_say(e, ENOMEM, "the guest kernel does not fit into the guest's memory");
	r = place(mem, fd, setup_bytes, pref, file_bytes - setup_bytes, e);
	if (r < 0)
		return r;
	header_end = SETUP_MAGIC_AT + head[SETUP_MAGIC_AT - 1];
	k->has_setup = true;
	k->setup_bytes = header_end > SETUP_AT ? header_end - SETUP_AT : 0;
	if (k->setup_bytes > sizeof(k->setup))
		k->setup_bytes = sizeof(k->setup);
	memcpy(k->setup, head + SETUP_AT, k->setup_bytes);
	k->low = pref;
	k->high = pref + init;
	k->entry64 = pref + ENTRY64_OFFSET;
	return 0;
}

int boot_kernel_load(struct gmem *mem, int fd, struct boot_kernel *ret, struct err *e)
{
	uint8_t magic[SETUP_MAGIC_AT + 4];
	struct stat st;
	int r;

	*ret = (struct boot_kernel){ .low = UINT64_MAX };
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "looking at the guest kernel");
	if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(magic))
		return err_say(e, ENOEXEC, "the guest kernel is no kernel: too short");
	r = read_at(fd, magic, sizeof(magic), 0, e);
	if (r < 0)
		return r;
	if (memcmp(magic, ELFMAG, SELFMAG) == 0)
		return load_elf(mem, fd, (uint64_t)st.st_size, ret, e);
	if (memcmp(magic + SETUP_MAGIC_AT, "HdrS", 4) == 0)
		return load_bzimage(mem, fd, (uint64_t)st.st_size, ret, e);
	return err_say(e, ENOEXEC, "the guest kernel is neither an ELF vmlinux nor a bzImage");
}
