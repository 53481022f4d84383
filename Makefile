# A short front to Meson for those who type `make`. Everything lands in $(BUILD); see `make help`.

BUILD ?= build
PREFIX ?= /usr/local
MESON_OPTIONS ?=
FUZZ_SECONDS ?= 60
MATRIX_TIMEOUT_FACTOR ?= 100
SLUICE = $(BUILD)/src/cli/sluice
MODEL ?= models/demo.gguf

all: $(BUILD)/build.ninja
	@meson compile -C $(BUILD)

# The program alone, without tests and benchmarks.
program: $(BUILD)/build.ninja
	@meson compile -C $(BUILD) src/cli/sluice:executable

# Always asked, at no cost when nothing is missing: a build directory can outlive a library that it needs.
$(BUILD)/build.ninja: bootstrap
	@test -f $@ || meson setup $(BUILD) --buildtype=release --prefix=$(PREFIX) $(MESON_OPTIONS)

bootstrap:
	@scripts/bootstrap build

demo: program
	@SLUICE=$(SLUICE) scripts/demo

# All tests: also those in a browser and with the clients of npm, where these can be had.
test: all
	@scripts/bootstrap page --if-possible
	@scripts/run-tests $(BUILD)

# Every combination of budget, policy, threads, back end, chunk and instruction set; `make test` covers every pair.
matrix: all
	@SLUICE_MATRIX=full scripts/run-tests $(BUILD) --suite matrix --timeout-multiplier $(MATRIX_TIMEOUT_FACTOR)

bench: program
	@$(SLUICE) bench -m $(MODEL)

asan:
	@scripts/bootstrap build ci
	@scripts/sanitize asan

tsan: bootstrap
	@scripts/sanitize tsan

test-arm:
	@scripts/test-arm

fuzz:
	@scripts/bootstrap build ci
	@scripts/fuzz $(FUZZ_SECONDS)

check:
	@scripts/check-includes
	@scripts/check-format

# What is installed and no more: no tests, no benchmarks.
install: $(BUILD)/build.ninja
	@meson configure $(BUILD) -Dprefix=$(PREFIX)
	@meson compile -C $(BUILD) src/cli/sluice:executable src/engine/sluice:shared_library src/engine/sluice:static_library
	@meson install -C $(BUILD) --no-rebuild

format:
	@scripts/check-format --fix

clean:
	rm -rf $(BUILD) build-asan build-tsan build-arm build-fuzz build-gcc build-clang

help:
	@echo 'make              build everything in $(BUILD)/: program, library, tests'
	@echo 'make program      the program alone, in less time'
	@echo 'make demo         the bundled model writes inside a budget smaller than its file'
	@echo 'make test         the test suite; the last line counts'
	@echo 'make matrix       the full invariance matrix (long)'
	@echo 'make bench        prefill and decode speed of MODEL (default: the bundled one)'
	@echo 'make install      program, library, manual page; PREFIX (default /usr/local) and DESTDIR are respected'
	@echo 'make asan, tsan   the test suite under sanitizers'
	@echo 'make test-arm     the kernels for 64-bit ARM under emulation (scripts/bootstrap arm brings what it needs)'
	@echo 'make fuzz         each fuzz target for FUZZ_SECONDS (default 60); needs clang'
	@echo 'make check        includes and formatting; make format mends the latter'
	@echo 'make clean        removes the build directories'

.PHONY: all program bootstrap demo test matrix bench asan tsan test-arm fuzz check install format clean help
