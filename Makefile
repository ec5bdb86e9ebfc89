# scx_vrq from a clean clone: each target first installs what the machine lacks, and says so (vm/deps.sh).

KERNEL ?= newest
CPUS ?= 4
BENCH := target/release/scx_vrq bench --host --ratio 50 --scheduler default --scheduler vrq --rounds 1 --warmup 0 --scale 2

PREFIX ?= /usr/local
BUILT ?= target/release/scx_vrq
bin := $(DESTDIR)$(PREFIX)/bin
share := $(DESTDIR)$(PREFIX)/share
unit := $(DESTDIR)$(PREFIX)/lib/systemd/system/scx_vrq.service
bash := $(share)/bash-completion/completions/scx_vrq
zsh := $(share)/zsh/site-functions/_scx_vrq
fish := $(share)/fish/vendor_completions.d/scx_vrq.fish
example := $(share)/doc/scx_vrq/scx_vrq.toml

.PHONY: build run bench test test-all soak cost install uninstall clean help

build: ## build target/release/scx_vrq
	@vm/deps.sh build -- cargo build --release

run: build ## compile a C program under the kernel's scheduler and scx_vrq, in a virtual machine (KERNEL=newest CPUS=4)
	@vm/boot.sh --kernel '$(KERNEL)' --cpus '$(CPUS)' -- $(BENCH)

bench: build ## the two changes of the origin documents, each as it was and as it is, at 50 % (minutes: 10 rounds)
	@target/release/scx_vrq bench --preset origin --kernel '$(KERNEL)' --cpus '$(CPUS)' $(ARGS)

test: ## run every test, those that need a kernel in virtual machines
	@vm/test.sh

test-all: ## make test, and every fault that broke other schedulers, at full length on eight machines (hours)
	@vm/test.sh all

soak: ## everything at once for SOAK_S seconds (1800), by a seed (SOAK_SEED) that is printed, on four machines
	@vm/test.sh soak

cost: build ## count the instructions that scheduling costs, and how late a waking task runs (KERNEL=newest)
	@vm/cost.sh --kernel '$(KERNEL)' --work pipe --latency

install: ## install what make built, man pages, completions and a systemd unit (PREFIX=/usr/local DESTDIR=)
	@test -x $(BUILT) || { echo 'make install: nothing is built yet: run make first, not as root' >&2; exit 1; }
	install -Dm755 $(BUILT) $(bin)/scx_vrq
	install -d $(share)/man/man8 $(dir $(bash) $(zsh) $(fish) $(unit))
	$(BUILT) man $(share)/man/man8
	$(BUILT) completions bash > $(bash)
	$(BUILT) completions zsh > $(zsh)
	$(BUILT) completions fish > $(fish)
	sed 's|@bindir@|$(PREFIX)/bin|' contrib/scx_vrq.service.in > $(unit)
	install -Dm644 contrib/scx_vrq.toml $(example)

uninstall: ## remove what make install installed (the same PREFIX and DESTDIR); /etc/scx_vrq.toml stays
	rm -f $(bin)/scx_vrq $(share)/man/man8/scx_vrq.8 $(share)/man/man8/scx_vrq-*.8
	rm -f $(bash) $(zsh) $(fish) $(unit) $(example)
	-rmdir $(dir $(example)) 2>/dev/null

clean: ## remove what was built (kernels and tools stay in ~/.cache/scx_vrq)
	@rm -rf target

help: ## print this
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST)
