# Tidemark. "make help" lists what there is.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
DATA ?= data
LISTEN ?= 127.0.0.1:9092
ADMIN ?= 127.0.0.1:9644
LINT := bin/golangci-lint

# The gate draws the same cases on every run: it fails for a change, not by chance.
# SEED=0 draws new ones; so does "go test" by hand, and "make soak" does nothing else.
SEED ?= 1
export RAPID_SEED := $(SEED)
export TESTKIT_SEED := $(SEED)
SOAK_CHECKS ?= 20000
SOAK_ROUNDS ?= 5

# Packages whose tests run with the race detector; tidy reads source only.
UNIT = $(shell $(GO) list ./... | grep -v -e '/test/' -e '/internal/tidy$$')
# Suites that start servers and peers as processes: every package right below test/.
SUITES := $(notdir $(patsubst %/,%,$(dir $(wildcard test/*/doc.go))))
# Modules of their own: clients that must not be in the broker's go.mod.
NESTED := bench/rabbitclient test/conformance/clients
# What "make test" runs, in this order.
STAGES := needs lint nested tidy unit fuzz crossbuild $(SUITES)

.PHONY: help
help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
	@for s in $(SUITES); do printf '  make %s\tthe suite in test/%s: real processes, peers, faults\n' $$s $$s; done | expand -t 24

.PHONY: build
build: ## build bin/tidemark, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/tidemark ./cmd/tidemark

.PHONY: run
run: build ## build and start a node of its own in ./data (DATA=, LISTEN=, ADMIN=)
	@echo "clients connect to $(LISTEN), metrics are on http://$(ADMIN)/metrics, data is in $(DATA); stop with Ctrl-C"
	@exec bin/tidemark server --data-dir $(DATA) --listen $(LISTEN) --admin $(ADMIN)

.PHONY: test
test: ## everything that CI runs, each stage although another failed; STAGES="lint unit" for some
	@MAKE="$(MAKE)" scripts/stages.sh $(STAGES)

.PHONY: test-quick
test-quick: vet tidy ## a few minutes: vet, house rules, unit tests without the race detector
	$(GO) test -short -timeout 10m $(UNIT)

.PHONY: needs
needs: ## install what the tests need beside Go, or say what is missing
	@scripts/needs.sh

.PHONY: lint
lint: $(LINT) ## golangci-lint, at the version in tools/go.mod
	$(LINT) run --allow-parallel-runners ./...

.PHONY: fmt
fmt: $(LINT) ## format all files and mend what the linters can mend
	$(LINT) fmt ./...
	$(LINT) run --fix ./...

$(LINT): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o ../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: vet
vet: nested ## go vet of all modules; lint runs it too, so "make test" does not
	$(GO) vet ./...

.PHONY: nested
nested: ## go vet of the nested modules, which lint does not see
	@for m in $(NESTED); do (cd $$m && $(GO) vet ./... && echo "ok   $$m"); done

.PHONY: tidy
tidy: ## house rules: layers, pure cores, sizes, docs, wording
	$(GO) test ./internal/tidy
	$(GO) mod tidy -diff
	$(GO) mod verify >/dev/null

.PHONY: unit
unit: build ## unit, property and crash tests with the race detector
	@TESTKIT_BIN=$(CURDIR)/bin/tidemark $(GO) test -race -timeout 20m $(UNIT)

.PHONY: soak
soak: build ## not in the gate: SOAK_CHECKS (20000) new cases of each property, SOAK_ROUNDS (5) of the faults suite
	SOAK_CHECKS=$(SOAK_CHECKS) SOAK_ROUNDS=$(SOAK_ROUNDS) TESTKIT_BIN=$(CURDIR)/bin/tidemark scripts/soak.sh

.PHONY: fuzz
fuzz: ## every fuzz target, FUZZ_TIME (20s) each, FUZZ_JOBS (2) at once
	scripts/fuzz.sh

.PHONY: fuzz-corpus
fuzz-corpus: ## put a small corpus of what fuzzing found into testdata/fuzz
	scripts/fuzz-corpus.sh

.PHONY: crossbuild
crossbuild: ## compile for platforms that the tests do not run on
	scripts/crossbuild.sh

.PHONY: $(SUITES)
$(SUITES): build # "make help" lists them
	TESTKIT_BIN=$(CURDIR)/bin/tidemark $(GO) test -count=1 -timeout 15m ./test/$@

.PHONY: bench
bench: build ## speed and memory beside Apache Kafka and RabbitMQ, an hour (BENCH_FLAGS=)
	$(GO) run ./bench/cmd/bench $(BENCH_FLAGS)

.PHONY: bench-publish
bench-publish: build ## "make bench" into bench/results/published.*, and from there into the README
	$(GO) run ./bench/cmd/bench -name published $(BENCH_FLAGS); s=$$?; $(GO) run ./bench/cmd/bench readme bench/results/published.json && exit $$s

.PHONY: bench-quick
bench-quick: build ## the same in eight minutes, fewer cases and rounds
	$(GO) run ./bench/cmd/bench -quick $(BENCH_FLAGS)

.PHONY: bench-micro
bench-micro: ## the hot path in micro-benchmarks, compared with bench/results/micro-baseline.txt
	GO=$(GO) scripts/bench-micro.sh

.PHONY: docs
docs: ## write the generated documentation again
	$(GO) test ./internal/apis ./internal/config ./internal/telemetry -run '^TestDocs$$' -update
	$(GO) test ./internal/recordschema -run '^TestFormatDocs$$' -update

.PHONY: vuln
vuln: ## known vulnerabilities (asks vuln.go.dev)
	$(GO) tool -modfile=tools/go.mod govulncheck ./...

.PHONY: clean
clean: ## remove what was built; data stays
	rm -rf bin
	$(GO) clean -testcache -fuzzcache
