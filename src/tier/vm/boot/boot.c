/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tier/vm/boot/boot.c - lays out a guest: kernel, initrd, command line, tables, first registers.
 *
 * Owns:  the map of the first megabyte (boot.h).
 * Rules: PVH where the kernel offers it, the 64-bit protocol otherwise.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/str.h"
#include "tier/vm/boot/boot.h"

enum {
	PVH_MAGIC = 0x336ec578,
	ZP_RSDP = 0x70,
	ZP_RANGES = 0x1e8,
	ZP_SETUP = 0x1f1,
	ZP_BOOT_FLAG = 0x1fe,
	ZP_HEADER = 0x202,
	ZP_LOADER = 0x210,
	ZP_INITRD = 0x218,
	ZP_INITRD_BYTES = 0x21c,
	ZP_CMDLINE = 0x228,
	ZP_ALIGN = 0x230,
	ZP_CMDLINE_BYTES = 0x238,
	ZP_TABLE = 0x2d0,
	ZP_BYTES = 4096,
	LOADER_OTHER = 0xff,
};

struct start_info {
	uint32_t magic, version, flags, modules;
	uint64_t module_list, cmdline, rsdp, memmap;
	uint32_t memmap_entries, reserved;
};
_Static_assert(sizeof(struct start_info) == 56, "hvm_start_info");

struct initrd {
	uint64_t at, bytes;
};

unsigned boot_ranges(const struct gmem *mem, struct boot_range ret[BOOT_RANGES_MAX])
{
	const struct gmem_region *low = &mem->regions[0], *high = &mem->regions[1];
	unsigned n = 0;

	ret[n++] = (struct boot_range){ 0, BOOT_MPTABLE, 1 };
	ret[n++] = (struct boot_range){ BOOT_MPTABLE, BOOT_HIGH - BOOT_MPTABLE, 2 };
	ret[n++] = (struct boot_range){ BOOT_HIGH, low->size - BOOT_HIGH, 1 };
	if (mem->count > 1)
		ret[n++] = (struct boot_range){ high->base, high->size, 1 };
	return n;
}

/* To the top of the first region, on a page of its own. */
static int load_initrd(
	struct gmem *mem, int fd, uint64_t kernel_end, struct initrd *ret, struct err *e)
{
	const struct gmem_region *low = &mem->regions[0];
	struct iovec iov;
	struct stat st;
	size_t done = 0;

	*ret = (struct initrd){ 0 };
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) < 0)
		return err_set(e, errno, "looking at the guest's initramfs");
	if (!S_ISREG(st.st_mode) || st.st_size <= 0)
		return err_say(e, EINVAL, "the guest's initramfs is empty or no file");
	if ((uint64_t)st.st_size > low->size)
		return err_say(e, ENOMEM, "the initramfs does not fit into the guest's memory");
	ret->bytes = (uint64_t)st.st_size;
	ret->at = (low->size - ret->bytes) & ~(uint64_t)(GMEM_PAGE - 1);
	if (ret->at < kernel_end || !gmem_iov(mem, GPA(ret->at), ret->bytes, true, &iov))
		return err_say(e, ENOMEM, "the initramfs does not fit into the guest's memory");
	while (done < ret->bytes) {
		ssize_t n =
			pread(fd, (uint8_t *)iov.iov_base + done, ret->bytes - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return err_set(e, n < 0 ? errno : EIO, "reading the guest's initramfs");
		done += (size_t)n;
	}
	return 0;
}

/* The caller's words, then one for each device when nothing else tells of them. */
static int load_cmdline(
	struct gmem *mem, const struct boot_request *q, uint32_t *ret_bytes, struct err *e)
{
	char line[BOOT_CMDLINE_MAX];
	size_t len = 0;
	int r = str_fmt(line, sizeof(line), "%s", q->cmdline);

	for (unsigned i = 0; r == 0 && !q->acpi && i < q->device_count; i++) {
		len = strlen(line);
		r = str_fmt(line + len, sizeof(line) - len, " virtio_mmio.device=4K@0x%llx:%u",
			(unsigned long long)q->devices[i].at, q->devices[i].gsi);
	}
	if (r < 0)
		return err_say(e, E2BIG, "the guest's command line is longer than %d bytes",
			BOOT_CMDLINE_MAX - 1);
	*ret_bytes = (uint32_t)strlen(line) + 1;
	gmem_write(mem, GPA(BOOT_CMDLINE), line, *ret_bytes);
	return 0;
}

static void load_pvh(struct gmem *mem, const struct boot_request *q, const struct initrd *initrd)
{
	struct boot_range ranges[BOOT_RANGES_MAX];
	unsigned n = boot_ranges(mem, ranges);
	struct start_info info = { .magic = PVH_MAGIC,
		.version = 1,
		.modules = initrd->bytes ? 1 : 0,
		.module_list = initrd->bytes ? BOOT_MODULES : 0,
		.cmdline = BOOT_CMDLINE,
		.rsdp = q->acpi ? BOOT_RSDP : 0,
		.memmap = BOOT_MEMMAP,
		.memmap_entries = n };
	uint64_t module[4] = { initrd->at, initrd->bytes, 0, 0 };

	gmem_write(mem, GPA(BOOT_START_INFO), &info, sizeof(info));
	gmem_write(mem, GPA(BOOT_MODULES), module, sizeof(module));
	for (unsigned i = 0; i < n; i++) {
		struct {
			uint64_t at, size;
			uint32_t type, reserved;
		} entry = { ranges[i].at, ranges[i].size, ranges[i].type, 0 };

		gmem_write(mem, GPA(BOOT_MEMMAP + i * sizeof(entry)), &entry, sizeof(entry));
	}
}

static void put32(uint8_t *page, unsigned at, uint64_t v)
{
	uint32_t low = (uint32_t)v;

	memcpy(page + at, &low, sizeof(low));
}

static void load_zero_page(struct gmem *mem, const struct boot_request *q,
	const struct boot_kernel *k, const struct initrd *initrd, uint32_t cmdline_bytes)
{
	struct boot_range ranges[BOOT_RANGES_MAX];
	uint8_t page[ZP_BYTES] = { 0 };
	unsigned n = boot_ranges(mem, ranges);
	uint64_t rsdp = q->acpi ? BOOT_RSDP : 0;

	memcpy(page + ZP_SETUP, k->setup, k->setup_bytes);
	page[ZP_BOOT_FLAG] = 0x55;
	page[ZP_BOOT_FLAG + 1] = 0xaa;
	memcpy(page + ZP_HEADER, "HdrS", 4);
	page[ZP_LOADER] = LOADER_OTHER;
	put32(page, ZP_INITRD, initrd->at);
	put32(page, ZP_INITRD_BYTES, initrd->bytes);
	put32(page, ZP_CMDLINE, BOOT_CMDLINE);
	if (!k->has_setup)
		put32(page, ZP_ALIGN, 0x1000000);
	put32(page, ZP_CMDLINE_BYTES, cmdline_bytes);
	memcpy(page + ZP_RSDP, &rsdp, sizeof(rsdp));
	page[ZP_RANGES] = (uint8_t)n;
	for (unsigned i = 0; i < n; i++) {
		memcpy(page + ZP_TABLE + 20 * i, &ranges[i].at, 8);
		memcpy(page + ZP_TABLE + 20 * i + 8, &ranges[i].size, 8);
		memcpy(page + ZP_TABLE + 20 * i + 16, &ranges[i].type, 4);
	}
	gmem_write(mem, GPA(BOOT_ZERO_PAGE), page, sizeof(page));
}

/* The first gigabyte, mapped to itself in pages of 2 MiB. */
static void load_page_tables(struct gmem *mem)
{
	enum { PRESENT = 1, WRITABLE = 2, HUGE = 0x80 };
	uint64_t entry = BOOT_PDPT | PRESENT | WRITABLE;

	gmem_write(mem, GPA(BOOT_PML4), &entry, sizeof(entry));
	entry = BOOT_PD | PRESENT | WRITABLE;
	gmem_write(mem, GPA(BOOT_PDPT), &entry, sizeof(entry));
	for (uint64_t i = 0; i < 512; i++) {
		entry = i << 21 | PRESENT | WRITABLE | HUGE;
		gmem_write(mem, GPA(BOOT_PD + 8 * i), &entry, sizeof(entry));
	}
}

static void load_gdt(struct gmem *mem, enum boot_way way)
{
	uint64_t gdt[4] = { 0, way == BOOT_PVH ? 0x00cf9b000000ffffull : 0x00af9b000000ffffull,
		0x00cf93000000ffffull, 0x008f8b000000ffffull };

	gmem_write(mem, GPA(BOOT_GDT), gdt, sizeof(gdt));
	gmem_fill(mem, GPA(BOOT_IDT), 0, 8);
}

int boot_load(struct gmem *mem, const struct boot_request *q, struct boot_cpu *ret, struct err *e)
{
	struct boot_kernel k;
	struct initrd initrd;
	uint32_t cmdline_bytes = 0;
	int r = boot_kernel_load(mem, q->kernel, &k, e);

	if (r == 0)
		r = load_initrd(mem, q->initrd, k.high, &initrd, e);
	if (r == 0)
		r = load_cmdline(mem, q, &cmdline_bytes, e);
	if (r < 0)
		return r;
	if (!(q->acpi ? boot_acpi(mem, q) : boot_mptable(mem, q->cpus)))
		return err_say(e, EINVAL, "a guest with %u CPUs and %u devices: at most %d and %d",
			q->cpus, q->device_count, BOOT_CPUS_MAX, BOOT_DEVICES_MAX);
	*ret = (struct boot_cpu){ .way = k.has_pvh ? BOOT_PVH : BOOT_LINUX64 };
	load_gdt(mem, ret->way);
	if (ret->way == BOOT_PVH) {
		load_pvh(mem, q, &initrd);
		ret->rip = k.pvh_entry;
		ret->rbx = BOOT_START_INFO;
		return 0;
	}
	load_zero_page(mem, q, &k, &initrd, cmdline_bytes);
	load_page_tables(mem);
	ret->rip = k.entry64;
	ret->rsi = BOOT_ZERO_PAGE;
	ret->rsp = BOOT_STACK;
	return 0;
}
