# make demo    install what is missing, build, and show the project's main job
# make test    install what is missing, build, run every test
# make bench   the same for the benchmarks; results under out/bench/
# make fuzz    short runs of the fuzz targets
#
# On Debian 12 everything comes from Debian's packages; as another user than root, sudo is asked.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc)

BUILD_PACKAGES := g++ cmake ninja-build ccache lld pkg-config libsimgrid-dev libboost-dev \
  libboost-program-options-dev libeigen3-dev libhwy-dev libpugixml-dev nlohmann-json3-dev \
  libssl-dev libsentencepiece-dev libpcre2-dev libicu-dev liburing-dev \
  doctest-dev libbenchmark-dev
DEMO_PACKAGES := $(BUILD_PACKAGES) python3 python3-numpy python3-matplotlib
TEST_PACKAGES := $(DEMO_PACKAGES) python3-torch python3-sentencepiece python3-regex glpk-utils
CHECK_PACKAGES := $(TEST_PACKAGES) clang-format-14 clang-tidy-14 clang-16 libclang-rt-16-dev

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

.PHONY: help demo demo-short test bench fuzz build check-packages clean

help:
	@sed -n 's/^# \{0,1\}//p' $(firstword $(MAKEFILE_LIST)) | sed -n '1,/^$$/p'

build:
	@$(call install,$(DEMO_PACKAGES))
	@cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release --target tandem -j $(JOBS)

demo: build
	@scenarios/demo.sh

demo-short: build
	@NEW_TOKENS=8 PROFILE_SECONDS=8 scenarios/demo.sh

test:
	@$(call install,$(TEST_PACKAGES))
	@cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@ctest --preset release

bench:
	@$(call install,$(BUILD_PACKAGES))
	@cmake --preset release --log-level=WARNING >/dev/null
	@cmake --build --preset release -j $(JOBS)
	@bench/run.sh

fuzz:
	@$(call install,$(CHECK_PACKAGES))
	@cmake --preset asan --log-level=WARNING >/dev/null
	@cmake --build --preset asan --target tandem_fuzz_targets -j $(JOBS)
	@tests/fuzz/run.sh

check-packages:
	@$(call install,$(CHECK_PACKAGES))

clean:
	rm -rf build out
