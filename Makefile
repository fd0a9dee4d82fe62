# The front door. Two commands do everything on a fresh Debian 12 machine: make demo, make test.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
export JOBS ?= $(shell nproc)
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: help demo release test test-all test-dev test-asan test-tsan soak fuzz bench device lint deps format install clean

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 12

demo: release ## install what is missing, build, run the main job on this machine's own files
	@scripts/demo

release:
	@scripts/deps demo
	@echo "building build/release"
	@scripts/build release

test: ## install what is missing, build and test three ways: plain, and what changed under ASan+UBSan, TSan
	@scripts/deps test
	@scripts/test dev asan tsan

test-all: ## the same, with nothing left out
	@scripts/deps test
	@scripts/test --all dev asan tsan

test-dev test-asan test-tsan: test-%:
	@scripts/deps test
	@scripts/test $*

soak: ## the long runs: more seeds and faults at full size, what they counted is printed; longer fuzzing
	@scripts/deps test
	@GYRE_SOAK=1 scripts/test dev
	@scripts/test --all asan tsan
	@scripts/fuzz --all 600

fuzz: ## every fuzz target for a minute
	@scripts/deps test
	@scripts/fuzz 60

bench: ## measure against the peers; tables go to bench/results
	@scripts/deps bench
	@scripts/bench

device: ## pack build/gyre-device for a machine with a device: tests, benchmarks, a report (docs/devices.md)
	@scripts/deps test
	@scripts/device build build/gyre-device

lint: ## format, house rules, clang warnings, clang-tidy
	@scripts/deps test
	@scripts/lint --all

deps: ## install all packages: demo, test and bench
	@scripts/deps demo test bench

format: ## clang-format everything
	@git ls-files -co --exclude-standard '*.c' '*.h' | xargs clang-format -i

install: release ## to PREFIX (default /usr/local)
	@DESTDIR=$(DESTDIR) cmake --install build/release --prefix $(PREFIX) --strip
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" -eq 0 ]; then ldconfig; fi # others cannot renew the cache

clean: ## remove everything that was built
	@rm -rf build
