# Everyday commands; `make help` lists them. The work is done by CMake (CMakePresets.json).
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
FUZZ_SECONDS ?= 60

# Ninja where it is installed; an existing build folder keeps the generator it was made with.
ifneq ($(shell command -v ninja 2>/dev/null),)
export CMAKE_GENERATOR ?= Ninja
endif

sources = $(wildcard src/*/*.[ch] include/*/*.h cli/*.[ch] tests/*.[ch] tests/fuzz/*.c \
                     tools/*.c tools/*/*.[ch] bench/*.c)
build = cmake --preset $(1) $(2) >build-$(1).log 2>&1 || { cat build-$(1).log; rm -f build-$(1).log; exit 1; }; \
        rm -f build-$(1).log; cmake --build --preset $(1) -j $(JOBS)

.PHONY: release demo test bench asan debug coverage tidy format format-check layers validate held-out fuzz install \
        deps clean help

release: ## build a release: build/fivefold (the default)
	@$(call build,release)

demo: ## install what a plan needs, build a release, plan Llama-3.1-70B on 16 nodes of 8 H100
	@tools/install_deps.sh
	@$(call build,release) >&2
	build/fivefold plan llama-3.1-70b 16x8xh100-80gb-sxm --seq 4096 --gbs 4M

test: ## install what the tests need; build and run them, plain and under sanitizers
	@tools/install_deps.sh tests
	@$(call build,release)
	ctest --test-dir build --output-on-failure -j $(JOBS)
	@$(call build,asan)
	ctest --test-dir build/asan --output-on-failure -j $(JOBS)
	@tools/check_layers.sh
	@tools/check_format.sh $(sources)

asan: ## build with address and undefined-behaviour sanitizers: build/asan/fivefold
	@$(call build,asan)

debug: ## build without optimisation: build/debug/fivefold
	@$(call build,debug)

coverage: ## run the tests and print which lines they reach (needs gcovr)
	@$(call build,coverage)
	ctest --test-dir build/coverage -j $(JOBS)
	gcovr --root . --filter src/ --filter cli/ build/coverage

bench: ## time the search and the parsers
	@$(call build,release,-DFF_BENCH=ON)
	@tools/bench.sh build/fivefold

validate: release ## hold predictions against the published runs in validation/
	@build/fivefold validate validation/*.csv --by source

held-out: release ## errors of sources and stacks whose rows the constants have not seen (half an hour)
	@cmake --build build --target fit_profiles >/dev/null
	@build/fit_profiles held-out validation/*.csv

layers: ## check that folders include only what stands above them in the design
	@tools/check_layers.sh

tidy: release ## run clang-tidy over library and tool
	clang-tidy -p build --quiet --extra-arg=-Wno-unknown-warning-option $(filter %.c,$(wildcard src/*/*.c cli/*.c))

format: ## format all sources with clang-format
	clang-format -i $(sources)

format-check: ## say which sources are not formatted
	@tools/check_format.sh $(sources)

fuzz: ## run every fuzzer for FUZZ_SECONDS (60) (needs clang)
	@$(call build,fuzz)
	@for fuzzer in build/fuzzers/fuzz/*_fuzz; do \
	    corpus=build/fuzzers/corpus/$$(basename $$fuzzer); seeds=tests/fuzz/$$(basename $$fuzzer); \
	    mkdir -p $$corpus; [ -d $$seeds ] || seeds=; \
	    $$fuzzer -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=5 -verbosity=0 \
	        -print_final_stats=1 $$corpus $$seeds || exit 1; \
	done

install: release ## install under PREFIX (/usr/local), in DESTDIR if given
	cmake --install build --prefix $(PREFIX)

deps: ## install everything that a build and the tests need
	@tools/install_deps.sh tests

clean: ## remove build/
	rm -rf build

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 22
