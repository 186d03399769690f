# `make help` lists the targets.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: help build quick development page run deb docs check test test-fast test-long long crash power-cut soak random fuzz fuzz-diff openapi bench

CARGO ?= cargo
CARGO_DENY_VERSION := 0.18.9
CARGO_FUZZ_VERSION := 0.13.2
PROMETHEUS_VERSION := v0.316.0
ROUNDS ?= 1000
IMAGES ?= 20000
# Duration of the soak, and of each fuzz target.
MINUTES ?= 60
# Number of requests for each operation of the OpenAPI document; 3 in `make test`.
EXAMPLES ?= 300
# Factor for the rounds of the other random tests, relative to `make test`.
TIMES ?= 20
# Seed of the random tests in `make test`, so that runs are reproducible; `make fuzz-diff` draws its own.
SEED ?= 1
PYTHON := .venv/bin/python
# Runs in tests/, without byte code beside the sources.
PYTEST = cd tests && PYTHONDONTWRITEBYTECODE=1 ../.venv/bin/pytest
# tests/support/schedule.py decides the order. Tests wait for a third of their time: two workers leave two cores idle meanwhile.
WORKERS = -n $(1) --dist loadfile --no-loadscope-reorder
# The integration tests of `make test-fast`: those that take less than a second or two, of all crates.
QUICK_TESTS := answers cache callers calls cases conversion counters cross cross_empty filters fold late lines model named_measures \
	passes properties raw read remote_write resources retention round_trips scheduling write

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 12

build: page ## compile the page, gnudi and gnudi-benchmark (target/release)
	$(CARGO) build --release --locked
	scripts/split-debug-lines target/release/gnudi target/release/gnudi-benchmark

quick: page ## the same without link-time optimisation, which takes minutes per build: for `make run` and the long tests (target/quick)
	$(CARGO) build --profile quick --locked
	scripts/split-debug-lines target/quick/gnudi target/quick/gnudi-benchmark

# Together with the tests: dependencies of tests select other features, and would be compiled a second time.
development: page ## the same without optimisation, with debug assertions, and the unit tests: for `make test` (target/debug)
	$(CARGO) build --workspace --locked --bins --tests --examples
	scripts/split-debug-lines target/debug/gnudi target/debug/gnudi-benchmark

run: page ## compile gnudi (target/quick) and serve on 127.0.0.1:8041 with data in ./gnudi-data
	$(CARGO) build --profile quick --locked -p gnudi
	scripts/split-debug-lines target/quick/gnudi
	target/quick/gnudi serve

deb: build ## Debian packages of the release binary (target/deb)
	scripts/build-deb target/release/gnudi target/deb

docs: .docs-venv/installed ## docs/ as a site with a search: target/docs/index.html; broken links fail
	.docs-venv/bin/sphinx-build -q -W --keep-going -n -E -d target/docs-doctrees docs target/docs

.docs-venv/installed: docs/requirements.txt docs/constraints.txt
	# Without Debian's python3-venv a first try leaves a python, but no pip.
	test -x .docs-venv/bin/pip || python3 -m venv .docs-venv
	.docs-venv/bin/python -m pip install --quiet --disable-pip-version-check -r docs/requirements.txt -c docs/constraints.txt
	touch $@

# The page for browsers: crates/page embeds its dist/.
PAGE_SOURCES := $(shell find ui/src -type f) ui/index.html ui/icon.svg ui/build.mjs

page: crates/page/dist/index.html ## compile the page alone (crates/page/dist)

crates/page/dist/index.html: ui/node_modules/.installed $(PAGE_SOURCES)
	node ui/build.mjs

ui/node_modules/.installed: ui/package-lock.json ui/package.json
	@node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' 2>/dev/null && command -v npm >/dev/null || { echo "missing: node 18 or newer and npm" >&2; exit 1; }
	cd ui && npm ci --ignore-scripts --silent
	touch $@

# The quick checks come first.
check: target/tools/bin/cargo-deny page docs ## format, house rules, licences, types, lints, links of the documents
	$(CARGO) fmt --all -- --check
	scripts/check-house-rules
	target/tools/bin/cargo-deny --locked check licenses bans sources
	ui/node_modules/.bin/tsc --noEmit -p ui
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# scripts/run-tests runs two of Rust's test programs at a time. Both suites run to the end, so that one run shows all failures.
test: development .venv/installed .cloud-venv/installed .docs-venv/installed ## every test (installs its requirements, or lists what is missing)
	failed=0; CARGO=$(CARGO) scripts/run-tests --workspace --locked || failed=1; \
	($(PYTEST) $(call WORKERS,3) --seed $(SEED)) || failed=1; exit $$failed

test-fast: development .venv/installed .cloud-venv/installed .docs-venv/installed ## the quick tests that need no engine, with few random rounds: 90 seconds once compiled
	failed=0; CARGO=$(CARGO) scripts/run-tests --workspace --locked --lib --bins --examples $(QUICK_TESTS:%=--test %) || failed=1; \
	($(PYTEST) $(call WORKERS,2) -m "not long and not slow" --rounds 5 --seed $(SEED)) || failed=1; exit $$failed

# Load and many rounds need the speed of an optimised program.
long crash random power-cut soak openapi fuzz-diff: export GNUDI_BIN := $(CURDIR)/target/quick/gnudi

FUZZ_DIFF := $(patsubst %,differential/test_%.py,measures resources aggregates cross mutations)
LONG := long crash power-cut soak fuzz-diff random openapi fuzz

# Each runs to the end, so that one run shows all failures. pytest fails if it selects no test.
test-long: ## the tests that take hours, in sequence: all engines, kills, power cuts, soak, long random rounds, fuzz targets
	failed=""; for part in $(LONG); do $(MAKE) $$part || failed="$$failed $$part"; done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi

long: quick .venv/installed .cloud-venv/installed .docs-venv/installed target/tools/bin/prometheus ## the black-box tests marked `long`: all combinations of engines, failures under load (ARGS="-k s3")
	$(PYTEST) $(call WORKERS,2) -m long --seed $(SEED) $(ARGS)

crash: quick .venv/installed ## kill -9 under load, ROUNDS times (1000)
	$(PYTEST) crash/test_kill.py -s --rounds $(ROUNDS) --timeout 0

random: quick .venv/installed .cloud-venv/installed target/tools/bin/prometheus ## random tests of no other target, with TIMES (20) times the rounds of `make test` (ARGS="tables")
	$(if $(ARGS),,GNUDI_SIMULATION_SCHEDULES=$$((40000 * $(TIMES))) GNUDI_DAMAGE_SEEDS=$$((90 * $(TIMES))) \
	  $(CARGO) test --workspace --locked --test simulation --test damage)
	$(PYTEST) -m random $(addprefix --ignore ,crash openapi power_cut $(FUZZ_DIFF)) -s --times $(TIMES) --timeout 0 $(ARGS)

power-cut: quick .venv/installed ## IMAGES crash images (20,000) of the disk after a power cut at the server's system calls (ARGS="--seed 7")
	cd tests && PYTHONDONTWRITEBYTECODE=1 ../$(PYTHON) -m power_cut --images $(IMAGES) --requests 150 $(ARGS)

soak: quick .venv/installed ## MINUTES (60) of mixed load with restarts; memory, disk and handles must stay flat: target/soak/report.html (ARGS="--seed 7")
	cd tests && PYTHONDONTWRITEBYTECODE=1 ../$(PYTHON) -m soak --minutes $(MINUTES) $(ARGS)

# Uses the workspace's versions of shared dependencies.
fuzz: target/tools/bin/cargo-fuzz ## each fuzz target for MINUTES (60): target/fuzz/figures.md (TARGETS="points block")
	cp Cargo.lock fuzz/Cargo.lock
	PATH="$(CURDIR)/target/tools/bin:$$PATH" $(CARGO) +nightly fuzz build
	scripts/fuzz --minutes $(MINUTES) $(TARGETS)

openapi: quick .venv/installed ## EXAMPLES (300) generated requests for each operation of the OpenAPI document
	$(PYTEST) openapi -s --rounds $(EXAMPLES) --timeout 7200

fuzz-diff: quick .venv/installed ## compare ROUNDS random sequences (1000) of each kind with real Gnocchi
	$(CARGO) build --profile quick --locked -p gnudi-series --example cross
	$(PYTEST) $(FUZZ_DIFF) -s --rounds $(ROUNDS) --timeout 0

bench: build ## measure gnudi and its peers, as a page and as the figures of docs/ (ARGS="--only push" instead: these rows, as a page)
	crates/bench/install-peers
	target/release/gnudi-benchmark report $(or $(ARGS),--documents docs,README.md)

# Requirements of the black-box tests: system packages, then a virtual environment with pinned versions.
.venv/installed: tests/requirements.txt tests/constraints.txt scripts/install-test-deps
	scripts/install-test-deps
	test -x $(PYTHON) || python3 -m venv .venv
	$(PYTHON) -m pip install --quiet --disable-pip-version-check -r tests/requirements.txt -c tests/constraints.txt
	touch $@

# A real Keystone and a real Ceilometer, which conflict with the packages of .venv.
.cloud-venv/installed: tests/requirements-cloud.txt tests/constraints-cloud.txt scripts/install-test-deps
	scripts/install-test-deps
	test -x .cloud-venv/bin/python || python3 -m venv .cloud-venv
	.cloud-venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/requirements-cloud.txt -c tests/constraints-cloud.txt
	touch $@

target/tools/bin/cargo-deny:
	# Unoptimised: compiling it takes longer than running it.
	$(CARGO) install --locked --quiet --debug --root target/tools cargo-deny@$(CARGO_DENY_VERSION)

target/tools/bin/cargo-fuzz:
	rustup toolchain list | grep -q nightly || { echo "missing: a nightly toolchain: rustup toolchain install nightly" >&2; exit 1; }
	$(CARGO) install --locked --quiet --debug --root target/tools cargo-fuzz@$(CARGO_FUZZ_VERSION)

# The optional reference of tests/prometheus; compiling it takes four minutes on two cores.
target/tools/bin/prometheus:
	GOBIN=$(CURDIR)/target/tools/bin go install -tags remove_all_sd github.com/prometheus/prometheus/cmd/prometheus@$(PROMETHEUS_VERSION)
