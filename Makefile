# scx_vrq from a clean clone: each target first installs what the machine lacks, and says so (vm/deps.sh).

KERNEL ?= newest
CPUS ?= 4
BENCH := target/release/scx_vrq bench --host --ratio 50 --scheduler default --scheduler vrq --rounds 1 --warmup 0 --scale 2

.PHONY: build run bench test test-all soak cost clean help

build: ## build target/release/scx_vrq
	@vm/deps.sh build -- cargo build --release

run: build ## compile a C program under the kernel's scheduler and scx_vrq, in a virtual machine (KERNEL=newest CPUS=4)
	@vm/boot.sh --kernel '$(KERNEL)' --cpus '$(CPUS)' -- $(BENCH)

bench: build ## the two changes of the origin documents, each as it was and as it is, at 50 % (minutes: 10 rounds)
	@target/release/scx_vrq bench --preset origin --kernel '$(KERNEL)' --cpus '$(CPUS)' $(ARGS)

test: ## run every test, those that need a kernel in virtual machines
	@vm/test.sh

test-all: ## make test, and every fault that broke other schedulers, at full length on every machine (an hour)
	@vm/test.sh all

soak: ## everything at once for SOAK_S seconds (1800), by a seed (SOAK_SEED) that is printed, on every machine
	@vm/test.sh soak

cost: build ## count the instructions that scheduling costs, and how late a waking task runs (KERNEL=newest)
	@vm/cost.sh --kernel '$(KERNEL)' --work pipe --latency

clean: ## remove what was built (kernels and tools stay in ~/.cache/scx_vrq)
	@rm -rf target

help: ## print this
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)
