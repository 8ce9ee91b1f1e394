# The front door. Meson and Ninja do the work; `make help` lists what there is.
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 10
PYTHON = /usr/bin/python3
MESON = /usr/bin/meson
JOBS ?= $(shell nproc)

# $(call build,DIRECTORY,COMPILER,MESON OPTIONS): configures once, then lets ninja decide.
build = test -f $(1)/build.ninja || out=$$(CC=$(2) $(MESON) setup $(1) $(3) 2>&1) || \
	{ echo "$$out"; exit 1; }; ninja -C $(1) -j $(JOBS) --quiet
SANITIZE = -Dlibc=system -Db_sanitize=address,undefined -Db_lundef=false -Dfaults=true

.PHONY: all build setup-build run test check asan clang lint fuzz fuzz-build asan-build rig rig-vm programs bench bench-daemon bench-kernel bench-vm install clean help

all: build

setup-build:
	@tools/setup build

build: setup-build
	@$(call build,build,gcc,)

run: build                  ## run a piece of agent code in a sandbox
	@$(PYTHON) tools/demo build/ward

check: build                ## unit tests and house rules, quickly
	@$(MESON) test -C build --suite unit --suite house --print-errorlogs --timeout-multiplier 8

test: build                 ## everything: what CI runs
	@tools/setup test
	@FUZZ_SECONDS=$${FUZZ_SECONDS:-3} $(PYTHON) tools/test-all

asan-build: setup-build
	@tools/setup test
	@$(call build,build-asan,clang-14,$(SANITIZE))

asan: asan-build            ## unit and end-to-end tests under asan and ubsan
	@$(PYTHON) tools/test-all asan

clang: setup-build          ## build with clang 14, warnings are errors
	@tools/setup test
	@$(call build,build-clang,clang-14,-Dlibc=system)

lint: build                 ## format, clang-tidy, cppcheck, layers, globals, headers
	@tools/setup lint
	@tools/lint

fuzz-build: setup-build
	@tools/setup test
	@$(call build,build-fuzz,clang-14,$(SANITIZE) -Dfuzz=true -Dtests=false)

fuzz: fuzz-build            ## every fuzzer for FUZZ_SECONDS (10)
	@$(PYTHON) tools/fuzz build-fuzz $(FUZZ_SECONDS)

bench: build                ## ward beside its peers (BENCH_ROUNDS, BENCH_GAP_MS, BENCH_SAVE=1)
	@tools/setup bench
	@$(PYTHON) tests/bench/bench.py build
	@$(PYTHON) tests/bench/daemon.py build
	@$(PYTHON) tests/bench/kernel.py build
	@tools/setup rig
	@$(PYTHON) tests/bench/vm.py build

bench-daemon: build         ## its second half alone: ward serve (BENCH_DAEMON_ROUNDS, _SECONDS, _IDLE, _COMMANDS)
	@tools/setup bench
	@$(PYTHON) tests/bench/daemon.py build

bench-kernel: build         ## only the kernel tier beside native and runsc (BENCH_KERNEL_ROUNDS)
	@tools/setup bench
	@$(PYTHON) tests/bench/kernel.py build

programs: build             ## real programs in the kernel tier beside native, the long ones too
	@tools/setup programs
	@WARD=$(CURDIR)/build/ward $(PYTHON) -m pytest -q tests/programs

bench-vm: build             ## only the vm tier's monitor beside QEMU's microvm, in an emulated machine (BENCH_VM_ROUNDS, _WORKS)
	@tools/setup rig
	@$(PYTHON) tests/bench/vm.py build

rig: build                  ## Debian 12 with its own kernel, in an emulator (RIG=v2|hybrid|v1|none)
	@tools/setup rig
	@$(PYTHON) tests/rig/rig.py $(RIG)

rig-vm: build               ## the vm tier with real KVM, in an emulated machine that has it: all cases
	@tools/setup rig
	@$(PYTHON) tests/vm/rig.py

install: build              ## into DESTDIR and PREFIX
	@$(MESON) configure build -Dprefix=$(PREFIX)
	@DESTDIR=$(DESTDIR) $(MESON) install -C build --quiet

clean:                      ## remove everything that was built
	rm -rf build build-asan build-clang build-fuzz

help:                       ## this list
	@echo "make                 build to build/; the binary is build/ward"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 21
