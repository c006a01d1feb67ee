# make demo    install what is missing, build, and show the project's main job
# make study   install what is missing, build tandem-study, which reproduces papers
# make test    install what is missing, build, run every test
# make bench   the same for the benchmarks; results under out/bench/
# make fuzz    short runs of the fuzz targets
# make reference  build, and write the flag tables of docs/reference/commands.md anew
# make results    build tandem-study, and write the tables of docs/results anew (minutes)
# make packages  Debian packages under out/packages: tandem, and tandem-worker for devices
# make arm64   the same for arm64 boards: tandem-worker, cross-compiled
#
# On Debian 12 everything comes from Debian's packages; as another user than root, sudo is asked.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)

BUILD_PACKAGES := g++ cmake ninja-build ccache pkg-config libsimgrid-dev libboost-dev \
  libboost-program-options-dev libeigen3-dev libhwy-dev libpugixml-dev nlohmann-json3-dev \
  libssl-dev libsentencepiece-dev libpcre2-dev libicu-dev liburing-dev \
  libavahi-client-dev libbotan-2-dev libedit-dev doctest-dev libbenchmark-dev
DEMO_PACKAGES := $(BUILD_PACKAGES) python3 python3-numpy python3-matplotlib
# A BLAS, too: with the reference, on which PyTorch stands otherwise, its double precision takes several times as long.
TEST_PACKAGES := $(DEMO_PACKAGES) python3-torch libopenblas0-serial python3-scipy python3-sentencepiece python3-regex python3-jinja2 python3-jsonschema glpk-utils
ARM64_PACKAGES := $(BUILD_PACKAGES) mmdebstrap g++-aarch64-linux-gnu
CHECK_PACKAGES := $(TEST_PACKAGES) $(ARM64_PACKAGES) qemu-user-static clang-format-14 clang-tidy-14 clang-16 \
  libclang-rt-16-dev haproxy curl
# Another Node than that of Debian conflicts with its npm.
PAGE_PACKAGES := $(DEMO_PACKAGES) chromium fonts-dejavu-core $(if $(shell command -v npm),,nodejs npm)
# Headers and libraries of a board. libsentencepiece-dev of two architectures cannot be installed side by side.
ARM64_SYSROOT_PACKAGES := libc6-dev,libstdc++-12-dev,libboost-dev,libboost-program-options-dev,libeigen3-dev,libhwy-dev,$\
  nlohmann-json3-dev,libssl-dev,libsentencepiece-dev,libpcre2-dev,libicu-dev,liburing-dev,libavahi-client-dev,libbotan-2-dev,libedit-dev,doctest-dev

# $(call install,PACKAGES): apt-get install of those that are missing; silent when none is.
define install
missing=(); for p in $(1); do \
  dpkg-query -W -f='$${Status}' "$$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$$p"); done; \
if (($${#missing[@]})); then \
  command -v apt-get >/dev/null || { echo "make: apt-get not found: install these by hand: $${missing[*]}" >&2; exit 1; }; \
  echo "Installing: $${missing[*]}"; \
  sudo=$$( ((EUID)) && echo sudo || true); \
  $$sudo apt-get -qq update; \
  DEBIAN_FRONTEND=noninteractive $$sudo apt-get -qq install -y --no-install-recommends "$${missing[@]}" >/dev/null; \
fi
endef

.PHONY: help demo demo-short study test bench fuzz build build-all reference results packages arm64-sysroot arm64 check-packages check-page-packages clean

help:
	@sed -n 's/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST)) | sed -n '1,/^$$/p'

build:
	@$(call install,$(DEMO_PACKAGES))
	@cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release --target tandem -j $(JOBS)

demo: build
	@scenarios/demo.sh

demo-short: build
	@NEW_TOKENS=8 scenarios/demo.sh

study:
	@$(call install,$(DEMO_PACKAGES))
	@cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release --target tandem-study -j $(JOBS)

test:
	@$(call install,$(TEST_PACKAGES))
	@cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release --target tandem_all_tests -j $(JOBS)
	@ctest --preset release

build-all:
	@$(call install,$(TEST_PACKAGES))
	@cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release -j $(JOBS)

bench: build-all
	@bench/run.sh

fuzz:
	@$(call install,$(CHECK_PACKAGES))
	@cmake --preset fuzz --log-level=WARNING >/dev/null
	@cmake --build --preset fuzz --target tandem_fuzz_targets -j $(JOBS)
	@tests/fuzz/run_fuzz.sh

reference: build study
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/documents/reference.py write build/release/bin/tandem build/release/bin/tandem-study

results: study
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/documents/paper_tables.py write build/release/bin/tandem-study

packages: build
	@cmake --build --preset release --target tandem_device tandem-study -j $(JOBS)
	@cd build/release && cpack >/dev/null
	@ls -1 out/packages/*.deb

# The sysroot takes its name when it is whole.
arm64-sysroot:
	@$(call install,$(ARM64_PACKAGES))
	@if [ ! -d build/sysroot-arm64 ]; then \
	  mkdir -p build && rm -rf build/sysroot-arm64.new && \
	  mmdebstrap --quiet --architectures=arm64 --variant=extract --include=$(ARM64_SYSROOT_PACKAGES) \
	    bookworm build/sysroot-arm64.new http://deb.debian.org/debian && \
	  mv build/sysroot-arm64.new build/sysroot-arm64; \
	fi

arm64: arm64-sysroot
	@cmake --preset arm64 --log-level=WARNING >/dev/null
	@cmake --build --preset arm64 --target tandem tandem_kernels_tests -j $(JOBS)
	@cd build/arm64 && cpack >/dev/null
	@ls -1 out/packages/*_arm64.deb

check-packages:
	@$(call install,$(CHECK_PACKAGES))

check-page-packages:
	@$(call install,$(PAGE_PACKAGES))

clean:
	rm -rf build out
