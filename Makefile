# Fifty. "make help" lists what there is.

SHELL := /bin/bash
GO ?= go

# More flags for go test, such as TESTFLAGS='-v -run Replay'.
TESTFLAGS ?=
# How long make fuzz stays with each target.
FUZZTIME ?= 20s
# Which soaks make soak runs: idempotency, inventory, wire-cuts. All when empty.
SOAK ?=
# What make bench runs.
BENCH ?= --list

.DEFAULT_GOAL := help
.PHONY: help run build check test race soak model lint fmt fuzz cover bench clean

help: ## list these commands
	@echo "Fifty: make COMMAND"
	@sed -nE 's/^([a-z]+):.*## (.*)/  \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12

run: build ## start the gateway with a payments sandbox behind it, on a SQLite file
	@exec bin/fifty serve

build: ## build bin/fifty
	@echo "build: bin/fifty (a first build takes a minute or two)"
	@$(GO) build -o bin/fifty ./cmd/fifty

check: ## test without servers: memory and SQLite, some three minutes
	@scripts/check.sh $(TESTFLAGS)

test: ## test everything; installs Postgres where it is missing and can be
	@scripts/needs.sh
	$(GO) test -timeout 20m $(TESTFLAGS) ./...

race: ## test everything with the race detector (needs a C compiler)
	@scripts/needs.sh
	CGO_ENABLED=1 $(GO) test -race -timeout 25m $(TESTFLAGS) ./...

soak: ## run all rounds of each soak (make test runs three), and keep what they print in docs/proof
	@scripts/needs.sh
	@scripts/soak.sh $(SOAK) $(TESTFLAGS)

model: ## check the model of a key's record with spin (docs/model)
	@docs/model/check.sh

lint: ## the linters: floors, errors, lengths, formatting, a tidy go.mod
	@echo "lint: go mod tidy -diff"
	@$(GO) mod tidy -diff || { echo "lint: go.mod or go.sum is not tidy: run go mod tidy" >&2; exit 1; }
	@tool="$$(scripts/tool.sh golangci-lint)" && \
	scripts/lint_test.sh "$$tool" && \
	echo "lint: golangci-lint run ./..." && \
	"$$tool" run ./... && \
	echo "lint: golangci-lint run ./... (bench)" && \
	(cd bench && $(GO) mod tidy -diff >/dev/null || { echo "lint: bench/go.mod is not tidy: run go mod tidy in bench" >&2; exit 1; }; \
	"$$tool" run --config ../.golangci.yml ./...)

fmt: ## format as the linters want it
	@"$$(scripts/tool.sh golangci-lint)" fmt ./...

fuzz: ## run each fuzz target for FUZZTIME (20s)
	@scripts/fuzz.sh $(FUZZTIME)

cover: ## test everything and show how much of the code the tests reach
	@scripts/needs.sh
	$(GO) test -timeout 15m -coverpkg=./... -coverprofile=cover.out $(TESTFLAGS) ./...
	@$(GO) tool cover -func=cover.out | tail -n 1
	@echo "cover: go tool cover -html=cover.out shows where"

bench: ## run the benchmarks that BENCH names (--list)
	@cd bench && $(GO) run . $(BENCH)

clean: ## remove what was built here (tools in .cache stay)
	rm -rf bin cover.out
