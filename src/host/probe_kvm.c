/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host/probe_kvm.c - can KVM really run a guest?
 *
 * Owns:  one virtual machine with one page of memory, gone with its descriptors.
 * Rules: the device being there proves nothing: nested and paravirtual KVMs exist that refuse at
 *        the first run. So a guest of five bytes must write to a port and halt.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <linux/kvm.h>

#include "base/own.h"
#include "host/host.h"
#include "host/probe_impl.h"

enum {
	GUEST_PAGE = 4096,
	GUEST_AT = 0x1000,
	GUEST_PORT = 0x10,
	GUEST_BYTE = 0x57,
	GUEST_RUNS_MAX = 16
};

#if defined(__x86_64__)
/* In real mode: mov al, GUEST_BYTE; out GUEST_PORT, al; hlt */
static const unsigned char guest[] = { 0xb0, GUEST_BYTE, 0xe6, GUEST_PORT, 0xf4 };

static int fail(const char **ret_step, const char *step)
{
	*ret_step = step;
	return -errno;
}

static int set_registers(int vcpu, const char **ret_step)
{
	struct kvm_regs regs = { .rip = GUEST_AT, .rflags = 2 /* always one */ };
	struct kvm_sregs sregs;

	if (ioctl(vcpu, KVM_GET_SREGS, &sregs) < 0)
		return fail(ret_step, "reading its registers");
	sregs.cs.base = 0;
	sregs.cs.selector = 0;
	if (ioctl(vcpu, KVM_SET_SREGS, &sregs) < 0 || ioctl(vcpu, KVM_SET_REGS, &regs) < 0)
		return fail(ret_step, "setting its registers");
	return 0;
}

static bool is_our_write(const struct kvm_run *run, size_t run_bytes)
{
	size_t at = run->io.data_offset;

	return run->io.direction == KVM_EXIT_IO_OUT && run->io.port == GUEST_PORT &&
	       run->io.size == 1 && run->io.count == 1 && at < run_bytes &&
	       ((const unsigned char *)run)[at] == GUEST_BYTE;
}

/* Runs until it halts; 0 when it wrote what it should have on the way. */
static int run_guest(int vcpu, struct kvm_run *run, size_t run_bytes, const char **ret_step)
{
	bool wrote = false;

	for (int i = 0; i < GUEST_RUNS_MAX; i++) {
		if (ioctl(vcpu, KVM_RUN, 0) < 0 && errno != EINTR)
			return fail(ret_step, "running it");
		if (run->exit_reason == KVM_EXIT_IO && is_our_write(run, run_bytes)) {
			wrote = true;
		} else if (run->exit_reason == KVM_EXIT_HLT && wrote) {
			return 0;
		} else if (run->exit_reason != KVM_EXIT_INTR) {
			errno = EPROTO;
			return fail(ret_step, "it stopped in an unexpected way");
		}
	}
	errno = ELOOP;
	return fail(ret_step, "it never halted");
}

static int try_guest(int kvm, const char **ret_step)
{
	own_fd int vm = ioctl(kvm, KVM_CREATE_VM, 0), vcpu = -1;
	struct kvm_userspace_memory_region region = { .guest_phys_addr = GUEST_AT,
		.memory_size = GUEST_PAGE };
	int run_bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0), r;
	struct kvm_run *run;
	void *page;

	if (vm < 0 || run_bytes < (int)sizeof(*run))
		return fail(ret_step, "making a virtual machine");
	/* Some Intel CPUs need three pages there to enter real mode; others do not know the call.
	 */
	ioctl(vm, KVM_SET_TSS_ADDR, 0xfffbd000ul);
	page = mmap(NULL, GUEST_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return fail(ret_step, "memory for it");
	memcpy(page, guest, sizeof(guest));
	region.userspace_addr = (uint64_t)(uintptr_t)page;
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return fail(ret_step, "giving it memory");
	vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	if (vcpu < 0)
		return fail(ret_step, "making its CPU");
	run = mmap(NULL, (size_t)run_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, vcpu, 0);
	if (run == MAP_FAILED)
		return fail(ret_step, "mapping its CPU");
	r = set_registers(vcpu, ret_step);
	return r < 0 ? r : run_guest(vcpu, run, (size_t)run_bytes, ret_step);
}
#else
static int try_guest(int kvm, const char **ret_step)
{
	(void)kvm;
	*ret_step = "ward has a test guest for x86-64 only";
	return -ENOSYS;
}
#endif

static void explain_device(struct probe_result *r, int err)
{
	struct stat st;

	if (err == -EACCES || err == -EPERM) {
		probe_fact(r, "device", "present");
		probe_fact(r, "permission", "no");
		probe_say(r, PROBE_PARTLY, "/dev/kvm is there, but not for this user");
		if (stat("/dev/kvm", &st) == 0 && (st.st_mode & 0060) == 0060 && st.st_gid != 0)
			probe_hint(r, "usermod -aG kvm USER and log in again");
		else
			probe_hint(
				r, "chgrp kvm /dev/kvm; chmod 660 /dev/kvm; usermod -aG kvm USER");
		return;
	}
	probe_fact(r, "device", "absent");
	probe_say(r, PROBE_NO, "/dev/kvm: %s", strerror(-err));
	if (err == -ENOENT)
		probe_hint(r, "modprobe kvm_intel or kvm_amd; in a virtual machine, have its host "
			      "allow nested "
			      "virtualization");
}

void probe_kvm(struct probe_result *r)
{
	own_fd int kvm = host_open("/dev/kvm", O_RDWR, 0);
	const char *step = "";
	int api, err;

	if (kvm < 0) {
		explain_device(r, kvm);
		return;
	}
	api = ioctl(kvm, KVM_GET_API_VERSION, 0);
	probe_fact(r, "device", "present");
	probe_fact(r, "permission", "yes");
	probe_fact(r, "api", "%d", api);
	if (api != KVM_API_VERSION) {
		probe_say(r, PROBE_NO, "API version %d, ward speaks %d", api, KVM_API_VERSION);
		return;
	}
	err = try_guest(kvm, &step);
	probe_fact(r, "guest", "%s", err == 0 ? "ran" : "failed");
	if (err == 0)
		probe_say(r, PROBE_YES, "API %d; a guest ran, wrote to a port and halted", api);
	else
		probe_say(r, PROBE_NO, "API %d, but no guest runs: %s: %s", api, step,
			strerror(-err));
}
